//! Runs `select-and-scatter`: first every source element's place in the operand, then the scatter in row-major order of the
//! source. Windows are compared many at a time, and source elements joined many at a time where their windows share no place.

use super::lanes::{Folder, Row};
use super::reduce_window::{broadcast, for_boxes};
use super::walk::{Shared, SharedArray, try_split};
use super::window::spans;
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::element::program::Frame;
use crate::exec::parallel::OpEnvironment;
use crate::module::attributes::WindowDimension;
use crate::plan::cost::windowed::GRAIN;
use crate::plan::element::program::Program;
use crate::plan::ops::select_and_scatter::SelectAndScatterOp;
use crate::types::{Dims, PrimitiveType, strided};
use std::ops::Range;

/// No place yet.
const NONE: isize = isize::MIN;

/// Runs `op`: operand, source and initial value in, one array of the operand's sizes out.
pub fn run(
    op: &SelectAndScatterOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let ([operand, source, init], [output]) = (inputs, outputs) else {
        return Err(HloError::execution("select-and-scatter takes other arrays"));
    };
    let window = &op.window.0;
    let rank = window.len();
    if operand.dims.len() != rank
        || source.dims.len() != rank
        || output.dims != operand.dims
        || init.count() != 1
    {
        return Err(HloError::execution(
            "select-and-scatter arrays differ in rank",
        ));
    }
    if output.count() == 0 {
        return Ok(());
    }
    broadcast(init, output);
    if source.count() == 0 {
        return Ok(());
    }
    let mut elements = operand.to_row_major()?;
    let mut values = source.to_row_major()?;
    let job = Job {
        op,
        element_type: output.element_type,
        dims: &operand.dims,
        source_dims: &source.dims,
        elements: Shared::new(elements.as_mut_ptr()),
        values: Shared::new(values.as_mut_ptr()),
        output: SharedArray::new(output),
    };
    // Windows that are apart in the outermost dimension share no place, so parts of it are independent.
    let size = match window.first() {
        Some(first) if are_apart(first) => source.dims[0] as usize,
        _ => 1,
    };
    let each = window.iter().fold(1usize, |n, d| {
        n.saturating_mul(d.size.max(1) as usize)
            .min(operand.count())
    });
    let per_slice = (source.count() / size).saturating_mul(each).max(1);
    let whole = source.dims.first().map_or(1, |&d| d as usize);
    try_split(environment, size, (GRAIN / per_slice).max(1), &|part| {
        job.run(if size == 1 { 0..whole } else { part }, environment)
    })
}

/// Whether no two windows look at the same place of this dimension.
fn are_apart(dim: &WindowDimension) -> bool {
    (i128::from(dim.size) - 1) * i128::from(dim.window_dilation) < i128::from(dim.stride)
}

struct Job<'a> {
    op: &'a SelectAndScatterOp,
    element_type: PrimitiveType,
    /// Sizes of the operand and of the output.
    dims: &'a Dims,
    source_dims: &'a Dims,
    /// The operand and the source, row-major.
    elements: Shared,
    values: Shared,
    output: SharedArray,
}

impl Job<'_> {
    /// The source elements of `part` of the outermost dimension.
    fn run(&self, part: Range<usize>, environment: &OpEnvironment<'_>) -> Result<()> {
        let mut dims = self.source_dims.clone();
        if let Some(outermost) = dims.first_mut() {
            *outermost = part.len() as i64;
        }
        let count = dims.iter().map(|&d| d as usize).product::<usize>();
        let places = self.select(&part, &dims, count, environment)?;
        let first = count / part.len().max(1) * part.start;
        let lanes = dims.iter().zip(&self.op.window.0).rev();
        let apart = lanes
            .take_while(|&(&size, window)| size == 1 || are_apart(window))
            .map(|(&size, _)| size as usize)
            .product::<usize>();
        self.scatter(first, &places, apart)
    }

    /// The selected element of every window of `part` as a row-major index of the operand, in row-major order of the
    /// source.
    fn select(
        &self,
        part: &Range<usize>,
        dims: &Dims,
        count: usize,
        environment: &OpEnvironment<'_>,
    ) -> Result<Vec<isize>> {
        let program = &self.op.select.program;
        let size = self.element_type.size_bytes();
        let mut inputs = program.inputs.iter();
        if !inputs.all(|r| program.types[r.0 as usize].size_bytes() == size) {
            return Err(HloError::execution("select computation of other types"));
        }
        let mut places: Vec<isize> = Vec::new();
        places
            .try_reserve_exact(count)
            .map_err(|_| HloError::execution("out of memory for select-and-scatter"))?;
        places.resize(count, NONE);
        // What is selected so far; zeros, where that is nothing.
        let mut selected = AlignedBytes::zeroed(size * count)?;
        let selected = selected.as_mut_ptr();
        let mut lanes = Lanes::new(program, size, count)?;
        let lists: Vec<_> = (0..dims.len())
            .map(|d| {
                let range = match d {
                    0 => part.start as i64..part.end as i64,
                    _ => 0..dims[d],
                };
                spans(&self.op.window.0[d], self.dims[d], &range, environment)
            })
            .collect::<Result<_>>()?;
        let strides = strided::row_major_strides(dims);
        let skipped = strides.first().map_or(0, |&s| s as isize) * part.start as isize;
        let row_major = strided::row_major_strides(self.dims);
        for_boxes(&lists, &strides, &row_major, &mut |nest, [to, from]| {
            nest.for_rows(0..nest.rows(), |[t, f]| {
                let (length, steps) = nest.inner;
                let mut done = 0;
                while done < length {
                    if lanes.filled == lanes.tile {
                        lanes.decide(&mut places, selected);
                    }
                    let row = Candidates {
                        window: to - skipped + t + done as isize * steps[0],
                        window_step: steps[0],
                        place: from + f + done as isize * steps[1],
                        place_step: steps[1],
                        lane: lanes.filled,
                        count: (length - done).min(lanes.tile - lanes.filled),
                    };
                    done += row.count;
                    lanes.push(row, selected, self.elements);
                }
            });
            // The next position looks at what this one selected.
            lanes.decide(&mut places, selected);
        });
        Ok(places)
    }

    /// Joins the source elements from `first` on with the output at `places`. Of every `apart` of them no two have the
    /// same place.
    fn scatter(&self, first: usize, places: &[isize], apart: usize) -> Result<()> {
        let size = self.element_type.size_bytes();
        let types = [self.element_type];
        let tile = self.op.scatter.program.tile(apart).min(apart);
        let mut folder = Folder::new(&self.op.scatter, &types, tile)?;
        let mut scratch = AlignedBytes::uninitialized(2 * size * tile)?;
        let joined = scratch.as_mut_ptr();
        let added = joined.wrapping_add(size * tile);
        let output = self.output.get();
        let is_row_major = strided::is_row_major(&output.dims, &output.strides);
        let at = |place: isize| {
            let at = match is_row_major {
                true => place,
                false => {
                    let pairs = output.dims.iter().zip(&output.strides);
                    strided::place(place as i64, pairs) as isize
                }
            };
            output.pointer.wrapping_offset(at * size as isize)
        };
        let mut next = first;
        for chunk in places.chunks(apart).flat_map(|some| some.chunks(tile)) {
            let selected = || chunk.iter().enumerate().filter(|p| *p.1 != NONE);
            let values = self.values.at((next * size) as isize);
            next += chunk.len();
            by_size!(size, T => {
                let (joined, added) = (joined.cast::<T>(), added.cast::<T>());
                let mut lanes = 0;
                // SAFETY: places are elements of the output, strided or not; the source has an element for each, and
                // the scratch `tile` lanes of both.
                unsafe {
                    for (n, &place) in selected() {
                        joined.add(lanes).write(at(place).cast::<T>().read());
                        added.add(lanes).write(values.cast::<T>().add(n).read());
                        lanes += 1;
                    }
                    folder.fold(&[Row::dense(joined.cast())], &[Row::dense(added.cast())], lanes);
                    for (lane, (_, &place)) in selected().enumerate() {
                        at(place).cast::<T>().write(joined.add(lane).read());
                    }
                }
            });
        }
        Ok(())
    }
}

/// A row of windows, of the places each looks at, and of the lanes that compare them.
struct Candidates {
    window: isize,
    window_step: isize,
    place: isize,
    place_step: isize,
    lane: usize,
    count: usize,
}

/// Comparisons waiting for an answer.
struct Lanes<'p> {
    program: &'p Program,
    frame: Frame,
    /// Bytes of an element.
    size: usize,
    tile: usize,
    filled: usize,
    rows: Vec<Candidates>,
    selected: *mut u8,
    candidates: *mut u8,
    _scratch: AlignedBytes,
}

impl Lanes<'_> {
    fn new(program: &Program, size: usize, count: usize) -> Result<Lanes<'_>> {
        let tile = program.tile(count);
        let mut frame = Frame::new(program, tile)?;
        let mut scratch = AlignedBytes::uninitialized(2 * size * tile)?;
        let selected = scratch.as_mut_ptr();
        let candidates = selected.wrapping_add(size * tile);
        frame.bind(program.inputs[0], selected);
        frame.bind(program.inputs[1], candidates);
        Ok(Lanes {
            program,
            frame,
            size,
            tile,
            filled: 0,
            rows: Vec::new(),
            selected,
            candidates,
            _scratch: scratch,
        })
    }

    /// Adds a row, which fits. `selected` is that of all windows, `elements` the operand.
    fn push(&mut self, row: Candidates, selected: *mut u8, elements: Shared) {
        let size = self.size as isize;
        let lane = row.lane * self.size;
        self.filled += row.count;
        // SAFETY: the row's windows and places are elements, its lanes below the tile.
        unsafe {
            hlorun_kernels::copy_row(
                self.size,
                row.count,
                selected.offset(row.window * size),
                row.window_step * size,
                self.selected.add(lane),
                size,
            );
            hlorun_kernels::copy_row(
                self.size,
                row.count,
                elements.at(row.place * size),
                row.place_step * size,
                self.candidates.add(lane),
                size,
            );
        }
        self.rows.push(row);
    }

    /// Keeps what is selected, or takes the candidate, in every lane.
    fn decide(&mut self, places: &mut [isize], selected: *mut u8) {
        // SAFETY: both inputs are bound to as many filled lanes.
        unsafe { self.frame.run(self.program, self.filled) };
        let answers = self.frame.pointer(self.program.outputs[0]);
        self.filled = 0;
        by_size!(self.size, T => {
            let candidates = self.candidates.cast::<T>();
            for row in self.rows.drain(..) {
                let mut decide = |step: isize| {
                    for i in 0..row.count {
                        let window = (row.window + i as isize * step) as usize;
                        let lane = row.lane + i;
                        // SAFETY: windows are elements of both, lanes were filled; an answer is a pred byte.
                        unsafe {
                            let place = places.get_unchecked_mut(window);
                            let value = selected.cast::<T>().add(window);
                            let is_kept = (answers.add(lane).read() != 0) & (*place != NONE);
                            let candidate = row.place + i as isize * row.place_step;
                            *place = if is_kept { *place } else { candidate };
                            let other = candidates.add(lane).read();
                            value.write(if is_kept { value.read() } else { other });
                        }
                    }
                };
                match row.window_step {
                    1 => decide(1),
                    step => decide(step),
                }
            }
        });
    }
}
