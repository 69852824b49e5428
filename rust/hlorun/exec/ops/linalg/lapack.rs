//! Calls of LAPACK routines in the loaded library.
//!
//! In: a routine's name and its arguments in order. Out: its `info`, or `None` where there is no
//! library. Promise: arguments are what the routine's documentation asks for; callers pass
//! workspaces of at least the documented sizes.

use std::cell::RefCell;
use std::ffi::c_void;

use hlorun_kernels::gemm::blas::{Routine, routine};

use super::matrix::Matrix;
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::types::PrimitiveType;

/// LAPACK's letter of a type.
pub fn letter(ty: PrimitiveType) -> char {
    match ty {
        PrimitiveType::F32 => 's',
        PrimitiveType::F64 => 'd',
        PrimitiveType::C64 => 'c',
        _ => 'z',
    }
}

/// Looking one up costs as much as a factorization of a small matrix, and a batch has many.
fn known_routine(letter: char, name: &'static str) -> Option<Routine> {
    type Known = Vec<((char, &'static str), Option<Routine>)>;
    thread_local! {
        static KNOWN: RefCell<Known> = const { RefCell::new(Vec::new()) };
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some((_, found)) = known.iter().find(|(key, _)| *key == (letter, name)) {
            return *found;
        }
        let found = routine(&format!("{letter}{name}"));
        known.push(((letter, name), found));
        found
    })
}

/// Most integer arguments of a call.
const INTS: usize = 16;

/// A call being put together.
pub struct Call {
    routine: Routine,
    arguments: Vec<*mut c_void>,
    ints: Box<[i64; INTS]>,
    used: usize,
    letters: Box<[u8; 8]>,
    characters: usize,
    kept: Vec<AlignedBytes<u8>>,
}

impl Call {
    /// The routine `name` for `ty`, if the library has it.
    pub fn new(ty: PrimitiveType, name: &'static str) -> Option<Call> {
        Some(Call {
            routine: known_routine(letter(ty), name)?,
            arguments: Vec::new(),
            ints: Box::new([0; INTS]),
            used: 0,
            letters: Box::new([0; 8]),
            characters: 0,
            kept: Vec::new(),
        })
    }

    /// Whether integers have 64 bits.
    pub fn wide(&self) -> bool {
        self.routine.wide
    }

    /// Letters.
    pub fn characters<const N: usize>(mut self, letters: [u8; N]) -> Call {
        for letter in letters {
            self.letters[self.characters] = letter;
            let at: *mut u8 = &mut self.letters[self.characters];
            self.arguments.push(at.cast());
            self.characters += 1;
        }
        self
    }

    /// Integers. On the little-endian machines BLAS libraries exist for, the lower half of the
    /// word is the 32-bit integer.
    pub fn ints<const N: usize>(mut self, values: [usize; N]) -> Call {
        for value in values {
            self.ints[self.used] = value as i64;
            let at: *mut i64 = &mut self.ints[self.used];
            self.arguments.push(at.cast());
            self.used += 1;
        }
        self
    }

    /// An array.
    pub fn pointer(mut self, pointer: *mut u8) -> Call {
        self.arguments.push(pointer.cast());
        self
    }

    /// The elements of a vector.
    pub fn vector(self, vector: &mut Matrix) -> Call {
        self.pointer(vector.bytes.as_mut_ptr())
    }

    /// The elements of a matrix, and how far apart its columns are.
    pub fn matrix(self, matrix: &mut Matrix) -> Call {
        let leading = matrix.rows.max(1);
        self.vector(matrix).ints([leading])
    }

    /// A workspace of `count` elements of `size` bytes, and that count.
    pub fn workspace(self, count: usize, size: usize) -> Result<Call> {
        Ok(self.work(count, size)?.ints([count]))
    }

    /// A workspace of `count` elements of `size` bytes.
    pub fn work(mut self, count: usize, size: usize) -> Result<Call> {
        let bytes = count
            .checked_mul(size)
            .ok_or_else(|| HloError::execution("workspace too large"))?;
        let mut block = AlignedBytes::zeroed(bytes.max(16))?;
        self.arguments.push(block.as_mut_ptr().cast());
        self.kept.push(block);
        Ok(self)
    }

    /// Makes the call, with `info` as the last argument; returns it.
    ///
    /// # Safety
    ///
    /// The arguments are in the routine's order and as large as it says.
    pub unsafe fn run_with_info(self) -> Result<i32> {
        let call = self.ints([0]);
        let info: *const i64 = &call.ints[call.used - 1];
        // SAFETY: by the caller's promise.
        unsafe {
            call.run()?;
            // A 32-bit library writes the lower half only.
            Ok(info.cast::<i32>().read())
        }
    }

    /// Makes the call.
    ///
    /// # Safety
    ///
    /// As [`Call::run_with_info`].
    pub unsafe fn run(&self) -> Result<()> {
        let fits = self.ints[..self.used]
            .iter()
            .all(|&n| self.routine.wide || i32::try_from(n).is_ok());
        if !fits {
            return Err(HloError::execution(
                "a matrix too large for this LAPACK library",
            ));
        }
        // SAFETY: by the caller's promise; letters and integers live in boxes of this call.
        if unsafe { self.routine.call(&self.arguments, self.characters) } {
            Ok(())
        } else {
            Err(HloError::execution("too many arguments for LAPACK"))
        }
    }
}

/// Reads `count` integers a routine wrote at `at`.
///
/// # Safety
///
/// `at` holds them, in the library's width.
pub unsafe fn read_ints(at: *const u8, count: usize, wide: bool) -> Vec<i32> {
    (0..count)
        .map(|i| {
            // SAFETY: by the caller's promise.
            unsafe {
                if wide {
                    at.cast::<i64>().add(i).read() as i32
                } else {
                    at.cast::<i32>().add(i).read()
                }
            }
        })
        .collect()
}
