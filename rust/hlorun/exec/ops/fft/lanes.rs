//! Lines that are transformed together, one in each lane of the vectors.
//!
//! In: lines side by side, or one after the other. Out: their transforms. Promise: how the work is cut depends on the sizes
//! and the vectors of the CPU alone.

use hlorun_kernels::fft::{Component, LaneFft, Lines};
use num_complex::Complex;

use crate::buffers::{filled, with_room};
use crate::error::Result;
use crate::exec::ops::walk::{Shared, try_split};
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::transforms::GRAIN;

/// Columns of several blocks of memory.
pub struct Columns {
    /// Blocks, one after the other.
    pub blocks: usize,
    /// Elements of a column, and columns of a block, which lie side by side.
    pub length: usize,
    pub count: usize,
}

impl Columns {
    /// Transforms the columns of `data` in place.
    pub fn run<T: Component + Default>(
        &self,
        fft: &LaneFft<T>,
        data: Shared,
        is_inverse: bool,
        environment: &OpEnvironment<'_>,
    ) -> Result<()> {
        let (lanes, count) = (fft.lanes(), self.count);
        let strips = count.div_ceil(lanes);
        let grain = GRAIN / self.length / lanes.min(count);
        try_split(environment, self.blocks * strips, grain, &|range| {
            let mut scratch = with_room::<T>(fft.scratch())?;
            for strip in range {
                let first = strip % strips * lanes;
                let start = strip / strips * self.length * count + first;
                let at = data
                    .get()
                    .cast::<Complex<T>>()
                    .wrapping_add(start)
                    .cast::<T>();
                let lines = Lines {
                    from: at,
                    from_step: count,
                    to: at,
                    to_step: count,
                    count: lanes.min(count - first),
                    length: self.length,
                    is_inverse,
                    scale: None,
                };
                // SAFETY: the columns are in the data, and only this task touches them.
                unsafe { fft.run(&lines, scratch.spare_capacity_mut()) };
            }
            Ok(())
        })
    }
}

/// Rows, one after the other.
pub struct Rows<T> {
    /// How many.
    pub count: usize,
    /// Elements of each.
    pub length: usize,
    /// What the results are multiplied by.
    pub scale: Option<T>,
}

impl<T: Component + Default> Rows<T> {
    /// Transforms the rows of `source` into those of `target`.
    pub fn run(
        &self,
        fft: &LaneFft<T>,
        [source, target]: [Shared; 2],
        is_inverse: bool,
        environment: &OpEnvironment<'_>,
    ) -> Result<()> {
        let (lanes, length) = (fft.lanes(), self.length);
        let groups = self.count.div_ceil(lanes);
        try_split(environment, groups, GRAIN / length / lanes, &|range| {
            let mut scratch = with_room::<T>(fft.scratch())?;
            let mut turned: Vec<Complex<T>> = filled(Complex::default(), lanes * length)?;
            for group in range {
                let first = group * lanes;
                let n = lanes.min(self.count - first);
                let size = size_of::<Complex<T>>() as isize;
                let (by_row, by_column) =
                    ([length as isize * size, size], [size, n as isize * size]);
                let place = |data: Shared| {
                    data.get()
                        .cast::<Complex<T>>()
                        .wrapping_add(first * length)
                        .cast::<u8>()
                };
                let columns = turned.as_mut_ptr();
                let lines = Lines {
                    from: columns.cast_const().cast::<T>(),
                    from_step: n,
                    to: columns.cast::<T>(),
                    to_step: n,
                    count: n,
                    length,
                    is_inverse,
                    scale: self.scale,
                };
                let (sizes, columns) = ([n, length], columns.cast::<u8>());
                // SAFETY: `n` rows of the source, as many of the target, which only this task touches, and room for them.
                unsafe {
                    let (from, to) = (place(source), place(target));
                    hlorun_kernels::copy_strided(
                        size as usize,
                        &sizes,
                        from,
                        &by_row,
                        columns,
                        &by_column,
                    );
                    fft.run(&lines, scratch.spare_capacity_mut());
                    hlorun_kernels::copy_strided(
                        size as usize,
                        &sizes,
                        columns,
                        &by_column,
                        to,
                        &by_row,
                    );
                }
            }
            Ok(())
        })
    }
}
