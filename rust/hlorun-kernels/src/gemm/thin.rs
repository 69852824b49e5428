//! Integer products of few columns and few terms: many short rows, as points and colours are, by a small matrix.
//!
//! In: A where it lies, and B with its columns as lanes. Out: rows of C. Promise: sums modulo 2³² or 2⁶⁴.

use super::units::{Single, Stored};

/// Most columns, and most terms.
pub(super) const MAX_COLUMNS: usize = 8;
pub(super) const MAX_TERMS: usize = 8;

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
    if columns <= 4 { 4 } else { MAX_COLUMNS }
}

/// Computes the rows with `L` lanes and `K` terms, of which the code has one after the other: a loop over so few takes longer.
#[inline(always)]
unsafe fn run<S: Stored, W: Single, const L: usize, const K: usize>(g: &Rows<S, W>) {
    let (a_row, a_col, c_row, columns) = (g.a_row, g.a_col, g.c_row, g.columns);
    // Lanes behind a row are those of the next ones, which are written later.
    let spill = if c_row == columns as isize {
        g.rows.saturating_sub((L - columns).div_ceil(columns))
    } else {
        0
    };
    // SAFETY: the caller's contract: B has the lanes of so many terms.
    let b: [[W; L]; K] = unsafe { g.b.cast::<[[W; L]; K]>().read_unaligned() };
    let (mut from, mut to) = (g.a, g.c);
    for row in 0..g.rows {
        let mut sums = [W::ZERO; L];
        for (p, b) in b.iter().enumerate() {
            // SAFETY: the caller's contract: a row of A has so many terms.
            let x = W::unit(unsafe { from.offset(p as isize * a_col).read() }.wide(), 0);
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum = sum.mul_add(x, b);
            }
        }
        // SAFETY: the caller's contract: a row of C, and those behind it.
        unsafe {
            if row < spill {
                to.cast::<[W; L]>().write_unaligned(sums);
            } else {
                for (column, &sum) in sums[..columns].iter().enumerate() {
                    to.add(column).write(sum);
                }
            }
        }
        (from, to) = (from.wrapping_offset(a_row), to.wrapping_offset(c_row));
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn lanes<S: Stored, W: Single, const L: usize, const K: usize>(g: &Rows<S, W>) {
                // SAFETY: the caller's contract.
                unsafe { run::<S, W, L, K>(g) }
            }

            fn of_terms<S: Stored, W: Single, const L: usize>(terms: usize) -> unsafe fn(&Rows<S, W>) {
                match terms {
                    1 => lanes::<S, W, L, 1>,
                    2 => lanes::<S, W, L, 2>,
                    3 => lanes::<S, W, L, 3>,
                    4 => lanes::<S, W, L, 4>,
                    5 => lanes::<S, W, L, 5>,
                    6 => lanes::<S, W, L, 6>,
                    7 => lanes::<S, W, L, 7>,
                    _ => lanes::<S, W, L, MAX_TERMS>,
                }
            }

            pub fn pick<S: Stored, W: Single>(lanes: usize, terms: usize) -> unsafe fn(&Rows<S, W>) {
                match lanes {
                    4 => of_terms::<S, W, 4>(terms),
                    _ => of_terms::<S, W, MAX_COLUMNS>(terms),
                }
            }
        }
    };
}
each_tier!(tier);

/// Computes `g`.
///
/// # Safety
/// All elements of A and B that its sizes name are there, and room for those of C; at most [`MAX_COLUMNS`] columns, and from one to
/// [`MAX_TERMS`] terms.
pub(super) unsafe fn multiply<S: Stored, W: Single>(g: &Rows<S, W>) {
    debug_assert!(g.columns <= MAX_COLUMNS && (1..=MAX_TERMS).contains(&g.terms));
    let run = of_tier!(
        crate::Isa::active(),
        pick::<S, W>(lanes(g.columns), g.terms)
    );
    // SAFETY: the caller's contract.
    unsafe { run(g) }
}
