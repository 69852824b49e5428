//! Buffer-assignment dumps as Python sees them.
//!
//! Comes in: text or a file. Goes out: plain records of allocations, values and live ranges, made
//! when asked for.

use std::path::PathBuf;
use std::sync::Arc;

use hlorun::analysis::buffer_assignment as core;
use hlorun::module::{Source, TextRef};
use hlorun::text::ParseOptions;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::{Result, detached};
use crate::memory::{PyMemoryStats, statistics};
use crate::module::PyHloModule;
use crate::reading::text_options;
use crate::source::{file_options, read_file, text_source};

/// A buffer assignment as XLA dumped it, or a plan of hlorun's in that form; `str()` is its text.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> [allocation.size for allocation in module.buffer_assignment().allocations]
///     [8, 8]
#[pyclass(frozen, module = "hlorun", name = "BufferAssignment")]
pub struct PyBufferAssignment {
    pub(crate) dump: Arc<core::BufferAssignmentDump>,
    files: Vec<PathBuf>,
    module_file: Option<PathBuf>,
}

/// What a memory-usage report says of one memory space, in bytes.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> [space.total_bytes for space in module.buffer_assignment().usage]
///     []
#[pyclass(frozen, get_all, module = "hlorun", name = "MemorySpaceUsage")]
pub struct PyMemorySpaceUsage {
    /// Its name; "" where the report has none.
    memory_space: String,
    /// Its number.
    color: i64,
    /// Bytes of all its allocations.
    total_bytes: u64,
    /// Its allocations, as far as the report lists them.
    allocations: usize,
}

#[pymethods]
impl PyMemorySpaceUsage {
    fn __repr__(&self) -> String {
        format!(
            "MemorySpaceUsage(memory_space={:?}, color={}, total_bytes={}, allocations={})",
            self.memory_space, self.color, self.total_bytes, self.allocations
        )
    }
}

/// One value in an allocation: which, and which bytes of it.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> value = module.buffer_assignment().allocations[0].values[0]
///     >>> value.instruction, value.offset, value.size
///     ('a', 0, 8)
#[pyclass(frozen, get_all, module = "hlorun", name = "AssignedValue")]
pub struct PyAssignedValue {
    /// Number of the value.
    id: u32,
    /// The defining instruction.
    instruction: String,
    /// Which part of it, "{0}"; "" for instructions that are no tuples.
    index: String,
    /// Whether several values meet here.
    is_phi: bool,
    /// Memory space.
    color: i32,
    /// Bytes.
    size: u64,
    /// Bytes from the start of the allocation.
    offset: u64,
    /// Shape with layout, as written.
    shape: String,
}

/// One allocation: a block of memory, what it is for, and the values that lie in it one after the
/// other.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> allocation = module.buffer_assignment().allocations[0]
///     >>> allocation.size, allocation.maybe_live_out, len(allocation.values)
///     (8, True, 1)
#[pyclass(frozen, get_all, module = "hlorun", name = "BufferAllocation")]
pub struct PyBufferAllocation {
    /// Its number.
    index: u32,
    /// Bytes.
    size: u64,
    /// Memory space.
    color: i64,
    /// The entry parameter it holds, or None.
    parameter_number: Option<u32>,
    /// Which part of that parameter, "{}" or "{0,1}"; "" when it is no parameter.
    parameter_index: String,
    /// Shape of that parameter or of the output it holds the top of; "" for others.
    shape: String,
    /// Whether it holds a constant.
    is_constant: bool,
    /// Whether each thread has one.
    is_thread_local: bool,
    /// Whether it holds a part of the result.
    maybe_live_out: bool,
    /// Whether it is the block of temporaries.
    is_preallocated_temp: bool,
    /// Its values.
    values: Vec<Py<PyAssignedValue>>,
}

/// One entry of "Used values": where a value is, and who uses it.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> [(value.instruction, value.positions[0]) for value in module.buffer_assignment().values]
///     [('p', ('p', '')), ('a', ('a', ''))]
#[pyclass(frozen, get_all, module = "hlorun", name = "BufferValue")]
pub struct PyBufferValue {
    /// Number of the value.
    id: u32,
    /// The defining instruction.
    instruction: String,
    /// Which part of it, "{0}"; "" for instructions that are no tuples.
    index: String,
    /// Whether several values meet here.
    is_phi: bool,
    /// Memory space.
    color: i32,
    /// Where it is, the defining position first: (instruction, index).
    positions: Vec<(String, String)>,
    /// Who uses it: (instruction, operand number, index).
    uses: Vec<(String, u32, String)>,
    /// The defining instruction in HLO text.
    from_instruction: String,
}

/// Schedule, live ranges and peak; moments count the instructions of the schedule from 0.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> ranges = module.live_ranges()
///     >>> ranges.peak_moment, ranges.buffer_live_ranges[0]
///     (1, ('p', '{}', 0, 2))
#[pyclass(frozen, get_all, module = "hlorun", name = "BufferLiveRanges")]
pub struct PyLiveRanges {
    /// The moment after the last instruction, up to which results are live.
    max: u32,
    /// The schedule: (moment, instruction).
    instruction_sequence: Vec<(u32, String)>,
    /// (instruction, index, first moment, last moment), by value number.
    buffer_live_ranges: Vec<(String, String, u32, u32)>,
    /// The moment with most live bytes, or None.
    peak_moment: Option<u32>,
    /// Who is live then: (instruction, index, bytes).
    peak_values: Vec<(String, String, u64)>,
}

/// What does not fit between an assignment and its module; `str()` shows the line and a caret.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> path = "tests/data/dumps/002_6f652c95ac4cfb4d.txt.zst"
///     >>> findings = hlorun.load_buffer_assignment(path).check(module)
///     >>> findings[0].kind
///     'UnknownInstruction'
#[pyclass(frozen, get_all, module = "hlorun", name = "BufferFinding")]
pub struct PyBufferFinding {
    /// Which rule it breaks.
    kind: String,
    /// What is wrong, naming both sides.
    message: String,
    /// The line of the dump, from 1; 0 when it is about something the dump lacks.
    lineno: usize,
    /// The message with the line and a caret.
    #[pyo3(name = "rendered")]
    text: String,
}

#[pymethods]
impl PyBufferFinding {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<BufferFinding {}: {}>", self.kind, self.message)
    }
}

/// Parses a buffer-assignment dump, or the assignment that an HloProto or HloSnapshot holds.
///
/// Args:
///     text: The text or the bytes.
///     filename: What errors name as the file.
///
/// Returns:
///     The assignment.
///
/// Raises:
///     HloParseError: It is no buffer assignment.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> text = str(module.buffer_assignment())
///     >>> hlorun.parse_buffer_assignment(text).total_bytes
///     16
#[pyfunction]
#[pyo3(signature = (text, *, filename=None))]
pub fn parse_buffer_assignment(
    py: Python<'_>,
    text: &Bound<'_, PyAny>,
    filename: Option<String>,
) -> Result<PyBufferAssignment> {
    let options = text_options(filename, false);
    let source = text_source(text)?;
    let dump = detached(py, move || {
        let source = recorded(source, &options)?;
        core::parse(source, options.filename)
    })?;
    Ok(PyBufferAssignment::of(Arc::new(dump)))
}

/// The text of an assignment: of a proto, that of the assignment recorded in it.
fn recorded(source: Source, options: &ParseOptions) -> hlorun::Result<Source> {
    if hlorun::proto::kind_of(&source).is_none() {
        return Ok(source);
    }
    match hlorun::proto::read_assignment(&source, options)? {
        Some(text) => Ok(Source::from(text.into_bytes())),
        None => Err(hlorun::proto::fault(
            options.filename.as_ref(),
            "the proto holds no buffer assignment; XLA adds it after optimizations",
        )),
    }
}

/// Parses the file of a buffer-assignment dump, or of a proto that holds one, plain or packed with
/// gzip or zstd.
///
/// XLA divides a dump into several files, and since 2026 no file says all.
///
/// Args:
///     path: The file.
///     siblings: Whether those beside the file whose names begin alike are read too: allocations,
///         values, live ranges and the memory-usage report.
///     max_bytes: Most bytes that a packed file may unpack to; 4 GiB by default.
///
/// Returns:
///     The assignment.
///
/// Raises:
///     OSError: The file cannot be read.
///     HloParseError: It is no buffer assignment.
///
/// Examples:
///     >>> path = "tests/data/dumps/002_6f652c95ac4cfb4d.txt.zst"
///     >>> hlorun.load_buffer_assignment(path).total_bytes
///     525448
#[pyfunction]
#[pyo3(signature = (path, *, siblings=true, max_bytes=None))]
pub fn load_buffer_assignment(
    py: Python<'_>,
    path: PathBuf,
    siblings: bool,
    max_bytes: Option<usize>,
) -> Result<PyBufferAssignment> {
    let paths = match siblings {
        true => core::dump_files(&path),
        false => vec![path.clone()],
    };
    let (mut joined, mut ends, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let (mut only, mut holds_module) = (None, false);
    for file in &paths {
        let options = file_options(file, max_bytes);
        let source = py.detach(|| read_file(file, &options))?;
        holds_module |= hlorun::proto::kind_of(&source).is_some();
        let source = detached(py, || recorded(source, &options))?;
        names.push(options.filename);
        if paths.len() == 1 {
            only = Some(source);
            break;
        }
        joined.extend_from_slice(&source);
        ends.push(joined.len());
    }
    let source = only.unwrap_or_else(|| Source::from(joined));
    if ends.is_empty() {
        ends.push(source.len());
    }
    let dump = detached(py, || core::parse_files(source, &ends, &names))?;
    Ok(PyBufferAssignment {
        dump: Arc::new(dump),
        files: paths,
        module_file: match holds_module {
            true => Some(path),
            false => core::module_file(&path).filter(|_| siblings),
        },
    })
}

impl PyBufferAssignment {
    /// An assignment that comes from no file.
    pub(crate) fn of(dump: Arc<core::BufferAssignmentDump>) -> PyBufferAssignment {
        PyBufferAssignment {
            dump,
            files: Vec::new(),
            module_file: None,
        }
    }

    fn str(&self, text: TextRef) -> String {
        self.dump.str(text).into_owned()
    }

    fn allocation(
        &self,
        py: Python<'_>,
        allocation: &core::BufferAllocation,
    ) -> PyResult<PyBufferAllocation> {
        let values = self
            .dump
            .values_of(allocation)
            .iter()
            .map(|value| {
                let value = PyAssignedValue {
                    id: value.name.id,
                    instruction: self.str(value.name.instruction),
                    index: self.str(value.name.index),
                    is_phi: value.name.is_phi,
                    color: value.name.color,
                    size: value.size,
                    offset: value.offset,
                    shape: self.str(value.shape),
                };
                Py::new(py, value)
            })
            .collect::<PyResult<Vec<_>>>()?;
        let parameter = allocation.parameter;
        let shape = parameter.map(|p| p.shape).or(allocation.output_shape);
        Ok(PyBufferAllocation {
            index: allocation.index,
            size: allocation.size,
            color: allocation.color,
            parameter_number: parameter.map(|p| p.number),
            parameter_index: parameter.map_or(String::new(), |p| self.str(p.index)),
            shape: shape.map_or(String::new(), |shape| self.str(shape)),
            is_constant: allocation.flags.constant,
            is_thread_local: allocation.flags.thread_local,
            maybe_live_out: allocation.flags.maybe_live_out,
            is_preallocated_temp: allocation.flags.preallocated_temp,
            values,
        })
    }

    fn value(&self, value: &core::HloValueEntry) -> PyBufferValue {
        PyBufferValue {
            id: value.name.id,
            instruction: self.str(value.name.instruction),
            index: self.str(value.name.index),
            is_phi: value.name.is_phi,
            color: value.name.color,
            positions: self
                .dump
                .positions_of(value)
                .iter()
                .map(|position| (self.str(position.instruction), self.str(position.index)))
                .collect(),
            uses: self
                .dump
                .uses_of(value)
                .iter()
                .map(|u| (self.str(u.instruction), u.operand, self.str(u.index)))
                .collect(),
            from_instruction: self.str(value.from_instruction),
        }
    }
}

#[pymethods]
impl PyBufferAssignment {
    /// The allocations, in the order of the text.
    #[getter]
    fn allocations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let allocations = self
            .dump
            .allocations
            .iter()
            .map(|allocation| self.allocation(py, allocation))
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, allocations)
    }

    /// The used values, in the order of the text.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let values = self.dump.used_values.iter().map(|value| self.value(value));
        PyTuple::new(py, values.collect::<Vec<_>>())
    }

    /// The files it was read from; empty for assignments from memory.
    #[getter]
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.files.iter().map(|file| file.to_string_lossy()))
    }

    /// The file of the assignment's module, where it stands beside the assignment; None otherwise.
    #[getter]
    fn module_file(&self) -> Option<String> {
        let file = self.module_file.as_ref()?;
        Some(file.to_string_lossy().into_owned())
    }

    /// What the memory-usage report says, by memory space; empty without a report.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let spaces = core::usage(&self.dump);
        PyTuple::new(
            py,
            spaces.into_iter().map(|space| PyMemorySpaceUsage {
                memory_space: self.str(space.name),
                color: space.color,
                total_bytes: space.bytes,
                allocations: space.allocations,
            }),
        )
    }

    /// Schedule, live ranges and peak; None where the dump has none.
    #[getter]
    pub(crate) fn live_range(&self) -> Option<PyLiveRanges> {
        let ranges = self.dump.live_range.as_ref()?;
        Some(PyLiveRanges {
            max: ranges.max,
            instruction_sequence: ranges
                .instruction_sequence
                .iter()
                .map(|step| (step.moment, self.str(step.instruction)))
                .collect(),
            buffer_live_ranges: ranges
                .buffer_live_ranges
                .iter()
                .map(|r| (self.str(r.instruction), self.str(r.index), r.start, r.end))
                .collect(),
            peak_moment: ranges.peak_moment,
            peak_values: ranges
                .peak_values
                .iter()
                .map(|v| (self.str(v.instruction), self.str(v.index), v.bytes))
                .collect(),
        })
    }

    /// Sums of the allocations in bytes, under JAX's names.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> module.buffer_assignment().memory_analysis().output_size_in_bytes
    ///     8
    fn memory_analysis(&self) -> PyMemoryStats {
        statistics(&self.dump)
    }

    /// Bytes of all allocations.
    #[getter]
    fn total_bytes(&self) -> u64 {
        self.dump.total_bytes()
    }

    /// The moment with most live bytes; None where the dump does not say.
    #[getter]
    fn peak(&self) -> Option<u32> {
        self.dump.live_range.as_ref()?.peak_moment
    }

    /// What does not fit between the assignment and its module.
    ///
    /// Args:
    ///     module: The module the assignment is of.
    ///
    /// Returns:
    ///     A `BufferFinding` for each; none where it fits.
    ///
    /// Raises:
    ///     HloVerifyError: The module itself breaks rules of HLO.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> module.buffer_assignment().check(module)
    ///     ()
    fn check<'py>(
        &self,
        py: Python<'py>,
        module: &Bound<'py, PyHloModule>,
    ) -> Result<Bound<'py, PyTuple>> {
        let handle = module.get().handle.clone();
        let findings = detached(py, || core::check(&self.dump, &handle.module))?;
        let findings = findings.into_iter().map(|finding| PyBufferFinding {
            kind: format!("{:?}", finding.kind),
            lineno: finding.location.as_ref().map_or(0, |at| at.line),
            text: finding.to_string(),
            message: finding.message,
        });
        Ok(PyTuple::new(py, findings.collect::<Vec<_>>())?)
    }

    fn __str__(&self, py: Python<'_>) -> Result<String> {
        detached(py, || Ok(core::print(&self.dump)))
    }

    fn __repr__(&self) -> String {
        format!(
            "<BufferAssignment, {} allocations, {} bytes>",
            self.dump.allocations.len(),
            self.dump.total_bytes()
        )
    }
}
