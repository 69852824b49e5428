//! Short rows of windows, many of them at a time.
//!
//! In: results, and what is folded onto them, as rows of a few elements that lie apart. Out: the same as row by row; a call of
//! a computation for each row takes longer than to copy rows side by side.

use smallvec::SmallVec;

use super::lanes::{Folder, Row};
use super::walk::{Nest, NestDim};
use crate::buffers::AlignedBytes;
use crate::error::Result;
use crate::plan::cost::windowed::{SHORT_ROW, TOGETHER};

/// Room for rows that lie side by side.
pub struct Together {
    /// Bytes of an element of each array.
    sizes: SmallVec<[usize; 2]>,
    /// For each array, results and what is folded onto them.
    room: Vec<[AlignedBytes; 2]>,
}

impl Together {
    /// For arrays whose elements have these sizes, of which `count` are results.
    pub fn new(sizes: &[isize], count: usize) -> Result<Together> {
        let sizes: SmallVec<[usize; 2]> = sizes.iter().map(|&size| size as usize).collect();
        let block = |&size: &usize| {
            let room = || AlignedBytes::uninitialized(TOGETHER.min(count) * size);
            Ok([room()?, room()?])
        };
        let room = sizes.iter().map(block).collect::<Result<_>>()?;
        Ok(Together { sizes, room })
    }

    /// Whether rows of the nest are so short that they are copied.
    pub fn takes(nest: &Nest<2>) -> bool {
        nest.inner.0 <= SHORT_ROW && nest.rows() > 1
    }

    /// Folds what the second array of the nest names onto the first; steps are in elements.
    ///
    /// # Safety
    ///
    /// All elements that the nest names from these pointers on are there; the results are distinct, writable, and nothing
    /// that is folded.
    pub unsafe fn fold(
        &self,
        folder: &mut Folder,
        nest: &Nest<2>,
        results: &[*mut u8],
        values: &[*mut u8],
    ) {
        let mut dims: SmallVec<[NestDim<2>; 7]> = nest.outer.iter().copied().collect();
        dims.push(nest.inner);
        let (mut whole, mut n) = (dims.len(), 1);
        while whole > 0 && n * dims[whole - 1].0 <= TOGETHER {
            whole -= 1;
            n *= dims[whole].0;
        }
        let Some(cut) = whole.checked_sub(1) else {
            // SAFETY: the caller's promise.
            return unsafe { self.block(folder, &dims, results, values) };
        };
        let outer = Nest {
            outer: dims[..cut].iter().copied().collect(),
            inner: (1, [0; 2]),
            is_empty: nest.is_empty,
        };
        let (all, steps) = dims[cut];
        let most = (TOGETHER / n).max(1);
        outer.for_rows(0..outer.rows(), |[to, from]| {
            for first in (0..all).step_by(most) {
                dims[cut].0 = most.min(all - first);
                let at =
                    |arrays: &[*mut u8], offset: isize, step: isize| -> SmallVec<[*mut u8; 2]> {
                        let offset = offset + first as isize * step;
                        let arrays = arrays.iter().zip(&self.sizes);
                        arrays
                            .map(|(array, &size)| array.wrapping_offset(offset * size as isize))
                            .collect()
                    };
                let (results, values) = (at(results, to, steps[0]), at(values, from, steps[1]));
                // SAFETY: the caller's promise, of these elements.
                unsafe { self.block(folder, &dims[cut..], &results, &values) };
            }
        });
    }

    /// The same of so few elements that there is room for them.
    ///
    /// # Safety
    ///
    /// As that of [`Together::fold`].
    unsafe fn block(
        &self,
        folder: &mut Folder,
        dims: &[NestDim<2>],
        results: &[*mut u8],
        values: &[*mut u8],
    ) {
        let sizes: SmallVec<[usize; 7]> = dims.iter().map(|dim| dim.0).collect();
        let n: usize = sizes.iter().product();
        let mut dense: SmallVec<[isize; 7]> = SmallVec::from_elem(1, dims.len());
        for d in (1..dims.len()).rev() {
            dense[d - 1] = dense[d] * sizes[d] as isize;
        }
        let is_dense = |side: usize| {
            let mut all = dims.iter().zip(&dense);
            all.all(|(dim, &step)| dim.0 == 1 || dim.1[side] == step)
        };
        let are_dense = [is_dense(0), is_dense(1)];
        let bytes = |steps: &[isize], size: usize| -> SmallVec<[isize; 7]> {
            steps.iter().map(|step| step * size as isize).collect()
        };
        let lane = |array: usize, side: usize, there: *mut u8| match are_dense[side] {
            true => there,
            false => self.room[array][side].shared_ptr(),
        };
        let copy = |array: usize, side: usize, there: *mut u8, loads: bool| {
            if are_dense[side] {
                return;
            }
            let size = self.sizes[array];
            let steps: SmallVec<[isize; 7]> = dims.iter().map(|dim| dim.1[side]).collect();
            let (far, near) = (bytes(&steps, size), bytes(&dense, size));
            let here = lane(array, side, there);
            // SAFETY: the caller's promise; there is room for so many elements.
            unsafe {
                match loads {
                    true => hlorun_kernels::copy_strided(size, &sizes, there, &far, here, &near),
                    false => hlorun_kernels::copy_strided(size, &sizes, here, &near, there, &far),
                }
            }
        };
        let rows = |side: usize, arrays: &[*mut u8]| -> SmallVec<[Row; 2]> {
            let all = arrays.iter().enumerate();
            all.map(|(array, &there)| Row::dense(lane(array, side, there)))
                .collect()
        };
        for array in 0..self.sizes.len() {
            copy(array, 0, results[array], true);
            copy(array, 1, values[array], true);
        }
        // SAFETY: rows of `n` elements; the caller's promise.
        unsafe { folder.fold(&rows(0, results), &rows(1, values), n) };
        for (array, &there) in results.iter().enumerate() {
            copy(array, 0, there, false);
        }
    }
}
