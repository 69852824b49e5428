//! What a pass leaves behind is cleared away.
//!
//! In: a module that a pass changed. Out: the same without instructions whose value nobody reads,
//! without computations that nothing runs any more (those of fusions and calls, of loops that are
//! gone), and without control dependencies on instructions that are gone. What such computations
//! call would otherwise seem to have a second caller.

use crate::module::{
    AttrKey, AttrValue, ComputationId, Effects, HloModule, IdMap, InstructionId, InstructionRef,
};
use crate::plan::hlo::inline;

/// Clears away what nothing reads or runs.
pub fn run(module: &mut HloModule) {
    forget_dead(module);
    forget_unreachable(module);
    forget_predecessors(module);
}

/// Clears away what nothing runs; values that nobody reads stay.
pub fn keep_values(module: &mut HloModule) {
    forget_unreachable(module);
    forget_predecessors(module);
}

/// As [`inline::remove_dead`], in all computations.
fn forget_dead(module: &mut HloModule) {
    let mut is_live = IdMap::new(module.instruction_count(), false);
    let mut effects = Effects::default();
    for computation in module.computation_ids() {
        let Some(root) = module.computation(computation).root else {
            continue;
        };
        is_live[root] = true;
        let mut instructions =
            std::mem::take(&mut module.computation_mut(computation).instructions);
        for &id in instructions.iter().rev() {
            if is_live[id] || inline::must_stay(module, id, &mut effects) {
                is_live[id] = true;
                for &operand in module.operand_ids(id) {
                    is_live[operand] = true;
                }
            }
        }
        instructions.retain(|&id| is_live[id]);
        module.computation_mut(computation).instructions = instructions;
    }
}

fn forget_unreachable(module: &mut HloModule) {
    let mut is_reached = IdMap::new(module.computation_count(), false);
    let mut open: Vec<ComputationId> = module.entry.into_iter().collect();
    while let Some(id) = open.pop() {
        if std::mem::replace(&mut is_reached[id], true) {
            continue;
        }
        for &instruction in &module.computation(id).instructions {
            open.extend(module.instruction(instruction).called_computations());
        }
    }
    for id in module.computation_ids() {
        if !is_reached[id] {
            module.computation_mut(id).instructions.clear();
        }
    }
}

fn forget_predecessors(module: &mut HloModule) {
    let has_any = |id: &InstructionId| predecessors(module.instruction(*id)).is_some();
    let waiting: Vec<InstructionId> = module
        .computation_ids()
        .flat_map(|id| module.computation(id).instructions.iter().copied())
        .filter(has_any)
        .collect();
    if waiting.is_empty() {
        return;
    }
    let mut is_there = IdMap::new(module.instruction_count(), false);
    for computation in module.computation_ids() {
        for &id in &module.computation(computation).instructions {
            is_there[id] = true;
        }
    }
    for id in waiting {
        let Some(all) = predecessors(module.instruction(id)) else {
            continue;
        };
        let kept: Box<[InstructionId]> = all.iter().copied().filter(|&id| is_there[id]).collect();
        if kept.len() < all.len() {
            let value = AttrValue::Instructions(kept);
            module.set_attribute(id, AttrKey::ControlPredecessors, value);
        }
    }
}

/// What an instruction waits for without reading it.
fn predecessors(instruction: InstructionRef<'_>) -> Option<&[InstructionId]> {
    match instruction.attribute(AttrKey::ControlPredecessors) {
        Some(AttrValue::Instructions(ids)) if !ids.is_empty() => Some(ids),
        _ => None,
    }
}
