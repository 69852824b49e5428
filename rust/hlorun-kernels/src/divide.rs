//! Quotients and remainders by one divisor: a multiplication and shifts.
//!
//! In: an array of integers and one integer, or an array that repeats it. Out: a [`Binary`] whose second argument points to
//! the divisor. Promise: the bits of a division of each element. The method is that of Granlund and Montgomery, "Division by Invariant Integers using
//! Multiplication" (1994): for a divisor d of L bits, that is no power of two, ⌊x / d⌋ is ⌊x·m / 2^(W+L)⌋ with an m of
//! W + 1 bits, whose highest bit is added apart.

use crate::elementwise::{Tier, int};
use crate::ops::BinaryOp;
use crate::table::Binary;
use crate::with_scalar::Side;
use crate::{DType, Isa};

/// A divisor made ready.
#[derive(Clone, Copy)]
struct Ready<E> {
    divisor: E,
    /// The factor without its highest bit; zero for powers of two.
    factor: E,
    shift: u32,
}

/// An integer with a high product.
trait Word: Copy + PartialEq + 'static {
    const ZERO: Self;
    const ONE: Self;
    const ONES: Self;
    /// `None` for a divisor of zero, or one that is not worth it.
    fn ready(divisor: Self) -> Option<Ready<Self>>;
    fn quotient(self, by: &Ready<Self>) -> Self;
    fn minus_product(self, a: Self, b: Self) -> Self;
}

/// The high half of a product, in parts that vectors can multiply.
#[inline(always)]
fn high64(a: u64, b: u64) -> u64 {
    const LOW: u64 = u32::MAX as u64;
    let (a0, a1, b0, b1) = (a & LOW, a >> 32, b & LOW, b >> 32);
    // None of these sums exceeds 64 bits.
    let middle = a1 * b0 + ((a0 * b0) >> 32);
    let other = a0 * b1 + (middle & LOW);
    a1 * b1 + (middle >> 32) + (other >> 32)
}

#[inline(always)]
fn high32(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

macro_rules! word {
    ($unsigned:ident, $signed:ident, $wide:ident, $high:ident, $bits:literal) => {
        impl Word for $unsigned {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const ONES: Self = Self::MAX;
            fn ready(divisor: Self) -> Option<Ready<Self>> {
                if divisor < 2 {
                    return None;
                }
                let log = divisor.ilog2();
                if divisor.is_power_of_two() {
                    // The quotient halves once before it shifts.
                    return Some(Ready {
                        divisor,
                        factor: 0,
                        shift: log - 1,
                    });
                }
                // One less than the power, which may have one bit too many, has the same quotient.
                let half = (1 as $wide) << ($bits + log);
                let factor = (half - 1 + half) / divisor as $wide + 1;
                Some(Ready {
                    divisor,
                    factor: factor as $unsigned,
                    shift: log,
                })
            }
            #[inline(always)]
            fn quotient(self, by: &Ready<Self>) -> Self {
                let high = $high(self, by.factor);
                // Half of self + high, which may have one bit more.
                let half = (self.wrapping_sub(high) >> 1).wrapping_add(high);
                half.wrapping_shr(by.shift)
            }
            #[inline(always)]
            fn minus_product(self, a: Self, b: Self) -> Self {
                self.wrapping_sub(a.wrapping_mul(b))
            }
        }

        impl Word for $signed {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const ONES: Self = -1;
            fn ready(divisor: Self) -> Option<Ready<Self>> {
                let size = divisor.unsigned_abs();
                if size == 0 {
                    return None;
                }
                let log = size.ilog2();
                let factor = if size.is_power_of_two() {
                    0
                } else {
                    ((1 as $wide) << ($bits + log)) / size as $wide + 1
                };
                Some(Ready {
                    divisor,
                    factor: factor as $signed,
                    shift: log,
                })
            }
            #[inline(always)]
            fn quotient(self, by: &Ready<Self>) -> Self {
                let (x, m) = (self as $unsigned, by.factor as $unsigned);
                // The high half of the signed product.
                let high = $high(x, m)
                    .wrapping_sub(if self < 0 { m } else { 0 })
                    .wrapping_sub(if by.factor < 0 { x } else { 0 });
                let mut sum = (high as $signed).wrapping_add(self);
                // Rounds towards zero: a negative sum is raised before it is shifted.
                let raise = (1 as $signed)
                    .wrapping_shl(by.shift)
                    .wrapping_sub($signed::from(by.factor == 0));
                sum = sum.wrapping_add((sum >> ($bits - 1)) & raise);
                let quotient = sum.wrapping_shr(by.shift);
                let sign = by.divisor >> ($bits - 1);
                (quotient ^ sign).wrapping_sub(sign)
            }
            #[inline(always)]
            fn minus_product(self, a: Self, b: Self) -> Self {
                self.wrapping_sub(a.wrapping_mul(b))
            }
        }
    };
}
word!(u32, i32, u64, high32, 32);
word!(u64, i64, u128, high64, 64);

/// `f` of every element; `out` may be the input.
#[inline(always)]
unsafe fn each<E: Copy>(a: *const u8, out: *mut u8, n: usize, f: impl Fn(E) -> E) {
    let (a, out) = (a.cast::<E>(), out.cast::<E>());
    // SAFETY: the caller promises n elements on both sides, equal or disjoint.
    unsafe {
        if a.addr() == out.addr() {
            for x in std::slice::from_raw_parts_mut(out, n) {
                *x = f(*x);
            }
        } else {
            let from = std::slice::from_raw_parts(a, n);
            for (to, &x) in std::slice::from_raw_parts_mut(out, n).iter_mut().zip(from) {
                *to = f(x);
            }
        }
    }
}

#[inline(always)]
unsafe fn body<E: Word, const REST: bool>(
    a: *const u8,
    divisor: *const u8,
    out: *mut u8,
    n: usize,
) {
    // A pointer to nothing may be dangling and unaligned.
    if n == 0 {
        return;
    }
    // SAFETY: the caller's contract; the divisor is one element.
    unsafe {
        let divisor = divisor.cast::<E>().read_unaligned();
        match (E::ready(divisor), REST) {
            (Some(by), false) => each::<E>(a, out, n, |x| x.quotient(&by)),
            (Some(by), true) => {
                each::<E>(a, out, n, |x| x.minus_product(x.quotient(&by), by.divisor));
            }
            (None, false) if divisor == E::ONE => each::<E>(a, out, n, |x| x),
            (None, false) => each::<E>(a, out, n, |_| E::ONES),
            (None, true) if divisor == E::ONE => each::<E>(a, out, n, |_| E::ZERO),
            (None, true) => each::<E>(a, out, n, |x| x),
        }
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn run<E: Word, const REST: bool>(
                a: *const u8,
                divisor: *const u8,
                out: *mut u8,
                n: usize,
            ) {
                // SAFETY: the caller's contract.
                unsafe { body::<E, REST>(a, divisor, out, n) }
            }

            $(#[$features])?
            unsafe fn run_many<E: Word + int::IntElem, const REST: bool>(
                a: *const u8,
                b: *const u8,
                out: *mut u8,
                n: usize,
            ) {
                // SAFETY: the caller's contract, which is that of the kernel of two arrays.
                unsafe {
                    if are_the_same::<E>(b, n) {
                        return body::<E, REST>(a, b, out, n);
                    }
                    let each = match REST {
                        false => <$tier>::binary::<E, int::Divide>(),
                        true => <$tier>::binary::<E, int::Remainder>(),
                    };
                    each(a, b, out, n);
                }
            }

            pub fn pick<const REST: bool>(dtype: DType, is_scalar: bool) -> Option<Binary> {
                macro_rules! of {
                    ($e:ty) => {
                        match is_scalar {
                            true => run::<$e, REST>,
                            false => run_many::<$e, REST>,
                        }
                    };
                }
                Some(match dtype {
                    DType::S32 => of!(i32),
                    DType::U32 => of!(u32),
                    DType::S64 => of!(i64),
                    DType::U64 => of!(u64),
                    _ => return None,
                })
            }
        }
    };
}
each_tier!(tier);

/// Divisors that are worth a look whether they are the same: to make one ready takes as long as some divisions.
const MANY: usize = 32;

/// Whether many divisors are all the same.
#[inline(always)]
unsafe fn are_the_same<E: Word>(b: *const u8, n: usize) -> bool {
    if n < MANY {
        return false;
    }
    // SAFETY: the caller promises n elements.
    let divisors = unsafe { std::slice::from_raw_parts(b.cast::<E>(), n) };
    let first = divisors[0];
    let differ = |part: &[E]| part.iter().fold(false, |any, &x| any | (x != first));
    !divisors.chunks(MANY).any(differ)
}

/// The kernel of a quotient or a remainder of two arrays.
pub(crate) fn of_arrays(isa: Isa, op: BinaryOp, dtype: DType) -> Option<Binary> {
    match op {
        BinaryOp::Divide => of_tier!(isa, pick::<false>(dtype, false)),
        BinaryOp::Remainder => of_tier!(isa, pick::<true>(dtype, false)),
        _ => None,
    }
}

/// The kernel of a quotient or a remainder whose right operand is a scalar.
pub(crate) fn by_scalar(isa: Isa, op: BinaryOp, dtype: DType, side: Side) -> Option<Binary> {
    match (op, side) {
        (BinaryOp::Divide, Side::Right) => of_tier!(isa, pick::<false>(dtype, true)),
        (BinaryOp::Remainder, Side::Right) => of_tier!(isa, pick::<true>(dtype, true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values next to powers of two and to multiples of the divisor, and some of any size.
    fn check<E: Word + std::fmt::Debug>(dtype: DType, of: impl Fn(i128) -> E) {
        let mut near: Vec<i128> = (-8..=8).collect();
        for bit in 1..66 {
            for by in -2..=2 {
                near.push((1i128 << bit) + by);
                near.push(-(1i128 << bit) + by);
            }
        }
        let mut state = 1u64;
        for _ in 0..64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(99);
            near.push(i128::from(state >> (state % 60)));
            near.push(-i128::from(state >> (state % 60)));
        }
        let size = dtype.size_bytes();
        for &divisor in &near {
            let mut dividends: Vec<E> = near.iter().map(|&x| of(x)).collect();
            for times in [1, 2, 3, 1000, 77_777_777] {
                dividends.extend((-1..=1).map(|by| of(divisor * times + by)));
                dividends.extend((-1..=1).map(|by| of(-divisor * times + by)));
            }
            let n = dividends.len();
            let divisors = vec![of(divisor); n];
            for op in [BinaryOp::Divide, BinaryOp::Remainder] {
                let mut want = dividends.clone();
                // One of another divisor, so that each is divided by itself.
                let (mut more, mut others) = (dividends.clone(), divisors.clone());
                more.push(E::ONE);
                others.push(if divisor == 1 { E::ONES } else { E::ONE });
                let arrays = |isa, a: &[E], b: &[E], out: &mut [E]| {
                    let kernel = crate::table::binary_on(isa, op, dtype).unwrap();
                    // SAFETY: all hold as many elements.
                    unsafe {
                        kernel(
                            a.as_ptr().cast(),
                            b.as_ptr().cast(),
                            out.as_mut_ptr().cast(),
                            a.len(),
                        );
                    }
                };
                want.push(E::ZERO);
                arrays(Isa::active(), &more, &others, &mut want);
                want.pop();
                for isa in Isa::available() {
                    let mut got = vec![E::ZERO; n];
                    arrays(isa, &dividends, &divisors, &mut got);
                    assert_eq!(got, want, "{op:?} {isa:?} by {divisor} repeated");
                    let kernel = by_scalar(isa, op, dtype, Side::Right).unwrap();
                    let (mut got, mut same) = (vec![E::ZERO; n], dividends.clone());
                    let by = divisors.as_ptr().cast();
                    // SAFETY: all hold n elements, and the divisor is one of them.
                    unsafe {
                        kernel(dividends.as_ptr().cast(), by, got.as_mut_ptr().cast(), n);
                        let place = same.as_mut_ptr().cast::<u8>();
                        kernel(place.cast_const(), by, place, n);
                    }
                    for i in 0..n {
                        let case = (dividends[i], divisors[i]);
                        assert_eq!(got[i], want[i], "{op:?} {isa:?} {case:?} {size}");
                        assert_eq!(same[i], want[i], "{op:?} {isa:?} {case:?} in place");
                    }
                }
            }
        }
    }

    #[test]
    fn one_divisor_gives_the_bits_of_many() {
        check(DType::S32, |x| x as i32);
        check(DType::U32, |x| x as u32);
        check(DType::S64, |x| x as i64);
        check(DType::U64, |x| x as u64);
    }
}
