//! `module.to_arrow()`: one row per instruction, for any library that reads Arrow.

use std::sync::Arc;

use hlorun::module::escape::unescape;
use hlorun::module::{AttrKey, Id, InstructionId};
use hlorun::types::{Shape, ShapeStyle};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::arrow_ffi::{Column, Table, TextColumn, export_array, export_schema, export_stream};
use crate::handle::SharedModule;
use crate::shape::leaf_bytes;

/// A table of instructions that speaks the Arrow PyCapsule interface.
#[pyclass(frozen, module = "hlorun", name = "ArrowTable")]
pub struct PyArrowTable {
    table: Arc<Table>,
}

/// Lists of text, one per row.
struct TextLists {
    offsets: Vec<i64>,
    items: TextColumn,
}

impl TextLists {
    fn new() -> TextLists {
        TextLists {
            offsets: vec![0],
            items: TextColumn::new(),
        }
    }

    fn end_row(&mut self) {
        self.offsets.push(self.items.len() as i64);
    }

    fn finish(self) -> Column {
        Column::List(self.offsets, Box::new(self.items.finish()))
    }
}

/// The instruction table of a module, in the order of the text.
pub fn instruction_table(shared: &SharedModule) -> PyArrowTable {
    let module = &shared.module;
    let ids: Vec<InstructionId> = module
        .computation_ids()
        .flat_map(|id| module.computation(id).instructions.iter().copied())
        .collect();
    let instructions = || ids.iter().map(|&id| module.instruction(id));
    let text_of = |get: &dyn Fn(InstructionId) -> String| {
        let mut column = TextColumn::new();
        ids.iter().for_each(|&id| column.push(&get(id)));
        column.finish()
    };
    let shapes = module.shapes();
    let mut dims = (vec![0i64], Vec::new());
    let mut operands = TextLists::new();
    let mut called = TextLists::new();
    for instruction in instructions() {
        dims.1.extend(
            instruction
                .array_shape()
                .map_or(&[][..], |array| &array.dims),
        );
        dims.0.push(dims.1.len() as i64);
        instruction
            .operands()
            .for_each(|operand| operands.items.push(&operand.name()));
        operands.end_row();
        for id in instruction.called_computations() {
            called.items.push(&module.str(module.computation(id).name));
        }
        called.end_row();
    }
    let element_type = |id| match shapes.get(module.instruction(id).shape_id()) {
        Shape::Array(array) => array.element_type.name(),
        Shape::Tuple(_) => "tuple",
        Shape::Token => "token",
        Shape::Opaque => "opaque",
        Shape::Buffer(_) => "buffer",
    };
    let computation = |id| {
        let computation = module.instruction(id).computation();
        module
            .str(module.computation(computation).name)
            .into_owned()
    };
    let shape = |id| {
        let shape = module.instruction(id).shape_id();
        shapes.display(shape, ShapeStyle::FULL).to_string()
    };
    let target = |id| {
        let target = module.instruction(id).string(AttrKey::CustomCallTarget);
        String::from_utf8_lossy(&unescape(target.unwrap_or_default())).into_owned()
    };
    let mut columns: Vec<(&str, Column)> = vec![
        (
            "id",
            Column::integers(ids.iter().map(|id| Some(id.index() as i64))),
        ),
        ("computation", text_of(&computation)),
        (
            "name",
            text_of(&|id| module.instruction(id).name().into_owned()),
        ),
        (
            "opcode",
            text_of(&|id| module.instruction(id).opcode_name().into_owned()),
        ),
        ("shape", text_of(&shape)),
        ("element_type", text_of(&|id| element_type(id).to_owned())),
        (
            "dims",
            Column::List(dims.0, Box::new(Column::Int64(dims.1, None))),
        ),
        (
            "bytes",
            Column::integers(
                instructions().map(|i| leaf_bytes(shared, i.shape_id()).map(|n| n as i64)),
            ),
        ),
        ("operands", operands.finish()),
        ("called_computations", called.finish()),
        (
            "users",
            Column::integers(ids.iter().map(|&id| Some(shared.users(id).len() as i64))),
        ),
        (
            "is_root",
            Column::flags(instructions().map(|i| i.is_root())),
        ),
        (
            "parameter_number",
            Column::integers(instructions().map(|i| i.parameter_number().map(|n| n as i64))),
        ),
        ("custom_call_target", text_of(&target)),
    ];
    columns.extend(metadata_columns(shared, &ids));
    PyArrowTable {
        table: Arc::new(Table {
            columns: columns
                .into_iter()
                .map(|(name, column)| (name.to_owned(), column))
                .collect(),
        }),
    }
}

fn metadata_columns(shared: &SharedModule, ids: &[InstructionId]) -> Vec<(&'static str, Column)> {
    let mut op_types = TextColumn::new();
    let mut op_names = TextColumn::new();
    let mut files = TextColumn::new();
    let mut lines = Vec::with_capacity(ids.len());
    for &id in ids {
        let mut metadata = shared.metadata(id);
        if let (None, Some(frame)) = (&metadata.source_file, metadata.stack_frame_id)
            && let Some(frame) = shared.stack(frame).into_iter().next()
        {
            metadata.source_file = Some(frame.file);
            metadata.source_line = Some(frame.line);
        }
        op_types.push(metadata.op_type.as_deref().unwrap_or_default());
        op_names.push(metadata.op_name.as_deref().unwrap_or_default());
        files.push(metadata.source_file.as_deref().unwrap_or_default());
        lines.push(metadata.source_line);
    }
    vec![
        ("op_type", op_types.finish()),
        ("op_name", op_names.finish()),
        ("source_file", files.finish()),
        ("source_line", Column::integers(lines)),
    ]
}

#[pymethods]
impl PyArrowTable {
    /// Number of instructions.
    #[getter]
    fn num_rows(&self) -> usize {
        self.table.rows()
    }

    /// Names of the columns.
    #[getter]
    fn column_names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(
            py,
            self.table.columns.iter().map(|column| column.0.as_str()),
        )
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
        format!("<ArrowTable, {rows} instructions x {columns} columns>")
    }
}
