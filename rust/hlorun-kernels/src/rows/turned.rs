//! Values of neighbouring rows by column, so that rows are folded side by side.
//!
//! In: where the rows begin, and how long they are. Out: their first four columns, for which four values are read from the
//! beginning of each row, however long it is: the caller sees to it that they are there. Or both columns of rows of two.

use crate::elementwise::Tier;

/// Rows, and columns of them.
pub const ROWS: usize = 8;
pub const COLUMNS: usize = 4;

/// The first values of rows that are `size` apart, column by column.
///
/// # Safety
/// The CPU has the tier's instruction set; from the beginning of each row on so many values are readable.
#[inline(always)]
pub unsafe fn turned<T: Tier, A: Copy>(first: *const A, size: usize) -> [[A; ROWS]; COLUMNS] {
    // SAFETY: the caller's contract; both arrays have the same size, and any bits of a number of four or
    // eight bytes are those of a float.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if T::FUSED && matches!(size_of::<A>(), 4 | 8) {
            return match size_of::<A>() {
                4 => std::mem::transmute_copy(&x86::words(first.cast(), size)),
                _ => std::mem::transmute_copy(&x86::long_words(first.cast(), size)),
            };
        }
        std::array::from_fn(|column| {
            std::array::from_fn(|row| first.add(row * size + column).read_unaligned())
        })
    }
}

/// The values of [`ROWS`] rows of two that follow each other, column by column.
///
/// # Safety
/// The CPU has the tier's instruction set; so many values are readable.
#[inline(always)]
pub unsafe fn pairs<T: Tier, A: Copy>(first: *const A) -> [[A; ROWS]; 2] {
    // SAFETY: as above.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if T::FUSED && matches!(size_of::<A>(), 4 | 8) {
            return match size_of::<A>() {
                4 => std::mem::transmute_copy(&x86::word_pairs(first.cast())),
                _ => std::mem::transmute_copy(&x86::long_word_pairs(first.cast())),
            };
        }
        std::array::from_fn(|column| {
            std::array::from_fn(|row| first.add(row * 2 + column).read_unaligned())
        })
    }
}

// Without closures, which have no instruction set of their own and would be calls.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Elements of four bytes, of eight rows of two.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub unsafe fn word_pairs(first: *const f32) -> [__m256; 2] {
        // SAFETY: the caller passes so many elements.
        let (a, b) = unsafe { (_mm256_loadu_ps(first), _mm256_loadu_ps(first.add(8))) };
        // Halves of both lie in turn: the quarters in the middle change places.
        macro_rules! in_order {
            ($x:expr) => {
                _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(_mm256_castps_pd($x)))
            };
        }
        [
            in_order!(_mm256_shuffle_ps::<0x88>(a, b)),
            in_order!(_mm256_shuffle_ps::<0xdd>(a, b)),
        ]
    }

    /// Elements of eight bytes, of eight rows of two.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub unsafe fn long_word_pairs(first: *const f64) -> [[__m256d; 2]; 2] {
        macro_rules! half {
            ($unpack:ident, $at:literal) => {{
                let (a, b) = (
                    _mm256_loadu_pd(first.add($at)),
                    _mm256_loadu_pd(first.add($at + 4)),
                );
                _mm256_permute4x64_pd::<0xd8>($unpack(a, b))
            }};
        }
        // SAFETY: the caller passes so many elements.
        unsafe {
            [
                [half!(_mm256_unpacklo_pd, 0), half!(_mm256_unpacklo_pd, 8)],
                [half!(_mm256_unpackhi_pd, 0), half!(_mm256_unpackhi_pd, 8)],
            ]
        }
    }

    /// Elements of four bytes, of eight rows `size` apart that have four elements each.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub unsafe fn words(first: *const f32, size: usize) -> [__m256; 4] {
        macro_rules! pair {
            ($row:literal) => {
                _mm256_insertf128_ps::<1>(
                    _mm256_castps128_ps256(_mm_loadu_ps(first.add($row * size))),
                    _mm_loadu_ps(first.add(($row + 4) * size)),
                )
            };
        }
        // SAFETY: the caller passes eight rows of four elements at least.
        let (a, b, c, d) = unsafe { (pair!(0), pair!(1), pair!(2), pair!(3)) };
        let (low, low2) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
        let (high, high2) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
        [
            _mm256_shuffle_ps::<0x44>(low, low2),
            _mm256_shuffle_ps::<0xee>(low, low2),
            _mm256_shuffle_ps::<0x44>(high, high2),
            _mm256_shuffle_ps::<0xee>(high, high2),
        ]
    }

    /// Elements of eight bytes, of eight rows `size` apart that have four elements each; a column is two registers.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub unsafe fn long_words(first: *const f64, size: usize) -> [[__m256d; 2]; 4] {
        // SAFETY: the caller passes eight rows of four elements at least.
        let (x, y) = unsafe { (four(first, size), four(first.add(4 * size), size)) };
        [[x[0], y[0]], [x[1], y[1]], [x[2], y[2]], [x[3], y[3]]]
    }

    /// The same of four rows, of which a column is one register.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn four(first: *const f64, size: usize) -> [__m256d; 4] {
        macro_rules! load {
            ($row:literal) => {
                _mm256_loadu_pd(first.add($row * size))
            };
        }
        // SAFETY: the caller passes four rows of four elements at least.
        let (a, b, c, d) = unsafe { (load!(0), load!(1), load!(2), load!(3)) };
        let (low, low2) = (_mm256_unpacklo_pd(a, b), _mm256_unpacklo_pd(c, d));
        let (high, high2) = (_mm256_unpackhi_pd(a, b), _mm256_unpackhi_pd(c, d));
        [
            _mm256_permute2f128_pd::<0x20>(low, low2),
            _mm256_permute2f128_pd::<0x20>(high, high2),
            _mm256_permute2f128_pd::<0x31>(low, low2),
            _mm256_permute2f128_pd::<0x31>(high, high2),
        ]
    }
}
