//! Operations on `c64` and `c128`.
//!
//! In: storage complex numbers. Out: the same type, or its real type for abs, real and imag. Promise: sums,
//! differences and products are computed in the storage precision; everything else in `f64`.

use super::{Active, Bin, Binary, Ternary, Tier, Un, Unary};
use crate::element::{Cx, Elem};
use crate::math::Float;
use crate::math::complex as m;
use crate::math::complex_single as single;
use crate::ops::{BinaryOp, CompareDirection, CompareOrder, UnaryOp};

#[inline(always)]
fn wide<F: Float>(z: Cx<F>) -> Cx<f64> {
    Cx {
        re: z.re.to_f64(),
        im: z.im.to_f64(),
    }
}

#[inline(always)]
fn narrow<F: Float>(z: Cx<f64>) -> Cx<F> {
    Cx {
        re: F::from_f64(z.re),
        im: F::from_f64(z.im),
    }
}

#[inline(always)]
fn abs<F: Float>(z: Cx<F>) -> f64 {
    let z = wide(z);
    if size_of::<F>() == 8 {
        return m::abs(z);
    }
    // Squares of single precision are exact, and far from the ends of double precision.
    let length = (z.re * z.re + z.im * z.im).sqrt();
    let is_infinite = (z.re.abs() == f64::INFINITY) | (z.im.abs() == f64::INFINITY);
    if is_infinite { f64::INFINITY } else { length }
}

/// Whether the parts are `f32`, so that the bodies of [`single`] serve.
const fn is_single<F>() -> bool {
    size_of::<F>() == 4
}

macro_rules! complex_ops {
    (function { $($fun:ident $path:path;)* }
     vector { $($vector:ident $body:ident $rare:ident $slow:path;)* } same { $($same:ident($z:ident) $unary:expr;)* } real { $($real:ident($r:ident) $re:expr;)* }
     binary { $($bin:ident($x:ident, $y:ident) $binary:expr;)* } wide { $($two:ident $path2:path;)* }) => {
        $(
            /// The function of the same name.
            pub struct $fun;
            impl<F: Float> Un<Cx<F>> for $fun {
                type Out = Cx<F>;
                const HEAVY: bool = true;
                #[inline(always)]
                fn f<T: Tier>(z: Cx<F>) -> Cx<F> { narrow($path(wide(z))) }
            }
        )*
        $(
            /// The function of the same name.
            pub struct $vector;
            impl<F: Float> Un<Cx<F>> for $vector {
                type Out = Cx<F>;
                const HEAVY: bool = true;
                const FIX: bool = is_single::<F>();
                #[inline(always)]
                fn f<T: Tier>(z: Cx<F>) -> Cx<F> {
                    let z = wide(z);
                    narrow(if is_single::<F>() { single::$body::<T>(z) } else { $slow(z) })
                }
                #[inline(always)]
                fn rare(z: Cx<F>) -> bool { single::$rare(wide(z)) }
                fn fix(z: Cx<F>) -> Cx<F> { narrow($slow(wide(z))) }
            }
        )*
        $(
            /// The operation of the same name.
            pub struct $same;
            impl<F: Float> Un<Cx<F>> for $same {
                type Out = Cx<F>;
                #[inline(always)]
                fn f<T: Tier>($z: Cx<F>) -> Cx<F> { $unary }
            }
        )*
        $(
            /// The operation of the same name.
            pub struct $real;
            impl<F: Float> Un<Cx<F>> for $real {
                type Out = F;
                const HEAVY: bool = true;
                #[inline(always)]
                fn f<T: Tier>($r: Cx<F>) -> F { $re }
            }
        )*
        $(
            /// The operation of the same name.
            pub struct $bin;
            impl<F: Float> Bin<Cx<F>> for $bin {
                type Out = Cx<F>;
                #[inline(always)]
                fn f<T: Tier>($x: Cx<F>, $y: Cx<F>) -> Cx<F> { $binary }
            }
        )*
        $(
            /// The function of the same name.
            pub struct $two;
            impl<F: Float> Bin<Cx<F>> for $two {
                type Out = Cx<F>;
                const HEAVY: bool = true;
                #[inline(always)]
                fn f<T: Tier>(a: Cx<F>, b: Cx<F>) -> Cx<F> { narrow($path2(wide(a), wide(b))) }
            }
        )*
    };
}
complex_ops! {    function {
    Sign m::sign; Exp m::exp; Expm1 m::expm1; Log m::log; Log1p m::log1p; Logistic m::logistic;
    Rsqrt m::rsqrt; Cbrt m::cbrt; Sin m::sin; Cos m::cos; Tan m::tan; Acos m::acos; Acosh m::acosh;
    Asin m::asin; Asinh m::asinh; Atan m::atan; Atanh m::atanh; Sinh m::sinh; Cosh m::cosh;
    }
    vector {
    Sqrt sqrt is_rare_for_sqrt m::sqrt;
    Tanh tanh is_rare_for_tanh m::tanh;
    }
    same {
    Negate(z) Cx { re: z.re.neg(), im: z.im.neg() };
    }
    real {
    Abs(z) F::from_f64(abs(z));
    Real(z) z.re;
    Imag(z) z.im;
    }
    binary {
    Add(a, b) Cx { re: a.re.add(b.re), im: a.im.add(b.im) };
    Subtract(a, b) Cx { re: a.re.sub(b.re), im: a.im.sub(b.im) };
    Multiply(a, b) Cx { re: a.re.mul(b.re).sub(a.im.mul(b.im)), im: a.re.mul(b.im).add(a.im.mul(b.re)) };
    }
    wide {
    Power m::pow; Atan2 m::atan2;
    }
}

/// The operation of the same name.
pub struct Divide;
impl<F: Float> Bin<Cx<F>> for Divide {
    type Out = Cx<F>;
    const HEAVY: bool = true;
    const FIX: bool = is_single::<F>();
    #[inline(always)]
    fn f<T: Tier>(a: Cx<F>, b: Cx<F>) -> Cx<F> {
        let (a, b) = (wide(a), wide(b));
        narrow(if is_single::<F>() {
            single::div::<T>(a, b)
        } else {
            m::div(a, b)
        })
    }
    #[inline(always)]
    fn rare(a: Cx<F>, b: Cx<F>) -> bool {
        single::is_rare_for_div(wide(a), wide(b))
    }
    fn fix(a: Cx<F>, b: Cx<F>) -> Cx<F> {
        narrow(m::div(wide(a), wide(b)))
    }
}

/// Both parts finite.
pub struct IsFinite;
impl<F: Float> Un<Cx<F>> for IsFinite {
    type Out = u8;
    #[inline(always)]
    fn f<T: Tier>(z: Cx<F>) -> u8 {
        u8::from(z.re.finite() & z.im.finite())
    }
}

/// Both parts equal.
pub struct Eq;
impl<F: Float> Bin<Cx<F>> for Eq {
    type Out = u8;
    #[inline(always)]
    fn f<T: Tier>(a: Cx<F>, b: Cx<F>) -> u8 {
        u8::from((a.re == b.re) & (a.im == b.im))
    }
}

/// Any part unequal.
pub struct Ne;
impl<F: Float> Bin<Cx<F>> for Ne {
    type Out = u8;
    #[inline(always)]
    fn f<T: Tier>(a: Cx<F>, b: Cx<F>) -> u8 {
        u8::from((a.re != b.re) | (a.im != b.im))
    }
}

/// Two reals to a complex number.
pub struct Join;
impl<F: Float> Bin<F> for Join {
    type Out = Cx<F>;
    #[inline(always)]
    fn f<T: Tier>(re: F, im: F) -> Cx<F> {
        Cx { re, im }
    }
}

/// The kernel of a unary operation on `Cx<F>`.
pub fn unary<T: Tier, F: Float>(op: UnaryOp) -> Option<Unary>
where
    Cx<F>: Elem,
{
    macro_rules! pick {
        ($($name:ident)*; $($vector:ident)*) => {
            match op {
                $(UnaryOp::$name => T::unary::<Cx<F>, $name>(),)*
                $(UnaryOp::$vector => Active::unary::<Cx<F>, $vector>(),)*
                _ => return None,
            }
        };
    }
    Some(
        pick!(Abs Negate Sign IsFinite Exp Expm1 Log Log1p Logistic Rsqrt Cbrt Sin Cos Tan Acos Acosh Asin Asinh Atan Atanh Sinh Cosh Real Imag; Sqrt Tanh),
    )
}

/// The kernel of a binary operation on `Cx<F>`.
pub fn binary<T: Tier, F: Float>(op: BinaryOp) -> Option<Binary> {
    Some(match op {
        // The ones that vectors have instructions for.
        BinaryOp::Add => Active::binary::<Cx<F>, Add>(),
        BinaryOp::Subtract => Active::binary::<Cx<F>, Subtract>(),
        BinaryOp::Multiply => Active::binary::<Cx<F>, Multiply>(),
        BinaryOp::Divide => Active::binary::<Cx<F>, Divide>(),
        BinaryOp::Power => T::binary::<Cx<F>, Power>(),
        BinaryOp::Atan2 => T::binary::<Cx<F>, Atan2>(),
        _ => return None,
    })
}

/// The comparison kernel of `Cx<F>`: only equality is defined.
pub fn compare<T: Tier, F: Float>(direction: CompareDirection, _: CompareOrder) -> Option<Binary> {
    match direction {
        CompareDirection::Eq => Some(T::binary::<Cx<F>, Eq>()),
        CompareDirection::Ne => Some(T::binary::<Cx<F>, Ne>()),
        _ => None,
    }
}

/// Complex numbers have no order to clamp by.
pub fn clamp<T: Tier, F: Float>() -> Option<Ternary> {
    None
}
