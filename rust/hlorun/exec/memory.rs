//! Addresses of a run's allocations.

use crate::exec::array::RawArray;
use crate::plan::view::{ArrayView, BufferSlice, DynamicIndex, PRIVATE};
use crate::types::{Dims, PrimitiveType};

/// The base address of every allocation of one run.
///
/// Promise of whoever makes one: each address holds as many bytes as the allocation's size, for as
/// long as this lives, and thunks of one run are the only ones that touch temporaries and outputs.
#[derive(Clone)]
pub struct Memory {
    bases: Vec<*mut u8>,
    /// Shifted addresses of a row tile's scratch; see [`crate::exec::row_tiling`].
    privates: Vec<*mut u8>,
}

// SAFETY: tasks of one thunk touch disjoint parts; see the thunks' own comments.
unsafe impl Sync for Memory {}
// SAFETY: addresses may be used from any thread.
unsafe impl Send for Memory {}

impl Memory {
    /// A memory over base addresses, in the order of the allocations.
    pub fn new(bases: Vec<*mut u8>) -> Memory {
        Memory {
            bases,
            privates: Vec::new(),
        }
    }

    /// Names the addresses of values that only the calling task has.
    pub fn set_privates(&mut self, privates: Vec<*mut u8>) {
        self.privates = privates;
    }

    /// Number of allocations.
    pub fn len(&self) -> usize {
        self.bases.len()
    }

    /// The addresses of all allocations, in order.
    pub fn bases(&self) -> &[*mut u8] {
        &self.bases
    }

    /// The address of an allocation.
    pub fn base(&self, allocation: u32) -> *mut u8 {
        self.bases[allocation as usize]
    }

    /// The first byte of a slice.
    pub fn pointer(&self, slice: &BufferSlice) -> *mut u8 {
        if slice.allocation >= PRIVATE {
            return self.privates[(slice.allocation - PRIVATE) as usize].wrapping_add(slice.offset);
        }
        // SAFETY: slices lie inside their allocations by the assignment.
        unsafe { self.bases[slice.allocation as usize].add(slice.offset) }
    }

    /// The first element of a view; run-time offsets are read now.
    pub fn first(&self, view: &ArrayView) -> *mut u8 {
        let mut offset = view.offset as isize;
        for index in &view.dynamic {
            offset += self.index(index) as isize * index.stride as isize;
        }
        let size = view.element_type.size_bytes() as isize;
        // A view's offset and clamped run-time offsets stay inside its slice; a row tile's scratch may
        // begin behind the address that stands for the whole value.
        self.pointer(&view.slice).wrapping_offset(offset * size)
    }

    /// The clamped value of a start index.
    fn index(&self, index: &DynamicIndex) -> i64 {
        // SAFETY: the scalar lies in its slice.
        let value = unsafe {
            read_integer(
                self.pointer(&index.slice).add(index.offset),
                index.element_type,
            )
        };
        value.clamp(0, index.limit.max(0))
    }

    /// The array of a view.
    pub fn array(&self, view: &ArrayView) -> RawArray {
        RawArray {
            pointer: self.first(view),
            element_type: view.element_type,
            // `SmallVec::clone` pushes one by one.
            dims: Dims::from_slice(&view.dims),
            strides: Dims::from_slice(&view.strides),
        }
    }
}

/// Reads an integer of any type; unsigned values beyond `i64` saturate.
///
/// # Safety
///
/// `pointer` holds an element of type `ty`.
pub unsafe fn read_integer(pointer: *const u8, ty: PrimitiveType) -> i64 {
    use PrimitiveType as P;
    // SAFETY: by the caller's promise; elements may be unaligned in packed user arrays.
    unsafe {
        match ty {
            // Bits above a narrow type's own say nothing.
            P::S4 | P::S2 | P::S1 => {
                let shift = 8 - ty.bit_width();
                i64::from(pointer.cast::<i8>().read() << shift >> shift)
            }
            P::U4 | P::U2 | P::U1 => i64::from(pointer.read() & u8::MAX >> (8 - ty.bit_width())),
            P::S8 => i64::from(pointer.cast::<i8>().read()),
            P::U8 | P::Pred => i64::from(pointer.read()),
            P::S16 => i64::from(pointer.cast::<i16>().read_unaligned()),
            P::U16 => i64::from(pointer.cast::<u16>().read_unaligned()),
            P::S32 => i64::from(pointer.cast::<i32>().read_unaligned()),
            P::U32 => i64::from(pointer.cast::<u32>().read_unaligned()),
            P::S64 => pointer.cast::<i64>().read_unaligned(),
            P::U64 => i64::try_from(pointer.cast::<u64>().read_unaligned()).unwrap_or(i64::MAX),
            _ => 0,
        }
    }
}
