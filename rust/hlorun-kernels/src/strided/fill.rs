//! Fills: one element over and over.
//!
//! In: an element, and how often. Out: its copies, a cache line at a time.

use crate::isa::Isa;

/// Writes `n` copies of the `elem_size` bytes at `pattern`.
///
/// # Safety
/// `pattern` is readable and `dst` writable for their sizes; they do not overlap.
pub unsafe fn fill(elem_size: usize, pattern: *const u8, dst: *mut u8, n: usize) {
    let bytes = n * elem_size;
    if (WORD..LINE).contains(&bytes) && WORD.is_multiple_of(elem_size) {
        // SAFETY: the caller's contract; a word of elements fits.
        return unsafe { words(elem_size, pattern, dst, bytes) };
    }
    if bytes < LINE || !LINE.is_multiple_of(elem_size) {
        for at in (0..bytes).step_by(elem_size.max(1)) {
            // SAFETY: the caller's contract.
            unsafe { std::ptr::copy_nonoverlapping(pattern, dst.add(at), elem_size) };
        }
        return;
    }
    let mut line = [0u8; LINE];
    // SAFETY: the caller's contract; elements divide the line.
    unsafe {
        by_size!(elem_size, repeat(pattern, &mut line), {
            for at in (0..LINE).step_by(elem_size) {
                std::ptr::copy_nonoverlapping(pattern, line.as_mut_ptr().add(at), elem_size);
            }
        });
    }
    let run: unsafe fn(&[u8; LINE], *mut u8, usize) = match Isa::active() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => lines_by_64,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => lines_by_32,
        _ => lines,
    };
    // SAFETY: the tiers are active. Whole lines fit, and the last one ends where the elements do.
    unsafe {
        run(&line, dst, bytes / LINE);
        dst.add(bytes - LINE).cast::<[u8; LINE]>().write(line);
    }
}

/// Bytes that a short fill writes at once.
pub const WORD: usize = 8;

/// Writes `bytes` bytes of an element that divides a word, a word or more of them. The last word ends where the elements
/// do, and overlaps the one before.
unsafe fn words(elem_size: usize, pattern: *const u8, dst: *mut u8, bytes: usize) {
    // SAFETY: the caller's element, and room for the bytes.
    unsafe {
        let word: u64 = match elem_size {
            1 => u64::from(pattern.read()) * 0x0101_0101_0101_0101,
            2 => u64::from(pattern.cast::<u16>().read_unaligned()) * 0x0001_0001_0001_0001,
            4 => u64::from(pattern.cast::<u32>().read_unaligned()) * 0x0000_0001_0000_0001,
            _ => pattern.cast::<u64>().read_unaligned(),
        };
        for at in (0..bytes - WORD).step_by(WORD) {
            dst.add(at).cast::<u64>().write_unaligned(word);
        }
        dst.add(bytes - WORD).cast::<u64>().write_unaligned(word);
    }
}

/// Fills a line with the element at `pattern`.
unsafe fn repeat<T: Copy>(pattern: *const u8, line: &mut [u8; LINE]) {
    // SAFETY: the caller's element, and a line's worth of them.
    unsafe {
        let x = pattern.cast::<T>().read_unaligned();
        let to = line.as_mut_ptr().cast::<T>();
        for i in 0..LINE / size_of::<T>() {
            to.add(i).write_unaligned(x);
        }
    }
}

/// Bytes that are filled at once.
const LINE: usize = 64;

#[inline(always)]
unsafe fn lines(line: &[u8; LINE], dst: *mut u8, count: usize) {
    for at in 0..count {
        // SAFETY: the caller passes room for so many lines, of any alignment.
        unsafe { dst.cast::<[u8; LINE]>().add(at).write(*line) };
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn lines_by_64(line: &[u8; LINE], dst: *mut u8, count: usize) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_storeu_si512};
    // SAFETY: as in lines.
    unsafe {
        let line = _mm512_loadu_si512(line.as_ptr().cast());
        for at in 0..count {
            _mm512_storeu_si512(dst.add(at * LINE).cast(), line);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn lines_by_32(line: &[u8; LINE], dst: *mut u8, count: usize) {
    // SAFETY: as in lines.
    unsafe { lines(line, dst, count) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_of_any_length_write_the_elements_alone() {
        for elem_size in [1usize, 2, 3, 4, 8, 12, 16, 32] {
            let pattern: Vec<u8> = (1..=elem_size as u8).collect();
            for n in 0..150 {
                let mut room = vec![0u8; (n + 2) * elem_size];
                // SAFETY: room for n elements behind the first.
                unsafe {
                    fill(
                        elem_size,
                        pattern.as_ptr(),
                        room.as_mut_ptr().add(elem_size),
                        n,
                    )
                };
                let (before, rest) = room.split_at(elem_size);
                let (filled, after) = rest.split_at(n * elem_size);
                assert!(before.iter().chain(after).all(|&byte| byte == 0));
                assert!(filled.chunks(elem_size).all(|element| element == pattern));
            }
        }
    }
}
