//! Scalar bytecode: small operations on fixed addresses, with jumps.
//!
//! In: [`Op`]s, each an operation with the addresses it reads and writes. Out: what they compute, one after the other,
//! until one says that something else is to happen ([`Exit`]). An operation on single elements costs about as much as
//! its loads and its store: no lengths, no walks, no dispatch beyond one call. Promise: an operation gives the bits of
//! its kernel; nothing is allocated; code that jumps backwards gives up after as much work as it was allowed.

mod math;
mod moves;
mod scalar;

pub use math::{binary_function, unary_function};
pub use moves::{copy, index, load, store};
pub use scalar::{back_if_compare, binary, clamp, compare, convert, select, unary};

use crate::DType;
use crate::elementwise::{Binary, Ternary, Unary};
use crate::ops::CompareDirection;
use crate::reduce::Reduce;
use crate::rows::FoldRows;

/// Most operations between two that jump or leave: each may run the next from within itself.
pub const MAX_RUN: usize = 64;

/// Runs an operation, and maybe some after it; returns the next one, or null to leave.
///
/// # Safety
/// The operation's addresses hold what its function reads and writes, and those that it may go on to are operations.
pub type Run = unsafe fn(*const Op, &mut State) -> *const Op;

/// What an operation knows besides its addresses.
#[derive(Clone, Copy)]
pub union Extra {
    /// Nothing.
    pub none: (),
    /// A kernel.
    pub unary: Unary,
    /// A kernel.
    pub binary: Binary,
    /// A kernel.
    pub ternary: Ternary,
    /// A kernel.
    pub reduce: Reduce,
    /// A kernel.
    pub fold_rows: FoldRows,
    /// Bytes per unit of an index.
    pub stride: isize,
    /// Something that lives as long as the code.
    pub pointer: *const (),
}

/// One operation on known addresses.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Op {
    /// What runs.
    pub run: Run,
    /// First operand.
    pub a: *const u8,
    /// Second operand.
    pub b: *const u8,
    /// Third operand.
    pub c: *const u8,
    /// Result.
    pub out: *mut u8,
    /// Elements, or bytes of what is moved; work, of a jump.
    pub n: usize,
    /// Highest index; operations to move on by, of a jump; number of what is left for.
    pub x: i64,
    /// See there.
    pub extra: Extra,
}

/// A kernel that an operation calls.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// None.
    None,
    /// One operand.
    Unary(Unary),
    /// Two operands.
    Binary(Binary),
    /// Three operands.
    Ternary(Ternary),
    /// Elements folded into one.
    Reduce(Reduce),
    /// Rows, each folded into one.
    FoldRows(FoldRows),
}

/// What an operation does, for who makes other code of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// [`end`].
    End,
    /// [`jump`].
    Jump,
    /// [`back`].
    Back,
    /// [`back_if`].
    BackIf,
    /// [`back_if_compare`].
    BackIfCompare(CompareDirection, DType),
    /// [`jump_if_zero`].
    JumpIfZero,
    /// [`switch`].
    Switch,
    /// [`outside`].
    Outside,
    /// An elementwise operation on single elements.
    Element,
    /// A kernel over `n` elements.
    Kernel,
    /// [`call_reduce`].
    Reduce,
    /// [`call_fold_rows`].
    FoldRows,
    /// [`copy`].
    Copy,
    /// [`index`]: the index's type, and whether those before are forgotten.
    Index(DType, bool),
    /// [`load`]: the index's type, and whether there are others before it.
    Load(DType, bool),
    /// [`store`], likewise.
    Store(DType, bool),
}

/// What an operation does, before it has addresses.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// What runs.
    pub run: Run,
    /// The kernel it calls.
    pub call: Call,
    /// What that is.
    pub kind: Kind,
}

impl Function {
    fn of(run: Run, kind: Kind) -> Function {
        Function {
            run,
            call: Call::None,
            kind,
        }
    }
}

/// What the operations of one run share.
pub struct State {
    /// Bytes that indices have added up to.
    offset: isize,
    /// Work until the code gives up.
    pub fuel: i64,
    /// Where to go on after an exit.
    next: *const Op,
    exit: Exit,
}

/// Why code stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// It is done.
    End,
    /// It has done as much as it was allowed at one time, and can go on.
    Pause,
    /// Something of this number is to be done, then it can go on.
    Outside(i64),
}

impl State {
    /// Before the first operation of `code`.
    pub fn new(code: &[Op]) -> State {
        State {
            offset: 0,
            fuel: 0,
            next: code.as_ptr(),
            exit: Exit::End,
        }
    }

    /// The operation of `code` that is to run next.
    pub fn at(&self, code: &[Op]) -> usize {
        (self.next.addr() - code.as_ptr().addr()) / size_of::<Op>()
    }

    /// Runs until something else is to happen.
    ///
    /// # Safety
    /// The code has not ended, every operation's addresses hold what its function reads and writes, and every way
    /// through the code ends with an operation that leaves.
    pub unsafe fn run(&mut self) -> Exit {
        let mut at = self.next;
        while !at.is_null() {
            // SAFETY: by the caller's promise `at` is an operation.
            at = unsafe { ((*at).run)(at, self) };
        }
        self.exit
    }
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident $kind:ident => $run:ident($op:ident, $state:ident) $body:block)*) => {$(
        unsafe fn $run(at: *const Op, $state: &mut State) -> *const Op {
            // SAFETY: by the promise of `Run`, the addresses hold what is read and written.
            unsafe {
                let $op = &*at;
                $body
            }
        }
        $(#[$doc])*
        pub fn $name() -> Function {
            Function::of($run, Kind::$kind)
        }
    )*};
}

unsafe fn by(op: &Op) -> *const Op {
    // SAFETY: the caller's promise that the code holds the operation it jumps to.
    unsafe { std::ptr::from_ref(op).offset(op.x as isize) }
}

unsafe fn next(op: &Op) -> *const Op {
    // SAFETY: the last operation of a code leaves.
    unsafe { std::ptr::from_ref(op).add(1) }
}

/// Runs the next operation from within this one: as the last thing a function does, the call is a
/// jump. Where a compiler does not make it one, [`MAX_RUN`] bounds the stack.
#[inline(always)]
unsafe fn go_on(op: &Op, state: &mut State) -> *const Op {
    // SAFETY: the last operation of a code leaves.
    unsafe {
        let next = next(op);
        ((*next).run)(next, state)
    }
}

operations! {
    /// The end.
    end End => run_end(_op, state) {
        state.exit = Exit::End;
        std::ptr::null()
    }
    /// Goes on `x` operations further.
    jump Jump => run_jump(op, _state) { by(op) }
    /// The same backwards, which costs `n` of the fuel.
    back Back => run_back(op, state) {
        state.fuel -= op.n as i64;
        if state.fuel < 0 {
            state.next = by(op);
            state.exit = Exit::Pause;
            return std::ptr::null();
        }
        by(op)
    }
    /// Where the byte at `a` is not zero, goes back as `back` does.
    back_if BackIf => run_back_if(op, state) {
        if op.a.read() == 0 { next(op) } else { run_back(op, state) }
    }
    /// Goes on `x` operations further where the byte at `a` is zero.
    jump_if_zero JumpIfZero => run_jump_if_zero(op, _state) {
        if op.a.read() == 0 { by(op) } else { next(op) }
    }
    /// Goes on by 1 plus the `s32` at `a`; by `n` where that is none of `0..n`.
    switch Switch => run_switch(op, _state) {
        let value = op.a.cast::<i32>().read_unaligned();
        let case = usize::try_from(value).unwrap_or(op.n).min(op.n.saturating_sub(1));
        std::ptr::from_ref(op).add(1 + case)
    }
    /// Leaves for number `x`.
    outside Outside => run_outside(op, state) {
        state.next = next(op);
        state.exit = Exit::Outside(op.x);
        std::ptr::null()
    }
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident, $run:ident($op:ident), $t:ident, $kind:ident, $call:expr;)*) => {$(
        unsafe fn $run(at: *const Op, state: &mut State) -> *const Op {
            // SAFETY: by the promise of `Run`; the code was made with a kernel of this type.
            unsafe {
                let $op = &*at;
                $call;
                go_on($op, state)
            }
        }

        $(#[$doc])*
        pub fn $name(kernel: $t) -> Function {
            Function {
                run: $run,
                call: Call::$t(kernel),
                kind: Kind::$kind,
            }
        }
    )*};
}
calls! {
    /// `n` elements at `a` folded into the one at `out`.
    call_reduce, run_reduce(op), Reduce, Reduce, (op.extra.reduce)(op.a, op.n, op.out);
    /// `x` rows of `n` elements, one behind the other from `a` on, each folded into one of those at `out`.
    call_fold_rows, run_fold_rows(op), FoldRows, FoldRows, (op.extra.fold_rows)(op.a, op.x as usize, op.n, op.out);
    /// A kernel over `n` elements: from `a` to `out`.
    call_unary, run_unary(op), Unary, Kernel, (op.extra.unary)(op.a, op.out, op.n);
    /// The same for two operands; the second may be the one element of a kernel with a scalar.
    call_binary, run_binary(op), Binary, Kernel, (op.extra.binary)(op.a, op.b, op.out, op.n);
    /// The same for three operands.
    call_ternary, run_ternary(op), Ternary, Kernel, (op.extra.ternary)(op.a, op.b, op.c, op.out, op.n);
}

#[cfg(test)]
mod tests;
