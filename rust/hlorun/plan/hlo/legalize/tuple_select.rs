//! `tuple-select` as a `select` of each element.
//!
//! In: a flattened module. Out: the same, without `tuple-select` of arrays, in tuples of any depth. One
//! of other values stays, and the lowering refuses it by name.

use rustc_hash::FxHashMap;

use crate::module::{ComputationId, HloModule, HloOpcode, InstructionId};
use crate::plan::hlo::builder::Builder;
use crate::types::Shape;

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
        match module.operand_ids(id) {
            &[predicate, on_true, on_false] if is_plain(module, id) => {
                let mut builder = Builder {
                    module,
                    computation,
                    like: id,
                };
                let selected = select(&mut builder, predicate, on_true, on_false);
                replaced.insert(id, selected);
            }
            _ => module.computation_mut(computation).instructions.push(id),
        }
    }
    if let Some(root) = module.computation(computation).root
        && let Some(&new) = replaced.get(&root)
    {
        module.computation_mut(computation).root = Some(new);
    }
}

/// Deepest nesting that is written out, and most arrays.
const MAX_DEPTH: usize = 64;
const MAX_ARRAYS: usize = 1 << 16;

/// Whether it is a `tuple-select` of arrays (and tokens), in tuples or not.
fn is_plain(module: &HloModule, id: InstructionId) -> bool {
    let instruction = module.instruction(id);
    let shapes = module.shapes();
    let shape = instruction.shape_id();
    let is_value = |leaf: &Shape| leaf.as_array().is_some() || matches!(leaf, Shape::Token);
    instruction.opcode() == HloOpcode::TupleSelect
        && instruction.operand_ids().len() == 3
        && !shapes.is_deeper_than(shape, MAX_DEPTH)
        && shapes
            .leaves(shape, MAX_ARRAYS)
            .is_some_and(|leaves| leaves.iter().all(|leaf| is_value(shapes.get(leaf.1))))
}

/// `on_true` or `on_false`, which have one shape. Recursion is bounded by [`MAX_DEPTH`].
fn select(
    b: &mut Builder<'_>,
    predicate: InstructionId,
    on_true: InstructionId,
    on_false: InstructionId,
) -> InstructionId {
    match b.module.instruction(on_true).shape() {
        Shape::Tuple(parts) => {
            let elements: Vec<InstructionId> = (0..parts.len())
                .map(|k| {
                    let on_true = b.get_tuple_element(on_true, k);
                    let on_false = b.get_tuple_element(on_false, k);
                    select(b, predicate, on_true, on_false)
                })
                .collect();
            b.tuple(&elements)
        }
        Shape::Array(_) => {
            let dims = b.shape(on_true).dims;
            let predicate = b.broadcast(predicate, &dims);
            b.elementwise(HloOpcode::Select, &[predicate, on_true, on_false])
        }
        // Tokens order nothing here.
        _ => on_true,
    }
}
