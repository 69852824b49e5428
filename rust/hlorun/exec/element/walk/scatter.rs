//! Copies of contiguous memory to a strided walk.

use super::super::picks::spread;
use super::{SHORT, for_blocks, for_picked, pieces};
use crate::plan::cost::tiles::MIN_SHORT_ROWS;
use crate::plan::thunk::PickedWalk;
use crate::plan::view::Walk;

/// Copies `n` contiguous elements at `from` to elements `start..start + n` of a walk from `base`.
///
/// # Safety
///
/// All elements the walk reaches from `base` are writable and `from` holds `n` elements, which are none of those or, where
/// these lie in one run, the very elements.
pub unsafe fn scatter(
    picked: &PickedWalk,
    size: usize,
    base: *mut u8,
    start: usize,
    n: usize,
    from: *const u8,
) {
    by_size!(size, T => {
        let (base, from) = (base.cast::<T>(), from.cast::<T>());
        let walk: &Walk = picked;
        if let Some(block) = spread(picked, size, n) {
            return for_picked(
                (walk, block),
                start,
                n,
                // SAFETY: the caller's promise; parts of blocks lie inside the walk.
                |start, n, done| unsafe { scatter_pieces(walk, base, start, n, from.add(done)) },
                // SAFETY: as above, of whole blocks.
                |offset, step, blocks, done| unsafe {
                    let (from, to) = (from.add(done), base.offset(offset));
                    block.copy.copy(from.cast(), to.cast(), step * size as isize, blocks);
                },
            );
        }
        // SAFETY: the caller's promise.
        unsafe {
            match *walk.as_slice() {
                [.., (times, _), (row, stride)]
                    if times >= MIN_SHORT_ROWS && row as usize * size <= SHORT =>
                {
                    scatter_rows(walk, (row as usize, stride as isize), base, start, n, from);
                }
                _ => scatter_pieces(walk, base, start, n, from),
            }
        }
    })
}

/// [`scatter`] of short rows.
///
/// # Safety
/// As for that.
unsafe fn scatter_rows<T: Copy>(
    walk: &Walk,
    (row, stride): (usize, isize),
    base: *mut T,
    start: usize,
    n: usize,
    from: *const T,
) {
    let size = size_of::<T>() as isize;
    for_blocks(
        (walk, 1, row),
        start,
        n,
        // SAFETY: the caller's promise; parts of rows lie inside the walk.
        |start, n, done| unsafe { scatter_pieces(walk, base, start, n, from.add(done)) },
        // SAFETY: as above, of whole rows.
        |offset, step, rows, done| unsafe {
            hlorun_kernels::copy_strided(
                size_of::<T>(),
                &[rows, row],
                from.add(done).cast(),
                &[row as isize * size, size],
                base.offset(offset).cast(),
                &[step * size, stride * size],
            );
        },
    );
}

/// [`scatter`] piece by piece.
///
/// # Safety
/// As for that.
unsafe fn scatter_pieces<T: Copy>(
    walk: &Walk,
    base: *mut T,
    start: usize,
    n: usize,
    from: *const T,
) {
    pieces(walk, start, n, |offset, stride, done, count| {
        // SAFETY: the caller's promise.
        unsafe {
            let to = base.offset(offset as isize);
            let from = from.add(done);
            if stride == 1 {
                hlorun_kernels::copy(from.cast(), to.cast(), count * size_of::<T>());
            } else {
                for i in 0..count {
                    to.offset(i as isize * stride as isize)
                        .write_unaligned(from.add(i).read());
                }
            }
        }
    });
}
