//! Runs `select-and-scatter`: first every source element's place in the operand, then the scatter in row-major order of the
//! source. Windows are compared many at a time, and source elements joined many at a time where their windows share no place.

use super::index_map::BLOCK;
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
use crate::plan::element::elementwise::dtype;
use crate::plan::element::program::Program;
use crate::plan::ops::combiner::Shortcut;
use crate::plan::ops::select_and_scatter::SelectAndScatterOp;
use crate::types::{Dims, PrimitiveType, strided};
use hlorun_kernels::{CombineRows, DType, Ternary};
use std::ops::Range;

/// No place yet.
const NONE: i64 = i64::MIN;

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
    ) -> Result<Vec<i64>> {
        let program = &self.op.select.program;
        let size = self.element_type.size_bytes();
        let mut inputs = program.inputs.iter();
        if !inputs.all(|r| program.types[r.0 as usize].size_bytes() == size) {
            return Err(HloError::execution("select computation of other types"));
        }
        let mut places: Vec<i64> = Vec::new();
        places
            .try_reserve_exact(count)
            .map_err(|_| HloError::execution("out of memory for select-and-scatter"))?;
        places.resize(count, NONE);
        // What is selected so far; zeros, where that is nothing.
        let mut selected = AlignedBytes::zeroed(size * count)?;
        let selected = selected.as_mut_ptr();
        let mut lanes = Lanes::new(program, self.element_type, count)?;
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
            let (mut planes, (length, steps)) = (nest.clone(), nest.inner);
            let (rows, row_steps) = planes.outer.pop().unwrap_or((1, [0; 2]));
            planes.for_rows(0..planes.rows(), |[t, f]| {
                for done in (0..length).step_by(lanes.tile) {
                    let count = (length - done).min(lanes.tile);
                    let at = |row: usize, k: usize| {
                        row as isize * row_steps[k] + done as isize * steps[k]
                    };
                    let mut row = 0;
                    while row < rows {
                        let fitting = (lanes.tile - lanes.filled) / count;
                        if fitting == 0 {
                            lanes.decide(&mut places, selected);
                            continue;
                        }
                        let some = Candidates {
                            sizes: [fitting.min(rows - row), count],
                            window: to - skipped + t + at(row, 0),
                            window_steps: [row_steps[0], steps[0]],
                            place: from + f + at(row, 1),
                            place_steps: [row_steps[1], steps[1]],
                            lane: lanes.filled,
                        };
                        row += some.sizes[0];
                        lanes.push(some, selected, &mut places, self.elements);
                    }
                }
            });
            // The next position looks at what this one selected.
            lanes.decide(&mut places, selected);
        });
        Ok(places)
    }

    /// Joins the source elements from `first` on with the output at `places`, in their order. Of every `apart` of them no two
    /// have the same place.
    fn scatter(&self, first: usize, places: &[i64], apart: usize) -> Result<()> {
        let values = self
            .values
            .at((first * self.element_type.size_bytes()) as isize);
        match self.kernel() {
            Some(kernel) => {
                self.scatter_by(kernel, values, places);
                Ok(())
            }
            None => self.scatter_apart(values, places, apart),
        }
    }

    /// The kernel that joins elements at places of their own, where the computation has one.
    fn kernel(&self) -> Option<CombineRows> {
        let Some(Shortcut::Binary(binary)) = self.op.scatter.shortcut else {
            return None;
        };
        hlorun_kernels::combine_rows(binary, dtype(self.element_type)?)
    }

    /// Bytes from the output's first element to the one at a row-major index.
    fn place_in_output(&self) -> impl Fn(i64) -> isize {
        let output = self.output.get();
        let is_row_major = strided::is_row_major(&output.dims, &output.strides);
        let size = output.element_type.size_bytes() as i64;
        move |place| {
            let at = match is_row_major {
                true => place,
                false => strided::place(place, output.dims.iter().zip(&output.strides)),
            };
            (at * size) as isize
        }
    }

    fn scatter_by(&self, kernel: CombineRows, values: *const u8, places: &[i64]) {
        let size = self.element_type.size_bytes();
        let at = self.place_in_output();
        let (mut to, mut from) = (Vec::with_capacity(BLOCK), Vec::with_capacity(BLOCK));
        for (block, places) in places.chunks(BLOCK).enumerate() {
            to.clear();
            from.clear();
            for (n, &place) in places.iter().enumerate().filter(|p| *p.1 != NONE) {
                to.push(at(place));
                from.push(((block * BLOCK + n) * size) as isize);
            }
            // SAFETY: places are elements of the output, and the source has an element for each.
            unsafe { kernel.run(self.output.get().pointer, values, [&to, &from], 1, true) };
        }
    }

    fn scatter_apart(&self, mut values: *const u8, places: &[i64], apart: usize) -> Result<()> {
        let size = self.element_type.size_bytes();
        let types = [self.element_type];
        let tile = self.op.scatter.program.tile(apart).min(apart);
        let mut folder = Folder::new(&self.op.scatter, &types, tile)?;
        let mut scratch = AlignedBytes::uninitialized(2 * size * tile)?;
        let joined = scratch.as_mut_ptr();
        let added = joined.wrapping_add(size * tile);
        let output = self.output.get().pointer;
        let place_in_output = self.place_in_output();
        let at = |place: i64| output.wrapping_offset(place_in_output(place));
        for chunk in places.chunks(apart).flat_map(|some| some.chunks(tile)) {
            let selected = || chunk.iter().enumerate().filter(|p| *p.1 != NONE);
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
            values = values.wrapping_add(chunk.len() * size);
        }
        Ok(())
    }
}

/// Rows of windows, of the places that each looks at, and of the lanes that compare them, row behind row.
struct Candidates {
    /// Rows, and windows of each.
    sizes: [usize; 2],
    window: isize,
    window_steps: [isize; 2],
    place: isize,
    place_steps: [isize; 2],
    lane: usize,
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
    /// Chooses between elements, and between places.
    select: [Ternary; 2],
    /// What each lane's window has selected so far, and the element that it is compared with.
    selected: *mut u8,
    candidates: *mut u8,
    _scratch: AlignedBytes,
    /// Where those are.
    places: Vec<i64>,
    candidate_places: Vec<i64>,
    /// Truth values: whether a lane keeps what it has.
    is_kept: Vec<u8>,
}

impl Lanes<'_> {
    fn new(program: &Program, ty: PrimitiveType, count: usize) -> Result<Lanes<'_>> {
        let size = ty.size_bytes();
        let dtype = dtype(ty).ok_or_else(|| HloError::execution("a type without kernels"))?;
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
            select: [dtype, DType::S64].map(hlorun_kernels::select),
            selected,
            candidates,
            _scratch: scratch,
            places: vec![NONE; tile],
            candidate_places: vec![NONE; tile],
            is_kept: vec![0; tile],
        })
    }

    /// Adds rows, which fit. `selected` and `places` are those of all windows, `elements` the operand.
    fn push(&mut self, rows: Candidates, selected: *mut u8, places: &mut [i64], elements: Shared) {
        let size = self.size as isize;
        let [count, length] = rows.sizes;
        self.filled += count * length;
        let lane = rows.lane * self.size;
        // SAFETY: the windows and places of the rows are elements, their lanes below the tile.
        unsafe {
            let from = selected.offset(rows.window * size);
            rows.bring(self.size, from, rows.window_steps, self.selected.add(lane));
            let from = elements.at(rows.place * size);
            rows.bring(self.size, from, rows.place_steps, self.candidates.add(lane));
            let from = places.as_mut_ptr().offset(rows.window).cast();
            let own = self.places[rows.lane..].as_mut_ptr().cast();
            rows.bring(size_of::<i64>(), from, rows.window_steps, own);
        }
        let lanes = &mut self.candidate_places[rows.lane..];
        for (row, lanes) in lanes.chunks_exact_mut(length).take(count).enumerate() {
            let first = (rows.place + row as isize * rows.place_steps[0]) as i64;
            for (i, lane) in lanes.iter_mut().enumerate() {
                *lane = first + i as i64 * rows.place_steps[1] as i64;
            }
        }
        self.rows.push(rows);
    }

    /// Keeps what is selected, or takes the candidate, in every lane.
    fn decide(&mut self, places: &mut [i64], selected: *mut u8) {
        let n = std::mem::take(&mut self.filled);
        // SAFETY: both inputs are bound to as many filled lanes.
        unsafe { self.frame.run(self.program, n) };
        let answers = self.frame.pointer(self.program.outputs[0]);
        // SAFETY: the program has answered every lane by the byte of a truth value.
        let answers = unsafe { std::slice::from_raw_parts(answers.cast_const(), n) };
        let known = answers.iter().zip(&self.places);
        for (is_kept, (&answer, &place)) in self.is_kept.iter_mut().zip(known) {
            *is_kept = u8::from((answer != 0) & (place != NONE));
        }
        let is_kept = self.is_kept.as_ptr();
        let [elements, indices] = self.select;
        let own = self.places.as_mut_ptr();
        // SAFETY: all have so many lanes; kernels may write onto an operand.
        unsafe {
            elements(is_kept, self.selected, self.candidates, self.selected, n);
            indices(
                is_kept,
                own.cast(),
                self.candidate_places.as_ptr().cast(),
                own.cast(),
                n,
            );
        }
        for rows in self.rows.drain(..) {
            let size = self.size as isize;
            let lane = rows.lane * self.size;
            // SAFETY: windows are elements of both, and every row has its lanes.
            unsafe {
                let to = selected.offset(rows.window * size);
                rows.put_back(self.size, self.selected.add(lane), to);
                let to = places.as_mut_ptr().offset(rows.window).cast();
                rows.put_back(size_of::<i64>(), own.add(rows.lane).cast(), to);
            }
        }
    }
}

impl Candidates {
    fn dense(&self, size: usize) -> [isize; 2] {
        [(self.sizes[1] * size) as isize, size as isize]
    }

    /// Copies elements of `size` bytes, `steps` elements apart, to lanes.
    ///
    /// # Safety
    ///
    /// There is one for each lane of the rows.
    unsafe fn bring(&self, size: usize, from: *const u8, steps: [isize; 2], to: *mut u8) {
        let steps = steps.map(|step| step * size as isize);
        // SAFETY: the caller's promise.
        unsafe {
            hlorun_kernels::copy_strided(size, &self.sizes, from, &steps, to, &self.dense(size));
        }
    }

    /// Copies elements of `size` bytes from lanes to those of the windows.
    ///
    /// # Safety
    ///
    /// There is one for each lane of the rows.
    unsafe fn put_back(&self, size: usize, from: *const u8, to: *mut u8) {
        let steps = self.window_steps.map(|step| step * size as isize);
        // SAFETY: the caller's promise.
        unsafe {
            hlorun_kernels::copy_strided(size, &self.sizes, from, &self.dense(size), to, &steps);
        }
    }
}
