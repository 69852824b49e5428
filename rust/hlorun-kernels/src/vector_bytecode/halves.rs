//! Narrow floats in the vectors of vector bytecode: widened as they are read, rounded after every operation.
//!
//! In: 2-byte floats, or `f32`. Out: the other. Promise: the bits of the conversion kernels, except that of NaN only
//! the sign and that it is one are kept.

use super::vector::{D4, D8, Vector, W8, W16, methods};
use std::arch::x86_64::*;

/// Narrow floats in lanes of `f32`. Eight-byte elements have none: no bytecode of theirs asks for these.
#[allow(clippy::missing_safety_doc, missing_docs, reason = "as Vector")]
pub(super) trait Halves: Vector {
    methods! {
        fn load_bf16(p: *const u8) -> Self { Self::load(p) }
        /// Stores a value that `round_bf16` leaves as it is.
        fn store_bf16(self, p: *mut u8) { self.store(p) }
        fn round_bf16(self) -> Self { self }
        fn load_f16(p: *const u8) -> Self { Self::load(p) }
        /// Stores a value that `round_f16` leaves as it is.
        fn store_f16(self, p: *mut u8) { self.store(p) }
        fn round_f16(self) -> Self { self }
    }
}

impl Halves for D8 {}
impl Halves for D4 {}

impl Halves for W16 {
    methods! {
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
