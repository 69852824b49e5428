//! StableHLO → module: portable artifacts, as JAX hands programs to a plugin.
//!
//! Comes in: the bytes of an artifact, which is VHLO in MLIR bytecode. Goes out: the module that jaxlib's
//! conversion would give, but for some of its simplifications and the numbers in names; or why the artifact
//! is declined: whatever is not known here is left to that conversion and never guessed.
//! As for protos, the artifact becomes text first and the text is parsed, so that its limits and checks hold.
//! Promise: no bytes make it panic, recurse without bound, or use memory out of proportion to them.

mod attributes;
mod bytes;
mod literals;
mod locations;
mod sections;
mod table;
mod tree;
mod types;
mod write;

use std::fmt;

use attributes::Artifact;
use sections::Sections;
use types::Types;

use crate::module::{HloModule, Id, LiteralId, Source};
use crate::text::{ParseOptions, parse_source};

/// Why an artifact is not read here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declined {
    reason: &'static str,
    /// What it is about: the name of an operation or an attribute.
    name: String,
}

type Read<T> = Result<T, Declined>;

impl Declined {
    pub(crate) fn because(reason: &'static str) -> Declined {
        Declined {
            reason,
            name: String::new(),
        }
    }

    #[cold]
    pub(crate) fn naming(mut self, name: &str) -> Declined {
        if self.name.is_empty() {
            self.name = name.to_owned();
        }
        self
    }
}

impl fmt::Display for Declined {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => out.write_str(self.reason),
            name => write!(out, "{}: {name}", self.reason),
        }
    }
}

impl std::error::Error for Declined {}

/// The module that `artifact` holds.
///
/// # Errors
/// [`Declined`] when anything in the artifact is not known here.
pub fn read(artifact: &[u8], options: &ParseOptions) -> Result<HloModule, Declined> {
    if options.limits.too_long(artifact.len()).is_some() {
        return Err(Declined::because("too many bytes"));
    }
    let sections = Sections::read(artifact)?;
    let types = Types::read(&sections)?;
    let artifact = Artifact { sections, types };
    let tree = tree::read(&artifact)?;
    let written = write::write(&artifact, &tree)?;
    let source = Source::from(written.text.into_bytes());
    // What the parser does not know would have been written here by mistake.
    let options = ParseOptions {
        strict: true,
        ..options.clone()
    };
    let mut module = parse_source(source, &options)
        .map_err(|error| Declined::because("its text is no HLO").naming(&error.to_string()))?;
    if module.literal_count() != written.literals.len() {
        return Err(Declined::because("another number of constants"));
    }
    for (number, literal) in written.literals.into_iter().enumerate() {
        module.set_literal(LiteralId::from_index(number), literal);
    }
    Ok(module)
}
