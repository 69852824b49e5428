//! Lines of a dump: where they start and end, log prefixes taken off, and what stands in them.
//!
//! Comes in: bytes. Goes out: [`Line`] cursors over one line each. Promise: every byte is looked
//! at a bounded number of times; nothing allocates but errors.

use crate::error::{HloError, Location, ParseError};
use crate::module::TextRef;
use std::sync::Arc;

/// Columns shown on each side of a mistake.
const WINDOW: usize = 60;

/// What is wrong and at which byte.
#[derive(Debug)]
pub(super) struct Mistake {
    pub at: usize,
    pub message: String,
    pub notes: Vec<String>,
}

impl Mistake {
    #[cold]
    pub fn new(at: usize, message: impl Into<String>) -> Mistake {
        Mistake {
            at,
            message: message.into(),
            notes: Vec::new(),
        }
    }

    /// Finds line, column and excerpt in `source`.
    #[cold]
    pub fn into_error(self, source: &[u8], filename: Option<Arc<str>>) -> HloError {
        HloError::Parse(Box::new(ParseError {
            message: self.message,
            location: location(source, self.at, filename),
            notes: self.notes,
        }))
    }
}

/// Line, column and excerpt of a byte.
#[cold]
pub(super) fn location(source: &[u8], at: usize, filename: Option<Arc<str>>) -> Location {
    let at = at.min(source.len());
    let start = memchr::memrchr(b'\n', &source[..at]).map_or(0, |i| i + 1);
    let end = memchr::memchr(b'\n', &source[at..]).map_or(source.len(), |i| at + i);
    let line = memchr::memchr_iter(b'\n', &source[..start]).count() + 1;
    let from = start.max(at.saturating_sub(WINDOW));
    let to = end.min(at + WINDOW);
    let before = String::from_utf8_lossy(&source[from..at]);
    let mut excerpt = before.replace('\t', " ");
    let caret = excerpt.chars().count();
    excerpt.push_str(&String::from_utf8_lossy(&source[at..to]).replace(['\t', '\r'], " "));
    Location {
        filename,
        line,
        column: at - start + 1,
        excerpt,
        caret,
    }
}

pub(super) type Parsed<T> = Result<T, Mistake>;

/// A cursor over one line, its end not included.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub source: &'a [u8],
    pub at: usize,
    pub end: usize,
}

impl<'a> Line<'a> {
    pub fn rest(&self) -> &'a [u8] {
        &self.source[self.at..self.end]
    }

    pub fn is_blank(&self) -> bool {
        self.rest().iter().all(|b| *b == b' ' || *b == b'\t')
    }

    pub fn text(&self) -> TextRef {
        TextRef::new(self.at, self.end)
    }

    pub fn starts_with(&self, literal: &str) -> bool {
        self.rest().starts_with(literal.as_bytes())
    }

    /// Steps over `literal` when it stands here.
    pub fn eat(&mut self, literal: &str) -> bool {
        let found = self.starts_with(literal);
        if found {
            self.at += literal.len();
        }
        found
    }

    pub fn expect(&mut self, literal: &str) -> Parsed<()> {
        if self.eat(literal) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{literal}`")))
    }

    #[cold]
    pub fn unexpected(&self, expected: &str) -> Mistake {
        let rest = self.rest();
        let found = if rest.is_empty() {
            "the end of the line".to_string()
        } else {
            let shown = &rest[..rest.len().min(20)];
            let cut = shown.iter().position(|b| *b == b',').unwrap_or(shown.len());
            format!("`{}`", String::from_utf8_lossy(&shown[..cut.max(1)]))
        };
        Mistake::new(self.at, format!("expected {expected}, found {found}"))
    }

    pub fn number(&mut self, what: &str) -> Parsed<u64> {
        let start = self.at;
        let mut value = 0u64;
        while let Some(digit) = self.rest().first().filter(|b| b.is_ascii_digit()) {
            value = value
                .checked_mul(10)
                .and_then(|v| v.checked_add(u64::from(digit - b'0')))
                .ok_or_else(|| Mistake::new(start, format!("{what} is too large a number")))?;
            self.at += 1;
        }
        if self.at == start {
            return Err(self.unexpected(&format!("{what}, a whole number")));
        }
        Ok(value)
    }

    pub fn small_number(&mut self, what: &str) -> Parsed<u32> {
        let start = self.at;
        let value = self.number(what)?;
        u32::try_from(value)
            .map_err(|_| Mistake::new(start, format!("{what} is too large a number")))
    }

    /// A number that may be negative.
    pub fn signed(&mut self, what: &str) -> Parsed<i64> {
        let start = self.at;
        let negative = self.eat("-");
        let value = i64::try_from(self.number(what)?)
            .map_err(|_| Mistake::new(start, format!("{what} is too large a number")))?;
        Ok(if negative { -value } else { value })
    }

    /// Everything up to the first of `stops`, which is not consumed; never empty.
    pub fn word(&mut self, what: &str, stops: &[u8]) -> Parsed<TextRef> {
        let length = self
            .rest()
            .iter()
            .position(|b| stops.contains(b))
            .unwrap_or(self.end - self.at);
        if length == 0 {
            return Err(self.unexpected(what));
        }
        let text = TextRef::new(self.at, self.at + length);
        self.at += length;
        Ok(text)
    }

    /// `{}` or `{0,1}` when it stands here; an empty text otherwise.
    pub fn shape_index(&mut self) -> Parsed<TextRef> {
        let start = self.at;
        if !self.eat("{") {
            return Ok(TextRef::new(start, start));
        }
        while let Some(b'0'..=b'9' | b',' | b' ') = self.rest().first() {
            self.at += 1;
        }
        self.expect("}")?;
        Ok(TextRef::new(start, self.at))
    }

    pub fn finish(&self) -> Parsed<()> {
        if self.at < self.end {
            return Err(self.unexpected("the end of the line"));
        }
        Ok(())
    }
}

/// What is taken off the front of every line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogPrefix {
    /// The source file the log lines name; lines of other files are not part of the dump.
    pub origin: Option<Vec<u8>>,
    /// Bytes that stand before every line.
    pub fixed: Vec<u8>,
}

/// Where `…/buffer_assignment.cc:123] ` ends in `line`, and the file's name.
fn log_origin(line: &[u8]) -> Option<(usize, &[u8])> {
    let mut from = 0;
    while let Some(found) = memchr::memmem::find(&line[from..], b"] ") {
        let bracket = from + found;
        from = bracket + 2;
        let digits = line[..bracket]
            .iter()
            .rev()
            .take_while(|b| b.is_ascii_digit())
            .count();
        let colon = bracket - digits;
        if digits > 0 && colon > 0 && line[colon - 1] == b':' {
            let path = &line[..colon - 1];
            let name = path.iter().rposition(|b| *b == b'/' || *b == b' ');
            let name = &path[name.map_or(0, |i| i + 1)..];
            let source = [&b".cc"[..], b".h", b".cu", b".cpp", b".py"];
            if source.iter().any(|suffix| name.ends_with(suffix)) {
                return Some((bracket + 2, name));
            }
        }
        // A prefix is short; what comes later is the message.
        if bracket > 400 {
            break;
        }
    }
    // The last character of an empty log line may have been trimmed.
    None
}

impl LogPrefix {
    /// The prefix in front of byte `at` of `line`.
    pub fn before(line: &[u8], at: usize) -> LogPrefix {
        match log_origin(line).filter(|(end, _)| *end <= at) {
            Some((_, name)) => LogPrefix {
                origin: Some(name.to_vec()),
                fixed: Vec::new(),
            },
            None => LogPrefix {
                origin: None,
                fixed: line[..at].to_vec(),
            },
        }
    }

    pub fn is_empty(&self) -> bool {
        self.origin.is_none() && self.fixed.is_empty()
    }

    /// Where the message of `line` starts; `None` for lines of other sources.
    pub fn strip(&self, line: &[u8]) -> Option<usize> {
        if let Some(origin) = &self.origin {
            return match log_origin(line) {
                Some((end, name)) if name == origin => Some(end),
                Some(_) => None,
                None if ends_like_empty_log_line(line, origin) => Some(line.len()),
                None => Some(0),
            };
        }
        if line.starts_with(&self.fixed) {
            return Some(self.fixed.len());
        }
        let trimmed = self.fixed.trim_ascii_end();
        if line == trimmed {
            return Some(line.len());
        }
        None
    }
}

fn ends_like_empty_log_line(line: &[u8], origin: &[u8]) -> bool {
    line.ends_with(b"]") && memchr::memmem::find(line, origin).is_some()
}

/// The lines of a text, one after another.
pub(super) struct Lines<'a> {
    pub source: &'a [u8],
    /// First byte of the next line.
    pub next: usize,
    /// One past the last byte.
    pub end: usize,
    pub prefix: LogPrefix,
}

impl<'a> Lines<'a> {
    /// The next line without taking it; lines of other log sources are passed over.
    pub fn peek(&mut self) -> Option<Line<'a>> {
        loop {
            let (line, _) = self.raw()?;
            if self.prefix.is_empty() {
                return Some(line);
            }
            match self.prefix.strip(line.rest()) {
                Some(skip) => {
                    return Some(Line {
                        at: line.at + skip,
                        ..line
                    });
                }
                None => self.advance(),
            }
        }
    }

    /// Takes the line [`Lines::peek`] showed.
    pub fn advance(&mut self) {
        if let Some((_, next)) = self.raw() {
            self.next = next;
        }
    }

    pub fn take(&mut self) -> Option<Line<'a>> {
        let line = self.peek()?;
        self.advance();
        Some(line)
    }

    fn raw(&self) -> Option<(Line<'a>, usize)> {
        if self.next >= self.end {
            return None;
        }
        let newline = memchr::memchr(b'\n', &self.source[self.next..self.end]);
        let (mut end, next) = match newline {
            Some(length) => (self.next + length, self.next + length + 1),
            None => (self.end, self.end),
        };
        if end > self.next && self.source[end - 1] == b'\r' {
            end -= 1;
        }
        let line = Line {
            source: self.source,
            at: self.next,
            end,
        };
        Some((line, next))
    }
}
