//! Calls of LAPACK routines in the loaded library.
//!
//! In: a routine's name and its arguments in order. Out: its `info`, or `None` where there is no
//! library. Promise: arguments are what the routine's documentation asks for; callers pass
//! workspaces of at least the documented sizes.

use std::cell::RefCell;
use std::ffi::c_void;

use hlorun_kernels::gemm::blas::{Routine, routine};
use smallvec::SmallVec;

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

/// Most arguments of a call.
const ARGUMENTS: usize = 24;

/// An argument of a call. LAPACK takes the address of each.
#[derive(Clone, Copy)]
enum Argument {
    Letter(u8),
    Integer(i64),
    Array(*mut u8),
}

/// A call being put together.
pub struct Call {
    routine: Routine,
    arguments: Vec<Argument>,
    kept: SmallVec<[AlignedBytes<u8>; 3]>,
}

impl Call {
    /// The routine `name` for `ty`, if the library has it.
    pub fn new(ty: PrimitiveType, name: &'static str) -> Option<Call> {
        Some(Call {
            routine: known_routine(letter(ty), name)?,
            arguments: Vec::with_capacity(ARGUMENTS),
            kept: SmallVec::new(),
        })
    }

    /// Whether integers have 64 bits.
    pub fn wide(&self) -> bool {
        self.routine.wide
    }

    /// Letters.
    pub fn characters<const N: usize>(mut self, letters: [u8; N]) -> Call {
        self.arguments.extend(letters.map(Argument::Letter));
        self
    }

    /// Integers.
    pub fn ints<const N: usize>(mut self, values: [usize; N]) -> Call {
        let integers = values.map(|value| Argument::Integer(value as i64));
        self.arguments.extend(integers);
        self
    }

    /// An array.
    pub fn pointer(mut self, pointer: *mut u8) -> Call {
        self.arguments.push(Argument::Array(pointer));
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
        let pointer = block.as_mut_ptr();
        self.kept.push(block);
        Ok(self.pointer(pointer))
    }

    /// Makes the call, with `info` as the last argument; returns it.
    ///
    /// # Safety
    ///
    /// The arguments are in the routine's order and as large as it says.
    pub unsafe fn run_with_info(self) -> Result<i32> {
        let mut info = 0i64;
        let call = self.pointer((&raw mut info).cast());
        // SAFETY: by the caller's promise; a library of 32-bit integers writes the lower half only.
        unsafe { call.run()? };
        Ok(info as i32)
    }

    /// Makes the call.
    ///
    /// # Safety
    ///
    /// As [`Call::run_with_info`].
    pub unsafe fn run(mut self) -> Result<()> {
        let fits = |argument: &Argument| match argument {
            Argument::Integer(value) => self.routine.wide || i32::try_from(*value).is_ok(),
            Argument::Letter(_) | Argument::Array(_) => true,
        };
        if !self.arguments.iter().all(fits) {
            return Err(HloError::execution(
                "a matrix too large for this LAPACK library",
            ));
        }
        let mut characters = 0;
        let addresses: SmallVec<[*mut c_void; ARGUMENTS]> = (self.arguments.iter_mut())
            .map(|argument| match argument {
                Argument::Letter(letter) => {
                    characters += 1;
                    (&raw mut *letter).cast()
                }
                // On the little-endian machines BLAS libraries exist for, the lower half of the word is
                // the 32-bit integer.
                Argument::Integer(value) => (&raw mut *value).cast(),
                Argument::Array(pointer) => pointer.cast(),
            })
            .collect();
        // SAFETY: by the caller's promise; letters and integers live in arguments of this call.
        if unsafe { self.routine.call(&addresses, characters) } {
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
