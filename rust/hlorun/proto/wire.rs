//! The fields of a message as they lie in its bytes, for what needs a few of them only.

use prost::encoding::{DecodeContext, WireType, skip_field};
use smallvec::SmallVec;

use super::schema::numbered::{Kind, MOST_FIELDS};

/// The value of a field.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// A number or a truth value.
    Number(u64),
    /// A string, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// A number of four bytes.
    Float(f32),
    /// A number of eight bytes.
    Double(f64),
    /// A group.
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

    #[inline]
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

/// The field at the start of `bytes`, which become the rest; `None` where they are broken.
#[inline(always)]
pub fn read_field<'a>(bytes: &mut &'a [u8]) -> Option<(u32, Value<'a>)> {
    let key = key(bytes)?;
    let number = key >> 3;
    if number == 0 {
        return None;
    }
    // Branches on the two usual types are foretold better than a jump through a table.
    let value = if key & 7 == 2 {
        let length = usize::try_from(varint(bytes)?).ok()?;
        Value::Bytes(take(bytes, length)?)
    } else if key & 7 == 0 {
        Value::Number(varint(bytes)?)
    } else {
        rare_value(bytes, number, key & 7)?
    };
    Some((number, value))
}

/// The number and type of a field, whose varint has one byte or two: which of them is not branched on.
#[inline(always)]
fn key(bytes: &mut &[u8]) -> Option<u32> {
    match **bytes {
        [first, second, ..] if first & second < 0x80 => {
            let has_second = first >> 7;
            let upper = u32::from(second) << 7 & u32::from(has_second).wrapping_neg();
            *bytes = &bytes[1 + usize::from(has_second)..];
            Some(u32::from(first & 0x7f) | upper)
        }
        _ => u32::try_from(varint(bytes)?).ok(),
    }
}

/// A value of a type that few fields have.
#[cold]
fn rare_value<'a>(bytes: &mut &'a [u8], number: u32, wire_type: u32) -> Option<Value<'a>> {
    Some(match wire_type {
        5 => {
            let number = take(bytes, 4)?.try_into().ok()?;
            Value::Float(f32::from_le_bytes(number))
        }
        1 => {
            let number = take(bytes, 8)?.try_into().ok()?;
            Value::Double(f64::from_le_bytes(number))
        }
        other => {
            skip(bytes, number, other)?;
            Value::Other
        }
    })
}

/// Goes past a group.
#[cold]
fn skip(bytes: &mut &[u8], number: u32, wire_type: u32) -> Option<()> {
    let wire_type = WireType::try_from(u64::from(wire_type)).ok()?;
    skip_field(wire_type, number, bytes, DecodeContext::default()).ok()
}

/// The first `count` of `bytes`, which become the rest.
#[inline]
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (value, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(value)
}

/// The number at the start of `bytes`, which become the rest. Most have one byte, and most keys two.
#[inline(always)]
pub fn varint(bytes: &mut &[u8]) -> Option<u64> {
    match **bytes {
        [first, ref rest @ ..] if first < 0x80 => {
            *bytes = rest;
            Some(u64::from(first))
        }
        [first, second, ref rest @ ..] if second < 0x80 => {
            *bytes = rest;
            Some(u64::from(first & 0x7f) | u64::from(second) << 7)
        }
        _ => long_varint(bytes),
    }
}

/// A varint of any length. Ids of instructions have that of the computation in the upper 32 bits, hence
/// five bytes or more: up to eight are decoded at once.
#[inline]
fn long_varint(bytes: &mut &[u8]) -> Option<u64> {
    if let Some(eight) = bytes.first_chunk::<8>() {
        let word = u64::from_le_bytes(*eight);
        let ends = !word & 0x8080_8080_8080_8080;
        if ends != 0 {
            let count = ends.trailing_zeros() / 8 + 1;
            let word = word & (u64::MAX >> (64 - 8 * count)) & 0x7f7f_7f7f_7f7f_7f7f;
            let word = (word & 0x7f00_7f00_7f00_7f00) >> 1 | word & 0x007f_007f_007f_007f;
            let word = (word & 0x3fff_0000_3fff_0000) >> 2 | word & 0x0000_3fff_0000_3fff;
            let word = (word & 0x0fff_ffff_0000_0000) >> 4 | word & 0x0000_0000_0fff_ffff;
            *bytes = &bytes[count as usize..];
            return Some(word);
        }
    }
    let mut value = 0;
    for (at, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            *bytes = &bytes[at + 1..];
            // Nine bytes hold 63 bits: the tenth may only add one.
            return (at < 9 || byte <= 1).then_some(value);
        }
    }
    None
}

/// A field with its number.
pub type Field<'p> = (u32, Value<'p>);

/// Fields of a message, to be found by number: it is read once, however many are asked for.
#[derive(Clone, Copy)]
pub struct View<'f, 'p> {
    fields: &'f [Field<'p>],
    present: Present,
}

/// The numbers of the fields that a message has, a bit for each: most are asked for in vain.
#[derive(Clone, Copy, Default)]
pub struct Present(u128);

impl Present {
    /// The fields called `numbers`.
    pub const fn of(numbers: &[u32]) -> Present {
        let (mut at, mut bits) = (0, 0);
        while at < numbers.len() {
            bits |= 1 << numbers[at];
            at += 1;
        }
        Present(bits)
    }
}

const _: () = assert!(MOST_FIELDS == u128::BITS as usize);

/// How often single numbers of a message may be there once more, of which the last counts. No writer
/// does it, and a field in memory takes up to 16 times its bytes.
pub const MOST_AGAIN: usize = 64;

impl std::ops::BitOrAssign for Present {
    fn bitor_assign(&mut self, other: Present) {
        self.0 |= other.0;
    }
}

/// Calls `add` for the fields of the message in `bytes`, and says which of them it wants; `None` where
/// they are broken, or are not as `kinds` says.
#[inline]
pub fn read_fields<'p>(
    bytes: &'p [u8],
    kinds: &[Kind; MOST_FIELDS],
    mut add: impl FnMut(Field<'p>) -> bool,
) -> Option<Present> {
    let mut present = [0u64; 2];
    let (mut again, mut last) = (0, 0);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (number, mut value) = read_field(&mut rest)?;
        let Some(&kind) = kinds.get(number as usize) else {
            continue;
        };
        if kind == Kind::Unknown {
            continue;
        }
        let is_fine = match &mut value {
            Value::Bytes(packed) => {
                kind == Kind::Bytes || kind == Kind::Numbers && are_numbers(packed)
            }
            Value::Number(number) => {
                if kind == Kind::Int32 {
                    *number = *number as i32 as u64;
                }
                matches!(kind, Kind::Number | Kind::Int32 | Kind::Numbers)
            }
            Value::Float(_) => kind == Kind::Float,
            _ => false,
        };
        if !is_fine {
            return None;
        }
        // Writers write fields in the order of their numbers.
        if number <= std::mem::replace(&mut last, number) {
            let is_single = matches!(kind, Kind::Number | Kind::Int32 | Kind::Float);
            if is_single && present[number as usize / 64] >> (number % 64) & 1 != 0 {
                again += 1;
                if again > MOST_AGAIN {
                    return None;
                }
            }
        }
        if add((number, value)) {
            present[number as usize / 64] |= 1 << (number % 64);
        }
    }
    Some(Present(
        u128::from(present[1]) << 64 | u128::from(present[0]),
    ))
}

impl<'f, 'p> View<'f, 'p> {
    /// Of `fields`, which are all that `present` says.
    pub fn new(fields: &'f [Field<'p>], present: Present) -> View<'f, 'p> {
        View { fields, present }
    }

    /// Whether the message has a field called `number`, which is one of its kinds.
    #[inline]
    fn has(self, number: u32) -> bool {
        self.present.0 >> number & 1 != 0
    }

    /// The field called `number`; the last one counts.
    #[inline]
    fn value(self, number: u32) -> Option<Value<'p>> {
        if !self.has(number) {
            return None;
        }
        let found = self.fields.iter().rev().find(|field| field.0 == number);
        found.map(|field| field.1)
    }

    /// The number or truth value in a field; 0 where it is not there.
    #[inline]
    pub fn int(self, number: u32) -> i64 {
        match self.value(number) {
            Some(Value::Number(value)) => value as i64,
            _ => 0,
        }
    }

    /// The number in a field; `None` where the field is not there, as 0 is a value of its own.
    pub fn find_int(self, number: u32) -> Option<i64> {
        match self.value(number) {
            Some(Value::Number(value)) => Some(value as i64),
            _ => None,
        }
    }

    /// Whether the truth value in a field is true.
    pub fn is(self, number: u32) -> bool {
        self.int(number) != 0
    }

    /// The number of four bytes in a field; 0 where it is not there.
    pub fn float(self, number: u32) -> f32 {
        match self.value(number) {
            Some(Value::Float(value)) => value,
            _ => 0.0,
        }
    }

    /// The string or bytes in a field.
    #[inline]
    pub fn find(self, number: u32) -> Option<&'p [u8]> {
        match self.value(number) {
            Some(Value::Bytes(value)) => Some(value),
            _ => None,
        }
    }

    /// The same; none where the field is not there.
    #[inline]
    pub fn bytes(self, number: u32) -> &'p [u8] {
        self.find(number).unwrap_or_default()
    }

    /// Each string or message of a repeated field.
    pub fn each(self, number: u32) -> impl Iterator<Item = &'p [u8]> {
        let fields = if self.has(number) { self.fields } else { &[] };
        fields.iter().filter_map(move |field| match field {
            (at, Value::Bytes(value)) if *at == number => Some(*value),
            _ => None,
        })
    }

    /// The numbers of a repeated field.
    pub fn numbers(self, number: u32) -> SmallVec<[i64; 8]> {
        let mut numbers = SmallVec::new();
        self.each_number(number, |value| numbers.push(value));
        numbers
    }

    /// Calls `visit` with each of them.
    #[inline]
    pub fn each_number(self, number: u32, mut visit: impl FnMut(i64)) {
        if !self.has(number) {
            return;
        }
        for &(at, value) in self.fields {
            match value {
                Value::Number(value) if at == number => visit(value as i64),
                Value::Bytes(mut packed) if at == number => {
                    while let Some(value) = varint(&mut packed) {
                        visit(value as i64);
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether one of these fields is there.
    pub fn has_any(self, numbers: Present) -> bool {
        self.present.0 & numbers.0 != 0
    }
}

/// Whether `packed` is whole numbers one after the other.
#[inline]
fn are_numbers(packed: &[u8]) -> bool {
    let ends = packed.last().is_none_or(|&last| last < 0x80);
    // The longest number has ten bytes.
    ends && (packed.len() < 10 || are_many_numbers(packed))
}

#[inline(never)]
fn are_many_numbers(mut packed: &[u8]) -> bool {
    while !packed.is_empty() {
        if varint(&mut packed).is_none() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1: "ab", 2: 300, 3: packed 1 and 2, 2: 7.
    const BYTES: [u8; 13] = [0x0a, 2, b'a', b'b', 0x10, 0xac, 2, 0x1a, 2, 1, 2, 0x10, 7];

    #[test]
    fn numbers_are_cut_to_their_width_and_not_repeated_without_end() {
        let mut kinds = [Kind::Unknown; MOST_FIELDS];
        kinds[2] = Kind::Int32;
        let mut fields = Vec::new();
        // 2: 2^32 - 1, which is -1 of 32 bits.
        let bytes = [0x10, 0xff, 0xff, 0xff, 0xff, 0x0f];
        let present = read_fields(&bytes, &kinds, |field| keep(&mut fields, field));
        let view = View::new(&fields, present.expect("the field is whole"));
        assert_eq!(view.int(2), -1);
        for (count, is_read) in [(MOST_AGAIN + 1, true), (MOST_AGAIN + 2, false)] {
            let bytes = [0x10, 7].repeat(count);
            assert_eq!(read_fields(&bytes, &kinds, |_| true).is_some(), is_read);
        }
    }

    fn keep<'p>(fields: &mut Vec<Field<'p>>, field: Field<'p>) -> bool {
        fields.push(field);
        true
    }

    fn kinds(of_three: Kind) -> [Kind; MOST_FIELDS] {
        let mut kinds = [Kind::Unknown; MOST_FIELDS];
        kinds[1..4].copy_from_slice(&[Kind::Bytes, Kind::Numbers, of_three]);
        kinds
    }

    #[test]
    fn fields_are_read_in_order_and_broken_ones_end_them() {
        // A length beyond the end.
        let bytes = [&BYTES[..], &[0x22, 9, 0]].concat();
        assert_eq!(Fields(&bytes).bytes(1), Some(&b"ab"[..]));
        assert_eq!(Fields(&bytes).count(), 5);
        assert!(matches!(Fields(&bytes).last(), Some((0, Value::Broken))));
    }

    #[test]
    fn numbers_of_every_length_are_read() {
        for shift in 0..64 {
            for value in [
                1u64 << shift,
                u64::MAX >> shift,
                0x1234_5678_9abc_def1 >> shift,
            ] {
                let mut bytes = Vec::new();
                prost::encoding::encode_varint(value, &mut bytes);
                // Near the end of the bytes and far from it.
                for more in [0, 1, 9] {
                    let long = [&bytes[..], &vec![0xff; more]].concat();
                    let mut rest = &long[..];
                    assert_eq!((varint(&mut rest), rest.len()), (Some(value), more));
                }
                let mut short = &bytes[..bytes.len() - 1];
                assert_eq!(varint(&mut short), None);
            }
        }
        for broken in [
            &[0xff; 10][..],
            &[0x80; 12],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        ] {
            assert_eq!(varint(&mut &broken[..]), None, "{broken:x?}");
        }
    }

    #[test]
    fn views_find_fields_by_number() {
        let mut fields = Vec::new();
        let present = read_fields(&BYTES, &kinds(Kind::Numbers), |field| {
            keep(&mut fields, field)
        });
        let view = View::new(&fields, present.expect("the fields are whole"));
        assert_eq!(view.bytes(1), b"ab");
        assert_eq!((view.int(2), view.int(1), view.int(9)), (7, 0, 0));
        assert_eq!(view.numbers(2)[..], [300, 7]);
        assert_eq!(view.numbers(3)[..], [1, 2]);
        assert_eq!(view.each(1).count(), 1);
    }

    #[test]
    fn a_field_of_another_kind_breaks_its_message() {
        for kind in [Kind::Number, Kind::Float] {
            assert!(read_fields(&BYTES, &kinds(kind), |_| true).is_none());
        }
        // A packed number without an end.
        let bytes = [0x1a, 1, 0x80];
        assert!(read_fields(&bytes, &kinds(Kind::Numbers), |_| true).is_none());
        assert!(read_fields(&bytes, &kinds(Kind::Bytes), |_| true).is_some());
    }
}
