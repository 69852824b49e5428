//! `rng`, `rng-bit-generator`, `rng-get-and-update-state`.

use super::common::*;
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::types::{PrimitiveType, Shape};
use crate::verify::inferred::{InferredShape, show};

/// The family.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    match i.opcode() {
        HloOpcode::Rng => rng(i),
        HloOpcode::RngBitGenerator => bit_generator(i),
        _ => {
            need_float(i, AttrKey::Delta)?;
            Ok(InferredShape::array(PrimitiveType::U64, &[2]))
        }
    }
}

fn rng(i: InstructionRef<'_>) -> Infer {
    let result = declared_array(i)?;
    let kind = need_word(i, AttrKey::Distribution, &["rng_uniform", "rng_normal"])?;
    // Old texts give the shape of the result as well.
    if !matches!(i.operand_ids().len(), 2 | 3) {
        return Err(format!(
            "has {} operands, expected the two parameters of the distribution",
            i.operand_ids().len()
        ));
    }
    for k in 0..2 {
        scalar(i, k)?;
        want_type(i, k, result.element_type, " like the result")?;
    }
    if result.element_type.is_complex()
        || (kind == "rng_normal" && !result.element_type.is_floating())
    {
        return Err(format!(
            "{kind} does not make elements of type {}",
            result.element_type.name()
        ));
    }
    Ok(InferredShape::AsDeclared)
}

fn bit_generator(i: InstructionRef<'_>) -> Infer {
    need_word(
        i,
        AttrKey::Algorithm,
        &["rng_default", "rng_three_fry", "rng_philox"],
    )?;
    let state = array(i, 0)?;
    if !state.element_type.is_unsigned_integral() || state.rank() != 1 {
        return Err(format!(
            "{}, expected a row of unsigned integers as state",
            describe(i, 0)
        ));
    }
    let table = i.module.shapes();
    let is_bits = |shape: &Shape| {
        shape
            .as_array()
            .is_some_and(|a| a.element_type.is_integral() || a.element_type.is_floating())
    };
    match i.shape() {
        // Old texts return the bits alone.
        shape @ Shape::Array(_) if is_bits(shape) => Ok(InferredShape::AsDeclared),
        Shape::Tuple(parts) if parts.len() == 2 && is_bits(table.get(parts[1])) => {
            Ok(InferredShape::Tuple(vec![
                same_as_operand(i, 0)?,
                InferredShape::Same(parts[1]),
            ]))
        }
        _ => Err(format!(
            "declares {}, expected a tuple of the state and an array of bits",
            show(table, i.shape_id())
        )),
    }
}
