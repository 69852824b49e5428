//! Loops of small steps: scalar bytecode over the addresses of one run.
//!
//! In: a loop that [`crate::plan::schedule::scalar_bytecode`] has made ready, and memory. Out: what its thunks would have
//! written, to the bit.

use std::mem::MaybeUninit;

use hlorun_kernels::Gemm;
use hlorun_kernels::scalar_bytecode::{Call, Exit, Extra, Op, State};

use super::machine_code;
use super::outside::OutsideThunks;
use super::walk;
use crate::error::{HloError, Result};
use crate::exec::environment::{Environment, Runner};
use crate::plan::cost::scalar_bytecode::{FUEL, MAX_SCRATCH};
use crate::plan::thunk::PickedWalk;
use crate::plan::thunk::scalar_bytecode::{Code, Place, ScalarLoop, ScalarOp};
use crate::plan::thunk::{Thunk, ThunkKind, WhileThunk};

#[repr(align(64))]
struct Scratch([MaybeUninit<u8>; MAX_SCRATCH]);

/// Runs `repeated`, of which `prepared` was made; `runner` runs the thunks that the code leaves for.
pub fn run(
    prepared: &ScalarLoop,
    repeated: &WhileThunk,
    environment: &Environment<'_>,
    runner: Runner,
) -> Result<()> {
    let mut scratch = Scratch([const { MaybeUninit::uninit() }; MAX_SCRATCH]);
    let own = scratch.0.as_mut_ptr().cast::<u8>();
    let address = |place: Place| match place {
        Place::Nowhere => std::ptr::null_mut(),
        Place::Scratch(offset) => own.wrapping_add(offset),
        Place::Known(offset) => {
            let known = prepared.known.as_ptr().cast::<u8>().cast_mut();
            known.wrapping_add(offset)
        }
        Place::Allocation(allocation, offset) => {
            environment.memory.base(allocation).wrapping_add(offset)
        }
    };
    let outside = prepared
        .outside
        .iter()
        .map(|path| find(repeated, path))
        .collect::<Option<Vec<&Thunk>>>()
        .ok_or_else(|| HloError::execution("scalar bytecode of another loop"))?;
    let calls = OutsideThunks::new(&outside, runner);
    let run_outside = |number: usize, environment: &Environment<'_>| calls.run(number, environment);
    environment.check()?;
    let expected = repeated.trip_count.unwrap_or(0);
    let expected = expected.saturating_mul(prepared.work as u64);
    if let Some(made) = machine_code::before_first_trip(prepared, expected, &outside) {
        // SAFETY: the code is of this loop, whose thunks' views hold for this memory.
        return unsafe { machine_code::run(&made, prepared, own, &run_outside, environment) };
    }
    let code: Vec<Op> = prepared
        .ops
        .iter()
        .map(|op| resolve(prepared, op, &address))
        .collect();
    let mut state = State::new(&code);
    state.fuel = FUEL;
    let mut worked = 0;
    loop {
        // SAFETY: places lie in the scratch, in what is known, or in allocations as views of the
        // plan do, and hold what the operation of the same thunk reads and writes; all jumps stay
        // in the code, whose last operation is its end.
        match unsafe { state.run() } {
            Exit::End => {
                prepared.compiled.worked((FUEL - state.fuel) as u64);
                return Ok(());
            }
            Exit::Pause => {
                environment.check()?;
                let work = (FUEL - state.fuel) as u64;
                worked += work;
                let at = state.at(&code);
                if let Some(made) = machine_code::after_work(prepared, (work, worked), at, &outside)
                {
                    // SAFETY: as above; nothing in the scratch is needed after a jump back.
                    return unsafe {
                        machine_code::run(&made, prepared, own, &run_outside, environment)
                    };
                }
                state.fuel = FUEL;
            }
            Exit::Outside(number) => run_outside(number as usize, environment)?,
        }
    }
}

fn resolve(prepared: &ScalarLoop, op: &ScalarOp, address: &dyn Fn(Place) -> *mut u8) -> Op {
    let [a, b, c] = op.operands.map(|place| address(place).cast_const());
    let walk = |number: usize| Extra {
        pointer: std::ptr::from_ref(&prepared.walks[number]).cast(),
    };
    let (run, x, extra) = match op.code {
        Code::Function(function) => {
            let extra = match function.call {
                Call::None => Extra { stride: op.stride },
                Call::Unary(unary) => Extra { unary },
                Call::Binary(binary) => Extra { binary },
                Call::Ternary(ternary) => Extra { ternary },
                Call::Reduce(reduce) => Extra { reduce },
                Call::FoldRows(fold_rows) => Extra { fold_rows },
            };
            (function.run, op.x, extra)
        }
        Code::Gather(number, size) => (gather as _, size as i64, walk(number)),
        Code::Scatter(number, size) => (scatter as _, size as i64, walk(number)),
        Code::Product(number) => {
            let pointer = std::ptr::from_ref(&prepared.products[number]).cast();
            (product as _, 0, Extra { pointer })
        }
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
        let steps = &*op.extra.pointer.cast::<PickedWalk>();
        walk::gather(steps, op.x as usize, op.a, 0, op.n, op.out);
        at.add(1)
    }
}

/// Elements at `a` to a walk at `out`.
unsafe fn scatter(at: *const Op, _: &mut State) -> *const Op {
    // SAFETY: as above.
    unsafe {
        let op = &*at;
        let steps = &*op.extra.pointer.cast::<PickedWalk>();
        walk::scatter(steps, op.x as usize, op.out, 0, op.n, op.a);
        at.add(1)
    }
}

/// The product of what is at `a` and `b`.
unsafe fn product(at: *const Op, _: &mut State) -> *const Op {
    // SAFETY: `resolve` put the product there; its matrices are the views of its thunk, or dense
    // copies of them.
    unsafe {
        let op = &*at;
        let gemm = &*op.extra.pointer.cast::<Gemm>();
        hlorun_kernels::tiny_gemm(gemm, op.a, op.b, op.out);
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
