//! A small scanner for attributes that are kept as text and read on demand.
//!
//! The parser has checked these texts, so a reader that stops early has met something newer than
//! itself, and keeps what it understood.

use super::escape::unescape;

/// What a reader did not understand, and at which byte of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanError {
    /// Byte within the text.
    pub offset: usize,
    /// What was expected.
    pub expected: &'static str,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)
}

/// A position in a text.
pub(crate) struct Scanner<'t> {
    text: &'t [u8],
    pub at: usize,
}

impl<'t> Scanner<'t> {
    pub fn new(text: &'t [u8]) -> Scanner<'t> {
        Scanner { text, at: 0 }
    }

    pub fn peek(&mut self) -> u8 {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(b'/') if self.text.get(self.at + 1) == Some(&b'*') => {
                    let rest = &self.text[self.at + 2..];
                    match memchr::memmem::find(rest, b"*/") {
                        Some(length) => self.at += length + 4,
                        None => return b'/',
                    }
                }
                Some(&byte) => return byte,
                None => return 0,
            }
        }
    }

    pub fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte && self.at < self.text.len();
        self.at += usize::from(found);
        found
    }

    pub fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), ScanError> {
        match self.eat(byte) {
            true => Ok(()),
            false => Err(self.error(expected)),
        }
    }

    pub fn error(&self, expected: &'static str) -> ScanError {
        ScanError {
            offset: self.at,
            expected,
        }
    }

    /// A run of `[A-Za-z0-9_.-]`; empty when there is none.
    pub fn word(&mut self) -> &'t [u8] {
        self.peek();
        let rest = &self.text[self.at..];
        let length = rest.iter().take_while(|&&byte| is_word(byte)).count();
        self.at += length;
        &rest[..length]
    }

    pub fn integer(&mut self) -> Result<i64, ScanError> {
        self.peek();
        let rest = &self.text[self.at..];
        let sign = usize::from(rest.first() == Some(&b'-'));
        let length = sign
            + rest[sign..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count();
        let value = std::str::from_utf8(&rest[..length])
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| self.error("a number that fits in 64 bits"))?;
        self.at += length;
        Ok(value)
    }

    /// `1,2,3` up to something else.
    pub fn integers(&mut self) -> Result<Vec<i64>, ScanError> {
        let mut list = vec![self.integer()?];
        while self.eat(b',') {
            list.push(self.integer()?);
        }
        Ok(list)
    }

    /// A quoted string, unescaped.
    pub fn string(&mut self) -> Result<String, ScanError> {
        let quote = self.peek();
        if quote != b'"' && quote != b'\'' {
            return Err(self.error("a quoted string"));
        }
        let start = self.at + 1;
        let mut end = start;
        loop {
            match self.text.get(end) {
                Some(b'\\') => end += 2,
                Some(&byte) if byte == quote => break,
                Some(_) => end += 1,
                None => return Err(self.error("a string that ends")),
            }
        }
        self.at = end + 1;
        Ok(String::from_utf8_lossy(&unescape(&self.text[start..end])).into_owned())
    }

    /// A value of any form, as written: a string, something in brackets, or a word.
    pub fn value(&mut self) -> Result<&'t [u8], ScanError> {
        let first = self.peek();
        let start = self.at;
        match first {
            b'"' | b'\'' => {
                self.string()?;
            }
            b'{' | b'[' | b'(' => {
                let mut depth = 0usize;
                loop {
                    match self.text.get(self.at) {
                        Some(b'{' | b'[' | b'(') => depth += 1,
                        Some(b'}' | b']' | b')') => depth -= 1,
                        Some(b'"') => {
                            self.string()?;
                            continue;
                        }
                        Some(_) => {}
                        None => return Err(self.error("brackets that close")),
                    }
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            _ => {
                if self.word().is_empty() {
                    return Err(self.error("a value"));
                }
            }
        }
        Ok(&self.text[start..self.at])
    }

    /// `, metadata=`, which ends the axes of a mesh.
    pub fn eat_metadata(&mut self) -> bool {
        let start = self.at;
        let is_there = self.eat(b',') && self.word() == b"metadata" && self.eat(b'=');
        if !is_there {
            self.at = start;
        }
        is_there
    }

    /// The axes of a mesh and what is said of them, `mesh['x'=2,"y"=2], device_ids=(1,0), [{'x'}]`, as
    /// written: up to `, metadata=`, a bracket that closes nothing, or the end. Names in quotes hold no
    /// quotes.
    pub fn named_axes(&mut self) -> Result<&'t [u8], ScanError> {
        let start = self.at;
        let mut open = Vec::new();
        loop {
            let byte = self.peek();
            match byte {
                b'{' => open.push(b'}'),
                b'[' => open.push(b']'),
                b'(' => open.push(b')'),
                b',' if open.is_empty() => {
                    let comma = self.at;
                    let is_end = self.eat_metadata();
                    self.at = comma;
                    if is_end {
                        break;
                    }
                }
                b'}' | b']' | b')' => match open.pop() {
                    Some(closing) if closing == byte => {}
                    None => break,
                    Some(_) => return Err(self.error("the bracket that closes the last one")),
                },
                b'"' | b'\'' => {
                    let name = &self.text[self.at + 1..];
                    match name.iter().position(|b| b"\"'\\\n".contains(b)) {
                        Some(length) if name[length] == byte => self.at += length + 1,
                        _ => return Err(self.error("the name of an axis in quotes")),
                    }
                }
                _ if is_word(byte) => {
                    self.word();
                    // The text is printed without blanks, so that two words would become one.
                    if is_word(self.peek()) {
                        return Err(self.error("a comma, '=' or a bracket"));
                    }
                    continue;
                }
                b'=' | b',' | b':' | b'?' | b'<' => {}
                _ if self.at == self.text.len() => break,
                _ => return Err(self.error("a name, a number or a bracket")),
            }
            self.at += 1;
        }
        match open.is_empty() {
            true => Ok(&self.text[start..self.at]),
            false => Err(self.error("brackets that close")),
        }
    }
}
