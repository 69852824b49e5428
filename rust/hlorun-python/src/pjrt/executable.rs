//! Executables: a plan, the devices it runs on, and what C asks about it.
//!
//! A `PJRT_LoadedExecutable` and a `PJRT_Executable` are the same object under two handles.

use std::ffi::{c_int, c_void};
use std::mem::{self, ManuallyDrop};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use hlorun::analysis::cost::Key;
use hlorun::plan;
use hlorun::plan::memory::assign::AllocationKind;
use hlorun::types::{Shape, ShapeId};
use pyo3::prelude::*;

use super::abi::{Call, Flag, Handles, Out, OwnedBytes, args};
use super::compile::{ProgramText, serialize};
use super::device::{Device, MEMORY_KIND};
use super::error::{Failure, Outcome};
use super::handles::{Handle, give, give_shared, objects};
use super::layouts::Layout;
use super::named::{NamedValue, Shown, Value};
use super::options::{Placement, assignment, with_config};
use super::types::{TOKEN, number};
use crate::executable::PyExecutable;

/// How [`OptimizedProgram`] gives the module.
const FORMAT: &str = "hlo_with_config";

/// What Python made of a program.
pub struct Made {
    pub executable: Py<PyExecutable>,
    /// What has to live as long: functions of host callbacks; None where there are none.
    pub keep: Py<PyAny>,
    pub options: Vec<u8>,
}

/// What C asks about the results: parallel lists.
#[derive(Default)]
struct Results {
    types: Vec<i32>,
    dims: Vec<i64>,
    ranks: Vec<usize>,
    memory_kinds: Vec<*const u8>,
    memory_kind_sizes: Vec<usize>,
    layouts: Vec<Handle<Layout>>,
    /// The output that each is; None for a token.
    outputs: Vec<Option<usize>>,
}

// SAFETY: the pointers lead to a constant, and the handles may be used by any thread.
unsafe impl Send for Results {}
// SAFETY: as above.
unsafe impl Sync for Results {}

/// What a run costs, by names, and how C sees it.
struct Costs {
    /// The values, whose names are the texts.
    shown: Shown,
    _names: Vec<String>,
}

/// What a program keeps of Python.
struct Objects {
    executable: Py<PyExecutable>,
    /// As in [`Made`].
    keep: Py<PyAny>,
}

/// An executable.
pub struct Program {
    python: ManuallyDrop<Objects>,
    pub options: Vec<u8>,
    pub devices: Vec<&'static Device>,
    device_handles: Handles<Device>,
    /// The input that each parameter is; None for a token.
    pub parameters: Vec<Option<usize>>,
    /// Parameters whose arrays are deleted by a run.
    pub donated: Vec<usize>,
    name: String,
    results: Results,
    fingerprint: OnceLock<String>,
    costs: OnceLock<Costs>,
    is_deleted: AtomicBool,
}

impl Program {
    /// The plan on its devices.
    pub fn new(made: Made, placement: Placement) -> Outcome<Program> {
        let core = made.executable.get().core();
        if !core.dynamic_sizes().is_empty() {
            let message = "results whose sizes a run finds out have no buffers";
            return Err(Failure::unsupported(message));
        }
        let mut parameters = Vec::with_capacity(core.parameters().len());
        for parameter in core.parameters() {
            parameters.push(match parts(core, parameter.shape)?[..] {
                [Part::Array] => Some(parameter.leaves.start),
                [Part::Token] => None,
                _ => {
                    let message = format!("parameter {} is a tuple", parameter.name);
                    return Err(Failure::unsupported(message));
                }
            });
        }
        let module = &made.executable.get().shared_module().module;
        Ok(Program {
            device_handles: Handles::of(placement.devices.iter().copied()),
            devices: placement.devices,
            donated: donated(made.executable.get()),
            name: module.str(module.name).into_owned(),
            parameters,
            results: Results::of(core)?,
            python: ManuallyDrop::new(Objects {
                executable: made.executable,
                keep: made.keep,
            }),
            options: made.options,
            fingerprint: OnceLock::new(),
            costs: OnceLock::new(),
            is_deleted: AtomicBool::new(false),
        })
    }

    /// What runs.
    pub fn executable(&self) -> &PyExecutable {
        self.python.executable.get()
    }

    /// Whether it calls Python functions of this process.
    pub fn has_functions(&self) -> bool {
        Python::attach(|py| !self.python.keep.is_none(py))
    }

    /// Ends where it has been deleted.
    pub fn require_alive(&self) -> Outcome<()> {
        match self.is_deleted.load(Ordering::Relaxed) {
            true => Err(Failure::argument("the executable has been deleted")),
            false => Ok(()),
        }
    }

    /// Its module as a serialized `HloModuleProto`.
    pub fn proto(&self) -> Outcome<&[u8]> {
        match self.executable().shared_module().proto_bytes() {
            Ok(Some(bytes)) => Ok(bytes),
            Err(error) => Err(Failure::internal(error.to_string())),
            Ok(None) => Err(Failure::internal("the module came from no proto")),
        }
    }

    /// The output of the plan that each result is; None for a token.
    pub fn outputs(&self) -> &[Option<usize>] {
        &self.results.outputs
    }

    /// The layouts of the results.
    pub fn layouts(&self) -> &[Handle<Layout>] {
        &self.results.layouts
    }

    fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| {
            let module = self.executable().shared_module();
            let devices = self.executable().core().devices();
            format!(
                "hlorun-{}-{}-{}x{}",
                env!("CARGO_PKG_VERSION"),
                module.module.fingerprint(),
                devices.replicas,
                devices.partitions
            )
        })
    }

    fn costs(&self) -> Outcome<&[NamedValue]> {
        if let Some(costs) = self.costs.get() {
            return Ok(costs.shown.values());
        }
        let total = &self.executable().shared_module().costs()?.total;
        let mut values = vec![];
        for key in [Key::Flops, Key::Transcendentals, Key::BytesAccessed] {
            values.push((key.to_string(), total.get(&key)));
        }
        for (key, value) in total.iter() {
            let name = key.to_string();
            if !values.iter().any(|(known, _)| *known == name) {
                values.push((name, value));
            }
        }
        let shown = values
            .iter()
            .map(|(name, value)| NamedValue::new(name, Value::Float(*value as f32)));
        // The texts stay where they are when their owner moves.
        let costs = Costs {
            shown: Shown::new(shown.collect()),
            _names: values.into_iter().map(|(name, _)| name).collect(),
        };
        Ok(self.costs.get_or_init(|| costs).shown.values())
    }
}

/// Parameters that the module's header says a result takes the place of.
fn donated(executable: &PyExecutable) -> Vec<usize> {
    let config = &executable.shared_module().module.config;
    let aliased = config
        .input_output_alias
        .iter()
        .map(|alias| alias.parameter);
    let donors = config.buffer_donor.iter().map(|donor| donor.parameter);
    let count = executable.core().parameters().len();
    let mut numbers: Vec<usize> = aliased
        .chain(donors)
        .filter_map(|number| usize::try_from(number).ok())
        .filter(|&number| number < count)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// What a shape is made of, tuples taken apart.
#[derive(Clone, Copy)]
enum Part {
    Array,
    Token,
}

/// Most parts of a shape.
const MAX_PARTS: usize = 1 << 20;

fn parts(core: &plan::Executable, shape: ShapeId) -> Outcome<Vec<Part>> {
    let shapes = core.module().shapes();
    let leaves = shapes.leaves(shape, MAX_PARTS);
    let leaves = leaves.ok_or_else(|| Failure::unsupported("a shape of too many parts"))?;
    let part = |id| match shapes.get(id) {
        Shape::Array(_) => Ok(Part::Array),
        Shape::Token => Ok(Part::Token),
        _ => Err(Failure::unsupported(
            "a parameter or result that is neither an array nor a token",
        )),
    };
    leaves.iter().map(|leaf| part(leaf.1)).collect()
}

impl Results {
    fn of(core: &plan::Executable) -> Outcome<Results> {
        let mut results = Results::default();
        let mut leaves = core.outputs().iter().enumerate();
        for part in parts(core, core.result_shape_id())? {
            let (number, dims, output) = match part {
                Part::Token => (TOKEN, &[][..], None),
                Part::Array => {
                    let (at, leaf) = leaves
                        .next()
                        .ok_or_else(|| Failure::internal("a result without an output"))?;
                    (number(leaf.element_type)?, &leaf.dims[..], Some(at))
                }
            };
            results.types.push(number);
            results.dims.extend_from_slice(dims);
            results.ranks.push(dims.len());
            results.memory_kinds.push(MEMORY_KIND.as_ptr());
            results.memory_kind_sizes.push(MEMORY_KIND.len());
            results.layouts.push(give(Layout::of_rank(dims.len())));
            results.outputs.push(output);
        }
        Ok(results)
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        for layout in &self.layouts {
            drop(layout.destroy());
        }
    }
}

objects!(Program);

args! {
    Destroy "PJRT_Executable_Destroy" { executable: Handle<Program> }
    DestroyLoaded "PJRT_LoadedExecutable_Destroy" { executable: Handle<Program> }
    GetExecutable "PJRT_LoadedExecutable_GetExecutable" {
        loaded: Handle<Program>,
        executable: Handle<Program>,
    }
    Name "PJRT_Executable_Name" { executable: Handle<Program>, name: Out<u8> }
    NumReplicas "PJRT_Executable_NumReplicas" { executable: Handle<Program>, count: usize }
    NumPartitions "PJRT_Executable_NumPartitions" { executable: Handle<Program>, count: usize }
    NumOutputs "PJRT_Executable_NumOutputs" { executable: Handle<Program>, count: usize }
    CodeSize "PJRT_Executable_SizeOfGeneratedCodeInBytes" {
        executable: Handle<Program>,
        bytes: i64,
    }
    AddressableDevices "PJRT_LoadedExecutable_AddressableDevices" {
        executable: Handle<Program>,
        devices: Out<*const Device>,
    }
    OptimizedProgram "PJRT_Executable_OptimizedProgram" {
        executable: Handle<Program>,
        program: *mut ProgramText,
    }
    Delete "PJRT_LoadedExecutable_Delete" { executable: Handle<Program> }
    IsDeleted "PJRT_LoadedExecutable_IsDeleted" { executable: Handle<Program>, is_deleted: Flag }
    Fingerprint "PJRT_Executable_Fingerprint" { executable: Handle<Program>, fingerprint: Out<u8> }
    FingerprintLoaded "PJRT_LoadedExecutable_Fingerprint" {
        executable: Handle<Program>,
        fingerprint: Out<u8>,
    }
    CostAnalysis "PJRT_Executable_GetCostAnalysis" {
        executable: Handle<Program>,
        len: usize,
        properties: *const NamedValue,
    }
    MemoryStats "PJRT_Executable_GetCompiledMemoryStats" {
        executable: Handle<Program>,
        code: i64,
        arguments: i64,
        outputs: i64,
        aliased: i64,
        temporaries: i64,
        host_code: i64,
        host_arguments: i64,
        host_outputs: i64,
        host_aliased: i64,
        host_temporaries: i64,
        peak: i64,
    }
    OutputTypes "PJRT_Executable_OutputElementTypes" {
        executable: Handle<Program>,
        types: Out<i32>,
    }
    OutputDimensions "PJRT_Executable_OutputDimensions" {
        executable: Handle<Program>,
        count: usize,
        dims: *const i64,
        ranks: *const usize,
    }
    OutputMemoryKinds "PJRT_Executable_OutputMemoryKinds" {
        executable: Handle<Program>,
        count: usize,
        kinds: *const *const u8,
        sizes: *const usize,
    }
    Serialize "PJRT_Executable_Serialize" { executable: Handle<Program>, bytes: OwnedBytes }
    GetAssignment "PJRT_LoadedExecutable_GetDeviceAssignment" {
        executable: Handle<Program>,
        bytes: OwnedBytes,
    }
    GetOptions "PJRT_Executable_GetCompileOptions" {
        executable: Handle<Program>,
        bytes: OwnedBytes,
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: nothing looks at them after this.
        release(unsafe { ManuallyDrop::take(&mut self.python) });
    }
}

/// Leaves it to Python's main thread to drop what a program kept. To wait for Python's lock here could
/// deadlock: when a process ends, the thread that holds the lock waits for the one that destroys.
fn release(objects: Objects) {
    static WAITING: Mutex<Vec<Objects>> = Mutex::new(Vec::new());
    extern "C" fn drop_waiting(_: *mut c_void) -> c_int {
        let waiting = mem::take(&mut *WAITING.lock().unwrap_or_else(PoisonError::into_inner));
        Python::attach(|_| drop(waiting));
        0
    }
    WAITING
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(objects);
    // SAFETY: any thread may call them. Where the list of pending calls is full, the next program's call
    // drops these objects too; where Python has ended, nothing does.
    unsafe {
        if pyo3::ffi::Py_IsInitialized() != 0 {
            pyo3::ffi::Py_AddPendingCall(Some(drop_waiting), ptr::null_mut());
        }
    }
}

/// Implements [`Call`] for structs whose object is their field `executable`.
macro_rules! about {
    ($($name:ident: |$args:ident, $program:ident| $body:block)*) => { $(
        impl Call for $name {
            fn call(&mut self) -> Outcome<()> {
                let $args = self;
                let program = $args.executable.get("executable")?;
                let $program: &Program = &program;
                $body
                Ok(())
            }
        }
    )* };
}

impl Call for Destroy {
    fn call(&mut self) -> Outcome<()> {
        drop(self.executable.destroy());
        Ok(())
    }
}

impl Call for DestroyLoaded {
    fn call(&mut self) -> Outcome<()> {
        drop(self.executable.destroy());
        Ok(())
    }
}

impl Call for GetExecutable {
    fn call(&mut self) -> Outcome<()> {
        self.executable = give_shared(self.loaded.get("executable")?);
        Ok(())
    }
}

about! {
    Name: |args, program| { args.name.text(&program.name); }
    NumReplicas: |args, program| {
        args.count = program.executable().core().devices().replicas as usize;
    }
    NumPartitions: |args, program| {
        args.count = program.executable().core().devices().partitions as usize;
    }
    NumOutputs: |args, program| { args.count = program.results.types.len(); }
    CodeSize: |args, program| {
        program.require_alive()?;
        args.bytes = 0;
    }
    AddressableDevices: |args, program| { args.devices.set(program.device_handles.pointers()); }
    Delete: |args, program| { program.is_deleted.store(true, Ordering::Relaxed); }
    IsDeleted: |args, program| {
        args.is_deleted = program.is_deleted.load(Ordering::Relaxed).into();
    }
    Fingerprint: |args, program| { args.fingerprint.text(program.fingerprint()); }
    FingerprintLoaded: |args, program| { args.fingerprint.text(program.fingerprint()); }
    CostAnalysis: |args, program| {
        let values = program.costs()?;
        (args.len, args.properties) = (values.len(), values.as_ptr());
    }
    OutputTypes: |args, program| { args.types.set(&program.results.types); }
    OutputDimensions: |args, program| {
        let Results { dims, ranks, .. } = &program.results;
        args.count = ranks.len();
        (args.dims, args.ranks) = (dims.as_ptr(), ranks.as_ptr());
    }
    OutputMemoryKinds: |args, program| {
        let Results { memory_kinds, memory_kind_sizes, .. } = &program.results;
        args.count = memory_kinds.len();
        (args.kinds, args.sizes) = (memory_kinds.as_ptr(), memory_kind_sizes.as_ptr());
    }
    Serialize: |args, program| { args.bytes.set(serialize(program)?); }
    GetAssignment: |args, program| {
        let devices = program.executable().core().devices();
        args.bytes.set(assignment(devices, &program.devices));
    }
    GetOptions: |args, program| { args.bytes.set(program.options.clone()); }
    OptimizedProgram: |args, program| {
        let devices = program.executable().core().devices();
        let bytes = with_config(program.proto()?, devices)?;
        // SAFETY: C promises a program, or null.
        let text = unsafe { args.program.as_mut() };
        let text = text.ok_or_else(|| Failure::argument("the program is null"))?;
        text.show(FORMAT, &bytes)?;
    }
    MemoryStats: |args, program| {
        let core = program.executable().core();
        let sum = |leaves: &[plan::Leaf]| -> i64 {
            leaves.iter().map(|leaf| leaf.byte_size() as i64).sum()
        };
        let constants = core.assignment().allocations.iter();
        let constants: usize = constants
            .filter(|allocation| matches!(allocation.kind, AllocationKind::Constant(_)))
            .map(|allocation| allocation.size)
            .sum();
        args.arguments = sum(core.inputs());
        args.outputs = sum(core.outputs());
        args.temporaries = core.temp_size() as i64;
        args.peak = args.arguments + args.outputs + args.temporaries + constants as i64;
        let none = [
            &mut args.code,
            // A donated array's memory is free after the run, not written over during it.
            &mut args.aliased,
            &mut args.host_code,
            &mut args.host_arguments,
            &mut args.host_outputs,
            &mut args.host_aliased,
            &mut args.host_temporaries,
        ];
        none.into_iter().for_each(|bytes| *bytes = 0);
    }
}
