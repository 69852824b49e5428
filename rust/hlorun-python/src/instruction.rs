//! Instructions as Python sees them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use hlorun::module::{AttrKey, AttrValue, HloOpcode, InstructionId, InstructionRef};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyIterator, PyModule, PyString, PyTuple};

use crate::attributes::{attribute_dict, text_or_bytes, values_dict};
use crate::computation::PyComputation;
use crate::error::Result;
use crate::handle::SharedModule;
use crate::literal::literal_to_python;
use crate::metadata::{Value, key_values, unescape};
use crate::shape::PyShape;

/// One instruction of a module.
#[pyclass(frozen, module = "hlorun", name = "HloInstruction")]
pub struct PyInstruction {
    pub module: SharedModule,
    pub id: InstructionId,
}

impl PyInstruction {
    pub fn new(module: &SharedModule, id: InstructionId) -> PyInstruction {
        PyInstruction {
            module: module.clone(),
            id,
        }
    }

    fn get(&self) -> InstructionRef<'_> {
        self.module.module.instruction(self.id)
    }

    fn handles<'py>(
        &self,
        py: Python<'py>,
        ids: &[InstructionId],
    ) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(
            py,
            ids.iter().map(|&id| PyInstruction::new(&self.module, id)),
        )
    }
}

/// The opcode's name, the same string object every time.
fn opcode_string(py: Python<'_>, opcode: HloOpcode) -> &Bound<'_, PyString> {
    static NAMES: [PyOnceLock<Py<PyString>>; 256] = [const { PyOnceLock::new() }; 256];
    NAMES[opcode as usize]
        .get_or_init(py, || PyString::intern(py, opcode.name()).unbind())
        .bind(py)
}

#[pymethods]
impl PyInstruction {
    /// The name, without "%".
    #[getter]
    fn name(&self) -> std::borrow::Cow<'_, str> {
        self.get().name()
    }

    /// The operation, "dynamic-update-slice".
    #[getter]
    fn opcode<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        match self.get().opcode() {
            HloOpcode::Unknown => PyString::new(py, &self.get().opcode_name()),
            opcode => opcode_string(py, opcode).clone(),
        }
    }

    /// The shape of the result.
    #[getter]
    fn shape(&self) -> PyShape {
        PyShape {
            module: self.module.clone(),
            id: self.get().shape_id(),
        }
    }

    /// The operands, in order.
    #[getter]
    fn operands<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.handles(py, self.get().operand_ids())
    }

    /// The instructions that take this one as an operand, each once.
    #[getter]
    fn users<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.handles(py, self.module.users(self.id))
    }

    /// The computations it calls, in the order of the text.
    #[getter]
    fn called_computations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let called = self.get().called_computations();
        PyTuple::new(
            py,
            called
                .into_iter()
                .map(|id| PyComputation::new(&self.module, id)),
        )
    }

    /// The computation it stands in.
    #[getter]
    fn computation(&self) -> PyComputation {
        PyComputation::new(&self.module, self.get().computation())
    }

    /// The number of a parameter; None for other opcodes.
    #[getter]
    fn parameter_number(&self) -> Option<usize> {
        self.get().parameter_number()
    }

    /// The element a get-tuple-element takes; None for other opcodes.
    #[getter]
    fn tuple_index(&self) -> Option<usize> {
        self.get().tuple_index()
    }

    /// The target of a custom-call; None for other opcodes.
    #[getter]
    fn custom_call_target(&self) -> Option<String> {
        let target = self.get().string(AttrKey::CustomCallTarget)?;
        Some(String::from_utf8_lossy(&unescape(target)).into_owned())
    }

    /// Whether it is its computation's root.
    #[getter]
    fn is_root(&self) -> bool {
        self.get().is_root()
    }

    /// The value of a constant; None for other opcodes and where the text left the value out.
    #[getter]
    fn literal<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        self.get()
            .literal()
            .map(|literal| literal_to_python(py, literal))
            .transpose()
    }

    /// The attributes by their keys in the text: tuples, strings, numbers, dicts, computations.
    /// Metadata and backend_config are attributes of their own.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        attribute_dict(py, &self.module, self.id)
    }

    /// What the framework said of it: op_type, op_name, source_file, source_line, stack_frames.
    #[getter]
    fn metadata(&self) -> PyMetadata {
        let pairs = match self.get().attribute(AttrKey::Metadata) {
            Some(AttrValue::Raw(text)) => key_values(self.module.module.text().bytes(*text)),
            _ => Vec::new(),
        };
        PyMetadata {
            module: self.module.clone(),
            pairs,
        }
    }

    /// The backend's configuration: a dict where it is JSON, str or bytes otherwise, None when absent.
    #[getter]
    fn backend_config<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        let text = self.module.module.text();
        let bytes = match self.get().attribute(AttrKey::BackendConfig) {
            Some(AttrValue::String(quoted)) => unescape(text.bytes(*quoted)),
            Some(AttrValue::Raw(raw) | AttrValue::Enum(raw)) => {
                let raw = text.bytes(*raw);
                match raw.strip_prefix(b"\"").and_then(|r| r.strip_suffix(b"\"")) {
                    Some(quoted) => unescape(quoted),
                    None => raw.to_vec(),
                }
            }
            _ => return Ok(None),
        };
        if bytes.trim_ascii_start().first() == Some(&b'{') {
            static JSON: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
            let json = JSON.get_or_try_init(py, || {
                Ok::<_, PyErr>(PyModule::import(py, "json")?.unbind())
            })?;
            // Deep nesting and what is no JSON are both a reason to hand out the text.
            if let Ok(parsed) = json.bind(py).call_method1("loads", (&bytes[..],))
                && parsed.is_instance_of::<PyDict>()
            {
                return Ok(Some(parsed));
            }
        }
        Ok(Some(text_or_bytes(py, &bytes)))
    }

    /// The instruction as it stands in the file.
    #[getter]
    fn text(&self) -> std::borrow::Cow<'_, str> {
        self.module.module.str(self.get().data().text)
    }

    fn __str__(&self) -> String {
        let instruction = self.get();
        let shapes = self.module.module.shapes();
        let style = hlorun::types::ShapeStyle::FULL;
        let mut out = format!(
            "{} = {} {}(",
            instruction.name(),
            shapes.display(instruction.shape_id(), style),
            instruction.opcode_name()
        );
        for (index, operand) in instruction.operands().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            out.push_str(&operand.name());
        }
        if let Some(number) = instruction.parameter_number() {
            out.push_str(&number.to_string());
        }
        out.push(')');
        out
    }

    fn __repr__(&self) -> String {
        format!("<HloInstruction {}>", self.__str__())
    }

    fn __eq__(&self, other: &PyInstruction) -> bool {
        Arc::ptr_eq(&self.module, &other.module) && self.id == other.id
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        Arc::as_ptr(&self.module).hash(&mut hasher);
        self.id.hash(&mut hasher);
        hasher.finish()
    }
}

/// Metadata of an instruction: its keys as attributes and as items; empty when there is none.
#[pyclass(frozen, mapping, module = "hlorun", name = "OpMetadata")]
pub struct PyMetadata {
    module: SharedModule,
    pairs: Vec<(String, Value)>,
}

impl PyMetadata {
    fn find(&self, key: &str) -> Option<&Value> {
        self.pairs
            .iter()
            .find(|pair| pair.0 == key)
            .map(|pair| &pair.1)
    }

    fn string(&self, key: &str) -> String {
        match self.find(key) {
            Some(Value::Text(text)) => text.clone(),
            Some(Value::Int(number)) => number.to_string(),
            Some(Value::Bool(flag)) => flag.to_string(),
            None => String::new(),
        }
    }

    fn number(&self, key: &str) -> i64 {
        match self.find(key) {
            Some(Value::Int(number)) => *number,
            _ => 0,
        }
    }

    fn frames(&self) -> Vec<crate::metadata::StackFrame> {
        match self.find("stack_frame_id") {
            Some(Value::Int(id)) => self.module.stack_frames().resolve(*id),
            _ => Vec::new(),
        }
    }
}

#[pymethods]
impl PyMetadata {
    /// The framework's operation, "MatMul"; empty when absent.
    #[getter]
    fn op_type(&self) -> String {
        self.string("op_type")
    }

    /// The framework's name for it, "jit(f)/dot_general"; empty when absent.
    #[getter]
    fn op_name(&self) -> String {
        self.string("op_name")
    }

    /// The source file, also where only a stack frame names it; empty when absent.
    #[getter]
    fn source_file(&self) -> String {
        match self.find("source_file") {
            Some(_) => self.string("source_file"),
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
        match self.find("source_line") {
            Some(_) => self.number("source_line"),
            None => self.frames().first().map_or(0, |frame| frame.line),
        }
    }

    /// The stack when it was made, innermost first: (file, function, line, column).
    #[getter]
    fn stack_frames<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let frames = self
            .frames()
            .into_iter()
            .map(|frame| (frame.file, frame.function, frame.line, frame.column));
        PyTuple::new(py, frames)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        values_dict(py, self.pairs.clone())?
            .get_item(key)?
            .ok_or_else(|| pyo3::exceptions::PyKeyError::new_err(key.to_owned()))
    }

    /// The value of `key`, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(values_dict(py, self.pairs.clone())?
            .get_item(key)?
            .or(default))
    }

    /// The keys the text gives.
    fn keys(&self) -> Vec<String> {
        self.pairs.iter().map(|pair| pair.0.clone()).collect()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyTuple::new(py, self.keys())?.try_iter()
    }

    fn __contains__(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    fn __len__(&self) -> usize {
        self.pairs.len()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let dict = values_dict(py, self.pairs.clone())?;
        Ok(format!("OpMetadata({})", dict.repr()?))
    }

    fn __eq__(&self, other: &PyMetadata) -> bool {
        self.pairs == other.pairs
    }
}
