//! Computations that are one associative and commutative operation.
//!
//! In: a combiner and the type it works on. Out: its kernel, and the value that changes nothing, with
//! which windows may be padded.

use hlorun_kernels::{Binary, BinaryOp};

use crate::plan::element::elementwise::dtype;
use crate::plan::ops::combiner::{Combiner, Shortcut};
use crate::types::PrimitiveType;

/// An operation whose order does not matter, but for the rounding of sums and products of `f32` and
/// `f64`.
pub struct Associative {
    /// The operation.
    pub kernel: Binary,
    /// Bytes of the value that changes nothing, as many as an element has.
    pub identity: [u8; 8],
}

impl Associative {
    /// What `combiner` is over elements of type `ty`; `None` where it is more than one operation, or
    /// order matters.
    pub fn of(combiner: &Combiner, ty: PrimitiveType) -> Option<Associative> {
        let Some(Shortcut::Binary(op)) = combiner.shortcut else {
            return None;
        };
        Some(Associative {
            kernel: hlorun_kernels::binary(op, dtype(ty)?)?,
            identity: identity(op, ty)?,
        })
    }
}

/// The value that changes nothing, as bytes; `None` where order matters or there is none.
fn identity(op: BinaryOp, ty: PrimitiveType) -> Option<[u8; 8]> {
    use BinaryOp as B;
    use PrimitiveType as P;
    if ty.is_complex() {
        return None;
    }
    let mut bytes = [0u8; 8];
    let mut put = |value: &[u8]| {
        bytes[..value.len()].copy_from_slice(value);
        Some(())
    };
    let float = |value: f64, put: &mut dyn FnMut(&[u8]) -> Option<()>| match ty {
        P::F32 => put(&(value as f32).to_ne_bytes()),
        P::F64 => put(&value.to_ne_bytes()),
        P::F16 => put(&half::f16::from_f64(value).to_ne_bytes()),
        P::BF16 => put(&half::bf16::from_f64(value).to_ne_bytes()),
        _ => None,
    };
    let low = matches!(ty, P::F16 | P::BF16);
    let int = ty.is_integral() && ty.bit_width() >= 8;
    let signed = ty.is_signed_integral();
    let (min, max) = if signed {
        (
            i64::MIN >> (64 - ty.bit_width()),
            i64::MAX >> (64 - ty.bit_width()),
        )
    } else {
        (0, (u64::MAX >> (64 - ty.bit_width())) as i64)
    };
    let whole = |value: i64, put: &mut dyn FnMut(&[u8]) -> Option<()>| {
        int.then(|| put(&value.to_le_bytes()[..ty.size_bytes()]))?
    };
    match op {
        B::Add if ty.is_floating() && !low => float(-0.0, &mut put)?,
        B::Multiply if ty.is_floating() && !low => float(1.0, &mut put)?,
        B::Maximum if ty.is_floating() => float(f64::NEG_INFINITY, &mut put)?,
        B::Minimum if ty.is_floating() => float(f64::INFINITY, &mut put)?,
        B::Or | B::Maximum if ty == P::Pred => put(&[0])?,
        B::And | B::Minimum if ty == P::Pred => put(&[1])?,
        B::Add | B::Or | B::Xor => whole(0, &mut put)?,
        B::Multiply => whole(1, &mut put)?,
        B::And => whole(-1, &mut put)?,
        B::Maximum => whole(min, &mut put)?,
        B::Minimum => whole(max, &mut put)?,
        _ => return None,
    }
    Some(bytes)
}
