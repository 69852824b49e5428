//! Memory: aligned blocks that grow never and are freed once.
//!
//! Comes in: a size. Goes out: 64-byte aligned bytes. Promise: a size that cannot be had is an
//! error, never an abort.
//!
//! Large blocks ask for huge pages, and a bounded number of bytes of freed ones is kept for the next
//! request of the same size: results of the last run make room for those of the next without a page
//! fault.

mod pool;

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::error::{HloError, Result};

/// Alignment of every block, in bytes: a cache line, and a whole AVX-512 vector.
pub const ALIGNMENT: usize = 64;

/// Bytes at a 64-byte boundary.
#[derive(Debug)]
pub struct AlignedBytes {
    pointer: NonNull<u8>,
    len: usize,
}

// SAFETY: the block is owned and plain bytes.
unsafe impl Send for AlignedBytes {}
// SAFETY: shared access only reads.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    fn layout(len: usize) -> Result<Layout> {
        let alignment = if len >= HUGE { HUGE } else { ALIGNMENT };
        Layout::from_size_align(len.max(1), alignment)
            .map_err(|_| HloError::execution(format!("cannot allocate {len} bytes")))
    }

    fn from_raw(pointer: *mut u8, len: usize) -> Result<AlignedBytes> {
        match NonNull::new(pointer) {
            Some(pointer) => Ok(AlignedBytes { pointer, len }),
            None => Err(HloError::execution(format!(
                "out of memory: cannot allocate {len} bytes"
            ))),
        }
    }

    /// `len` bytes whose contents are whatever they are; the caller writes before it reads.
    pub fn uninitialized(len: usize) -> Result<AlignedBytes> {
        if let Some(pointer) = pool::take(len) {
            return Ok(AlignedBytes { pointer, len });
        }
        let layout = AlignedBytes::layout(len)?;
        // SAFETY: the layout's size is at least one.
        let block = AlignedBytes::from_raw(unsafe { alloc(layout) }, len)?;
        pool::advise_huge_pages(block.pointer, len);
        Ok(block)
    }

    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> Result<AlignedBytes> {
        let layout = AlignedBytes::layout(len)?;
        // SAFETY: the layout's size is at least one.
        AlignedBytes::from_raw(unsafe { alloc_zeroed(layout) }, len)
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first byte.
    pub fn as_ptr(&self) -> *const u8 {
        self.pointer.as_ptr()
    }

    /// The first byte, to write.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    /// The first byte, for memory that several tasks write in disjoint parts.
    pub fn shared_ptr(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    /// All bytes; the caller has written them.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the block has `len` bytes and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }

    /// All bytes, to write.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }
}

/// Blocks from this size on begin at a huge page's boundary.
const HUGE: usize = 2 << 20;

/// Frees a block that [`AlignedBytes`] allocated.
///
/// # Safety
/// `pointer` is such a block of `len` bytes, and nobody uses it any more.
unsafe fn free(pointer: NonNull<u8>, len: usize) {
    if let Ok(layout) = AlignedBytes::layout(len) {
        // SAFETY: allocated with this very layout.
        unsafe { dealloc(pointer.as_ptr(), layout) };
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        // SAFETY: the block is this one's own, and this is its end.
        unsafe {
            if !pool::keep(self.pointer, self.len) {
                free(self.pointer, self.len);
            }
        }
    }
}
