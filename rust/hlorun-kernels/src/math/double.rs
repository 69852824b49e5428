//! Elementary functions of `f64` in `f64` lanes.
//!
//! In: one `f64`. Out: the value within 2 ulp. Promise: branch-free (but for erf), so a loop over these vectorizes.

use crate::elementwise::Tier;

/// Adding this to |x| < 2^50 leaves the nearest integer in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
pub(super) const LN2_HI: f64 = 6.931_471_803_691_238e-1;
pub(super) const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
/// e^x is zero below, and a constant for the same reason as in [`super::single`].
const LEAST: f64 = -745.5;

#[inline(always)]
pub(super) fn horner<T: Tier>(x: f64, coefficients: &[f64]) -> f64 {
    let mut sum = coefficients[0];
    for &c in &coefficients[1..] {
        sum = T::fma64(sum, x, c);
    }
    sum
}

/// 2^n for -1022 <= n <= 1023.
#[inline(always)]
fn pow2(n: i64) -> f64 {
    f64::from_bits((n.wrapping_add(1023) as u64) << 52)
}

#[inline(always)]
fn reduce<T: Tier>(x: f64) -> (f64, i64) {
    let shifted = T::fma64(x, std::f64::consts::LOG2_E, ROUND);
    let n = (shifted.to_bits() as i64).wrapping_sub(ROUND.to_bits() as i64);
    let whole = shifted - ROUND;
    (T::fma64(whole, -LN2_LO, T::fma64(whole, -LN2_HI, x)), n)
}

/// `(exp(r) - 1 - r) / r²` for |r| <= ln 2 / 2: the Taylor series to r^13.
#[inline(always)]
fn exp_tail<T: Tier>(r: f64) -> f64 {
    horner!(T, r;
        1.0 / 6_227_020_800.0, 1.0 / 479_001_600.0, 1.0 / 39_916_800.0, 1.0 / 3_628_800.0, 1.0 / 362_880.0,
        1.0 / 40_320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5)
}

/// `2^shift · e^x`, where `shift` is not positive; the scaling is exact and cannot overflow before the result does.
#[inline(always)]
fn exp_scaled<T: Tier>(x: f64, shift: i64) -> f64 {
    let is_zero = x < LEAST;
    let x = if x > 711.0 { 711.0 } else { x };
    let x = if is_zero { 0.0 } else { x };
    let (r, n) = reduce::<T>(x);
    let y = T::fma64(exp_tail::<T>(r), r * r, r) + 1.0;
    let n = n.wrapping_add(shift);
    let half = ((n as i32) >> 1) as i64;
    let y = y * pow2(half) * pow2(n.wrapping_sub(half));
    if is_zero { 0.0 } else { y }
}

/// e^x.
#[inline(always)]
pub fn exp<T: Tier>(x: f64) -> f64 {
    exp_scaled::<T>(x, 0)
}

/// e^x - 1.
#[inline(always)]
pub fn expm1<T: Tier>(x: f64) -> f64 {
    let clamped = if x > 710.0 { 710.0 } else { x };
    let clamped = if clamped < -40.0 { -40.0 } else { clamped };
    let (r, n) = reduce::<T>(clamped);
    let p = T::fma64(exp_tail::<T>(r), r * r, r);
    let half = pow2(n.wrapping_sub(1));
    let y = 2.0 * T::fma64(half, p, half - 0.5);
    if x.abs() < 1e-17 { x } else { y }
}

/// e^x - 1 as a number and what its reduction, series and last sum lost, for 0 <= x <= 40.
#[inline(always)]
fn expm1_pair<T: Tier>(x: f64) -> (f64, f64) {
    let shifted = T::fma64(x, std::f64::consts::LOG2_E, ROUND);
    let n = (shifted.to_bits() as i64).wrapping_sub(ROUND.to_bits() as i64);
    let whole = shifted - ROUND;
    // The first difference is exact.
    let high = x - whole * LN2_HI;
    let low = whole * LN2_LO;
    let r = high - low;
    let r_lost = (high - r) - low;
    let rest = exp_tail::<T>(r) * (r * r);
    let p = r + rest;
    let p_lost = ((r - p) + rest) + r_lost * (1.0 + p);
    // 2^n·(1 + p) - 1; scaling is exact, and 2^n - 1 is zero or the larger part.
    let (scale, large) = (pow2(n), pow2(n) - 1.0);
    let sum = T::fma64(scale, p, large);
    (sum, T::fma64(scale, p, large - sum) + scale * p_lost)
}

/// The exponent of a positive number, and its mantissa in [√½, √2).
#[inline(always)]
fn split(x: f64) -> (f64, f64) {
    let subnormal = x < f64::MIN_POSITIVE;
    let scaled = if subnormal {
        x * 18_014_398_509_481_984.0
    } else {
        x
    };
    let bits = scaled
        .to_bits()
        .wrapping_add(0x3ff0_0000_0000_0000 - 0x3fe6_a09e_667f_3bcd);
    // The exponent as a float without an integer conversion: 2^52 + exponent, minus 2^52 and the bias.
    let bias = 4_503_599_627_370_496.0 + if subnormal { 1077.0 } else { 1023.0 };
    let exponent = f64::from_bits((bits >> 52) | 0x4330_0000_0000_0000) - bias;
    let mantissa = (bits & 0x000f_ffff_ffff_ffff).wrapping_add(0x3fe6_a09e_667f_3bcd);
    (exponent, f64::from_bits(mantissa))
}

/// Natural logarithm.
#[inline(always)]
pub fn log<T: Tier>(x: f64) -> f64 {
    let (k, m) = split(x);
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z
        * horner!(T, z;
        1.479_819_860_511_658_6e-1, 1.531_383_769_920_937_3e-1, 1.818_357_216_161_805e-1,
        2.222_219_843_214_978_4e-1, 2.857_142_874_366_239e-1, 3.999_999_999_940_942e-1, 6.666_666_666_666_735e-1);
    let half_square = 0.5 * f * f;
    let tail = T::fma64(s, half_square + r, k * LN2_LO);
    let y = T::fma64(k, LN2_HI, f - (half_square - tail));
    let y = if x == f64::INFINITY { x } else { y };
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f64::NAN }
}

/// log(1 + x).
#[inline(always)]
pub fn log1p<T: Tier>(x: f64) -> f64 {
    log1p_sum::<T>(x, 0.0)
}

/// log(1 + x + low), where low is less than an ulp of x.
#[inline(always)]
pub(super) fn log1p_sum<T: Tier>(x: f64, low: f64) -> f64 {
    let u = 1.0 + x;
    let lost = x - (u - 1.0);
    let log_u = log::<T>(u);
    let y = log_u + (lost + low) / u;
    // The logarithm of anything else is already right, and its NaN is the same on every machine.
    let inside = u > 0.0 && u < f64::INFINITY;
    let y = if inside { y } else { log_u };
    if x.abs() < 1e-17 { x } else { y }
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn logistic<T: Tier>(x: f64) -> f64 {
    let is_zero = x < LEAST;
    let a = if x > 80.0 { 80.0 } else { x };
    let a = if is_zero { 0.0 } else { a };
    let (r, n) = reduce::<T>(-a);
    let p = T::fma64(exp_tail::<T>(r), r * r, r);
    // Numerator and denominator are 2^64 smaller, because e^-x = 2^n·(1 + p) may overflow where the quotient is
    // subnormal.
    let one = 5.421_010_862_427_522e-20;
    let scale = pow2(n.wrapping_sub(64));
    // One of the two would be lost where the other is 2^53 times larger.
    let sum = one + scale;
    let lost = one - (sum - scale);
    let y = one / (T::fma64(scale, p, lost) + sum);
    if is_zero { 0.0 } else { y }
}

/// Hyperbolic tangent.
#[inline(always)]
pub fn tanh<T: Tier>(x: f64) -> f64 {
    let a = x.abs();
    let twice = 2.0 * if a > 20.0 { 20.0 } else { a };
    // Where quotients are rounded twice below, e^2a - 1 has to be better than one number.
    let (t, t_lost) = if T::FUSED {
        (expm1::<T>(twice), 0.0)
    } else {
        expm1_pair::<T>(twice)
    };
    // t / (t + 2), rounded nearly once: what is small comes second in the sum, and what the sum and the quotient lose
    // is put back.
    let (large, small) = if t > 2.0 { (t, 2.0) } else { (2.0, t) };
    let sum = large + small;
    let lost = small - (sum - large);
    let inverse = 1.0 / sum;
    let quotient = t * inverse;
    let rest = T::fma64(-quotient, sum, t);
    let rest = if T::FUSED {
        rest - quotient * lost
    } else {
        rest + (t_lost - quotient * (lost + t_lost))
    };
    let y = T::fma64(rest, inverse, quotient);
    (if a < 1e-9 { a } else { y }).copysign(x)
}

/// Hyperbolic sine of |x|, from e^|x| - 1 = `t + lost` where that is small.
#[inline(always)]
fn sinh_of<T: Tier>(x: f64, t: f64, lost: impl Fn(f64) -> f64) -> f64 {
    let a = x.abs();
    let u = 1.0 / (t + 1.0);
    let near = 0.5 * (t + (t * u + lost(u)));
    let far = exp_scaled::<T>(a, -1);
    (if a > 22.0 { far } else { near }).copysign(x)
}

/// Hyperbolic sine.
#[inline(always)]
pub fn sinh<T: Tier>(x: f64) -> f64 {
    let a = x.abs();
    let (t, lost) = expm1_pair::<T>(if a > 40.0 { 40.0 } else { a });
    sinh_of::<T>(x, t, |u| lost * (1.0 + u * u))
}

/// Hyperbolic sine within 3 ulp: for results that are rounded to `f32`.
#[inline(always)]
pub fn sinh_for_single<T: Tier>(x: f64) -> f64 {
    let a = x.abs();
    sinh_of::<T>(x, expm1::<T>(if a > 40.0 { 40.0 } else { a }), |_| 0.0)
}

/// Hyperbolic cosine.
#[inline(always)]
pub fn cosh<T: Tier>(x: f64) -> f64 {
    let half = exp_scaled::<T>(x.abs(), -1);
    half + 0.25 / half
}

/// `x - n·π/2` as a sum of two, and the low bits of `n`.
#[inline(always)]
fn quadrant<T: Tier>(x: f64) -> (f64, f64, u64) {
    let shifted = T::fma64(x, std::f64::consts::FRAC_2_PI, ROUND);
    let n = shifted.to_bits();
    let whole = shifted - ROUND;
    // π/2 in three parts of 33 bits and a rest: products with |n| < 2^20 are exact.
    let a = x - whole * 1.570_796_326_734_125_6;
    let w = whole * 6.077_100_506_303_966e-11;
    let b = a - w;
    let w_lost = (a - b) - w;
    let v = whole * 2.022_266_248_711_166_5e-21;
    let c = b - v;
    let v_lost = (b - c) - v;
    let rest = T::fma64(whole, -8.478_427_660_368_899_6e-32, w_lost + v_lost);
    let hi = c + rest;
    (hi, (c - hi) + rest, n)
}

/// The sine of `x + lo`, and what rounding took from it.
#[inline(always)]
fn sin_poly<T: Tier>(x: f64, lo: f64) -> (f64, f64) {
    let z = x * x;
    let v = z * x;
    let r = horner!(T, z;
        1.589_690_995_211_55e-10, -2.505_076_025_340_686_3e-8, 2.755_731_370_707_006_8e-6,
        -1.984_126_982_985_795e-4, 8.333_333_333_322_49e-3);
    let rest = (z * (0.5 * lo - v * r) - lo) - v * -1.666_666_666_666_663_2e-1;
    let y = x - rest;
    (y, (x - y) - rest)
}

/// The cosine of `x + lo`, and what rounding took from it.
#[inline(always)]
fn cos_poly<T: Tier>(x: f64, lo: f64) -> (f64, f64) {
    let z = x * x;
    let r = z * horner!(T, z;
        -1.135_964_755_778_819_5e-11, 2.087_572_321_298_175e-9, -2.755_731_435_139_066_3e-7,
        2.480_158_728_947_673e-5, -1.388_888_888_887_411e-3, 4.166_666_666_666_66e-2);
    let half = 0.5 * z;
    let w = 1.0 - half;
    let rest = ((1.0 - w) - half) + (z * r - x * lo);
    let y = w + rest;
    (y, (w - y) + rest)
}

#[inline(always)]
fn sine<T: Tier>(hi: f64, lo: f64, n: u64) -> f64 {
    let y = if n & 1 == 0 {
        sin_poly::<T>(hi, lo).0
    } else {
        cos_poly::<T>(hi, lo).0
    };
    f64::from_bits(y.to_bits() ^ ((n & 2) << 62))
}

/// Sine of |x| < 10^6.
#[inline(always)]
pub fn sin<T: Tier>(x: f64) -> f64 {
    let (hi, lo, n) = quadrant::<T>(x);
    let y = sine::<T>(hi, lo, n);
    if x.abs() < 1e-9 { x } else { y }
}

/// Cosine of |x| < 10^6.
#[inline(always)]
pub fn cos<T: Tier>(x: f64) -> f64 {
    let (hi, lo, n) = quadrant::<T>(x);
    sine::<T>(hi, lo, n.wrapping_add(1))
}

/// Tangent of |x| < 10^6.
#[inline(always)]
pub fn tan<T: Tier>(x: f64) -> f64 {
    let (hi, lo, n) = quadrant::<T>(x);
    let (s, c) = (sin_poly::<T>(hi, lo), cos_poly::<T>(hi, lo));
    let even = n & 1 == 0;
    let num = if even { s } else { (-c.0, -c.1) };
    let den = if even { c } else { s };
    // The quotient of the sums of two: what the first quotient leaves is divided once more.
    let inverse = 1.0 / den.0;
    let q = num.0 * inverse;
    let rest = T::fma64(-q, den.0, num.0) + (num.1 - q * den.1);
    let y = T::fma64(rest, inverse, q);
    if x.abs() < 1e-9 { x } else { y }
}

/// Tangent of |x| < 10^6 within 3 ulp: for results that are rounded to `f32`.
#[inline(always)]
pub fn tan_for_single<T: Tier>(x: f64) -> f64 {
    let (hi, lo, n) = quadrant::<T>(x);
    let (s, c) = (sin_poly::<T>(hi, lo).0, cos_poly::<T>(hi, lo).0);
    let y = if n & 1 == 0 { s / c } else { -c / s };
    if x.abs() < 1e-9 { x } else { y }
}

/// Cube root.
#[inline(always)]
pub fn cbrt<T: Tier>(x: f64) -> f64 {
    let a = x.abs();
    let subnormal = a < f64::MIN_POSITIVE;
    let scaled = if subnormal {
        a * 18_014_398_509_481_984.0
    } else {
        a
    };
    // Cubes of more would overflow.
    let huge = a > 1e300;
    let scaled = if huge { a * 0.125 } else { scaled };
    // A third of the exponent and mantissa bits is a guess within 5 %.
    let high = ((scaled.to_bits() >> 32) as u32) / 3 + 715_094_163;
    let guess = f64::from_bits(u64::from(high) << 32);
    // Two Halley steps; the second starts from 25 bits, so that its square is exact.
    let cube = guess * guess * guess;
    let t = guess * ((cube + 2.0 * scaled) / (2.0 * cube + scaled));
    let cube = t * t * t;
    let t = t * ((cube + 2.0 * scaled) / (2.0 * cube + scaled));
    let t = f64::from_bits(t.to_bits().wrapping_add(0x1000_0000) & 0xffff_ffff_e000_0000);
    let r = scaled / (t * t);
    let t = t + t * ((r - t) / (t + t + r));
    let y = if subnormal {
        t * 3.814_697_265_625e-6
    } else {
        t
    };
    let y = if huge { t * 2.0 } else { y };
    let y = if a < f64::INFINITY { y } else { a };
    (if a == 0.0 { 0.0 } else { y }).copysign(x)
}

/// `log x` as a sum of two, for x >= 0, to about 2^-65 of its value.
#[inline(always)]
fn log_pair(x: f64) -> (f64, f64) {
    let (k, m) = split(x);
    // s = (m-1)/(m+1) as a pair; the products below need an exact fused multiply-add on every tier.
    let f = m - 1.0;
    let t = m + 1.0;
    let t_lost = m - (t - 1.0);
    let s = f / t;
    let s_lost = ((-s).mul_add(t, f) - s * t_lost) / t;
    // log m = 2s + s·z·(2/3 + z·(2/5 + …)), z = s²; all but the first of these coefficients may be rounded.
    let z = s * s;
    let z_lost = s.mul_add(s, -z) + 2.0 * s * s_lost;
    let tail = horner!(crate::elementwise::Portable, z;
        2.0 / 23.0, 2.0 / 21.0, 2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0, 2.0 /
        7.0, 2.0 / 5.0);
    // c = 2/3 + z·tail, then c·z, then (2 + c·z)·s, each as a pair.
    let third = 2.0 / 3.0;
    let rest = z * tail;
    let c = third + rest;
    let c_lost = ((third - c) + rest) + 3.700_743_415_417_188e-17;
    let d = c * z;
    let d_lost = c.mul_add(z, -d) + (c * z_lost + c_lost * z);
    let e = 2.0 + d;
    let e_lost = ((2.0 - e) + d) + d_lost;
    let g = e * s;
    let g_lost = e.mul_add(s, -g) + (e * s_lost + e_lost * s);
    // Plus k·ln 2; its first part is exact.
    let big = k * LN2_HI;
    let sum = big + g;
    let back = sum - big;
    let lost = (big - (sum - back)) + (g - back) + (g_lost + k * LN2_LO);
    let hi = sum + lost;
    (hi, (sum - hi) + lost)
}

/// x^y.
#[inline(always)]
pub fn pow<T: Tier>(x: f64, y: f64) -> f64 {
    let a = x.abs();
    let (log, log_lost) = log_pair(a);
    let log = super::edges(a == 0.0, a.is_nan() | (a == f64::INFINITY), a, log);
    let p = y * log;
    let p_lost = y.mul_add(log, -p) + y * log_lost;
    let p_lost = if p.abs() < 800.0 { p_lost } else { 0.0 };
    let p = if p > 711.0 { 711.0 } else { p };
    let p = if p < -746.0 { -746.0 } else { p };
    let (r, n) = reduce::<T>(p);
    let q = T::fma64(exp_tail::<T>(r), r * r, r);
    let q = 1.0 + (q + p_lost * (1.0 + q));
    let half = ((n as i32) >> 1) as i64;
    let value = q * pow2(half) * pow2(n.wrapping_sub(half));
    super::sign_of_power(x, y, if a == 1.0 && !y.is_nan() { 1.0 } else { value })
}

/// Error function.
#[inline(always)]
pub fn erf<T: Tier>(x: f64) -> f64 {
    libm::erf(x)
}
