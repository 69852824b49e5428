//! Compiling and running.
//!
//! Comes in: a module, then arrays. Goes out: an executable, then NumPy arrays over memory that
//! the run wrote directly. Promise: the interpreter lock is free during both, and Ctrl-C ends a long
//! run.

use std::sync::{Arc, OnceLock};

use hlorun::HloError;
use hlorun::analysis::buffer_assignment::BufferAssignmentDump;
use hlorun::buffers::AlignedBytes;
use hlorun::exec::executor::{RunOptions, Step};
use hlorun::exec::replicas::DeviceArrays;
use hlorun::plan::assign::AllocationKind;
use hlorun::plan::replica_groups::MAX_DEVICES;
use hlorun::plan::{self, CompileOptions, Executable};
use hlorun::replay::Replay;
use hlorun::types::ArrayShape;
use numpy::PyUntypedArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice, PyTuple};

use crate::array::{ParameterName, array_over, data_pointer};
use crate::assignment::PyBufferAssignment;
use crate::callbacks::{Callbacks, Profile, destinations};
use crate::constants::with_constants;
use crate::error::{Error, Result, detached};
use crate::handle::SharedModule;
use crate::memory::plan_dump;
use crate::module::PyHloModule;
use crate::replicas::{self, PyNetwork};
use crate::values::{flatten, unflatten};

/// Bytes above which a run is long enough to be watched for Ctrl-C.
const WATCHED_BYTES: usize = 1 << 22;

/// How to run.
#[derive(Clone, Copy, Default)]
struct How<'a, 'py> {
    /// Called with every value.
    observer: Option<&'a Bound<'py, PyAny>>,
    /// Where results go.
    out: Option<&'a Bound<'py, PyAny>>,
    /// Where times go.
    profile: Option<&'a Profile>,
}

/// A compiled module.
#[pyclass(frozen, module = "hlorun", name = "Executable")]
pub struct PyExecutable {
    executable: Arc<Executable>,
    /// The module with the values of elided constants.
    source: SharedModule,
    /// The same program with every value shown; made for the first observer.
    observed: OnceLock<Arc<Executable>>,
    module: SharedModule,
    /// The assignment it runs inside, where one was given.
    inside: Option<(Replay, Arc<BufferAssignmentDump>)>,
    pub(crate) is_watched: bool,
}

/// Verifies and compiles a module.
// Python's keywords are arguments here.
#[allow(clippy::too_many_arguments)]
#[pyfunction]
#[pyo3(signature = (module, *, replicas=1, partitions=1, threads=None, constants=None, disable=Vec::new(), buffer_assignment=None))]
pub fn compile(
    py: Python<'_>,
    module: &Bound<'_, PyHloModule>,
    replicas: i64,
    partitions: i64,
    threads: Option<i64>,
    constants: Option<&Bound<'_, PyDict>>,
    disable: Vec<String>,
    buffer_assignment: Option<&Bound<'_, PyBufferAssignment>>,
) -> Result<PyExecutable> {
    let counts = [replicas, partitions].map(|count| u32::try_from(count).unwrap_or(0));
    let [replicas, partitions] = counts;
    let threads = threads.map(|count| usize::try_from(count).unwrap_or(0));
    let devices = replicas.saturating_mul(partitions);
    if threads == Some(0) || devices == 0 || devices > MAX_DEVICES {
        let message = format!(
            "replicas, partitions and threads must be at least 1, and replicas times partitions at \
             most {MAX_DEVICES}"
        );
        return Err(Error::Python(PyValueError::new_err(message)));
    }
    if buffer_assignment.is_some() && devices != 1 {
        let message = "a buffer assignment is for one device: no replicas or partitions with it";
        return Err(Error::Python(PyValueError::new_err(message)));
    }
    let inside = buffer_assignment.map(|given| given.get().dump.clone());
    let handle = module.get().handle.clone();
    let options = CompileOptions {
        threads: threads.unwrap_or(0),
        replicas,
        partitions,
        disable,
        evaluate: Some(hlorun::exec::evaluate::evaluate),
        ..CompileOptions::default()
    };
    let source = match constants {
        Some(constants) => with_constants(&handle, constants)?,
        None => handle.clone(),
    };
    let (executable, inside) = detached(py, || {
        hlorun::verify::verify(&source.module)?;
        let executable = plan::compile(&source.module, &options)?;
        let inside = match inside {
            Some(dump) => {
                let replay = Replay::new(&source.module, &dump, &executable, &options)?;
                Some((replay, dump))
            }
            None => None,
        };
        Ok((executable, inside))
    })?;
    let touched: usize = executable.temp_size()
        + executable
            .inputs()
            .iter()
            .map(|leaf| leaf.byte_size())
            .sum::<usize>();
    Ok(PyExecutable {
        executable: Arc::new(executable),
        source,
        observed: OnceLock::new(),
        module: handle,
        inside,
        is_watched: touched >= WATCHED_BYTES,
    })
}

impl PyExecutable {
    /// Callbacks of a run of [`PyExecutable::core`].
    pub(crate) fn callbacks(&self) -> Callbacks<'_> {
        Callbacks::new(&self.executable, &self.module)
    }

    /// What runs.
    pub(crate) fn core(&self) -> &Executable {
        &self.executable
    }

    fn run_values<'py>(
        &self,
        py: Python<'py>,
        values: &[Bound<'py, PyAny>],
        how: How<'_, 'py>,
    ) -> Result<Bound<'py, PyAny>> {
        let executable = match how.observer {
            Some(_) => self.observed(py)?,
            None => self.core(),
        };
        if self.inside.is_some() && (how.observer.is_some() || how.profile.is_some()) {
            let message = "an executable inside a buffer assignment shows and times no values";
            return Err(Error::Hlo(HloError::argument(message)));
        }
        let arrays = self.arguments(values)?;
        let given = match how.out {
            Some(out) => Some((out, destinations(executable, out, &arrays)?)),
            None => None,
        };
        let mut blocks = match given {
            Some(_) => Vec::new(),
            None => self.blocks()?,
        };
        let outputs = match &given {
            Some((_, arrays)) => arrays.iter().map(data_pointer).collect(),
            None => blocks.iter_mut().map(AlignedBytes::as_mut_ptr).collect(),
        };
        let addresses = [DeviceArrays {
            inputs: arrays
                .iter()
                .map(|a| data_pointer(a).cast_const())
                .collect(),
            outputs,
        }];
        let callbacks = Callbacks::new(executable, &self.module);
        let observer = how.observer.map(|function| function.clone().unbind());
        self.run_detached(py, &callbacks, &|options| {
            let observe = |id, leaves: &[_]| match &observer {
                Some(function) => callbacks.observe(function, id, leaves),
                None => Ok(()),
            };
            let profile = |step: &Step<'_>| how.profile.into_iter().for_each(|p| p.record(step));
            let options = RunOptions {
                observer: observer.as_ref().map(|_| &observe as _),
                profile: how.profile.map(|_| &profile as _),
                ..*options
            };
            // SAFETY: `arguments` made every input dense, row-major and of its leaf's type and sizes;
            // every output is a block of its own with its leaf's size, or an array that
            // `destinations` found to be as good; all outlive the call.
            unsafe {
                let DeviceArrays { inputs, outputs } = &addresses[0];
                match &self.inside {
                    Some((replay, _)) => replay.run(inputs, outputs, &options),
                    None => executable.run(inputs, outputs, &options),
                }
            }
        })?;
        drop(arrays);
        match given {
            Some((out, _)) => Ok(out.clone()),
            None => self.results(py, blocks),
        }
    }

    /// The executable that shows every value.
    fn observed(&self, py: Python<'_>) -> Result<&Executable> {
        if let Some(executable) = self.observed.get() {
            return Ok(executable);
        }
        let options = CompileOptions {
            observe: true,
            ..self.executable.options().clone()
        };
        let made = detached(py, || plan::compile(&self.source.module, &options))?;
        Ok(self.observed.get_or_init(|| Arc::new(made)))
    }

    /// The arrays of one value per parameter: dense, row-major, of the leaves' types and sizes.
    pub(crate) fn arguments<'py>(
        &self,
        values: &[Bound<'py, PyAny>],
    ) -> Result<Vec<Bound<'py, PyUntypedArray>>> {
        let parameters = self.executable.parameters();
        if values.len() != parameters.len() {
            return Err(self.wrong_count(values.len()));
        }
        let mut arrays = Vec::with_capacity(self.executable.inputs().len());
        for (number, value) in values.iter().enumerate() {
            self.argument(number, value, &mut arrays)?;
        }
        Ok(arrays)
    }

    /// Appends the arrays of parameter `number`'s value.
    pub(crate) fn argument<'py>(
        &self,
        number: usize,
        value: &Bound<'py, PyAny>,
        arrays: &mut Vec<Bound<'py, PyUntypedArray>>,
    ) -> Result<()> {
        let parameter = &self.executable.parameters()[number];
        let name = ParameterName {
            number: Some(number),
            name: &parameter.name,
        };
        flatten(
            self.executable.module(),
            parameter.shape,
            value,
            &name,
            arrays,
        )
    }

    /// Memory for one device's results.
    pub(crate) fn blocks(&self) -> Result<Vec<AlignedBytes>> {
        Ok(self
            .executable
            .outputs()
            .iter()
            .map(|leaf| AlignedBytes::uninitialized(leaf.byte_size()))
            .collect::<hlorun::Result<Vec<_>>>()?)
    }

    /// The value whose arrays were written to `blocks`.
    pub(crate) fn results<'py>(
        &self,
        py: Python<'py>,
        blocks: Vec<AlignedBytes>,
    ) -> Result<Bound<'py, PyAny>> {
        let mut outputs = Vec::with_capacity(blocks.len());
        for (leaf, block) in blocks.into_iter().enumerate() {
            outputs.push(self.result_array(py, leaf, block)?);
        }
        self.result(py, outputs)
    }

    /// The array of leaf `leaf` of the result, which was written to `block`.
    pub(crate) fn result_array<'py>(
        &self,
        py: Python<'py>,
        leaf: usize,
        mut block: AlignedBytes,
    ) -> Result<Bound<'py, PyAny>> {
        let leaf = &self.core().outputs()[leaf];
        let shape = ArrayShape::new(leaf.element_type, &leaf.dims);
        let data = block.as_mut_ptr();
        // SAFETY: the block has the leaf's bytes at a 64-byte boundary; moving its owner does not
        // move it, and the run that wrote it is over.
        unsafe { array_over(py, &shape, data, block) }
    }

    /// The value of these arrays.
    pub(crate) fn result<'py>(
        &self,
        py: Python<'py>,
        mut arrays: Vec<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let executable = self.core();
        // The sizes of dynamic dimensions follow the result.
        let sizes = executable.dynamic_sizes();
        let first = arrays.len().saturating_sub(sizes.len());
        for (k, size) in sizes.iter().enumerate() {
            let limit: isize = arrays[first + k].call_method0("item")?.extract()?;
            let mut parts: Vec<Bound<'_, PyAny>> = Vec::new();
            for d in 0..=size.dim {
                let limit = if d == size.dim { limit } else { isize::MAX };
                parts.push(PySlice::new(py, 0, limit.max(0), 1).into_any());
            }
            arrays[size.leaf] = arrays[size.leaf].get_item(PyTuple::new(py, parts)?)?;
        }
        unflatten(
            py,
            executable.module(),
            executable.result_shape_id(),
            arrays,
        )
    }

    pub(crate) fn wrong_count(&self, got: usize) -> Error {
        let parameters = self.executable.parameters();
        let shapes = self.executable.module().shapes();
        let style = hlorun::types::ShapeStyle::LOGICAL;
        let mut list: Vec<String> = parameters
            .iter()
            .take(8)
            .map(|p| format!("{} {}", p.name, shapes.display(p.shape, style)))
            .collect();
        if parameters.len() > 8 {
            list.push("…".into());
        }
        Error::Hlo(HloError::argument(format!(
            "expects {} argument{} ({}), got {got}",
            parameters.len(),
            if parameters.len() == 1 { "" } else { "s" },
            list.join(", ")
        )))
    }
}

#[pymethods]
impl PyExecutable {
    /// Runs on one value per parameter; returns one array, or nested tuples when the root is a tuple.
    ///
    /// An observer is called as `observer(instruction, value)` with every value the run computes, also
    /// inside fusions, and in every trip of a loop; nothing is fused then. With `out`, a value of the
    /// result's shape, results are written into its arrays.
    #[pyo3(signature = (*arrays, observer=None, out=None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        arrays: &Bound<'py, PyTuple>,
        observer: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let values: Vec<Bound<'py, PyAny>> = arrays.iter().collect();
        let how = How {
            observer,
            out,
            ..How::default()
        };
        self.run_values(py, &values, how)
    }

    /// Runs once and returns the outputs with the time of every step: a list of (instruction, kind,
    /// device, start, duration), in seconds. Steps inside loops and branches are part of their loop's
    /// or branch's step.
    #[pyo3(signature = (*arrays))]
    fn profile<'py>(
        &self,
        py: Python<'py>,
        arrays: &Bound<'py, PyTuple>,
    ) -> Result<(Bound<'py, PyAny>, Bound<'py, PyList>)> {
        let values: Vec<Bound<'py, PyAny>> = arrays.iter().collect();
        let profile = Profile::new();
        let how = How {
            profile: Some(&profile),
            ..How::default()
        };
        let outputs = self.run_values(py, &values, how)?;
        Ok((outputs, profile.into_list(py, &self.callbacks())?))
    }

    /// Runs on values by the names of their parameters; options as in a call.
    #[pyo3(signature = (arrays, *, observer=None, out=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        arrays: &Bound<'py, PyDict>,
        observer: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let parameters = self.executable.parameters();
        let mut values = Vec::with_capacity(parameters.len());
        let mut missing = Vec::new();
        for parameter in parameters {
            match arrays.get_item(&parameter.name)? {
                Some(value) => values.push(value),
                None => missing.push(parameter.name.as_str()),
            }
        }
        if !missing.is_empty() {
            let message = format!("no argument for {}", missing.join(", "));
            return Err(Error::Hlo(HloError::argument(message)));
        }
        if arrays.len() != parameters.len() {
            for key in arrays.keys() {
                let key = key.str()?.to_string();
                if !parameters.iter().any(|parameter| parameter.name == key) {
                    let names: Vec<&str> =
                        parameters.iter().take(8).map(|p| p.name.as_str()).collect();
                    let names = names.join(", ");
                    let message = format!("no parameter is called {key}; there are {names}");
                    return Err(Error::Hlo(HloError::argument(message)));
                }
            }
        }
        let how = How {
            observer,
            out,
            ..How::default()
        };
        self.run_values(py, &values, how)
    }

    /// Runs all replicas together, each on its list of values; returns their results. With
    /// partitions there is one list for each partition of each replica, replica by replica.
    fn run_replicas<'py>(
        &self,
        py: Python<'py>,
        arrays: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyList>> {
        if self.inside.is_some() {
            let message = "an executable inside a buffer assignment runs one device: call it";
            return Err(Error::Hlo(HloError::argument(message)));
        }
        replicas::run(self, py, arrays, None)
    }

    /// The same over the processes of `network`: lists and results are of this process's devices.
    fn _run_devices<'py>(
        &self,
        py: Python<'py>,
        arrays: &Bound<'py, PyAny>,
        network: &Bound<'py, PyNetwork>,
    ) -> Result<Bound<'py, PyList>> {
        replicas::run(self, py, arrays, Some(network))
    }

    /// Replicas that run together.
    #[getter]
    fn replicas(&self) -> u32 {
        self.executable.devices().replicas
    }

    /// Partitions of each replica.
    #[getter]
    fn partitions(&self) -> u32 {
        self.executable.devices().partitions
    }

    /// The module it was compiled from.
    #[getter]
    fn module(&self) -> PyHloModule {
        PyHloModule {
            handle: self.module.clone(),
        }
    }

    /// Bytes one run needs: arguments, outputs, constants and temporaries.
    #[getter]
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let constants: usize = self
            .executable
            .assignment()
            .allocations
            .iter()
            .filter(|allocation| matches!(allocation.kind, AllocationKind::Constant(_)))
            .map(|allocation| allocation.size)
            .sum();
        let sum = |leaves: &[plan::Leaf]| leaves.iter().map(plan::Leaf::byte_size).sum::<usize>();
        let dict = PyDict::new(py);
        dict.set_item("argument_bytes", sum(self.executable.inputs()))?;
        dict.set_item("output_bytes", sum(self.executable.outputs()))?;
        dict.set_item("constant_bytes", constants)?;
        dict.set_item("temp_bytes", self.executable.temp_size())?;
        Ok(dict)
    }

    /// The assignment it runs inside; of an executable compiled without one, hlorun's own plan in
    /// the form of XLA's dump.
    fn buffer_assignment(&self, py: Python<'_>) -> Result<PyBufferAssignment> {
        let dump = match &self.inside {
            Some((_, dump)) => dump.clone(),
            None => Arc::new(detached(py, || plan_dump(&self.executable))?),
        };
        Ok(PyBufferAssignment { dump })
    }

    /// Names of the passes that `compile(..., disable=[...])` can switch off.
    #[classattr]
    fn passes() -> Vec<&'static str> {
        plan::PASSES.to_vec()
    }

    /// What the plan is, and its bytes, as text.
    fn explain(&self) -> String {
        crate::explain::explain(&self.executable)
    }

    fn __repr__(&self) -> String {
        let module = &self.module.module;
        format!(
            "<Executable of {}, {} parameters, {} outputs>",
            module.str(module.name),
            self.executable.parameters().len(),
            self.executable.outputs().len()
        )
    }
}
