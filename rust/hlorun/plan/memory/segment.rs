//! Stretches of time on the clock of a plan, and whether two buffers are needed at once.

/// A stretch of time, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First moment.
    pub start: u32,
    /// Last moment.
    pub end: u32,
}

/// Whether two sorted lists meet anywhere but where, at the moments `except`, the one ends and the
/// other begins. What is written at such a moment and read by nobody still ends nothing.
pub fn interfere(a: &[Segment], b: &[Segment], except: &[u32]) -> bool {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let start = a[i].start.max(b[j].start);
        let end = a[i].end.min(b[j].end);
        let follow =
            (a[i].end, b[j].start) == (start, start) || (b[j].end, a[i].start) == (start, start);
        if start <= end && !(start == end && follow && except.contains(&start)) {
            return true;
        }
        if a[i].end < b[j].end {
            i += 1;
        } else {
            j += 1;
        }
    }
    false
}

/// The union of two sorted lists.
pub fn merge(a: &[Segment], b: &[Segment]) -> Vec<Segment> {
    let mut all: Vec<Segment> = a.iter().chain(b).copied().collect();
    all.sort_by_key(|s| s.start);
    let mut merged: Vec<Segment> = Vec::with_capacity(all.len());
    for segment in all {
        match merged.last_mut() {
            Some(last) if segment.start <= last.end => last.end = last.end.max(segment.end),
            _ => merged.push(segment),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(start: u32, end: u32) -> Segment {
        Segment { start, end }
    }

    #[test]
    fn touching_at_the_copy_is_no_interference() {
        assert!(!interfere(&[s(0, 5)], &[s(5, 9)], &[5]));
        assert!(interfere(&[s(0, 5)], &[s(5, 9)], &[4]));
        assert!(interfere(&[s(0, 6)], &[s(5, 9)], &[5]));
        // Written over an input that lives on, and read by nobody.
        assert!(interfere(&[s(0, 6)], &[s(5, 5)], &[5]));
        assert!(interfere(&[s(5, 5)], &[s(0, 6)], &[5]));
        assert!(!interfere(&[s(0, 5)], &[s(5, 5)], &[5]));
        assert!(!interfere(&[s(0, 3), s(8, 10)], &[s(3, 8)], &[3, 8]));
        assert!(interfere(&[s(0, 3), s(8, 10)], &[s(3, 8)], &[8]));
        assert_eq!(merge(&[s(0, 3), s(8, 10)], &[s(3, 8)]), vec![s(0, 10)]);
    }
}
