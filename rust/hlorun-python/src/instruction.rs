//! Instructions as Python sees them.

use std::sync::Arc;

use hlorun::analysis::runs::trip_count;
use hlorun::module::escape::unescape;
use hlorun::module::{AttrKey, HloOpcode, InstructionId, InstructionRef};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule, PyString, PyTuple};

use crate::attributes::{attribute_dict, text_or_bytes};
use crate::computation::PyComputation;
use crate::error::{Result, detached};
use crate::handle::{SharedModule, hash_in};
use crate::literal::literal_to_python;
use crate::metadata::PyMetadata;
use crate::module::cost_dict;
use crate::shape::PyShape;

/// One instruction of a module, made when it is touched; equal to another of the same place.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> add = module["a"]
///     >>> add.opcode, add.shape.dtype, [operand.name for operand in add.operands]
///     ('add', dtype('float32'), ['p', 'p'])
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

    /// Instructions of a module, in the order of their ids given.
    pub fn tuple<'py>(
        py: Python<'py>,
        module: &SharedModule,
        ids: &[InstructionId],
    ) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, ids.iter().map(|&id| PyInstruction::new(module, id)))
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
        PyInstruction::tuple(py, &self.module, self.get().operand_ids())
    }

    /// The instructions that take this one as an operand, each once.
    #[getter]
    fn users<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyInstruction::tuple(py, &self.module, self.module.users(self.id))
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

    /// The collective it begins, "all-reduce" also for "all-reduce-start"; None for other opcodes.
    #[getter]
    fn collective(&self) -> Option<&'static str> {
        self.get().opcode().collective().map(HloOpcode::name)
    }

    /// Whether it does more than compute its value, or what it calls does: other devices take part, the
    /// world outside may notice, or the operands alone do not decide the result, as with random numbers.
    #[getter]
    fn has_side_effect(&self) -> bool {
        !self.module.effect(self.id).is_pure()
    }

    /// The shape of what a collective gives each device: of one that only starts here without its
    /// operands; None for other opcodes.
    #[getter]
    fn collective_shape(&self) -> Option<PyShape> {
        let id = self.get().collective_shape();
        let shape = PyShape {
            module: self.module.clone(),
            id,
        };
        self.get().opcode().collective().map(|_| shape)
    }

    /// How often the body of a while runs, where its configuration or its code says; None otherwise.
    #[getter]
    fn trip_count(&self) -> Option<u64> {
        trip_count(self.get())
    }

    /// How often it runs as a step of its own in one run of the module; None where it is a part of a
    /// fusion, is applied per element, only runs other computations, or is not reached.
    #[getter]
    fn runs(&self, py: Python<'_>) -> Option<u64> {
        py.detach(|| self.module.runs().step(self.get()))
    }

    /// What it does, without names and metadata: equal for instructions that do the same with equal
    /// operands, called computations and control predecessors, which are not part of it. Constants are
    /// digests of their bits.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> module["a"].signature() == module["p"].signature()
    ///     False
    fn signature(&self) -> String {
        self.module.module.instruction_signature(self.id)
    }

    /// Whether it is its computation's root.
    #[getter]
    fn is_root(&self) -> bool {
        self.get().is_root()
    }

    /// The value of a constant, a NumPy array of its shape's dtype and sizes, or a tuple of arrays;
    /// None for other opcodes and where the text left the value out.
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
        PyMetadata {
            instruction: self.id,
            module: self.module.clone(),
            metadata: self.module.metadata(self.id),
        }
    }

    /// The backend's configuration: a dict where it is JSON, str or bytes otherwise, None when absent.
    #[getter]
    fn backend_config<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        let Some(bytes) = self.get().backend_config_bytes() else {
            return Ok(None);
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

    /// What it costs by XLA's HloCostAnalysis, under the keys of `HloModule.cost_analysis`.
    ///
    /// Raises:
    ///     HloVerifyError: The module breaks rules of HLO.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> module["a"].cost_analysis()["flops"]
    ///     2.0
    fn cost_analysis<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let costs = detached(py, || self.module.costs())?;
        Ok(cost_dict(py, costs.instruction(self.id))?)
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

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let computation = self.computation();
        let instructions = &self.module.module.computation(computation.id).instructions;
        let place = instructions.iter().position(|&id| id == self.id);
        let caller = py.import("operator")?.getattr("methodcaller")?;
        let make = caller.call1(("_instruction", place.unwrap_or_default()))?;
        (make, (computation,)).into_pyobject(py)
    }

    fn __eq__(&self, other: &PyInstruction) -> bool {
        Arc::ptr_eq(&self.module, &other.module) && self.id == other.id
    }

    fn __hash__(&self) -> u64 {
        hash_in(&self.module, self.id)
    }
}
