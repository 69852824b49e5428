//! `bitcast-convert` between element types of different widths: the last dimension comes or goes.

use super::index_map::array_operand;
use crate::error::Result;
use crate::module::InstructionRef;
use crate::plan::error::unsupported;

/// Parameters of a `bitcast-convert`.
#[derive(Clone, Copy, Debug)]
pub struct BitcastConvertOp;

/// Checks that both sides hold the same bits.
pub fn plan(instruction: InstructionRef<'_>) -> Result<BitcastConvertOp> {
    let from = array_operand(instruction, 0)?;
    let to = instruction
        .array_shape()
        .ok_or_else(|| unsupported(instruction, "bitcast-convert to a tuple".into()))?;
    let bits = |shape: &crate::types::ArrayShape| {
        i128::from(shape.element_count().unwrap_or(-1)) * i128::from(width(shape.element_type))
    };
    if bits(from) != bits(to) || bits(from) < 0 {
        return Err(unsupported(
            instruction,
            format!(
                "bitcast-convert of {} to {} of another size",
                from.element_type.name(),
                to.element_type.name()
            ),
        ));
    }
    Ok(BitcastConvertOp)
}

/// Bits of an element; a `pred` counts as a byte.
pub fn width(ty: crate::types::PrimitiveType) -> u32 {
    match ty {
        crate::types::PrimitiveType::Pred => 8,
        ty => ty.bit_width(),
    }
}
