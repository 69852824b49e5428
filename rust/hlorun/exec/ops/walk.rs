//! Walks over several strided arrays at once, and pointers that tasks share.

use smallvec::SmallVec;

use crate::error::Result;
use crate::exec::array::RawArray;
pub use crate::exec::array::byte_strides;

/// A pointer that tasks may share; each touches only its own part.
#[derive(Clone, Copy)]
pub struct Shared(*mut u8);

// SAFETY: users hand disjoint parts to their tasks, or only read.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Shares `pointer`.
    pub fn new(pointer: *mut u8) -> Shared {
        Shared(pointer)
    }

    /// The pointer.
    pub fn get(self) -> *mut u8 {
        self.0
    }

    /// The pointer `bytes` further; never read outside its array by the user's promise.
    pub fn at(self, bytes: isize) -> *mut u8 {
        self.0.wrapping_offset(bytes)
    }
}

/// An array that tasks may share; each touches only its own part.
pub struct SharedArray(RawArray);

// SAFETY: users hand disjoint parts to their tasks, or only read.
unsafe impl Send for SharedArray {}
// SAFETY: as above.
unsafe impl Sync for SharedArray {}

impl SharedArray {
    /// Shares `array`.
    pub fn new(array: &RawArray) -> SharedArray {
        SharedArray(array.clone())
    }

    /// The array.
    pub fn get(&self) -> &RawArray {
        &self.0
    }
}

/// One dimension of a nest: its size and the step of every array, in bytes.
pub type NestDim<const K: usize> = (usize, [isize; K]);

/// Loops over `K` arrays of equal sizes; unit dimensions are gone and neighbours merged.
#[derive(Clone, Debug)]
pub struct Nest<const K: usize> {
    /// Outer dimensions, outermost first.
    pub outer: SmallVec<[NestDim<K>; 6]>,
    /// The innermost one; size 1 with zero steps for a scalar.
    pub inner: NestDim<K>,
    /// Some dimension is zero.
    pub is_empty: bool,
}

fn pairs<const K: usize>(dims: &[i64], strides: [&[isize]; K]) -> SmallVec<[NestDim<K>; 6]> {
    let sizes = dims.iter().enumerate();
    sizes
        .map(|(i, &size)| (size.max(0) as usize, strides.map(|s| s[i])))
        .collect()
}

impl<const K: usize> Nest<K> {
    /// Over `dims` with the byte strides `strides` of every array, in the order given.
    pub fn in_order(dims: &[i64], strides: [&[isize]; K]) -> Nest<K> {
        Nest::merge(pairs(dims, strides))
    }

    /// The same with a row for every element.
    pub fn by_element(dims: &[i64], strides: [&[isize]; K]) -> Nest<K> {
        let outer = pairs(dims, strides);
        Nest {
            is_empty: outer.iter().any(|dim| dim.0 == 0),
            outer,
            inner: (1, [0; K]),
        }
    }

    /// The same in the order of the first array's memory, fastest innermost; for walks whose order
    /// does not matter.
    pub fn by_memory(dims: &[i64], strides: [&[isize]; K]) -> Nest<K> {
        let mut all = pairs(dims, strides);
        all.sort_by_key(|dim| std::cmp::Reverse(dim.1.map(isize::unsigned_abs)));
        Nest::merge(all)
    }

    fn merge(all: SmallVec<[NestDim<K>; 6]>) -> Nest<K> {
        let is_empty = all.iter().any(|dim| dim.0 == 0);
        let mut outer: SmallVec<[NestDim<K>; 6]> = SmallVec::new();
        for (size, steps) in all {
            if size == 1 {
                continue;
            }
            match outer.last_mut() {
                Some(last) if (0..K).all(|k| last.1[k] == steps[k].wrapping_mul(size as isize)) => {
                    *last = (last.0 * size, steps);
                }
                _ => outer.push((size, steps)),
            }
        }
        let inner = outer.pop().unwrap_or((1, [0; K]));
        Nest {
            outer,
            inner,
            is_empty,
        }
    }

    /// The same with rows whose elements, of `size` bytes, lie side by side in all arrays: where those of the innermost rows do
    /// not, every element is a row.
    pub fn dense_rows(mut self, size: usize) -> Nest<K> {
        let dense = [size as isize; K];
        if self.inner.0 > 1 && self.inner.1 != dense {
            self.outer.push(self.inner);
            self.inner.0 = 1;
        }
        self.inner.1 = dense;
        self
    }

    /// Number of inner rows.
    pub fn rows(&self) -> usize {
        if self.is_empty {
            0
        } else {
            self.outer.iter().map(|dim| dim.0).product()
        }
    }

    /// Calls `f` with the byte offsets of the rows `range` in order.
    pub fn for_rows(&self, range: std::ops::Range<usize>, mut f: impl FnMut([isize; K])) {
        if range.is_empty() || self.is_empty {
            return;
        }
        let rank = self.outer.len();
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, rank);
        let mut offsets = [0isize; K];
        let mut rest = range.start;
        for axis in (0..rank).rev() {
            let (size, steps) = self.outer[axis];
            index[axis] = rest % size;
            rest /= size;
            for k in 0..K {
                offsets[k] += steps[k] * index[axis] as isize;
            }
        }
        for row in range.clone() {
            f(offsets);
            if row + 1 == range.end {
                break;
            }
            for axis in (0..rank).rev() {
                let (size, steps) = self.outer[axis];
                index[axis] += 1;
                let wraps = index[axis] == size;
                let times = if wraps { 1 - size as isize } else { 1 };
                for k in 0..K {
                    offsets[k] += steps[k] * times;
                }
                if !wraps {
                    break;
                }
                index[axis] = 0;
            }
        }
    }
}

/// Cuts `count` things into tasks of at least `grain`; the cut depends on nothing else, so results
/// that depend on it are the same for every number of threads. Calls `task(range)`.
pub fn split(
    environment: &crate::exec::parallel::OpEnvironment<'_>,
    count: usize,
    grain: usize,
    task: &(dyn Fn(std::ops::Range<usize>) + Sync),
) {
    /// More tasks than any machine wants.
    const MOST: usize = 256;
    let tasks = (count / grain.max(1)).clamp(1, MOST);
    if tasks == 1 {
        task(0..count);
        return;
    }
    let cut = |t: usize| (count as u128 * t as u128 / tasks as u128) as usize;
    (environment.parallel)(tasks, &|t| task(cut(t)..cut(t + 1)));
}

/// [`split`] of tasks that can fail; the error is that of one of them.
pub fn try_split(
    environment: &crate::exec::parallel::OpEnvironment<'_>,
    count: usize,
    grain: usize,
    task: &(dyn Fn(std::ops::Range<usize>) -> Result<()> + Sync),
) -> Result<()> {
    let failed = std::sync::Mutex::new(None);
    split(environment, count, grain, &|range| {
        if let Err(error) = task(range) {
            let mut failed = failed
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            failed.get_or_insert(error);
        }
    });
    let failed = failed
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_cover_every_element_once() {
        let strides: [&[isize]; 1] = [&[4, 1, 20]];
        let nest = Nest::in_order(&[5, 4, 3], strides);
        assert_eq!(nest.inner.0, 3);
        let mut seen = Vec::new();
        for start in 0..nest.rows() {
            nest.for_rows(start..start + 1, |[at]| {
                (0..nest.inner.0).for_each(|i| seen.push(at + nest.inner.1[0] * i as isize));
            });
        }
        let mut whole = Vec::new();
        nest.for_rows(0..nest.rows(), |[at]| {
            (0..nest.inner.0).for_each(|i| whole.push(at + nest.inner.1[0] * i as isize));
        });
        assert_eq!(seen, whole);
        whole.sort_unstable();
        assert_eq!(whole, (0..60).collect::<Vec<_>>());
    }

    #[test]
    fn memory_order_merges_a_transposed_dense_array() {
        let strides: [&[isize]; 1] = [&[4, 20, 1]];
        let nest = Nest::by_memory(&[5, 3, 4], strides);
        assert_eq!((nest.outer.len(), nest.inner), (0, (60, [1])));
        assert!(Nest::in_order(&[5, 0, 4], strides).is_empty);
    }
}
