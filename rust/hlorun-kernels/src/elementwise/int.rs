//! Integer and `pred` operations, with XLA's rules for division, remainder, shifts and powers.
//!
//! In: storage integers. Out: wrapped storage integers. Promise: nothing traps; x/0 is all ones, x%0 is x, MIN/-1 is
//! MIN, MIN%-1 is 0; shifting by the width or more gives 0 or the sign.

use super::{Bin, Binary, Ternary, Tier, Un, Unary};
use crate::element::{Pred, SubS, SubU};
use crate::ops::{BinaryOp, CompareDirection, CompareOrder, UnaryOp};

/// An integer of any width as it is stored, with wrapping arithmetic in its own width.
pub trait IntElem: Copy + PartialEq + PartialOrd + 'static {
    /// The unsigned type of the same bits: what does not depend on the sign is compiled for it alone.
    type Bits: IntElem;
    /// Width in bits.
    const BITS: u32;
    /// Whether the type is signed.
    const SIGNED: bool;
    /// All bits set.
    const ONES: Self;
    /// Zero.
    const ZERO: Self;
    /// The smallest value.
    const MIN: Self;
    /// One (wrapped: in two signed bits it is still representable).
    const ONE: Self;
    /// Wrapping sum.
    fn add(self, other: Self) -> Self;
    /// Wrapping difference.
    fn sub(self, other: Self) -> Self;
    /// Wrapping product.
    fn mul(self, other: Self) -> Self;
    /// The upper half of the product in twice the width.
    fn mul_high(self, other: Self) -> Self;
    /// Truncated quotient of a divisor that is neither zero nor overflowing.
    fn div(self, other: Self) -> Self;
    /// Truncated remainder, the same conditions.
    fn rem(self, other: Self) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Bitwise or.
    fn or(self, other: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Bitwise complement.
    fn not(self) -> Self;
    /// Left shift by `amount` < `BITS`.
    fn shl(self, amount: u32) -> Self;
    /// Arithmetic right shift by `amount` < `BITS`, also of unsigned types (their top bit is the sign).
    fn sar(self, amount: u32) -> Self;
    /// Logical right shift by `amount` < `BITS`.
    fn shr(self, amount: u32) -> Self;
    /// The value as an unsigned amount, clamped to `BITS` when it is that large.
    fn amount(self) -> u32;
    /// Number of set bits.
    fn ones(self) -> Self;
    /// Number of leading zeros.
    fn zeros(self) -> Self;
}

macro_rules! native {
    ($($t:ty, $u:ty, $s:ty, $wide:ty, $signed:expr;)*) => {$(
        impl IntElem for $t {
            type Bits = $u;
            const BITS: u32 = <$t>::BITS;
            const SIGNED: bool = $signed;
            const ONES: Self = !0;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const MIN: Self = <$t>::MIN;
            inline! {
                fn add(self, o: Self) -> Self { self.wrapping_add(o) }
                fn sub(self, o: Self) -> Self { self.wrapping_sub(o) }
                fn mul(self, o: Self) -> Self { self.wrapping_mul(o) }
                fn mul_high(self, o: Self) -> Self {
                    ((<$wide>::from(self) * <$wide>::from(o)) >> <$t>::BITS) as $t
                }
                fn div(self, o: Self) -> Self {
                    // Vectors have no integer division. A quotient that is no integer differs from one
                    // by 1/o at least, which is more than the float's rounding.
                    match <$t>::BITS {
                        8 | 16 => (self as f32 / o as f32) as $t,
                        32 => (self as f64 / o as f64) as $t,
                        _ => self.wrapping_div(o),
                    }
                }
                fn rem(self, o: Self) -> Self {
                    match <$t>::BITS {
                        64 => self.wrapping_rem(o),
                        _ => self.wrapping_sub(self.div(o).wrapping_mul(o)),
                    }
                }
                fn and(self, o: Self) -> Self { self & o }
                fn or(self, o: Self) -> Self { self | o }
                fn xor(self, o: Self) -> Self { self ^ o }
                fn not(self) -> Self { !self }
                fn shl(self, k: u32) -> Self { self.wrapping_shl(k) }
                fn sar(self, k: u32) -> Self { (self as $s).wrapping_shr(k) as $t }
                fn shr(self, k: u32) -> Self { (self as $u).wrapping_shr(k) as $t }
                fn amount(self) -> u32 {
                    let u = self as $u;
                    if u >= <$t>::BITS as $u { <$t>::BITS } else { u as u32 }
                }
                fn ones(self) -> Self { self.count_ones() as $t }
                fn zeros(self) -> Self { self.leading_zeros() as $t }
            }
        }
    )*};
}
native!(
    i8, u8, i8, i16, true; i16, u16, i16, i32, true; i32, u32, i32, i64, true; i64, u64, i64, i128, true;
    u8, u8, i8, u16, false; u16, u16, i16, u32, false; u32, u32, i32, u64, false; u64, u64, i64, u128, false;
);

macro_rules! narrow {
    ($($name:ident, $t:ty, $signed:expr, $ones:expr, $min:expr;)*) => {$(
        impl<const B: u32> PartialEq for $name<B> {
            inline! {
                fn eq(&self, o: &Self) -> bool { Self::wrap(self.0).0 == Self::wrap(o.0).0 }
            }
        }

        impl<const B: u32> PartialOrd for $name<B> {
            inline! {
                fn partial_cmp(&self, o: &Self) -> Option<std::cmp::Ordering> {
                    Self::wrap(self.0).0.partial_cmp(&Self::wrap(o.0).0)
                }
            }
        }

        impl<const B: u32> IntElem for $name<B> {
            // The bits above its own extend the sign.
            type Bits = Self;
            const BITS: u32 = B;
            const SIGNED: bool = $signed;
            const ONES: Self = $name($ones);
            const ZERO: Self = $name(0);
            const ONE: Self = $name(1);
            const MIN: Self = $name($min);
            inline! {
                fn add(self, o: Self) -> Self { Self::wrap(self.0.wrapping_add(o.0)) }
                fn sub(self, o: Self) -> Self { Self::wrap(self.0.wrapping_sub(o.0)) }
                fn mul(self, o: Self) -> Self { Self::wrap(self.0.wrapping_mul(o.0)) }
                // The upper bits of a stored element are not part of its value.
                fn mul_high(self, o: Self) -> Self {
                    Self::wrap(Self::wrap(self.0).0.wrapping_mul(Self::wrap(o.0).0) >> B)
                }
                fn div(self, o: Self) -> Self { Self::wrap(Self::wrap(self.0).0.wrapping_div(Self::wrap(o.0).0)) }
                fn rem(self, o: Self) -> Self { Self::wrap(Self::wrap(self.0).0.wrapping_rem(Self::wrap(o.0).0)) }
                fn and(self, o: Self) -> Self { Self::wrap(self.0 & o.0) }
                fn or(self, o: Self) -> Self { Self::wrap(self.0 | o.0) }
                fn xor(self, o: Self) -> Self { Self::wrap(self.0 ^ o.0) }
                fn not(self) -> Self { Self::wrap(!self.0) }
                fn shl(self, k: u32) -> Self { Self::wrap(self.0.wrapping_shl(k)) }
                fn sar(self, k: u32) -> Self {
                    let sign_extended = SubS::<B>::wrap(self.0 as i8).0;
                    Self::wrap(sign_extended.wrapping_shr(k) as $t)
                }
                fn shr(self, k: u32) -> Self {
                    let zero_extended = SubU::<B>::wrap(self.0 as u8).0;
                    Self::wrap(zero_extended.wrapping_shr(k) as $t)
                }
                fn amount(self) -> u32 { u32::from(SubU::<B>::wrap(self.0 as u8).0).min(B) }
                fn ones(self) -> Self { Self::wrap(SubU::<B>::wrap(self.0 as u8).0.count_ones() as $t) }
                fn zeros(self) -> Self {
                    Self::wrap((SubU::<B>::wrap(self.0 as u8).0.leading_zeros() + B - 8) as $t)
                }
            }
        }
    )*};
}
narrow! {
    SubS, i8, true, !0, -(1 << (B - 1));
    SubU, u8, false, (1u8 << B) - 1, 0;
}

#[inline(always)]
fn divide<E: IntElem>(a: E, b: E) -> E {
    let by_zero = b == E::ZERO;
    let overflow = E::SIGNED && a == E::MIN && b == E::ONES;
    let quotient = a.div(if by_zero | overflow { E::ONE } else { b });
    if by_zero { E::ONES } else { quotient }
}

#[inline(always)]
fn remainder<E: IntElem>(a: E, b: E) -> E {
    let by_zero = b == E::ZERO;
    let overflow = E::SIGNED && a == E::MIN && b == E::ONES;
    let rest = a.rem(if by_zero | overflow { E::ONE } else { b });
    if by_zero { a } else { rest }
}

#[inline(always)]
fn power<E: IntElem>(base: E, exponent: E) -> E {
    if E::SIGNED && exponent < E::ZERO {
        let odd = exponent.and(E::ONE) != E::ZERO;
        return if base == E::ONE || (base == E::ONES && !odd) {
            E::ONE
        } else if base == E::ONES {
            E::ONES
        } else {
            E::ZERO
        };
    }
    let (mut result, mut square, mut rest) = (E::ONE, base, exponent);
    while rest != E::ZERO {
        if rest.and(E::ONE) != E::ZERO {
            result = result.mul(square);
        }
        square = square.mul(square);
        rest = rest.shr(1);
    }
    result
}

macro_rules! int_ops {
    (unary { $($un:ident($a:ident) $unary:expr;)* } binary { $($bin:ident($x:ident, $y:ident) $binary:expr;)* }) => {
        $(
            /// The operation of the same name.
            pub struct $un;
            impl<E: IntElem> Un<E> for $un {
                type Out = E;
                #[inline(always)]
                fn f<T: Tier>($a: E) -> E { $unary }
            }
        )*
        $(
            /// The operation of the same name.
            pub struct $bin;
            impl<E: IntElem> Bin<E> for $bin {
                type Out = E;
                #[inline(always)]
                fn f<T: Tier>($x: E, $y: E) -> E { $binary }
            }
        )*
    };
}
int_ops! {    unary {
    Abs(a) if E::SIGNED && a < E::ZERO { E::ZERO.sub(a) } else { a };
    Negate(a) E::ZERO.sub(a);
    Sign(a) if a == E::ZERO { E::ZERO } else if E::SIGNED && a < E::ZERO { E::ONES } else { E::ONE };
    Not(a) a.not();
    Popcnt(a) a.ones();
    Clz(a) a.zeros();
    }
    binary {
    Add(a, b) a.add(b);
    Subtract(a, b) a.sub(b);
    Multiply(a, b) a.mul(b);
    MultiplyHigh(a, b) a.mul_high(b);
    Divide(a, b) divide(a, b);
    Remainder(a, b) remainder(a, b);
    Maximum(a, b) if a > b { a } else { b };
    Minimum(a, b) if a < b { a } else { b };
    Power(a, b) power(a, b);
    And(a, b) a.and(b);
    Or(a, b) a.or(b);
    Xor(a, b) a.xor(b);
    ShiftLeft(a, b) { let k = b.amount(); if k >= E::BITS { E::ZERO } else { a.shl(k) } };
    ShiftRightArithmetic(a, b) a.sar(b.amount().min(E::BITS - 1));
    ShiftRightLogical(a, b) { let k = b.amount(); if k >= E::BITS { E::ZERO } else { a.shr(k) } };
    }
}

macro_rules! compares {
    ($($name:ident($a:ident, $b:ident) $e:expr;)*) => {$(
        /// The comparison of the same name.
        pub struct $name;
        impl<E: PartialOrd + Copy> Bin<E> for $name {
            type Out = u8;
            #[inline(always)]
            fn f<T: Tier>($a: E, $b: E) -> u8 { u8::from($e) }
        }
    )*};
}
compares! { Eq(a, b) a == b; Ne(a, b) a != b; Lt(a, b) a < b; Le(a, b) a <= b; Gt(a, b) a > b; Ge(a, b) a >= b; }

/// The kernel of a unary operation on integers of type `E`.
pub fn unary<T: Tier, E: IntElem>(op: UnaryOp) -> Option<Unary> {
    Some(match op {
        UnaryOp::Abs => T::unary::<E, Abs>(),
        UnaryOp::Negate => T::unary::<E::Bits, Negate>(),
        UnaryOp::Sign => T::unary::<E, Sign>(),
        UnaryOp::Not => T::unary::<E::Bits, Not>(),
        UnaryOp::PopulationCount => T::unary::<E::Bits, Popcnt>(),
        UnaryOp::CountLeadingZeros => T::unary::<E::Bits, Clz>(),
        _ => return None,
    })
}

/// The kernel of a binary operation on integers of type `E`.
pub fn binary<T: Tier, E: IntElem>(op: BinaryOp) -> Option<Binary> {
    Some(match op {
        BinaryOp::Add => T::binary::<E::Bits, Add>(),
        BinaryOp::Subtract => T::binary::<E::Bits, Subtract>(),
        BinaryOp::Multiply => T::binary::<E::Bits, Multiply>(),
        BinaryOp::MultiplyHigh => T::binary::<E, MultiplyHigh>(),
        BinaryOp::Divide => T::binary::<E, Divide>(),
        BinaryOp::Remainder => T::binary::<E, Remainder>(),
        BinaryOp::Maximum => T::binary::<E, Maximum>(),
        BinaryOp::Minimum => T::binary::<E, Minimum>(),
        BinaryOp::Power => T::binary::<E, Power>(),
        BinaryOp::And => T::binary::<E::Bits, And>(),
        BinaryOp::Or => T::binary::<E::Bits, Or>(),
        BinaryOp::Xor => T::binary::<E::Bits, Xor>(),
        BinaryOp::ShiftLeft => T::binary::<E::Bits, ShiftLeft>(),
        BinaryOp::ShiftRightArithmetic => T::binary::<E::Bits, ShiftRightArithmetic>(),
        BinaryOp::ShiftRightLogical => T::binary::<E::Bits, ShiftRightLogical>(),
        BinaryOp::Atan2 => return None,
    })
}

/// The comparison kernel of an ordered type; the order does not matter to integers.
pub fn compare<T: Tier, E: PartialOrd + Copy>(
    direction: CompareDirection,
    _: CompareOrder,
) -> Option<Binary> {
    Some(match direction {
        CompareDirection::Eq => T::binary::<E, Eq>(),
        CompareDirection::Ne => T::binary::<E, Ne>(),
        CompareDirection::Lt => T::binary::<E, Lt>(),
        CompareDirection::Le => T::binary::<E, Le>(),
        CompareDirection::Gt => T::binary::<E, Gt>(),
        CompareDirection::Ge => T::binary::<E, Ge>(),
    })
}

/// The clamp kernel of integers.
pub fn clamp<T: Tier, E: IntElem>() -> Option<Ternary> {
    Some(T::clamp::<E, Minimum, Maximum>())
}

macro_rules! pred_ops {
    ($($name:ident($a:ident, $b:ident) $e:expr;)*) => {$(
        /// The operation of the same name on truth values.
        pub struct $name;
        impl Bin<Pred> for $name {
            type Out = Pred;
            #[inline(always)]
            fn f<T: Tier>($a: Pred, $b: Pred) -> Pred {
                let ($a, $b) = ($a.0 != 0, $b.0 != 0);
                Pred(u8::from($e))
            }
        }
    )*};
}
pred_ops! { PredAnd(a, b) a & b; PredOr(a, b) a | b; PredXor(a, b) a ^ b; }

/// Logical complement.
pub struct PredNot;
impl Un<Pred> for PredNot {
    type Out = Pred;
    #[inline(always)]
    fn f<T: Tier>(a: Pred) -> Pred {
        Pred(u8::from(a.0 == 0))
    }
}

/// The kernels of truth values.
pub mod pred {
    use super::*;

    /// The kernel of a unary operation.
    pub fn unary<T: Tier>(op: UnaryOp) -> Option<Unary> {
        (op == UnaryOp::Not).then(T::unary::<Pred, PredNot>)
    }

    /// The kernel of a binary operation: sums and maxima are "or", products and minima "and".
    pub fn binary<T: Tier>(op: BinaryOp) -> Option<Binary> {
        Some(match op {
            BinaryOp::And | BinaryOp::Multiply | BinaryOp::Minimum => T::binary::<Pred, PredAnd>(),
            BinaryOp::Or | BinaryOp::Add | BinaryOp::Maximum => T::binary::<Pred, PredOr>(),
            BinaryOp::Xor => T::binary::<Pred, PredXor>(),
            _ => return None,
        })
    }

    /// The kernel of a comparison.
    pub fn compare<T: Tier>(direction: CompareDirection, order: CompareOrder) -> Option<Binary> {
        super::compare::<T, Pred>(direction, order)
    }

    /// The clamp kernel.
    pub fn clamp<T: Tier>() -> Option<Ternary> {
        Some(T::clamp::<Pred, PredAnd, PredOr>())
    }
}

impl PartialOrd for Pred {
    #[inline(always)]
    fn partial_cmp(&self, o: &Self) -> Option<std::cmp::Ordering> {
        (self.0 != 0).partial_cmp(&(o.0 != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_by_floats_are_exact() {
        for a in i8::MIN..=i8::MAX {
            for b in (i8::MIN..=i8::MAX).filter(|&b| b != 0 && (a != i8::MIN || b != -1)) {
                assert_eq!((a.div(b), a.rem(b)), (a / b, a % b), "{a} / {b}");
                let (x, y) = (a as u8, b as u8);
                assert_eq!((x.div(y), x.rem(y)), (x / y, x % y), "{x} / {y}");
            }
        }
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 32) as u32
        };
        for _ in 0..200_000 {
            // Divisors of every size, dividends near their multiples.
            let b = (next() >> (next() % 32)).max(1);
            let a = b
                .wrapping_mul(next() >> (next() % 32))
                .wrapping_add(next() % 3)
                .wrapping_sub(1);
            assert_eq!((a.div(b), a.rem(b)), (a / b, a % b), "{a} / {b}");
            let (x, y) = (a as i32, b as i32);
            if !(x == i32::MIN && y == -1) {
                assert_eq!((x.div(y), x.rem(y)), (x / y, x % y), "{x} / {y}");
            }
            let (x, y) = (a as u16, (b as u16).max(1));
            assert_eq!((x.div(y), x.rem(y)), (x / y, x % y), "{x} / {y}");
            let (x, y) = (x as i16, y as i16);
            if !(x == i16::MIN && y == -1) {
                assert_eq!((x.div(y), x.rem(y)), (x / y, x % y), "{x} / {y}");
            }
        }
    }
}
