//! The vectors of vector bytecode: one register's worth of 4-byte or 8-byte elements on AVX-512 and AVX2.
//!
//! In: registers. Out: registers. Promise: every operation gives the bits of the kernel of the same name, except that
//! of two NaN either may survive. Floats and integers share a type: bits are bits.

use crate::ops::CompareDirection;
use std::arch::x86_64::*;

/// One vector register. All functions need the instruction set of the type they are implemented for.
///
/// # Safety
/// The CPU has the type's instruction set; pointers are valid for one vector, aligned or not.
#[allow(
    clippy::missing_safety_doc,
    missing_docs,
    reason = "one contract for all, above"
)]
pub(super) trait Vector: Copy {
    /// Elements.
    const LANES: usize;
    /// Bytes of an element.
    const SIZE: usize;
    /// One truth value per element.
    type Mask: Copy;
    unsafe fn load(p: *const u8) -> Self;
    unsafe fn store(self, p: *mut u8);
    /// The low bytes of `bits` in every lane.
    unsafe fn splat(bits: u64) -> Self;

    unsafe fn add(self, o: Self) -> Self;
    unsafe fn sub(self, o: Self) -> Self;
    unsafe fn mul(self, o: Self) -> Self;
    unsafe fn div(self, o: Self) -> Self;
    unsafe fn max(self, o: Self) -> Self;
    unsafe fn min(self, o: Self) -> Self;
    unsafe fn sqrt(self) -> Self;
    unsafe fn neg(self) -> Self;
    unsafe fn abs(self) -> Self;
    unsafe fn floor(self) -> Self;
    unsafe fn ceil(self) -> Self;
    unsafe fn round_even(self) -> Self;

    unsafe fn int_add(self, o: Self) -> Self;
    unsafe fn int_sub(self, o: Self) -> Self;
    unsafe fn int_mul(self, o: Self) -> Self;
    unsafe fn and(self, o: Self) -> Self;
    unsafe fn or(self, o: Self) -> Self;
    unsafe fn xor(self, o: Self) -> Self;
    unsafe fn shl(self, o: Self) -> Self;
    unsafe fn shr(self, o: Self) -> Self;
    unsafe fn sar(self, o: Self) -> Self;
    unsafe fn int_max(self, o: Self) -> Self;
    unsafe fn int_min(self, o: Self) -> Self;
    unsafe fn uint_max(self, o: Self) -> Self;
    unsafe fn uint_min(self, o: Self) -> Self;
    /// Signed integer to the float of the same size.
    unsafe fn int_to_float(self) -> Self;
    /// Float to the signed integer of the same size: truncated, saturated, NaN to zero.
    unsafe fn float_to_int(self) -> Self;

    unsafe fn compare(self, o: Self, direction: CompareDirection) -> Self::Mask;
    unsafe fn int_compare(self, o: Self, direction: CompareDirection) -> Self::Mask;
    unsafe fn uint_compare(self, o: Self, direction: CompareDirection) -> Self::Mask;
    /// `mask ? on_true : on_false`.
    unsafe fn select(mask: Self::Mask, on_true: Self, on_false: Self) -> Self;
    unsafe fn mask_and(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    unsafe fn mask_or(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    unsafe fn mask_xor(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    unsafe fn mask_not(a: Self::Mask) -> Self::Mask;
    /// From one truth byte per element.
    unsafe fn mask_from_bytes(p: *const u8) -> Self::Mask;
    unsafe fn mask_to_bytes(mask: Self::Mask, p: *mut u8);
}

/// Sixteen 4-byte elements, AVX-512.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct W16(pub(super) __m512);
/// Eight 8-byte elements, AVX-512.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct D8(pub(super) __m512d);
/// Eight 4-byte elements, AVX2.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct W8(pub(super) __m256);
/// Four 8-byte elements, AVX2.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct D4(pub(super) __m256d);

/// `$f(self, …)` by the named intrinsic on floats.
macro_rules! float_ops {
    ($($name:ident => $f:path;)*) => {$(
        #[inline(always)]
        unsafe fn $name(self, o: Self) -> Self {
            // SAFETY: the trait's contract.
            unsafe { Self($f(self.0, o.0)) }
        }
    )*};
}

/// The same on integers, between two casts.
macro_rules! int_ops {
    ($into:path, $back:path; $($name:ident => $f:path;)*) => {$(
        #[inline(always)]
        unsafe fn $name(self, o: Self) -> Self {
            // SAFETY: the trait's contract.
            unsafe { Self($back($f($into(self.0), $into(o.0)))) }
        }
    )*};
}

/// The same, lane by lane in plain code the compiler vectorizes.
macro_rules! lane_ops {
    ($array:ty; $($name:ident($x:ident, $y:ident) $e:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name(self, o: Self) -> Self {
            // SAFETY: a vector is its elements, of either kind.
            unsafe {
                let a = std::mem::transmute_copy::<Self, $array>(&self);
                let b = std::mem::transmute_copy::<Self, $array>(&o);
                let mut out = a;
                for (z, (&$x, &$y)) in out.iter_mut().zip(a.iter().zip(&b)) {
                    *z = $e;
                }
                std::mem::transmute_copy::<$array, Self>(&out)
            }
        }
    )*};
}

/// The same of one operand.
macro_rules! lane_map {
    ($from:ty => $to:ty; $name:ident($x:ident) $e:expr) => {
        #[inline(always)]
        unsafe fn $name(self) -> Self {
            // SAFETY: a vector is its elements, of either kind.
            unsafe {
                let a = std::mem::transmute_copy::<Self, $from>(&self);
                let mut out = std::mem::transmute_copy::<Self, $to>(&self);
                for (z, &$x) in out.iter_mut().zip(&a) {
                    *z = $e;
                }
                std::mem::transmute_copy::<$to, Self>(&out)
            }
        }
    };
}

/// Maximum and minimum with NaN first and zeros in order, from the instruction that has neither.
macro_rules! extrema {
    ($($name:ident => $f:path, $zeros:ident;)*) => {$(
        #[inline(always)]
        unsafe fn $name(self, o: Self) -> Self {
            // SAFETY: the trait's contract.
            unsafe {
                let picked = Self($f(self.0, o.0));
                let equal = self.compare(o, CompareDirection::Eq);
                let ordered = Self::select(equal, self.$zeros(o), picked);
                Self::select(self.compare(self, CompareDirection::Ne), self, ordered)
            }
        }
    )*};
}

macro_rules! avx512 {
    ($t:ident, $lanes:expr, $size:expr, $mask:ty, $float:ty, $cast:path, $back:path, $array_i:ty, $array_f:ty;
     $load:path, $store:path, $splat:expr, $add:path, $sub:path, $mul:path, $div:path, $max:path, $min:path, $sqrt:path,
     $and:path, $round:ident, $compare:ident, $blend:path;
     $iadd:path, $isub:path, $iand:path, $ior:path, $ixor:path, $shl:path, $shr:path, $sar:path, $imax:path,
     $imin:path, $umax:path, $umin:path, $icompare:ident, $ucompare:ident, $sign:expr; { $($special:item)* }) => {
        impl Vector for $t {
            const LANES: usize = $lanes;
            const SIZE: usize = $size;
            type Mask = $mask;
            #[inline(always)]
            unsafe fn load(p: *const u8) -> Self {
                // SAFETY: the trait's contract.
                unsafe { Self($load(p.cast())) }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut u8) {
                // SAFETY: the trait's contract.
                unsafe { $store(p.cast(), self.0) }
            }
            #[inline(always)]
            unsafe fn splat(bits: u64) -> Self {
                // SAFETY: the trait's contract.
                unsafe { Self($back($splat(bits as _))) }
            }
            float_ops! { add => $add; sub => $sub; mul => $mul; div => $div; }
            extrema! { max => $max, and; min => $min, or; }
            #[inline(always)]
            unsafe fn sqrt(self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { Self($sqrt(self.0)) }
            }
            #[inline(always)]
            unsafe fn neg(self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { self.xor(Self::splat($sign)) }
            }
            #[inline(always)]
            unsafe fn abs(self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { self.and(Self::splat($sign - 1)) }
            }
            #[inline(always)]
            unsafe fn floor(self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { Self($round::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0)) }
            }
            #[inline(always)]
            unsafe fn ceil(self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { Self($round::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(self.0)) }
            }
            #[inline(always)]
            unsafe fn round_even(self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { Self($round::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)) }
            }
            int_ops! { $cast, $back;
                int_add => $iadd; int_sub => $isub; and => $iand; or => $ior; xor => $ixor;
                shl => $shl; shr => $shr; sar => $sar;
                int_max => $imax; int_min => $imin; uint_max => $umax; uint_min => $umin;
            }
            lane_map! { $array_i => $array_f; int_to_float(x) x as $float }
            lane_map! { $array_f => $array_i; float_to_int(x) x as _ }
            #[inline(always)]
            unsafe fn compare(self, o: Self, direction: CompareDirection) -> $mask {
                // SAFETY: the trait's contract.
                unsafe {
                    match direction {
                        CompareDirection::Eq => $compare::<_CMP_EQ_OQ>(self.0, o.0),
                        CompareDirection::Ne => $compare::<_CMP_NEQ_UQ>(self.0, o.0),
                        CompareDirection::Lt => $compare::<_CMP_LT_OQ>(self.0, o.0),
                        CompareDirection::Le => $compare::<_CMP_LE_OQ>(self.0, o.0),
                        CompareDirection::Gt => $compare::<_CMP_GT_OQ>(self.0, o.0),
                        CompareDirection::Ge => $compare::<_CMP_GE_OQ>(self.0, o.0),
                    }
                }
            }
            #[inline(always)]
            unsafe fn int_compare(self, o: Self, direction: CompareDirection) -> $mask {
                // SAFETY: the trait's contract.
                unsafe {
                    let (a, b) = ($cast(self.0), $cast(o.0));
                    match direction {
                        CompareDirection::Eq => $icompare::<_MM_CMPINT_EQ>(a, b),
                        CompareDirection::Ne => $icompare::<_MM_CMPINT_NE>(a, b),
                        CompareDirection::Lt => $icompare::<_MM_CMPINT_LT>(a, b),
                        CompareDirection::Le => $icompare::<_MM_CMPINT_LE>(a, b),
                        CompareDirection::Gt => $icompare::<_MM_CMPINT_NLE>(a, b),
                        CompareDirection::Ge => $icompare::<_MM_CMPINT_NLT>(a, b),
                    }
                }
            }
            #[inline(always)]
            unsafe fn uint_compare(self, o: Self, direction: CompareDirection) -> $mask {
                // SAFETY: the trait's contract.
                unsafe {
                    let (a, b) = ($cast(self.0), $cast(o.0));
                    match direction {
                        CompareDirection::Eq => $ucompare::<_MM_CMPINT_EQ>(a, b),
                        CompareDirection::Ne => $ucompare::<_MM_CMPINT_NE>(a, b),
                        CompareDirection::Lt => $ucompare::<_MM_CMPINT_LT>(a, b),
                        CompareDirection::Le => $ucompare::<_MM_CMPINT_LE>(a, b),
                        CompareDirection::Gt => $ucompare::<_MM_CMPINT_NLE>(a, b),
                        CompareDirection::Ge => $ucompare::<_MM_CMPINT_NLT>(a, b),
                    }
                }
            }
            #[inline(always)]
            unsafe fn select(mask: $mask, on_true: Self, on_false: Self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { Self($blend(mask, on_false.0, on_true.0)) }
            }
            #[inline(always)]
            unsafe fn mask_and(a: $mask, b: $mask) -> $mask {
                a & b
            }
            #[inline(always)]
            unsafe fn mask_or(a: $mask, b: $mask) -> $mask {
                a | b
            }
            #[inline(always)]
            unsafe fn mask_xor(a: $mask, b: $mask) -> $mask {
                a ^ b
            }
            #[inline(always)]
            unsafe fn mask_not(a: $mask) -> $mask {
                !a
            }
            $($special)*
        }
    };
}

avx512! { W16, 16, 4, __mmask16, f32, _mm512_castps_si512, _mm512_castsi512_ps, [i32; 16], [f32; 16];
    _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_epi32, _mm512_add_ps, _mm512_sub_ps, _mm512_mul_ps, _mm512_div_ps,
    _mm512_max_ps, _mm512_min_ps, _mm512_sqrt_ps, _mm512_and_ps, _mm512_roundscale_ps, _mm512_cmp_ps_mask,
    _mm512_mask_blend_ps;
    _mm512_add_epi32, _mm512_sub_epi32, _mm512_and_si512, _mm512_or_si512, _mm512_xor_si512, _mm512_sllv_epi32,
    _mm512_srlv_epi32, _mm512_srav_epi32, _mm512_max_epi32, _mm512_min_epi32, _mm512_max_epu32, _mm512_min_epu32,
    _mm512_cmp_epi32_mask, _mm512_cmp_epu32_mask, 0x8000_0000; {
    #[inline(always)]
    unsafe fn int_mul(self, o: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe {
            let (a, b) = (_mm512_castps_si512(self.0), _mm512_castps_si512(o.0));
            Self(_mm512_castsi512_ps(_mm512_mullo_epi32(a, b)))
        }
    }
    #[inline(always)]
    unsafe fn mask_from_bytes(p: *const u8) -> __mmask16 {
        // SAFETY: the trait's contract: sixteen bytes.
        unsafe {
            let bytes = _mm_loadu_si128(p.cast());
            _mm_test_epi8_mask(bytes, bytes)
        }
    }
    #[inline(always)]
    unsafe fn mask_to_bytes(mask: __mmask16, p: *mut u8) {
        // SAFETY: the trait's contract: sixteen bytes.
        unsafe { _mm_storeu_si128(p.cast(), _mm_maskz_set1_epi8(mask, 1)) }
    }
}}

avx512! { D8, 8, 8, __mmask8, f64, _mm512_castpd_si512, _mm512_castsi512_pd, [i64; 8], [f64; 8];
    _mm512_loadu_pd, _mm512_storeu_pd, _mm512_set1_epi64, _mm512_add_pd, _mm512_sub_pd, _mm512_mul_pd, _mm512_div_pd,
    _mm512_max_pd, _mm512_min_pd, _mm512_sqrt_pd, _mm512_and_pd, _mm512_roundscale_pd, _mm512_cmp_pd_mask,
    _mm512_mask_blend_pd;
    _mm512_add_epi64, _mm512_sub_epi64, _mm512_and_si512, _mm512_or_si512, _mm512_xor_si512, _mm512_sllv_epi64,
    _mm512_srlv_epi64, _mm512_srav_epi64, _mm512_max_epi64, _mm512_min_epi64, _mm512_max_epu64, _mm512_min_epu64,
    _mm512_cmp_epi64_mask, _mm512_cmp_epu64_mask, 0x8000_0000_0000_0000; {
    #[inline(always)]
    unsafe fn int_mul(self, o: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe {
            let (a, b) = (_mm512_castpd_si512(self.0), _mm512_castpd_si512(o.0));
            Self(_mm512_castsi512_pd(_mm512_mullo_epi64(a, b)))
        }
    }
    #[inline(always)]
    unsafe fn mask_from_bytes(p: *const u8) -> __mmask8 {
        // SAFETY: the trait's contract: eight bytes.
        unsafe {
            let bytes = _mm_loadl_epi64(p.cast());
            _mm_test_epi8_mask(bytes, bytes) as __mmask8
        }
    }
    #[inline(always)]
    unsafe fn mask_to_bytes(mask: __mmask8, p: *mut u8) {
        // SAFETY: the trait's contract: eight bytes.
        unsafe { _mm_storel_epi64(p.cast(), _mm_maskz_set1_epi8(mask.into(), 1)) }
    }
}}

macro_rules! avx2 {
    ($t:ident, $lanes:expr, $size:expr, $float:ty, $cast:path, $back:path, $array_i:ty, $array_u:ty, $array_f:ty;
     $load:path, $store:path, $splat:expr, $add:path, $sub:path, $mul:path, $div:path, $max:path, $min:path, $sqrt:path,
     $round:ident, $compare:ident, $blend:path; $iadd:path, $isub:path, $ieq:path, $igt:path, $shl:path, $shr:path,
     $bits:ty, $sign:expr; { $($special:item)* }) => {
        impl Vector for $t {
            const LANES: usize = $lanes;
            const SIZE: usize = $size;
            /// All bits of an element are set or clear.
            type Mask = Self;
            #[inline(always)]
            unsafe fn load(p: *const u8) -> Self {
                // SAFETY: the trait's contract.
                unsafe { Self($load(p.cast())) }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut u8) {
                // SAFETY: the trait's contract.
                unsafe { $store(p.cast(), self.0) }
            }
            #[inline(always)]
            unsafe fn splat(bits: u64) -> Self {
                // SAFETY: the trait's contract.
                unsafe { Self($back($splat(bits as _))) }
            }
            float_ops! { add => $add; sub => $sub; mul => $mul; div => $div; }
            extrema! { max => $max, and; min => $min, or; }
            #[inline(always)]
            unsafe fn sqrt(self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { Self($sqrt(self.0)) }
            }
            #[inline(always)]
            unsafe fn neg(self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { self.xor(Self::splat($sign)) }
            }
            #[inline(always)]
            unsafe fn abs(self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { self.and(Self::splat($sign - 1)) }
            }
            #[inline(always)]
            unsafe fn floor(self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { Self($round::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0)) }
            }
            #[inline(always)]
            unsafe fn ceil(self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { Self($round::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(self.0)) }
            }
            #[inline(always)]
            unsafe fn round_even(self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { Self($round::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)) }
            }
            int_ops! { $cast, $back;
                int_add => $iadd; int_sub => $isub; and => _mm256_and_si256; or => _mm256_or_si256;
                xor => _mm256_xor_si256; shl => $shl; shr => $shr;
            }
            lane_ops! { $array_i;
                int_mul(x, y) x.wrapping_mul(y);
                sar(x, y) x >> (y as $bits).min(<$bits>::BITS as $bits - 1);
                int_max(x, y) x.max(y);
                int_min(x, y) x.min(y);
            }
            lane_ops! { $array_u;
                uint_max(x, y) x.max(y);
                uint_min(x, y) x.min(y);
            }
            lane_map! { $array_i => $array_f; int_to_float(x) x as $float }
            lane_map! { $array_f => $array_i; float_to_int(x) x as _ }
            #[inline(always)]
            unsafe fn compare(self, o: Self, direction: CompareDirection) -> Self {
                // SAFETY: the trait's contract.
                unsafe {
                    Self(match direction {
                        CompareDirection::Eq => $compare::<_CMP_EQ_OQ>(self.0, o.0),
                        CompareDirection::Ne => $compare::<_CMP_NEQ_UQ>(self.0, o.0),
                        CompareDirection::Lt => $compare::<_CMP_LT_OQ>(self.0, o.0),
                        CompareDirection::Le => $compare::<_CMP_LE_OQ>(self.0, o.0),
                        CompareDirection::Gt => $compare::<_CMP_GT_OQ>(self.0, o.0),
                        CompareDirection::Ge => $compare::<_CMP_GE_OQ>(self.0, o.0),
                    })
                }
            }
            #[inline(always)]
            unsafe fn int_compare(self, o: Self, direction: CompareDirection) -> Self {
                // SAFETY: the trait's contract.
                unsafe {
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
            }
            #[inline(always)]
            unsafe fn uint_compare(self, o: Self, direction: CompareDirection) -> Self {
                // SAFETY: the trait's contract.
                unsafe {
                    let turn = Self::splat($sign);
                    self.xor(turn).int_compare(o.xor(turn), direction)
                }
            }
            #[inline(always)]
            unsafe fn select(mask: Self, on_true: Self, on_false: Self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { Self($blend(on_false.0, on_true.0, mask.0)) }
            }
            #[inline(always)]
            unsafe fn mask_and(a: Self, b: Self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { a.and(b) }
            }
            #[inline(always)]
            unsafe fn mask_or(a: Self, b: Self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { a.or(b) }
            }
            #[inline(always)]
            unsafe fn mask_xor(a: Self, b: Self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { a.xor(b) }
            }
            #[inline(always)]
            unsafe fn mask_not(a: Self) -> Self {
                // SAFETY: the trait's contract.
                unsafe { a.xor(Self::splat(!0)) }
            }
            $($special)*
        }
    };
}

/// Four bits as four truth bytes.
#[inline(always)]
fn spread(bits: u32) -> u32 {
    (bits & 15).wrapping_mul(0x0020_4081) & 0x0101_0101
}

avx2! { W8, 8, 4, f32, _mm256_castps_si256, _mm256_castsi256_ps, [i32; 8], [u32; 8], [f32; 8];
    _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_epi32, _mm256_add_ps, _mm256_sub_ps, _mm256_mul_ps, _mm256_div_ps,
    _mm256_max_ps, _mm256_min_ps, _mm256_sqrt_ps, _mm256_round_ps, _mm256_cmp_ps, _mm256_blendv_ps; _mm256_add_epi32,
    _mm256_sub_epi32, _mm256_cmpeq_epi32, _mm256_cmpgt_epi32, _mm256_sllv_epi32, _mm256_srlv_epi32,
    u32, 0x8000_0000; {
    #[inline(always)]
    unsafe fn mask_from_bytes(p: *const u8) -> Self {
        // SAFETY: the trait's contract: eight bytes.
        unsafe {
            let wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()));
            Self(_mm256_castsi256_ps(_mm256_cmpgt_epi32(wide, _mm256_setzero_si256())))
        }
    }
    #[inline(always)]
    unsafe fn mask_to_bytes(mask: Self, p: *mut u8) {
        // SAFETY: the trait's contract: eight bytes.
        unsafe {
            let bits = _mm256_movemask_ps(mask.0) as u32;
            p.cast::<[u32; 2]>().write_unaligned([spread(bits), spread(bits >> 4)]);
        }
    }
}}

avx2! { D4, 4, 8, f64, _mm256_castpd_si256, _mm256_castsi256_pd, [i64; 4], [u64; 4], [f64; 4];
    _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_epi64x, _mm256_add_pd, _mm256_sub_pd, _mm256_mul_pd, _mm256_div_pd,
    _mm256_max_pd, _mm256_min_pd, _mm256_sqrt_pd, _mm256_round_pd, _mm256_cmp_pd, _mm256_blendv_pd; _mm256_add_epi64,
    _mm256_sub_epi64, _mm256_cmpeq_epi64, _mm256_cmpgt_epi64, _mm256_sllv_epi64, _mm256_srlv_epi64,
    u64, 0x8000_0000_0000_0000; {
    #[inline(always)]
    unsafe fn mask_from_bytes(p: *const u8) -> Self {
        // SAFETY: the trait's contract: four bytes.
        unsafe {
            let bytes = _mm_cvtsi32_si128(p.cast::<i32>().read_unaligned());
            let wide = _mm256_cvtepu8_epi64(bytes);
            Self(_mm256_castsi256_pd(_mm256_cmpgt_epi64(wide, _mm256_setzero_si256())))
        }
    }
    #[inline(always)]
    unsafe fn mask_to_bytes(mask: Self, p: *mut u8) {
        // SAFETY: the trait's contract: four bytes.
        unsafe {
            let bits = _mm256_movemask_pd(mask.0) as u32;
            p.cast::<u32>().write_unaligned(spread(bits));
        }
    }
}}
