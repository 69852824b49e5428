//! `sort`: rows along one dimension, any number of operands moved together. Always stable.

use super::combiner::Combiner;
use super::index_map::{array_operand, checked_dims};
use super::sort_keys::{SortKeys, find};
use crate::error::Result;
use crate::module::{AttrKey, InstructionRef};
use crate::plan::element::program::Program;
use crate::plan::error::unsupported;

/// Parameters of a `sort`.
#[derive(Clone, Debug)]
pub struct SortOp {
    /// Number of operands.
    pub count: usize,
    /// The dimension rows lie along.
    pub dimension: usize,
    /// Left and right of every operand in, whether left comes first out.
    pub comparator: Program,
    /// The keys, where the comparator compares keys.
    pub keys: Option<SortKeys>,
}

/// Reads the parameters.
pub fn plan(instruction: InstructionRef<'_>) -> Result<SortOp> {
    let count = instruction.operand_ids().len();
    let shape = array_operand(instruction, 0)?;
    for index in 1..count {
        if array_operand(instruction, index)?.dims != shape.dims {
            return Err(unsupported(
                instruction,
                "operands of different sizes".into(),
            ));
        }
    }
    let dimension = match instruction.dimensions() {
        &[dimension] => checked_dims(instruction, &[dimension], shape.rank())?[0],
        _ => return Err(unsupported(instruction, "sort takes one dimension".into())),
    };
    let comparator = Combiner::of(instruction, AttrKey::ToApply, 2 * count, 1)?.program;
    let keys = instruction
        .computation_attribute(AttrKey::ToApply)
        .and_then(|computation| find(instruction.module, computation));
    Ok(SortOp {
        count,
        dimension,
        comparator,
        keys,
    })
}
