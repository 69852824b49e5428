//! Copies of a row.
//!
//! In: a row of contiguous bytes. Out: its copy. A call of the system's `memcpy` costs more than copying a short row, and
//! some CPUs' copy instructions are slow where source and destination are nearly equal modulo the page size, as those of
//! arrays often are.

use crate::Isa;

/// Longest row, in bytes, that is copied inline, by code that every CPU has.
const SHORT: usize = 256;
/// Shortest row, in bytes, that is left to `memcpy`, which may write past the caches.
const LONG: usize = 8 << 20;
/// Bytes that are copied at once.
const STEP: usize = 32;
/// Bytes of a vector, and of a cache line.
const LINE: usize = 64;

/// Copies `bytes` bytes.
///
/// # Safety
/// `from` holds so many bytes, `to` has room for them, and the two do not overlap.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise; every step lies inside the row.
    unsafe {
        match bytes {
            0 => {}
            1 => to.write(from.read()),
            2..4 => ends::<u16>(from, to, bytes),
            4..8 => ends::<u32>(from, to, bytes),
            8..16 => ends::<u64>(from, to, bytes),
            16..STEP => ends::<[u64; 2]>(from, to, bytes),
            STEP..=SHORT => {
                let mut at = 0;
                while at + STEP <= bytes {
                    step(from, to, at);
                    at += STEP;
                }
                step(from, to, bytes - STEP);
            }
            _ => long(from, to, bytes),
        }
    }
}

/// The first and the last element of a row that has at least one and at most two.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
unsafe fn ends<T: Copy>(from: *const u8, to: *mut u8, bytes: usize) {
    let back = bytes - size_of::<T>();
    // SAFETY: the caller's promise.
    unsafe {
        let first = from.cast::<T>().read_unaligned();
        let last = from.add(back).cast::<T>().read_unaligned();
        to.cast::<T>().write_unaligned(first);
        to.add(back).cast::<T>().write_unaligned(last);
    }
}

/// Bytes `at..at + STEP`.
///
/// # Safety
/// Both hold them.
#[inline(always)]
unsafe fn step(from: *const u8, to: *mut u8, at: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let value = from.add(at).cast::<[u64; STEP / 8]>().read_unaligned();
        to.add(at).cast::<[u64; STEP / 8]>().write_unaligned(value);
    }
}

/// [`copy`] of more than [`SHORT`] bytes.
///
/// # Safety
/// As for that.
#[inline(never)]
unsafe fn long(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise; the active instruction set is available.
    unsafe {
        if bytes >= LONG {
            return std::ptr::copy_nonoverlapping(from, to, bytes);
        }
        of_tier!(Isa::active(), run(from, to, bytes));
    }
}

/// The body of [`long`], compiled for each instruction set.
///
/// # Safety
/// As for that.
#[inline(always)]
unsafe fn lines(from: *const u8, to: *mut u8, bytes: usize) {
    type Line = [u64; LINE / 8];
    /// Lines that are read before any of them is written.
    const AT_ONCE: usize = 4;
    // SAFETY: the caller's promise; there are more bytes than the lines that are read at once.
    unsafe {
        let line = |at: usize| {
            let value = from.add(at).cast::<Line>().read_unaligned();
            to.add(at).cast::<Line>().write_unaligned(value);
        };
        // From here on, every store fills a cache line of the destination.
        line(0);
        let mut at = LINE - to.addr() % LINE;
        while at + AT_ONCE * LINE <= bytes {
            let values = from.add(at).cast::<[Line; AT_ONCE]>().read_unaligned();
            to.add(at).cast::<[Line; AT_ONCE]>().write_unaligned(values);
            at += AT_ONCE * LINE;
        }
        while at + LINE <= bytes {
            line(at);
            at += LINE;
        }
        line(bytes - LINE);
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            $(#[$features])?
            pub unsafe fn run(from: *const u8, to: *mut u8, bytes: usize) {
                // SAFETY: the caller's promise.
                unsafe { super::lines(from, to, bytes) }
            }
        }
    };
}
each_tier!(tier);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_and_no_other_changes() {
        let from: Vec<u8> = (0..5000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let lengths = (0..70)
            .chain(250..330)
            .chain([511, 512, 1000, 2113, 4095, 4800]);
        for bytes in lengths {
            for (start, place) in [(0, 0), (1, 0), (0, 5), (3, 63), (64, 17)] {
                let mut to = vec![0u8; 5000];
                // SAFETY: both ranges lie inside their vectors.
                unsafe { copy(from.as_ptr().add(start), to.as_mut_ptr().add(place), bytes) };
                assert_eq!(to[place..place + bytes], from[start..start + bytes]);
                let rest = to[..place].iter().chain(&to[place + bytes..]);
                assert!(
                    rest.copied().all(|byte| byte == 0),
                    "{bytes} {start} {place}"
                );
            }
        }
    }

    #[test]
    fn the_longest_rows_are_copied_too() {
        let from: Vec<u8> = (0..LONG as u32 + 3).map(|i| (i >> 5) as u8).collect();
        for bytes in [LONG - 1, LONG, LONG + 3] {
            let mut to = vec![0u8; bytes];
            // SAFETY: both vectors hold so many bytes.
            unsafe { copy(from.as_ptr(), to.as_mut_ptr(), bytes) };
            assert!(to[..] == from[..bytes]);
        }
    }
}
