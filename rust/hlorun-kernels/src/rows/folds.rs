//! Short rows that are folded to one value each.
//!
//! In: rows that follow each other. Out: `results[row] = f(results[row], value)` for each value of a row, in order. Promise: the
//! bits of the two-operand kernel.

use super::turned::{COLUMNS, ROWS, pairs, turned};
use crate::element::Pred;
use crate::elementwise::{Bin, Tier};

/// Rows of a few values that are folded together: a multiple of those that are turned.
const FOLDED: usize = 16;
const _: () = assert!(
    FOLDED / ROWS * ROWS == FOLDED,
    "what is left begins at a multiple of the rows that are turned"
);

/// Neighbouring rows are folded side by side, as the values of one depend on each other. Some rows of two to four values are
/// read as they follow each other; of other rows of at most `TURNED` values a few columns are read at a time.
#[inline(always)]
pub(super) unsafe fn fold<T: Tier, A: Copy, O: Bin<A, Out = A>, const TURNED: usize>(
    values: *const u8,
    rows: usize,
    size: usize,
    results: *mut u8,
) {
    let (values, results) = (values.cast::<A>(), results.cast::<A>());
    let whole = rows / ROWS * ROWS;
    // SAFETY: the caller's contract: `rows` times `size` values, and as many results as rows.
    unsafe {
        let done = match (size, size_of::<A>()) {
            (2, 4 | 8) => fold_pairs::<T, A, O>(values, rows, results),
            (2, _) => fold_short::<T, A, O, 2>(values, rows, results),
            (3, 1 | 2) => fold_short::<T, A, O, 3>(values, rows, results),
            (4, 1 | 2 | 4) => fold_short::<T, A, O, 4>(values, rows, results),
            _ => 0,
        };
        for row in (done..whole).step_by(ROWS) {
            let first = values.add(row * size);
            let at = results.add(row).cast::<[A; ROWS]>();
            let mut x = at.read_unaligned();
            let mut i = 0;
            while i + COLUMNS <= size && size <= TURNED {
                fold_columns::<T, A, O, COLUMNS>(&mut x, first.add(i), size);
                i += COLUMNS;
            }
            // Four values are read of each row, also where fewer are left: those behind the end of the eighth row have to be
            // values of later rows.
            let is_inside = (row + ROWS - 1) * size + i + COLUMNS <= rows * size;
            if i < size && is_inside && size <= TURNED {
                match size - i {
                    1 => fold_columns::<T, A, O, 1>(&mut x, first.add(i), size),
                    2 => fold_columns::<T, A, O, 2>(&mut x, first.add(i), size),
                    _ => fold_columns::<T, A, O, 3>(&mut x, first.add(i), size),
                }
                i = size;
            }
            for i in i..size {
                for (lane, x) in x.iter_mut().enumerate() {
                    *x = O::f::<T>(*x, first.add(lane * size + i).read_unaligned());
                }
            }
            at.write_unaligned(x);
        }
        for row in whole..rows {
            let mut x = results.add(row).read_unaligned();
            for i in 0..size {
                x = O::f::<T>(x, values.add(row * size + i).read_unaligned());
            }
            results.add(row).write_unaligned(x);
        }
    }
}

/// Folds rows of two values, [`ROWS`] at a time; returns how many there were.
#[inline(always)]
unsafe fn fold_pairs<T: Tier, A: Copy, O: Bin<A, Out = A>>(
    values: *const A,
    rows: usize,
    results: *mut A,
) -> usize {
    let whole = rows / ROWS * ROWS;
    for row in (0..whole).step_by(ROWS) {
        // SAFETY: the caller's contract: so many rows follow, and as many results.
        unsafe {
            let at = results.add(row).cast::<[A; ROWS]>();
            let mut x = at.read_unaligned();
            for column in pairs::<T, A>(values.add(2 * row)) {
                for (x, y) in x.iter_mut().zip(column) {
                    *x = O::f::<T>(*x, y);
                }
            }
            at.write_unaligned(x);
        }
    }
    whole
}

/// Folds rows of `N` values, [`FOLDED`] at a time; returns how many there were. All of the values are read by
/// vectors, which the compiler takes apart. It does that well for elements of one or two bytes, and for rows of four elements.
#[inline(always)]
unsafe fn fold_short<T: Tier, A: Copy, O: Bin<A, Out = A>, const N: usize>(
    values: *const A,
    rows: usize,
    results: *mut A,
) -> usize {
    let whole = rows / FOLDED * FOLDED;
    for row in (0..whole).step_by(FOLDED) {
        // SAFETY: the caller's contract: so many rows follow, and as many results.
        unsafe {
            let own = values.add(row * N).cast::<[[A; N]; FOLDED]>();
            let own = own.read_unaligned();
            let at = results.add(row).cast::<[A; FOLDED]>();
            let mut x = at.read_unaligned();
            for (x, row) in x.iter_mut().zip(&own) {
                for &y in row {
                    *x = O::f::<T>(*x, y);
                }
            }
            at.write_unaligned(x);
        }
    }
    whole
}

/// Folds the first `N` values of rows that are `size` apart, of which [`COLUMNS`] are readable.
#[inline(always)]
unsafe fn fold_columns<T: Tier, A: Copy, O: Bin<A, Out = A>, const N: usize>(
    x: &mut [A; ROWS],
    first: *const A,
    size: usize,
) {
    // SAFETY: the caller's contract.
    let columns = unsafe { turned::<T, A>(first, size) };
    for column in &columns[..N] {
        for (x, &y) in x.iter_mut().zip(column) {
            *x = O::f::<T>(*x, y);
        }
    }
}

/// Truth values are folded by the words of a row: any of its bytes, or where `ALL` every one, is not zero. Of rows of two to four
/// values many are folded together.
#[inline(always)]
pub(super) unsafe fn fold_truth<T: Tier, O: Bin<Pred, Out = Pred>, const ALL: bool>(
    values: *const u8,
    rows: usize,
    size: usize,
    results: *mut u8,
) {
    const WORD: usize = 8;
    const ONES: u64 = 0x0101_0101_0101_0101;
    // A byte is zero where taking one from it borrows from its highest bit.
    let holds = |word: u64| match ALL {
        true => word.wrapping_sub(ONES) & !word & (ONES << 7) == 0,
        false => word != 0,
    };
    // Of rows that are shorter than a word, the bytes behind them belong to the next ones and do not count.
    let behind = match size < WORD {
        true => u64::MAX << (8 * size),
        false => 0,
    };
    let all = rows * size;
    // SAFETY: the caller's contract: words end where the values do.
    unsafe {
        let word = |at: usize| values.add(at).cast::<u64>().read_unaligned().to_le();
        let put = |row: usize, is_true: bool| {
            let old = results.add(row).read() != 0;
            let new = if ALL { old & is_true } else { old | is_true };
            results.add(row).write(u8::from(new));
        };
        let whole = match all.checked_sub(WORD) {
            Some(last) if size < WORD => last / size.max(1) + 1,
            Some(_) => rows,
            None => 0,
        };
        let (first, to) = (values.cast::<Pred>(), results.cast::<Pred>());
        let done = match size {
            2 => fold_short::<T, Pred, O, 2>(first, rows, to),
            3 => fold_short::<T, Pred, O, 3>(first, rows, to),
            4 => fold_short::<T, Pred, O, 4>(first, rows, to),
            _ => 0,
        };
        if size == WORD {
            for row in 0..rows {
                put(row, holds(word(row * WORD)));
            }
        } else if size < WORD {
            for row in done..whole {
                let own = word(row * size);
                put(row, holds(if ALL { own | behind } else { own & !behind }));
            }
        } else {
            for row in 0..rows {
                let mut is_true = holds(word(row * size + size - WORD));
                for at in (0..size - WORD).step_by(WORD) {
                    let part = holds(word(row * size + at));
                    is_true = if ALL { is_true & part } else { is_true | part };
                }
                put(row, is_true);
            }
        }
        for row in whole.max(done)..rows {
            let bytes = std::slice::from_raw_parts(values.add(row * size), size);
            let is_true = match ALL {
                true => bytes.iter().all(|&byte| byte != 0),
                false => bytes.iter().any(|&byte| byte != 0),
            };
            put(row, is_true);
        }
    }
}
