//! `get-dimension-size` of a dimension whose size is fixed.

use super::index_map::{array_operand, checked_dims};
use crate::error::Result;
use crate::module::{HloOpcode, InstructionRef};
use crate::plan::error::unsupported;
use crate::types::PrimitiveType;

/// The size.
#[derive(Clone, Copy, Debug)]
pub struct DimensionSizeOp {
    /// In elements.
    pub size: i32,
}

/// Reads it off the operand's shape.
pub fn plan(instruction: InstructionRef<'_>) -> Result<DimensionSizeOp> {
    let operand = array_operand(instruction, 0)?;
    let dims = checked_dims(instruction, instruction.dimensions(), operand.rank())?;
    let is_s32 = instruction
        .array_shape()
        .is_some_and(|shape| shape.element_type == PrimitiveType::S32 && shape.rank() == 0);
    match dims[..] {
        [dim]
            if is_s32
                && instruction.opcode() == HloOpcode::GetDimensionSize
                && !operand.is_dynamic_dimension(dim) =>
        {
            let size = i32::try_from(operand.dims[dim])
                .map_err(|_| unsupported(instruction, "a size beyond s32".into()))?;
            Ok(DimensionSizeOp { size })
        }
        _ => Err(unsupported(
            instruction,
            format!("{} of a dynamic dimension", instruction.opcode_name()),
        )),
    }
}
