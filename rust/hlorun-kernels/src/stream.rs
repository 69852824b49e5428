//! Copies that leave the caches alone.
//!
//! In: bytes in a cache. Out: the same bytes in memory. Promise: nothing is read of the lines written, and they do not
//! stay in a cache: of data that is larger than the caches, this spares a third of the traffic. [`finish`] must follow
//! before another thread reads what was written.

use crate::isa::Isa;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Copies `bytes` bytes, and asks for as many at `ahead`, which will be read next: memory is then busy in both
/// directions.
///
/// # Safety
/// `from` is valid to read, `to` to write, and they do not overlap.
pub unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize, ahead: Option<*const u8>) {
    let head = to.align_offset(LINE).min(bytes);
    let lines = (bytes - head) / LINE;
    let done = head + lines * LINE;
    let copy: unsafe fn(*const u8, *mut u8, usize, Option<*const u8>) = match Isa::active() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => lines_by_64,
        #[cfg(target_arch = "x86_64")]
        _ => lines_by_16,
        #[cfg(not(target_arch = "x86_64"))]
        _ => lines_by_copying,
    };
    // SAFETY: the caller's contract; `lines` whole lines follow the head.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        copy(from.add(head), to.add(head), lines, ahead);
        std::ptr::copy_nonoverlapping(from.add(done), to.add(done), bytes - done);
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn lines_by_copying(from: *const u8, to: *mut u8, lines: usize, _: Option<*const u8>) {
    // SAFETY: the caller passes so many lines.
    unsafe { std::ptr::copy_nonoverlapping(from, to, lines * LINE) };
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ask(ahead: Option<*const u8>, offset: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    if let Some(at) = ahead {
        // SAFETY: a prefetch reads nothing and never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(offset).cast()) };
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn lines_by_64(from: *const u8, to: *mut u8, lines: usize, ahead: Option<*const u8>) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
    for offset in (0..lines * LINE).step_by(LINE) {
        ask(ahead, offset);
        // SAFETY: the caller passes so many lines, and `to` is a multiple of a line.
        unsafe {
            let line = _mm512_loadu_si512(from.add(offset).cast());
            _mm512_stream_si512(to.add(offset).cast(), line);
        }
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn lines_by_16(from: *const u8, to: *mut u8, lines: usize, ahead: Option<*const u8>) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    for offset in (0..lines * LINE).step_by(LINE) {
        ask(ahead, offset);
        for part in (offset..offset + LINE).step_by(16) {
            // SAFETY: the caller passes so many lines, and `to` is a multiple of a line.
            unsafe {
                let value = _mm_loadu_si128(from.add(part).cast::<__m128i>());
                _mm_stream_si128(to.add(part).cast::<__m128i>(), value);
            }
        }
    }
}

/// Prefetches `bytes` bytes at `at`, an address that need not be valid, into the first-level cache, or with `LATER` into
/// the second-level one.
#[inline(always)]
pub fn expect<const LATER: bool>(at: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..bytes).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        let line = at.wrapping_add(offset).cast();
        // SAFETY: a prefetch reads nothing and never faults, whatever the address.
        unsafe {
            match LATER {
                true => _mm_prefetch::<_MM_HINT_T1>(line),
                false => _mm_prefetch::<_MM_HINT_T0>(line),
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, bytes);
}

/// Makes what this thread has streamed visible to those that it tells about it.
pub fn finish() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_wherever_it_lies() {
        let from: Vec<u8> = (0..1000u32).map(|i| (i * 7) as u8).collect();
        for (start, place, bytes) in [
            (0, 0, 1000),
            (1, 0, 640),
            (0, 5, 700),
            (3, 63, 128),
            (3, 9, 20),
            (0, 0, 0),
        ] {
            let mut to = vec![0u8; 1100];
            // SAFETY: both ranges lie inside their vectors.
            unsafe {
                stream(
                    from.as_ptr().add(start),
                    to.as_mut_ptr().add(place),
                    bytes,
                    Some(from.as_ptr()),
                );
            }
            finish();
            assert_eq!(to[place..place + bytes], from[start..start + bytes]);
            let rest = to[..place].iter().chain(&to[place + bytes..]);
            assert!(rest.copied().all(|byte| byte == 0));
        }
    }
}
