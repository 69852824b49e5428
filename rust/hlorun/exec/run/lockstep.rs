//! Runs all devices of one process side by side.
//!
//! In: a [`Lockstep`] plan and the arrays of every device. Out: all results. Promise: no device
//! waits for another on a thread; what is the same on all is computed once; results have the bits
//! they have on devices that run by themselves.

use crate::buffers::AlignedBytes;
use crate::error::Result;
use crate::exec::environment::{Environment, interruptible};
use crate::exec::memory::Memory;
use crate::exec::options::DeviceArrays;
use crate::exec::options::RunOptions;
use crate::exec::rendezvous::Rendezvous;
use crate::exec::run::executor::sequence;
use crate::exec::spmd;
use crate::plan::Executable;
use crate::plan::memory::assign::AllocationKind;
use crate::plan::replication::{Lockstep, Step};

/// Memory of one run that is no caller's.
#[derive(Default)]
struct Blocks {
    arenas: Vec<AlignedBytes>,
    others: Vec<AlignedBytes>,
}

impl Blocks {
    fn arena(&mut self, executable: &Executable) -> Result<*mut u8> {
        let mut arena = executable.take_arena()?;
        let pointer = arena.as_mut_ptr();
        self.arenas.push(arena);
        Ok(pointer)
    }

    fn other(&mut self, size: usize) -> Result<*mut u8> {
        let mut block = AlignedBytes::uninitialized(size)?;
        let pointer = block.as_mut_ptr();
        self.others.push(block);
        Ok(pointer)
    }
}

/// Whether every device has one array for leaf `leaf` of the parameters, by leaf.
pub(crate) fn common_inputs(arrays: &[DeviceArrays]) -> Vec<bool> {
    let Some(first) = arrays.first() else {
        return Vec::new();
    };
    first
        .inputs
        .iter()
        .enumerate()
        .map(|(leaf, &input)| arrays.iter().all(|device| device.inputs[leaf] == input))
        .collect()
}

/// Addresses of every allocation: those of `device`, then the common ones.
fn memory(
    executable: &Executable,
    plan: &Lockstep,
    common: &[*mut u8],
    device: &DeviceArrays,
    blocks: &mut Blocks,
) -> Result<Memory> {
    let mut bases = Vec::with_capacity(2 * common.len());
    for (index, allocation) in executable.assignment().allocations.iter().enumerate() {
        let is_used = plan.own[index];
        bases.push(match allocation.kind {
            AllocationKind::Parameter(leaf) => device.inputs[leaf as usize].cast_mut(),
            AllocationKind::Constant(_) => executable
                .constant_bytes(allocation.kind)
                .map_or(std::ptr::null_mut(), |bytes| bytes.as_ptr().cast_mut()),
            AllocationKind::Output(leaf) if !plan.shared_outputs[leaf as usize] => {
                device.outputs[leaf as usize]
            }
            AllocationKind::Output(_) if is_used => blocks.other(allocation.size)?,
            AllocationKind::Temp if is_used => blocks.arena(executable)?,
            AllocationKind::Output(_) | AllocationKind::Temp => std::ptr::null_mut(),
        });
    }
    bases.extend_from_slice(common);
    Ok(Memory::new(bases))
}

/// The common memory for every allocation.
fn common_memory(
    executable: &Executable,
    plan: &Lockstep,
    first: &DeviceArrays,
    blocks: &mut Blocks,
) -> Result<Vec<*mut u8>> {
    let allocations = executable.assignment().allocations.iter().enumerate();
    allocations
        .map(|(index, allocation)| match allocation.kind {
            _ if !plan.common[index] => Ok(std::ptr::null_mut()),
            AllocationKind::Output(leaf) if plan.shared_outputs[leaf as usize] => {
                Ok(first.outputs[leaf as usize])
            }
            AllocationKind::Temp => blocks.arena(executable),
            _ => blocks.other(allocation.size),
        })
        .collect()
}

/// Runs all devices once.
///
/// # Safety
///
/// As for [`Executable::run_devices`].
pub(crate) unsafe fn run(
    executable: &Executable,
    plan: &Lockstep,
    arrays: &[DeviceArrays],
    options: &RunOptions<'_>,
) -> Result<()> {
    let Some(first) = arrays.first() else {
        return Ok(());
    };
    let devices = executable.devices();
    let mut blocks = Blocks::default();
    let common = common_memory(executable, plan, first, &mut blocks)?;
    // Nobody waits in it; it tells of failures.
    let rendezvous = Rendezvous::new(devices, 0..devices.count(), None);
    let threads = executable.threads();
    let crowd = arrays.len();
    let shadow = executable.shadow();
    let mut environments = Vec::with_capacity(crowd);
    for (device, arrays) in (0..).zip(arrays) {
        let memory = memory(executable, plan, &common, arrays, &mut blocks)?;
        let share = (threads / devices.count() as usize).max(1);
        environments.push(
            Environment::new(memory, share, options)
                .on_device(device, devices, crowd, &rendezvous)
                .shadowed(shadow.as_ref()),
        );
    }
    let first = &environments[0];
    let everybody = Environment::new(first.memory.clone(), threads, options)
        .on_device(first.device, devices, 1, &rendezvous)
        .shadowed(shadow.as_ref());
    let result = interruptible(|| steps(plan, &environments, &everybody, &rendezvous));
    if result.is_ok() {
        deal_out(executable, plan, arrays, &everybody);
    }
    drop((environments, everybody));
    for arena in blocks.arenas {
        executable.return_arena(arena);
    }
    result
}

fn steps(
    plan: &Lockstep,
    environments: &[Environment<'_>],
    everybody: &Environment<'_>,
    rendezvous: &Rendezvous<'_>,
) -> Result<()> {
    for step in &plan.steps {
        everybody.check()?;
        match step {
            Step::Once(thunks) => sequence(thunks, everybody)?,
            Step::Meet {
                collective,
                products,
            } => {
                let parallel = everybody.parallel();
                spmd::run_together(collective, products, environments, parallel)?;
            }
            Step::Each(thunks) => everybody.parallel()(environments.len(), &|device| {
                if let Err(error) = sequence(thunks, &environments[device]) {
                    rendezvous.fail(error);
                }
            }),
        }
        if let Some(error) = rendezvous.failure() {
            return Err(error);
        }
    }
    Ok(())
}

/// Copies results that are the same everywhere to the devices that want arrays of their own.
fn deal_out(
    executable: &Executable,
    plan: &Lockstep,
    arrays: &[DeviceArrays],
    everybody: &Environment<'_>,
) {
    let mut copies = Vec::new();
    for (leaf, output) in executable.outputs().iter().enumerate() {
        if !plan.shared_outputs[leaf] {
            continue;
        }
        for (device, own) in arrays.iter().enumerate().skip(1) {
            if own.outputs[leaf] != arrays[0].outputs[leaf] {
                copies.push((device, leaf, output.byte_size()));
            }
        }
    }
    everybody.parallel()(copies.len(), &|at| {
        let (device, leaf, size) = copies[at];
        // SAFETY: both are arrays of this leaf, which overlap nothing else.
        unsafe {
            let from = arrays[0].outputs[leaf];
            std::ptr::copy_nonoverlapping(from, arrays[device].outputs[leaf], size);
        }
    });
}
