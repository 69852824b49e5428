//! One matrix of a batch.

use crate::error::HloError;
use crate::exec::array::RawArray;

/// One matrix's operands and results.
pub(super) struct Part {
    pub(super) inputs: Vec<RawArray>,
    pub(super) outputs: Vec<RawArray>,
}

/// The error of a routine that plain Rust does not replace.
pub(super) fn needs_lapack(name: &str) -> HloError {
    HloError::execution(format!(
        "{name} needs a LAPACK library; name one with HLORUN_BLAS"
    ))
}
