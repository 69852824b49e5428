//! `transfer-order`: sends go before what waits.

use crate::module::{
    ComputationId, Effect, Effects, HloModule, HloOpcode, Id, InstructionId, InstructionRef,
    OpClass,
};
use crate::plan::limits::MAX_NESTING;

/// Puts what does not wait before what does: of instructions that do not depend on each other, those
/// behind fewer `recv-done` come first. A device that waits has then sent all it could, so that
/// devices wait for each other only where the program leaves no other order. What the world outside
/// notices keeps its order. Returns how many computations it changed.
pub fn run(module: &mut HloModule) -> usize {
    let ids: Vec<ComputationId> = module.computation_ids().collect();
    // Called computations come before their callers in no certain order: repeat until nothing is new.
    let mut waits = vec![false; ids.len()];
    for _ in 0..=MAX_NESTING {
        let mut changed = false;
        for (at, &computation) in ids.iter().enumerate() {
            let found = module
                .computation(computation)
                .instructions
                .iter()
                .any(|&id| {
                    let instruction = module.instruction(id);
                    is_waiting(instruction, &waits)
                });
            changed |= found && !waits[at];
            waits[at] |= found;
        }
        if !changed {
            break;
        }
    }
    let mut effects = Effects::default();
    let mut changed = 0;
    for (at, &computation) in ids.iter().enumerate() {
        if !waits[at] {
            continue;
        }
        let mut behind = rustc_hash::FxHashMap::default();
        let mut last_outside: Option<InstructionId> = None;
        let instructions = module.computation(computation).instructions.clone();
        for &id in &instructions {
            let instruction = module.instruction(id);
            let operands = instruction.operand_ids().iter().copied();
            let is_outside = effects.of(module, id) == Effect::Outside;
            let before = operands
                .chain(instruction.control_predecessors().iter().copied())
                .chain(last_outside.filter(|_| is_outside));
            let most = before.filter_map(|id| behind.get(&id).copied()).max();
            let waits = u32::from(is_waiting(instruction, &waits));
            behind.insert(id, most.unwrap_or(0u32) + waits);
            if is_outside {
                last_outside = Some(id);
            }
        }
        let mut ordered = instructions.clone();
        ordered.sort_by_key(|id| behind.get(id).copied());
        changed += usize::from(ordered != instructions);
        module.computation_mut(computation).instructions = ordered;
    }
    changed
}

/// Whether a device may wait in it for another's `send`; `waits` says it of computations.
fn is_waiting(instruction: InstructionRef<'_>, waits: &[bool]) -> bool {
    instruction.opcode() == HloOpcode::RecvDone
        || (instruction.opcode().class() == OpClass::ControlFlow
            && instruction
                .called_computations()
                .iter()
                .any(|called| waits[called.index()]))
}
