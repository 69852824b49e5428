//! Literals: `5`, `{1, 2}`, `{ { 1, 2 }, { 3, 4 } }`, `(1, {2, 3})`, `{...}`.
//!
//! Numbers go straight into the bytes of the array; memory grows with the text, never with the
//! declared shape.

use super::error::{Fault, Parsed};
use super::lexer::Cursor;
use super::limits::Limits;
use super::shape::{ShapeCache, can_be_shape, parse_shape};
use super::value;
use crate::types::{ArrayShape, Literal, LiteralValue, PrimitiveType, Shape, ShapeId, ShapeTable};

/// An open tuple literal.
struct OpenTuple {
    shapes: Box<[ShapeId]>,
    parts: Vec<Literal>,
}

/// The literal of `shape` at the cursor.
pub(crate) fn parse_literal(
    cursor: &mut Cursor<'_>,
    shapes: &ShapeTable,
    shape: ShapeId,
    limits: &Limits,
) -> Parsed<Literal> {
    let mut open: Vec<OpenTuple> = Vec::new();
    let mut wanted = shape;
    loop {
        cursor.skip_space();
        let mut literal = match shapes.get(wanted) {
            Shape::Array(array) => parse_array(cursor, array)?,
            Shape::Token => {
                cursor.eat_word(b"token");
                nothing(LiteralValue::Token)
            }
            Shape::Opaque | Shape::Buffer(_) => {
                return Err(Fault::new(
                    cursor.position,
                    "an opaque value or buffer has no literal",
                ));
            }
            Shape::Tuple(parts) => {
                if elided(cursor) {
                    nothing(LiteralValue::Elided)
                } else {
                    cursor.expect(b'(', "'(' of a tuple literal")?;
                    if open.len() >= limits.literal_depth {
                        return Err(too_deep(cursor, limits));
                    }
                    if let Some(&first) = parts.first() {
                        open.push(OpenTuple {
                            shapes: parts.clone(),
                            parts: Vec::new(),
                        });
                        wanted = first;
                        continue;
                    }
                    cursor.expect(b')', "')' of an empty tuple literal")?;
                    nothing(LiteralValue::Tuple(Box::new([])))
                }
            }
        };
        loop {
            let Some(tuple) = open.last_mut() else {
                return Ok(literal);
            };
            tuple.parts.push(literal);
            match tuple.shapes.get(tuple.parts.len()) {
                Some(&next) => {
                    cursor.expect(b',', "',' between the elements of a tuple literal")?;
                    wanted = next;
                    break;
                }
                None => {
                    cursor.expect(b')', "')' after the elements of a tuple literal")?;
                    let parts = std::mem::take(&mut tuple.parts);
                    open.pop();
                    literal = nothing(LiteralValue::Tuple(parts.into_boxed_slice()));
                }
            }
        }
    }
}

/// A literal that states its shape: `f32[2] {1, 2}`, or a tuple of such in parentheses.
pub(crate) fn parse_typed_literal(
    cursor: &mut Cursor<'_>,
    shapes: &mut ShapeTable,
    cache: &mut ShapeCache,
    limits: &Limits,
) -> Parsed<Literal> {
    let mut open: Vec<Vec<Literal>> = Vec::new();
    loop {
        let mut literal = if cursor.eat(b'(') {
            if !cursor.eat(b')') {
                if open.len() >= limits.literal_depth {
                    return Err(too_deep(cursor, limits));
                }
                open.push(Vec::new());
                continue;
            }
            nothing(LiteralValue::Tuple(Box::new([])))
        } else {
            let shape = parse_shape(cursor, shapes, cache, limits.rank)?;
            parse_literal(cursor, shapes, shape, limits)?
        };
        loop {
            let Some(parts) = open.last_mut() else {
                return Ok(literal);
            };
            parts.push(literal);
            if cursor.eat(b',') {
                break;
            }
            cursor.expect(b')', "',' or ')' in a tuple literal")?;
            let parts = open.pop().unwrap_or_default();
            literal = nothing(LiteralValue::Tuple(parts.into_boxed_slice()));
        }
    }
}

#[cold]
fn too_deep(cursor: &Cursor<'_>, limits: &Limits) -> Box<Fault> {
    Fault::new(
        cursor.position,
        format!("tuple literals nest deeper than {}", limits.literal_depth),
    )
}

/// A literal without an array.
fn nothing(value: LiteralValue) -> Literal {
    Literal {
        shape: ArrayShape::new(PrimitiveType::Pred, &[]),
        value,
    }
}

/// Eats `{...}` or `...`.
fn elided(cursor: &mut Cursor<'_>) -> bool {
    let mut ahead = *cursor;
    if ahead.eat_text(b"...") || (ahead.eat(b'{') && ahead.eat_text(b"...") && ahead.eat(b'}')) {
        *cursor = ahead;
        return true;
    }
    false
}

fn parse_array(cursor: &mut Cursor<'_>, array: &ArrayShape) -> Parsed<Literal> {
    // Without the layout: the elements are in logical order.
    let shape = ArrayShape {
        element_type: array.element_type,
        dims: array.dims.clone(),
        dynamic: array.dynamic,
        layout: None,
    };
    let start = cursor.position;
    if matches!(cursor.peek(), b'{' | b'.') && elided(cursor) {
        return Ok(Literal {
            shape,
            value: LiteralValue::Elided,
        });
    }
    if can_be_shape(cursor) && cursor.peek() != b'(' {
        check_stated_shape(cursor, array)?;
        cursor.skip_space();
    }
    // No element is shorter than two bytes of text.
    let most = (cursor.source.len() - cursor.position) / 2 + 1;
    let size = array.byte_size().unwrap_or(0);
    let mut bytes = Vec::with_capacity(size.min(most * array.element_type.size_bytes()));
    if array.rank() == 0 {
        value::parse_element(cursor, array.element_type, &mut bytes)?;
    } else if is_one_element(cursor, array) {
        value::parse_element(cursor, array.element_type, &mut bytes)?;
        bytes.resize(size, 0);
    } else {
        parse_dense(cursor, array, &mut bytes)?;
    }
    Literal::from_bytes(shape, bytes.into_boxed_slice()).ok_or_else(|| {
        Fault::new(
            start,
            format!("this literal does not have the elements of {array}"),
        )
    })
}

/// Whether a row follows of which only the first element is written; XLA makes the others zero.
fn is_one_element(cursor: &Cursor<'_>, array: &ArrayShape) -> bool {
    // Memory is in proportion to the text.
    const MOST: i64 = 1 << 16;
    matches!(array.dims[..], [1..=MOST])
        && !array.element_type.is_complex()
        && !matches!(cursor.peek(), b'{' | b'(')
}

/// Before 2019 the elements follow their shape once more.
#[cold]
fn check_stated_shape(cursor: &mut Cursor<'_>, array: &ArrayShape) -> Parsed<()> {
    let start = cursor.position;
    let mut shapes = ShapeTable::new();
    let rank = ArrayShape::MAX_RANK;
    let stated = parse_shape(cursor, &mut shapes, &mut ShapeCache::new(0), rank)?;
    match shapes.get(stated).as_array() {
        Some(stated) if stated.same_dims_and_type(array) => Ok(()),
        _ => Err(Fault::new(
            start,
            format!("expected elements of {array}, found another shape"),
        )),
    }
}

/// Nested braces around the elements of `array`.
fn parse_dense(cursor: &mut Cursor<'_>, array: &ArrayShape, bytes: &mut Vec<u8>) -> Parsed<()> {
    let rank = array.rank();
    let dims = &array.dims;
    let mut seen = vec![0i64; rank];
    let mut depth = 0usize;
    cursor.skip_space();
    if cursor.peek() != b'{' {
        return Err(cursor.expected(&format!("'{{' of a literal of {array}")));
    }
    loop {
        cursor.skip_space();
        match cursor.peek() {
            b'{' => {
                if depth == rank {
                    return Err(Fault::new(
                        cursor.position,
                        format!("expected an element: a literal of {array} nests {rank} deep"),
                    ));
                }
                if depth > 0 {
                    count(cursor, array, depth - 1, &mut seen)?;
                }
                seen[depth] = 0;
                depth += 1;
                cursor.position += 1;
            }
            b'}' if depth > 0 => {
                let (found, wanted) = (seen[depth - 1], dims[depth - 1]);
                // An array without elements may be written as `{}` whatever its sizes are.
                let empty = depth == 1 && found == 0 && dims.contains(&0);
                if found != wanted && !empty {
                    return Err(Fault::new(
                        cursor.position,
                        format!(
                            "dimension {} of {array} has {wanted} elements, this has {found}",
                            depth - 1
                        ),
                    ));
                }
                cursor.position += 1;
                depth -= 1;
                if depth == 0 {
                    return Ok(());
                }
            }
            b',' => cursor.position += 1,
            _ if depth == rank => {
                count(cursor, array, rank - 1, &mut seen)?;
                value::parse_element(cursor, array.element_type, bytes)?;
                value::parse_run(
                    cursor,
                    array.element_type,
                    bytes,
                    &mut seen[rank - 1],
                    dims[rank - 1],
                );
            }
            _ => {
                return Err(
                    cursor.expected(&format!("'{{': a literal of {array} nests {rank} deep"))
                );
            }
        }
    }
}

#[inline]
fn count(cursor: &Cursor<'_>, array: &ArrayShape, dim: usize, seen: &mut [i64]) -> Parsed<()> {
    seen[dim] += 1;
    if seen[dim] > array.dims[dim] {
        return Err(Fault::new(
            cursor.position,
            format!(
                "dimension {dim} of {array} has {} elements, this has more",
                array.dims[dim]
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(shape: &str, text: &str) -> Option<Literal> {
        let mut table = ShapeTable::new();
        let id = parse_shape(
            &mut Cursor::new(shape.as_bytes()),
            &mut table,
            &mut ShapeCache::new(0),
            64,
        )
        .ok()?;
        let mut cursor = Cursor::new(text.as_bytes());
        let literal = parse_literal(&mut cursor, &table, id, &Limits::default()).ok()?;
        cursor.skip_space();
        cursor.at_end().then_some(literal)
    }

    #[test]
    fn arrays_are_row_major_bytes() {
        let literal = parse("s8[2,3]{0,1}", "{ /*i0=0*/ { 1, 2, 3 }, { 4, 5, -6 } }");
        let bytes = literal.as_ref().and_then(Literal::bytes);
        assert_eq!(bytes, Some(&[1u8, 2, 3, 4, 5, 250][..]));
        assert!(parse("s8[2,3]", "{ { 1, 2, 3 } }").is_none());
        assert!(parse("s8[2]", "{ 1, 2, 3 }").is_none());
        assert!(parse("s8[2]", "{ 1, 200 }").is_none());
        assert!(parse("f32[0,5]", "{}").is_some());
        assert!(parse("f32[5,0]", "{ {}, {}, {}, {}, {} }").is_some());
        assert!(parse("f32[1000000000]", "{ 1 }").is_none());
    }

    #[test]
    fn tuples_nest() {
        let literal = parse("(f32[], (s32[2], pred[]))", "(1.5, ({1, 2}, true))");
        assert!(matches!(
            literal.map(|l| l.value),
            Some(LiteralValue::Tuple(parts)) if parts.len() == 2
        ));
        assert!(parse("(f32[], s32[])", "(1.5)").is_none());
        assert!(parse("f32[2,1]", "f32[2,1] { {1}, {2} }").is_some());
        assert!(parse("f32[2,1]", "f32[1,2] { {1, 2} }").is_none());
        assert!(parse("f32[2]", "{...}").is_some_and(|l| l.is_elided()));
    }
}
