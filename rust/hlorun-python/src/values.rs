//! Nested Python values to and from the flat lists of arrays a run takes.
//!
//! Comes in: a value per parameter, tuples nested as the shape says. Goes out: its arrays in order;
//! and the other way round for results. Promise: nothing recurses on a shape's nesting.

use hlorun::module::HloModule;
use hlorun::types::{Shape, ShapeId};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::array::{ParameterName, argument};
use crate::error::Result;

/// Appends the arrays of `value`, which is for a parameter of shape `id`.
///
/// # Errors
/// `HloArgumentError` where the value does not fit.
pub fn flatten<'py>(
    module: &HloModule,
    id: ShapeId,
    value: &Bound<'py, PyAny>,
    parameter: &ParameterName<'_>,
    arrays: &mut Vec<Bound<'py, PyUntypedArray>>,
) -> Result<()> {
    if let Shape::Array(shape) = module.shapes().get(id) {
        arrays.push(argument(value, shape, parameter)?);
        return Ok(());
    }
    let mut stack = vec![(id, value.clone(), String::new())];
    while let Some((id, value, index)) = stack.pop() {
        let name = format!("{}{index}", parameter.name);
        let part = ParameterName {
            number: parameter.number,
            name: &name,
        };
        match module.shapes().get(id) {
            Shape::Array(shape) => arrays.push(argument(&value, shape, &part)?),
            Shape::Buffer(shape) => stack.push((*shape, value, index)),
            Shape::Token | Shape::Opaque => {
                if !value.is_none() {
                    let got = value.get_type().name()?.to_string();
                    return Err(part.refuse(&"None for a token", &got));
                }
            }
            Shape::Tuple(shapes) => {
                let is_sequence =
                    value.is_instance_of::<PyTuple>() || value.is_instance_of::<PyList>();
                let expects = format!("a tuple of {} values", shapes.len());
                if !is_sequence {
                    let got = value.get_type().name()?.to_string();
                    return Err(part.refuse(&expects, &got));
                }
                if value.len()? != shapes.len() {
                    let got = format!("one of {}", value.len()?);
                    return Err(part.refuse(&expects, &got));
                }
                for (i, &shape) in shapes.iter().enumerate().rev() {
                    stack.push((shape, value.get_item(i)?, format!("{index}{{{i}}}")));
                }
            }
        }
    }
    Ok(())
}

/// Nests `arrays` as the shape `id` does; tokens become None.
pub fn unflatten<'py>(
    py: Python<'py>,
    module: &HloModule,
    id: ShapeId,
    arrays: Vec<Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    enum Step {
        Shape(ShapeId),
        Close(usize),
    }
    let mut arrays = arrays.into_iter();
    let mut done: Vec<Bound<'py, PyAny>> = Vec::new();
    let mut stack = vec![Step::Shape(id)];
    while let Some(step) = stack.pop() {
        match step {
            Step::Shape(id) => match module.shapes().get(id) {
                Shape::Array(_) => done.extend(arrays.next()),
                Shape::Buffer(shape) => stack.push(Step::Shape(*shape)),
                Shape::Token | Shape::Opaque => done.push(py.None().into_bound(py)),
                Shape::Tuple(parts) => {
                    stack.push(Step::Close(parts.len()));
                    stack.extend(parts.iter().rev().map(|&part| Step::Shape(part)));
                }
            },
            Step::Close(count) => {
                let parts = done.split_off(done.len().saturating_sub(count));
                done.push(PyTuple::new(py, parts)?.into_any());
            }
        }
    }
    Ok(done.pop().unwrap_or_else(|| py.None().into_bound(py)))
}
