//! The kernel table: from an operation and an element type to a plain function pointer.
//!
//! In: an operation, a [`DType`], and (for tests) an [`Isa`]. Out: a function over raw contiguous memory, or `None`
//! when XLA does not define the operation on the type. Promise: the tier is the CPU's best unless `HLORUN_ISA` says
//! otherwise; the functions never trap or allocate; of products, flags
//! in a register of the CPU remain, which decide about time alone.

use crate::DType;
use crate::element::Cx;
use crate::elementwise::int::pred;
pub use crate::elementwise::{Binary, Ternary, Unary};
use crate::elementwise::{Portable, Tier, complex, float, int, low};
use crate::isa::Isa;
use crate::ops::{BinaryOp, CompareDirection, CompareOrder, UnaryOp};

fn unary_tier<T: Tier>(op: UnaryOp, dtype: DType) -> Option<Unary> {
    // The one function of complex numbers that vectors have instructions for.
    if (op, dtype) == (UnaryOp::Abs, DType::C64) {
        return Some(T::unary::<Cx<f32>, complex::Abs>());
    }
    by_class!(
        dtype,
        T,
        [
            pred::unary,
            int::unary,
            low::unary,
            float::unary,
            complex::unary
        ](op)
    )
}

fn binary_tier<T: Tier>(op: BinaryOp, dtype: DType) -> Option<Binary> {
    by_class!(
        dtype,
        T,
        [
            pred::binary,
            int::binary,
            low::binary,
            float::binary,
            complex::binary
        ](op)
    )
}

fn compare_tier<T: Tier>(
    direction: CompareDirection,
    order: CompareOrder,
    dtype: DType,
) -> Option<Binary> {
    by_class!(
        dtype,
        T,
        [
            pred::compare,
            int::compare,
            low::compare,
            float::compare,
            complex::compare
        ](direction, order)
    )
}

fn clamp_tier<T: Tier>(dtype: DType) -> Option<Ternary> {
    by_class!(
        dtype,
        T,
        [
            pred::clamp,
            int::clamp,
            low::clamp,
            float::clamp,
            complex::clamp
        ]()
    )
}

fn select_tier<T: Tier>(dtype: DType) -> Ternary {
    match dtype.size_bytes() {
        1 => T::select::<u8>(),
        2 => T::select::<u16>(),
        4 => T::select::<u32>(),
        8 => T::select::<u64>(),
        _ => T::select::<[u64; 2]>(),
    }
}

/// The kernel of a unary operation, or `None` when it is not defined on the type. See [`unary_result`].
pub fn unary(op: UnaryOp, dtype: DType) -> Option<Unary> {
    unary_on(Isa::active(), op, dtype)
}

/// [`unary`] for a given tier, which must be available.
pub fn unary_on(isa: Isa, op: UnaryOp, dtype: DType) -> Option<Unary> {
    #[cfg(target_arch = "x86_64")]
    if (isa, op, dtype) == (Isa::Avx512, UnaryOp::Exp, DType::F32) {
        return Some(crate::math::exp::exp_of_many);
    }
    with_tier!(isa, T => unary_tier::<T>(op, dtype))
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
    if let Some(kernel) = crate::divide::of_arrays(isa, op, dtype) {
        return Some(kernel);
    }
    #[cfg(target_arch = "x86_64")]
    if crate::subnormal::has_kernels(op, dtype) {
        return Some(crate::subnormal::products(isa));
    }
    with_tier!(isa, T => binary_tier::<T>(op, dtype))
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
    with_tier!(isa, T => compare_tier::<T>(direction, order, dtype))
}

/// `out = pred ? a : b`, arguments in this order; every type has one.
pub fn select(dtype: DType) -> Ternary {
    select_on(Isa::active(), dtype)
}

/// [`select`] for a given tier, which must be available.
pub fn select_on(isa: Isa, dtype: DType) -> Ternary {
    with_tier!(isa, T => select_tier::<T>(dtype))
}

/// `out = min(max(x, lo), hi)`, arguments `lo, x, hi`; NaN propagates.
pub fn clamp(dtype: DType) -> Option<Ternary> {
    clamp_on(Isa::active(), dtype)
}

/// [`clamp`] for a given tier, which must be available.
pub fn clamp_on(isa: Isa, dtype: DType) -> Option<Ternary> {
    with_tier!(isa, T => clamp_tier::<T>(dtype))
}

/// Joins real and imaginary parts; the argument is the real type.
pub fn complex(real: DType) -> Option<Binary> {
    match real {
        DType::F32 => Some(Portable::binary::<f32, complex::Join>()),
        DType::F64 => Some(Portable::binary::<f64, complex::Join>()),
        _ => None,
    }
}
