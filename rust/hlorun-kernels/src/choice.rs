//! Selects one of two pairs, element by element: the reducer of `argmax`, `argmin` and similar reductions.
//!
//! In: left and right pairs of a value and a second element, such as its index. Out: the selected pairs, in the place of
//! the left ones; or the one pair that is selected among those of a row, or of each column. Promise: elements keep their bits.

use crate::low_float::{Bf16, F16, LowFloat};
use crate::{CompareDirection, DType, Isa};

/// How two values compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    /// The left one is less.
    Less,
    /// They are equal.
    Equal,
    /// The left one is greater.
    Greater,
    /// The left one is NaN, the right one is not.
    LeftNan,
    /// The right one is NaN, the left one is not.
    RightNan,
    /// Both are NaN.
    BothNan,
}

impl Relation {
    /// All that two integers can have.
    pub const INTEGERS: [Relation; 3] = [Relation::Less, Relation::Equal, Relation::Greater];
    /// All that two floats can have.
    pub const FLOATS: [Relation; 6] = [
        Relation::Less,
        Relation::Equal,
        Relation::Greater,
        Relation::LeftNan,
        Relation::RightNan,
        Relation::BothNan,
    ];

    /// Whether the left value is in this relation to the right one.
    pub fn holds(self, direction: CompareDirection) -> bool {
        use CompareDirection::{Eq, Ge, Gt, Le, Lt, Ne};
        match self {
            Relation::Less => matches!(direction, Lt | Le | Ne),
            Relation::Equal => matches!(direction, Eq | Le | Ge),
            Relation::Greater => matches!(direction, Gt | Ge | Ne),
            Relation::LeftNan | Relation::RightNan | Relation::BothNan => direction == Ne,
        }
    }

    /// The relation of the right value to the left one.
    pub fn turned(self) -> Relation {
        match self {
            Relation::Less => Relation::Greater,
            Relation::Greater => Relation::Less,
            Relation::LeftNan => Relation::RightNan,
            Relation::RightNan => Relation::LeftNan,
            other => other,
        }
    }

    /// The relation of the left value to itself.
    pub fn of_left(self) -> Relation {
        match self {
            Relation::LeftNan | Relation::BothNan => Relation::BothNan,
            _ => Relation::Equal,
        }
    }
}

/// When the left pair is chosen: its value is greater, or less; or they are equal and its second element is less, or greater.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Whether the greater value is selected rather than the lesser one.
    pub greater: bool,
    /// Whether, of equal values, the greater second element is selected rather than the lesser one.
    pub later: bool,
    /// Whether a left value that is NaN is selected.
    pub nan: bool,
    /// Whether, of equal values, the one beside the selected second element is selected rather than always the right one.
    pub together: bool,
}

/// `unsafe fn(left, right, n, choice)`: writes the chosen pairs over the left ones.
///
/// # Safety
/// The addresses hold `n` elements of the looked-up types, aligned to them; what the left ones hold overlaps nothing else.
pub type Choose = unsafe fn([*mut u8; 2], [*const u8; 2], usize, Choice);

/// `unsafe fn(pairs, n, to, choice) -> is_decided`: writes the pair that is selected among `n`, each taken as the left one of
/// those after it. Returns false where its bits depend on the order of the pairs, because the value is NaN, or a zero among
/// zeros of the other sign: then what is written means nothing.
///
/// # Safety
/// As for [`Choose`]. There are at least [`MIN_ROW`] pairs, and room for one at `to`. Seconds are integers. Of floats, the
/// choice selects NaN.
pub type ChooseRow = unsafe fn([*const u8; 2], usize, [*mut u8; 2], Choice) -> bool;

/// `unsafe fn(pairs, [rows, columns], results, choice)`: chooses among the result of each column, which is the first left
/// one, and its pairs from the first row on. What is chosen replaces the result.
///
/// # Safety
/// As for [`Choose`]: there are `rows * columns` pairs, row by row, and `columns` results, which overlap nothing else.
pub type ChooseColumns = unsafe fn([*const u8; 2], [usize; 2], [*mut u8; 2], Choice);

/// The kernels for pairs of some types.
type Kernels = (Choose, ChooseRow, ChooseColumns);

/// Fewest pairs of a row; also the number of its lanes: pair `i` is in lane `i % MIN_ROW`, but for the last chunk.
pub const MIN_ROW: usize = 32;

impl Choice {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Choice> {
        (0..16).map(|bits| Choice {
            greater: bits & 1 != 0,
            later: bits & 2 != 0,
            nan: bits & 4 != 0,
            together: bits & 8 != 0,
        })
    }

    /// Whether the left value, and whether the left second element, is selected.
    pub fn takes_left(self, values: Relation, seconds: Relation) -> [bool; 2] {
        use CompareDirection::{Gt, Lt};
        let first = if self.greater { Gt } else { Lt };
        let is_nan = values.of_left() == Relation::BothNan;
        let wins = values.holds(first) || self.nan && is_nan;
        let second = if self.later { Gt } else { Lt };
        let ties = values == Relation::Equal && seconds.holds(second);
        [wins || ties && self.together, wins || ties]
    }

    /// The kernel for pairs of these types, if there is one.
    pub fn kernel(self, value: DType, second: DType) -> Option<Choose> {
        of_tier!(Isa::active(), pick(self, value, second)).map(|kernels| kernels.0)
    }

    /// The kernel for rows of such pairs, if there is one.
    pub fn row_kernel(self, value: DType, second: DType) -> Option<ChooseRow> {
        of_tier!(Isa::active(), pick(self, value, second)).map(|kernels| kernels.1)
    }

    /// The kernel for columns of such pairs, if there is one.
    pub fn column_kernel(self, value: DType, second: DType) -> Option<ChooseColumns> {
        of_tier!(Isa::active(), pick(self, value, second)).map(|kernels| kernels.2)
    }
}

/// An element that can be compared.
trait Key: Copy {
    type As: PartialOrd + Copy;
    fn key(self) -> Self::As;
    fn is_nan(self) -> bool;
    fn is_zero(self) -> bool;
    /// Whether the other one compares as equal and has other bits: a zero of the other sign.
    fn is_twin(self, other: Self) -> bool;
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Key for $t {
            type As = $t;
            #[inline(always)]
            fn key(self) -> $t {
                self
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn is_zero(self) -> bool {
                self == 0
            }
            #[inline(always)]
            fn is_twin(self, _: Self) -> bool {
                false
            }
        }
    )*};
}
integers! { i8 i16 i32 i64 u8 u16 u32 u64 }

macro_rules! floats {
    ($($t:ty => $key:ty, |$x:ident| $e:expr;)*) => {$(
        impl Key for $t {
            type As = $key;
            #[inline(always)]
            fn key(self) -> $key {
                let $x = self;
                $e
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.key().is_nan()
            }
            #[inline(always)]
            fn is_zero(self) -> bool {
                self.key() == 0.0
            }
            #[inline(always)]
            fn is_twin(self, other: Self) -> bool {
                let (x, y) = (self.key(), other.key());
                (x == y) & (x.to_bits() != y.to_bits())
            }
        }
    )*};
}
floats! {
    f32 => f32, |x| x; f64 => f64, |x| x;
    F16 => f32, |x| x.decode(); Bf16 => f32, |x| x.decode();
}

/// What `choice` selects of a left and a right pair; without [`Choice::together`], value and second may come from different
/// ones.
#[inline(always)]
fn selected<V: Key, I: Key, const GREATER: bool, const LATER: bool>(
    (a, b): (V, I),
    (c, d): (V, I),
    choice: Choice,
) -> (V, I) {
    let (x, y) = (a.key(), c.key());
    let (i, j) = (b.key(), d.key());
    #[allow(clippy::eq_op)]
    let is_nan = x != x;
    let wins = (if GREATER { x > y } else { x < y }) | (choice.nan & is_nan);
    let ties = (x == y) & (if LATER { i > j } else { i < j });
    let value = if wins | (ties & choice.together) {
        a
    } else {
        c
    };
    (value, if wins | ties { b } else { d })
}

#[inline(always)]
unsafe fn body<V: Key, I: Key, const GREATER: bool, const LATER: bool>(
    left: [*mut u8; 2],
    right: [*const u8; 2],
    n: usize,
    choice: Choice,
) {
    // SAFETY: the caller's promise.
    let (values, seconds, others, other_seconds) = unsafe {
        (
            std::slice::from_raw_parts_mut(left[0].cast::<V>(), n),
            std::slice::from_raw_parts_mut(left[1].cast::<I>(), n),
            std::slice::from_raw_parts(right[0].cast::<V>(), n),
            std::slice::from_raw_parts(right[1].cast::<I>(), n),
        )
    };
    let lefts = values.iter_mut().zip(seconds);
    for ((a, b), (&c, &d)) in lefts.zip(others.iter().zip(other_seconds)) {
        (*a, *b) = selected::<V, I, GREATER, LATER>((*a, *b), (c, d), choice);
    }
}

/// See [`ChooseRow`].
#[inline(always)]
unsafe fn row<V: Key, I: Key, const GREATER: bool, const LATER: bool>(
    pairs: [*const u8; 2],
    n: usize,
    to: [*mut u8; 2],
    choice: Choice,
) -> bool {
    // SAFETY: the caller's promise.
    let (values, seconds) = unsafe {
        (
            std::slice::from_raw_parts(pairs[0].cast::<V>(), n),
            std::slice::from_raw_parts(pairs[1].cast::<I>(), n),
        )
    };
    // The last chunk may overlap the one before it: to choose from a pair twice changes nothing.
    let (Some(last_values), Some(last_seconds)) = (
        values.last_chunk::<MIN_ROW>(),
        seconds.last_chunk::<MIN_ROW>(),
    ) else {
        return false;
    };
    let (mut lanes, mut lane_seconds) = (*last_values, *last_seconds);
    macro_rules! take {
        ($values:expr, $seconds:expr) => {
            for lane in 0..MIN_ROW {
                let left = (lanes[lane], lane_seconds[lane]);
                let right = ($values[lane], $seconds[lane]);
                (lanes[lane], lane_seconds[lane]) =
                    selected::<V, I, GREATER, LATER>(left, right, choice);
            }
        };
    }
    let (chunks, _) = values[..n - 1].as_chunks::<MIN_ROW>();
    let (second_chunks, _) = seconds[..n - 1].as_chunks::<MIN_ROW>();
    for (values, seconds) in chunks.iter().zip(second_chunks) {
        take!(values, seconds);
    }
    // The widths are constants, so that the compiler makes each step one vector.
    macro_rules! halve {
        ($($width:literal)*) => {$(
            for lane in 0..$width {
                let left = (lanes[lane], lane_seconds[lane]);
                let right = (lanes[lane + $width], lane_seconds[lane + $width]);
                (lanes[lane], lane_seconds[lane]) =
                    selected::<V, I, GREATER, LATER>(left, right, choice);
            }
        )*};
    }
    const _: () = assert!(MIN_ROW == 32);
    halve!(16 8 4 2 1);
    let value = lanes[0];
    // SAFETY: the caller's promise.
    unsafe {
        to[0].cast::<V>().write(value);
        to[1].cast::<I>().write(lane_seconds[0]);
    }
    let has_twin = || {
        let zeros = values.iter();
        zeros.fold(false, |found, &other| found | value.is_twin(other))
    };
    !(value.is_nan() || value.is_zero() && has_twin())
}

/// See [`ChooseColumns`].
#[inline(always)]
unsafe fn columns<V: Key, I: Key, const GREATER: bool, const LATER: bool>(
    pairs: [*const u8; 2],
    [rows, columns]: [usize; 2],
    to: [*mut u8; 2],
    choice: Choice,
) {
    // SAFETY: the caller's promise.
    let (values, seconds, results, result_seconds) = unsafe {
        (
            std::slice::from_raw_parts(pairs[0].cast::<V>(), rows * columns),
            std::slice::from_raw_parts(pairs[1].cast::<I>(), rows * columns),
            std::slice::from_raw_parts_mut(to[0].cast::<V>(), columns),
            std::slice::from_raw_parts_mut(to[1].cast::<I>(), columns),
        )
    };
    /// Columns that stay in registers from row to row. It is a constant, so that the compiler makes each step vectors.
    const WIDTH: usize = 16;
    for first in (0..columns).step_by(WIDTH) {
        let count = WIDTH.min(columns - first);
        let mut chosen = (
            padded::<V, WIDTH>(&results[first..first + count]),
            padded::<I, WIDTH>(&result_seconds[first..first + count]),
        );
        for row in 0..rows {
            let at = row * columns + first;
            // Behind the last columns are the first ones of the next row, whose lanes mean nothing.
            match (
                values[at..].first_chunk::<WIDTH>(),
                seconds[at..].first_chunk::<WIDTH>(),
            ) {
                (Some(values), Some(seconds)) => {
                    chosen = lanes::<V, I, GREATER, LATER, WIDTH>(chosen, values, seconds, choice);
                }
                _ => {
                    let values = padded(&values[at..at + count]);
                    let seconds = padded(&seconds[at..at + count]);
                    chosen =
                        lanes::<V, I, GREATER, LATER, WIDTH>(chosen, &values, &seconds, choice);
                }
            }
        }
        results[first..first + count].copy_from_slice(&chosen.0[..count]);
        result_seconds[first..first + count].copy_from_slice(&chosen.1[..count]);
    }
}

/// The chosen pairs of N columns, and the next row of them.
#[inline(always)]
fn lanes<V: Key, I: Key, const GREATER: bool, const LATER: bool, const N: usize>(
    mut chosen: ([V; N], [I; N]),
    values: &[V; N],
    seconds: &[I; N],
    choice: Choice,
) -> ([V; N], [I; N]) {
    for lane in 0..N {
        let left = (chosen.0[lane], chosen.1[lane]);
        let right = (values[lane], seconds[lane]);
        (chosen.0[lane], chosen.1[lane]) = selected::<V, I, GREATER, LATER>(left, right, choice);
    }
    chosen
}

/// Some elements and, up to N, the first one again.
#[inline(always)]
fn padded<T: Copy, const N: usize>(elements: &[T]) -> [T; N] {
    std::array::from_fn(|at| elements[if at < elements.len() { at } else { 0 }])
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn run<V: Key, I: Key, const GREATER: bool, const LATER: bool>(
                left: [*mut u8; 2],
                right: [*const u8; 2],
                n: usize,
                choice: Choice,
            ) {
                // SAFETY: the caller's promise.
                unsafe { body::<V, I, GREATER, LATER>(left, right, n, choice) }
            }

            $(#[$features])?
            unsafe fn run_row<V: Key, I: Key, const GREATER: bool, const LATER: bool>(
                pairs: [*const u8; 2],
                n: usize,
                to: [*mut u8; 2],
                choice: Choice,
            ) -> bool {
                // SAFETY: the caller's promise.
                unsafe { row::<V, I, GREATER, LATER>(pairs, n, to, choice) }
            }

            $(#[$features])?
            unsafe fn run_columns<V: Key, I: Key, const GREATER: bool, const LATER: bool>(
                pairs: [*const u8; 2],
                sizes: [usize; 2],
                to: [*mut u8; 2],
                choice: Choice,
            ) {
                // SAFETY: the caller's promise.
                unsafe { columns::<V, I, GREATER, LATER>(pairs, sizes, to, choice) }
            }

            const fn all<V: Key, I: Key, const GREATER: bool, const LATER: bool>() -> Kernels {
                (
                    run::<V, I, GREATER, LATER>,
                    run_row::<V, I, GREATER, LATER>,
                    run_columns::<V, I, GREATER, LATER>,
                )
            }

            const fn of<V: Key, I: Key>(choice: Choice) -> Kernels {
                match (choice.greater, choice.later) {
                    (false, false) => all::<V, I, false, false>(),
                    (false, true) => all::<V, I, false, true>(),
                    (true, false) => all::<V, I, true, false>(),
                    (true, true) => all::<V, I, true, true>(),
                }
            }

            pub fn pick(
                choice: Choice,
                value: DType,
                second: DType,
            ) -> Option<Kernels> {
                Some(match (value, second) {
                    (DType::S8, DType::S32) => of::<i8, i32>(choice),
                    (DType::U8 | DType::Pred, DType::S32) => of::<u8, i32>(choice),
                    (DType::S16, DType::S32) => of::<i16, i32>(choice),
                    (DType::U16, DType::S32) => of::<u16, i32>(choice),
                    (DType::S32, DType::S32) => of::<i32, i32>(choice),
                    (DType::U32, DType::S32) => of::<u32, i32>(choice),
                    (DType::F16, DType::S32) => of::<F16, i32>(choice),
                    (DType::BF16, DType::S32) => of::<Bf16, i32>(choice),
                    (DType::F32, DType::S32) => of::<f32, i32>(choice),
                    (DType::F64, DType::S32) => of::<f64, i32>(choice),
                    (DType::U8 | DType::Pred, DType::S64) => of::<u8, i64>(choice),
                    (DType::S32, DType::S64) => of::<i32, i64>(choice),
                    (DType::F16, DType::S64) => of::<F16, i64>(choice),
                    (DType::BF16, DType::S64) => of::<Bf16, i64>(choice),
                    (DType::F32, DType::S64) => of::<f32, i64>(choice),
                    (DType::S64, DType::S64) => of::<i64, i64>(choice),
                    (DType::U64, DType::S64) => of::<u64, i64>(choice),
                    (DType::F64, DType::S64) => of::<f64, i64>(choice),
                    (DType::F32, DType::F32) => of::<f32, f32>(choice),
                    (DType::F64, DType::F64) => of::<f64, f64>(choice),
                    _ => return None,
                })
            }
        }
    };
}
each_tier!(tier);

#[cfg(test)]
mod tests;
