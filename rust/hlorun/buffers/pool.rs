//! Freed blocks that wait for the next request of their size.

use std::ptr::NonNull;
use std::sync::Mutex;

use super::{HUGE, free};

/// Smallest block worth keeping.
const MIN_KEPT: usize = 256 << 10;
/// Most bytes kept.
const MAX_KEPT: usize = 1 << 30;

struct Block {
    pointer: NonNull<u8>,
    len: usize,
}

// SAFETY: a kept block is owned by the pool alone.
unsafe impl Send for Block {}

#[derive(Default)]
struct Pool {
    blocks: Vec<Block>,
    bytes: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    blocks: Vec::new(),
    bytes: 0,
});

/// A kept block of exactly `len` bytes.
pub(super) fn take(len: usize) -> Option<NonNull<u8>> {
    if len < MIN_KEPT {
        return None;
    }
    let mut pool = POOL.lock().ok()?;
    let at = pool.blocks.iter().rposition(|block| block.len == len)?;
    let block = pool.blocks.remove(at);
    pool.bytes -= len;
    Some(block.pointer)
}

/// Keeps a block for later; the oldest ones are freed when there are too many. `false`: it is not
/// kept and the caller frees it.
///
/// # Safety
/// `pointer` is a block of `len` bytes that nobody uses any more.
pub(super) unsafe fn keep(pointer: NonNull<u8>, len: usize) -> bool {
    if !(MIN_KEPT..=MAX_KEPT).contains(&len) {
        return false;
    }
    let Ok(mut pool) = POOL.lock() else {
        return false;
    };
    pool.blocks.push(Block { pointer, len });
    pool.bytes += len;
    while pool.bytes > MAX_KEPT {
        let oldest = pool.blocks.remove(0);
        pool.bytes -= oldest.len;
        // SAFETY: the block was given to the pool by its owner.
        unsafe { free(oldest.pointer, oldest.len) };
    }
    true
}

/// Asks the system to back a large block with huge pages; it may decline.
pub(super) fn advise_huge_pages(pointer: NonNull<u8>, len: usize) {
    #[cfg(target_os = "linux")]
    if len >= 2 * HUGE {
        // SAFETY: the block is owned, begins at a huge page's boundary, and advice changes no byte.
        unsafe {
            libc::madvise(
                pointer.as_ptr().cast(),
                len / HUGE * HUGE,
                libc::MADV_HUGEPAGE,
            );
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (pointer, len, HUGE);
}
