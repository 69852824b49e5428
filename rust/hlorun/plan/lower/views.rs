//! Movement instructions as views.
//!
//! In: a movement instruction and the view of its operand. Out: the view of its result, or `None`
//! when its elements must be copied first. `dynamic-slice` is not here: its start is data.

use crate::error::{HloError, Result};
use crate::module::{AttrKey, AttrValue, HloOpcode, InstructionRef};
use crate::plan::unsupported;
use crate::plan::view::{ArrayView, identity_order, major_to_minor};
use crate::types::{ArrayShape, Dims};

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
        HloOpcode::Bitcast => bitcast(instruction, operand, shape)?,
        HloOpcode::BitcastConvert => Some(ArrayView {
            element_type: shape.element_type,
            ..operand.clone()
        }),
        _ => {
            return Err(unsupported(
                instruction,
                format!("{} is no movement", instruction.opcode_name()),
            ));
        }
    })
}

/// `bitcast` keeps the physical order: transpose to it, reshape, transpose back.
fn bitcast(
    instruction: InstructionRef<'_>,
    operand: &ArrayView,
    shape: &ArrayShape,
) -> Result<Option<ArrayView>> {
    let from = instruction
        .operand(0)
        .map(array_shape)
        .transpose()?
        .ok_or_else(|| HloError::execution("bitcast without operand"))?;
    if from.element_type.bit_width() != shape.element_type.bit_width()
        || from.element_count() != shape.element_count()
    {
        return Err(unsupported(
            instruction,
            format!("bitcast from {from} to {shape}, which differ in size"),
        ));
    }
    let physical: Dims = major_to_minor(from).iter().map(|&d| i64::from(d)).collect();
    let order = major_to_minor(shape);
    let target: Dims = order.iter().map(|&d| shape.dims[usize::from(d)]).collect();
    let Some(view) = operand.transpose(&physical).reshape(&target) else {
        return Ok(None);
    };
    let mut back: Dims = smallvec::SmallVec::from_elem(0, order.len());
    for (at, &dim) in order.iter().enumerate() {
        back[usize::from(dim)] = at as i64;
    }
    let mut view = view.transpose(&back);
    view.element_type = shape.element_type;
    Ok(Some(view))
}

/// The order in which an operand must be dense for [`movement`] to have a view.
pub fn natural_order(instruction: InstructionRef<'_>, operand: &ArrayView) -> super::Order {
    match (
        instruction.opcode(),
        instruction.operand(0).and_then(|o| o.array_shape()),
    ) {
        (HloOpcode::Bitcast, Some(shape)) => major_to_minor(shape),
        _ => identity_order(operand.dims.len()),
    }
}
