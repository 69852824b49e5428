//! Transposes of blocks of elements in registers.
//!
//! In: a few rows of the source, anywhere in memory. Out: their columns as rows, anywhere in memory. Promise:
//! [`transpose_rows`] writes every element once; [`available`] says whether this CPU has what it takes.

/// Rows and columns of a block of elements of `size` bytes, where there are so many `rows` and `columns` at least: of 4 and 8
/// bytes, rows that make a cache line of each column, or half of one.
pub(crate) fn sides(size: usize, rows: usize, columns: usize) -> Option<(usize, usize)> {
    let sides: &[(usize, usize)] = match size {
        1 => &[(16, 16)],
        2 => &[(8, 8)],
        4 => &[(16, 8), (8, 8)],
        _ => &[(8, 4), (4, 4)],
    };
    let fits = |&(high, wide): &(usize, usize)| high <= rows && wide <= columns;
    sides.iter().copied().find(fits)
}

/// The most rows of a block.
pub(crate) const MAX_SIDE: usize = 16;

/// Columns transposed of all rows before the next ones: rows are then read in stretches that the CPU
/// fetches ahead, and few destination lines are open at a time.
pub(crate) const BAND: usize = 128;

/// The same where each column is on pages of its own, of which a CPU keeps few at hand.
pub(crate) const BAND_OF_PAGES: usize = 32;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// Bytes from which results are written past the caches: they displace everything anyway.
pub(crate) const STREAM_BYTES: usize = 16 << 20;

/// Whether [`transpose_rows`] can run.
pub(crate) fn available() -> bool {
    crate::Isa::active().is_fused()
}

/// Where rows begin and where their columns go, in bytes from the first element of either side.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    /// As many as [`sides`] says.
    pub rows: &'a [isize],
    /// A multiple of what it says. Those that are [`DONE`] are not written.
    pub columns: &'a [isize],
    /// How many columns the last block has.
    pub last: usize,
    /// How many of these it shares with the one before it.
    pub overlap: usize,
}

impl Places<'_> {
    /// The column of the source at which block `at` of `wide` columns begins; before the first one where that was written.
    fn first_column(&self, at: usize, wide: usize) -> isize {
        let all = self.columns.len();
        let column = at * wide;
        // The last block of `sides`, which may be several of these.
        let is_last = column + self.last >= all;
        column as isize - if is_last { self.overlap as isize } else { 0 }
    }
}

/// The place of a column that was written before.
pub(crate) const DONE: isize = isize::MIN;

/// Transposes columns of a few rows of elements of `size` bytes: column `c` becomes the elements at `places.columns[c]`,
/// one after the other. `stream` writes past the caches where the CPU can, for which the columns go to multiples of 32; a
/// [`fence`] has to follow.
///
/// # Safety
/// [`available`]; elements have 1, 2, 4 or 8 bytes; every row has as many elements as there are columns, and every column
/// has room for as many as there are rows; the two do not overlap.
pub(crate) unsafe fn transpose_rows(
    size: usize,
    places: Places<'_>,
    src: *const u8,
    dst: *mut u8,
    stream: bool,
) {
    let sides = sides(size, places.rows.len(), places.columns.len());
    debug_assert!(sides.is_some_and(|(high, wide)| {
        high == places.rows.len() && places.columns.len().is_multiple_of(wide)
    }));
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => imp::bytes(places, src, dst),
            2 => imp::pairs(places, src, dst),
            4 => imp::words(places, src, dst, stream),
            _ => imp::long_words(places, src, dst, stream),
        }
    }
}

/// Makes what was written past the caches visible to threads that are told of it afterwards.
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is always there.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use super::{DONE, Places};
    use std::arch::x86_64::{
        __m128i, __m256, __m256d, _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi8,
        _mm_unpackhi_epi16, _mm_unpacklo_epi8, _mm_unpacklo_epi16, _mm256_loadu_pd,
        _mm256_loadu_ps, _mm256_permute2f128_pd, _mm256_permute2f128_ps, _mm256_shuffle_ps,
        _mm256_storeu_pd, _mm256_storeu_ps, _mm256_stream_pd, _mm256_stream_ps, _mm256_unpackhi_pd,
        _mm256_unpackhi_ps, _mm256_unpacklo_pd, _mm256_unpacklo_ps,
    };

    /// Blocks of as many rows as a register has elements. A round moves the highest bit of a row's number into the
    /// place of an element, and the highest bit of the place into the row's number.
    macro_rules! narrow {
        ($(#[$doc:meta])* $name:ident, $size:literal, $rounds:literal, $low:ident, $high:ident) => {
            $(#[$doc])*
            #[target_feature(enable = "avx2")]
            pub(super) unsafe fn $name(places: Places<'_>, src: *const u8, dst: *mut u8) {
                const SIDE: usize = 16 / $size;
                for (at, columns) in places.columns.chunks_exact(SIDE).enumerate() {
                    let first = places.first_column(at, SIDE) * $size;
                    let row = |i: usize| {
                        // SAFETY: 16 bytes of every row lie in the source.
                        unsafe { _mm_loadu_si128(src.offset(first).offset(places.rows[i]).cast()) }
                    };
                    let mut r: [__m128i; SIDE] = std::array::from_fn(row);
                    for _ in 0..$rounds {
                        let t = r;
                        for k in 0..SIDE / 2 {
                            r[2 * k] = $low(t[k], t[k + SIDE / 2]);
                            r[2 * k + 1] = $high(t[k], t[k + SIDE / 2]);
                        }
                    }
                    // Those that are done come first, so that mostly one look tells that none is.
                    let is_new = columns[0] != DONE;
                    for (column, &place) in r.into_iter().zip(columns) {
                        if is_new || place != DONE {
                            // SAFETY: a column has room for 16 bytes.
                            unsafe { _mm_storeu_si128(dst.offset(place).cast(), column) };
                        }
                    }
                }
            }
        };
    }
    narrow!(
        /// Elements of one byte.
        bytes, 1, 4, _mm_unpacklo_epi8, _mm_unpackhi_epi8
    );
    narrow!(
        /// Elements of two bytes.
        pairs, 2, 3, _mm_unpacklo_epi16, _mm_unpackhi_epi16
    );

    /// Writes columns of a block, the elements of its lower rows and then those of its upper ones.
    macro_rules! write_columns {
        ($element:ty, $store:ident, $stream:ident, [$low:expr, $high:expr], $to:expr, $columns:expr, $is_stream:expr) => {
            for ((l, h), &place) in $low.into_iter().zip($high).zip($columns) {
                if place == DONE {
                    continue;
                }
                let line = $to.offset(place).cast::<$element>();
                let behind = line.add(32 / size_of::<$element>());
                if $is_stream {
                    $stream(line, l);
                    $stream(behind, h);
                } else {
                    $store(line, l);
                    $store(behind, h);
                }
            }
        };
    }

    /// Elements of four bytes.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn words(places: Places<'_>, src: *const u8, dst: *mut u8, stream: bool) {
        for (at, columns) in places.columns.chunks_exact(8).enumerate() {
            // Both halves of a destination line are written one after the other, so that it leaves as one.
            // SAFETY: the block of eight columns lies inside both arrays.
            unsafe {
                let from = src.offset(places.first_column(at, 8) * 4);
                if places.rows.len() == 8 {
                    for (column, &place) in block(from, places.rows).into_iter().zip(columns) {
                        if place != DONE {
                            _mm256_storeu_ps(dst.offset(place).cast(), column);
                        }
                    }
                    continue;
                }
                let low = block(from, &places.rows[..8]);
                let high = block(from, &places.rows[8..]);
                write_columns!(
                    f32,
                    _mm256_storeu_ps,
                    _mm256_stream_ps,
                    [low, high],
                    dst,
                    columns,
                    stream
                );
            }
        }
    }

    /// Eight rows of eight elements, transposed.
    #[target_feature(enable = "avx2")]
    unsafe fn block(src: *const u8, rows: &[isize]) -> [__m256; 8] {
        // SAFETY: the caller promises eight rows.
        let row = |i: usize| unsafe { _mm256_loadu_ps(src.offset(rows[i]).cast()) };
        let r: [_; 8] = std::array::from_fn(row);
        let mut t = r;
        for k in 0..4 {
            t[2 * k] = _mm256_unpacklo_ps(r[2 * k], r[2 * k + 1]);
            t[2 * k + 1] = _mm256_unpackhi_ps(r[2 * k], r[2 * k + 1]);
        }
        let mut u = t;
        for k in 0..2 {
            let q = 4 * k;
            u[q] = _mm256_shuffle_ps::<0x44>(t[q], t[q + 2]);
            u[q + 1] = _mm256_shuffle_ps::<0xee>(t[q], t[q + 2]);
            u[q + 2] = _mm256_shuffle_ps::<0x44>(t[q + 1], t[q + 3]);
            u[q + 3] = _mm256_shuffle_ps::<0xee>(t[q + 1], t[q + 3]);
        }
        let mut out = u;
        for k in 0..4 {
            out[k] = _mm256_permute2f128_ps::<0x20>(u[k], u[k + 4]);
            out[k + 4] = _mm256_permute2f128_ps::<0x31>(u[k], u[k + 4]);
        }
        out
    }

    /// Elements of eight bytes.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn long_words(
        places: Places<'_>,
        src: *const u8,
        dst: *mut u8,
        stream: bool,
    ) {
        for (at, columns) in places.columns.chunks_exact(4).enumerate() {
            // SAFETY: the block of four columns lies inside both arrays.
            unsafe {
                let from = src.offset(places.first_column(at, 4) * 8);
                if places.rows.len() == 4 {
                    for (column, &place) in long_block(from, places.rows).into_iter().zip(columns) {
                        if place != DONE {
                            _mm256_storeu_pd(dst.offset(place).cast(), column);
                        }
                    }
                    continue;
                }
                let low = long_block(from, &places.rows[..4]);
                let high = long_block(from, &places.rows[4..]);
                write_columns!(
                    f64,
                    _mm256_storeu_pd,
                    _mm256_stream_pd,
                    [low, high],
                    dst,
                    columns,
                    stream
                );
            }
        }
    }

    /// Four rows of four elements of eight bytes, transposed.
    #[target_feature(enable = "avx2")]
    unsafe fn long_block(src: *const u8, rows: &[isize]) -> [__m256d; 4] {
        // SAFETY: the caller promises four rows.
        let row = |i: usize| unsafe { _mm256_loadu_pd(src.offset(rows[i]).cast()) };
        let r: [_; 4] = std::array::from_fn(row);
        let even = [
            _mm256_unpacklo_pd(r[0], r[1]),
            _mm256_unpacklo_pd(r[2], r[3]),
        ];
        let odd = [
            _mm256_unpackhi_pd(r[0], r[1]),
            _mm256_unpackhi_pd(r[2], r[3]),
        ];
        [
            _mm256_permute2f128_pd::<0x20>(even[0], even[1]),
            _mm256_permute2f128_pd::<0x20>(odd[0], odd[1]),
            _mm256_permute2f128_pd::<0x31>(even[0], even[1]),
            _mm256_permute2f128_pd::<0x31>(odd[0], odd[1]),
        ]
    }
}

/// Element by element, but for those of four bytes where there is NEON: such CPUs copy rows as fast.
#[cfg(not(target_arch = "x86_64"))]
mod imp {
    use super::{DONE, Places};

    unsafe fn one_by_one<T: Copy>(places: Places<'_>, src: *const u8, dst: *mut u8) {
        let size = size_of::<T>();
        for (at, &place) in places.columns.iter().enumerate() {
            if place == DONE {
                continue;
            }
            let column = places.first_column(at, 1);
            for (i, &row) in places.rows.iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe {
                    let from = src.offset(column * size as isize).offset(row);
                    let value = from.cast::<T>().read_unaligned();
                    let to = dst.add(i * size).offset(place);
                    to.cast::<T>().write_unaligned(value);
                }
            }
        }
    }

    pub(super) unsafe fn bytes(places: Places<'_>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { one_by_one::<u8>(places, src, dst) }
    }

    pub(super) unsafe fn pairs(places: Places<'_>, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { one_by_one::<u16>(places, src, dst) }
    }

    pub(super) unsafe fn long_words(places: Places<'_>, src: *const u8, dst: *mut u8, _: bool) {
        // SAFETY: the caller's promise.
        unsafe { one_by_one::<u64>(places, src, dst) }
    }

    #[cfg(not(target_arch = "aarch64"))]
    pub(super) unsafe fn words(places: Places<'_>, src: *const u8, dst: *mut u8, _: bool) {
        // SAFETY: the caller's promise.
        unsafe { one_by_one::<u32>(places, src, dst) }
    }

    #[cfg(target_arch = "aarch64")]
    pub(super) unsafe fn words(places: Places<'_>, src: *const u8, dst: *mut u8, _: bool) {
        use std::arch::aarch64::vst1q_f32;
        for (at, columns) in places.columns.chunks_exact(4).enumerate() {
            for (q, rows) in places.rows.chunks_exact(4).enumerate() {
                // SAFETY: the block of four columns and rows lies inside both arrays.
                unsafe {
                    let block = block(src.offset(places.first_column(at, 4) * 4), rows);
                    for (column, &place) in block.into_iter().zip(columns) {
                        if place != DONE {
                            vst1q_f32(dst.offset(place).cast::<f32>().add(4 * q), column);
                        }
                    }
                }
            }
        }
    }

    /// Four rows of four elements, transposed.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    unsafe fn block(src: *const u8, rows: &[isize]) -> [std::arch::aarch64::float32x4_t; 4] {
        use std::arch::aarch64::{
            vld1q_f32, vreinterpretq_f32_f64, vreinterpretq_f64_f32, vtrn1q_f32, vtrn1q_f64,
            vtrn2q_f32, vtrn2q_f64,
        };
        // SAFETY: the caller promises four rows; every CPU of this architecture has NEON.
        unsafe {
            let r: [_; 4] = std::array::from_fn(|i| vld1q_f32(src.offset(rows[i]).cast()));
            // Pairs of rows, then the halves of the pairs.
            let pairs = [
                vtrn1q_f32(r[0], r[1]),
                vtrn2q_f32(r[0], r[1]),
                vtrn1q_f32(r[2], r[3]),
                vtrn2q_f32(r[2], r[3]),
            ]
            .map(|pair| vreinterpretq_f64_f32(pair));
            [
                vtrn1q_f64(pairs[0], pairs[2]),
                vtrn1q_f64(pairs[1], pairs[3]),
                vtrn2q_f64(pairs[0], pairs[2]),
                vtrn2q_f64(pairs[1], pairs[3]),
            ]
            .map(|column| vreinterpretq_f32_f64(column))
        }
    }
}
