//! Movement instructions as views.
//!
//! In: a movement instruction and the view of its operand. Out: the view of its result, or `None`
//! when its elements must be copied first. `dynamic-slice` is not here: its start is data.

use crate::error::{HloError, Result};
use crate::module::{AttrKey, AttrValue, HloOpcode, InstructionRef};
use crate::plan::error::unsupported;
use crate::plan::view::ArrayView;
use crate::types::{ArrayShape, Dims};
use smallvec::SmallVec;

/// The array shape of an instruction, or an error for tuples.
pub fn array_shape(instruction: InstructionRef<'_>) -> Result<&ArrayShape> {
    instruction.array_shape().ok_or_else(|| {
        unsupported(
            instruction,
            format!("{} of a shape that is no array", instruction.opcode_name()),
        )
    })
}

/// The view of a movement instruction's result.
pub fn movement(instruction: InstructionRef<'_>, operand: &ArrayView) -> Result<Option<ArrayView>> {
    let shape = array_shape(instruction)?;
    let dimensions = instruction.dimensions();
    Ok(match instruction.opcode() {
        HloOpcode::Copy => Some(operand.clone()),
        HloOpcode::Reshape => operand.reshape(&shape.dims),
        HloOpcode::Transpose => Some(operand.transpose(dimensions)),
        HloOpcode::Broadcast => Some(operand.broadcast(&shape.dims, dimensions)),
        HloOpcode::Reverse => Some(operand.reverse(dimensions)),
        HloOpcode::Slice => match instruction.attribute(AttrKey::Slice) {
            Some(AttrValue::Slice(slices)) => {
                let starts: Dims = slices.iter().map(|s| s.start).collect();
                let strides: Dims = slices.iter().map(|s| s.stride).collect();
                Some(operand.slice(&starts, &strides, &shape.dims))
            }
            _ => return Err(HloError::execution("slice without slice={…}")),
        },
        HloOpcode::BitcastConvert => Some(ArrayView {
            element_type: shape.element_type,
            ..operand.clone()
        }),
        // The pass `bitcasts` leaves only those of other sizes.
        HloOpcode::Bitcast => {
            return Err(unsupported(
                instruction,
                format!("bitcast to {shape}, which differs in size"),
            ));
        }
        _ => {
            return Err(unsupported(
                instruction,
                format!("{} is no movement", instruction.opcode_name()),
            ));
        }
    })
}

/// Dimensions from the slowest to the fastest.
pub type Order = SmallVec<[u8; 8]>;
