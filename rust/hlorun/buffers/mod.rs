//! Memory: aligned blocks that grow never and are freed once.
//!
//! Comes in: a size. Goes out: 64-byte aligned bytes. Promise: a size that cannot be had is an
//! error, never an abort.
//!
//! Large blocks ask for huge pages, and a bounded number of bytes of freed ones is kept for the next
//! request of the same size: results of the last run make room for those of the next without a page
//! fault. Each thread keeps a few small ones.

mod pool;
mod small;

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

use hlorun_kernels::OutOfMemory;

use crate::error::{HloError, Result};

/// Alignment of every block, in bytes: a cache line, and a whole AVX-512 vector.
pub const ALIGNMENT: usize = 64;

/// Bytes at a 64-byte boundary. `AlignedBytes` alone may hold anything and is reached by its address;
/// `AlignedBytes<u8>` has been written and reads as a slice:
///
/// ```
/// let bytes = hlorun::buffers::AlignedBytes::copy_of(b"ab")?;
/// assert_eq!(bytes.as_slice(), b"ab");
/// # hlorun::Result::Ok(())
/// ```
///
/// What nobody wrote does not:
///
/// ```compile_fail
/// let bytes = hlorun::buffers::AlignedBytes::uninitialized(2).unwrap();
/// println!("{:?}", bytes.as_slice());
/// ```
#[derive(Debug)]
pub struct AlignedBytes<B = MaybeUninit<u8>> {
    pointer: NonNull<u8>,
    len: usize,
    contents: PhantomData<B>,
}

// SAFETY: the block is owned and plain bytes.
unsafe impl<B> Send for AlignedBytes<B> {}
// SAFETY: shared access only reads.
unsafe impl<B> Sync for AlignedBytes<B> {}

/// A block for `len` bytes that was freed before.
fn kept(len: usize) -> Option<NonNull<u8>> {
    small::take(len).or_else(|| pool::take(len))
}

/// How a block of `len` bytes is allocated.
fn layout(len: usize) -> Result<Layout> {
    let alignment = if len >= HUGE { HUGE } else { ALIGNMENT };
    Layout::from_size_align(small::rounded(len), alignment)
        .map_err(|_| OutOfMemory { bytes: len }.into())
}

impl<B> AlignedBytes<B> {
    /// Owns a block.
    ///
    /// # Safety
    /// `pointer` is null or a block of `len` bytes with [`layout`] that nobody else owns; it has been
    /// written where `B` is `u8`.
    unsafe fn from_raw(pointer: *mut u8, len: usize) -> Result<AlignedBytes<B>> {
        match NonNull::new(pointer) {
            Some(pointer) => Ok(AlignedBytes {
                pointer,
                len,
                contents: PhantomData,
            }),
            None => Err(OutOfMemory { bytes: len }.into()),
        }
    }

    /// The same block with other knowledge of its contents.
    ///
    /// # Safety
    /// It has been written where `C` is `u8`.
    unsafe fn retype<C>(self) -> AlignedBytes<C> {
        let block = ManuallyDrop::new(self);
        AlignedBytes {
            pointer: block.pointer,
            len: block.len,
            contents: PhantomData,
        }
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
    pub(crate) fn shared_ptr(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }
}

impl AlignedBytes {
    /// `len` bytes whose contents are whatever they are; the caller writes before it reads.
    pub fn uninitialized(len: usize) -> Result<AlignedBytes> {
        if let Some(pointer) = kept(len) {
            // SAFETY: a kept block of this size, which the pool gave away.
            return unsafe { AlignedBytes::from_raw(pointer.as_ptr(), len) };
        }
        let layout = layout(len)?;
        // SAFETY: the layout's size is at least one; the block is new.
        let block = unsafe { AlignedBytes::from_raw(alloc(layout), len)? };
        pool::advise_huge_pages(block.pointer, len);
        Ok(block)
    }

    /// All bytes, to write.
    pub fn as_uninit_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the block has `len` bytes, lives as long as `self`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr().cast(), self.len) }
    }

    /// The block as bytes that may be read.
    ///
    /// # Safety
    /// Every byte has been written.
    pub unsafe fn assume_init(self) -> AlignedBytes<u8> {
        // SAFETY: by the caller's promise.
        unsafe { self.retype() }
    }
}

impl AlignedBytes<u8> {
    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> Result<AlignedBytes<u8>> {
        // Every kind of request takes kept blocks: what only gave some would have more kept each time.
        if let Some(pointer) = kept(len) {
            // SAFETY: a kept block of `len` bytes that nobody else has.
            unsafe { pointer.as_ptr().write_bytes(0, len) };
            return Ok(AlignedBytes {
                pointer,
                len,
                contents: PhantomData,
            });
        }
        let layout = layout(len)?;
        // SAFETY: the layout's size is at least one; the block is new and written.
        unsafe { AlignedBytes::from_raw(alloc_zeroed(layout), len) }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Result<AlignedBytes<u8>> {
        let mut block = AlignedBytes::uninitialized(bytes.len())?;
        // SAFETY: the block is new and has as many bytes; all are written.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), block.as_mut_ptr(), bytes.len());
            Ok(block.assume_init())
        }
    }

    /// The block as memory that may hold anything.
    pub fn into_uninit(self) -> AlignedBytes {
        // SAFETY: asks for nothing.
        unsafe { self.retype() }
    }

    /// All bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the block has `len` written bytes and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }

    /// All bytes, to write.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }
}

fn no_room<T>(count: usize) -> HloError {
    let bytes = count.saturating_mul(size_of::<T>());
    HloError::from(OutOfMemory { bytes })
}

/// A vector with room for `count` elements.
pub(crate) fn with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    let room = values.try_reserve_exact(count);
    room.map_err(|_| no_room::<T>(count))?;
    Ok(values)
}

/// Makes room for `count` more elements.
pub(crate) fn reserve<T>(values: &mut Vec<T>, count: usize) -> Result<()> {
    let room = values.try_reserve(count);
    room.map_err(|_| no_room::<T>(values.len() + count))
}

/// Appends `value`.
pub(crate) fn push<T>(values: &mut Vec<T>, value: T) -> Result<()> {
    reserve(values, 1)?;
    values.push(value);
    Ok(())
}

/// `count` times `value`.
pub(crate) fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>> {
    let mut values = with_room(count)?;
    values.resize(count, value);
    Ok(values)
}

/// All of `values`.
pub(crate) fn collected<T>(values: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut all = with_room(values.len())?;
    all.extend(values);
    Ok(all)
}

/// Blocks from this size on begin at a huge page's boundary.
const HUGE: usize = 2 << 20;

/// Frees a block that [`AlignedBytes`] allocated.
///
/// # Safety
/// `pointer` is such a block of `len` bytes, and nobody uses it any more.
unsafe fn free(pointer: NonNull<u8>, len: usize) {
    if let Ok(layout) = layout(len) {
        // SAFETY: allocated with this very layout.
        unsafe { dealloc(pointer.as_ptr(), layout) };
    }
}

impl<B> Drop for AlignedBytes<B> {
    fn drop(&mut self) {
        // SAFETY: the block is this one's own, and this is its end.
        unsafe {
            if !small::keep(self.pointer, self.len) && !pool::keep(self.pointer, self.len) {
                free(self.pointer, self.len);
            }
        }
    }
}
