//! Convolutions whose groups have one input and one output feature each, with features side by side in
//! memory: a vector is a sum of neighbouring features.
//!
//! In: a convolution in `f32` or `f64`, of arrays of its type, and its epilogue. Out: `None` where it is not one of these,
//! otherwise whether the epilogue is applied. Outputs of a row that see inputs at the same positions of the window are one segment, so no input is padded.
//! Promise: an element is one sum over positions of the window, whatever thread computes it.

use std::ops::Range;

use hlorun_kernels::{Epilogue, Scratch, WeightedLanes, WeightedLanesKernel, weighted_lanes};
use smallvec::SmallVec;

use super::im2col::Geometry;
use super::indirect::Arrays;
use super::pack_kernel::pack_kernel;
use super::walk::{Shared, byte_strides, try_split};
use super::weighted_rows::{OuterPositions, Segment, outer_positions, segments, step_between};
use crate::buffers::reserve;
use crate::error::Result;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::narrow_convolution::{CHECKED, GRAIN, MAX_STEP, ROOM_BYTES};
use crate::plan::element::elementwise::dtype;
use crate::plan::ops::convolution::ConvolutionOp;

/// Runs `op` in `f32` or `f64`, if it is one of these: returns whether its epilogue is applied.
pub fn run(
    op: &ConvolutionOp,
    geometry: &Geometry,
    arrays: &Arrays<'_>,
    environment: &OpEnvironment<'_>,
) -> Result<Option<bool>> {
    let &Arrays {
        input,
        kernel,
        output,
        epilogue,
        ..
    } = arrays;
    if !op.is_depthwise(arrays.strided()) {
        return Ok(None);
    }
    let Some(sum) = dtype(input.element_type).and_then(weighted_lanes) else {
        return Ok(None);
    };
    if step_between(geometry) > MAX_STEP {
        return Ok(None);
    }
    let columns = output.dims[op.output.feature] as usize;
    // By window position, all features together.
    let weights = pack_kernel(op, kernel, 1, false)?;
    let size = input.element_type.size_bytes();
    let last = geometry.outputs.len() - 1;
    let inner = geometry.outputs[last];
    let job = Rows {
        op,
        geometry,
        sum,
        size,
        weights: weights.pointer(),
        input: Shared::new(input.pointer),
        output: Shared::new(output.pointer),
        segments: segments(geometry, environment)?,
        from: byte_strides(&input.strides, size),
        to: byte_strides(&output.strides, size),
        columns,
        epilogue,
    };
    let outer: usize = geometry.outputs[..last].iter().product();
    let pieces = output.dims[op.output.outer] as usize * outer * job.segments.len();
    let longest = job.segments.iter().map(|segment| segment.count).max();
    let room = match job.is_in_place() {
        true => 0,
        false => longest.unwrap_or(0).min(job.most_moved()) * columns * size,
    };
    let work = (inner * columns * geometry.positions_in_window()).max(1);
    let grain = (GRAIN / work).max(1).saturating_mul(job.segments.len());
    // A row of more work than that is shared, too, by its segments.
    let grain = if work > GRAIN {
        grain.div_ceil(work / GRAIN)
    } else {
        grain
    };
    try_split(environment, pieces, grain, &|range| {
        let mut scratch = Scratch::new::<u8>(room)?;
        job.pieces(range, scratch.get(), environment)
    })?;
    Ok(Some(job.is_in_place()))
}

/// Inputs and weights of every position of a window.
type Terms = Vec<(*const u8, *const u8)>;

/// The output row by row, all features of a row together.
struct Rows<'a> {
    op: &'a ConvolutionOp,
    geometry: &'a Geometry,
    sum: WeightedLanesKernel,
    size: usize,
    weights: Shared,
    input: Shared,
    output: Shared,
    segments: Vec<Segment>,
    /// Bytes between inputs and between outputs, by dimension.
    from: SmallVec<[isize; 6]>,
    to: SmallVec<[isize; 6]>,
    /// Features.
    columns: usize,
    /// Done where outputs are rows of as many columns, one after the other.
    epilogue: &'a Epilogue,
}

impl Rows<'_> {
    /// Whether features lie side by side in the output, too.
    fn is_in_place(&self) -> bool {
        self.to[self.op.output.feature] == self.size as isize
    }

    /// Most outputs that are moved at a time, where features do not.
    fn most_moved(&self) -> usize {
        (ROOM_BYTES / (self.columns * self.size)).max(1)
    }

    /// Computes segments, numbered row by row; `room` is for outputs that cannot be written where they belong.
    fn pieces(
        &self,
        range: Range<usize>,
        room: *mut u8,
        environment: &OpEnvironment<'_>,
    ) -> Result<()> {
        // Multiplications since the last look at whether the run is to end.
        let mut unchecked = 0;
        let (mut positions, mut terms) = (OuterPositions::new(), Terms::new());
        let mut current = None;
        for piece in range {
            let (row, at) = (piece / self.segments.len(), piece % self.segments.len());
            let target = match current {
                Some((known, target)) if known == row => target,
                _ => self.row(row, &mut positions)?,
            };
            current = Some((row, target));
            let segment = &self.segments[at];
            self.find_terms(segment, &positions, &mut terms)?;
            // Parts of a segment, so that none takes long, nor more than the room.
            let work = (terms.len() + 1) * self.columns;
            let mut most = (CHECKED / work).max(1);
            if !self.is_in_place() {
                most = most.min(self.most_moved());
            }
            for first in (0..segment.count).step_by(most) {
                let part = first..segment.count.min(first + most);
                unchecked += work * part.len();
                if unchecked > CHECKED {
                    unchecked = 0;
                    environment.check();
                }
                self.part(segment, part, &mut terms, (target, room));
            }
        }
        Ok(())
    }

    /// Where a row of outputs begins; finds the positions of the window that it sees.
    fn row(&self, row: usize, positions: &mut OuterPositions) -> Result<*mut u8> {
        let (op, geometry) = (self.op, self.geometry);
        let outer = geometry.outputs.len() - 1;
        let mut index: SmallVec<[i64; 3]> = SmallVec::from_elem(0, outer);
        let mut rest = row;
        let mut at = 0isize;
        for d in (0..outer).rev() {
            index[d] = (rest % geometry.outputs[d]) as i64;
            rest /= geometry.outputs[d];
            at += index[d] as isize * self.to[op.output.spatial[d]];
        }
        at += rest as isize * self.to[op.output.outer];
        let image = rest as isize * self.from[op.input.outer];
        outer_positions(op, geometry, (&index, image), &self.from, positions)?;
        Ok(self.output.at(at))
    }

    /// Lists what the first output of a segment sees.
    fn find_terms(
        &self,
        segment: &Segment,
        positions: &OuterPositions,
        terms: &mut Terms,
    ) -> Result<()> {
        let along = self.along_input();
        let width = self.geometry.width();
        terms.clear();
        for &(outer, byte) in positions {
            let seen = segment.positions(self.geometry);
            reserve(terms, seen.len())?;
            terms.extend(seen.map(|(position, input)| {
                let weights = (outer * width + position) * self.columns * self.size;
                (
                    self.input.at(byte + input as isize * along).cast_const(),
                    self.weights.at(weights as isize).cast_const(),
                )
            }));
        }
        Ok(())
    }

    /// Bytes between inputs along a row.
    fn along_input(&self) -> isize {
        self.op.input.spatial.last().map_or(0, |&d| self.from[d])
    }

    /// Computes outputs `part` of a segment of the row at `target`; moves `terms` on to what the output behind them sees.
    fn part(
        &self,
        segment: &Segment,
        part: Range<usize>,
        terms: &mut Terms,
        (target, room): (*mut u8, *mut u8),
    ) {
        let size = self.size as isize;
        let row = self.op.output.spatial.last().map_or(0, |&d| self.to[d]);
        let first = segment.first + part.start * segment.step;
        let target = target.wrapping_offset(first as isize * row);
        // Bytes from an output to the next; a single one has none.
        let (step, input_step) = match segment.count {
            1 => (0, 0),
            _ => (
                segment.step as isize * row,
                segment.input_step as isize * self.along_input(),
            ),
        };
        let dense = self.columns as isize * size;
        // Results with an epilogue are dense: rows are numbered as they lie.
        let (to, to_step, epilogue) = match self.is_in_place() {
            true => (target, step, self.epilogue),
            false => (room, dense, Epilogue::none()),
        };
        let before = target.addr().wrapping_sub(self.output.at(0).addr());
        debug_assert!(
            epilogue.is_empty()
                || (before.is_multiple_of(dense.unsigned_abs()) && step % dense == 0)
        );
        let job = WeightedLanes {
            terms,
            lanes: self.columns,
            count: part.len(),
            input_step: input_step / size,
            to,
            to_step: to_step / size,
            epilogue,
            row: before / dense.unsigned_abs(),
            row_step: (step / dense).unsigned_abs().max(1),
        };
        // SAFETY: spans name inputs inside the array and outputs of the row; every position has a weight for each
        // feature, and features lie side by side. The room holds the part, and is written to the outputs that it names.
        unsafe {
            (self.sum)(&job);
            if !self.is_in_place() {
                hlorun_kernels::copy_strided(
                    self.size,
                    &[part.len(), self.columns],
                    room,
                    &[dense, size],
                    target,
                    &[step, self.to[self.op.output.feature]],
                );
            }
        }
        if part.end < segment.count {
            for (inputs, _) in terms {
                *inputs = inputs.wrapping_offset(part.len() as isize * input_step);
            }
        }
    }
}
