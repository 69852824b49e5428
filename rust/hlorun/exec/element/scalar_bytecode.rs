//! Small steps: scalar bytecode over the addresses of one run.
//!
//! In: a loop or an entry that [`crate::plan::schedule::scalar_bytecode`] has made ready, and memory. Out: what its thunks
//! would have written, to the bit.

use std::mem::MaybeUninit;

use hlorun_kernels::Gemm;
use hlorun_kernels::scalar_bytecode::{Call, Exit, Extra, Op, State};

use super::machine_code;
use super::outside::{OutsideThunks, RunOutside};
use super::walk;
use crate::error::{HloError, Result};
use crate::exec::environment::{Environment, Runner};
use crate::plan::cost::scalar_bytecode::{FUEL, MAX_SCRATCH};
use crate::plan::thunk::PickedWalk;
use crate::plan::thunk::scalar_bytecode::{Code, ColumnChoice, Place, ScalarOp, ScalarProgram};
use crate::plan::thunk::{Thunk, ThunkKind, ThunkSequence, WhileThunk};

#[repr(align(64))]
struct Scratch([MaybeUninit<u8>; MAX_SCRATCH]);

impl Scratch {
    fn new() -> Scratch {
        Scratch([const { MaybeUninit::uninit() }; MAX_SCRATCH])
    }

    fn address(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// The code of a program for the addresses of one run. The next run changes what has moved since.
struct Resolved {
    code: Vec<Op>,
    /// One scratch. It is in a vector because the code points to it, and a vector may be moved without moving what it holds.
    scratch: Vec<Scratch>,
    /// The addresses of all allocations.
    bases: Box<[*mut u8]>,
    /// Allocations, each with the operations that name it, in order.
    users: Vec<(u32, u32)>,
}

// SAFETY: one run at a time owns it, and puts the addresses of its own memory in before it uses any.
unsafe impl Send for Resolved {}

impl Resolved {
    /// For memory at these addresses.
    fn of(prepared: &ScalarProgram, bases: &[*mut u8]) -> Box<Resolved> {
        if let Some(mut kept) = prepared.kept.take::<Resolved>()
            && kept.bases.len() == bases.len()
        {
            kept.move_to(prepared, bases);
            return kept;
        }
        let mut scratch = Vec::with_capacity(1);
        scratch.push(Scratch::new());
        let own = scratch.as_mut_ptr().cast();
        let ops = prepared.ops.iter();
        let code = ops.map(|op| resolve(prepared, op, own, bases)).collect();
        let mut users: Vec<_> = prepared.ops.iter().zip(0..).flat_map(named).collect();
        users.sort_unstable();
        Box::new(Resolved {
            code,
            scratch,
            bases: bases.into(),
            users,
        })
    }

    /// Lets the code name what has other addresses now.
    fn move_to(&mut self, prepared: &ScalarProgram, bases: &[*mut u8]) {
        let own = self.scratch.as_mut_ptr().cast();
        let mut affected = Vec::new();
        for (allocation, (old, &new)) in (0..).zip(self.bases.iter_mut().zip(bases)) {
            if std::mem::replace(old, new) == new {
                continue;
            }
            let first = self.users.partition_point(|user| user.0 < allocation);
            let users = self.users[first..].iter();
            let users = users.take_while(|user| user.0 == allocation);
            affected.extend(users.map(|&(_, at)| at as usize));
        }
        // An operation may name several of them.
        affected.sort_unstable();
        affected.dedup();
        for at in affected {
            self.code[at] = resolve(prepared, &prepared.ops[at], own, bases);
        }
    }
}

/// The allocations that an operation names, each with its number.
fn named((op, number): (&ScalarOp, u32)) -> impl Iterator<Item = (u32, u32)> {
    let places = op.operands.into_iter().chain([op.out]);
    places.filter_map(move |place| match place {
        Place::Allocation(allocation, _) => Some((allocation, number)),
        _ => None,
    })
}

/// What a program was made of.
#[derive(Clone, Copy)]
pub enum Origin<'t> {
    /// A loop.
    Loop(&'t WhileThunk),
    /// The thunks of the entry.
    Entry(&'t ThunkSequence),
}

/// Runs `prepared`, which was made of `origin`; `runner` runs the thunks that the code leaves for.
pub fn run(
    prepared: &ScalarProgram,
    origin: Origin<'_>,
    environment: &Environment<'_>,
    runner: Runner,
) -> Result<()> {
    let outside = prepared
        .outside
        .iter()
        .map(|path| find(origin, path))
        .collect::<Option<Vec<&Thunk>>>()
        .ok_or_else(|| HloError::execution("scalar bytecode of other thunks"))?;
    let calls = OutsideThunks::new(&outside, runner);
    let run_outside = |number: usize, environment: &Environment<'_>| {
        // Loops look for the wish to end the run when they jump back.
        if matches!(origin, Origin::Entry(_)) {
            environment.check()?;
        }
        calls.run(number, environment)
    };
    environment.check()?;
    let trips = match origin {
        Origin::Loop(repeated) => repeated.trip_count.unwrap_or(0),
        Origin::Entry(_) => 0,
    };
    let expected = trips.saturating_mul(prepared.work as u64);
    if let Some(made) = machine_code::before_first_trip(prepared, expected, &outside) {
        prepared.kept.forget();
        let mut scratch = Scratch::new();
        let own = scratch.address();
        // SAFETY: the code is of this program, whose thunks' views hold for this memory.
        return unsafe { machine_code::run(&made, prepared, own, &run_outside, environment) };
    }
    let mut resolved = Resolved::of(prepared, environment.memory.bases());
    let result = interpret(
        prepared,
        &mut resolved,
        (origin, &outside),
        &run_outside,
        environment,
    );
    prepared.kept.leave(resolved);
    result
}

/// Runs the code operation by operation, until machine code takes over.
fn interpret(
    prepared: &ScalarProgram,
    resolved: &mut Resolved,
    (origin, outside): (Origin<'_>, &[&Thunk]),
    run_outside: &RunOutside<'_>,
    environment: &Environment<'_>,
) -> Result<()> {
    let code = &resolved.code;
    let mut state = State::new(code);
    state.fuel = FUEL;
    let mut worked = 0;
    loop {
        // SAFETY: places lie in the scratch, in what is known, or in allocations as views of the
        // plan do, and hold what the operation of the same thunk reads and writes; all jumps stay
        // in the code, whose last operation is its end.
        match unsafe { state.run() } {
            Exit::End => {
                prepared.compiled.ended(match origin {
                    Origin::Loop(_) => (FUEL - state.fuel) as u64,
                    Origin::Entry(_) => prepared.work as u64,
                });
                return Ok(());
            }
            Exit::Pause => {
                environment.check()?;
                let work = (FUEL - state.fuel) as u64;
                worked += work;
                let at = state.at(code);
                if let Some(made) = machine_code::after_work(prepared, (work, worked), at, outside)
                {
                    let own = resolved.scratch.as_mut_ptr().cast();
                    // SAFETY: as above; nothing in the scratch is needed after a jump back.
                    return unsafe {
                        machine_code::run(&made, prepared, own, run_outside, environment)
                    };
                }
                state.fuel = FUEL;
            }
            Exit::Outside(number) => run_outside(number as usize, environment)?,
        }
    }
}

/// An operation for a scratch at `own` and allocations at `bases`.
fn resolve(prepared: &ScalarProgram, op: &ScalarOp, own: *mut u8, bases: &[*mut u8]) -> Op {
    let address = |place: Place| match place {
        Place::Nowhere => std::ptr::null_mut(),
        Place::Scratch(offset) => own.wrapping_add(offset),
        Place::Known(offset) => {
            let known = prepared.known.as_ptr().cast::<u8>().cast_mut();
            known.wrapping_add(offset)
        }
        Place::Allocation(allocation, offset) => bases[allocation as usize].wrapping_add(offset),
    };
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
        Code::Choose(number) => {
            let pointer = std::ptr::from_ref(&prepared.choices[number]).cast();
            (choose as _, 0, Extra { pointer })
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

/// A choice among the pairs at `a` and `b` and those at `out` and `c`, which it replaces.
unsafe fn choose(at: *const Op, _: &mut State) -> *const Op {
    // SAFETY: `resolve` put the choice there; the places hold as many pairs as it has, and results, which overlap no pair.
    unsafe {
        let op = &*at;
        let own = &*op.extra.pointer.cast::<ColumnChoice>();
        (own.kernel)(
            [op.a, op.b],
            own.shape,
            [op.out, op.c.cast_mut()],
            own.choice,
        );
        at.add(1)
    }
}

/// The thunk that a path names.
fn find<'t>(origin: Origin<'t>, path: &[(u32, u32)]) -> Option<&'t Thunk> {
    let sequence = |repeated: &'t WhileThunk, number: u32| match number {
        0 => &repeated.condition,
        _ => &repeated.body,
    };
    let (&(number, at), rest) = path.split_first()?;
    let first = match origin {
        Origin::Loop(repeated) => sequence(repeated, number),
        Origin::Entry(thunks) => thunks,
    };
    let mut thunk = first.get(at as usize)?;
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
