//! Attributes of an instruction as its text has them.
//!
//! In: an instruction. Out: the pieces `key=value` after its operands. Promise: any bytes are taken; what is no
//! instruction has no pieces.

use std::ops::Range;

use hlorun::module::{AttrKey, AttrValue, InstructionRef};

/// The piece of `text` up to a comma outside brackets and quotes, and what follows the comma.
fn piece(text: &[u8]) -> (&[u8], &[u8]) {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => at += quoted(&text[at..]) - 1,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
        at += 1;
    }
    (text, &[])
}

/// Bytes of the string that `text` begins with, quotes included.
fn quoted(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// What follows the first closed pair of parentheses after the name of the opcode.
fn after_operands<'t>(text: &'t [u8], opcode: &[u8]) -> &'t [u8] {
    let is_call = |at: usize| {
        let before = text[..at].strip_suffix(opcode);
        before.is_some_and(|before| before.last().is_some_and(u8::is_ascii_whitespace))
    };
    let mut places = memchr::memchr_iter(b'(', text);
    let Some(start) = places.find(|&at| is_call(at)) else {
        return &[];
    };
    let mut rest = &text[start..];
    let mut depth = 0usize;
    while let Some(at) = memchr::memchr3(b'"', b'(', b')', rest) {
        let mut length = 1;
        match rest[at] {
            b'"' => length = quoted(&rest[at..]),
            b'(' => depth += 1,
            _ if depth <= 1 => return &rest[at + 1..],
            _ => depth -= 1,
        }
        rest = &rest[at + length..];
    }
    &[]
}

/// Key and value of every attribute, in order; `key` is empty for what has none.
pub fn attributes<'m>(
    instruction: InstructionRef<'m>,
) -> impl Iterator<Item = (&'m [u8], &'m [u8])> {
    let place = instruction.data().text;
    let text = instruction.module.text().bytes(place);
    let raw = |key| match instruction.attribute(key) {
        Some(AttrValue::Raw(value)) if value.start >= place.start => {
            let start = (value.start - place.start) as usize;
            start..start + value.len as usize
        }
        _ => 0..0,
    };
    // The parser knows where these are, which are most of the text.
    let known: [(&[u8], Range<usize>); 2] = [
        (b"metadata=", raw(AttrKey::Metadata)),
        (b"backend_config=", raw(AttrKey::BackendConfig)),
    ];
    let opcode = instruction.opcode_name();
    let mut rest = after_operands(text, opcode.as_bytes()).trim_ascii_start();
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let start = text.len() - rest.len();
            let after = known.iter().find_map(|(key, value)| {
                let is_here = value.start == start + key.len() && rest.starts_with(key);
                text.get(value.end..).filter(|_| is_here)
            });
            let (attribute, next) = match after {
                Some(next) if next.is_empty() || next[0] == b',' => {
                    let length = rest.len() - next.len();
                    (&rest[..length], next.get(1..).unwrap_or_default())
                }
                _ => piece(rest),
            };
            rest = next.trim_ascii_start();
            let attribute = attribute.trim_ascii();
            match attribute.iter().position(|&byte| byte == b'=') {
                Some(at) => return Some((&attribute[..at], &attribute[at + 1..])),
                None if attribute.is_empty() => {}
                None => return Some((&[][..], attribute)),
            }
        }
        None
    })
}
