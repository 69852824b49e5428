//! A row, or a few, times a matrix that is read where it lies.
//!
//! In: the rows, dense, and the matrix as it is stored. Out: sums, before α and β. Promise: B is read once, row by row or
//! column by column as it lies in memory; every sum is made in an order that depends on its length alone.

use super::ahead::prefetch;
use super::micro::{Real, Source, load};
use crate::elementwise::Tier;
use std::ops::Range;

/// `y += x·B` for a B whose rows are contiguous.
///
/// # Safety
/// B has `x.len()` rows, `b_row` elements apart, and `y.len()` columns.
pub(super) type Axpy<E, S> = unsafe fn(&[E], *const S, isize, &mut [E]);

/// A few rows times a B whose columns are contiguous: `y[i * y_row + j] = x[i]·B[j]`, for every i and j.
pub(super) struct Columns<E, S> {
    /// Rows of x, dense.
    pub x: *const E,
    pub rows: usize,
    pub depth: usize,
    pub b: *const S,
    /// Elements from one column of B to the next.
    pub b_col: isize,
    pub columns: usize,
    pub y: *mut E,
    pub y_row: usize,
}

/// Runs [`Columns`].
///
/// # Safety
/// All elements named are valid; y overlaps nothing.
pub(super) type Dots<E, S> = unsafe fn(&Columns<E, S>);

/// Rows of B added in one pass over the sums.
const ROWS: usize = 8;
/// Sums held in registers meanwhile.
const WIDTH: usize = 32;
/// The same where fewer are left.
const FEW: usize = 8;

#[inline(always)]
pub(super) unsafe fn axpy<T: Tier, E: Real, S: Source<E>>(
    x: &[E],
    b: *const S,
    b_row: isize,
    y: &mut [E],
) {
    // SAFETY: the row of B that belongs to an element of x has y.len() contiguous elements.
    unsafe {
        let mut b = b;
        let mut rows = x.chunks_exact(ROWS);
        for x in &mut rows {
            pass::<T, E, S, ROWS>(x, b, b_row, y);
            b = b.wrapping_offset(b_row * ROWS as isize);
        }
        for x in rows.remainder().chunks_exact(1) {
            pass::<T, E, S, 1>(x, b, b_row, y);
            b = b.wrapping_offset(b_row);
        }
    }
}

/// Adds R rows.
#[inline(always)]
unsafe fn pass<T: Tier, E: Real, S: Source<E>, const R: usize>(
    x: &[E],
    b: *const S,
    b_row: isize,
    y: &mut [E],
) {
    let mut j = 0;
    // SAFETY: the caller passes R elements of x and R rows of y.len() elements.
    unsafe {
        while j + WIDTH <= y.len() {
            add_to::<T, E, S, R, WIDTH>(x, b.add(j), b_row, y.as_mut_ptr().add(j));
            j += WIDTH;
        }
        while j + FEW <= y.len() {
            add_to::<T, E, S, R, FEW>(x, b.add(j), b_row, y.as_mut_ptr().add(j));
            j += FEW;
        }
        while j < y.len() {
            add_to::<T, E, S, R, 1>(x, b.add(j), b_row, y.as_mut_ptr().add(j));
            j += 1;
        }
    }
}

/// Adds R rows to W sums.
///
/// # Safety
/// There are as many elements of x, elements in each row from `b` on, and sums.
#[inline(always)]
unsafe fn add_to<T: Tier, E: Real, S: Source<E>, const R: usize, const W: usize>(
    x: &[E],
    b: *const S,
    b_row: isize,
    y: *mut E,
) {
    let at = y.cast::<[E; W]>();
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = at.read_unaligned();
        for r in 0..R {
            let values = load::<E, S, W>(b.offset(r as isize * b_row));
            let x = *x.get_unchecked(r);
            for (s, &v) in sums.iter_mut().zip(&values) {
                *s = E::fma::<T>(x, v, *s);
            }
        }
        at.write_unaligned(sums);
    }
}

/// Columns of B that all rows are taken through together, so that B is read from memory once.
const BLOCK: usize = 64;

/// L is the number of lanes of a sum: as many on all tiers that fuse, so that they give the same bits. C columns of B are
/// handled at once, and X is the most rows whose sums fit the registers beside them.
#[inline(always)]
pub(super) unsafe fn dots<
    T: Tier,
    E: Real,
    S: Source<E>,
    const L: usize,
    const X: usize,
    const C: usize,
>(
    c: &Columns<E, S>,
) {
    let parts = c.rows.div_ceil(X);
    for start in (0..c.columns).step_by(BLOCK) {
        let columns = start..c.columns.min(start + BLOCK);
        for part in 0..parts {
            // As many rows at once as nearly equal parts allow.
            let own = super::share(c.rows, parts, part, 1);
            let columns = columns.clone();
            // SAFETY: the caller's contract.
            unsafe {
                match own.len() {
                    1 => some_rows::<T, E, S, L, 1, C>(c, own.start, columns),
                    2 => some_rows::<T, E, S, L, 2, C>(c, own.start, columns),
                    3 => some_rows::<T, E, S, L, 3, C>(c, own.start, columns),
                    4 if X > 3 => some_rows::<T, E, S, L, 4, C>(c, own.start, columns),
                    5 if X > 3 => some_rows::<T, E, S, L, 5, C>(c, own.start, columns),
                    _ if X > 3 => some_rows::<T, E, S, L, 6, C>(c, own.start, columns),
                    _ => {}
                }
            }
        }
    }
}

/// R rows by some columns, C at once.
#[inline(always)]
unsafe fn some_rows<
    T: Tier,
    E: Real,
    S: Source<E>,
    const L: usize,
    const R: usize,
    const C: usize,
>(
    c: &Columns<E, S>,
    i: usize,
    columns: Range<usize>,
) {
    let mut j = columns.start;
    // SAFETY: the caller's contract.
    unsafe {
        if c.depth < L {
            while j + C <= columns.end {
                short_tile::<T, E, S, R, C>(c, i, j);
                j += C;
            }
            while j < columns.end {
                short_tile::<T, E, S, R, 1>(c, i, j);
                j += 1;
            }
            return;
        }
        while j + C <= columns.end {
            dot_tile::<T, E, S, L, R, C>(c, i, j);
            j += C;
        }
        while j < columns.end {
            dot_tile::<T, E, S, L, R, 1>(c, i, j);
            j += 1;
        }
    }
}

/// R rows by C columns of a depth that does not fill the lanes: sums in order.
#[inline(always)]
unsafe fn short_tile<T: Tier, E: Real, S: Source<E>, const R: usize, const C: usize>(
    c: &Columns<E, S>,
    i: usize,
    j: usize,
) {
    let mut sums = [[E::ZERO; C]; R];
    // SAFETY: the caller passes R rows and C columns of `depth` elements.
    unsafe {
        let x = c.x.add(i * c.depth);
        let b = c.b.offset(j as isize * c.b_col);
        for p in 0..c.depth {
            let column = |q: usize| b.offset(q as isize * c.b_col).add(p).read().get();
            let values: [E; C] = std::array::from_fn(column);
            for (r, sums) in sums.iter_mut().enumerate() {
                let x = x.add(r * c.depth + p).read();
                for (sum, y) in sums.iter_mut().zip(values) {
                    *sum = E::fma::<T>(x, y, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (q, &sum) in sums.iter().enumerate() {
                c.y.add((i + r) * c.y_row + j + q).write(sum);
            }
        }
    }
}

/// Elements by which the columns of B are asked for ahead.
const AHEAD: usize = 128;

/// What begins with a cache line: what is written across two lines is slow to read again at once.
#[repr(align(64))]
struct InLines<T>(T);

/// R rows by C columns: sums in L lanes over the whole depth, added up in the end. Where more than a few elements are left for
/// the last vector, it begins inside the one before it, and lanes that were counted there are zeros.
#[inline(always)]
unsafe fn dot_tile<
    T: Tier,
    E: Real,
    S: Source<E>,
    const L: usize,
    const R: usize,
    const C: usize,
>(
    c: &Columns<E, S>,
    i: usize,
    j: usize,
) {
    let mut sums = [[[E::ZERO; L]; R]; C];
    let whole = c.depth - c.depth % L;
    // SAFETY: the caller passes R rows and C columns of `depth` elements, which is no less than L.
    unsafe {
        let x = c.x.add(i * c.depth);
        let b = c.b.offset(j as isize * c.b_col);
        let mut p = 0;
        while p < whole {
            add_lanes::<T, E, S, L, R, C, false>(c, &mut sums, x.add(p), b.add(p), 0);
            p += L;
        }
        let ends_inside = c.depth - whole > L / 4;
        if ends_inside {
            let (p, counted) = (c.depth - L, whole + L - c.depth);
            add_lanes::<T, E, S, L, R, C, true>(c, &mut sums, x.add(p), b.add(p), counted);
        }
        // A copy, so that the sums themselves can stay in registers.
        let mut copy = InLines(std::mem::MaybeUninit::<[[[E; L]; R]; C]>::uninit());
        let lanes = copy.0.as_mut_ptr().cast::<[E; L]>();
        for (q, sums) in sums.iter().enumerate() {
            for (r, sum) in sums.iter().enumerate() {
                lanes.add(q * R + r).write(*sum);
            }
        }
        let lanes = std::slice::from_raw_parts(lanes, R * C);
        let left = if ends_inside { c.depth } else { whole };
        let end = |at: usize, mut sum: E| {
            let (q, r) = (at / R, at % R);
            for p in left..c.depth {
                let y = b.offset(q as isize * c.b_col).add(p).read().get();
                sum = E::fma::<T>(x.add(r * c.depth + p).read(), y, sum);
            }
            c.y.add((i + r) * c.y_row + j + q).write(sum);
        };
        let fours = if L < 4 { 0 } else { R * C / 4 * 4 };
        for at in (0..fours).step_by(4) {
            let sums = four_sums(lanes.get_unchecked(at..at + 4));
            for (n, sum) in sums.into_iter().enumerate() {
                end(at + n, sum);
            }
        }
        for at in fours..R * C {
            end(at, sum(lanes.get_unchecked(at)));
        }
    }
}

/// The sum of the lanes: half of them to the other half, and so on.
#[inline(always)]
fn sum<E: Real, const L: usize>(lanes: &[E; L]) -> E {
    let mut lanes = *lanes;
    let mut width = L / 2;
    while width > 0 {
        for l in 0..width {
            lanes[l] = lanes[l].add(lanes[l + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// [`sum`] of four vectors of lanes. Vectors and their quarters are read from memory, each by itself: of what it knows to be
/// in registers, or side by side, the compiler makes single elements.
#[inline(always)]
fn four_sums<E: Real, const L: usize>(vectors: &[[E; L]]) -> [E; 4] {
    let mut four = [[E::ZERO; 4]; 4];
    for (quarter, vector) in four.iter_mut().zip(vectors) {
        let mut lanes = *std::hint::black_box(vector);
        let mut width = L / 2;
        while width >= 4 {
            for l in 0..width {
                lanes[l] = lanes[l].add(lanes[l + width]);
            }
            width /= 2;
        }
        quarter.copy_from_slice(&lanes[..4]);
    }
    let four = std::hint::black_box(&four);
    let lane = |l: usize| -> [E; 4] { std::array::from_fn(|n| four[n][l]) };
    let add = |a: [E; 4], b: [E; 4]| -> [E; 4] { std::array::from_fn(|n| a[n].add(b[n])) };
    add(add(lane(0), lane(2)), add(lane(1), lane(3)))
}

/// Adds the products of L elements of R rows at `x` and of C columns at `b`; where AGAIN, but for the first `counted` ones.
#[inline(always)]
unsafe fn add_lanes<
    T: Tier,
    E: Real,
    S: Source<E>,
    const L: usize,
    const R: usize,
    const C: usize,
    const AGAIN: bool,
>(
    c: &Columns<E, S>,
    sums: &mut [[[E; L]; R]; C],
    x: *const E,
    b: *const S,
    counted: usize,
) {
    let mut rows = [[E::ZERO; L]; R];
    // SAFETY: the caller passes places with L elements left in their rows and columns.
    unsafe {
        for (r, row) in rows.iter_mut().enumerate() {
            *row = x.add(r * c.depth).cast::<[E; L]>().read_unaligned();
            if AGAIN {
                forget(row, counted);
            }
        }
        for (q, sums) in sums.iter_mut().enumerate() {
            let column = b.offset(q as isize * c.b_col);
            prefetch(column.wrapping_add(AHEAD));
            let mut column = load::<E, S, L>(column);
            if AGAIN {
                forget(&mut column, counted);
            }
            for (sum, row) in sums.iter_mut().zip(&rows) {
                for ((s, &x), &y) in sum.iter_mut().zip(row).zip(&column) {
                    *s = E::fma::<T>(x, y, *s);
                }
            }
        }
    }
}

/// Bits that are all zeros, then all ones: as many of either as the longest vector has.
static ZEROS_THEN_ONES: [u8; 256] = {
    let mut bits = [0; 256];
    let mut at = 128;
    while at < 256 {
        bits[at] = !0;
        at += 1;
    }
    bits
};

/// Zeros in the first `counted` lanes. (By bits: the compiler makes a slow mask of a comparison of numbers of lanes.)
#[inline(always)]
fn forget<E: Real, const L: usize>(lanes: &mut [E; L], counted: usize) {
    const { assert!(L * size_of::<E>() <= 128) };
    let counted = counted.min(L);
    // SAFETY: at most 128 bytes before the middle, and 128 at most from there; any bits are integers.
    let kept = unsafe {
        ZEROS_THEN_ONES
            .as_ptr()
            .add(128 - counted * size_of::<E>())
            .cast::<[E::Bits; L]>()
            .read_unaligned()
    };
    for (lane, kept) in lanes.iter_mut().zip(kept) {
        *lane = lane.and(kept);
    }
}
