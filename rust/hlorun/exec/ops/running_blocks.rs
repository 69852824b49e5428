//! Running folds of single operations: one line after the other, or many side by side.
//!
//! Sums and products of floats go by blocks of 16, as XLA:CPU expands them: an element folds its own block up
//! to itself, then what all blocks before it give together; totals of blocks are folded by the same rule. Each element
//! is so the result of a few dozen operations at most, and errors do not grow with the length of the line.
//! Promise: lines by themselves and lines side by side are folded in the same order.

use std::cell::Cell;
use std::mem::MaybeUninit;

use hlorun_kernels::{Binary, BinaryOp};

use crate::buffers::AlignedBytes;
use crate::error::Result;
use crate::types::PrimitiveType;

/// Elements of a block, and blocks of a block of blocks.
pub const BLOCK: usize = 16;
/// Levels of blocks: enough for any length.
const LEVELS: usize = usize::BITS as usize / 4 + 1;

/// Whether the order in which `op` folds elements of type `ty` changes the result.
pub fn order_matters(op: BinaryOp, ty: PrimitiveType) -> bool {
    let rounds = ty.is_floating() || ty.is_complex();
    rounds && matches!(op, BinaryOp::Add | BinaryOp::Multiply)
}

/// Folds the totals of blocks that end, level by level.
///
/// `combine(level, afresh)` folds a total into that of `level`, which begins with it if `afresh`; `sum(level, more)`
/// makes what comes before the next block of `level`: that total, folded with what comes before it if there is `more`.
fn block_ends(
    mut block: usize,
    mut combine: impl FnMut(usize, bool),
    mut sum: impl FnMut(usize, bool),
) {
    for level in 1..LEVELS {
        combine(level, block.is_multiple_of(BLOCK));
        sum(level, block >= BLOCK);
        if block % BLOCK != BLOCK - 1 {
            return;
        }
        block /= BLOCK;
    }
}

/// `to[i * step]` folds the initial value and `from[0]` to `from[i * step]`.
///
/// # Safety
///
/// `init` is one element; both lines have `length` elements, `step` apart.
#[inline(always)]
pub unsafe fn line<T: Copy>(
    init: *const T,
    (from, to): (*const T, *mut T),
    (length, step): (usize, isize),
    in_blocks: bool,
    fold: impl Fn(T, T) -> T,
) {
    let at = |i: usize| i as isize * step;
    // SAFETY: by the caller's promise.
    unsafe {
        let first = init.read_unaligned();
        let mut sum = first;
        let head = if in_blocks { BLOCK.min(length) } else { length };
        for i in 0..head {
            sum = fold(sum, from.offset(at(i)).read());
            to.offset(at(i)).write(sum);
        }
        if head == length {
            return;
        }
        let totals: [Cell<T>; LEVELS] = std::array::from_fn(|_| Cell::new(first));
        let mut before = [first; LEVELS];
        for block in 1..length.div_ceil(BLOCK) {
            totals[0].set(sum);
            block_ends(
                block - 1,
                |level, afresh| {
                    let (part, total) = (totals[level - 1].get(), &totals[level]);
                    total.set(if afresh {
                        part
                    } else {
                        fold(total.get(), part)
                    });
                },
                |level, more| {
                    let total = totals[level].get();
                    before[level] = if more {
                        fold(total, before[level + 1])
                    } else {
                        total
                    };
                },
            );
            let start = block * BLOCK;
            for i in start..length.min(start + BLOCK) {
                let x = from.offset(at(i)).read();
                sum = if i == start { x } else { fold(sum, x) };
                to.offset(at(i)).write(fold(sum, before[1]));
            }
        }
    }
}

/// Room for the totals of lines side by side.
pub struct Rows {
    kernel: Binary,
    size: usize,
    lanes: usize,
    /// Rows of `lanes` elements: for each level its total, then what comes before its next block; empty where lines
    /// are folded element after element.
    kept: Option<AlignedBytes<MaybeUninit<u8>>>,
}

impl Rows {
    /// For up to `lanes` lines of elements of `size` bytes.
    pub fn new(kernel: Binary, size: usize, lanes: usize, in_blocks: bool) -> Result<Rows> {
        let room = || AlignedBytes::uninitialized(2 * LEVELS * lanes * size);
        let kept = if in_blocks { Some(room()?) } else { None };
        Ok(Rows {
            kernel,
            size,
            lanes,
            kept,
        })
    }

    /// Folds `lanes` neighbouring lines, row by row; `from` and `to` give the rows.
    ///
    /// # Safety
    ///
    /// `init` is one element, and rows up to `length` have `lanes` of them, as many as there is room for at most.
    pub unsafe fn run(
        &self,
        init: *const u8,
        (from, to): (impl Fn(usize) -> *const u8, impl Fn(usize) -> *mut u8),
        length: usize,
        lanes: usize,
    ) {
        debug_assert!(lanes <= self.lanes);
        let head = if self.kept.is_some() {
            BLOCK.min(length)
        } else {
            length
        };
        // SAFETY: by the caller's promise; kernels may write onto an operand.
        unsafe {
            for i in 0..head {
                let here = to(i);
                let before = match i.checked_sub(1) {
                    Some(before) => to(before).cast_const(),
                    None => {
                        hlorun_kernels::fill(self.size, init, here, lanes);
                        here.cast_const()
                    }
                };
                (self.kernel)(before, from(i), here, lanes);
            }
        }
        let Some(kept) = self.kept.as_ref().filter(|_| head < length) else {
            return;
        };
        let bytes = lanes * self.size;
        let row = |n: usize| kept.shared_ptr().wrapping_add(n * bytes);
        let (total, before) = (row, |level: usize| row(LEVELS + level));
        // SAFETY: as above; rows of totals are of this call alone.
        unsafe {
            std::ptr::copy_nonoverlapping(to(head - 1), total(0), bytes);
            for i in head..length {
                if i.is_multiple_of(BLOCK) {
                    block_ends(
                        i / BLOCK - 1,
                        |level, afresh| {
                            let (from, here) = (total(level - 1), total(level));
                            if afresh {
                                std::ptr::copy_nonoverlapping(from, here, bytes);
                            } else {
                                (self.kernel)(here, from, here, lanes);
                            }
                        },
                        |level, more| {
                            let (from, here) = (total(level), before(level));
                            if more {
                                (self.kernel)(from, before(level + 1), here, lanes);
                            } else {
                                std::ptr::copy_nonoverlapping(from, here, bytes);
                            }
                        },
                    );
                    std::ptr::copy_nonoverlapping(from(i), total(0), bytes);
                } else {
                    (self.kernel)(total(0), from(i), total(0), lanes);
                }
                (self.kernel)(total(0), before(1), to(i), lanes);
            }
        }
    }
}
