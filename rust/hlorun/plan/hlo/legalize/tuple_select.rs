//! `tuple-select` as a `select` of each element.
//!
//! In: a flattened module. Out: the same, without `tuple-select` of arrays, in tuples of any depth. One
//! of other values stays, and the lowering refuses it by name.

use crate::error::{HloError, Result};
use crate::module::{HloModule, HloOpcode, InstructionId, InstructionRef};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::legalize::replace;
use crate::plan::hlo::pass::PassContext;
use crate::types::Shape;

/// Rewrites every computation.
pub fn run(module: &mut HloModule, cx: &mut PassContext<'_>) -> Result<usize> {
    replace::each(module, cx, is_plain, |b, id| {
        match *b.module.operand_ids(id) {
            [predicate, on_true, on_false] => Ok(select(b, predicate, on_true, on_false)),
            _ => Err(HloError::execution("a tuple-select of other operands")),
        }
    })
}

/// Deepest nesting that is written out, and most arrays.
const MAX_DEPTH: usize = 64;
const MAX_ARRAYS: usize = 1 << 16;

/// Whether it is a `tuple-select` of arrays (and tokens), in tuples or not.
fn is_plain(instruction: InstructionRef<'_>) -> bool {
    let shapes = instruction.module.shapes();
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
