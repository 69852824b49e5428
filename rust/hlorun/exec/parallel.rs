//! Loops over tasks, and copies by all threads.

use super::array::RawArray;

/// Bytes of a copy from which a second thread pays.
pub const PARALLEL_BYTES: usize = 1 << 18;

/// Runs a task for every number below a count.
pub type ParallelLoop<'p> = dyn Fn(usize, &(dyn Fn(usize) + Sync)) + Sync + 'p;

/// What an operation may use beyond its arrays.
#[derive(Clone, Copy)]
pub struct OpEnvironment<'e> {
    /// Runs `task(i)` for every `i` below the count, on all threads of the executable.
    pub parallel: &'e ParallelLoop<'e>,
    /// How many threads that is. No bit of a result may depend on it.
    pub threads: usize,
}

impl OpEnvironment<'_> {
    /// Leaves the operation if the run is to end, for work that is not a loop over tasks.
    pub fn check(&self) {
        (self.parallel)(1, &|_| {});
    }

    /// The same for products.
    pub fn products(&self) -> hlorun_kernels::Parallel<'_> {
        hlorun_kernels::Parallel {
            threads: self.threads,
            run: self.parallel,
        }
    }
}

impl OpEnvironment<'_> {
    /// Copies every element of `source` to `destination`, which has the same sizes and element size.
    pub fn copy(&self, source: &RawArray, destination: &RawArray) {
        let parts = if destination.byte_size() < PARALLEL_BYTES {
            1
        } else {
            self.threads
        };
        // Parts along the dimension whose neighbours lie farthest apart on both sides, so that they share no cache
        // line and every thread walks through its own memory. Where the source is repeated, the destination decides.
        let apart = |d: usize| {
            let to = destination.strides[d].unsigned_abs();
            let from = match source.strides[d].unsigned_abs() {
                0 => to,
                from => from,
            };
            (from.min(to), to)
        };
        let axis = (0..destination.dims.len())
            .filter(|&d| destination.dims[d] >= parts as i64)
            .max_by_key(|&d| apart(d));
        let Some(axis) = axis.filter(|_| parts > 1) else {
            source.copy_to(destination);
            return;
        };
        let (from, to) = (Pieces(source), Pieces(destination));
        let size = destination.dims[axis] as usize;
        (self.parallel)(parts, &|part| {
            let (begin, end) = (size * part / parts, size * (part + 1) / parts);
            from.piece(axis, begin, end)
                .copy_to(&to.piece(axis, begin, end));
        });
    }
}

/// An array that threads take disjoint pieces of.
struct Pieces<'a>(&'a RawArray);

// SAFETY: the source is only read, and pieces of the destination are disjoint.
unsafe impl Sync for Pieces<'_> {}

impl Pieces<'_> {
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
