//! Loops over tasks, and copies by all threads.

use super::array::RawArray;
use crate::plan::cost::copies::{MIN_PIECE, PARALLEL_BYTES};

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
    /// Unwinds if the run is to end: for work outside of loops over tasks, and within long tasks.
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
        let axis = shared_axis(source, destination, parts);
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

/// The dimension that `parts` threads share a copy along: one of which each part has several cache lines on both sides, and the
/// one whose neighbours lie farthest apart, so that threads share no line and each walks through its own memory. Where the
/// source is repeated, the destination decides.
fn shared_axis(source: &RawArray, destination: &RawArray, parts: usize) -> Option<usize> {
    let apart = |d: usize| {
        let to = destination.strides[d].unsigned_abs();
        let from = match source.strides[d].unsigned_abs() {
            0 => to,
            from => from,
        };
        let part = destination.dims[d] as u64 / parts as u64;
        let bytes =
            part.saturating_mul(from.min(to) * destination.element_type.size_bytes() as u64);
        (bytes >= MIN_PIECE, from.min(to), to)
    };
    (0..destination.dims.len())
        .filter(|&d| destination.dims[d] >= parts as i64)
        .max_by_key(|&d| apart(d))
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::types::{Dims, PrimitiveType};

    fn array(memory: &mut [u32], strides: [i64; 3]) -> RawArray {
        RawArray {
            pointer: memory.as_mut_ptr().cast(),
            element_type: PrimitiveType::U32,
            dims: Dims::from_slice(&DIMS),
            strides: Dims::from_slice(&strides),
        }
    }

    const DIMS: [i64; 3] = [2, 130, 300];
    const COUNT: usize = 2 * 130 * 300;
    const ROW_MAJOR: [i64; 3] = [130 * 300, 300, 1];
    /// The same sizes, with the last dimension outside and the first one inside.
    const TRANSPOSED: [i64; 3] = [1, 2, 260];

    #[test]
    fn threads_share_a_copy_along_what_is_far_apart_on_both_sides() {
        let (mut from, mut to) = (vec![0; COUNT], vec![0; COUNT]);
        let mut axis = |source, destination, parts| {
            shared_axis(
                &array(&mut from, source),
                &array(&mut to, destination),
                parts,
            )
        };
        assert_eq!(axis(ROW_MAJOR, ROW_MAJOR, 2), Some(0));
        // The first dimension is too short for three.
        assert_eq!(axis(ROW_MAJOR, ROW_MAJOR, 3), Some(1));
        assert_eq!(axis(ROW_MAJOR, TRANSPOSED, 2), Some(1));
        // A row that is repeated.
        assert_eq!(axis([0, 0, 1], ROW_MAJOR, 3), Some(1));
        assert_eq!(axis(ROW_MAJOR, ROW_MAJOR, 1000), None);
    }

    #[test]
    fn threads_share_the_rows_of_few_columns() {
        let mut memory = vec![0u32; 20 * 1000];
        let mut array = |strides: [i64; 2]| RawArray {
            pointer: memory.as_mut_ptr().cast(),
            element_type: PrimitiveType::U32,
            dims: Dims::from_slice(&[20, 1000]),
            strides: Dims::from_slice(&strides),
        };
        let (columns, rows) = (array([1, 20]), array([1000, 1]));
        assert_eq!(shared_axis(&columns, &rows, 2), Some(1));
        assert_eq!(shared_axis(&rows, &rows, 2), Some(0));
    }

    #[test]
    fn a_shared_copy_is_the_copy() {
        let tasks = AtomicUsize::new(0);
        let environment = OpEnvironment {
            parallel: &|count, task| {
                tasks.fetch_add(count, Relaxed);
                (0..count).rev().for_each(task);
            },
            threads: 3,
        };
        let mut from: Vec<u32> = (0..COUNT as u32).collect();
        for [source, destination] in [
            [ROW_MAJOR, TRANSPOSED],
            [TRANSPOSED, ROW_MAJOR],
            [[0, 0, 1], ROW_MAJOR],
        ] {
            let mut to = vec![u32::MAX; COUNT];
            tasks.store(0, Relaxed);
            environment.copy(&array(&mut from, source), &array(&mut to, destination));
            assert_eq!(tasks.load(Relaxed), 3);
            for (i, j, k) in
                (0..2).flat_map(|i| (0..130).flat_map(move |j| (0..300).map(move |k| (i, j, k))))
            {
                let at =
                    |strides: [i64; 3]| (i * strides[0] + j * strides[1] + k * strides[2]) as usize;
                assert_eq!(
                    to[at(destination)],
                    from[at(source)],
                    "{source:?} {i} {j} {k}"
                );
            }
        }
    }
}
