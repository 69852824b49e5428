//! Where windows begin: index vectors to byte offsets.
//!
//! In: index vectors, one after the other, and for each component the bytes per unit and the largest value that keeps a
//! window inside. Out: the byte offset of each window. Promise: nothing is read or written out of order, and every
//! instruction set gives the same offsets.

use std::mem::MaybeUninit;

use crate::Isa;

/// What is said of a window that begins outside, where such windows are left out.
pub const OUTSIDE: isize = isize::MIN;

/// Bytes per unit of a component, and the largest one that keeps the window inside: negative where none does.
pub type Component = (isize, i64);

/// Room for an offset.
pub type Place = MaybeUninit<isize>;

/// A number that components and offsets are computed in.
trait Number: Copy + PartialEq {
    const ZERO: Self;
    /// No offset: [`OUTSIDE`].
    const NONE: Self;
    /// How far a component moves a window, and all ones if it begins outside, zero if inside.
    fn place(self, to: [Self; 2]) -> [Self; 2];
    fn plus(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn offset(self) -> isize;
}

macro_rules! numbers {
    ($($t:ident as $signed:ident;)*) => {$(
        impl Number for $t {
            const ZERO: Self = 0;
            const NONE: Self = $signed::MIN as $t;
            #[inline(always)]
            fn place(self, [step, limit]: [Self; 2]) -> [Self; 2] {
                let none_inside = (limit as $signed) >> ($signed::BITS - 1);
                let inside = self.max(0).min((limit as $signed).max(0) as $t);
                let is_outside = -$signed::from(inside != self) | none_inside;
                [inside.wrapping_mul(step), is_outside as $t]
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn offset(self) -> isize {
                self as $signed as isize
            }
        }
    )*};
}
numbers! {
    i32 as i32;
    u32 as i32;
    i64 as i64;
}

/// A number of 32 bits.
#[doc(hidden)]
#[expect(private_bounds, reason = "only this module computes with it")]
pub trait Word: Number {
    const LARGEST: i64;
    fn from_bits(bits: i32) -> Self;
}

macro_rules! words {
    ($($t:ident)*) => {$(
        impl Word for $t {
            const LARGEST: i64 = $t::MAX as i64;
            #[inline(always)]
            fn from_bits(bits: i32) -> Self {
                bits as $t
            }
        }
    )*};
}
words!(i32 u32);

/// The type of an index: `i32`, `u32` or `i64`.
#[expect(private_bounds, reason = "only this module may say what was written")]
pub trait Index: Number {
    /// Numbers of 32 bits.
    #[doc(hidden)]
    type Word: Word;
    #[doc(hidden)]
    fn wide(self) -> i64;
    /// The numbers where they have 32 bits.
    #[doc(hidden)]
    fn words(values: &[Self]) -> Option<&[Self::Word]>;
    /// See [`places`]; not generic, so that this crate has the code.
    #[doc(hidden)]
    fn places(values: &[Self], components: &[Component], skip: bool, out: &mut [Place]) -> bool;
}

macro_rules! indices {
    ($($t:ty: $word:ty, $words:expr;)*) => {$(
        impl Index for $t {
            type Word = $word;
            #[inline(always)]
            fn wide(self) -> i64 {
                self.into()
            }
            #[inline(always)]
            fn words(values: &[$t]) -> Option<&[$word]> {
                $words(values)
            }
            fn places(values: &[$t], components: &[Component], skip: bool, out: &mut [Place]) -> bool {
                let kernel = of_tier!(Isa::active(), run::<$t>);
                // SAFETY: the active instruction set is available.
                unsafe { kernel(values, components, skip, out) }
            }
        }
    )*};
}
indices! {
    i32: i32, Some;
    u32: u32, Some;
    i64: i32, |_| None;
}

/// The offsets of as many vectors as `out` has room for. A component outside is moved to the nearest one inside, or with
/// `skip` the whole window is [`OUTSIDE`]. Returns whether there is such a component, too.
///
/// # Panics
/// If `values` is shorter than the vectors.
pub fn places<'o, I: Index>(
    values: &[I],
    components: &[Component],
    skip: bool,
    out: &'o mut [Place],
) -> (&'o [isize], bool) {
    let values = &values[..out.len() * components.len()];
    let has_outside = I::places(values, components, skip, out);
    // SAFETY: there is a vector for each element, so that all were written.
    let places = unsafe { std::slice::from_raw_parts(out.as_ptr().cast(), out.len()) };
    (places, has_outside)
}

/// The components in 32 bits, if every offset has them.
fn narrow<W: Word, const N: usize>(components: &[Component; N]) -> Option<[[W; 2]; N]> {
    let mut all = [[W::ZERO; 2]; N];
    let mut farthest = 0i64;
    for (&(step, limit), narrow) in components.iter().zip(&mut all) {
        // Limits above all numbers are as good as none. The sign of others says that nothing is inside.
        let limit = i32::try_from(limit.clamp(-1, W::LARGEST)).ok()?;
        let far = (step as i64)
            .checked_abs()?
            .checked_mul(limit.max(0).into())?;
        farthest = farthest.checked_add(far)?;
        *narrow = [i32::try_from(step).ok()?, limit].map(W::from_bits);
    }
    (farthest <= i32::MAX.into()).then_some(all)
}

/// The offset of a vector, and all ones if a component is outside; then the offset is [`Number::NONE`] with `SKIP`.
#[inline(always)]
fn vector<const SKIP: bool, P: Number>(parts: impl Iterator<Item = [P; 2]>) -> [P; 2] {
    let [sum, outside] = parts.fold([P::ZERO; 2], |[sum, outside], [by, is_outside]| {
        [sum.plus(by), outside.or(is_outside)]
    });
    let is_none = SKIP && outside != P::ZERO;
    [if is_none { P::NONE } else { sum }, outside]
}

#[inline(always)]
fn widened<const SKIP: bool, P: Number>(sum: P) -> isize {
    if SKIP && sum == P::NONE {
        OUTSIDE
    } else {
        sum.offset()
    }
}

/// Vectors of N components: a length known to the compiler, so that many are computed at a time.
#[inline(always)]
fn vectors<const SKIP: bool, const N: usize, I: Copy, P: Number>(
    values: &[I],
    components: [[P; 2]; N],
    number: impl Fn(I) -> P,
    out: &mut [Place],
) -> bool {
    /// Offsets that are computed before any is widened: loops of one type each.
    const AT_ONCE: usize = 64;
    let mut outside = P::ZERO;
    let values = values.as_chunks::<N>().0.chunks(AT_ONCE);
    for (out, values) in out.chunks_mut(AT_ONCE).zip(values) {
        let mut sums = [P::ZERO; AT_ONCE];
        for (sum, value) in sums.iter_mut().zip(values) {
            let parts = value.iter().zip(&components);
            let parts = parts.map(|(&x, &to)| number(x).place(to));
            let [all, is_outside] = vector::<SKIP, P>(parts);
            *sum = all;
            outside = outside.or(is_outside);
        }
        for (out, &sum) in out.iter_mut().zip(&sums) {
            out.write(widened::<SKIP, P>(sum));
        }
    }
    outside != P::ZERO
}

#[inline(always)]
fn short<const SKIP: bool, const N: usize, I: Index>(
    values: &[I],
    components: &[Component; N],
    out: &mut [Place],
) -> bool {
    if let (Some(words), Some(components)) = (I::words(values), narrow(components)) {
        return vectors::<SKIP, N, I::Word, I::Word>(words, components, |x| x, out);
    }
    let components = components.map(|(step, limit)| [step as i64, limit]);
    vectors::<SKIP, N, I, i64>(values, components, I::wide, out)
}

#[inline(always)]
fn body<const SKIP: bool, I: Index>(
    values: &[I],
    components: &[Component],
    out: &mut [Place],
) -> bool {
    match components {
        [] => {
            out.fill(Place::new(0));
            false
        }
        &[a] => short::<SKIP, 1, I>(values, &[a], out),
        &[a, b] => short::<SKIP, 2, I>(values, &[a, b], out),
        &[a, b, c] => short::<SKIP, 3, I>(values, &[a, b, c], out),
        _ => {
            let mut any_outside = 0;
            for (out, values) in out.iter_mut().zip(values.chunks_exact(components.len())) {
                let parts = values.iter().zip(components);
                let parts = parts.map(|(x, &(step, limit))| x.wide().place([step as i64, limit]));
                let [sum, outside] = vector::<SKIP, i64>(parts);
                out.write(widened::<SKIP, i64>(sum));
                any_outside |= outside;
            }
            any_outside != 0
        }
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            pub unsafe fn run<I: Index>(values: &[I], components: &[Component], skip: bool, out: &mut [Place]) -> bool {
                if skip {
                    body::<true, I>(values, components, out)
                } else {
                    body::<false, I>(values, components, out)
                }
            }
        }
    };
}
each_tier!(tier);

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with what is computed component by component.
    fn check<I: Index>(values: &[I], components: &[Component]) {
        let width = components.len();
        let n = values.len() / width.max(1);
        for skip in [false, true] {
            let mut room = vec![Place::uninit(); n];
            let (got, has_outside) = places(values, components, skip, &mut room);
            let is_outside = |k: usize| {
                let vector = values[k * width..].iter().zip(components);
                vector
                    .clone()
                    .any(|(&x, &(_, limit))| x.wide() < 0 || x.wide() > limit)
            };
            assert_eq!(has_outside, (0..n).any(is_outside), "{width} {skip}");
            for (k, &got) in got.iter().enumerate() {
                let each = components.iter().enumerate();
                let want = each.map(|(c, &(step, limit))| {
                    let x = values[k * width + c].wide();
                    let nearest = x.min(limit).max(0);
                    let kept = !skip || (x == nearest && limit >= 0);
                    kept.then_some(nearest * step as i64)
                });
                let want = want.sum::<Option<i64>>();
                assert_eq!(
                    got as i64,
                    want.unwrap_or(OUTSIDE as i64),
                    "{width} {skip} {k}"
                );
            }
        }
    }

    #[test]
    fn offsets_are_those_of_the_nearest_window_inside_or_of_none() {
        let steps: [Component; 4] = [(100, 3), (8, 0), (4, i64::MAX), (1, -1)];
        let mut values = vec![-1, 0, 2, 4, 3, i64::MIN, i64::MAX / 4096];
        values.extend(0..40);
        let mut words = vec![-1, 0, 2, 4, 3, i32::MIN, i32::MAX];
        words.extend(0..40);
        let unsigned: Vec<u32> = words.iter().map(|&x| x as u32).collect();
        for width in 0..=4 {
            check(&values, &steps[4 - width..]);
            check(&words, &steps[4 - width..]);
            check(&unsigned, &steps[4 - width..]);
        }
        // Offsets of 32 bits, and one byte more.
        for components in [
            [(-4, i64::MAX), (16, 3)],
            [(4, i64::from(i32::MAX / 4)), (1, 3)],
            [(4, i64::from(i32::MAX / 4)), (1, 4)],
            [(-1, i64::from(i32::MAX)), (0, 9)],
        ] {
            check(&words, &components);
            check(&words, &components[..1]);
            check(&unsigned, &components);
            check(&unsigned, &components[..1]);
        }
    }

    #[test]
    fn components_have_32_bits_where_all_offsets_do() {
        assert_eq!(narrow::<i32, 1>(&[(8, 5)]), Some([[8, 5]]));
        assert_eq!(narrow(&[(0, i64::MAX)]), Some([[0, i32::MAX]]));
        assert_eq!(narrow(&[(1, i64::MIN)]), Some([[1, -1]]));
        assert_eq!(
            narrow(&[(2, i64::from(i32::MAX / 2)), (1, 1)]),
            Some([[2, i32::MAX / 2], [1, 1]])
        );
        assert_eq!(
            narrow::<i32, 2>(&[(2, i64::from(i32::MAX / 2)), (1, 2)]),
            None
        );
        assert_eq!(narrow::<i32, 1>(&[(1 << 31, 0)]), None);
        assert_eq!(narrow::<i32, 1>(&[(isize::MIN, 1)]), None);
        assert_eq!(narrow::<u32, 1>(&[(0, i64::MAX)]), None);
        assert_eq!(narrow(&[(-1, i64::MIN)]), Some([[u32::MAX; 2]]));
    }
}
