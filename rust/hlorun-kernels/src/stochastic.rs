//! Stochastic conversion of floats to signed integers.
//!
//! In: a float and as many random bits as it has. Out: the float rounded towards zero, or away from zero with a
//! probability equal to its fraction. Promise: the rule of XLA's evaluator, bit for bit: NaN gives 0, everything out of
//! range saturates, whole numbers ignore the random bits.

use crate::DType;
use crate::element::{Elem, SubS, Wide};
use crate::elementwise::Binary;
use crate::low_float::{Bf16, F16};

/// Unsigned random bits of a float's width.
trait Random: Elem<Wide: Wide> {
    type Bits: Copy + Into<u64>;
    const DIGITS: i32;
}
macro_rules! random {
    ($($t:ty, $bits:ty;)*) => {$(
        impl Random for $t {
            type Bits = $bits;
            const DIGITS: i32 = <$bits>::BITS as i32;
        }
    )*};
}
random!(F16, u16; Bf16, u16; f32, u32; f64, u64;);

fn round(x: f64, random: u64, digits: i32, min: i64, max: i64) -> i64 {
    if x.is_nan() {
        return 0;
    }
    if x >= max as f64 {
        return max;
    }
    if x <= min as f64 {
        return min;
    }
    let magnitude = x.abs();
    let whole = magnitude as i64;
    let threshold = libm::ldexp(magnitude - whole as f64, digits) as u64;
    let away = whole + i64::from(random < threshold);
    if x.is_sign_negative() { -away } else { away }
}

unsafe fn run<From: Random, To: Elem>(value: *const u8, random: *const u8, out: *mut u8, n: usize) {
    let max = To::narrow(f64::INFINITY).widen().bits() as i64;
    let min = To::narrow(f64::NEG_INFINITY).widen().bits() as i64;
    for i in 0..n {
        // SAFETY: the caller promises n elements of each type; each is read before its output is written.
        unsafe {
            let x = value.cast::<From>().add(i).read().widen().f64();
            let bits: u64 = random.cast::<From::Bits>().add(i).read().into();
            let y = round(x, bits, From::DIGITS, min, max);
            out.cast::<To>().add(i).write(To::narrow(y));
        }
    }
}

fn to<From: Random>(to: DType) -> Option<Binary> {
    Some(match to {
        DType::S2 => run::<From, SubS<2>>,
        DType::S4 => run::<From, SubS<4>>,
        DType::S8 => run::<From, i8>,
        DType::S16 => run::<From, i16>,
        DType::S32 => run::<From, i32>,
        DType::S64 => run::<From, i64>,
        _ => return None,
    })
}

/// The kernel `(value, random bits) -> integer` for `F16`, `BF16`, `F32` or `F64` to a signed integer; the random bits
/// are unsigned integers of the float's width.
pub fn stochastic_convert(from: DType, target: DType) -> Option<Binary> {
    match from {
        DType::F16 => to::<F16>(target),
        DType::BF16 => to::<Bf16>(target),
        DType::F32 => to::<f32>(target),
        DType::F64 => to::<f64>(target),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_round_away_as_often_as_they_are_large() {
        let kernel = stochastic_convert(DType::F32, DType::S8).unwrap();
        let values = [
            2.25f32,
            2.25,
            -2.25,
            -2.25,
            3.0,
            300.0,
            -300.0,
            f32::NAN,
            f32::INFINITY,
        ];
        let quarter = 1u32 << 30;
        let random = [quarter - 1, quarter, quarter - 1, quarter, 0, 0, 0, 0, 0];
        let mut out = [0i8; 9];
        // SAFETY: nine elements behind each pointer.
        unsafe {
            kernel(
                values.as_ptr().cast(),
                random.as_ptr().cast(),
                out.as_mut_ptr().cast(),
                9,
            )
        };
        assert_eq!(out, [3, 2, -3, -2, 3, 127, -128, 0, 127]);
    }
}
