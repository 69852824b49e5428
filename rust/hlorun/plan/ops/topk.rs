//! `topk` and the custom calls of its kind: the k first of every row in total order, with their
//! positions.

use super::index_map::array_operand;
use super::sort_keys::orderable;
use crate::error::Result;
use crate::library::{Config, results::declared};
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::plan::error::unsupported;

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
    let values = declared(instruction).first().copied().flatten();
    let k = values.and_then(|values| values.dims.last());
    let Some(&k) = k else {
        return Err(unsupported(instruction, "top-k of a scalar".into()));
    };
    let ty = array_operand(instruction, 0)?.element_type;
    if !orderable(ty) {
        return Err(unsupported(instruction, format!("top-k of {}", ty.name())));
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
    if let Some(largest) = Config::of(instruction).flag("largest") {
        return largest;
    }
    // A custom call says it by its comparator; without one it means the greatest.
    let keys = instruction
        .called_computations()
        .first()
        .and_then(|&computation| super::sort_keys::find(instruction.module, computation));
    keys.is_none_or(|keys| keys.keys.first().is_none_or(|key| key.descending))
}
