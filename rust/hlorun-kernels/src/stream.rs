//! Copies past the caches.
//!
//! In: bytes in the cache. Out: the same bytes at a place nobody reads soon, written without fetching it first.
//! Promise: once [`stream_fence`] returned on the thread that copied, other threads it tells see the bytes.

/// Bytes of results from which it pays not to fetch the memory they go to: they displace everything anyway.
pub const STREAM_BYTES: usize = 16 << 20;

/// Copies `bytes` from `src` to `dst`; a [`stream_fence`] has to follow.
///
/// # Safety
/// Both are valid for `bytes` and do not overlap.
pub unsafe fn stream_copy(src: *const u8, dst: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        const LINE: usize = 64;
        let head = dst.align_offset(LINE).min(bytes);
        let lines = (bytes - head) / LINE;
        // SAFETY: head, lines and tail are the range; after the head dst lies on a line's boundary. SSE2 is always
        // there.
        unsafe {
            use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
            std::ptr::copy_nonoverlapping(src, dst, head);
            let (mut from, mut to) = (src.add(head), dst.add(head));
            for _ in 0..lines {
                let (f, t) = (from.cast::<__m128i>(), to.cast::<__m128i>());
                let (a, b) = (_mm_loadu_si128(f), _mm_loadu_si128(f.add(1)));
                let (c, d) = (_mm_loadu_si128(f.add(2)), _mm_loadu_si128(f.add(3)));
                _mm_stream_si128(t, a);
                _mm_stream_si128(t.add(1), b);
                _mm_stream_si128(t.add(2), c);
                _mm_stream_si128(t.add(3), d);
                from = from.add(LINE);
                to = to.add(LINE);
            }
            std::ptr::copy_nonoverlapping(from, to, bytes - head - lines * LINE);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's contract.
    unsafe {
        std::ptr::copy_nonoverlapping(src, dst, bytes);
    }
}

/// Ends a series of [`stream_copy`].
pub fn stream_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is always there.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn copies_any_length_to_any_place() {
        let source: Vec<u8> = (0..1000).map(|i| (i * 7) as u8).collect();
        for shift in [0usize, 1, 4, 63, 64] {
            for bytes in [0usize, 1, 63, 64, 65, 700] {
                let mut target = vec![0u8; 900];
                // SAFETY: both lie inside their vectors.
                unsafe {
                    super::stream_copy(source.as_ptr(), target.as_mut_ptr().add(shift), bytes);
                }
                super::stream_fence();
                assert_eq!(target[shift..shift + bytes], source[..bytes]);
                assert!(target[shift + bytes..].iter().all(|&b| b == 0));
            }
        }
    }
}
