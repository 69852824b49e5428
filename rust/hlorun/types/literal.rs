//! Constant values.

use super::ArrayShape;

/// What a literal holds.
#[derive(Clone, Debug, PartialEq)]
pub enum LiteralValue {
    /// Elements in logical row-major order, native endian, one byte at least per element
    /// (two components in a row for complex types).
    Array(Box<[u8]>),
    /// `{...}`: the text no longer holds the values.
    Elided,
    /// Elements of a tuple literal; each is a literal of its own.
    Tuple(Box<[Literal]>),
    /// `token[]` literals hold nothing.
    Token,
}

/// A value with its shape.
///
/// Tuple literals nest at most as deep as the text limits allow (`text::limits`), so recursion over
/// them is bounded.
#[derive(Clone, Debug, PartialEq)]
pub struct Literal {
    /// The array's shape; for tuples and tokens a scalar `pred` that says nothing.
    pub shape: ArrayShape,
    /// The value.
    pub value: LiteralValue,
}

impl Literal {
    /// A literal of `shape` from its row-major bytes; `None` when the length is not the shape's.
    pub fn from_bytes(shape: ArrayShape, bytes: Box<[u8]>) -> Option<Literal> {
        (shape.byte_size()? == bytes.len()).then_some(Literal {
            shape,
            value: LiteralValue::Array(bytes),
        })
    }

    /// The row-major bytes; `None` for elided, tuple and token literals.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.value {
            LiteralValue::Array(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Heap bytes held.
    pub fn heap_size(&self) -> usize {
        match &self.value {
            LiteralValue::Array(bytes) => bytes.len(),
            LiteralValue::Tuple(parts) => {
                size_of_val(&parts[..]) + parts.iter().map(Literal::heap_size).sum::<usize>()
            }
            LiteralValue::Elided | LiteralValue::Token => 0,
        }
    }

    /// Whether the text left the values out.
    pub fn is_elided(&self) -> bool {
        match &self.value {
            LiteralValue::Elided => true,
            LiteralValue::Tuple(parts) => parts.iter().any(Literal::is_elided),
            LiteralValue::Array(_) | LiteralValue::Token => false,
        }
    }
}
