//! Convolutions of few output features per group, row by row of outputs: a row is a weighted sum of rows of inputs.
//!
//! In: a convolution in `f32` or `f64`, of arrays of its type. Out: `true` when done here. Outputs of a row that see
//! inputs at the same positions of the window are one segment, so no input is padded. Promise: an element is one sum over
//! features and positions of the window, whatever thread computes it.

use std::ops::Range;

use hlorun_kernels::{WeightedRows, weighted_rows};
use smallvec::SmallVec;

use super::im2col::Geometry;
use super::pack_kernel::pack_kernel;
use super::walk::{Shared, byte_strides, try_split};
use super::window::Span;
use crate::buffers::{AlignedBytes, push, with_room};
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::convolution::CHECKED_POSITIONS;
use crate::plan::cost::narrow_convolution::{
    CHECKED, GRAIN, MAX_FEATURES, MAX_LENGTH, MAX_ROWS, MAX_STEP, MIN_LENGTH,
};
use crate::plan::element::elementwise::dtype;
use crate::plan::ops::convolution::ConvolutionOp;

/// Outputs of a row that see inputs at the same positions of the window, along the row.
pub struct Segment {
    /// The first output.
    pub first: usize,
    /// How far they are apart.
    pub step: usize,
    /// How many.
    pub count: usize,
    /// Inputs between those of neighbouring outputs; zero for a single one.
    pub input_step: i64,
    /// Of the spans of its outputs modulo the step, those of its positions.
    spans: Range<usize>,
}

impl Segment {
    /// Positions of the window, and the input that the first output sees there. They are found anew for each segment of
    /// each row: all lists of all segments together would be as long as the square of the window.
    pub fn positions<'g>(
        &self,
        geometry: &'g Geometry,
    ) -> impl ExactSizeIterator<Item = (usize, i64)> + 'g {
        let (first, step) = (self.first as i64, self.step as i64);
        let last = geometry.axes.last();
        let all: &[Span] = last.map_or(&[], |axis| axis.of_residue(first % step));
        all[self.spans.clone()].iter().map(move |span| {
            let delta = first - span.first;
            let nth = if step == 1 { delta } else { delta / step };
            (span.position as usize, span.base + nth * span.base_step)
        })
    }
}

/// What all rows of outputs share.
struct Job<'a> {
    op: &'a ConvolutionOp,
    geometry: &'a Geometry,
    sum: WeightedRows,
    size: usize,
    segments: Vec<Segment>,
    /// `[output feature][window position][input feature]`.
    weights: Shared,
    input: Shared,
    output: Shared,
    /// Bytes between outputs and between inputs, by dimension.
    to: SmallVec<[isize; 6]>,
    from: SmallVec<[isize; 6]>,
    /// The same along a row, of inputs and then of outputs.
    along: (isize, isize),
    /// Output features of a group.
    features: usize,
}

/// Runs `op`, if it is one of these.
pub fn run(
    op: &ConvolutionOp,
    geometry: &Geometry,
    kernel: &RawArray,
    input: &RawArray,
    output: &RawArray,
    environment: &OpEnvironment<'_>,
) -> Result<bool> {
    let features = output.dims[op.output.feature] as usize / op.feature_group_count;
    let is_depthwise = op.feature_group_count > 1 && geometry.features == 1;
    let last = geometry.outputs.len() - 1;
    let inner = geometry.outputs[last];
    let rows = geometry
        .positions_in_window()
        .saturating_mul(geometry.features);
    let input_step = op.input.spatial.last().map_or(0, |&d| input.strides[d]);
    let is_dense = input_step == 1 && op.window.0.last().is_some_and(|w| w.stride == 1);
    let pays = features <= MAX_FEATURES && inner >= MIN_LENGTH && is_dense;
    let step = step_between(geometry);
    let Some(sum) = dtype(input.element_type).and_then(weighted_rows) else {
        return Ok(false);
    };
    if !(pays || is_depthwise) || op.batch_group_count > 1 || rows > MAX_ROWS || step > MAX_STEP {
        return Ok(false);
    }
    let weights = pack_kernel(op, kernel, op.feature_group_count as i64, true)?;
    let size = input.element_type.size_bytes();
    let (to, from) = (
        byte_strides(&output.strides, size),
        byte_strides(&input.strides, size),
    );
    let along = |strides: &[isize], spatial: &[usize]| {
        let last = spatial.last();
        last.map_or(size as isize, |&d| strides[d])
    };
    let job = Job {
        op,
        geometry,
        sum,
        size,
        segments: segments(geometry, environment)?,
        weights: weights.pointer(),
        input: Shared::new(input.pointer),
        output: Shared::new(output.pointer),
        along: (
            along(&from, &op.input.spatial),
            along(&to, &op.output.spatial),
        ),
        to,
        from,
        features,
    };
    let outer: usize = geometry.outputs[..last].iter().product();
    let all = output.dims[op.output.outer] as usize * outer * op.feature_group_count;
    let work = (inner * rows * features).max(1);
    try_split(environment, all, (GRAIN / work).max(1), &|range| {
        let mut scratch = Scratch::new(&job, rows, inner)?;
        let mut row = range.start;
        while row < range.end {
            row += job.rows(row..range.end, &mut scratch, environment)?;
        }
        Ok(())
    })?;
    Ok(true)
}

/// How far outputs of a row are apart that have positions of the window in common.
pub fn step_between(geometry: &Geometry) -> i64 {
    geometry.axes.last().map_or(1, |axis| axis.step)
}

/// Positions of the window in front of the one along the row, and the first byte of the row of inputs at each.
pub type OuterPositions = SmallVec<[(usize, isize); 8]>;

/// Finds those that row `index` of the image that begins at byte `image` sees; `from` is the bytes between inputs.
pub fn outer_positions(
    op: &ConvolutionOp,
    geometry: &Geometry,
    (index, image): (&[i64], isize),
    from: &[isize],
    found: &mut OuterPositions,
) -> Result<()> {
    found.clear();
    found.push((0, image));
    let spatial = &op.input.spatial;
    for ((axis, &at), &dim) in geometry.axes.iter().zip(index).zip(spatial) {
        // In place of each, those along one more dimension; they are appended and the old ones removed.
        let (old, spans) = (found.len(), axis.of_output(at));
        let room = found.try_reserve(old.saturating_mul(spans.len()));
        room.map_err(|_| HloError::execution("out of memory for positions of a window"))?;
        for n in 0..old {
            let (position, byte) = found[n];
            for span in spans {
                if let Some(input) = span.input(at) {
                    let byte = byte + input as isize * from[dim];
                    found.push((position * axis.width + span.position as usize, byte));
                }
            }
        }
        found.drain(..old);
    }
    Ok(())
}

/// Cuts a row where outputs begin or cease to see inputs at a position of the window; outputs that have no positions in
/// common are in different segments.
pub fn segments(geometry: &Geometry, environment: &OpEnvironment<'_>) -> Result<Vec<Segment>> {
    let mut found = Vec::new();
    let (Some(axis), Some(&inner)) = (geometry.axes.last(), geometry.outputs.last()) else {
        return Ok(found);
    };
    let step = axis.step;
    for residue in 0..step.min(inner as i64) {
        let outputs = 1 + (inner as i64 - 1 - residue) / step;
        let spans = axis.of_residue(residue);
        let input_step = spans.first().map_or(1, |span| span.base_step);
        let first = |at: usize| spans[at].first / step;
        // Later outputs look further, so that they see inputs through earlier positions: those of `seen`.
        let mut seen = spans.len()..spans.len();
        let mut begin = 0;
        while begin < outputs {
            while seen.start > 0 && first(seen.start - 1) <= begin {
                seen.start -= 1;
            }
            let end_of = |at: usize| first(at) + spans[at].count;
            while seen.end > seen.start && end_of(seen.end - 1) <= begin {
                seen.end -= 1;
            }
            let mut end = outputs.min(begin + MAX_LENGTH);
            if seen.start > 0 {
                end = end.min(first(seen.start - 1));
            }
            if seen.end > seen.start {
                end = end.min(end_of(seen.end - 1));
            }
            let segment = Segment {
                first: (residue + begin * step) as usize,
                step: step as usize,
                count: (end - begin) as usize,
                input_step: if end - begin > 1 { input_step } else { 0 },
                spans: seen.clone(),
            };
            if found.len().is_multiple_of(CHECKED_POSITIONS as usize) {
                environment.check();
            }
            push(&mut found, segment)?;
            begin = end;
        }
    }
    Ok(found)
}

/// What a task needs besides.
struct Scratch {
    outer: OuterPositions,
    /// Positions of the window along the row, and inputs there, of a segment.
    positions: Vec<(usize, i64)>,
    /// Rows of inputs that a segment sees, and the rows that are summed: the same, or copies without gaps.
    seen: Vec<*const u8>,
    rows: Vec<*const u8>,
    /// By output feature, the weight of each row.
    weights: SmallVec<[*const u8; 4]>,
    /// Weights that the kernel does not hold side by side.
    gathered: AlignedBytes,
    copies: AlignedBytes,
    /// Results that are to be put apart.
    results: AlignedBytes,
    /// Multiplications since the last look at whether the run is to end.
    unchecked: usize,
}

impl Scratch {
    fn new(job: &Job<'_>, rows: usize, inner: usize) -> Result<Scratch> {
        let are_apart = job.segments.iter().any(|segment| !job.is_dense(segment));
        let inner = inner.min(MAX_LENGTH as usize);
        let copies = if are_apart { rows * inner } else { 0 };
        Ok(Scratch {
            outer: SmallVec::new(),
            positions: with_room(rows)?,
            seen: with_room(rows)?,
            rows: with_room(rows)?,
            weights: SmallVec::new(),
            gathered: AlignedBytes::uninitialized(job.features * rows * job.size)?,
            copies: AlignedBytes::uninitialized(copies * job.size)?,
            results: AlignedBytes::uninitialized(inner * job.size)?,
            unchecked: 0,
        })
    }

    /// Counts multiplications, and now and then leaves if the run is to end.
    fn check(&mut self, multiplications: usize, environment: &OpEnvironment<'_>) {
        self.unchecked += multiplications;
        if self.unchecked > CHECKED {
            self.unchecked = 0;
            environment.check();
        }
    }
}

/// Neighbouring rows of outputs that see inputs at the same positions of the window.
#[derive(Clone, Copy)]
struct Rows {
    group: usize,
    count: usize,
    /// The byte at which the first of them begins, and the bytes from one to the next.
    to: isize,
    to_step: isize,
    /// The bytes from what one of them sees of the input to what the next one sees.
    from_step: isize,
}

impl Job<'_> {
    /// Bytes between the inputs of neighbouring outputs of a segment.
    fn input_step(&self, segment: &Segment) -> isize {
        match segment.count {
            1 => self.size as isize,
            _ => segment.input_step as isize * self.along.0,
        }
    }

    fn is_dense(&self, segment: &Segment) -> bool {
        self.input_step(segment) == self.size as isize
    }

    /// Rows of outputs from the first of `range` on that are computed alike; how many. Of the numbers of a row that of
    /// the image changes slowest, then that of the group.
    fn rows(
        &self,
        range: Range<usize>,
        scratch: &mut Scratch,
        environment: &OpEnvironment<'_>,
    ) -> Result<usize> {
        let (op, geometry) = (self.op, self.geometry);
        let outer = geometry.outputs.len() - 1;
        let mut rest = range.start;
        let mut index: SmallVec<[i64; 3]> = SmallVec::from_elem(0, outer);
        let mut to = 0;
        for d in (0..outer).rev() {
            index[d] = (rest % geometry.outputs[d]) as i64;
            rest /= geometry.outputs[d];
            to += index[d] as isize * self.to[op.output.spatial[d]];
        }
        let (group, image) = (rest % op.feature_group_count, rest / op.feature_group_count);
        to += (group * self.features) as isize * self.to[op.output.feature];
        to += image as isize * self.to[op.output.outer];
        let feature = (group * geometry.features) as isize * self.from[op.input.feature];
        let from = image as isize * self.from[op.input.outer] + feature;
        outer_positions(op, geometry, (&index, from), &self.from, &mut scratch.outer)?;
        let (count, to_step, from_step) = self.alike(&index, range.len());
        let rows = Rows {
            group,
            count,
            to,
            to_step,
            from_step,
        };
        for segment in &self.segments {
            self.segment(segment, rows, scratch, environment);
        }
        Ok(count)
    }

    /// How many rows from row `index` on, at most `most`, see inputs at the same positions of the window, and the bytes
    /// between their outputs and between their inputs.
    fn alike(&self, index: &[i64], most: usize) -> (usize, isize, isize) {
        let (op, geometry) = (self.op, self.geometry);
        let Some((&at, d)) = index.last().zip(index.len().checked_sub(1)) else {
            // Rows of images of one dimension: all are alike, but for those of other groups.
            let count = if op.feature_group_count == 1 { most } else { 1 };
            return (count, self.to[op.output.outer], self.from[op.input.outer]);
        };
        let mut end = geometry.outputs[d] as i64;
        let mut step = 0;
        for span in geometry.axes[d].seen() {
            if span.step != 1 {
                return (1, 0, 0);
            }
            let last = span.first + span.count;
            end = end.min(match at {
                _ if at < span.first => span.first,
                _ if at < last => last,
                _ => end,
            });
            if span.count > 1 {
                step = span.base_step;
            }
        }
        let count = most.min((end - at) as usize);
        match count {
            1 => (1, 0, 0),
            _ => (
                count,
                self.to[op.output.spatial[d]],
                step as isize * self.from[op.input.spatial[d]],
            ),
        }
    }

    /// The outputs of one segment of `rows`.
    fn segment(
        &self,
        segment: &Segment,
        rows: Rows,
        scratch: &mut Scratch,
        environment: &OpEnvironment<'_>,
    ) {
        self.find_rows(segment, scratch);
        scratch.weights.clear();
        for feature in 0..self.features {
            let weights = self.weights_of(rows.group * self.features, feature, scratch);
            scratch.weights.push(weights);
        }
        let size = self.size as isize;
        let step = match segment.count {
            1 => size,
            _ => segment.step as isize * self.along.1,
        };
        let to = rows.to + segment.first as isize * self.along.1;
        for row in 0..rows.count {
            self.bring(segment, scratch);
            scratch.check(
                (scratch.seen.len() * self.features + 1) * segment.count,
                environment,
            );
            let to = to + row as isize * rows.to_step;
            for (feature, &weights) in scratch.weights.iter().enumerate() {
                let target = self
                    .output
                    .at(to + feature as isize * self.to[self.op.output.feature]);
                let rows = &scratch.rows;
                // SAFETY: spans name inputs inside the array and outputs of the row; each row has a weight.
                unsafe {
                    if step == size {
                        (self.sum)(rows, weights, segment.count, target);
                    } else {
                        let results = scratch.results.as_mut_ptr();
                        (self.sum)(rows, weights, segment.count, results);
                        hlorun_kernels::copy_row(
                            self.size,
                            segment.count,
                            results,
                            size,
                            target,
                            step,
                        );
                    }
                }
            }
            for seen in &mut scratch.seen {
                *seen = seen.wrapping_offset(rows.from_step);
            }
        }
    }

    /// Lists the rows of inputs of a segment, features changing fastest.
    fn find_rows(&self, segment: &Segment, scratch: &mut Scratch) {
        scratch.positions.clear();
        scratch.positions.extend(segment.positions(self.geometry));
        scratch.seen.clear();
        for &(_, outer) in &scratch.outer {
            for &(_, input) in &scratch.positions {
                for feature in 0..self.geometry.features {
                    let feature = feature as isize * self.from[self.op.input.feature];
                    let at = outer + input as isize * self.along.0 + feature;
                    scratch.seen.push(self.input.at(at).cast_const());
                }
            }
        }
    }

    /// Lays out the rows of inputs of a segment without gaps.
    fn bring(&self, segment: &Segment, scratch: &mut Scratch) {
        scratch.rows.clear();
        if self.is_dense(segment) {
            scratch.rows.extend_from_slice(&scratch.seen);
            return;
        }
        let (size, step) = (self.size as isize, self.input_step(segment));
        for (at, &row) in scratch.seen.iter().enumerate() {
            let at = at * segment.count * self.size;
            let copy = scratch.copies.as_mut_ptr().wrapping_add(at);
            // SAFETY: there is room for a copy of each row, which lies inside the input.
            unsafe { hlorun_kernels::copy_row(self.size, segment.count, row, step, copy, size) };
            scratch.rows.push(copy.cast_const());
        }
    }

    /// The weights of those rows for output feature `feature` of those from `first` on, in their order.
    fn weights_of(&self, first: usize, feature: usize, scratch: &mut Scratch) -> *const u8 {
        let width = self.geometry.width();
        let bytes = self.geometry.features * self.size;
        let windows = self.geometry.positions_in_window();
        let weights = |window: usize| {
            let at = ((first + feature) * windows + window) * bytes;
            self.weights.at(at as isize)
        };
        let (Some(front), Some(back)) = (scratch.outer.first(), scratch.outer.last()) else {
            return weights(0);
        };
        if scratch.positions.len() == width && back.0 - front.0 + 1 == scratch.outer.len() {
            return weights(front.0 * width);
        }
        let rows = scratch.outer.len() * scratch.positions.len();
        let all = (scratch.gathered.as_mut_ptr()).wrapping_add(feature * rows * bytes);
        let mut to = all;
        for &(outer, _) in &scratch.outer {
            for &(position, _) in &scratch.positions {
                // SAFETY: the kernel has these weights, and there is room for one of each row and feature.
                unsafe { hlorun_kernels::copy(weights(outer * width + position), to, bytes) };
                to = to.wrapping_add(bytes);
            }
        }
        all
    }
}
