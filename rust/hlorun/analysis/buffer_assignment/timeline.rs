//! When the values of an allocation are live.
//!
//! Comes in: values with their times. Goes out: those that began by some moment, the last first. Promise: adding
//! and finding take logarithmic time, and one value alone takes no memory of its own.

use std::collections::BTreeMap;

use crate::analysis::dataflow::ValueIndex;
use crate::analysis::live_range::TimeBound;

/// Values by start and number.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    /// The only value; most allocations hold one.
    only: Option<(ValueIndex, TimeBound)>,
    /// All values, where there are more.
    all: BTreeMap<(u32, ValueIndex), TimeBound>,
}

impl Timeline {
    /// Adds a value.
    pub fn insert(&mut self, value: ValueIndex, range: TimeBound) {
        if self.only.is_none() && self.all.is_empty() {
            self.only = Some((value, range));
            return;
        }
        let values = self.only.take().into_iter().chain([(value, range)]);
        self.all
            .extend(values.map(|(value, range)| ((range.start, value), range)));
    }

    /// The values that begin at `moment` or before it, those that begin last first.
    pub fn until(&self, moment: u32) -> impl Iterator<Item = (ValueIndex, TimeBound)> {
        let only = self.only.filter(|(_, range)| range.start <= moment);
        let all = self.all.range(..=(moment, ValueIndex(u32::MAX))).rev();
        all.map(|(&(_, value), &range)| (value, range)).chain(only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::dataflow::PositionId;

    #[test]
    fn values_that_began_come_last_first() {
        let mut timeline = Timeline::default();
        let until = |timeline: &Timeline, moment| -> Vec<u32> {
            timeline.until(moment).map(|(value, _)| value.0).collect()
        };
        assert!(until(&timeline, 9).is_empty());
        for (value, start) in [(4, 5), (0, 7), (2, 1), (3, 5)] {
            let end_position = PositionId(0);
            let range = TimeBound {
                start,
                end: start + 1,
                end_position,
            };
            timeline.insert(ValueIndex(value), range);
            assert!(until(&timeline, 9).contains(&value));
        }
        assert_eq!(until(&timeline, 9), [0, 4, 3, 2]);
        assert_eq!(until(&timeline, 5), [4, 3, 2]);
        assert_eq!(until(&timeline, 4), [2]);
        assert!(until(&timeline, 0).is_empty());
    }
}
