//! Which walks read an array across memory: a transposed array, along its columns.
//!
//! In: a walk. Out: how to bring its rows in some at a time. Such a walk costs little more than one along memory; read tile
//! by tile instead, every element would cost a cache line.

use super::cost::transposed_blocks::{
    BLOCK_BYTES, MAX_BLOCK_BYTES, MIN_ELEMENTS, MIN_ROW, MIN_ROWS, MIN_STEP,
};
use super::view::Walk;

/// How rows of a walk are brought in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transposition {
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
        let [outer @ .., (rows, across), (row, step)] = walk.as_slice() else {
            return None;
        };
        let (rows, row) = (*rows as usize, *row as usize);
        let outer = outer.iter().map(|step| step.0 as usize);
        let total = outer
            .chain([rows, row])
            .fold(1, |n: usize, size| n.saturating_mul(size));
        let is_worth_it = across.unsigned_abs() < step.unsigned_abs()
            && *across != 0
            && (step.unsigned_abs() as usize).saturating_mul(size) >= MIN_STEP
            && row >= MIN_ROW
            && rows >= MIN_ROWS
            && total >= MIN_ELEMENTS
            && row.saturating_mul(size * MIN_ROWS) <= MAX_BLOCK_BYTES;
        if !is_worth_it {
            return None;
        }
        let block = (BLOCK_BYTES / (row * size)).clamp(MIN_ROWS, rows.max(MIN_ROWS));
        Some(Transposition { row, rows, block })
    }
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
}
