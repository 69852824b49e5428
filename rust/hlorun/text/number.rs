//! Numbers of literals: one scan per number, exact results.

use super::error::{Fault, Parsed};
use super::lexer::{Cursor, snippet};

/// A number as the text writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// Digits only: sign and magnitude.
    Whole { negative: bool, magnitude: u64 },
    /// Anything with a point or exponent, or too large for 64 bits; infinities; NaN.
    Real(f64),
    /// `nan(0x…)` with its sign and payload.
    NanPayload { negative: bool, payload: u64 },
    /// `true`, `false`.
    Bool(bool),
}

impl Number {
    /// The value as XLA's parser holds it before it narrows.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Whole {
                negative,
                magnitude,
            } => {
                let value = magnitude as f64;
                if negative { -value } else { value }
            }
            Number::Real(value) => value,
            Number::NanPayload { negative, .. } => {
                f64::NAN.copysign(if negative { -1.0 } else { 1.0 })
            }
            Number::Bool(value) => f64::from(u8::from(value)),
        }
    }
}

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// The number at the cursor, space already skipped.
#[inline]
pub(crate) fn parse_number(cursor: &mut Cursor<'_>) -> Parsed<Number> {
    let source = cursor.source;
    let start = cursor.position;
    let negative = cursor.peek() == b'-';
    let mut at = start + usize::from(negative);

    let mut mantissa = 0u64;
    let mut digits = 0usize;
    let mut exact = true;
    let mut push = |d: u8| {
        if mantissa < (u64::MAX - 9) / 10 {
            mantissa = mantissa * 10 + u64::from(d);
            true
        } else {
            exact = false;
            false
        }
    };
    while let Some(d) = digit(source, at) {
        push(d);
        digits += 1;
        at += 1;
    }
    let mut scale = 0i64;
    let mut whole = true;
    if source.get(at) == Some(&b'.') {
        whole = false;
        at += 1;
        while let Some(d) = digit(source, at) {
            if push(d) {
                scale -= 1;
            }
            digits += 1;
            at += 1;
        }
    }
    if digits == 0 {
        return parse_word(cursor, negative);
    }
    if let Some((exponent, end)) = exponent(source, at) {
        scale += exponent;
        whole = false;
        at = end;
    }
    cursor.position = at;
    if whole {
        if exact {
            return Ok(Number::Whole {
                negative,
                magnitude: mantissa,
            });
        }
        // Twenty digits may still fit.
        let text = &source[start + usize::from(negative)..at];
        if let Some(magnitude) = std::str::from_utf8(text)
            .ok()
            .and_then(|t| t.parse::<u64>().ok())
        {
            return Ok(Number::Whole {
                negative,
                magnitude,
            });
        }
    } else if exact && mantissa < 1 << 53 && scale.unsigned_abs() < POWERS.len() as u64 {
        let power = POWERS[scale.unsigned_abs() as usize];
        let value = if scale < 0 {
            mantissa as f64 / power
        } else {
            mantissa as f64 * power
        };
        return Ok(Number::Real(if negative { -value } else { value }));
    }
    long_number(source, start, at)
}

/// The digit at a place, if one stands there.
#[inline(always)]
fn digit(source: &[u8], at: usize) -> Option<u8> {
    let digit = source.get(at)?.wrapping_sub(b'0');
    (digit < 10).then_some(digit)
}

/// The exponent that starts at `at`, and where it ends.
#[inline]
fn exponent(source: &[u8], at: usize) -> Option<(i64, usize)> {
    if !matches!(source.get(at), Some(b'e' | b'E')) {
        return None;
    }
    let mut ahead = at + 1;
    let minus = source.get(ahead) == Some(&b'-');
    if minus || source.get(ahead) == Some(&b'+') {
        ahead += 1;
    }
    let mut exponent = i64::from(digit(source, ahead)?);
    ahead += 1;
    while let Some(d) = digit(source, ahead) {
        exponent = (exponent * 10 + i64::from(d)).min(1 << 40);
        ahead += 1;
    }
    Some((if minus { -exponent } else { exponent }, ahead))
}

/// A number with more digits than can be read exactly as they come.
fn long_number(source: &[u8], start: usize, end: usize) -> Parsed<Number> {
    let text = &source[start..end];
    let value = std::str::from_utf8(text).ok();
    match value.and_then(|text| text.parse::<f64>().ok()) {
        Some(value) if value.is_infinite() => Err(Fault::new(
            start,
            format!("{} is beyond the range of a 64-bit float", snippet(text)),
        )),
        Some(value) => Ok(Number::Real(value)),
        None => Err(Fault::new(
            start,
            format!("'{}' is no number", snippet(text)),
        )),
    }
}

/// `inf`, `nan`, `nan(0x…)`, `true`, `false`; a sign was seen when `negative`.
#[inline(never)]
fn parse_word(cursor: &mut Cursor<'_>, negative: bool) -> Parsed<Number> {
    let mut ahead = *cursor;
    ahead.position += usize::from(negative);
    let sign = if negative { -1.0 } else { 1.0 };
    let number = if ahead.eat_word(b"inf") {
        Number::Real(f64::INFINITY * sign)
    } else if ahead.eat_word(b"nan") {
        if ahead.peek() == b'(' {
            ahead.position += 1;
            let payload = parse_payload(&mut ahead)?;
            Number::NanPayload { negative, payload }
        } else {
            Number::Real(f64::NAN.copysign(sign))
        }
    } else if !negative && ahead.eat_word(b"true") {
        Number::Bool(true)
    } else if !negative && ahead.eat_word(b"false") {
        Number::Bool(false)
    } else {
        return Err(cursor.expected("a number"));
    };
    *cursor = ahead;
    Ok(number)
}

/// The rest of `(0x7fff)`.
fn parse_payload(cursor: &mut Cursor<'_>) -> Parsed<u64> {
    let start = cursor.position;
    let bad = |cursor: &Cursor<'_>| cursor.expected("a NaN payload such as (0x400000)");
    if !cursor.eat_text(b"0x") {
        return Err(bad(cursor));
    }
    let digits = cursor.source[cursor.position..]
        .iter()
        .take_while(|b| b.is_ascii_hexdigit())
        .count();
    let text = &cursor.source[cursor.position..cursor.position + digits];
    cursor.position += digits;
    if digits == 0 || cursor.peek() != b')' {
        return Err(bad(cursor));
    }
    cursor.position += 1;
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| u64::from_str_radix(text, 16).ok())
        .filter(|&payload| payload != 0 && payload < 1 << 52)
        .ok_or_else(|| Fault::new(start, "this NaN payload is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        parse_number(&mut Cursor::new(text.as_bytes())).unwrap_or(Number::Bool(false))
    }

    #[test]
    fn reals_are_those_of_the_standard_library() {
        for text in [
            "0.001",
            "-0.0833333358",
            "1e-45",
            "3.4028235e38",
            "1.7976931348623157e308",
            "1e300",
            "4.9406564584124654e-324",
            "123456789012345678901234567890",
            ".5",
            "5.",
            "1e22",
            "1e23",
            "9007199254740993.0",
            "0.1e-10",
            "2.2250738585072011e-308",
            "-0.0",
        ] {
            let expected: f64 = text.parse().unwrap_or(f64::NAN);
            assert_eq!(
                number(text).as_f64().to_bits(),
                expected.to_bits(),
                "{text}"
            );
        }
    }

    #[test]
    fn words_and_whole_numbers() {
        assert_eq!(
            number("18446744073709551615"),
            Number::Whole {
                negative: false,
                magnitude: u64::MAX
            }
        );
        assert_eq!(
            number("-7"),
            Number::Whole {
                negative: true,
                magnitude: 7
            }
        );
        assert_eq!(number("-inf"), Number::Real(f64::NEG_INFINITY));
        assert_eq!(
            number("nan(0x7)"),
            Number::NanPayload {
                negative: false,
                payload: 7
            }
        );
        assert_eq!(number("true"), Number::Bool(true));
    }
}
