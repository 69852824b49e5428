//! Which walks read an array across memory: a transposed array, along its columns.
//!
//! In: a walk. Out: how to bring its rows in some at a time. Such a walk costs little more than one along memory; read tile
//! by tile instead, every element would cost a cache line.

use super::cost::transposed_blocks::{
    BLOCK_BYTES, MAX_BLOCK_BYTES, MIN_ELEMENTS, MIN_ROW, MIN_ROWS, MIN_STEP,
};
use super::view::Walk;
use smallvec::SmallVec;

/// How rows of a walk are brought in. A row is what the walk reads before the dimension with the shortest step moves, of those
/// with enough rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transposition {
    /// Dimensions of the walk before the one that lies along memory.
    pub(crate) outer: usize,
    /// Elements of a row.
    pub(crate) row: usize,
    /// Rows before an outer dimension moves.
    pub(crate) rows: usize,
    /// Rows of a block.
    pub(crate) block: usize,
}

impl Transposition {
    /// How to bring in `walk`, whose elements have `size` bytes; `None` where it is read as it lies.
    pub fn of(walk: &Walk, size: usize) -> Option<Transposition> {
        let (&(_, last), before) = walk.as_slice().split_last()?;
        let step = |at: usize| before[at].1.unsigned_abs();
        let is_across = (last.unsigned_abs() as usize).saturating_mul(size) >= MIN_STEP
            && elements(walk) >= MIN_ELEMENTS;
        let mut dims: SmallVec<[usize; 8]> = (0..before.len())
            .filter(|&at| is_across && step(at) != 0 && step(at) < last.unsigned_abs())
            .collect();
        dims.sort_by_key(|&at| step(at));
        dims.into_iter().find_map(|outer| {
            let (rows, row) = (before[outer].0 as usize, elements(&walk[outer + 1..]));
            let is_worth_it = row >= MIN_ROW
                && rows >= MIN_ROWS
                && row.saturating_mul(size * MIN_ROWS) <= MAX_BLOCK_BYTES;
            is_worth_it.then(|| Transposition {
                outer,
                row,
                rows,
                block: (BLOCK_BYTES / (row * size)).clamp(MIN_ROWS, rows.max(MIN_ROWS)),
            })
        })
    }
}

fn elements(walk: &[(i64, i64)]) -> usize {
    let sizes = walk.iter().map(|step| step.0 as usize);
    sizes.fold(1, usize::saturating_mul)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_across_memory_are_transposed() {
        let transposition = |walk: &[(i64, i64)]| Transposition::of(&Walk::from_slice(walk), 4);
        assert!(transposition(&[(1000, 1), (1000, 1000)]).is_some());
        assert!(transposition(&[(1000, 1000), (1000, 1)]).is_none());
        assert!(transposition(&[(1000, 0), (1000, 1000)]).is_none());
        assert!(transposition(&[(8, 1), (8, 100)]).is_none());
        assert!(transposition(&[(400, 1), (25_000, 400)]).is_some());
        assert!(transposition(&[(1000, 1), (1_000_000, 1000)]).is_none());
        assert!(transposition(&[(1000, 5000)]).is_none());
        assert!(transposition(&[(1000, 1), (0, 1000)]).is_none());
        assert!(transposition(&[(i64::MAX, 1), (i64::MAX, 1000)]).is_none());
    }

    #[test]
    fn rows_may_have_several_dimensions() {
        let transposition = |walk: &[(i64, i64)]| Transposition::of(&Walk::from_slice(walk), 4);
        let reversed = transposition(&[(2459, 1), (258, 2459), (10, 258 * 2459)]).unwrap();
        assert_eq!((reversed.outer, reversed.row), (0, 2580));
        let planes = transposition(&[(5, 90_000), (300, 1), (20, 4500), (15, 300)]).unwrap();
        assert_eq!((planes.outer, planes.row), (1, 300));
        // Few rows lie along memory; more of them lie three elements apart.
        let image = transposition(&[(3, 1), (1000, 3), (1000, 3000)]).unwrap();
        assert_eq!((image.outer, image.row), (1, 1000));
        // The dimension along memory is the last.
        assert!(transposition(&[(300, 10), (20, 3000), (10, 1)]).is_none());
    }
}
