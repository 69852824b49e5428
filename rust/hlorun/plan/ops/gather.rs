//! `gather`: windows of the operand, side by side in the result.

use super::index_map::{DimList, IndexMap, Numbers, array_operand, checked_dims};
use crate::error::Result;
use crate::module::{AttrKey, InstructionRef};
use crate::plan::error::unsupported;

/// Parameters of a `gather`.
#[derive(Clone, Debug)]
pub struct GatherOp {
    /// Where windows start.
    pub map: IndexMap,
    /// Size of the window along every operand dimension.
    pub slice_sizes: Vec<i64>,
    /// Result dimensions of the window, in the order of `map.window`.
    pub offset_dims: DimList,
    /// Result dimensions that say which window, in order.
    pub batch_dims: DimList,
}

/// Reads the parameters.
pub fn plan(instruction: InstructionRef<'_>) -> Result<GatherOp> {
    let operand = array_operand(instruction, 0)?;
    let indices = array_operand(instruction, 1)?;
    let rank = instruction.array_shape().map_or(0, |shape| shape.rank());
    let numbers = Numbers {
        index_vector_dim: instruction
            .int(AttrKey::IndexVectorDim)
            .unwrap_or(indices.rank() as i64),
        components: instruction.ints(AttrKey::StartIndexMap),
        dropped: instruction.ints(AttrKey::CollapsedSliceDims),
        operand_batching: instruction.ints(AttrKey::OperandBatchingDims),
        indices_batching: instruction.ints(AttrKey::StartIndicesBatchingDims),
    };
    let map = IndexMap::new(instruction, &numbers, operand, indices)?;
    let slice_sizes = instruction.ints(AttrKey::SliceSizes).to_vec();
    let fits = slice_sizes.len() == operand.rank()
        && slice_sizes
            .iter()
            .zip(&operand.dims)
            .all(|(&size, &dim)| (0..=dim).contains(&size));
    let offset_dims = checked_dims(instruction, instruction.ints(AttrKey::OffsetDims), rank)?;
    let batch_dims: DimList = (0..rank).filter(|dim| !offset_dims.contains(dim)).collect();
    let batch_rank = indices.rank() - usize::from(map.index_vector_dim < indices.rank());
    if !fits || offset_dims.len() != map.window.len() || batch_dims.len() != batch_rank {
        return Err(unsupported(
            instruction,
            "gather dimensions do not fit the shapes".into(),
        ));
    }
    Ok(GatherOp {
        map,
        slice_sizes,
        offset_dims,
        batch_dims,
    })
}
