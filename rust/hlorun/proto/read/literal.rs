//! Values: `LiteralProto` → [`Literal`]. Elements change from the order of the layout to row-major.

use std::sync::Arc;

use prost::Message;
use prost::bytes::Bytes;
use smallvec::SmallVec;

use super::shape::PlainShape;
use crate::error::{HloError, Result};
use crate::proto::schema::{LiteralProto, ShapeProto, literal as field};
use crate::proto::wire::{Fields, Value, varint};
use crate::proto::{fault, numbers};
use crate::text::Limits;
use crate::types::PrimitiveType::{self, *};
use crate::types::strided::advance;
use crate::types::{ArrayShape, Layout, Literal, LiteralValue};

/// The value in `bytes`.
///
/// # Errors
/// [`HloError::Parse`] when it is broken.
pub fn read_literal(bytes: Bytes, limits: &Limits, filename: Option<&Arc<str>>) -> Result<Literal> {
    Reader { limits, filename }.literal(bytes, 0)
}

/// Most rows of an array without elements: its text prints every row, though the proto has no byte for them.
const MOST_ROWS: i64 = 1 << 16;

/// What the text of a literal has to write: elements, and rows without any. Recursion is bounded by the depth
/// that [`read_literal`] allows.
pub fn written(literal: &Literal) -> i64 {
    match &literal.value {
        LiteralValue::Tuple(parts) => parts
            .iter()
            .fold(0, |all: i64, part| all.saturating_add(written(part))),
        _ => {
            let elements = literal.shape.element_count().unwrap_or(i64::MAX);
            elements.max(rows_without_elements(&literal.shape.dims))
        }
    }
}

/// The product of the sizes that are not 0, where one is.
fn rows_without_elements(dims: &[i64]) -> i64 {
    match dims.contains(&0) {
        true => dims
            .iter()
            .filter(|&&dim| dim != 0)
            .fold(1, |rows, &dim| rows.saturating_mul(dim)),
        false => 0,
    }
}

struct Reader<'o> {
    limits: &'o Limits,
    filename: Option<&'o Arc<str>>,
}

impl Reader<'_> {
    #[cold]
    fn fault(&self, message: impl Into<String>) -> HloError {
        fault(self.filename, message)
    }

    fn literal(&self, bytes: Bytes, depth: usize) -> Result<Literal> {
        if depth > self.limits.literal_depth {
            return Err(self.fault("a literal of tuples that are nested too deep"));
        }
        if let Some(literal) = plain_literal(&bytes, self.limits) {
            return Ok(literal);
        }
        let proto = LiteralProto::decode(bytes)
            .map_err(|error| self.fault(format!("a broken LiteralProto: {error}")))?;
        let Some(shape) = &proto.shape else {
            return Err(self.fault("expected the shape of a literal"));
        };
        let nothing = |value| Literal {
            shape: ArrayShape::new(Pred, &[]),
            value,
        };
        match shape.element_type {
            numbers::TUPLE => {
                let parts = proto.tuple_literals.into_iter();
                let parts = parts.map(|part| self.literal(part, depth + 1));
                Ok(nothing(LiteralValue::Tuple(parts.collect::<Result<_>>()?)))
            }
            numbers::TOKEN => Ok(nothing(LiteralValue::Token)),
            _ => self.array(&proto, shape),
        }
    }

    fn array(&self, proto: &LiteralProto, shape: &ShapeProto) -> Result<Literal> {
        let Some(element_type) = numbers::element_type(shape.element_type) else {
            return Err(self.fault(format!("a literal of element type {}", shape.element_type)));
        };
        if shape.dimensions.len() > self.limits.rank || shape.dimensions.iter().any(|&dim| dim < 0)
        {
            return Err(self.fault("a literal of sizes that no array has"));
        }
        if rows_without_elements(&shape.dimensions) > MOST_ROWS {
            return Err(self.fault(format!(
                "a literal without elements in more than {MOST_ROWS} rows, which HLO text would write out"
            )));
        }
        let mut array = ArrayShape::new(element_type, &shape.dimensions);
        if let Some(layout) = &shape.layout {
            array.layout = self.layout(&layout.minor_to_major, array.rank())?;
        }
        let bytes = elements(proto, element_type);
        let count = array
            .element_count()
            .and_then(|count| usize::try_from(count).ok());
        let bytes = match count {
            Some(count) if array.byte_size() != Some(bytes.len()) => {
                unpack(&bytes, element_type, count).unwrap_or(bytes)
            }
            _ => bytes,
        };
        if array.byte_size() != Some(bytes.len()) {
            return Err(self.fault(format!(
                "expected the elements of a literal {array}, found {} bytes",
                bytes.len()
            )));
        }
        let bytes = row_major(&array, bytes);
        array.layout = None;
        Ok(Literal {
            shape: array,
            value: LiteralValue::Array(bytes.into_boxed_slice()),
        })
    }

    fn layout(&self, minor_to_major: &[i64], rank: usize) -> Result<Option<Layout>> {
        let order: SmallVec<[u8; 8]> = minor_to_major.iter().map(|&dim| dim as u8).collect();
        let mut sorted: Vec<i64> = minor_to_major.to_vec();
        sorted.sort_unstable();
        match sorted.iter().copied().eq(0..rank as i64) {
            true => Ok(Some(Layout {
                minor_to_major: order,
                extension: None,
            })),
            false => Err(self.fault(format!(
                "expected the layout of a literal of {rank} dimensions, found {minor_to_major:?}"
            ))),
        }
    }
}

/// An array in row-major order whose elements stand in one field, which is what most values are; `None`
/// for all others and for broken ones.
fn plain_literal(bytes: &[u8], limits: &Limits) -> Option<Literal> {
    let mut fields = Fields(bytes);
    let Some((field::shape, Value::Bytes(shape))) = fields.next() else {
        return None;
    };
    let shape = PlainShape::read(shape)?;
    let dims = unpacked(shape.dims)?;
    let order = unpacked(shape.order)?;
    let rank = dims.len();
    let is_row_major = order.iter().rev().copied().eq(0..rank as i64) || rank <= 1;
    if rank > limits.rank || dims.iter().any(|&dim| dim < 0) || order.len() != rank || !is_row_major
    {
        return None;
    }
    if rows_without_elements(&dims) > MOST_ROWS {
        return None;
    }
    let shape = ArrayShape::new(shape.element_type, &dims);
    let Some((number, Value::Bytes(packed))) = fields.next() else {
        return None;
    };
    let size = shape.byte_size()?;
    let elements = match (shape.element_type, number) {
        #[cfg(target_endian = "little")]
        (F32, field::f32s) | (F64, field::f64s) | (C64, field::c64s) | (C128, field::c128s) => {
            packed.to_vec()
        }
        (Pred, field::preds) => numbers_of(packed, size, |value| [u8::from(value != 0)])?,
        (S32, field::s32s) | (U32, field::u32s) => {
            numbers_of(packed, size, |value| (value as u32).to_ne_bytes())?
        }
        (S64, field::s64s) | (U64, field::u64s) => numbers_of(packed, size, u64::to_ne_bytes)?,
        _ => return None,
    };
    (elements.len() == size && fields.next().is_none()).then(|| Literal {
        shape,
        value: LiteralValue::Array(elements.into_boxed_slice()),
    })
}

/// Packed numbers; `None` where they are broken.
fn unpacked(mut packed: &[u8]) -> Option<SmallVec<[i64; 8]>> {
    let mut numbers = SmallVec::new();
    while !packed.is_empty() {
        numbers.push(varint(&mut packed)? as i64);
    }
    Some(numbers)
}

/// Packed numbers as elements, `size` bytes of them; `None` where they are broken, or not as many.
fn numbers_of<const N: usize>(
    mut packed: &[u8],
    size: usize,
    bytes: fn(u64) -> [u8; N],
) -> Option<Vec<u8>> {
    // A number has a byte at least, which bounds what is asked for.
    if packed.len() < size / N {
        return None;
    }
    let mut elements = Vec::with_capacity(size);
    while !packed.is_empty() {
        elements.extend_from_slice(&bytes(varint(&mut packed)?));
    }
    Some(elements)
}

/// The elements, as buffers hold them.
fn elements(proto: &LiteralProto, element_type: PrimitiveType) -> Vec<u8> {
    fn plain<T: Copy, const N: usize>(values: &[T], bytes: fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|&value| bytes(value)).collect()
    }
    if let Some(bytes) = byte_field(proto, element_type) {
        return bytes.to_vec();
    }
    match element_type {
        Pred => proto.preds.iter().map(|&value| u8::from(value)).collect(),
        S32 => plain(&proto.s32s, i32::to_ne_bytes),
        S64 => plain(&proto.s64s, i64::to_ne_bytes),
        U32 => plain(&proto.u32s, u32::to_ne_bytes),
        U64 => plain(&proto.u64s, u64::to_ne_bytes),
        F32 => plain(&proto.f32s, f32::to_ne_bytes),
        F64 => plain(&proto.f64s, f64::to_ne_bytes),
        C64 => plain(&proto.c64s, f32::to_ne_bytes),
        C128 => plain(&proto.c128s, f64::to_ne_bytes),
        _ => Vec::new(),
    }
}

/// The field of elements that are bytes already.
fn byte_field(proto: &LiteralProto, element_type: PrimitiveType) -> Option<&Bytes> {
    Some(match element_type {
        S1 => &proto.s1s,
        S2 => &proto.s2s,
        S4 => &proto.s4s,
        S8 => &proto.s8s,
        S16 => &proto.s16s,
        U1 => &proto.u1s,
        U2 => &proto.u2s,
        U4 => &proto.u4s,
        U8 => &proto.u8s,
        U16 => &proto.u16s,
        F4E2M1FN => &proto.f4e2m1fns,
        F8E3M4 => &proto.f8e3m4s,
        F8E4M3 => &proto.f8e4m3s,
        F8E4M3FN => &proto.f8e4m3fns,
        F8E4M3FNUZ => &proto.f8e4m3fnuzs,
        F8E4M3B11FNUZ => &proto.f8e4m3b11fnuzs,
        F8E5M2 => &proto.f8e5m2s,
        F8E5M2FNUZ => &proto.f8e5m2fnuzs,
        F8E8M0FNU => &proto.f8e8m0fnus,
        F16 => &proto.f16s,
        BF16 => &proto.bf16s,
        Pred | S32 | S64 | U32 | U64 | F32 | F64 | C64 | C128 => return None,
    })
}

/// Elements narrower than a byte, several in each, the first in the lowest bits; `None` when they do
/// not fill their bytes.
fn unpack(packed: &[u8], element_type: PrimitiveType, count: usize) -> Option<Vec<u8>> {
    let bits = element_type.bit_width() as usize;
    let is_narrow = bits < 8 && element_type != Pred;
    if !is_narrow || packed.len() != count.checked_mul(bits)?.div_ceil(8) {
        return None;
    }
    let per_byte = 8 / bits;
    let element = |at: usize| {
        let value = packed[at / per_byte] >> (at % per_byte * bits) & ((1 << bits) - 1);
        let sign = element_type.is_signed_integral() && value >> (bits - 1) & 1 == 1;
        if sign { value | (0xff << bits) } else { value }
    };
    Some((0..count).map(element).collect())
}

/// The elements in row-major order.
fn row_major(shape: &ArrayShape, bytes: Vec<u8>) -> Vec<u8> {
    if shape.is_row_major() {
        return bytes;
    }
    let size = shape.element_type.size_bytes();
    let strides = shape.strides();
    let mut index = vec![0i64; shape.rank()];
    let mut out = Vec::with_capacity(bytes.len());
    while out.len() < bytes.len() {
        let at: i64 = index
            .iter()
            .zip(&strides)
            .map(|(i, stride)| i * stride)
            .sum();
        let at = at as usize * size;
        out.extend_from_slice(&bytes[at..at + size]);
        advance(&mut index, &shape.dims);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_elements_fill_bytes_from_below() {
        assert_eq!(unpack(&[0x21, 0x0f], S4, 3), Some(vec![1, 2, 0xff]));
        assert_eq!(unpack(&[0b11_10_01_00], U2, 4), Some(vec![0, 1, 2, 3]));
        assert_eq!(unpack(&[0], U4, 3), None);
        assert_eq!(unpack(&[0, 0, 0], U8, 2), None);
    }

    #[test]
    fn a_column_major_literal_is_turned() {
        let mut shape = ArrayShape::new(U8, &[2, 3]);
        shape.layout = Some(Layout {
            minor_to_major: SmallVec::from_slice(&[0, 1]),
            extension: None,
        });
        assert_eq!(
            row_major(&shape, vec![0, 3, 1, 4, 2, 5]),
            [0, 1, 2, 3, 4, 5]
        );
    }
}
