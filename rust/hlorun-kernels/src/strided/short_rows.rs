//! Rows of so few bytes that a call for each would take longer than the copy.
//!
//! In: the dimension along which the rows lie, and both sides. Out: the copied bytes.

use super::Dim;
use crate::copy::copy;

/// Longest row, in bytes, that is copied with the others around it.
pub const SHORT: usize = 256;

/// Copies rows of `bytes` bytes each.
///
/// # Safety
/// The rows are readable in `src` and writable in `dst`; the two do not overlap.
pub unsafe fn short_rows(rows: Dim, bytes: usize, src: *const u8, dst: *mut u8) {
    // SAFETY: the caller passes rows inside both arrays.
    unsafe {
        if rows.src == 0 && rows.dst == bytes as isize {
            // The same row over and over: what is there already is copied behind it.
            let total = rows.size * bytes;
            copy(src, dst, bytes);
            let mut done = bytes;
            while done < total {
                let more = done.min(total - done);
                copy(dst, dst.add(done), more);
                done += more;
            }
            return;
        }
        match bytes {
            2 => sized_rows::<2>(rows, src, dst),
            3 => sized_rows::<3>(rows, src, dst),
            4 => sized_rows::<4>(rows, src, dst),
            6 => sized_rows::<6>(rows, src, dst),
            8 => sized_rows::<8>(rows, src, dst),
            12 => sized_rows::<12>(rows, src, dst),
            16 => sized_rows::<16>(rows, src, dst),
            24 => sized_rows::<24>(rows, src, dst),
            32 => sized_rows::<32>(rows, src, dst),
            48 => sized_rows::<48>(rows, src, dst),
            64 => sized_rows::<64>(rows, src, dst),
            5 | 7 => ends::<4>(rows, bytes, src, dst),
            9..16 => ends::<8>(rows, bytes, src, dst),
            17..32 => ends::<16>(rows, bytes, src, dst),
            33..64 => ends::<32>(rows, bytes, src, dst),
            65..=128 => ends::<64>(rows, bytes, src, dst),
            _ => {
                for i in 0..rows.size as isize {
                    let (s, d) = (src.offset(i * rows.src), dst.offset(i * rows.dst));
                    copy(s, d, bytes);
                }
            }
        }
    }
}

/// Rows of N to 2 N bytes: the first N and the last N of each.
unsafe fn ends<const N: usize>(rows: Dim, bytes: usize, src: *const u8, dst: *mut u8) {
    let back = bytes - N;
    for i in 0..rows.size as isize {
        // SAFETY: as in short_rows.
        unsafe {
            let (s, d) = (src.offset(i * rows.src), dst.offset(i * rows.dst));
            let first = s.cast::<[u8; N]>().read();
            let last = s.add(back).cast::<[u8; N]>().read();
            d.cast::<[u8; N]>().write(first);
            d.add(back).cast::<[u8; N]>().write(last);
        }
    }
}

unsafe fn sized_rows<const N: usize>(rows: Dim, src: *const u8, dst: *mut u8) {
    for i in 0..rows.size as isize {
        // SAFETY: as in short_rows.
        unsafe {
            let row = src.offset(i * rows.src).cast::<[u8; N]>().read();
            dst.offset(i * rows.dst).cast::<[u8; N]>().write(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_every_length_arrive_and_nothing_else_changes() {
        let from: Vec<u8> = (0..2000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for bytes in 2..=140 {
            let rows = Dim {
                size: 5,
                src: bytes as isize + 3,
                dst: bytes as isize + 1,
            };
            let mut to = vec![0xAAu8; 5 * (bytes + 1)];
            // SAFETY: five rows lie inside both vectors.
            unsafe { short_rows(rows, bytes, from.as_ptr(), to.as_mut_ptr()) };
            for (row, to) in to.chunks(bytes + 1).enumerate() {
                assert_eq!(to[..bytes], from[row * (bytes + 3)..][..bytes], "{bytes}");
                assert_eq!(to[bytes], 0xAA, "{bytes}");
            }
        }
    }
}
