//! Freed blocks that wait for the next request of their size.

use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;
use std::sync::Mutex;

use super::{HUGE, free};

/// Smallest block worth keeping: the pages of smaller ones are seldom given back to the system and faulted in again.
const MIN_KEPT: usize = 32 << 10;
/// Most bytes kept.
const MAX_KEPT: usize = 1 << 30;

struct Block {
    pointer: NonNull<u8>,
    /// How many blocks had been given to the pool before it.
    given: u64,
}

// SAFETY: a kept block is owned by the pool alone.
unsafe impl Send for Block {}

struct Pool {
    /// Blocks of each size, the oldest first; no size without a block.
    blocks: BTreeMap<usize, VecDeque<Block>>,
    /// The size of each block, by when it was given.
    sizes: BTreeMap<u64, usize>,
    bytes: usize,
    given: u64,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    blocks: BTreeMap::new(),
    sizes: BTreeMap::new(),
    bytes: 0,
    given: 0,
});

impl Pool {
    /// Takes a block of `len` bytes out: the last that was given, or the first.
    fn remove(&mut self, len: usize, is_last: bool) -> Option<NonNull<u8>> {
        let same = self.blocks.get_mut(&len)?;
        let block = match is_last {
            true => same.pop_back(),
            false => same.pop_front(),
        }?;
        if same.is_empty() {
            self.blocks.remove(&len);
        }
        self.sizes.remove(&block.given);
        self.bytes -= len;
        Some(block.pointer)
    }

    fn add(&mut self, pointer: NonNull<u8>, len: usize) {
        let given = self.given;
        self.given += 1;
        let same = self.blocks.entry(len).or_default();
        same.push_back(Block { pointer, given });
        self.sizes.insert(given, len);
        self.bytes += len;
    }

    /// Takes out the block that has been kept longest; it and its size.
    fn remove_oldest(&mut self) -> Option<(NonNull<u8>, usize)> {
        let (_, &len) = self.sizes.first_key_value()?;
        Some((self.remove(len, false)?, len))
    }
}

/// A kept block of exactly `len` bytes.
pub(super) fn take(len: usize) -> Option<NonNull<u8>> {
    if len < MIN_KEPT {
        return None;
    }
    POOL.lock().ok()?.remove(len, true)
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
    pool.add(pointer, len);
    while pool.bytes > MAX_KEPT {
        let Some((oldest, len)) = pool.remove_oldest() else {
            break;
        };
        // SAFETY: the block was given to the pool by its owner.
        unsafe { free(oldest, len) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_size_is_taken_and_the_oldest_of_all_goes_first() {
        let mut pool = Pool {
            blocks: BTreeMap::new(),
            sizes: BTreeMap::new(),
            bytes: 0,
            given: 0,
        };
        let mut places = [0u8; 4];
        let [a, b, c, d] = places.each_mut().map(NonNull::from);
        for (block, len) in [(a, 10), (b, 20), (c, 10), (d, 10)] {
            pool.add(block, len);
        }
        assert_eq!(pool.bytes, 50);
        assert_eq!(pool.remove(10, true), Some(d));
        assert_eq!(pool.remove(30, true), None);
        assert_eq!(pool.remove_oldest(), Some((a, 10)));
        assert_eq!(pool.remove_oldest(), Some((b, 20)));
        assert_eq!(pool.remove_oldest(), Some((c, 10)));
        assert_eq!(pool.remove_oldest(), None);
        assert!(pool.bytes == 0 && pool.blocks.is_empty() && pool.sizes.is_empty());
    }
}
