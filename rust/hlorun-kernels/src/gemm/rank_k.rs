//! Updates of rank K: sums of some rows, to which products with K rows of B are added at once.
//!
//! In: an [`Update`]. Out: its sums. Promise: every sum is made along the depth in ascending order, from what was there
//! (fused where the tier has fused multiply-add), so that it has the bits of a tile's.
//!
//! A tile reads a strip of B, a few lines of each row: where B comes from memory, and its rows are long, every step begins
//! a page. Here sums are in the first-level cache, and long pieces of a few rows of B pass by.

use super::ahead::prefetch_row;
use super::micro::{Real, Source, load};
use crate::elementwise::Tier;

/// `y[i, j] += x[i, p]·b[p, j]`, for every row i, step p and column j.
pub(super) struct Update<E, S> {
    /// An element for every step and row: those of a step lie side by side.
    pub x: *const E,
    pub rows: usize,
    pub depth: usize,
    pub b: *const S,
    /// Elements from one row of B to the next; those of a row lie side by side.
    pub b_row: isize,
    pub columns: usize,
    /// Sums, row by row, without gaps.
    pub y: *mut E,
}

/// Runs an update.
///
/// # Safety
/// All elements named are valid; y overlaps nothing.
pub(super) type RankK<E, S> = unsafe fn(&Update<E, S>);

/// Columns that are added at once where fewer than W are left.
const FEW: usize = 8;

/// K is the number of rows of B that are added at once, W that of columns whose values are in registers meanwhile.
#[inline(always)]
pub(super) unsafe fn run<T: Tier, E: Real, S: Source<E>, const K: usize, const W: usize>(
    update: &Update<E, S>,
) {
    let mut p = 0;
    // SAFETY: the caller's contract.
    unsafe {
        while p + K <= update.depth {
            steps::<T, E, S, K, W>(update, p);
            p += K;
        }
        while p < update.depth {
            steps::<T, E, S, 1, W>(update, p);
            p += 1;
        }
    }
}

/// K steps of the depth, from `p` on.
#[inline(always)]
unsafe fn steps<T: Tier, E: Real, S: Source<E>, const K: usize, const W: usize>(
    update: &Update<E, S>,
    p: usize,
) {
    let mut j = 0;
    // SAFETY: the caller's contract.
    unsafe {
        while j + W <= update.columns {
            add::<T, E, S, K, W>(update, p, j);
            j += W;
        }
        while j + FEW <= update.columns {
            add::<T, E, S, K, FEW>(update, p, j);
            j += FEW;
        }
        while j < update.columns {
            add::<T, E, S, K, 1>(update, p, j);
            j += 1;
        }
    }
}

/// K steps of W columns: what the same columns have K rows later is asked for.
#[inline(always)]
unsafe fn add<T: Tier, E: Real, S: Source<E>, const K: usize, const W: usize>(
    update: &Update<E, S>,
    p: usize,
    j: usize,
) {
    let mut values = [[E::ZERO; W]; K];
    // SAFETY: the caller's contract; what lies ahead is only asked for.
    unsafe {
        let b = update.b.offset(p as isize * update.b_row).add(j);
        for (k, values) in values.iter_mut().enumerate() {
            let row = b.offset(k as isize * update.b_row);
            prefetch_row::<S, W>(row.wrapping_offset(K as isize * update.b_row));
            *values = load::<E, S, W>(row);
        }
        let mut x = update.x.add(p * update.rows);
        let mut y = update.y.add(j);
        for _ in 0..update.rows {
            let at = y.cast::<[E; W]>();
            let mut sums = at.read_unaligned();
            for (k, values) in values.iter().enumerate() {
                let x = x.add(k * update.rows).read();
                for (sum, &value) in sums.iter_mut().zip(values) {
                    *sum = E::fma::<T>(x, value, *sum);
                }
            }
            at.write_unaligned(sums);
            x = x.wrapping_add(1);
            y = y.wrapping_add(update.columns);
        }
    }
}

/// `to[..n] = α·from[..n]`, plus `β·to[..n]` where β is not zero.
///
/// # Safety
/// Both have n elements.
pub(super) type Settle<E> = unsafe fn(*const E, *mut E, usize, [E; 2]);

#[inline(always)]
pub(super) unsafe fn settle<E: Real>(from: *const E, to: *mut E, n: usize, [alpha, beta]: [E; 2]) {
    // SAFETY: the caller's contract.
    unsafe {
        if beta == E::ZERO {
            for j in 0..n {
                to.add(j).write(alpha.mul(from.add(j).read()));
            }
        } else {
            for j in 0..n {
                let old = beta.mul(to.add(j).read());
                to.add(j).write(alpha.mul(from.add(j).read()).add(old));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Gemm, Parallel, gemm};
    use crate::DType;
    use crate::convert::convert;
    use crate::isa::Isa;

    /// Fractions whose sums depend on their order.
    fn fractions(count: usize, seed: usize, dtype: DType) -> Vec<u8> {
        let values: Vec<f64> = (0..count)
            .map(|at| ((at * 7919 + seed) % 1013) as f64 / 7.0 - 70.0)
            .collect();
        let mut bytes = vec![0; count * dtype.size_bytes()];
        // SAFETY: both hold so many elements.
        unsafe { convert(DType::F64, dtype)(values.as_ptr().cast(), bytes.as_mut_ptr(), count) };
        bytes
    }

    fn product(g: &Gemm, a: &[u8], b: &[u8], threads: usize) -> Vec<u8> {
        let mut c = fractions(g.m * g.n, 3, g.out);
        let parallel = Parallel {
            threads,
            run: &|tasks, body| (0..tasks).rev().for_each(body),
        };
        // SAFETY: A has more rows, the other matrices have the sizes of g.
        unsafe { gemm(g, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), &parallel) }.expect("memory");
        c
    }

    #[test]
    fn sums_have_the_bits_of_tiles() {
        // A library may have computed these.
        if Isa::active() == Isa::Portable {
            return;
        }
        // More rows than updates take, and a B that is large in every type.
        let (rows, n, k) = (40, 613, 1030);
        for (dtype, out) in [
            (DType::F32, DType::F32),
            (DType::F64, DType::F64),
            (DType::BF16, DType::F32),
            (DType::F16, DType::F16),
        ] {
            let (a, b) = (fractions(rows * k, 1, dtype), fractions(k * n, 2, dtype));
            for (alpha, beta) in [(1.0, 0.0), (-0.5, 1.0)] {
                let tiles = Gemm {
                    out,
                    alpha: (alpha, 0.0),
                    beta,
                    ..Gemm::dense(dtype, rows, n, k)
                };
                let want = product(&tiles, &a, &b, 1);
                for (m, threads) in [(2, 1), (7, 2), (32, 64)] {
                    let got = product(&Gemm { m, ..tiles }, &a, &b, threads);
                    assert!(got == want[..got.len()], "{dtype:?}, {m} rows");
                }
            }
        }
    }
}
