//! PJRT's errors: a code and a message.
//!
//! In: hlorun's errors, Python's exceptions, panics. Out: the `PJRT_Error` objects that every other
//! function returns. Promise: reading and freeing one never fails.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hlorun::HloError;
use pyo3::prelude::*;

use super::abi::{Call, Out, args, checked};
use super::handles::{Handle, objects};
use crate::error::{Error, class_name, panic_message};

/// What kind of failure, in PJRT's numbers.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Cancelled = 1,
    InvalidArgument = 3,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
}

/// PJRT's names of its codes, which begin with 1.
const CODE_NAMES: [&str; 16] = [
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// A `PJRT_Error`.
#[derive(Clone, Debug)]
pub struct Failure {
    /// A [`Code`], or the number that the caller gave.
    pub code: i32,
    /// What is wrong.
    pub message: String,
}

/// What a function of the API may fail with.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// A failure of this kind.
    #[cold]
    pub fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure {
            code: code as i32,
            message: message.into(),
        }
    }

    /// An argument that is wrong.
    #[cold]
    pub fn argument(message: impl Into<String>) -> Failure {
        Failure::new(Code::InvalidArgument, message)
    }

    /// What hlorun does not do.
    #[cold]
    pub fn unsupported(message: impl Into<String>) -> Failure {
        Failure::new(Code::Unimplemented, message)
    }

    /// A bug.
    #[cold]
    pub fn internal(message: impl Into<String>) -> Failure {
        Failure::new(Code::Internal, message)
    }

    /// A panic inside `function`.
    #[cold]
    pub fn of_panic(function: &str, payload: Box<dyn Any + Send>) -> Failure {
        let message = panic_message(payload.as_ref());
        Failure::internal(format!(
            "internal error of hlorun in {function}: {message}; please report it with the program that shows it"
        ))
    }

    /// An exception, with its traceback.
    #[cold]
    pub fn of_exception(py: Python<'_>, error: &PyErr) -> Failure {
        let name = error.get_type(py).name().map(|name| name.to_string());
        if name.as_deref().is_ok_and(|name| name == "JaxRuntimeError") {
            return Failure::of_status(&error.value(py).to_string());
        }
        let code = match name.as_deref() {
            Ok("HloUnsupportedError" | "NotImplementedError") => Code::Unimplemented,
            Ok("HloArgumentError" | "HloParseError" | "HloVerifyError") => Code::InvalidArgument,
            Ok("MemoryError") => Code::ResourceExhausted,
            Ok("KeyboardInterrupt") => Code::Cancelled,
            _ => Code::Internal,
        };
        let mut message = error.to_string();
        // hlorun's own errors say all that is to be said.
        if !name.is_ok_and(|name| name.starts_with("Hlo"))
            && let Some(traceback) = error.traceback(py)
            && let Ok(text) = traceback.format()
        {
            message = format!("{message}\n{text}");
        }
        Failure::new(code, message)
    }

    /// What another client of PJRT failed with: its code's name, a colon, its message.
    #[cold]
    fn of_status(text: &str) -> Failure {
        let parts = text.split_once(": ");
        let known = parts.and_then(|(name, message)| {
            let at = CODE_NAMES.iter().position(|known| *known == name)?;
            Some((at as i32 + 1, message))
        });
        let (code, message) = known.unwrap_or((Code::Internal as i32, text));
        Failure {
            code,
            message: message.to_owned(),
        }
    }
}

impl From<HloError> for Failure {
    #[cold]
    fn from(error: HloError) -> Failure {
        let code = match &error {
            HloError::Unsupported(_) => Code::Unimplemented,
            HloError::Parse(_) | HloError::Verify(_) | HloError::Argument(_) => {
                Code::InvalidArgument
            }
            HloError::Execution(message) if message.starts_with("out of memory") => {
                Code::ResourceExhausted
            }
            HloError::Execution(_) => Code::Internal,
        };
        Failure::new(code, format!("{}: {error}", class_name(&error)))
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        match error {
            Error::Hlo(error) => error.into(),
            Error::Python(error) => Python::attach(|py| Failure::of_exception(py, &error)),
        }
    }
}

objects!(Failure);

args! {
    Destroy "PJRT_Error_Destroy" { error: Handle<Failure> }
    Message "PJRT_Error_Message" { error: Handle<Failure>, message: Out<u8> }
    GetCode "PJRT_Error_GetCode" { error: Handle<Failure>, code: i32 }
}

/// Frees an error.
///
/// # Safety
/// As for [`super::abi::entry`].
pub unsafe extern "C" fn destroy(args: *mut Destroy) {
    // SAFETY: by this function's contract.
    if let Ok(args) = unsafe { checked(args) } {
        drop(args.error.destroy());
    }
}

/// Shows an error's message.
///
/// # Safety
/// As for [`super::abi::entry`].
pub unsafe extern "C" fn message(args: *mut Message) {
    // SAFETY: by this function's contract.
    if let Ok(args) = unsafe { checked(args) } {
        match args.error.get("error") {
            Ok(error) => args.message.text(&error.message),
            Err(_) => args.message.text(""),
        }
    }
}

impl Call for GetCode {
    fn call(&mut self) -> Outcome<()> {
        self.code = self.error.get("error")?.code;
        Ok(())
    }
}

/// Runs `work` where a panic would have nobody to tell.
pub fn contained(work: impl FnOnce()) {
    // What a panic leaves is dropped with the object that was at its end.
    let _ = catch_unwind(AssertUnwindSafe(work));
}
