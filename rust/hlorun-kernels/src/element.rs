//! Storage types of every element and the exact conversions between them.
//!
//! In: an element's bits. Out: its value in a compute type, and back. Promise: a value that fits is unchanged; any
//! other is rounded once, to nearest even (integers to floats and `f64` to low floats included); floats to integers
//! saturate and send NaN to 0; integers to narrower integers wrap; overflow, NaN and signed zero of the low floats
//! follow XLA:CPU.

/// A value as it lies in a buffer.
pub trait Elem: Copy + Send + Sync + 'static {
    /// A type every value of this one fits in, used to convert.
    type Wide: Wide;
    /// The exact value.
    fn widen(self) -> Self::Wide;
    /// The nearest representable value, by the rules of the module.
    fn narrow<W: Wide>(w: W) -> Self;
}

/// The wide classes conversions go through: `i64`, `u64`, `f32`, `f64`, `Cx<f64>`.
pub trait Wide: Copy {
    /// Whether an integer result saturates (floats) or wraps (integers).
    const FLOAT: bool;
    /// Nearest `f32`.
    fn f32(self) -> f32;
    /// An `f32` rounded to odd, from which a second rounding to 22 or fewer bits is exact.
    fn odd32(self) -> f32;
    /// Nearest `f64` (real part).
    fn f64(self) -> f64;
    /// Imaginary part, zero unless complex.
    fn im(self) -> f64;
    /// The low 64 bits of an integer's two's complement; zero for floats.
    fn bits(self) -> u64;
    /// `self != 0`.
    fn truth(self) -> bool;
}

/// Rounds `x` to `f32` so that the last bit records inexactness (von Neumann rounding).
#[inline(always)]
pub fn odd_f32(x: f64) -> f32 {
    let near = x as f32;
    let bits = near.to_bits();
    let back = near as f64;
    let away = u32::from(back.abs() > x.abs());
    let inexact = u32::from(back != x && !x.is_nan());
    f32::from_bits((bits - away) | inexact)
}

#[inline(always)]
fn odd_f64(magnitude: u64) -> f64 {
    let sticky = u64::from(magnitude & 0x7ff != 0);
    let big = ((magnitude >> 11) | sticky) as f64 * 2048.0;
    if magnitude >> 53 == 0 {
        magnitude as f64
    } else {
        big
    }
}

#[inline(always)]
fn odd_i64(x: i64) -> f32 {
    let magnitude = odd_f64(x.unsigned_abs());
    odd_f32(if x < 0 { -magnitude } else { magnitude })
}

/// A wide class: whether it is one of floats, and the functions of [`Wide`] on a value.
macro_rules! wide {
    ($($t:ty, $float:literal, |$x:ident| $f32:expr, $odd:expr, $f64:expr, $im:expr, $bits:expr, $truth:expr;)*) => {$(
        impl Wide for $t {
            const FLOAT: bool = $float;
            inline! {
                fn f32(self) -> f32 { let $x = self; $f32 }
                fn odd32(self) -> f32 { let $x = self; $odd }
                fn f64(self) -> f64 { let $x = self; $f64 }
                fn im(self) -> f64 { let $x = self; let _ = $x; $im }
                fn bits(self) -> u64 { let $x = self; let _ = $x; $bits }
                fn truth(self) -> bool { let $x = self; $truth }
            }
        }
    )*};
}
wide! {
    i64, false, |x| x as f32, odd_i64(x), x as f64, 0.0, x as u64, x != 0;
    u64, false, |x| x as f32, odd_f32(odd_f64(x)), x as f64, 0.0, x, x != 0;
    f32, true, |x| x, x, x as f64, 0.0, 0, x != 0.0;
    f64, true, |x| x as f32, odd_f32(x), x, 0.0, 0, x != 0.0;
    Cx<f64>, true, |z| z.re as f32, odd_f32(z.re), z.re, z.im, 0, z.re != 0.0 || z.im != 0.0;
}

/// A complex number: real part first, as NumPy and BLAS store it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cx<T> {
    /// Real part.
    pub re: T,
    /// Imaginary part.
    pub im: T,
}

/// A `pred` byte: any non-zero byte is true when read, exactly 0 or 1 when written.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pred(pub u8);

/// A signed integer of `BITS` < 8 bits, sign-extended in its byte.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct SubS<const BITS: u32>(pub i8);

/// An unsigned integer of `BITS` < 8 bits, zero-extended in its byte.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct SubU<const BITS: u32>(pub u8);

impl<const BITS: u32> SubS<BITS> {
    /// Wraps to the low `BITS` bits.
    #[inline(always)]
    pub fn wrap(x: i8) -> Self {
        let shift = 8 - BITS;
        SubS(x.wrapping_shl(shift) >> shift)
    }
}

impl<const BITS: u32> SubU<BITS> {
    /// Wraps to the low `BITS` bits.
    #[inline(always)]
    pub fn wrap(x: u8) -> Self {
        SubU(x & ((1 << BITS) - 1))
    }
}

/// How a type is widened and narrowed.
macro_rules! elem {
    ($([$($generics:tt)*] $t:ty => $wide:ty, |$x:ident| $widen:expr, |$w:ident: $W:ident| $narrow:expr;)*) => {$(
        impl<$($generics)*> Elem for $t {
            type Wide = $wide;
            inline! {
                fn widen(self) -> $wide { let $x = self; $widen }
                fn narrow<$W: Wide>($w: $W) -> Self { $narrow }
            }
        }
    )*};
}
pub(crate) use elem;

macro_rules! native_int {
    ($($t:ty, $wide:ty;)*) => {
        elem! { $([] $t => $wide, |x| x as $wide, |w: W| if W::FLOAT { w.f64() as $t } else { w.bits() as $t };)* }
    };
}
native_int!(i8, i64; i16, i64; i32, i64; i64, i64; u8, u64; u16, u64; u32, u64; u64, u64;);
elem! {
    [] Pred => u64, |x| u64::from(x.0 != 0), |w: W| Pred(u8::from(w.truth()));
    [] f32 => f32, |x| x, |w: W| w.f32();
    [] f64 => f64, |x| x, |w: W| w.f64();
    [] Cx<f32> => Cx<f64>, |z| Cx { re: z.re.into(), im: z.im.into() }, |w: W| Cx { re: w.f32(), im: w.im() as f32 };
    [] Cx<f64> => Cx<f64>, |z| z, |w: W| Cx { re: w.f64(), im: w.im() };
    [const BITS: u32] SubS<BITS> => i64, |x| i64::from(Self::wrap(x.0).0), |w: W| {
        let max = (1i8 << (BITS - 1)) - 1;
        if W::FLOAT { SubS((w.f64() as i8).clamp(-max - 1, max)) } else { Self::wrap(w.bits() as i8) }
    };
    [const BITS: u32] SubU<BITS> => u64, |x| u64::from(Self::wrap(x.0).0), |w: W| {
        if W::FLOAT { SubU((w.f64() as u8).min((1 << BITS) - 1)) } else { Self::wrap(w.bits() as u8) }
    };
}
