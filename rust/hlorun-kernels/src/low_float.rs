//! Floats narrower than `f32`: `f16`, `bf16` and the eight- and four-bit formats.
//!
//! In: storage bits, or an `f32`. Out: the exact `f32`, or the storage bits of the nearest value (ties to even).
//! Promise: decoding is exact; encoding rounds once. `f64` and integers first round to odd in `f32`
//! ([`crate::element::Wide::odd32`]), which keeps the second rounding exact.

use crate::element::{Elem, Wide, elem};
use crate::math::exp::EXPONENT_ONE;

/// A float narrower than `f32`.
pub trait LowFloat: Elem {
    /// Exact value.
    fn decode(self) -> f32;
    /// Nearest value, ties to even.
    fn encode(x: f32) -> Self;
    /// The bits as an integer in total order: below zero for a set sign bit.
    fn total_key(self) -> i32;
    /// With the other sign.
    #[inline(always)]
    fn negated(self) -> Self {
        Self::encode(-self.decode())
    }
    /// Without its sign.
    #[inline(always)]
    fn magnitude(self) -> Self {
        Self::encode(self.decode().abs())
    }
}

/// Signs of a format of 16 bits, without the way through `f32`: that leaves all bits as they are, but that NaN becomes a
/// quiet one.
macro_rules! signs {
    ($infinity:literal, $quiet:literal) => {
        #[inline(always)]
        fn negated(self) -> Self {
            let nan = u16::from(self.0 & 0x7fff > $infinity);
            Self((self.0 ^ 0x8000) | (nan * $quiet))
        }
        #[inline(always)]
        fn magnitude(self) -> Self {
            let size = self.0 & 0x7fff;
            let nan = u16::from(size > $infinity);
            Self(size | (nan * $quiet))
        }
    };
}

/// IEEE binary16 bits.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct F16(pub u16);

/// bfloat16 bits.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bf16(pub u16);

/// An eight-bit (or narrower) float; `FORMAT` is an index into the format list of this module.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct F8<const FORMAT: usize>(pub u8);

impl LowFloat for Bf16 {
    signs!(0x7f80, 0x40);
    #[inline(always)]
    fn total_key(self) -> i32 {
        let x = i32::from(self.0 as i16);
        x ^ ((x >> 31) & 0x7fff)
    }
    #[inline(always)]
    fn decode(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
    #[inline(always)]
    fn encode(x: f32) -> Self {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        let nan = (bits >> 16) | 0x40;
        Bf16(if bits & 0x7fff_ffff > 0x7f80_0000 {
            nan
        } else {
            rounded
        } as u16)
    }
}

impl LowFloat for F16 {
    signs!(0x7c00, 0x200);
    #[inline(always)]
    fn total_key(self) -> i32 {
        let x = i32::from(self.0 as i16);
        x ^ ((x >> 31) & 0x7fff)
    }
    // Branch-free so that loops vectorize: the exponent is rebiased by an exact multiplication, which also
    // normalizes subnormals.
    #[inline(always)]
    fn decode(self) -> f32 {
        let h = u32::from(self.0);
        let magnitude = (h & 0x7fff) << 13;
        let scaled = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
        let special = magnitude | 0x7f80_0000;
        let bits = if h & 0x7c00 == 0x7c00 {
            special
        } else {
            scaled
        };
        f32::from_bits(bits | ((h & 0x8000) << 16))
    }
    #[inline(always)]
    fn encode(x: f32) -> Self {
        let bits = x.to_bits();
        let sign = (bits >> 16) & 0x8000;
        let m = bits & 0x7fff_ffff;
        // 2^-14 is the least normal; below it, adding 0.5 aligns the result's last bit with f32's.
        let subnormal = (f32::from_bits(m) + 0.5)
            .to_bits()
            .wrapping_sub(0x3f00_0000);
        let normal = m.wrapping_add(0xc800_0fff).wrapping_add((m >> 13) & 1) >> 13;
        let overflow = if m > 0x7f80_0000 {
            0x7e00 | ((m >> 13) & 0x3ff)
        } else {
            0x7c00
        };
        let finite = if m < 0x3880_0000 { subnormal } else { normal };
        F16((sign | if m >= 0x4780_0000 { overflow } else { finite }) as u16)
    }
}

elem! {
    [] F16 => f32, |x| x.decode(), |w: W| Self::encode(w.odd32());
    [] Bf16 => f32, |x| x.decode(), |w: W| Self::encode(w.odd32());
    [const FORMAT: usize] F8<FORMAT> => f32, |x| x.decode(), |w: W| Self::encode(w.odd32());
}

/// What a format does beyond its largest finite value and at NaN.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Infinity and NaN as in IEEE 754.
    Ieee,
    /// No infinity; the all-ones code is NaN, and so is overflow.
    Fn,
    /// No infinity and no negative zero; NaN is the code of negative zero, and so is overflow.
    Fnuz,
    /// Neither infinity nor NaN: overflow saturates, NaN becomes negative zero.
    Finite,
    /// Exponent only, unsigned, no zero: zero and negatives are NaN.
    ExponentOnly,
}

#[derive(Clone, Copy)]
struct Format {
    mantissa: i32,
    exponent: i32,
    bias: i32,
    kind: Kind,
}

const fn format(exponent: i32, mantissa: i32, bias: i32, kind: Kind) -> Format {
    Format {
        mantissa,
        exponent,
        bias,
        kind,
    }
}

/// `f4e2m1fn`, `f8e3m4`, `f8e4m3`, `f8e4m3fn`, `f8e4m3fnuz`, `f8e4m3b11fnuz`, `f8e5m2`, `f8e5m2fnuz`, `f8e8m0fnu`.
const FORMATS: [Format; 9] = [
    format(2, 1, 1, Kind::Finite),
    format(3, 4, 3, Kind::Ieee),
    format(4, 3, 7, Kind::Ieee),
    format(4, 3, 7, Kind::Fn),
    format(4, 3, 8, Kind::Fnuz),
    format(4, 3, 11, Kind::Fnuz),
    format(5, 2, 15, Kind::Ieee),
    format(5, 2, 16, Kind::Fnuz),
    format(8, 0, 127, Kind::ExponentOnly),
];

impl Format {
    const fn sign_bit(self) -> u32 {
        if matches!(self.kind, Kind::ExponentOnly) {
            0
        } else {
            1 << (self.exponent + self.mantissa)
        }
    }

    const fn max_finite(self) -> u32 {
        match self.kind {
            Kind::Ieee => (((1 << self.exponent) - 1) << self.mantissa) - 1,
            Kind::Fn => (1 << (self.exponent + self.mantissa)) - 2,
            Kind::ExponentOnly => 0xfe,
            Kind::Fnuz | Kind::Finite => (1 << (self.exponent + self.mantissa)) - 1,
        }
    }

    /// Code of the nearest value, by 32-bit instructions without branches, so that loops vectorize.
    #[inline(always)]
    fn encode(self, x: f32) -> u8 {
        if self.kind == Kind::ExponentOnly {
            return self.encode_exponent(x);
        }
        let bits = x.to_bits();
        let sign = (bits >> 31) * self.sign_bit();
        let m = bits & 0x7fff_ffff;
        let dropped = (23 - self.mantissa) as u32;
        // Where the result is subnormal, adding a power of two aligns its last bit with that of an `f32`.
        let aligned = (151 - self.bias - self.mantissa) as u32 * EXPONENT_ONE;
        let subnormal = (f32::from_bits(m) + f32::from_bits(aligned)).to_bits() - aligned;
        let rounded = (m + (1 << (dropped - 1)) - 1 + ((m >> dropped) & 1)) >> dropped;
        let normal = rounded.wrapping_sub(((127 - self.bias) as u32) << self.mantissa);
        let is_subnormal = m < (128 - self.bias) as u32 * EXPONENT_ONE;
        let code = if is_subnormal { subnormal } else { normal };
        let most = self.max_finite();
        let (nan, beyond) = match self.kind {
            Kind::Ieee => (most + 1 + (1 << (self.mantissa - 1)), most + 1),
            Kind::Finite => (0, most),
            Kind::Fn | Kind::Fnuz | Kind::ExponentOnly => (most + 1, most + 1),
        };
        let code = if code > most { beyond } else { code };
        let is_nan = m > 0x7f80_0000;
        let code = match self.kind {
            // Their NaN has the code of a negative zero, which they lack.
            Kind::Fnuz if is_nan || code > most => return self.sign_bit() as u8,
            Kind::Fnuz if code == 0 => return 0,
            Kind::Finite if is_nan => return self.sign_bit() as u8,
            _ if is_nan => nan,
            _ => code,
        };
        (code | sign) as u8
    }

    /// The nearest power of two, of a tie the larger one. Code 0 stands for the smallest, 2^-127, and for all below; what is
    /// larger gets code 1 at least, as in XLA, also where the smallest is nearer.
    #[inline(always)]
    fn encode_exponent(self, x: f32) -> u8 {
        const NAN: u8 = 0xff;
        const SMALLEST: u32 = EXPONENT_ONE / 2;
        let bits = x.to_bits();
        let code = (bits.wrapping_add(SMALLEST) >> 23) - u32::from(bits == SMALLEST);
        let is_positive = (1..=0x7f80_0000).contains(&bits);
        if is_positive { code as u8 } else { NAN }
    }

    /// The `f32` a code stands for, without branches, so that loops vectorize.
    #[inline(always)]
    fn decode(self, code: u8) -> f32 {
        if self.kind == Kind::ExponentOnly {
            return f32::from_bits(match code {
                0 => 0x0040_0000,
                0xff => 0x7fc0_0000,
                _ => u32::from(code) * EXPONENT_ONE,
            });
        }
        let sign_bit = self.sign_bit();
        let code = u32::from(code) & (2 * sign_bit - 1);
        let size = code & (sign_bit - 1);
        let sign = (code & sign_bit) * (0x8000_0000 / sign_bit);
        let quantum = (128 - self.bias - self.mantissa) as u32 * EXPONENT_ONE;
        let subnormal = (size as f32 * f32::from_bits(quantum)).to_bits();
        let normal = (size << (23 - self.mantissa)) + (127 - self.bias) as u32 * EXPONENT_ONE;
        let is_subnormal = size < 1 << self.mantissa;
        let bits = if is_subnormal { subnormal } else { normal };
        let most = self.max_finite();
        let (is_nan, is_infinite) = match self.kind {
            Kind::Ieee => (size > most + 1, size == most + 1),
            Kind::Fn => (size > most, false),
            Kind::Fnuz => (code == sign_bit, false),
            Kind::Finite | Kind::ExponentOnly => (false, false),
        };
        let bits = if is_infinite { 0x7f80_0000 } else { bits };
        let bits = if is_nan { 0x7fc0_0000 } else { bits };
        f32::from_bits(bits | sign)
    }
}

impl<const FORMAT: usize> LowFloat for F8<FORMAT> {
    #[inline(always)]
    fn total_key(self) -> i32 {
        let format = FORMATS[FORMAT];
        // Decoding joins the NaNs of formats that have several.
        if matches!(format.kind, Kind::Ieee) {
            let x = i32::from(self.0 as i8);
            return x ^ ((x >> 31) & 0x7f);
        }
        let x = self.decode().to_bits() as i32;
        x ^ ((x >> 31) & i32::MAX)
    }
    #[inline(always)]
    fn decode(self) -> f32 {
        FORMATS[FORMAT].decode(self.0)
    }
    #[inline(always)]
    fn encode(x: f32) -> Self {
        F8(FORMATS[FORMAT].encode(x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits of the `f32` a code stands for, by its definition.
    const fn defined(format: Format, code: u32) -> u32 {
        const NAN: u32 = 0x7fc0_0000;
        let sign_bit = format.sign_bit();
        let magnitude = code & (if sign_bit == 0 { 0xff } else { sign_bit - 1 });
        let negative = code & sign_bit != 0;
        let sign = (negative as u32) << 31;
        let infinity = ((1u32 << format.exponent) - 1) << format.mantissa;
        match format.kind {
            Kind::Fnuz if negative && magnitude == 0 => return NAN | sign,
            Kind::ExponentOnly if magnitude == 0xff => return NAN,
            Kind::ExponentOnly if magnitude == 0 => return 0x0040_0000,
            Kind::ExponentOnly => return magnitude << 23,
            Kind::Fn if magnitude > format.max_finite() => return NAN | sign,
            Kind::Ieee if magnitude == infinity => return 0x7f80_0000 | sign,
            Kind::Ieee if magnitude > infinity => return NAN | sign,
            _ => {}
        }
        let exponent = (magnitude >> format.mantissa) as i32;
        let mantissa = magnitude & ((1 << format.mantissa) - 1);
        // mantissa (with its hidden bit) times 2^(scale); exact in f32.
        let (significand, scale) = if exponent == 0 {
            (mantissa, 1 - format.bias - format.mantissa)
        } else {
            (
                mantissa | (1 << format.mantissa),
                exponent - format.bias - format.mantissa,
            )
        };
        let power = f32::from_bits(((scale + 127) as u32) << 23);
        (significand as f32 * power).to_bits() | sign
    }

    const fn decode_table(format: Format) -> [u32; 256] {
        let mut table = [0; 256];
        let mut code = 0;
        while code < 256 {
            // A four-bit format ignores the upper half of its byte.
            let used = if format.exponent + format.mantissa < 7 {
                code & 15
            } else {
                code
            };
            table[code] = defined(format, used as u32);
            code += 1;
        }
        table
    }

    static DECODE: [[u32; 256]; 9] = {
        let mut tables = [[0; 256]; 9];
        let mut i = 0;
        while i < 9 {
            tables[i] = decode_table(FORMATS[i]);
            i += 1;
        }
        tables
    };

    /// Oracle: the nearest of all decoded values, ties to the even code; of powers of two, to the larger one, and above the
    /// smallest to the next one at least.
    fn nearest<const F: usize>(x: f32) -> u8 {
        let format = FORMATS[F];
        let mut best = (f64::INFINITY, 0u8);
        for code in 0..=255u8 {
            let value = f32::from_bits(DECODE[F][code as usize]);
            let aliased = format.exponent + format.mantissa < 7 && code > 15;
            if !value.is_finite() || value.is_sign_negative() != x.is_sign_negative() || aliased {
                continue;
            }
            let distance = (f64::from(value) - f64::from(x)).abs();
            let tie_wins = F == 8 || code & 1 == 0;
            if distance < best.0 || (distance == best.0 && tie_wins) {
                best = (distance, code);
            }
        }
        if F == 8 && x.to_bits() > DECODE[F][0] {
            best.1.max(1)
        } else if format.kind == Kind::Fnuz && f32::from_bits(DECODE[F][best.1 as usize]) == 0.0 {
            0
        } else {
            best.1
        }
    }

    fn check_format<const F: usize>() {
        let format = FORMATS[F];
        for code in 0..=255u32 {
            let value = f32::from_bits(DECODE[F][code as usize]);
            let aliased = format.exponent + format.mantissa < 7 && code > 15;
            if !aliased && !value.is_nan() {
                assert_eq!(
                    u32::from(F8::<F>::encode(value).0),
                    code,
                    "format {F} value {value}"
                );
            }
        }
        let max = f32::from_bits(DECODE[F][format.max_finite() as usize]);
        for high in 0..=0xffffu32 {
            for low in [0u32, 1, 0x8000, 0xffff] {
                let x = f32::from_bits((high << 16) | low);
                if x.is_nan() || x.abs() > max || (F == 8 && (x <= 0.0)) {
                    continue;
                }
                let mut expect = nearest::<F>(x);
                if format.kind == Kind::Fnuz && x == 0.0 {
                    expect = 0;
                }
                if format.kind == Kind::Fnuz && F8::<F>::encode(x).0 == 0 && x < 0.0 {
                    assert!(x.abs() <= f32::from_bits(DECODE[F][1]) / 2.0);
                    continue;
                }
                assert_eq!(
                    F8::<F>::encode(x).0,
                    expect,
                    "format {F} x {x:e} {:x}",
                    x.to_bits()
                );
            }
        }
    }

    #[test]
    fn every_small_format_rounds_to_nearest_even() {
        check_format::<0>();
        check_format::<1>();
        check_format::<2>();
        check_format::<3>();
        check_format::<4>();
        check_format::<5>();
        check_format::<6>();
        check_format::<7>();
        check_format::<8>();
    }

    #[test]
    fn every_code_is_decoded_to_the_bits_of_its_value() {
        fn check<const F: usize>() {
            for code in 0..=255u8 {
                let bits = F8::<F>(code).decode().to_bits();
                assert_eq!(bits, DECODE[F][usize::from(code)], "format {F} code {code}");
            }
        }
        check::<0>();
        check::<1>();
        check::<2>();
        check::<3>();
        check::<4>();
        check::<5>();
        check::<6>();
        check::<7>();
        check::<8>();
    }

    #[test]
    fn special_values_follow_xla() {
        let inputs = [
            0.0,
            -0.0,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            1e30,
            -1e30,
            1e-40,
            -1e-40,
            7.0,
        ];
        let expect: [[u8; 10]; 9] = [
            [0x0, 0x8, 0x8, 0x7, 0xf, 0x7, 0xf, 0x0, 0x8, 0x7],
            [0x0, 0x80, 0x78, 0x70, 0xf0, 0x70, 0xf0, 0x0, 0x80, 0x5c],
            [0x0, 0x80, 0x7c, 0x78, 0xf8, 0x78, 0xf8, 0x0, 0x80, 0x4e],
            [0x0, 0x80, 0x7f, 0x7f, 0xff, 0x7f, 0xff, 0x0, 0x80, 0x4e],
            [0x0, 0x0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x0, 0x0, 0x56],
            [0x0, 0x0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x0, 0x0, 0x6e],
            [0x0, 0x80, 0x7e, 0x7c, 0xfc, 0x7c, 0xfc, 0x0, 0x80, 0x47],
            [0x0, 0x0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x0, 0x0, 0x4b],
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xe3, 0xff, 0x0, 0xff, 0x82],
        ];
        for (format, row) in expect.iter().enumerate() {
            for (&x, &code) in inputs.iter().zip(row) {
                assert_eq!(FORMATS[format].encode(x), code, "format {format} of {x}");
            }
        }
        // 1.5·2^127 is a tie between the largest power of two and the NaN beyond it.
        assert_eq!(FORMATS[8].encode(2.552_117_8e38), 0xff);
        assert_eq!(FORMATS[8].encode(1.5), 0x80);
    }

    #[test]
    fn halves_survive_a_round_trip_and_round_to_nearest_even() {
        for bits in 0..=u16::MAX {
            let half = F16(bits).decode();
            let brain = Bf16(bits).decode();
            if !half.is_nan() {
                assert_eq!(F16::encode(half), F16(bits));
                // The midpoint of neighbours goes to the even one, its neighbours in f32 to the nearer.
                let next = F16(bits.wrapping_add(1)).decode();
                if next.is_finite() && half.is_finite() && bits & 0x7fff != 0x7fff && bits != 0x7fff
                {
                    let middle = (half + next) / 2.0;
                    let even = if bits & 1 == 0 { bits } else { bits + 1 };
                    assert_eq!(F16::encode(middle), F16(even));
                    let towards = f32::from_bits(middle.to_bits() - 1);
                    if middle != 0.0 {
                        assert_eq!(F16::encode(towards), F16(bits));
                        assert_eq!(
                            F16::encode(f32::from_bits(middle.to_bits() + 1)),
                            F16(bits + 1)
                        );
                    }
                }
            } else {
                assert!(F16::encode(half).decode().is_nan());
            }
            if !brain.is_nan() {
                assert_eq!(Bf16::encode(brain), Bf16(bits));
            } else {
                assert!(Bf16::encode(brain).decode().is_nan());
            }
        }
        assert_eq!(F16::encode(65519.0), F16(0x7bff));
        assert_eq!(F16::encode(65520.0), F16(0x7c00));
        assert_eq!(Bf16::encode(f32::MAX), Bf16(0x7f80));
    }

    #[test]
    fn signs_are_those_of_the_way_through_f32() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (F16(bits), Bf16(bits));
            assert_eq!(half.negated(), F16::encode(-half.decode()));
            assert_eq!(half.magnitude(), F16::encode(half.decode().abs()));
            assert_eq!(brain.negated(), Bf16::encode(-brain.decode()));
            assert_eq!(brain.magnitude(), Bf16::encode(brain.decode().abs()));
        }
    }

    #[test]
    fn f64_and_integers_round_once() {
        // Just above a tie: rounding to f32 first would land on the tie and go down.
        let x = 1.0 + 1.0 / 256.0 + 1e-14;
        assert_eq!(Bf16::narrow(x), Bf16(0x3f81));
        assert_eq!(F16::narrow(1.0 + 1.0 / 2048.0 + 1e-14), F16(0x3c01));
        assert_eq!(F8::<3>::narrow(1.0 + 1.0 / 16.0 + 1e-14), F8(0x39));
        assert_eq!(Bf16::narrow((1i64 << 62) + (1 << 54) + 1), Bf16(0x5e81));
        assert_eq!(Bf16::narrow((1i64 << 62) + (1 << 54)), Bf16(0x5e80));
        assert_eq!(Bf16::narrow(f64::MAX), Bf16(0x7f80));
        assert!(F16::narrow(f64::NAN).decode().is_nan());
    }
}
