//! Functions of `c64` as branch-free bodies the compiler vectorizes.
//!
//! In: complex numbers whose parts are `f32`, widened to `f64`. Out: the principal value in `f64`, to be rounded to
//! `f32`. Squares and products of the parts neither overflow nor vanish in `f64`, so the plain formulae are accurate. What
//! a body gets wrong (infinities, NaN, division by zero) is named by a predicate and computed by [`super::complex`].

use super::complex::C;
use super::{Float, double};
use crate::element::Cx;
use crate::elementwise::Tier;

/// Whether a part is infinite or NaN.
#[inline(always)]
pub fn is_not_finite(z: C) -> bool {
    !(z.re.finite() & z.im.finite())
}

/// What [`sqrt`] gets wrong.
#[inline(always)]
pub fn is_rare_for_sqrt(z: C) -> bool {
    is_not_finite(z) | ((z.re == 0.0) & (z.im == 0.0))
}

/// Principal square root.
#[inline(always)]
pub fn sqrt<T: Tier>(z: C) -> C {
    let (x, y) = (z.re, z.im);
    let length = T::fma64(x, x, y * y).sqrt();
    let large = (0.5 * (x.abs() + length)).sqrt();
    let small = 0.5 * y.abs() / large;
    let is_right = x >= 0.0;
    Cx {
        re: if is_right { large } else { small },
        im: (if is_right { small } else { large }).copysign(y),
    }
}

/// What [`tanh`] gets wrong.
#[inline(always)]
pub fn is_rare_for_tanh(z: C) -> bool {
    is_not_finite(z) | z.im.trig_rare()
}

/// Real parts beyond which e^-2|x| is no `f32`.
const FAR: f64 = 60.0;

/// Hyperbolic tangent: (sinh x · cosh x + i · sin y · cos y) / (sinh² x + cos² y).
#[inline(always)]
pub fn tanh<T: Tier>(z: C) -> C {
    let x = z.re.clamp(-FAR, FAR);
    let (sinh, cosh) = (double::sinh_for_single::<T>(x), double::cosh::<T>(x));
    let (sin, cos) = (double::sin::<T>(z.im), double::cos::<T>(z.im));
    let divisor = T::fma64(sinh, sinh, cos * cos);
    Cx {
        re: sinh * cosh / divisor,
        im: sin * cos / divisor,
    }
}

/// What [`div`] gets wrong.
#[inline(always)]
pub fn is_rare_for_div(a: C, b: C) -> bool {
    is_not_finite(a) | is_not_finite(b) | ((b.re == 0.0) & (b.im == 0.0))
}

/// Quotient. The products of the parts are exact. The larger part of the divisor gives its sign to zeros, as it does where
/// the quotient is computed by Smith's scaling.
#[inline(always)]
pub fn div<T: Tier>(a: C, b: C) -> C {
    let is_real = b.re.abs() >= b.im.abs();
    let sign = 1f64.copysign(if is_real { b.re } else { b.im });
    let norm = T::fma64(b.re, b.re, b.im * b.im) * sign;
    let (re, im) = (b.re * sign, b.im * sign);
    Cx {
        re: T::fma64(a.re, re, a.im * im) / norm,
        im: T::fma64(a.im, re, -(a.re * im)) / norm,
    }
}

#[cfg(test)]
mod tests {
    use super::super::complex as exact;
    use super::*;
    use crate::elementwise::Portable;

    /// Parts from denormal to huge, of both signs.
    fn plane() -> Vec<C> {
        let parts = [
            1e-45f32, 3e-39, 1e-20, 0.3, 1.0, 1.5707964, 3.0, 25.0, 70.0, 1e5, 3e38,
        ];
        let line: Vec<f64> = parts
            .iter()
            .flat_map(|&x| [f64::from(x), -f64::from(x)])
            .chain([0.0, -0.0])
            .collect();
        line.iter()
            .flat_map(|&re| line.iter().map(move |&im| Cx { re, im }))
            .collect()
    }

    /// The same `f32` up to an ulp, signs of zeros included.
    fn near(got: f64, want: f64) -> bool {
        let (got, want) = (got as f32, want as f32);
        let distance = got.to_bits().abs_diff(want.to_bits());
        distance <= 1 || got.is_nan() && want.is_nan()
    }

    fn check(name: &str, z: C, got: C, want: C) {
        assert!(
            near(got.re, want.re) && near(got.im, want.im),
            "{name} of {z:?}: {got:?} for {want:?}"
        );
    }

    #[test]
    fn bodies_agree_with_the_exact_functions() {
        for z in plane() {
            if !is_rare_for_sqrt(z) {
                check("sqrt", z, sqrt::<Portable>(z), exact::sqrt(z));
            }
            if !is_rare_for_tanh(z) {
                check("tanh", z, tanh::<Portable>(z), exact::tanh(z));
            }
        }
    }

    #[test]
    fn quotients_times_divisors_are_the_dividends() {
        for a in plane() {
            for b in plane() {
                let size = exact::abs(a) / exact::abs(b);
                if is_rare_for_div(a, b) || !(1e-30..1e30).contains(&size) {
                    continue;
                }
                let (got, smith) = (div::<Portable>(a, b), exact::div(a, b));
                for (x, y) in [(got.re, smith.re), (got.im, smith.im)] {
                    assert!(
                        y != 0.0 || x.to_bits() == y.to_bits(),
                        "{a:?} by {b:?}: {got:?}"
                    );
                }
                let back = exact::mul(got, b);
                let error = exact::abs(Cx {
                    re: back.re - a.re,
                    im: back.im - a.im,
                });
                assert!(error <= 1e-15 * exact::abs(a), "{a:?} by {b:?}");
            }
        }
    }

    #[test]
    fn cancelling_parts_of_quotients_are_exact() {
        // (1 + e) + i over 1 + i(1 + e): the real part of the numerator is 2 + 2e, the imaginary one 1 - (1 + e)².
        let e = f64::from(f32::EPSILON);
        let q = div::<Portable>(
            Cx {
                re: 1.0 + e,
                im: 1.0,
            },
            Cx {
                re: 1.0,
                im: 1.0 + e,
            },
        );
        let want = -(2.0 * e + e * e) / (1.0 + (1.0 + e) * (1.0 + e));
        assert!((q.im / want - 1.0).abs() < 1e-8, "{} for {want}", q.im);
    }
}
