//! Memory: aligned blocks that grow never and are freed once.
//!
//! Comes in: a size. Goes out: 64-byte aligned bytes. Promise: a size that cannot be had is an
//! error, never an abort.

mod recycled;

use std::alloc::{Layout, alloc, alloc_zeroed};
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
        Layout::from_size_align(len.max(1), ALIGNMENT)
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
        let layout = AlignedBytes::layout(len)?;
        if let Some(pointer) = recycled::take(layout) {
            return Ok(AlignedBytes { pointer, len });
        }
        // SAFETY: the layout's size is at least one.
        AlignedBytes::from_raw(unsafe { alloc(layout) }, len)
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

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if let Ok(layout) = AlignedBytes::layout(self.len) {
            // SAFETY: allocated with this very layout, and this was its only owner.
            unsafe { recycled::give(self.pointer, layout) };
        }
    }
}
