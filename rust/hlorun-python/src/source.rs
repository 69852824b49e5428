//! Text from files and Python objects.
//!
//! Comes in: a path, or `str` and bytes-like objects. Goes out: the plain bytes. Promise: what the
//! operating system refuses is an `OSError`, what is wrong in the file an `HloParseError`.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use hlorun::HloError;
use hlorun::error::{Location, ParseError};
use hlorun::module::Source;
use hlorun::text::{Limits, ParseOptions};
use pyo3::exceptions::{PyIsADirectoryError, PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};

use crate::error::{Error, Result};

/// The subclass, `FileNotFoundError` and its kin, is Python's to pick by the number.
fn os_error(error: &std::io::Error, path: &Path) -> Error {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text).to_owned();
    let path = path.to_string_lossy().into_owned();
    Error::Python(match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, text, path)),
        None => PyOSError::new_err(format!("{path}: {text}")),
    })
}

/// How to parse the file at `path`, of at most `max_bytes` once unpacked.
pub fn file_options(path: &Path, max_bytes: Option<usize>) -> ParseOptions {
    let mut limits = Limits::default();
    if let Some(bytes) = max_bytes {
        limits.unpacked_bytes = bytes;
        limits.source_bytes = bytes.min(limits.source_bytes);
    }
    ParseOptions {
        filename: Some(Arc::from(path.to_string_lossy())),
        limits,
        infer_shape: Some(hlorun::verify::left_out_shape),
        ..ParseOptions::default()
    }
}

/// The bytes of the file at `path`, unpacked where it is gzip or zstd.
///
/// # Errors
/// `OSError` when it cannot be opened, `HloParseError` when it is packed wrongly or larger than the
/// options allow.
pub fn read_file(path: &Path, options: &ParseOptions) -> Result<Source> {
    let file = File::open(path).map_err(|error| os_error(&error, path))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        let message = format!("{} is a directory", path.display());
        return Err(Error::Python(PyIsADirectoryError::new_err(message)));
    }
    drop(file);
    hlorun::text::read(path, options).map_err(|error| match error {
        HloError::Execution(message) => Error::Hlo(HloError::Parse(Box::new(ParseError {
            message: message.into(),
            location: Location {
                filename: options.filename.clone(),
                line: 1,
                column: 1,
                ..Location::default()
            },
            notes: Vec::new(),
        }))),
        other => Error::Hlo(other),
    })
}

/// The bytes of a `str` or bytes-like object. Those of `str` and `bytes`, which do not change, stay
/// where they are.
///
/// # Errors
/// `TypeError` for anything else.
pub fn text_source(text: &Bound<'_, PyAny>) -> Result<Source> {
    if let Ok(text) = text.cast::<PyString>() {
        return match PyBackedStr::try_from(text.clone()) {
            Ok(text) => Ok(Source::new(text)),
            // Undecodable bytes that came in through `surrogateescape` go back to what they were.
            Err(_) => {
                let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
                Ok(of_bytes(bytes.cast::<PyBytes>()?))
            }
        };
    }
    if let Ok(bytes) = text.cast::<PyBytes>() {
        return Ok(of_bytes(bytes));
    }
    if text.is_instance_of::<PyByteArray>() || text.is_instance_of::<PyMemoryView>() {
        let bytes = text.py().get_type::<PyBytes>().call1((text,))?;
        return Ok(of_bytes(bytes.cast::<PyBytes>()?));
    }
    let message = format!(
        "HLO text must be str or bytes, not {}; use load() for files",
        text.get_type().name()?
    );
    Err(Error::Python(PyTypeError::new_err(message)))
}

fn of_bytes(bytes: &Bound<'_, PyBytes>) -> Source {
    Source::new(PyBackedBytes::from(bytes.clone()))
}
