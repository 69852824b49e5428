//! The work of the steps of a plan, as Python's tuples.

use hlorun::plan::Executable;
use hlorun::plan::work::{StepWork, work};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::callbacks::Callbacks;
use crate::error::Result;

/// A list of `(instruction, kind, trips, is_small, counts, touched, nested)`: `counts` holds
/// `(class, element type, amount)`, `touched` `(allocation, start, span, bytes, windows, writes)`,
/// `nested` lists like this one.
pub fn list<'py>(
    py: Python<'py>,
    executable: &Executable,
    callbacks: &Callbacks<'_>,
) -> Result<Bound<'py, PyList>> {
    steps(py, callbacks, &work(executable))
}

/// Recursion is bounded by the nesting the lowering allows.
fn steps<'py>(
    py: Python<'py>,
    callbacks: &Callbacks<'_>,
    steps_: &[StepWork],
) -> Result<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for step in steps_ {
        let counts = PyList::new(
            py,
            step.counts
                .iter()
                .map(|count| (&count.class, count.element_type.name(), count.amount)),
        )?;
        let touched = PyList::new(
            py,
            step.touched
                .iter()
                .map(|t| (t.allocation, t.start, t.span, t.bytes, t.windows, t.writes)),
        )?;
        let nested = step.nested.iter().map(|inner| steps(py, callbacks, inner));
        let nested = PyList::new(py, nested.collect::<Result<Vec<_>>>()?)?;
        list.append((
            callbacks.instruction(step.instruction),
            step.kind,
            step.trips,
            step.is_small,
            counts,
            touched,
            nested,
        ))?;
    }
    Ok(list)
}
