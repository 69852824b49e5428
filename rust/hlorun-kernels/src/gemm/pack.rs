//! Dense copies of strided matrices.
//!
//! In: a matrix of any strides. Out: an aligned, row-major buffer of the same elements, or the way back. Promise: the
//! order of elements is kept; nothing is converted.

use super::Matrix;

/// Sixty-four-byte aligned scratch memory, uninitialized until written.
pub(crate) struct Buffer {
    lines: Vec<std::mem::MaybeUninit<Line>>,
}

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

impl Buffer {
    /// Room for `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Buffer {
        let count = bytes.div_ceil(64);
        let mut lines = Vec::with_capacity(count);
        // SAFETY: MaybeUninit needs no initialization, and the capacity is `count`.
        unsafe { lines.set_len(count) };
        Buffer { lines }
    }

    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast()
    }
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
) -> Buffer {
    let mut buffer = Buffer::new(rows * cols * size);
    let to = buffer.as_mut_ptr();
    let (row, col) = (
        layout.row_stride * size as isize,
        layout.col_stride * size as isize,
    );
    // SAFETY: reads stay in the matrix by the contract, writes in the buffer of rows·cols elements.
    unsafe {
        each(
            rows,
            cols,
            size,
            from,
            (row, col),
            to,
            ((cols * size) as isize, size as isize),
        )
    };
    buffer
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
    let (row, col) = (
        layout.row_stride * size as isize,
        layout.col_stride * size as isize,
    );
    // SAFETY: the caller's contract.
    unsafe {
        each(
            rows,
            cols,
            size,
            from,
            ((cols * size) as isize, size as isize),
            to,
            (row, col),
        )
    };
}

unsafe fn each(
    rows: usize,
    cols: usize,
    size: usize,
    from: *const u8,
    from_strides: (isize, isize),
    to: *mut u8,
    to_strides: (isize, isize),
) {
    // SAFETY: the caller passes strides in bytes that stay inside both matrices.
    unsafe {
        crate::strided::copy_strided(
            size,
            &[rows, cols],
            from,
            &[from_strides.0, from_strides.1],
            to,
            &[to_strides.0, to_strides.1],
        );
    }
}
