//! Elementary functions of `f32` in `f32` lanes (argument reduction of sin, cos and the power in `f64` lanes).
//!
//! In: one `f32`. Out: the value within 2 ulp. Promise: branch-free, so a loop over these vectorizes.

pub use super::exp::exp;
use super::exp::{LEAST, pow2};
use crate::elementwise::Tier;

/// Adding this to |x| < 2^22 leaves the nearest integer in the low bits.
pub(crate) const ROUND: f32 = 12_582_912.0;
pub(crate) const LOG2_E: f32 = std::f32::consts::LOG2_E;
pub(crate) const LN2_HI: f32 = 0.693_359_4;
pub(crate) const LN2_LO: f32 = -2.121_944_4e-4;

#[inline(always)]
fn horner<T: Tier>(x: f32, coefficients: &[f32]) -> f32 {
    let mut sum = coefficients[0];
    for &c in &coefficients[1..] {
        sum = T::fma32(sum, x, c);
    }
    sum
}

/// `x = n·ln 2 + r` with |r| <= ln 2 / 2.
#[inline(always)]
fn reduce<T: Tier>(x: f32) -> (f32, i32) {
    let shifted = T::fma32(x, LOG2_E, ROUND);
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let whole = shifted - ROUND;
    let r = T::fma32(whole, -LN2_LO, T::fma32(whole, -LN2_HI, x));
    (r, n)
}

/// The coefficients of [`exp_tail`], the highest first.
pub(crate) const EXP_TAIL: [f32; 6] = [
    1.987_569_1e-4,
    1.398_199_9e-3,
    8.333_452e-3,
    4.166_579_6e-2,
    1.666_666_6e-1,
    0.5,
];

/// `(exp(r) - 1 - r) / r²` for |r| <= ln 2 / 2.
#[inline(always)]
fn exp_tail<T: Tier>(r: f32) -> f32 {
    horner::<T>(r, &EXP_TAIL)
}

/// e^x - 1.
#[inline(always)]
pub fn expm1<T: Tier>(x: f32) -> f32 {
    let clamped = if x > 89.0 { 89.0 } else { x };
    let clamped = if clamped < -20.0 { -20.0 } else { clamped };
    let (r, n) = reduce::<T>(clamped);
    let p = T::fma32(exp_tail::<T>(r), r * r, r);
    // Half of 2^n stays finite where 2^n overflows.
    let half = pow2(n.wrapping_sub(1));
    let y = 2.0 * T::fma32(half, p, half - 0.5);
    // Keeps the sign of zero and the exactness of subnormals.
    if x.abs() < 1e-8 { x } else { y }
}

/// Natural logarithm.
#[inline(always)]
pub fn log<T: Tier>(x: f32) -> f32 {
    let subnormal = x < f32::MIN_POSITIVE;
    let scaled = if subnormal { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits().wrapping_add(0x3f80_0000 - 0x3f35_04f3);
    let exponent = ((bits >> 23) as i32).wrapping_sub(if subnormal { 127 + 23 } else { 127 });
    let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(0x3f35_04f3));
    let f = m - 1.0;
    let p = horner!(T, f;
        7.037_683_6e-2, -1.151_461e-1, 1.167_699_84e-1, -1.242_014_1e-1, 1.424_932_3e-1, -1.666_805_7e-1,
        2.000_071_5e-1, -2.499_999_4e-1, 3.333_333e-1);
    let f2 = f * f;
    let e = exponent as f32;
    let tail = T::fma32(f * f2, p, e * LN2_LO) - 0.5 * f2;
    let y = T::fma32(e, LN2_HI, f + tail);
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f32::NAN }
}

/// log(1 + x).
#[inline(always)]
pub fn log1p<T: Tier>(x: f32) -> f32 {
    let u = 1.0 + x;
    let lost = x - (u - 1.0);
    let log_u = log::<T>(u);
    let y = log_u + lost / u;
    // The logarithm of anything else is already right, and its NaN is the same on every machine.
    let inside = u > 0.0 && u < f32::INFINITY;
    let y = if inside { y } else { log_u };
    if x.abs() < 1e-8 { x } else { y }
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn logistic<T: Tier>(x: f32) -> f32 {
    let is_zero = x < LEAST;
    // From 18 on the quotient is 1; up to 20 nothing that is computed here is subnormal.
    let a = if x > 20.0 { 20.0 } else { x };
    let a = if is_zero { 0.0 } else { a };
    let (r, n) = reduce::<T>(-a);
    let p = T::fma32(exp_tail::<T>(r), r * r, r);
    // Numerator and denominator are 2^64 smaller, because e^-x = 2^n·(1 + p) may overflow where the quotient is
    // subnormal.
    let one = 5.421_010_9e-20;
    let scale = pow2(n.wrapping_sub(64));
    // One of the two would be lost where the other is 2^24 times larger.
    let sum = one + scale;
    let lost = one - (sum - scale);
    let y = one / (T::fma32(scale, p, lost) + sum);
    if is_zero { 0.0 } else { y }
}

/// Hyperbolic tangent.
#[inline(always)]
pub fn tanh<T: Tier>(x: f32) -> f32 {
    // A tiny number is its own result; its square, which might be subnormal, is not computed.
    let is_tiny = x.abs() < 1e-10;
    let a = if is_tiny { 0.0 } else { x.abs() };
    let z = a * a;
    let near = horner!(T, z;
        -5.895_158_1e-3, 2.079_597_2e-2, -5.378_383e-2, 1.333_192_4e-1, -3.333_329_8e-1);
    let near = T::fma32(near, a * z, a);
    // 1 - 2 / (e^2a + 1): the larger a, the less the quotient's error matters.
    let (r, n) = reduce::<T>(2.0 * if a > 10.0 { 10.0 } else { a });
    let p = T::fma32(exp_tail::<T>(r), r * r, r);
    let scale = pow2(n);
    let far = 1.0 - 2.0 / T::fma32(scale, p, scale + 1.0);
    let y = (if a < 0.6 { near } else { far }).copysign(x);
    if is_tiny { x } else { y }
}

/// `x - n·π/2` and the low bits of `n`.
#[inline(always)]
fn quadrant<T: Tier>(x: f32) -> (f32, u32) {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let wide = f64::from(x);
    let shifted = T::fma64(wide, std::f64::consts::FRAC_2_PI, SHIFT);
    let n = shifted.to_bits() as u32;
    let whole = shifted - SHIFT;
    let r = T::fma64(
        whole,
        -6.077_100_506_506_192e-11,
        T::fma64(whole, -1.570_796_326_734_125_6, wide),
    );
    (r as f32, n)
}

#[inline(always)]
fn sine<T: Tier>(r: f32, n: u32) -> f32 {
    let z = r * r;
    let s = horner::<T>(z, &[-1.951_529_6e-4, 8.332_161e-3, -1.666_665_5e-1]);
    let s = T::fma32(s * z, r, r);
    let c = horner::<T>(z, &[2.443_315_7e-5, -1.388_731_6e-3, 4.166_664_6e-2]);
    let c = T::fma32(c * z, z, T::fma32(z, -0.5, 1.0));
    let y = if n & 1 == 0 { s } else { c };
    f32::from_bits(y.to_bits() ^ ((n & 2) << 30))
}

/// Sine of |x| < 10^6.
#[inline(always)]
pub fn sin<T: Tier>(x: f32) -> f32 {
    let (r, n) = quadrant::<T>(x);
    let y = sine::<T>(r, n);
    if x.abs() < 1e-4 { x } else { y }
}

/// Cosine of |x| < 10^6.
#[inline(always)]
pub fn cos<T: Tier>(x: f32) -> f32 {
    let (r, n) = quadrant::<T>(x);
    sine::<T>(r, n.wrapping_add(1))
}

/// Error function.
#[inline(always)]
pub fn erf<T: Tier>(x: f32) -> f32 {
    let t = x.abs();
    let t = if t > 4.0 { 4.0 } else { t };
    let s = t * t;
    let far = horner!(T, t;
        -1.728_534_7e-5, 3.831_971_3e-4, -3.883_964_4e-3, 2.425_462_2e-2, -1.067_778_8e-1, -6.348_467e-1,
        -1.287_175_1e-1);
    let far = 1.0 - exp::<T>(T::fma32(far, t, -t));
    let near = horner!(T, s;
        -5.967_617e-4, 4.991_194_2e-3, -2.676_813_5e-2, 1.128_199_3e-1, -3.761_253_4e-1, 1.283_791_7e-1);
    let near = T::fma32(near, t, t);
    (if t > 0.927_734_4 { far } else { near }).copysign(x)
}

/// x^y.
#[inline(always)]
pub fn pow<T: Tier>(x: f32, y: f32) -> f32 {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    // log2|x|: 2^k·m, m in [√½, √2), by the series of atanh((m-1)/(m+1)); every f32 is normal in f64.
    let bits = f64::from(x.abs())
        .to_bits()
        .wrapping_add(0x3ff0_0000_0000_0000 - 0x3fe6_a09e_667f_3bcd);
    let k =
        f64::from_bits((bits >> 52) | 0x4330_0000_0000_0000) - (4_503_599_627_370_496.0 + 1023.0);
    let m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(0x3fe6_a09e_667f_3bcd));
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut p = 2.0 / 15.0;
    for c in [
        2.0 / 13.0,
        2.0 / 11.0,
        2.0 / 9.0,
        2.0 / 7.0,
        2.0 / 5.0,
        2.0 / 3.0,
        2.0,
    ] {
        p = T::fma64(p, z, c);
    }
    let log2 = T::fma64(p * s, std::f64::consts::LOG2_E, k);
    let a = x.abs();
    let log2 = super::edges(
        a == 0.0,
        a.is_nan() | (a == f32::INFINITY),
        f64::from(a),
        log2,
    );
    // 2^(y·log2|x|); beyond ±160 the f32 result is 0 or infinite.
    let e = f64::from(y) * log2;
    let e = if e > 160.0 { 160.0 } else { e };
    let e = if e < -160.0 { -160.0 } else { e };
    let shifted = e + SHIFT;
    let n = shifted - SHIFT;
    let r = (e - n) * std::f64::consts::LN_2;
    let mut q = 1.0 / 362_880.0;
    for c in [
        1.0 / 40_320.0,
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        q = T::fma64(q, r, c);
    }
    let scale = f64::from_bits((shifted.to_bits() << 52).wrapping_add(0x3ff0_0000_0000_0000));
    let value = (q * scale) as f32;
    super::sign_of_power(x, y, if a == 1.0 && !y.is_nan() { 1.0 } else { value })
}
