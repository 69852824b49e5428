//! `dynamic-slice`, `dynamic-update-slice`: a box at a place known when running.

use super::common::*;
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::verify::inferred::InferredShape;

/// The family.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    if i.opcode() == HloOpcode::DynamicSlice {
        start_indices(i, 1, operand.rank())?;
        let sizes = if operand.rank() == 0 {
            ints(i, AttrKey::DynamicSliceSizes)?
        } else {
            need_ints(i, AttrKey::DynamicSliceSizes)?
        };
        within(i, "dynamic_slice_sizes", sizes)?;
        return Ok(InferredShape::array(operand.element_type, sizes));
    }
    let update = array(i, 1)?;
    want_type(i, 1, operand.element_type, " like operand 0")?;
    start_indices(i, 2, operand.rank())?;
    within(i, "the update", &update.dims)?;
    same_as_operand(i, 0)
}

/// That the box has as many dimensions as operand 0 and is no larger.
fn within(i: InstructionRef<'_>, what: &str, sizes: &[i64]) -> Result<(), String> {
    let bounds = &array(i, 0)?.dims;
    if sizes.len() != bounds.len() || sizes.iter().zip(bounds).any(|(&s, &b)| s < 0 || s > b) {
        return Err(format!(
            "{what} {} is not within {}",
            list(sizes),
            describe(i, 0)
        ));
    }
    Ok(())
}

/// One scalar per dimension, or the older form of one array with an entry per dimension.
fn start_indices(i: InstructionRef<'_>, first: usize, rank: usize) -> Result<(), String> {
    let count = i.operand_ids().len() - first.min(i.operand_ids().len());
    for k in first..first + count {
        if !array(i, k)?.element_type.is_integral() {
            return Err(format!("{}, expected an integer index", describe(i, k)));
        }
    }
    if count == 1 && array(i, first)?.rank() == 1 {
        return want_dims(i, first, &[rank as i64], ": one index per dimension");
    }
    if count != rank {
        return Err(format!(
            "has {count} start indices, but {}: expected one for each of its dimensions",
            describe(i, 0)
        ));
    }
    for k in first..first + count {
        scalar(i, k)?;
        want_type(i, k, array(i, first)?.element_type, " like the first index")?;
    }
    Ok(())
}
