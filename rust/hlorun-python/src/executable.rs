//! Compiling and running.
//!
//! Comes in: a module, then arrays. Goes out: an executable, then NumPy arrays over memory that
//! the run wrote directly. Promise: the interpreter lock is free during both, and Ctrl-C ends a long
//! run.

mod arrays;
pub mod compiling;
mod work;

use std::sync::{Arc, OnceLock};

use hlorun::HloError;
use hlorun::analysis::buffer_assignment::BufferAssignmentDump;
use hlorun::buffers::AlignedBytes;
use hlorun::exec::{ArrayRef, DeviceArrays, RunOptions, Step};
use hlorun::plan::memory::assign::AllocationKind;
use hlorun::plan::{self, CompileOptions, Executable};
use hlorun::replay::Replay;
use hlorun::types::ArrayShape;
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice, PyTuple};

use crate::array::{ParameterName, array_over, data_pointer};
use crate::assignment::PyBufferAssignment;
use crate::callbacks::{Callbacks, Profile, destinations, has_function};
use crate::error::{Error, Result, detached};
use crate::handle::SharedModule;
use crate::memory::plan_dump;
use crate::module::PyHloModule;
use crate::passes::PyPassRecord;
use crate::replicas::{self, PyNetwork};
use crate::values::{flatten, unflatten};
use crate::watch::{TimeLimit, run_detached};

/// How to run.
#[derive(Clone, Copy, Default)]
struct How<'a, 'py> {
    /// Called with every value.
    observer: Option<&'a Bound<'py, PyAny>>,
    /// Where results go.
    out: Option<&'a Bound<'py, PyAny>>,
    /// Where times go.
    profile: Option<&'a Profile>,
    /// When it has to end.
    limit: TimeLimit,
}

/// A compiled module, which any number of threads may run at once.
///
/// `executable(*arrays, observer=None, out=None, timeout=None)` runs it on one value per parameter
/// of the entry computation, of the parameter's dtype and sizes: anything with `__array__`, the
/// buffer protocol or DLPack; nested tuples for tuples. Nothing is cast, and C-contiguous arrays are
/// not copied. It returns one NumPy array of the result's dtype and sizes, or nested tuples of
/// arrays where the root is a tuple.
///
/// An `observer` is called as `observer(instruction, value)` with every value the run computes, also
/// inside fusions, and in every trip of a loop; nothing is fused then. With `out`, a value of the
/// result's shape, results are written into its arrays. `timeout` is in seconds.
///
/// It can be pickled: the pickle holds the module and the options, and unpickling compiles them again.
/// One compiled inside a buffer assignment, or with callbacks of JAX, raises `TypeError`.
///
/// A call raises `HloArgumentError` where a value does not fit its parameter, `HloTimeoutError`
/// where the time is over, `HloUnsupportedError` where the run reaches a custom call that nobody can
/// run, `HloExecutionError` where memory ran out, and what an observer or a custom call's function
/// raises.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> executable = hlorun.compile(module)
///     >>> executable(np.ones(2, np.float32))
///     array([2., 2.], dtype=float32)
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
}

impl PyExecutable {
    /// Callbacks of a run of `executable`, which is [`PyExecutable::core`] or
    /// [`PyExecutable::observed`].
    pub(crate) fn callbacks<'a>(&'a self, executable: &'a Executable) -> Callbacks<'a> {
        Callbacks::new(executable, &self.module)
    }

    /// What runs.
    pub(crate) fn core(&self) -> &Executable {
        &self.executable
    }

    /// The module it was compiled from.
    pub(crate) fn shared_module(&self) -> &SharedModule {
        &self.module
    }

    /// Refuses to run several devices on the arguments of one.
    fn require_one_device(&self) -> Result<()> {
        let devices = self.core().devices();
        if devices.count() == 1 {
            return Ok(());
        }
        Err(Error::Hlo(HloError::argument(format!(
            "compiled for {devices}, which run together: run_replicas([[…], …]) takes a list of values \
             for each of them; compile(module, replicas=1, partitions=1) makes one that runs alone"
        ))))
    }

    fn run_values<'py>(
        &self,
        py: Python<'py>,
        values: &[Bound<'py, PyAny>],
        how: How<'_, 'py>,
    ) -> Result<Bound<'py, PyAny>> {
        self.require_one_device()?;
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
        let callbacks = self.callbacks(executable);
        let observer = how.observer.map(|function| function.clone().unbind());
        run_detached(py, &callbacks, how.limit, &|options| {
            let observe = |_, id, leaves: &[ArrayRef<'_>]| match &observer {
                Some(function) => callbacks.observe(function, None, id, leaves),
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
    pub(crate) fn observed(&self, py: Python<'_>) -> Result<&Executable> {
        if let Some(executable) = self.observed.get() {
            return Ok(executable);
        }
        let options = CompileOptions {
            observe: true,
            ..self.executable.options().clone()
        };
        let made = detached(py, || plan::compile(self.source.verified()?, &options))?;
        Ok(self.observed.get_or_init(|| Arc::new(made)))
    }
}

#[pymethods]
impl PyExecutable {
    /// Runs on one value per parameter.
    ///
    /// Args:
    ///     *arrays: Values of the parameters' dtypes and sizes; nested tuples for tuples.
    ///     observer: Called as `observer(instruction, value)` with every value the run computes, also
    ///         inside fusions, and in every trip of a loop; nothing is fused then.
    ///     out: Arrays of the result's dtype and sizes, nested tuples for tuples, which the results are
    ///         written into.
    ///     timeout: Seconds after which the run ends.
    ///
    /// Returns:
    ///     One array, or nested tuples of arrays when the root is a tuple.
    ///
    /// Raises:
    ///     HloArgumentError: A value does not fit its parameter.
    ///     HloTimeoutError: The time is over.
    ///     HloUnsupportedError: The run reached a custom call that nobody can run.
    ///     HloExecutionError: The run failed: memory ran out.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> hlorun.compile(module)(np.ones(2, np.float32))
    ///     array([2., 2.], dtype=float32)
    #[pyo3(signature = (*arrays, observer=None, out=None, timeout=None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        arrays: &Bound<'py, PyTuple>,
        observer: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
        timeout: Option<f64>,
    ) -> Result<Bound<'py, PyAny>> {
        let values: Vec<Bound<'py, PyAny>> = arrays.iter().collect();
        let how = How {
            observer,
            out,
            limit: TimeLimit::new(timeout)?,
            ..How::default()
        };
        self.run_values(py, &values, how)
    }

    /// Runs once and takes the time of every step.
    ///
    /// Args:
    ///     *arrays: One value per parameter, of its dtype and sizes, as in a call.
    ///     timeout: Seconds after which the run ends.
    ///
    /// Returns:
    ///     The outputs, and a list of (instruction, kind, device, start, duration), times in seconds. A
    ///     step inside a loop or branch has an entry for each execution; the entry of the loop or branch
    ///     contains their time, too.
    ///
    /// Raises:
    ///     HloArgumentError: A value does not fit its parameter.
    ///     HloTimeoutError: The run took longer than `timeout`.
    ///     HloUnsupportedError: The run reached a custom call that nobody can run.
    ///     HloExecutionError: The run failed: memory ran out.
    ///     ValueError: `timeout` is negative or NaN.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> outputs, steps = hlorun.compile(module).profile(np.ones(2, np.float32))
    ///     >>> [instruction.name for instruction, *_ in steps]
    ///     ['a']
    #[pyo3(signature = (*arrays, timeout=None))]
    fn profile<'py>(
        &self,
        py: Python<'py>,
        arrays: &Bound<'py, PyTuple>,
        timeout: Option<f64>,
    ) -> Result<(Bound<'py, PyAny>, Bound<'py, PyList>)> {
        let values: Vec<Bound<'py, PyAny>> = arrays.iter().collect();
        let profile = Profile::new();
        let how = How {
            profile: Some(&profile),
            limit: TimeLimit::new(timeout)?,
            ..How::default()
        };
        let outputs = self.run_values(py, &values, how)?;
        Ok((
            outputs,
            profile.into_list(py, &self.callbacks(self.core()))?,
        ))
    }

    /// Runs on values by the names of their parameters.
    ///
    /// Args:
    ///     arrays: A value for the name of every parameter, of its dtype and sizes.
    ///     observer: As in a call.
    ///     out: As in a call.
    ///     timeout: Seconds after which the run ends.
    ///
    /// Returns:
    ///     As a call does.
    ///
    /// Raises:
    ///     HloArgumentError: A parameter has no value, or a value no parameter, or one does not fit.
    ///     HloTimeoutError: The time is over.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> hlorun.compile(module).run({"p": np.ones(2, np.float32)})
    ///     array([2., 2.], dtype=float32)
    #[pyo3(signature = (arrays, *, observer=None, out=None, timeout=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        arrays: &Bound<'py, PyDict>,
        observer: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
        timeout: Option<f64>,
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
            limit: TimeLimit::new(timeout)?,
            ..How::default()
        };
        self.run_values(py, &values, how)
    }

    /// Runs all devices together; collectives run between them.
    ///
    /// Args:
    ///     arrays: One list of values per device: a replica, or with partitions each partition of each
    ///         replica, replica by replica. Values are as in a call, of the parameters' dtypes and sizes.
    ///     observer: Called as `observer(instruction, value, device)`, from one device at a time but in
    ///         no order between devices, which count as the lists do. A value that is the same on all
    ///         devices is computed and shown once, as the first device's.
    ///     timeout: Seconds after which the run ends.
    ///
    /// Returns:
    ///     One result per device, as a call returns it. A result that is the same on all devices because
    ///     of how it is computed is one read-only array.
    ///
    /// Raises:
    ///     HloArgumentError: There are not as many lists as devices, or a value does not fit.
    ///     HloTimeoutError: The time is over.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> executable = hlorun.compile(module, replicas=2)
    ///     >>> executable.run_replicas([[np.ones(2, np.float32)], [np.zeros(2, np.float32)]])[1]
    ///     array([0., 0.], dtype=float32)
    #[pyo3(signature = (arrays, *, observer=None, timeout=None))]
    fn run_replicas<'py>(
        &self,
        py: Python<'py>,
        arrays: &Bound<'py, PyAny>,
        observer: Option<&Bound<'py, PyAny>>,
        timeout: Option<f64>,
    ) -> Result<Bound<'py, PyList>> {
        if self.inside.is_some() {
            let message = "an executable inside a buffer assignment runs one device: call it";
            return Err(Error::Hlo(HloError::argument(message)));
        }
        replicas::run(self, py, arrays, None, observer, TimeLimit::new(timeout)?)
    }

    /// The same over the processes of `network`: lists and results are of this process's devices.
    #[pyo3(signature = (arrays, network, *, timeout=None))]
    fn _run_devices<'py>(
        &self,
        py: Python<'py>,
        arrays: &Bound<'py, PyAny>,
        network: &Bound<'py, PyNetwork>,
        timeout: Option<f64>,
    ) -> Result<Bound<'py, PyList>> {
        replicas::run(
            self,
            py,
            arrays,
            Some(network),
            None,
            TimeLimit::new(timeout)?,
        )
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

    /// Bytes one run needs: "argument_bytes", "output_bytes", "constant_bytes" and "temp_bytes".
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

    /// The assignment it runs inside; of an executable compiled without one, hlorun's own plan in the
    /// form of XLA's dump.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> hlorun.compile(module).buffer_assignment().total_bytes
    ///     16
    fn buffer_assignment(&self, py: Python<'_>) -> Result<PyBufferAssignment> {
        let dump = match &self.inside {
            Some((_, dump)) => dump.clone(),
            None => Arc::new(detached(py, || plan_dump(&self.executable))?),
        };
        Ok(PyBufferAssignment::of(dump))
    }

    /// Names of the passes that `compile(..., disable=[...])` can switch off.
    #[classattr]
    fn optional_passes() -> Vec<&'static str> {
        plan::PASSES.to_vec()
    }

    /// The custom calls that nobody can run.
    ///
    /// hlorun does not know their targets, and no function is registered for them. A run that reaches
    /// one ends with an error.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> hlorun.compile(module).unknown_custom_calls()
    ///     ()
    fn unknown_custom_calls<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let callbacks = self.callbacks(self.core());
        let mut calls = crate::explain::foreign_calls(self.core());
        calls.retain(|(_, target)| !has_function(target));
        let mut ids: Vec<_> = calls
            .iter()
            .map(|(id, _)| self.core().original(*id))
            .collect();
        // A computation that is called twice is planned twice.
        ids.sort_unstable();
        ids.dedup();
        PyTuple::new(py, ids.into_iter().map(|id| callbacks.instruction(id)))
    }

    /// What each pass did, in the order in which they ran.
    #[getter]
    fn passes(&self) -> Vec<PyPassRecord> {
        self.executable
            .passes()
            .iter()
            .map(PyPassRecord::of)
            .collect()
    }

    /// What the plan is, and its bytes, as text.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> print(hlorun.compile(module).explain().splitlines()[0])
    ///     steps: 1: 1 x fused loop
    fn explain(&self) -> String {
        crate::explain::explain(&self.executable)
    }

    /// A line for every step: what it does, reads and writes.
    ///
    /// Examples:
    ///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    ///     >>> print(hlorun.compile(module).listing().strip())
    ///     fused loop a: f32[2] parameter0 -> f32[2] output0; add
    fn listing(&self) -> String {
        hlorun::plan::listing::listing(&self.executable)
    }

    /// The work of each step, for estimates of its time.
    fn _work<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyList>> {
        work::list(py, self.core(), &self.callbacks(self.core()))
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
    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<(Bound<'py, PyAny>, (PyHloModule,))> {
        compiling::recipe(py, self)
    }
}
