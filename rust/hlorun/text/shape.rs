//! Shapes: `f32[2,3]{1,0}`, `(f32[], s32[2])`, `token[]`, `f32[<=8]`, `b(f32[2])`.
//!
//! The same few shapes recur thousands of times, so the text of every array shape is looked up
//! before it is parsed, and a tuple is compared with the last tuples seen.

use smallvec::SmallVec;

use super::error::{Fault, Parsed};
use super::layout;
use super::lexer::{Cursor, is_name_byte};
use super::scan::{Key, WIDTH, Window, shape_end, window};
use super::symbols::{Symbol, Symbols};
use super::tables::TYPES;
use crate::module::TextRef;
use crate::suggestion::closest;
use crate::types::{ArrayShape, Dims, PrimitiveType, Shape, ShapeId, ShapeTable};

/// Tuples remembered by their text.
const RECENT: usize = 4;
/// Tuples shorter than this are parsed rather than remembered.
const RECENT_MIN_BYTES: usize = 24;

/// A slot of the cache: the text of an array shape, zeros, and in its last four bytes the shape's
/// position, from 1; 0 is an empty slot.
#[derive(Clone, Copy, Default)]
struct Known(Key);

/// Bytes of text that a slot has room for.
const TEXT: usize = WIDTH - 4;

impl Known {
    fn new(text: &Key, shape: ShapeId) -> Known {
        let mut slot = *text;
        slot.0[3] |= (shape.index() as u64 + 1) << 32;
        Known(slot)
    }

    #[inline(always)]
    fn shape(&self) -> Option<ShapeId> {
        let raw = (self.0.0[3] >> 32) as usize;
        raw.checked_sub(1).map(ShapeId::from_index)
    }

    #[inline(always)]
    fn is(&self, text: &Key) -> bool {
        let [a, b, c, d] = self.0.0;
        let [e, f, g, h] = text.0;
        (a ^ e) | (b ^ f) | (c ^ g) | ((d ^ h) & 0xffff_ffff) == 0
    }
}

/// Array shapes by their text.
pub(crate) struct ShapeCache {
    slots: Vec<Known>,
    live: usize,
    /// Texts that no slot has room for.
    long: Option<Symbols>,
    recent: [Option<(TextRef, ShapeId)>; RECENT],
    parts: Vec<ShapeId>,
}

impl ShapeCache {
    /// For a text of `length` bytes.
    pub fn new(length: usize) -> ShapeCache {
        ShapeCache {
            slots: vec![Known::default(); (length / 128).next_power_of_two().clamp(16, 256)],
            live: 0,
            long: None,
            recent: [None; RECENT],
            parts: Vec::new(),
        }
    }

    #[inline(always)]
    fn get(&self, text: &Key) -> Option<ShapeId> {
        let mask = self.slots.len() - 1;
        let mut at = text.hash() as usize & mask;
        loop {
            let known = &self.slots[at];
            let shape = known.shape()?;
            if known.is(text) {
                return Some(shape);
            }
            at = (at + 1) & mask;
        }
    }

    fn insert(&mut self, text: &Key, shape: ShapeId) {
        if self.slots.len() < 2 * (self.live + 1) {
            let doubled = vec![Known::default(); self.slots.len() * 2];
            let old = std::mem::replace(&mut self.slots, doubled);
            self.live = 0;
            for known in old {
                if let Some(shape) = known.shape() {
                    let mut text = known.0;
                    text.0[3] &= 0xffff_ffff;
                    self.insert(&text, shape);
                }
            }
        }
        let mask = self.slots.len() - 1;
        let mut at = text.hash() as usize & mask;
        while self.slots[at].shape().is_some() {
            at = (at + 1) & mask;
        }
        self.slots[at] = Known::new(text, shape);
        self.live += 1;
    }

    /// The shape whose text is the first `length` bytes of `window`, if it occurred before.
    #[inline(always)]
    pub fn known(&self, window: &Window, length: usize) -> Option<ShapeId> {
        match length <= TEXT {
            true => self.get(&Key::new(window, length)),
            false => None,
        }
    }

    fn remember(&mut self, text: TextRef, shape: ShapeId) {
        self.recent.rotate_right(1);
        self.recent[0] = Some((text, shape));
    }

    /// The remembered tuple whose text starts at the cursor.
    #[inline]
    fn recall(&mut self, cursor: &Cursor<'_>) -> Option<(ShapeId, usize)> {
        let rest = cursor.source.get(cursor.position..)?;
        for index in 0..RECENT {
            let (text, shape) = self.recent[index]?;
            let known = cursor.bytes(text);
            if rest.len() >= known.len() && rest[..known.len()] == *known {
                self.recent[..=index].rotate_right(1);
                return Some((shape, known.len()));
            }
        }
        None
    }
}

/// The bytes that dimensions and layouts consist of, but for brackets and spaces.
static PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0usize;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric()
            || matches!(
                b,
                b',' | b'<' | b'=' | b'?' | b':' | b'(' | b')' | b'*' | b'#' | b'-'
            );
        byte += 1;
    }
    table
};

/// The end of a long array shape without spaces and comments at the cursor: type, dimensions in
/// brackets, perhaps a layout in braces. `None` when it is anything else, which the slow path reads.
fn long_array_end(cursor: &Cursor<'_>) -> Option<usize> {
    let source = cursor.source;
    let run = |mut at: usize| {
        while source.get(at).is_some_and(|&b| PLAIN[b as usize]) {
            at += 1;
        }
        at
    };
    let mut at = cursor.position;
    while source.get(at).is_some_and(|b| b.is_ascii_alphanumeric()) {
        at += 1;
    }
    if source.get(at) != Some(&b'[') {
        return None;
    }
    at = run(at + 1);
    if source.get(at) != Some(&b']') {
        return None;
    }
    at += 1;
    match source.get(at) {
        Some(b'{') => {
            let first = *source.get(at + 1)?;
            if !first.is_ascii_digit() && first != b':' {
                return None;
            }
            at = run(at + 1);
            (source.get(at) == Some(&b'}')).then_some(at + 1)
        }
        Some(b' ') if matches!(source.get(at + 1), Some(b'{' | b'/')) => None,
        Some(b'\n' | b'\r' | b'\t' | b'/') => None,
        _ => Some(at),
    }
}

/// Whether a shape may start at the cursor, space skipped: `(`, `type[` or `b(`.
#[inline(always)]
pub(crate) fn can_be_shape(cursor: &Cursor<'_>) -> bool {
    match cursor.peek() {
        b'(' => true,
        b'b' if cursor.at(1) == b'(' => true,
        byte if byte.is_ascii_lowercase() => {
            let mut ahead = 1;
            while cursor.at(ahead).is_ascii_alphanumeric() {
                ahead += 1;
            }
            if cursor.at(ahead) == b'[' {
                return true;
            }
            if is_name_byte(cursor.at(ahead)) {
                return false;
            }
            let mut later = *cursor;
            later.position += ahead;
            later.skip_space();
            later.peek() == b'['
        }
        _ => false,
    }
}

/// A shape at the cursor.
#[inline]
pub(crate) fn parse_shape(
    cursor: &mut Cursor<'_>,
    table: &mut ShapeTable,
    cache: &mut ShapeCache,
    max_rank: usize,
) -> Parsed<ShapeId> {
    cursor.skip_space();
    if cursor.peek() == b'(' || cursor.peek() == b'b' && cursor.at(1) == b'(' {
        parse_nested(cursor, table, cache, max_rank)
    } else {
        parse_leaf(cursor, table, cache, max_rank)
    }
}

#[inline]
fn parse_leaf(
    cursor: &mut Cursor<'_>,
    table: &mut ShapeTable,
    cache: &mut ShapeCache,
    max_rank: usize,
) -> Parsed<ShapeId> {
    let short = window(cursor.source, cursor.position)
        .and_then(|window| Some((window, shape_end(window)?)))
        .filter(|&(_, length)| length <= TEXT);
    let Some((window, length)) = short else {
        return parse_long_leaf(cursor, table, cache, max_rank);
    };
    // What was a shape once, with this end, is the same shape again.
    let text = Key::new(window, length);
    if let Some(shape) = cache.get(&text) {
        cursor.position += length;
        return Ok(shape);
    }
    let end = cursor.position + length;
    let shape = parse_leaf_slow(cursor, table, max_rank)?;
    if cursor.position == end {
        cache.insert(&text, shape);
    }
    Ok(shape)
}

/// An array shape whose text fits no slot, or stands near the end of the source.
#[inline(never)]
fn parse_long_leaf(
    cursor: &mut Cursor<'_>,
    table: &mut ShapeTable,
    cache: &mut ShapeCache,
    max_rank: usize,
) -> Parsed<ShapeId> {
    let Some(end) = long_array_end(cursor) else {
        return parse_leaf_slow(cursor, table, max_rank);
    };
    let text = TextRef::new(cursor.position, end);
    let symbol = Symbol::new(cursor.bytes(text), text);
    let long = cache.long.get_or_insert_with(|| Symbols::with_capacity(0));
    if let Some(shape) = long.get(cursor, &symbol) {
        cursor.position = end;
        return Ok(ShapeId::from_index(shape));
    }
    let shape = parse_leaf_slow(cursor, table, max_rank)?;
    if cursor.position == end {
        // It is not there yet.
        let _ = long.insert(cursor, &symbol, shape.index());
    }
    Ok(shape)
}

enum Open {
    /// Where its elements start in `parts`.
    Tuple(usize),
    Buffer,
}

/// A tuple or buffer shape, to any depth without recursion.
fn parse_nested(
    cursor: &mut Cursor<'_>,
    table: &mut ShapeTable,
    cache: &mut ShapeCache,
    max_rank: usize,
) -> Parsed<ShapeId> {
    if let Some((shape, length)) = cache.recall(cursor) {
        cursor.position += length;
        return Ok(shape);
    }
    let start = cursor.position;
    let mut open: SmallVec<[Open; 4]> = SmallVec::new();
    let base = cache.parts.len();
    let result = nested_parts(cursor, table, cache, max_rank, &mut open);
    cache.parts.truncate(base);
    let shape = result?;
    if cursor.position - start >= RECENT_MIN_BYTES {
        cache.remember(TextRef::new(start, cursor.position), shape);
    }
    Ok(shape)
}

fn nested_parts(
    cursor: &mut Cursor<'_>,
    table: &mut ShapeTable,
    cache: &mut ShapeCache,
    max_rank: usize,
    open: &mut SmallVec<[Open; 4]>,
) -> Parsed<ShapeId> {
    loop {
        // At the start of an element, or of the end of an empty tuple.
        cursor.skip_space();
        let mut shape = if cursor.peek() == b'(' {
            cursor.position += 1;
            if !cursor.eat(b')') {
                open.push(Open::Tuple(cache.parts.len()));
                continue;
            }
            table.tuple(&[])
        } else if cursor.peek() == b'b' && cursor.at(1) == b'(' {
            cursor.position += 2;
            open.push(Open::Buffer);
            continue;
        } else {
            parse_leaf(cursor, table, cache, max_rank)?
        };
        // After an element: close what ends here, or go on to the next element.
        loop {
            match open.last() {
                None => return Ok(shape),
                Some(Open::Buffer) => {
                    cursor.expect(b')', "')' after the shape of a buffer")?;
                    shape = table.intern(Shape::Buffer(shape));
                    open.pop();
                }
                Some(&Open::Tuple(base)) => {
                    cache.parts.push(shape);
                    cursor.skip_space();
                    match cursor.peek() {
                        b',' => {
                            cursor.position += 1;
                            break;
                        }
                        b')' => {
                            cursor.position += 1;
                            shape = table.tuple(&cache.parts[base..]);
                            cache.parts.truncate(base);
                            open.pop();
                        }
                        _ => return Err(cursor.expected("',' or ')' in a tuple shape")),
                    }
                }
            }
        }
    }
}

#[inline(never)]
fn parse_leaf_slow(
    cursor: &mut Cursor<'_>,
    table: &mut ShapeTable,
    max_rank: usize,
) -> Parsed<ShapeId> {
    cursor.skip_space();
    let start = cursor.position;
    let word = cursor.word("a shape")?;
    let name = cursor.bytes(word);
    let special = match name {
        b"token" => Some(Shape::Token),
        b"opaque" => Some(Shape::Opaque),
        _ => None,
    };
    if let Some(shape) = special {
        if cursor.eat(b'[') {
            cursor.expect(b']', "']'")?;
        }
        return Ok(table.intern(shape));
    }
    let element_type = element_type(cursor, word)?;
    let (dims, dynamic) = parse_dimensions(cursor, max_rank)?;
    let mut array = ArrayShape {
        element_type,
        dims,
        dynamic,
        layout: None,
    };
    if layout::can_start(cursor) {
        let at = cursor.position;
        let layout = layout::parse(cursor)?;
        if let Some(layout) = layout {
            if layout.minor_to_major.len() != array.rank() {
                return Err(Fault::new(
                    at,
                    format!(
                        "the layout orders {} dimensions, the shape {} has {}",
                        layout.minor_to_major.len(),
                        super::lexer::snippet(&cursor.source[start..at]),
                        array.rank()
                    ),
                ));
            }
            array.layout = Some(layout);
        }
    }
    Ok(table.array(array))
}

/// The element type a word names.
pub(crate) fn element_type(cursor: &Cursor<'_>, word: TextRef) -> Parsed<PrimitiveType> {
    let name = cursor.bytes(word);
    TYPES.get(name).ok_or_else(|| {
        let fault = Fault::new(
            word.start as usize,
            format!("expected a shape, found '{}'", super::lexer::snippet(name)),
        );
        let known = PrimitiveType::all().map(|ty| ty.name().as_bytes());
        match closest(name, known, usize::MAX) {
            Some(near) => fault.with_note(format!("did you mean '{near}'?")),
            None => fault,
        }
    })
}

/// `[2,<=3,?]`: sizes and which of them are dynamic.
fn parse_dimensions(cursor: &mut Cursor<'_>, max_rank: usize) -> Parsed<(Dims, u64)> {
    cursor.expect(b'[', "'[' after the element type")?;
    let mut dims = Dims::new();
    let mut dynamic = 0u64;
    if cursor.eat(b']') {
        return Ok((dims, dynamic));
    }
    loop {
        cursor.skip_space();
        let at = cursor.position;
        if dims.len() >= max_rank {
            return Err(Fault::new(
                at,
                format!("arrays of more than {max_rank} dimensions are not supported"),
            ));
        }
        let bit = 1u64.checked_shl(dims.len() as u32).unwrap_or(0);
        if cursor.eat(b'?') {
            dims.push(ArrayShape::UNBOUNDED);
            dynamic |= bit;
        } else {
            if cursor.eat_text(b"<=") {
                dynamic |= bit;
                cursor.skip_space();
                if cursor.peek() == b'?' {
                    return Err(cursor.expected("a bound after '<='"));
                }
            }
            let size = cursor.integer("a dimension")?;
            if size < 0 {
                return Err(Fault::new(at, format!("dimension {size} is negative")));
            }
            dims.push(size);
        }
        if !cursor.eat(b',') {
            break;
        }
    }
    cursor.expect(b']', "',' or ']' in a shape")?;
    Ok((dims, dynamic))
}
