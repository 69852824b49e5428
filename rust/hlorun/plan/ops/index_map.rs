//! What `gather` and `scatter` share: which index component moves which operand dimension.
//!
//! In: the dimension numbers of either operation. Out: an [`IndexMap`], checked against the shapes.

use smallvec::SmallVec;

use crate::error::Result;
use crate::module::InstructionRef;
use crate::plan::error::unsupported;
use crate::types::ArrayShape;

/// A short list of dimension numbers.
pub type DimList = SmallVec<[usize; 4]>;

/// How an index vector places a window in the operand.
#[derive(Clone, Debug, Default)]
pub struct IndexMap {
    /// Dimension of the indices that holds the vector; the rank when it is implicit.
    pub index_vector_dim: usize,
    /// Operand dimension each component of the vector moves.
    pub components: DimList,
    /// `(operand dimension, dimension of the batch part of the indices)` of batching dimensions;
    /// the batch part is the indices without the vector dimension.
    pub batching: SmallVec<[(usize, usize); 2]>,
    /// Operand dimensions the window spans, ascending: neither collapsed nor batching.
    pub window: DimList,
}

/// The attributes an [`IndexMap`] is made of.
pub struct Numbers<'a> {
    /// `index_vector_dim`.
    pub index_vector_dim: i64,
    /// `start_index_map` or `scatter_dims_to_operand_dims`.
    pub components: &'a [i64],
    /// `collapsed_slice_dims` or `inserted_window_dims`.
    pub dropped: &'a [i64],
    /// `operand_batching_dims` or `input_batching_dims`.
    pub operand_batching: &'a [i64],
    /// `start_indices_batching_dims` or `scatter_indices_batching_dims`.
    pub indices_batching: &'a [i64],
}

/// `dims` as indices below `rank`; an error names the instruction.
pub fn checked_dims(instruction: InstructionRef<'_>, dims: &[i64], rank: usize) -> Result<DimList> {
    dims.iter()
        .map(|&dim| match usize::try_from(dim) {
            Ok(dim) if dim < rank => Ok(dim),
            _ => Err(unsupported(
                instruction,
                format!("dimension {dim} of an array of rank {rank}"),
            )),
        })
        .collect()
}

/// The shape of operand `index` as an array.
pub fn array_operand(instruction: InstructionRef<'_>, index: usize) -> Result<&ArrayShape> {
    instruction
        .operand(index)
        .and_then(|operand| operand.array_shape())
        .ok_or_else(|| unsupported(instruction, format!("operand {index} is no array")))
}

impl IndexMap {
    /// How far the operand's batching dimensions move a window for each step along the batch dimensions of the indices,
    /// of which there are `rank`, where `strides` are the operand's.
    pub fn batch_steps<T: Copy + Default + std::ops::AddAssign>(
        &self,
        rank: usize,
        strides: &[T],
    ) -> SmallVec<[T; 6]> {
        let mut steps = SmallVec::from_elem(T::default(), rank);
        for &(dim, batch) in &self.batching {
            steps[batch] += strides[dim];
        }
        steps
    }

    /// Whether the batch places each window inside an operand of the sizes `dims`; `batch` are the sizes of the batch part of
    /// the indices.
    pub fn batch_fits(&self, batch: &[i64], dims: &[i64]) -> bool {
        let mut places = self.batching.iter();
        places.all(|&(dim, from)| batch[from] <= dims[dim])
    }

    /// Checks `numbers` against the operand and the indices.
    pub fn new(
        instruction: InstructionRef<'_>,
        numbers: &Numbers<'_>,
        operand: &ArrayShape,
        indices: &ArrayShape,
    ) -> Result<IndexMap> {
        let rank = operand.rank();
        let bad = |what: &str| Err(unsupported(instruction, what.into()));
        let index_vector_dim = match usize::try_from(numbers.index_vector_dim) {
            Ok(dim) if dim <= indices.rank() => dim,
            _ => return bad("index_vector_dim is out of range"),
        };
        let vector = indices.dims.get(index_vector_dim).copied().unwrap_or(1);
        if usize::try_from(vector) != Ok(numbers.components.len()) {
            return bad("the index vector and the index map differ in length");
        }
        if !indices.element_type.is_integral() {
            return bad("indices are no integers");
        }
        let dropped = checked_dims(instruction, numbers.dropped, rank)?;
        let batching = checked_dims(instruction, numbers.operand_batching, rank)?;
        let from = checked_dims(instruction, numbers.indices_batching, indices.rank())?;
        if batching.len() != from.len() || from.contains(&index_vector_dim) {
            return bad("batching dimensions do not match");
        }
        let window = (0..rank)
            .filter(|dim| !dropped.contains(dim) && !batching.contains(dim))
            .collect();
        Ok(IndexMap {
            index_vector_dim,
            components: checked_dims(instruction, numbers.components, rank)?,
            batching: batching
                .into_iter()
                .zip(from)
                .map(|(operand, dim)| (operand, dim - usize::from(dim > index_vector_dim)))
                .collect(),
            window,
        })
    }
}
