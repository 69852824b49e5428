//! Scratch memory that a thread keeps from one step to the next.
//!
//! In: a number of elements. Out: room for them, uninitialized. Promise: a thread keeps a few buffers of bounded size.

use crate::gemm::OutOfMemory;
use std::cell::RefCell;

/// Sixty-four-byte aligned scratch memory, uninitialized until written.
pub(crate) struct Buffer {
    lines: Vec<std::mem::MaybeUninit<Line>>,
}

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

impl Buffer {
    /// Room for `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Result<Buffer, OutOfMemory> {
        let count = bytes.div_ceil(64);
        let mut lines = Vec::new();
        lines
            .try_reserve_exact(count)
            .map_err(|_| OutOfMemory { bytes })?;
        // SAFETY: MaybeUninit needs no initialization, and the capacity is `count`.
        unsafe { lines.set_len(count) };
        Ok(Buffer { lines })
    }

    /// Room for nothing.
    pub(crate) const fn empty() -> Buffer {
        Buffer { lines: Vec::new() }
    }

    /// Its size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.lines.len() * 64
    }

    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast()
    }
}

thread_local! {
    /// Scratch memory of earlier steps on this thread.
    static SCRATCH: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

/// Most bytes of a buffer a thread keeps, most bytes of all of them, and most buffers.
const KEEP: usize = 8 << 20;
const KEEP_IN_ALL: usize = 24 << 20;
const KEPT: usize = 8;

/// Room for elements at a 64-byte boundary, uninitialized; goes back to its thread in the end.
pub struct Scratch(Buffer);

impl Scratch {
    /// Room for `count` elements of a type `E`.
    ///
    /// # Errors
    /// [`OutOfMemory`] when there is none.
    pub fn new<E>(count: usize) -> Result<Scratch, OutOfMemory> {
        let bytes = count.saturating_mul(size_of::<E>());
        let found = SCRATCH.with_borrow_mut(|kept| {
            let fits = kept
                .iter()
                .enumerate()
                .filter(|(_, buffer)| buffer.len() >= bytes);
            let at = fits.min_by_key(|(_, buffer)| buffer.len())?.0;
            Some(kept.swap_remove(at))
        });
        Ok(Scratch(match found {
            Some(buffer) => buffer,
            None => Buffer::new(bytes)?,
        }))
    }

    /// Room for `count` elements of `size` bytes.
    pub(crate) fn of(count: usize, size: usize) -> Result<Scratch, OutOfMemory> {
        Scratch::new::<u8>(count.saturating_mul(size))
    }

    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    /// The first element.
    pub fn get<E>(&mut self) -> *mut E {
        self.0.as_mut_ptr().cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let buffer = std::mem::replace(&mut self.0, Buffer::empty());
        if buffer.len() == 0 || buffer.len() > KEEP {
            return;
        }
        // At the end of a thread there is nowhere to keep it.
        let _ = SCRATCH.try_with(|kept| keep(&mut kept.borrow_mut(), buffer));
    }
}

/// Adds a buffer to those kept. Small ones make room: they are the cheapest to get again.
fn keep(kept: &mut Vec<Buffer>, buffer: Buffer) {
    kept.push(buffer);
    let in_all = |kept: &[Buffer]| kept.iter().map(Buffer::len).sum::<usize>();
    while kept.len() > KEPT || in_all(kept) > KEEP_IN_ALL {
        let least = (0..kept.len()).min_by_key(|&at| kept[at].len());
        kept.swap_remove(least.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let mut kept = Vec::new();
        for megabytes in [1, 8, 2, 8, 4, 8, 3] {
            keep(&mut kept, Buffer::new(megabytes << 20).expect("memory"));
            assert!(kept.iter().map(Buffer::len).sum::<usize>() <= KEEP_IN_ALL);
        }
        assert_eq!(kept.iter().map(Buffer::len).min(), Some(8 << 20));
        kept.clear();
        for _ in 0..20 {
            keep(&mut kept, Buffer::new(64).expect("memory"));
        }
        assert_eq!(kept.len(), KEPT);
    }

    #[test]
    fn the_smallest_buffer_that_fits_is_used_again() {
        let mut large = Scratch::new::<u8>(100_000).expect("memory");
        let mut small = Scratch::new::<u8>(5_000).expect("memory");
        let (far, near) = (large.get::<u8>(), small.get::<u8>());
        drop((large, small));
        assert_eq!(Scratch::new::<u16>(2_000).expect("memory").get(), near);
        assert_eq!(Scratch::new::<u8>(90_000).expect("memory").get(), far);
    }
}
