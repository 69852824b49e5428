//! Encoding of `f64` values in the float formats narrower than 32 bits.

use crate::types::PrimitiveType;

/// How a format writes what is no finite number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Specials {
    /// An all-ones exponent holds infinities and NaNs.
    Ieee,
    /// The all-ones pattern is NaN; there is no infinity.
    NanAllOnes,
    /// Minus zero's pattern is NaN; there is no infinity and no minus zero.
    NanMinusZero,
    /// Neither NaN nor infinity.
    None,
}

/// A binary float format.
#[derive(Clone, Copy, Debug)]
struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    specials: Specials,
}

fn format_of(ty: PrimitiveType) -> Option<Format> {
    use PrimitiveType::*;
    let (exponent_bits, mantissa_bits, bias, specials) = match ty {
        F4E2M1FN => (2, 1, 1, Specials::None),
        F8E3M4 => (3, 4, 3, Specials::Ieee),
        F8E4M3 => (4, 3, 7, Specials::Ieee),
        F8E4M3FN => (4, 3, 7, Specials::NanAllOnes),
        F8E4M3FNUZ => (4, 3, 8, Specials::NanMinusZero),
        F8E4M3B11FNUZ => (4, 3, 11, Specials::NanMinusZero),
        F8E5M2 => (5, 2, 15, Specials::Ieee),
        F8E5M2FNUZ => (5, 2, 16, Specials::NanMinusZero),
        F16 => (5, 10, 15, Specials::Ieee),
        BF16 => (8, 7, 127, Specials::Ieee),
        _ => return None,
    };
    Some(Format {
        exponent_bits,
        mantissa_bits,
        bias,
        specials,
    })
}

impl Format {
    fn exponent_mask(self) -> u32 {
        (1 << self.exponent_bits) - 1
    }

    fn sign(self) -> u32 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// The bits of the largest finite value.
    fn max_finite(self) -> u32 {
        match self.specials {
            Specials::Ieee => (self.exponent_mask() << self.mantissa_bits) - 1,
            Specials::NanAllOnes => self.sign() - 2,
            Specials::NanMinusZero | Specials::None => self.sign() - 1,
        }
    }

    /// The bits of a finite magnitude rounded to nearest, ties to even; may exceed `max_finite`.
    fn round(self, magnitude: f64) -> u32 {
        let bits = magnitude.to_bits();
        let exponent = (bits >> 52) as i32;
        if exponent == 0 {
            // Zero, or a double too small for any of these formats.
            return 0;
        }
        let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
        let target = exponent - 1023 + self.bias;
        // Bits of the 53-bit mantissa that do not fit; more of them for subnormal results.
        let drop = 52 - self.mantissa_bits as i32 + if target < 1 { 1 - target } else { 0 };
        if drop > 54 {
            return 0;
        }
        let kept = mantissa >> drop;
        let rest = mantissa & ((1u64 << drop) - 1);
        let half = 1u64 << (drop - 1);
        let rounded = kept + u64::from(rest > half || rest == half && kept & 1 == 1);
        if target < 1 {
            rounded as u32
        } else {
            // The hidden bit carries into the exponent field.
            (((target - 1) as u32) << self.mantissa_bits).saturating_add(rounded as u32)
        }
    }
}

/// The bits of `value` in format `ty`; `None` when a finite value is beyond the format's range, or
/// the format has no way to write it. For types that are not narrow floats, `None`.
pub(crate) fn encode(ty: PrimitiveType, value: f64) -> Option<u16> {
    if ty == PrimitiveType::F8E8M0FNU {
        return encode_e8m0(value).map(u16::from);
    }
    let format = format_of(ty)?;
    // XLA rounds to f32 on the way to the 16-bit formats, but not to the 8-bit ones.
    let value = match ty {
        PrimitiveType::F16 | PrimitiveType::BF16 if value.is_finite() => {
            let single = value as f32;
            if single.is_infinite() {
                return None;
            }
            f64::from(single)
        }
        _ => value,
    };
    let sign = if value.is_sign_negative() {
        format.sign()
    } else {
        0
    };
    if value.is_nan() {
        return match format.specials {
            Specials::Ieee => {
                let quiet = 1 << (format.mantissa_bits - 1);
                Some((sign | format.exponent_mask() << format.mantissa_bits | quiet) as u16)
            }
            Specials::NanAllOnes => Some((sign | (format.sign() - 1)) as u16),
            Specials::NanMinusZero => Some(format.sign() as u16),
            Specials::None => None,
        };
    }
    if value.is_infinite() {
        return match format.specials {
            Specials::Ieee => Some((sign | format.exponent_mask() << format.mantissa_bits) as u16),
            Specials::NanAllOnes => Some((sign | (format.sign() - 1)) as u16),
            Specials::NanMinusZero => Some(format.sign() as u16),
            Specials::None => None,
        };
    }
    let bits = format.round(value.abs());
    if bits > format.max_finite() {
        return None;
    }
    if bits == 0 && format.specials == Specials::NanMinusZero {
        return Some(0);
    }
    Some((sign | bits) as u16)
}

/// The bits of a NaN with this sign and payload; `None` when the format cannot hold it.
pub(crate) fn encode_nan(ty: PrimitiveType, negative: bool, payload: u64) -> Option<u16> {
    let format = format_of(ty)?;
    if format.specials != Specials::Ieee || payload >> format.mantissa_bits != 0 {
        return None;
    }
    let sign = if negative { format.sign() } else { 0 };
    Some((sign | format.exponent_mask() << format.mantissa_bits | payload as u32) as u16)
}

/// A power of two by its exponent alone; no sign, no zero.
fn encode_e8m0(value: f64) -> Option<u8> {
    if value.is_nan() || value.is_infinite() {
        return Some(0xff);
    }
    if value.is_sign_negative() || value == 0.0 {
        return None;
    }
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i32 - 1023 + 127;
    let mantissa = bits & ((1 << 52) - 1);
    let half = 1u64 << 51;
    let up = mantissa > half || mantissa == half && exponent & 1 == 1;
    // Anything smaller than the smallest power is the smallest power.
    u8::try_from((exponent + i32::from(up)).max(0))
        .ok()
        .filter(|&e| e != 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use PrimitiveType::*;

    #[test]
    fn every_half_round_trips() {
        for bits in 0..=u16::MAX {
            let value = half::f16::from_bits(bits);
            if !value.is_nan() {
                assert_eq!(encode(F16, value.to_f64()), Some(bits), "{bits:#x}");
            }
            let value = half::bf16::from_bits(bits);
            // Subnormal bf16 values are normal doubles, so all of them are exact.
            if !value.is_nan() {
                assert_eq!(encode(BF16, value.to_f64()), Some(bits), "{bits:#x}");
            }
        }
    }

    #[test]
    fn ties_go_to_even_and_range_ends_are_exact() {
        assert_eq!(encode(F8E4M3FN, 448.0), Some(0x7e));
        assert_eq!(encode(F8E4M3FN, 464.0), Some(0x7e));
        assert_eq!(encode(F8E4M3FN, 470.0), None);
        assert_eq!(encode(F8E4M3FN, f64::NAN), Some(0x7f));
        assert_eq!(encode(F8E5M2, 1.125), Some(0x3c));
        assert_eq!(encode(F8E5M2, 1.375), Some(0x3e));
        assert_eq!(encode(F8E4M3FNUZ, -0.0), Some(0));
        assert_eq!(encode(F8E4M3FNUZ, f64::NAN), Some(0x80));
        assert_eq!(encode(F4E2M1FN, 6.0), Some(7));
        assert_eq!(encode(F4E2M1FN, -0.5), Some(9));
        assert_eq!(encode(F8E8M0FNU, 1.0), Some(127));
        assert_eq!(encode(F8E8M0FNU, 0.0), None);
        assert_eq!(encode(F8E8M0FNU, 1e-45), Some(0));
        assert_eq!(encode(F16, 65504.0), Some(0x7bff));
        assert_eq!(encode(F16, 65520.0), None);
        assert_eq!(encode(F16, 1.0004882812500002), Some(0x3c00));
        assert_eq!(encode(BF16, 1.003906250000001), Some(0x3f80));
        assert_eq!(encode(F8E5M2, 1.1250000000000002), Some(0x3d));
    }
}
