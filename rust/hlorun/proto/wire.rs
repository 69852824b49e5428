//! The fields of a message as they lie in its bytes, for what needs a few of them only.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// The value of a field.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// A number or a truth value.
    Number(u64),
    /// A string, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// A number of fixed width, or a group.
    Other,
    /// No field: the bytes are broken, and what follows is not read.
    Broken,
}

/// Fields of a message with their numbers.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The fields called `number` that are bytes.
    pub fn all_bytes(self, number: u32) -> impl Iterator<Item = &'a [u8]> {
        self.filter_map(move |field| match field {
            (at, Value::Bytes(bytes)) if at == number => Some(bytes),
            _ => None,
        })
    }

    /// The first of them.
    pub fn bytes(self, number: u32) -> Option<&'a [u8]> {
        self.all_bytes(number).next()
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = read_field(&mut self.0);
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.unwrap_or((0, Value::Broken)))
    }
}

fn read_field<'a>(bytes: &mut &'a [u8]) -> Option<(u32, Value<'a>)> {
    let (number, wire_type) = decode_key(bytes).ok()?;
    let value = match wire_type {
        WireType::Varint => Value::Number(decode_varint(bytes).ok()?),
        WireType::LengthDelimited => {
            let length = usize::try_from(decode_varint(bytes).ok()?).ok()?;
            let (value, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            Value::Bytes(value)
        }
        _ => {
            skip_field(wire_type, number, bytes, DecodeContext::default()).ok()?;
            Value::Other
        }
    };
    Some((number, value))
}

/// Appends the numbers of a repeated field; `None` where they are broken.
pub fn append_numbers(value: Value<'_>, out: &mut impl Extend<i64>) -> Option<()> {
    match value {
        Value::Number(number) => out.extend([number as i64]),
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                out.extend([decode_varint(&mut packed).ok()? as i64]);
            }
        }
        Value::Other | Value::Broken => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_order_and_broken_ones_end_them() {
        // 1: "ab", 2: 300, 3: packed 1 and 2, then a length beyond the end.
        let bytes = [
            0x0a, 2, b'a', b'b', 0x10, 0xac, 2, 0x1a, 2, 1, 2, 0x22, 9, 0,
        ];
        assert_eq!(Fields(&bytes).bytes(1), Some(&b"ab"[..]));
        let mut numbers = Vec::new();
        for (at, value) in Fields(&bytes) {
            match at {
                2 | 3 => append_numbers(value, &mut numbers).expect("they are numbers"),
                0 => assert!(matches!(value, Value::Broken)),
                _ => {}
            }
        }
        assert_eq!(numbers, [300, 1, 2]);
        assert_eq!(Fields(&bytes).count(), 4);
    }
}
