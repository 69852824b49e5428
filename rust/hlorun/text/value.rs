//! Elements of literals: a number of the text as the bytes of an element type.

use super::error::{Fault, Parsed};
use super::lexer::{Cursor, snippet};
use super::number::{Number, parse_number};
use super::small_float;
use crate::types::PrimitiveType;
use crate::types::primitive_type::NumberClass;

/// Appends the element of type `ty` at the cursor to `bytes`.
pub(crate) fn parse_element(
    cursor: &mut Cursor<'_>,
    ty: PrimitiveType,
    bytes: &mut Vec<u8>,
) -> Parsed<()> {
    let start = cursor.position;
    if ty.is_complex() {
        let (re, im) = if cursor.eat(b'(') {
            cursor.skip_space();
            let re = parse_number(cursor)?;
            cursor.expect(b',', "',' between real and imaginary part")?;
            cursor.skip_space();
            let im = parse_number(cursor)?;
            cursor.expect(b')', "')' after a complex number")?;
            (re, im)
        } else {
            (parse_number(cursor)?, Number::Real(0.0))
        };
        let part = ty.component();
        return if put(re, part, bytes) && put(im, part, bytes) {
            Ok(())
        } else {
            Err(out_of_range(cursor, start, ty))
        };
    }
    let number = parse_number(cursor)?;
    if put(number, ty, bytes) {
        Ok(())
    } else {
        Err(out_of_range(cursor, start, ty))
    }
}

/// Reads on while plain `, number` follows; stops silently before anything else, or at `most`.
#[inline]
pub(crate) fn parse_run(
    cursor: &mut Cursor<'_>,
    ty: PrimitiveType,
    bytes: &mut Vec<u8>,
    seen: &mut i64,
    most: i64,
) {
    if ty.is_complex() {
        return;
    }
    while *seen < most && cursor.peek() == b',' {
        let mut ahead = *cursor;
        ahead.position += 1;
        ahead.skip_space();
        let Ok(number) = parse_number(&mut ahead) else {
            return;
        };
        let length = bytes.len();
        if !put(number, ty, bytes) {
            bytes.truncate(length);
            return;
        }
        *seen += 1;
        *cursor = ahead;
    }
}

#[cold]
fn out_of_range(cursor: &Cursor<'_>, start: usize, ty: PrimitiveType) -> Box<Fault> {
    Fault::new(
        start,
        format!(
            "{} is no value of type {}",
            snippet(&cursor.source[start..cursor.position]),
            ty.name()
        ),
    )
}

/// Appends `number` as a `ty`; `false` when it is none of the type's values.
#[inline]
fn put(number: Number, ty: PrimitiveType, bytes: &mut Vec<u8>) -> bool {
    match ty.class() {
        NumberClass::Signed => put_signed(number, ty, bytes),
        NumberClass::Unsigned => put_unsigned(number, ty, bytes),
        NumberClass::Float => put_float(number, ty, bytes),
        NumberClass::Pred => match number {
            Number::Bool(value) => {
                bytes.push(u8::from(value));
                true
            }
            Number::Whole { magnitude, .. } => {
                bytes.push(u8::from(magnitude != 0));
                true
            }
            _ => false,
        },
        NumberClass::Complex => false,
    }
}

#[inline]
fn put_signed(number: Number, ty: PrimitiveType, bytes: &mut Vec<u8>) -> bool {
    let (negative, magnitude) = match number {
        Number::Whole {
            negative,
            magnitude,
        } => (negative, magnitude),
        Number::Bool(_) | Number::Real(_) | Number::NanPayload { .. } => return false,
    };
    let limit = (1u64 << (ty.bit_width() - 1)) - u64::from(!negative);
    if magnitude > limit {
        return false;
    }
    let value = if negative {
        (magnitude as i64).wrapping_neg()
    } else {
        magnitude as i64
    };
    bytes.extend_from_slice(&value.to_ne_bytes_of(ty.size_bytes()));
    true
}

#[inline]
fn put_unsigned(number: Number, ty: PrimitiveType, bytes: &mut Vec<u8>) -> bool {
    let value = match number {
        Number::Whole {
            negative: false,
            magnitude,
        } => magnitude,
        // XLA reads 64-bit unsigned numbers through signed ones.
        Number::Whole {
            negative: true,
            magnitude,
        } if magnitude == 0 || ty == PrimitiveType::U64 && magnitude <= 1 << 63 => {
            magnitude.wrapping_neg()
        }
        _ => return false,
    };
    if ty.bit_width() < 64 && value >> ty.bit_width() != 0 {
        return false;
    }
    bytes.extend_from_slice(&(value as i64).to_ne_bytes_of(ty.size_bytes()));
    true
}

/// The low bytes of a number in native order.
trait LowBytes {
    fn to_ne_bytes_of(self, count: usize) -> smallvec::SmallVec<[u8; 8]>;
}

impl LowBytes for i64 {
    #[inline]
    fn to_ne_bytes_of(self, count: usize) -> smallvec::SmallVec<[u8; 8]> {
        match count {
            1 => smallvec::SmallVec::from_slice(&(self as i8).to_ne_bytes()),
            2 => smallvec::SmallVec::from_slice(&(self as i16).to_ne_bytes()),
            4 => smallvec::SmallVec::from_slice(&(self as i32).to_ne_bytes()),
            _ => smallvec::SmallVec::from_slice(&self.to_ne_bytes()),
        }
    }
}

#[inline]
fn put_float(number: Number, ty: PrimitiveType, bytes: &mut Vec<u8>) -> bool {
    if let Number::NanPayload { negative, payload } = number {
        if payload == 1 << 51 {
            // The payload of an ordinary quiet NaN.
            let nan = number.as_f64();
            return put_float(Number::Real(nan), ty, bytes);
        }
        return put_nan(negative, payload, ty, bytes);
    }
    if matches!(number, Number::Bool(_)) {
        return false;
    }
    let value = number.as_f64();
    match ty {
        PrimitiveType::F64 => bytes.extend_from_slice(&value.to_ne_bytes()),
        PrimitiveType::F32 => {
            let narrow = value as f32;
            if narrow.is_infinite() && value.is_finite() {
                return false;
            }
            bytes.extend_from_slice(&narrow.to_ne_bytes());
        }
        _ => match small_float::encode(ty, value) {
            Some(bits) if ty.size_bytes() == 2 => bytes.extend_from_slice(&bits.to_ne_bytes()),
            Some(bits) => bytes.push(bits as u8),
            None => return false,
        },
    }
    true
}

/// A NaN with exactly this payload.
fn put_nan(negative: bool, payload: u64, ty: PrimitiveType, bytes: &mut Vec<u8>) -> bool {
    match ty {
        PrimitiveType::F64 => {
            let bits = u64::from(negative) << 63 | 0x7ff << 52 | payload;
            bytes.extend_from_slice(&bits.to_ne_bytes());
            true
        }
        PrimitiveType::F32 if payload < 1 << 23 => {
            let bits = u32::from(negative) << 31 | 0xff << 23 | payload as u32;
            bytes.extend_from_slice(&bits.to_ne_bytes());
            true
        }
        _ => match small_float::encode_nan(ty, negative, payload) {
            Some(bits) if ty.size_bytes() == 2 => {
                bytes.extend_from_slice(&bits.to_ne_bytes());
                true
            }
            Some(bits) => {
                bytes.push(bits as u8);
                true
            }
            None => false,
        },
    }
}
