//! Large blocks that were given up, kept for the next who asks for that size.
//!
//! Comes in: blocks nobody uses. Goes out: one of exactly the wanted size. Promise: never more than
//! [`MOST`] bytes are kept; what does not fit goes back to the allocator.
//!
//! A run's results have the same sizes as those of the run before. Fresh pages for them cost more
//! than writing them does, since the system clears each first.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Smallest block worth keeping, in bytes.
pub const LEAST: usize = 1 << 20;
/// Most bytes kept.
pub const MOST: usize = 128 << 20;

struct Block {
    pointer: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block is owned and plain bytes.
unsafe impl Send for Block {}

#[derive(Default)]
struct Kept {
    /// Oldest first.
    blocks: Vec<Block>,
    bytes: usize,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept {
    blocks: Vec::new(),
    bytes: 0,
});

/// A kept block of this layout.
pub fn take(layout: Layout) -> Option<NonNull<u8>> {
    if layout.size() < LEAST || layout.size() > MOST {
        return None;
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let at = kept.blocks.iter().rposition(|b| b.layout == layout)?;
    let block = kept.blocks.remove(at);
    kept.bytes -= layout.size();
    Some(block.pointer)
}

/// Keeps a block, or frees it.
///
/// # Safety
///
/// `pointer` was allocated with `layout`, and nobody uses it any more.
pub unsafe fn give(pointer: NonNull<u8>, layout: Layout) {
    let mut freed = Vec::new();
    let block = Block { pointer, layout };
    if layout.size() < LEAST || layout.size() > MOST {
        freed.push(block);
    } else {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += layout.size();
        kept.blocks.push(block);
        while kept.bytes > MOST {
            let oldest = kept.blocks.remove(0);
            kept.bytes -= oldest.layout.size();
            freed.push(oldest);
        }
    }
    for block in freed {
        // SAFETY: allocated with this very layout, and in no list.
        unsafe { std::alloc::dealloc(block.pointer.as_ptr(), block.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::AlignedBytes;

    #[test]
    fn a_block_comes_back_for_its_size_only() {
        // Sizes no other test uses.
        let size = (3 << 20) + 4096;
        let mut block = AlignedBytes::uninitialized(size).unwrap();
        block.as_mut_slice().fill(7);
        let at = block.as_ptr();
        drop(block);
        let other = AlignedBytes::uninitialized(size + 64).unwrap();
        assert_ne!(other.as_ptr(), at);
        let again = AlignedBytes::uninitialized(size).unwrap();
        assert_eq!(again.as_ptr(), at);
        drop(again);
        let zeros = AlignedBytes::zeroed(size).unwrap();
        assert!(zeros.as_slice().iter().all(|&byte| byte == 0));
    }
}
