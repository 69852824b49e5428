//! Sets of bytes, as sorted disjoint ranges.

use std::ops::Range;

use smallvec::SmallVec;

/// A set of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteSet {
    ranges: SmallVec<[Range<usize>; 1]>,
}

impl ByteSet {
    /// All bytes below `size`.
    pub fn all(size: usize) -> ByteSet {
        let mut set = ByteSet::default();
        set.insert(0..size);
        set
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges that meet `range` or touch it.
    fn around(&self, range: &Range<usize>) -> Range<usize> {
        let first = self.ranges.partition_point(|other| other.end < range.start);
        let count = self.ranges[first..].partition_point(|other| other.start <= range.end);
        first..first + count
    }

    /// Adds bytes.
    pub fn insert(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let around = self.around(&range);
        let mut merged = range;
        for other in self.ranges.drain(around.clone()) {
            merged = merged.start.min(other.start)..merged.end.max(other.end);
        }
        self.ranges.insert(around.start, merged);
    }

    /// Takes bytes away; returns whether there were any.
    pub fn remove(&mut self, range: Range<usize>) -> bool {
        if range.is_empty() {
            return false;
        }
        let around = self.around(&range);
        let mut left: SmallVec<[Range<usize>; 2]> = SmallVec::new();
        let mut found = false;
        for other in self.ranges.drain(around.clone()) {
            found |= other.start < range.end && range.start < other.end;
            left.push(other.start..other.end.min(range.start));
            left.push(other.start.max(range.end)..other.end);
        }
        left.retain(|range| range.start < range.end);
        self.ranges.insert_many(around.start, left);
        found
    }

    /// Whether it has all bytes of `range`.
    pub fn contains(&self, range: &Range<usize>) -> bool {
        range.is_empty()
            || self.ranges[self.around(range)]
                .iter()
                .any(|other| other.start <= range.start && range.end <= other.end)
    }

    /// The bytes of both.
    pub fn intersection(&self, other: &ByteSet) -> ByteSet {
        let mut both = ByteSet::default();
        let (mut i, mut j) = (0, 0);
        while let (Some(a), Some(b)) = (self.ranges.get(i), other.ranges.get(j)) {
            let common = a.start.max(b.start)..a.end.min(b.end);
            if !common.is_empty() {
                both.ranges.push(common);
            }
            match a.end < b.end {
                true => i += 1,
                false => j += 1,
            }
        }
        both
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ranges: &[Range<usize>]) -> ByteSet {
        let mut set = ByteSet::default();
        for range in ranges {
            set.insert(range.clone());
        }
        set
    }

    #[test]
    fn agrees_with_a_set_of_single_bytes() {
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let mut set = ByteSet::default();
        let mut plain = [false; 64];
        for _ in 0..2000 {
            let start = next(60) as usize;
            let range = start..start + next((64 - start) as u64) as usize;
            if next(2) == 0 {
                set.insert(range.clone());
                plain[range].fill(true);
            } else {
                let had = plain[range.clone()].iter().any(|&byte| byte);
                assert_eq!(set.remove(range.clone()), had);
                plain[range].fill(false);
            }
            let probe = next(60) as usize..64;
            assert_eq!(
                set.contains(&probe),
                plain[probe.clone()].iter().all(|&byte| byte)
            );
            assert_eq!(set.is_empty(), !plain.contains(&true));
        }
    }

    #[test]
    fn bytes_of_both() {
        let (a, b) = (of(&[0..10, 20..30]), of(&[5..25, 28..40]));
        assert_eq!(a.intersection(&b), of(&[5..10, 20..25, 28..30]));
        assert_eq!(
            ByteSet::all(9).intersection(&ByteSet::default()),
            ByteSet::default()
        );
    }
}
