//! Orders of instructions and computations in which every use comes after its definition.

use super::hlo_module::HloModule;
use super::ids::{ComputationId, Id, IdMap, InstructionId};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    Open,
    Done,
}

/// The instructions of `computation` such that operands come before users, visiting roots in the
/// order of the text and operands left to right. `Err` names an instruction on a cycle.
///
/// Control predecessors count as operands where they are instructions of the computation; a rewrite
/// may have dropped them.
pub fn instruction_post_order(
    module: &HloModule,
    computation: ComputationId,
) -> Result<Vec<InstructionId>, InstructionId> {
    use super::attributes::{AttrKey, AttrValue};
    let instructions = &module.computation(computation).instructions;
    let mut marks: foldhash::HashMap<InstructionId, Mark> = foldhash::HashMap::default();
    marks.extend(instructions.iter().map(|&id| (id, Mark::New)));
    let mut order = Vec::with_capacity(instructions.len());
    let mut stack: Vec<(InstructionId, usize)> = Vec::new();
    for &start in instructions {
        if marks.get(&start).is_some_and(|&m| m == Mark::Done) {
            continue;
        }
        stack.push((start, 0));
        marks.insert(start, Mark::Open);
        while let Some((id, next)) = stack.last_mut() {
            let instruction = module.instruction(*id);
            let operands = instruction.operand_ids();
            let dependency = if *next < operands.len() {
                Some(operands[*next])
            } else {
                match instruction.attribute(AttrKey::ControlPredecessors) {
                    Some(AttrValue::Instructions(ids)) => ids.get(*next - operands.len()).copied(),
                    _ => None,
                }
            };
            let is_foreign =
                |id: InstructionId| *next >= operands.len() && !marks.contains_key(&id);
            if dependency.is_some_and(is_foreign) {
                *next += 1;
                continue;
            }
            match dependency {
                Some(dependency) => {
                    *next += 1;
                    match marks.get(&dependency).copied().unwrap_or(Mark::New) {
                        Mark::New => {
                            marks.insert(dependency, Mark::Open);
                            stack.push((dependency, 0));
                        }
                        Mark::Open => return Err(dependency),
                        Mark::Done => {}
                    }
                }
                None => {
                    marks.insert(*id, Mark::Done);
                    order.push(*id);
                    stack.pop();
                }
            }
        }
    }
    Ok(order)
}

/// Computations such that callees come before callers. `Err` names a computation on a cycle of calls.
pub fn computation_post_order(module: &HloModule) -> Result<Vec<ComputationId>, ComputationId> {
    let count = module.computation_count();
    let mut callees: IdMap<ComputationId, Vec<ComputationId>> = IdMap::new(count, Vec::new());
    for id in module.computation_ids() {
        let mut called: Vec<ComputationId> = module
            .computation(id)
            .instructions
            .iter()
            .flat_map(|&i| module.instruction(i).called_computations())
            .collect();
        called.dedup();
        callees[id] = called;
    }
    let mut marks: IdMap<ComputationId, Mark> = IdMap::new(count, Mark::New);
    let mut order = Vec::with_capacity(count);
    let mut stack: Vec<(ComputationId, usize)> = Vec::new();
    for start in (0..count).map(ComputationId::from_index) {
        if marks[start] == Mark::Done {
            continue;
        }
        marks[start] = Mark::Open;
        stack.push((start, 0));
        while let Some((id, next)) = stack.last_mut() {
            match callees[*id].get(*next).copied() {
                Some(callee) => {
                    *next += 1;
                    match marks[callee] {
                        Mark::New => {
                            marks[callee] = Mark::Open;
                            stack.push((callee, 0));
                        }
                        Mark::Open => return Err(callee),
                        Mark::Done => {}
                    }
                }
                None => {
                    marks[*id] = Mark::Done;
                    order.push(*id);
                    stack.pop();
                }
            }
        }
    }
    Ok(order)
}
