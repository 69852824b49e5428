//! The exponential of `f32`: one formula for single numbers, which the compiler makes vectors of, and for vectors of AVX-512,
//! which has an instruction for the last step.
//!
//! In: one number or a vector. Out: e^x within 2 units in the last place. Promise: branch-free, and the same bits
//! on all tiers that fuse multiply-adds.

use std::marker::PhantomData;

use super::single::{LN2_HI, LN2_LO, LOG2_E, ROUND};
use crate::elementwise::Tier;

/// e^x is zero below. The result is then a constant: some CPUs take a hundred times as long for a product that
/// underflows, and masked values are as low as that.
pub(crate) const LEAST: f32 = -104.0;
/// Keeps `2^n` in range: n is at most 128. e^x is infinite from 88.73 on.
pub(crate) const MOST: f32 = 89.0;

/// The numbers of the formula, for what writes it in instructions.
#[cfg(target_arch = "x86_64")]
pub(crate) mod constants {
    pub(crate) use super::super::single::{EXP_TAIL, LN2_HI, LN2_LO, LOG2_E, ROUND};
    pub(crate) use super::{LEAST, MOST};
}

/// What the formula needs of a number, or of each number of a vector.
///
/// # Safety
/// The CPU has the vector's instruction set.
#[allow(clippy::missing_safety_doc, reason = "one contract for all, above")]
trait Lanes: Copy {
    unsafe fn splat(x: f32) -> Self;
    unsafe fn add(self, o: Self) -> Self;
    unsafe fn sub(self, o: Self) -> Self;
    unsafe fn mul(self, o: Self) -> Self;
    /// `self * by + plus`, fused on all tiers but the portable one.
    unsafe fn fma(self, by: Self, plus: Self) -> Self;
    /// The bound where that is less; NaN stays.
    unsafe fn at_most(self, bound: Self) -> Self;
    /// Zero where `x` is below `bound`.
    unsafe fn zero_below(self, x: Self, bound: Self) -> Self;
    /// `self * 2^whole`, rounded once; the low bits of `shifted` hold `whole`, too.
    unsafe fn scaled(self, whole: Self, shifted: Self) -> Self;
}

#[inline(always)]
unsafe fn formula<L: Lanes>(x: L) -> L {
    // SAFETY: the caller's promise.
    unsafe {
        let (all, least) = (x, L::splat(LEAST));
        // What is zero in the end is computed as e^0, so that nothing underflows.
        let x = x.at_most(L::splat(MOST)).zero_below(all, least);
        // x = whole·ln 2 + r with |r| <= ln 2 / 2.
        let shifted = x.fma(L::splat(LOG2_E), L::splat(ROUND));
        let whole = shifted.sub(L::splat(ROUND));
        let r = whole.fma(L::splat(-LN2_LO), whole.fma(L::splat(-LN2_HI), x));
        let mut tail = L::splat(super::single::EXP_TAIL[0]);
        for &coefficient in &super::single::EXP_TAIL[1..] {
            tail = tail.fma(r, L::splat(coefficient));
        }
        let y = tail.fma(r.mul(r), r).add(L::splat(1.0));
        y.scaled(whole, shifted).zero_below(all, least)
    }
}

/// e^x.
#[inline(always)]
pub fn exp<T: Tier>(x: f32) -> f32 {
    // SAFETY: a number needs no instruction set.
    unsafe { formula(Number::<T>(x, PhantomData)).0 }
}

/// A number, and how multiply-adds of it round.
struct Number<T>(f32, PhantomData<T>);

impl<T> Clone for Number<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Number<T> {}

/// 2^n for -126 <= n <= 127. Here the halves of an exponent are between -75 and 64.
#[inline(always)]
pub(super) fn pow2(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

macro_rules! methods {
    ($($(#[$doc:meta])* fn $name:ident($($args:tt)*) -> Self $body:block)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[allow(unused_unsafe, reason = "numbers need no unsafe code")]
        unsafe fn $name($($args)*) -> Self {
            // SAFETY: the trait's contract.
            unsafe { $body }
        }
    )*};
}

impl<T: Tier> Lanes for Number<T> {
    methods! {
        fn splat(x: f32) -> Self { Number(x, PhantomData) }
        fn add(self, o: Self) -> Self { Number(self.0 + o.0, PhantomData) }
        fn sub(self, o: Self) -> Self { Number(self.0 - o.0, PhantomData) }
        fn mul(self, o: Self) -> Self { Number(self.0 * o.0, PhantomData) }
        fn fma(self, by: Self, plus: Self) -> Self { Number(T::fma32(self.0, by.0, plus.0), PhantomData) }
        fn at_most(self, bound: Self) -> Self { if self.0 > bound.0 { bound } else { self } }
        fn zero_below(self, x: Self, bound: Self) -> Self {
            if x.0 < bound.0 { Number(0.0, PhantomData) } else { self }
        }
        fn scaled(self, _: Self, shifted: Self) -> Self {
            let n = (shifted.0.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
            // In two steps, because 2^n alone may overflow or be subnormal. The first one is exact.
            let half = n >> 1;
            Number(self.0 * pow2(half) * pow2(n.wrapping_sub(half)), PhantomData)
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub use avx512::{exp_avx512, exp_of_many};

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{Lanes, formula};
    use std::arch::x86_64::*;

    impl Lanes for __m512 {
        methods! {
            fn splat(x: f32) -> Self { _mm512_set1_ps(x) }
            fn add(self, o: Self) -> Self { _mm512_add_ps(self, o) }
            fn sub(self, o: Self) -> Self { _mm512_sub_ps(self, o) }
            fn mul(self, o: Self) -> Self { _mm512_mul_ps(self, o) }
            fn fma(self, by: Self, plus: Self) -> Self { _mm512_fmadd_ps(self, by, plus) }
            fn at_most(self, bound: Self) -> Self {
                // Of a NaN and a number the instruction takes the second operand.
                _mm512_min_ps(bound, self)
            }
            fn zero_below(self, x: Self, bound: Self) -> Self {
                _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, bound), self)
            }
            fn scaled(self, whole: Self, _: Self) -> Self { _mm512_scalef_ps(self, whole) }
        }
    }

    /// e^x of sixteen numbers.
    ///
    /// # Safety
    /// The CPU has AVX-512F.
    #[inline(always)]
    pub unsafe fn exp_avx512(x: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { formula(x) }
    }

    /// e^x of `n` numbers, by the contract of [`crate::Unary`].
    ///
    /// # Safety
    /// The CPU has AVX-512F, and the contract.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn exp_of_many(from: *const u8, to: *mut u8, n: usize) {
        let (from, to) = (from.cast::<f32>(), to.cast::<f32>());
        // SAFETY: the caller's promise; masked elements are neither read nor written.
        unsafe {
            let mut i = 0;
            while i + 32 <= n {
                let (a, b) = (
                    _mm512_loadu_ps(from.add(i)),
                    _mm512_loadu_ps(from.add(i + 16)),
                );
                _mm512_storeu_ps(to.add(i), formula(a));
                _mm512_storeu_ps(to.add(i + 16), formula(b));
                i += 32;
            }
            while i < n {
                let mask = match n - i {
                    rest @ 0..16 => (1u16 << rest) - 1,
                    _ => !0,
                };
                let x = _mm512_maskz_loadu_ps(mask, from.add(i));
                _mm512_mask_storeu_ps(to.add(i), mask, formula(x));
                i += 16;
            }
        }
    }
}
