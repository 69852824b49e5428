//! Loops that threads share.
//!
//! In: thunks, before their buffers have memory. Out: [`LoopThunk::is_shared`]. Promise: results do not depend on it.
//!
//! Threads share a loop of much work. They also share one of less work that has a buffer in common with such a loop of the
//! same sequence: each thread has its part of that buffer in its own cache, and one alone would have to fetch the parts of
//! the others.

use rustc_hash::FxHashMap;

use crate::plan::cost::tiles::{MIN_COMMON, PARALLEL_WORK, PARALLEL_WORK_BESIDE};
use crate::plan::thunk::{LoopThunk, Thunk, ThunkKind};

/// The name that switches it off: one thread runs each loop.
pub const NAME: &str = "shared-loops";

/// Chooses among the loops of `thunks`, those inside control flow too; gives back how many are shared.
pub fn choose(thunks: &mut [Thunk]) -> usize {
    let mut count = 0;
    let mut sequences: Vec<&mut [Thunk]> = vec![thunks];
    while let Some(sequence) = sequences.pop() {
        let mut loops = Vec::new();
        for thunk in sequence {
            match &mut thunk.kind {
                ThunkKind::Loop(fused) if fused.work() >= PARALLEL_WORK_BESIDE => {
                    loops.push(&mut **fused);
                }
                ThunkKind::While(own) => {
                    sequences.extend([&mut own.condition[..], &mut own.body[..]]);
                }
                ThunkKind::Conditional(own) => {
                    sequences.extend(own.branches.iter_mut().map(|branch| &mut branch[..]));
                }
                _ => {}
            }
        }
        count += choose_among(&mut loops);
    }
    count
}

/// Chooses among the loops of one sequence that have enough work to be shared beside another one.
fn choose_among(loops: &mut [&mut LoopThunk]) -> usize {
    let mut count = 0;
    let mut on_buffer: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
    for (at, fused) in loops.iter().enumerate() {
        each_large_buffer(fused, &mut |buffer| {
            on_buffer.entry(buffer).or_default().push(at);
        });
    }
    let is_long = |&at: &usize| loops[at].work() >= PARALLEL_WORK;
    let mut shared: Vec<usize> = (0..loops.len()).filter(is_long).collect();
    while let Some(at) = shared.pop() {
        if std::mem::replace(&mut loops[at].is_shared, true) {
            continue;
        }
        count += 1;
        each_large_buffer(loops[at], &mut |buffer| {
            // Once is enough: all loops on the buffer are shared then.
            shared.extend(on_buffer.remove(&buffer).into_iter().flatten());
        });
    }
    count
}

/// Calls `f` with the buffers that take long to fetch from another thread's cache.
fn each_large_buffer(fused: &LoopThunk, f: &mut dyn FnMut(u32)) {
    fused.each_access(&mut |access| {
        if access.slice.size >= MIN_COMMON {
            f(access.slice.allocation);
        }
    });
}
