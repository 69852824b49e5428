//! Inverse circular and hyperbolic functions of `f64`.
//!
//! In: one or two `f64`. Out: the value within 2 ulp, with C's special values. Promise: branch-free.

use super::double::{LN2_HI, LN2_LO, horner, log, log1p_sum};
use crate::elementwise::Tier;

const PI_2_HI: f64 = std::f64::consts::FRAC_PI_2;
const PI_2_LO: f64 = 6.123_233_995_736_766e-17;
const PI_4_HI: f64 = std::f64::consts::FRAC_PI_4;
const PI_4_LO: f64 = 3.061_616_997_868_383e-17;
const TAN_PI_8: f64 = 0.414_213_562_373_095_03;

/// `atan(num / den)` for 0 <= num <= den, den > 0.
#[inline(always)]
fn atan_quotient<T: Tier>(num: f64, den: f64) -> f64 {
    // Above tan(π/8): atan(q) = π/4 + atan((q-1)/(q+1)).
    let upper = num > TAN_PI_8 * den;
    let t = (if upper { num - den } else { num }) / (if upper { num + den } else { den });
    let z = t * t;
    let p = z * horner!(T, z;
        1.628_582_011_536_578_2e-2, -3.653_157_274_421_691_6e-2, 4.976_877_994_615_932e-2,
        -5.833_570_133_790_573_5e-2, 6.661_073_137_387_531e-2, -7.691_876_205_044_83e-2,
        9.090_887_133_436_507e-2, -1.111_111_040_546_235_6e-1, 1.428_571_427_250_346_6e-1,
        -1.999_999_999_987_648_3e-1, 3.333_333_333_333_293e-1);
    if upper {
        PI_4_HI - ((t * p - PI_4_LO) - t)
    } else {
        t - t * p
    }
}

/// Arc tangent.
#[inline(always)]
pub fn atan<T: Tier>(x: f64) -> f64 {
    let a = x.abs();
    let big = a > 1.0;
    let y = atan_quotient::<T>(if big { 1.0 } else { a }, if big { a } else { 1.0 });
    let y = if big { PI_2_HI - (y - PI_2_LO) } else { y };
    (if x.is_nan() { x } else { y }).copysign(x)
}

/// Angle of the point (x, y).
#[inline(always)]
pub fn atan2<T: Tier>(y: f64, x: f64) -> f64 {
    let (ax, ay) = (x.abs(), y.abs());
    let steep = ay > ax;
    let num = if steep { ax } else { ay };
    let den = if steep { ay } else { ax };
    // Powers of two keep quotients exact and sums finite.
    let scale = if den > 1e300 { 2f64.powi(-60) } else { 1.0 };
    let scale = if den < 1e-290 { 2f64.powi(60) } else { scale };
    let (n, d) = (num * scale, den * scale);
    let both_infinite = num == f64::INFINITY;
    let n = if both_infinite { 1.0 } else { n };
    let d = if both_infinite || d == 0.0 { 1.0 } else { d };
    let t = atan_quotient::<T>(n, d);
    let t = if steep { PI_2_HI - (t - PI_2_LO) } else { t };
    let t = if x.is_sign_negative() {
        2.0 * PI_2_HI - (t - 2.0 * PI_2_LO)
    } else {
        t
    };
    let t = t.copysign(y);
    if x.is_nan() || y.is_nan() {
        f64::NAN
    } else {
        t
    }
}

/// `(asin(√z)/√z - 1)` for z <= 1/4, as a quotient of polynomials.
#[inline(always)]
fn asin_tail<T: Tier>(z: f64) -> f64 {
    let p = z * horner!(T, z;
        3.479_331_075_960_212e-5, 7.915_349_942_898_145e-4, -4.005_553_450_067_941e-2,
        2.012_125_321_348_629_3e-1, -3.255_658_186_224_009_2e-1, 1.666_666_666_666_666_6e-1);
    let q = horner!(T, z;
        7.703_815_055_590_194e-2, -6.882_839_716_054_533e-1, 2.020_945_760_233_505_7, -2.403_394_911_734_414,
        1.0);
    p / q
}

/// The tail at z, √z, and √z as a sum of two, of which the first part's square is exact; z is a², or (1 - a) / 2 of an
/// `outer` a.
#[inline(always)]
fn asin_parts<T: Tier>(a: f64, outer: bool) -> (f64, f64, f64, f64) {
    let z = if outer { (1.0 - a) * 0.5 } else { a * a };
    let s = z.sqrt();
    let head = f64::from_bits(s.to_bits() & 0xffff_ffff_0000_0000);
    let c = (z - head * head) / (s + head);
    let c = if s + head == 0.0 { 0.0 } else { c };
    (asin_tail::<T>(z), s, head, c)
}

/// Arc sine.
#[inline(always)]
pub fn asin<T: Tier>(x: f64) -> f64 {
    let a = x.abs();
    let outer = a >= 0.5;
    let (r, s, head, c) = asin_parts::<T>(a, outer);
    let far = PI_4_HI - ((2.0 * s * r - (PI_2_LO - 2.0 * c)) - (PI_4_HI - 2.0 * head));
    let near = a + a * r;
    (if outer { far } else { near }).copysign(x)
}

/// Arc cosine.
#[inline(always)]
pub fn acos<T: Tier>(x: f64) -> f64 {
    let a = x.abs();
    let outer = a >= 0.5;
    let (r, s, head, c) = asin_parts::<T>(a, outer);
    let near = PI_2_HI - (x - (PI_2_LO - x * r));
    let below = 2.0 * (PI_2_HI - (s + (r * s - PI_2_LO)));
    let above = 2.0 * (head + (r * s + c));
    let far = if x < 0.0 { below } else { above };
    if outer { far } else { near }
}

/// `log(1 + large + small)` for large >= small >= 0, without what rounding takes from their sum.
#[inline(always)]
fn log1p_of_two<T: Tier>(large: f64, small: f64) -> f64 {
    let sum = large + small;
    log1p_sum::<T>(sum, small - (sum - large))
}

/// Inverse hyperbolic sine.
#[inline(always)]
pub fn asinh<T: Tier>(x: f64) -> f64 {
    let a = x.abs();
    let huge = a > 1e9;
    let b = if huge { 1.0 } else { a };
    let near = log1p_of_two::<T>(b, b * b / (1.0 + (b * b + 1.0).sqrt()));
    let far = log::<T>(a) + (LN2_HI + LN2_LO);
    (if huge { far } else { near }).copysign(x)
}

/// Inverse hyperbolic cosine.
#[inline(always)]
pub fn acosh<T: Tier>(x: f64) -> f64 {
    let huge = x > 1e9;
    let t = if huge { 1.0 } else { x - 1.0 };
    let near = log1p_of_two::<T>((2.0 * t + t * t).sqrt(), t);
    let far = log::<T>(x) + (LN2_HI + LN2_LO);
    let y = if huge { far } else { near };
    if x >= 1.0 { y } else { f64::NAN }
}

/// Inverse hyperbolic tangent.
#[inline(always)]
pub fn atanh<T: Tier>(x: f64) -> f64 {
    let a = x.abs();
    let twice = a + a;
    let near = a < 0.5;
    let large = if near { twice } else { twice / (1.0 - a) };
    let small = if near { twice * a / (1.0 - a) } else { 0.0 };
    let y = 0.5 * log1p_of_two::<T>(large, small);
    let y = if a > 1.0 { f64::NAN } else { y };
    y.copysign(x)
}
