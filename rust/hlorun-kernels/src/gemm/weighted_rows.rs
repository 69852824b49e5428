//! Weighted sums of rows: what a convolution of few features is made of.
//!
//! In: rows of one length, and a weight for each. Out: their sum, element by element. Promise: an element is one sum in
//! the order of the rows, fused where the tier has fused multiply-add; how many are computed at once changes no bit.

use super::micro::Real;
use crate::elementwise::Tier;
use crate::{DType, Isa};

/// `unsafe fn(rows, weights, n, to)`: `to[i]` becomes the sum of `weights[r] * rows[r][i]`.
pub type WeightedRows = unsafe fn(&[*const u8], *const u8, usize, *mut u8);

/// Elements whose sums are in registers at one time; of what is left over, and of short rows.
const WIDE: usize = 64;
const NARROW: usize = 16;
const SHORT: usize = 4;

/// Elements `at..at + N`.
#[inline(always)]
unsafe fn part<T: Tier, F: Real, const N: usize>(
    rows: &[*const u8],
    weights: *const F,
    at: usize,
    to: *mut F,
) {
    let mut sums = [F::ZERO; N];
    for (r, row) in rows.iter().enumerate() {
        // SAFETY: the caller's contract.
        let (weight, x) = unsafe {
            let x = row.cast::<F>().add(at).cast::<[F; N]>();
            (weights.add(r).read(), x.read_unaligned())
        };
        for (sum, &x) in sums.iter_mut().zip(&x) {
            *sum = F::fma::<T>(x, weight, *sum);
        }
    }
    // SAFETY: the caller's contract.
    unsafe { to.add(at).cast::<[F; N]>().write_unaligned(sums) };
}

/// Parts of `N` elements from `begin` on; the last one reaches back where fewer are left.
#[inline(always)]
unsafe fn parts<T: Tier, F: Real, const N: usize>(
    rows: &[*const u8],
    weights: *const F,
    begin: usize,
    n: usize,
    to: *mut F,
) {
    let mut at = begin;
    while at < n {
        // SAFETY: the caller's contract, and `n` is at least N.
        unsafe { part::<T, F, N>(rows, weights, at.min(n - N), to) };
        at += N;
    }
}

#[inline(always)]
unsafe fn sum<T: Tier, F: Real>(rows: &[*const u8], weights: *const u8, n: usize, to: *mut u8) {
    let (weights, to) = (weights.cast::<F>(), to.cast::<F>());
    let wide = n / WIDE * WIDE;
    // SAFETY: the caller's contract.
    unsafe {
        for at in (0..wide).step_by(WIDE) {
            part::<T, F, WIDE>(rows, weights, at, to);
        }
        match n {
            NARROW.. => parts::<T, F, NARROW>(rows, weights, wide, n, to),
            SHORT.. => parts::<T, F, SHORT>(rows, weights, wide, n, to),
            _ => parts::<T, F, 1>(rows, weights, wide, n, to),
        }
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn run<F: Real>(rows: &[*const u8], weights: *const u8, n: usize, to: *mut u8) {
                // SAFETY: the caller's contract.
                unsafe { sum::<$tier, F>(rows, weights, n, to) }
            }

            pub fn pick(dtype: DType) -> Option<WeightedRows> {
                match dtype {
                    DType::F32 => Some(run::<f32>),
                    DType::F64 => Some(run::<f64>),
                    _ => None,
                }
            }
        }
    };
}
each_tier!(tier);

/// What sums weighted rows; `None` where the type has no such kernel.
///
/// It is to be called with a weight for each row, rows of `n` elements, and room for `n`, which overlaps none of them.
pub fn weighted_rows(dtype: DType) -> Option<WeightedRows> {
    of_tier!(Isa::active(), pick(dtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_one_sum_in_the_order_of_the_rows() {
        let values: Vec<f32> = (0..400)
            .map(|i| [1e8, 1.5, -1e8, 0.1, -0.0, 3.0, 1e-3][i * 5 % 7])
            .collect();
        let kernel = weighted_rows(DType::F32).unwrap();
        let starts = [0usize, 7, 1, 30, 64, 2, 90];
        let weights = [0.5f32, -3.0, 1.0, 0.0, 7.5, 1e-3, 2.0];
        let rows: Vec<*const u8> = starts
            .iter()
            .map(|&start| values[start..].as_ptr().cast())
            .collect();
        for n in [1usize, 2, 3, 4, 7, 15, 16, 17, 63, 64, 65, 81, 130, 200] {
            let mut got = vec![f32::NAN; n + 1];
            // SAFETY: every row has at least 310 elements.
            unsafe { kernel(&rows, weights.as_ptr().cast(), n, got.as_mut_ptr().cast()) };
            assert!(got[n].is_nan());
            for (i, got) in got[..n].iter().enumerate() {
                let terms = starts.iter().zip(weights);
                let want = terms.fold(0f32, |sum, (start, w)| match Isa::active().is_fused() {
                    true => values[start + i].mul_add(w, sum),
                    false => values[start + i] * w + sum,
                });
                assert_eq!(got.to_bits(), want.to_bits(), "{n} {i}");
            }
        }
    }
}
