//! Tables of modules through the Arrow PyCapsule interface, for any library that reads Arrow.
//!
//! Comes in: modules. Goes out: `module.to_arrow()`, and the tables of `hlorun.batch`. Promise: columns are
//! made without the interpreter lock, and consumers read them where they lie.

mod attribute_text;
mod columns;
mod ffi;
mod graph;
mod instructions;
mod parquet;
mod rows;
mod tables;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::handle::SharedModule;
use columns::{Builder, Lists, TableRows, Texts, written_out};
use ffi::{Table, export_array, export_schema, export_stream};
use instructions::{Instructions, in_order};
pub use rows::{_batch_schema, _copy_rows, _read_stored, PyTableRows};

/// A table that speaks the Arrow PyCapsule interface.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> module.to_arrow().column_names[:3]
///     ('id', 'computation', 'name')
#[pyclass(frozen, module = "hlorun", name = "ArrowTable")]
pub struct PyArrowTable {
    table: Arc<Table>,
}

impl PyArrowTable {
    fn new(table: Table) -> PyArrowTable {
        PyArrowTable {
            table: Arc::new(table),
        }
    }
}

/// The table of a module's instructions, in the order of the text, with the names of their operands.
pub fn instruction_table(shared: &SharedModule) -> PyArrowTable {
    let mut instructions = Instructions::default();
    instructions.add(shared, shared.costs().ok(), "");
    let mut columns = instructions.take().columns;
    columns.retain(|(name, _)| *name != "path");
    let mut operands = Lists::<Texts>::default();
    for instruction in in_order(&shared.module) {
        for operand in instruction.operands() {
            operands.items.push(&operand.name());
        }
        operands.end_row();
    }
    let at = columns
        .iter()
        .position(|(name, _)| *name == "called_computations");
    columns.insert(at.unwrap_or(columns.len()), ("operands", operands.take()));
    let columns = columns.into_iter();
    PyArrowTable::new(Table {
        columns: columns
            .map(|(name, column)| (name, written_out(column)))
            .collect(),
    })
}

#[pymethods]
impl PyArrowTable {
    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.table.rows()
    }

    /// Names of the columns.
    #[getter]
    fn column_names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.table.columns.iter().map(|column| column.0))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, export_schema(&self.table), c"arrow_schema")
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // The interface lets a producer ignore the request; consumers cast.
        drop(requested_schema);
        let schema = self.__arrow_c_schema__(py)?;
        let array = PyCapsule::new_with_value(py, export_array(&self.table), c"arrow_array")?;
        (schema, array).into_pyobject(py)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        PyCapsule::new_with_value(py, export_stream(&self.table), c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.table.rows()
    }

    fn __repr__(&self) -> String {
        let (rows, columns) = (self.table.rows(), self.table.columns.len());
        format!("<ArrowTable, {rows} rows x {columns} columns>")
    }
}
