//! A cursor over the text of a proto: white space and comments, words, numbers, strings.

use crate::text::error::{Fault, Parsed};
use crate::text::lexer::snippet;

/// A position in a text.
#[derive(Clone, Copy)]
pub struct Cursor<'s> {
    pub source: &'s [u8],
    pub position: usize,
}

/// Whether a byte may stand in a word or a number.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl<'s> Cursor<'s> {
    /// The byte at the position; 0 at the end.
    pub fn peek(&self) -> u8 {
        self.source.get(self.position).copied().unwrap_or(0)
    }

    pub fn at_end(&self) -> bool {
        self.position >= self.source.len()
    }

    /// Skips white space and comments.
    pub fn skip_space(&mut self) {
        loop {
            while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c) {
                self.position += 1;
            }
            if self.peek() != b'#' {
                return;
            }
            let rest = &self.source[self.position..];
            self.position += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        }
    }

    /// Skips space, then `byte` if it is there.
    pub fn eat(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = !self.at_end() && self.peek() == byte;
        self.position += usize::from(found);
        found
    }

    /// The word or number at the cursor, without signs and points; it may be empty.
    pub fn word(&mut self) -> &'s [u8] {
        self.skip_space();
        self.run(is_word)
    }

    /// The number at the cursor as it is written, with its sign; it may be none.
    pub fn number(&mut self) -> &'s [u8] {
        self.skip_space();
        let start = self.position;
        self.position += usize::from(self.peek() == b'-');
        let mut last = 0;
        self.run(|byte| {
            // The sign of an exponent.
            let is_sign = matches!(byte, b'+' | b'-') && matches!(last, b'e' | b'E');
            last = byte;
            is_word(byte) || byte == b'.' || is_sign
        });
        &self.source[start..self.position]
    }

    fn run(&mut self, mut is_part: impl FnMut(u8) -> bool) -> &'s [u8] {
        let rest = self.source.get(self.position..).unwrap_or(&[]);
        let length = rest.iter().position(|&byte| !is_part(byte));
        let run = &rest[..length.unwrap_or(rest.len())];
        self.position += run.len();
        run
    }

    /// Appends what the strings at the cursor mean together; whether there is one.
    pub fn strings(&mut self, out: &mut Vec<u8>) -> Parsed<bool> {
        let mut is_there = false;
        loop {
            self.skip_space();
            if !matches!(self.peek(), b'"' | b'\'') {
                return Ok(is_there);
            }
            self.string(out)?;
            is_there = true;
        }
    }

    fn string(&mut self, out: &mut Vec<u8>) -> Parsed<()> {
        let (start, quote) = (self.position, self.peek());
        self.position += 1;
        loop {
            let rest = &self.source[self.position..];
            let end = rest
                .iter()
                .position(|&b| b == quote || b == b'\\' || b == b'\n');
            let Some(end) = end.filter(|&end| rest[end] != b'\n') else {
                return Err(Fault::new(
                    start,
                    "a string without its closing quote on the same line",
                ));
            };
            out.extend_from_slice(&rest[..end]);
            self.position += end + 1;
            if rest[end] == quote {
                return Ok(());
            }
            self.escape(out)?;
        }
    }

    /// What stands behind a backslash.
    fn escape(&mut self, out: &mut Vec<u8>) -> Parsed<()> {
        let start = self.position - 1;
        let fault = || Fault::new(start, "an unknown escape");
        let byte = self.peek();
        self.position += 1;
        let plain = match byte {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'\\' | b'\'' | b'"' | b'?' => byte,
            b'0'..=b'7' => {
                self.position -= 1;
                // As other readers do, more than a byte holds is cut.
                self.digits(8, 3).ok_or_else(fault)? as u8
            }
            b'x' | b'X' => self.digits(16, 2).ok_or_else(fault)? as u8,
            b'u' | b'U' => {
                let count = if byte == b'u' { 4 } else { 8 };
                let before = self.position;
                let letter = self.digits(16, count).and_then(char::from_u32);
                let letter = letter.filter(|_| self.position - before == count);
                let letter = letter.ok_or_else(fault)?;
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(fault()),
        };
        out.push(plain);
        Ok(())
    }

    /// The number that up to `most` digits are; `None` where there are none.
    fn digits(&mut self, base: u32, most: usize) -> Option<u32> {
        let start = self.position;
        let mut number = 0;
        while self.position - start < most {
            let Some(digit) = char::from(self.peek()).to_digit(base) else {
                break;
            };
            number = number * base + digit;
            self.position += 1;
        }
        (self.position > start).then_some(number)
    }

    /// "expected …, found …" at the cursor.
    #[cold]
    pub fn expected(&self, what: &str) -> Box<Fault> {
        let mut ahead = *self;
        let found = match ahead.number() {
            [] | b"-" if ahead.at_end() => "the end of the text".to_owned(),
            [] if matches!(self.peek(), b'"' | b'\'') => "a string".to_owned(),
            [] => {
                let rest = &self.source[self.position..];
                let end = rest
                    .iter()
                    .position(|byte| !byte.is_ascii())
                    .unwrap_or(1)
                    .max(1);
                format!("'{}'", snippet(&rest[..end.min(1)]))
            }
            word => format!("'{}'", snippet(word)),
        };
        Fault::new(self.position, format!("expected {what}, found {found}"))
    }
}
