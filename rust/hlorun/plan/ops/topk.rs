//! `topk` and the custom calls of its kind: the k first of every row in total order, with their
//! positions.

use super::index_map::array_operand;
use super::sort_keys::orderable;
use crate::error::Result;
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::plan::unsupported;
use crate::types::PrimitiveType;

/// Parameters of a `topk`.
#[derive(Clone, Copy, Debug)]
pub struct TopKOp {
    /// Elements per row of the result.
    pub k: usize,
    /// The greatest, greatest first; otherwise the least, least first.
    pub largest: bool,
}

/// Reads the parameters.
pub fn plan(instruction: InstructionRef<'_>) -> Result<TopKOp> {
    let operand = array_operand(instruction, 0)?;
    let part = |index: usize| {
        let parts = instruction.shape().as_tuple()?;
        instruction
            .module
            .shapes()
            .get(*parts.get(index)?)
            .as_array()
    };
    let (Some(values), Some(indices)) = (part(0), part(1)) else {
        return Err(unsupported(
            instruction,
            "the result is no pair of arrays".into(),
        ));
    };
    let (Some(&n), Some(&k)) = (operand.dims.last(), values.dims.last()) else {
        return Err(unsupported(instruction, "top-k of a scalar".into()));
    };
    if k < 0 || k > n || indices.dims != values.dims || indices.element_type != PrimitiveType::S32 {
        return Err(unsupported(instruction, format!("top {k} of rows of {n}")));
    }
    if !orderable(operand.element_type) || values.element_type != operand.element_type {
        return Err(unsupported(
            instruction,
            format!("top-k of {}", operand.element_type.name()),
        ));
    }
    Ok(TopKOp {
        k: k as usize,
        largest: largest(instruction),
    })
}

fn largest(instruction: InstructionRef<'_>) -> bool {
    if instruction.opcode() == HloOpcode::TopK {
        return instruction.bool(AttrKey::Largest).unwrap_or(true);
    }
    if let Some(largest) = super::config::Config::of(instruction).flag("largest") {
        return largest;
    }
    // A custom call says it by its comparator; without one it means the greatest.
    let keys = instruction
        .called_computations()
        .first()
        .and_then(|&computation| super::sort_keys::find(instruction.module, computation));
    keys.is_none_or(|keys| keys.keys.first().is_none_or(|key| key.descending))
}
