//! `pad`, `concatenate`: results put together from several operands.

use super::common::*;
use crate::module::attributes::AttrValue;
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::types::Dims;
use crate::verify::inferred::InferredShape;

/// The family.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    match i.opcode() {
        HloOpcode::Pad => pad(i),
        _ => concatenate(i),
    }
}

fn pad(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    scalar(i, 1)?;
    want_type(i, 1, operand.element_type, " like operand 0")?;
    let padding = match i.attribute(AttrKey::Padding) {
        Some(AttrValue::Padding(padding)) => &padding[..],
        None if operand.rank() == 0 => &[],
        _ => {
            need(i, AttrKey::Padding)?;
            return Err("attribute padding is not of the form low_high_interior, …".to_owned());
        }
    };
    if padding.len() != operand.rank() {
        return Err(format!(
            "padding has {} entries, but {}: expected one for each of its dimensions",
            padding.len(),
            describe(i, 0)
        ));
    }
    let mut dims = Dims::new();
    for (d, (p, &bound)) in padding.iter().zip(&operand.dims).enumerate() {
        if p.interior < 0 {
            return Err(format!(
                "the interior padding {} in dimension {d} is negative",
                p.interior
            ));
        }
        let padded = size(
            (bound - 1)
                .max(0)
                .checked_mul(p.interior)
                .and_then(|n| n.checked_add(bound))
                .and_then(|n| n.checked_add(p.edge_low))
                .and_then(|n| n.checked_add(p.edge_high)),
            "the padded size",
        )?;
        if padded < 0 {
            return Err(format!(
                "padding {}_{} in dimension {d} takes more than the {bound} elements there are",
                p.edge_low, p.edge_high
            ));
        }
        dims.push(padded);
    }
    Ok(InferredShape::Array {
        element_type: operand.element_type,
        dims,
    })
}

fn concatenate(i: InstructionRef<'_>) -> Infer {
    let first = array(i, 0)?;
    let dim = dimension("dimension", one_dimension(i)?, first.rank())?;
    let mut total = 0i64;
    for (k, shape) in arrays(i)?.into_iter().enumerate() {
        want_type(i, k, first.element_type, " like operand 0")?;
        let rest_fits = shape.rank() == first.rank()
            && (0..first.rank()).all(|d| d == dim || shape.dims[d] == first.dims[d]);
        if !rest_fits {
            return Err(format!(
                "{}, expected the dimensions {} of operand 0 except in dimension {dim}",
                describe(i, k),
                list(&first.dims)
            ));
        }
        total = size(total.checked_add(shape.dims[dim]), "the sum of sizes")?;
    }
    let mut dims = first.dims.clone();
    dims[dim] = total;
    Ok(InferredShape::Array {
        element_type: first.element_type,
        dims,
    })
}
