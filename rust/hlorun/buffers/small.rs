//! Small freed blocks that wait on their thread for its next request.
//!
//! An aligned block costs the system's allocator about as much as a factorization of a 2×2 matrix, and
//! a batch of those asks for ten each.

use std::cell::RefCell;
use std::ptr::NonNull;

use super::{ALIGNMENT, free};

/// Largest block that is kept.
const LARGEST: usize = 4 << 10;
/// Most blocks of one size that a thread keeps.
const MOST: usize = 8;

/// Blocks by their size in cache lines.
struct Kept([Vec<NonNull<u8>>; LARGEST / ALIGNMENT]);

impl Drop for Kept {
    fn drop(&mut self) {
        for (index, blocks) in self.0.iter_mut().enumerate() {
            for block in blocks.drain(..) {
                // SAFETY: the list owns its blocks, and those of a list have one size.
                unsafe { free(block, (index + 1) * ALIGNMENT) };
            }
        }
    }
}

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept([const { Vec::new() }; LARGEST / ALIGNMENT])) };
}

/// The bytes that a block of `len` bytes is allocated with: small ones fill whole cache lines, so that
/// one serves every length up to its own.
pub(super) fn rounded(len: usize) -> usize {
    match len {
        0..=LARGEST => len.max(1).next_multiple_of(ALIGNMENT),
        _ => len,
    }
}

/// Calls `act` with the list of blocks that hold `len` bytes; `None` where none are kept.
fn with_list<T>(len: usize, act: impl FnOnce(&mut Vec<NonNull<u8>>) -> T) -> Option<T> {
    // Fuzzers find uses after the end only in what is freed.
    if len > LARGEST || cfg!(fuzzing) {
        return None;
    }
    let index = rounded(len) / ALIGNMENT - 1;
    // A thread that ends may have dropped its lists already.
    let list = KEPT.try_with(|kept| act(&mut kept.borrow_mut().0[index]));
    list.ok()
}

/// A block of at least `len` bytes that this thread kept.
pub(super) fn take(len: usize) -> Option<NonNull<u8>> {
    with_list(len, Vec::pop)?
}

/// Keeps a block for this thread. `false`: it is not kept and the caller frees it.
///
/// # Safety
/// `pointer` is a block of `len` bytes that nobody uses any more.
pub(super) unsafe fn keep(pointer: NonNull<u8>, len: usize) -> bool {
    let keep = |list: &mut Vec<NonNull<u8>>| {
        let has_room = list.len() < MOST;
        if has_room {
            list.push(pointer);
        }
        has_room
    };
    with_list(len, keep) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::AlignedBytes;

    #[test]
    fn a_block_comes_back_for_any_length_of_its_size() {
        let first = AlignedBytes::uninitialized(100).unwrap();
        let place = first.as_ptr();
        drop(first);
        let second = AlignedBytes::zeroed(120).unwrap();
        assert_eq!(second.as_ptr(), place);
        assert!(second.as_slice().iter().all(|&byte| byte == 0));
        assert_ne!(AlignedBytes::uninitialized(128).unwrap().as_ptr(), place);
    }

    #[test]
    fn a_thread_keeps_few_blocks_and_none_that_are_large() {
        let blocks: Vec<AlignedBytes> = (0..2 * MOST)
            .map(|_| AlignedBytes::uninitialized(64).unwrap())
            .collect();
        drop(blocks);
        assert_eq!(with_list(64, |list| list.len()), Some(MOST));
        assert_eq!(with_list(LARGEST + 1, |list| list.len()), None);
        assert_eq!(rounded(LARGEST + 1), LARGEST + 1);
        assert_eq!((rounded(0), rounded(64), rounded(65)), (64, 64, 128));
    }

    #[test]
    fn a_thread_that_ends_frees_what_it_kept() {
        std::thread::spawn(|| {
            let block = AlignedBytes::uninitialized(256).unwrap();
            drop(block);
            assert!(take(256).is_some_and(|block| {
                // SAFETY: just taken, so this test owns it.
                unsafe { keep(block, 256) }
            }));
        })
        .join()
        .unwrap();
    }
}
