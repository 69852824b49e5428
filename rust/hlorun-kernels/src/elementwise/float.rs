//! Operations on `f32` and `f64`.
//!
//! In: storage floats. Out: the same type (truth bytes for comparisons and is-finite). Promise: each operation rounds
//! once; maximum, minimum and clamp propagate NaN; sign keeps zeros and NaN.

use super::{Bin, Binary, Ternary, Tier, Un, Unary};
use crate::math::Float;
use crate::ops::{BinaryOp, CompareDirection, CompareOrder, UnaryOp};

macro_rules! float_ops {
    (unary { $($un:ident($a:ident, $T:ident) $unary:expr;)* } heavy { $($big:ident($h:ident, $H:ident) $heavy:expr;)* }
     trig { $($trig:ident($c:ident, $C:ident, $slot:expr) $circular:expr;)* }
     binary { $($bin:ident($x:ident, $y:ident) $binary:expr;)* }
     heavy binary { $($two:ident($u:ident, $v:ident, $W:ident) $long:expr;)* }) => {
        $(
            /// The operation of the same name.
            pub struct $un;
            impl<F: Float> Un<F> for $un {
                type Out = F;
                #[inline(always)]
                fn f<$T: Tier>($a: F) -> F { $unary }
            }
        )*
        $(
            /// The operation of the same name.
            pub struct $big;
            impl<F: Float> Un<F> for $big {
                type Out = F;
                const HEAVY: bool = true;
                #[inline(always)]
                fn f<$H: Tier>($h: F) -> F { $heavy }
            }
        )*
        $(
            /// The operation of the same name.
            pub struct $trig;
            impl<F: Float> Un<F> for $trig {
                type Out = F;
                const HEAVY: bool = true;
                const FIX: bool = true;
                #[inline(always)]
                fn f<$C: Tier>($c: F) -> F { $circular }
                #[inline(always)]
                fn rare(a: F) -> bool { a.trig_rare() }
                fn fix(a: F) -> F { a.trig_fix()[$slot] }
            }
        )*
        $(
            /// The operation of the same name.
            pub struct $bin;
            impl<F: Float> Bin<F> for $bin {
                type Out = F;
                #[inline(always)]
                fn f<T: Tier>($x: F, $y: F) -> F { $binary }
            }
        )*
        $(
            /// The operation of the same name.
            pub struct $two;
            impl<F: Float> Bin<F> for $two {
                type Out = F;
                const HEAVY: bool = true;
                #[inline(always)]
                fn f<$W: Tier>($u: F, $v: F) -> F { $long }
            }
        )*
    };
}
float_ops! {    unary {
    Abs(a, T) a.abs();
    Negate(a, T) a.neg();
    Sign(a, T) if a.abs() > F::ZERO { F::ONE.copysign(a) } else { a };
    Floor(a, T) a.floor();
    Ceil(a, T) a.ceil();
    RoundAfz(a, T) a.round_afz();
    RoundEven(a, T) a.round_even();
    Sqrt(a, T) a.sqrt();
    Rsqrt(a, T) a.rsqrt();
    Real(a, T) a;
    Imag(_a, T) F::ZERO;
    }
    heavy {
    Exp(a, T) a.exp::<T>();
    Expm1(a, T) a.expm1::<T>();
    Log(a, T) a.log::<T>();
    Log1p(a, T) a.log1p::<T>();
    Logistic(a, T) a.logistic::<T>();
    Cbrt(a, T) a.cbrt::<T>();
    Tanh(a, T) a.tanh::<T>();
    Erf(a, T) a.erf::<T>();
    Acos(a, T) a.acos::<T>();
    Acosh(a, T) a.acosh::<T>();
    Asin(a, T) a.asin::<T>();
    Asinh(a, T) a.asinh::<T>();
    Atan(a, T) a.atan::<T>();
    Atanh(a, T) a.atanh::<T>();
    Sinh(a, T) a.sinh::<T>();
    Cosh(a, T) a.cosh::<T>();
    }
    trig {
    Sin(a, T, 0) a.sin::<T>();
    Cos(a, T, 1) a.cos::<T>();
    Tan(a, T, 2) a.tan::<T>();
    }
    binary {
    Add(a, b) a.add(b);
    Subtract(a, b) a.sub(b);
    Multiply(a, b) a.mul(b);
    Divide(a, b) a.div(b);
    Maximum(a, b) a.maximum(b);
    Minimum(a, b) a.minimum(b);
    }
    heavy binary {
    Remainder(a, b, T) a.fmod(b);
    Atan2(a, b, T) a.atan2::<T>(b);
    Power(a, b, T) a.pow::<T>(b);
    }
}

/// Neither infinite nor NaN.
pub struct IsFinite;
impl<F: Float> Un<F> for IsFinite {
    type Out = u8;
    #[inline(always)]
    fn f<T: Tier>(a: F) -> u8 {
        u8::from(a.finite())
    }
}

macro_rules! totals {
    ($($name:ident($a:ident, $b:ident) $e:expr;)*) => {$(
        /// The total-order comparison of the same name.
        pub struct $name;
        impl<F: Float> Bin<F> for $name {
            type Out = u8;
            #[inline(always)]
            fn f<T: Tier>($a: F, $b: F) -> u8 { u8::from($e) }
        }
    )*};
}
totals! {
    TotalEq(a, b) a.total_eq(b);
    TotalNe(a, b) !a.total_eq(b);
    TotalLt(a, b) a.total_lt(b);
    TotalLe(a, b) !b.total_lt(a);
    TotalGt(a, b) b.total_lt(a);
    TotalGe(a, b) !a.total_lt(b);
}

/// Calls `$with!(Op)` for the type that implements `$op` on floats, else returns `None`.
macro_rules! float_unary_type {
    ($op:expr, $with:ident) => {{
        use $crate::elementwise::float as f;
        use $crate::ops::UnaryOp as U;
        match $op {
            U::Abs => $with!(f::Abs),
            U::Negate => $with!(f::Negate),
            U::Sign => $with!(f::Sign),
            U::Floor => $with!(f::Floor),
            U::Ceil => $with!(f::Ceil),
            U::RoundNearestAfz => $with!(f::RoundAfz),
            U::RoundNearestEven => $with!(f::RoundEven),
            U::Exp => $with!(f::Exp),
            U::Expm1 => $with!(f::Expm1),
            U::Log => $with!(f::Log),
            U::Log1p => $with!(f::Log1p),
            U::Logistic => $with!(f::Logistic),
            U::Sqrt => $with!(f::Sqrt),
            U::Rsqrt => $with!(f::Rsqrt),
            U::Cbrt => $with!(f::Cbrt),
            U::Sin => $with!(f::Sin),
            U::Cos => $with!(f::Cos),
            U::Tan => $with!(f::Tan),
            U::Tanh => $with!(f::Tanh),
            U::Erf => $with!(f::Erf),
            U::Acos => $with!(f::Acos),
            U::Acosh => $with!(f::Acosh),
            U::Asin => $with!(f::Asin),
            U::Asinh => $with!(f::Asinh),
            U::Atan => $with!(f::Atan),
            U::Atanh => $with!(f::Atanh),
            U::Sinh => $with!(f::Sinh),
            U::Cosh => $with!(f::Cosh),
            U::Real => $with!(f::Real),
            U::Imag => $with!(f::Imag),
            U::IsFinite | U::Not | U::PopulationCount | U::CountLeadingZeros => return None,
        }
    }};
}

/// Calls `$with!(Op)` for the type that implements `$op` on floats, else returns `None`.
macro_rules! float_binary_type {
    ($op:expr, $with:ident) => {{
        use $crate::elementwise::float as f;
        use $crate::ops::BinaryOp as B;
        match $op {
            B::Add => $with!(f::Add),
            B::Subtract => $with!(f::Subtract),
            B::Multiply => $with!(f::Multiply),
            B::Divide => $with!(f::Divide),
            B::Remainder => $with!(f::Remainder),
            B::Maximum => $with!(f::Maximum),
            B::Minimum => $with!(f::Minimum),
            B::Power => $with!(f::Power),
            B::Atan2 => $with!(f::Atan2),
            B::MultiplyHigh
            | B::And
            | B::Or
            | B::Xor
            | B::ShiftLeft
            | B::ShiftRightArithmetic
            | B::ShiftRightLogical => return None,
        }
    }};
}
pub(crate) use {float_binary_type, float_unary_type};

/// The kernel of a unary operation on `F`.
pub fn unary<T: Tier, F: Float>(op: UnaryOp) -> Option<Unary> {
    if op == UnaryOp::IsFinite {
        return Some(T::unary::<F, IsFinite>());
    }
    macro_rules! kernel {
        ($o:ty) => {
            T::unary::<F, $o>()
        };
    }
    Some(float_unary_type!(op, kernel))
}

/// The kernel of a binary operation on `F`.
pub fn binary<T: Tier, F: Float>(op: BinaryOp) -> Option<Binary> {
    macro_rules! kernel {
        ($o:ty) => {
            T::binary::<F, $o>()
        };
    }
    Some(float_binary_type!(op, kernel))
}

/// The comparison kernel of `F`.
pub fn compare<T: Tier, F: Float>(
    direction: CompareDirection,
    order: CompareOrder,
) -> Option<Binary> {
    if order == CompareOrder::Partial {
        return super::int::compare::<T, F>(direction, order);
    }
    Some(match direction {
        CompareDirection::Eq => T::binary::<F, TotalEq>(),
        CompareDirection::Ne => T::binary::<F, TotalNe>(),
        CompareDirection::Lt => T::binary::<F, TotalLt>(),
        CompareDirection::Le => T::binary::<F, TotalLe>(),
        CompareDirection::Gt => T::binary::<F, TotalGt>(),
        CompareDirection::Ge => T::binary::<F, TotalGe>(),
    })
}

/// The clamp kernel of `F`.
pub fn clamp<T: Tier, F: Float>() -> Option<Ternary> {
    Some(T::clamp::<F, Minimum, Maximum>())
}
