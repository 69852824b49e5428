//! im2col: patches, which are the inputs every output of a convolution sees, side by side.
//!
//! In: the window and the input. Out: a matrix with one row per output position (of all images) and
//! one column per window position and input feature; zero where the window leaves the input.

use std::ops::Range;

use hlorun_kernels::Matrix;
use smallvec::SmallVec;

use super::walk::{Shared, split};
use super::window_axis::WindowAxis;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::convolution::{FILL_GRAIN, MAX_JOINED};
use crate::plan::ops::convolution::ConvolutionOp;

/// Where windows lie in an input.
pub struct Geometry {
    /// Input features one group sees.
    pub features: usize,
    size: usize,
    /// Sizes of the result's spatial dimensions, at least one.
    pub outputs: SmallVec<[usize; 3]>,
    /// For every spatial dimension, the window positions that see inputs.
    pub axes: SmallVec<[WindowAxis; 3]>,
    strides: SmallVec<[i64; 3]>,
    batch_stride: i64,
    feature_stride: i64,
    padded: bool,
    pointwise: bool,
    /// Features of the inputs that a row of the window sees lie side by side, and outputs are one apart that see them.
    joined: bool,
}

/// A part of the patches.
#[derive(Clone)]
pub struct Tile {
    /// Output positions, images outermost.
    pub positions: Range<usize>,
    /// Window positions, row-major.
    pub windows: Range<usize>,
    /// The first image.
    pub first_batch: usize,
    /// The first input feature.
    pub first_feature: usize,
}

/// Outputs `low..high` of a row.
struct Piece<'a> {
    /// The row: outputs along the outer dimensions.
    index: &'a [usize],
    low: usize,
    high: usize,
    /// The first element of its image.
    image: i64,
}

/// One run of outputs along the last spatial dimension that sees inputs.
#[derive(Clone, Copy)]
pub struct Run {
    /// First position within the piece.
    pub first: usize,
    /// Distance of positions.
    pub step: usize,
    /// Number of positions.
    pub count: usize,
    /// Element of the input the first one sees.
    pub input: i64,
    /// Elements between inputs.
    pub input_step: i64,
}

impl Geometry {
    /// The geometry of `op`.
    pub fn new(
        op: &ConvolutionOp,
        input: &RawArray,
        output: &RawArray,
        environment: &OpEnvironment<'_>,
    ) -> Result<Geometry> {
        let mut outputs: SmallVec<[usize; 3]> = SmallVec::new();
        let mut axes: SmallVec<[WindowAxis; 3]> = SmallVec::new();
        let mut strides: SmallVec<[i64; 3]> = SmallVec::new();
        let mut padded = false;
        let mut pointwise = true;
        for (i, window) in op.window.0.iter().enumerate() {
            let count = output.dims[op.output.spatial[i]];
            let size = input.dims[op.input.spatial[i]];
            let axis = WindowAxis::new(window, size, count, environment)?;
            let seen = axis.seen();
            padded |= seen.len() != axis.width || seen.iter().any(|s| s.count != count);
            pointwise &= window.size == 1
                && (count == 1 || window.stride == 1)
                && seen
                    .first()
                    .is_some_and(|s| s.count == count && s.base == 0);
            outputs.push(count as usize);
            strides.push(input.strides[op.input.spatial[i]]);
            axes.push(axis);
        }
        if outputs.is_empty() {
            outputs.push(1);
            strides.push(0);
            axes.push(WindowAxis::single());
        }
        let features = input.dims[op.input.feature] as usize / op.feature_group_count;
        let dense = features == 1 || input.strides[op.input.feature] == 1;
        let last = op.window.0.last();
        let joined = dense
            && strides.last() == Some(&(features as i64))
            && last.is_some_and(|w| w.window_dilation == 1 && w.base_dilation == 1);
        Ok(Geometry {
            features,
            joined,
            size: input.element_type.size_bytes(),
            outputs,
            axes,
            strides,
            batch_stride: input.strides[op.input.outer],
            feature_stride: input.strides[op.input.feature],
            padded,
            pointwise,
        })
    }

    /// Every output sees exactly the input at its own position.
    pub fn is_pointwise(&self) -> bool {
        let mut spans = self.axes.iter().flat_map(|axis| axis.seen());
        self.pointwise && spans.all(|s| s.base_step == 1 || s.count == 1)
    }

    /// Number of window positions.
    pub fn positions_in_window(&self) -> usize {
        self.axes.iter().map(|axis| axis.width).product()
    }

    /// Positions of a row of the window.
    pub fn width(&self) -> usize {
        self.axes.last().map_or(1, |axis| axis.width)
    }

    /// The first position of a row of the window that sees inputs for the output at `position`, and how many see any.
    pub fn seen_of_row(&self, position: usize) -> (usize, usize) {
        let last = self.outputs.len() - 1;
        let output = (position % self.outputs[last]) as i64;
        let seen = self.axes[last].of_output(output);
        (
            seen.first().map_or(0, |span| span.position as usize),
            seen.len(),
        )
    }

    /// Calls `f(piece start, run)` for every piece of `positions` (a stretch of one output row) and
    /// every window position of `windows`, where outputs see inputs; `start` is relative to
    /// `positions`.
    pub fn runs(
        &self,
        positions: &Range<usize>,
        windows: &Range<usize>,
        first_batch: usize,
        mut f: impl FnMut(usize, usize, Run),
    ) {
        self.pieces(positions, first_batch, |start, place| {
            for window in windows.clone() {
                if let Some(run) = self.run(window, place) {
                    f(start, window, run);
                }
            }
        });
    }

    /// Calls `f(start, piece)` for every stretch of an output row.
    fn pieces(
        &self,
        positions: &Range<usize>,
        first_batch: usize,
        mut f: impl FnMut(usize, &Piece<'_>),
    ) {
        let rank = self.outputs.len();
        let last = rank - 1;
        let inner = self.outputs[last];
        let mut at = positions.start;
        let mut index: SmallVec<[usize; 3]> = SmallVec::from_elem(0, rank);
        while at < positions.end {
            let low = at % inner;
            let high = inner.min(low + (positions.end - at));
            let mut rest = at / inner;
            for d in (0..last).rev() {
                index[d] = rest % self.outputs[d];
                rest /= self.outputs[d];
            }
            let piece = Piece {
                index: &index,
                low,
                high,
                image: (first_batch + rest) as i64 * self.batch_stride,
            };
            f(at - positions.start, &piece);
            at += high - low;
        }
    }

    fn run(&self, window: usize, piece: &Piece<'_>) -> Option<Run> {
        let &Piece {
            index,
            low,
            high,
            image,
        } = piece;
        let last = self.outputs.len() - 1;
        let mut input = image;
        let width = self.axes[last].width;
        let mut rest = window / width;
        for d in (0..last).rev() {
            let axis = &self.axes[d];
            let span = axis.at(rest % axis.width)?;
            rest /= axis.width;
            input += span.input(index[d] as i64)? * self.strides[d];
        }
        let span = self.axes[last].at(window % width)?;
        let skip = (low as i64 - span.first).max(0);
        // Divisions would take most of the time.
        let skip = match span.step {
            1 => skip,
            step => skip / step + i64::from(skip % step != 0),
        };
        if skip >= span.count {
            return None;
        }
        let first = span.first + skip * span.step;
        if first >= high as i64 {
            return None;
        }
        let room = match span.step {
            1 => high as i64 - first,
            step => (high as i64 - 1 - first) / step + 1,
        };
        let count = room.min(span.count - skip) as usize;
        // Steps of a single output may reach beyond any array.
        let (step, input_step) = match count {
            1 => (1, 1),
            _ => (span.step, span.base_step),
        };
        Some(Run {
            first: (first - low as i64) as usize,
            step: step as usize,
            count,
            input: input + (span.base + skip * span.base_step) * self.strides[last],
            input_step: input_step * self.strides[last],
        })
    }

    /// Whether the patches hold features of a position together.
    fn is_by_position(&self) -> bool {
        let spatial = self.strides[self.strides.len() - 1].unsigned_abs();
        // A single feature lies along the positions.
        spatial == 0
            || self.feature_stride.unsigned_abs() <= spatial && (self.features > 1 || spatial > 1)
    }

    /// [`Geometry::fill`], by all threads.
    ///
    /// # Safety
    ///
    /// As there.
    pub unsafe fn fill_by_all(
        &self,
        tile: &Tile,
        input: Shared,
        patches: Shared,
        environment: &OpEnvironment<'_>,
    ) -> Matrix {
        let (rows, windows) = (tile.positions.len(), tile.windows.len());
        // Parts that lie one after the other.
        let (parts, each) = match self.is_by_position() {
            true => (rows, windows * self.features * self.size),
            false => (windows, rows * self.features * self.size),
        };
        let part = |range: &Range<usize>| {
            let mut own = tile.clone();
            let whole = match self.is_by_position() {
                true => &mut own.positions,
                false => &mut own.windows,
            };
            *whole = whole.start + range.start..whole.start + range.end;
            let to = patches.at((range.start * each) as isize);
            // SAFETY: the caller's promise; parts are disjoint.
            unsafe { self.fill(&own, input.get(), to) }
        };
        // Features of a position lie together in all parts or in none, so each has the strides of the whole.
        if environment.threads == 1 {
            return part(&(0..parts));
        }
        let grain = (FILL_GRAIN / each.max(1)).max(1);
        split(environment, parts, grain, &|range| {
            part(&range);
        });
        self.layout(rows, windows * self.features)
    }

    /// How patches lie.
    fn layout(&self, rows: usize, columns: usize) -> Matrix {
        match self.is_by_position() {
            true => Matrix::row_major(columns, 0),
            false => Matrix::row_major(rows, 0).transposed(),
        }
    }

    /// [`Geometry::fill`], where what a row of the window sees lies side by side.
    unsafe fn fill_joined(&self, tile: &Tile, input: *const u8, patches: *mut u8) {
        let width = self.width();
        let bytes = self.features * self.size;
        let (row, patch) = (width * bytes, tile.windows.len() * bytes);
        let feature = tile.first_feature as i64 * self.feature_stride;
        let from =
            |element: i64| input.wrapping_offset((feature + element) as isize * self.size as isize);
        self.pieces(&tile.positions, tile.first_batch, |start, piece| {
            let mut runs: SmallVec<[Option<Run>; 8]> = SmallVec::new();
            for (nth, window) in tile.windows.clone().step_by(width).enumerate() {
                runs.clear();
                runs.extend((window..window + width).map(|window| self.run(window, piece)));
                let inside = |run: &Run, i: usize| (run.first..run.first + run.count).contains(&i);
                // Outputs that see all of the row.
                let first = runs
                    .iter()
                    .map(|run| run.map_or(usize::MAX, |run| run.first));
                let end = runs
                    .iter()
                    .map(|run| run.map_or(0, |run| run.first + run.count));
                let whole = first.max().unwrap_or(0)..end.min().unwrap_or(0);
                let to = patches.wrapping_add(start * patch + nth * row);
                for i in 0..piece.high - piece.low {
                    let to = to.wrapping_add(i * patch);
                    // SAFETY: runs name inputs inside the array, and the patches have room for the row of the window.
                    unsafe {
                        if whole.contains(&i)
                            && let Some(run) = runs[0]
                        {
                            let at = run.input + (i - run.first) as i64 * run.input_step;
                            hlorun_kernels::copy(from(at), to, row);
                            continue;
                        }
                        std::ptr::write_bytes(to, 0, row);
                        for (k, run) in runs.iter().enumerate() {
                            if let Some(run) = run.filter(|run| inside(run, i)) {
                                let at = run.input + (i - run.first) as i64 * run.input_step;
                                hlorun_kernels::copy(from(at), to.wrapping_add(k * bytes), bytes);
                            }
                        }
                    }
                }
            }
        });
    }

    /// Writes the patches of `tile` and says how they lie: features of a position together where
    /// the input has them together, positions together otherwise.
    ///
    /// # Safety
    ///
    /// `input` is the array the geometry was made of, `patches` holds positions × windows ×
    /// features elements.
    pub unsafe fn fill(&self, tile: &Tile, input: *const u8, patches: *mut u8) -> Matrix {
        let (rows, windows) = (tile.positions.len(), tile.windows.len());
        let (size, features) = (self.size, self.features);
        let columns = windows * features;
        let by_position = self.is_by_position();
        let layout = self.layout(rows, columns);
        let width = self.width();
        if by_position
            && self.joined
            && width <= MAX_JOINED
            && tile.windows.start.is_multiple_of(width)
            && windows.is_multiple_of(width)
        {
            // SAFETY: the caller's promise.
            unsafe { self.fill_joined(tile, input, patches) };
            return layout;
        }
        if self.padded {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::write_bytes(patches, 0, rows * columns * size) };
        }
        let bytes = |elements: i64| elements as isize * size as isize;
        let feature = bytes(self.feature_stride);
        let base = input.wrapping_offset(bytes(tile.first_feature as i64 * self.feature_stride));
        self.runs(
            &tile.positions,
            &tile.windows,
            tile.first_batch,
            |start, window, run| {
                let row = (start + run.first) as isize;
                let column = ((window - tile.windows.start) * features) as isize;
                let to = row * layout.row_stride + column * layout.col_stride;
                let mut to = patches.wrapping_offset(to * size as isize);
                let mut from = base.wrapping_offset(bytes(run.input));
                let step_to = run.step as isize * layout.row_stride * size as isize;
                let step_from = bytes(run.input_step);
                // SAFETY: runs name inputs inside the array and positions inside the tile.
                unsafe {
                    if by_position && (feature == size as isize || features == 1) {
                        for _ in 0..run.count {
                            hlorun_kernels::copy(from, to, features * size);
                            from = from.wrapping_offset(step_from);
                            to = to.wrapping_offset(step_to);
                        }
                    } else if !by_position && step_to == size as isize && step_from == step_to {
                        let next = layout.col_stride * size as isize;
                        for _ in 0..features {
                            hlorun_kernels::copy(from, to, run.count * size);
                            from = from.wrapping_offset(feature);
                            to = to.wrapping_offset(next);
                        }
                    } else {
                        hlorun_kernels::copy_strided(
                            size,
                            &[features, run.count],
                            from,
                            &[feature, step_from],
                            to,
                            &[layout.col_stride * size as isize, step_to],
                        );
                    }
                }
            },
        );
        layout
    }
}
