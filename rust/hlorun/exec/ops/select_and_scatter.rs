//! Runs `select-and-scatter`: first every source element's place in the operand, many at a time,
//! then the scatter, one after the other in row-major order of the source.

use super::lanes::{Folder, Row};
use super::reduce_window::{broadcast, for_boxes};
use super::window::spans;
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::element::program::Frame;
use crate::exec::parallel::OpEnvironment;
use crate::plan::ops::select_and_scatter::SelectAndScatterOp;
use crate::types::strided;

/// No place yet.
const NONE: isize = isize::MIN;

/// Runs `op`: operand, source and initial value in, one array of the operand's sizes out.
pub fn run(
    op: &SelectAndScatterOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    _environment: &OpEnvironment<'_>,
) -> Result<()> {
    let ([operand, source, init], [output]) = (inputs, outputs) else {
        return Err(HloError::execution("select-and-scatter takes other arrays"));
    };
    let rank = op.window.0.len();
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
    let places = select(op, operand, source)?;
    let mut folder = Folder::new(&op.scatter, &[output.element_type], 1)?;
    let values = source.to_row_major()?;
    let size = output.element_type.size_bytes();
    for (n, &place) in places.iter().enumerate() {
        if place == NONE {
            continue;
        }
        // The place is an element of the operand by logical strides of its own.
        let at = strided::place(place as i64, output.dims.iter().zip(&output.strides));
        let to = Row::dense(output.pointer.wrapping_offset(at as isize * size as isize));
        let from = Row::dense(values.shared_ptr().wrapping_add(n * size));
        // SAFETY: one element of the output, one of the source.
        unsafe { folder.fold(&[to], &[from], 1) };
    }
    Ok(())
}

/// The selected element of every window as a row-major index of the operand, in row-major order of
/// the source.
fn select(op: &SelectAndScatterOp, operand: &RawArray, source: &RawArray) -> Result<Vec<isize>> {
    let program = &op.select.program;
    let size = operand.element_type.size_bytes();
    let fits = program
        .inputs
        .iter()
        .all(|r| program.types[r.0 as usize].size_bytes() == size);
    if !fits {
        return Err(HloError::execution("select computation of other types"));
    }
    let count = source.count();
    let mut places: Vec<isize> = Vec::new();
    places
        .try_reserve_exact(count)
        .map_err(|_| HloError::execution("out of memory for select-and-scatter"))?;
    places.resize(count, NONE);
    let mut bytes = operand.to_row_major()?;
    let elements = bytes.as_mut_ptr();
    let row_major = RawArray::row_major_strides(&operand.dims);
    let source_strides = RawArray::row_major_strides(&source.dims);
    let tile = Frame::tile_for(program, count);
    let mut frame = Frame::new(program, tile)?;
    let mut scratch = AlignedBytes::uninitialized(2 * size * tile)?;
    let selected = scratch.as_mut_ptr();
    let candidates = selected.wrapping_add(size * tile);
    frame.bind(program.inputs[0], selected);
    frame.bind(program.inputs[1], candidates);
    let lists: Vec<_> = (0..source.dims.len())
        .map(|d| spans(&op.window.0[d], operand.dims[d], &(0..source.dims[d])))
        .collect();
    // Lanes waiting for an answer: the window, and the candidate's place.
    let mut waiting: Vec<(usize, isize)> = Vec::new();
    for_boxes(
        &lists,
        &source_strides,
        &row_major,
        &mut |nest, [to, from]| {
            let flush = |waiting: &mut Vec<(usize, isize)>, places: &mut [isize]| {
                for (lane, &(window, candidate)) in waiting.iter().enumerate() {
                    // SAFETY: places are elements of the operand, lanes are below the tile.
                    unsafe {
                        let from = elements.offset(places[window] * size as isize);
                        std::ptr::copy_nonoverlapping(from, selected.add(lane * size), size);
                        let from = elements.offset(candidate * size as isize);
                        std::ptr::copy_nonoverlapping(from, candidates.add(lane * size), size);
                    }
                }
                // SAFETY: both inputs are bound to as many filled lanes.
                unsafe { frame.run(program, waiting.len()) };
                let answers = frame.pointer(program.outputs[0]);
                for (lane, (window, candidate)) in waiting.drain(..).enumerate() {
                    // SAFETY: one pred byte per lane.
                    if unsafe { answers.add(lane).read() } == 0 {
                        places[window] = candidate;
                    }
                }
            };
            nest.for_rows(0..nest.rows(), |[t, f]| {
                for i in 0..nest.inner.0 as isize {
                    let window = (to + t + i * nest.inner.1[0]) as usize;
                    let candidate = from + f + i * nest.inner.1[1];
                    if places[window] == NONE {
                        places[window] = candidate;
                    } else {
                        waiting.push((window, candidate));
                        if waiting.len() == tile {
                            flush(&mut waiting, &mut places);
                        }
                    }
                }
            });
            // The next position looks at what this one selected.
            flush(&mut waiting, &mut places);
        },
    );
    Ok(places)
}
