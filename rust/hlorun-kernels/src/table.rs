//! The kernel table: from an operation and an element type to a plain function pointer.
//!
//! In: an operation, a [`DType`], and (for tests) an [`Isa`]. Out: a function over raw contiguous memory, or `None`
//! when XLA does not define the operation on the type. Promise: the tier is the CPU's best unless `HLORUN_ISA` says
//! otherwise; the functions never trap, allocate or keep state.

use crate::DType;
use crate::element::{Cx, Pred, SubS, SubU};
use crate::elementwise::{Active, Avx2, Avx512, Portable, Tier, complex, float, int, low};
pub use crate::elementwise::{Binary, Ternary, Unary};
use crate::isa::Isa;
use crate::low_float::{Bf16, F8, F16};
use crate::ops::{BinaryOp, CompareDirection, CompareOrder, UnaryOp};

/// Dispatches on the element type: hot types on tier `$T`, the others on the portable or run-time tier.
macro_rules! by_class {
    ($T:ident, $dtype:expr, pred $pred:expr, int $int:ident, low $low:ident, float $float:ident, complex $complex:ident) => {
        match $dtype {
            DType::Pred => $pred,
            DType::S2 => $int!(Portable, SubS<2>),
            DType::S4 => $int!(Portable, SubS<4>),
            DType::S8 => $int!(Portable, i8),
            DType::S16 => $int!(Portable, i16),
            DType::S32 => $int!($T, i32),
            DType::S64 => $int!($T, i64),
            DType::U2 => $int!(Portable, SubU<2>),
            DType::U4 => $int!(Portable, SubU<4>),
            DType::U8 => $int!($T, u8),
            DType::U16 => $int!(Portable, u16),
            DType::U32 => $int!($T, u32),
            DType::U64 => $int!(Portable, u64),
            DType::F4E2M1FN => $low!(Active, F8<0>),
            DType::F8E3M4 => $low!(Active, F8<1>),
            DType::F8E4M3 => $low!(Active, F8<2>),
            DType::F8E4M3FN => $low!(Active, F8<3>),
            DType::F8E4M3FNUZ => $low!(Active, F8<4>),
            DType::F8E4M3B11FNUZ => $low!(Active, F8<5>),
            DType::F8E5M2 => $low!(Active, F8<6>),
            DType::F8E5M2FNUZ => $low!(Active, F8<7>),
            DType::F8E8M0FNU => $low!(Active, F8<8>),
            DType::F16 => $low!($T, F16),
            DType::BF16 => $low!($T, Bf16),
            DType::F32 => $float!($T, f32),
            DType::F64 => $float!($T, f64),
            DType::C64 => $complex!(Portable, f32),
            DType::C128 => $complex!(Portable, f64),
        }
    };
}

fn unary_tier<T: Tier>(op: UnaryOp, dtype: DType) -> Option<Unary> {
    macro_rules! int {
        ($t:ident, $e:ty) => {
            int::unary::<$t, $e>(op)
        };
    }
    macro_rules! low {
        ($t:ident, $e:ty) => {
            low::unary::<$t, $e>(op)
        };
    }
    macro_rules! float {
        ($t:ident, $e:ty) => {
            float::unary::<$t, $e>(op)
        };
    }
    // The one function of complex numbers that vectors have instructions for.
    if (op, dtype) == (UnaryOp::Abs, DType::C64) {
        return Some(T::unary::<Cx<f32>, complex::Abs>());
    }
    macro_rules! complex {
        ($t:ident, $e:ty) => {
            complex::unary::<$t, $e>(op)
        };
    }
    by_class!(T, dtype, pred int::pred_unary::<T>(op), int int, low low, float float, complex complex)
}

fn binary_tier<T: Tier>(op: BinaryOp, dtype: DType) -> Option<Binary> {
    macro_rules! int {
        ($t:ident, $e:ty) => {
            int::binary::<$t, $e>(op)
        };
    }
    macro_rules! low {
        ($t:ident, $e:ty) => {
            low::binary::<$t, $e>(op)
        };
    }
    macro_rules! float {
        ($t:ident, $e:ty) => {
            float::binary::<$t, $e>(op)
        };
    }
    macro_rules! complex {
        ($t:ident, $e:ty) => {
            complex::binary::<$t, $e>(op)
        };
    }
    by_class!(T, dtype, pred int::pred_binary::<T>(op), int int, low low, float float, complex complex)
}

fn compare_tier<T: Tier>(
    direction: CompareDirection,
    order: CompareOrder,
    dtype: DType,
) -> Option<Binary> {
    macro_rules! int {
        ($t:ident, $e:ty) => {
            Some(int::compare::<$t, $e>(direction))
        };
    }
    macro_rules! low {
        ($t:ident, $e:ty) => {
            Some(low::compare::<$t, $e>(direction, order))
        };
    }
    macro_rules! float {
        ($t:ident, $e:ty) => {
            Some(float::compare::<$t, $e>(direction, order))
        };
    }
    macro_rules! complex {
        ($t:ident, $e:ty) => {
            complex::compare::<$t, $e>(direction)
        };
    }
    by_class!(T, dtype, pred Some(int::compare::<T, Pred>(direction)), int int, low low, float float, complex complex)
}

fn clamp_tier<T: Tier>(dtype: DType) -> Option<Ternary> {
    macro_rules! int {
        ($t:ident, $e:ty) => {
            Some(int::clamp::<$t, $e>())
        };
    }
    macro_rules! low {
        ($t:ident, $e:ty) => {
            Some(low::clamp::<$t, $e>())
        };
    }
    macro_rules! float {
        ($t:ident, $e:ty) => {
            Some(float::clamp::<$t, $e>())
        };
    }
    macro_rules! complex {
        ($t:ident, $e:ty) => {
            None
        };
    }
    by_class!(T, dtype, pred Some(T::clamp::<Pred, int::PredAnd, int::PredOr>()), int int, low low, float float,
        complex complex)
}

fn select_tier<T: Tier>(dtype: DType) -> Ternary {
    match dtype.size_bytes() {
        1 => T::select::<u8>(),
        2 => T::select::<u16>(),
        4 => T::select::<u32>(),
        8 => T::select::<u64>(),
        _ => T::select::<Cx<f64>>(),
    }
}

macro_rules! tiers {
    ($isa:expr, $f:ident($($arg:expr),*)) => {
        match $isa {
            Isa::Portable => $f::<Portable>($($arg),*),
            Isa::Avx2 => $f::<Avx2>($($arg),*),
            Isa::Avx512 => $f::<Avx512>($($arg),*),
        }
    };
}

/// The kernel of a unary operation, or `None` when it is not defined on the type. See [`unary_result`].
pub fn unary(op: UnaryOp, dtype: DType) -> Option<Unary> {
    unary_on(Isa::active(), op, dtype)
}

/// [`unary`] for a given tier, which must be available.
pub fn unary_on(isa: Isa, op: UnaryOp, dtype: DType) -> Option<Unary> {
    tiers!(isa, unary_tier(op, dtype))
}

/// The result type of a unary operation: `Pred` for is-finite, the real type for abs, real and imag.
pub fn unary_result(op: UnaryOp, dtype: DType) -> DType {
    match op {
        UnaryOp::IsFinite => DType::Pred,
        UnaryOp::Abs | UnaryOp::Real | UnaryOp::Imag => dtype.real_part(),
        _ => dtype,
    }
}

/// The kernel of a binary operation; the result has the operands' type.
pub fn binary(op: BinaryOp, dtype: DType) -> Option<Binary> {
    binary_on(Isa::active(), op, dtype)
}

/// [`binary`] for a given tier, which must be available.
pub fn binary_on(isa: Isa, op: BinaryOp, dtype: DType) -> Option<Binary> {
    tiers!(isa, binary_tier(op, dtype))
}

/// The kernel of a comparison; the output is one `Pred` byte per element.
pub fn compare(direction: CompareDirection, order: CompareOrder, dtype: DType) -> Option<Binary> {
    compare_on(Isa::active(), direction, order, dtype)
}

/// [`compare`] for a given tier, which must be available.
pub fn compare_on(
    isa: Isa,
    direction: CompareDirection,
    order: CompareOrder,
    dtype: DType,
) -> Option<Binary> {
    tiers!(isa, compare_tier(direction, order, dtype))
}

/// `out = pred ? a : b`, arguments in this order; every type has one.
pub fn select(dtype: DType) -> Ternary {
    select_on(Isa::active(), dtype)
}

/// [`select`] for a given tier, which must be available.
pub fn select_on(isa: Isa, dtype: DType) -> Ternary {
    tiers!(isa, select_tier(dtype))
}

/// `out = min(max(x, lo), hi)`, arguments `lo, x, hi`; NaN propagates.
pub fn clamp(dtype: DType) -> Option<Ternary> {
    clamp_on(Isa::active(), dtype)
}

/// [`clamp`] for a given tier, which must be available.
pub fn clamp_on(isa: Isa, dtype: DType) -> Option<Ternary> {
    tiers!(isa, clamp_tier(dtype))
}

/// Joins real and imaginary parts; the argument is the real type.
pub fn complex(real: DType) -> Option<Binary> {
    match real {
        DType::F32 => Some(Portable::binary::<f32, complex::Join>()),
        DType::F64 => Some(Portable::binary::<f64, complex::Join>()),
        _ => None,
    }
}
