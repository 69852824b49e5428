//! `after-all`, `add-dependency`, `opt-barrier`, `domain`, `replica-id`, `copy-start` and
//! `copy-done`: order and annotation, no arithmetic.

use super::common::*;
use crate::module::{HloOpcode, InstructionRef};
use crate::types::{PrimitiveType, Shape};
use crate::verify::inferred::InferredShape;

/// That operand `k` is a token.
pub fn token(i: InstructionRef<'_>, k: usize) -> Result<(), String> {
    match i.operand(k).map(InstructionRef::shape) {
        Some(Shape::Token) => Ok(()),
        _ => Err(format!("{}, expected token[]", describe(i, k))),
    }
}

/// The family of order.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    match i.opcode() {
        // It may wait for values of any shape.
        HloOpcode::AfterAll => Ok(InferredShape::Token),
        HloOpcode::AddDependency => {
            token(i, 1)?;
            same_as_operand(i, 0)
        }
        _ => same_as_operand(i, 0),
    }
}

/// `replica-id`, `partition-id`.
pub fn device_id(_: InstructionRef<'_>) -> Infer {
    Ok(InferredShape::array(PrimitiveType::U32, &[]))
}

/// `copy-start`: destination, source, context. `copy-done`: the destination.
pub fn async_copy(i: InstructionRef<'_>) -> Infer {
    if i.opcode() == HloOpcode::CopyStart {
        let copied = operand_shape(i, 0)?;
        return Ok(InferredShape::Tuple(vec![
            InferredShape::Same(copied),
            InferredShape::Same(copied),
            InferredShape::array(PrimitiveType::U32, &[]),
        ]));
    }
    element(i, 0, 0)
}

/// Element `index` of the tuple that is operand `k`.
pub fn element(i: InstructionRef<'_>, k: usize, index: usize) -> Infer {
    match i
        .operand(k)
        .and_then(|operand| operand.shape().as_tuple())
        .and_then(|parts| parts.get(index))
    {
        Some(&part) => Ok(InferredShape::Same(part)),
        None => Err(format!(
            "{}, expected a tuple of at least {} elements",
            describe(i, k),
            index + 1
        )),
    }
}

/// A `copy-done` ends a `copy-start`.
pub fn check_copy_pair(i: InstructionRef<'_>) -> Result<(), String> {
    match i.operand(0) {
        Some(operand)
            if i.opcode() == HloOpcode::CopyDone && operand.opcode() != HloOpcode::CopyStart =>
        {
            Err(format!(
                "operand 0 %{} is {}, expected a copy-start",
                operand.name(),
                operand.opcode_name()
            ))
        }
        _ => Ok(()),
    }
}
