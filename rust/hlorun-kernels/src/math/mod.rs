//! Elementary functions as branch-free bodies the compiler vectorizes.
//!
//! In: one `f32` or `f64`. Out: the function's value within 2 units in the last place, with C's special values.
//! Promise: a body has no data-dependent branch; the few inputs a body cannot handle (huge arguments of the
//! trigonometric functions, special cases of the power) are named by a `*_rare` predicate and computed by the scalar
//! functions of `libm` afterwards.

#![allow(
    clippy::excessive_precision,
    reason = "coefficients are written with all their digits"
)]

/// A polynomial with these coefficients, the highest first, by the `horner` of the module.
macro_rules! horner {
    ($T:ty, $x:expr; $($coefficient:expr),*) => {
        horner::<$T>($x, &[$($coefficient),*])
    };
}

pub mod complex;
pub mod complex_single;
pub mod double;
pub(crate) mod exp;
mod inverse;
pub mod single;

use crate::elementwise::Tier;

/// A real compute type: `f32` or `f64`.
#[allow(missing_docs)]
pub trait Float: Copy + PartialOrd + 'static {
    const ZERO: Self;
    const ONE: Self;
    fn from_f64(x: f64) -> Self;
    fn to_f64(self) -> f64;
    fn add(self, o: Self) -> Self;
    fn sub(self, o: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    fn div(self, o: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn copysign(self, sign: Self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn round_afz(self) -> Self;
    fn round_even(self) -> Self;
    fn fmod(self, o: Self) -> Self;
    /// IEEE 754-2019 maximum: NaN wins, +0 over -0.
    fn maximum(self, o: Self) -> Self;
    /// IEEE 754-2019 minimum: NaN wins, -0 over +0.
    fn minimum(self, o: Self) -> Self;
    /// The larger one of this magnitude and that of `o`, which is not negative; NaN is larger than all.
    fn larger_magnitude(self, o: Self) -> Self;
    /// Whether neither infinite nor NaN.
    fn finite(self) -> bool;
    /// Total-order "less than".
    fn total_lt(self, o: Self) -> bool;
    /// An integer that compares as the float does in the total order.
    fn total_key(self) -> i64;
    /// Total-order equality: the same bits.
    fn total_eq(self, o: Self) -> bool;
    fn sqrt(self) -> Self;
    fn rsqrt(self) -> Self;
    fn exp<T: Tier>(self) -> Self;
    fn expm1<T: Tier>(self) -> Self;
    fn log<T: Tier>(self) -> Self;
    fn log1p<T: Tier>(self) -> Self;
    fn logistic<T: Tier>(self) -> Self;
    fn tanh<T: Tier>(self) -> Self;
    fn sin<T: Tier>(self) -> Self;
    fn cos<T: Tier>(self) -> Self;
    fn tan<T: Tier>(self) -> Self;
    /// Arguments whose sin, cos and tan need [`Float::trig_fix`].
    fn trig_rare(self) -> bool;
    /// `[sin, cos, tan]` of a rare argument.
    fn trig_fix(self) -> [Self; 3];
    fn pow<T: Tier>(self, o: Self) -> Self;
    fn cbrt<T: Tier>(self) -> Self;
    fn erf<T: Tier>(self) -> Self;
    fn sinh<T: Tier>(self) -> Self;
    fn cosh<T: Tier>(self) -> Self;
    fn asin<T: Tier>(self) -> Self;
    fn acos<T: Tier>(self) -> Self;
    fn atan<T: Tier>(self) -> Self;
    fn asinh<T: Tier>(self) -> Self;
    fn acosh<T: Tier>(self) -> Self;
    fn atanh<T: Tier>(self) -> Self;
    fn atan2<T: Tier>(self, x: Self) -> Self;
}

/// The logarithm of a magnitude, put right for zero and for infinity or NaN (`beyond`).
#[inline(always)]
fn edges(zero: bool, beyond: bool, magnitude: f64, log: f64) -> f64 {
    let log = if beyond { magnitude } else { log };
    if zero { f64::NEG_INFINITY } else { log }
}

/// Gives `value` = |x|^y the sign x and y ask for: real for negative x and whole y only, negative for odd y.
#[inline(always)]
fn sign_of_power<F: Float>(x: F, y: F, value: F) -> F {
    let half = y.mul(F::from_f64(0.5));
    let whole = y.floor() == y;
    let odd = whole && half.floor() != half;
    let signed = if odd { value.neg() } else { value };
    let edge = x == F::ZERO || !x.finite();
    let negative = if whole || edge {
        signed
    } else {
        F::from_f64(f64::NAN)
    };
    let result = if F::ONE.copysign(x) < F::ZERO {
        negative
    } else {
        value
    };
    if y == F::ZERO || x == F::ONE {
        F::ONE
    } else {
        result
    }
}

macro_rules! basics {
    ($t:ident, $bits:ty, $signed:ty, $half:expr) => {
        const ZERO: Self = 0.0;
        const ONE: Self = 1.0;
        inline! {
            fn from_f64(x: f64) -> Self { x as $t }
            fn to_f64(self) -> f64 { self as f64 }
            fn add(self, o: Self) -> Self { self + o }
            fn sub(self, o: Self) -> Self { self - o }
            fn mul(self, o: Self) -> Self { self * o }
            fn div(self, o: Self) -> Self { self / o }
            fn neg(self) -> Self { -self }
            fn abs(self) -> Self { $t::abs(self) }
            fn copysign(self, sign: Self) -> Self { $t::copysign(self, sign) }
            fn floor(self) -> Self { $t::floor(self) }
            fn ceil(self) -> Self { $t::ceil(self) }
            fn round_afz(self) -> Self {
                // The largest number below one half: adding one half itself would round 0.49999… up.
                $t::trunc(self + $t::copysign($half, self))
            }
            fn round_even(self) -> Self { $t::round_ties_even(self) }
            fn fmod(self, o: Self) -> Self { self % o }
            fn maximum(self, o: Self) -> Self {
                let larger = if self > o { self } else { o };
                let zeros = $t::from_bits(self.to_bits() & o.to_bits());
                let ordered = if self == o { zeros } else { larger };
                if self != self { self } else { ordered }
            }
            fn minimum(self, o: Self) -> Self {
                let smaller = if self < o { self } else { o };
                let zeros = $t::from_bits(self.to_bits() | o.to_bits());
                let ordered = if self == o { zeros } else { smaller };
                if self != self { self } else { ordered }
            }
            fn larger_magnitude(self, o: Self) -> Self {
                // Magnitudes are in the order of their bits.
                $t::from_bits((self.to_bits() & !(1 << (<$bits>::BITS - 1))).max(o.to_bits()))
            }
            fn finite(self) -> bool { $t::abs(self) < $t::INFINITY }
            fn total_lt(self, o: Self) -> bool {
                self.total_key() < o.total_key()
            }
            fn total_key(self) -> i64 {
                let bits = self.to_bits() as $signed;
                i64::from(bits ^ ((bits >> (<$signed>::BITS - 1)) as $bits >> 1) as $signed)
            }
            fn total_eq(self, o: Self) -> bool { self.to_bits() == o.to_bits() }
            fn sqrt(self) -> Self { $t::sqrt(self) }
            fn rsqrt(self) -> Self { 1.0 / $t::sqrt(self) }
            fn trig_rare(self) -> bool { self.is_nan() | (self.abs() >= 1e6) }
        }
    };
}

macro_rules! direct {
    ($module:ident: $($name:ident)*) => {$(
        #[inline(always)]
        fn $name<T: Tier>(self) -> Self { $module::$name::<T>(self) }
    )*};
}

macro_rules! through_f64 {
    ($($name:ident)*) => {$(
        #[inline(always)]
        fn $name<T: Tier>(self) -> Self { <f64 as Float>::$name::<T>(self as f64) as f32 }
    )*};
}

impl Float for f32 {
    basics!(f32, u32, i32, 0.499_999_97);
    direct!(single: exp expm1 log log1p logistic tanh sin cos erf);
    through_f64!(cbrt cosh asin acos atan asinh acosh atanh);
    fn trig_fix(self) -> [Self; 3] {
        (self as f64).trig_fix().map(|x| x as f32)
    }
    #[inline(always)]
    fn tan<T: Tier>(self) -> Self {
        double::tan_for_single::<T>(self as f64) as f32
    }
    #[inline(always)]
    fn sinh<T: Tier>(self) -> Self {
        double::sinh_for_single::<T>(self as f64) as f32
    }
    #[inline(always)]
    fn pow<T: Tier>(self, o: Self) -> Self {
        single::pow::<T>(self, o)
    }
    #[inline(always)]
    fn atan2<T: Tier>(self, x: Self) -> Self {
        inverse::atan2::<T>(self as f64, x as f64) as f32
    }
}

impl Float for f64 {
    basics!(f64, u64, i64, 0.499_999_999_999_999_94);
    direct!(double: exp expm1 log log1p logistic tanh sin cos tan cbrt erf sinh cosh);
    direct!(inverse: asin acos atan asinh acosh atanh);
    fn trig_fix(self) -> [Self; 3] {
        [libm::sin(self), libm::cos(self), libm::tan(self)]
    }
    #[inline(always)]
    fn pow<T: Tier>(self, o: Self) -> Self {
        double::pow::<T>(self, o)
    }
    #[inline(always)]
    fn atan2<T: Tier>(self, x: Self) -> Self {
        inverse::atan2::<T>(self, x)
    }
}

#[cfg(test)]
mod tests;
