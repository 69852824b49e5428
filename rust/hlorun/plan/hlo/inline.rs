//! Flattens calls: fusions, calls and async wrappers are replaced by the bodies of their
//! computations, and tuples that are taken apart again disappear.
//!
//! In: a verified module. Out: a module whose entry, loop bodies, branches and reducers contain no
//! `fusion`, `call`, `async-*`, `opt-barrier`, `domain` or `add-dependency`. Instructions keep the
//! names and places of the text, so that errors and observers speak of what the user wrote.

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::error::{HloError, Result};
use crate::module::post_order::computation_post_order;
use crate::module::{
    AttrKey, AttrValue, ComputationId, Effects, HloModule, HloOpcode, IdMap, InstructionId,
    NewInstruction,
};
use crate::plan::limits::MAX_NESTING;

/// Most instructions a flattened module may have beyond [`MAX_GROWTH`] times those of the text:
/// computations that call each other twice, level upon level, double each time.
const MAX_ADDED: usize = 1 << 20;
/// See [`MAX_ADDED`].
const MAX_GROWTH: usize = 16;

/// Replaces calls by the called bodies, callees first. Returns each call of a computation that runs,
/// with the instruction that now has its value; `keep` lets those live although only their parts are
/// read.
pub fn inline(module: &mut HloModule, keep: bool) -> Result<Vec<(InstructionId, InstructionId)>> {
    let mut calls = Vec::new();
    let order = computation_post_order(module).map_err(|id| {
        HloError::execution(format!(
            "computation {} calls itself",
            module.str(module.computation(id).name)
        ))
    })?;
    let live = reachable(module);
    let most = module.instruction_count().saturating_mul(MAX_GROWTH) + MAX_ADDED;
    let mut nesting: IdMap<ComputationId, u32> = IdMap::new(module.computation_count(), 0);
    for id in order {
        if live[id] {
            inline_computation(module, id, &mut calls, keep, most)?;
            nesting[id] = nesting_of(module, id, &nesting)?;
        }
    }
    Ok(calls)
}

/// How deep loops and branches nest in a flattened computation, from that of those it calls.
fn nesting_of(
    module: &HloModule,
    id: ComputationId,
    callees: &IdMap<ComputationId, u32>,
) -> Result<u32> {
    let computation = module.computation(id);
    let mut deepest = 0;
    for &instruction in &computation.instructions {
        let opcode = module.instruction_data(instruction).opcode;
        if !matches!(opcode, HloOpcode::While | HloOpcode::Conditional) {
            continue;
        }
        for callee in module.instruction(instruction).called_computations() {
            deepest = deepest.max(callees[callee] + 1);
        }
    }
    if deepest > MAX_NESTING {
        return Err(HloError::unsupported(
            format!("control flow nests deeper than {MAX_NESTING}"),
            module.str(computation.name),
        ));
    }
    Ok(deepest)
}

fn reachable(module: &HloModule) -> IdMap<ComputationId, bool> {
    let mut live = IdMap::new(module.computation_count(), false);
    let mut work: Vec<ComputationId> = module.entry.into_iter().collect();
    while let Some(id) = work.pop() {
        if std::mem::replace(&mut live[id], true) {
            continue;
        }
        for &instruction in &module.computation(id).instructions {
            work.extend(module.instruction(instruction).called_computations());
        }
    }
    live
}

/// The computation whose body stands for the instruction, if it is a call.
fn callee(module: &HloModule, id: InstructionId) -> Option<ComputationId> {
    let instruction = module.instruction(id);
    match instruction.opcode() {
        HloOpcode::Fusion | HloOpcode::AsyncStart => {
            instruction.computation_attribute(AttrKey::Calls)
        }
        HloOpcode::Call => instruction.computation_attribute(AttrKey::ToApply),
        _ => None,
    }
}

fn inline_computation(
    module: &mut HloModule,
    computation: ComputationId,
    calls: &mut Vec<(InstructionId, InstructionId)>,
    keep: bool,
    most: usize,
) -> Result<()> {
    let first = calls.len();
    let old = std::mem::take(&mut module.computation_mut(computation).instructions);
    let mut replaced: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
    let mut operands: Vec<InstructionId> = Vec::new();
    let uses = uses_of_starts(module, computation, &old);
    for id in old {
        operands.clear();
        for &operand in module.operand_ids(id) {
            operands.push(replaced.get(&operand).copied().unwrap_or(operand));
        }
        if let Some(callee) = callee(module, id) {
            let added = module.computation(callee).instructions.len();
            if module.instruction_count() + added > most {
                return Err(HloError::unsupported(
                    format!(
                        "calls expand to more than {most} instructions; calls are compiled in their \
                         caller's place"
                    ),
                    module.str(module.computation(callee).name),
                ));
            }
            let root = clone_body(module, callee, computation, &operands)?;
            replaced.insert(id, root);
            calls.push((id, root));
            continue;
        }
        if let Some(same) = same_as(module, id, &operands, &uses) {
            replaced.insert(id, same);
            continue;
        }
        module.operand_ids_mut(id).copy_from_slice(&operands);
        for attribute in module.attributes_of_mut(id) {
            if let AttrValue::Instructions(ids) = &mut attribute.value {
                for id in ids {
                    *id = replaced.get(id).copied().unwrap_or(*id);
                }
            }
        }
        module.computation_mut(computation).instructions.push(id);
    }
    let root = module.computation(computation).root;
    if let Some(root) = root {
        let root = replaced.get(&root).copied().unwrap_or(root);
        module.computation_mut(computation).root = Some(root);
    }
    let kept = if keep { &calls[first..] } else { &[] };
    let kept: Vec<InstructionId> = kept.iter().map(|call| call.1).collect();
    remove_unused(module, computation, &kept);
    Ok(())
}

/// The operand, or the element of a tuple operand, whose value the instruction has; `uses` counts reads of each start.
fn same_as(
    module: &HloModule,
    id: InstructionId,
    operands: &[InstructionId],
    uses: &FxHashMap<InstructionId, u32>,
) -> Option<InstructionId> {
    let &first = operands.first()?;
    let data = module.instruction_data(id);
    match data.opcode {
        HloOpcode::GetTupleElement if module.instruction_data(first).opcode == HloOpcode::Tuple => {
            let elements = module.operand_ids(first);
            elements.get(data.immediate as usize).copied()
        }
        HloOpcode::OptimizationBarrier
        | HloOpcode::Domain
        | HloOpcode::AddDependency
        | HloOpcode::AsyncUpdate
        | HloOpcode::AsyncDone
        | HloOpcode::CopyStart
        | HloOpcode::CopyDone => Some(first),
        // A start that something else reads has to be finished where it stands.
        HloOpcode::AllReduceDone | HloOpcode::AllGatherDone | HloOpcode::CollectivePermuteDone => {
            let is_read_elsewhere = uses.get(&first).is_none_or(|&count| count > 1);
            is_read_elsewhere.then_some(first)
        }
        _ => None,
    }
}

/// How often the value of each collective's start is read.
fn uses_of_starts(
    module: &HloModule,
    computation: ComputationId,
    instructions: &[InstructionId],
) -> FxHashMap<InstructionId, u32> {
    let mut uses = FxHashMap::default();
    for &id in instructions {
        if is_collective_start(module.instruction_data(id).opcode) {
            uses.insert(id, 0);
        }
    }
    if uses.is_empty() {
        return uses;
    }
    let root = module.computation(computation).root;
    let operands = instructions.iter().flat_map(|&id| module.operand_ids(id));
    for read in operands.chain(root.as_ref()) {
        if let Some(count) = uses.get_mut(read) {
            *count += 1;
        }
    }
    uses
}

fn is_collective_start(opcode: HloOpcode) -> bool {
    matches!(
        opcode,
        HloOpcode::AllReduceStart | HloOpcode::AllGatherStart | HloOpcode::CollectivePermuteStart
    )
}

/// Appends the body of `callee` to `into`, parameters replaced by `arguments`; returns its root.
pub fn clone_body(
    module: &mut HloModule,
    callee: ComputationId,
    into: ComputationId,
    arguments: &[InstructionId],
) -> Result<InstructionId> {
    let body = module.computation(callee).instructions.clone();
    let mut map: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
    let mut operands: Vec<InstructionId> = Vec::new();
    for id in body {
        let data = module.instruction_data(id).clone();
        if data.opcode == HloOpcode::Parameter {
            let argument = arguments.get(data.immediate as usize).ok_or_else(|| {
                HloError::execution(format!(
                    "call of {} lacks argument {}",
                    module.str(module.computation(callee).name),
                    data.immediate
                ))
            })?;
            map.insert(id, *argument);
            continue;
        }
        operands.clear();
        for operand in module.operand_ids(id) {
            operands.push(map.get(operand).copied().unwrap_or(*operand));
        }
        if data.opcode == HloOpcode::GetTupleElement
            && let Some(&tuple) = operands.first()
            && module.instruction_data(tuple).opcode == HloOpcode::Tuple
            && let Some(&element) = module.operand_ids(tuple).get(data.immediate as usize)
        {
            map.insert(id, element);
            continue;
        }
        let mut attributes = module.attributes_of(id).to_vec();
        for attribute in &mut attributes {
            if let AttrValue::Instructions(ids) = &mut attribute.value {
                *ids = ids.iter().filter_map(|id| map.get(id).copied()).collect();
            }
        }
        let new = NewInstruction::like(&data, &operands, &attributes);
        map.insert(id, module.add_instruction(into, new));
    }
    module
        .computation(callee)
        .root
        .and_then(|root| map.get(&root).copied())
        .ok_or_else(|| HloError::execution("a called computation has no root"))
}

/// Drops instructions whose value nobody reads; parameters and side effects stay.
pub fn remove_dead(module: &mut HloModule, computation: ComputationId) {
    remove_unused(module, computation, &[]);
}

/// Whether an instruction stays although nobody reads it: parameters and side effects.
pub fn must_stay(module: &HloModule, id: InstructionId, effects: &mut Effects) -> bool {
    module.instruction_data(id).opcode == HloOpcode::Parameter || effects.of(module, id).must_run()
}

fn remove_unused(module: &mut HloModule, computation: ComputationId, kept: &[InstructionId]) {
    let Some(root) = module.computation(computation).root else {
        return;
    };
    let instructions = std::mem::take(&mut module.computation_mut(computation).instructions);
    // Not a mark for every instruction of the module: there may be as many computations.
    let mut live =
        FxHashSet::with_capacity_and_hasher(instructions.len() + kept.len(), FxBuildHasher);
    live.extend(kept.iter().copied().chain([root]));
    let mut effects = Effects::default();
    for &id in instructions.iter().rev() {
        if live.contains(&id) || must_stay(module, id, &mut effects) {
            live.insert(id);
            live.extend(module.operand_ids(id));
        }
    }
    module.computation_mut(computation).instructions = instructions
        .into_iter()
        .filter(|id| live.contains(id))
        .collect();
}
