//! Copies between views, shared by the threads where they are large.

use std::cmp::Reverse;

use crate::exec::element::picks::picks;
use crate::exec::element::walk::gather;
use crate::exec::environment::Environment;
use crate::plan::cost::copies::PARALLEL_BYTES;
use crate::plan::thunk::CopyThunk;
use crate::plan::view::ArrayView;
use crate::types::strided::is_row_major;

/// Runs a copy.
pub fn run(copy: &CopyThunk, environment: &Environment<'_>) {
    let bytes = copy.destination.count() * copy.destination.element_type.size_bytes();
    if bytes < PARALLEL_BYTES && is_one_run(&copy.source) && is_one_run(&copy.destination) {
        let memory = &environment.memory;
        // SAFETY: both views have as many elements side by side; they may be the same ones.
        unsafe {
            std::ptr::copy(
                memory.first(&copy.source),
                memory.first(&copy.destination),
                bytes,
            );
        }
        return;
    }
    if run_picked(copy, environment) {
        return;
    }
    let source = environment.memory.array(&copy.source);
    let destination = environment.memory.array(&copy.destination);
    environment.operation().copy(&source, &destination);
}

/// Copies elements that lie a few apart by vectors to where they lie side by side. Returns false, and copies nothing, where
/// they do not, or there is no such way.
fn run_picked(copy: &CopyThunk, environment: &Environment<'_>) -> bool {
    let (size, n) = (copy.source.element_type.size_bytes(), copy.source.count());
    let Some(walk) = copy.side_by_side() else {
        return false;
    };
    // Rows are moved as words; and what is read in another order than that of memory, by blocks.
    let is_row = walk.last().is_none_or(|row| row.1 == 1);
    let goes_along_memory = |depth: usize| {
        let outer = walk[..walk.len() - depth].iter();
        outer.is_sorted_by_key(|step| Reverse(step.1.unsigned_abs()))
    };
    if is_row || !picks(walk, size, n).is_some_and(|block| goes_along_memory(block.depth)) {
        return false;
    }
    let parts = match n * size < PARALLEL_BYTES {
        true => 1,
        false => environment.threads,
    };
    let memory = &environment.memory;
    (environment.parallel())(parts, &|part| {
        let (begin, end) = (n * part / parts, n * (part + 1) / parts);
        let to = memory.first(&copy.destination).wrapping_add(begin * size);
        // SAFETY: the walk is that of the source, whose elements lie in memory; those of the destination lie side by side
        // from its first one on, and none of them is in the source. Parts are disjoint.
        unsafe {
            gather(
                walk,
                size,
                memory.first(&copy.source),
                begin,
                end - begin,
                to,
            )
        };
    });
    true
}

/// Whether the elements lie side by side in row-major order.
fn is_one_run(view: &ArrayView) -> bool {
    is_row_major(&view.dims, &view.strides)
}
