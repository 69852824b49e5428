//! Loops of small steps: flat code over the addresses of one run.
//!
//! In: a loop that [`crate::plan::flat`] has made ready, and memory. Out: what its thunks would have
//! written, to the bit.

use std::mem::MaybeUninit;

use hlorun_kernels::flat::{Call, Exit, Extra, Op, State};

use super::environment::Environment;
use super::executor;
use super::walk;
use crate::error::{HloError, Result};
use crate::plan::flat::{Code, FUEL, FlatLoop, FlatOp, MAX_SCRATCH, Place};
use crate::plan::thunk::{Thunk, ThunkKind, WhileThunk};
use crate::plan::view::Walk;

#[repr(align(64))]
struct Scratch([MaybeUninit<u8>; MAX_SCRATCH]);

/// Runs `repeated`, of which `flat` was made.
pub fn run(flat: &FlatLoop, repeated: &WhileThunk, environment: &Environment<'_>) -> Result<()> {
    let mut scratch = Scratch([const { MaybeUninit::uninit() }; MAX_SCRATCH]);
    let own = scratch.0.as_mut_ptr().cast::<u8>();
    let address = |place: Place| match place {
        Place::Nowhere => std::ptr::null_mut(),
        Place::Scratch(offset) => own.wrapping_add(offset),
        Place::Known(offset) => {
            let known = flat.known.as_ptr().cast::<u8>().cast_mut();
            known.wrapping_add(offset)
        }
        Place::Allocation(allocation, offset) => {
            environment.memory.base(allocation).wrapping_add(offset)
        }
    };
    let code: Vec<Op> = flat
        .ops
        .iter()
        .map(|op| resolve(flat, op, &address))
        .collect();
    let outside = flat
        .outside
        .iter()
        .map(|path| find(repeated, path))
        .collect::<Option<Vec<&Thunk>>>()
        .ok_or_else(|| HloError::execution("flat code of another loop"))?;
    let mut state = State::new(&code);
    environment.check()?;
    state.fuel = FUEL;
    loop {
        // SAFETY: places lie in the scratch, in what is known, or in allocations as views of the
        // plan do, and hold what the operation of the same thunk reads and writes; all jumps stay
        // in the code, whose last operation is its end.
        match unsafe { state.run() } {
            Exit::End => return Ok(()),
            Exit::Pause => {
                environment.check()?;
                state.fuel = FUEL;
            }
            Exit::Outside(number) => executor::run(outside[number as usize], environment)?,
        }
    }
}

fn resolve(flat: &FlatLoop, op: &FlatOp, address: &dyn Fn(Place) -> *mut u8) -> Op {
    let [a, b, c] = op.operands.map(|place| address(place).cast_const());
    let walk = |number: usize| Extra {
        pointer: std::ptr::from_ref(&flat.walks[number]).cast(),
    };
    let (run, x, extra) = match op.code {
        Code::Function(function) => {
            let extra = match function.call {
                Call::None => Extra { stride: op.stride },
                Call::Unary(unary) => Extra { unary },
                Call::Binary(binary) => Extra { binary },
                Call::Ternary(ternary) => Extra { ternary },
                Call::Reduce(reduce) => Extra { reduce },
            };
            (function.run, op.x, extra)
        }
        Code::Gather(number, size) => (gather as _, size as i64, walk(number)),
        Code::Scatter(number, size) => (scatter as _, size as i64, walk(number)),
    };
    Op {
        run,
        a,
        b,
        c,
        out: address(op.out),
        n: op.n,
        x,
        extra,
    }
}

/// Elements of a walk at `a` to `out`; `x` is the bytes of one, `n` how many.
unsafe fn gather(at: *const Op, _: &mut State) -> *const Op {
    // SAFETY: `resolve` put the walk there; it stays inside the view that begins at `a`.
    unsafe {
        let op = &*at;
        let steps = &*op.extra.pointer.cast::<Walk>();
        walk::gather(steps, op.x as usize, op.a, 0, op.n, op.out);
        at.add(1)
    }
}

/// Elements at `a` to a walk at `out`.
unsafe fn scatter(at: *const Op, _: &mut State) -> *const Op {
    // SAFETY: as above.
    unsafe {
        let op = &*at;
        let steps = &*op.extra.pointer.cast::<Walk>();
        walk::scatter(steps, op.x as usize, op.out, 0, op.n, op.a);
        at.add(1)
    }
}

/// The thunk that a path names.
fn find<'t>(repeated: &'t WhileThunk, path: &[(u32, u32)]) -> Option<&'t Thunk> {
    let sequence = |repeated: &'t WhileThunk, number: u32| match number {
        0 => &repeated.condition,
        _ => &repeated.body,
    };
    let (&(number, at), rest) = path.split_first()?;
    let mut thunk = sequence(repeated, number).get(at as usize)?;
    for &(number, at) in rest {
        let thunks = match &thunk.kind {
            ThunkKind::While(repeated) => sequence(repeated, number),
            ThunkKind::Conditional(choice) => choice.branches.get(number as usize)?,
            _ => return None,
        };
        thunk = thunks.get(at as usize)?;
    }
    Some(thunk)
}
