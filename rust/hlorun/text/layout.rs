//! Layouts: `{1,0}`, `{1,0:T(8,128)(2,1)E(4)S(1)}`.

use smallvec::SmallVec;

use super::error::{Fault, Parsed};
use super::lexer::Cursor;
use super::shape::element_type;
use crate::types::{Layout, LayoutExtension, PrimitiveType, Tile};

/// Whether the `{` after an array shape starts a layout rather than the body of a computation.
pub(crate) fn can_start(cursor: &mut Cursor<'_>) -> bool {
    let mut ahead = *cursor;
    if !ahead.eat(b'{') {
        return false;
    }
    ahead.skip_space();
    if ahead.peek().is_ascii_digit() || ahead.peek() == b':' {
        cursor.skip_space();
        return true;
    }
    false
}

/// A layout at the cursor, `{` included. `None` for `{}` of a scalar, which says nothing.
pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Parsed<Option<Layout>> {
    cursor.expect(b'{', "'{'")?;
    let mut minor_to_major: SmallVec<[u8; 8]> = SmallVec::new();
    cursor.skip_space();
    if !matches!(cursor.peek(), b':' | b'}') {
        loop {
            cursor.skip_space();
            let at = cursor.position;
            let dim = cursor.integer("a dimension number")?;
            match u8::try_from(dim) {
                Ok(dim) if !minor_to_major.contains(&dim) => minor_to_major.push(dim),
                Ok(dim) => {
                    return Err(Fault::new(
                        at,
                        format!("dimension {dim} occurs twice in the layout"),
                    ));
                }
                Err(_) => {
                    return Err(Fault::new(
                        at,
                        format!("{dim} is no dimension an array can have"),
                    ));
                }
            }
            if !cursor.eat(b',') {
                break;
            }
        }
    }
    let rank = minor_to_major.len();
    if let Some(dim) = minor_to_major.iter().find(|&&d| usize::from(d) >= rank) {
        return Err(cursor_fault(
            cursor,
            format!("the layout orders {rank} dimensions but names dimension {dim}"),
        ));
    }
    let extension = if cursor.eat(b':') {
        parse_extension(cursor)?
    } else {
        None
    };
    cursor.expect(b'}', "'}' after the layout")?;
    if rank == 0 && extension.is_none() {
        return Ok(None);
    }
    Ok(Some(Layout {
        minor_to_major,
        extension,
    }))
}

fn cursor_fault(cursor: &Cursor<'_>, message: String) -> Box<Fault> {
    Fault::new(cursor.position, message)
}

fn parse_extension(cursor: &mut Cursor<'_>) -> Parsed<Option<Box<LayoutExtension>>> {
    let none = LayoutExtension {
        tail_padding_alignment: 1,
        ..LayoutExtension::default()
    };
    let mut extension = none.clone();
    loop {
        cursor.skip_space();
        match cursor.peek() {
            b'}' => break,
            b'D' => {
                cursor.position += 1;
                let start = cursor.position;
                let text = parenthesized_text(cursor)?;
                if !text.split(',').all(is_level_type) {
                    return Err(Fault::new(
                        start,
                        format!("'{text}' are no level types; each dimension has D, C, S or H"),
                    ));
                }
                extension.dim_level_types = Some(text);
            }
            b'T' => {
                cursor.position += 1;
                cursor.skip_space();
                if cursor.peek() != b'(' {
                    return Err(cursor.expected("'(' after 'T'"));
                }
                while cursor.eat(b'(') {
                    extension.tiles.push(parse_tile(cursor)?);
                }
            }
            b'L' => extension.tail_padding_alignment = number(cursor)?,
            b'#' => extension.index_primitive_type = Some(type_in_parentheses(cursor)?),
            b'*' => extension.pointer_primitive_type = Some(type_in_parentheses(cursor)?),
            b'E' => extension.element_size_in_bits = number(cursor)?,
            b'S' if cursor.at(1) == b'C' => {
                cursor.position += 2;
                while cursor.eat(b'(') {
                    extension.split_configs.push(parse_split(cursor)?);
                }
            }
            b'S' => extension.memory_space = number(cursor)?,
            b'P' => {
                cursor.position += 1;
                extension.physical_shape = Some(parenthesized_text(cursor)?);
            }
            b'M' => extension.dynamic_shape_metadata_prefix_bytes = number(cursor)?,
            _ => return Err(cursor.expected("a layout property such as 'T(8,128)' or 'S(1)'")),
        }
    }
    Ok((extension != none).then(|| Box::new(extension)))
}

/// Whether a text is the level type of a dimension: a letter, then `+` where places may repeat and
/// `~` where they have no order.
fn is_level_type(text: &str) -> bool {
    let text = text.trim();
    let mark = text.strip_prefix(['D', 'C', 'S', 'H']);
    mark.is_some_and(|mark| matches!(mark, "" | "+" | "~" | "+~"))
}

/// The text between the parentheses at the cursor.
fn parenthesized_text(cursor: &mut Cursor<'_>) -> Parsed<String> {
    cursor.skip_space();
    if cursor.peek() != b'(' {
        return Err(cursor.expected("'('"));
    }
    let text = cursor.balanced()?;
    let bytes = cursor.bytes(text);
    let inner = bytes.get(1..bytes.len() - 1).unwrap_or(&[]);
    Ok(String::from_utf8_lossy(inner).into_owned())
}

/// `X(n)` at the cursor.
fn number(cursor: &mut Cursor<'_>) -> Parsed<i64> {
    cursor.position += 1;
    cursor.expect(b'(', "'('")?;
    let value = cursor.integer("a number")?;
    cursor.expect(b')', "')'")?;
    Ok(value)
}

/// `#(u32)` at the cursor.
fn type_in_parentheses(cursor: &mut Cursor<'_>) -> Parsed<PrimitiveType> {
    cursor.position += 1;
    cursor.expect(b'(', "'('")?;
    let word = cursor.word("an element type")?;
    let ty = element_type(cursor, word)?;
    cursor.expect(b')', "')'")?;
    Ok(ty)
}

/// The rest of `(8,128)` or `(*,128)`.
fn parse_tile(cursor: &mut Cursor<'_>) -> Parsed<Tile> {
    let mut tile = Tile::default();
    if cursor.eat(b')') {
        return Ok(tile);
    }
    loop {
        if cursor.eat(b'*') {
            tile.0.push(None);
        } else {
            let start = cursor.position;
            let size = cursor.integer("a tile size")?;
            if size < 1 {
                cursor.position = start;
                return Err(cursor.expected("a positive tile size"));
            }
            tile.0.push(Some(size));
        }
        if !cursor.eat(b',') {
            break;
        }
    }
    cursor.expect(b')', "',' or ')' in a tile")?;
    Ok(tile)
}

/// The rest of `(0:1024,2048)`.
fn parse_split(cursor: &mut Cursor<'_>) -> Parsed<(i64, Vec<i64>)> {
    let dim = cursor.integer("a dimension number")?;
    cursor.expect(b':', "':'")?;
    let mut indices = Vec::new();
    loop {
        indices.push(cursor.integer("a split index")?);
        if !cursor.eat(b',') {
            break;
        }
    }
    cursor.expect(b')', "',' or ')' in a split configuration")?;
    Ok((dim, indices))
}
