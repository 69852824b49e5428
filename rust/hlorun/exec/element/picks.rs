//! How elements that lie a few apart are copied by vectors, found when a walk has been used a few times.
//!
//! In: a walk, the bytes of an element, and how many are copied at once. Out: a block of the walk and its copy, or that
//! there is none that pays.

use hlorun_kernels::strided::picks::{Picks, Spread};
use smallvec::SmallVec;

use crate::plan::cost::tiles::{
    MAX_PICKED, MAX_PICKED_PART, MIN_PICKED, MIN_UNPICKED_ROW, PICKED_AFTER, USUAL_PICKED,
};
use crate::plan::thunk::PickedWalk;
use crate::plan::thunk::picked_walk::{Block, Found};
use crate::plan::view::{Walk, offset_in};

/// How to bring `n` elements of `size` bytes side by side.
#[inline]
pub fn picks(walk: &PickedWalk, size: usize, n: usize) -> Option<&Block<Picks>> {
    find(walk, &walk.picks, (size, n), |offsets| {
        Picks::new(size, offsets.iter().copied())
    })
}

/// The same of elements that lie side by side and go to their places, which are all different.
#[inline]
pub fn spread(walk: &PickedWalk, size: usize, n: usize) -> Option<&Block<Spread>> {
    find(walk, &walk.spread, (size, n), |offsets| {
        Spread::new(size, offsets.iter().copied())
    })
}

#[inline]
fn find<'w, C>(
    walk: &Walk,
    found: &'w Found<C>,
    (size, n): (usize, usize),
    copy: impl Fn(&[i64]) -> Option<C>,
) -> Option<&'w Block<C>> {
    // A copy of many elements pays at once.
    let others = if n > MAX_PICKED as usize {
        0
    } else {
        PICKED_AFTER
    };
    let block = found.after(others, || {
        let (depth, times) = extent(walk, n)?;
        let inner = &walk[walk.len() - depth..];
        let count: i64 = inner.iter().map(|&(times, _)| times).product();
        let steps = &walk[walk.len().saturating_sub(depth + 1)..];
        let offsets: Vec<i64> = (0..count * times).map(|at| offset_in(steps, at)).collect();
        Some(Block {
            depth,
            times: times as usize,
            count: count as usize,
            size,
            copy: copy(&offsets)?,
        })
    });
    block.filter(|block| block.size == size && block.count * block.times <= n)
}

/// How many inner dimensions of a walk, and steps of the next one, make a block where `n` elements are copied at once. The
/// whole walk where it is short and copied at once; otherwise the fewest dimensions with enough elements, as tiles then begin
/// at a block more often. `None` where rows are long, which have ways of their own, or too few fit.
fn extent(walk: &Walk, n: usize) -> Option<(usize, i64)> {
    walk.last().filter(|row| row.0 < MIN_UNPICKED_ROW)?;
    let counts = walk.iter().rev().scan(1i64, |all, &(times, _)| {
        *all = all.saturating_mul(times);
        Some(*all)
    });
    let counts: SmallVec<[i64; 4]> = counts.collect();
    if *counts.last()? <= MAX_PICKED.min(n as i64) {
        return Some((walk.len(), 1));
    }
    let fitting = counts.iter().take_while(|&&count| count <= MAX_PICKED_PART);
    if let Some(at) = fitting.clone().position(|&count| count >= USUAL_PICKED) {
        return Some((at + 1, 1));
    }
    let depth = fitting.count();
    let count = counts[depth.checked_sub(1)?].max(1);
    let &(most, _) = walk.get(walk.len().checked_sub(depth + 1)?)?;
    let times = (USUAL_PICKED / count).clamp(1, most);
    // One row of neighbours, or of one element, is copied as it is.
    let is_plain = depth == 1 && times == 1 && matches!(walk.last(), Some((_, 0 | 1)));
    (!is_plain && count * times >= MIN_PICKED).then_some((depth, times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_walks_or_have_enough_elements() {
        let extent = |walk: &[(i64, i64)], n| extent(&Walk::from_slice(walk), n);
        let walk = [(40, 60), (9, 6), (3, 2)];
        assert_eq!(extent(&walk, 1080), Some((3, 1)));
        assert_eq!(extent(&walk, 500), Some((2, 2)));
        assert_eq!(extent(&[(50, 60), (25, 20), (4, 1)], 100), Some((2, 1)));
        assert_eq!(extent(&[(300, 9), (8, 1)], 2400), Some((1, 8)));
        assert_eq!(extent(&[(100, 900), (5, 90), (3, 9)], 500), Some((2, 4)));
        assert_eq!(extent(&[(2, 900), (900, 90), (7, 9)], 500), Some((1, 9)));
        assert_eq!(extent(&[(900, 90), (3, 40), (3, 9)], 500), Some((2, 7)));
        assert_eq!(extent(&[(3, 900), (2000, 0), (2, 9)], 500), Some((1, 32)));
        assert_eq!(extent(&[(60, 1), (60, 0)], 60), None);
        assert_eq!(extent(&[(60, 1), (60, 2)], 60), Some((1, 1)));
        assert_eq!(extent(&[(8, 900), (64, 2)], 512), None);
        assert_eq!(extent(&[(0, 900), (4, 2)], 512), Some((2, 1)));
        assert_eq!(extent(&[], 1), None);
    }

    #[test]
    fn blocks_serve_elements_of_their_size_where_there_are_enough() {
        let walk = PickedWalk::from(Walk::from_slice(&[(20, 6), (3, 1)]));
        let found = [(); 5].map(|()| picks(&walk, 4, 60).is_some());
        assert!(!found[..PICKED_AFTER as usize].contains(&true));
        // Not every CPU has a way.
        assert_eq!(found[3], found[4]);
        assert!(picks(&walk, 8, 60).is_none() && picks(&walk, 4, 59).is_none());
    }
}
