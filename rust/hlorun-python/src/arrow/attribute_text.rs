//! Attributes of an instruction as its text has them.
//!
//! In: the text of an instruction. Out: the pieces `key=value` after its operands. Promise: any bytes
//! are taken; what is no instruction has no pieces.

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
    let Some(start) = (0..text.len()).find(|&at| text[at] == b'(' && is_call(at)) else {
        return &[];
    };
    let inside = &text[start..];
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(&byte) = inside.get(at) {
        match byte {
            b'"' => at += quoted(&inside[at..]) - 1,
            b'(' => depth += 1,
            b')' if depth <= 1 => return &inside[at + 1..],
            b')' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    &[]
}

/// Key and value of every attribute, in order; `key` is empty for what has none.
pub fn attributes<'t>(text: &'t [u8], opcode: &[u8]) -> Vec<(&'t [u8], &'t [u8])> {
    let mut rest = after_operands(text, opcode);
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (attribute, next) = piece(rest);
        rest = next;
        let attribute = attribute.trim_ascii();
        let equals = attribute.iter().position(|&b| b == b'=');
        match equals {
            Some(at) => found.push((&attribute[..at], &attribute[at + 1..])),
            None if attribute.is_empty() => {}
            None => found.push((&[][..], attribute)),
        }
    }
    found
}
