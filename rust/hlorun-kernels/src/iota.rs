//! Numbers that grow by a step.
//!
//! In: an element type, the first number and the step. Out: elements. Promise: each has the bits that
//! [`crate::convert()`] makes of the number.

use crate::element::Elem;
use crate::low_float::{Bf16, F16, LowFloat};
use crate::{DType, Isa};

/// `unsafe fn(first, step, out, n)`: writes `n` elements `first + i * step`.
///
/// # Safety
/// `out` has room for `n` elements of the looked-up type and is aligned to it.
pub type Iota = unsafe fn(i64, i64, *mut u8, usize);

/// An element type of an iota.
trait Sequence: Elem {
    /// Writes `first + i * step` for each `i`.
    fn write(first: i64, step: i64, out: &mut [Self]);
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Sequence for $t {
            // The low bits of a number are those of the low bits of its parts.
            #[inline(always)]
            fn write(first: i64, step: i64, out: &mut [Self]) {
                let (first, step) = (first as $t, step as $t);
                for (i, value) in out.iter_mut().enumerate() {
                    *value = first.wrapping_add((i as $t).wrapping_mul(step));
                }
            }
        }
    )*};
}
integers!(u8 u16 u32 u64);

/// Floats: `short` makes one of a number up to `limit` with the one rounding of the conversion.
#[inline(always)]
fn floats<E: Elem>(first: i64, step: i64, out: &mut [E], limit: i64, short: impl Fn(i32) -> E) {
    let last = i128::from(first) + i128::from(step) * out.len().saturating_sub(1) as i128;
    let fits = |number: i128| number.abs() <= i128::from(limit);
    if fits(first.into()) && fits(last) {
        let (first, step) = (first as i32, step as i32);
        for (i, value) in out.iter_mut().enumerate() {
            *value = short(first.wrapping_add((i as i32).wrapping_mul(step)));
        }
        return;
    }
    for (i, value) in out.iter_mut().enumerate() {
        *value = E::narrow(first.wrapping_add((i as i64).wrapping_mul(step)));
    }
}

macro_rules! floats {
    ($($t:ty, $limit:expr, |$x:ident| $short:expr;)*) => {$(
        impl Sequence for $t {
            #[inline(always)]
            fn write(first: i64, step: i64, out: &mut [Self]) {
                floats(first, step, out, $limit, |$x| $short);
            }
        }
    )*};
}
floats! {
    f32, i32::MAX.into(), |x| x as f32;
    f64, i32::MAX.into(), |x| f64::from(x);
    // These numbers are exact as `f32`.
    F16, 1 << 24, |x| F16::encode(x as f32);
    Bf16, 1 << 24, |x| Bf16::encode(x as f32);
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn run<E: Sequence>(first: i64, step: i64, out: *mut u8, n: usize) {
                // SAFETY: the caller's promise.
                E::write(first, step, unsafe {
                    std::slice::from_raw_parts_mut(out.cast::<E>(), n)
                });
            }

            pub fn pick(dtype: DType) -> Option<Iota> {
                Some(match dtype {
                    DType::S8 | DType::U8 => run::<u8>,
                    DType::S16 | DType::U16 => run::<u16>,
                    DType::S32 | DType::U32 => run::<u32>,
                    DType::S64 | DType::U64 => run::<u64>,
                    DType::F16 => run::<F16>,
                    DType::BF16 => run::<Bf16>,
                    DType::F32 => run::<f32>,
                    DType::F64 => run::<f64>,
                    _ => return None,
                })
            }
        }
    };
}
each_tier!(tier);

/// The kernel of an element type, or `None` for types that are rarely counted in.
pub fn iota(dtype: DType) -> Option<Iota> {
    of_tier!(Isa::active(), pick(dtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_conversion() {
        let lines = [
            (0i64, 1i64),
            (250, 1),
            (5000, -3),
            (2040, 1),
            (65_400, 1),
            ((1 << 24) - 40, 1),
            ((1 << 24) + 1, 77_777),
            (i64::from(i32::MAX) - 20, 1),
            (1 << 40, 1 << 33),
        ];
        for dtype in DType::ALL {
            let Some(iota) = iota(dtype) else { continue };
            for (first, step) in lines {
                for n in [0, 1, 7, 64, 133] {
                    let numbers: Vec<i64> = (0..n).map(|i| first + i * step).collect();
                    let n = n as usize;
                    let (mut got, mut want) = ([0u64; 133], [0u64; 133]);
                    // SAFETY: elements have at most eight bytes.
                    unsafe {
                        iota(first, step, got.as_mut_ptr().cast(), n);
                        let convert = crate::convert(DType::S64, dtype);
                        convert(numbers.as_ptr().cast(), want.as_mut_ptr().cast(), n);
                    }
                    assert_eq!(got, want, "{dtype:?} {first} {step} {n}");
                }
            }
        }
    }
}
