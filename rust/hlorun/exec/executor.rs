//! Runs an executable: brings memory, then thunks in order.

use std::time::{Duration, Instant};

use super::array::RawArray;
use super::environment::Environment;
use super::memory::Memory;
use super::threads::available_threads;
use super::{collectives, gemm, loops, ops, reduce};
use crate::error::{HloError, Result};
use crate::module::InstructionId;
use crate::plan::Executable;
use crate::plan::assign::AllocationKind;
use crate::plan::ops::OpKind;
use crate::plan::ops::custom_call::CustomCallInfo;
use crate::plan::thunk::{Thunk, ThunkKind, ThunkSequence};

/// Brief trips of a loop between two looks at whether the caller wants the run to end.
const BRIEF_TRIPS: usize = 256;

/// What a caller may say about a run.
#[derive(Clone, Copy)]
pub struct RunOptions<'r> {
    /// Asked now and then; `true` ends the run with an error.
    pub interrupted: &'r (dyn Fn() -> bool + Sync),
    /// Shown every value of an executable compiled with `CompileOptions::observe`: the instruction
    /// of [`Executable::module`] and its arrays, valid during the call. An error ends the run.
    pub observer: Option<&'r Observer<'r>>,
    /// Asked to run calls of targets that are not hlorun's own; `None` where it does not know the
    /// target either.
    pub custom_call: Option<&'r CustomCallHook<'r>>,
    /// Told about every step once it is done.
    pub profile: Option<&'r (dyn Fn(&Step<'_>) + Sync)>,
}

/// See [`RunOptions::observer`].
pub type Observer<'r> = dyn Fn(InstructionId, &[RawArray]) -> Result<()> + Sync + 'r;

/// See [`RunOptions::custom_call`]: gets the instruction, and reads the operands' arrays and writes
/// all of the results'.
pub type CustomCallHook<'r> = dyn Fn(InstructionId, &CustomCallInfo, &[RawArray], &[RawArray]) -> Option<Result<()>>
    + Sync
    + 'r;

/// A step that has run.
#[derive(Clone, Copy, Debug)]
pub struct Step<'r> {
    /// What.
    pub thunk: &'r Thunk,
    /// On which device.
    pub device: u32,
    /// Since when.
    pub start: Instant,
    /// How long; steps inside it included.
    pub duration: Duration,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        RunOptions {
            interrupted: &|| false,
            observer: None,
            custom_call: None,
            profile: None,
        }
    }
}

impl Executable {
    /// Runs once: `inputs` and `outputs` hold an address for every leaf of
    /// [`Executable::inputs`] and [`Executable::outputs`].
    ///
    /// Errors: `HloError::Argument` for a wrong number of addresses; `HloError::Execution` when
    /// memory runs out or the caller interrupts.
    ///
    /// # Safety
    ///
    /// Each input address holds the leaf's elements, dense, row-major and aligned to a component of
    /// the element type, and is not written during the run; each output address has room for its
    /// leaf, overlaps nothing else, and is aligned in the same way.
    pub unsafe fn run(
        &self,
        inputs: &[*const u8],
        outputs: &[*mut u8],
        options: &RunOptions<'_>,
    ) -> Result<()> {
        if inputs.len() != self.inputs().len() || outputs.len() != self.outputs().len() {
            return Err(HloError::argument(format!(
                "expected {} input and {} output arrays, got {} and {}",
                self.inputs().len(),
                self.outputs().len(),
                inputs.len(),
                outputs.len()
            )));
        }
        let devices = self.devices();
        if devices.count() > 1 {
            return Err(HloError::argument(format!(
                "compiled for {} replicas of {} partitions, which run together: give each its arrays",
                devices.replicas, devices.partitions
            )));
        }
        let mut arena = self.take_arena()?;
        let threads = self.threads();
        let environment = Environment {
            memory: self.memory(arena.as_mut_ptr(), inputs, outputs),
            threads,
            replica: 0,
            partition: 0,
            device: 0,
            crowd: 1,
            meeting: None,
            options: *options,
        };
        let result = sequence(self.thunks(), &environment);
        self.return_arena(arena);
        result
    }

    /// Threads a run may use.
    pub(super) fn threads(&self) -> usize {
        match self.options().threads {
            0 => available_threads(),
            n => n,
        }
    }

    /// The memory of one device.
    pub(super) fn memory(
        &self,
        arena: *mut u8,
        inputs: &[*const u8],
        outputs: &[*mut u8],
    ) -> Memory {
        let bases = self
            .assignment()
            .allocations
            .iter()
            .map(|allocation| match allocation.kind {
                AllocationKind::Temp => arena,
                AllocationKind::Parameter(leaf) => inputs[leaf as usize].cast_mut(),
                AllocationKind::Output(leaf) => outputs[leaf as usize],
                AllocationKind::Constant(_) => self
                    .constant_bytes(allocation.kind)
                    .map_or(std::ptr::null_mut(), |bytes| bytes.as_ptr().cast_mut()),
            })
            .collect();
        Memory::new(bases)
    }
}

/// Runs thunks in order. Recursion is bounded by the nesting the plan allows.
pub(super) fn sequence(thunks: &ThunkSequence, environment: &Environment<'_>) -> Result<()> {
    let Some(profile) = environment.options.profile else {
        return thunks.iter().try_for_each(|thunk| run(thunk, environment));
    };
    for thunk in thunks {
        let start = Instant::now();
        run(thunk, environment)?;
        profile(&Step {
            thunk,
            device: environment.device,
            start,
            duration: start.elapsed(),
        });
    }
    Ok(())
}

pub(super) fn run(thunk: &Thunk, environment: &Environment<'_>) -> Result<()> {
    let memory = &environment.memory;
    match &thunk.kind {
        ThunkKind::Copy(copy) => {
            super::copy::run(copy, environment);
            Ok(())
        }
        ThunkKind::Loop(fused) => match &fused.small {
            Some(small) => {
                super::small::run(fused, small, memory);
                Ok(())
            }
            None => loops::run(fused, environment),
        },
        ThunkKind::Reduce(reduction) => reduce::run(reduction, environment),
        ThunkKind::Bands(bands) => super::bands::run(bands, environment),
        ThunkKind::Gemm(product) => gemm::run(product, environment),
        ThunkKind::PackPanels(pack) => gemm::pack(pack, environment),
        ThunkKind::Op(op) => {
            let inputs: Vec<_> = op.inputs.iter().map(|view| memory.array(view)).collect();
            let outputs: Vec<_> = op.outputs.iter().map(|view| memory.array(view)).collect();
            if let (OpKind::Custom(call), Some(hook)) = (&op.kind, environment.options.custom_call)
                && let Some(result) = hook(thunk.instruction, &call.info, &inputs, &outputs)
            {
                return result;
            }
            ops::run(&op.kind, &inputs, &outputs, &environment.operation())
        }
        ThunkKind::While(body) => {
            if let Some(flat) = &body.flat
                && environment.options.profile.is_none()
            {
                return super::flat::run(flat, body, environment);
            }
            let trips_between_checks = if body.is_brief { BRIEF_TRIPS } else { 1 };
            loop {
                environment.check()?;
                for _ in 0..trips_between_checks {
                    sequence(&body.condition, environment)?;
                    // SAFETY: the predicate is one byte in its slice.
                    if unsafe { memory.first(&body.predicate).read() } == 0 {
                        return Ok(());
                    }
                    sequence(&body.body, environment)?;
                }
            }
        }
        ThunkKind::Conditional(choice) => {
            let selector = &choice.selector;
            // SAFETY: the selector is a scalar of its type.
            let value = unsafe {
                super::memory::read_integer(memory.first(selector), selector.element_type)
            };
            let last = choice.branches.len() - 1;
            let branch = if selector.element_type == crate::types::PrimitiveType::Pred {
                usize::from(value == 0)
            } else {
                usize::try_from(value).map_or(last, |v| v.min(last))
            };
            sequence(&choice.branches[branch], environment)
        }
        ThunkKind::CollectiveStart(start) => collectives::start(&start.collective, environment),
        ThunkKind::Collective(collective) => collectives::run(collective, environment),
        ThunkKind::DeviceId(id) => {
            let value = if id.partition {
                environment.partition
            } else {
                environment.replica
            };
            // SAFETY: the slice holds one u32.
            unsafe { memory.pointer(&id.slice).cast::<u32>().write(value) };
            Ok(())
        }
        ThunkKind::Observe(observe) => match environment.options.observer {
            Some(observer) => {
                environment.check()?;
                let leaves: Vec<_> = observe.leaves.iter().map(|v| memory.array(v)).collect();
                observer(thunk.instruction, &leaves)
            }
            None => Ok(()),
        },
        ThunkKind::Nop => Ok(()),
    }
}
