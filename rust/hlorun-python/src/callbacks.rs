//! What Python is asked or told during a run: observers, custom calls, profiles.
//!
//! Comes in: Python functions. Goes out: the core's hooks, which take the interpreter lock for as
//! long as they call the function. Promise: what a function raises ends the run and is raised
//! unchanged.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hlorun::HloError;
use hlorun::exec::{ArrayMut, ArrayRef, Step};
use hlorun::module::InstructionId;
use hlorun::plan::Executable;
use hlorun::types::{ArrayShape, Dims, ShapeId};
use numpy::{PyUntypedArray, prelude::*};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::array::{ParameterName, array_over, data_pointer};
use crate::error::{Error, Result};
use crate::handle::SharedModule;
use crate::instruction::PyInstruction;
use crate::values::{flatten, unflatten};

/// Most steps a profile keeps.
const MAX_EVENTS: usize = 4_000_000;
/// Most arrays one operand of a custom call may have.
const MAX_LEAVES: usize = 1 << 22;

static FUNCTIONS: LazyLock<Mutex<HashMap<String, Py<PyAny>>>> = LazyLock::new(Default::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the function of a target, `function(*operands, instruction)`; None takes it away.
#[pyfunction]
pub fn _register_custom_call(target: String, function: Bound<'_, PyAny>) -> Result<()> {
    if function.is_none() {
        // Dropped after the lock is free: an object's end may run any code.
        let _old = lock(&FUNCTIONS).remove(&target);
        return Ok(());
    }
    let _old = lock(&FUNCTIONS).insert(target, function.unbind());
    Ok(())
}

/// Whether any target has a function.
fn has_functions() -> bool {
    !lock(&FUNCTIONS).is_empty()
}

/// Whether this target has a function.
pub fn has_function(target: &str) -> bool {
    lock(&FUNCTIONS).contains_key(target)
}

/// What Python code of one run needs.
pub struct Callbacks<'a> {
    executable: &'a Executable,
    module: &'a SharedModule,
    raised: Mutex<Option<PyErr>>,
    /// Held while an observer runs: it sees one value at a time, whatever thread it comes from.
    observing: Mutex<()>,
}

impl<'a> Callbacks<'a> {
    /// For runs of `executable`, whose instructions Python sees in `module`.
    pub fn new(executable: &'a Executable, module: &'a SharedModule) -> Callbacks<'a> {
        Callbacks {
            executable,
            module,
            raised: Mutex::new(None),
            observing: Mutex::new(()),
        }
    }

    /// The error a run ended with: what a function raised, or else `error`.
    pub fn error(&self, error: Error) -> Error {
        match lock(&self.raised).take() {
            Some(raised) => Error::Python(raised),
            None => error,
        }
    }

    /// Keeps what Python raised and ends the run.
    fn end(&self, error: Error) -> HloError {
        match error {
            Error::Hlo(error) => error,
            Error::Python(raised) => {
                lock(&self.raised).get_or_insert(raised);
                HloError::execution("a Python function raised an exception")
            }
        }
    }

    /// The user's instruction that `id` was made from.
    pub fn instruction(&self, id: InstructionId) -> PyInstruction {
        PyInstruction::new(self.module, self.executable.original(id))
    }

    /// Shows a value to `function(instruction, value)`, or to `function(instruction, value, device)`.
    pub fn observe(
        &self,
        function: &Py<PyAny>,
        device: Option<u32>,
        id: InstructionId,
        leaves: &[ArrayRef<'_>],
    ) -> hlorun::Result<()> {
        let work = |py: Python<'_>| -> Result<()> {
            let shape = self.executable.module().instruction(id).shape_id();
            let value = self.value(py, shape, leaves)?;
            match device {
                Some(device) => function.call1(py, (self.instruction(id), value, device))?,
                None => function.call1(py, (self.instruction(id), value))?,
            };
            Ok(())
        };
        // Before the interpreter lock, which the observer may give up in between.
        let _turn = lock(&self.observing);
        Python::attach(|py| work(py).map_err(|error| self.end(error)))
    }

    /// Runs the function of `target`, if it has one.
    pub fn custom_call(
        &self,
        id: InstructionId,
        target: &str,
        inputs: &[ArrayRef<'_>],
        outputs: &[ArrayMut<'_>],
    ) -> Option<hlorun::Result<()>> {
        if !has_functions() {
            return None;
        }
        Python::attach(|py| {
            let function = lock(&FUNCTIONS).get(target).map(|f| f.clone_ref(py))?;
            let result = self.call(function.bind(py), id, target, inputs, outputs);
            Some(result.map_err(|error| self.end(error)))
        })
    }

    fn call(
        &self,
        function: &Bound<'_, PyAny>,
        id: InstructionId,
        target: &str,
        inputs: &[ArrayRef<'_>],
        outputs: &[ArrayMut<'_>],
    ) -> Result<()> {
        let py = function.py();
        let module = self.executable.module();
        let instruction = module.instruction(id);
        let mut rest = inputs;
        let mut operands = Vec::new();
        for operand in instruction.operands() {
            let count = self.leaf_count(operand.shape_id()).min(rest.len());
            let (leaves, others) = rest.split_at(count);
            rest = others;
            operands.push(self.value(py, operand.shape_id(), leaves)?);
        }
        let keywords = PyDict::new(py);
        keywords.set_item("instruction", self.instruction(id))?;
        let result = function.call(PyTuple::new(py, operands)?, Some(&keywords))?;
        let name = format!("the result of {target:?} for {}", instruction.name());
        let place = ParameterName::result(&name);
        let mut arrays = Vec::new();
        flatten(module, instruction.shape_id(), &result, &place, &mut arrays)?;
        for (array, output) in arrays.iter().zip(outputs) {
            let sizes = array.shape().iter().map(|&size| size as i64);
            if !sizes.eq(output.dims().iter().copied()) {
                return Err(place.refuse(&"the sizes of the call", "fewer elements"));
            }
            let bytes = array.len() * output.element_type().size_bytes();
            // SAFETY: `flatten` made the array dense, row-major and of the leaf's type; it lives
            // during the copy, and the interpreter lock is held.
            let bytes = unsafe { std::slice::from_raw_parts(data_pointer(array), bytes) };
            output.write_row_major(bytes)?;
        }
        Ok(())
    }

    /// Number of arrays in a shape.
    fn leaf_count(&self, shape: ShapeId) -> usize {
        let shapes = self.executable.module().shapes();
        shapes.leaves(shape, MAX_LEAVES).map_or(0, |leaves| {
            let is_array = |id| shapes.get(id).as_array().is_some();
            leaves.iter().filter(|leaf| is_array(leaf.1)).count()
        })
    }

    /// Copies of arrays, nested as the shape says; workspaces, which hold nothing, become None.
    fn value<'py>(
        &self,
        py: Python<'py>,
        shape: ShapeId,
        leaves: &[ArrayRef<'_>],
    ) -> Result<Bound<'py, PyAny>> {
        let mut arrays = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            arrays.push(copy(py, leaf)?);
        }
        let missing = self.leaf_count(shape).saturating_sub(arrays.len());
        arrays.extend((0..missing).map(|_| py.None().into_bound(py)));
        unflatten(py, self.executable.module(), shape, arrays)
    }
}

/// A NumPy array with memory of its own.
fn copy<'py>(py: Python<'py>, array: &ArrayRef<'_>) -> Result<Bound<'py, PyAny>> {
    let mut block = array.to_row_major()?;
    let shape = ArrayShape::new(array.element_type(), array.dims());
    let data = block.as_mut_ptr();
    // SAFETY: the block holds the elements, aligned, and moving its owner does not move it.
    unsafe { array_over(py, &shape, data, block) }
}

/// Steps of one run, as they end.
pub struct Profile {
    begin: Instant,
    events: Mutex<Vec<Event>>,
}

struct Event {
    instruction: InstructionId,
    kind: &'static str,
    device: u32,
    start: f64,
    duration: f64,
}

impl Profile {
    /// An empty profile that begins now.
    pub fn new() -> Profile {
        Profile {
            begin: Instant::now(),
            events: Mutex::new(Vec::new()),
        }
    }

    /// Takes a step down.
    pub fn record(&self, step: &Step<'_>) {
        let mut events = lock(&self.events);
        if events.len() < MAX_EVENTS {
            events.push(Event {
                instruction: step.thunk.instruction,
                kind: step.thunk.kind.name(),
                device: step.device,
                start: step
                    .start
                    .saturating_duration_since(self.begin)
                    .as_secs_f64(),
                duration: step.duration.as_secs_f64(),
            });
        }
    }

    /// A list of `(instruction, kind, device, start, duration)`, in seconds, by start.
    pub fn into_list<'py>(
        self,
        py: Python<'py>,
        callbacks: &Callbacks<'_>,
    ) -> Result<Bound<'py, PyList>> {
        let mut events = self
            .events
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        events.sort_by(|a, b| {
            (a.device, a.start)
                .partial_cmp(&(b.device, b.start))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let list = PyList::empty(py);
        let mut handles: HashMap<InstructionId, Py<PyInstruction>> = HashMap::new();
        for event in events {
            let instruction = match handles.get(&event.instruction) {
                Some(handle) => handle.clone_ref(py),
                None => {
                    let made = Py::new(py, callbacks.instruction(event.instruction))?;
                    handles.insert(event.instruction, made.clone_ref(py));
                    made
                }
            };
            list.append((
                instruction,
                event.kind,
                event.device,
                event.start,
                event.duration,
            ))?;
        }
        Ok(list)
    }
}

/// Whether two arrays of `bytes` share memory.
fn overlap(a: (*const u8, usize), b: (*const u8, usize)) -> bool {
    let (from_a, from_b) = (a.0 as usize, b.0 as usize);
    a.1 > 0 && b.1 > 0 && from_a < from_b + b.1 && from_b < from_a + a.1
}

/// The arrays of `out`, a value of the result's shape, to write results into.
///
/// # Errors
/// `HloArgumentError` where an array does not fit, is read-only, not dense and row-major, or shares
/// memory with another one or an argument.
pub fn destinations<'py>(
    executable: &Executable,
    out: &Bound<'py, PyAny>,
    arguments: &[Bound<'py, PyUntypedArray>],
) -> Result<Vec<Bound<'py, PyUntypedArray>>> {
    let module = executable.module();
    let mut arrays = Vec::with_capacity(executable.outputs().len());
    let place = ParameterName::result("out");
    if !executable.dynamic_sizes().is_empty() {
        return Err(place.refuse(&"a result of fixed size", "one of dynamic size"));
    }
    flatten(
        module,
        executable.result_shape_id(),
        out,
        &place,
        &mut arrays,
    )?;
    let mut given = Vec::new();
    originals(out, &mut given)?;
    let span = |array: &Bound<'_, PyUntypedArray>| {
        let bytes = array.len() * array.dtype().itemsize();
        (data_pointer(array).cast_const(), bytes)
    };
    for (at, array) in arrays.iter().enumerate() {
        // `flatten` hands out the very object where it is dense; anything else would be written to a
        // copy that nobody sees.
        if !given.get(at).is_some_and(|given| given.is(array)) {
            return Err(place.refuse(&"dense row-major NumPy arrays", "one that is not"));
        }
        if !array.getattr("flags")?.getattr("writeable")?.is_truthy()? {
            return Err(place.refuse(&"arrays that can be written", "a read-only one"));
        }
        let dims: Dims = array.shape().iter().map(|&d| d as i64).collect();
        if dims != executable.outputs()[at].dims {
            return Err(place.refuse(&"arrays of the bounded sizes", "a smaller one"));
        }
        let others = arrays[..at].iter().chain(arguments);
        if others
            .into_iter()
            .any(|other| overlap(span(array), span(other)))
        {
            return Err(place.refuse(
                &"arrays that share no memory with each other or with an argument",
                "one that does",
            ));
        }
    }
    Ok(arrays)
}

/// The leaves of nested tuples and lists.
fn originals<'py>(value: &Bound<'py, PyAny>, leaves: &mut Vec<Bound<'py, PyAny>>) -> Result<()> {
    let mut stack = vec![value.clone()];
    while let Some(value) = stack.pop() {
        if value.is_instance_of::<PyTuple>() || value.is_instance_of::<PyList>() {
            let parts = value.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            stack.extend(parts.into_iter().rev());
        } else if !value.is_none() {
            leaves.push(value);
        }
    }
    Ok(())
}
