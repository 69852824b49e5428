//! Packs intervals of bytes × time into one block of memory.
//!
//! Comes in: sizes with first and last moment of use. Goes out: an offset for each and the size of
//! the block. Promises: two intervals that share a moment never share a byte, offsets are aligned,
//! the same input gives the same packing, and the time is bounded on every input.
//!
//! Buffers are placed one after another, each into the smallest gap it fits between the buffers
//! already placed that live at the same time. Two orders are tried, largest first and longest-lived
//! first, and the smaller block wins; on ties the first. These are the rules of XLA's
//! `GlobalDecreasingSizeBestFitHeap` with its spatial and temporal order.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::faults::{self, Fault};

/// One buffer: its size and the moments at which it must hold its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Interval {
    /// Bytes.
    pub size: u64,
    /// First moment of use.
    pub start: u32,
    /// Last moment of use, inclusive; never before `start`.
    pub end: u32,
}

impl Interval {
    /// Whether both are needed at some moment.
    pub fn overlaps(&self, other: &Interval) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

/// Where every interval lies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Packing {
    /// Byte offset of each interval, in the order they were given.
    pub offsets: Vec<u64>,
    /// Bytes of the block: the end of the highest interval.
    pub total: u64,
}

/// Order in which intervals are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PackingOrder {
    /// Largest first; equal sizes: longest-lived first.
    Spatial,
    /// Longest-lived first; equal times: largest first.
    Temporal,
}

/// Comparisons one order may spend before the packing falls back to [`pack_by_events`]; a few
/// seconds of one core.
const WORK_LIMIT: u64 = 1 << 31;

/// Packs `intervals` at multiples of `alignment` bytes (0 counts as 1).
pub fn pack(intervals: &[Interval], alignment: u64) -> Packing {
    let least = least_bytes(intervals, alignment);
    let mut best: Option<Packing> = None;
    for order in [PackingOrder::Spatial, PackingOrder::Temporal] {
        if let Some(packing) = pack_in_order(intervals, alignment, order)
            && best.as_ref().is_none_or(|b| packing.total < b.total)
        {
            best = Some(packing);
        }
        // No other order can do better.
        if best.as_ref().is_some_and(|b| b.total <= least) {
            break;
        }
    }
    best.unwrap_or_else(|| pack_by_events(intervals, alignment))
}

/// A lower bound of every packing: the live bytes of some moment, each block rounded up to `alignment` but for
/// the one with the most padding, which may be on top.
pub fn least_bytes(intervals: &[Interval], alignment: u64) -> u64 {
    let mut events: Vec<(u64, bool, u64)> = Vec::with_capacity(2 * intervals.len());
    for interval in intervals.iter().filter(|interval| interval.size > 0) {
        events.push((u64::from(interval.start), true, interval.size));
        events.push((u64::from(interval.end) + 1, false, interval.size));
    }
    // Ends sort before starts of the same moment.
    events.sort_unstable_by_key(|e| (e.0, e.1));
    let (mut live, mut least) = (0u64, 0u64);
    // How many live blocks have how many bytes of padding.
    let mut lost: BTreeMap<u64, u32> = BTreeMap::new();
    for (_, starts, size) in events {
        let room = align(size, alignment.max(1));
        let count = lost.entry(room - size).or_default();
        if starts {
            *count += 1;
            live = live.saturating_add(room);
            let most = lost.last_key_value().map_or(0, |(&bytes, _)| bytes);
            least = least.max(live.saturating_sub(most));
        } else {
            *count = count.saturating_sub(1);
            if *count == 0 {
                lost.remove(&(room - size));
            }
            live = live.saturating_sub(room);
        }
    }
    least
}

/// Best fit in one order; `None` when the input is so dense that it would take too long.
pub fn pack_in_order(
    intervals: &[Interval],
    alignment: u64,
    order: PackingOrder,
) -> Option<Packing> {
    let alignment = alignment.max(1);
    let mut queue: Vec<u32> = (0..intervals.len() as u32).collect();
    queue.sort_by(|&a, &b| {
        let (x, y) = (&intervals[a as usize], &intervals[b as usize]);
        let lifetime = |i: &Interval| i.end.saturating_sub(i.start);
        match order {
            PackingOrder::Spatial => y
                .size
                .cmp(&x.size)
                .then(lifetime(y).cmp(&lifetime(x)))
                .then(a.cmp(&b)),
            PackingOrder::Temporal => lifetime(y)
                .cmp(&lifetime(x))
                .then(y.size.cmp(&x.size))
                .then(a.cmp(&b)),
        }
    });
    let mut placed = PlacedChunks::new(intervals);
    let mut offsets = vec![0u64; intervals.len()];
    let mut total = 0u64;
    let mut work = 0u64;
    for index in queue {
        let interval = &intervals[index as usize];
        if interval.size == 0 {
            continue;
        }
        let offset = placed.best_gap(interval, alignment, &mut work);
        if work > WORK_LIMIT {
            return None;
        }
        placed.insert(index, offset);
        offsets[index as usize] = offset;
        total = total.max(offset.saturating_add(interval.size));
    }
    Some(Packing { offsets, total })
}

/// A placed buffer: its bytes and when it is live.
#[derive(Clone, Copy)]
struct Chunk {
    offset: u64,
    end_offset: u64,
    start: u32,
    end: u32,
}

/// Placed buffers, to be asked which of them live during an interval.
struct PlacedChunks<'a> {
    intervals: &'a [Interval],
    /// Interval indices by start.
    by_start: Vec<u32>,
    /// Position of each interval in `by_start`.
    rank: Vec<u32>,
    /// Maximum tree over `by_start`: the last end among placed intervals, plus one; 0 for none.
    ends: Vec<u64>,
    leaves: usize,
    offsets: Vec<u64>,
    /// Placed intervals by offset, side by side, as scans go through most of them.
    by_offset: Vec<Chunk>,
    stack: Vec<usize>,
    found: Vec<(u64, u64)>,
}

impl<'a> PlacedChunks<'a> {
    fn new(intervals: &'a [Interval]) -> PlacedChunks<'a> {
        let mut by_start: Vec<u32> = (0..intervals.len() as u32).collect();
        by_start.sort_by_key(|&i| (intervals[i as usize].start, i));
        let mut rank = vec![0u32; intervals.len()];
        for (position, &index) in by_start.iter().enumerate() {
            rank[index as usize] = position as u32;
        }
        let leaves = intervals.len().next_power_of_two();
        PlacedChunks {
            intervals,
            by_start,
            rank,
            ends: vec![0; 2 * leaves],
            leaves,
            offsets: vec![0; intervals.len()],
            by_offset: Vec::new(),
            stack: Vec::new(),
            found: Vec::new(),
        }
    }

    fn insert(&mut self, index: u32, offset: u64) {
        self.offsets[index as usize] = offset;
        let at = self.by_offset.partition_point(|c| c.offset <= offset);
        let Interval { size, start, end } = self.intervals[index as usize];
        let chunk = Chunk {
            offset,
            end_offset: offset.saturating_add(size),
            start,
            end,
        };
        self.by_offset.insert(at, chunk);
        let mut node = self.leaves + self.rank[index as usize] as usize;
        let end = u64::from(self.intervals[index as usize].end) + 1;
        while node > 0 && self.ends[node] < end {
            self.ends[node] = end;
            node /= 2;
        }
    }

    /// The start of the smallest gap that takes `wanted`, or the top of all that live with it.
    fn best_gap(&mut self, wanted: &Interval, alignment: u64, work: &mut u64) -> u64 {
        let size = wanted.size;
        if self.find_overlapping(wanted, work) {
            if faults::holds(Fault::PacksLiveBuffers, self.found.is_empty()) {
                self.found.clear();
            }
            return smallest_gap(self.found.iter().copied(), size, alignment);
        }
        if faults::holds(Fault::PacksLiveBuffers, false) {
            return 0;
        }
        *work += self.by_offset.len() as u64;
        let live = |c: &&Chunk| c.start <= wanted.end && wanted.start <= c.end;
        let live = self.by_offset.iter().filter(live);
        smallest_gap(live.map(|c| (c.offset, c.end_offset)), size, alignment)
    }

    /// Fills `found` with the byte ranges that are taken while `wanted` lives, by offset. False where they
    /// are so many that going through all that is placed takes less time.
    fn find_overlapping(&mut self, wanted: &Interval, work: &mut u64) -> bool {
        self.found.clear();
        // A tree walk costs some 16 steps per hit, a scan over everything placed one per buffer.
        let most = self.by_offset.len() / 16 + 16;
        let past = self
            .by_start
            .partition_point(|&i| self.intervals[i as usize].start <= wanted.end);
        self.stack.clear();
        self.stack.push(1);
        while let Some(node) = self.stack.pop() {
            *work += 1;
            if self.ends[node] <= u64::from(wanted.start) || first_leaf(node, self.leaves) >= past {
                continue;
            }
            if node < self.leaves {
                self.stack.push(2 * node + 1);
                self.stack.push(2 * node);
                continue;
            }
            let index = self.by_start[node - self.leaves] as usize;
            let offset = self.offsets[index];
            self.found
                .push((offset, offset.saturating_add(self.intervals[index].size)));
            if self.found.len() > most {
                return false;
            }
        }
        self.found.sort_unstable();
        true
    }
}

/// The start of the smallest gap of at least `size` bytes between ranges in the order of their offsets, or
/// their top.
fn smallest_gap(taken: impl Iterator<Item = (u64, u64)>, size: u64, alignment: u64) -> u64 {
    let mut best: Option<(u64, u64)> = None;
    // The top of all ranges so far, and where the next buffer may begin.
    let (mut top, mut start) = (0u64, 0u64);
    for (offset, end) in taken {
        if offset > start {
            let gap = offset - start;
            if gap >= size && best.is_none_or(|(size, _)| gap < size) {
                best = Some((gap, start));
            }
        }
        if end > top {
            top = end;
            start = align(top, alignment);
        }
    }
    best.map_or(start, |(_, start)| start)
}

fn first_leaf(node: usize, leaves: usize) -> usize {
    let depth = node.ilog2();
    let width = leaves >> depth;
    (node << (leaves.ilog2() - depth)).saturating_sub(leaves) / width * width
}

fn align(offset: u64, alignment: u64) -> u64 {
    offset
        .checked_next_multiple_of(alignment)
        .unwrap_or(u64::MAX)
}

/// Replays time with a best-fit free list: O(n log n) on every input, a little larger than
/// [`pack_in_order`].
pub fn pack_by_events(intervals: &[Interval], alignment: u64) -> Packing {
    let alignment = alignment.max(1);
    let mut events: Vec<(u64, bool, u32)> = Vec::with_capacity(2 * intervals.len());
    for (index, interval) in intervals.iter().enumerate() {
        if interval.size > 0 {
            events.push((u64::from(interval.start), true, index as u32));
            events.push((u64::from(interval.end) + 1, false, index as u32));
        }
    }
    events.sort_unstable();
    let mut offsets = vec![0u64; intervals.len()];
    let mut total = 0u64;
    let mut by_size: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut by_offset: BTreeMap<u64, u64> = BTreeMap::new();
    for (_, starts, index) in events {
        let size = align(intervals[index as usize].size, alignment);
        if starts {
            let found = by_size.range((size, 0)..).next().copied();
            let (offset, rest) = match found {
                Some((free, offset)) => {
                    by_size.remove(&(free, offset));
                    by_offset.remove(&offset);
                    (offset, free - size)
                }
                None => {
                    // Grow the block, using the free space at its top.
                    let last = by_offset.last_key_value().map(|(&o, &s)| (o, s));
                    match last.filter(|&(o, s)| o.saturating_add(s) == total) {
                        Some((offset, free)) => {
                            by_size.remove(&(free, offset));
                            by_offset.remove(&offset);
                            total = offset.saturating_add(size);
                            (offset, 0)
                        }
                        None => {
                            let offset = total;
                            total = total.saturating_add(size);
                            (offset, 0)
                        }
                    }
                }
            };
            offsets[index as usize] = offset;
            if rest > 0 {
                by_size.insert((rest, offset + size));
                by_offset.insert(offset + size, rest);
            }
        } else {
            let (mut offset, mut free) = (offsets[index as usize], size);
            if let Some((&o, &s)) = by_offset.range(..offset).next_back()
                && o.saturating_add(s) == offset
            {
                by_offset.remove(&o);
                by_size.remove(&(s, o));
                (offset, free) = (o, s.saturating_add(free));
            }
            if let Some(&s) = by_offset.get(&offset.saturating_add(free)) {
                let o = offset.saturating_add(free);
                by_offset.remove(&o);
                by_size.remove(&(s, o));
                free = free.saturating_add(s);
            }
            by_offset.insert(offset, free);
            by_size.insert((free, offset));
        }
    }
    Packing { offsets, total }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(size: u64, start: u32, end: u32) -> Interval {
        Interval { size, start, end }
    }

    fn random(count: usize, moments: u32, longest: u32, mut seed: u64) -> Vec<Interval> {
        let mut next = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        (0..count)
            .map(|_| {
                let start = next(u64::from(moments)) as u32;
                let size = match next(3) {
                    0 => next(64),
                    1 => next(5000),
                    _ => 1 << next(20),
                };
                interval(size, start, start + next(u64::from(longest)) as u32)
            })
            .collect()
    }

    fn assert_legal(intervals: &[Interval], packing: &Packing, alignment: u64) {
        for (i, a) in intervals.iter().enumerate() {
            assert_eq!(packing.offsets[i] % alignment, 0);
            assert!(packing.offsets[i] + a.size <= packing.total || a.size == 0);
            for (j, b) in intervals.iter().enumerate().skip(i + 1) {
                let (x, y) = (packing.offsets[i], packing.offsets[j]);
                let apart = x + a.size <= y || y + b.size <= x || a.size == 0 || b.size == 0;
                assert!(apart || !a.overlaps(b), "{a:?}@{x} and {b:?}@{y}");
            }
        }
    }

    #[test]
    fn nothing_and_nothing_sized_take_no_bytes() {
        assert_eq!(pack(&[], 64), Packing::default());
        assert_eq!(pack(&[interval(0, 0, 9), interval(0, 1, 1)], 64).total, 0);
    }

    #[test]
    fn intervals_that_touch_at_a_moment_are_apart() {
        let packing = pack(&[interval(10, 0, 4), interval(10, 4, 8)], 1);
        assert_eq!(packing.total, 20);
        let packing = pack(&[interval(10, 0, 4), interval(10, 5, 8)], 1);
        assert_eq!(packing.total, 10);
    }

    #[test]
    fn the_smallest_gap_is_taken() {
        // 8 bytes free at 32 and 24 free at 64 while the last one lives.
        let intervals = [
            interval(32, 0, 9),
            interval(16, 0, 1),
            interval(8, 5, 9),
            interval(30, 0, 9),
        ];
        let packing = pack(&intervals, 1);
        assert_legal(&intervals, &packing, 1);
        assert_eq!(packing.total, 78);
    }

    #[test]
    fn what_is_lost_to_the_alignment_is_needed_but_above_the_highest() {
        let intervals = [interval(4, 0, 9), interval(100, 1, 2), interval(60, 3, 3)];
        assert_eq!(least_bytes(&intervals, 64), 132);
        assert_eq!(pack(&intervals, 64).total, 132);
        assert_eq!(least_bytes(&intervals, 1), 104);
        assert_eq!(least_bytes(&[interval(0, 0, 9)], 64), 0);
    }

    #[test]
    fn random_packings_are_legal_and_near_the_peak() {
        for seed in 1..40u64 {
            let longest = [2, 8, 60, 400][seed as usize % 4];
            let intervals = random(300, 200, longest, seed * 7919);
            for alignment in [1, 64] {
                let packing = pack(&intervals, alignment);
                assert_legal(&intervals, &packing, alignment);
                assert_legal(
                    &intervals,
                    &pack_by_events(&intervals, alignment),
                    alignment,
                );
                assert_eq!(packing, pack(&intervals, alignment));
                let rounded: Vec<Interval> = intervals
                    .iter()
                    .map(|i| interval(i.size.next_multiple_of(alignment), i.start, i.end))
                    .collect();
                let peak = least_bytes(&rounded, 1);
                let orders = [PackingOrder::Spatial, PackingOrder::Temporal];
                let both = orders.map(|order| pack_in_order(&intervals, alignment, order));
                // What cannot be done better is found without the second order.
                let best = both.iter().flatten().min_by_key(|packing| packing.total);
                assert_eq!(best, Some(&packing));
                assert!(least_bytes(&intervals, alignment) <= packing.total);
                assert!(
                    packing.total <= peak + peak / 4,
                    "{} for {peak}",
                    packing.total
                );
            }
        }
    }

    #[test]
    fn sizes_near_the_end_of_the_number_line_do_not_panic() {
        let huge = [interval(u64::MAX, 0, u32::MAX), interval(u64::MAX, 0, 1)];
        assert_eq!(pack(&huge, 64).total, u64::MAX);
        assert_eq!(pack_by_events(&huge, 64).total, u64::MAX);
        assert_eq!(least_bytes(&huge, 1), u64::MAX);
    }
}
