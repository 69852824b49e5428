//! A stable merge sort that asks a compiled comparator about many pairs at once.
//!
//! In: rows and a comparator. Out: the order of every row. All merges of a level go in lockstep,
//! one comparison each per step. Promise: the order is a permutation even where the comparator
//! contradicts itself.

use super::sort_rows::{Order, Rows, new_order};
use super::walk::{Shared, try_split};
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::element::program::Frame;
use crate::exec::parallel::OpEnvironment;
use crate::plan::element::program::Program;

/// Elements one task sorts, unless a row is longer.
const CHUNK: usize = 32 << 10;

/// The order of every row of `rows` by `comparator`.
pub fn order(
    comparator: &Program,
    rows: &Rows,
    length: usize,
    environment: &OpEnvironment<'_>,
) -> Result<Order> {
    let count = rows.count();
    let mut order = new_order(count, length)?;
    let target = Shared::new(order.as_mut_ptr().cast());
    let sources: Vec<(Shared, usize)> = rows
        .operands
        .iter()
        .map(|o| (Shared::new(o.pointer), o.element_type.size_bytes()))
        .collect();
    for (i, &register) in comparator.inputs.iter().enumerate() {
        if comparator.types[register.0 as usize].size_bytes() != sources[i / 2].1 {
            return Err(HloError::execution("sort comparator of other types"));
        }
    }
    let chunk_rows = (CHUNK / length).max(1);
    let row_count = count / length;
    try_split(environment, row_count.div_ceil(chunk_rows), 1, &|range| {
        for chunk in range {
            let first = chunk * chunk_rows;
            let rows = chunk_rows.min(row_count - first);
            let start = first * length;
            // SAFETY: chunks are disjoint parts of the order.
            let order = unsafe {
                std::slice::from_raw_parts_mut(target.get().cast::<u32>().add(start), rows * length)
            };
            let sources: Vec<(*const u8, usize)> = sources
                .iter()
                .map(|&(pointer, size)| (pointer.at((start * size) as isize).cast_const(), size))
                .collect();
            sort_chunk(comparator, &sources, length, order)?;
        }
        Ok(())
    })?;
    Ok(order)
}

/// One merge under way: the heads and ends of both runs, and where the next element goes; positions
/// in the chunk.
struct Merge {
    left: usize,
    left_end: usize,
    right: usize,
    right_end: usize,
    out: usize,
}

fn sort_chunk(
    comparator: &Program,
    sources: &[(*const u8, usize)],
    length: usize,
    order: &mut [u32],
) -> Result<()> {
    let count = order.len();
    for (i, to) in order.iter_mut().enumerate() {
        *to = (i % length) as u32;
    }
    let mut other: Vec<u32> = Vec::new();
    other
        .try_reserve_exact(count)
        .map_err(|_| HloError::execution("out of memory for sorting"))?;
    other.resize(count, 0);
    let mut asker = Asker::new(comparator, sources, count / 2 + 1)?;
    let mut width = 1;
    while width < length {
        let mut merges = Vec::new();
        for row in (0..count).step_by(length) {
            let mut start = row;
            while start < row + length {
                let middle = (start + width).min(row + length);
                let end = (middle + width).min(row + length);
                if middle < end {
                    merges.push(Merge {
                        left: start,
                        left_end: middle,
                        right: middle,
                        right_end: end,
                        out: start,
                    });
                } else {
                    other[start..end].copy_from_slice(&order[start..end]);
                }
                start = end;
            }
        }
        while !merges.is_empty() {
            for block in merges.chunks_mut(asker.lanes) {
                asker.ask(block, order, length, &mut other);
            }
            merges.retain(|merge| {
                // A run that is left alone follows as it is.
                if merge.left < merge.left_end && merge.right < merge.right_end {
                    return true;
                }
                let rest = merge.left..merge.left_end;
                let at = merge.out + rest.len();
                other[merge.out..at].copy_from_slice(&order[rest]);
                let rest = merge.right..merge.right_end;
                other[at..at + rest.len()].copy_from_slice(&order[rest]);
                false
            });
        }
        order.copy_from_slice(&other);
        width *= 2;
    }
    Ok(())
}

/// The comparator with its lanes.
struct Asker<'p> {
    program: &'p Program,
    sources: &'p [(*const u8, usize)],
    frame: Frame,
    inputs: Vec<*mut u8>,
    lanes: usize,
    _scratch: AlignedBytes,
}

impl<'p> Asker<'p> {
    fn new(
        program: &'p Program,
        sources: &'p [(*const u8, usize)],
        most: usize,
    ) -> Result<Asker<'p>> {
        let lanes = program.tile(most).min(most.next_multiple_of(64));
        let mut frame = Frame::new(program, lanes)?;
        let bytes: usize = sources.iter().map(|source| 2 * source.1).sum();
        // Lanes are a multiple of 64, so every array starts aligned.
        let mut scratch = AlignedBytes::uninitialized(bytes * lanes)?;
        let mut at = scratch.as_mut_ptr();
        let mut inputs = Vec::new();
        for (i, &register) in program.inputs.iter().enumerate() {
            frame.bind(register, at);
            inputs.push(at);
            at = at.wrapping_add(sources[i / 2].1 * lanes);
        }
        Ok(Asker {
            program,
            sources,
            frame,
            inputs,
            lanes,
            _scratch: scratch,
        })
    }

    /// One step of every merge: the right head goes first only if it is strictly before the left.
    fn ask(&mut self, merges: &mut [Merge], order: &[u32], length: usize, other: &mut [u32]) {
        for (k, &(source, size)) in self.sources.iter().enumerate() {
            // Asked as comparator(right, left): parameter 2k is the right head.
            let (first, second) = (self.inputs[2 * k], self.inputs[2 * k + 1]);
            for (lane, merge) in merges.iter().enumerate() {
                let row = merge.left / length * length;
                let right = row + order[merge.right] as usize;
                let left = row + order[merge.left] as usize;
                // SAFETY: positions lie in the chunk; lanes are at most `self.lanes`.
                unsafe {
                    let to = first.add(lane * size);
                    std::ptr::copy_nonoverlapping(source.add(right * size), to, size);
                    let to = second.add(lane * size);
                    std::ptr::copy_nonoverlapping(source.add(left * size), to, size);
                }
            }
        }
        // SAFETY: inputs are bound to as many filled lanes as there are merges.
        unsafe { self.frame.run(self.program, merges.len()) };
        let answers = self.frame.pointer(self.program.outputs[0]);
        for (lane, merge) in merges.iter_mut().enumerate() {
            // SAFETY: one pred byte per lane.
            let from = if unsafe { answers.add(lane).read() } != 0 {
                &mut merge.right
            } else {
                &mut merge.left
            };
            other[merge.out] = order[*from];
            *from += 1;
            merge.out += 1;
        }
    }
}
