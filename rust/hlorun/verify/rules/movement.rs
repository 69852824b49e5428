//! `broadcast`, `reshape`, `transpose`, `slice`, `reverse`, `bitcast`, `copy`: elements move, none
//! is computed.

use super::common::*;
use crate::module::attributes::AttrValue;
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::types::{ArrayShape, Dims};
use crate::verify::inferred::InferredShape;

/// The family.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    match i.opcode() {
        HloOpcode::Broadcast => broadcast(i),
        HloOpcode::Reshape => reshape(i),
        HloOpcode::Transpose => transpose(i),
        HloOpcode::Slice => slice(i),
        HloOpcode::Reverse => reverse(i),
        HloOpcode::Bitcast => bitcast(i),
        _ => same_as_operand(i, 0),
    }
}

/// The dimensions of an operand; a scalar's may be left out.
fn dimensions<'m>(i: InstructionRef<'m>, operand: &ArrayShape) -> Result<&'m [i64], String> {
    match operand.rank() {
        0 => ints(i, AttrKey::Dimensions),
        _ => need_ints(i, AttrKey::Dimensions),
    }
}

fn broadcast(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    let result = declared_array(i)?;
    let dims = dimensions(i, operand)?;
    if dims.len() != operand.rank() {
        return Err(format!(
            "dimensions={} has {} entries, but {}: expected one for each of its dimensions",
            list(dims),
            dims.len(),
            describe(i, 0)
        ));
    }
    dim_set("dimensions", dims, result.rank())?;
    let mut inferred: Dims = result.dims.clone();
    for (&dim, &size) in dims.iter().zip(&operand.dims) {
        inferred[dim as usize] = size;
    }
    Ok(InferredShape::Array {
        element_type: operand.element_type,
        dims: inferred,
    })
}

/// Element count as text.
fn count(shape: &ArrayShape) -> String {
    shape
        .element_count()
        .map_or_else(|| "too many".to_owned(), |n| n.to_string())
}

/// `reshape` and `dynamic-reshape`: as many elements of the same type, in the declared dimensions.
pub fn reshape(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    let result = declared_array(i)?;
    if operand.element_count() != result.element_count() {
        return Err(format!(
            "{} with {} elements, but the declared result has {}",
            describe(i, 0),
            count(operand),
            count(result)
        ));
    }
    Ok(InferredShape::array(operand.element_type, &result.dims))
}

fn transpose(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    let dims = dimensions(i, operand)?;
    if dims.len() != operand.rank() {
        return Err(format!(
            "dimensions={} is no permutation of the {} dimensions of operand 0",
            list(dims),
            operand.rank()
        ));
    }
    dim_set("dimensions", dims, operand.rank())?;
    Ok(InferredShape::Array {
        element_type: operand.element_type,
        dims: dims.iter().map(|&d| operand.dims[d as usize]).collect(),
    })
}

fn slice(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    let AttrValue::Slice(slices) = need(i, AttrKey::Slice)? else {
        return Err("attribute slice is not of the form {[start:limit:stride], …}".to_owned());
    };
    if slices.len() != operand.rank() {
        return Err(format!(
            "slice has {} entries, but {}: expected one for each of its dimensions",
            slices.len(),
            describe(i, 0)
        ));
    }
    let mut dims = Dims::new();
    for (d, (s, &bound)) in slices.iter().zip(&operand.dims).enumerate() {
        if s.stride < 1 {
            return Err(format!(
                "the stride {} in dimension {d} of slice is not positive",
                s.stride
            ));
        }
        if s.start < 0 || s.start > s.limit || s.limit > bound {
            return Err(format!(
                "slice [{}:{}] in dimension {d} is not within the size {bound} of operand 0",
                s.start, s.limit
            ));
        }
        let length = s.limit - s.start;
        dims.push(length / s.stride + i64::from(length % s.stride != 0));
    }
    Ok(InferredShape::Array {
        element_type: operand.element_type,
        dims,
    })
}

fn reverse(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    dim_set(
        "dimensions",
        need_ints(i, AttrKey::Dimensions)?,
        operand.rank(),
    )?;
    same_as_operand(i, 0)
}

fn bitcast(i: InstructionRef<'_>) -> Infer {
    let (Some(operand), Some(result)) = (
        i.operand(0).and_then(InstructionRef::array_shape),
        i.array_shape(),
    ) else {
        // Of anything but arrays, a bitcast is another name for the same value.
        return same_as_operand(i, 0);
    };
    let bits = |shape: &ArrayShape| {
        let width = match shape.element_type {
            crate::types::PrimitiveType::Pred => 8,
            other => i64::from(other.bit_width()),
        };
        shape.element_count().and_then(|n| n.checked_mul(width))
    };
    let (from, to) = (bits(operand), bits(result));
    if from != to {
        let text = |n: Option<i64>| n.map_or_else(|| "too many".to_owned(), |n| n.to_string());
        return Err(format!(
            "{} of {} bits, but the declared result has {}",
            describe(i, 0),
            text(from),
            text(to)
        ));
    }
    Ok(InferredShape::AsDeclared)
}
