//! `tuple-select` as a `select` of each element.
//!
//! In: a flattened module. Out: the same, without `tuple-select` of tuples of arrays. One whose
//! elements are tuples themselves stays, and the lowering refuses it by name.

use rustc_hash::FxHashMap;

use super::rewrite::Builder;
use crate::module::{ComputationId, HloModule, HloOpcode, InstructionId};

/// Rewrites every computation.
pub fn run(module: &mut HloModule) {
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let instructions = &module.computation(computation).instructions;
        let opcode = |id: &InstructionId| module.instruction_data(*id).opcode;
        if instructions
            .iter()
            .any(|id| opcode(id) == HloOpcode::TupleSelect)
        {
            rewrite(module, computation);
        }
    }
}

fn rewrite(module: &mut HloModule, computation: ComputationId) {
    let old = std::mem::take(&mut module.computation_mut(computation).instructions);
    let mut replaced: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
    for id in old {
        for k in 0..module.operand_ids(id).len() {
            if let Some(&new) = replaced.get(&module.operand_ids(id)[k]) {
                module.operand_ids_mut(id)[k] = new;
            }
        }
        match element_count(module, id) {
            Some(count) => {
                let selected = select(module, computation, id, count);
                replaced.insert(id, selected);
            }
            None => module.computation_mut(computation).instructions.push(id),
        }
    }
    if let Some(root) = module.computation(computation).root
        && let Some(&new) = replaced.get(&root)
    {
        module.computation_mut(computation).root = Some(new);
    }
}

/// Number of elements of a `tuple-select` of arrays.
fn element_count(module: &HloModule, id: InstructionId) -> Option<usize> {
    let instruction = module.instruction(id);
    let parts = instruction.shape().as_tuple()?;
    let are_arrays = parts
        .iter()
        .all(|&part| module.shapes().get(part).as_array().is_some());
    (instruction.opcode() == HloOpcode::TupleSelect
        && instruction.operand_ids().len() == 3
        && are_arrays)
        .then_some(parts.len())
}

fn select(
    module: &mut HloModule,
    computation: ComputationId,
    id: InstructionId,
    count: usize,
) -> InstructionId {
    let operands = module.operand_ids(id).to_vec();
    let mut b = Builder {
        module,
        computation,
        like: id,
    };
    let elements: Vec<InstructionId> = (0..count)
        .map(|k| {
            let on_true = b.get_tuple_element(operands[1], k);
            let on_false = b.get_tuple_element(operands[2], k);
            let dims = b.shape(on_true).dims;
            let predicate = b.broadcast(operands[0], &dims);
            b.elementwise(HloOpcode::Select, &[predicate, on_true, on_false])
        })
        .collect();
    b.tuple(&elements)
}
