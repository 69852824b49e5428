//! Modules as Python sees them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, PoisonError};

use hlorun::analysis::cost::{Key, Properties};
use hlorun::module::config::AliasKind;
use hlorun::module::{HloModule, InstructionId};
use hlorun::text::printer::{PrintOptions, print_module, prints_alike};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyTuple, PyWeakrefMethods, PyWeakrefReference};

use crate::arrow::{PyArrowTable, instruction_table};
use crate::assignment::{PyBufferAssignment, PyLiveRanges};
use crate::computation::PyComputation;
use crate::constants::with_constants;
use crate::error::{Error, Result, detached};
use crate::handle::SharedModule;
use crate::instruction::PyInstruction;
use crate::literal::literal_to_python;
use crate::memory::{PyMemoryStats, assign, place, placed_statistics};
use crate::printing::print_options;

/// A module of HLO text: iterable over its computations, and indexed by the names of computations and
/// instructions.
///
/// `module[name]` is the computation of that name, or else the first instruction, and a `KeyError`
/// where there is neither; `for computation in module` goes through the computations in the order of
/// the text. Modules print as HLO text, compare by it, and pickle.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> module["a"].operands[0].name, module["e"].root.name, "b" in module
///     ('p', 'a', False)
#[pyclass(frozen, weakref, module = "hlorun", name = "HloModule")]
pub struct PyHloModule {
    pub handle: SharedModule,
}

impl PyHloModule {
    pub fn module(&self) -> &HloModule {
        &self.handle.module
    }

    /// The one object of a module that its parts are pickled with: pickle writes an object once.
    pub fn object<'py>(
        py: Python<'py>,
        handle: &SharedModule,
    ) -> PyResult<Bound<'py, PyHloModule>> {
        let mut kept = handle
            .object
            .lock_py_attached(py)
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*kept
            && let Some(module) = known.bind(py).upgrade_as::<PyHloModule>()?
        {
            return Ok(module);
        }
        let handle = handle.clone();
        let module = Bound::new(py, PyHloModule { handle })?;
        *kept = Some(PyWeakrefReference::new(module.as_any())?.unbind());
        Ok(module)
    }

    fn instructions_where(&self, wanted: impl Fn(InstructionId) -> bool) -> Vec<PyInstruction> {
        let module = self.module();
        let ids = module
            .computation_ids()
            .flat_map(|id| &module.computation(id).instructions);
        ids.filter(|&&id| wanted(id))
            .map(|&id| PyInstruction::new(&self.handle, id))
            .collect()
    }
}

#[pymethods]
impl PyHloModule {
    /// The name.
    #[getter]
    fn name(&self) -> std::borrow::Cow<'_, str> {
        self.module().str(self.module().name)
    }

    /// The file it was loaded from; None for modules parsed from memory.
    #[getter]
    fn filename(&self) -> Option<&str> {
        self.module().text().filename()
    }

    /// All computations, in the order of the text.
    #[getter]
    fn computations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(
            py,
            self.module()
                .computation_ids()
                .map(|id| PyComputation::new(&self.handle, id)),
        )
    }

    /// The computation a run begins with.
    #[getter]
    fn entry_computation(&self) -> Option<PyComputation> {
        self.module()
            .entry
            .map(|id| PyComputation::new(&self.handle, id))
    }

    /// All instructions, computation by computation in the order of the text.
    #[getter]
    fn instructions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.instructions_where(|_| true))
    }

    /// The instructions of an opcode, computation by computation in the order of the text.
    ///
    /// Args:
    ///     opcode: XLA's name of it, "dynamic-update-slice". Of one that the module does not have, the
    ///         result is empty.
    ///
    /// Returns:
    ///     The instructions.
    ///
    /// Raises:
    ///     TypeError: `opcode` is no string.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> [instruction.name for instruction in module.find(opcode="add")]
    ///     ['a']
    #[pyo3(signature = (*, opcode))]
    fn find<'py>(&self, py: Python<'py>, opcode: &str) -> PyResult<Bound<'py, PyTuple>> {
        let module = self.module();
        let found = self.instructions_where(|id| module.instruction(id).opcode_name() == opcode);
        PyTuple::new(py, found)
    }

    fn __len__(&self) -> usize {
        self.module().computation_count()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.computations(py)?.try_iter()
    }

    /// The module as an HloModuleProto, which XLA and jaxlib read.
    ///
    /// Raises:
    ///     HloUnsupportedError: The module holds what a proto has no field for.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> hlorun.parse(module.to_proto()) == module
    ///     True
    fn to_proto<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>> {
        let bytes = detached(py, || hlorun::proto::write_module(self.module()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The module as an HloModuleProto in the text form of protos, `.pbtxt`.
    ///
    /// Raises:
    ///     HloUnsupportedError: The module holds what a proto has no field for.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> module.to_pbtxt().splitlines()[0]
    ///     'name: "module_e"'
    ///     >>> hlorun.parse(module.to_pbtxt()) == module
    ///     True
    fn to_pbtxt(&self, py: Python<'_>) -> Result<String> {
        detached(py, || hlorun::proto::write_module_text(self.module()))
    }

    /// The arguments of the run that a snapshot is of, NumPy arrays of the parameters' dtypes and sizes;
    /// None for modules from elsewhere.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyTuple>>> {
        let arguments = self
            .handle
            .proto
            .as_ref()
            .and_then(|p| p.arguments.as_ref());
        let Some(arguments) = arguments else {
            return Ok(None);
        };
        let arrays = arguments
            .iter()
            .map(|literal| literal_to_python(py, literal));
        Ok(Some(PyTuple::new(py, arrays.collect::<Result<Vec<_>>>()?)?))
    }

    /// The result of the run that a snapshot is of, as a call of an executable returns it; None for
    /// modules from elsewhere.
    #[getter]
    fn result<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        let result = self.handle.proto.as_ref().and_then(|p| p.result.as_ref());
        result
            .map(|literal| literal_to_python(py, literal))
            .transpose()
    }

    /// The platform that the run of a snapshot was on; "" where that is not said.
    #[getter]
    fn execution_platform(&self) -> &str {
        self.handle
            .proto
            .as_ref()
            .map_or("", |proto| &proto.platform)
    }

    /// Number of instructions in all computations.
    #[getter]
    fn instruction_count(&self) -> usize {
        self.module().instruction_count()
    }

    /// Whether the order of the text is a schedule.
    #[getter]
    fn is_scheduled(&self) -> bool {
        self.module().config.is_scheduled
    }

    /// The header's replica_count; 1 when absent.
    #[getter]
    fn replica_count(&self) -> i64 {
        self.module().config.replica_count.unwrap_or(1)
    }

    /// The header's num_partitions; 1 when absent.
    #[getter]
    fn num_partitions(&self) -> i64 {
        self.module().config.num_partitions.unwrap_or(1)
    }

    /// Outputs that may or must lie in a parameter's memory,
    /// an `Alias` for each.
    #[getter]
    fn input_output_alias<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let entries = self
            .module()
            .config
            .input_output_alias
            .iter()
            .map(|entry| {
                let output = PyTuple::new(py, entry.output.0.iter().copied())?;
                let index = PyTuple::new(py, entry.parameter_index.0.iter().copied())?;
                let kind = match entry.kind {
                    AliasKind::MayAlias => "may-alias",
                    AliasKind::MustAlias => "must-alias",
                };
                record(py, "Alias", (output, entry.parameter, index, kind))
            })
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, entries)
    }

    /// Parameters that are given away with no output for them: a `Donor` for each.
    #[getter]
    fn buffer_donor<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let donors = self.module().config.buffer_donor.iter();
        let entries = donors
            .map(|donor| {
                let index = PyTuple::new(py, donor.parameter_index.0.iter().copied())?;
                record(py, "Donor", (donor.parameter, index))
            })
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, entries)
    }

    /// The header's attributes as written.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for &(key, value) in &self.module().config.attributes {
            dict.set_item(self.module().str(key), self.module().str(value))?;
        }
        Ok(dict)
    }

    /// The computation called `name`, or else the first instruction called so.
    ///
    /// Args:
    ///     name: With or without "%".
    ///
    /// Raises:
    ///     KeyError: Nothing is called so; the message has a name that is close to it.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> module["a"].opcode
    ///     'add'
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let name = name.strip_prefix('%').unwrap_or(name);
        if let Some(id) = self.handle.computation(name) {
            return Ok(Bound::new(py, PyComputation::new(&self.handle, id))?.into_any());
        }
        match self.handle.instruction(name) {
            Some(id) => Ok(Bound::new(py, PyInstruction::new(&self.handle, id))?.into_any()),
            None => Err(unknown_name(&self.handle.module, name)),
        }
    }

    fn __contains__(&self, name: &str) -> bool {
        let name = name.strip_prefix('%').unwrap_or(name);
        self.handle.computation(name).is_some() || self.handle.instruction(name).is_some()
    }

    /// The module as text.
    ///
    /// Args:
    ///     preset: XLA's "default", "short_parsable", "canonical", "fingerprint" or
    ///         "module_fingerprint".
    ///     **options: By the names of XLA's HloPrintOptions: `print_metadata=False`. As in XLA, except
    ///         that print_large_constants is True, so that no value is lost.
    ///
    /// Returns:
    ///     HLO text.
    ///
    /// Raises:
    ///     ValueError: There is no such preset.
    ///     TypeError: There is no such option.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> print(module.to_string("short_parsable").strip())
    ///     HloModule module_e, entry_computation_layout={(f32[2]{0})->f32[2]{0}}
    ///     <BLANKLINE>
    ///     ENTRY e {
    ///       p = f32[2]{0} parameter(0)
    ///       ROOT a = f32[2]{0} add(p, p)
    ///     }
    #[pyo3(signature = (preset="default", **options))]
    fn to_string(
        &self,
        py: Python<'_>,
        preset: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Result<String> {
        let options = print_options(preset, options)?;
        detached(py, || Ok(print_module(self.module(), &options)))
    }

    fn __str__(&self, py: Python<'_>) -> Result<String> {
        self.to_string(py, "default", None)
    }

    /// The module with values for constants, as those that the text leaves out (`constant({...})`).
    ///
    /// Args:
    ///     constants: Arrays by the names of constants, of their dtypes and sizes.
    ///
    /// Returns:
    ///     A copy of the module in which these constants have these values.
    ///
    /// Raises:
    ///     HloArgumentError: There is no array constant of a name, or an array does not fit its constant.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { ROOT c = f32[3] constant({...}) }")
    ///     >>> whole = module.with_constants({"c": np.array([1, 2, 3], np.float32)})
    ///     >>> hlorun.compile(whole)()
    ///     array([1., 2., 3.], dtype=float32)
    fn with_constants(&self, constants: &Bound<'_, PyDict>) -> Result<PyHloModule> {
        let handle = with_constants(&self.handle, constants)?;
        Ok(PyHloModule { handle })
    }

    /// Hexadecimal digits that are equal for modules that compute the same in the same way, whatever
    /// their names and metadata.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> renamed = hlorun.parse("ENTRY f { q = f32[2] parameter(0) ROOT b = f32[2] add(q, q) }")
    ///     >>> renamed.fingerprint() == module.fingerprint()
    ///     True
    fn fingerprint(&self, py: Python<'_>) -> Result<String> {
        detached(py, || Ok(self.module().fingerprint()))
    }

    /// What the text holds that hlorun does not know: a `ModuleWarning` for each.
    #[getter]
    fn warnings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let module = self.module();
        let warnings = module.warnings.iter().map(|warning| {
            let parts = (warning.message.as_str(), module.str(warning.text));
            record(py, "ModuleWarning", parts)
        });
        PyTuple::new(py, warnings.collect::<PyResult<Vec<_>>>()?)
    }

    /// Checks the module by the rules of HLO.
    ///
    /// Raises:
    ///     HloVerifyError: It breaks some; all of them are in `.errors`, with line and column.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[3] add(p, p) }")
    ///     >>> try:
    ///     ...     module.verify()
    ///     ... except hlorun.HloVerifyError as error:
    ///     ...     print(error.errors[0].instruction)
    ///     a
    fn verify(&self, py: Python<'_>) -> Result<()> {
        detached(py, || self.handle.verified().map(drop))
    }

    /// What a run costs by XLA's HloCostAnalysis, under its keys.
    ///
    /// Returns:
    ///     "flops", "transcendentals", "bytes accessed", and bytes and utilization by operand. Loops
    ///     count as one trip.
    ///
    /// Raises:
    ///     HloVerifyError: The module breaks rules of HLO.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> module.cost_analysis()["flops"]
    ///     2.0
    fn cost_analysis<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let costs = detached(py, || self.handle.costs())?;
        Ok(cost_dict(py, &costs.total)?)
    }

    /// One row per instruction, through the Arrow PyCapsule interface: pyarrow, polars, DuckDB and
    /// others read it.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> module.to_arrow().num_rows
    ///     2
    fn to_arrow(&self, py: Python<'_>) -> PyArrowTable {
        py.detach(|| instruction_table(&self.handle))
    }

    /// The memory XLA's rules give the module's values, in the order of the text.
    ///
    /// Raises:
    ///     HloVerifyError: The module breaks rules of HLO.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> module.buffer_assignment().total_bytes
    ///     16
    fn buffer_assignment(&self, py: Python<'_>) -> Result<PyBufferAssignment> {
        let dump = detached(py, || assign(self.module()))?;
        Ok(PyBufferAssignment::of(dump))
    }

    /// Schedule, live ranges and peak of the module in the order of the text.
    ///
    /// Raises:
    ///     HloVerifyError: The module breaks rules of HLO.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> module.live_ranges().instruction_sequence
    ///     [(0, 'p'), (1, 'a')]
    fn live_ranges(&self, py: Python<'_>) -> Result<Option<PyLiveRanges>> {
        Ok(self.buffer_assignment(py)?.live_range())
    }

    /// Bytes the module needs by its buffer assignment, under JAX's names.
    ///
    /// Raises:
    ///     HloVerifyError: The module breaks rules of HLO.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> module.memory_analysis().argument_size_in_bytes
    ///     8
    fn memory_analysis(&self, py: Python<'_>) -> Result<PyMemoryStats> {
        detached(py, || Ok(placed_statistics(&place(self.module())?)))
    }

    /// The text it was parsed from; of a module from a proto, the text hlorun made of it.
    #[getter]
    fn source<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.module().text().source())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let restore = py.import("hlorun._hlorun")?.getattr("_restore")?;
        // The text of a proto does not have the values of large constants.
        let source = match self.handle.proto_bytes().map_err(Error::Hlo)? {
            Some(bytes) => PyBytes::new(py, bytes),
            None => self.source(py),
        };
        let arguments = (source, self.filename(), self.handle.number).into_pyobject(py)?;
        (restore, arguments).into_pyobject(py)
    }

    /// Equal modules print the same text, metadata and values of constants included; numbers of stack frames
    /// may differ.
    fn __eq__(&self, py: Python<'_>, other: &PyHloModule) -> Result<bool> {
        let (ours, theirs) = (self.module(), other.module());
        if Arc::ptr_eq(&self.handle, &other.handle) {
            return Ok(true);
        }
        if ours.instruction_count() != theirs.instruction_count() || self.name() != other.name() {
            return Ok(false);
        }
        let options = PrintOptions::default();
        detached(py, || Ok(prints_alike(ours, theirs, &options)))
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.name(), self.module().instruction_count()).hash(&mut hasher);
        hasher.finish()
    }

    /// What the module is, as a table for notebooks.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        html(slf.py(), "module_html", slf.as_any())
    }

    fn _ipython_key_completions_(&self) -> Vec<std::borrow::Cow<'_, str>> {
        let module = self.module();
        let computations = module.computation_ids().map(|id| module.computation(id));
        let names = computations.flat_map(|computation| {
            let instructions = computation.instructions.iter();
            let instructions = instructions.map(|&id| module.instruction_data(id).name);
            std::iter::once(computation.name).chain(instructions)
        });
        names.map(|name| module.str(name)).collect()
    }

    fn __repr__(&self) -> String {
        format!(
            "<HloModule {}, {} computations, {} instructions>",
            self.name(),
            self.module().computation_count(),
            self.module().instruction_count()
        )
    }
}

/// Properties by XLA's keys; the three main ones also where they are 0.
pub fn cost_dict<'py>(py: Python<'py>, costs: &Properties) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for key in [Key::Flops, Key::Transcendentals, Key::BytesAccessed] {
        dict.set_item(key.to_string(), costs.get(&key))?;
    }
    for (key, value) in costs.iter() {
        dict.set_item(key.to_string(), value)?;
    }
    Ok(dict)
}

/// What unpickling a computation calls.
#[pyfunction]
pub fn _computation(module: &Bound<'_, PyHloModule>, place: usize) -> PyResult<PyComputation> {
    let handle = &module.get().handle;
    let id = handle.module.computation_ids().nth(place);
    let id = id.ok_or_else(|| PyKeyError::new_err("the pickled module has fewer computations"))?;
    Ok(PyComputation::new(handle, id))
}

/// A record of hlorun's with these parts.
pub(crate) fn record<'py>(
    py: Python<'py>,
    name: &str,
    parts: impl pyo3::call::PyCallArgs<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    py.import("hlorun._records")?.getattr(name)?.call1(parts)
}

/// HTML for a notebook, as Python makes it.
pub(crate) fn html<'py>(
    py: Python<'py>,
    function: &str,
    of: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    py.import("hlorun.report.html")?
        .call_method1(function, (of,))
}

/// Names the BLAS library that the first matrix product loads.
#[pyfunction]
pub fn _set_blas_path(path: &str) {
    hlorun_kernels::set_blas_path(path);
}

/// The error of a name that no computation and no instruction of `module` has.
pub fn unknown_name(module: &hlorun::module::HloModule, name: &str) -> PyErr {
    let hint = match hlorun::text::closest_name(module, name) {
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    };
    PyKeyError::new_err(format!(
        "module {} has no computation or instruction called {name}{hint}",
        module.str(module.name)
    ))
}
