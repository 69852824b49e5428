//! Convolutions whose groups have one input and one output feature each, with features side by side in
//! memory: a vector is a sum of neighbouring features.
//!
//! In: a convolution in `f32` or `f64`, of arrays of its type. Out: `true` when done here. Outputs of a row that see
//! inputs at the same positions of the window are one segment, so no input is padded. Promise: an element is one sum over
//! positions of the window, whatever thread computes it.

use hlorun_kernels::{Scratch, WeightedLanes, WeightedLanesKernel, weighted_lanes};
use smallvec::SmallVec;

use super::im2col::Geometry;
use super::pack_kernel::pack_kernel;
use super::walk::{Shared, byte_strides, try_split};
use super::weighted_rows::{OuterPositions, Segment, outer_positions, segments, step_between};
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::narrow_convolution::{GRAIN, MAX_STEP};
use crate::plan::element::elementwise::dtype;
use crate::plan::ops::convolution::ConvolutionOp;

/// Runs `op` in `f32` or `f64`, if it is one of these.
pub fn run(
    op: &ConvolutionOp,
    geometry: &Geometry,
    kernel: &RawArray,
    input: &RawArray,
    output: &RawArray,
    environment: &OpEnvironment<'_>,
) -> Result<bool> {
    let columns = output.dims[op.output.feature] as usize;
    let groups = op.feature_group_count;
    let is_side_by_side = input.strides[op.input.feature] == 1;
    if groups == 1 || geometry.features > 1 || columns > groups || !is_side_by_side {
        return Ok(false);
    }
    let Some(sum) = dtype(input.element_type).and_then(weighted_lanes) else {
        return Ok(false);
    };
    let step = step_between(geometry);
    if step > MAX_STEP {
        return Ok(false);
    }
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
        segments: segments(geometry, step),
        from: byte_strides(&input.strides, size),
        to: byte_strides(&output.strides, size),
        columns,
    };
    let outer: usize = geometry.outputs[..last].iter().product();
    let pieces = output.dims[op.output.outer] as usize * outer * job.segments.len();
    let longest = job.segments.iter().map(|segment| segment.count).max();
    let room = match job.is_in_place() {
        true => 0,
        false => longest.unwrap_or(0) * columns * size,
    };
    let work = (inner * columns * geometry.positions_in_window()).max(1);
    let grain = (GRAIN / work).max(1).saturating_mul(job.segments.len());
    // A row of more work than that is cut, too.
    let grain = if work > GRAIN {
        grain.div_ceil(work / GRAIN)
    } else {
        grain
    };
    try_split(environment, pieces, grain, &|range| {
        let mut scratch = Scratch::new::<u8>(room)?;
        job.pieces(range, scratch.get());
        Ok(())
    })?;
    Ok(true)
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
}

impl Rows<'_> {
    /// Whether features lie side by side in the output, too.
    fn is_in_place(&self) -> bool {
        self.to[self.op.output.feature] == self.size as isize
    }

    /// Computes segments, numbered row by row; `room` holds one that cannot be written where it belongs.
    fn pieces(&self, range: std::ops::Range<usize>, room: *mut u8) {
        let (mut positions, mut terms) = (OuterPositions::new(), Terms::new());
        let mut current = None;
        for piece in range {
            let (row, at) = (piece / self.segments.len(), piece % self.segments.len());
            let target = match current {
                Some((known, target)) if known == row => target,
                _ => self.row(row, &mut positions),
            };
            current = Some((row, target));
            self.segment(&self.segments[at], &positions, &mut terms, (target, room));
        }
    }

    /// Where a row of outputs begins; finds the positions of the window that it sees.
    fn row(&self, row: usize, positions: &mut OuterPositions) -> *mut u8 {
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
        outer_positions(op, geometry, (&index, image), &self.from, positions);
        self.output.at(at)
    }

    /// Computes one segment of the row at `target`.
    fn segment(
        &self,
        segment: &Segment,
        positions: &OuterPositions,
        terms: &mut Terms,
        (target, room): (*mut u8, *mut u8),
    ) {
        let size = self.size as isize;
        let along = self.op.input.spatial.last().map_or(0, |&d| self.from[d]);
        let width = self.geometry.spans.last().map_or(1, Vec::len);
        terms.clear();
        for &(outer, byte) in positions {
            for (position, input) in segment.positions(self.geometry) {
                let weights = (outer * width + position) * self.columns * self.size;
                terms.push((
                    self.input.at(byte + input as isize * along).cast_const(),
                    self.weights.at(weights as isize).cast_const(),
                ));
            }
        }
        let row = self.op.output.spatial.last().map_or(0, |&d| self.to[d]);
        let target = target.wrapping_offset(segment.first as isize * row);
        // Bytes from an output to the next; a single one has none.
        let step = match segment.count {
            1 => 0,
            _ => segment.step as isize * row,
        };
        let dense = self.columns as isize * size;
        let (to, to_step) = match self.is_in_place() {
            true => (target, step),
            false => (room, dense),
        };
        let job = WeightedLanes {
            terms,
            lanes: self.columns,
            count: segment.count,
            input_step: segment.input_step as isize * along / size,
            to,
            to_step: to_step / size,
        };
        // SAFETY: spans name inputs inside the array and outputs of the row; every position has a weight for each
        // feature, and features lie side by side. The room holds the longest segment, and is written to the outputs that
        // the segment names.
        unsafe {
            (self.sum)(&job);
            if !self.is_in_place() {
                hlorun_kernels::copy_strided(
                    self.size,
                    &[segment.count, self.columns],
                    room,
                    &[dense, size],
                    target,
                    &[step, self.to[self.op.output.feature]],
                );
            }
        }
    }
}
