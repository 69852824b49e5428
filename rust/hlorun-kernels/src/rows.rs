//! Short rows: combined with rows at other places, or folded to one value each, many in one call.
//!
//! In: an operation and an element type. Out: `to[place] = f(to[place], from[place])`, row after row in order; or
//! `results[row] = f(results[row], value)` for each value of a row, in order; or rows folded onto each other, half by half.
//! Promise: the bits of the two-operand kernel. A call per row costs more than a short row does.

use crate::element::Pred;
use crate::elementwise::{Bin, Tier, float, int};
use crate::math::Float;
use crate::ops::BinaryOp;
use crate::table::{Binary, binary};
use crate::{DType, Isa};
use folds::{fold, fold_truth};
pub use halves::HalveRows;

/// Byte offsets of rows that are written, and of as many that are read.
type Places<'p> = [&'p [isize]; 2];

/// `unsafe fn(to, from, places, n, is_disjoint)`: see [`CombineRows::run`].
type Rows = unsafe fn(*mut u8, *const u8, Places<'_>, usize, bool);

/// `unsafe fn(values, rows, size, results)`: folds rows of `size` values that lie one after the
/// other, each onto the result that is there, in order.
pub type FoldRows = unsafe fn(*const u8, usize, usize, *mut u8);

/// What an operation on a type does with rows.
#[derive(Clone, Copy)]
struct Kernels {
    combine: Rows,
    fold: FoldRows,
    halve: HalveRows,
}

/// See the module.
#[derive(Clone, Copy)]
pub enum CombineRows {
    /// All rows in one call.
    Together(Rows),
    /// All rows in one call unless they are long.
    ShortTogether(Rows, Binary),
    /// A call per row.
    OneByOne(Binary),
}

impl CombineRows {
    /// Combines rows of `n` elements. That they are disjoint means: any two rows that are written are the same or share no
    /// element; otherwise they may overlap.
    ///
    /// # Safety
    /// Every place is that of `n` elements of the type behind its pointer; what is written is nowhere read as `from`.
    pub unsafe fn run(
        self,
        to: *mut u8,
        from: *const u8,
        places: [&[isize]; 2],
        n: usize,
        is_disjoint: bool,
    ) {
        // SAFETY: the same contract; kernels may write onto an operand.
        unsafe {
            match self {
                CombineRows::Together(rows) => rows(to, from, places, n, is_disjoint),
                CombineRows::ShortTogether(rows, _) if n <= LONG => {
                    rows(to, from, places, n, is_disjoint);
                }
                CombineRows::OneByOne(kernel) | CombineRows::ShortTogether(_, kernel) => {
                    for (&t, &f) in places[0].iter().zip(places[1]) {
                        let to = to.offset(t);
                        kernel(to, from.offset(f), to, n);
                    }
                }
            }
        }
    }
}

/// Longest rows of integers that are turned. The compiler folds longer ones along the row by vectors, as the order of
/// integers does not matter.
const INTEGERS: usize = 12;

/// Elements from which a row is long, and that are combined in one step.
const LONG: usize = 32;
/// Most bytes of a row that is combined part by part.
const SHORT_BYTES: usize = 96;

/// Neighbouring places that are compared together.
const PLACES: usize = 4;

/// Short rows that are combined together: what they read, and where they are written, stays in the first-level cache from
/// one part of them to the next.
const TOGETHER: usize = 128;

/// Most parts of a row that are combined one after the other.
const PARTS: u32 = 3;

/// Short rows that do not repeat each other are combined part by part, where no part of one is another part of the next: a
/// loop over all rows has nothing to decide. Rows at sorted places often repeat, and of long rows each part takes longer
/// than a decision.
#[inline(always)]
unsafe fn combine<T: Tier, A: Copy, O: Bin<A, Out = A>>(
    to: *mut u8,
    from: *const u8,
    [targets, sources]: Places<'_>,
    n: usize,
    is_disjoint: bool,
) {
    // Of rows that overlap, a part of one may be another part of the next, which must come later.
    let keeps_order = is_disjoint || n.is_power_of_two();
    let is_short = n < LONG && n * size_of::<A>() <= SHORT_BYTES;
    let has_parts = keeps_order && is_short && n.count_ones() <= PARTS;
    for (targets, sources) in targets.chunks(TOGETHER).zip(sources.chunks(TOGETHER)) {
        // SAFETY: the caller's contract.
        unsafe {
            if has_parts && !repeat(targets) {
                combine_parts::<T, A, O>(to, from, [targets, sources], n);
            } else {
                combine_in_order::<T, A, O>(to, from, [targets, sources], n);
            }
        }
    }
}

/// Whether most fours of places begin and end with the same.
#[inline(always)]
fn repeat(places: &[isize]) -> bool {
    let (fours, _) = places.as_chunks::<PLACES>();
    let same = fours.iter().filter(|four| four[0] == four[PLACES - 1]);
    same.count() > fours.len() / 2
}

/// Combines rows of fewer than [`LONG`] elements part by part: for each bit that is set in `n`, the highest first, so many
/// elements of all rows.
#[inline(always)]
unsafe fn combine_parts<T: Tier, A: Copy, O: Bin<A, Out = A>>(
    to: *mut u8,
    from: *const u8,
    [targets, sources]: Places<'_>,
    n: usize,
) {
    debug_assert!(n < LONG);
    let mut i = 0;
    macro_rules! part {
        ($($length:literal)*) => {$(
            if n & $length != 0 {
                for (&t, &f) in targets.iter().zip(sources) {
                    // SAFETY: the caller's contract: parts end where the row does.
                    unsafe { combine_lanes::<T, A, O, 1, $length>(to.offset(t), from, [f], i) };
                }
                i += $length;
            }
        )*};
    }
    part!(16 8 4 2 1);
    debug_assert_eq!(i, n);
}

/// Combines row after row. A row stays in registers between places that are the same; four of them are compared by one
/// branch: in places of no order, a branch for each would be mispredicted.
#[inline(always)]
unsafe fn combine_in_order<T: Tier, A: Copy, O: Bin<A, Out = A>>(
    to: *mut u8,
    from: *const u8,
    [targets, sources]: Places<'_>,
    n: usize,
) {
    for (targets, sources) in targets.chunks(PLACES).zip(sources.chunks(PLACES)) {
        let same = match (targets, sources.first_chunk()) {
            (&[first, second, third, last], Some(four)) => {
                (first == last && first == second && first == third).then_some((first, four))
            }
            _ => None,
        };
        // SAFETY: the caller's contract.
        unsafe {
            if let Some((place, four)) = same {
                combine_onto::<T, A, O, PLACES>(to.offset(place), from, *four, n);
                continue;
            }
            for (&t, &f) in targets.iter().zip(sources) {
                combine_onto::<T, A, O, 1>(to.offset(t), from, [f], n);
            }
        }
    }
}

/// Combines the row at `to` with rows at some places of `from`.
#[inline(always)]
unsafe fn combine_onto<T: Tier, A: Copy, O: Bin<A, Out = A>, const K: usize>(
    to: *mut u8,
    from: *const u8,
    sources: [isize; K],
    n: usize,
) {
    let mut i = 0;
    macro_rules! rest {
        ($($length:literal)*) => {$(
            if n & $length != 0 {
                combine_lanes::<T, A, O, K, $length>(to, from, sources, i);
                i += $length;
            }
        )*};
    }
    // SAFETY: the caller's contract: steps end where the row does.
    unsafe {
        while i + LONG <= n {
            combine_lanes::<T, A, O, K, LONG>(to, from, sources, i);
            i += LONG;
        }
        rest!(16 8 4 2 1);
    }
    debug_assert_eq!(i, n);
}

/// Combines `L` elements of the row at `to` from `i` on.
#[inline(always)]
unsafe fn combine_lanes<T: Tier, A: Copy, O: Bin<A, Out = A>, const K: usize, const L: usize>(
    to: *mut u8,
    from: *const u8,
    sources: [isize; K],
    i: usize,
) {
    // SAFETY: the caller's contract: all rows have `L` elements from `i` on.
    unsafe {
        let at = to.cast::<A>().add(i).cast::<[A; L]>();
        let mut x = at.read_unaligned();
        for f in sources {
            let y = from.offset(f).cast::<A>().add(i).cast::<[A; L]>();
            for (x, &y) in x.iter_mut().zip(&y.read_unaligned()) {
                *x = O::f::<T>(*x, y);
            }
        }
        at.write_unaligned(x);
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn combined<A: Copy, O: Bin<A, Out = A>>(
                to: *mut u8,
                from: *const u8,
                places: Places<'_>,
                n: usize,
                is_disjoint: bool,
            ) {
                // SAFETY: the caller's contract.
                unsafe { combine::<$tier, A, O>(to, from, places, n, is_disjoint) }
            }

            $(#[$features])?
            unsafe fn folded<A: Copy, O: Bin<A, Out = A>, const TURNED: usize>(
                values: *const u8,
                rows: usize,
                size: usize,
                results: *mut u8,
            ) {
                // SAFETY: the caller's contract.
                unsafe { fold::<$tier, A, O, TURNED>(values, rows, size, results) }
            }

            $(#[$features])?
            unsafe fn folded_truth<O: Bin<Pred, Out = Pred>, const ALL: bool>(
                values: *const u8,
                rows: usize,
                size: usize,
                results: *mut u8,
            ) {
                // SAFETY: the caller's contract.
                unsafe { fold_truth::<$tier, O, ALL>(values, rows, size, results) }
            }

            $(#[$features])?
            unsafe fn halved<A: Copy, O: Bin<A, Out = A>>(
                values: *const u8,
                rows: usize,
                size: usize,
                stage: *mut u8,
            ) -> *const u8 {
                // SAFETY: the caller's contract.
                unsafe { halves::halve::<$tier, A, O>(values, rows, size, stage) }
            }

            fn truths(op: BinaryOp) -> Option<Kernels> {
                let (all, any) = (all::<Pred, int::PredAnd>(), all::<Pred, int::PredOr>());
                Some(match op {
                    BinaryOp::And | BinaryOp::Multiply | BinaryOp::Minimum => Kernels {
                        fold: folded_truth::<int::PredAnd, true>,
                        ..all
                    },
                    BinaryOp::Or | BinaryOp::Add | BinaryOp::Maximum => Kernels {
                        fold: folded_truth::<int::PredOr, false>,
                        ..any
                    },
                    BinaryOp::Xor => self::all::<Pred, int::PredXor>(),
                    _ => return None,
                })
            }

            const fn all<A: Copy, O: Bin<A, Out = A>>() -> Kernels {
                Kernels {
                    combine: combined::<A, O>,
                    fold: folded::<A, O, INTEGERS>,
                    halve: halved::<A, O>,
                }
            }

            const fn all_in_order<A: Copy, O: Bin<A, Out = A>>() -> Kernels {
                Kernels {
                    combine: combined::<A, O>,
                    fold: folded::<A, O, { usize::MAX }>,
                    halve: halved::<A, O>,
                }
            }

            fn floats<F: Float>(op: BinaryOp) -> Option<Kernels> {
                Some(match op {
                    BinaryOp::Add => all_in_order::<F, float::Add>(),
                    BinaryOp::Multiply => all_in_order::<F, float::Multiply>(),
                    BinaryOp::Maximum => all_in_order::<F, float::Maximum>(),
                    BinaryOp::Minimum => all_in_order::<F, float::Minimum>(),
                    _ => return None,
                })
            }

            pub(super) fn ints<E: int::IntElem>(op: BinaryOp) -> Option<Kernels> {
                Some(match op {
                    BinaryOp::Add => all::<E::Bits, int::Add>(),
                    BinaryOp::Multiply => all::<E::Bits, int::Multiply>(),
                    BinaryOp::Maximum => all::<E, int::Maximum>(),
                    BinaryOp::Minimum => all::<E, int::Minimum>(),
                    BinaryOp::And => all::<E::Bits, int::And>(),
                    BinaryOp::Or => all::<E::Bits, int::Or>(),
                    BinaryOp::Xor => all::<E::Bits, int::Xor>(),
                    _ => return None,
                })
            }

            pub fn pick(op: BinaryOp, dtype: DType) -> Option<Kernels> {
                match dtype {
                    DType::Pred => truths(op),
                    DType::F32 => floats::<f32>(op),
                    DType::F64 => floats::<f64>(op),
                    DType::S32 => ints::<i32>(op),
                    DType::S64 => ints::<i64>(op),
                    DType::U32 => ints::<u32>(op),
                    DType::U64 => ints::<u64>(op),
                    _ => narrow(op, dtype),
                }
            }
        }
    };
}
each_tier!(tier);

/// The kernels of narrow integers are portable ones alone: they take long to build, and are seldom used. Of short rows of
/// these, long vectors gain nothing.
fn narrow(op: BinaryOp, dtype: DType) -> Option<Kernels> {
    match dtype {
        DType::S8 => portable::ints::<i8>(op),
        DType::S16 => portable::ints::<i16>(op),
        DType::U8 => portable::ints::<u8>(op),
        DType::U16 => portable::ints::<u16>(op),
        _ => None,
    }
}

/// What combines rows by `op`; `None` where the type has no such kernel.
pub fn combine_rows(op: BinaryOp, dtype: DType) -> Option<CombineRows> {
    let one = binary(op, dtype);
    Some(match of_tier!(Isa::active(), pick(op, dtype)) {
        Some(own) if narrow(op, dtype).is_some() => CombineRows::ShortTogether(own.combine, one?),
        Some(own) => CombineRows::Together(own.combine),
        None => CombineRows::OneByOne(one?),
    })
}

/// What folds short rows by `op`; `None` where the type has no such kernel.
///
/// It is to be called with `rows` times `size` values, and with as many results as rows, which overlap none of them.
pub fn fold_rows(op: BinaryOp, dtype: DType) -> Option<FoldRows> {
    of_tier!(Isa::active(), pick(op, dtype)).map(|own| own.fold)
}

/// What folds rows onto each other by `op`; `None` where the type has no such kernel.
pub fn halve_rows(op: BinaryOp, dtype: DType) -> Option<HalveRows> {
    of_tier!(Isa::active(), pick(op, dtype)).map(|own| own.halve)
}

/// A float type with the maximum and minimum of the kernels, which are those of IEEE 754-2019.
pub trait Extremes: Copy {
    /// The larger one; NaN wins, and +0 over -0.
    fn larger(self, other: Self) -> Self;
    /// The smaller one; NaN wins, and -0 over +0.
    fn smaller(self, other: Self) -> Self;
}

macro_rules! extremes {
    ($($t:ty)*) => {$(
        impl Extremes for $t {
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                Float::maximum(self, other)
            }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                Float::minimum(self, other)
            }
        }
    )*};
}
extremes!(f32 f64);

mod folds;
mod halves;
#[cfg(test)]
mod tests;
mod turned;
