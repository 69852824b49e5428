//! Arrays while a program runs: a pointer, sizes and strides.

use crate::buffers::AlignedBytes;
use crate::types::strided::{is_row_major, row_major_strides};
use crate::types::{Dims, PrimitiveType};

/// An array in memory that the executor vouches for: every element the strides reach lies in one
/// allocation that stays alive and unaliased (for outputs) during the call it is passed to.
#[derive(Debug)]
pub struct RawArray {
    /// The first element.
    pub pointer: *mut u8,
    /// Type of an element.
    pub element_type: PrimitiveType,
    /// Logical sizes.
    pub dims: Dims,
    /// Elements between neighbours along each dimension.
    pub strides: Dims,
}

/// Strides of a dense array with its dimensions in this order, the slowest one first.
///
/// # Panics
/// If `order` does not name each dimension once.
pub fn strides_in_order(dims: &Dims, order: &[usize]) -> Dims {
    let (mut strides, mut step) = (Dims::from_elem(0, dims.len()), 1);
    assert_eq!(order.len(), dims.len(), "an order names every dimension");
    for &dim in order.iter().rev() {
        assert_eq!(strides[dim], 0, "an order names a dimension once");
        strides[dim] = step;
        step *= dims[dim].max(1);
    }
    strides
}

/// `strides` of elements of `size` bytes, in bytes.
pub fn byte_strides(strides: &Dims, size: usize) -> smallvec::SmallVec<[isize; 6]> {
    let bytes = strides.iter().map(|&s| s as isize * size as isize);
    bytes.collect()
}

impl Clone for RawArray {
    fn clone(&self) -> RawArray {
        RawArray {
            pointer: self.pointer,
            element_type: self.element_type,
            // `SmallVec::clone` pushes one by one.
            dims: Dims::from_slice(&self.dims),
            strides: Dims::from_slice(&self.strides),
        }
    }
}

impl RawArray {
    /// Number of elements.
    pub fn count(&self) -> usize {
        self.dims.iter().product::<i64>().max(0) as usize
    }

    /// Bytes of the elements when dense.
    pub fn byte_size(&self) -> usize {
        self.count() * self.element_type.size_bytes()
    }

    /// Whether it is dense in row-major order.
    pub fn is_row_major(&self) -> bool {
        is_row_major(&self.dims, &self.strides)
    }

    /// Row-major strides in elements for `dims`.
    pub fn row_major_strides(dims: &[i64]) -> Dims {
        row_major_strides(dims)
    }

    /// Copies every element to `destination`, which has the same sizes and element size.
    pub fn copy_to(&self, destination: &RawArray) {
        let size = self.element_type.size_bytes();
        debug_assert_eq!(self.dims, destination.dims);
        if self.count() == 0 {
            return;
        }
        let dims: smallvec::SmallVec<[usize; 6]> = self.dims.iter().map(|&d| d as usize).collect();
        // SAFETY: both arrays satisfy the promise of this type, and have the same sizes.
        unsafe {
            hlorun_kernels::copy_strided(
                size,
                &dims,
                self.pointer,
                &byte_strides(&self.strides, size),
                destination.pointer,
                &byte_strides(&destination.strides, size),
            );
        }
    }

    /// The elements in row-major order, in memory of their own.
    pub fn to_row_major(&self) -> crate::Result<AlignedBytes<u8>> {
        let order: smallvec::SmallVec<[usize; 6]> = (0..self.dims.len()).collect();
        Ok(self.in_order(&order)?.0)
    }

    /// The elements in memory of their own, where they lie dense with the dimensions in this order, the slowest one first;
    /// and the array there.
    pub fn in_order(&self, order: &[usize]) -> crate::Result<(AlignedBytes<u8>, RawArray)> {
        let mut bytes = AlignedBytes::uninitialized(self.byte_size())?;
        let copy = RawArray {
            pointer: bytes.as_mut_ptr(),
            element_type: self.element_type,
            dims: self.dims.clone(),
            strides: strides_in_order(&self.dims, order),
        };
        self.copy_to(&copy);
        // SAFETY: the copy wrote every element, and they fill the block.
        Ok((unsafe { bytes.assume_init() }, copy))
    }

    /// A row-major array over `bytes`.
    pub fn over<B>(
        bytes: &mut AlignedBytes<B>,
        element_type: PrimitiveType,
        dims: &[i64],
    ) -> RawArray {
        RawArray {
            pointer: bytes.as_mut_ptr(),
            element_type,
            dims: Dims::from_slice(dims),
            strides: row_major_strides(dims),
        }
    }

    /// The array with its dimensions in another order.
    pub fn transposed(&self, order: &[usize]) -> RawArray {
        let pick = |from: &Dims| order.iter().map(|&d| from[d]).collect();
        RawArray {
            pointer: self.pointer,
            element_type: self.element_type,
            dims: pick(&self.dims),
            strides: pick(&self.strides),
        }
    }
}
