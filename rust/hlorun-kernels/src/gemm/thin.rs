//! Integer products of few columns and few terms: many short rows, as points and colours are, by a small matrix.
//!
//! In: A where it lies, and B with its columns as lanes. Out: rows of C. Promise: sums modulo 2³² or 2⁶⁴.

use super::units::{Single, Stored};

/// Most columns, and most terms.
pub(super) const MAX_COLUMNS: usize = 16;
pub(super) const MAX_TERMS: usize = 32;
/// Rows that are computed at a time.
const ROWS: usize = 4;

/// Some rows of a product.
pub(super) struct Rows<S, W> {
    pub a: *const S,
    /// Elements from row to row, and from term to term.
    pub a_row: isize,
    pub a_col: isize,
    /// For each term, as many lanes as [`lanes`] says; those beyond the columns are zero.
    pub b: *const W,
    pub terms: usize,
    pub c: *mut W,
    pub c_row: isize,
    pub rows: usize,
    pub columns: usize,
}

/// Lanes for so many columns.
pub(super) fn lanes(columns: usize) -> usize {
    columns.next_power_of_two().max(2)
}

/// `a·b` of `R` rows from `first` on.
#[inline(always)]
unsafe fn sums<S: Stored, W: Single, const R: usize, const L: usize>(
    g: &Rows<S, W>,
    first: usize,
) -> [[W; L]; R] {
    let mut sums = [[W::ZERO; L]; R];
    for p in 0..g.terms {
        // SAFETY: the caller's contract: these rows of A have so many terms, each of which has its lanes in B.
        unsafe {
            let b = g.b.add(p * L).cast::<[W; L]>().read_unaligned();
            for (r, sums) in sums.iter_mut().enumerate() {
                let at = (first + r) as isize * g.a_row + p as isize * g.a_col;
                let x = W::unit(g.a.offset(at).read().wide(), 0);
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = sum.mul_add(x, b);
                }
            }
        }
    }
    sums
}

/// Computes the rows with `L` lanes.
#[inline(always)]
unsafe fn run<S: Stored, W: Single, const L: usize>(g: &Rows<S, W>) {
    // Lanes behind a row are those of the next ones, which are written later.
    let spill = if g.c_row == g.columns as isize {
        g.rows.saturating_sub((L - g.columns).div_ceil(g.columns))
    } else {
        0
    };
    let to = |row: usize| g.c.wrapping_offset(row as isize * g.c_row);
    let mut row = 0;
    // SAFETY: the caller's contract: these rows of A and C.
    unsafe {
        while row + ROWS <= spill {
            let sums = sums::<S, W, ROWS, L>(g, row);
            for (r, sums) in sums.into_iter().enumerate() {
                to(row + r).cast::<[W; L]>().write_unaligned(sums);
            }
            row += ROWS;
        }
        while row < g.rows {
            let [sums] = sums::<S, W, 1, L>(g, row);
            for (column, &sum) in sums[..g.columns].iter().enumerate() {
                to(row).add(column).write(sum);
            }
            row += 1;
        }
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn lanes<S: Stored, W: Single, const L: usize>(g: &Rows<S, W>) {
                // SAFETY: the caller's contract.
                unsafe { run::<S, W, L>(g) }
            }

            pub fn pick<S: Stored, W: Single>(count: usize) -> unsafe fn(&Rows<S, W>) {
                match count {
                    2 => lanes::<S, W, 2>,
                    4 => lanes::<S, W, 4>,
                    8 => lanes::<S, W, 8>,
                    _ => lanes::<S, W, 16>,
                }
            }
        }
    };
}
each_tier!(tier);

/// Computes `g`.
///
/// # Safety
/// All elements of A and B that its sizes name are there, and room for those of C; at most [`MAX_COLUMNS`] columns.
pub(super) unsafe fn multiply<S: Stored, W: Single>(g: &Rows<S, W>) {
    debug_assert!(g.columns <= MAX_COLUMNS);
    let run = of_tier!(crate::Isa::active(), pick::<S, W>(lanes(g.columns)));
    // SAFETY: the caller's contract.
    unsafe { run(g) }
}
