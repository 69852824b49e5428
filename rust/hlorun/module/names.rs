//! The text a module refers to: the file it came from, plus what was added later.
//!
//! Names, strings and unparsed attributes are [`TextRef`]s, eight bytes each, into one logical
//! text: the source first, then everything appended by passes.

use std::borrow::Cow;
use std::sync::Arc;

use super::source::Source;

/// A piece of the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct TextRef {
    /// Byte offset into source followed by additions.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

impl TextRef {
    /// The piece from `start` to `end` (bytes).
    pub fn new(start: usize, end: usize) -> TextRef {
        TextRef {
            start: start as u32,
            len: end.saturating_sub(start) as u32,
        }
    }

    /// One past the last byte.
    pub fn end(self) -> usize {
        self.start as usize + self.len as usize
    }
}

/// The source bytes of a module and its additions. At most 4 GiB in all.
#[derive(Clone, Debug, Default)]
pub struct ModuleText {
    source: Source,
    added: Vec<u8>,
    filename: Option<Arc<str>>,
}

impl ModuleText {
    /// A text over `source`; `filename` is shown in errors.
    pub fn new(source: impl Into<Source>, filename: Option<Arc<str>>) -> ModuleText {
        ModuleText {
            source: source.into(),
            added: Vec::new(),
            filename,
        }
    }

    /// The bytes the module was parsed from; empty for modules that were built.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The file's name, where it came from a file.
    pub fn filename(&self) -> Option<&str> {
        self.filename.as_deref()
    }

    /// The file's name, shared.
    pub fn filename_arc(&self) -> Option<Arc<str>> {
        self.filename.clone()
    }

    /// The bytes of `text`; empty when it lies outside.
    pub fn bytes(&self, text: TextRef) -> &[u8] {
        let start = text.start as usize;
        if start < self.source.len() {
            self.source.get(start..text.end()).unwrap_or(&[])
        } else {
            let base = self.source.len();
            self.added
                .get(start - base..text.end() - base)
                .unwrap_or(&[])
        }
    }

    /// The bytes from `start` to the end of the source or of the additions.
    pub fn bytes_from(&self, start: usize) -> &[u8] {
        match self.source.get(start..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => self
                .added
                .get(start.saturating_sub(self.source.len())..)
                .unwrap_or(&[]),
        }
    }

    /// The text as a string; bytes that are no UTF-8 become replacement characters.
    pub fn str(&self, text: TextRef) -> Cow<'_, str> {
        let bytes = self.bytes(text);
        // Much quicker where it succeeds, as it does for names.
        match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(bytes),
        }
    }

    /// Appends `text` and returns where it is.
    pub fn add(&mut self, text: &[u8]) -> TextRef {
        let start = self.source.len() + self.added.len();
        self.added.extend_from_slice(text);
        TextRef::new(start, start + text.len())
    }

    /// Bytes held beyond the source.
    pub fn added_len(&self) -> usize {
        self.added.len()
    }
}
