//! Window positions of `gather` and `scatter`.
//!
//! In: the indices array and an [`IndexMap`]. Out: [`Starts`]: one index vector per window, as
//! `i64`.

use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::plan::elementwise::dtype;
use crate::plan::ops::index_map::IndexMap;
use crate::types::{Dims, PrimitiveType};

/// The index vectors of all windows, in the row-major order of the batch dimensions.
pub struct Starts {
    values: Vec<i64>,
    /// Components of a vector.
    pub width: usize,
    /// Sizes of the batch dimensions.
    pub batch: Dims,
}

/// All elements of an integer array as `i64` in row-major order; `u64` values beyond `i64` saturate.
pub fn to_i64(array: &RawArray) -> Result<Vec<i64>> {
    let count = array.count();
    let unknown = || HloError::execution("indices of an element type without a kernel");
    let from = dtype(array.element_type).ok_or_else(unknown)?;
    let mut bytes: AlignedBytes = array.to_row_major()?;
    let mut values: Vec<i64> = Vec::new();
    values
        .try_reserve_exact(count)
        .map_err(|_| HloError::execution("out of memory for indices"))?;
    let kernel = hlorun_kernels::convert(from, hlorun_kernels::DType::S64);
    // SAFETY: `bytes` holds `count` elements of `from`, and `values` has room for `count`.
    unsafe {
        kernel(bytes.as_mut_ptr(), values.as_mut_ptr().cast(), count);
        values.set_len(count);
    }
    if array.element_type == PrimitiveType::U64 {
        for value in values.iter_mut().filter(|value| **value < 0) {
            *value = i64::MAX;
        }
    }
    Ok(values)
}

impl Starts {
    /// Reads the vectors.
    pub fn new(map: &IndexMap, indices: &RawArray) -> Result<Starts> {
        let mut array = indices.clone();
        let width = map.components.len();
        if map.index_vector_dim < array.dims.len() {
            let size = array.dims.remove(map.index_vector_dim);
            let stride = array.strides.remove(map.index_vector_dim);
            array.dims.push(size);
            array.strides.push(stride);
        } else {
            array.dims.push(1);
            array.strides.push(0);
        }
        if array.dims.last().copied() != Some(width as i64) {
            return Err(HloError::execution(
                "the index vector has another length than planned",
            ));
        }
        let values = to_i64(&array)?;
        array.dims.pop();
        Ok(Starts {
            values,
            width,
            batch: array.dims,
        })
    }

    /// Number of windows.
    pub fn count(&self) -> usize {
        self.batch.iter().product::<i64>().max(0) as usize
    }

    /// The vector of window `n`.
    pub fn get(&self, n: usize) -> &[i64] {
        &self.values[n * self.width..(n + 1) * self.width]
    }
}
