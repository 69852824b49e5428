//! Transposes of 4-byte and 8-byte elements, block by block in registers.
//!
//! In: rows of the source that are `src_stride` bytes apart. Out: columns as rows `dst_stride` bytes apart. Promise:
//! whole cache lines are read and written once; [`available`] says whether this CPU has what it takes.

/// Side of a block: one cache line of elements.
pub(crate) const SIDE: usize = 16;
/// The same of 8-byte elements.
pub(crate) const LONG_SIDE: usize = 8;
/// Columns transposed of all rows before the next ones: rows are then read in stretches that the CPU
/// fetches ahead, and few destination lines are open at a time.
pub(crate) const BAND: usize = 128;
/// Bytes from which results are written past the caches: they displace everything anyway.
pub(crate) const STREAM_BYTES: usize = 16 << 20;

/// Whether [`transpose_rows`] can run.
pub(crate) fn available() -> bool {
    crate::Isa::active().is_fused()
}

/// Writes columns of a block, the elements of its lower rows and then those of its upper ones.
#[cfg(target_arch = "x86_64")]
macro_rules! write_columns {
    ($element:ty, $store:ident, $stream:ident, [$low:expr, $high:expr], $to:expr, $stride:expr, $is_stream:expr) => {
        for (c, (l, h)) in $low.into_iter().zip($high).enumerate() {
            let line = $to.offset(c as isize * $stride).cast::<$element>();
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

/// Transposes `columns` columns of 16 rows: element (r, c) of the source becomes element (c, r) of the destination.
/// `stream` writes past the caches where the CPU can, for which `dst` and `dst_stride` are multiples of 32; a
/// [`fence`] has to follow.
///
/// # Safety
/// [`available`]; 16 rows of `columns` elements are readable, `columns` rows of 16 elements writable, `columns` is a
/// multiple of 16; the two do not overlap.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn transpose_rows(
    columns: usize,
    src: *const u8,
    src_stride: isize,
    dst: *mut u8,
    dst_stride: isize,
    stream: bool,
) {
    use std::arch::x86_64::{_mm256_storeu_ps, _mm256_stream_ps};
    for at in (0..columns).step_by(SIDE) {
        // Both halves of a destination line are written one after the other, so that it leaves as one.
        for half in 0..2isize {
            // SAFETY: the block of 16 columns lies inside both arrays.
            unsafe {
                let from = src.add(at * 4).offset(half * 32);
                let to = dst.offset((at as isize + half * 8) * dst_stride);
                let low = block(from, src_stride);
                let high = block(from.offset(8 * src_stride), src_stride);
                write_columns!(
                    f32,
                    _mm256_storeu_ps,
                    _mm256_stream_ps,
                    [low, high],
                    to,
                    dst_stride,
                    stream
                );
            }
        }
    }
}

/// Eight rows of eight elements, transposed.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn block(src: *const u8, stride: isize) -> [std::arch::x86_64::__m256; 8] {
    use std::arch::x86_64::{
        _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_shuffle_ps, _mm256_unpackhi_ps,
        _mm256_unpacklo_ps,
    };
    let row = |i: isize| {
        // SAFETY: the caller promises eight rows.
        unsafe { _mm256_loadu_ps(src.offset(i * stride).cast()) }
    };
    let r: [_; 8] = std::array::from_fn(|i| row(i as isize));
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

/// [`transpose_rows`] of 8-byte elements: 8 rows, and `columns` is a multiple of 8.
///
/// # Safety
/// As there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn transpose_long_rows(
    columns: usize,
    src: *const u8,
    src_stride: isize,
    dst: *mut u8,
    dst_stride: isize,
    stream: bool,
) {
    use std::arch::x86_64::{_mm256_storeu_pd, _mm256_stream_pd};
    for at in (0..columns).step_by(4) {
        // SAFETY: the block of four columns lies inside both arrays.
        unsafe {
            let from = src.add(at * 8);
            let to = dst.offset(at as isize * dst_stride);
            let low = long_block(from, src_stride);
            let high = long_block(from.offset(4 * src_stride), src_stride);
            write_columns!(
                f64,
                _mm256_storeu_pd,
                _mm256_stream_pd,
                [low, high],
                to,
                dst_stride,
                stream
            );
        }
    }
}

/// Four rows of four 8-byte elements, transposed.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn long_block(src: *const u8, stride: isize) -> [std::arch::x86_64::__m256d; 4] {
    use std::arch::x86_64::{
        _mm256_loadu_pd, _mm256_permute2f128_pd, _mm256_unpackhi_pd, _mm256_unpacklo_pd,
    };
    let row = |i: isize| {
        // SAFETY: the caller promises four rows.
        unsafe { _mm256_loadu_pd(src.offset(i * stride).cast()) }
    };
    let r: [_; 4] = std::array::from_fn(|i| row(i as isize));
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

/// As above, an element after the other.
///
/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn transpose_long_rows(
    columns: usize,
    src: *const u8,
    src_stride: isize,
    dst: *mut u8,
    dst_stride: isize,
    _: bool,
) {
    for at in 0..columns {
        for row in 0..LONG_SIDE {
            // SAFETY: the caller's promise.
            unsafe {
                let from = src.add(at * 8).offset(row as isize * src_stride);
                let to = dst.add(row * 8).offset(at as isize * dst_stride);
                let value = from.cast::<u64>().read_unaligned();
                to.cast::<u64>().write_unaligned(value);
            }
        }
    }
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn transpose_rows(
    columns: usize,
    src: *const u8,
    src_stride: isize,
    dst: *mut u8,
    dst_stride: isize,
    _: bool,
) {
    use std::arch::aarch64::vst1q_f32;
    for at in (0..columns).step_by(4) {
        // SAFETY: the block of four columns lies inside both arrays.
        unsafe {
            let from = src.add(at * 4);
            let to = dst.offset(at as isize * dst_stride);
            let blocks: [_; 4] = std::array::from_fn(|q| {
                block(from.offset(4 * q as isize * src_stride), src_stride)
            });
            for c in 0..4 {
                let line = to.offset(c as isize * dst_stride).cast::<f32>();
                for (q, block) in blocks.iter().enumerate() {
                    vst1q_f32(line.add(4 * q), block[c]);
                }
            }
        }
    }
}

/// Four rows of four elements, transposed.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn block(src: *const u8, stride: isize) -> [std::arch::aarch64::float32x4_t; 4] {
    use std::arch::aarch64::{
        vld1q_f32, vreinterpretq_f32_f64, vreinterpretq_f64_f32, vtrn1q_f32, vtrn1q_f64,
        vtrn2q_f32, vtrn2q_f64,
    };
    // SAFETY: the caller promises four rows; every CPU of this architecture has NEON.
    unsafe {
        let r: [_; 4] = std::array::from_fn(|i| vld1q_f32(src.offset(i as isize * stride).cast()));
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

/// Never called, because [`available`] is false.
///
/// # Safety
/// None is needed: it does nothing.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) unsafe fn transpose_rows(
    _: usize,
    _: *const u8,
    _: isize,
    _: *mut u8,
    _: isize,
    _: bool,
) {
}

/// Makes what was written past the caches visible to threads that are told of it afterwards.
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is always there.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
