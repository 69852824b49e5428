//! What bytes of allocations hold, by ranges.
//!
//! In: slices and a value for each. Out: the values under a slice. Bytes nobody has set have none.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::plan::view::BufferSlice;

/// Values by ranges of bytes; a later value replaces earlier ones under it.
#[derive(Clone, Debug)]
pub struct ByteRanges<T> {
    /// By allocation: first byte to one past the last, and the value.
    ranges: FxHashMap<u32, BTreeMap<usize, (usize, T)>>,
}

impl<T> Default for ByteRanges<T> {
    fn default() -> Self {
        ByteRanges {
            ranges: FxHashMap::default(),
        }
    }
}

impl<T: Copy + PartialEq> ByteRanges<T> {
    /// Sets the value of all bytes of `slice`.
    pub fn set(&mut self, slice: &BufferSlice, value: T) {
        let (start, end) = (slice.offset, slice.offset + slice.size);
        if start == end {
            return;
        }
        let ranges = self.ranges.entry(slice.allocation).or_default();
        let mut keep: [Option<(usize, usize, T)>; 2] = [None; 2];
        while let Some((&at, &(to, old))) = ranges.range(..end).next_back() {
            if to <= start {
                break;
            }
            ranges.remove(&at);
            if to > end {
                keep[0] = Some((end, to, old));
            }
            if at < start {
                keep[1] = Some((at, start, old));
            }
        }
        for (at, to, old) in keep.into_iter().flatten() {
            ranges.insert(at, (to, old));
        }
        ranges.insert(start, (end, value));
    }

    /// Calls `f` with every value under `slice`.
    pub fn each(&self, slice: &BufferSlice, mut f: impl FnMut(T)) {
        let (start, end) = (slice.offset, slice.offset + slice.size);
        let Some(ranges) = self.ranges.get(&slice.allocation).filter(|_| start < end) else {
            return;
        };
        for (_, &(to, value)) in ranges.range(..end).rev() {
            if to <= start {
                break;
            }
            f(value);
        }
    }

    /// Whether `f` holds for any value under `slice`.
    pub fn any(&self, slice: &BufferSlice, f: impl Fn(T) -> bool) -> bool {
        let mut found = false;
        self.each(slice, |value| found |= f(value));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(offset: usize, size: usize) -> BufferSlice {
        BufferSlice {
            allocation: 0,
            offset,
            size,
        }
    }

    fn values(ranges: &ByteRanges<u8>, offset: usize, size: usize) -> Vec<u8> {
        let mut found = Vec::new();
        ranges.each(&slice(offset, size), |value| found.insert(0, value));
        found
    }

    #[test]
    fn later_values_cut_earlier_ones() {
        let mut ranges = ByteRanges::default();
        ranges.set(&slice(0, 100), 1);
        ranges.set(&slice(20, 10), 2);
        ranges.set(&slice(25, 50), 3);
        ranges.set(&slice(75, 0), 9);
        assert_eq!(values(&ranges, 0, 200), [1, 2, 3, 1]);
        assert_eq!(values(&ranges, 20, 5), [2]);
        assert_eq!(values(&ranges, 74, 2), [3, 1]);
        assert!(values(&ranges, 100, 5).is_empty());
        ranges.set(&slice(0, 200), 4);
        assert_eq!(values(&ranges, 0, 200), [4]);
    }
}
