//! Shapes and layouts as Python sees them: thin handles into a module's shape table.

use std::hash::{DefaultHasher, Hash, Hasher};

use hlorun::module::{HloModule, ModuleText, Source};
use hlorun::types::{ArrayShape, Layout, Shape, ShapeId, ShapeStyle};
use numpy::PyArrayDescr;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::dtype::numpy_dtype;
use crate::error::Result;
use crate::handle::{ModuleHandle, SharedModule};

/// The shape of a value: an array, a tuple, a token or an opaque value.
///
/// `Shape(text)` reads one, and raises `HloParseError` where the text is none; `str(shape)` is the
/// text again.
///
/// Examples:
///     >>> shape = hlorun.Shape("f32[2,3]{1,0}")
///     >>> shape.dtype, shape.dims, shape.nbytes
///     (dtype('float32'), (2, 3), 24)
#[pyclass(frozen, module = "hlorun", name = "Shape")]
pub struct PyShape {
    pub module: SharedModule,
    pub id: ShapeId,
}

impl PyShape {
    fn shape(&self) -> &Shape {
        self.module.module.shapes().get(self.id)
    }

    fn text(&self) -> String {
        let shapes = self.module.module.shapes();
        shapes.display(self.id, ShapeStyle::FULL).to_string()
    }
}

/// The name of an array's element type, or what else a shape is.
pub fn element_type(shape: &Shape) -> &'static str {
    match shape {
        Shape::Array(array) => array.element_type.name(),
        Shape::Tuple(_) => "tuple",
        Shape::Token => "token",
        Shape::Opaque => "opaque",
        Shape::Buffer(_) => "buffer",
    }
}

#[pymethods]
impl PyShape {
    /// The shape that a text such as "f32[2,3]{1,0}" is; raises HloParseError for others.
    #[new]
    fn new(text: &str) -> Result<PyShape> {
        let mut module = HloModule::new(ModuleText::new(
            Source::from(text.as_bytes().to_vec()),
            None,
        ));
        let id = hlorun::text::parse_shape(text.as_bytes(), module.shapes_mut())?;
        Ok(PyShape {
            module: ModuleHandle::new(module),
            id,
        })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        (slf.get_type(), (slf.get().text(),)).into_pyobject(slf.py())
    }

    /// The NumPy dtype of an array's elements; None for tuples, tokens and opaque values.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Result<Option<&Bound<'py, PyArrayDescr>>> {
        match self.shape() {
            Shape::Array(array) => numpy_dtype(py, array.element_type).map(Some),
            _ => Ok(None),
        }
    }

    /// The element type by XLA's name, "f32"; "tuple", "token", "opaque" or "buffer" otherwise.
    #[getter]
    fn element_type(&self) -> &'static str {
        element_type(self.shape())
    }

    /// Sizes of an array's dimensions; bounds where they are dynamic, -1 where they are unbounded.
    #[getter]
    fn dims<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let dims = self.shape().as_array().map_or(&[][..], |array| &array.dims);
        PyTuple::new(
            py,
            dims.iter().map(|&dim| {
                if dim == ArrayShape::UNBOUNDED {
                    -1
                } else {
                    dim
                }
            }),
        )
    }

    /// Which dimensions may be smaller at run time than their bound.
    #[getter]
    fn dynamic_dims<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let array = self.shape().as_array();
        let flags = array.map_or(Vec::new(), |array| {
            (0..array.rank())
                .map(|dim| array.is_dynamic_dimension(dim))
                .collect()
        });
        PyTuple::new(py, flags)
    }

    /// Number of dimensions of an array.
    #[getter]
    fn rank(&self) -> usize {
        self.shape().as_array().map_or(0, ArrayShape::rank)
    }

    /// Number of elements of an array; None for other shapes and unbounded sizes.
    #[getter]
    fn size(&self) -> Option<i64> {
        self.shape().as_array().and_then(ArrayShape::element_count)
    }

    /// Bytes of the value in NumPy arrays, tuples summed; None where it is unbounded.
    #[getter]
    fn nbytes(&self) -> Option<usize> {
        leaf_bytes(&self.module, self.id)
    }

    /// The layout the text gives, or None.
    #[getter]
    fn layout(&self) -> Option<PyLayout> {
        let layout = self.shape().as_array()?.layout.clone()?;
        Some(PyLayout { layout })
    }

    /// Whether this is an array.
    #[getter]
    fn is_array(&self) -> bool {
        self.shape().as_array().is_some()
    }

    /// Whether this is a tuple.
    #[getter]
    fn is_tuple(&self) -> bool {
        self.shape().as_tuple().is_some()
    }

    /// Shapes of a tuple's elements; empty for other shapes.
    #[getter]
    fn tuple_shapes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let parts = self.shape().as_tuple().unwrap_or(&[]);
        PyTuple::new(
            py,
            parts.iter().map(|&id| PyShape {
                module: self.module.clone(),
                id,
            }),
        )
    }

    fn __str__(&self) -> String {
        self.text()
    }

    fn __repr__(&self) -> String {
        format!("Shape({})", self.text())
    }

    fn __eq__(&self, other: &PyShape) -> bool {
        std::sync::Arc::ptr_eq(&self.module, &other.module) && self.id == other.id
            || self.text() == other.text()
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.text().hash(&mut hasher);
        hasher.finish()
    }
}

/// Most parts of a tuple whose bytes are summed; shared parts let a short text name more than fit.
const MAX_PARTS: usize = 1 << 22;

/// Bytes of all arrays in the shape `id`; `None` when unbounded, overflowing or beyond counting.
pub fn leaf_bytes(module: &ModuleHandle, id: ShapeId) -> Option<usize> {
    let shapes = module.module.shapes();
    if let Shape::Array(array) = shapes.get(id) {
        return array.byte_size();
    }
    let mut stack = vec![id];
    let mut total = 0usize;
    for _ in 0..MAX_PARTS {
        let Some(id) = stack.pop() else {
            return Some(total);
        };
        match shapes.get(id) {
            Shape::Array(array) => total = total.checked_add(array.byte_size()?)?,
            Shape::Tuple(parts) if stack.len() + parts.len() > MAX_PARTS => return None,
            Shape::Tuple(parts) => stack.extend_from_slice(parts),
            Shape::Buffer(part) => stack.push(*part),
            Shape::Token | Shape::Opaque => {}
        }
    }
    None
}

/// The layout of an array: order of its dimensions in memory, tiles, memory space.
///
/// `Layout(text)` reads one, and raises `HloParseError` where the text is none; `str(layout)` is the
/// text again.
///
/// Examples:
///     >>> layout = hlorun.Layout("{1,0:T(8,128)}")
///     >>> layout.minor_to_major, layout.tiles
///     ((1, 0), ((8, 128),))
#[pyclass(frozen, module = "hlorun", name = "Layout")]
pub struct PyLayout {
    layout: Layout,
}

#[pymethods]
impl PyLayout {
    /// The layout that a text such as "{1,0:T(8,128)}" is; raises HloParseError for others.
    #[new]
    fn new(text: &str) -> Result<PyLayout> {
        // Scalars are written without their layout.
        if text == "{}" {
            let layout = Layout::default();
            return Ok(PyLayout { layout });
        }
        // A layout is read as that of an array with as many dimensions.
        let order = text.split([':', '}']).next().unwrap_or_default();
        let rank = order
            .split(',')
            .filter(|part| part.contains(|c: char| c.is_ascii_digit()));
        let dims = vec!["1"; rank.count()].join(",");
        let shape = PyShape::new(&format!("f32[{dims}]{text}"))?;
        let layout = shape.layout();
        layout.ok_or_else(|| {
            PyValueError::new_err(format!("expected a layout, found {text:?}")).into()
        })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        (slf.get_type(), (slf.get().layout.to_string(),)).into_pyobject(slf.py())
    }

    /// Dimension numbers from the fastest varying to the slowest.
    #[getter]
    fn minor_to_major<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.layout.minor_to_major.iter().copied())
    }

    /// `S(n)`; 0 is the default memory space.
    #[getter]
    fn memory_space(&self) -> i64 {
        self.layout.memory_space()
    }

    /// `E(n)`, in bits; 0 when the text does not say.
    #[getter]
    fn element_size_in_bits(&self) -> i64 {
        self.layout.element_size_in_bits()
    }

    /// Sizes of the tiles, one tuple per tile; -1 stands for a combined dimension.
    #[getter]
    fn tiles<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let tiles = self
            .layout
            .tiles()
            .iter()
            .map(|tile| PyTuple::new(py, tile.0.iter().map(|size| size.unwrap_or(-1))))
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, tiles)
    }

    fn __str__(&self) -> String {
        self.layout.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Layout({})", self.layout)
    }

    fn __eq__(&self, other: &PyLayout) -> bool {
        self.layout == other.layout
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.layout.hash(&mut hasher);
        hasher.finish()
    }
}
