//! Copies a matrix into strips: the order in which the kernels read it.
//!
//! In: a [`Job`], a piece of a matrix of any strides and any stored type. Out: for every step along the depth, the
//! elements of all lanes of the strip side by side, in the type sums are made in; lanes beyond the matrix are zero.

use super::ahead::prefetch;
use super::micro::{Real, Source, load};

/// `to[s][p * width + r] = from[(s * width + r) * lane + p * step]` where `s * width + r < count`, zero beyond; the
/// strips `s` lie one after the other.
pub(super) struct Job<E, S> {
    pub from: *const S,
    /// Elements from one lane to the next: a row of A or a column of B.
    pub lane: isize,
    /// Elements from one step of the depth to the next.
    pub step: isize,
    /// Lanes of the matrix.
    pub count: usize,
    /// Lanes of a strip.
    pub width: usize,
    pub depth: usize,
    pub to: *mut E,
}

/// Runs a job.
///
/// # Safety
/// Every element the strides reach is readable, `width * depth` elements of `to` writable.
pub(super) type Pack<E, S> = unsafe fn(&Job<E, S>);

#[inline(always)]
pub(super) unsafe fn pack<E: Real, S: Source<E>>(job: &Job<E, S>, tier: &Strips<E, S>) {
    let whole = job.count / job.width;
    // SAFETY: the caller's contract.
    unsafe {
        if job.lane == 1 {
            match job.width {
                64 => rows::<E, S, 64>(job),
                48 => rows::<E, S, 48>(job),
                32 => rows::<E, S, 32>(job),
                24 => rows::<E, S, 24>(job),
                16 => rows::<E, S, 16>(job),
                14 => rows::<E, S, 14>(job),
                13 => rows::<E, S, 13>(job),
                12 => rows::<E, S, 12>(job),
                11 => rows::<E, S, 11>(job),
                10 => rows::<E, S, 10>(job),
                9 => rows::<E, S, 9>(job),
                8 => rows::<E, S, 8>(job),
                6 => rows::<E, S, 6>(job),
                4 => rows::<E, S, 4>(job),
                _ => each(job, 0..whole, by_element),
            }
            each(job, whole..job.count.div_ceil(job.width), tier.cut);
        } else if job.step == 1 {
            each(job, 0..job.count.div_ceil(job.width), tier.transpose);
        } else {
            each(job, 0..job.count.div_ceil(job.width), by_element);
        }
    }
}

/// Packs strips one by one.
#[inline(always)]
unsafe fn each<E: Real, S: Source<E>>(
    job: &Job<E, S>,
    strips: std::ops::Range<usize>,
    body: Pack<E, S>,
) {
    for s in strips {
        let first = s * job.width;
        let one = Job {
            from: job.from.wrapping_offset(first as isize * job.lane),
            count: job.width.min(job.count - first),
            to: job.to.wrapping_add(first * job.depth),
            ..*job
        };
        // SAFETY: a strip of the job.
        unsafe { body(&one) }
    }
}

/// What a tier has of its own: for lanes that are contiguous along the depth, and for a cut strip of contiguous lanes.
pub(super) struct Strips<E, S> {
    pub transpose: Pack<E, S>,
    pub cut: Pack<E, S>,
}

/// The strips of contiguous lanes that are whole, a row of all of them at a time.
#[inline(always)]
unsafe fn rows<E: Real, S: Source<E>, const W: usize>(job: &Job<E, S>) {
    let strips = job.count / W;
    // SAFETY: the caller's contract; what lies ahead is only asked for.
    unsafe {
        for p in 0..job.depth {
            let row = job.from.offset(p as isize * job.step);
            let ahead = row.wrapping_offset(AHEAD * job.step);
            for s in 0..strips {
                let mut at = 0;
                while at < W {
                    prefetch(ahead.wrapping_add(s * W + at));
                    at += 64 / size_of::<S>();
                }
                let values = load::<E, S, W>(row.add(s * W));
                let to = job.to.add((s * job.depth + p) * W);
                to.cast::<[E; W]>().write_unaligned(values);
            }
        }
    }
}

/// Rows by which contiguous lanes are asked for ahead.
const AHEAD: isize = 12;

/// A strip of one row-contiguous vector or more that is cut off.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub(super) unsafe fn cut_by_vector<E: Real, S: Source<E>>(job: &Job<E, S>) {
    use std::arch::x86_64::*;
    if size_of::<S>() != 4 || size_of::<E>() != 4 {
        // SAFETY: the caller's contract.
        return unsafe { by_element(job) };
    }
    let mut first = 0;
    while first < job.width {
        let width = 16.min(job.width - first);
        let count = job.count.saturating_sub(first).min(width);
        let (read, write) = (
            ((1u32 << count) - 1) as __mmask16,
            ((1u32 << width) - 1) as __mmask16,
        );
        for p in 0..job.depth {
            // Behind the last element where all of these columns are padding; then nothing is read.
            let from = job.from.wrapping_offset(p as isize * job.step);
            let from = from.wrapping_add(first);
            // SAFETY: masked to the elements of the job; an `S` of four bytes is an `E`.
            unsafe {
                let row = _mm512_maskz_loadu_ps(read, from.cast());
                _mm512_mask_storeu_ps(job.to.add(p * job.width + first).cast(), write, row);
            }
        }
        first += width;
    }
}

/// Any strides, an element at a time.
#[inline(always)]
pub(super) unsafe fn by_element<E: Real, S: Source<E>>(job: &Job<E, S>) {
    // SAFETY: the caller's contract.
    unsafe {
        if job.count < job.width {
            for p in 0..job.depth {
                for r in job.count..job.width {
                    job.to.add(p * job.width + r).write(E::ZERO);
                }
            }
        }
        if job.lane == 1 {
            for p in 0..job.depth {
                let row = job.from.offset(p as isize * job.step);
                for r in 0..job.count {
                    job.to.add(p * job.width + r).write(row.add(r).read().get());
                }
            }
            return;
        }
        for r in 0..job.count {
            let lane = job.from.offset(r as isize * job.lane);
            for p in 0..job.depth {
                let x = lane.offset(p as isize * job.step).read();
                job.to.add(p * job.width + r).write(x.get());
            }
        }
    }
}

/// Contiguous along the depth: squares of one vector's length are transposed in registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub(super) unsafe fn by_vector<E: Real, S: Source<E>>(job: &Job<E, S>) {
    let lanes = 64 / size_of::<E>();
    let whole = job.depth - job.depth % lanes;
    // SAFETY: the caller's contract; the blocks cover `whole` steps, the rest goes element by element.
    unsafe {
        let mut first = 0;
        while first < job.width {
            let width = lanes.min(job.width - first);
            let count = job.count.saturating_sub(first).min(width);
            let from = job.from.offset(first as isize * job.lane);
            let mut p = 0;
            while p < whole {
                for r in 0..count as isize {
                    prefetch(from.wrapping_offset(r * job.lane).wrapping_add(p + 64));
                }
                let to = job.to.add(p * job.width + first);
                if size_of::<E>() == 4 {
                    square32(from.add(p), job.lane, count, to.cast(), job.width, width);
                } else {
                    square64(from.add(p), job.lane, count, to.cast(), job.width, width);
                }
                p += lanes;
            }
            first += width;
        }
        if whole < job.depth {
            by_element(&Job {
                from: job.from.add(whole),
                depth: job.depth - whole,
                to: job.to.add(whole * job.width),
                ..*job
            });
        }
    }
}

/// Sixteen lanes by sixteen steps; `E` has four bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn square32<E: Real, S: Source<E>>(
    from: *const S,
    lane: isize,
    count: usize,
    to: *mut f32,
    to_row: usize,
    width: usize,
) {
    use std::arch::x86_64::*;
    // SAFETY: `count` lanes of sixteen elements are readable, `width` lanes of sixteen rows writable.
    unsafe {
        let mut x = [_mm512_setzero_ps(); 16];
        for (r, x) in x.iter_mut().enumerate().take(count) {
            let values = load::<E, S, 16>(from.offset(r as isize * lane));
            *x = _mm512_loadu_ps((&raw const values).cast());
        }
        // Pairs of lanes, then quadruples inside 128-bit blocks, then the blocks themselves.
        let mut y = x;
        for i in 0..8 {
            y[2 * i] = _mm512_unpacklo_ps(x[2 * i], x[2 * i + 1]);
            y[2 * i + 1] = _mm512_unpackhi_ps(x[2 * i], x[2 * i + 1]);
        }
        let pd = |v| _mm512_castps_pd(v);
        let ps = |v| _mm512_castpd_ps(v);
        for i in 0..4 {
            let (a, b, c, d) = (y[4 * i], y[4 * i + 1], y[4 * i + 2], y[4 * i + 3]);
            x[4 * i] = ps(_mm512_unpacklo_pd(pd(a), pd(c)));
            x[4 * i + 1] = ps(_mm512_unpackhi_pd(pd(a), pd(c)));
            x[4 * i + 2] = ps(_mm512_unpacklo_pd(pd(b), pd(d)));
            x[4 * i + 3] = ps(_mm512_unpackhi_pd(pd(b), pd(d)));
        }
        let mask = ((1u32 << width) - 1) as __mmask16;
        for i in 0..4 {
            let low = _mm512_shuffle_f32x4::<0x88>(x[i], x[i + 4]);
            let high = _mm512_shuffle_f32x4::<0x88>(x[i + 8], x[i + 12]);
            let low_odd = _mm512_shuffle_f32x4::<0xdd>(x[i], x[i + 4]);
            let high_odd = _mm512_shuffle_f32x4::<0xdd>(x[i + 8], x[i + 12]);
            let rows = [
                (i, _mm512_shuffle_f32x4::<0x88>(low, high)),
                (i + 8, _mm512_shuffle_f32x4::<0xdd>(low, high)),
                (i + 4, _mm512_shuffle_f32x4::<0x88>(low_odd, high_odd)),
                (i + 12, _mm512_shuffle_f32x4::<0xdd>(low_odd, high_odd)),
            ];
            for (row, v) in rows {
                _mm512_mask_storeu_ps(to.add(row * to_row), mask, v);
            }
        }
    }
}

/// Eight lanes by eight steps; `E` has eight bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn square64<E: Real, S: Source<E>>(
    from: *const S,
    lane: isize,
    count: usize,
    to: *mut f64,
    to_row: usize,
    width: usize,
) {
    use std::arch::x86_64::*;
    // SAFETY: `count` lanes of eight elements are readable, `width` lanes of eight rows writable.
    unsafe {
        let mut x = [_mm512_setzero_pd(); 8];
        for (r, x) in x.iter_mut().enumerate().take(count) {
            let values = load::<E, S, 8>(from.offset(r as isize * lane));
            *x = _mm512_loadu_pd((&raw const values).cast());
        }
        let mut y = x;
        for i in 0..4 {
            y[2 * i] = _mm512_unpacklo_pd(x[2 * i], x[2 * i + 1]);
            y[2 * i + 1] = _mm512_unpackhi_pd(x[2 * i], x[2 * i + 1]);
        }
        let mask = ((1u32 << width) - 1) as __mmask8;
        for i in 0..2 {
            let low = _mm512_shuffle_f64x2::<0x88>(y[i], y[i + 2]);
            let high = _mm512_shuffle_f64x2::<0x88>(y[i + 4], y[i + 6]);
            let low_odd = _mm512_shuffle_f64x2::<0xdd>(y[i], y[i + 2]);
            let high_odd = _mm512_shuffle_f64x2::<0xdd>(y[i + 4], y[i + 6]);
            let rows = [
                (i, _mm512_shuffle_f64x2::<0x88>(low, high)),
                (i + 4, _mm512_shuffle_f64x2::<0xdd>(low, high)),
                (i + 2, _mm512_shuffle_f64x2::<0x88>(low_odd, high_odd)),
                (i + 6, _mm512_shuffle_f64x2::<0xdd>(low_odd, high_odd)),
            ];
            for (row, v) in rows {
                _mm512_mask_storeu_pd(to.add(row * to_row), mask, v);
            }
        }
    }
}
