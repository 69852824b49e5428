//! Changes of a text that mostly leave a module legal, so that what they make is run and not refused.
//!
//! Comes in: a text and a generator of numbers. Goes out: the text with one word renamed everywhere, one opcode
//! exchanged for one of as many operands, or one more elementwise instruction between a value and one of its users.

use std::ops::Range;

use hlorun::module::{HloOpcode, OpClass};

use crate::mutate::{Kind, NUMBERS, Numbers, TYPES, lines, replace, words};

/// One line `[ROOT] name = shape opcode(…`.
struct Line {
    name: Range<usize>,
    shape: Range<usize>,
    opcode: Range<usize>,
    /// Where the line ends, its newline included.
    end: usize,
}

fn position(text: &[u8], from: usize, to: usize, wanted: &[u8]) -> Option<usize> {
    text[from..to]
        .windows(wanted.len())
        .position(|piece| piece == wanted)
        .map(|at| from + at)
}

fn read_line(text: &[u8], range: Range<usize>) -> Option<Line> {
    let equals = position(text, range.start, range.end, b" = ")?;
    let mut start = range.start;
    while start < equals && text[start].is_ascii_whitespace() {
        start += 1;
    }
    if text[start..equals].starts_with(b"ROOT ") {
        start += 5;
    }
    let shape = equals + 3;
    // A tuple's shape is in parentheses and holds spaces; such lines are left alone.
    if text.get(shape) == Some(&b'(') {
        return None;
    }
    let space = position(text, shape, range.end, b" ")?;
    let open = position(text, space, range.end, b"(")?;
    Some(Line {
        name: start..equals,
        shape: shape..space,
        opcode: space + 1..open,
        end: range.end,
    })
}

fn instructions(text: &[u8]) -> Vec<Line> {
    lines(text)
        .into_iter()
        .filter_map(|range| read_line(text, range))
        .collect()
}

/// Writes another word wherever one stands: a type, a number or a name.
fn rename_everywhere(text: &mut Vec<u8>, numbers: &mut Numbers) {
    let all = words(text);
    let Some((kind, range)) = numbers.pick(&all).cloned() else {
        return;
    };
    let old = text[range].to_vec();
    let by = match kind {
        Kind::Number => numbers.pick(&NUMBERS).copied().unwrap_or(b"2"),
        Kind::Name if TYPES.contains(&old.as_slice()) => {
            numbers.pick(&TYPES).copied().unwrap_or(b"f32")
        }
        _ => return,
    };
    for (_, range) in all.iter().rev() {
        if text[range.clone()] == *old {
            replace(text, range.clone(), by);
        }
    }
}

/// Exchanges an opcode for one of its class.
fn exchange_opcode(text: &mut Vec<u8>, numbers: &mut Numbers) {
    let found = instructions(text);
    let Some(line) = numbers.pick(&found) else {
        return;
    };
    let name = &text[line.opcode.clone()];
    let Some(opcode) = HloOpcode::all().find(|opcode| opcode.name().as_bytes() == name) else {
        return;
    };
    let like: Vec<HloOpcode> = HloOpcode::all()
        .filter(|other| other.class() == opcode.class())
        .collect();
    if let Some(other) = numbers.pick(&like) {
        replace(text, line.opcode.clone(), other.name().as_bytes());
    }
}

/// Puts an elementwise instruction, a copy or a round trip through another type between a value and one user of it.
fn insert_instruction(text: &mut Vec<u8>, numbers: &mut Numbers) {
    let found = instructions(text);
    let Some(line) = numbers.pick(&found) else {
        return;
    };
    let value = text[line.name.clone()].to_vec();
    let shape = text[line.shape.clone()].to_vec();
    let mut fresh = b"z".to_vec();
    fresh.extend(numbers.below(100_000).to_string().as_bytes());
    let one = [&value[..]];
    let two = [&value[..], &value[..]];
    let of = |class: OpClass| -> Vec<HloOpcode> {
        HloOpcode::all().filter(|o| o.class() == class).collect()
    };
    let (opcode, operands): (&[u8], &[&[u8]]) = match numbers.below(8) {
        0..=2 => match numbers.pick(&of(OpClass::Unary)) {
            Some(opcode) => (opcode.name().as_bytes(), &one),
            None => return,
        },
        3..=5 => match numbers.pick(&of(OpClass::Binary)) {
            Some(opcode) => (opcode.name().as_bytes(), &two),
            None => return,
        },
        6 => (b"copy", &one),
        _ => (b"convert", &one),
    };
    let mut inserted = b"  ".to_vec();
    for piece in [&fresh[..], b" = ", &shape, b" ", opcode, b"("] {
        inserted.extend(piece);
    }
    inserted.extend(operands.join(&b", "[..]));
    inserted.extend(b")\n");
    // The users of the value stand below, in the same computation.
    let stop = position(text, line.end, text.len(), b"}\n").unwrap_or(text.len());
    let users: Vec<Range<usize>> = words(&text[line.end..stop])
        .into_iter()
        .map(|(_, range)| range.start + line.end..range.end + line.end)
        .filter(|range| text[range.clone()] == *value)
        .collect();
    if let Some(user) = numbers.pick(&users).cloned() {
        replace(text, user, &fresh);
    }
    replace(text, line.end..line.end, &inserted);
}

/// One change of the text.
pub fn grow(text: &mut Vec<u8>, numbers: &mut Numbers) {
    match numbers.below(6) {
        0 | 1 => rename_everywhere(text, numbers),
        2 | 3 => exchange_opcode(text, numbers),
        _ => insert_instruction(text, numbers),
    }
}
