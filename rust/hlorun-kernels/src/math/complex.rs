//! Elementary functions of complex numbers, in `f64`.
//!
//! In: one or two complex numbers (`c64` widened, so no intermediate overflows). Out: the principal value, with the
//! branch cuts of C. Promise: scalar code, a few ulp per component away from cancellation.

use crate::element::Cx;

/// A double-precision complex number.
pub type C = Cx<f64>;

const fn c(re: f64, im: f64) -> C {
    Cx { re, im }
}

/// i·z.
fn times_i(z: C) -> C {
    c(-z.im, z.re)
}

/// -i·z.
fn over_i(z: C) -> C {
    c(z.im, -z.re)
}

/// Product by the textbook formula.
pub fn mul(a: C, b: C) -> C {
    c(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
}

/// Quotient by Smith's scaling, with C's rules for zeros and infinities.
pub fn div(a: C, b: C) -> C {
    let q = if b.re.abs() >= b.im.abs() {
        let r = b.im / b.re;
        let d = b.re + b.im * r;
        c((a.re + a.im * r) / d, (a.im - a.re * r) / d)
    } else {
        let r = b.re / b.im;
        let d = b.re * r + b.im;
        c((a.re * r + a.im) / d, (a.im * r - a.re) / d)
    };
    if !(q.re.is_nan() && q.im.is_nan()) {
        return q;
    }
    let box_ = |x: f64| (if x.is_infinite() { 1.0f64 } else { 0.0 }).copysign(x);
    if b.re == 0.0 && b.im == 0.0 && !(a.re.is_nan() && a.im.is_nan()) {
        let infinity = f64::INFINITY.copysign(b.re);
        return c(infinity * a.re, infinity * a.im);
    }
    if (a.re.is_infinite() || a.im.is_infinite()) && b.re.is_finite() && b.im.is_finite() {
        let (x, y) = (box_(a.re), box_(a.im));
        return c(
            f64::INFINITY * (x * b.re + y * b.im),
            f64::INFINITY * (y * b.re - x * b.im),
        );
    }
    if (b.re.is_infinite() || b.im.is_infinite()) && a.re.is_finite() && a.im.is_finite() {
        let (x, y) = (box_(b.re), box_(b.im));
        return c(0.0 * (a.re * x + a.im * y), 0.0 * (a.im * x - a.re * y));
    }
    q
}

/// Modulus.
pub fn abs(z: C) -> f64 {
    libm::hypot(z.re, z.im)
}

/// z / |z|, zero for zero.
pub fn sign(z: C) -> C {
    let r = abs(z);
    if r == 0.0 {
        c(0.0, 0.0)
    } else {
        c(z.re / r, z.im / r)
    }
}

/// e^z.
pub fn exp(z: C) -> C {
    if z.im == 0.0 {
        return c(z.re.exp(), z.im);
    }
    if z.re == f64::NEG_INFINITY && !z.im.is_finite() {
        return c(0.0, 0.0);
    }
    if z.re == f64::INFINITY && !z.im.is_finite() {
        return c(f64::INFINITY, f64::NAN);
    }
    let (s, k) = libm::sincos(z.im);
    if z.re > 709.0 {
        // e^re may overflow where e^re·cos does not.
        let half = (0.5 * z.re).exp();
        return c(half * k * half, half * s * half);
    }
    let r = z.re.exp();
    c(r * k, r * s)
}

/// e^z - 1.
pub fn expm1(z: C) -> C {
    if z.im == 0.0 {
        return c(libm::expm1(z.re), z.im);
    }
    let (s, k) = libm::sincos(z.im);
    let half = libm::sin(0.5 * z.im);
    let e = exp(z);
    if e.re.is_finite() && z.re < 700.0 {
        c(libm::expm1(z.re) * k - 2.0 * half * half, z.re.exp() * s)
    } else {
        e
    }
}

/// ln |z|, accurate near the unit circle.
fn log_abs(z: C) -> f64 {
    let (a, b) = (z.re.abs().max(z.im.abs()), z.re.abs().min(z.im.abs()));
    if a.is_finite() && (0.5..=2.0).contains(&a) {
        return 0.5 * libm::log1p((a - 1.0) * (a + 1.0) + b * b);
    }
    if a.is_finite() && (a > 1e300 || (a < 1e-300 && a > 0.0)) {
        let scale = if a > 1.0 {
            2f64.powi(-100)
        } else {
            2f64.powi(200)
        };
        let shift = if a > 1.0 { 100.0 } else { -200.0 };
        return libm::hypot(a * scale, b * scale).ln() + shift * std::f64::consts::LN_2;
    }
    abs(z).ln()
}

/// Principal logarithm.
pub fn log(z: C) -> C {
    c(log_abs(z), libm::atan2(z.im, z.re))
}

/// log(1 + z).
pub fn log1p(z: C) -> C {
    let small = z.re.abs() < 0.5 && z.im.abs() < 0.5;
    let re = if small {
        0.5 * libm::log1p(z.re * (2.0 + z.re) + z.im * z.im)
    } else {
        log_abs(c(1.0 + z.re, z.im))
    };
    c(re, libm::atan2(z.im, 1.0 + z.re))
}

/// Principal square root.
pub fn sqrt(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if x == 0.0 && y == 0.0 {
        return c(0.0, y);
    }
    if y.is_infinite() {
        return c(f64::INFINITY, y);
    }
    if x.is_nan() {
        return c(f64::NAN, f64::NAN);
    }
    if x.is_infinite() {
        let rest = if y.is_nan() { y } else { 0.0f64.copysign(y) };
        return if x > 0.0 {
            c(x, rest)
        } else {
            c(if y.is_nan() { y } else { 0.0 }, f64::INFINITY.copysign(y))
        };
    }
    let big = x.abs() > 1e300 || y.abs() > 1e300;
    let tiny = x.abs() < 1e-300 && y.abs() < 1e-300;
    let (scale, back) = if big {
        (0.0625, 4.0)
    } else if tiny {
        (2f64.powi(200), 2f64.powi(-100))
    } else {
        (1.0, 1.0)
    };
    let (x, y) = (x * scale, y * scale);
    let t = (0.5 * (x.abs() + libm::hypot(x, y))).sqrt();
    let other = y.abs() / (2.0 * t);
    if x >= 0.0 {
        c(t * back, (other * back).copysign(y))
    } else {
        c(other * back, (t * back).copysign(y))
    }
}

/// 1 / √z.
pub fn rsqrt(z: C) -> C {
    if z.re == 0.0 && z.im == 0.0 {
        return c(f64::INFINITY, f64::NAN);
    }
    if (z.re.is_infinite() || z.im.is_infinite()) && !z.re.is_nan() && !z.im.is_nan() {
        return c(0.0, 0.0);
    }
    div(c(1.0, 0.0), sqrt(z))
}

/// Hyperbolic sine.
pub fn sinh(z: C) -> C {
    if z.im == 0.0 {
        return c(libm::sinh(z.re), z.im);
    }
    let (s, k) = libm::sincos(z.im);
    c(libm::sinh(z.re) * k, libm::cosh(z.re) * s)
}

/// Hyperbolic cosine.
pub fn cosh(z: C) -> C {
    if z.im == 0.0 {
        return c(libm::cosh(z.re), z.re * z.im);
    }
    let (s, k) = libm::sincos(z.im);
    c(libm::cosh(z.re) * k, libm::sinh(z.re) * s)
}

/// Hyperbolic tangent (Kahan's formula).
pub fn tanh(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if x.abs() > 22.0 {
        let decay = if y.is_finite() {
            4.0 * libm::sin(y) * libm::cos(y) * (-2.0 * x.abs()).exp()
        } else {
            0.0
        };
        return c(
            1.0f64.copysign(x),
            if y.is_finite() {
                decay
            } else {
                0.0f64.copysign(y)
            },
        );
    }
    let t = libm::tan(y);
    let beta = 1.0 + t * t;
    let s = libm::sinh(x);
    let rho = (1.0 + s * s).sqrt();
    if t.is_infinite() {
        return c(rho / s, 1.0 / t);
    }
    let d = 1.0 + beta * s * s;
    c(beta * rho * s / d, t / d)
}

/// Sine.
pub fn sin(z: C) -> C {
    over_i(sinh(times_i(z)))
}

/// Cosine.
pub fn cos(z: C) -> C {
    cosh(times_i(z))
}

/// Tangent.
pub fn tan(z: C) -> C {
    over_i(tanh(times_i(z)))
}

/// 1 / (1 + e^-z).
pub fn logistic(z: C) -> C {
    let e = exp(c(-z.re, -z.im));
    let mut sum = 1.0 + e.re;
    if sum.abs() < 0.5 {
        // Near a pole: 1 + r·cos y = (1 - r) + r·2cos²(y/2), which cancels nothing that matters.
        let half = libm::cos(0.5 * z.im);
        sum = 2.0 * half * half * (-z.re).exp() - libm::expm1(-z.re);
    }
    div(c(1.0, 0.0), c(sum, e.im))
}

/// Cube root, principal.
pub fn cbrt(z: C) -> C {
    if z.re == 0.0 && z.im == 0.0 {
        return z;
    }
    let (s, k) = libm::sincos(libm::atan2(z.im, z.re) / 3.0);
    let r = libm::cbrt(abs(z));
    c(r * k, r * s)
}

/// a^b, 0^0 being 1.
pub fn pow(a: C, b: C) -> C {
    if b.re == 0.0 && b.im == 0.0 {
        return c(1.0, 0.0);
    }
    if a.re == 0.0 && a.im == 0.0 {
        return if b.im == 0.0 && b.re > 0.0 {
            c(0.0, 0.0)
        } else {
            c(f64::NAN, f64::NAN)
        };
    }
    if b.im == 0.0 && b.re == 1.0 {
        return a;
    }
    if a.re == 1.0 && a.im == 0.0 {
        return a;
    }
    // |a|^b computed as a power, not through the logarithm, to keep large results accurate.
    let angle = libm::atan2(a.im, a.re);
    let modulus = libm::pow(abs(a), b.re) * (-b.im * angle).exp();
    let phase = if b.im == 0.0 {
        b.re * angle
    } else {
        b.im * log_abs(a) + b.re * angle
    };
    if phase == 0.0 {
        return c(modulus, phase);
    }
    let (s, k) = libm::sincos(phase);
    c(modulus * k, modulus * s)
}

/// -i·log((x + i·y) / √(x² + y²)).
pub fn atan2(y: C, x: C) -> C {
    let (xx, yy) = (mul(x, x), mul(y, y));
    let norm = sqrt(c(xx.re + yy.re, xx.im + yy.im));
    let iy = times_i(y);
    over_i(log(div(c(x.re + iy.re, x.im + iy.im), norm)))
}

/// Arc cosine (Kahan).
pub fn acos(z: C) -> C {
    let (s1, s2) = (sqrt(c(1.0 - z.re, -z.im)), sqrt(c(1.0 + z.re, z.im)));
    c(
        2.0 * libm::atan2(s1.re, s2.re),
        libm::asinh(s2.re * s1.im - s2.im * s1.re),
    )
}

/// Arc sine (Kahan).
pub fn asin(z: C) -> C {
    let (s1, s2) = (sqrt(c(1.0 - z.re, -z.im)), sqrt(c(1.0 + z.re, z.im)));
    c(
        libm::atan2(z.re, s1.re * s2.re - s1.im * s2.im),
        libm::asinh(s1.re * s2.im - s1.im * s2.re),
    )
}

/// Inverse hyperbolic cosine (Kahan).
pub fn acosh(z: C) -> C {
    let (s1, s2) = (sqrt(c(z.re - 1.0, z.im)), sqrt(c(z.re + 1.0, z.im)));
    c(
        libm::asinh(s1.re * s2.re + s1.im * s2.im),
        2.0 * libm::atan2(s1.im, s2.re),
    )
}

/// Inverse hyperbolic sine.
pub fn asinh(z: C) -> C {
    over_i(asin(times_i(z)))
}

/// Inverse hyperbolic tangent.
pub fn atanh(z: C) -> C {
    let (x, y) = (z.re, z.im);
    let gap = 1.0 - x.abs();
    let re = 0.25 * libm::log1p(4.0 * x.abs() / (gap * gap + y * y));
    let im = 0.5 * libm::atan2(2.0 * y, (1.0 - x) * (1.0 + x) - y * y);
    if x.is_infinite() || y.is_infinite() {
        return c(0.0f64.copysign(x), std::f64::consts::FRAC_PI_2.copysign(y));
    }
    c(re.copysign(x), im)
}

/// Arc tangent.
pub fn atan(z: C) -> C {
    over_i(atanh(times_i(z)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: C, b: C) -> bool {
        let scale = abs(b).max(1e-300);
        (a.re - b.re).abs() <= 1e-14 * scale && (a.im - b.im).abs() <= 1e-14 * scale
    }

    fn plane() -> Vec<C> {
        let line = [-3.7, -1.2, -0.9, -0.3, 0.25, 0.8, 1.1, 2.9];
        line.iter()
            .flat_map(|&x| line.iter().map(move |&y| c(x, y)))
            .collect()
    }

    #[test]
    fn inverses_undo_their_functions() {
        type Pair = (&'static str, fn(C) -> C, fn(C) -> C);
        let pairs: [Pair; 9] = [
            ("exp log", exp, log),
            ("sin asin", sin, asin),
            ("cos acos", cos, acos),
            ("tan atan", tan, atan),
            ("sinh asinh", sinh, asinh),
            ("cosh acosh", cosh, acosh),
            ("tanh atanh", tanh, atanh),
            ("expm1 log1p", expm1, log1p),
            ("square sqrt", |z| mul(z, z), sqrt),
        ];
        for z in plane() {
            let e = exp(c(-z.re, -z.im));
            let one = mul(logistic(z), c(1.0 + e.re, e.im));
            assert!(near(one, c(1.0, 0.0)), "logistic of {z:?}: {one:?}");
            for (name, forward, back) in pairs {
                let got = forward(back(z));
                assert!(near(got, z), "{name} of {z:?}: {got:?}");
            }
            assert!(
                near(mul(div(c(1.5, -2.0), z), z), c(1.5, -2.0)),
                "division by {z:?}"
            );
            assert!(
                near(pow(z, c(3.0, 0.0)), mul(z, mul(z, z))),
                "cube of {z:?}"
            );
            assert!(near(mul(rsqrt(z), sqrt(z)), c(1.0, 0.0)), "rsqrt of {z:?}");
            let cube = cbrt(z);
            assert!(near(mul(cube, mul(cube, cube)), z), "cbrt of {z:?}");
        }
    }

    #[test]
    fn special_values_follow_xla() {
        let inf = f64::INFINITY;
        let same = |a: C, b: C| {
            let part = |x: f64, y: f64| x == y || (x.is_nan() && y.is_nan());
            assert!(part(a.re, b.re) && part(a.im, b.im), "{a:?} {b:?}");
        };
        same(exp(c(inf, 1.0)), c(inf, inf));
        same(exp(c(f64::NEG_INFINITY, 0.0)), c(0.0, 0.0));
        same(sqrt(c(1.0, inf)), c(inf, inf));
        same(sqrt(c(f64::NEG_INFINITY, 0.0)), c(0.0, inf));
        same(sqrt(c(-1.0, 0.0)), c(0.0, 1.0));
        same(rsqrt(c(0.0, 0.0)), c(inf, f64::NAN));
        same(log(c(0.0, 0.0)), c(f64::NEG_INFINITY, 0.0));
        same(sign(c(3.0, 4.0)), c(0.6, 0.8));
        same(pow(c(0.0, 0.0), c(0.0, 0.0)), c(1.0, 0.0));
        same(pow(c(0.0, 0.0), c(2.0, 0.0)), c(0.0, 0.0));
        same(pow(c(0.0, 0.0), c(-1.0, 0.0)), c(f64::NAN, f64::NAN));
        same(div(c(1.0, 0.0), c(0.0, 0.0)), c(inf, f64::NAN));
        same(div(c(1.0, 1.0), c(inf, 1.0)), c(0.0, 0.0));
        same(tanh(c(inf, 1.0)), c(1.0, 0.0));
        // 1 / (1 - e^-x) with x = 2^-30 and y = π rounded.
        let pole = logistic(c(2f64.powi(-30), std::f64::consts::PI));
        assert!((pole.re - 1_073_741_824.5).abs() < 1e-3, "{pole:?}");
    }
}
