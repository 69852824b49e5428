//! Fused loops of few elements: one tile, on the caller's stack.
//!
//! In: a loop that [`crate::plan::schedule::small_loop`] has made ready, and memory. Out: the same bits as
//! [`super::loops`] writes.

use std::mem::MaybeUninit;

use smallvec::SmallVec;

use super::walk;
use crate::exec::memory::Memory;
use crate::plan::cost::small_loop::MAX_SCRATCH;
use crate::plan::element::elementwise::Kernel;
use crate::plan::thunk::small_loop::{Base, Bring, SmallLoop};
use crate::plan::thunk::{LoadKind, LoopThunk};

/// Registers whose addresses need no memory of their own.
const REGISTERS: usize = 32;

#[repr(align(64))]
struct Scratch([MaybeUninit<u8>; MAX_SCRATCH]);

/// Runs `thunk`, of which `small` was made.
pub fn run(thunk: &LoopThunk, small: &SmallLoop, memory: &Memory) {
    let (program, n) = (&thunk.program, thunk.count);
    let mut scratch = Scratch([const { MaybeUninit::uninit() }; MAX_SCRATCH]);
    let own = scratch.0.as_mut_ptr().cast::<u8>();
    let known = small.known.as_ptr().cast::<u8>().cast_mut();
    let mut at: SmallVec<[*mut u8; REGISTERS]> = small
        .places
        .iter()
        .map(|&(base, offset)| match base {
            Base::Outside => std::ptr::null_mut(),
            Base::Scratch => own.wrapping_add(offset as usize),
            Base::Known => known.wrapping_add(offset as usize),
        })
        .collect();
    for (load, &bring) in thunk.loads.iter().zip(&small.loads) {
        let LoadKind::View(view) = &load.kind else {
            continue;
        };
        let register = load.register.0 as usize;
        let from = memory.first(view);
        let size = view.element_type.size_bytes();
        // SAFETY: the walk stays inside the view; the plan gave a gathered register room for `n`
        // elements of the scratch.
        unsafe {
            match bring {
                Bring::Known => {}
                Bring::InPlace => at[register] = from,
                Bring::Repeat => hlorun_kernels::fill(size, from, at[register], n),
                Bring::Gather => walk::gather(&load.walk, size, from, 0, n, at[register]),
            }
        }
    }
    for (store, &in_place) in thunk.stores.iter().zip(&small.stores) {
        if in_place {
            at[store.register.0 as usize] = memory.first(&store.view);
        }
    }
    for step in &program.steps {
        let [a, b, c] = step.operands.map(|register| at[register.0 as usize]);
        let out = at[step.result.0 as usize];
        // SAFETY: every register holds `n` elements: in the scratch, among the known ones, which
        // are no step's result, or in memory that a load or store names. A result is an operand's
        // memory or no operand's, as the plan promises of every fused loop.
        unsafe {
            match step.kernel {
                Kernel::Unary(f) => f(a, out, n),
                Kernel::Binary(f) => f(a, b, out, n),
                Kernel::WithScalar(f, ref value) => f(a, value.as_ptr(), out, n),
                Kernel::Ternary(f) => f(a, b, c, out, n),
                Kernel::ReducePrecision(f) => f.run(a, out, n),
                Kernel::Copy(size) => std::ptr::copy(a, out, n * size),
            }
        }
    }
    for (store, &in_place) in thunk.stores.iter().zip(&small.stores) {
        if in_place {
            continue;
        }
        let from = at[store.register.0 as usize].cast_const();
        let to = memory.first(&store.view);
        let size = store.view.element_type.size_bytes();
        // SAFETY: the store has a place for each of the `n` elements; a register that is an input
        // in the very place it goes to copies onto itself.
        unsafe {
            if store.is_dense {
                std::ptr::copy(from, to, n * size);
            } else {
                walk::scatter(&store.walk, size, to, 0, n, from);
            }
        }
    }
}
