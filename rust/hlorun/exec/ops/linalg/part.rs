//! One matrix of a batch.

use crate::error::{HloError, Result};
use crate::exec::array::RawArray;

/// One matrix's operands and results.
pub(super) struct Part {
    pub(super) inputs: Vec<RawArray>,
    pub(super) outputs: Vec<RawArray>,
}

impl Part {
    /// The result `index`.
    pub(super) fn output(&self, index: usize) -> Result<&RawArray> {
        let output = self.outputs.get(index);
        output.ok_or_else(|| HloError::execution("a result of linear algebra is missing"))
    }
}

/// The error of a routine that plain Rust does not replace.
pub(super) fn needs_lapack(name: &str) -> HloError {
    HloError::execution(format!(
        "{name} needs a LAPACK library; name one with HLORUN_BLAS"
    ))
}
