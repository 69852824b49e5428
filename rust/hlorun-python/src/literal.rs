//! Constant values as NumPy arrays.

use hlorun::types::{Literal, LiteralValue};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::array_from_bytes;
use crate::error::Result;

/// A literal: an array, a tuple of such, or None where the text left the values out.
pub fn literal_to_python<'py>(py: Python<'py>, literal: &Literal) -> Result<Bound<'py, PyAny>> {
    match &literal.value {
        LiteralValue::Array(bytes) => array_from_bytes(py, &literal.shape, bytes),
        LiteralValue::Elided | LiteralValue::Token => Ok(py.None().into_bound(py)),
        LiteralValue::Tuple(parts) => {
            let parts = parts
                .iter()
                .map(|part| literal_to_python(py, part))
                .collect::<Result<Vec<_>>>()?;
            Ok(PyTuple::new(py, parts)?.into_any())
        }
    }
}
