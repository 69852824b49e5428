//! Runs `scatter`: windows one after the other, in the order of the indices.
//!
//! Promise: two updates of one element are combined in index order, whatever the number of
//! threads: threads share a scatter by parts of the windows or by the places that these go to.

mod runs;

use hlorun_kernels::copy_row;
use smallvec::SmallVec;

use super::index_map::Starts;
use super::walk::{Nest, Shared, byte_strides, try_split};
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::element::program::Frame;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::windowed::GRAIN;
use crate::plan::element::elementwise::dtype;
use crate::plan::element::program::Program;
use crate::plan::ops::combiner::Shortcut;
use crate::plan::ops::scatter::ScatterOp;
use crate::types::strided::advance;
pub use runs::PreparedScatter;
use runs::{are_disjoint, window_nest};

/// Runs `op`: operands, indices and updates in, one array per operand out.
pub fn run(
    op: &ScatterOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let count = op.count;
    if inputs.len() != 2 * count + 1 || outputs.len() != count {
        return Err(HloError::execution("scatter takes other arrays"));
    }
    for (operand, output) in inputs.iter().zip(outputs) {
        copy_operand(operand, output);
    }
    let updates = &inputs[count + 1..];
    if updates[0].count() == 0 || outputs[0].count() == 0 {
        return Ok(());
    }
    let starts = Starts::new(&op.map, &inputs[count])?;
    let output = &outputs[0];
    let starts = match PreparedScatter::new(op, starts, output, &updates[0]) {
        Ok(runs) => {
            runs.run(environment);
            return Ok(());
        }
        Err(starts) => starts,
    };
    // Without memory for a copy of the updates, windows are combined where they lie.
    let order = runs::side_by_side(op, output, &updates[0]);
    let copy = order.and_then(|order| updates[0].in_order(&order).ok());
    let starts = match copy {
        Some((_bytes, update)) => match PreparedScatter::new(op, starts, output, &update) {
            Ok(runs) => {
                runs.run(environment);
                return Ok(());
            }
            Err(starts) => starts,
        },
        None => starts,
    };
    let windows = windows(op, &starts, outputs, updates)?;
    if count == 1
        && let Some(shortcut) = op.combiner.shortcut
    {
        let combine = match shortcut {
            Shortcut::First => return Ok(()),
            Shortcut::Second => Combine::Overwrite,
            Shortcut::Binary(binary) => {
                match dtype(output.element_type).and_then(|ty| hlorun_kernels::binary(binary, ty)) {
                    Some(kernel) => Combine::Kernel(kernel),
                    None => return general(op, &windows, outputs, updates),
                }
            }
        };
        return simple(op, combine, &windows, output, &updates[0], environment);
    }
    if count == 1
        && window_nest(op, output, &updates[0], Nest::by_memory)
            .inner
            .0
            >= WIDE_WINDOW
    {
        let combine = Combine::Program(checked(op, outputs)?);
        return simple(op, combine, &windows, output, &updates[0], environment);
    }
    general(op, &windows, outputs, updates)
}

/// `op` over these arrays, with all done that its runs share but the copy of the operand; `None` where it has nothing to do,
/// fails, has no kernel, or keeps indices from one run to the next.
pub fn prepare(
    op: &ScatterOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
) -> Option<PreparedScatter> {
    let ([_, indices, update], [output]) = (inputs, outputs) else {
        return None;
    };
    if update.count() == 0 || output.count() == 0 {
        return None;
    }
    let starts = Starts::new(&op.map, indices).ok()?;
    let runs = PreparedScatter::new(op, starts, output, update).ok()?;
    runs.reads_indices_anew().then_some(runs)
}

/// Copies an operand to where it is changed, unless it is there.
pub fn copy_operand(operand: &RawArray, output: &RawArray) {
    if operand.pointer != output.pointer || operand.strides != output.strides {
        operand.copy_to(output);
    }
}

/// How a row of a window and its updates become one.
#[derive(Clone, Copy)]
enum Combine<'p> {
    Overwrite,
    Kernel(hlorun_kernels::Binary),
    Program(&'p Program),
}

/// The program of the computation, which takes elements of the outputs' sizes.
fn checked<'p>(op: &'p ScatterOp, outputs: &[RawArray]) -> Result<&'p Program> {
    let program = &op.combiner.program;
    for (k, &register) in program.inputs.iter().enumerate() {
        let size = outputs[k % op.count].element_type.size_bytes();
        if program.types[register.0 as usize].size_bytes() != size {
            return Err(HloError::execution("scatter computation of other types"));
        }
    }
    Ok(program)
}

/// Byte offsets of a window in an operand and in its updates.
type Place = [isize; 2];

/// The places of the windows that lie inside the operands, in index order; one place per operand.
fn windows(
    op: &ScatterOp,
    starts: &Starts,
    outputs: &[RawArray],
    updates: &[RawArray],
) -> Result<Vec<Place>> {
    let misfit = || HloError::execution("scatter updates do not fit the operands");
    let (dims, update) = (&outputs[0].dims, &updates[0]);
    let rank = dims.len();
    let same = |arrays: &[RawArray]| arrays.iter().all(|array| array.dims == arrays[0].dims);
    if !same(outputs) || !same(updates) {
        return Err(misfit());
    }
    let mut limits = dims.clone();
    limits.iter_mut().for_each(|limit| *limit -= 1);
    for (&dim, &from) in op.map.window.iter().zip(&op.update_window_dims) {
        limits[dim] = dims[dim] - update.dims[from];
    }
    for (&dim, &size) in op.scatter_dims.iter().zip(&starts.batch) {
        if update.dims[dim] != size {
            return Err(misfit());
        }
    }
    let mut places: Vec<Place> = Vec::new();
    places
        .try_reserve_exact(starts.count().saturating_mul(outputs.len()))
        .map_err(|_| HloError::execution("out of memory for scatter positions"))?;
    let strides: SmallVec<[_; 1]> = outputs
        .iter()
        .zip(updates)
        .map(|(output, update)| {
            let to = byte_strides(&output.strides, output.element_type.size_bytes());
            let from = byte_strides(&update.strides, update.element_type.size_bytes());
            (to, from)
        })
        .collect();
    let mut index: SmallVec<[i64; 6]> = SmallVec::from_elem(0, starts.batch.len());
    let mut start: SmallVec<[i64; 6]> = SmallVec::from_elem(0, rank);
    let mut vector: SmallVec<[i64; 8]> = SmallVec::from_elem(0, starts.width);
    for n in 0..starts.count() {
        starts.read(n..n + 1, &mut vector);
        for (&component, &dim) in vector.iter().zip(&op.map.components) {
            start[dim] = component;
        }
        for &(dim, batch) in &op.map.batching {
            start[dim] = index[batch];
        }
        if (0..rank).all(|d| start[d] >= 0 && start[d] <= limits[d]) {
            for (to, from) in &strides {
                let output: isize = start.iter().zip(to).map(|(&i, &s)| i as isize * s).sum();
                let dims = op.scatter_dims.iter();
                let update: isize = dims.zip(&index).map(|(&d, &i)| i as isize * from[d]).sum();
                places.push([output, update]);
            }
        }
        advance(&mut index, &starts.batch);
    }
    Ok(places)
}

/// One operand, its windows combined row by row.
fn simple(
    op: &ScatterOp,
    combine: Combine<'_>,
    windows: &[Place],
    output: &RawArray,
    update: &RawArray,
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let nest = window_nest(op, output, update, Nest::by_memory);
    let size = output.element_type.size_bytes();
    let (inner, steps) = nest.inner;
    let dense = inner == 1 || steps == [size as isize; 2];
    let (target, source) = (Shared::new(output.pointer), Shared::new(update.pointer));
    // Every task walks all windows in order, over its own part of their elements. Of windows that overlap, a part may have
    // elements of another part.
    let total = windows.len() * nest.rows() * inner;
    let parts = match windows.len() < 2 || are_disjoint(op, output, update) {
        true => (total / GRAIN).clamp(1, 64),
        false => 1,
    };
    let by_row = nest.rows() > inner;
    let length = if by_row { nest.rows() } else { inner };
    let grain = length.div_ceil(parts).max(64);
    try_split(environment, length, grain, &|part| {
        let (rows, columns) = if by_row {
            (part, 0..inner)
        } else {
            (0..nest.rows(), part)
        };
        let mut lanes = match combine {
            Combine::Overwrite => None,
            Combine::Kernel(_) if dense => None,
            Combine::Kernel(kernel) => Some(Lanes::new(Apply::Kernel(kernel), LANES, size)?),
            Combine::Program(program) => {
                let tile = program.tile(LANES);
                let frame = Frame::new(program, tile)?;
                Some(Lanes::new(Apply::Program(program, frame), tile, size)?)
            }
        };
        for &[to, from] in windows {
            nest.for_rows(rows.clone(), |[t, f]| {
                let at = columns.start as isize;
                let to = target.at(to + t + at * steps[0]);
                let from = source.at(from + f + at * steps[1]);
                // SAFETY: only windows inside the operand are in the list, and tasks have disjoint rows or columns of
                // windows that are the same or share no element; a kernel may write onto an operand.
                unsafe {
                    match (combine, &mut lanes) {
                        (Combine::Kernel(kernel), None) => kernel(to, from, to, columns.len()),
                        (_, Some(lanes)) => lanes.combine([to, from], steps, columns.len()),
                        _ if dense => hlorun_kernels::copy(from, to, columns.len() * size),
                        _ => copy_row(size, columns.len(), from, steps[1], to, steps[0]),
                    }
                }
            });
        }
        Ok(())
    })
}

/// Most elements of a row that are brought together at once.
const LANES: usize = 512;
/// Elements of a window's rows from which they are combined row by row, whatever the computation.
const WIDE_WINDOW: usize = 16;

/// What is applied to lanes.
enum Apply<'p> {
    Kernel(hlorun_kernels::Binary),
    Program(&'p Program, Frame),
}

/// Room for elements of an operand and their updates, side by side.
struct Lanes<'p> {
    apply: Apply<'p>,
    most: usize,
    size: usize,
    targets: AlignedBytes,
    sources: AlignedBytes,
}

impl<'p> Lanes<'p> {
    fn new(apply: Apply<'p>, most: usize, size: usize) -> Result<Lanes<'p>> {
        Ok(Lanes {
            apply,
            most,
            size,
            targets: AlignedBytes::uninitialized(most * size)?,
            sources: AlignedBytes::uninitialized(most * size)?,
        })
    }

    /// Combines `n` elements of a window with their updates.
    ///
    /// # Safety
    /// `n` elements lie `steps` bytes apart from each of the two pointers on; those of the first may
    /// be written.
    unsafe fn combine(&mut self, [to, from]: [*mut u8; 2], steps: [isize; 2], n: usize) {
        let size = self.size;
        let (targets, sources) = (self.targets.as_mut_ptr(), self.sources.as_mut_ptr());
        let dense = size as isize;
        for at in (0..n).step_by(self.most) {
            let count = self.most.min(n - at);
            let to = to.wrapping_offset(at as isize * steps[0]);
            let from = from.wrapping_offset(at as isize * steps[1]);
            // SAFETY: as the caller promises; `count` elements have room in either of the lanes, and
            // no more than a tile of the frame's.
            unsafe {
                copy_row(size, count, from, steps[1], sources, dense);
                match &mut self.apply {
                    Apply::Kernel(kernel) if steps[0] == dense => {
                        kernel(to, sources, to, count);
                        continue;
                    }
                    Apply::Kernel(kernel) => {
                        copy_row(size, count, to, steps[0], targets, dense);
                        kernel(targets, sources, targets, count);
                        copy_row(size, count, targets, dense, to, steps[0]);
                    }
                    Apply::Program(program, frame) => {
                        copy_row(size, count, to, steps[0], targets, dense);
                        frame.bind(program.inputs[0], targets);
                        frame.bind(program.inputs[1], sources);
                        frame.run(program, count);
                        let results = frame.pointer(program.outputs[0]);
                        copy_row(size, count, results, dense, to, steps[0]);
                    }
                }
            }
        }
    }
}

/// Elements of every operand and their updates, gathered until a tile is full.
struct Tile<'p> {
    program: &'p Program,
    frame: Frame,
    /// Bytes of an element of each operand.
    sizes: SmallVec<[usize; 2]>,
    /// Lanes of every operand, then of every update.
    inputs: SmallVec<[*mut u8; 4]>,
    /// Where the lanes of each operand came from.
    targets: SmallVec<[Vec<*mut u8>; 1]>,
    _lanes: AlignedBytes,
}

impl<'p> Tile<'p> {
    fn new(program: &'p Program, sizes: SmallVec<[usize; 2]>, lanes: usize) -> Result<Tile<'p>> {
        let mut frame = Frame::new(program, lanes)?;
        let count = sizes.len();
        // 16 divides the alignment of each operand's lanes.
        let mut bytes = AlignedBytes::uninitialized(2 * sizes.iter().sum::<usize>() * lanes)?;
        let mut at = bytes.as_mut_ptr();
        let mut inputs = SmallVec::new();
        for k in 0..2 * count {
            inputs.push(at);
            frame.bind(program.inputs[k], at);
            at = at.wrapping_add(sizes[k % count] * lanes);
        }
        Ok(Tile {
            program,
            frame,
            inputs,
            targets: SmallVec::from_elem(Vec::new(), count),
            sizes,
            _lanes: bytes,
        })
    }

    /// Lanes that are filled.
    #[inline]
    fn len(&self) -> usize {
        self.targets[0].len()
    }

    /// Copies an element of operand `k` and its update to the next lane.
    ///
    /// # Safety
    /// A lane is free; both pointers are those of elements of operand `k`'s type.
    #[inline]
    unsafe fn push(&mut self, k: usize, target: *mut u8, source: *const u8) {
        let size = self.sizes[k];
        let lane = self.targets[k].len() * size;
        let update = self.inputs[self.sizes.len() + k];
        // SAFETY: the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(target, self.inputs[k].add(lane), size);
            std::ptr::copy_nonoverlapping(source, update.add(lane), size);
        }
        self.targets[k].push(target);
    }

    /// Combines the lanes that are filled and stores the results.
    ///
    /// # Safety
    /// As many elements of every operand were pushed, and they may be written.
    unsafe fn flush(&mut self) {
        // SAFETY: the inputs are bound to filled lanes, of which there are as many as targets.
        unsafe {
            self.frame.run(self.program, self.len());
            for (k, list) in self.targets.iter_mut().enumerate() {
                let (results, size) = (self.frame.pointer(self.program.outputs[k]), self.sizes[k]);
                for (lane, target) in list.drain(..).enumerate() {
                    std::ptr::copy_nonoverlapping(results.add(lane * size), target, size);
                }
            }
        }
    }
}

/// Any combiner over any number of operands.
fn general(
    op: &ScatterOp,
    windows: &[Place],
    outputs: &[RawArray],
    updates: &[RawArray],
) -> Result<()> {
    let (program, count) = (checked(op, outputs)?, op.count);
    let sizes = outputs.iter().map(|o| o.element_type.size_bytes());
    let dims = op.update_window_dims.iter().map(|&d| updates[0].dims[d]);
    let elements = dims.product::<i64>().max(0) as usize;
    let lanes = if op.unique_indices {
        elements.saturating_mul(windows.len() / count)
    } else {
        elements
    };
    let most = program.tile(lanes);
    let mut tile = Tile::new(program, sizes.collect(), most)?;
    // All operands walk the window in the same order, that of its dimensions.
    let pairs = outputs.iter().zip(updates);
    let nests: SmallVec<[Nest<2>; 1]> = pairs
        .map(|(output, update)| window_nest(op, output, update, Nest::by_element))
        .collect();
    for places in windows.chunks_exact(count) {
        let mut done = 0;
        while done < elements {
            let part = done..(done + most - tile.len()).min(elements);
            for (k, &[to, from]) in places.iter().enumerate() {
                nests[k].for_rows(part.clone(), |[t, f]| {
                    let target = outputs[k].pointer.wrapping_offset(to + t);
                    let source = updates[k].pointer.wrapping_offset(from + f);
                    // SAFETY: the window lies inside operand and updates; `part` fills no more than
                    // the tile's free lanes.
                    unsafe { tile.push(k, target, source) };
                });
            }
            done = part.end;
            if tile.len() == most {
                // SAFETY: all operands have the elements `part` of a window; nobody else writes them.
                unsafe { tile.flush() };
            }
        }
        // The next window may read what this one writes.
        if !op.unique_indices {
            // SAFETY: as above.
            unsafe { tile.flush() };
        }
    }
    // SAFETY: as above.
    unsafe { tile.flush() };
    Ok(())
}
