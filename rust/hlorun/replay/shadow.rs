//! Which value was last written to every byte of every allocation.
//!
//! In: writes and reads as byte ranges. Out: for a read, the first bytes that another value has
//! overwritten. Promise: memory and time follow the number of writes, not of bytes.

use std::collections::BTreeMap;

use crate::analysis::dataflow::ValueIndex;

/// One write: what was written, and a number no other write has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Number of the write.
    pub tag: u64,
    /// What it wrote.
    pub value: ValueIndex,
}

/// Bytes that do not hold what a reader expects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// First wrong byte of the allocation.
    pub start: usize,
    /// One past the last wrong byte of the run of bytes that begins there.
    pub end: usize,
    /// The write that is there instead; `None` when nothing was ever written.
    pub found: Option<Mark>,
}

/// The map of one run.
#[derive(Debug, Default)]
pub struct Shadow {
    /// By allocation: start of a range, its end and what wrote it. Ranges never overlap.
    blocks: Vec<BTreeMap<usize, (usize, Mark)>>,
}

impl Shadow {
    /// A map of `blocks` allocations to which nothing was written.
    pub fn new(blocks: usize) -> Shadow {
        Shadow {
            blocks: vec![BTreeMap::new(); blocks],
        }
    }

    /// Notes that `mark` wrote the bytes `start..end`.
    pub fn write(&mut self, block: usize, start: usize, end: usize, mark: Mark) {
        if start >= end {
            return;
        }
        let map = &mut self.blocks[block];
        // Only the range before `start` can begin earlier and reach in.
        if let Some((&at, &(until, old))) = map.range(..start).next_back()
            && until > start
        {
            map.insert(at, (start, old));
            if until > end {
                map.insert(end, (until, old));
            }
        }
        let inside: Vec<usize> = map.range(start..end).map(|(&at, _)| at).collect();
        for at in inside {
            if let Some((until, old)) = map.remove(&at)
                && until > end
            {
                map.insert(end, (until, old));
            }
        }
        map.insert(start, (end, mark));
    }

    /// Looks whether all bytes `start..end` were last written by the write `tag`.
    ///
    /// # Errors
    /// The first run of bytes that were not.
    pub fn check(&self, block: usize, start: usize, end: usize, tag: u64) -> Result<(), Fault> {
        if start >= end {
            return Ok(());
        }
        let map = &self.blocks[block];
        let before = map.range(..start).next_back();
        let reaching = before.filter(|(_, (until, _))| *until > start);
        let mut at = start;
        for (&from, &(until, mark)) in reaching.into_iter().chain(map.range(start..end)) {
            if from > at {
                break;
            }
            if mark.tag != tag {
                return Err(Fault {
                    start: at,
                    end: until.min(end),
                    found: Some(mark),
                });
            }
            at = until;
        }
        if at >= end {
            return Ok(());
        }
        let next = map.range(at..end).next().map_or(end, |(&from, _)| from);
        Err(Fault {
            start: at,
            end: next,
            found: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(tag: u64) -> Mark {
        Mark {
            tag,
            value: ValueIndex(tag as u32),
        }
    }

    #[test]
    fn what_is_written_last_is_found() {
        let mut shadow = Shadow::new(2);
        shadow.write(0, 0, 100, mark(1));
        assert_eq!(shadow.check(0, 10, 90, 1), Ok(()));
        assert_eq!(shadow.check(0, 10, 10, 7), Ok(()));
        shadow.write(0, 40, 60, mark(2));
        assert_eq!(shadow.check(0, 0, 40, 1), Ok(()));
        assert_eq!(shadow.check(0, 60, 100, 1), Ok(()));
        assert_eq!(shadow.check(0, 40, 60, 2), Ok(()));
        let fault = shadow.check(0, 0, 100, 1).expect_err("overwritten");
        assert_eq!((fault.start, fault.end), (40, 60));
        assert_eq!(fault.found, Some(mark(2)));
        let fault = shadow.check(0, 90, 120, 1).expect_err("never written");
        assert_eq!((fault.start, fault.end, fault.found), (100, 120, None));
        assert_eq!(shadow.check(1, 0, 8, 1).expect_err("empty").found, None);
        shadow.write(0, 30, 70, mark(3));
        assert_eq!(shadow.check(0, 30, 70, 3), Ok(()));
        assert_eq!(shadow.check(0, 70, 100, 1), Ok(()));
        assert_eq!(shadow.check(0, 0, 30, 1), Ok(()));
    }

    #[test]
    fn many_writes_agree_with_a_map_of_bytes() {
        let mut shadow = Shadow::new(1);
        let mut bytes = [0u64; 64];
        let mut state = 1u64;
        for tag in 1..2000u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let start = (state >> 33) as usize % 64;
            let end = (start + 1 + (state >> 50) as usize % 16).min(64);
            shadow.write(0, start, end, mark(tag));
            bytes[start..end].fill(tag);
            let from = (state >> 40) as usize % 60;
            let range = &bytes[from..from + 4];
            let whole = range.iter().all(|&b| b == range[0] && b > 0);
            assert_eq!(shadow.check(0, from, from + 4, range[0]).is_ok(), whole);
        }
    }
}
