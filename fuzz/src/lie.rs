//! Lies about one instruction: the type, a size, the rank or the layout of an array of its result or of an operand
//! it declares, an element more or less of a tuple, another value in its configuration.
//!
//! Comes in: a text and a generator of numbers. Goes out: the text with one such lie, of any opcode.

use std::ops::Range;

use crate::mutate::{Kind, NUMBERS, Numbers, TYPES, lines, replace, words};

/// Sizes that are near those of small arrays, and ones that are not.
const SIZES: [&[u8]; 10] = [b"0", b"1", b"2", b"3", b"4", b"5", b"7", b"8", b"16", b"193"];

/// One `type[sizes]{layout}`.
struct Array {
    ty: Range<usize>,
    /// Between the brackets.
    sizes: Range<usize>,
    /// Between the braces, if there are any.
    layout: Option<Range<usize>>,
}

impl Array {
    fn whole(&self) -> Range<usize> {
        let end = self.layout.as_ref().map_or(self.sizes.end, |layout| layout.end);
        self.ty.start..end + 1
    }
}

fn arrays(text: &[u8], line: Range<usize>) -> Vec<Array> {
    let mut found = Vec::new();
    for (kind, word) in words(&text[line.clone()]) {
        let ty = word.start + line.start..word.end + line.start;
        if kind != Kind::Name || text.get(ty.end) != Some(&b'[') || !TYPES.contains(&&text[ty.clone()]) {
            continue;
        }
        let to = |from: usize, end: u8| {
            let length = text[from..line.end].iter().position(|b| *b == end)?;
            Some(from..from + length)
        };
        let Some(sizes) = to(ty.end + 1, b']') else {
            continue;
        };
        let layout = (text.get(sizes.end + 1) == Some(&b'{'))
            .then(|| to(sizes.end + 2, b'}'))
            .flatten();
        found.push(Array { ty, sizes, layout });
    }
    found
}

/// Changes one number of a list, or takes one away, or adds one.
fn change_list(text: &mut Vec<u8>, list: Range<usize>, numbers: &mut Numbers) {
    let mut values: Vec<Vec<u8>> = text[list.clone()]
        .split(|b| *b == b',')
        .filter(|value| !value.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    let size = numbers.pick(&SIZES).copied().unwrap_or(b"1").to_vec();
    let at = numbers.below(values.len());
    match numbers.below(4) {
        0 if !values.is_empty() => drop(values.remove(at)),
        1 => values.insert(at, size),
        2 if values.len() > 1 => {
            let other = numbers.below(values.len());
            values.swap(at, other);
        }
        _ if !values.is_empty() => values[at] = size,
        _ => values.push(size),
    }
    replace(text, list, &values.join(&b","[..]));
}

fn change_array(text: &mut Vec<u8>, line: Range<usize>, numbers: &mut Numbers) {
    let found = arrays(text, line);
    let Some(array) = numbers.pick(&found) else {
        return;
    };
    match numbers.below(8) {
        0..=1 => {
            let by = numbers.pick(&TYPES).copied().unwrap_or(b"f32");
            replace(text, array.ty.clone(), by);
        }
        2 => {
            // The element of a tuple again.
            let copy = [&text[array.whole()], b", "].concat();
            let at = array.ty.start;
            replace(text, at..at, &copy);
        }
        3 => {
            let mut range = array.whole();
            if text[range.end..].starts_with(b", ") {
                range.end += 2;
            }
            replace(text, range, b"");
        }
        4 => match &array.layout {
            Some(layout) => change_list(text, layout.clone(), numbers),
            None => replace(text, array.sizes.end + 1..array.sizes.end + 1, b"{0,1}"),
        },
        _ => change_list(text, array.sizes.clone(), numbers),
    }
}

/// Changes a number or a word behind `backend_config=`.
fn change_config(text: &mut Vec<u8>, line: Range<usize>, numbers: &mut Numbers) {
    let key = b"backend_config=";
    let here = &text[line.clone()];
    let Some(at) = here.windows(key.len()).position(|piece| piece == key) else {
        return change_array(text, line, numbers);
    };
    let start = line.start + at + key.len();
    let found: Vec<Range<usize>> = words(&text[start..line.end])
        .into_iter()
        .filter(|(kind, _)| *kind != Kind::Other)
        .map(|(_, word)| word.start + start..word.end + start)
        .collect();
    let (Some(word), Some(other)) = (numbers.pick(&found).cloned(), numbers.pick(&found).cloned())
    else {
        return;
    };
    let by = match numbers.below(3) {
        0 => numbers.pick(&NUMBERS).copied().unwrap_or(b"0").to_vec(),
        1 => numbers.pick(&SIZES).copied().unwrap_or(b"1").to_vec(),
        _ => text[other].to_vec(),
    };
    replace(text, word, &by);
}

/// One lie.
pub fn lie(text: &mut Vec<u8>, numbers: &mut Numbers) {
    let all: Vec<Range<usize>> = lines(text)
        .into_iter()
        .filter(|line| text[line.clone()].windows(3).any(|piece| piece == b" = "))
        .collect();
    // Every other lie is about a call of a library, where there is one.
    let is_call = |line: &&Range<usize>| {
        let key = b"custom_call_target";
        text[(*line).clone()].windows(key.len()).any(|piece| piece == key)
    };
    let calls: Vec<Range<usize>> = all.iter().filter(is_call).cloned().collect();
    let among = if calls.is_empty() || numbers.below(2) == 0 {
        &all
    } else {
        &calls
    };
    let Some(line) = numbers.pick(among).cloned() else {
        return;
    };
    match numbers.below(4) {
        0 => change_config(text, line, numbers),
        _ => change_array(text, line, numbers),
    }
}
