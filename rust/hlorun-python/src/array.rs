//! NumPy arrays in and out, without copies where the memory allows.
//!
//! Comes in: what a user passes for a parameter, or memory a run has written. Goes out: arrays
//! whose dtype, sizes and order are exactly the parameter's, or arrays that own that memory.
//! Promise: nothing is cast silently; a value that does not fit is an `HloArgumentError` that names
//! the parameter, what it expects and what it got.

use std::ffi::c_void;

use hlorun::HloError;
use hlorun::types::primitive_type::NumberClass;
use hlorun::types::{ArrayShape, PrimitiveType};
use numpy::prelude::*;
use numpy::{PY_ARRAY_API, PyUntypedArray, npyffi};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyBool, PyComplex, PyFloat, PyInt, PyModule};

use crate::dtype::numpy_dtype;
use crate::error::{Error, Result};

fn numpy(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static NUMPY: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    NUMPY
        .get_or_try_init(py, || Ok(PyModule::import(py, "numpy")?.unbind()))
        .map(|module| module.bind(py))
}

/// Where the elements of `array` begin.
pub fn data_pointer(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: the pointer is that of a live NumPy array.
    unsafe {
        (*npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr()))
            .data
            .cast()
    }
}

/// A row-major array of `shape` over `data`, or over fresh memory of NumPy's when that is null.
///
/// # Safety
/// `data` is null or points to `shape.byte_size()` bytes, aligned for the element type, that stay
/// valid until the object set as the array's base is gone.
unsafe fn new_array<'py>(
    py: Python<'py>,
    shape: &ArrayShape,
    data: *mut u8,
) -> Result<Bound<'py, PyUntypedArray>> {
    let dtype = numpy_dtype(py, shape.element_type)?.clone();
    let mut dims: Vec<npyffi::npy_intp> = shape.dims.iter().map(|&dim| dim as _).collect();
    // Of memory NumPy allocates itself, any flag asks for column-major order.
    let flags = if data.is_null() {
        0
    } else {
        npyffi::NPY_ARRAY_WRITEABLE
    };
    // SAFETY: the descriptor's reference is handed over, `dims` lives through the call, and `data`
    // is what the caller promises; the result is null with an exception set, or owned.
    let array = unsafe {
        let pointer = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            dtype.into_dtype_ptr(),
            dims.len() as _,
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            data.cast::<c_void>(),
            flags,
            std::ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, pointer)?
    };
    Ok(array.cast_into::<PyUntypedArray>().map_err(PyErr::from)?)
}

/// A new array of `shape`, whose memory NumPy owns, filled with `bytes`.
///
/// # Errors
/// When `bytes` does not have the shape's length, and where NumPy cannot allocate.
pub fn array_from_bytes<'py>(
    py: Python<'py>,
    shape: &ArrayShape,
    bytes: &[u8],
) -> Result<Bound<'py, PyAny>> {
    if shape.byte_size() != Some(bytes.len()) {
        return Err(Error::Hlo(HloError::execution(format!(
            "internal error: {} bytes for {shape}",
            bytes.len()
        ))));
    }
    // SAFETY: null asks NumPy to allocate.
    let array = unsafe { new_array(py, shape, std::ptr::null_mut())? };
    // SAFETY: a fresh array of that shape and dtype holds exactly `bytes.len()` bytes, one NumPy
    // element per HLO element; nobody else has seen it.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data_pointer(&array), bytes.len()) };
    Ok(array.into_any())
}

/// Keeps memory alive for the arrays that show it.
#[pyclass(frozen, module = "hlorun._hlorun")]
pub struct Memory {
    _owner: Box<dyn std::any::Any + Send + Sync>,
}

/// An array of `shape` over memory that `owner` keeps; the array keeps `owner`.
///
/// # Safety
/// `data` points into memory `owner` holds, `shape.byte_size()` bytes aligned for the element type,
/// which does not move while `owner` lives and which nobody else writes.
pub unsafe fn array_over<'py, O: std::any::Any + Send + Sync>(
    py: Python<'py>,
    shape: &ArrayShape,
    data: *mut u8,
    owner: O,
) -> Result<Bound<'py, PyAny>> {
    let memory = Bound::new(
        py,
        Memory {
            _owner: Box::new(owner),
        },
    )?;
    // SAFETY: the caller's promise; `memory` becomes the base below, before anyone sees the array.
    let array = unsafe { new_array(py, shape, data)? };
    // SAFETY: both are live objects; the call takes over one reference to the base.
    let status =
        unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_array_ptr(), memory.into_ptr()) };
    if status != 0 {
        return Err(Error::Python(PyErr::fetch(py)));
    }
    Ok(array.into_any())
}

/// The parameter an argument is for, as errors name it.
pub struct ParameterName<'a> {
    /// Position among the arguments; `None` for what is no argument.
    pub number: Option<usize>,
    /// The parameter instruction's name, with the index where it is part of a tuple.
    pub name: &'a str,
}

impl<'a> ParameterName<'a> {
    /// Names something that is no argument.
    pub fn result(name: &'a str) -> ParameterName<'a> {
        ParameterName { number: None, name }
    }

    /// An error that says what this parameter expects and what it got.
    pub fn refuse(&self, expects: &dyn std::fmt::Display, got: &str) -> Error {
        let who = match self.number {
            Some(number) => format!("argument {number} ({})", self.name),
            None => self.name.to_owned(),
        };
        Error::Hlo(HloError::argument(format!(
            "{who}: expects {expects}, got {got}"
        )))
    }
}

/// What an array is, in HLO's notation where HLO has the type: `float64[2,3]`.
fn describe(array: &Bound<'_, PyUntypedArray>) -> String {
    let dims: Vec<String> = array.shape().iter().map(usize::to_string).collect();
    format!("an array of {}[{}]", array.dtype(), dims.join(","))
}

/// What a parameter wants, in both notations.
fn expectation(py: Python<'_>, shape: &ArrayShape) -> String {
    let logical = ArrayShape {
        layout: None,
        ..shape.clone()
    };
    match numpy_dtype(py, shape.element_type) {
        Ok(dtype) if dtype.to_string() != shape.element_type.name() => {
            format!("{logical} ({dtype})")
        }
        _ => logical.to_string(),
    }
}

/// Converts `value` to an array of exactly `shape`: the same object where it is one already.
///
/// # Errors
/// `HloArgumentError` when it is no array, or one of another dtype or other sizes.
pub fn argument<'py>(
    value: &Bound<'py, PyAny>,
    shape: &ArrayShape,
    parameter: &ParameterName<'_>,
) -> Result<Bound<'py, PyUntypedArray>> {
    let py = value.py();
    let array = match value.cast::<PyUntypedArray>() {
        Ok(array) => array.clone(),
        Err(_) => match scalar(value, shape, parameter)? {
            Some(array) => return Ok(array),
            None => from_protocols(value, shape, parameter)?,
        },
    };
    let expected = numpy_dtype(py, shape.element_type)?;
    let dims_match = array.ndim() == shape.rank()
        && array
            .shape()
            .iter()
            .zip(&shape.dims)
            .enumerate()
            .all(|(dim, (&got, &want))| {
                got as i64 == want || shape.is_dynamic_dimension(dim) && (got as i64) < want
            });
    if !array.dtype().is_equiv_to(expected) || !dims_match {
        return Err(parameter.refuse(&expectation(py, shape), &describe(&array)));
    }
    let alignment = shape.element_type.size_bytes().max(1);
    if array.is_c_contiguous() && (data_pointer(&array) as usize).is_multiple_of(alignment) {
        return Ok(array);
    }
    let copy = array.call_method1("copy", ("C",))?;
    Ok(copy.cast_into::<PyUntypedArray>().map_err(PyErr::from)?)
}

/// An array from `__array__`, the buffer protocol or DLPack.
fn from_protocols<'py>(
    value: &Bound<'py, PyAny>,
    shape: &ArrayShape,
    parameter: &ParameterName<'_>,
) -> Result<Bound<'py, PyUntypedArray>> {
    let py = value.py();
    let numpy = numpy(py)?;
    let kind = value.get_type().name()?.to_string();
    let is_array = value.hasattr("__array__")? || value.hasattr("__array_interface__")?;
    let made = if is_array {
        numpy.call_method1("asarray", (value,))
    } else if value.hasattr("__dlpack__")? {
        numpy.call_method1("from_dlpack", (value,))
    } else if matches!(
        kind.as_str(),
        "list" | "tuple" | "str" | "dict" | "set" | "NoneType"
    ) {
        let hint = "; make it an array of that dtype first";
        return Err(parameter.refuse(&expectation(py, shape), &format!("a {kind}{hint}")));
    } else {
        // What exports no buffer ends here too, with Python's own message.
        py.import("builtins")?
            .call_method1("memoryview", (value,))
            .and_then(|view| numpy.call_method1("asarray", (view,)))
    };
    let made = made.map_err(|cause| {
        let refused: PyErr = parameter
            .refuse(
                &expectation(py, shape),
                &format!("{kind}, which is no array ({})", cause.value(py)),
            )
            .into();
        refused.set_cause(py, Some(cause));
        Error::Python(refused)
    })?;
    Ok(made.cast_into::<PyUntypedArray>().map_err(PyErr::from)?)
}

/// A Python number as an array of rank 0, where its value fits; `None` when it is no number.
fn scalar<'py>(
    value: &Bound<'py, PyAny>,
    shape: &ArrayShape,
    parameter: &ParameterName<'_>,
) -> Result<Option<Bound<'py, PyUntypedArray>>> {
    let py = value.py();
    let class = shape.element_type.class();
    // NumPy's float64 and complex128 scalars are Python numbers too, but typed ones.
    if value.hasattr("dtype")? {
        return Ok(None);
    }
    let fits = if value.is_exact_instance_of::<PyBool>() {
        class == NumberClass::Pred
    } else if value.is_exact_instance_of::<PyInt>() {
        match class {
            NumberClass::Pred => false,
            NumberClass::Signed | NumberClass::Unsigned => integer_fits(value, shape.element_type)?,
            NumberClass::Float | NumberClass::Complex => value.extract::<f64>().is_ok(),
        }
    } else if value.is_exact_instance_of::<PyFloat>() {
        matches!(class, NumberClass::Float | NumberClass::Complex)
    } else if value.is_exact_instance_of::<PyComplex>() {
        class == NumberClass::Complex
    } else {
        return Ok(None);
    };
    let kind = value.get_type().name()?;
    if !fits || shape.rank() != 0 {
        let got = format!("the Python {kind} {}", value.repr()?);
        return Err(parameter.refuse(&expectation(py, shape), &got));
    }
    let dtype = numpy_dtype(py, shape.element_type)?;
    let numpy = numpy(py)?;
    // A value beyond a narrow type's range overflows with a warning, which is no news here.
    let silent = numpy.call_method(
        "errstate",
        (),
        Some(&[("over", "ignore")].into_py_dict(py)?),
    )?;
    silent.call_method0("__enter__")?;
    let array = numpy.call_method1("array", (value, dtype));
    let none = py.None();
    silent.call_method1("__exit__", (&none, &none, &none))?;
    let array = array?;
    if value.is_exact_instance_of::<PyFloat>()
        && value.extract::<f64>()?.is_finite()
        && !numpy.call_method1("isfinite", (&array,))?.is_truthy()?
    {
        let got = format!("the Python float {}, which is out of range", value.repr()?);
        return Err(parameter.refuse(&expectation(py, shape), &got));
    }
    Ok(Some(
        array.cast_into::<PyUntypedArray>().map_err(PyErr::from)?,
    ))
}

fn integer_fits(value: &Bound<'_, PyAny>, ty: PrimitiveType) -> Result<bool> {
    let Ok(value) = value.extract::<i128>() else {
        return Ok(false);
    };
    let bits = ty.bit_width();
    let range = match ty.is_signed_integral() {
        true => -(1i128 << (bits - 1))..(1i128 << (bits - 1)),
        false => 0..(1i128 << bits),
    };
    Ok(range.contains(&value))
}
