//! A mutator that changes words and lines instead of bytes, so that most of what it makes still
//! parses and reaches the rules behind the grammar.
//!
//! Comes in: libFuzzer's buffer and a seed. Goes out: the changed text in the same buffer, and its
//! length. A third of the rounds are left to libFuzzer's own mutator.

use std::ops::Range;

use crate::grow::grow;
use crate::lie::lie;

/// A small generator of numbers; the same ones for the same seed.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    pub(crate) fn pick<'t, T>(&mut self, among: &'t [T]) -> Option<&'t T> {
        let at = self.below(among.len());
        among.get(at)
    }
}

pub(crate) const NUMBERS: [&[u8]; 16] = [
    b"0",
    b"1",
    b"2",
    b"3",
    b"4",
    b"5",
    b"7",
    b"8",
    b"16",
    b"64",
    b"65",
    b"-1",
    b"-2",
    b"2147483648",
    b"9223372036854775807",
    b"-9223372036854775808",
];
pub(crate) const TYPES: [&[u8]; 20] = [
    b"pred",
    b"s2",
    b"s4",
    b"s8",
    b"s16",
    b"s32",
    b"s64",
    b"u1",
    b"u4",
    b"u8",
    b"u32",
    b"u64",
    b"f16",
    b"bf16",
    b"f32",
    b"f64",
    b"c64",
    b"c128",
    b"f8e4m3fn",
    b"token",
];
const PIECES: [&[u8]; 16] = [
    b"{}",
    b"[]",
    b"()",
    b",",
    b"=",
    b"{1,0}",
    b"{0}",
    b"<=",
    b"?",
    b"ROOT ",
    b"%",
    b"inf",
    b"nan",
    b"true",
    b"/*index=5*/",
    b"{{0,1}}",
];

/// What a word is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Name,
    Other,
}

pub(crate) fn words(text: &[u8]) -> Vec<(Kind, Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let start = at;
        let is_word = |b: u8| b.is_ascii_alphanumeric() || b"_.-%".contains(&b);
        if !is_word(text[at]) {
            if !text[at].is_ascii_whitespace() {
                found.push((Kind::Other, at..at + 1));
            }
            at += 1;
            continue;
        }
        while at < text.len() && is_word(text[at]) {
            at += 1;
        }
        let digits = text[start].is_ascii_digit()
            || (text[start] == b'-' && text.get(start + 1).is_some_and(u8::is_ascii_digit));
        found.push((if digits { Kind::Number } else { Kind::Name }, start..at));
    }
    found
}

pub(crate) fn lines(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, _) in text.iter().enumerate().filter(|(_, b)| **b == b'\n') {
        found.push(start..at + 1);
        start = at + 1;
    }
    if start < text.len() {
        found.push(start..text.len());
    }
    found
}

pub(crate) fn replace(text: &mut Vec<u8>, range: Range<usize>, by: &[u8]) {
    text.splice(range, by.iter().copied());
}

fn change_word(text: &mut Vec<u8>, numbers: &mut Numbers) {
    let words = words(text);
    let Some((kind, range)) = numbers.pick(&words).cloned() else {
        return;
    };
    let like: Vec<Range<usize>> = words
        .iter()
        .filter(|(k, _)| *k == kind)
        .map(|(_, range)| range.clone())
        .collect();
    let choice = numbers.below(8);
    match (kind, choice) {
        (Kind::Number, 0..=3) => {
            let by = numbers.pick(&NUMBERS).copied().unwrap_or(b"0");
            replace(text, range, by);
        }
        (Kind::Name, 0) => {
            let by = numbers.pick(&TYPES).copied().unwrap_or(b"f32");
            replace(text, range, by);
        }
        (_, 6) => replace(text, range, b""),
        (_, 7) => {
            let by = numbers.pick(&PIECES).copied().unwrap_or(b",");
            replace(text, range.start..range.start, by);
        }
        _ => {
            if let Some(other) = numbers.pick(&like).cloned() {
                let by = text[other].to_vec();
                replace(text, range, &by);
            }
        }
    }
}

fn change_line(text: &mut Vec<u8>, numbers: &mut Numbers) {
    let lines = lines(text);
    let (Some(line), Some(other)) = (numbers.pick(&lines).cloned(), numbers.pick(&lines).cloned())
    else {
        return;
    };
    match numbers.below(3) {
        0 => replace(text, line, b""),
        1 => {
            let copy = text[other].to_vec();
            replace(text, line.start..line.start, &copy);
        }
        _ => {
            let copy = text[other].to_vec();
            replace(text, line, &copy);
        }
    }
}

/// Changes `data[..size]`; returns the new length, at most `max_size`.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut numbers = Numbers(u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    if size == 0 || numbers.below(3) == 0 {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    let mut text = data[..size].to_vec();
    for _ in 0..1 + numbers.below(3) {
        match numbers.below(10) {
            0 => change_line(&mut text, &mut numbers),
            1..=3 => change_word(&mut text, &mut numbers),
            4..=5 => lie(&mut text, &mut numbers),
            _ => grow(&mut text, &mut numbers),
        }
    }
    text.truncate(max_size);
    data[..text.len()].copy_from_slice(&text);
    text.len()
}
