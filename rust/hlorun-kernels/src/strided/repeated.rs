//! Rows of a few equal elements: each element several times, side by side.
//!
//! In: elements, and how often each is written. Out: their copies. A call per row would take longer than the row.

use super::Dim;
use super::fill::{WORD, fill};
use crate::isa::Isa;

/// Longest row of equal elements that is written with the others around it.
pub const REPEATED: usize = 16;

/// Writes every element of `rows` `count` times, side by side.
///
/// # Safety
/// The elements are readable in `src`, `count` times as many writable in `dst`; the two do not overlap.
pub unsafe fn repeated(elem_size: usize, rows: Dim, count: usize, src: *const u8, dst: *mut u8) {
    // SAFETY: the caller's contract; the tier is active.
    unsafe { by(Isa::active(), elem_size, rows, count, src, dst) }
}

/// The same by a tier that the CPU has.
unsafe fn by(isa: Isa, elem_size: usize, rows: Dim, count: usize, src: *const u8, dst: *mut u8) {
    // SAFETY: the caller's contract.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if rows.dst == (elem_size * count) as isize
            && let Some(vectors) = x86::vectors(isa, elem_size, count)
        {
            return match rows.src == elem_size as isize {
                true => vectors(elem_size, rows.size, count, src, dst),
                false => {
                    by_size!(elem_size, gathered(vectors, rows, count, src, dst), {});
                }
            };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = isa;
        match is_written(elem_size, count) {
            true => by_size!(elem_size, each(rows, count, src, dst), {
                row_by_row(elem_size, rows, count, src, dst);
            }),
            false => row_by_row(elem_size, rows, count, src, dst),
        }
    }
}

/// Puts elements that lie apart side by side first, some at a time.
#[cfg(target_arch = "x86_64")]
unsafe fn gathered<T: Copy>(
    vectors: x86::Vectors,
    rows: Dim,
    count: usize,
    src: *const u8,
    dst: *mut u8,
) {
    const AT_ONCE: usize = 64;
    let size = size_of::<T>();
    let mut room = std::mem::MaybeUninit::<[T; AT_ONCE]>::uninit();
    let to = room.as_mut_ptr().cast::<T>();
    for first in (0..rows.size).step_by(AT_ONCE) {
        let n = AT_ONCE.min(rows.size - first);
        // SAFETY: as in repeated; as many elements are read as were put side by side.
        unsafe {
            let src = src.offset(first as isize * rows.src);
            for i in 0..n {
                let from = src.offset(i as isize * rows.src).cast::<T>();
                to.add(i).write(from.read_unaligned());
            }
            vectors(size, n, count, to.cast(), dst.add(first * count * size));
        }
    }
}

/// Whether elements are written one by one rather than by a fill for each row: fewer bytes than a word, or counts that fill
/// vectors.
fn is_written(elem_size: usize, count: usize) -> bool {
    let has_words = elem_size <= WORD && elem_size * count >= WORD;
    count <= REPEATED && (!has_words || matches!(count, 2 | 3 | 4 | 8))
}

unsafe fn row_by_row(elem_size: usize, rows: Dim, count: usize, src: *const u8, dst: *mut u8) {
    for i in 0..rows.size as isize {
        // SAFETY: as in repeated.
        unsafe {
            let (s, d) = (src.offset(i * rows.src), dst.offset(i * rows.dst));
            fill(elem_size, s, d, count);
        }
    }
}

unsafe fn each<T: Copy>(rows: Dim, count: usize, src: *const u8, dst: *mut u8) {
    // SAFETY: as in repeated.
    unsafe {
        match count {
            2 => times::<T, 2>(rows, src, dst),
            3 => times::<T, 3>(rows, src, dst),
            4 => times::<T, 4>(rows, src, dst),
            // Counts that are constants, so that the compiler does not call `memset` for each row of bytes.
            5 => times::<T, 5>(rows, src, dst),
            6 => times::<T, 6>(rows, src, dst),
            7 => times::<T, 7>(rows, src, dst),
            8 => times::<T, 8>(rows, src, dst),
            _ => {
                for i in 0..rows.size as isize {
                    let value = src.offset(i * rows.src).cast::<T>().read_unaligned();
                    let to = dst.offset(i * rows.dst).cast::<T>();
                    for k in 0..count {
                        to.add(k).write_unaligned(value);
                    }
                }
            }
        }
    }
}

unsafe fn times<T: Copy, const N: usize>(rows: Dim, src: *const u8, dst: *mut u8) {
    // Steps that are known where they are plain, so that the copy goes by vectors.
    let is_dense = rows.src == size_of::<T>() as isize && rows.dst == (N * size_of::<T>()) as isize;
    if is_dense {
        for i in 0..rows.size {
            // SAFETY: as in repeated.
            unsafe {
                let value = src.cast::<T>().add(i).read_unaligned();
                dst.cast::<[T; N]>().add(i).write_unaligned([value; N]);
            }
        }
        return;
    }
    for i in 0..rows.size as isize {
        // SAFETY: as in repeated.
        unsafe {
            let value = src.offset(i * rows.src).cast::<T>().read_unaligned();
            let to = dst.offset(i * rows.dst).cast::<[T; N]>();
            to.write_unaligned([value; N]);
        }
    }
}

/// A vector of elements makes as many vectors of the result as each is repeated: every one has lanes picked from it.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::REPEATED;
    use crate::isa::Isa;
    use std::arch::x86_64::*;

    /// Writes the elements of so many bytes, as many as there are rows, so often.
    ///
    /// # Safety
    /// As [`super::repeated`], of rows without gaps; the CPU has the tier, and the function is the one for the size.
    pub type Vectors = unsafe fn(usize, usize, usize, *const u8, *mut u8);

    /// The function for elements of `elem_size` bytes that are repeated `count` times, if the tier has one.
    pub fn vectors(isa: Isa, elem_size: usize, count: usize) -> Option<Vectors> {
        if !(2..=REPEATED).contains(&count) {
            return None;
        }
        match (isa, elem_size) {
            (Isa::Avx512 | Isa::Avx2, 1) => Some(bytes_by_16),
            (Isa::Avx512, 2) => Some(halves_by_64),
            (Isa::Avx512, 4 | 8) => Some(words_by_64),
            (Isa::Avx2, 4 | 8) => Some(words_by_32),
            _ => None,
        }
    }

    /// By how often an element is repeated: which lane of a vector of the source each lane has of the vectors that are made
    /// of it. Shorter vectors need only the first of these.
    type Picks = [[u8; 32 * REPEATED]; REPEATED + 1];
    /// Of elements of one lane, and of two.
    static PICKS: [Picks; 2] = [picks(1, 32), picks(2, 16)];

    const fn picks(parts: usize, widest: usize) -> Picks {
        let mut picks = [[0; 32 * REPEATED]; REPEATED + 1];
        let mut count = 2;
        while count <= REPEATED {
            let mut at = 0;
            while at < widest * count {
                picks[count][at] = (at / parts / count * parts + at % parts) as u8;
                at += 1;
            }
            count += 1;
        }
        picks
    }

    /// Defines a function for vectors of so many lanes of so many bytes: how picks are loaded, and how vectors are loaded,
    /// picked from and stored, whole or the first lanes.
    macro_rules! by_vectors {
        ($(#[$features:meta])? $name:ident, $lanes:literal of $bytes:literal: $picks:ident, $load:ident, $load_part:ident, $pick:ident, $store:ident, $store_part:ident) => {
            /// # Safety
            /// As [`Vectors`].
            $(#[$features])?
            unsafe fn $name(elem_size: usize, rows: usize, count: usize, src: *const u8, dst: *mut u8) {
                const LANES: usize = $lanes;
                const BYTES: usize = $bytes * LANES;
                let parts = elem_size / $bytes;
                let picks = &PICKS[parts - 1][count].as_chunks::<LANES>().0[..count];
                let vectors = rows * parts / LANES;
                // SAFETY: as many vectors of the source are whole, and after these so many lanes are left.
                unsafe {
                    for at in 0..vectors {
                        let values = $load(src.add(at * BYTES).cast());
                        let dst = dst.add(at * count * BYTES);
                        for (to, pick) in picks.iter().enumerate() {
                            let values = $pick($picks(pick), values);
                            $store(dst.add(to * BYTES).cast(), values);
                        }
                    }
                    let left = rows * parts - vectors * LANES;
                    if left == 0 {
                        return;
                    }
                    let values = $load_part(src.add(vectors * BYTES).cast(), left);
                    let dst = dst.add(vectors * count * BYTES);
                    for (to, pick) in picks.iter().enumerate().take((left * count).div_ceil(LANES)) {
                        let values = $pick($picks(pick), values);
                        let dst = dst.add(to * BYTES).cast();
                        // A part takes longer.
                        match left * count - to * LANES {
                            LANES.. => $store(dst, values),
                            room => $store_part(dst, values, room),
                        }
                    }
                }
            }
        };
    }
    by_vectors!(#[target_feature(enable = "avx512f,avx512bw")] halves_by_64, 32 of 2: picks_32, _mm512_loadu_si512, load_32, _mm512_permutexvar_epi16, _mm512_storeu_si512, store_32);
    by_vectors!(#[target_feature(enable = "avx512f")] words_by_64, 16 of 4: picks_16, _mm512_loadu_si512, load_16, _mm512_permutexvar_epi32, _mm512_storeu_si512, store_16);
    by_vectors!(#[target_feature(enable = "avx2")] words_by_32, 8 of 4: picks_8, _mm256_loadu_si256, load_8, pick_8, _mm256_storeu_si256, store_8);

    by_vectors!(#[target_feature(enable = "avx2")] bytes_by_16, 16 of 1: picks_bytes, _mm_loadu_si128, load_bytes, pick_bytes, _mm_storeu_si128, store_bytes);

    #[inline]
    #[target_feature(enable = "avx2")]
    fn picks_bytes(picks: &[u8; 16]) -> __m128i {
        // SAFETY: sixteen bytes.
        unsafe { _mm_loadu_si128(picks.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn pick_bytes(picks: __m128i, values: __m128i) -> __m128i {
        _mm_shuffle_epi8(values, picks)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load_bytes(from: *const __m128i, count: usize) -> __m128i {
        let mut bytes = [0u8; 16];
        // SAFETY: the caller's lanes, at most sixteen.
        unsafe {
            std::ptr::copy_nonoverlapping(from.cast::<u8>(), bytes.as_mut_ptr(), count);
            _mm_loadu_si128(bytes.as_ptr().cast())
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store_bytes(to: *mut __m128i, values: __m128i, count: usize) {
        let mut bytes = [0u8; 16];
        // SAFETY: room for the caller's lanes, at most sixteen.
        unsafe {
            _mm_storeu_si128(bytes.as_mut_ptr().cast(), values);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>(), count);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn picks_32(picks: &[u8; 32]) -> __m512i {
        // SAFETY: as many bytes.
        _mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(picks.as_ptr().cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load_32(from: *const __m512i, count: usize) -> __m512i {
        // SAFETY: the caller's lanes.
        unsafe { _mm512_maskz_loadu_epi16(u32::MAX >> (32 - count), from.cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn store_32(to: *mut __m512i, values: __m512i, count: usize) {
        // SAFETY: room for the caller's lanes.
        unsafe { _mm512_mask_storeu_epi16(to.cast(), u32::MAX >> (32 - count), values) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn picks_16(picks: &[u8; 16]) -> __m512i {
        // SAFETY: sixteen bytes.
        _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(picks.as_ptr().cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_16(from: *const __m512i, count: usize) -> __m512i {
        // SAFETY: the caller's lanes.
        unsafe { _mm512_maskz_loadu_epi32(0xffff >> (16 - count), from.cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store_16(to: *mut __m512i, values: __m512i, count: usize) {
        // SAFETY: room for the caller's lanes.
        unsafe { _mm512_mask_storeu_epi32(to.cast(), 0xffff >> (16 - count), values) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn picks_8(picks: &[u8; 8]) -> __m256i {
        // SAFETY: eight bytes.
        _mm256_cvtepu8_epi32(unsafe { _mm_loadl_epi64(picks.as_ptr().cast()) })
    }

    /// A lane's top bit says whether it is there.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn first_of_8(count: usize) -> __m256i {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load_8(from: *const __m256i, count: usize) -> __m256i {
        // SAFETY: the caller's lanes.
        unsafe { _mm256_maskload_epi32(from.cast(), first_of_8(count)) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store_8(to: *mut __m256i, values: __m256i, count: usize) {
        // SAFETY: room for the caller's lanes.
        unsafe { _mm256_maskstore_epi32(to.cast(), first_of_8(count), values) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn pick_8(picks: __m256i, values: __m256i) -> __m256i {
        _mm256_permutevar8x32_epi32(values, picks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_written_as_often_as_asked() {
        for isa in Isa::available() {
            for elem_size in [1, 2, 3, 4, 8, 16] {
                for (count, size) in (1..20).flat_map(|c| (0..40).chain([70]).map(move |s| (c, s)))
                {
                    for [step, gap] in [[0, 0], [0, 1], [1, 0]] {
                        check(isa, [elem_size, count, size], [elem_size + step, gap]);
                    }
                }
            }
        }
    }

    /// Copies of each element, `step` bytes apart, and nothing else; rows have a gap between them.
    fn check(isa: Isa, [elem_size, count, size]: [usize; 3], [step, gap]: [usize; 2]) {
        let from: Vec<u8> = (0..size * step + 1)
            .map(|i| (i * 7 + i / 256) as u8)
            .collect();
        let row = elem_size * count + gap;
        let rows = Dim {
            size,
            src: step as isize,
            dst: row as isize,
        };
        let mut want = vec![0xAAu8; size * row + 64];
        let mut got = want.clone();
        // SAFETY: rows lie inside both vectors.
        unsafe { by(isa, elem_size, rows, count, from.as_ptr(), got.as_mut_ptr()) };
        for (i, row) in want.chunks_exact_mut(row).take(size).enumerate() {
            for to in row[..elem_size * count].chunks_exact_mut(elem_size) {
                to.copy_from_slice(&from[i * step..][..elem_size]);
            }
        }
        assert!(got == want, "{isa:?}: {size} of {elem_size}, {count} times");
    }
}
