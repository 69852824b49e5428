//! Runs: buffers in, buffers out, all of which are there when the call returns.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use foldhash::HashMap;
use hlorun::buffers::AlignedBytes;
use hlorun::exec::DeviceArrays;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::abi::{Call, Extension, In, Ref, args};
use super::buffer::{Buffer, Storage, shape_text};
use super::device::Device;
use super::error::{Failure, Outcome};
use super::event::{Event, ready};
use super::executable::Program;
use super::handles::{Handle, Place, give};
use crate::error::Error;
use crate::watch::{TimeLimit, run_unlocked};

/// `PJRT_ExecuteOptions`, as far as it is looked at.
#[repr(C)]
pub struct Options {
    struct_size: usize,
    extension_start: *const Extension,
    send_callbacks: *const (),
    recv_callbacks: *const (),
    num_send_ops: usize,
    num_recv_ops: usize,
    launch_id: i32,
    not_donated: In<i64>,
}

args! {
    Execute "PJRT_LoadedExecutable_Execute" {
        executable: Handle<Program>,
        options: Ref<Options>,
        arguments: *const *const Handle<Buffer>,
        num_devices: usize,
        num_args: usize,
        outputs: *const *mut Handle<Buffer>,
        events: *mut Handle<Event>,
        device: Ref<Device>,
    }
}

/// The arguments and the memory of the results of one device.
struct Lane<'a> {
    device: &'static Device,
    arguments: &'a [Handle<Buffer>],
    inputs: Vec<Arc<Storage>>,
    outputs: Vec<Option<AlignedBytes>>,
}

impl Call for Execute {
    fn call(&mut self) -> Outcome<()> {
        let program: &Program = &*self.executable.get("executable")?;
        program.require_alive()?;
        let not_donated = self.not_donated()?;
        let mut lanes = self.lanes(program)?;
        let donated = donated(program, not_donated, &lanes)?;
        let storages = match &mut lanes[..] {
            [lane] => vec![run_one(program, lane)?],
            lanes => run_all(program, lanes)?,
        };
        let leaves = program.executable().core().outputs();
        let mut results = Vec::with_capacity(lanes.len());
        for (lane, storages) in lanes.iter().zip(&storages) {
            let buffers = program.outputs().iter().map(|output| match *output {
                Some(output) => {
                    let leaf = &leaves[output];
                    let storage = storages[output].clone();
                    let buffer = Buffer::new(storage, lane.device, leaf.element_type, &leaf.dims);
                    Ok(buffer)
                }
                None => Buffer::token(lane.device),
            });
            results.push(buffers.collect::<Outcome<Vec<Buffer>>>()?);
        }
        // Nothing fails from here on: a failed call leaves its arguments as they were.
        donated.iter().for_each(|buffer| buffer.delete());
        for (number, buffers) in results.into_iter().enumerate() {
            for (at, buffer) in buffers.into_iter().enumerate() {
                // SAFETY: `lanes` found a list for every device; C promises room for every result.
                unsafe { (*self.outputs.add(number)).add(at).write(give(buffer)) };
            }
            if !self.events.is_null() {
                // SAFETY: C promises room for an event of every device, or null.
                unsafe { self.events.add(number).write(ready()) };
            }
        }
        Ok(())
    }
}

impl Execute {
    /// Parameters that keep their arrays, whatever the module says.
    fn not_donated<'a>(&self) -> Outcome<&'a [i64]> {
        let Some(options) = self.options.optional() else {
            return Ok(&[]);
        };
        let needed = std::mem::offset_of!(Options, not_donated) + size_of::<In<i64>>();
        if options.struct_size < needed {
            return Ok(&[]);
        }
        if options.num_send_ops > 0 || options.num_recv_ops > 0 {
            return Err(Failure::unsupported(
                "callbacks of host transfers are not supported",
            ));
        }
        options
            .not_donated
            .get("the parameters that are not donated")
    }

    /// The arguments of every device, which fit the program.
    fn lanes<'a>(&self, program: &Program) -> Outcome<Vec<Lane<'a>>> {
        let count = program.devices.len();
        if self.num_devices != count {
            let message = format!(
                "{} lists of arguments for {count} devices",
                self.num_devices
            );
            return Err(Failure::argument(message));
        }
        if self.arguments.is_null() || self.outputs.is_null() {
            return Err(Failure::argument(
                "the lists of arguments or results are null",
            ));
        }
        let has_outputs = !program.outputs().is_empty();
        let mut lanes = Vec::with_capacity(count);
        for (number, &planned) in program.devices.iter().enumerate() {
            // SAFETY: C promises a list of arguments and one of results for every device, and so many
            // arguments in each.
            let (arguments, outputs) = unsafe {
                let arguments = In::new(*self.arguments.add(number), self.num_args);
                (arguments, *self.outputs.add(number))
            };
            if has_outputs && outputs.is_null() {
                return Err(Failure::argument("the list of results is null"));
            }
            let arguments = arguments.get("the arguments")?;
            let device = match self.device.optional() {
                Some(device) if count == 1 => device,
                _ => planned,
            };
            lanes.push(Lane::new(program, device, arguments)?);
        }
        Ok(lanes)
    }
}

/// The arguments that the run takes, each of which is an argument once.
fn donated(
    program: &Program,
    not_donated: &[i64],
    lanes: &[Lane<'_>],
) -> Outcome<Vec<Arc<Buffer>>> {
    let is_donated = |at: &usize| !not_donated.contains(&(*at as i64));
    let donated: Vec<usize> = program.donated.iter().copied().filter(is_donated).collect();
    let mut buffers = Vec::with_capacity(donated.len() * lanes.len());
    if donated.is_empty() {
        return Ok(buffers);
    }
    let mut takers: HashMap<*const Place<Buffer>, usize> = HashMap::default();
    for lane in lanes {
        for &at in &donated {
            let buffer = lane.arguments[at].get("argument")?;
            if let Some(first) = takers.insert(lane.arguments[at].pointer(), at) {
                return Err(Failure::argument(format!(
                    "Attempt to donate the same buffer twice in Execute(): it is argument {first} and {at}"
                )));
            }
            buffers.push(buffer);
        }
        for (at, argument) in lane.arguments.iter().enumerate() {
            if let Some(&taker) = takers.get(&argument.pointer())
                && taker != at
            {
                return Err(Failure::argument(format!(
                    "Attempt to use a buffer that was previously donated in the same call to Execute(): \
                     argument {at} is the donated argument {taker}"
                )));
            }
        }
    }
    Ok(buffers)
}

impl<'a> Lane<'a> {
    fn new(
        program: &Program,
        device: &'static Device,
        arguments: &'a [Handle<Buffer>],
    ) -> Outcome<Lane<'a>> {
        let core = program.executable().core();
        let leaves = core.inputs();
        if arguments.len() != program.parameters.len() {
            return Err(Failure::argument(format!(
                "{} arguments for a program of {} parameters",
                arguments.len(),
                program.parameters.len()
            )));
        }
        let mut inputs = Vec::with_capacity(leaves.len());
        for (number, (argument, input)) in arguments.iter().zip(&program.parameters).enumerate() {
            let Some(input) = *input else { continue };
            let leaf = &leaves[input];
            let buffer = argument.get("argument")?;
            if buffer.element_type != leaf.element_type || buffer.dims != leaf.dims {
                return Err(Failure::argument(format!(
                    "argument {number} is {}; the program takes {}",
                    shape_text(buffer.element_type, &buffer.dims),
                    shape_text(leaf.element_type, &leaf.dims)
                )));
            }
            if !std::ptr::eq(buffer.device, device) {
                return Err(Failure::argument(format!(
                    "argument {number} is on device {}; the program runs on device {}",
                    buffer.device.id(),
                    device.id()
                )));
            }
            inputs.push(buffer.storage()?);
        }
        Ok(Lane {
            device,
            arguments,
            inputs,
            outputs: Vec::new(),
        })
    }

    /// Addresses of arguments, and of memory for the results, which is made here unless `common` says
    /// that another device's is this one's, too.
    fn addresses(
        &mut self,
        program: &Program,
        common: Option<(&[bool], &[*mut u8])>,
    ) -> Outcome<DeviceArrays> {
        let leaves = program.executable().core().outputs();
        let mut outputs = Vec::with_capacity(leaves.len());
        for (at, leaf) in leaves.iter().enumerate() {
            if let Some((is_common, first)) = common
                && is_common[at]
            {
                outputs.push(first[at]);
                self.outputs.push(None);
                continue;
            }
            let mut block = AlignedBytes::uninitialized(leaf.byte_size())?;
            outputs.push(block.as_mut_ptr());
            self.outputs.push(Some(block));
        }
        Ok(DeviceArrays {
            inputs: self.inputs.iter().map(|input| input.pointer()).collect(),
            outputs,
        })
    }

    /// The results, which are written; those in common are the first device's.
    fn storages(&mut self, first: Option<&[Arc<Storage>]>) -> Outcome<Vec<Arc<Storage>>> {
        let blocks = std::mem::take(&mut self.outputs).into_iter();
        blocks
            .enumerate()
            .map(|(at, block)| match (block, first) {
                (Some(block), _) => Ok(Arc::new(Storage::new(block, self.device))),
                (None, Some(first)) => Ok(first[at].clone()),
                (None, None) => Err(Failure::internal("a result without memory")),
            })
            .collect()
    }
}

/// Runs on one device.
fn run_one(program: &Program, lane: &mut Lane<'_>) -> Outcome<Vec<Arc<Storage>>> {
    let addresses = [lane.addresses(program, None)?];
    let executable = program.executable();
    let core = executable.core();
    run_unlocked(
        &executable.callbacks(core),
        TimeLimit::default(),
        &|options| {
            let [DeviceArrays { inputs, outputs }] = &addresses;
            // SAFETY: every input is a buffer's storage, dense, row-major, of its leaf's type and sizes,
            // and never written; every output is a new block of its leaf's size; all outlive the call.
            unsafe { core.run(inputs, outputs, options) }
        },
    )
    .map_err(failed)?;
    lane.storages(None)
}

/// Runs on several devices together.
fn run_all(program: &Program, lanes: &mut [Lane<'_>]) -> Outcome<Vec<Vec<Arc<Storage>>>> {
    let executable = program.executable();
    let core = executable.core();
    let inputs = lanes.iter().map(|lane| DeviceArrays {
        inputs: lane.inputs.iter().map(|input| input.pointer()).collect(),
        outputs: Vec::new(),
    });
    let is_common = core.common_outputs(&inputs.collect::<Vec<_>>());
    let mut arrays: Vec<DeviceArrays> = Vec::with_capacity(lanes.len());
    for lane in lanes.iter_mut() {
        let first = arrays
            .first()
            .map(|first| (&is_common[..], &first.outputs[..]));
        arrays.push(lane.addresses(program, first)?);
    }
    run_unlocked(
        &executable.callbacks(core),
        TimeLimit::default(),
        &|options| {
            // SAFETY: as in `run_one` for every device; outputs are one for all devices where
            // `common_outputs` allows it.
            unsafe { core.run_devices(&arrays, None, options) }
        },
    )
    .map_err(failed)?;
    let mut storages: Vec<Vec<Arc<Storage>>> = Vec::with_capacity(lanes.len());
    for lane in lanes {
        let made = lane.storages(storages.first().map(|first| &first[..]))?;
        storages.push(made);
    }
    Ok(storages)
}

/// The failure of a run. What is no `Exception`, such as a `KeyboardInterrupt` that a signal's handler
/// raised, is raised again on Python's main thread: whoever catches errors must not catch it.
#[cold]
fn failed(error: Error) -> Failure {
    if let Error::Python(error) = &error {
        Python::attach(|py| {
            if !error.is_instance_of::<PyException>(py) {
                raise_later(error.clone_ref(py));
            }
        });
    }
    error.into()
}

/// Raises an exception on Python's main thread, as soon as that runs Python code.
fn raise_later(error: PyErr) {
    extern "C" fn raise(error: *mut c_void) -> c_int {
        // SAFETY: `raise_later` gave the box to this one call.
        let error = unsafe { Box::from_raw(error.cast::<PyErr>()) };
        Python::attach(|py| error.restore(py));
        -1
    }
    let error = Box::into_raw(Box::new(error));
    // SAFETY: any thread may call it; `raise` takes the box.
    if unsafe { pyo3::ffi::Py_AddPendingCall(Some(raise), error.cast()) } != 0 {
        // SAFETY: the list of pending calls was full, so that nobody else has the box.
        drop(unsafe { Box::from_raw(error) });
    }
}
