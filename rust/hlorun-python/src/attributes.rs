//! Attributes of an instruction as Python values.
//!
//! Comes in: the typed attributes of the core. Goes out: tuples, strings, numbers, dicts and
//! handles. Metadata and `backend_config` have accessors of their own and are left out here.

use hlorun::module::attributes::{
    AttrKey, AttrValue, Attribute, ConvolutionDimensionNumbers, ReplicaGroups, Window,
};
use hlorun::module::escape::unescape;
use hlorun::module::mesh_groups::iota_devices;
use hlorun::module::metadata::read_map;
use hlorun::module::{HloOpcode, InstructionId, TextRef};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict, PyString, PyTuple};

use crate::computation::PyComputation;
use crate::error::Result;
use crate::handle::SharedModule;
use crate::instruction::PyInstruction;
use crate::literal::literal_to_python;
use crate::shape::PyShape;

/// Most devices an iota of replica groups is written out for.
const MAX_IOTA_DEVICES: i64 = 1 << 20;

/// Bytes as a string where they are UTF-8, as bytes otherwise.
pub fn text_or_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyAny> {
    match std::str::from_utf8(bytes) {
        Ok(text) => PyString::new(py, text).into_any(),
        Err(_) => PyBytes::new(py, bytes).into_any(),
    }
}

/// The attributes of `id`, by the keys of HLO text, in its order.
pub fn attribute_dict<'py>(
    py: Python<'py>,
    module: &SharedModule,
    id: InstructionId,
) -> Result<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let instruction = module.module.instruction(id);
    for attribute in instruction.attributes() {
        let key = match attribute.key {
            AttrKey::Metadata | AttrKey::BackendConfig => continue,
            AttrKey::Other(text) => module.module.str(text),
            known => known.name().unwrap_or_default().into(),
        };
        dict.set_item(key, attribute_value(py, module, attribute)?)?;
    }
    let immediate = match instruction.opcode() {
        HloOpcode::GetTupleElement => Some("index"),
        HloOpcode::Iota => Some("iota_dimension"),
        _ => None,
    };
    if let Some(key) = immediate {
        dict.set_item(key, instruction.data().immediate)?;
    }
    if let Some((name, fields)) = dimension_numbers(instruction.opcode()) {
        let numbers = PyDict::new(py);
        for &(key, xla_name) in fields {
            match dict.get_item(key)? {
                Some(value) => numbers.set_item(xla_name, value)?,
                None if key == "index_vector_dim" => continue,
                None => numbers.set_item(xla_name, PyTuple::empty(py))?,
            }
        }
        dict.set_item(name, numbers)?;
    }
    Ok(dict)
}

type Fields = &'static [(&'static str, &'static str)];

/// The message XLA gathers an opcode's dimension attributes in: its name, and per attribute of the
/// text the field.
fn dimension_numbers(opcode: HloOpcode) -> Option<(&'static str, Fields)> {
    match opcode {
        HloOpcode::Dot | HloOpcode::RaggedDot | HloOpcode::ScaledDot => Some((
            "dot_dimension_numbers",
            &[
                ("lhs_contracting_dims", "lhs_contracting_dimensions"),
                ("rhs_contracting_dims", "rhs_contracting_dimensions"),
                ("lhs_batch_dims", "lhs_batch_dimensions"),
                ("rhs_batch_dims", "rhs_batch_dimensions"),
            ],
        )),
        HloOpcode::Gather => Some((
            "gather_dimension_numbers",
            &[
                ("offset_dims", "offset_dims"),
                ("collapsed_slice_dims", "collapsed_slice_dims"),
                ("start_index_map", "start_index_map"),
                ("operand_batching_dims", "operand_batching_dims"),
                ("start_indices_batching_dims", "start_indices_batching_dims"),
                ("index_vector_dim", "index_vector_dim"),
            ],
        )),
        HloOpcode::Scatter => Some((
            "scatter_dimension_numbers",
            &[
                ("update_window_dims", "update_window_dims"),
                ("inserted_window_dims", "inserted_window_dims"),
                (
                    "scatter_dims_to_operand_dims",
                    "scatter_dims_to_operand_dims",
                ),
                ("input_batching_dims", "input_batching_dims"),
                (
                    "scatter_indices_batching_dims",
                    "scatter_indices_batching_dims",
                ),
                ("index_vector_dim", "index_vector_dim"),
            ],
        )),
        _ => None,
    }
}

fn attribute_value<'py>(
    py: Python<'py>,
    module: &SharedModule,
    attribute: &Attribute,
) -> Result<Bound<'py, PyAny>> {
    let str = |text: TextRef| module.module.str(text);
    let shape = |id| PyShape {
        module: module.clone(),
        id,
    };
    let value = match &attribute.value {
        AttrValue::Bool(value) => value
            .into_pyobject(py)
            .map_err(PyErr::from)?
            .to_owned()
            .into_any(),
        AttrValue::Int(value) => value.into_pyobject(py).map_err(PyErr::from)?.into_any(),
        AttrValue::Float(value) => value.into_pyobject(py).map_err(PyErr::from)?.into_any(),
        AttrValue::Ints(range) => {
            PyTuple::new(py, module.module.int_list(*range).iter().copied())?.into_any()
        }
        AttrValue::Enum(text) => PyString::new(py, &str(*text)).into_any(),
        AttrValue::Enums(texts) => PyTuple::new(py, texts.iter().map(|&t| str(t)))?.into_any(),
        AttrValue::String(text) => text_or_bytes(py, &unescape(module.module.text().bytes(*text))),
        AttrValue::Computation(id) => Bound::new(py, PyComputation::new(module, *id))?.into_any(),
        AttrValue::Computations(ids) => {
            PyTuple::new(py, ids.iter().map(|&id| PyComputation::new(module, id)))?.into_any()
        }
        AttrValue::Instructions(ids) => {
            PyTuple::new(py, ids.iter().map(|&id| PyInstruction::new(module, id)))?.into_any()
        }
        AttrValue::Window(window) => window_dict(py, window)?.into_any(),
        AttrValue::Padding(dims) => PyTuple::new(
            py,
            dims.iter().map(|d| (d.edge_low, d.edge_high, d.interior)),
        )?
        .into_any(),
        AttrValue::Slice(dims) => {
            PyTuple::new(py, dims.iter().map(|d| (d.start, d.limit, d.stride)))?.into_any()
        }
        AttrValue::DimLabels(numbers) => convolution_dict(py, numbers)?.into_any(),
        AttrValue::ReplicaGroups(groups) => replica_groups(py, module, groups)?,
        AttrValue::Pairs(pairs) => PyTuple::new(py, pairs.iter().copied())?.into_any(),
        AttrValue::Bools(flags) => PyTuple::new(py, flags.iter().copied())?.into_any(),
        AttrValue::Aliasing(entries) => {
            let entries = entries
                .iter()
                .map(|entry| {
                    let output = PyTuple::new(py, entry.output.0.iter().copied())?;
                    let index = PyTuple::new(py, entry.operand_index.0.iter().copied())?;
                    (output, entry.operand, index).into_pyobject(py)
                })
                .collect::<PyResult<Vec<_>>>()?;
            PyTuple::new(py, entries)?.into_any()
        }
        AttrValue::Sharding(sharding) => PyString::new(py, &str(sharding.text)).into_any(),
        AttrValue::Shape(id) => Bound::new(py, shape(*id))?.into_any(),
        AttrValue::Shapes(ids) => PyTuple::new(py, ids.iter().map(|&id| shape(id)))?.into_any(),
        AttrValue::Literal(id) => literal_to_python(py, module.module.literal(*id))?,
        AttrValue::Raw(text) if attribute.key == AttrKey::FrontendAttributes => {
            read_map(module.module.text().bytes(*text))
                .into_py_dict(py)?
                .into_any()
        }
        AttrValue::Raw(text) => PyString::new(py, &str(*text)).into_any(),
    };
    Ok(value)
}

fn window_dict<'py>(py: Python<'py>, window: &Window) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let dims = &window.0;
    dict.set_item("size", PyTuple::new(py, dims.iter().map(|d| d.size))?)?;
    dict.set_item("stride", PyTuple::new(py, dims.iter().map(|d| d.stride))?)?;
    let pad = dims.iter().map(|d| (d.padding_low, d.padding_high));
    dict.set_item("pad", PyTuple::new(py, pad)?)?;
    let lhs = dims.iter().map(|d| d.base_dilation);
    dict.set_item("lhs_dilate", PyTuple::new(py, lhs)?)?;
    let rhs = dims.iter().map(|d| d.window_dilation);
    dict.set_item("rhs_dilate", PyTuple::new(py, rhs)?)?;
    let reversal = dims.iter().map(|d| d.window_reversal);
    dict.set_item("rhs_reversal", PyTuple::new(py, reversal)?)?;
    Ok(dict)
}

fn convolution_dict<'py>(
    py: Python<'py>,
    numbers: &ConvolutionDimensionNumbers,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let tuple = |dims: &[i64]| PyTuple::new(py, dims.iter().copied());
    dict.set_item("input_batch_dimension", numbers.input_batch)?;
    dict.set_item("input_feature_dimension", numbers.input_feature)?;
    dict.set_item("input_spatial_dimensions", tuple(&numbers.input_spatial)?)?;
    dict.set_item(
        "kernel_input_feature_dimension",
        numbers.kernel_input_feature,
    )?;
    dict.set_item(
        "kernel_output_feature_dimension",
        numbers.kernel_output_feature,
    )?;
    dict.set_item("kernel_spatial_dimensions", tuple(&numbers.kernel_spatial)?)?;
    dict.set_item("output_batch_dimension", numbers.output_batch)?;
    dict.set_item("output_feature_dimension", numbers.output_feature)?;
    dict.set_item("output_spatial_dimensions", tuple(&numbers.output_spatial)?)?;
    Ok(dict)
}

fn replica_groups<'py>(
    py: Python<'py>,
    module: &SharedModule,
    groups: &ReplicaGroups,
) -> PyResult<Bound<'py, PyAny>> {
    match groups {
        ReplicaGroups::List(groups) => {
            let groups = groups
                .iter()
                .map(|group| PyTuple::new(py, group.iter().copied()))
                .collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, groups)?.into_any())
        }
        ReplicaGroups::Iota {
            tile,
            reshape,
            transpose,
        } => {
            let devices = iota_devices(reshape, transpose, MAX_IOTA_DEVICES);
            let Some(devices) = devices.filter(|devices| !devices.is_empty()) else {
                let dict = PyDict::new(py);
                dict.set_item("tile", PyTuple::new(py, tile.iter().copied())?)?;
                dict.set_item("reshape", PyTuple::new(py, reshape.iter().copied())?)?;
                dict.set_item("transpose", PyTuple::new(py, transpose.iter().copied())?)?;
                return Ok(dict.into_any());
            };
            let count = tile.first().copied().unwrap_or(1).max(1) as usize;
            let size = (devices.len() / count).max(1);
            let groups = devices
                .chunks(size)
                .map(|group| PyTuple::new(py, group.iter().copied()))
                .collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, groups)?.into_any())
        }
        ReplicaGroups::Mesh(text) => Ok(PyString::new(py, &module.module.str(*text)).into_any()),
    }
}
