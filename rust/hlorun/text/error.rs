//! Faults while parsing: a position and a sentence, turned into a [`ParseError`] at the end.
//!
//! Everything here is cold; a fault is one word wide so that results stay small.

use crate::error::{HloError, ParseError};
use crate::module::ModuleText;
use crate::module::location;

/// What went wrong and at which byte.
#[derive(Debug)]
pub(crate) struct Fault {
    pub position: usize,
    pub message: String,
    pub notes: Vec<String>,
}

/// Result of one parsing step.
pub(crate) type Parsed<T> = Result<T, Box<Fault>>;

impl Fault {
    #[cold]
    #[inline(never)]
    pub fn new(position: usize, message: impl Into<String>) -> Box<Fault> {
        Box::new(Fault {
            position,
            message: message.into(),
            notes: Vec::new(),
        })
    }

    #[cold]
    pub fn with_note(mut self: Box<Fault>, note: impl Into<String>) -> Box<Fault> {
        self.notes.push(note.into());
        self
    }

    #[cold]
    pub fn into_error(self, text: &ModuleText) -> HloError {
        HloError::Parse(Box::new(ParseError {
            message: self.message,
            location: location::locate(text.source(), text.filename_arc(), self.position),
            notes: self.notes,
        }))
    }
}
