//! Changed modules, for the tools that look for the smallest one or the exact result.

use hlorun::module::edit::{Edit, edited, resized, widened};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::{Result, detached};
use crate::instruction::PyInstruction;
use crate::module::PyHloModule;
use crate::reading::reread;

/// The module with edits done: `(kind, instruction, number)`, where the kind is
///
/// - `"operand"`: users of the instruction read its operand of that number,
/// - `"zero"`: they read zeros,
/// - `"parameter"`: it becomes a parameter of the entry computation,
/// - `"number"`: the constant holds that number,
/// - `"once"`: the loop runs its body once,
/// - `"output"`: the entry computation returns it, with the other instructions named so.
///
/// What nothing reads any more is gone.
#[pyfunction]
#[pyo3(name = "_edit")]
pub fn edit(
    py: Python<'_>,
    module: &Bound<'_, PyHloModule>,
    edits: Vec<(String, Bound<'_, PyInstruction>, i64)>,
) -> Result<PyHloModule> {
    let handle = &module.get().handle;
    let mut all = Vec::with_capacity(edits.len());
    let mut outputs = Vec::new();
    for (kind, instruction, number) in &edits {
        let instruction = instruction.get();
        if !std::ptr::eq(&*instruction.module.module, &*handle.module) {
            return Err(PyValueError::new_err("an instruction of another module").into());
        }
        let id = instruction.id;
        all.push(match kind.as_str() {
            "operand" => Edit::Operand(id, usize::try_from(*number).unwrap_or(usize::MAX)),
            "zero" => Edit::Zero(id),
            "parameter" => Edit::Parameter(id),
            "number" => Edit::Number(id, *number),
            "once" => Edit::Once(id),
            "output" => {
                outputs.push(id);
                continue;
            }
            other => return Err(PyValueError::new_err(format!("no edit is called {other}")).into()),
        });
    }
    if !outputs.is_empty() {
        all.push(Edit::Outputs(outputs.into()));
    }
    let module = &handle.module;
    reread(py, move || edited(module, &all))
}

/// The module in which every dimension of `old` elements has `new`.
#[pyfunction]
#[pyo3(name = "_resize")]
pub fn resize(
    py: Python<'_>,
    module: &Bound<'_, PyHloModule>,
    old: i64,
    new: i64,
) -> Result<PyHloModule> {
    let module = &module.get().handle.module;
    reread(py, move || resized(module, old, new))
}

/// The module with f64 in place of every narrower floating-point type; None where that cannot be.
#[pyfunction]
#[pyo3(name = "_widen")]
pub fn widen(py: Python<'_>, module: &Bound<'_, PyHloModule>) -> Result<Option<PyHloModule>> {
    let module = &module.get().handle.module;
    match detached(py, move || Ok(widened(module)))? {
        Some(wide) => reread(py, move || wide).map(Some),
        None => Ok(None),
    }
}
