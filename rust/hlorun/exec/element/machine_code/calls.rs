//! What machine code calls: kernels, thunks that it leaves for, the look at whether the run is to
//! end.
//!
//! A panic must not pass through machine code, whose frames nobody can unwind. Here it is caught,
//! the code returns, and it goes on from where the code was called.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use hlorun_kernels::{Binary, FoldRows, Gemm, Reduce, Ternary, Unary};

use crate::error::{HloError, Result};
use crate::exec::element::outside::RunOutside;
use crate::exec::element::walk;
use crate::exec::environment::Environment;
use crate::plan::thunk::PickedWalk;
use crate::plan::thunk::scalar_bytecode::{ColumnChoice, ScalarProgram};

/// The run goes on.
pub const GO_ON: u32 = 0;
/// It ends with an error or a panic that the context holds.
pub const LEAVE: u32 = 1;

/// What a run of the code needs besides addresses.
pub struct Context<'c, 'r> {
    environment: &'c Environment<'r>,
    outside: &'c RunOutside<'c>,
    walks: &'c [PickedWalk],
    products: &'c [Gemm],
    choices: &'c [ColumnChoice],
    failure: Option<HloError>,
    panic: Option<Box<dyn Any + Send>>,
}

impl<'c, 'r> Context<'c, 'r> {
    pub fn new(
        environment: &'c Environment<'r>,
        outside: &'c RunOutside<'c>,
        prepared: &'c ScalarProgram,
    ) -> Context<'c, 'r> {
        Context {
            environment,
            outside,
            walks: &prepared.walks,
            products: &prepared.products,
            choices: &prepared.choices,
            failure: None,
            panic: None,
        }
    }

    /// What the run ends with.
    pub fn finish(self, goes_on: bool) -> Result<()> {
        if let Some(panic) = self.panic {
            resume_unwind(panic);
        }
        match self.failure {
            Some(failure) => Err(failure),
            None if goes_on => Ok(()),
            None => Err(HloError::execution("machine code left for no reason")),
        }
    }

    /// Keeps what `work` ends with, unless that is success.
    fn guard(&mut self, work: impl FnOnce(&Self) -> Result<()>) -> u32 {
        // What a thunk leaves half-written is memory of the run, which nobody reads after an error.
        match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(Ok(())) => return GO_ON,
            Ok(Err(failure)) => self.failure = Some(failure),
            Err(panic) => self.panic = Some(panic),
        }
        LEAVE
    }
}

/// Stands for a function until there is one.
pub unsafe extern "C" fn nothing(
    _: *const *mut u8,
    _: *mut u8,
    _: *const u8,
    _: *mut Context<'_, '_>,
) -> u32 {
    LEAVE
}

/// Whether the run goes on.
pub unsafe extern "C" fn check(context: *mut Context<'_, '_>) -> u32 {
    // SAFETY: the code passes on the context it was called with, which nobody else uses meanwhile.
    let context = unsafe { &mut *context };
    context.guard(|own| own.environment.check())
}

/// Runs the thunk of a number.
pub unsafe extern "C" fn outside(context: *mut Context<'_, '_>, number: usize) -> u32 {
    // SAFETY: as above.
    let context = unsafe { &mut *context };
    context.guard(|own| (own.outside)(number, own.environment))
}

/// Elements of a walk from `from` on to `to`.
pub unsafe extern "C" fn gather(
    context: *mut Context<'_, '_>,
    number: usize,
    size: usize,
    from: *const u8,
    n: usize,
    to: *mut u8,
) {
    // SAFETY: the walk is one of the loop's and stays inside the view that begins at `from`.
    unsafe { walk::gather(&(*context).walks[number], size, from, 0, n, to) };
}

/// Elements at `from` to those of a walk from `to` on.
pub unsafe extern "C" fn scatter(
    context: *mut Context<'_, '_>,
    number: usize,
    size: usize,
    from: *const u8,
    n: usize,
    to: *mut u8,
) {
    // SAFETY: as above.
    unsafe { walk::scatter(&(*context).walks[number], size, to, 0, n, from) };
}

/// The product of what is at `a` and `b`.
pub unsafe extern "C" fn product(
    context: *mut Context<'_, '_>,
    number: usize,
    a: *const u8,
    b: *const u8,
    out: *mut u8,
) {
    // SAFETY: the product is one of the loop's, and its matrices are there.
    unsafe { hlorun_kernels::tiny_gemm(&(*context).products[number], a, b, out) };
}

/// A choice among the pairs at `values` and `seconds` and those at `out` and `out_seconds`, which it replaces.
pub unsafe extern "C" fn choose(
    context: *mut Context<'_, '_>,
    number: usize,
    values: *const u8,
    seconds: *const u8,
    out: *mut u8,
    out_seconds: *mut u8,
) {
    // SAFETY: the choice is one of the loop's; the places hold as many pairs as it has, and results, which overlap no pair.
    unsafe {
        let own = &(*context).choices[number];
        (own.kernel)([values, seconds], own.shape, [out, out_seconds], own.choice);
    }
}

/// `n` bytes; they may overlap.
pub unsafe extern "C" fn copy(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the code passes places that hold as many bytes.
    unsafe { std::ptr::copy(from, to, n) };
}

/// A kernel, whose calling convention is Rust's own.
pub unsafe extern "C" fn unary(kernel: *const (), a: *const u8, out: *mut u8, n: usize) {
    // SAFETY: the code passes the kernel of an operation with one operand, and places that hold
    // what it reads and writes.
    unsafe { std::mem::transmute::<*const (), Unary>(kernel)(a, out, n) };
}

/// The same of two operands.
pub unsafe extern "C" fn binary(
    kernel: *const (),
    a: *const u8,
    b: *const u8,
    out: *mut u8,
    n: usize,
) {
    // SAFETY: as above.
    unsafe { std::mem::transmute::<*const (), Binary>(kernel)(a, b, out, n) };
}

/// The same of three operands.
pub unsafe extern "C" fn ternary(
    kernel: *const (),
    a: *const u8,
    b: *const u8,
    c: *const u8,
    out: *mut u8,
    n: usize,
) {
    // SAFETY: as above.
    unsafe { std::mem::transmute::<*const (), Ternary>(kernel)(a, b, c, out, n) };
}

/// `rows` rows of `n` elements from `a` on, each folded into one of those at `out`.
pub unsafe extern "C" fn fold_rows(
    kernel: *const (),
    a: *const u8,
    rows: usize,
    n: usize,
    out: *mut u8,
) {
    // SAFETY: as above.
    unsafe { std::mem::transmute::<*const (), FoldRows>(kernel)(a, rows, n, out) };
}

/// `n` elements at `a` folded into the one at `out`.
pub unsafe extern "C" fn reduce(kernel: *const (), a: *const u8, n: usize, out: *mut u8) {
    // SAFETY: as above.
    unsafe { std::mem::transmute::<*const (), Reduce>(kernel)(a, n, out) };
}
