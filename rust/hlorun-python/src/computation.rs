//! Computations as Python sees them.

use std::sync::Arc;

use hlorun::module::{ComputationId, HloComputation};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};

use crate::handle::{SharedModule, hash_in};
use crate::instruction::PyInstruction;
use crate::module::{PyHloModule, html};

/// One computation of a module: iterable over its instructions, and indexed by their names.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> [instruction.name for instruction in module.entry_computation]
///     ['p', 'a']
#[pyclass(frozen, module = "hlorun", name = "HloComputation")]
pub struct PyComputation {
    pub module: SharedModule,
    pub id: ComputationId,
}

impl PyComputation {
    pub fn new(module: &SharedModule, id: ComputationId) -> PyComputation {
        PyComputation {
            module: module.clone(),
            id,
        }
    }

    fn get(&self) -> &HloComputation {
        self.module.module.computation(self.id)
    }
}

#[pymethods]
impl PyComputation {
    /// The name, without "%".
    #[getter]
    fn name(&self) -> std::borrow::Cow<'_, str> {
        self.module.module.str(self.get().name)
    }

    /// The instructions, in the order of the text.
    #[getter]
    fn instructions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyInstruction::tuple(py, &self.module, &self.get().instructions)
    }

    /// The parameters, by number.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyInstruction::tuple(py, &self.module, &self.get().parameters)
    }

    /// The instruction whose value the computation returns.
    #[getter]
    fn root(&self) -> Option<PyInstruction> {
        self.get()
            .root
            .map(|id| PyInstruction::new(&self.module, id))
    }

    /// Whether it is the module's entry computation.
    #[getter]
    fn is_entry(&self) -> bool {
        self.module.module.entry == Some(self.id)
    }

    /// How often it runs in one run of the module: calls, and loops with their trips, as one where they
    /// are not known. None where it is applied per element, or nothing reaches it.
    #[getter]
    fn runs(&self, py: Python<'_>) -> Option<u64> {
        py.detach(|| self.module.runs().computation(self.id))
    }

    /// Whether it is a part of one instruction: fused, or applied per element.
    #[getter]
    fn is_inner(&self, py: Python<'_>) -> bool {
        py.detach(|| self.module.runs().is_inner(self.id))
    }

    /// The thread it runs on; None for the main one.
    #[getter]
    fn execution_thread(&self) -> Option<std::borrow::Cow<'_, str>> {
        let name = self.get().execution_thread?;
        Some(self.module.module.str(name))
    }

    /// The instruction called `name`.
    ///
    /// Args:
    ///     name: With or without "%".
    ///
    /// Raises:
    ///     KeyError: The computation has none.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> module.entry_computation["a"].is_root
    ///     True
    fn __getitem__(&self, name: &str) -> PyResult<PyInstruction> {
        let text = self.module.module.text();
        self.get()
            .instructions
            .iter()
            .copied()
            .find(|&id| text.bytes(self.module.module.instruction_data(id).name) == name.as_bytes())
            .map(|id| PyInstruction::new(&self.module, id))
            .ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    /// What unpickling an instruction calls: the instruction at a place in the order of the text.
    fn _instruction(&self, place: usize) -> PyResult<PyInstruction> {
        let id = self.get().instructions.get(place);
        let id =
            id.ok_or_else(|| PyKeyError::new_err("the pickled module has fewer instructions"))?;
        Ok(PyInstruction::new(&self.module, *id))
    }

    fn __len__(&self) -> usize {
        self.get().instructions.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.instructions(py)?.try_iter()
    }

    fn __repr__(&self) -> String {
        let count = self.get().instructions.len();
        let plural = if count == 1 { "" } else { "s" };
        format!(
            "<HloComputation {}, {count} instruction{plural}>",
            self.name()
        )
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let make = py.import("hlorun._hlorun")?.getattr("_computation")?;
        let mut ids = self.module.module.computation_ids();
        let place = ids.position(|id| id == self.id).unwrap_or_default();
        let module = PyHloModule::object(py, &self.module)?;
        (make, (module, place)).into_pyobject(py)
    }

    /// The instructions as a table for notebooks.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        html(slf.py(), "computation_html", slf.as_any())
    }

    fn _ipython_key_completions_(&self) -> Vec<std::borrow::Cow<'_, str>> {
        let module = &self.module.module;
        let instructions = self.get().instructions.iter();
        instructions
            .map(|&id| module.str(module.instruction_data(id).name))
            .collect()
    }

    fn __eq__(&self, other: &PyComputation) -> bool {
        Arc::ptr_eq(&self.module, &other.module) && self.id == other.id
    }

    fn __hash__(&self) -> u64 {
        hash_in(&self.module, self.id)
    }
}
