//! Conversions between every pair of element types.
//!
//! In: storage elements of one type. Out: storage elements of another, by the rules of [`crate::element`]. Promise:
//! one rounding. Also reduce-precision and stochastic rounding.

use crate::DType;
use crate::element::{Cx, Elem, Pred};
use crate::elementwise::{Portable, Tier, Un, Unary};
use crate::isa::Isa;
use crate::low_float::{Bf16, F8, F16, LowFloat};
use crate::math::Float;

pub(crate) struct Convert<To>(std::marker::PhantomData<To>);
impl<From: Elem, To: Elem> Un<From> for Convert<To> {
    type Out = To;
    #[inline(always)]
    fn f<T: Tier>(a: From) -> To {
        To::narrow(a.widen())
    }
}

fn pair<_T: Tier, To: Elem, From: Elem>() -> Unary {
    Portable::unary::<From, Convert<To>>()
}

fn pair_complex<_T: Tier, To: Float, From: Elem>() -> Unary
where
    Cx<To>: Elem,
{
    Portable::unary::<From, Convert<Cx<To>>>()
}

fn from_pred<T: Tier>(to: DType) -> Unary {
    from_type::<T, Pred>(to)
}

fn from_type<T: Tier, From: Elem>(to: DType) -> Unary {
    fn pair_pred<T: Tier, From: Elem>() -> Unary {
        pair::<T, Pred, From>()
    }
    by_class!(to, T, [pair_pred, pair, pair, pair, pair_complex](), From)
}

fn from_complex<T: Tier, From: Float>(to: DType) -> Unary
where
    Cx<From>: Elem,
{
    from_type::<T, Cx<From>>(to)
}

/// The pairs worth a vector body on every tier.
fn hot<T: Tier>(from: DType, to: DType) -> Option<Unary> {
    use DType::{BF16, F16 as Half, F32, F64, Pred as Bool, S8, S32, S64, U8, U32, U64};
    Some(match (from, to) {
        (F32, BF16) => T::unary::<f32, Convert<Bf16>>(),
        (BF16, F32) => T::unary::<Bf16, Convert<f32>>(),
        (F32, Half) => T::unary::<f32, Convert<F16>>(),
        (Half, F32) => T::unary::<F16, Convert<f32>>(),
        (F32, F64) => T::unary::<f32, Convert<f64>>(),
        (F64, F32) => T::unary::<f64, Convert<f32>>(),
        (S32, F32) => T::unary::<i32, IntToF32>(),
        (U32, F32) => T::unary::<u32, IntToF32>(),
        (U8, F32) => T::unary::<u8, IntToF32>(),
        (S8, F32) => T::unary::<i8, IntToF32>(),
        (F32, S8) => T::unary::<f32, Truncate<i8>>(),
        (F32, U8) => T::unary::<f32, Truncate<u8>>(),
        (F32, S32) => T::unary::<f32, Truncate<i32>>(),
        (F32, S64) => T::unary::<f32, Truncate<i64>>(),
        (F64, S32) => T::unary::<f64, Truncate<i32>>(),
        (F64, S64) => T::unary::<f64, Truncate<i64>>(),
        (Bool, F32) => T::unary::<Pred, PredToF32>(),
        (Bool, S32) => T::unary::<Pred, Convert<i32>>(),
        (Bool, U32) => T::unary::<Pred, Convert<u32>>(),
        (S32, S64 | U64) => T::unary::<i32, Convert<i64>>(),
        (U32, S64 | U64) => T::unary::<u32, Convert<i64>>(),
        (S64 | U64, S32 | U32) => T::unary::<i64, Convert<i32>>(),
        (S32, U32) | (U32, S32) => T::unary::<u32, Convert<u32>>(),
        (S32, F64) => T::unary::<i32, Convert<f64>>(),
        (U32, U8) | (S32, U8) => T::unary::<u32, Convert<u8>>(),
        (U8, U32) | (U8, S32) => T::unary::<u8, Convert<u32>>(),
        _ => return None,
    })
}

/// Integer to `f32` without the detour through 64 bits.
struct IntToF32;
macro_rules! int_to_f32 {
    ($($t:ty)*) => {$(
        impl Un<$t> for IntToF32 {
            type Out = f32;
            #[inline(always)]
            fn f<T: Tier>(a: $t) -> f32 { a as f32 }
        }
    )*};
}
int_to_f32!(i8 u8 i32 u32);

/// Floats as integers: truncated, saturated, NaN as zero. `as` says the same, but is compiled to single elements.
pub(crate) struct Truncate<To>(std::marker::PhantomData<To>);
macro_rules! truncate {
    ($($from:ty => $to:ty;)*) => {$(
        impl Un<$from> for Truncate<$to> {
            type Out = $to;
            #[inline(always)]
            fn f<T: Tier>(x: $from) -> $to {
                /// The first number that is too large; the integers begin with its negative.
                const LIMIT: $from = -(<$to>::MIN as $from);
                // Comparisons that NaN fails.
                let inside = if x > -LIMIT { x } else { -LIMIT };
                let inside = if inside < LIMIT { inside } else { -LIMIT };
                // SAFETY: from -LIMIT to below LIMIT.
                let whole = unsafe { inside.to_int_unchecked::<$to>() };
                let saturated = if x >= LIMIT { <$to>::MAX } else { whole };
                if x.is_nan() { 0 } else { saturated }
            }
        }
    )*};
}
truncate! { f32 => i32; f32 => i64; f64 => i32; f64 => i64; }

macro_rules! truncate_short {
    ($($to:ty)*) => {$(
        impl Un<f32> for Truncate<$to> {
            type Out = $to;
            #[inline(always)]
            fn f<T: Tier>(x: f32) -> $to {
                let whole = <Truncate<i32> as Un<f32>>::f::<T>(x);
                whole.clamp(<$to>::MIN.into(), <$to>::MAX.into()) as $to
            }
        }
    )*};
}
truncate_short!(i8 u8);

struct PredToF32;
impl Un<Pred> for PredToF32 {
    type Out = f32;
    #[inline(always)]
    fn f<T: Tier>(a: Pred) -> f32 {
        if a.0 != 0 { 1.0 } else { 0.0 }
    }
}

/// The conversion kernel from one type to another, for a given tier.
pub fn convert_on(isa: Isa, from: DType, to: DType) -> Unary {
    with_tier!(isa, T => hot::<T>(from, to)).unwrap_or_else(|| {
        type T = Portable;
        by_class!(
            from,
            T,
            [from_pred, from_type, from_type, from_type, from_complex](to)
        )
    })
}

/// The conversion kernel from one type to another: every pair has one.
pub fn convert(from: DType, to: DType) -> Unary {
    convert_on(Isa::active(), from, to)
}

/// Reduce-precision with fixed parameters, ready to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReducePrecision {
    dtype: DType,
    exponent_bits: u32,
    mantissa_bits: u32,
}

/// Prepares reduce-precision of a float type to `exponent_bits` and `mantissa_bits`; `None` for non-floats and for
/// `exponent_bits` of zero.
pub fn reduce_precision(
    dtype: DType,
    exponent_bits: u32,
    mantissa_bits: u32,
) -> Option<ReducePrecision> {
    (dtype.is_float() && exponent_bits > 0).then_some(ReducePrecision {
        dtype,
        exponent_bits,
        mantissa_bits,
    })
}

/// What reducing the bits of a format to fewer comes to: the same for all numbers.
#[derive(Clone, Copy)]
struct Reduction<B> {
    /// How many bits are dropped.
    dropped: u32,
    /// Picks the lowest bit that stays; zero where none is dropped.
    odd: B,
    /// Added with that bit before bits are dropped: ties go to even.
    half: B,
    /// The bits that stay.
    kept: B,
    /// Exponents below the first become zero's, above the second infinity's.
    smallest: B,
    largest: B,
}

/// Reduces the bits of a format, of which so many are mantissa: a subnormal number loses the same bits as any other.
macro_rules! reduce {
    ($bits:ty, $mantissa:expr, $prepare:ident, $reduce:ident) => {
        fn $prepare(exponent_bits: u32, mantissa_bits: u32) -> Reduction<$bits> {
            const EXPONENT: u32 = <$bits>::BITS - 1 - $mantissa;
            const BIAS: $bits = (1 << (EXPONENT - 1)) - 1;
            let dropped = <u32>::saturating_sub($mantissa, mantissa_bits);
            let last: $bits = 1 << dropped;
            let (smallest, largest) = match exponent_bits < EXPONENT {
                // Subnormals of the narrow type are flushed to zero, as XLA defines it.
                true => {
                    let reduced = ((1 as $bits) << (exponent_bits - 1)) - 1;
                    (
                        (BIAS - reduced + 1) << $mantissa,
                        (BIAS + reduced) << $mantissa,
                    )
                }
                false => (0, <$bits>::MAX),
            };
            Reduction {
                dropped,
                odd: (dropped > 0).into(),
                half: (last >> 1).saturating_sub(1),
                kept: !(last - 1),
                smallest,
                largest,
            }
        }

        #[inline(always)]
        fn $reduce(x: $bits, to: &Reduction<$bits>) -> $bits {
            const EXPONENT: u32 = <$bits>::BITS - 1 - $mantissa;
            const INFINITY: $bits = ((1 << EXPONENT) - 1) << $mantissa;
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            let sign = x & SIGN;
            let odd = (x >> to.dropped) & to.odd;
            let bits = x.wrapping_add(to.half + odd) & to.kept;
            let exponent = bits & INFINITY;
            let bits = if exponent < to.smallest { sign } else { bits };
            let is_large = exponent > to.largest;
            let bits = if is_large { sign | INFINITY } else { bits };
            let is_nan = x & !SIGN > INFINITY;
            if is_nan { x } else { bits }
        }
    };
}
reduce!(u16, 7, prepare_bf16, reduce_bf16);
reduce!(u16, 10, prepare_f16, reduce_f16);
reduce!(u32, 23, prepare32, reduce32);
reduce!(u64, 52, prepare64, reduce64);

impl ReducePrecision {
    /// Runs over `n` elements.
    ///
    /// # Safety
    /// As [`Unary`].
    pub unsafe fn run(&self, a: *const u8, out: *mut u8, n: usize) {
        // SAFETY: the caller's contract; the active tier's instructions are there.
        unsafe { of_tier!(Isa::active(), reduced(self, a, out, n)) }
    }

    #[inline(always)]
    unsafe fn body(&self, a: *const u8, out: *mut u8, n: usize) {
        /// Elements that are read before any is written, which may be in the same place.
        const AT_ONCE: usize = 32;
        let (e, m) = (self.exponent_bits, self.mantissa_bits);
        macro_rules! run {
            ($t:ty) => {{
                let to = <$t>::prepare(e, m);
                let (a, out) = (a.cast::<$t>(), out.cast::<$t>());
                let whole = n - n % AT_ONCE;
                // SAFETY: the caller promises n elements behind both pointers.
                unsafe {
                    for i in (0..whole).step_by(AT_ONCE) {
                        let mut block = a.add(i).cast::<[$t; AT_ONCE]>().read();
                        for x in &mut block {
                            *x = x.reduce(&to);
                        }
                        out.add(i).cast::<[$t; AT_ONCE]>().write(block);
                    }
                    for i in whole..n {
                        out.add(i).write(a.add(i).read().reduce(&to));
                    }
                }
            }};
        }
        match self.dtype {
            DType::F64 => run!(f64),
            DType::F32 => run!(f32),
            DType::F16 => run!(F16),
            DType::BF16 => run!(Bf16),
            DType::F4E2M1FN => run!(F8<0>),
            DType::F8E3M4 => run!(F8<1>),
            DType::F8E4M3 => run!(F8<2>),
            DType::F8E4M3FN => run!(F8<3>),
            DType::F8E4M3FNUZ => run!(F8<4>),
            DType::F8E4M3B11FNUZ => run!(F8<5>),
            DType::F8E5M2 => run!(F8<6>),
            DType::F8E5M2FNUZ => run!(F8<7>),
            DType::F8E8M0FNU => run!(F8<8>),
            _ => {}
        }
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            $(#[$features])?
            pub unsafe fn reduced(
                to: &super::ReducePrecision,
                a: *const u8,
                out: *mut u8,
                n: usize,
            ) {
                // SAFETY: the caller's contract.
                unsafe { to.body(a, out, n) }
            }
        }
    };
}
each_tier!(tier);

trait Reduce {
    type Bits;
    fn prepare(exponent_bits: u32, mantissa_bits: u32) -> Reduction<Self::Bits>;
    fn reduce(self, to: &Reduction<Self::Bits>) -> Self;
}

macro_rules! reduce_bits {
    ($($t:ty: $bits:ty, $from:expr, $into:expr, $prepare:ident, $reduce:ident;)*) => {$(
        impl Reduce for $t {
            type Bits = $bits;
            fn prepare(exponent_bits: u32, mantissa_bits: u32) -> Reduction<$bits> {
                $prepare(exponent_bits, mantissa_bits)
            }
            #[inline(always)]
            fn reduce(self, to: &Reduction<$bits>) -> Self {
                $from($reduce($into(self), to))
            }
        }
    )*};
}
reduce_bits! {
    f32: u32, f32::from_bits, f32::to_bits, prepare32, reduce32;
    f64: u64, f64::from_bits, f64::to_bits, prepare64, reduce64;
    F16: u16, F16, |x: F16| x.0, prepare_f16, reduce_f16;
    Bf16: u16, Bf16, |x: Bf16| x.0, prepare_bf16, reduce_bf16;
}

impl<const FORMAT: usize> Reduce for F8<FORMAT> {
    type Bits = u32;
    fn prepare(exponent_bits: u32, mantissa_bits: u32) -> Reduction<u32> {
        prepare32(exponent_bits, mantissa_bits)
    }
    #[inline(always)]
    fn reduce(self, to: &Reduction<u32>) -> Self {
        F8::encode(self.decode().reduce(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduced_precision_matches_xla() {
        let x = [
            1.0f32,
            1.1,
            65504.,
            65520.,
            7e4,
            1e-5,
            6e-8,
            6.1e-5,
            3e-5,
            f32::INFINITY,
            -1e-9,
            1e38,
        ];
        let inf = f32::INFINITY;
        // What XLA:CPU gives for these inputs.
        let cases: [(u32, u32, [f32; 12]); 4] = [
            (
                5,
                10,
                [
                    1.0,
                    1.099_609_4,
                    65504.0,
                    inf,
                    inf,
                    0.0,
                    0.0,
                    0.0,
                    0.0,
                    inf,
                    -0.0,
                    inf,
                ],
            ),
            (
                5,
                0,
                [
                    1.0,
                    1.0,
                    inf,
                    inf,
                    inf,
                    0.0,
                    0.0,
                    6.103_515_6e-5,
                    0.0,
                    inf,
                    -0.0,
                    inf,
                ],
            ),
            (
                1,
                10,
                [0.0, 0.0, inf, inf, inf, 0.0, 0.0, 0.0, 0.0, inf, -0.0, inf],
            ),
            (8, 23, x),
        ];
        for (exponent, mantissa, want) in cases {
            let mut got = [0.0f32; 12];
            let reduce = reduce_precision(DType::F32, exponent, mantissa).unwrap();
            // SAFETY: twelve elements on both sides.
            unsafe { reduce.run(x.as_ptr().cast(), got.as_mut_ptr().cast(), 12) };
            assert_eq!(
                got.map(f32::to_bits),
                want.map(f32::to_bits),
                "{exponent} {mantissa}"
            );
        }
        assert_eq!(reduce_precision(DType::S32, 5, 10), None);
    }

    /// Its own exponent and mantissa keep all bits of `f16`; a mantissa of fewer bits is cut in subnormals, too.
    #[test]
    fn subnormals_of_f16_are_reduced_by_their_bits() {
        let run = |exponent, mantissa, x: &[u16]| {
            let mut got = vec![0u16; x.len()];
            let reduce = reduce_precision(DType::F16, exponent, mantissa).unwrap();
            // SAFETY: as many elements on both sides.
            unsafe { reduce.run(x.as_ptr().cast(), got.as_mut_ptr().cast(), x.len()) };
            got
        };
        let all: Vec<u16> = (0..=u16::MAX).collect();
        assert_eq!(run(5, 10, &all), all);
        assert_eq!(run(8, 23, &all), all);
        let x = [0x00a8, 0x8032, 0x0002, 0x0004, 0x0005, 0x03ff];
        assert_eq!(
            run(8, 7, &x),
            [0x00a8, 0x8030, 0x0000, 0x0000, 0x0008, 0x0400]
        );
        assert_eq!(run(4, 10, &x), [0, 0x8000, 0, 0, 0, 0]);
    }

    #[test]
    fn a_result_may_lie_over_its_operand() {
        let x: Vec<f64> = (0..75).map(|i| f64::from(i).exp2() / 3.0 - 1.0).collect();
        for (exponent, mantissa) in [(5, 10), (8, 23), (11, 3), (11, 52)] {
            let reduce = reduce_precision(DType::F64, exponent, mantissa).unwrap();
            let (mut apart, mut over) = (vec![0f64; x.len()], x.clone());
            // SAFETY: as many elements on both sides.
            unsafe {
                reduce.run(x.as_ptr().cast(), apart.as_mut_ptr().cast(), x.len());
                reduce.run(over.as_ptr().cast(), over.as_mut_ptr().cast(), x.len());
            }
            for ((&x, &apart), &over) in x.iter().zip(&apart).zip(&over) {
                let one = prepare64(exponent, mantissa);
                let want = reduce64(x.to_bits(), &one);
                assert_eq!([apart.to_bits(), over.to_bits()], [want; 2], "{x}");
            }
        }
    }

    #[test]
    fn bits_of_bf16_are_reduced_as_those_of_f32() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        let wide: Vec<u32> = all.iter().map(|&x| u32::from(x) << 16).collect();
        for (exponent, mantissa) in [(5, 10), (8, 7), (8, 3), (4, 2), (1, 0), (11, 52)] {
            let mut got = vec![0u16; all.len()];
            let mut want = vec![0u32; all.len()];
            let reduce = |dtype| reduce_precision(dtype, exponent, mantissa).unwrap();
            // SAFETY: as many elements on both sides.
            unsafe {
                let n = all.len();
                reduce(DType::BF16).run(all.as_ptr().cast(), got.as_mut_ptr().cast(), n);
                reduce(DType::F32).run(wide.as_ptr().cast(), want.as_mut_ptr().cast(), n);
            }
            let want: Vec<u16> = want.iter().map(|x| (x >> 16) as u16).collect();
            assert_eq!(got, want, "{exponent} {mantissa}");
        }
    }

    #[test]
    fn floats_saturate_and_integers_wrap() {
        let x = [f32::NAN, f32::INFINITY, -1.9, 300.7, -300.0, 3e38];
        let mut out = [0u8; 6];
        // SAFETY: six elements on both sides.
        unsafe { convert(DType::F32, DType::U8)(x.as_ptr().cast(), out.as_mut_ptr(), 6) };
        assert_eq!(out, [0, 255, 0, 255, 0, 255]);
        let mut out = [0i8; 6];
        // SAFETY: as above.
        unsafe { convert(DType::F32, DType::S4)(x.as_ptr().cast(), out.as_mut_ptr().cast(), 6) };
        assert_eq!(out, [0, 7, -1, 7, -8, 7]);
        let x = [300i32, -1, i32::MIN, 7, 8, 15];
        // SAFETY: as above.
        unsafe { convert(DType::S32, DType::S4)(x.as_ptr().cast(), out.as_mut_ptr().cast(), 6) };
        assert_eq!(out, [-4, -1, 0, 7, -8, -1]);
    }

    #[test]
    fn truncation_is_what_a_cast_says() {
        let powers = (0..66).map(|k| 2f64.powi(k));
        let near = powers.flat_map(|p| {
            [
                p,
                p - 1.0,
                p - 0.5,
                p + 0.5,
                p * (1.0 - 1e-7),
                p * (1.0 + 1e-7),
            ]
        });
        let odd = [
            0.0,
            0.9,
            f64::NAN,
            f64::INFINITY,
            1e-310,
            127.99,
            255.99,
            1e300,
        ];
        for x in near.chain(odd).flat_map(|x| [x, -x]) {
            let y = x as f32;
            assert_eq!(Truncate::<i8>::f::<Portable>(y), y as i8, "{y}");
            assert_eq!(Truncate::<u8>::f::<Portable>(y), y as u8, "{y}");
            assert_eq!(
                <Truncate<i32> as Un<f32>>::f::<Portable>(y),
                y as i32,
                "{y}"
            );
            assert_eq!(
                <Truncate<i64> as Un<f32>>::f::<Portable>(y),
                y as i64,
                "{y}"
            );
            assert_eq!(
                <Truncate<i32> as Un<f64>>::f::<Portable>(x),
                x as i32,
                "{x}"
            );
            assert_eq!(
                <Truncate<i64> as Un<f64>>::f::<Portable>(x),
                x as i64,
                "{x}"
            );
        }
    }
}
