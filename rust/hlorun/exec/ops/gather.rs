//! Runs `gather`: a plain or strided copy per window, or element by element of all.

use std::ops::Range;

use smallvec::SmallVec;

use super::index_map::{BLOCK, Starts, Windows};
use super::walk::{Nest, Shared, byte_strides, split};
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::gathers::{FEW, FINDING, GRAIN, SPREAD};
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
    /// The same with rows of elements that lie side by side in both.
    parts: Nest<2>,
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
        let nest = Nest::by_memory(&window, [to.as_slice(), from.as_slice()]);
        Ok(PreparedGather {
            windows: windows(op, starts, operand, [&source_strides, &target_strides])?,
            parts: nest.clone().dense_rows(size),
            nest,
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
        let PreparedGather {
            windows,
            nest,
            parts,
            ..
        } = self;
        let (size, source, target) = (self.size, self.source, self.target);
        let (element, count) = (size as isize, windows.count());
        let (n, rows) = (parts.inner.0, parts.rows());
        if rows == 1 {
            let bytes = n * size;
            split(environment, count, GRAIN / (bytes + FINDING), &|range| {
                // SAFETY: starts are clamped, so that windows lie in the operand; the result's batch and
                // offset dimensions cover it without overlap.
                unsafe { runs(windows, range, bytes, source, target) };
            });
            return;
        }
        // Elements of a window lie apart: one of all windows is copied before the next one of any, where windows are many, and
        // neighbours are written side by side or short windows stay in the cache.
        let are_neighbours = windows.plain_step() == element;
        let is_across = count >= FEW && (are_neighbours || rows * size <= SPREAD);
        if n == 1 && matches!(size, 1 | 2 | 4 | 8 | 16) && is_across {
            let across = |range, own| {
                // SAFETY: as above; tasks write windows, or elements of them, of their own.
                unsafe { across(windows, range, size, (parts, own), source, target) };
            };
            if are_neighbours {
                split(environment, rows, GRAIN / (count * size), &|own| {
                    across(0..count, own);
                });
            } else {
                let grain = GRAIN / (rows * size + FINDING);
                split(environment, count, grain, &|range| across(range, 0..rows));
            }
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
    range: Range<usize>,
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
    range: Range<usize>,
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

/// Copies the elements `own` of the windows `range`: each of all windows, some at a time, before the next one of any.
///
/// # Safety
///
/// Windows lie inside both arrays, and those of the target are disjoint; `size` is that of an element.
unsafe fn across(
    windows: &Windows,
    range: Range<usize>,
    size: usize,
    (elements, own): (&Nest<2>, Range<usize>),
    source: Shared,
    target: Shared,
) {
    if windows.are_one_row() {
        let step = windows.plain_step();
        by_size!(size, T => windows.for_each_block::<false>(range, |places, first, _| {
            elements.for_rows(own.clone(), |[to, from]| {
                // SAFETY: by the caller's promise.
                unsafe { copy_to_row::<T>(source.at(from), places, target.at(first + to), step) };
            });
        }));
        return;
    }
    let room = SmallVec::<[isize; BLOCK]>::from_elem(0, range.len().min(BLOCK));
    let (mut targets, mut sources) = (room.clone(), room);
    for first in range.clone().step_by(BLOCK) {
        let block = first..range.end.min(first + BLOCK);
        let (targets, sources) = (&mut targets[..block.len()], &mut sources[..block.len()]);
        let mut found = 0;
        windows.for_each::<false>(block, |from, to| {
            (targets[found], sources[found]) = (to, from);
            found += 1;
        });
        by_size!(size, T => elements.for_rows(own.clone(), |[to, from]| {
            let (to, from) = (target.at(to), source.at(from));
            // SAFETY: by the caller's promise.
            unsafe { copy_listed::<T>([from, to], [sources, targets]) };
        }));
    }
}

/// Copies the elements at `places`, in bytes from `from` on, to such that begin at `to` and are `step` bytes apart.
///
/// # Safety
///
/// All of them lie in their arrays.
#[inline(always)]
unsafe fn copy_to_row<T: Copy>(from: *const u8, places: &[isize], mut to: *mut u8, step: isize) {
    for &place in places {
        // SAFETY: by the caller's promise.
        unsafe {
            let value = from.offset(place).cast::<T>().read_unaligned();
            to.cast::<T>().write_unaligned(value);
        }
        to = to.wrapping_offset(step);
    }
}

/// Copies the elements at `sources`, in bytes from `from` on, to `targets` from `to` on.
///
/// # Safety
///
/// All of them lie in their arrays.
#[inline(always)]
unsafe fn copy_listed<T: Copy>([from, to]: [*mut u8; 2], [sources, targets]: [&[isize]; 2]) {
    for (&source, &target) in sources.iter().zip(targets) {
        // SAFETY: by the caller's promise.
        unsafe {
            let value = from.offset(source).cast::<T>().read_unaligned();
            to.offset(target).cast::<T>().write_unaligned(value);
        }
    }
}
