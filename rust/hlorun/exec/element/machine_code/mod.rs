//! Machine code for loops over few elements, and for the small steps of an entry.
//!
//! In: a scalar program ([`crate::plan::schedule::scalar_bytecode`]). Out: a function of the CPU's own
//! instructions, made by Cranelift, that writes what the interpreter ([`super::scalar_bytecode`]) would have
//! written, to the bit. What every trip reads and writes of single elements, or of blocks of four
//! ([`blocks`]), is kept in registers.
//!
//! A program is interpreted until it has done so much work that making code pays ([`crate::plan::cost`]).
//! Where no code can be made, because an operation is unknown, or the system gives no memory that
//! may be executed, it is interpreted on.
//!
//! Why it touches only what the program's thunks declare: every address is that of a place of the
//! scalar bytecode, whose places the plan took from the views of those thunks, plus an index that is
//! clamped to the view's limit as the interpreter clamps it. Elements that are kept in registers
//! are read from their places on the way in and written to them on the way out, or when they
//! change; nothing else that the code runs may touch these places ([`cells`] finds out).

mod blocks;
mod calls;
mod cells;
mod convert;
mod elements;
mod emit;
mod floats;
mod forms;
mod integers;
mod lanes;
mod moves;
mod operands;
mod products;
mod registers;
mod values;
mod vectors;

use std::sync::{Arc, OnceLock};

use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::Module;

use super::outside::RunOutside;
use crate::error::Result;
use crate::exec::environment::Environment;
use crate::plan::cost::{self, Way, Work};
use crate::plan::options::MachineCode;
use crate::plan::thunk::Thunk;
use crate::plan::thunk::scalar_bytecode::ScalarProgram;
use calls::Context;

/// A finished function.
pub struct Code {
    entry: Entry,
    /// Holds its memory; `None` only while it is dropped.
    module: Option<JITModule>,
}

/// Addresses of allocations, scratch, what is known, the context; returns whether the run goes on.
type Entry = unsafe extern "C" fn(*const *mut u8, *mut u8, *const u8, *mut Context<'_, '_>) -> u32;

// SAFETY: nothing but `drop`, which owns it, touches the module once the code is finished; the code
// itself changes nothing.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Drop for Code {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: runs hold the code while they are inside it, so nobody is.
            unsafe { module.free_memory() };
        }
    }
}

/// Whether machine code pays for a program that has done this much work.
fn is_time(prepared: &ScalarProgram, work: u64, when: MachineCode) -> bool {
    let pays = |pieces| {
        let trips = Work::Trips { pieces, work, when };
        cost::choose(trips) == Way::MachineCode
    };
    let count = || {
        prepared
            .ops
            .iter()
            .map(|op| forms::pieces(prepared, op))
            .sum()
    };
    // An operation is a piece at least; how many it becomes is asked of busy programs alone.
    pays(prepared.ops.len()) && pays(prepared.compiled.pieces(count))
}

/// Code to run a program from its start: what there is, or, where the interpreter is known to do `expected` work now, or is
/// likely to do more, what is made now.
pub fn before_first_trip(
    prepared: &ScalarProgram,
    expected: u64,
    outside: &[&Thunk],
) -> Option<Arc<Code>> {
    let (done, runs) = prepared.compiled.done();
    let work = cost::machine_code::likely_work(done, runs).max(expected);
    is_time(prepared, work, prepared.compiled.when().asked()).then(|| made(prepared, 0, outside))?
}

/// Code to go on with at the operation `at`, after `work` more of the interpreter, `all` of it in this run. Only a run that is
/// long enough alone changes over in the middle. For shorter ones the next run makes code for its start, which serves all
/// runs; code for the middle would be made besides it.
pub fn after_work(
    prepared: &ScalarProgram,
    (work, all): (u64, u64),
    at: usize,
    outside: &[&Thunk],
) -> Option<Arc<Code>> {
    let when = match prepared.compiled.when().asked() {
        MachineCode::Never => return None,
        // There would be code if it could be made before the first trip.
        MachineCode::WhenBusy | MachineCode::AtOnce => MachineCode::WhenBusy,
    };
    prepared.compiled.worked(work);
    is_time(prepared, all, when).then(|| made(prepared, at, outside))?
}

fn made(prepared: &ScalarProgram, entry: usize, outside: &[&Thunk]) -> Option<Arc<Code>> {
    prepared
        .compiled
        .code(entry, || make(prepared, entry, outside))
}

/// The CPU this process runs on; `None` where Cranelift knows it not. Elements are taken apart as
/// little-endian CPUs store them, and addresses have 64 bits.
fn target() -> Option<OwnedTargetIsa> {
    if cfg!(not(all(
        target_endian = "little",
        target_pointer_width = "64"
    ))) {
        return None;
    }
    static TARGET: OnceLock<Option<OwnedTargetIsa>> = OnceLock::new();
    TARGET
        .get_or_init(|| {
            let mut flags = settings::builder();
            for (name, value) in [
                ("opt_level", "speed"),
                ("is_pic", "false"),
                ("use_colocated_libcalls", "false"),
                // A large frame must not reach beyond the end of the stack.
                ("enable_probestack", "true"),
                ("probestack_strategy", "inline"),
                (
                    "enable_verifier",
                    if cfg!(debug_assertions) {
                        "true"
                    } else {
                        "false"
                    },
                ),
            ] {
                flags.set(name, value).ok()?;
            }
            let flags = settings::Flags::new(flags);
            cranelift_native::builder().ok()?.finish(flags).ok()
        })
        .clone()
}

/// Makes the function that enters a program at an operation.
fn make(prepared: &ScalarProgram, entry: usize, outside: &[&Thunk]) -> Option<Code> {
    let target = target()?;
    let builder = JITBuilder::with_isa(target, cranelift_module::default_libcall_names());
    let mut module = JITModule::new(builder);
    let finished = define(&mut module, prepared, entry, outside);
    let mut code = Code {
        // SAFETY: never called where `finished` is none; the code is then dropped.
        entry: calls::nothing,
        module: Some(module),
    };
    let address = finished?;
    // SAFETY: the function has this signature, see `emit::signature`.
    code.entry = unsafe { std::mem::transmute::<*const u8, Entry>(address) };
    Some(code)
}

fn define(
    module: &mut JITModule,
    prepared: &ScalarProgram,
    entry: usize,
    outside: &[&Thunk],
) -> Option<*const u8> {
    let mut context = module.make_context();
    context.func.signature = emit::signature(module);
    let mut builder = FunctionBuilderContext::new();
    let function = &mut context.func;
    emit::function(prepared, entry, outside, module, function, &mut builder)?;
    let id = module
        .declare_anonymous_function(&context.func.signature)
        .ok()?;
    module.define_function(id, &mut context).ok()?;
    module.finalize_definitions().ok()?;
    Some(module.get_finalized_function(id))
}

/// Runs the code of a program.
///
/// # Safety
///
/// The code was made of `prepared`, whose places are valid for the environment's memory; `scratch`
/// holds [`crate::plan::cost::scalar_bytecode::MAX_SCRATCH`] bytes; `outside` are the thunks that it leaves for.
pub unsafe fn run(
    code: &Code,
    prepared: &ScalarProgram,
    scratch: *mut u8,
    outside: &RunOutside<'_>,
    environment: &Environment<'_>,
) -> Result<()> {
    let mut context = Context::new(environment, outside, prepared);
    let known = prepared.known.as_ptr().cast::<u8>();
    let bases = environment.memory.bases().as_ptr();
    // SAFETY: the caller's promise. The code calls back only through `calls`, which stops panics.
    let goes_on = unsafe { (code.entry)(bases, scratch, known, &raw mut context) };
    context.finish(goes_on == calls::GO_ON)
}
