//! Strings, and text in brackets that is skipped as a whole.
//!
//! Comes in: a cursor at a quote or bracket. Goes out: the piece of text to the one that closes it.
//! Promise: nothing recurses, and long stretches are searched, not stepped through.

use memchr::{memchr2, memchr3};

use super::error::{Fault, Parsed};
use super::lexer::Cursor;
use super::scan::{self, WIDTH, window};
use crate::module::TextRef;

impl Cursor<'_> {
    /// A quoted string; the result is what stands between the quotes, escapes as written.
    pub fn string(&mut self, what: &str) -> Parsed<TextRef> {
        self.skip_space();
        let quote = self.peek();
        if quote != b'"' && quote != b'\'' {
            return Err(self.expected(what));
        }
        let start = self.position;
        let mut at = start + 1;
        loop {
            let Some(found) = self.quote_or_escape(at, quote) else {
                return Err(Fault::new(start, "this string never ends"));
            };
            at = found;
            if self.source[at] == quote {
                self.position = at + 1;
                return Ok(TextRef::new(start + 1, at));
            }
            at = self.escape(at)?;
        }
    }

    /// Where the next `quote` or backslash from `at` on is.
    #[inline(always)]
    pub fn quote_or_escape(&self, at: usize, quote: u8) -> Option<usize> {
        let mut from = at;
        // Strings of a few hundred bytes are found faster than `memchr` is called.
        for _ in 0..8 {
            let Some(text) = window(self.source, from) else {
                break;
            };
            let found = scan::find_either(text, quote, b'\\');
            from += found;
            if found < WIDTH {
                return Some(from);
            }
        }
        let rest = self.source.get(from..)?;
        memchr2(quote, b'\\', rest).map(|found| from + found)
    }

    /// Checks the escape whose backslash is at `at` and returns where it ends.
    fn escape(&self, at: usize) -> Parsed<usize> {
        let digits = |from: usize, most: usize, hex: bool| {
            self.source[from.min(self.source.len())..]
                .iter()
                .take(most)
                .take_while(|b| {
                    if hex {
                        b.is_ascii_hexdigit()
                    } else {
                        (b'0'..=b'7').contains(b)
                    }
                })
                .count()
        };
        let count = match self.source.get(at + 1) {
            Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'\\' | b'?' | b'\'' | b'"') => 1,
            Some(b'0'..=b'7') => digits(at + 1, 3, false),
            Some(b'x' | b'X') => match digits(at + 2, 64, true) {
                0 => 0,
                n => n + 1,
            },
            Some(b'u') if digits(at + 2, 4, true) == 4 => 5,
            Some(b'U') if digits(at + 2, 8, true) == 8 => 9,
            // JSON writes it; C does not know it.
            Some(b'/') => 1,
            _ => 0,
        };
        if count == 0 {
            return Err(Fault::new(at, "this is no escape that a string may hold"));
        }
        Ok(at + 1 + count)
    }

    /// A balanced `{…}`, `[…]` or `(…)` at the cursor; strings within are skipped.
    pub fn balanced(&mut self) -> Parsed<TextRef> {
        let start = self.position;
        let mut open: Vec<u8> = Vec::new();
        loop {
            match self.peek() {
                b'{' => open.push(b'}'),
                b'[' => open.push(b']'),
                b'(' => open.push(b')'),
                byte @ (b'}' | b']' | b')') => {
                    if open.pop() != Some(byte) {
                        return Err(Fault::new(
                            self.position,
                            format!("'{}' closes nothing that is open", byte as char),
                        ));
                    }
                    if open.is_empty() {
                        self.position += 1;
                        return Ok(TextRef::new(start, self.position));
                    }
                }
                b'"' | b'\'' => {
                    self.raw_string()?;
                    continue;
                }
                b'/' if self.at(1) == b'*' => match self.comment_end() {
                    Some(end) => {
                        self.position = end;
                        continue;
                    }
                    None => return Err(Fault::new(self.position, "this comment never ends")),
                },
                _ if self.at_end() => {
                    return Err(Fault::new(
                        start,
                        format!("this '{}' is never closed", self.source[start] as char),
                    ));
                }
                _ => {}
            }
            self.position += 1;
        }
    }

    /// As [`Cursor::balanced`], with a message when nothing opens here.
    pub fn balanced_at(&mut self, what: &str) -> Parsed<TextRef> {
        if matches!(self.peek(), b'{' | b'[' | b'(') {
            self.balanced()
        } else {
            Err(self.expected(what))
        }
    }

    /// A balanced `{…}` that counts only braces and double-quoted strings, as for JSON.
    pub fn json_object(&mut self) -> Parsed<TextRef> {
        let start = self.position;
        let mut depth = 0usize;
        loop {
            let found = self
                .source
                .get(self.position..)
                .and_then(|rest| memchr3(b'{', b'}', b'"', rest));
            let Some(found) = found else {
                return Err(Fault::new(start, "this '{' is never closed"));
            };
            self.position += found;
            match self.peek() {
                b'{' => depth += 1,
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        self.position += 1;
                        return Ok(TextRef::new(start, self.position));
                    }
                }
                _ => {
                    self.raw_string()?;
                    continue;
                }
            }
            self.position += 1;
        }
    }

    /// Skips a string in quotes of either kind; a backslash protects any byte after it.
    fn raw_string(&mut self) -> Parsed<()> {
        let start = self.position;
        let quote = self.peek();
        let mut at = start + 1;
        loop {
            let Some(found) = self.quote_or_escape(at, quote) else {
                return Err(Fault::new(start, "this string never ends"));
            };
            if self.source[found] == quote {
                self.position = found + 1;
                return Ok(());
            }
            at = found + 2;
        }
    }
}
