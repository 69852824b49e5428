//! Operations on floats narrower than `f32`: decode a chunk, run the `f32` kernel, encode the chunk.
//!
//! In: storage bits. Out: storage bits, or truth bytes. Promise: every operation is computed in `f32` and rounded once
//! to the storage type; the chunks live on the stack, so `out` may be any of the inputs.

use super::float::{self, float_binary_type, float_unary_type};
use super::{Bin, Binary, CHUNK, Ternary, Tier, Un, Unary};
use crate::low_float::LowFloat;
use crate::ops::{BinaryOp, CompareDirection, CompareOrder, UnaryOp};

/// Storage to `f32`.
pub struct Decode;
impl<E: LowFloat> Un<E> for Decode {
    type Out = f32;
    #[inline(always)]
    fn f<T: Tier>(a: E) -> f32 {
        a.decode()
    }
}

/// `f32` to storage.
pub struct Encode<E>(std::marker::PhantomData<E>);
impl<E: LowFloat> Un<f32> for Encode<E> {
    type Out = E;
    #[inline(always)]
    fn f<T: Tier>(a: f32) -> E {
        E::encode(a)
    }
}

/// Calls `f` with a chunk of every input as `f32`, the elements before it, and how many it has.
///
/// # Safety
/// Every input holds n elements of `E`.
#[inline(always)]
pub(crate) unsafe fn decoded<T: Tier, E: LowFloat, const N: usize>(
    inputs: [*const u8; N],
    n: usize,
    mut f: impl FnMut([*mut u8; N], usize, usize),
) {
    let mut chunks = [[0.0f32; CHUNK]; N];
    let chunks = chunks.each_mut().map(|chunk| chunk.as_mut_ptr().cast());
    for i in (0..n).step_by(CHUNK) {
        let len = CHUNK.min(n - i);
        for (from, to) in inputs.into_iter().zip(chunks) {
            // SAFETY: the caller promises n elements; a chunk holds CHUNK >= len of them.
            unsafe { T::unary::<E, Decode>()(from.cast::<E>().add(i).cast(), to, len) };
        }
        f(chunks, i, len);
    }
}

unsafe fn unary_run<T: Tier, E: LowFloat, O: Un<f32, Out = f32>>(
    a: *const u8,
    out: *mut u8,
    n: usize,
) {
    // SAFETY: the caller promises n elements on both sides.
    unsafe {
        decoded::<T, E, 1>([a], n, |[x], i, len| {
            T::unary::<f32, O>()(x, x, len);
            T::unary::<f32, Encode<E>>()(x, out.cast::<E>().add(i).cast(), len);
        });
    }
}

unsafe fn finite_run<T: Tier, E: LowFloat>(a: *const u8, out: *mut u8, n: usize) {
    // SAFETY: as in unary_run; the output is one byte per element.
    unsafe {
        decoded::<T, E, 1>([a], n, |[x], i, len| {
            T::unary::<f32, float::IsFinite>()(x, out.add(i), len);
        });
    }
}

unsafe fn binary_run<T: Tier, E: LowFloat, O: Bin<f32, Out = f32>>(
    a: *const u8,
    b: *const u8,
    out: *mut u8,
    n: usize,
) {
    // SAFETY: as in unary_run, for two inputs.
    unsafe {
        decoded::<T, E, 2>([a, b], n, |[x, y], i, len| {
            T::binary::<f32, O>()(x, y, x, len);
            T::unary::<f32, Encode<E>>()(x, out.cast::<E>().add(i).cast(), len);
        });
    }
}

unsafe fn compare_run<T: Tier, E: LowFloat, O: Bin<f32, Out = u8>>(
    a: *const u8,
    b: *const u8,
    out: *mut u8,
    n: usize,
) {
    // SAFETY: as in unary_run; the output is one byte per element.
    unsafe {
        decoded::<T, E, 2>([a, b], n, |[x, y], i, len| {
            T::binary::<f32, O>()(x, y, out.add(i), len);
        });
    }
}

/// A comparison of keys in total order.
struct Total<O>(std::marker::PhantomData<O>);
impl<E: LowFloat, O: Bin<i32, Out = u8>> Bin<E> for Total<O> {
    type Out = u8;
    #[inline(always)]
    fn f<T: Tier>(a: E, b: E) -> u8 {
        O::f::<T>(a.total_key(), b.total_key())
    }
}

/// The clamp bounds and the value are compared as `f32` and stored unchanged.
struct LowMin;
struct LowMax;
impl<E: LowFloat> Bin<E> for LowMin {
    type Out = E;
    #[inline(always)]
    fn f<T: Tier>(a: E, b: E) -> E {
        E::encode(crate::math::Float::minimum(a.decode(), b.decode()))
    }
}
impl<E: LowFloat> Bin<E> for LowMax {
    type Out = E;
    #[inline(always)]
    fn f<T: Tier>(a: E, b: E) -> E {
        E::encode(crate::math::Float::maximum(a.decode(), b.decode()))
    }
}

/// Operations on the sign alone.
struct Negate;
struct Abs;
impl<E: LowFloat> Un<E> for Negate {
    type Out = E;
    #[inline(always)]
    fn f<T: Tier>(a: E) -> E {
        a.negated()
    }
}
impl<E: LowFloat> Un<E> for Abs {
    type Out = E;
    #[inline(always)]
    fn f<T: Tier>(a: E) -> E {
        a.magnitude()
    }
}

/// The kernel of a unary operation on `E`.
pub fn unary<T: Tier, E: LowFloat>(op: UnaryOp) -> Option<Unary> {
    match op {
        UnaryOp::IsFinite => return Some(finite_run::<T, E>),
        UnaryOp::Negate => return Some(T::unary::<E, Negate>()),
        UnaryOp::Abs => return Some(T::unary::<E, Abs>()),
        _ => {}
    }
    macro_rules! kernel {
        ($o:ty) => {
            unary_run::<T, E, $o>
        };
    }
    Some(float_unary_type!(op, kernel))
}

/// The kernel of a binary operation on `E`.
pub fn binary<T: Tier, E: LowFloat>(op: BinaryOp) -> Option<Binary> {
    macro_rules! kernel {
        ($o:ty) => {
            binary_run::<T, E, $o>
        };
    }
    Some(float_binary_type!(op, kernel))
}

/// The comparison kernel of `E`.
pub fn compare<T: Tier, E: LowFloat>(
    direction: CompareDirection,
    order: CompareOrder,
) -> Option<Binary> {
    use CompareDirection as D;
    use CompareOrder as C;
    Some(match (order, direction) {
        (C::Partial, D::Eq) => compare_run::<T, E, super::int::Eq>,
        (C::Partial, D::Ne) => compare_run::<T, E, super::int::Ne>,
        (C::Partial, D::Lt) => compare_run::<T, E, super::int::Lt>,
        (C::Partial, D::Le) => compare_run::<T, E, super::int::Le>,
        (C::Partial, D::Gt) => compare_run::<T, E, super::int::Gt>,
        (C::Partial, D::Ge) => compare_run::<T, E, super::int::Ge>,
        (C::Total, D::Eq) => T::binary::<E, Total<super::int::Eq>>(),
        (C::Total, D::Ne) => T::binary::<E, Total<super::int::Ne>>(),
        (C::Total, D::Lt) => T::binary::<E, Total<super::int::Lt>>(),
        (C::Total, D::Le) => T::binary::<E, Total<super::int::Le>>(),
        (C::Total, D::Gt) => T::binary::<E, Total<super::int::Gt>>(),
        (C::Total, D::Ge) => T::binary::<E, Total<super::int::Ge>>(),
    })
}

/// The clamp kernel of `E`.
pub fn clamp<T: Tier, E: LowFloat>() -> Option<Ternary> {
    Some(T::clamp::<E, LowMin, LowMax>())
}
