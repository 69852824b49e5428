//! Integers in the bytes of literals.

use super::PrimitiveType;

/// The integer or truth value that begins with the first of `bytes`; `None` of other types, and of `u64`.
pub fn integer(bytes: &[u8], ty: PrimitiveType) -> Option<i64> {
    let raw = match ty.size_bytes() {
        1 => i64::from(*bytes.first()?),
        2 => i64::from(u16::from_ne_bytes(*bytes.first_chunk()?)),
        4 => i64::from(u32::from_ne_bytes(*bytes.first_chunk()?)),
        8 => i64::from_ne_bytes(*bytes.first_chunk()?),
        _ => return None,
    };
    wrapped(raw, ty)
}

/// `value` as the type holds it.
pub fn wrapped(value: i64, ty: PrimitiveType) -> Option<i64> {
    Some(match ty {
        PrimitiveType::Pred => i64::from(value != 0),
        PrimitiveType::S32 => i64::from(value as i32),
        PrimitiveType::S64 => value,
        PrimitiveType::U32 => i64::from(value as u32),
        PrimitiveType::S16 => i64::from(value as i16),
        PrimitiveType::S8 => i64::from(value as i8),
        PrimitiveType::U8 => i64::from(value as u8),
        PrimitiveType::U16 => i64::from(value as u16),
        _ => return None,
    })
}
