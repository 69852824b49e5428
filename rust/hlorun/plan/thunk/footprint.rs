//! Which bytes of an allocation an access may touch.
//!
//! In: an [`Access`]. Out: byte ranges counted from the start of its allocation. Places known at run
//! time count as all places that they may be.

use std::ops::Range;

use smallvec::SmallVec;

use super::{Access, Effect, Order, Place};
use crate::plan::view::ArrayView;

/// Most runs that the bytes of one access are told apart into; beyond, gaps count as touched.
const MAX_RUNS: u64 = 1 << 16;

/// The elements of an access: sizes and strides in bytes, and the bytes of one.
struct Elements {
    /// Byte of the first one, counted from the start of the slice.
    first: i128,
    steps: SmallVec<[(i128, i128); 6]>,
    size: i128,
}

/// Bytes of an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Sorted, disjoint, not empty.
    pub runs: Vec<Range<i128>>,
    /// These very bytes, rather than some of them.
    pub is_exact: bool,
}

impl Access<'_> {
    fn elements(&self) -> Elements {
        match self.place {
            Place::Slice => Elements {
                first: 0,
                steps: SmallVec::new(),
                size: self.slice.size as i128,
            },
            Place::Index(index) => Elements {
                first: index.offset as i128,
                steps: SmallVec::new(),
                size: index.element_type.size_bytes() as i128,
            },
            Place::View(view) => {
                let size = view.element_type.size_bytes() as i128;
                let bytes = |&(count, stride): &(i64, i64)| (count as i128, stride as i128 * size);
                let steps = match self.order {
                    Order::Elements(walk) => walk.iter().map(bytes).collect(),
                    Order::Rows(_) | Order::Any => {
                        let pairs = view.dims.iter().copied().zip(view.strides.iter().copied());
                        pairs.map(|pair| bytes(&pair)).collect()
                    }
                };
                Elements {
                    first: view.offset as i128 * size,
                    steps,
                    size,
                }
            }
        }
    }

    /// How far run-time indices may move a view, in bytes: the least and the most.
    fn moves(&self) -> (i128, i128) {
        let Place::View(view) = self.place else {
            return (0, 0);
        };
        let size = view.element_type.size_bytes() as i128;
        let (mut low, mut high) = (0, 0);
        for index in &view.dynamic {
            let farthest = index.stride as i128 * index.limit.max(0) as i128 * size;
            low += farthest.min(0);
            high += farthest.max(0);
        }
        (low, high)
    }

    /// Whether run-time indices say where it is.
    pub fn is_dynamic(&self) -> bool {
        self.moves() != (0, 0)
    }

    /// The first byte it may touch and one past the last, counted from the start of its allocation;
    /// `None` where it touches nothing. Outside the slice, and then negative or too large, where the
    /// view is wrong.
    pub fn hull(&self) -> Option<Range<i128>> {
        let elements = self.elements();
        if elements.size == 0 || elements.steps.iter().any(|step| step.0 <= 0) {
            return None;
        }
        let (low, high) = self.moves();
        let start = self.slice.offset as i128 + elements.first;
        let (mut from, mut to) = (start + low, start + high + elements.size);
        for (count, stride) in elements.steps {
            let reach = (count - 1) * stride;
            from += reach.min(0);
            to += reach.max(0);
        }
        Some(from..to)
    }

    /// Whether every access to bytes of the slice stays inside it.
    pub fn is_inside(&self) -> bool {
        let (start, size) = (self.slice.offset as i128, self.slice.size as i128);
        self.hull()
            .is_none_or(|hull| hull.start >= start && hull.end <= start + size)
    }

    /// An access to all elements of a view, in any order.
    pub fn of_view(view: &ArrayView, effect: Effect) -> Access<'_> {
        Access {
            slice: view.slice,
            place: Place::View(view),
            effect,
            order: Order::Any,
        }
    }

    /// Whether they share no byte; false where that is not known.
    pub fn is_apart(&self, other: &Access<'_>) -> bool {
        if self.slice.allocation != other.slice.allocation {
            return true;
        }
        let (Some(own), Some(others)) = (self.hull(), other.hull()) else {
            return true;
        };
        if own.end <= others.start || others.end <= own.start || self.is_beside(other) {
            return true;
        }
        let (a, b) = (self.footprint(), other.footprint());
        if !a.is_exact || !b.is_exact {
            return false;
        }
        let (mut i, mut j) = (0, 0);
        while let (Some(x), Some(y)) = (a.runs.get(i), b.runs.get(j)) {
            if x.start < y.end && y.start < x.end {
                return false;
            }
            match x.end < y.end {
                true => i += 1,
                false => j += 1,
            }
        }
        true
    }

    /// Whether there is a distance after which both begin again, and within which they have parts of their own, as
    /// neighbouring columns have, however many rows there are.
    fn is_beside(&self, other: &Access<'_>) -> bool {
        if self.is_dynamic() || other.is_dynamic() {
            return false;
        }
        let steps = self.elements().steps;
        let mut distances = steps.iter().map(|step| step.1.abs());
        distances.any(|distance| {
            let (own, others) = (self.part_of(distance), other.part_of(distance));
            let moved = (others.start - own.start).checked_rem_euclid(distance);
            let is_beside = |moved| {
                let end = moved + (others.end - others.start);
                moved >= own.end - own.start && end <= distance
            };
            moved.is_some_and(is_beside)
        })
    }

    /// The bytes of the elements that are not moved by multiples of `distance`.
    fn part_of(&self, distance: i128) -> Range<i128> {
        let elements = self.elements();
        let first = self.slice.offset as i128 + elements.first;
        let (mut from, mut to) = (first, first + elements.size);
        for (count, stride) in elements.steps {
            if distance == 0 || stride % distance != 0 {
                let reach = (count - 1) * stride;
                from += reach.min(0);
                to += reach.max(0);
            }
        }
        from..to
    }

    /// The bytes, run by run.
    pub fn footprint(&self) -> Footprint {
        let Some(hull) = self.hull() else {
            return Footprint {
                runs: Vec::new(),
                is_exact: true,
            };
        };
        let elements = self.elements();
        // Dimensions from the one whose neighbours are nearest, as long as they leave no gap.
        let mut steps: Vec<(i128, i128)> = elements.steps.into_iter().collect();
        steps.retain(|step| step.0 > 1 && step.1 != 0);
        steps.sort_by_key(|step| step.1.abs());
        let mut run = elements.size;
        let dense = steps
            .iter()
            .take_while(|step| {
                let follows = step.1.abs() <= run;
                if follows {
                    run += (step.0 - 1) * step.1.abs();
                }
                follows
            })
            .count();
        let rest = &steps[dense..];
        let count = rest
            .iter()
            .try_fold(1u64, |all, step| all.checked_mul(step.0 as u64));
        if self.is_dynamic() || count.is_none_or(|count| count > MAX_RUNS) {
            return Footprint {
                is_exact: hull.end - hull.start == run,
                runs: vec![hull],
            };
        }
        let mut starts = vec![hull.start];
        for &(count, stride) in rest {
            starts = (0..count)
                .flat_map(|at| starts.iter().map(move |start| start + at * stride.abs()))
                .collect();
        }
        starts.sort_unstable();
        let mut runs: Vec<Range<i128>> = Vec::with_capacity(starts.len());
        for start in starts {
            match runs.last_mut() {
                Some(last) if start <= last.end => last.end = last.end.max(start + run),
                _ => runs.push(start..start + run),
            }
        }
        Footprint {
            runs,
            is_exact: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::thunk::Effect;
    use crate::plan::view::{ArrayView, BufferSlice, DynamicIndex};
    use crate::types::{Dims, PrimitiveType};

    fn view(dims: &[i64], strides: &[i64], offset: i64) -> ArrayView {
        ArrayView {
            slice: BufferSlice {
                allocation: 0,
                offset: 100,
                size: 64,
            },
            element_type: PrimitiveType::F32,
            dims: Dims::from_slice(dims),
            strides: Dims::from_slice(strides),
            offset,
            dynamic: SmallVec::new(),
        }
    }

    fn access(view: &ArrayView) -> Access<'_> {
        Access::of_view(view, Effect::Read)
    }

    #[test]
    fn columns_of_many_rows_are_apart() {
        let columns = |offset, width| view(&[1 << 20, width], &[16, 1], offset);
        let (first, rest) = (columns(0, 8), columns(8, 8));
        assert!(access(&first).is_apart(&access(&rest)));
        assert!(access(&rest.reverse(&[0, 1])).is_apart(&access(&first)));
        assert!(!access(&columns(0, 9)).is_apart(&access(&rest)));
        // These reach over the end of a row.
        let longer = columns(8, 9);
        assert!(
            !access(&longer).is_apart(&access(&first))
                && !access(&first).is_apart(&access(&longer))
        );
        assert!(access(&view(&[1 << 20], &[2], 0)).is_apart(&access(&view(&[1 << 20], &[2], 1))));
    }

    #[test]
    fn what_is_beside_shares_no_byte() {
        let mut state = 1u64;
        let mut draw = |n: i64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 33) as i64) % n
        };
        let mut found = 0;
        for _ in 0..20_000 {
            let mut some = || {
                let mut pair = |first: i64, n: i64| [first + draw(n), first + draw(n)];
                let (dims, strides) = (pair(1, 4), pair(-8, 17));
                view(&dims, &strides, 40 + draw(12))
            };
            let (a, b) = (some(), some());
            if access(&a).is_beside(&access(&b)) {
                found += 1;
                let bytes = |view: &ArrayView| access(view).footprint().runs;
                let bytes = [bytes(&a), bytes(&b)].map(|runs| runs.into_iter().flatten());
                let [own, others] = bytes.map(|all| all.collect::<std::collections::HashSet<_>>());
                assert!(own.is_disjoint(&others), "{a:?} {b:?}");
            }
        }
        assert!(found > 1000, "{found}");
    }

    #[test]
    fn dense_views_are_one_run() {
        let whole = vec![Range {
            start: 100,
            end: 164,
        }];
        let dense = view(&[4, 4], &[4, 1], 0);
        assert_eq!(access(&dense).footprint().runs, whole);
        let turned = view(&[4, 4], &[1, 4], 0);
        assert_eq!(access(&turned).footprint().runs, whole);
        let reversed = view(&[16], &[-1], 15);
        assert_eq!(access(&reversed).footprint().runs, whole);
        assert!(access(&reversed).is_inside());
        let repeated = view(&[9, 16], &[0, 1], 0);
        assert_eq!(access(&repeated).footprint().runs, whole);
    }

    #[test]
    fn gaps_are_told_apart() {
        let columns = view(&[4, 2], &[4, 1], 1);
        let runs = [104..112, 120..128, 136..144, 152..160];
        assert_eq!(access(&columns).footprint().runs, runs);
        assert!(access(&columns).footprint().is_exact);
        assert!(access(&view(&[0, 3], &[3, 1], 0)).hull().is_none());
    }

    #[test]
    fn what_lies_between_each_other_is_apart() {
        let part = |dims: [i64; 2], offset| view(&dims, &[4, 1], offset);
        let is_apart = |a: &ArrayView, b: &ArrayView| access(a).is_apart(&access(b));
        let (left, right) = (part([4, 2], 0), part([4, 2], 2));
        assert!(is_apart(&left, &right) && is_apart(&right, &left));
        assert!(!is_apart(&left, &part([4, 2], 1)));
        assert!(!is_apart(&part([1, 4], 4), &right));
        assert!(is_apart(&part([1, 4], 4), &part([2, 4], 8)));
    }

    #[test]
    fn reaching_out_is_seen() {
        assert!(!access(&view(&[17], &[1], 0)).is_inside());
        assert!(!access(&view(&[2], &[-1], 0)).is_inside());
        let mut moved = view(&[2], &[1], 0);
        moved.dynamic.push(DynamicIndex {
            slice: moved.slice,
            offset: 0,
            element_type: PrimitiveType::S32,
            stride: 1,
            limit: 14,
        });
        assert_eq!(access(&moved).hull(), Some(100..164));
        assert!(!access(&moved).footprint().is_exact);
        moved.dynamic[0].limit = 15;
        assert!(!access(&moved).is_inside());
    }
}
