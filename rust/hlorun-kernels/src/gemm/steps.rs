//! How instruction sets multiply and add units.
//!
//! In: some sums of a row, a unit of A, and as many units of B. Out: the sums. Promise: exact modulo the sum's size.

use super::units::{Pair, Single};

/// An instruction set. Plain loops over a whole tile are vectorized across its rows, which is no use; so each says what a
/// vector of a row does.
pub(super) trait Steps: 'static {
    #[inline(always)]
    fn pairs<const NR: usize>(sums: &mut [u32; NR], a: Pair, b: &[Pair; NR]) {
        for (s, &b) in sums.iter_mut().zip(b) {
            *s = s.wrapping_add(a.dot(b));
        }
    }
    #[inline(always)]
    fn words<const NR: usize>(sums: &mut [u32; NR], a: u32, b: &[u32; NR]) {
        for (s, &b) in sums.iter_mut().zip(b) {
            *s = s.mul_add(a, b);
        }
    }
    #[inline(always)]
    fn doubles<const NR: usize>(sums: &mut [u64; NR], a: u64, b: &[u64; NR]) {
        for (s, &b) in sums.iter_mut().zip(b) {
            *s = s.mul_add(a, b);
        }
    }
}

/// In plain code.
#[cfg(not(target_arch = "x86_64"))]
pub(super) struct Plain;
#[cfg(not(target_arch = "x86_64"))]
impl Steps for Plain {}

/// SSE2.
#[cfg(target_arch = "x86_64")]
pub(super) struct Four;
/// AVX2.
#[cfg(target_arch = "x86_64")]
pub(super) struct Eight;
/// AVX-512.
#[cfg(target_arch = "x86_64")]
pub(super) struct Sixteen;
/// AVX-512 with VNNI.
#[cfg(target_arch = "x86_64")]
pub(super) struct Vnni;

/// NEON.
#[cfg(target_arch = "aarch64")]
pub(super) struct Neon;

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use super::*;
    use std::arch::aarch64::*;

    impl Steps for Neon {
        #[inline(always)]
        fn pairs<const NR: usize>(sums: &mut [u32; NR], a: Pair, b: &[Pair; NR]) {
            const { assert!(NR.is_multiple_of(8)) };
            let (low, high) = (a.0 as i16, (a.0 >> 16) as i16);
            for at in (0..NR).step_by(8) {
                // SAFETY: NR is a multiple of eight, and a pair is its bits: its first integer has an even place.
                unsafe {
                    let to = sums.as_mut_ptr().add(at).cast::<i32>();
                    let from = b.as_ptr().add(at).cast::<i16>();
                    let (x, y) = (vld1q_s16(from), vld1q_s16(from.add(8)));
                    let (first, second) = (vuzp1q_s16(x, y), vuzp2q_s16(x, y));
                    let s = vmlal_n_s16(vld1q_s32(to), vget_low_s16(first), low);
                    vst1q_s32(to, vmlal_n_s16(s, vget_low_s16(second), high));
                    let s = vmlal_high_n_s16(vld1q_s32(to.add(4)), first, low);
                    vst1q_s32(to.add(4), vmlal_high_n_s16(s, second, high));
                }
            }
        }

        #[inline(always)]
        fn words<const NR: usize>(sums: &mut [u32; NR], a: u32, b: &[u32; NR]) {
            const { assert!(NR.is_multiple_of(4)) };
            for at in (0..NR).step_by(4) {
                // SAFETY: NR is a multiple of four.
                unsafe {
                    let to = sums.as_mut_ptr().add(at);
                    let b = vld1q_u32(b.as_ptr().add(at));
                    vst1q_u32(to, vmlaq_n_u32(vld1q_u32(to), b, a));
                }
            }
        }

        // There is no product of 64 bits, so it is made of halves.
        #[inline(always)]
        fn doubles<const NR: usize>(sums: &mut [u64; NR], a: u64, b: &[u64; NR]) {
            const { assert!(NR.is_multiple_of(2)) };
            let (low, high) = (a as u32, (a >> 32) as u32);
            for at in (0..NR).step_by(2) {
                // SAFETY: NR is a multiple of two.
                unsafe {
                    let to = sums.as_mut_ptr().add(at);
                    let b = vld1q_u64(b.as_ptr().add(at));
                    let (b_low, b_high) = (vmovn_u64(b), vshrn_n_u64::<32>(b));
                    let cross = vmla_n_u32(vmul_n_u32(b_low, high), b_high, low);
                    let cross = vshlq_n_u64::<32>(vmovl_u32(cross));
                    let s = vmlal_n_u32(vld1q_u64(to), b_low, low);
                    vst1q_u64(to, vaddq_u64(s, cross));
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use std::arch::x86_64::*;

    /// `sums + a·b`, vector by vector: by two instructions, or by one.
    macro_rules! step {
        ($name:ident, $unit:ty, $sum:ty, $bits:ty, $vector:ident, $splat:ident, $add:ident, $mul:ident) => {
            step!(@ $name, $unit, $sum, $bits, $vector, $splat, s, a, b, $add(s, $mul(a, b)));
        };
        ($name:ident, $unit:ty, $sum:ty, $bits:ty, $vector:ident, $splat:ident, $fused:ident) => {
            step!(@ $name, $unit, $sum, $bits, $vector, $splat, s, a, b, $fused(s, a, b));
        };
        (@ $name:ident, $unit:ty, $sum:ty, $bits:ty, $vector:ident, $splat:ident, $s:ident, $a:ident, $b:ident, $e:expr) => {
            #[inline(always)]
            fn $name<const NR: usize>(sums: &mut [$sum; NR], a: $unit, b: &[$unit; NR]) {
                let lanes = size_of::<$vector>() / size_of::<$sum>();
                let mut at = 0;
                while at < NR {
                    // SAFETY: a unit is its bits; NR is a multiple of the lanes; the kernels of this type run on CPUs
                    // that have its instructions.
                    unsafe {
                        let to = sums.as_mut_ptr().add(at).cast::<$vector>();
                        let $s = to.read_unaligned();
                        let $a = $splat((&raw const a).cast::<$bits>().read());
                        let $b = b.as_ptr().add(at).cast::<$vector>().read_unaligned();
                        to.write_unaligned($e);
                    }
                    at += lanes;
                }
            }
        };
    }

    // -32768·-32768 twice is the one sum of a pair that leaves 32 bits; it wraps, as it must.
    impl Steps for Four {
        step!(
            pairs,
            Pair,
            u32,
            i32,
            __m128i,
            _mm_set1_epi32,
            _mm_add_epi32,
            _mm_madd_epi16
        );
    }
    #[rustfmt::skip]
    impl Steps for Eight {
        step!(pairs, Pair, u32, i32, __m256i, _mm256_set1_epi32, _mm256_add_epi32, _mm256_madd_epi16);
        step!(words, u32, u32, i32, __m256i, _mm256_set1_epi32, _mm256_add_epi32, _mm256_mullo_epi32);
    }
    #[rustfmt::skip]
    impl Steps for Sixteen {
        step!(pairs, Pair, u32, i32, __m512i, _mm512_set1_epi32, _mm512_add_epi32, _mm512_madd_epi16);
        step!(words, u32, u32, i32, __m512i, _mm512_set1_epi32, _mm512_add_epi32, _mm512_mullo_epi32);
        step!(doubles, u64, u64, i64, __m512i, _mm512_set1_epi64, _mm512_add_epi64, _mm512_mullo_epi64);
    }
    impl Steps for Vnni {
        step!(
            pairs,
            Pair,
            u32,
            i32,
            __m512i,
            _mm512_set1_epi32,
            _mm512_dpwssd_epi32
        );
    }
}
