//! From the core's errors to the exception classes of `hlorun.errors`, and the one place where
//! the interpreter lock is given up.
//!
//! Comes in: `HloError`, or a panic. Goes out: a Python exception that carries its facts as
//! attributes. Promise: no panic crosses into Python from work done under [`detached`].

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use hlorun::HloError;
use hlorun::error::Location;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyModule};

/// What a binding function may fail with.
#[derive(Debug)]
pub enum Error {
    /// From the core.
    Hlo(HloError),
    /// From Python, passed on unchanged.
    Python(PyErr),
}

/// Result of a binding function.
pub type Result<T> = std::result::Result<T, Error>;

/// A count that Python gave as `name`.
///
/// # Errors
/// `ValueError` for a negative one.
pub fn not_negative(name: &str, count: Option<i64>) -> Result<Option<usize>> {
    let Some(count) = count else { return Ok(None) };
    usize::try_from(count).map(Some).map_err(|_| {
        let message = format!("{name} must be at least 0, not {count}");
        Error::Python(PyValueError::new_err(message))
    })
}

impl From<HloError> for Error {
    fn from(error: HloError) -> Error {
        Error::Hlo(error)
    }
}

impl From<PyErr> for Error {
    fn from(error: PyErr) -> Error {
        Error::Python(error)
    }
}

impl<'a, 'py> From<pyo3::CastError<'a, 'py>> for Error {
    fn from(error: pyo3::CastError<'a, 'py>) -> Error {
        Error::Python(error.into())
    }
}

impl From<Error> for PyErr {
    fn from(error: Error) -> PyErr {
        match error {
            Error::Python(error) => error,
            Error::Hlo(error) => Python::attach(|py| to_exception(py, error).unwrap_or_else(|e| e)),
        }
    }
}

fn classes(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    MODULE
        .get_or_try_init(py, || Ok(PyModule::import(py, "hlorun.errors")?.unbind()))
        .map(|module| module.bind(py))
}

fn set_location(facts: &Bound<'_, PyDict>, location: Option<&Location>) -> PyResult<()> {
    if let Some(location) = location {
        facts.set_item("filename", location.filename.as_deref())?;
        facts.set_item("lineno", location.line)?;
        facts.set_item("offset", location.column)?;
        facts.set_item("text", &location.excerpt)?;
    }
    Ok(())
}

/// The class of `hlorun.errors` that an error becomes.
pub fn class_name(error: &HloError) -> &'static str {
    match error {
        HloError::Parse(_) => "HloParseError",
        HloError::Verify(_) => "HloVerifyError",
        HloError::Unsupported(_) => "HloUnsupportedError",
        HloError::Argument(_) => "HloArgumentError",
        HloError::Execution(_) => "HloExecutionError",
    }
}

fn to_exception(py: Python<'_>, error: HloError) -> PyResult<PyErr> {
    let classes = classes(py)?;
    let facts = PyDict::new(py);
    let rendered = error.to_string();
    match &error {
        HloError::Parse(error) => {
            facts.set_item("message", &error.message)?;
            facts.set_item("notes", error.notes.clone())?;
            set_location(&facts, Some(&error.location))?;
        }
        HloError::Verify(errors) => {
            let finding = classes.getattr("VerifyFinding")?;
            let findings = PyList::empty(py);
            for error in errors {
                let facts = PyDict::new(py);
                facts.set_item("message", &error.message)?;
                facts.set_item("instruction", &error.instruction)?;
                set_location(&facts, error.location.as_ref())?;
                findings.append(finding.call((), Some(&facts))?)?;
            }
            facts.set_item("errors", findings)?;
        }
        HloError::Unsupported(what) => {
            facts.set_item("message", &what.message)?;
            facts.set_item("instruction", &what.instruction)?;
            set_location(&facts, what.location.as_ref())?;
        }
        HloError::Argument(_) | HloError::Execution(_) => {}
    }
    let exception = classes
        .getattr(class_name(&error))?
        .call((rendered,), Some(&facts))?;
    Ok(PyErr::from_value(exception))
}

/// The exception of a run that took longer than `limit`.
pub fn timed_out(limit: Duration) -> Error {
    let seconds = limit.as_secs_f64();
    let make = |py: Python<'_>| {
        let facts = PyDict::new(py);
        facts.set_item("timeout", seconds)?;
        let message = format!("the run was ended after its timeout of {seconds} s");
        let class = classes(py)?.getattr("HloTimeoutError")?;
        Ok(PyErr::from_value(class.call((message,), Some(&facts))?))
    };
    Error::Python(Python::attach(make).unwrap_or_else(|error: PyErr| error))
}

/// What a panic said.
pub fn panic_message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// Runs `work`, turning a panic into an [`HloError::Execution`].
pub fn guarded<T>(work: impl FnOnce() -> hlorun::Result<T>) -> hlorun::Result<T> {
    // The state `work` touches is either its own or immutable, so what a panic leaves is never seen.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(payload) => Err(HloError::execution(format!(
            "internal error: {}; please report it with the module that shows it",
            panic_message(payload.as_ref())
        ))),
    }
}

/// Runs `work` without the interpreter lock, turning a panic into an [`HloError::Execution`].
pub fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> hlorun::Result<T> + Send,
) -> Result<T> {
    py.detach(|| guarded(work)).map_err(Error::Hlo)
}
