//! Replicas and partitions from Python.
//!
//! Comes in: one list of values per device, and a transport when other processes take part. Goes
//! out: one result per device. Promise: an array that several devices are given is held once; a
//! transport is called without any lock of the core held.

use std::time::Duration;

use hlorun::HloError;
use hlorun::buffers::AlignedBytes;
use hlorun::exec::{ArrayRef, DeviceArrays, Network, RunOptions, Transport};
use hlorun::plan::Executable;
use hlorun::plan::spmd::groups::Devices;
use numpy::PyUntypedArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::array::data_pointer;
use crate::error::{Error, Result};
use crate::executable::PyExecutable;
use crate::watch::{TimeLimit, run_detached};

/// The processes a run spans, over a Python object with `rank`, `size`, `send(rank, message)` and
/// `receive(patience)`, which returns `(rank, message)` or None.
#[pyclass(frozen, module = "hlorun", name = "_Network")]
pub struct PyNetwork {
    network: Network,
}

struct PyTransport {
    object: Py<PyAny>,
    rank: u32,
    size: u32,
}

/// An exception of the transport as the core's error.
fn failed(py: Python<'_>, error: &PyErr) -> HloError {
    HloError::execution(error.value(py).to_string())
}

impl Transport for PyTransport {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn send(&self, rank: u32, message: Vec<u8>) -> hlorun::Result<()> {
        Python::attach(|py| {
            let bytes = PyBytes::new(py, &message);
            drop(message);
            match self.object.call_method1(py, "send", (rank, bytes)) {
                Ok(_) => Ok(()),
                Err(error) => Err(failed(py, &error)),
            }
        })
    }

    fn receive(&self, patience: Duration) -> hlorun::Result<Option<(u32, Vec<u8>)>> {
        Python::attach(|py| {
            let seconds = patience.as_secs_f64();
            let received = self
                .object
                .call_method1(py, "receive", (seconds,))
                .and_then(|received| {
                    let received = received.bind(py);
                    if received.is_none() {
                        return Ok(None);
                    }
                    let rank: u32 = received.get_item(0)?.extract()?;
                    let bytes = received.get_item(1)?;
                    let bytes = bytes.cast::<PyBytes>().map_err(PyErr::from)?;
                    Ok(Some((rank, bytes.as_bytes().to_vec())))
                });
            received.map_err(|error| failed(py, &error))
        })
    }
}

#[pymethods]
impl PyNetwork {
    #[new]
    fn new(transport: &Bound<'_, PyAny>, silence: f64) -> PyResult<PyNetwork> {
        let rank = transport.getattr("rank")?.extract()?;
        let size = transport.getattr("size")?.extract()?;
        let silence = Duration::try_from_secs_f64(silence)
            .map_err(|error| PyValueError::new_err(format!("silence: {error}")))?;
        let object = transport.clone().unbind();
        let transport = PyTransport { object, rank, size };
        Ok(PyNetwork {
            network: Network::new(Box::new(transport), silence),
        })
    }

    /// Numbers of the devices that run in this process: first, and one past the last.
    fn local(&self, replicas: u32, partitions: u32) -> (u32, u32) {
        let local = self.network.local(Devices {
            replicas,
            partitions,
        });
        (local.start, local.end)
    }
}

/// Runs the devices that are here on their lists of values.
pub fn run<'py>(
    executable: &PyExecutable,
    py: Python<'py>,
    lists: &Bound<'py, PyAny>,
    network: Option<&Bound<'py, PyNetwork>>,
    observer: Option<&Bound<'py, PyAny>>,
    limit: TimeLimit,
) -> Result<Bound<'py, PyList>> {
    let network = network.map(|network| &network.get().network);
    let core = match observer {
        Some(_) => executable.observed(py)?,
        None => executable.core(),
    };
    let devices = core.devices();
    let local = network.map_or(0..devices.count(), |network| network.local(devices));
    let values = lists_of_values(lists, local.len())?;
    if values.len() != local.len() {
        let here = match network {
            None => String::new(),
            Some(_) => format!(", {} of them in this process", local.len()),
        };
        return Err(Error::Hlo(HloError::argument(format!(
            "compiled for {devices}{here}: expects {} lists of values, got {}",
            local.len(),
            values.len()
        ))));
    }
    let arguments = shared_arguments(executable, local.start, &values)?;
    let mut arrays: Vec<DeviceArrays> = arguments
        .iter()
        .map(|arguments| DeviceArrays {
            inputs: arguments
                .iter()
                .map(|array| data_pointer(array).cast_const())
                .collect(),
            outputs: Vec::new(),
        })
        .collect();
    let is_common = match network {
        None => core.common_outputs(&arrays),
        Some(_) => vec![false; core.outputs().len()],
    };
    let blocks = result_blocks(core, &mut arrays, &is_common)?;
    let callbacks = executable.callbacks(core);
    let observer = observer.map(|function| function.clone().unbind());
    run_detached(py, &callbacks, limit, &|options| {
        let observe = |device, id, leaves: &[ArrayRef<'_>]| match &observer {
            Some(function) => callbacks.observe(function, Some(device), id, leaves),
            None => Ok(()),
        };
        let options = &RunOptions {
            observer: observer.as_ref().map(|_| &observe as _),
            ..*options
        };
        // SAFETY: every input is dense, row-major and of its leaf's type and sizes; every output is
        // a block with its leaf's size of its own, or of all where `common_outputs` allows it; all
        // outlive the call.
        unsafe { core.run_devices(&arrays, network, options) }
    })?;
    drop(arguments);
    results(executable, py, blocks, &is_common)
}

/// The values of each of `count` devices.
fn lists_of_values<'py>(
    lists: &Bound<'py, PyAny>,
    count: usize,
) -> Result<Vec<Vec<Bound<'py, PyAny>>>> {
    let mut values: Vec<Vec<Bound<'py, PyAny>>> = Vec::with_capacity(count);
    for list in lists.try_iter()? {
        let list = list?;
        let is_array = list.hasattr("__array__")? || list.is_instance_of::<PyString>();
        if is_array || list.try_iter().is_err() {
            let got = list.get_type().name()?.to_string();
            let message = format!("expects a list of values for each replica, got a {got}");
            return Err(Error::Hlo(HloError::argument(message)));
        }
        values.push(list.try_iter()?.collect::<PyResult<_>>()?);
    }
    Ok(values)
}

/// Memory for the results, by devices: none where a result is one for all devices, which the first
/// has. Enters its places in `arrays`.
fn result_blocks(
    core: &Executable,
    arrays: &mut [DeviceArrays],
    is_common: &[bool],
) -> Result<Vec<Vec<Option<AlignedBytes>>>> {
    let mut blocks: Vec<Vec<Option<AlignedBytes>>> = Vec::with_capacity(arrays.len());
    for device in 0..arrays.len() {
        let mut here = Vec::with_capacity(is_common.len());
        for (leaf, &is_common) in core.outputs().iter().zip(is_common) {
            here.push(match is_common && device > 0 {
                true => None,
                false => Some(AlignedBytes::uninitialized(leaf.byte_size())?),
            });
        }
        blocks.push(here);
    }
    for device in 0..arrays.len() {
        for (leaf, block) in blocks[device].iter_mut().enumerate() {
            let pointer = match block {
                Some(block) => block.as_mut_ptr(),
                None => arrays[0].outputs[leaf],
            };
            arrays[device].outputs.push(pointer);
        }
    }
    Ok(blocks)
}

/// The results in `blocks` as Python has them, by devices.
fn results<'py>(
    executable: &PyExecutable,
    py: Python<'py>,
    blocks: Vec<Vec<Option<AlignedBytes>>>,
    is_common: &[bool],
) -> Result<Bound<'py, PyList>> {
    let mut common: Vec<Option<Bound<'py, PyAny>>> = vec![None; is_common.len()];
    let results = PyList::empty(py);
    for blocks in blocks {
        let mut outputs = Vec::with_capacity(blocks.len());
        for (leaf, block) in blocks.into_iter().enumerate() {
            outputs.push(match (block, &common[leaf]) {
                (None, Some(array)) => array.clone(),
                (None, None) => {
                    return Err(Error::Hlo(HloError::execution("a result has no array")));
                }
                (Some(block), _) => {
                    let array = executable.result_array(py, leaf, block)?;
                    if is_common[leaf] {
                        // Writing to one device's result must not change the others'.
                        array.getattr("flags")?.setattr("writeable", false)?;
                        common[leaf] = Some(array.clone());
                    }
                    array
                }
            });
        }
        results.append(executable.result(py, outputs)?)?;
    }
    Ok(results)
}

/// The error of an argument, with the device it is for.
fn of_device(error: Error, devices: Devices, device: u32) -> Error {
    match error {
        Error::Hlo(HloError::Argument(message)) => {
            let name = devices.name(device);
            Error::Hlo(HloError::argument(format!("{name}: {message}")))
        }
        other => other,
    }
}

/// The arrays of every device's values. A value that several devices have is converted once.
fn shared_arguments<'py>(
    executable: &PyExecutable,
    first: u32,
    values: &[Vec<Bound<'py, PyAny>>],
) -> Result<Vec<Vec<Bound<'py, PyUntypedArray>>>> {
    let mut all: Vec<Vec<Bound<'py, PyUntypedArray>>> = Vec::with_capacity(values.len());
    let parameters = executable.core().parameters();
    let devices = executable.core().devices();
    for list in values {
        if list.len() != parameters.len() {
            let error = executable.wrong_count(list.len());
            return Err(of_device(error, devices, first + all.len() as u32));
        }
        let mut arrays = Vec::with_capacity(executable.core().inputs().len());
        for (number, value) in list.iter().enumerate() {
            let known = values[..all.len()]
                .iter()
                .position(|other| other[number].is(value));
            match known {
                Some(device) => {
                    let leaves = parameters[number].leaves.clone();
                    arrays.extend_from_slice(&all[device][leaves]);
                }
                None => executable
                    .argument(number, value, &mut arrays)
                    .map_err(|error| of_device(error, devices, first + all.len() as u32))?,
            }
        }
        all.push(arrays);
    }
    Ok(all)
}
