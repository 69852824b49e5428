//! Runs an executable: brings memory, then thunks in order.

use std::cell::RefCell;
use std::time::Instant;

use smallvec::SmallVec;

use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::element::scalar_bytecode::Origin;
use crate::exec::element::{loops, scalar_bytecode, small_loop};
use crate::exec::environment::{Environment, PreparedThunk, Runner, interruptible};
use crate::exec::hooks;
use crate::exec::memory::{Memory, read_integer};
use crate::exec::options::RunOptions;
use crate::exec::options::Step;
use crate::exec::shadow::Shadow;
use crate::exec::threads::available_threads;
use crate::exec::{gemm, ops, reduce, row_tiling, spmd};
use crate::float_mode::DefaultMode;
use crate::module::InstructionId;
use crate::plan::Executable;
use crate::plan::faults::{self, Fault};
use crate::plan::memory::assign::AllocationKind;
use crate::plan::ops::{OpKind, OpThunk};
use crate::plan::options::Check;
use crate::plan::thunk::{ConditionalThunk, Thunk, ThunkKind, ThunkSequence, WhileThunk};
use crate::plan::view::ArrayView;
use crate::types::PrimitiveType;

/// Brief trips of a loop between two looks at whether the caller wants the run to end.
const BRIEF_TRIPS: usize = 256;

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
        let _mode = DefaultMode::enter();
        let devices = self.devices();
        if devices.count() > 1 {
            return Err(HloError::argument(format!(
                "compiled for {devices}, which run together: give each its arrays"
            )));
        }
        let mut arena = self.take_arena()?;
        let memory = self.memory(arena.as_mut_ptr(), inputs, outputs);
        let shadow = self.shadow();
        let environment =
            Environment::new(memory, self.threads(), options).shadowed(shadow.as_ref());
        let result = interruptible(|| entry(self, &environment));
        drop(environment);
        self.return_arena(arena);
        result
    }

    /// What a run needs to be a shadow run, where it is to be one.
    pub(crate) fn shadow(&self) -> Option<Shadow<'_>> {
        (self.options().check == Check::Shadow).then(|| Shadow::new(self.module()))
    }

    /// Threads a run may use.
    pub(crate) fn threads(&self) -> usize {
        match self.options().threads {
            0 => available_threads(),
            n => n,
        }
    }

    /// The memory of one device.
    pub(crate) fn memory(
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

/// Runs the thunks of the entry, or the code that was made of them.
fn entry(executable: &Executable, environment: &Environment<'_>) -> Result<()> {
    let thunks = executable.thunks();
    match executable.bytecode() {
        Some(code) if runs_code(environment) => {
            let runner = Runner { run, prepare };
            scalar_bytecode::run(code, Origin::Entry(thunks), environment, runner)
        }
        _ => sequence(thunks, environment),
    }
}

/// Whether nobody looks at single thunks.
fn runs_code(environment: &Environment<'_>) -> bool {
    environment.options.profile.is_none() && environment.shadow.is_none()
}

/// Whether to look for the caller's wish to end the run before this thunk: not where the look may
/// take longer.
fn is_worth_a_look(thunk: &Thunk) -> bool {
    match &thunk.kind {
        ThunkKind::Loop(fused) => fused.small.is_none(),
        ThunkKind::Nop | ThunkKind::DeviceId(_) => false,
        _ => true,
    }
}

/// Runs thunks in order. Recursion is bounded by the nesting the plan allows.
pub(crate) fn sequence(thunks: &ThunkSequence, environment: &Environment<'_>) -> Result<()> {
    for thunk in thunks {
        if is_worth_a_look(thunk) {
            environment.check()?;
        }
        let Some(profile) = environment.options.profile else {
            run(thunk, environment)?;
            continue;
        };
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

/// Runs one step.
pub(crate) fn run(thunk: &Thunk, environment: &Environment<'_>) -> Result<()> {
    if let Some(shadow) = environment.shadow
        && super::shadow::applies(thunk)
    {
        return super::shadow::run(thunk, environment, shadow, run);
    }
    let memory = &environment.memory;
    match &thunk.kind {
        ThunkKind::Copy(copy) => super::copy::run(copy, environment),
        ThunkKind::Loop(fused) => match &fused.small {
            Some(small) => small_loop::run(fused, small, memory),
            None => return loops::run(fused, environment),
        },
        ThunkKind::Reduce(reduction) => return reduce::run(reduction, environment),
        ThunkKind::RowTiled(tiled) => return row_tiling::run(tiled, environment),
        ThunkKind::Gemm(product) => return gemm::run(product, environment),
        ThunkKind::PackOperand(pack) => return gemm::pack(pack, environment),
        ThunkKind::Op(op) => return operation(op, thunk.instruction, environment),
        ThunkKind::While(body) => return repeat(body, environment),
        ThunkKind::Conditional(choice) => return sequence(branch(choice, memory), environment),
        ThunkKind::CollectiveStart(start) => return spmd::start(&start.collective, environment),
        ThunkKind::Collective(collective) => return spmd::run(collective, environment),
        ThunkKind::DeviceId(id) => {
            let value = if id.partition {
                environment.partition
            } else {
                environment.replica
            };
            // SAFETY: the slice holds one u32.
            unsafe { memory.pointer(&id.slice).cast::<u32>().write(value) };
        }
        ThunkKind::Observe(observe) => {
            if let Some(observer) = environment.options.observer {
                environment.check()?;
                let leaves: Vec<_> = observe.leaves.iter().map(|v| memory.array(v)).collect();
                let leaves = hooks::array_refs(&leaves);
                return observer(environment.device, thunk.instruction, &leaves);
            }
        }
        ThunkKind::Nop => {}
    }
    Ok(())
}

/// The thunk with all done that its runs share while allocations stay where they are; `None` where it runs as usual.
fn prepare<'t>(thunk: &'t Thunk, environment: &Environment<'_>) -> Option<PreparedThunk<'t>> {
    let memory = &environment.memory;
    match &thunk.kind {
        ThunkKind::Loop(fused) if fused.small.is_none() => loops::prepare(fused, environment),
        ThunkKind::Reduce(reduction) => reduce::prepare(reduction, environment),
        ThunkKind::Gemm(product) => gemm::prepare(product, memory),
        // A custom call may be the caller's.
        ThunkKind::Op(op) if matches!(op.kind, OpKind::Custom(_)) => None,
        ThunkKind::Op(op) => prepare_operation(op, memory),
        _ => None,
    }
}

/// The same of an operation. Views at places that indices name move from run to run.
fn prepare_operation<'t>(op: &'t OpThunk, memory: &Memory) -> Option<PreparedThunk<'t>> {
    let mut views = op.inputs.iter().chain(&op.outputs);
    let stay = views.all(|view| view.dynamic.is_empty());
    if !stay && !ops::can_move(&op.kind) {
        return None;
    }
    let (inputs, outputs) = (arrays(&op.inputs, memory), arrays(&op.outputs, memory));
    let prepared = ops::prepare(&op.kind, inputs, outputs);
    if faults::holds(Fault::HoldsOldInputs, stay) {
        return Some(Box::new(move |environment| {
            prepared.run(&environment.operation())
        }));
    }
    // In a run a view may begin at another place; its shape and strides stay the same.
    let prepared = RefCell::new(prepared);
    Some(Box::new(move |environment| {
        let mut prepared = prepared.borrow_mut();
        let [inputs, outputs] = [&op.inputs, &op.outputs].map(|views| {
            let first = |view| environment.memory.first(view);
            views.iter().map(first).collect::<SmallVec<[*mut u8; 4]>>()
        });
        prepared.move_to([&inputs, &outputs]);
        prepared.run(&environment.operation())
    }))
}

/// The arrays of views.
fn arrays(views: &[ArrayView], memory: &Memory) -> SmallVec<[RawArray; 4]> {
    views.iter().map(|view| memory.array(view)).collect()
}

/// Runs an operation that is a thunk of its own. A custom call runs through the caller's hook, if the hook
/// takes it.
#[inline]
fn operation(
    op: &OpThunk,
    instruction: InstructionId,
    environment: &Environment<'_>,
) -> Result<()> {
    let memory = &environment.memory;
    let (inputs, outputs) = (arrays(&op.inputs, memory), arrays(&op.outputs, memory));
    if let (OpKind::Custom(call), Some(hook)) = (&op.kind, environment.options.custom_call)
        && let Some(result) =
            hooks::run_custom_call(hook, instruction, &call.info, &inputs, &outputs)
    {
        return result;
    }
    ops::run(&op.kind, &inputs, &outputs, &environment.operation())
}

/// Runs the trips of a `while`.
#[inline]
fn repeat(body: &WhileThunk, environment: &Environment<'_>) -> Result<()> {
    if let Some(code) = &body.bytecode
        && runs_code(environment)
    {
        let runner = Runner { run, prepare };
        return scalar_bytecode::run(code, Origin::Loop(body), environment, runner);
    }
    let trips_between_checks = if body.is_brief { BRIEF_TRIPS } else { 1 };
    loop {
        environment.check()?;
        for _ in 0..trips_between_checks {
            sequence(&body.condition, environment)?;
            // SAFETY: the predicate is one byte in its slice.
            if unsafe { environment.memory.first(&body.predicate).read() } == 0 {
                return Ok(());
            }
            sequence(&body.body, environment)?;
        }
    }
}

/// The branch that the selector chooses: the last one where it names none.
#[inline]
fn branch<'t>(choice: &'t ConditionalThunk, memory: &Memory) -> &'t ThunkSequence {
    let selector = &choice.selector;
    // SAFETY: the selector is a scalar of its type.
    let value = unsafe { read_integer(memory.first(selector), selector.element_type) };
    let last = choice.branches.len() - 1;
    let branch = if selector.element_type == PrimitiveType::Pred {
        usize::from(value == 0)
    } else {
        usize::try_from(value).map_or(last, |v| v.min(last))
    };
    &choice.branches[branch]
}
