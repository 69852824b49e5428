//! Numbers as XLA writes them: `%.*g` with just enough digits that the value can be read back.

use std::fmt::Write;

use crate::types::PrimitiveType;

/// A binary format of at most 16 bits.
struct SmallFloat {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    /// What the largest exponent and the negative zero stand for.
    special: Special,
    /// Digits that tell any two values apart.
    digits: usize,
}

#[derive(PartialEq)]
enum Special {
    /// Infinities and NaNs as in IEEE 754.
    Ieee,
    /// No infinity; only all ones is NaN.
    Finite,
    /// No infinity, no negative zero; its pattern is NaN.
    FiniteUnsignedZero,
    /// Every pattern is a number.
    NoNan,
}

fn small_float(element_type: PrimitiveType) -> Option<SmallFloat> {
    use PrimitiveType::*;
    use Special::*;
    let (exponent_bits, mantissa_bits, bias, special, digits) = match element_type {
        F4E2M1FN => (2, 1, 1, NoNan, 2),
        F8E3M4 => (3, 4, 3, Ieee, 3),
        F8E4M3 => (4, 3, 7, Ieee, 3),
        F8E4M3FN => (4, 3, 7, Finite, 3),
        F8E4M3FNUZ => (4, 3, 8, FiniteUnsignedZero, 3),
        F8E4M3B11FNUZ => (4, 3, 11, FiniteUnsignedZero, 3),
        F8E5M2 => (5, 2, 15, Ieee, 2),
        F8E5M2FNUZ => (5, 2, 16, FiniteUnsignedZero, 2),
        F16 => (5, 10, 15, Ieee, 5),
        BF16 => (8, 7, 127, Ieee, 4),
        _ => return None,
    };
    Some(SmallFloat {
        exponent_bits,
        mantissa_bits,
        bias,
        special,
        digits,
    })
}

/// Appends the number in `bytes`, one element of a floating-point type, native endian.
pub fn write_float(out: &mut String, element_type: PrimitiveType, bytes: &[u8]) {
    match (element_type, bytes) {
        (PrimitiveType::F32, &[a, b, c, d]) => write_f32(out, f32::from_ne_bytes([a, b, c, d])),
        (PrimitiveType::F64, bytes) => {
            if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
                write_f64(out, f64::from_ne_bytes(bytes));
            }
        }
        (PrimitiveType::F8E8M0FNU, &[bits]) => match bits {
            0xff => out.push_str("nan"),
            bits => write_g(out, 2.0f64.powi(i32::from(bits) - 127), 2),
        },
        (element_type, &[low]) => write_small(out, element_type, u16::from(low)),
        (element_type, &[a, b]) => write_small(out, element_type, u16::from_ne_bytes([a, b])),
        _ => {}
    }
}

fn write_small(out: &mut String, element_type: PrimitiveType, bits: u16) {
    let Some(format) = small_float(element_type) else {
        return;
    };
    let width = 1 + format.exponent_bits + format.mantissa_bits;
    let negative = bits >> (width - 1) & 1 == 1;
    let exponent = i32::from(bits >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
    let mantissa = bits & ((1 << format.mantissa_bits) - 1);
    let all_ones = exponent == (1 << format.exponent_bits) - 1;
    let is_nan = match format.special {
        Special::Ieee => all_ones && mantissa != 0,
        Special::Finite => all_ones && mantissa == (1 << format.mantissa_bits) - 1,
        Special::FiniteUnsignedZero => negative && exponent == 0 && mantissa == 0,
        Special::NoNan => false,
    };
    if is_nan {
        out.push_str(if negative { "-nan" } else { "nan" });
        if format.special == Special::Ieee {
            write_nan_payload(out, u64::from(mantissa), format.mantissa_bits);
        }
        return;
    }
    if format.special == Special::Ieee && all_ones {
        out.push_str(if negative { "-inf" } else { "inf" });
        return;
    }
    let steps = f64::from(mantissa);
    let scale = 1i32 - format.bias - format.mantissa_bits as i32;
    let magnitude = if exponent == 0 {
        steps * 2.0f64.powi(scale)
    } else {
        (steps + f64::from(1u32 << format.mantissa_bits)) * 2.0f64.powi(scale + exponent - 1)
    };
    write_g(
        out,
        if negative { -magnitude } else { magnitude },
        format.digits,
    );
}

/// Appends a number by its `shortest` digits in the form of Rust's `{:e}`, if they are no more than
/// `precision`: then they are those of `%.*g`, too. `false` for others.
fn write_shortest(out: &mut String, shortest: &str, precision: usize) -> bool {
    let (sign, shortest) = match shortest.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", shortest),
    };
    let Some((digits, exponent)) = shortest.split_once('e') else {
        return false;
    };
    let (first, rest) = digits.split_once('.').unwrap_or((digits, ""));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if 1 + rest.len() > precision {
        return false;
    }
    out.push_str(sign);
    if exponent < -4 || exponent >= precision as i32 {
        out.push_str(digits);
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "e{sign}{:02}", exponent.unsigned_abs());
    } else if exponent < 0 {
        out.push_str(&"0.0000"[..(1 - exponent) as usize]);
        out.push_str(first);
        out.push_str(rest);
    } else {
        let (whole, fraction) = rest.split_at(rest.len().min(exponent as usize));
        out.push_str(first);
        out.push_str(whole);
        (whole.len()..exponent as usize).for_each(|_| out.push('0'));
        if !fraction.is_empty() {
            out.push('.');
            out.push_str(fraction);
        }
    }
    true
}

/// Appends an `f32`: 6 digits where they suffice, else 9.
pub fn write_f32(out: &mut String, value: f32) {
    // Subnormal numbers have too few significant digits: they take the general path.
    if value.is_normal() && write_shortest(out, &format!("{value:e}"), 6) {
        return;
    }
    let start = out.len();
    write_g(out, f64::from(value), 6);
    if value.is_nan() {
        write_nan_payload(out, u64::from(value.to_bits() & 0x7f_ffff), 23);
    } else if out[start..].parse() != Ok(value) {
        out.truncate(start);
        write_g(out, f64::from(value), 9);
    }
}

/// Appends an `f64`: 15 digits where they suffice, else 17.
pub fn write_f64(out: &mut String, value: f64) {
    if value.is_normal() && write_shortest(out, &format!("{value:e}"), 15) {
        return;
    }
    let start = out.len();
    write_g(out, value, 15);
    if value.is_nan() {
        write_nan_payload(out, value.to_bits() & ((1 << 52) - 1), 52);
    } else if out[start..].parse() != Ok(value) {
        out.truncate(start);
        write_g(out, value, 17);
    }
}

/// `(0x1)`, unless the payload is that of the ordinary quiet NaN.
fn write_nan_payload(out: &mut String, payload: u64, bits: u32) {
    if payload != 1 << (bits - 1) {
        let _ = write!(out, "(0x{payload:x})");
    }
}

/// Appends `value` as C's `%.*g` writes it.
pub fn write_g(out: &mut String, value: f64, precision: usize) {
    if value.is_nan() {
        out.push_str(if value.is_sign_negative() {
            "-nan"
        } else {
            "nan"
        });
        return;
    }
    if value.is_infinite() {
        out.push_str(if value < 0.0 { "-inf" } else { "inf" });
        return;
    }
    if value == 0.0 {
        out.push_str(if value.is_sign_negative() { "-0" } else { "0" });
        return;
    }
    // The exponent after rounding decides between the two forms.
    let scientific = format!("{value:.*e}", precision - 1);
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        out.push_str(without_trailing_zeros(digits));
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "e{sign}{:02}", exponent.unsigned_abs());
    } else {
        let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
        let fixed = format!("{value:.decimals$}");
        out.push_str(without_trailing_zeros(&fixed));
    }
}

fn without_trailing_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32_text(value: f32) -> String {
        let mut out = String::new();
        write_f32(&mut out, value);
        out
    }

    #[test]
    fn shortest_digits_are_those_of_the_general_way() {
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as u32
        };
        for _ in 0..20_000 {
            let few = f64::from(next() % 3_000_000) / 10f64.powi((next() % 24) as i32 - 8);
            for value in [
                few as f32,
                -(few as f32),
                f32::from_bits(next() << 1 ^ next()),
            ] {
                let mut general = String::new();
                write_g(&mut general, f64::from(value), 6);
                let mut short = String::new();
                if value.is_normal() && write_shortest(&mut short, &format!("{value:e}"), 6) {
                    assert_eq!(short, general, "{value:e}");
                } else if value.is_normal() {
                    assert_ne!(general.parse(), Ok(value), "{value:e}");
                }
            }
            let mut general = String::new();
            write_g(&mut general, few, 15);
            let mut short = String::new();
            if few.is_normal() && write_shortest(&mut short, &format!("{few:e}"), 15) {
                assert_eq!(short, general, "{few:e}");
            }
        }
    }

    #[test]
    fn floats_have_the_digits_they_need() {
        let cases: [(f32, &str); 16] = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.333333343"),
            (1e6, "1e+06"),
            (123456.0, "123456"),
            (1234567.0, "1234567"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (f32::INFINITY, "inf"),
            (f32::NEG_INFINITY, "-inf"),
            (f32::NAN, "nan"),
            (-f32::NAN, "-nan"),
            (f32::from_bits(0x7fc0_0001), "nan(0x400001)"),
            (f32::MAX, "3.40282347e+38"),
        ];
        for (value, text) in cases {
            assert_eq!(f32_text(value), text);
        }
    }

    #[test]
    fn ties_go_to_even() {
        let mut out = String::new();
        write_g(&mut out, 1.03125, 5);
        write_g(&mut out, 1.09375, 5);
        assert_eq!(out, "1.03121.0938");
    }

    #[test]
    fn small_formats_have_their_specials() {
        use PrimitiveType::*;
        let cases: [(PrimitiveType, &[u8], &str); 12] = [
            (F8E4M3FN, &[0x7e], "448"),
            (F8E4M3FN, &[0x7f], "nan"),
            (F8E4M3FN, &[0xff], "-nan"),
            (F8E4M3FNUZ, &[0x80], "-nan"),
            (F8E5M2, &[0x7c], "inf"),
            (F8E5M2, &[0x7e], "nan"),
            (F8E5M2, &[0x7f], "nan(0x3)"),
            (F4E2M1FN, &[0x0f], "-6"),
            (F8E8M0FNU, &[127], "1"),
            (F16, &0x3555u16.to_ne_bytes(), "0.33325"),
            (BF16, &0x3eabu16.to_ne_bytes(), "0.334"),
            (BF16, &0x7f80u16.to_ne_bytes(), "inf"),
        ];
        for (element_type, bytes, text) in cases {
            let mut out = String::new();
            write_float(&mut out, element_type, bytes);
            assert_eq!(out, text, "{element_type:?} {bytes:?}");
        }
    }
}
