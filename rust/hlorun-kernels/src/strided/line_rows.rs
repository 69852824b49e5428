//! Rows of half a cache line or more, each a copy of a row elsewhere, or one element over and over.
//!
//! In: where the first row is, and how far the next one. Out: all of them, side by side. A call per row costs
//! more than such a row does.

use crate::isa::Isa;

/// Bytes that are written at once.
const LINE: usize = 64;

/// Fewest bytes of such a row: half a line.
pub const MIN_BYTES: usize = LINE / 2;

/// Rows that are put side by side.
#[derive(Clone, Copy, Debug)]
pub struct LineRows {
    /// Bytes of an element: 1, 2, 4 or 8.
    pub elem_size: usize,
    /// Elements of a row, which has [`MIN_BYTES`] or more.
    pub elements: usize,
    /// Whether a row is one element over and over.
    pub is_repeated: bool,
    /// Bytes from one row to the next.
    pub step: isize,
}

impl LineRows {
    /// Writes `count` rows to `to`.
    ///
    /// # Safety
    /// Row `i` is at `from + i * step`: its elements are readable there, or the one element that it repeats.
    /// `to` has room for all rows and overlaps nothing that is read.
    pub unsafe fn write(self, from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: the caller's contract; the tier is active.
        unsafe { of_tier!(Isa::active(), run(self, from, to, count)) }
    }
}

#[inline(always)]
unsafe fn body(rows: LineRows, from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        match (rows.is_repeated, rows.elem_size) {
            (false, _) => copied(rows, from, to, count),
            (true, 1) => repeated::<u8, LINE>(rows, from, to, count),
            (true, 2) => repeated::<u16, { LINE / 2 }>(rows, from, to, count),
            (true, 4) => repeated::<u32, { LINE / 4 }>(rows, from, to, count),
            (true, _) => repeated::<u64, { LINE / 8 }>(rows, from, to, count),
        }
    }
}

/// Writes `bytes` bytes in pieces of P and a last one that ends where they do.
#[inline(always)]
fn pieces<const P: usize>(bytes: usize, mut write: impl FnMut(usize)) {
    let mut at = 0;
    while at + P <= bytes {
        write(at);
        at += P;
    }
    if at < bytes {
        write(bytes - P);
    }
}

#[inline(always)]
unsafe fn copied(rows: LineRows, from: *const u8, to: *mut u8, count: usize) {
    let bytes = rows.elements * rows.elem_size;
    for row in 0..count {
        // SAFETY: the caller's contract; every piece lies inside the row.
        unsafe {
            let (from, to) = (from.offset(row as isize * rows.step), to.add(row * bytes));
            if bytes < LINE {
                pieces::<MIN_BYTES>(bytes, |at| {
                    let line = from.add(at).cast::<[u8; MIN_BYTES]>().read_unaligned();
                    to.add(at).cast::<[u8; MIN_BYTES]>().write_unaligned(line);
                });
            } else {
                pieces::<LINE>(bytes, |at| {
                    let line = from.add(at).cast::<[u8; LINE]>().read_unaligned();
                    to.add(at).cast::<[u8; LINE]>().write_unaligned(line);
                });
            }
        }
    }
}

/// N elements are a line.
#[inline(always)]
unsafe fn repeated<T: Copy, const N: usize>(
    rows: LineRows,
    from: *const u8,
    to: *mut u8,
    count: usize,
) {
    let bytes = rows.elements * rows.elem_size;
    for row in 0..count {
        // SAFETY: the caller's contract; every piece lies inside the row.
        unsafe {
            let to = to.add(row * bytes);
            let value = from.offset(row as isize * rows.step).cast::<T>();
            let line = [value.read_unaligned(); N];
            if bytes < LINE {
                let half = *(&raw const line).cast::<[u8; MIN_BYTES]>();
                pieces::<MIN_BYTES>(bytes, |at| {
                    to.add(at).cast::<[u8; MIN_BYTES]>().write_unaligned(half);
                });
            } else {
                pieces::<LINE>(bytes, |at| {
                    to.add(at).cast::<[T; N]>().write_unaligned(line);
                });
            }
        }
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            $(#[$features])?
            pub unsafe fn run(rows: super::LineRows, from: *const u8, to: *mut u8, count: usize) {
                // SAFETY: the caller's contract.
                unsafe { super::body(rows, from, to, count) }
            }
        }
    };
}
each_tier!(tier);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_side_by_side() {
        let from: Vec<u8> = (0..9000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for elem_size in [1, 2, 4, 8] {
            for bytes in [32, 40, 56, 64, 72, 240, 256, 1000, 2048] {
                for (is_repeated, step) in [(false, 96), (true, 8), (false, 0), (true, 0)] {
                    let rows = LineRows {
                        elem_size,
                        elements: bytes / elem_size,
                        is_repeated,
                        step,
                    };
                    let mut to = vec![0xAAu8; 5 * bytes + 1];
                    // SAFETY: the rows lie inside both.
                    unsafe { rows.write(from.as_ptr(), to.as_mut_ptr(), 5) };
                    for (at, &got) in to[..5 * bytes].iter().enumerate() {
                        let (row, byte) = (at / bytes * step as usize, at % bytes);
                        let byte = if is_repeated { byte % elem_size } else { byte };
                        assert_eq!(got, from[row + byte], "{rows:?} {at}");
                    }
                    assert_eq!(to[5 * bytes], 0xAA, "{rows:?}");
                }
            }
        }
    }
}
