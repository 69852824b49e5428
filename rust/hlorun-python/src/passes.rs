//! What passes did, and the module after each of them.

use std::path::PathBuf;
use std::sync::Arc;

use hlorun::HloError;
use hlorun::module::HloModule;
use hlorun::module::compact::compact;
use hlorun::plan::options::Inspect;
use hlorun::plan::pipeline::PassRecord;
use hlorun::text::printer::{PrintOptions, print_module};
use pyo3::prelude::*;

use crate::error::Result;

/// What a pass did: instructions, loops or steps it changed, and its time in milliseconds.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> hlorun.compile(module).passes[0].changes
///     0
#[pyclass(frozen, get_all, eq, module = "hlorun", name = "PassRecord")]
#[derive(Clone, PartialEq)]
pub struct PyPassRecord {
    /// Its name, as `compile(..., disable=[...])` takes it.
    name: &'static str,
    /// Instructions, loops or steps it changed.
    changes: usize,
    /// The time it took.
    milliseconds: f64,
}

impl PyPassRecord {
    pub fn of(record: &PassRecord) -> PyPassRecord {
        PyPassRecord {
            name: record.name,
            changes: record.changes,
            milliseconds: record.time.as_secs_f64() * 1e3,
        }
    }
}

#[pymethods]
impl PyPassRecord {
    fn __repr__(&self) -> String {
        format!(
            "PassRecord(name={:?}, changes={}, milliseconds={:.3})",
            self.name, self.changes, self.milliseconds
        )
    }
}

/// Writes the module after each pass to a file `NN-pass.hlo` of the folder `dump`.
pub fn inspect(dump: Option<PathBuf>) -> Result<Option<Inspect>> {
    let Some(folder) = dump else {
        return Ok(None);
    };
    std::fs::create_dir_all(&folder).map_err(PyErr::from)?;
    let after = move |number: usize, pass: &'static str, module: &HloModule| {
        let path = folder.join(format!("{number:02}-{pass}.hlo"));
        let mut options = PrintOptions::short_parsable();
        options.print_large_constants = true;
        let text = print_module(&compact(module), &options);
        std::fs::write(&path, text).map_err(|error| {
            HloError::argument(format!("cannot write {}: {error}", path.display()))
        })?;
        Ok(())
    };
    Ok(Some(Inspect(Arc::new(after))))
}
