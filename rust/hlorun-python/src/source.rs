//! Text from files and Python objects.
//!
//! Comes in: a path, or `str` and bytes-like objects. Goes out: the plain bytes. gzip and zstd
//! are known by their first bytes, whatever the file is called. Promise: unpacking stops at a
//! bound, so a small file cannot fill the memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use hlorun::HloError;
use hlorun::error::{Location, ParseError};
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};

use crate::error::{Error, Result};

/// Most bytes a text may have: positions in it are 32 bits wide.
pub const MAX_TEXT_BYTES: u64 = u32::MAX as u64 - 1;

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

fn os_error(error: &std::io::Error, path: &Path) -> Error {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text).to_owned();
    let path = path.to_string_lossy().into_owned();
    // Python picks the subclass, FileNotFoundError and its kin, by the number.
    Error::Python(match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, text, path)),
        None => PyOSError::new_err(format!("{path}: {text}")),
    })
}

fn refused(path: &Path, message: String) -> Error {
    Error::Hlo(HloError::Parse(Box::new(ParseError {
        message,
        location: Location {
            filename: Some(Arc::from(path.to_string_lossy())),
            line: 1,
            column: 1,
            ..Location::default()
        },
        notes: Vec::new(),
    })))
}

/// Reads all of `reader`, at most `limit` bytes.
fn bounded(reader: impl Read, limit: u64, path: &Path, what: &str) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    reader
        .take(limit.saturating_add(1))
        .read_to_end(&mut out)
        .map_err(|error| refused(path, format!("not a whole {what} file: {error}")))?;
    if out.len() as u64 > limit {
        let message = format!("{what} file holds more than the limit of {limit} bytes");
        return Err(refused(path, message));
    }
    Ok(out)
}

/// The bytes of the file at `path`, unpacked where it is gzip or zstd.
///
/// # Errors
/// `OSError` when it cannot be read, `HloParseError` when it is no whole gzip or zstd file or
/// holds more than `limit` bytes.
pub fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let limit = limit.min(MAX_TEXT_BYTES);
    let mut file = File::open(path).map_err(|error| os_error(&error, path))?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    if size > limit {
        let message = format!("the file has {size} bytes, over the limit of {limit}");
        return Err(refused(path, message));
    }
    let mut bytes = Vec::with_capacity(size as usize + 1);
    (&mut file)
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| os_error(&error, path))?;
    if bytes.len() as u64 > limit {
        return Err(refused(
            path,
            format!("the file holds more than {limit} bytes"),
        ));
    }
    if bytes.starts_with(GZIP_MAGIC) {
        return bounded(
            flate2::read::MultiGzDecoder::new(&bytes[..]),
            limit,
            path,
            "gzip",
        );
    }
    if bytes.starts_with(ZSTD_MAGIC) {
        let decoder = ruzstd::decoding::StreamingDecoder::new(&bytes[..])
            .map_err(|error| refused(path, format!("not a whole zstd file: {error}")))?;
        return bounded(decoder, limit, path, "zstd");
    }
    Ok(bytes)
}

/// The bytes of a `str` or bytes-like object.
///
/// # Errors
/// `TypeError` for anything else.
pub fn text_bytes(text: &Bound<'_, PyAny>) -> Result<Arc<[u8]>> {
    if let Ok(text) = text.cast::<PyString>() {
        return match text.to_str() {
            Ok(text) => Ok(Arc::from(text.as_bytes())),
            // Undecodable bytes that came in through `surrogateescape` go back to what they were.
            Err(_) => {
                let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
                Ok(Arc::from(bytes.cast::<PyBytes>()?.as_bytes()))
            }
        };
    }
    if let Ok(bytes) = text.cast::<PyBytes>() {
        return Ok(Arc::from(bytes.as_bytes()));
    }
    if text.is_instance_of::<PyByteArray>() || text.is_instance_of::<PyMemoryView>() {
        let bytes = text.py().get_type::<PyBytes>().call1((text,))?;
        return Ok(Arc::from(bytes.cast::<PyBytes>()?.as_bytes()));
    }
    let message = format!(
        "HLO text must be str or bytes, not {}; use load() for files",
        text.get_type().name()?
    );
    Err(Error::Python(PyTypeError::new_err(message)))
}
