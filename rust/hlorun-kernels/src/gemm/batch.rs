//! Products of a few elements each, often many of them.
//!
//! In: a [`Gemm`] of matrices that fit in registers, or of few multiplications. Out: C. Promise: every
//! element is one sum along k in ascending order, fused where the tier has fused multiply-add; so its bits depend on its
//! row and column alone.

use super::micro::Real;
use super::{Gemm, Parallel, Shared, share};
use crate::DType;
use crate::elementwise::{Fused, Portable, Tier};
use crate::isa::Isa;
use std::ops::Range;

/// Columns of C computed at once; products of up to so many columns run here in any layout.
const SIDE: usize = 8;
/// Most steps of a sum.
pub const DEPTH: usize = 16;
/// Most multiplications of a product that has more rows or columns than `SIDE`, or more steps than `DEPTH`.
const FEW: usize = 1 << 9;
/// Most steps of its sums.
const LONG: usize = 64;
/// Multiplications that are worth another task.
const WORTH: usize = 1 << 18;

/// Whether such products run here: every element of the result is then one sum in ascending order, fused where
/// [`fuses`] says so, to which the old one is added where β is not zero.
pub fn fits(g: &Gemm) -> bool {
    // Some column is always computed.
    let is_plain = [g.batch, g.m, g.n, g.k].iter().all(|&size| size > 0)
        && g.dtype == g.out
        && matches!(g.dtype, DType::F32 | DType::F64)
        && g.alpha == (1.0, 0.0)
        && matches!(g.beta, 0.0 | 1.0);
    let is_few = g.m.saturating_mul(g.n).saturating_mul(g.k) <= FEW;
    // B, or the A that takes its place, is in registers in any layout.
    let (rows, columns) = if turns(g) { (g.n, g.m) } else { (g.m, g.n) };
    let is_small = g.k <= DEPTH && columns <= SIDE && (rows <= SIDE || is_few);
    // Rows of B are read where they lie. A row times one column is faster in lanes.
    let lies_ready = match turns(g) {
        true => g.a.row_stride == 1,
        false => g.b.col_stride == 1 && g.n > 1,
    };
    is_plain && (is_small || is_few && lies_ready && g.k <= LONG)
}

/// Whether the columns of C should be computed as rows: where C is a single column, or its columns do not lie side by side
/// but its rows do.
fn turns(g: &Gemm) -> bool {
    g.m > 1 && (g.n == 1 || (g.c.col_stride != 1 && g.c.row_stride == 1))
}

/// Whether the sums of such products round once for a multiplication and an addition.
pub fn fuses() -> bool {
    Isa::active().is_fused()
}

/// A product that [`fits`], on this thread.
///
/// # Safety
/// As [`super::gemm`].
pub unsafe fn tiny(g: &Gemm, a: *const u8, b: *const u8, c: *mut u8) {
    debug_assert!(fits(g));
    // SAFETY: the same contract.
    unsafe { gemm(g, a, b, c, &Parallel::SERIAL) }
}

/// Products `range` of the batch.
///
/// # Safety
/// As [`super::gemm`].
type Run = unsafe fn(&Gemm, Range<usize>, *const u8, *const u8, *mut u8);

/// Products of K steps, N columns of C that lie side by side, and rows of B that do so (or, TURNED, its columns).
#[inline(always)]
unsafe fn fixed<T: Tier, E: Real, const N: usize, const K: usize, const TURNED: bool>(
    g: &Gemm,
    range: Range<usize>,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
) {
    // A copy, whose fields stay in registers.
    let g = *g;
    let first = range.start as isize;
    let mut a = a.cast::<E>().wrapping_offset(first * g.a.batch_stride);
    let mut b = b.cast::<E>().wrapping_offset(first * g.b.batch_stride);
    let mut c = c.cast::<E>().wrapping_offset(first * g.c.batch_stride);
    for _ in range {
        let mut rows = [[E::ZERO; N]; K];
        // SAFETY: matrices of the contract; N is g.n, and K is g.k.
        unsafe {
            if TURNED {
                for j in 0..N {
                    let from = b.offset(j as isize * g.b.col_stride);
                    let column = from.cast::<[E; K]>().read_unaligned();
                    for (row, x) in rows.iter_mut().zip(column) {
                        row[j] = x;
                    }
                }
            } else {
                for (p, row) in rows.iter_mut().enumerate() {
                    let from = b.offset(p as isize * g.b.row_stride);
                    *row = from.cast::<[E; N]>().read_unaligned();
                }
            }
            for i in 0..g.m as isize {
                let a = a.offset(i * g.a.row_stride);
                let mut sums = [E::ZERO; N];
                for (p, row) in rows.iter().enumerate() {
                    let x = a.offset(p as isize * g.a.col_stride).read();
                    for (s, &y) in sums.iter_mut().zip(row) {
                        *s = E::fma::<T>(x, y, *s);
                    }
                }
                let to = c.offset(i * g.c.row_stride).cast::<[E; N]>();
                if g.beta != 0.0 {
                    let old = to.read_unaligned();
                    for (s, old) in sums.iter_mut().zip(old) {
                        *s = s.add(old);
                    }
                }
                to.write_unaligned(sums);
            }
        }
        a = a.wrapping_offset(g.a.batch_stride);
        b = b.wrapping_offset(g.b.batch_stride);
        c = c.wrapping_offset(g.c.batch_stride);
    }
}

/// Products of any layout; of more than `DEPTH` steps only where rows of B lie ready.
#[inline(always)]
unsafe fn any<T: Tier, E: Real, const N: usize>(
    g: &Gemm,
    range: Range<usize>,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
) {
    let g = *g;
    let mut rows = [[E::ZERO; N]; DEPTH];
    for batch in range {
        let at = |stride: isize| batch as isize * stride;
        // SAFETY: matrices of the contract; N is g.n, and where B is copied, k is at most DEPTH (see `fits`).
        unsafe {
            let a = a.cast::<E>().offset(at(g.a.batch_stride));
            let mut b = b.cast::<E>().offset(at(g.b.batch_stride));
            let c = c.cast::<E>().offset(at(g.c.batch_stride));
            let mut b_row = g.b.row_stride;
            if g.b.col_stride != 1 {
                for (p, row) in rows[..g.k].iter_mut().enumerate() {
                    let from = b.offset(p as isize * b_row);
                    for (j, x) in row.iter_mut().enumerate() {
                        *x = from.offset(j as isize * g.b.col_stride).read();
                    }
                }
                (b, b_row) = (rows.as_ptr().cast(), N as isize);
            }
            for i in 0..g.m as isize {
                let a = a.offset(i * g.a.row_stride);
                let c = c.offset(i * g.c.row_stride);
                let mut sums = [E::ZERO; N];
                for p in 0..g.k as isize {
                    let x = a.offset(p * g.a.col_stride).read();
                    let row = b.offset(p * b_row).cast::<[E; N]>().read_unaligned();
                    for (s, &y) in sums.iter_mut().zip(&row) {
                        *s = E::fma::<T>(x, y, *s);
                    }
                }
                if g.beta != 0.0 {
                    for (j, s) in sums.iter_mut().enumerate() {
                        *s = s.add(c.offset(j as isize * g.c.col_stride).read());
                    }
                }
                if g.c.col_stride == 1 {
                    c.cast::<[E; N]>().write_unaligned(sums);
                } else {
                    for (j, &s) in sums.iter().enumerate() {
                        c.offset(j as isize * g.c.col_stride).write(s);
                    }
                }
            }
        }
    }
}

/// Products of at least [`SIDE`] columns, in which rows of B, and of C, lie side by side. The last columns are computed with
/// as many before them as make [`SIDE`], which writes the same bits to these again: β has to be 0.
#[inline(always)]
unsafe fn wide<T: Tier, E: Real>(
    g: &Gemm,
    range: Range<usize>,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
) {
    let g = *g;
    debug_assert!(g.beta == 0.0 && g.n >= SIDE && [g.b, g.c].iter().all(|x| x.col_stride == 1));
    for batch in range {
        let at = |stride: isize| batch as isize * stride;
        // SAFETY: matrices of the contract, of at least SIDE columns.
        unsafe {
            let a = a.cast::<E>().offset(at(g.a.batch_stride));
            let b = b.cast::<E>().offset(at(g.b.batch_stride));
            let c = c.cast::<E>().offset(at(g.c.batch_stride));
            for i in 0..g.m as isize {
                let a = a.offset(i * g.a.row_stride);
                let c = c.offset(i * g.c.row_stride);
                for column in (0..g.n).step_by(SIDE) {
                    let column = column.min(g.n - SIDE);
                    let mut sums = [E::ZERO; SIDE];
                    for p in 0..g.k as isize {
                        let x = a.offset(p * g.a.col_stride).read();
                        let row = b.offset(p * g.b.row_stride).add(column);
                        let row = row.cast::<[E; SIDE]>().read_unaligned();
                        for (s, &y) in sums.iter_mut().zip(&row) {
                            *s = E::fma::<T>(x, y, *s);
                        }
                    }
                    c.add(column).cast::<[E; SIDE]>().write_unaligned(sums);
                }
            }
        }
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn run<E: Real, const N: usize, const K: usize, const TURNED: bool>(
                g: &Gemm,
                range: Range<usize>,
                a: *const u8,
                b: *const u8,
                c: *mut u8,
            ) {
                // SAFETY: the caller's contract.
                unsafe { fixed::<$tier, E, N, K, TURNED>(g, range, a, b, c) }
            }

            $(#[$features])?
            unsafe fn other<E: Real, const N: usize>(
                g: &Gemm,
                range: Range<usize>,
                a: *const u8,
                b: *const u8,
                c: *mut u8,
            ) {
                // SAFETY: the caller's contract.
                unsafe { any::<$tier, E, N>(g, range, a, b, c) }
            }

            $(#[$features])?
            unsafe fn many_columns<E: Real>(
                g: &Gemm,
                range: Range<usize>,
                a: *const u8,
                b: *const u8,
                c: *mut u8,
            ) {
                // SAFETY: the caller's contract.
                unsafe { wide::<$tier, E>(g, range, a, b, c) }
            }

            pub fn pick<E: Real>(g: &Gemm) -> Run {
                // Where columns do not lie side by side, or old ones are added, there are no more than SIDE.
                if g.n > SIDE {
                    return many_columns::<E>;
                }
                let is_side_by_side = g.c.col_stride == 1;
                let turned = g.b.col_stride != 1;
                if is_side_by_side && (!turned || g.b.row_stride == 1) {
                    return match (g.n, g.k, turned) {
                        (1, 2, true) => run::<E, 1, 2, true>,
                        (1, 3, true) => run::<E, 1, 3, true>,
                        (1, 4, true) => run::<E, 1, 4, true>,
                        (2, 2, false) => run::<E, 2, 2, false>,
                        (2, 3, false) => run::<E, 2, 3, false>,
                        (2, 4, false) => run::<E, 2, 4, false>,
                        (3, 2, false) => run::<E, 3, 2, false>,
                        (3, 3, false) => run::<E, 3, 3, false>,
                        (3, 4, false) => run::<E, 3, 4, false>,
                        (4, 2, false) => run::<E, 4, 2, false>,
                        (4, 3, false) => run::<E, 4, 3, false>,
                        (4, 4, false) => run::<E, 4, 4, false>,
                        (2, 2, true) => run::<E, 2, 2, true>,
                        (2, 3, true) => run::<E, 2, 3, true>,
                        (2, 4, true) => run::<E, 2, 4, true>,
                        (3, 2, true) => run::<E, 3, 2, true>,
                        (3, 3, true) => run::<E, 3, 3, true>,
                        (3, 4, true) => run::<E, 3, 4, true>,
                        (4, 2, true) => run::<E, 4, 2, true>,
                        (4, 3, true) => run::<E, 4, 3, true>,
                        (4, 4, true) => run::<E, 4, 4, true>,
                        _ => general::<E>(g.n),
                    };
                }
                general::<E>(g.n)
            }

            fn general<E: Real>(n: usize) -> Run {
                match n {
                    1 => other::<E, 1>,
                    2 => other::<E, 2>,
                    3 => other::<E, 3>,
                    4 => other::<E, 4>,
                    5 => other::<E, 5>,
                    6 => other::<E, 6>,
                    7 => other::<E, 7>,
                    _ => other::<E, SIDE>,
                }
            }
        }
    };
}
tier!(portable, Portable,);
// Nothing here is wider than a vector of AVX2.
tier!(fused, Fused, #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]);

fn pick<E: Real>(g: &Gemm) -> Run {
    if Isa::active().is_fused() {
        fused::pick::<E>(g)
    } else {
        portable::pick::<E>(g)
    }
}

/// Runs the batch.
///
/// # Safety
/// As [`super::gemm`], for products that [`fits`].
pub(super) unsafe fn gemm(g: &Gemm, a: *const u8, b: *const u8, c: *mut u8, parallel: &Parallel) {
    let turned = g.transposed();
    let (g, a, b) = if turns(g) { (&turned, b, a) } else { (g, a, b) };
    let is_wide = g.beta == 0.0 && g.b.col_stride == 1 && g.c.col_stride == 1;
    if g.n > SIDE && !is_wide {
        let size = g.dtype.size_bytes() as isize;
        for column in (0..g.n).step_by(SIDE) {
            let n = SIDE.min(g.n - column);
            let at = |stride: isize| column as isize * stride * size;
            // SAFETY: columns of the same product.
            unsafe {
                let (b, c) = (b.offset(at(g.b.col_stride)), c.offset(at(g.c.col_stride)));
                columns(&Gemm { n, ..*g }, a, b, c, parallel);
            }
        }
        return;
    }
    // SAFETY: the caller's contract.
    unsafe { columns(g, a, b, c, parallel) }
}

/// The same of no more columns than are computed at once, or of columns that lie side by side.
///
/// # Safety
/// As [`gemm`].
unsafe fn columns(g: &Gemm, a: *const u8, b: *const u8, c: *mut u8, parallel: &Parallel) {
    let run = match g.dtype {
        DType::F32 => pick::<f32>(g),
        _ => pick::<f64>(g),
    };
    let (a, b, c) = (Shared(a.cast_mut()), Shared(b.cast_mut()), Shared(c));
    let tasks = (g.m * g.n * g.k * g.batch / WORTH + 1).min(4 * parallel.threads);
    let part = |task: usize| {
        let range = share(g.batch, tasks, task, 1);
        // SAFETY: the caller's contract; products of C are disjoint.
        unsafe { run(g, range, a.get(), b.get(), c.get()) }
    };
    if tasks == 1 || parallel.threads == 1 {
        (0..tasks).for_each(part);
    } else {
        (parallel.run)(tasks, &part);
    }
}
