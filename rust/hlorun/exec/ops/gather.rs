//! Runs `gather`: one strided copy per window, a plain copy where rows are dense.

use smallvec::SmallVec;

use super::index_map::{Starts, Windows};
use super::walk::{Nest, Shared, byte_strides, split};
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::gathers::{FEW, FINDING, GRAIN};
use crate::plan::ops::gather::GatherOp;

/// Runs `op`: operand and indices in, one array out.
pub fn run(
    op: &GatherOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let ([operand, indices], [output]) = (inputs, outputs) else {
        return Err(HloError::execution("gather takes two arrays"));
    };
    if output.count() > 0 {
        PreparedGather::new(op, operand, indices, output)?.run(environment);
    }
    Ok(())
}

/// `op` over these arrays, with all done that its runs share; `None` where it has nothing to do, fails, or keeps indices
/// from one run to the next.
pub fn prepare(op: &GatherOp, inputs: &[RawArray], outputs: &[RawArray]) -> Option<PreparedGather> {
    let ([operand, indices], [output]) = (inputs, outputs) else {
        return None;
    };
    let moves = (output.count() > 0).then(|| PreparedGather::new(op, operand, indices, output))?;
    moves
        .ok()
        .filter(|moves| moves.windows.reads_indices_anew())
}

/// The windows of a gather over given arrays.
pub struct PreparedGather {
    windows: Windows,
    /// The elements of a window: steps in the result and in the operand.
    nest: Nest<2>,
    /// Bytes of an element.
    size: usize,
    source: Shared,
    target: Shared,
}

impl PreparedGather {
    fn new(
        op: &GatherOp,
        operand: &RawArray,
        indices: &RawArray,
        output: &RawArray,
    ) -> Result<PreparedGather> {
        let starts = Starts::new(&op.map, indices)?;
        let size = operand.element_type.size_bytes();
        let source_strides = byte_strides(&operand.strides, size);
        let target_strides = byte_strides(&output.strides, size);
        let dims = op.map.window.iter();
        let window: SmallVec<[i64; 6]> = dims.clone().map(|&d| op.slice_sizes[d]).collect();
        let from: SmallVec<[isize; 6]> = dims.map(|&d| source_strides[d]).collect();
        let to: SmallVec<[isize; 6]> = op.offset_dims.iter().map(|&d| target_strides[d]).collect();
        // An empty operand has no window to read; a slice size never exceeds a dimension.
        if operand.count() == 0 {
            return Err(HloError::execution("gather from an empty operand"));
        }
        Ok(PreparedGather {
            windows: windows(op, starts, operand, [&source_strides, &target_strides])?,
            nest: Nest::by_memory(&window, [to.as_slice(), from.as_slice()]),
            size,
            source: Shared::new(operand.pointer),
            target: Shared::new(output.pointer),
        })
    }

    /// Lets operand, indices and result be at other addresses.
    pub fn move_to(&mut self, [operand, indices]: [*mut u8; 2], output: *mut u8) {
        self.windows.read_at(indices);
        (self.source, self.target) = (Shared::new(operand), Shared::new(output));
    }

    /// Copies all windows.
    pub fn run(&self, environment: &OpEnvironment<'_>) {
        let PreparedGather { windows, nest, .. } = self;
        let (size, source, target) = (self.size, self.source, self.target);
        let (element, count) = (size as isize, windows.count());
        let dense = nest.inner.1 == [element; 2] || nest.inner.0 == 1;
        if dense && nest.rows() == 1 {
            let bytes = nest.inner.0 * size;
            split(environment, count, GRAIN / (bytes + FINDING), &|range| {
                // SAFETY: starts are clamped, so that windows lie in the operand; the result's batch and
                // offset dimensions cover it without overlap.
                unsafe { runs(windows, range, bytes, source, target) };
            });
            return;
        }
        // Elements of a window lie apart, and those of neighbouring windows side by side: row by row, then.
        let side_by_side = windows.plain_step() == element && nest.rows() == 1;
        if side_by_side && count >= FEW && matches!(size, 1 | 2 | 4 | 8) {
            let (n, [to, from]) = nest.inner;
            split(environment, n, GRAIN / (count * size), &|rows| {
                // SAFETY: as above; tasks write rows of their own.
                unsafe { across(windows, count, size, (rows, to, from), source, target) };
            });
            return;
        }
        let bytes = nest.rows() * nest.inner.0 * size;
        if nest.rows() == 1 {
            split(environment, count, GRAIN / (bytes + FINDING), &|range| {
                // SAFETY: as above.
                unsafe { apart(windows, range, size, nest.inner, source, target) };
            });
            return;
        }
        split(environment, count, GRAIN / (bytes + FINDING), &|range| {
            windows.for_each::<false>(range, |from, to| {
                // SAFETY: as above.
                unsafe { copy_window(nest, size, source.at(from), target.at(to)) };
            });
        });
    }
}

/// Copies the windows `range` of `n` elements each, which lie `to` and `from` bytes apart.
///
/// # Safety
///
/// Windows lie inside both arrays, and those of the target are disjoint; `size` is that of an element.
unsafe fn apart(
    windows: &Windows,
    range: std::ops::Range<usize>,
    size: usize,
    (n, [step_to, step_from]): (usize, [isize; 2]),
    source: Shared,
    target: Shared,
) {
    by_size!(size, T => windows.for_each::<false>(range, |from, to| {
        for at in 0..n as isize {
            let (from, to) = (source.at(from + at * step_from), target.at(to + at * step_to));
            // SAFETY: by the caller's promise.
            unsafe { to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()) };
        }
    }));
}

/// Copies one window of elements of `size` bytes.
///
/// # Safety
///
/// The elements that `nest` walks lie in both arrays from the pointers on.
#[inline]
unsafe fn copy_window(nest: &Nest<2>, size: usize, from: *const u8, to: *mut u8) {
    let (n, [step_to, step_from]) = nest.inner;
    let is_dense = n == 1 || [step_to, step_from] == [size as isize; 2];
    nest.for_rows(0..nest.rows(), |[t, f]| {
        let (to, from) = (to.wrapping_offset(t), from.wrapping_offset(f));
        // SAFETY: by the caller's promise.
        unsafe {
            if is_dense {
                hlorun_kernels::copy(from, to, n * size);
            } else {
                hlorun_kernels::copy_row(size, n, from, step_from, to, step_to);
            }
        }
    });
}

/// Where windows begin in the operand and in the result, of these byte strides.
fn windows(
    op: &GatherOp,
    starts: Starts,
    operand: &RawArray,
    [source, target]: [&[isize]; 2],
) -> Result<Windows> {
    let moved = op.map.batch_steps(starts.batch.len(), source);
    if !op.map.batch_fits(&starts.batch, &operand.dims) {
        return Err(HloError::execution("gather batching dimensions differ"));
    }
    let placed: SmallVec<[isize; 6]> = op.batch_dims.iter().map(|&d| target[d]).collect();
    let components = op.map.components.iter();
    let components = components
        .map(|&d| (source[d], operand.dims[d] - op.slice_sizes[d]))
        .collect();
    Ok(Windows::new(starts, components, &moved, &placed))
}

/// Copies the windows `range`, each `bytes` side by side.
///
/// # Safety
///
/// Windows lie inside both arrays, and those of the target are disjoint.
unsafe fn runs(
    windows: &Windows,
    range: std::ops::Range<usize>,
    bytes: usize,
    source: Shared,
    target: Shared,
) {
    if matches!(bytes, 1 | 2 | 4 | 8 | 16) {
        by_size!(bytes, T => windows.for_each::<false>(range, |from, to| {
            let (from, to) = (source.at(from).cast::<T>(), target.at(to).cast::<T>());
            // SAFETY: by the caller's promise.
            unsafe { to.write_unaligned(from.read_unaligned()) };
        }));
        return;
    }
    // A call for each would take longer than the copy: its two ends, which may share bytes in the middle.
    macro_rules! ends {
        ($t:ty) => {{
            let back = (bytes - size_of::<$t>()) as isize;
            windows.for_each::<false>(range, |from, to| {
                // SAFETY: by the caller's promise; either end is as long as the window at most.
                unsafe {
                    let first = source.at(from).cast::<$t>().read_unaligned();
                    let last = source.at(from + back).cast::<$t>().read_unaligned();
                    target.at(to).cast::<$t>().write_unaligned(first);
                    target.at(to + back).cast::<$t>().write_unaligned(last);
                }
            })
        }};
    }
    match bytes {
        2..4 => ends!(u16),
        4..8 => ends!(u32),
        8..16 => ends!(u64),
        16..=32 => ends!([u64; 2]),
        33..=64 => ends!([u64; 4]),
        _ => windows.for_each::<false>(range, |from, to| {
            // SAFETY: by the caller's promise.
            unsafe { hlorun_kernels::copy(source.at(from), target.at(to), bytes) };
        }),
    }
}

/// Copies the elements `rows` of all windows, which are `to` and `from` bytes apart.
///
/// # Safety
///
/// Windows lie inside both arrays, and those of the target are disjoint; `size` is that of an element.
unsafe fn across(
    windows: &Windows,
    count: usize,
    size: usize,
    (rows, to, from): (std::ops::Range<usize>, isize, isize),
    source: Shared,
    target: Shared,
) {
    /// Windows at a time.
    const BLOCK: usize = 512;
    let mut places = [[0isize; 2]; BLOCK];
    for first in (0..count).step_by(BLOCK) {
        let mut found = 0;
        windows.for_each::<false>(first..count.min(first + BLOCK), |from, to| {
            places[found] = [to, from];
            found += 1;
        });
        by_size!(size, T => {
            for row in rows.clone() {
                let row = row as isize;
                for &[t, f] in &places[..found] {
                    let (t, f) = (target.at(t + row * to), source.at(f + row * from));
                    // SAFETY: by the caller's promise.
                    unsafe {
                        let value = f.cast::<T>().read_unaligned();
                        t.cast::<T>().write_unaligned(value);
                    }
                }
            }
        })
    }
}
