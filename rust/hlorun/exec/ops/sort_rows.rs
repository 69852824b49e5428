//! The rows that are sorted, and orders of their elements.

use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;

/// Operands with the sorted dimension last, dense.
pub struct Rows {
    /// The arrays; `bytes` keeps those that had to be copied.
    pub operands: Vec<RawArray>,
    _bytes: Vec<AlignedBytes<u8>>,
}

/// The array with `dimension` moved to the end.
pub fn last(array: &RawArray, dimension: usize) -> RawArray {
    let mut moved = array.clone();
    let (size, stride) = (
        moved.dims.remove(dimension),
        moved.strides.remove(dimension),
    );
    moved.dims.push(size);
    moved.strides.push(stride);
    moved
}

impl Rows {
    /// Brings `arrays` into rows along `dimension`.
    pub fn new(arrays: &[RawArray], dimension: usize) -> Result<Rows> {
        let mut operands = Vec::with_capacity(arrays.len());
        let mut kept = Vec::new();
        for array in arrays {
            let array = last(array, dimension);
            if array.is_row_major() {
                operands.push(array);
            } else {
                let mut bytes = array.to_row_major()?;
                operands.push(RawArray::over(&mut bytes, array.element_type, &array.dims));
                kept.push(bytes);
            }
        }
        Ok(Rows {
            operands,
            _bytes: kept,
        })
    }

    /// Number of elements of every operand.
    pub fn count(&self) -> usize {
        self.operands[0].count()
    }
}

/// For every place of every row, which element of the row comes there.
pub type Order = Vec<u32>;

/// Room for an [`Order`] over `count` elements in rows of `length`.
pub fn new_order(count: usize, length: usize) -> Result<Order> {
    if u32::try_from(length).is_err() {
        return Err(HloError::execution("sort of more than 2^32 elements"));
    }
    let mut order = Vec::new();
    order
        .try_reserve_exact(count)
        .map_err(|_| HloError::execution("out of memory for sorting"))?;
    order.resize(count, 0);
    Ok(order)
}
