//! Values for constants whose text left them out.
//!
//! Comes in: a module and arrays by the names of constants. Goes out: the same module with those
//! values. Promise: an array that does not fit, or a name that is no constant's, is an
//! `HloArgumentError`.

use std::sync::Arc;

use hlorun::HloError;
use hlorun::module::{HloModule, Id, InstructionId};
use hlorun::types::{ArrayShape, Literal};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::{ParameterName, argument, data_pointer};
use crate::error::{Error, Result};
use crate::handle::{ModuleHandle, SharedModule};
use crate::literal::literal_to_python;

/// The module with the values of `constants`.
pub fn with_constants(
    handle: &SharedModule,
    constants: &Bound<'_, PyDict>,
) -> Result<SharedModule> {
    let mut module = HloModule::clone(&handle.module);
    for (key, value) in constants {
        let key = key.extract::<String>()?;
        let name = key.strip_prefix('%').unwrap_or(&key);
        let (id, shape) = constant(handle, name)?;
        let place = format!("constant {name}");
        let array = argument(&value, &shape, &ParameterName::result(&place))?;
        let size = shape.byte_size().unwrap_or(0);
        // SAFETY: `argument` returns a dense array of the shape, and the lock is held.
        let bytes = unsafe { std::slice::from_raw_parts(data_pointer(&array), size) };
        let shape = ArrayShape {
            layout: None,
            ..shape
        };
        let literal = Literal::from_bytes(shape, bytes.into()).ok_or_else(|| {
            HloError::argument(format!("constant {name}: its size is not its shape's"))
        })?;
        let literal = module.add_literal(literal);
        module.instruction_data_mut(id).immediate = literal.index() as u32;
    }
    Ok(ModuleHandle::new(module))
}

/// The constants of `module` that have another value in `source`, which [`with_constants`] made of it,
/// with those values.
pub fn given_constants<'py>(
    py: Python<'py>,
    module: &SharedModule,
    source: &SharedModule,
) -> Result<Bound<'py, PyDict>> {
    let given = PyDict::new(py);
    let (before, after) = (&module.module, &source.module);
    if Arc::ptr_eq(before, after) {
        return Ok(given);
    }
    for id in (0..before.instruction_count()).map(InstructionId::from_index) {
        let (before, after) = (before.instruction(id), after.instruction(id));
        let is_changed = before.data().immediate != after.data().immediate;
        if let Some(literal) = after.literal().filter(|_| is_changed) {
            given.set_item(before.name(), literal_to_python(py, literal)?)?;
        }
    }
    Ok(given)
}

/// The constant called `name` and its shape.
fn constant(handle: &SharedModule, name: &str) -> Result<(InstructionId, ArrayShape)> {
    let found = handle.instruction(name).and_then(|id| {
        let instruction = handle.module.instruction(id);
        instruction.literal()?;
        Some((id, instruction.array_shape()?.clone()))
    });
    found.ok_or_else(|| {
        Error::Hlo(HloError::argument(format!(
            "the module has no array constant called {name}"
        )))
    })
}
