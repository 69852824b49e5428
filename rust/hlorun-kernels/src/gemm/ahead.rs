//! What a tile asks for while it is computed, so that it need not wait for it later.
//!
//! In: where rows of A and of strips of B lie. Out: prefetches. Promise: nothing is read; an address may lie anywhere.
//!
//! The widest strips, four vectors of 64 bytes, take 64 KiB, more than most first-level caches: a tile asks for their rows
//! a few steps before it reads them. The next strip comes from memory. It is asked for into the second-level cache, and
//! the tiles that use the present strip share the requests: one tile alone would wait for memory all the time.

use super::tiles::KC;
use crate::stream::expect;

/// Steps between requests for A.
pub(super) const UNROLL: usize = 8;
/// How many steps ahead a row of the strip is asked for, and an element of A: about as long as the second-level cache takes.
const NEAR: isize = 8;
const NEAR_A: isize = 16;
/// Bytes of a small first-level cache. A larger strip is no longer in it when the next tile reads it.
const FIRST_LEVEL: usize = 32 << 10;

/// Asks for a line into the first-level cache.
#[inline(always)]
pub(super) fn prefetch<E>(at: *const E) {
    expect::<false>(at.cast(), 1);
}

/// Asks for the row of a strip that is read some steps after the one at `b`, where a strip of a whole block is too large
/// for the first-level cache.
#[inline(always)]
pub(super) fn prefetch_near<E, const NR: usize>(b: *const E, b_row: isize) {
    if NR * size_of::<E>() * KC > FIRST_LEVEL {
        prefetch_row::<E, NR>(b.wrapping_offset(NEAR * b_row));
    }
}

/// Asks for what a row of A has some steps later.
#[inline(always)]
pub(super) fn prefetch_a<E>(a: *const E, a_col: isize) {
    prefetch(a.wrapping_offset(NEAR_A * a_col));
}

/// Asks for a row of a tile.
#[inline(always)]
pub(super) fn prefetch_row<E, const NR: usize>(row: *const E) {
    let mut at = 0;
    while at < NR {
        prefetch(row.wrapping_add(at));
        at += 64 / size_of::<E>();
    }
}

/// What is asked for while a tile is computed: rows of a strip that is read later, as wide as its own.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    at: *const u8,
    /// Bytes from one row to the next.
    row: isize,
    /// A request is due at steps that have none of these bits: every so many steps, a power of two.
    mask: usize,
}

/// Most tiles that share the requests for a strip. With more of them each waits less, but the last rows are asked for later.
const SHARERS: usize = 8;
/// How many steps ahead a tile asks for its own strip where that is not yet in a cache.
const FIRST_AHEAD: isize = 12;

impl Ahead {
    /// No rows: one request for what is read now anyway.
    pub fn nothing<E>(b: *const E) -> Ahead {
        Ahead {
            at: b.cast(),
            row: 0,
            mask: usize::MAX,
        }
    }

    /// The rows of its own strip, some steps ahead.
    pub fn own<E>(b: *const E, b_row: isize) -> Ahead {
        Ahead {
            at: b.wrapping_offset(FIRST_AHEAD * b_row).cast(),
            row: b_row * size_of::<E>() as isize,
            mask: 0,
        }
    }

    /// Of `rows` rows from `at` on, `row` bytes apart, the part that tile `tile` of `tiles` asks for; `None` for tiles beyond
    /// those that share them.
    pub fn part(
        at: *const u8,
        row: isize,
        rows: usize,
        tile: usize,
        tiles: usize,
    ) -> Option<Ahead> {
        let sharers = 1 << tiles.clamp(1, SHARERS).ilog2();
        (tile < sharers).then(|| Ahead {
            at: at.wrapping_offset(row * (rows * tile / sharers) as isize),
            row,
            mask: sharers - 1,
        })
    }

    /// Asks for what is due at step `p`: into the second-level cache, so that rows a power of two apart do not drive each
    /// other out of the first.
    #[inline(always)]
    pub fn ask<E, const NR: usize>(&mut self, p: usize) {
        if p & self.mask == 0 {
            let mut at = 0;
            while at < NR * size_of::<E>() {
                expect::<true>(self.at.wrapping_add(at), 1);
                at += 64;
            }
            self.at = self.at.wrapping_offset(self.row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_share_all_rows_of_the_next_strip() {
        let row = 256isize;
        for tiles in [1, 2, 3, 7, 8, 9, 33] {
            for depth in [1, 5, 64, 255, 256] {
                let mut asked = vec![false; depth];
                for tile in 0..tiles {
                    let part = Ahead::part(std::ptr::null(), row, depth, tile, tiles);
                    let Some(ahead) = part else { continue };
                    let first = ahead.at.addr() / row as usize;
                    let count = (0..depth).filter(|p| p & ahead.mask == 0).count();
                    let own = first..(first + count).min(depth);
                    own.for_each(|at| asked[at] = true);
                }
                assert!(asked.iter().all(|&is| is), "{tiles} tiles, {depth} rows");
            }
        }
    }

    #[test]
    fn one_row_is_asked_for_where_there_is_nothing() {
        let ahead = Ahead::nothing(std::ptr::null::<f32>());
        assert_eq!((0..10_000).filter(|p| p & ahead.mask == 0).count(), 1);
    }
}
