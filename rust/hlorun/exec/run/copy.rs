//! Copies between views, shared by the threads where they are large.

use crate::exec::environment::Environment;
use crate::exec::parallel::PARALLEL_BYTES;
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
    let source = environment.memory.array(&copy.source);
    let destination = environment.memory.array(&copy.destination);
    environment.operation().copy(&source, &destination);
}

/// Whether the elements lie side by side in row-major order.
fn is_one_run(view: &ArrayView) -> bool {
    is_row_major(&view.dims, &view.strides)
}
