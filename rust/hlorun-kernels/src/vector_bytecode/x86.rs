//! The vectors of AVX-512 and AVX2.
//!
//! In: registers. Out: registers. Promise: that of [`super::vector`].

use super::vector::{Halves, Vector, lane_map, lane_ops, methods};
use crate::convert::Truncate;
use crate::elementwise::{Avx2, Portable, Un};
use crate::math::exp::{exp, exp_avx512};
use crate::ops::CompareDirection;
use std::arch::x86_64::*;

/// Sixteen 4-byte elements, AVX-512.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct W16(pub(super) __m512);
/// Eight 8-byte elements, AVX-512.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct D8(pub(super) __m512d);
/// Eight 4-byte elements, AVX2.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct W8(pub(super) __m256);
/// Four 8-byte elements, AVX2.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct D4(pub(super) __m256d);

/// `$f` with the number of the relation.
macro_rules! relation {
    ($direction:ident, $f:ident($a:expr, $b:expr), $eq:expr, $ne:expr, $lt:expr, $le:expr, $gt:expr, $ge:expr) => {
        match $direction {
            CompareDirection::Eq => $f::<{ $eq }>($a, $b),
            CompareDirection::Ne => $f::<{ $ne }>($a, $b),
            CompareDirection::Lt => $f::<{ $lt }>($a, $b),
            CompareDirection::Le => $f::<{ $le }>($a, $b),
            CompareDirection::Gt => $f::<{ $gt }>($a, $b),
            CompareDirection::Ge => $f::<{ $ge }>($a, $b),
        }
    };
}

/// What all vectors have an instruction for, and what only some have.
macro_rules! vector {
    ($t:ident, $lanes:expr, $size:expr, $mask:ty, $as_mask:ident, $float:ty, $int:ty, $cast:path, $back:path;
     $load:path, $store:path, $splat:expr, $add:path, $sub:path, $mul:path, $div:path, $fma:path, $larger:path, $smaller:path,
     $sqrt:path, $round:ident, $compare:ident;
     $iadd:path, $isub:path, $and:path, $or:path, $xor:path, $shl:path, $shr:path; { $($own:tt)* }) => {
        impl Vector for $t {
            const LANES: usize = $lanes;
            const SIZE: usize = $size;
            const SIGN: u64 = 1 << (8 * $size - 1);
            type Mask = $mask;
            methods! {
                fn load(p: *const u8) -> Self { Self($load(p.cast())) }
                fn store(self, p: *mut u8) { $store(p.cast(), self.0) }
                fn splat(bits: u64) -> Self { Self($back($splat(bits as _))) }
                fn add(self, o: Self) -> Self { Self($add(self.0, o.0)) }
                fn sub(self, o: Self) -> Self { Self($sub(self.0, o.0)) }
                fn mul(self, o: Self) -> Self { Self($mul(self.0, o.0)) }
                fn div(self, o: Self) -> Self { Self($div(self.0, o.0)) }
                fn fma(self, b: Self, c: Self) -> Self { Self($fma(self.0, b.0, c.0)) }
                fn larger(self, o: Self) -> Self { Self($larger(self.0, o.0)) }
                fn smaller(self, o: Self) -> Self { Self($smaller(self.0, o.0)) }
                fn sqrt(self) -> Self { Self($sqrt(self.0)) }
                fn floor(self) -> Self { Self($round::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0)) }
                fn ceil(self) -> Self { Self($round::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(self.0)) }
                fn round_even(self) -> Self {
                    Self($round::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0))
                }
                fn compare(self, o: Self, direction: CompareDirection) -> $mask {
                    $as_mask(relation!(direction, $compare(self.0, o.0),
                        _CMP_EQ_OQ, _CMP_NEQ_UQ, _CMP_LT_OQ, _CMP_LE_OQ, _CMP_GT_OQ, _CMP_GE_OQ))
                }
            }
            int_ops! { $cast, $back;
                int_add => $iadd; int_sub => $isub; and => $and; or => $or; xor => $xor; shl => $shl; shr => $shr;
            }
            lane_map! { int_to_float: $int => $float, |x| x as $float }
            lane_map! { float_to_int: $float => $int, Truncate::<$int>::f::<Portable> }
            $($own)*
        }
    };
}

/// Functions of integers, between two casts.
macro_rules! int_ops {
    ($cast:path, $back:path; $($name:ident => $f:path;)*) => {
        methods! {$(
            fn $name(self, o: Self) -> Self { Self($back($f($cast(self.0), $cast(o.0)))) }
        )*}
    };
}

/// A bit for each of the first lanes, at most 32.
#[inline(always)]
fn first_lanes(count: usize) -> u32 {
    u32::MAX.checked_shr(32 - count.min(32) as u32).unwrap_or(0)
}

#[inline(always)]
fn plain<M>(mask: M) -> M {
    mask
}

/// What AVX-512 has.
macro_rules! avx512 {
    ($mask:ty, $cast:path, $back:path, $blend:path; $imul:path, $sar:path, $rotate:path, $imax:path, $imin:path,
     $umax:path, $umin:path, $icompare:ident, $ucompare:ident) => {
        int_ops! { $cast, $back;
            int_mul => $imul; sar => $sar; rotate => $rotate; int_max => $imax; int_min => $imin; uint_max => $umax;
            uint_min => $umin;
        }
        methods! {
            fn int_compare(self, o: Self, direction: CompareDirection) -> $mask {
                relation!(direction, $icompare($cast(self.0), $cast(o.0)), _MM_CMPINT_EQ, _MM_CMPINT_NE,
                    _MM_CMPINT_LT, _MM_CMPINT_LE, _MM_CMPINT_NLE, _MM_CMPINT_NLT)
            }
            fn uint_compare(self, o: Self, direction: CompareDirection) -> $mask {
                relation!(direction, $ucompare($cast(self.0), $cast(o.0)), _MM_CMPINT_EQ, _MM_CMPINT_NE,
                    _MM_CMPINT_LT, _MM_CMPINT_LE, _MM_CMPINT_NLE, _MM_CMPINT_NLT)
            }
            fn select(mask: $mask, on_true: Self, on_false: Self) -> Self { Self($blend(mask, on_false.0, on_true.0)) }
            fn mask_and(a: $mask, b: $mask) -> $mask { a & b }
            fn mask_or(a: $mask, b: $mask) -> $mask { a | b }
            fn mask_xor(a: $mask, b: $mask) -> $mask { a ^ b }
            fn mask_not(a: $mask) -> $mask { !a }
        }
    };
}

vector! { W16, 16, 4, __mmask16, plain, f32, i32, _mm512_castps_si512, _mm512_castsi512_ps;
    _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_epi32, _mm512_add_ps, _mm512_sub_ps, _mm512_mul_ps, _mm512_div_ps, _mm512_fmadd_ps,
    _mm512_max_ps, _mm512_min_ps, _mm512_sqrt_ps, _mm512_roundscale_ps, _mm512_cmp_ps_mask;
    _mm512_add_epi32, _mm512_sub_epi32, _mm512_and_si512, _mm512_or_si512, _mm512_xor_si512, _mm512_sllv_epi32,
    _mm512_srlv_epi32; {
    avx512! { __mmask16, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_mask_blend_ps; _mm512_mullo_epi32,
        _mm512_srav_epi32, _mm512_rolv_epi32, _mm512_max_epi32, _mm512_min_epi32, _mm512_max_epu32, _mm512_min_epu32,
        _mm512_cmp_epi32_mask, _mm512_cmp_epu32_mask }
    methods! {
        fn mask_from_bytes(p: *const u8) -> __mmask16 {
            let bytes = _mm_loadu_si128(p.cast());
            _mm_test_epi8_mask(bytes, bytes)
        }
        fn load_part(p: *const u8, count: usize) -> Self { Self(_mm512_maskz_loadu_ps(first_lanes(count) as __mmask16, p.cast())) }
        fn store_part(self, p: *mut u8, count: usize) { _mm512_mask_storeu_ps(p.cast(), first_lanes(count) as __mmask16, self.0) }
        fn down(self, by: usize) -> Self {
            Self(match by {
                8 => _mm512_shuffle_f32x4::<0b1110>(self.0, self.0),
                4 => _mm512_shuffle_f32x4::<1>(self.0, self.0),
                2 => _mm512_permute_ps::<0b1110>(self.0),
                _ => _mm512_permute_ps::<1>(self.0),
            })
        }
        fn unzip(self, o: Self) -> (Self, Self) {
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
            (Self(_mm512_permutex2var_ps(self.0, even, o.0)), Self(_mm512_permutex2var_ps(self.0, odd, o.0)))
        }
        fn zip(self, o: Self) -> (Self, Self) {
            let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
            (Self(_mm512_permutex2var_ps(self.0, low, o.0)), Self(_mm512_permutex2var_ps(self.0, high, o.0)))
        }
        fn mask_to_bytes(mask: __mmask16, p: *mut u8) { _mm_storeu_si128(p.cast(), _mm_maskz_set1_epi8(mask, 1)) }
    }
}}

vector! { D8, 8, 8, __mmask8, plain, f64, i64, _mm512_castpd_si512, _mm512_castsi512_pd;
    _mm512_loadu_pd, _mm512_storeu_pd, _mm512_set1_epi64, _mm512_add_pd, _mm512_sub_pd, _mm512_mul_pd, _mm512_div_pd, _mm512_fmadd_pd,
    _mm512_max_pd, _mm512_min_pd, _mm512_sqrt_pd, _mm512_roundscale_pd, _mm512_cmp_pd_mask;
    _mm512_add_epi64, _mm512_sub_epi64, _mm512_and_si512, _mm512_or_si512, _mm512_xor_si512, _mm512_sllv_epi64,
    _mm512_srlv_epi64; {
    avx512! { __mmask8, _mm512_castpd_si512, _mm512_castsi512_pd, _mm512_mask_blend_pd; _mm512_mullo_epi64,
        _mm512_srav_epi64, _mm512_rolv_epi64, _mm512_max_epi64, _mm512_min_epi64, _mm512_max_epu64, _mm512_min_epu64,
        _mm512_cmp_epi64_mask, _mm512_cmp_epu64_mask }
    methods! {
        fn mask_from_bytes(p: *const u8) -> __mmask8 {
            let bytes = _mm_loadl_epi64(p.cast());
            _mm_test_epi8_mask(bytes, bytes) as __mmask8
        }
        fn load_part(p: *const u8, count: usize) -> Self { Self(_mm512_maskz_loadu_pd(first_lanes(count) as __mmask8, p.cast())) }
        fn store_part(self, p: *mut u8, count: usize) { _mm512_mask_storeu_pd(p.cast(), first_lanes(count) as __mmask8, self.0) }
        fn down(self, by: usize) -> Self {
            Self(match by {
                4 => _mm512_shuffle_f64x2::<0b1110>(self.0, self.0),
                2 => _mm512_shuffle_f64x2::<1>(self.0, self.0),
                _ => _mm512_permute_pd::<1>(self.0),
            })
        }
        fn unzip(self, o: Self) -> (Self, Self) {
            let even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
            let odd = _mm512_add_epi64(even, _mm512_set1_epi64(1));
            (Self(_mm512_permutex2var_pd(self.0, even, o.0)), Self(_mm512_permutex2var_pd(self.0, odd, o.0)))
        }
        fn zip(self, o: Self) -> (Self, Self) {
            let low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
            let high = _mm512_add_epi64(low, _mm512_set1_epi64(4));
            (Self(_mm512_permutex2var_pd(self.0, low, o.0)), Self(_mm512_permutex2var_pd(self.0, high, o.0)))
        }
        fn mask_to_bytes(mask: __mmask8, p: *mut u8) {
            _mm_storel_epi64(p.cast(), _mm_maskz_set1_epi8(mask.into(), 1))
        }
    }
}}

/// What AVX2 has: masks are vectors, of which all bits of an element are set or clear.
macro_rules! avx2 {
    ($cast:path, $back:path, $int:ident, $uint:ident, $blend:path, $ieq:path, $igt:path) => {
        lane_ops! { [$int; Self::LANES];
            int_mul(x, y) x.wrapping_mul(y);
            sar(x, y) x >> (y as $uint).min($uint::BITS as $uint - 1);
            int_max(x, y) x.max(y);
            int_min(x, y) x.min(y);
        }
        lane_ops! { [$uint; Self::LANES];
            uint_max(x, y) x.max(y);
            uint_min(x, y) x.min(y);
        }
        methods! {
            fn int_compare(self, o: Self, direction: CompareDirection) -> Self {
                let (a, b) = ($cast(self.0), $cast(o.0));
                let equal = || Self($back($ieq(a, b)));
                let greater = || Self($back($igt(a, b)));
                let less = || Self($back($igt(b, a)));
                match direction {
                    CompareDirection::Eq => equal(),
                    CompareDirection::Ne => Self::mask_not(equal()),
                    CompareDirection::Lt => less(),
                    CompareDirection::Le => Self::mask_not(greater()),
                    CompareDirection::Gt => greater(),
                    CompareDirection::Ge => Self::mask_not(less()),
                }
            }
            fn uint_compare(self, o: Self, direction: CompareDirection) -> Self {
                let turn = Self::splat(Self::SIGN);
                self.xor(turn).int_compare(o.xor(turn), direction)
            }
            fn select(mask: Self, on_true: Self, on_false: Self) -> Self { Self($blend(on_false.0, on_true.0, mask.0)) }
            fn mask_and(a: Self, b: Self) -> Self { a.and(b) }
            fn mask_or(a: Self, b: Self) -> Self { a.or(b) }
            fn mask_xor(a: Self, b: Self) -> Self { a.xor(b) }
            fn mask_not(a: Self) -> Self { a.xor(Self::splat(!0)) }
        }
    };
}

/// All bits of the first elements of 4 bytes.
#[inline(always)]
unsafe fn first_words(count: usize) -> __m256i {
    // SAFETY: the trait's contract.
    unsafe {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count.min(8) as i32), lanes)
    }
}

/// The same of 8 bytes.
#[inline(always)]
unsafe fn first_doubles(count: usize) -> __m256i {
    // SAFETY: the trait's contract.
    unsafe {
        let lanes = _mm256_setr_epi64x(0, 1, 2, 3);
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(count.min(4) as i64), lanes)
    }
}

/// Four pieces of two elements, of which the two in the middle change places.
#[inline(always)]
unsafe fn in_order(x: __m256) -> __m256 {
    // SAFETY: the trait's contract.
    unsafe {
        let pairs = _mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(x));
        _mm256_castpd_ps(pairs)
    }
}

/// Four bits as four truth bytes.
#[inline(always)]
fn spread(bits: u32) -> u32 {
    (bits & 15).wrapping_mul(0x0020_4081) & 0x0101_0101
}

vector! { W8, 8, 4, Self, Self, f32, i32, _mm256_castps_si256, _mm256_castsi256_ps;
    _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_epi32, _mm256_add_ps, _mm256_sub_ps, _mm256_mul_ps, _mm256_div_ps, _mm256_fmadd_ps,
    _mm256_max_ps, _mm256_min_ps, _mm256_sqrt_ps, _mm256_round_ps, _mm256_cmp_ps;
    _mm256_add_epi32, _mm256_sub_epi32, _mm256_and_si256, _mm256_or_si256, _mm256_xor_si256, _mm256_sllv_epi32,
    _mm256_srlv_epi32; {
    avx2! { _mm256_castps_si256, _mm256_castsi256_ps, i32, u32, _mm256_blendv_ps, _mm256_cmpeq_epi32,
        _mm256_cmpgt_epi32 }
    methods! {
        fn mask_from_bytes(p: *const u8) -> Self {
            let wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()));
            Self(_mm256_castsi256_ps(_mm256_cmpgt_epi32(wide, _mm256_setzero_si256())))
        }
        fn down(self, by: usize) -> Self {
            Self(match by {
                4 => _mm256_permute2f128_ps::<1>(self.0, self.0),
                2 => _mm256_permute_ps::<0b1110>(self.0),
                _ => _mm256_permute_ps::<1>(self.0),
            })
        }
        fn load_part(p: *const u8, count: usize) -> Self { Self(_mm256_maskload_ps(p.cast(), first_words(count))) }
        fn store_part(self, p: *mut u8, count: usize) { _mm256_maskstore_ps(p.cast(), first_words(count), self.0) }
        fn unzip(self, o: Self) -> (Self, Self) {
            (
                Self(in_order(_mm256_shuffle_ps::<0b10_00_10_00>(self.0, o.0))),
                Self(in_order(_mm256_shuffle_ps::<0b11_01_11_01>(self.0, o.0))),
            )
        }
        fn zip(self, o: Self) -> (Self, Self) {
            let (low, high) = (_mm256_unpacklo_ps(self.0, o.0), _mm256_unpackhi_ps(self.0, o.0));
            (Self(_mm256_permute2f128_ps::<0x20>(low, high)), Self(_mm256_permute2f128_ps::<0x31>(low, high)))
        }
        fn mask_to_bytes(mask: Self, p: *mut u8) {
            let bits = _mm256_movemask_ps(mask.0) as u32;
            p.cast::<[u32; 2]>().write_unaligned([spread(bits), spread(bits >> 4)]);
        }
    }
}}

vector! { D4, 4, 8, Self, Self, f64, i64, _mm256_castpd_si256, _mm256_castsi256_pd;
    _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_epi64x, _mm256_add_pd, _mm256_sub_pd, _mm256_mul_pd, _mm256_div_pd, _mm256_fmadd_pd,
    _mm256_max_pd, _mm256_min_pd, _mm256_sqrt_pd, _mm256_round_pd, _mm256_cmp_pd;
    _mm256_add_epi64, _mm256_sub_epi64, _mm256_and_si256, _mm256_or_si256, _mm256_xor_si256, _mm256_sllv_epi64,
    _mm256_srlv_epi64; {
    avx2! { _mm256_castpd_si256, _mm256_castsi256_pd, i64, u64, _mm256_blendv_pd, _mm256_cmpeq_epi64,
        _mm256_cmpgt_epi64 }
    methods! {
        fn mask_from_bytes(p: *const u8) -> Self {
            let wide = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(p.cast::<i32>().read_unaligned()));
            Self(_mm256_castsi256_pd(_mm256_cmpgt_epi64(wide, _mm256_setzero_si256())))
        }
        fn down(self, by: usize) -> Self {
            Self(match by {
                2 => _mm256_permute2f128_pd::<1>(self.0, self.0),
                _ => _mm256_permute_pd::<1>(self.0),
            })
        }
        fn load_part(p: *const u8, count: usize) -> Self { Self(_mm256_maskload_pd(p.cast(), first_doubles(count))) }
        fn store_part(self, p: *mut u8, count: usize) { _mm256_maskstore_pd(p.cast(), first_doubles(count), self.0) }
        fn unzip(self, o: Self) -> (Self, Self) {
            let (even, odd) = (_mm256_unpacklo_pd(self.0, o.0), _mm256_unpackhi_pd(self.0, o.0));
            (Self(_mm256_permute4x64_pd::<0b11_01_10_00>(even)), Self(_mm256_permute4x64_pd::<0b11_01_10_00>(odd)))
        }
        fn zip(self, o: Self) -> (Self, Self) {
            let (low, high) = (_mm256_unpacklo_pd(self.0, o.0), _mm256_unpackhi_pd(self.0, o.0));
            (Self(_mm256_permute2f128_pd::<0x20>(low, high)), Self(_mm256_permute2f128_pd::<0x31>(low, high)))
        }
        fn mask_to_bytes(mask: Self, p: *mut u8) {
            p.cast::<u32>().write_unaligned(spread(_mm256_movemask_pd(mask.0) as u32));
        }
    }
}}

impl Halves for D8 {}
impl Halves for D4 {}

impl Halves for W16 {
    methods! {
        fn exp(self) -> Self { W16(exp_avx512(self.0)) }
        fn load_bf16(p: *const u8) -> Self {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
            W16(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide)))
        }
        fn store_bf16(self, p: *mut u8) {
            let high = _mm512_srli_epi32::<16>(_mm512_castps_si512(self.0));
            _mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(high));
        }
        fn round_bf16(self) -> Self {
            let bits = _mm512_castps_si512(self.0);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
            let nan = _mm512_or_si512(bits, _mm512_set1_epi32(0x40_0000));
            let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, self.0);
            let bits = _mm512_mask_blend_epi32(is_nan, rounded, nan);
            W16(_mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(!0xffff))))
        }
        fn load_f16(p: *const u8) -> Self { W16(_mm512_cvtph_ps(_mm256_loadu_si256(p.cast()))) }
        fn store_f16(self, p: *mut u8) { _mm256_storeu_si256(p.cast(), halves(self)) }
        fn round_f16(self) -> Self { W16(_mm512_cvtph_ps(halves(self))) }
    }
}

/// Rounded to nearest even.
#[inline(always)]
unsafe fn halves(x: W16) -> __m256i {
    // SAFETY: the trait's contract.
    unsafe { _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x.0) }
}

impl Halves for W8 {
    lane_map! { exp: f32 => f32, exp::<Avx2> }
    methods! {
        fn load_bf16(p: *const u8) -> Self {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            W8(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide)))
        }
        fn store_bf16(self, p: *mut u8) {
            let high = _mm256_srli_epi32::<16>(_mm256_castps_si256(self.0));
            let (low, up) = (_mm256_castsi256_si128(high), _mm256_extracti128_si256::<1>(high));
            _mm_storeu_si128(p.cast(), _mm_packus_epi32(low, up));
        }
        fn round_bf16(self) -> Self {
            let bits = _mm256_castps_si256(self.0);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
            let nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x40_0000));
            let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0);
            let bits = _mm256_blendv_epi8(rounded, nan, _mm256_castps_si256(is_nan));
            W8(_mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(!0xffff))))
        }
        fn load_f16(p: *const u8) -> Self { W8(_mm256_cvtph_ps(_mm_loadu_si128(p.cast()))) }
        fn store_f16(self, p: *mut u8) {
            _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0))
        }
        fn round_f16(self) -> Self { W8(_mm256_cvtph_ps(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0))) }
    }
}
