//! A cursor over the bytes of a text: white space, comments, names, numbers, strings.
//!
//! There is no token stream. The parser asks for what may stand at the cursor, so no byte is
//! classified twice; long stretches (strings, comments) go through `memchr`.

use memchr::{memchr, memchr2};

use super::error::{Fault, Parsed};
use super::scan::{self, Key, WIDTH, window};
use super::symbols::Symbol;
use crate::module::TextRef;

/// `[A-Za-z0-9_.-]`, the bytes a name may consist of.
const NAME: u8 = 1;
/// `[A-Za-z_]`, the bytes a name may start with.
const START: u8 = 2;
/// Space, tab, newline, carriage return.
const SPACE: u8 = 4;
/// `[0-9]`.
const DIGIT: u8 = 8;

static CLASS: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut byte = 0usize;
    while byte < 256 {
        let b = byte as u8;
        if b.is_ascii_alphabetic() || b == b'_' {
            table[byte] = NAME | START;
        } else if b.is_ascii_digit() {
            table[byte] = NAME | DIGIT;
        } else if b == b'.' || b == b'-' {
            table[byte] = NAME;
        } else if b == b' ' || b == b'\t' || b == b'\n' || b == b'\r' {
            table[byte] = SPACE;
        }
        byte += 1;
    }
    table
};

#[inline(always)]
pub(crate) fn is_name_byte(byte: u8) -> bool {
    CLASS[byte as usize] & NAME != 0
}

#[inline(always)]
pub(crate) fn is_name_start(byte: u8) -> bool {
    CLASS[byte as usize] & START != 0
}

/// A position in a text.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'s> {
    pub source: &'s [u8],
    pub position: usize,
}

impl<'s> Cursor<'s> {
    pub fn new(source: &'s [u8]) -> Cursor<'s> {
        Cursor {
            source,
            position: 0,
        }
    }

    /// The byte at `position`; 0 at the end, which no legal text holds outside strings.
    #[inline(always)]
    pub fn peek(&self) -> u8 {
        self.at(0)
    }

    #[inline(always)]
    pub fn at(&self, ahead: usize) -> u8 {
        match self.source.get(self.position + ahead) {
            Some(&byte) => byte,
            None => 0,
        }
    }

    pub fn at_end(&self) -> bool {
        self.position >= self.source.len()
    }

    /// Skips white space and comments. An unterminated comment is left where it starts.
    #[inline(always)]
    pub fn skip_space(&mut self) {
        let byte = self.peek();
        if byte > b' ' && byte != b'/' {
            return;
        }
        if byte == b' ' {
            let next = self.at(1);
            if next > b' ' && next != b'/' {
                self.position += 1;
                return;
            }
        }
        self.skip_space_slow();
    }

    #[inline(never)]
    fn skip_space_slow(&mut self) {
        loop {
            while CLASS[self.peek() as usize] & SPACE != 0 {
                self.position += 1;
            }
            if self.peek() != b'/' {
                return;
            }
            match self.at(1) {
                b'/' => {
                    let rest = &self.source[self.position..];
                    let length = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
                    self.position += length;
                }
                b'*' => match self.comment_end() {
                    Some(end) => self.position = end,
                    None => return,
                },
                _ => return,
            }
        }
    }

    pub(super) fn comment_end(&self) -> Option<usize> {
        let mut at = self.position + 2;
        // `/*index=5*/` is all the comments there are in most texts.
        if let Some(text) = window(self.source, at) {
            let star = scan::find(text, b'*');
            if text.get(star + 1) == Some(&b'/') {
                return Some(at + star + 2);
            }
        }
        loop {
            at += memchr(b'*', self.source.get(at..)?)? + 1;
            if self.source.get(at) == Some(&b'/') {
                return Some(at + 1);
            }
        }
    }

    /// Skips space, then `byte` if it is there.
    #[inline(always)]
    pub fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek();
        if found == byte {
            self.position += 1;
            return true;
        }
        // What is neither space nor comment would still be here after them.
        (found <= b' ' || found == b'/') && self.eat_after_space(byte)
    }

    #[inline(never)]
    fn eat_after_space(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.peek() == byte;
        self.position += usize::from(found);
        found
    }

    /// Skips space, then the text `token` if it is there.
    pub fn eat_text(&mut self, token: &[u8]) -> bool {
        self.skip_space();
        if self.source[self.position.min(self.source.len())..].starts_with(token) {
            self.position += token.len();
            true
        } else {
            false
        }
    }

    #[inline(always)]
    pub fn expect(&mut self, byte: u8, what: &str) -> Parsed<()> {
        if self.eat(byte) {
            Ok(())
        } else {
            Err(self.expected(what))
        }
    }

    /// Whether the word at the cursor (space already skipped) is `word`.
    #[inline]
    pub fn is_word(&self, word: &[u8]) -> bool {
        let rest = &self.source[self.position.min(self.source.len())..];
        rest.starts_with(word) && !rest.get(word.len()).is_some_and(|&b| is_name_byte(b))
    }

    /// Skips space, then the whole word `word` if it is there.
    pub fn eat_word(&mut self, word: &[u8]) -> bool {
        self.skip_space();
        if self.is_word(word) {
            self.position += word.len();
            true
        } else {
            false
        }
    }

    /// The bytes of a piece of the source.
    #[inline(always)]
    pub fn bytes(&self, text: TextRef) -> &'s [u8] {
        self.source
            .get(text.start as usize..text.end())
            .unwrap_or(&[])
    }

    /// The end of the run of name bytes that starts at the cursor.
    #[inline(always)]
    pub fn name_end(&self) -> usize {
        let run = window(self.source, self.position).map_or(WIDTH, scan::name_run);
        if run < WIDTH {
            self.position + run
        } else {
            self.name_end_slow()
        }
    }

    /// As [`Cursor::name_end`], for long names and near the end of the text.
    #[inline(never)]
    fn name_end_slow(&self) -> usize {
        let mut end = self.position;
        while self.source.get(end).is_some_and(|&b| is_name_byte(b)) {
            end += 1;
        }
        end
    }

    /// A word of name bytes that starts with a letter or `_`, space skipped before it.
    #[inline(always)]
    pub fn word(&mut self, what: &str) -> Parsed<TextRef> {
        self.skip_space();
        if !is_name_start(self.peek()) {
            return Err(self.expected(what));
        }
        let end = self.name_end();
        let text = TextRef::new(self.position, end);
        self.position = end;
        Ok(text)
    }

    /// As [`Cursor::word`], with the word's key.
    #[inline(always)]
    pub fn keyed_word(&mut self, what: &str) -> Parsed<(TextRef, Key)> {
        self.skip_space();
        if !is_name_start(self.peek()) {
            return Err(self.expected(what));
        }
        let start = self.position;
        if let Some(window) = window(self.source, start) {
            let run = scan::name_run(window);
            if run < WIDTH {
                self.position += run;
                return Ok((TextRef::new(start, start + run), Key::new(window, run)));
            }
        }
        self.position = self.name_end_slow();
        let text = TextRef::new(start, self.position);
        Ok((text, Key::of(self.bytes(text))))
    }

    /// A name with or without `%`; the result is without.
    #[inline(always)]
    pub fn name(&mut self, what: &str) -> Parsed<TextRef> {
        self.start_of_name(what)?;
        let end = self.name_end();
        let text = TextRef::new(self.position, end);
        self.position = end;
        Ok(text)
    }

    /// A name as of [`Cursor::name`] in a list of parameters, where also one of digits has no `%`.
    pub fn parameter_name(&mut self) -> Parsed<()> {
        self.skip_space();
        if self.peek().is_ascii_digit() {
            self.position = self.name_end();
            return Ok(());
        }
        self.name("the name of a parameter").map(drop)
    }

    /// A name as of [`Cursor::name`], ready to be looked up.
    #[inline(always)]
    pub fn symbol(&mut self, what: &str) -> Parsed<Symbol> {
        self.start_of_name(what)?;
        let start = self.position;
        if let Some(window) = window(self.source, start) {
            let run = scan::name_run(window);
            if run < WIDTH {
                self.position += run;
                return Ok(Symbol::short(window, TextRef::new(start, start + run)));
            }
        }
        Ok(self.symbol_slow())
    }

    #[inline(never)]
    fn symbol_slow(&mut self) -> Symbol {
        let name = TextRef::new(self.position, self.name_end_slow());
        self.position = name.end();
        Symbol::new(self.bytes(name), name)
    }

    /// Space and the `%` before a name.
    #[inline(always)]
    fn start_of_name(&mut self, what: &str) -> Parsed<()> {
        self.skip_space();
        if self.peek() == b'%' {
            self.position += 1;
            if is_name_start(self.peek()) || self.peek().is_ascii_digit() {
                return Ok(());
            }
        } else if is_name_start(self.peek()) {
            return Ok(());
        }
        Err(self.expected(what))
    }

    /// A whole number that fits `i64`.
    #[inline(always)]
    pub fn integer(&mut self, what: &str) -> Parsed<i64> {
        let mut value = 0i64;
        // Eighteen digits fit.
        let rest = self.source.get(self.position..).unwrap_or(&[]);
        for (at, &byte) in (self.position..).zip(rest.iter().take(18)) {
            let digit = byte.wrapping_sub(b'0');
            if digit >= 10 {
                if at == self.position {
                    break;
                }
                self.position = at;
                return Ok(value);
            }
            value = value * 10 + i64::from(digit);
        }
        self.integer_slow(what)
    }

    /// As [`Cursor::integer`], after space, with a sign, or long.
    #[inline(never)]
    fn integer_slow(&mut self, what: &str) -> Parsed<i64> {
        self.skip_space();
        let start = self.position;
        let negative = self.peek() == b'-';
        let mut at = start + usize::from(negative);
        let first = at;
        let mut value = 0u64;
        let mut overflow = false;
        while let Some(digit) = self
            .source
            .get(at)
            .map(|b| b.wrapping_sub(b'0'))
            .filter(|&d| d < 10)
        {
            let (scaled, over) = value.overflowing_mul(10);
            let (sum, carry) = scaled.overflowing_add(u64::from(digit));
            overflow |= over | carry;
            value = sum;
            at += 1;
        }
        if at == first {
            return Err(self.expected(what));
        }
        self.position = at;
        let limit = i64::MAX as u64 + u64::from(negative);
        if overflow || value > limit {
            return Err(Fault::new(
                start,
                format!(
                    "integer {} does not fit in 64 bits",
                    snippet(&self.source[start..at])
                ),
            ));
        }
        Ok(if negative {
            (value as i64).wrapping_neg()
        } else {
            value as i64
        })
    }

    /// "expected …, found …" at the cursor.
    #[cold]
    #[inline(never)]
    pub fn expected(&self, what: &str) -> Box<Fault> {
        Fault::new(
            self.position,
            format!("expected {what}, found {}", self.found()),
        )
    }

    /// What stands at the cursor, for a message.
    #[cold]
    pub fn found(&self) -> String {
        let rest = &self.source[self.position.min(self.source.len())..];
        let Some(&first) = rest.first() else {
            return "the end of the text".to_owned();
        };
        if is_name_byte(first) || first == b'%' {
            let length = 1 + rest[1..].iter().take_while(|&&b| is_name_byte(b)).count();
            return format!("'{}'", snippet(&rest[..length]));
        }
        if rest.starts_with(b"/*") {
            return "a comment that never ends".to_owned();
        }
        if first == b'"' || first == b'\'' {
            return "a string".to_owned();
        }
        if first.is_ascii_graphic() {
            return format!("'{}'", first as char);
        }
        let head = &rest[..rest.len().min(4)];
        let c = head
            .utf8_chunks()
            .next()
            .and_then(|c| c.valid().chars().next());
        if let Some(c) = c.filter(|c| !c.is_control()) {
            return format!("'{c}'");
        }
        format!("byte 0x{first:02x}")
    }
}

/// A few bytes of the text for a message, cut when long.
#[cold]
pub(crate) fn snippet(bytes: &[u8]) -> String {
    const MOST: usize = 60;
    if bytes.len() <= MOST {
        String::from_utf8_lossy(bytes).into_owned()
    } else {
        format!("{}…", String::from_utf8_lossy(&bytes[..MOST]))
    }
}
