//! `hlorun.compile`.
//!
//! Comes in: a module and options. Goes out: an executable, planned and proved as they say, with the
//! interpreter lock free; and from that, module and options to plan it again.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use hlorun::exec::EVALUATE;
use hlorun::plan::spmd::groups::MAX_DEVICES;
use hlorun::plan::{self, Check, CompileOptions};
use hlorun::replay::Replay;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::PyExecutable;
use crate::assignment::PyBufferAssignment;
use crate::constants::{given_constants, with_constants};
use crate::error::{Error, Result, detached, not_negative};
use crate::module::PyHloModule;
use crate::passes;

/// What makes an executable again that is pickled: `compile` with its options, and the module.
///
/// The folder of `dump=` is not written again.
pub fn recipe<'py>(
    py: Python<'py>,
    executable: &PyExecutable,
) -> Result<(Bound<'py, PyAny>, (PyHloModule,))> {
    let module = executable.module();
    let cannot = |why: &str| {
        let message = format!("cannot pickle an Executable {why}");
        Err(Error::Python(PyTypeError::new_err(message)))
    };
    if executable.inside.is_some() {
        return cannot(
            "inside a buffer assignment: pickle its module, load the assignment where it is needed, \
             and compile there",
        );
    }
    if has_functions(py, &module)? {
        return cannot(
            "with callbacks of JAX, which exist only in this process: lower and compile the function in \
             the process that runs it",
        );
    }
    let options = executable.core().options();
    let given = PyDict::new(py);
    given.set_item("replicas", options.replicas)?;
    given.set_item("partitions", options.partitions)?;
    if options.threads > 0 {
        given.set_item("threads", options.threads)?;
    }
    if !options.disable.is_empty() {
        given.set_item("disable", &options.disable)?;
    }
    if let Some(limit) = options.pass_limit {
        given.set_item("pass_limit", limit)?;
    }
    match options.check {
        Check::Off => given.set_item("check", false)?,
        Check::Plan => given.set_item("check", true)?,
        Check::Shadow => given.set_item("check", "shadow")?,
    }
    let constants = given_constants(py, &executable.module, &executable.source)?;
    if !constants.is_empty() {
        given.set_item("constants", constants)?;
    }
    let compile = py.import("hlorun._hlorun")?.getattr("compile")?;
    let partial = py.import("functools")?.getattr("partial")?;
    let make = partial.call((compile,), Some(&given))?;
    Ok((make, (module,)))
}

/// Whether instructions of `module` have functions that only this process knows.
fn has_functions(py: Python<'_>, module: &PyHloModule) -> PyResult<bool> {
    let loaded = py.import("sys")?.getattr("modules")?;
    let callbacks = loaded.call_method1("get", ("hlorun.jax._callbacks",))?;
    if callbacks.is_none() {
        return Ok(false);
    }
    let module = PyHloModule {
        handle: module.handle.clone(),
    };
    callbacks
        .call_method1("has_functions", (module,))?
        .extract()
}

/// The environment variable that says what is checked where the caller does not.
const CHECK_VARIABLE: &str = "HLORUN_CHECK";

/// What `check=` asks for: a bool or `"shadow"`; without it, the environment.
fn check_of(check: Option<&Bound<'_, PyAny>>) -> Result<Check> {
    let word = match check {
        Some(value) => match value.extract::<bool>() {
            Ok(true) => return Ok(Check::Plan),
            Ok(false) => return Ok(Check::Off),
            Err(_) => value.extract::<String>().unwrap_or_default(),
        },
        None => match std::env::var(CHECK_VARIABLE).as_deref() {
            Err(_) | Ok("" | "0") => return Ok(Check::Off),
            Ok("1") => return Ok(Check::Plan),
            Ok(word) => word.to_owned(),
        },
    };
    match word.as_str() {
        "shadow" => Ok(Check::Shadow),
        _ => Err(Error::Python(PyValueError::new_err(format!(
            "check is True, False or \"shadow\" ({CHECK_VARIABLE}: 1, 0 or shadow)"
        )))),
    }
}

/// Verifies and compiles a module.
///
/// Args:
///     module: The module.
///     replicas: Replicas that run together; as many as the module's header names by default.
///     partitions: Partitions of each replica; as many as the header names by default.
///     threads: Threads of a run; all CPUs by default. Results do not depend on it.
///     constants: Arrays by the names of constants whose values the text leaves out, of their dtypes and
///         sizes.
///     disable: Names of passes to leave out, of `Executable.optional_passes`.
///     buffer_assignment: An assignment to run inside: every value lies where it says, and one that
///         is overwritten too early is named.
///     dump: A folder that gets the module after each pass, as HLO text.
///     pass_limit: How many optional passes run, in their order; those that a plan needs always run.
///         All by default.
///     check: `True` proves the plan: every read finds the value that was computed for it, nothing
///         is written while another task of the same step needs it, everything lies inside its
///         memory. `"shadow"` also proves it in every run, slowly: each step gets copies of exactly
///         the memory it says it touches, between guard pages; of one that a loop repeats, copies of
///         1 GiB in all, and some later ones. `None` leaves it to the environment variable
///         HLORUN_CHECK (1, 0 or shadow; unset is 0).
///
/// Returns:
///     An `Executable`, to be called with one array per parameter of the entry computation.
///
/// Raises:
///     HloVerifyError: The module breaks rules of HLO; all of them are in `.errors`.
///     HloUnsupportedError: The module is legal, and hlorun does not run it; `.instruction` names the
///         instruction, the message says why. Unknown custom calls raise it in the run that reaches
///         them.
///     HloArgumentError: `constants` or `disable` has a name that does not exist, or the assignment does
///         not fit the module.
///     HloExecutionError: `check` found a bug of hlorun; it names the instruction.
///     ValueError: `replicas`, `partitions` or `threads` is below 1, `pass_limit` below 0, there are too
///         many devices, or `check` is another word.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> hlorun.compile(module)(np.ones(2, np.float32))
///     array([2., 2.], dtype=float32)
// Python's keywords are arguments here.
#[allow(clippy::too_many_arguments)]
#[pyfunction]
#[pyo3(signature = (module, *, replicas=None, partitions=None, threads=None, constants=None, disable=Vec::new(), buffer_assignment=None, dump=None, pass_limit=None, check=None))]
pub fn compile(
    py: Python<'_>,
    module: &Bound<'_, PyHloModule>,
    replicas: Option<i64>,
    partitions: Option<i64>,
    threads: Option<i64>,
    constants: Option<&Bound<'_, PyDict>>,
    disable: Vec<String>,
    buffer_assignment: Option<&Bound<'_, PyBufferAssignment>>,
    dump: Option<PathBuf>,
    pass_limit: Option<i64>,
    check: Option<&Bound<'_, PyAny>>,
) -> Result<PyExecutable> {
    let check = check_of(check)?;
    let config = &module.get().handle.module.config;
    // A count of the header that is none is for the verifier to refuse.
    let count = |given: Option<i64>, stated: Option<i64>| match given {
        Some(count) => u32::try_from(count).unwrap_or(0),
        None => u32::try_from(stated.unwrap_or(1)).unwrap_or(1).max(1),
    };
    let replicas = count(replicas, config.replica_count);
    let partitions = count(partitions, config.num_partitions);
    let threads = threads.map(|count| usize::try_from(count).unwrap_or(0));
    let devices = replicas.saturating_mul(partitions);
    if threads == Some(0) {
        let message = "threads must be at least 1";
        return Err(Error::Python(PyValueError::new_err(message)));
    }
    if devices == 0 || devices > MAX_DEVICES {
        let message = format!(
            "replicas and partitions must be at least 1, and replicas times partitions at most \
             {MAX_DEVICES}, not {replicas} times {partitions}; what is not given is the module's"
        );
        return Err(Error::Python(PyValueError::new_err(message)));
    }
    if buffer_assignment.is_some() && devices != 1 {
        let message =
            "a buffer assignment is for one device: give replicas=1, partitions=1 with it";
        return Err(Error::Python(PyValueError::new_err(message)));
    }
    let inside = buffer_assignment.map(|given| given.get().dump.clone());
    let handle = module.get().handle.clone();
    let options = CompileOptions {
        threads: threads.unwrap_or(0),
        replicas,
        partitions,
        disable,
        check,
        evaluate: Some(EVALUATE),
        pass_limit: not_negative("pass_limit", pass_limit)?,
        inspect: passes::inspect(dump)?,
        ..CompileOptions::default()
    };
    let source = match constants {
        Some(constants) => with_constants(&handle, constants)?,
        None => handle.clone(),
    };
    let (executable, inside) = detached(py, || {
        let verified = source.verified()?;
        let executable = plan::compile(verified, &options)?;
        let inside = match inside {
            Some(dump) => {
                let replay = Replay::new(verified, &dump, &executable, &options)?;
                Some((replay, dump))
            }
            None => None,
        };
        Ok((executable, inside))
    })?;
    Ok(PyExecutable {
        executable: Arc::new(executable),
        source,
        observed: OnceLock::new(),
        module: handle,
        inside,
    })
}
