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
/// e^x is not subnormal from here on.
#[cfg(target_arch = "x86_64")]
const NORMAL: f32 = -87.0;
/// One more in the exponent of an `f32`.
pub(crate) const EXPONENT_ONE: u32 = 1 << 23;

/// The numbers of the formula, for what writes it in instructions.
#[cfg(target_arch = "x86_64")]
pub(crate) mod constants {
    pub(crate) use super::super::single::{EXP_TAIL, LN2_HI, LN2_LO, LOG2_E, ROUND};
    pub(crate) use super::{EXPONENT_ONE, LEAST, MOST};
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
    /// The same by integers where the product underflows: it is subnormal where `self` is less than 2^(-126 - whole), and a sum
    /// with that power of two has the bits of the product behind those of the power.
    unsafe fn scaled_apart(self, whole: Self, shifted: Self) -> Self;
}

/// `UNDERFLOWS` is whether a result may be subnormal: some CPUs take a hundred times as long for such a product.
#[inline(always)]
unsafe fn formula<const UNDERFLOWS: bool, L: Lanes>(x: L) -> L {
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
        let scaled = match UNDERFLOWS {
            true => y.scaled_apart(whole, shifted),
            false => y.scaled(whole, shifted),
        };
        scaled.zero_below(all, least)
    }
}

/// e^x.
#[inline(always)]
pub fn exp<T: Tier>(x: f32) -> f32 {
    // SAFETY: a number needs no instruction set.
    unsafe { formula::<true, _>(Number::<T>(x, PhantomData)).0 }
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
        fn scaled_apart(self, whole: Self, shifted: Self) -> Self {
            let n = shifted.0.to_bits().wrapping_sub(ROUND.to_bits());
            let bits = 1u32.wrapping_sub(n) << 23;
            let power = f32::from_bits(bits);
            let is_small = self.0 < power;
            let small = f32::from_bits((self.0 + power).to_bits().wrapping_sub(bits));
            // 2^0 where the product is not taken.
            let shifted = Number(if is_small { ROUND } else { shifted.0 }, PhantomData);
            let product = self.scaled(whole, shifted);
            if is_small { Number(small, PhantomData) } else { product }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub use avx512::{exp_avx512, exp_of_many};

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{EXPONENT_ONE, Lanes, NORMAL, formula};
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
            fn scaled_apart(self, whole: Self, shifted: Self) -> Self {
                // The bits of `ROUND` are all shifted out.
                let above = _mm512_slli_epi32::<23>(_mm512_castps_si512(shifted));
                let bits = _mm512_sub_epi32(_mm512_set1_epi32(EXPONENT_ONE as i32), above);
                let power = _mm512_castsi512_ps(bits);
                let is_normal = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(self, power);
                let sum = _mm512_castps_si512(_mm512_add_ps(self, power));
                let small = _mm512_castsi512_ps(_mm512_sub_epi32(sum, bits));
                _mm512_mask_scalef_ps(small, is_normal, self, whole)
            }
        }
    }

    /// [`Lanes::scaled_apart`] of vectors that have the same number in every lane.
    ///
    /// # Safety
    /// The CPU has AVX-512F.
    #[cfg(test)]
    #[target_feature(enable = "avx512f")]
    pub unsafe fn scaled_apart(y: f32, whole: f32, shifted: f32) -> f32 {
        // SAFETY: the caller's promise.
        unsafe {
            let [y, whole, shifted] = [y, whole, shifted].map(|x| __m512::splat(x));
            _mm512_cvtss_f32(y.scaled_apart(whole, shifted))
        }
    }

    /// e^x of sixteen numbers.
    ///
    /// # Safety
    /// The CPU has AVX-512F.
    #[inline(always)]
    pub unsafe fn exp_avx512(x: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            match underflows(x) {
                true => formula::<true, _>(x),
                false => formula::<false, _>(x),
            }
        }
    }

    /// Whether e^x of any lane may be subnormal.
    #[inline(always)]
    unsafe fn underflows(x: __m512) -> bool {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(x, _mm512_set1_ps(NORMAL)) != 0 }
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
                let (a, b) = match underflows(_mm512_min_ps(a, b)) {
                    true => (formula::<true, _>(a), formula::<true, _>(b)),
                    false => (formula::<false, _>(a), formula::<false, _>(b)),
                };
                _mm512_storeu_ps(to.add(i), a);
                _mm512_storeu_ps(to.add(i + 16), b);
                i += 32;
            }
            while i < n {
                let mask = match n - i {
                    rest @ 0..16 => (1u16 << rest) - 1,
                    _ => !0,
                };
                let x = _mm512_maskz_loadu_ps(mask, from.add(i));
                _mm512_mask_storeu_ps(to.add(i), mask, exp_avx512(x));
                i += 16;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elementwise::Portable;

    /// All powers that the formula has, with numbers that are ties, and neighbours of ties, of subnormal results.
    fn cases() -> Vec<(f32, i32)> {
        let numbers = (0..2000u32).flat_map(|k| {
            let y = 0.7 + k as f32 * 0.000_36;
            [
                y,
                f32::from_bits(y.to_bits() & !0xfff | 0x800),
                f32::from_bits(y.to_bits() & !0xff),
            ]
        });
        let numbers: Vec<f32> = numbers
            .chain([0.75, 1.0, 1.25, 1.0 - f32::EPSILON / 2.0])
            .collect();
        let powers = (-150..=-120).chain([-1, 0, 1, 2, 126, 127, 128]);
        powers
            .flat_map(|n| numbers.iter().map(move |&y| (y, n)))
            .collect()
    }

    #[test]
    fn products_that_underflow_are_rounded_once() {
        for (y, n) in cases() {
            let want = (f64::from(y) * f64::from(n).exp2()) as f32;
            let shifted = ROUND + n as f32;
            let number = |x| Number::<Portable>(x, PhantomData);
            // SAFETY: a number needs no instruction set.
            let got = unsafe { number(y).scaled_apart(number(n as f32), number(shifted)).0 };
            assert_eq!(got.to_bits(), want.to_bits(), "{y} 2^{n}");
            #[cfg(target_arch = "x86_64")]
            if crate::Isa::Avx512.is_available() {
                // SAFETY: the CPU has the instructions.
                let got = unsafe { avx512::scaled_apart(y, n as f32, shifted) };
                assert_eq!(got.to_bits(), want.to_bits(), "{y} 2^{n} of a vector");
            }
        }
    }
}
