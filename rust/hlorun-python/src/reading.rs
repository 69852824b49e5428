//! Text, protos and profiles → modules: `parse`, `load`, and what makes a module of another's parts.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use hlorun::module::part::{computation_part, instruction_part};
use hlorun::module::{HloModule, Source};
use hlorun::proto::profile_modules;
use hlorun::text::ParseOptions;
use hlorun::text::printer::{PrintOptions, print_module};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

use crate::error::{Result, detached, not_negative};
use crate::handle::{FromProto, ModuleHandle};
use crate::module::{PyHloModule, unknown_name};
use crate::source::{file_options, read_file, text_source};

fn parse_source(py: Python<'_>, source: Source, options: &ParseOptions) -> Result<PyHloModule> {
    let handle = detached(py, move || {
        if hlorun::proto::kind_of(&source).is_none() {
            let module = hlorun::text::parse_source(source, options)?;
            return Ok(ModuleHandle::new(module));
        }
        let file = hlorun::proto::read(&source, options)?;
        let is_snapshot = file.kind == hlorun::proto::Kind::Snapshot;
        let proto = FromProto {
            bytes: OnceLock::from(source),
            arguments: is_snapshot.then_some(file.arguments),
            result: file.result,
            platform: file.platform,
        };
        Ok(ModuleHandle::with_origin(file.module, Some(proto), 0))
    })?;
    Ok(PyHloModule { handle })
}

/// The module of `source`, which holds one.
fn parse_one(py: Python<'_>, source: Source, options: &ParseOptions) -> Result<PyHloModule> {
    if profile_modules(&source).is_none() {
        return parse_source(py, source, options);
    }
    let mut modules = parse_sources(py, source, options)?;
    match modules.len() {
        1 => Ok(modules.remove(0)),
        count => {
            let names: Vec<_> = modules
                .iter()
                .map(|module| module.module().str(module.module().name))
                .collect();
            let message = format!(
                "the profile holds {count} modules: {}; load_modules reads them all",
                names.join(", ")
            );
            Err(hlorun::proto::fault(options.filename.as_ref(), message).into())
        }
    }
}

/// All modules of `source`: of a text, of a profile, or the one of a proto.
fn parse_sources(
    py: Python<'_>,
    source: Source,
    options: &ParseOptions,
) -> Result<Vec<PyHloModule>> {
    if let Some(parts) = profile_modules(&source) {
        if parts.is_empty() {
            let message = "the profile holds no HLO; profilers of XLA add it to /host:metadata";
            return Err(hlorun::proto::fault(options.filename.as_ref(), message).into());
        }
        let modules = parts
            .into_iter()
            .map(|part| parse_source(py, part, options));
        return modules.collect();
    }
    if hlorun::proto::kind_of(&source).is_some() {
        return Ok(vec![parse_source(py, source, options)?]);
    }
    let modules = detached(py, move || {
        hlorun::text::parse_module_sources(source, options)
    })?;
    let handles = modules.into_iter().enumerate();
    Ok(handles
        .map(|(number, module)| PyHloModule {
            handle: ModuleHandle::with_origin(module, None, number),
        })
        .collect())
}

pub(crate) fn text_options(filename: Option<String>, strict: bool) -> ParseOptions {
    ParseOptions {
        filename: filename.map(Arc::from),
        strict,
        infer_shape: Some(hlorun::verify::left_out_shape),
        ..ParseOptions::default()
    }
}

/// Parses HLO text, or an HloModuleProto, HloProto or HloSnapshot: its bytes, or its text (`.pbtxt`).
///
/// Args:
///     text: The text or the bytes; bytes of text are UTF-8.
///     filename: What errors name as the file.
///     strict: Whether an opcode, an attribute or a word that hlorun does not know is an error.
///         Otherwise it is a warning of the module.
///
/// Returns:
///     The module.
///
/// Raises:
///     HloParseError: The text is no HLO: with line, column and a caret.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> module["a"].opcode, module["a"].shape.dims
///     ('add', (2,))
#[pyfunction]
#[pyo3(signature = (text, *, filename=None, strict=false))]
pub fn parse(
    py: Python<'_>,
    text: &Bound<'_, PyAny>,
    filename: Option<String>,
    strict: bool,
) -> Result<PyHloModule> {
    parse_one(py, text_source(text)?, &text_options(filename, strict))
}

/// Reads a file of HLO text or of an HLO proto, bytes or `.pbtxt`, plain or packed with gzip or zstd.
///
/// Args:
///     path: The file.
///     max_bytes: Most bytes that a packed file may unpack to; 4 GiB by default.
///     strict: As for `parse`.
///
/// Returns:
///     The module.
///
/// Raises:
///     OSError: The file cannot be read.
///     HloParseError: It holds no HLO, several modules, or more than `max_bytes`.
///
/// Examples:
///     >>> module = hlorun.load("tests/data/dumps/001_ff6c88b06f55b1d5.txt.zst")
///     >>> len(module.find(opcode="custom-call"))
///     2
#[pyfunction]
#[pyo3(signature = (path, *, max_bytes=None, strict=false))]
pub fn load(
    py: Python<'_>,
    path: PathBuf,
    max_bytes: Option<usize>,
    strict: bool,
) -> Result<PyHloModule> {
    let options = ParseOptions {
        strict,
        ..file_options(&path, max_bytes)
    };
    let bytes = py.detach(|| read_file(&path, &options))?;
    parse_one(py, bytes, &options)
}

/// Parses text that holds several modules, divided by their headers or by lines `// -----`.
///
/// Args:
///     text: The text, or the bytes of a proto or a profile.
///     filename: What errors name as the file.
///     strict: As for `parse`.
///
/// Returns:
///     The modules in the order of the text; a text of one module, and a proto, give one.
///
/// Raises:
///     HloParseError: A part is no HLO, or a profile holds none.
///
/// Examples:
///     >>> text = "ENTRY e { ROOT p = f32[2] parameter(0) }"
///     >>> len(hlorun.parse_modules(f"HloModule a\n{text}\nHloModule b\n{text}"))
///     2
#[pyfunction]
#[pyo3(signature = (text, *, filename=None, strict=false))]
pub fn parse_modules(
    py: Python<'_>,
    text: &Bound<'_, PyAny>,
    filename: Option<String>,
    strict: bool,
) -> Result<Vec<PyHloModule>> {
    parse_sources(py, text_source(text)?, &text_options(filename, strict))
}

/// Reads a file that may hold several modules, plain or packed with gzip or zstd.
///
/// Args:
///     path: The file: text, a proto, or a profile (`.xplane.pb`).
///     max_bytes: Most bytes that a packed file may unpack to; 4 GiB by default.
///     strict: As for `parse`.
///
/// Returns:
///     The modules in the order of the file.
///
/// Raises:
///     OSError: The file cannot be read.
///     HloParseError: A part is no HLO, or a profile holds none.
///
/// Examples:
///     >>> len(hlorun.load_modules("tests/data/dumps/001_ff6c88b06f55b1d5.txt.zst"))
///     1
#[pyfunction]
#[pyo3(signature = (path, *, max_bytes=None, strict=false))]
pub fn load_modules(
    py: Python<'_>,
    path: PathBuf,
    max_bytes: Option<usize>,
    strict: bool,
) -> Result<Vec<PyHloModule>> {
    let options = ParseOptions {
        strict,
        ..file_options(&path, max_bytes)
    };
    let bytes = py.detach(|| read_file(&path, &options))?;
    parse_sources(py, bytes, &options)
}

/// A module of a computation of another module, or of what an instruction needs.
///
/// The header is kept, but for what it says of other parameters and results.
///
/// Args:
///     module: The module.
///     name: A computation or an instruction.
///     depth: Of an instruction, how many steps of operands to take along; what lies beyond becomes
///         parameters. All by default.
///
/// Returns:
///     A module that runs by itself.
///
/// Raises:
///     KeyError: Nothing is called `name`; the message has a name that is close to it.
///     ValueError: `depth` is negative.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> hlorun.extract(module, "p").instruction_count
///     1
#[pyfunction]
#[pyo3(signature = (module, name, depth=None))]
pub fn extract(
    py: Python<'_>,
    module: &Bound<'_, PyHloModule>,
    name: &str,
    depth: Option<i64>,
) -> Result<PyHloModule> {
    let depth = not_negative("depth", depth)?;
    let handle = &module.get().handle;
    let name = name.strip_prefix('%').unwrap_or(name);
    let module = &handle.module;
    let part: Box<dyn FnOnce() -> HloModule + Send> =
        match (handle.computation(name), handle.instruction(name)) {
            (Some(computation), _) => Box::new(move || computation_part(module, computation)),
            (None, Some(instruction)) => {
                Box::new(move || instruction_part(module, instruction, depth))
            }
            (None, None) => {
                return Err(unknown_name(module, name).into());
            }
        };
    reread(py, part)
}

/// A made module by way of its text, so that it holds no more text than its own.
pub(crate) fn reread(
    py: Python<'_>,
    make: impl FnOnce() -> HloModule + Send,
) -> Result<PyHloModule> {
    let text = detached(py, move || {
        Ok(print_module(&make(), &PrintOptions::default()))
    })?;
    parse_source(py, text.into_bytes().into(), &text_options(None, false))
}

/// Reads a StableHLO portable artifact, as JAX hands one to a plugin.
///
/// Returns:
///     The module, or why it is left to jaxlib's conversion.
#[pyfunction]
pub fn _read_stablehlo(py: Python<'_>, artifact: &[u8]) -> Result<StablehloModule> {
    let options = text_options(None, false);
    detached(py, move || {
        Ok(match hlorun::stablehlo::read(artifact, &options) {
            Ok(module) => {
                let proto = FromProto {
                    bytes: OnceLock::new(),
                    arguments: None,
                    result: None,
                    platform: String::new(),
                };
                let handle = ModuleHandle::with_origin(module, Some(proto), 0);
                StablehloModule::Read(PyHloModule { handle })
            }
            Err(declined) => StablehloModule::Declined(declined.to_string()),
        })
    })
}

/// What `_read_stablehlo` gives.
#[derive(IntoPyObject)]
pub enum StablehloModule {
    Read(PyHloModule),
    Declined(String),
}

/// What unpickling a module calls.
#[pyfunction]
pub fn _restore(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    filename: Option<String>,
    number: usize,
) -> Result<PyHloModule> {
    let modules = parse_sources(py, text_source(source)?, &text_options(filename, false))?;
    let module = modules.into_iter().nth(number);
    module.ok_or_else(|| PyKeyError::new_err("the pickled text holds fewer modules").into())
}
