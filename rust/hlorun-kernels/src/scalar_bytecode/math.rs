//! Functions of single floats, to be called with the number itself.
//!
//! In: an operation that is long, and `F32` or `F64`. Out: a function in C's convention that gives the bits of the
//! operation's kernel.

use crate::DType;
use crate::elementwise::float::{self, float_unary_type};
use crate::elementwise::{Bin, Fused, Portable, Tier, Un};
use crate::isa::Isa;
use crate::math::Float;
use crate::ops::{BinaryOp, UnaryOp};

#[inline(always)]
fn unary<T: Tier, F: Float, O: Un<F, Out = F>>(x: F) -> F {
    if O::FIX && O::rare(x) {
        return O::fix(x);
    }
    O::f::<T>(x)
}

unsafe extern "C" fn unary_portable<F: Float, O: Un<F, Out = F>>(x: F) -> F {
    unary::<Portable, F, O>(x)
}

unsafe extern "C" fn binary_portable<F: Float, O: Bin<F, Out = F>>(x: F, y: F) -> F {
    O::f::<Portable>(x, y)
}

/// All tiers that fuse compute a single number alike.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
unsafe extern "C" fn unary_fused<F: Float, O: Un<F, Out = F>>(x: F) -> F {
    unary::<Fused, F, O>(x)
}

#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
unsafe extern "C" fn binary_fused<F: Float, O: Bin<F, Out = F>>(x: F, y: F) -> F {
    O::f::<Fused>(x, y)
}

fn unary_of<F: Float, O: Un<F, Out = F>>() -> usize {
    if Isa::active().is_fused() {
        return unary_fused::<F, O> as *const () as usize;
    }
    unary_portable::<F, O> as *const () as usize
}

fn binary_of<F: Float, O: Bin<F, Out = F>>() -> usize {
    if Isa::active().is_fused() {
        return binary_fused::<F, O> as *const () as usize;
    }
    binary_portable::<F, O> as *const () as usize
}

/// The address of an `unsafe extern "C" fn(F) -> F`, where `F` is the type of numbers; it may be called on any number.
pub fn unary_function(op: UnaryOp, dtype: DType) -> Option<usize> {
    fn of<F: Float>(op: UnaryOp) -> Option<usize> {
        macro_rules! function {
            ($o:ty) => {
                unary_of::<F, $o>()
            };
        }
        Some(float_unary_type!(op, function))
    }
    match dtype {
        DType::F32 => of::<f32>(op),
        DType::F64 => of::<f64>(op),
        _ => None,
    }
}

/// The same of two numbers.
pub fn binary_function(op: BinaryOp, dtype: DType) -> Option<usize> {
    fn of<F: Float>(op: BinaryOp) -> Option<usize> {
        Some(match op {
            BinaryOp::Power => binary_of::<F, float::Power>(),
            BinaryOp::Atan2 => binary_of::<F, float::Atan2>(),
            BinaryOp::Remainder => binary_of::<F, float::Remainder>(),
            _ => return None,
        })
    }
    match dtype {
        DType::F32 => of::<f32>(op),
        DType::F64 => of::<f64>(op),
        _ => None,
    }
}
