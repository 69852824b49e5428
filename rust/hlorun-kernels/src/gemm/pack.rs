//! Dense copies of strided matrices.
//!
//! In: a matrix of any strides. Out: an aligned, row-major buffer of the same elements, or the way back. Promise: the
//! order of elements is kept; nothing is converted.

use super::{Matrix, OutOfMemory};
use crate::scratch::Scratch;

/// Bytes from the first to behind the last element of a matrix; `None` with a negative stride or without elements.
pub(super) fn extent(sizes: [usize; 2], strides: [isize; 2], element: usize) -> Option<usize> {
    let mut last = 0usize;
    for (size, stride) in sizes.into_iter().zip(strides) {
        let reach = usize::try_from(stride)
            .ok()?
            .checked_mul(size.checked_sub(1)?)?;
        last = last.checked_add(reach)?;
    }
    last.checked_add(1)?.checked_mul(element)
}

/// A row-major copy of a `rows`×`cols` matrix of elements of `size` bytes.
///
/// # Safety
/// Every element the layout reaches is readable.
pub(crate) unsafe fn dense(
    from: *const u8,
    rows: usize,
    cols: usize,
    layout: Matrix,
    size: usize,
) -> Result<Scratch, OutOfMemory> {
    let mut buffer = Scratch::of(rows.saturating_mul(cols), size)?;
    let to = buffer.as_mut_ptr();
    // SAFETY: reads stay in the matrix by the contract, writes in the buffer of rows·cols elements.
    unsafe {
        strided(
            from,
            layout,
            to,
            Matrix::row_major(cols, 0),
            rows,
            cols,
            size,
        )
    };
    Ok(buffer)
}

/// Writes a row-major matrix into a strided one.
///
/// # Safety
/// `from` holds rows·cols elements; every element the layout reaches is writable; they do not overlap.
pub(crate) unsafe fn scatter(
    from: *const u8,
    to: *mut u8,
    rows: usize,
    cols: usize,
    layout: Matrix,
    size: usize,
) {
    // SAFETY: the caller's contract.
    unsafe {
        strided(
            from,
            Matrix::row_major(cols, 0),
            to,
            layout,
            rows,
            cols,
            size,
        )
    };
}

/// Copies a `rows`×`cols` matrix from one layout to another.
///
/// # Safety
/// Every element `from_layout` reaches is readable, every one `to_layout` reaches writable; they do not overlap.
pub(crate) unsafe fn strided(
    from: *const u8,
    from_layout: Matrix,
    to: *mut u8,
    to_layout: Matrix,
    rows: usize,
    cols: usize,
    size: usize,
) {
    let bytes = |l: Matrix| [l.row_stride * size as isize, l.col_stride * size as isize];
    // SAFETY: the caller's contract.
    unsafe {
        crate::strided::copy_strided(
            size,
            &[rows, cols],
            from,
            &bytes(from_layout),
            to,
            &bytes(to_layout),
        )
    };
}
