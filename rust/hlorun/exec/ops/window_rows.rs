//! Windows over rows of neighbours in memory, by vectors along the row.
//!
//! In: a `reduce-window` of one operand, whose computation is one associative and commutative
//! operation, with a window along the densest dimension that has one; elements of denser ones, such
//! as the features of an image, are blocks that stay together. Out: `true` when done here. Rows that
//! one row of outputs needs are combined first, over their whole length; then that row is combined
//! with itself, shifted. Short rows are laid one after the other, with padding between them, so that they are combined with
//! themselves as one long row. Promise: only the order of additions and products of `f32` and `f64`
//! changes.

use hlorun_kernels::Binary;
use smallvec::SmallVec;

use super::associative::Associative;
use super::walk::{Shared, byte_strides, try_split};
use crate::buffers::AlignedBytes;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::module::attributes::WindowDimension;
use crate::plan::cost::windowed::{GRAIN, LONGEST, MAX_BLOCK, MIN_TOGETHER, PIECE, TOGETHER};
use crate::plan::ops::reduce_window::ReduceWindowOp;

/// Runs `op` if it has the form.
pub fn run(
    op: &ReduceWindowOp,
    operands: &[RawArray],
    inits: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<bool> {
    let ([operand], [init], [output]) = (operands, inits, outputs) else {
        return Ok(false);
    };
    let ty = operand.element_type;
    let Some(Associative { kernel, identity }) = Associative::of(&op.combiner, ty) else {
        return Ok(false);
    };
    let Some(rows) = Rows::new(op, operand, output) else {
        return Ok(false);
    };
    let work = Work {
        rows: &rows,
        kernel,
        identity,
        init: Shared::new(init.pointer),
        size: ty.size_bytes(),
        from: Shared::new(operand.pointer),
        to: Shared::new(output.pointer),
    };
    let touched = rows.reach(rows.piece) + rows.piece;
    let per_piece = touched * (rows.positions + rows.along.size as usize) * rows.block;
    // A task has rows that go together.
    let grain = (GRAIN / per_piece.max(1)).max(rows.together);
    let count = output.count() / (rows.length * rows.block).max(1) * rows.pieces();
    try_split(environment, count, grain, &|part| work.run(part))?;
    Ok(true)
}

/// A dimension across the rows.
struct Across {
    outputs: i64,
    inputs: i64,
    window: WindowDimension,
    /// Bytes between neighbours in the operand and in the output.
    steps: [isize; 2],
}

/// How outputs lie in rows.
struct Rows {
    across: SmallVec<[Across; 5]>,
    /// The window along a row.
    along: WindowDimension,
    /// Elements of a block: those of dimensions without a window, which lie densest.
    block: usize,
    /// Blocks of inputs and of outputs of a row.
    width: usize,
    length: usize,
    /// Blocks of outputs of a row that are computed at a time.
    piece: usize,
    /// Rows that are computed at a time; 1 where a row has several pieces.
    together: usize,
    /// Rows of inputs for a row of outputs.
    positions: usize,
}

impl Rows {
    fn new(op: &ReduceWindowOp, operand: &RawArray, output: &RawArray) -> Option<Rows> {
        let windows = &op.window.0;
        let legal = |w: &WindowDimension| w.base_dilation == 1 && !w.window_reversal && w.size > 0;
        if !windows.iter().all(legal) || operand.count() == 0 {
            return None;
        }
        let (inside, block) = blocks(windows, operand, output);
        if block > MAX_BLOCK {
            return None;
        }
        let row = (0..windows.len()).find(|&d| {
            !inside.contains(&d)
                && operand.strides[d] == block
                && output.strides[d] == block
                && output.dims[d] > 1
        })?;
        let along = windows[row];
        let (width, length) = (operand.dims[row], output.dims[row]);
        let reach = (length - 1)
            .checked_mul(along.stride)?
            .checked_add((along.size - 1).checked_mul(along.window_dilation)?)?
            .checked_add(1)?;
        // Rows that are mostly padding or skipped are not worth it.
        let is_short = reach <= width.checked_mul(2)?.checked_add(4 * LONGEST)?;
        if along.size > LONGEST || along.size == 1 && along.stride == 1 || !is_short {
            return None;
        }
        let size = operand.element_type.size_bytes();
        let from = byte_strides(&operand.strides, size);
        let to = byte_strides(&output.strides, size);
        let mut positions = 1i64;
        let mut across = SmallVec::new();
        for d in (0..windows.len()).filter(|&d| d != row && !inside.contains(&d)) {
            positions = positions.checked_mul(windows[d].size)?;
            across.push(Across {
                outputs: output.dims[d],
                inputs: operand.dims[d],
                window: windows[d],
                steps: [from[d], to[d]],
            });
        }
        let piece = (PIECE / block).clamp(1, length) as usize;
        let mut rows = Rows {
            across,
            along,
            block: block as usize,
            width: width as usize,
            length: length as usize,
            piece,
            together: 1,
            positions: positions as usize,
        };
        let together = TOGETHER / (rows.pitch() * rows.block);
        if piece == length as usize && together >= MIN_TOGETHER {
            rows.together = together;
        }
        (positions <= LONGEST).then_some(rows)
    }
}

impl Rows {
    /// Pieces of a row of outputs.
    fn pieces(&self) -> usize {
        self.length.div_ceil(self.piece)
    }

    /// Blocks from the first to the last one that so many blocks of outputs read, padding included.
    fn reach(&self, outputs: usize) -> usize {
        let window = (self.along.size - 1) * self.along.window_dilation;
        (outputs - 1) * self.along.stride as usize + window as usize + 1
    }

    /// Blocks from one row to the next where rows go together: what a row reads, rounded up to whole strides.
    fn pitch(&self) -> usize {
        let reach = self.reach(self.piece);
        reach.next_multiple_of(self.along.stride as usize)
    }

    /// Blocks of outputs of so many rows that go together, of which the last has `each`. Those between rows mean nothing.
    fn outputs(&self, rows: usize, each: usize) -> usize {
        (rows - 1) * (self.pitch() / self.along.stride as usize) + each
    }

    /// Rows of every `stride`th block that a piece of outputs reads.
    fn phases(&self) -> usize {
        match self.along.stride as usize {
            1 => 0,
            stride => stride.min(self.along.size as usize * self.along.window_dilation as usize),
        }
    }

    /// Blocks of such a row.
    fn each(&self) -> usize {
        let most = self.outputs(self.together, self.piece);
        self.reach(most).div_ceil(self.along.stride as usize)
    }

    /// Where the row of inputs begins that row `at` of outputs sees at position `step` of the window.
    fn input(&self, at: &[i64], step: &[i64]) -> Option<isize> {
        let mut from = 0isize;
        for ((&i, &k), across) in at.iter().zip(step).zip(&self.across) {
            let w = &across.window;
            // What saturates is outside.
            let index = (i.saturating_mul(w.stride))
                .saturating_add(k.saturating_mul(w.window_dilation))
                .saturating_sub(w.padding_low);
            if !(0..across.inputs).contains(&index) {
                return None;
            }
            from += index as isize * across.steps[0];
        }
        Some(from)
    }
}

/// The dimensions that lie densest and have no window, and how many elements they have together.
fn blocks(
    windows: &[WindowDimension],
    operand: &RawArray,
    output: &RawArray,
) -> (SmallVec<[usize; 5]>, i64) {
    let (mut inside, mut block) = (SmallVec::new(), 1);
    while let Some(d) = (0..windows.len()).find(|&d| {
        windows[d].is_trivial()
            && !inside.contains(&d)
            && output.dims[d] > 1
            && operand.strides[d] == block
            && output.strides[d] == block
    }) {
        inside.push(d);
        block *= output.dims[d];
    }
    (inside, block)
}

struct Work<'a> {
    rows: &'a Rows,
    kernel: Binary,
    identity: [u8; 8],
    init: Shared,
    size: usize,
    from: Shared,
    to: Shared,
}

impl Work<'_> {
    /// Computes the pieces of rows of outputs `part`, which are counted in row-major order.
    fn run(&self, part: std::ops::Range<usize>) -> Result<()> {
        let rows = self.rows;
        let size = rows.block * self.size;
        let together = rows.together.min(part.len()).max(1);
        // The inputs of pieces from the first that they read on: as they lie, and every `stride`th.
        let blocks = (together - 1) * rows.pitch() + rows.reach(rows.piece);
        let mut row = AlignedBytes::uninitialized(blocks * size)?;
        let mut apart = AlignedBytes::uninitialized(rows.phases() * rows.each() * size)?;
        // Outputs of rows that go together; each row is copied from here.
        let beside = if together > 1 {
            rows.outputs(together, rows.piece)
        } else {
            0
        };
        let mut beside = AlignedBytes::uninitialized(beside * size)?;
        let sizes: SmallVec<[i64; 5]> = rows.across.iter().map(|a| a.outputs).collect();
        let windows: SmallVec<[i64; 5]> = rows.across.iter().map(|a| a.window.size).collect();
        let positions: Vec<_> = (0..rows.positions).map(|n| place(n, &windows)).collect();
        // SAFETY: the scratch was made for so many rows, and for the longest piece.
        unsafe {
            // Padding is at the same places of all rows that go together.
            if rows.together > 1 {
                self.fill(&self.identity, row.as_mut_ptr(), blocks);
            }
            let pieces = rows.pieces();
            let (pitch, next) = (rows.pitch(), rows.outputs(2, 0));
            let (mut at, mut piece) = (place(part.start / pieces, &sizes), part.start % pieces);
            for first in part.clone().step_by(together) {
                let count = together.min(part.end - first);
                let mut places: SmallVec<[(isize, usize); 8]> = SmallVec::new();
                for k in 0..count {
                    let start = piece * rows.piece;
                    let outputs = rows.piece.min(rows.length - start);
                    let steps = at.iter().zip(&rows.across);
                    let to = steps.map(|(&i, across)| i as isize * across.steps[1]);
                    places.push(((start * size) as isize + to.sum::<isize>(), outputs));
                    let row = row.as_mut_ptr().add(k * pitch * size);
                    self.across(&at, start, outputs, &positions, row);
                    piece += 1;
                    if piece == pieces {
                        piece = 0;
                        advance(&mut at, &sizes);
                    }
                }
                let [.., (to, each)] = places[..] else {
                    continue;
                };
                let outputs = rows.outputs(count, each);
                let [row, apart] = [row.as_mut_ptr(), apart.as_mut_ptr()];
                if count == 1 {
                    self.along(row, apart, outputs, self.to.at(to));
                    continue;
                }
                let beside = beside.as_mut_ptr();
                self.along(row, apart, outputs, beside);
                for (k, &(to, each)) in places.iter().enumerate() {
                    let from = beside.add(k * next * size);
                    hlorun_kernels::copy(from, self.to.at(to), each * size);
                }
            }
        }
        Ok(())
    }

    /// Folds the rows of inputs that `outputs` blocks from `start` on of row `at` read.
    ///
    /// # Safety
    ///
    /// `row` has room for the blocks that they read, which are filled in but for those outside of the operand where rows go
    /// together.
    unsafe fn across(
        &self,
        at: &[i64],
        start: usize,
        outputs: usize,
        positions: &[SmallVec<[i64; 5]>],
        row: *mut u8,
    ) {
        let rows = self.rows;
        let (block, size) = (rows.block, rows.block * self.size);
        let reach = rows.reach(outputs);
        let shift = start as i64 * rows.along.stride;
        let low = rows.along.padding_low.saturating_sub(shift);
        let first = low.clamp(-(rows.width as i64), 0).unsigned_abs() as usize;
        let before = low.clamp(0, reach as i64) as usize;
        let count = (rows.width - first).min(reach - before);
        let inside = row.wrapping_add(before * size);
        let behind = inside.wrapping_add(count * size);
        // SAFETY: `before + count` is at most `reach`. The rows of inputs lie inside the operand.
        unsafe {
            if rows.together == 1 {
                self.fill(&self.identity, row, before);
                self.fill(&self.identity, behind, reach - before - count);
            }
            let mut is_first = true;
            for step in positions {
                let Some(from) = rows.input(at, step) else {
                    continue;
                };
                let source = self.from.at(from + (first * size) as isize);
                if std::mem::take(&mut is_first) {
                    hlorun_kernels::copy(source, inside, count * size);
                } else {
                    (self.kernel)(inside, source, inside, count * block);
                }
            }
            if is_first {
                self.fill(&self.identity, inside, count);
            }
        }
    }

    /// Fills `count` blocks with one value.
    ///
    /// # Safety
    ///
    /// They are there.
    unsafe fn fill(&self, value: &[u8; 8], to: *mut u8, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { hlorun_kernels::fill(self.size, value.as_ptr(), to, count * self.rows.block) };
    }

    /// Folds the windows along `row` to `target`.
    ///
    /// # Safety
    ///
    /// `row` has the blocks that `outputs` blocks read, `apart` room for all phases, and `target` for the
    /// outputs.
    unsafe fn along(&self, row: *mut u8, apart: *mut u8, outputs: usize, target: *mut u8) {
        let rows = self.rows;
        let (block, size) = (rows.block, rows.block * self.size);
        let stride = rows.along.stride as usize;
        let each = rows.each();
        let (reach, elements) = (rows.reach(outputs), outputs * block);
        // SAFETY: each phase holds `each` blocks; outputs read as many blocks from where their window
        // stands, which end inside `reach`.
        unsafe {
            hlorun_kernels::fill(self.size, self.init.at(0), target, elements);
            for phase in 0..rows.phases() {
                let n = (reach - phase.min(reach)).div_ceil(stride);
                let from = row.wrapping_add(phase * size);
                let to = apart.wrapping_add(phase * each * size);
                let step = (stride * size) as isize;
                hlorun_kernels::copy_row(size, n, from, step, to, size as isize);
            }
            for k in 0..rows.along.size as usize {
                let offset = k * rows.along.window_dilation as usize;
                let source = if stride > 1 {
                    let at = offset % stride * each + offset / stride;
                    apart.wrapping_add(at * size)
                } else {
                    row.wrapping_add(offset * size)
                };
                (self.kernel)(target, source, target, elements);
            }
        }
    }
}

/// The index of element `n` of an array of those sizes, in row-major order.
fn place(mut n: usize, sizes: &[i64]) -> SmallVec<[i64; 5]> {
    let mut index: SmallVec<[i64; 5]> = SmallVec::from_elem(0, sizes.len());
    for (index, &size) in index.iter_mut().zip(sizes).rev() {
        *index = n as i64 % size;
        n /= size as usize;
    }
    index
}

/// The next index in row-major order; after the last one the first.
fn advance(index: &mut [i64], sizes: &[i64]) {
    for (index, &size) in index.iter_mut().zip(sizes).rev() {
        *index += 1;
        if *index < size {
            return;
        }
        *index = 0;
    }
}
