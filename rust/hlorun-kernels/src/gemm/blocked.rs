//! Our own product of large `f32` and `f64` matrices: both operands copied in cache-sized blocks, in the order in
//! which the inner kernel reads them (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008).
//!
//! In: a [`Gemm`] of any strides. Out: C. Promise: sums along k run in blocks of [`KC`], whatever the number of
//! threads and the split of C among them.

use super::packed::{Real, Steps, kernel};
use super::{Gemm, Matrix, pack};
use crate::DType;
use crate::elementwise::{Avx2, Avx512, Portable, Tier};
use crate::isa::Isa;

/// Columns of A and rows of B in one block: a strip of B of this length stays in the first-level cache.
const KC: usize = 256;
/// Rows of A in one block: with [`KC`] columns it fills a part of the second-level cache.
const MC: usize = 192;
/// Columns of B in one block: with [`KC`] rows it stays in the last-level cache.
const NC: usize = 1024;

/// Copies `rows`×`cols` elements into strips of `W` rows, zero-padded: element (r, c) of a strip lands at `c * W + r`.
#[inline(always)]
unsafe fn strips<E: Real, const W: usize>(
    from: *const E,
    layout: Matrix,
    rows: usize,
    cols: usize,
    to: *mut E,
) {
    let mut strip = 0;
    while strip * W < rows {
        let count = W.min(rows - strip * W);
        // SAFETY: the caller passes a block inside its matrix and room for whole strips.
        unsafe {
            let out = to.add(strip * W * cols);
            let base = from.offset((strip * W) as isize * layout.row_stride);
            if count == W && layout.row_stride == 1 {
                for c in 0..cols {
                    let row = base.offset(c as isize * layout.col_stride);
                    out.add(c * W)
                        .cast::<[E; W]>()
                        .write_unaligned(row.cast::<[E; W]>().read_unaligned());
                }
            } else if count == W && layout.col_stride == 1 {
                for c in 0..cols {
                    for r in 0..W {
                        out.add(c * W + r)
                            .write(base.offset(r as isize * layout.row_stride).add(c).read());
                    }
                }
            } else {
                for c in 0..cols {
                    for r in 0..W {
                        let at = base.wrapping_offset(
                            r as isize * layout.row_stride + c as isize * layout.col_stride,
                        );
                        out.add(c * W + r)
                            .write(if r < count { at.read() } else { E::ZERO });
                    }
                }
            }
        }
        strip += 1;
    }
}

#[inline(always)]
unsafe fn product<T: Tier, E: Real, const R: usize, const NR: usize>(
    g: &Gemm,
    a: *const E,
    b: *const E,
    c: *mut E,
) {
    let (alpha, beta) = (E::of(g.alpha.0), E::of(g.beta));
    let depth = KC.min(g.k);
    let mut left = pack::Buffer::new(MC.min(g.m).next_multiple_of(R) * depth * size_of::<E>());
    let mut right = pack::Buffer::new(NC.min(g.n).next_multiple_of(NR) * depth * size_of::<E>());
    let (left, right) = (
        left.as_mut_ptr().cast::<E>(),
        right.as_mut_ptr().cast::<E>(),
    );
    let steps = Steps {
        a_row: 1,
        a_col: R as isize,
        b_row: NR as isize,
    };
    // SAFETY: blocks stay inside the matrices of the contract, strips inside the buffers made for them.
    unsafe {
        for j in (0..g.n).step_by(NC) {
            let n = NC.min(g.n - j);
            for p in (0..g.k).step_by(KC) {
                let k = KC.min(g.k - p);
                let from = b.offset(p as isize * g.b.row_stride + j as isize * g.b.col_stride);
                strips::<E, NR>(from, g.b.transposed(), n, k, right);
                for i in (0..g.m).step_by(MC) {
                    let m = MC.min(g.m - i);
                    let from = a.offset(i as isize * g.a.row_stride + p as isize * g.a.col_stride);
                    strips::<E, R>(from, g.a, m, k, left);
                    let first = p == 0;
                    for jr in (0..n).step_by(NR) {
                        for ir in (0..m).step_by(R) {
                            let at = c.offset(
                                (i + ir) as isize * g.c.row_stride
                                    + (j + jr) as isize * g.c.col_stride,
                            );
                            let (rows, cols) = (R.min(m - ir), NR.min(n - jr));
                            prefetch_rows(at, g.c.row_stride, rows, NR);
                            let mut tile = [[E::ZERO; NR]; R];
                            kernel::<T, E, R, NR>(
                                k,
                                left.add(ir * k),
                                right.add(jr * k),
                                steps,
                                tile.as_mut_ptr(),
                            );
                            add_tile(g, &tile[..rows], cols, at, alpha, beta, first);
                        }
                    }
                }
            }
        }
    }
}

/// Asks for the lines of a tile of C while its sums are computed.
#[inline(always)]
fn prefetch_rows<E>(c: *const E, stride: isize, rows: usize, cols: usize) {
    #[cfg(target_arch = "x86_64")]
    for r in 0..rows as isize {
        let row = c.wrapping_offset(r * stride).cast::<i8>();
        let mut at = 0;
        while at < cols * size_of::<E>() {
            // SAFETY: a prefetch reads nothing and never faults, whatever the address.
            unsafe {
                std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                    row.wrapping_add(at),
                );
            }
            at += 64;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (c, stride, rows, cols);
}

/// Adds a tile of sums to C; the first block along k also applies β.
#[inline(always)]
unsafe fn add_tile<E: Real, const NR: usize>(
    g: &Gemm,
    tile: &[[E; NR]],
    cols: usize,
    c: *mut E,
    alpha: E,
    beta: E,
    first: bool,
) {
    for (r, sums) in tile.iter().enumerate() {
        // SAFETY: the caller passes the tile's place in C.
        unsafe {
            let row = c.offset(r as isize * g.c.row_stride);
            for (s, &sum) in sums[..cols].iter().enumerate() {
                let at = row.offset(s as isize * g.c.col_stride);
                let y = alpha.mul(sum);
                at.write(if !first {
                    at.read().add(y)
                } else if g.beta == 0.0 {
                    y
                } else {
                    y.add(beta.mul(at.read()))
                });
            }
        }
    }
}

macro_rules! on_tier {
    ($name:ident, $tier:ident, $rows:expr, $vector:expr, $(#[$features:meta])?) => {
        $(#[$features])?
        unsafe fn $name(g: &Gemm, a: *const u8, b: *const u8, c: *mut u8) {
            // SAFETY: the caller's contract.
            unsafe {
                if g.dtype == DType::F32 {
                    product::<$tier, f32, $rows, { $vector / 2 }>(g, a.cast(), b.cast(), c.cast());
                } else {
                    product::<$tier, f64, $rows, { $vector / 4 }>(g, a.cast(), b.cast(), c.cast());
                }
            }
        }
    };
}

// The vector argument is the register width in bytes: two vectors of columns per strip.
on_tier!(portable, Portable, 4, 32,);
#[cfg(target_arch = "x86_64")]
on_tier!(avx2, Avx2, 6, 32, #[target_feature(enable = "avx2,fma")]);
#[cfg(target_arch = "x86_64")]
on_tier!(avx512, Avx512, 12, 64, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]);

/// Runs one product on the calling thread.
///
/// # Safety
/// As [`super::gemm`]; `g.dtype` and `g.out` are equal, `F32` or `F64`, and `k` is not zero.
pub(super) unsafe fn gemm(g: &Gemm, a: *const u8, b: *const u8, c: *mut u8) {
    // SAFETY: the caller's contract; the active tier is available.
    unsafe {
        match Isa::active() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512(g, a, b, c),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2(g, a, b, c),
            _ => portable(g, a, b, c),
        }
    }
}
