//! Scratch memory that a thread keeps from one product to the next.
//!
//! In: a number of elements. Out: room for them, uninitialized. Promise: a thread keeps a few buffers of bounded size.

use super::OutOfMemory;
use super::pack::Buffer;
use std::cell::RefCell;

thread_local! {
    /// Scratch memory of earlier products on this thread.
    static SCRATCH: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

/// Most bytes of a buffer a thread keeps, and most buffers.
const KEEP: usize = 8 << 20;
const KEPT: usize = 3;

/// Room for `count` elements, uninitialized; goes back to its thread in the end.
pub(super) struct Scratch(Buffer);

impl Scratch {
    pub(super) fn new<E>(count: usize) -> Result<Scratch, OutOfMemory> {
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

    pub(super) fn get<E>(&mut self) -> *mut E {
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
        let _ = SCRATCH.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() == KEPT {
                let least = (0..KEPT).min_by_key(|&i| kept[i].len()).unwrap_or(0);
                kept.swap_remove(least);
            }
            kept.push(buffer);
        });
    }
}
