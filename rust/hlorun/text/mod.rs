//! Text → module: HLO text of any year and dialect becomes an [`HloModule`].
//!
//! Comes in: bytes, from memory or a file. Goes out: a module whose names, calls and operands are
//! resolved, or a [`crate::error::ParseError`] with line, column and caret. Promise: nothing in
//! the bytes can make the parser panic, recurse, hang, or use memory out of proportion to them.
//! Whether the module is legal HLO is `verify`'s business; here only the language counts.

pub(crate) mod attribute_table;
mod attributes;
mod computation;
pub(crate) mod enums;
pub mod equality;
pub(crate) mod error;
mod foreign;
mod header;
mod infer;
mod instruction;
mod layout;
pub(crate) mod lexer;
pub mod limits;
mod literal;
mod metadata;
mod number;
mod parser;
mod plain;
pub(crate) mod prepared;
pub mod printer;
mod quoted;
mod replica_groups;
pub(crate) mod scan;
mod shape;
mod small_float;
mod source;
mod symbols;
mod synthesized;
pub(crate) mod tables;
mod trailer;
mod value;
mod window;

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::float_mode::DefaultMode;
use crate::module::{HloModule, ModuleText, Source};
use crate::types::{ShapeId, ShapeTable};
pub use infer::InferShape;
pub use limits::Limits;
use prepared::Prepared;

/// How to parse.
#[derive(Clone, Debug, Default)]
pub struct ParseOptions {
    /// Shown in errors.
    pub filename: Option<Arc<str>>,
    /// What the text may ask for.
    pub limits: Limits,
    /// Whether opcodes, attributes and words that hlorun does not know are errors rather than
    /// warnings.
    pub strict: bool,
    /// Tells the shapes that a text leaves out and that do not follow from the operands at once;
    /// [`crate::verify::left_out_shape`] knows the rules of every operation.
    pub infer_shape: Option<InferShape>,
}

/// Parses the one module `source` holds.
///
/// # Errors
/// [`crate::HloError::Parse`] at the first thing that is no HLO.
pub fn parse(source: Arc<[u8]>, options: &ParseOptions) -> Result<HloModule> {
    parse_source(source.into(), options)
}

/// As [`parse`], for bytes that somebody else keeps.
///
/// # Errors
/// As for [`parse`].
pub fn parse_source(source: Source, options: &ParseOptions) -> Result<HloModule> {
    parse_prepared(source, options, None)
}

/// As [`parse_source`], of a text of which the instructions may be known already.
pub(crate) fn parse_prepared(
    source: Source,
    options: &ParseOptions,
    prepared: Option<&Prepared>,
) -> Result<HloModule> {
    let _mode = DefaultMode::enter();
    let text = ModuleText::new(source.clone(), options.filename.clone());
    check_size(&text, &options.limits)?;
    let range = 0..source.len();
    let modules = parser::parse_range(&source, &text, range, options, true, prepared)?;
    match modules.into_iter().next() {
        Some(module) => Ok(module),
        None => Err(error::Fault::new(0, "the text holds no module").into_error(&text)),
    }
}

/// Parses all modules `source` holds, divided by lines `// -----` or by their headers.
///
/// # Errors
/// [`crate::HloError::Parse`] at the first thing that is no HLO.
pub fn parse_modules(source: Arc<[u8]>, options: &ParseOptions) -> Result<Vec<HloModule>> {
    parse_module_sources(source.into(), options)
}

/// As [`parse_modules`], for bytes that somebody else keeps.
///
/// # Errors
/// As for [`parse_modules`].
pub fn parse_module_sources(source: Source, options: &ParseOptions) -> Result<Vec<HloModule>> {
    let _mode = DefaultMode::enter();
    let text = ModuleText::new(source.clone(), options.filename.clone());
    check_size(&text, &options.limits)?;
    let mut modules = Vec::new();
    let mut start = 0;
    let mut dividers = memchr::memmem::find_iter(&source, b"// -----")
        .filter(|&at| at == 0 || source[at - 1] == b'\n');
    loop {
        let end = dividers.next().unwrap_or(source.len());
        let mut piece = lexer::Cursor::new(&source[..end]);
        piece.position = start;
        piece.skip_space();
        let is_empty = piece.at_end() && (end < source.len() || !modules.is_empty());
        if !is_empty {
            modules.extend(parser::parse_range(
                &source,
                &text,
                start..end,
                options,
                false,
                None,
            )?);
        }
        if end == source.len() {
            return Ok(modules);
        }
        start = end;
    }
}

/// Reads the file at `path`, plain or compressed with gzip or zstd, and parses its one module.
///
/// The file is read, not mapped: a mapped file that another process truncates ends this one with
/// SIGBUS, and nothing a file does may end the process. The one copy is the module's source.
///
/// # Errors
/// [`crate::HloError::Parse`] as for [`parse`]; [`crate::HloError::Execution`] when the file cannot
/// be read or unpacks to more than the limits allow.
pub fn load(path: &Path, options: &ParseOptions) -> Result<HloModule> {
    parse_source(read(path, options)?, &named(path, options))
}

/// As [`load`], for a file of several modules.
///
/// # Errors
/// As for [`load`].
pub fn load_modules(path: &Path, options: &ParseOptions) -> Result<Vec<HloModule>> {
    parse_module_sources(read(path, options)?, &named(path, options))
}

/// The text of the file at `path`, unpacked.
///
/// # Errors
/// [`crate::HloError::Execution`] when the file cannot be read or is too large.
pub fn read(path: &Path, options: &ParseOptions) -> Result<Source> {
    let limits = &options.limits;
    source::read(path, limits.unpacked_bytes.min(limits.source_bytes))
}

fn named(path: &Path, options: &ParseOptions) -> ParseOptions {
    let mut options = options.clone();
    options
        .filename
        .get_or_insert_with(|| path.to_string_lossy().into());
    options
}

fn check_size(text: &ModuleText, limits: &Limits) -> Result<()> {
    match limits.too_long(text.source().len()) {
        Some(message) => Err(error::Fault::new(0, message).into_error(text)),
        None => Ok(()),
    }
}

/// The name of a computation or instruction that is close to `name`, which is none of them.
pub fn closest_name(module: &HloModule, name: &str) -> Option<String> {
    let computations = module.computation_ids();
    let computations = computations.map(|id| module.computation(id).name);
    let instructions = module.instructions.iter().map(|data| data.name);
    let names = computations.chain(instructions);
    let most = Limits::default().suggestion_candidates;
    crate::suggestion::closest(name.as_bytes(), names.map(|n| module.text.bytes(n)), most)
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
        &mut shape::ShapeCache::new(0),
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
    parsed.map_err(|fault| fault.into_error(&ModuleText::new(Arc::<[u8]>::from(text), None)))
}
