//! Selects one of two pairs, element by element: the reducer of `argmax`, `argmin` and similar reductions.
//!
//! In: left and right pairs of a value and a second element, such as its index. Out: the selected pairs, in the place of
//! the left ones. Promise: elements keep their bits.

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
        of_tier!(Isa::active(), pick(self, value, second))
    }
}

/// An element that can be compared.
trait Key: Copy {
    type As: PartialOrd + Copy;
    fn key(self) -> Self::As;
}

macro_rules! keys {
    ($($t:ty => $key:ty, |$x:ident| $e:expr;)*) => {$(
        impl Key for $t {
            type As = $key;
            #[inline(always)]
            fn key(self) -> $key {
                let $x = self;
                $e
            }
        }
    )*};
}
keys! {
    i8 => i8, |x| x; i16 => i16, |x| x; i32 => i32, |x| x; i64 => i64, |x| x;
    u8 => u8, |x| x; u16 => u16, |x| x; u32 => u32, |x| x; u64 => u64, |x| x;
    f32 => f32, |x| x; f64 => f64, |x| x;
    F16 => f32, |x| x.decode(); Bf16 => f32, |x| x.decode();
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
        let (x, y) = (a.key(), c.key());
        let (i, j) = (b.key(), d.key());
        #[allow(clippy::eq_op)]
        let is_nan = x != x;
        let wins = (if GREATER { x > y } else { x < y }) | (choice.nan & is_nan);
        let ties = (x == y) & (if LATER { i > j } else { i < j });
        *a = if wins | (ties & choice.together) {
            *a
        } else {
            c
        };
        *b = if wins | ties { *b } else { d };
    }
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

            const fn of<V: Key, I: Key>(choice: Choice) -> Choose {
                match (choice.greater, choice.later) {
                    (false, false) => run::<V, I, false, false>,
                    (false, true) => run::<V, I, false, true>,
                    (true, false) => run::<V, I, true, false>,
                    (true, true) => run::<V, I, true, true>,
                }
            }

            pub fn pick(choice: Choice, value: DType, second: DType) -> Option<Choose> {
                Some(match (value, second) {
                    (DType::S8, DType::S32) => of::<i8, i32>(choice),
                    (DType::U8, DType::S32) => of::<u8, i32>(choice),
                    (DType::S16, DType::S32) => of::<i16, i32>(choice),
                    (DType::U16, DType::S32) => of::<u16, i32>(choice),
                    (DType::S32, DType::S32) => of::<i32, i32>(choice),
                    (DType::U32, DType::S32) => of::<u32, i32>(choice),
                    (DType::F16, DType::S32) => of::<F16, i32>(choice),
                    (DType::BF16, DType::S32) => of::<Bf16, i32>(choice),
                    (DType::F32, DType::S32) => of::<f32, i32>(choice),
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
mod tests {
    use super::*;

    #[allow(clippy::eq_op)]
    fn relation<T: PartialOrd>(x: &T, y: &T) -> Relation {
        match (x != x, y != y) {
            (true, true) => Relation::BothNan,
            (true, false) => Relation::LeftNan,
            (false, true) => Relation::RightNan,
            _ if x < y => Relation::Less,
            _ if x > y => Relation::Greater,
            _ => Relation::Equal,
        }
    }

    fn check<V: PartialOrd + Copy, I: PartialOrd + Copy>(
        (value, second): (DType, DType),
        make: impl Fn(usize) -> (V, I),
        bits: impl Fn(V, I) -> (u64, u64),
    ) {
        for choice in Choice::all() {
            let choose = choice.kernel(value, second).unwrap();
            for n in [0, 1, 5, 16, 67, 200] {
                let (a, b): (Vec<V>, Vec<I>) = (0..n).map(|i| make(i * 7)).unzip();
                let (c, d): (Vec<V>, Vec<I>) = (0..n).map(|i| make(i * 5 + 3)).unzip();
                let (mut x, mut k) = (a.clone(), b.clone());
                let left = [x.as_mut_ptr().cast::<u8>(), k.as_mut_ptr().cast()];
                let right = [c.as_ptr().cast::<u8>(), d.as_ptr().cast()];
                // SAFETY: four vectors of n elements.
                unsafe { choose(left, right, n, choice) };
                for at in 0..n {
                    let relations = (relation(&a[at], &c[at]), relation(&b[at], &d[at]));
                    let [is_left, is_left_second] = choice.takes_left(relations.0, relations.1);
                    let want = bits(
                        if is_left { a[at] } else { c[at] },
                        if is_left_second { b[at] } else { d[at] },
                    );
                    assert_eq!(
                        bits(x[at], k[at]),
                        want,
                        "{value:?} {choice:?} {relations:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn pairs_are_chosen_as_the_choice_says() {
        let floats = [
            1.5,
            f64::NAN,
            -0.0,
            0.0,
            2.0,
            f64::INFINITY,
            1.5,
            -f64::NAN,
            -7.0,
        ];
        check(
            (DType::F64, DType::S64),
            |i| (floats[i % 9], (i * 11 % 4) as i64),
            |x, k| (x.to_bits(), k as u64),
        );
        check(
            (DType::F32, DType::F32),
            |i| (floats[i % 9] as f32, floats[i / 3 % 9] as f32),
            |x, k| (x.to_bits().into(), k.to_bits().into()),
        );
        check(
            (DType::S8, DType::S32),
            |i| ((i % 5) as i8 - 2, (i * 11 % 4) as i32),
            |x, k| (x as u64, k as u64),
        );
        check(
            (DType::U32, DType::S32),
            |i| (((i % 5) as u32) << 29, (i * 11 % 4) as i32),
            |x, k| (x.into(), k as u64),
        );
    }
}
