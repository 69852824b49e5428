//! Values: [`Literal`] → `LiteralProto`, in row-major order.

use prost::Message;
use prost::bytes::Bytes;

use crate::proto::numbers;
use crate::proto::schema::{LayoutProto, LiteralProto, ShapeProto};
use crate::types::PrimitiveType::{self, *};
use crate::types::{Literal, LiteralValue};

/// A value as a proto; `None` for one whose elements the text has left out.
pub fn write_literal(literal: &Literal) -> Option<LiteralProto> {
    let mut proto = LiteralProto::default();
    let shape = match &literal.value {
        LiteralValue::Elided => return None,
        LiteralValue::Token => simple(numbers::TOKEN),
        // Tuples of literals nest no deeper than the limits of texts allow.
        LiteralValue::Tuple(parts) => {
            let mut shape = simple(numbers::TUPLE);
            for part in parts {
                let part = write_literal(part)?;
                let part_shape = part.shape.as_ref().map(|shape| shape.encode_to_vec());
                shape
                    .tuple_shapes
                    .push(Bytes::from(part_shape.unwrap_or_default()));
                proto.tuple_literals.push(Bytes::from(part.encode_to_vec()));
            }
            shape
        }
        LiteralValue::Array(bytes) => {
            set_elements(&mut proto, literal.shape.element_type, bytes);
            let rank = literal.shape.rank() as i64;
            ShapeProto {
                element_type: numbers::type_number(literal.shape.element_type),
                dimensions: literal.shape.dims.to_vec(),
                is_dynamic_dimension: vec![false; literal.shape.rank()],
                layout: Some(Box::new(LayoutProto {
                    minor_to_major: (0..rank).rev().collect(),
                    tail_padding_alignment_in_elements: 1,
                    ..LayoutProto::default()
                })),
                ..ShapeProto::default()
            }
        }
    };
    proto.shape = Some(Box::new(shape));
    Some(proto)
}

fn simple(element_type: i32) -> ShapeProto {
    ShapeProto {
        element_type,
        ..ShapeProto::default()
    }
}

fn values<T, const N: usize>(bytes: &[u8], value: fn([u8; N]) -> T) -> Vec<T> {
    bytes
        .as_chunks::<N>()
        .0
        .iter()
        .map(|&chunk| value(chunk))
        .collect()
}

fn set_elements(proto: &mut LiteralProto, element_type: PrimitiveType, bytes: &[u8]) {
    let field = match element_type {
        Pred => {
            proto.preds = bytes.iter().map(|&byte| byte != 0).collect();
            return;
        }
        S32 => return proto.s32s = values(bytes, i32::from_ne_bytes),
        S64 => return proto.s64s = values(bytes, i64::from_ne_bytes),
        U32 => return proto.u32s = values(bytes, u32::from_ne_bytes),
        U64 => return proto.u64s = values(bytes, u64::from_ne_bytes),
        F32 => return proto.f32s = values(bytes, f32::from_ne_bytes),
        F64 => return proto.f64s = values(bytes, f64::from_ne_bytes),
        C64 => return proto.c64s = values(bytes, f32::from_ne_bytes),
        C128 => return proto.c128s = values(bytes, f64::from_ne_bytes),
        S1 => &mut proto.s1s,
        S2 => &mut proto.s2s,
        S4 => &mut proto.s4s,
        S8 => &mut proto.s8s,
        S16 => &mut proto.s16s,
        U1 => &mut proto.u1s,
        U2 => &mut proto.u2s,
        U4 => &mut proto.u4s,
        U8 => &mut proto.u8s,
        U16 => &mut proto.u16s,
        F4E2M1FN => &mut proto.f4e2m1fns,
        F8E3M4 => &mut proto.f8e3m4s,
        F8E4M3 => &mut proto.f8e4m3s,
        F8E4M3FN => &mut proto.f8e4m3fns,
        F8E4M3FNUZ => &mut proto.f8e4m3fnuzs,
        F8E4M3B11FNUZ => &mut proto.f8e4m3b11fnuzs,
        F8E5M2 => &mut proto.f8e5m2s,
        F8E5M2FNUZ => &mut proto.f8e5m2fnuzs,
        F8E8M0FNU => &mut proto.f8e8m0fnus,
        F16 => &mut proto.f16s,
        BF16 => &mut proto.bf16s,
    };
    // Elements narrower than a byte have a byte each, as in buffers.
    *field = Bytes::copy_from_slice(bytes);
}
