//! How a product is cut: rows into tiles, columns into strips, work into tasks.
//!
//! In: sizes. Out: parts. Promise: the parts depend on the sizes alone, but for the number of tasks.

use super::micro::Kernels;
use super::{Parallel, share};
use std::ops::Range;

/// Steps along k in one block: a strip of B of this length stays in the first-level cache or, the widest, in the second.
pub(super) const KC: usize = 256;
/// Most rows of A that are packed for all threads at once.
pub(super) const BAND: usize = 2048;
/// Most bytes that are packed for all threads at once, where a block of the depth is not more.
pub(super) const SHARED: usize = 4 << 20;
/// Strips of B a task keeps in its second-level cache.
pub(super) const GROUP: usize = 8;
/// Tiles of rows up to which B is read in place by each.
pub(super) const READERS: usize = 2;
/// Rows of tiles four vectors wide that are as good as more rows of two vectors.
const WIDE_ROWS: usize = 6;
/// Multiplications, and elements read, that are worth another thread.
const WORTH: usize = 3 << 18;
const WORTH_READ: usize = 1 << 17;
/// Tasks for each thread that are enough: the more there are, the less it matters who takes the last ones.
const MOST_TASKS: usize = 8;
/// Fewest tiles of a part of the rows: each part may copy its strips of B again.
const PART_TILES: usize = 4;
/// Per cent of the threads' time that is enough: strips that are copied again take some of it, too.
const BUSY: usize = 90;

/// Steps of the depth between two checks whether the run is to end: as many as may be packed at once, of so many rows or
/// columns.
pub(super) fn depth_step<E>(width: usize) -> usize {
    (SHARED / size_of::<E>() / width / KC).max(1) * KC
}

/// How many of at most `most` tasks are worth making of so many multiplications and elements.
pub(super) fn worth(
    parallel: &Parallel,
    multiplications: usize,
    elements: usize,
    most: usize,
) -> usize {
    if parallel.threads == 1 || (multiplications < WORTH && elements < WORTH_READ) {
        1
    } else {
        most.clamp(1, parallel.threads * MOST_TASKS)
    }
}

/// Into how many parts tasks of equal size are cut along `tiles`, so that all threads are busy until the end: the fewest
/// parts with which they are busy for [`BUSY`] per cent of the time, or those with which they are busy longest.
pub(super) fn row_parts(parallel: &Parallel, tasks: usize, tiles: usize) -> usize {
    let busy = |parts: usize| {
        let rounds = (tasks * parts).div_ceil(parallel.threads);
        (tasks * parts * 100) / (rounds * parallel.threads)
    };
    let most = match tasks {
        1 => 1,
        _ => (tiles / PART_TILES).clamp(1, MOST_TASKS * parallel.threads / tasks + 1),
    };
    let mut best = 1;
    for parts in 1..=most {
        if busy(parts) > busy(best) {
            best = parts;
        }
        if busy(best) >= BUSY {
            break;
        }
    }
    best
}

/// Splits rows into tiles of nearly equal height.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    rows: usize,
    pub count: usize,
}

impl Tiles {
    pub fn new(rows: usize, most: usize) -> Tiles {
        Tiles {
            rows,
            count: rows.div_ceil(most),
        }
    }

    pub fn get(self, tile: usize) -> Range<usize> {
        share(self.rows, self.count, tile, 1)
    }
}

/// How many vectors wide the strips are: as a power of two.
pub(super) fn strip_vectors<E>(kernels: &Kernels<E>, rows: usize, columns: usize) -> usize {
    let lanes = kernels.lanes;
    // Tiles of two vectors are higher, so that B is read less often. With many tiles B is copied to a cache, where reading
    // costs little.
    let has_many_readers = rows > READERS * kernels.packed_rows[1];
    let is_wide = rows <= 4 || (has_many_readers && kernels.direct_rows[2] >= WIDE_ROWS);
    if columns <= lanes {
        0
    } else if is_wide && columns >= 4 * lanes {
        2
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_get_equal_shares_of_few_strips() {
        let parts = |threads, tasks, tiles| {
            let parallel = Parallel {
                threads,
                ..Parallel::SERIAL
            };
            row_parts(&parallel, tasks, tiles)
        };
        // Every thread gets as many tasks as the others; of 64, all but four get one.
        assert_eq!(parts(1, 3, 100), 1);
        assert_eq!(parts(2, 4, 100), 1);
        assert_eq!(parts(2, 3, 100), 2);
        assert_eq!(parts(4, 6, 100), 2);
        assert_eq!(parts(2, 7, 100), 2);
        assert_eq!(parts(64, 3, 1000), 20);
        // Of fifteen tasks one thread gets half a task more: copying strips again would take longer.
        assert_eq!(parts(2, 15, 100), 1);
        // A single task is not cut, and short parts are not worth copying strips for.
        assert_eq!(parts(2, 1, 100), 1);
        assert_eq!(parts(2, 3, 2 * PART_TILES - 1), 1);
    }
}
