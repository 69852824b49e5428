//! The errors of planning.

use crate::error::{HloError, Unsupported};
use crate::module::InstructionRef;

/// An unsupported error that names the instruction and its place.
#[cold]
pub fn unsupported(instruction: InstructionRef<'_>, what: String) -> HloError {
    HloError::Unsupported(Box::new(Unsupported {
        message: format!("{}: {what}", instruction.name()),
        instruction: instruction.name().into_owned(),
        location: None,
    }))
}

/// The error of a constant whose value the text left out.
#[cold]
pub fn elided_constant(instruction: InstructionRef<'_>) -> HloError {
    unsupported(
        instruction,
        "the text elides this constant's value ({...}); module.with_constants({name: array}) gives it".into(),
    )
}
