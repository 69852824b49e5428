//! `scatter`: windows of the updates combined into the operands at positions the indices name.

use super::combiner::Combiner;
use super::index_map::{DimList, IndexMap, Numbers, array_operand, checked_dims};
use crate::error::Result;
use crate::module::{AttrKey, InstructionRef};
use crate::plan::error::unsupported;

/// Parameters of a `scatter`.
#[derive(Clone, Debug)]
pub struct ScatterOp {
    /// Number of operands, and of updates.
    pub count: usize,
    /// Where windows go.
    pub map: IndexMap,
    /// Update dimensions of the window, in the order of `map.window`.
    pub update_window_dims: DimList,
    /// Update dimensions that say which window, in order.
    pub scatter_dims: DimList,
    /// Values there, then updates; returns the new values.
    pub combiner: Combiner,
    /// No element is written twice.
    pub unique_indices: bool,
}

/// Reads the parameters.
pub fn plan(instruction: InstructionRef<'_>) -> Result<ScatterOp> {
    let operands = instruction.operand_ids().len();
    let count = operands / 2;
    if operands.is_multiple_of(2) {
        return Err(unsupported(
            instruction,
            "an even number of operands".into(),
        ));
    }
    let operand = array_operand(instruction, 0)?;
    let indices = array_operand(instruction, count)?;
    let updates = array_operand(instruction, count + 1)?;
    let numbers = Numbers {
        index_vector_dim: instruction
            .int(AttrKey::IndexVectorDim)
            .unwrap_or(indices.rank() as i64),
        components: instruction.ints(AttrKey::ScatterDimsToOperandDims),
        dropped: instruction.ints(AttrKey::InsertedWindowDims),
        operand_batching: instruction.ints(AttrKey::InputBatchingDims),
        indices_batching: instruction.ints(AttrKey::ScatterIndicesBatchingDims),
    };
    let map = IndexMap::new(instruction, &numbers, operand, indices)?;
    let window = instruction.ints(AttrKey::UpdateWindowDims);
    let update_window_dims = checked_dims(instruction, window, updates.rank())?;
    let scatter_dims: DimList = (0..updates.rank())
        .filter(|dim| !update_window_dims.contains(dim))
        .collect();
    let batch_rank = indices.rank() - usize::from(map.index_vector_dim < indices.rank());
    let names_each_once = update_window_dims.len() + scatter_dims.len() == updates.rank();
    if update_window_dims.len() != map.window.len()
        || scatter_dims.len() != batch_rank
        || !names_each_once
    {
        return Err(unsupported(
            instruction,
            "scatter dimensions do not fit the shapes".into(),
        ));
    }
    Ok(ScatterOp {
        count,
        map,
        update_window_dims,
        scatter_dims,
        combiner: Combiner::of(instruction, AttrKey::ToApply, 2 * count, count)?,
        unique_indices: instruction.bool(AttrKey::UniqueIndices).unwrap_or(false),
    })
}
