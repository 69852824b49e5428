//! Metadata of an instruction as Python sees it.

use hlorun::module::InstructionId;
use hlorun::module::metadata::OpMetadata;
use hlorun::module::stack_frames::StackFrame;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyTuple};

use crate::handle::SharedModule;
use crate::instruction::PyInstruction;
use crate::module::record;

/// Metadata of an instruction: its keys as attributes and as items; empty when there is none.
///
/// Examples:
///     >>> text = 'ENTRY e { ROOT p = f32[2] parameter(0), metadata={op_name="x" source_line=7} }'
///     >>> metadata = hlorun.parse(text)["p"].metadata
///     >>> metadata.op_name, metadata["source_line"], metadata.source_file
///     ('x', 7, '')
#[pyclass(frozen, mapping, module = "hlorun", name = "OpMetadata")]
pub struct PyMetadata {
    pub module: SharedModule,
    pub instruction: InstructionId,
    pub metadata: OpMetadata,
}

impl PyMetadata {
    fn frames(&self) -> Vec<StackFrame> {
        match self.metadata.stack_frame_id {
            Some(id) => self.module.stack(id),
            None => Vec::new(),
        }
    }

    /// What the text gives, in a fixed order.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let metadata = &self.metadata;
        let texts = [
            ("op_type", &metadata.op_type),
            ("op_name", &metadata.op_name),
            ("source_file", &metadata.source_file),
            ("deduplicated_name", &metadata.deduplicated_name),
            ("scheduling_name", &metadata.scheduling_name),
        ];
        for (key, value) in texts {
            if let Some(value) = value {
                dict.set_item(key, value)?;
            }
        }
        let numbers = [
            ("source_line", metadata.source_line),
            ("source_end_line", metadata.source_end_line),
            ("source_column", metadata.source_column),
            ("source_end_column", metadata.source_end_column),
            ("stack_frame_id", metadata.stack_frame_id),
        ];
        for (key, value) in numbers {
            if let Some(value) = value {
                dict.set_item(key, value)?;
            }
        }
        if !metadata.profile_type.is_empty() {
            let types = metadata.profile_type.iter().copied();
            dict.set_item("profile_type", PyTuple::new(py, types)?)?;
        }
        for (key, value) in &metadata.other {
            dict.set_item(key, value)?;
        }
        Ok(dict)
    }
}

#[pymethods]
impl PyMetadata {
    /// The framework's operation, "MatMul"; empty when absent.
    #[getter]
    fn op_type(&self) -> &str {
        self.metadata.op_type.as_deref().unwrap_or_default()
    }

    /// The framework's name for it, "jit(f)/dot_general"; empty when absent.
    #[getter]
    fn op_name(&self) -> &str {
        self.metadata.op_name.as_deref().unwrap_or_default()
    }

    /// The source file, also where only a stack frame names it; empty when absent.
    #[getter]
    fn source_file(&self) -> String {
        match &self.metadata.source_file {
            Some(file) => file.clone(),
            None => self
                .frames()
                .into_iter()
                .next()
                .map_or(String::new(), |frame| frame.file),
        }
    }

    /// The line in the source file, from 1; 0 when absent.
    #[getter]
    fn source_line(&self) -> i64 {
        match self.metadata.source_line {
            Some(line) => line,
            None => self.frames().first().map_or(0, |frame| frame.line),
        }
    }

    /// The stack when it was made, innermost first: a `StackFrame` for each.
    #[getter]
    fn stack_frames<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let frames = self.frames().into_iter().map(|frame| {
            let parts = (frame.file, frame.function, frame.line, frame.column);
            record(py, "StackFrame", parts)
        });
        PyTuple::new(py, frames.collect::<PyResult<Vec<_>>>()?)
    }

    /// The value of a key.
    ///
    /// Args:
    ///     key: As in the text.
    ///
    /// Raises:
    ///     KeyError: The text does not give it.
    ///
    /// Examples:
    ///     >>> text = 'ENTRY e { ROOT p = f32[2] parameter(0), metadata={op_name="x"} }'
    ///     >>> hlorun.parse(text)["p"].metadata["op_name"]
    ///     'x'
    fn __getitem__<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        self.items(py)?
            .get_item(key)?
            .ok_or_else(|| PyKeyError::new_err(key.to_owned()))
    }

    /// The value of a key.
    ///
    /// Args:
    ///     key: As in the text.
    ///     default: What is returned where the text does not give it.
    ///
    /// Returns:
    ///     The value, or `default`.
    ///
    /// Raises:
    ///     TypeError: `key` is no string.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> module["a"].metadata.get("op_name", "no name")
    ///     'no name'
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.items(py)?.get_item(key)?.or(default))
    }

    /// The keys the text gives.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> module["a"].metadata.keys()
    ///     []
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.items(py)?.keys().into_any())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.items(py)?.try_iter()
    }

    fn __contains__(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        self.items(py)?.contains(key)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.items(py)?.len())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("OpMetadata({})", self.items(py)?.repr()?))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let make = py.import("operator")?.getattr("attrgetter")?;
        let make = make.call1(("metadata",))?;
        let instruction = PyInstruction::new(&self.module, self.instruction);
        (make, (instruction,)).into_pyobject(py)
    }

    fn __eq__(&self, other: &PyMetadata) -> bool {
        self.metadata == other.metadata
    }
}
