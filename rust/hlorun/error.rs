//! Every error hlorun returns, one type per kind.

use std::fmt;
use std::sync::Arc;

/// Where in a text something is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Location {
    /// Name of the file, where there is one.
    pub filename: Option<Arc<str>>,
    /// Line, from 1; 0 for what has no lines.
    pub line: usize,
    /// Column in bytes, from 1.
    pub column: usize,
    /// The line, cut to a window around the column when it is long.
    pub excerpt: String,
    /// Column of the caret within `excerpt`, from 0.
    pub caret: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.filename.as_deref().unwrap_or("<text>");
        if self.line == 0 {
            return write!(f, "  --> {name}");
        }
        writeln!(f, "  --> {name}:{}:{}", self.line, self.column)?;
        writeln!(f, "   | {}", self.excerpt)?;
        write!(f, "   | {:>width$}", "^", width = self.caret + 1)
    }
}

/// Text that is no HLO, with where and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// What is wrong, in one sentence.
    pub message: String,
    /// Where.
    pub location: Location,
    /// Further hints, such as "did you mean …".
    pub notes: Vec<String>,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.message, self.location)?;
        for note in &self.notes {
            write!(f, "\n   = {note}")?;
        }
        Ok(())
    }
}

/// One rule a module breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// What is wrong, in one sentence that names the instruction.
    pub message: String,
    /// The instruction or computation, without `%`.
    pub instruction: String,
    /// Where it stands, for modules that came from text.
    pub location: Option<Location>,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if let Some(location) = &self.location {
            write!(f, "\n{location}")?;
        }
        Ok(())
    }
}

/// An error of hlorun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HloError {
    /// The text is no HLO.
    Parse(Box<ParseError>),
    /// The module breaks rules; all of them, in the order of the text.
    Verify(Vec<VerifyError>),
    /// Legal HLO that hlorun does not run; names what.
    Unsupported(Box<Unsupported>),
    /// An argument of a run does not fit its parameter.
    Argument(Box<str>),
    /// A run failed.
    Execution(Box<str>),
}

/// Something legal that hlorun does not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// What, in one sentence.
    pub message: String,
    /// The instruction, without `%`; empty when it is about the whole module.
    pub instruction: String,
    /// Where it stands, for modules that came from text.
    pub location: Option<Location>,
}

impl HloError {
    /// An [`HloError::Execution`].
    #[cold]
    pub fn execution(message: impl Into<String>) -> HloError {
        HloError::Execution(message.into().into_boxed_str())
    }

    /// An [`HloError::Argument`].
    #[cold]
    pub fn argument(message: impl Into<String>) -> HloError {
        HloError::Argument(message.into().into_boxed_str())
    }

    /// An [`HloError::Unsupported`] without a location.
    #[cold]
    pub fn unsupported(message: impl Into<String>, instruction: impl Into<String>) -> HloError {
        HloError::Unsupported(Box::new(Unsupported {
            message: message.into(),
            instruction: instruction.into(),
            location: None,
        }))
    }
}

impl From<hlorun_kernels::OutOfMemory> for HloError {
    #[cold]
    fn from(error: hlorun_kernels::OutOfMemory) -> HloError {
        HloError::execution(format!(
            "out of memory: cannot allocate {} bytes",
            error.bytes
        ))
    }
}

impl fmt::Display for HloError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HloError::Parse(error) => error.fmt(f),
            HloError::Verify(errors) => {
                for (i, error) in errors.iter().enumerate() {
                    if i > 0 {
                        f.write_str("\n")?;
                    }
                    error.fmt(f)?;
                }
                Ok(())
            }
            HloError::Unsupported(what) => {
                f.write_str(&what.message)?;
                if let Some(location) = &what.location {
                    write!(f, "\n{location}")?;
                }
                Ok(())
            }
            HloError::Argument(message) | HloError::Execution(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for HloError {}

/// Result of a fallible hlorun operation.
pub type Result<T> = std::result::Result<T, HloError>;
