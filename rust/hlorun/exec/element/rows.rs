//! Elements over rows, read and written where they lie; see [`crate::plan::schedule::row_loops`].
//!
//! In: a [`RowLoop`], and where its inputs and results are. Out: its elements, a block of columns of all rows of a tile before
//! the next block, or by machine code row after row. Promise: the bits that tiles give, of a NaN only that it is one.

use std::ops::Range;

use hlorun_kernels::vector_bytecode::Rows;
use smallvec::SmallVec;

use super::program::Frame;
use super::sources::Sources;
use crate::error::Result;
use crate::plan::thunk::row_loop::{RowLoop, RowSource};

/// What a thread needs to run parts of the loop.
pub fn frame(rows: &RowLoop) -> Result<Frame> {
    Frame::of_vector_bytecode(rows.code.scratch_bytes(), rows.copied_bytes())
}

/// Computes elements `range`, which are whole rows. `place` says where a result has the first element of a row, and the bytes of
/// an element.
///
/// # Safety
/// `frame` is one of [`frame`] for `rows`. Each result has room for the elements of every row, which follow the first one; rows
/// of a plane are as far apart as the plan says. No result overlaps an input that is read where it lies, unless the plan allows
/// it.
pub unsafe fn range(
    rows: &RowLoop,
    sources: &Sources<'_>,
    place: impl Fn(usize, usize) -> (*mut u8, usize),
    frame: &mut Frame,
    range: Range<usize>,
) {
    let (scratch, copies) = frame.vector_memory();
    let (mut at, end) = (range.start / rows.row, range.end / rows.row);
    let mut outside: SmallVec<[Rows; 16]> = SmallVec::new();
    // Copies have room for a tile; otherwise row after row is taken as it comes.
    let is_free = rows.copied_bytes() == 0 && rows.code.goes_by_rows(rows.row, rows.steps());
    let most = if is_free { usize::MAX } else { rows.tile };
    while at < end {
        let rest_of_plane = rows.plane - at % rows.plane;
        let count = rest_of_plane.min(most).min(end - at);
        let first = at * rows.row;
        outside.clear();
        for &(input, source) in &rows.inputs {
            outside.push(match source {
                RowSource::InPlace(step) => {
                    let (address, size) = sources.first(input, first);
                    Rows {
                        address,
                        step: step as isize * size as isize,
                    }
                }
                RowSource::Copied { row, offset } => {
                    let address = copies.wrapping_add(offset);
                    // SAFETY: the frame has room for the rows of a tile behind the offset.
                    unsafe { sources.copy(input, first, count * rows.row, address) };
                    Rows {
                        address,
                        step: row as isize,
                    }
                }
            });
        }
        for (result, &step) in rows.outputs.iter().enumerate() {
            let (address, size) = place(result, first);
            outside.push(Rows {
                address,
                step: step as isize * size as isize,
            });
        }
        // SAFETY: the caller's promise; the rows of a plane have the planned distance, those of a copy follow each other, and
        // [`frame`] made room for both.
        unsafe { rows.code.run(&outside, (count, rows.row), scratch) };
        at += count;
    }
}
