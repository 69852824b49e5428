//! Copies between views, shared by the threads where they are large.

use crate::exec::array::RawArray;
use crate::exec::environment::Environment;
use crate::plan::thunk::CopyThunk;
use crate::plan::view::ArrayView;
use crate::types::strided::is_row_major;

/// Bytes from which a second thread pays.
const PARALLEL_BYTES: usize = 1 << 18;

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
    let parts = if destination.byte_size() < PARALLEL_BYTES {
        1
    } else {
        environment.threads
    };
    // Parts along the dimension whose neighbours lie farthest apart, so that they share no cache
    // line and every thread walks through its own memory.
    let axis = (0..destination.dims.len())
        .filter(|&d| destination.dims[d] >= parts as i64)
        .max_by_key(|&d| destination.strides[d].unsigned_abs());
    let Some(axis) = axis.filter(|_| parts > 1) else {
        source.copy_to(&destination);
        return;
    };
    let (from, to) = (Pieces(source), Pieces(destination));
    let size = to.0.dims[axis] as usize;
    (environment.parallel())(parts, &|part| {
        let (begin, end) = (size * part / parts, size * (part + 1) / parts);
        from.piece(axis, begin, end)
            .copy_to(&to.piece(axis, begin, end));
    });
}

/// Whether the elements lie side by side in row-major order.
fn is_one_run(view: &ArrayView) -> bool {
    is_row_major(&view.dims, &view.strides)
}

/// An array that threads take disjoint pieces of.
struct Pieces(RawArray);

// SAFETY: the source is only read, and pieces of the destination are disjoint.
unsafe impl Sync for Pieces {}

impl Pieces {
    /// Positions `begin..end` along `axis`.
    fn piece(&self, axis: usize, begin: usize, end: usize) -> RawArray {
        let mut array = self.0.clone();
        let bytes = array.strides[axis] as isize * array.element_type.size_bytes() as isize;
        // SAFETY: `begin` is a position along the axis.
        array.pointer = unsafe { array.pointer.offset(begin as isize * bytes) };
        array.dims[axis] = (end - begin) as i64;
        array
    }
}
