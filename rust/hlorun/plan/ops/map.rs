//! `map`: a computation applied to the elements of several arrays of equal sizes.

use super::combiner::Combiner;
use super::index_map::array_operand;
use crate::error::Result;
use crate::module::{AttrKey, InstructionRef};
use crate::plan::element::program::Program;
use crate::plan::error::unsupported;

/// Parameters of a `map`.
#[derive(Clone, Debug)]
pub struct MapOp {
    /// One element of every operand in, one out.
    pub program: Program,
}

/// Reads the parameters.
pub fn plan(instruction: InstructionRef<'_>) -> Result<MapOp> {
    let count = instruction.operand_ids().len();
    let Some(result) = instruction.array_shape() else {
        return Err(unsupported(instruction, "map of tuples".into()));
    };
    for index in 0..count {
        if array_operand(instruction, index)?.dims != result.dims {
            return Err(unsupported(
                instruction,
                "operands of different sizes".into(),
            ));
        }
    }
    Ok(MapOp {
        program: Combiner::of(instruction, AttrKey::ToApply, count, 1)?.program,
    })
}
