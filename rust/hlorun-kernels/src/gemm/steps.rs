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
