//! Text → module: HLO text of any year and dialect becomes an [`HloModule`].
//!
//! Comes in: bytes, from memory or a file. Goes out: a module whose names, calls and operands are
//! resolved, or a [`crate::error::ParseError`] with line, column and caret. Promise: nothing in
//! the bytes can make the parser panic, recurse, hang, or use memory out of proportion to them.
//! Whether the module is legal HLO is `verify`'s business; here only the language counts.

mod attributes;
mod computation;
mod error;
mod header;
mod instruction;
mod layout;
mod lexer;
pub mod limits;
mod literal;
mod number;
mod parser;
mod replica_groups;
mod shape;
mod small_float;
mod symbols;
mod tables;
mod value;
mod window;

use std::sync::Arc;

use crate::error::Result;
use crate::module::{HloModule, ModuleText};
use crate::types::{ShapeId, ShapeTable};
pub use limits::Limits;

/// How to parse.
#[derive(Clone, Debug, Default)]
pub struct ParseOptions {
    /// Shown in errors.
    pub filename: Option<Arc<str>>,
    /// What the text may ask for.
    pub limits: Limits,
}

/// Parses the one module `source` holds.
///
/// # Errors
/// [`crate::HloError::Parse`] at the first thing that is no HLO.
pub fn parse(source: Arc<[u8]>, options: &ParseOptions) -> Result<HloModule> {
    let text = ModuleText::new(source.clone(), options.filename.clone());
    parser::parse_one(&source, text, &options.limits)
}

/// Parses a shape on its own and interns it in `table`.
///
/// # Errors
/// [`crate::HloError::Parse`] when `text` is no shape, or holds more than one.
pub fn parse_shape(text: &[u8], table: &mut ShapeTable) -> Result<ShapeId> {
    let mut cursor = lexer::Cursor::new(text);
    let parsed = shape::parse_shape(
        &mut cursor,
        table,
        &mut shape::ShapeCache::new(),
        Limits::default().rank,
    )
    .and_then(|shape| {
        cursor.skip_space();
        if cursor.at_end() {
            Ok(shape)
        } else {
            Err(cursor.expected("the end of the shape"))
        }
    });
    parsed.map_err(|fault| fault.into_error(&ModuleText::new(Arc::from(text), None)))
}
