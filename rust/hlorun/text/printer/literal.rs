//! Values of constants on one line: `{ {1, 2}, {3, 4} }`, as XLA spaces them.

use std::fmt::Write;

use smallvec::{SmallVec, smallvec};

use super::float::{write_f32, write_f64, write_float};
use crate::types::shape::Dims;
use crate::types::{Literal, LiteralValue, PrimitiveType, ShapeStyle};

/// Appends the value of `literal`, without its shape.
pub fn write_literal(out: &mut String, literal: &Literal) {
    write_value(out, literal, false);
}

/// Appends a literal that states its shape, or a tuple of such.
pub fn write_typed_literal(out: &mut String, literal: &Literal) {
    write_value(out, literal, true);
}

fn write_value(out: &mut String, literal: &Literal, typed: bool) {
    // Tuples nest; the stack holds what is still to come of each.
    enum Step<'l> {
        Value(&'l Literal),
        Rest(&'l [Literal], usize),
    }
    let mut stack: SmallVec<[_; 1]> = smallvec![Step::Value(literal)];
    while let Some(step) = stack.pop() {
        match step {
            Step::Value(literal) => {
                let has_shape =
                    matches!(literal.value, LiteralValue::Array(_) | LiteralValue::Elided);
                if typed && has_shape {
                    let _ = write!(out, "{} ", literal.shape.display(ShapeStyle::CANONICAL));
                }
                match &literal.value {
                    LiteralValue::Array(bytes) => {
                        write_array(out, literal.shape.element_type, &literal.shape.dims, bytes);
                    }
                    LiteralValue::Elided => out.push_str("{...}"),
                    LiteralValue::Token if typed => out.push_str("token[] token"),
                    LiteralValue::Token => out.push_str("token"),
                    LiteralValue::Tuple(parts) => {
                        out.push_str("( ");
                        stack.push(Step::Rest(parts, 0));
                    }
                }
            }
            Step::Rest(parts, at) => match parts.get(at) {
                Some(part) => {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    stack.push(Step::Rest(parts, at + 1));
                    stack.push(Step::Value(part));
                }
                None => out.push_str(" )"),
            },
        }
    }
}

/// Appends the elements of an array in nested braces.
fn write_array(out: &mut String, element_type: PrimitiveType, dims: &Dims, bytes: &[u8]) {
    let size = element_type.size_bytes();
    let rank = dims.len();
    if rank == 0 {
        write_element(out, element_type, bytes, true);
        return;
    }
    let mut next = bytes.chunks_exact(size);
    // `index[d]` counts the entries of dimension `d` that are written.
    let mut index: Dims = Dims::from_elem(0, rank);
    let mut depth = 0;
    open(out, dims, &index, depth);
    loop {
        if index[depth] == dims[depth].max(0) {
            close(out, dims, depth);
            if depth == 0 {
                return;
            }
            depth -= 1;
            index[depth] += 1;
            continue;
        }
        if index[depth] > 0 {
            out.push_str(", ");
        }
        if depth + 1 == rank {
            let Some(element) = next.next() else {
                return;
            };
            write_element(out, element_type, element, false);
            index[depth] += 1;
        } else {
            depth += 1;
            index[depth] = 0;
            open(out, dims, &index, depth);
        }
    }
}

fn open(out: &mut String, dims: &Dims, index: &Dims, depth: usize) {
    let rank = dims.len();
    out.push('{');
    if rank == 1 {
        return;
    }
    if depth + 1 == rank {
        if dims[depth] > 1 {
            out.push(' ');
        }
    } else if rank > 3 && depth > 0 {
        let _ = write!(out, " /*i{}={}*/", depth - 1, index[depth - 1]);
        if dims[depth] > 0 {
            out.push(' ');
        }
    } else {
        out.push(' ');
    }
}

fn close(out: &mut String, dims: &Dims, depth: usize) {
    let rank = dims.len();
    if rank > 1 && (depth + 1 != rank || dims[depth] > 1) {
        out.push(' ');
    }
    out.push('}');
}

/// Appends one element; `scalar` says that it is the whole value.
fn write_element(out: &mut String, element_type: PrimitiveType, bytes: &[u8], scalar: bool) {
    use PrimitiveType::*;
    macro_rules! integer {
        ($type:ty) => {
            if let Ok(bytes) = bytes.try_into() {
                let _ = write!(out, "{}", <$type>::from_ne_bytes(bytes));
            }
        };
    }
    match element_type {
        Pred => {
            let value = bytes.first().is_some_and(|&b| b != 0);
            out.push_str(match (scalar, value) {
                (true, true) => "true",
                (true, false) => "false",
                (false, true) => "1",
                (false, false) => "0",
            });
        }
        S1 | S2 | S4 => {
            // The value is in the low bits, whatever the others are.
            let shift = 8 - element_type.bit_width();
            let value = (bytes.first().copied().unwrap_or(0) << shift) as i8 >> shift;
            let _ = write!(out, "{value}");
        }
        U1 | U2 | U4 => {
            let mask = (1u16 << element_type.bit_width()) - 1;
            let value = u16::from(bytes.first().copied().unwrap_or(0)) & mask;
            let _ = write!(out, "{value}");
        }
        S8 => integer!(i8),
        S16 => integer!(i16),
        S32 => integer!(i32),
        S64 => integer!(i64),
        U8 => integer!(u8),
        U16 => integer!(u16),
        U32 => integer!(u32),
        U64 => integer!(u64),
        C64 | C128 => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            out.push('(');
            write_component(out, re);
            out.push_str(", ");
            write_component(out, im);
            out.push(')');
        }
        F4E2M1FN | F8E3M4 | F8E4M3 | F8E4M3FN | F8E4M3FNUZ | F8E4M3B11FNUZ | F8E5M2
        | F8E5M2FNUZ | F8E8M0FNU | F16 | BF16 | F32 | F64 => write_float(out, element_type, bytes),
    }
}

fn write_component(out: &mut String, bytes: &[u8]) {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        write_f32(out, f32::from_ne_bytes(bytes));
    } else if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
        write_f64(out, f64::from_ne_bytes(bytes));
    }
}

/// Whether all elements of an array literal have the bits of the number `value`, 0 or 1.
pub fn is_all(literal: &Literal, value: u8) -> bool {
    use PrimitiveType::*;
    let LiteralValue::Array(bytes) = &literal.value else {
        return false;
    };
    let element_type = literal.shape.element_type;
    let one: &[u8] = match element_type {
        F4E2M1FN => &[0x02],
        F8E3M4 => &[0x30],
        F8E4M3 | F8E4M3FN => &[0x38],
        F8E4M3FNUZ => &[0x40],
        F8E4M3B11FNUZ => &[0x58],
        F8E5M2 => &[0x3c],
        F8E5M2FNUZ => &[0x40],
        F8E8M0FNU => &[127],
        F16 => &0x3c00u16.to_ne_bytes(),
        BF16 => &0x3f80u16.to_ne_bytes(),
        F32 | C64 => &1.0f32.to_ne_bytes(),
        F64 | C128 => &1.0f64.to_ne_bytes(),
        S1 => return false,
        _ if cfg!(target_endian = "little") => &[1],
        S16 | U16 => &[0, 1],
        S32 | U32 => &[0, 0, 0, 1],
        S64 | U64 => &[0, 0, 0, 0, 0, 0, 0, 1],
        _ => &[1],
    };
    bytes.chunks_exact(element_type.size_bytes()).all(|chunk| {
        if value == 0 {
            // The smallest scale is no zero, and there is no other.
            element_type != F8E8M0FNU && chunk.iter().all(|&b| b == 0)
        } else {
            chunk.starts_with(one) && chunk[one.len()..].iter().all(|&b| b == 0)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ArrayShape;

    fn text(element_type: PrimitiveType, dims: &[i64], bytes: &[u8]) -> String {
        let literal = Literal {
            shape: ArrayShape::new(element_type, dims),
            value: LiteralValue::Array(bytes.into()),
        };
        let mut out = String::new();
        write_literal(&mut out, &literal);
        out
    }

    #[test]
    fn braces_are_spaced_by_rank() {
        use PrimitiveType::{Pred, S8};
        let cases: [(&[i64], &[u8], &str); 9] = [
            (&[], &[3], "3"),
            (&[0], &[], "{}"),
            (&[2], &[1, 255], "{1, -1}"),
            (&[2, 2], &[1, 2, 3, 4], "{ { 1, 2 }, { 3, 4 } }"),
            (&[2, 1], &[1, 2], "{ {1}, {2} }"),
            (&[0, 2], &[], "{  }"),
            (&[2, 0], &[], "{ {}, {} }"),
            (&[1, 2, 1], &[1, 2], "{ { {1}, {2} } }"),
            (
                &[1, 2, 1, 2],
                &[1, 2, 3, 4],
                "{ { /*i0=0*/ { /*i1=0*/ { 1, 2 } }, { /*i1=1*/ { 3, 4 } } } }",
            ),
        ];
        for (dims, bytes, expected) in cases {
            assert_eq!(text(S8, dims, bytes), expected, "{dims:?}");
        }
        assert_eq!(text(Pred, &[], &[1]), "true");
        assert_eq!(text(Pred, &[2], &[1, 0]), "{1, 0}");
    }
}
