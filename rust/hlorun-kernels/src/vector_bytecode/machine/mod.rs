//! Machine code of vector bytecode, for CPUs with AVX-512.
//!
//! In: the code of vector bytecode. Out: a function of the CPU's own instructions that runs blocks as the interpreter
//! ([`super::run`]) does. Promise: the same bits, also where it is decided which of two NaN survives: operands of floats
//! keep their order. Values stay in registers from one operation to the next; the interpreter keeps only its accumulator
//! there.
//!
//! Bytecode is interpreted until it has done so much work that machine code pays. Where none can be made, because a code
//! has no instruction or the system gives no memory that may be executed, it is interpreted on.

mod codes;
mod encode;
mod formulas;
mod functions;
mod instructions;
mod registers;
mod values;

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use functions::{Extent, functions};
use region::{Allocation, Protection};

use super::code::Micro;
use super::{LARGE_COST, MAX_BLOCK, SMALL_COST};
use crate::subnormal;
use crate::table::Unary;

/// What the code is made of.
#[derive(Clone, Copy)]
pub(super) struct Source<'c> {
    pub(super) code: &'c [Micro],
    pub(super) calls: &'c [Unary],
    /// How many addresses of the table are the bytecode's own, and how many are inputs and outputs.
    pub(super) locals: usize,
    pub(super) outside: usize,
    pub(super) is_wide: bool,
    /// Vectors of a large block.
    pub(super) vectors: usize,
    /// Whether products of floats are computed in `f64`; not of wide elements.
    pub(super) by_double: bool,
}

/// Arguments: the table of addresses, by how many bytes each address outside moves from block to block, and the number of
/// blocks, at least one. The convention is the same on all systems.
type Run = unsafe extern "sysv64" fn(*mut *mut u8, *const isize, usize);

/// Arguments: the table, by how many bytes each address outside moves from row to row, the number of rows, at least one, and
/// their columns.
type RunRows = unsafe extern "sysv64" fn(*mut *mut u8, *const isize, usize, *const Extent);

/// Functions in memory that may be executed.
struct ExecutableCode {
    /// Holds the memory.
    _memory: Allocation,
    large: Run,
    small: Run,
    /// The function for rows, and how many vectors it takes at a time.
    rows: Option<(RunRows, usize)>,
    /// Whether it has products of `f32`, on a CPU that is slow where they are subnormal.
    is_slow: bool,
}

// SAFETY: the memory is not written once it may be executed.
unsafe impl Send for ExecutableCode {}
// SAFETY: as above.
unsafe impl Sync for ExecutableCode {}

impl ExecutableCode {
    fn new(source: &Source<'_>) -> Option<ExecutableCode> {
        let made = functions(source)?;
        let mut memory = region::alloc(made.bytes.len(), Protection::READ_WRITE).ok()?;
        let first: *mut u8 = memory.as_mut_ptr();
        // SAFETY: nobody else has the memory yet, which has room for the bytes and may be executed before a function is
        // called. The functions begin at these places and have this signature.
        unsafe {
            std::ptr::copy_nonoverlapping(made.bytes.as_ptr(), first, made.bytes.len());
            region::protect(first, made.bytes.len(), Protection::READ_EXECUTE).ok()?;
            let at = |place: usize| std::mem::transmute::<*mut u8, Run>(first.add(place));
            let rows = |(place, vectors): (usize, usize)| {
                let rows = std::mem::transmute::<*mut u8, RunRows>(first.add(place));
                (rows, vectors)
            };
            Some(ExecutableCode {
                rows: made.rows.map(rows),
                large: at(made.large),
                small: at(made.small),
                is_slow: made.has_products && !source.is_wide && subnormal::are_slow(),
                _memory: memory,
            })
        }
    }
}

/// The machine code of a bytecode, once there is some.
pub(super) struct MachineCode {
    code: OnceLock<Option<ExecutableCode>>,
    /// The same with products computed in `f64`.
    by_double: OnceLock<Option<ExecutableCode>>,
    /// Whether the last call of [`MachineCode::run`] met subnormal numbers: the next one is likely to.
    meets_subnormals: AtomicBool,
    /// Whether a thread has begun to make it; the others go on interpreting.
    is_begun: AtomicBool,
    /// About how many cycles the bytecode was interpreted for.
    work: AtomicU64,
    /// Cycles after which machine code is made.
    least: u64,
}

impl fmt::Debug for MachineCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineCode").finish_non_exhaustive()
    }
}

impl MachineCode {
    /// None yet; it is made after `least` cycles of the interpreter.
    pub(super) fn after(least: u64) -> MachineCode {
        MachineCode {
            code: OnceLock::new(),
            by_double: OnceLock::new(),
            meets_subnormals: AtomicBool::new(false),
            is_begun: AtomicBool::new(false),
            work: AtomicU64::new(0),
            least,
        }
    }

    /// Makes the code, unless it is there, and that with products in `f64`, which may need too many registers.
    #[cfg(test)]
    pub(super) fn is_made(&self, source: &Source<'_>) -> bool {
        if !source.is_wide {
            self.by_double(source);
        }
        let plain = self.code.get_or_init(|| ExecutableCode::new(source));
        plain.is_some()
    }

    /// Code whose products are all computed in `f64`.
    #[cfg(test)]
    pub(super) fn all_by_double(source: &Source<'_>) -> MachineCode {
        let machine = MachineCode::after(0);
        let by_double = ExecutableCode::new(&Source {
            by_double: true,
            ..*source
        });
        MachineCode {
            code: OnceLock::from(by_double),
            ..machine
        }
    }

    /// Runs blocks, of which there are some, if there is machine code or this much more work makes it pay. Returns whether
    /// they ran.
    ///
    /// # Safety
    /// That of [`super::RunBlocks`]; all calls have the same source.
    pub(super) unsafe fn run(
        &self,
        source: &Source<'_>,
        pointers: *mut *mut u8,
        strides: super::Strides<'_>,
        (blocks, is_large): (usize, bool),
    ) -> bool {
        let code = match self.code.get() {
            Some(code) => code,
            None => {
                let cost = if is_large { LARGE_COST } else { SMALL_COST };
                let more = (blocks * source.code.len() * cost) as u64;
                let work = self.work.fetch_add(more, Ordering::Relaxed) + more;
                if work < self.least || self.is_begun.swap(true, Ordering::Relaxed) {
                    return false;
                }
                self.code.get_or_init(|| ExecutableCode::new(source))
            }
        };
        let Some(code) = code else { return false };
        let run = |code: &ExecutableCode, count: usize| {
            let run = if is_large { code.large } else { code.small };
            // SAFETY: the caller's promise; the code was made of this source, and moves the addresses behind what it did.
            unsafe { run(pointers, strides.bytes.as_ptr(), count) };
        };
        self.carefully(source, code, (blocks, AT_ONCE), run);
        true
    }

    /// Runs rows, of which there are some, if there is machine code for them. Returns whether they ran.
    ///
    /// # Safety
    /// That of [`MachineCode::run`]: of every row there are as many `columns` at the addresses outside, and addresses move
    /// from row to row by the strides.
    pub(super) unsafe fn run_rows(
        &self,
        source: &Source<'_>,
        pointers: *mut *mut u8,
        strides: &[isize],
        (rows, columns): (usize, usize),
    ) -> bool {
        let Some(Some(code)) = self.code.get() else {
            return false;
        };
        let Some(plain) = code.rows else {
            return false;
        };
        let lanes = if source.is_wide { 8 } else { 16 };
        let run = |code: &ExecutableCode, count: usize| {
            // Of few registers there may be none with products in `f64`; the bits are the same.
            let (run, vectors) = code.rows.unwrap_or(plain);
            let extent = Extent::new(columns, lanes, vectors);
            // SAFETY: the caller's promise; the code moves the addresses behind what it did.
            unsafe { run(pointers, strides.as_ptr(), count, &raw const extent) };
        };
        let at_once = (subnormal::CAREFUL / columns.max(1)).max(1);
        self.carefully(source, code, (rows, at_once), run);
        true
    }

    /// Whether there is machine code for rows.
    pub(super) fn has_rows(&self) -> bool {
        matches!(self.code.get(), Some(Some(code)) if code.rows.is_some())
    }

    /// Runs so many blocks or rows of `code`; with products in `f64`, so many `at_once`, where subnormal numbers are met.
    fn carefully(
        &self,
        source: &Source<'_>,
        code: &ExecutableCode,
        (all, at_once): (usize, usize),
        run: impl Fn(&ExecutableCode, usize),
    ) {
        if !code.is_slow {
            return run(code, all);
        }
        subnormal::were_met();
        let before = self.meets_subnormals.load(Ordering::Relaxed);
        let (mut left, mut is_careful, mut any) = (all, before, false);
        // Where such numbers were met, others may follow those without: these pieces grow.
        let mut plain = if before { at_once } else { all };
        while left > 0 {
            let by_double = is_careful.then(|| self.by_double(source)).flatten();
            let most = if by_double.is_some() { at_once } else { plain };
            let count = most.min(left);
            run(by_double.unwrap_or(code), count);
            left -= count;
            plain = if is_careful {
                at_once
            } else {
                plain.saturating_mul(2)
            };
            is_careful = subnormal::were_met();
            any |= is_careful;
        }
        if any != before {
            self.meets_subnormals.store(any, Ordering::Relaxed);
        }
    }

    fn by_double(&self, source: &Source<'_>) -> Option<&ExecutableCode> {
        let make = || {
            ExecutableCode::new(&Source {
                by_double: true,
                ..*source
            })
        };
        self.by_double.get_or_init(make).as_ref()
    }
}

/// Blocks computed in `f64` between two looks at the flags.
const AT_ONCE: usize = subnormal::CAREFUL / MAX_BLOCK;
