//! Lines of row-major arrays along one dimension, as the windows of `reduce-window` reach along them.

use smallvec::SmallVec;

use crate::buffers::AlignedBytes;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::plan::ops::reduce_window::ReduceWindowOp;

/// Lanes of one block at most.
pub const LANES: usize = 256;

/// Dimensions along which windows are not just the element at their place.
pub fn long(op: &ReduceWindowOp) -> SmallVec<[usize; 6]> {
    let windows = op.window.0.iter().enumerate();
    windows
        .filter(|(_, window)| !window.is_trivial())
        .map(|(d, _)| d)
        .collect()
}

/// Lines along `dim` of a row-major array, grouped into lanes.
pub struct Lines {
    /// Elements between neighbours of a line.
    pub step: usize,
    /// Elements of the dimensions before, and of those behind.
    pub outer: usize,
    pub inner: usize,
    /// Elements of a line.
    pub length: usize,
    /// Whether lanes go along the dimensions before.
    pub across_outer: bool,
}

/// A group of lines: where they start and how far they are apart.
pub struct Group {
    pub start: usize,
    pub lanes: usize,
    pub lane_step: usize,
}

impl Lines {
    pub fn new(dims: &[i64], dim: usize) -> Lines {
        let product = |part: &[i64]| part.iter().product::<i64>() as usize;
        let (outer, inner) = (product(&dims[..dim]), product(&dims[dim + 1..]));
        Lines {
            step: inner,
            outer,
            inner,
            length: dims[dim] as usize,
            across_outer: inner < 16 && outer > inner,
        }
    }

    /// Groups per index of the dimension that is not walked by lanes, and how many of those.
    fn shape(&self) -> (usize, usize) {
        let (lanes, others) = if self.across_outer {
            (self.outer, self.inner)
        } else {
            (self.inner, self.outer)
        };
        (lanes.div_ceil(LANES), others)
    }

    pub fn count(&self) -> usize {
        let (blocks, others) = self.shape();
        blocks * others
    }

    pub fn group(&self, n: usize) -> Group {
        let (blocks, _) = self.shape();
        let (other, first) = (n / blocks, n % blocks * LANES);
        let line = self.length * self.inner;
        if self.across_outer {
            Group {
                start: first * line + other,
                lanes: LANES.min(self.outer - first),
                lane_step: line,
            }
        } else {
            Group {
                start: other * line + first,
                lanes: LANES.min(self.inner - first),
                lane_step: 1,
            }
        }
    }

    /// Copies the group's lines between the array and a block `[length][lanes]`.
    ///
    /// # Safety
    ///
    /// `array` is the whole array, `block` holds the block.
    pub unsafe fn copy(&self, n: usize, size: usize, array: *mut u8, block: *mut u8, load: bool) {
        let group = self.group(n);
        let there = array.wrapping_add(group.start * size);
        let far = [
            (self.step * size) as isize,
            (group.lane_step * size) as isize,
        ];
        let near = [(group.lanes * size) as isize, size as isize];
        let dims = [self.length, group.lanes];
        // SAFETY: by the caller's promise.
        unsafe {
            if load {
                hlorun_kernels::copy_strided(size, &dims, there, &far, block, &near);
            } else {
                hlorun_kernels::copy_strided(size, &dims, block, &near, there, &far);
            }
        }
    }
}

/// The array if it is row-major, otherwise a copy that is, with its memory.
pub fn dense(array: &RawArray) -> Result<(Option<AlignedBytes<u8>>, RawArray)> {
    if array.is_row_major() {
        return Ok((None, array.clone()));
    }
    let mut bytes = array.to_row_major()?;
    let view = RawArray::over(&mut bytes, array.element_type, &array.dims);
    Ok((Some(bytes), view))
}
