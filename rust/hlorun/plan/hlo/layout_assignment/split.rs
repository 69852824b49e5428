//! Which dimensions of an array are rows that go outside, and of what they go outside.

use crate::module::{HloModule, InstructionId};
use crate::plan::cost::layouts::{MAX_PLANE, MAX_SHORT, MAX_SHORT_ELEMENTS, MIN_RUN, USUAL_RUN};
use crate::types::{ArrayShape, Layout};

/// The dimensions of an array with short rows, in their order.
#[derive(Clone, Copy, Default)]
pub struct Split<'d> {
    /// Long ones before the run.
    pub outer: &'d [i64],
    /// Long ones that go inside of the short ones, so that there are enough elements side by side.
    pub run: &'d [i64],
    /// Short ones; none where the array has no such rows.
    pub short: &'d [i64],
}

impl<'d> Split<'d> {
    /// Those of an array of these sizes.
    pub fn of(dims: &'d [i64]) -> Split<'d> {
        let is_short = |at: usize| {
            (1..=MAX_SHORT).contains(&dims[at]) && count(&dims[at..]) <= MAX_SHORT_ELEMENTS
        };
        let first = (1..dims.len()).rev().take_while(|&at| is_short(at)).last();
        let (long, short) = dims.split_at(first.unwrap_or(dims.len()));
        let is_run = |&at: &usize| count(&long[at..]) >= USUAL_RUN;
        let (outer, run) = long.split_at((0..long.len()).rev().find(is_run).unwrap_or(0));
        let is_plane = count(run) >= MIN_RUN && count(&dims[outer.len()..]) <= MAX_PLANE;
        match short.is_empty() || !is_plane {
            true => Split {
                outer: dims,
                ..Split::default()
            },
            false => Split { outer, run, short },
        }
    }

    /// The order in memory with the short dimensions outside of the run, fastest first.
    pub fn layout(&self) -> Layout {
        let (run, short) = (self.outer.len(), self.outer.len() + self.run.len());
        let inside = (run..short).rev();
        let outside = (short..short + self.short.len()).rev();
        let order = inside.chain(outside).chain((0..run).rev());
        Layout {
            minor_to_major: order.map(|dim| dim as u8).collect(),
            extension: None,
        }
    }
}

/// Elements of these dimensions.
pub fn count(dims: &[i64]) -> i64 {
    let sizes = dims.iter();
    sizes.fold(1i64, |all, &size| all.saturating_mul(size))
}

/// Elements of an array; 0 for other values.
pub fn elements(module: &HloModule, id: InstructionId) -> i64 {
    let shape = module.instruction(id).array_shape();
    shape.and_then(ArrayShape::element_count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_dimensions_are_outside_of_a_run() {
        let order = |dims: &[i64]| Split::of(dims).layout().minor_to_major.to_vec();
        assert_eq!(order(&[100, 3]), [0, 1]);
        assert_eq!(order(&[100, 3, 2]), [0, 2, 1]);
        assert_eq!(order(&[5, 200, 3]), [1, 2, 0]);
        // So many dimensions that a run has elements enough.
        assert_eq!(order(&[10, 50, 3]), [1, 0, 2]);
        assert_eq!(order(&[9, 10, 20, 3]), [2, 1, 3, 0]);
        assert_eq!(order(&[50, 1, 3]), [0, 2, 1]);
        // No short rows, few, or too many for a plane.
        for dims in [
            &[][..],
            &[3],
            &[100],
            &[100, 9],
            &[15, 3],
            &[0, 3],
            &[100, 0],
            &[1 << 15, 3],
        ] {
            assert!(Split::of(dims).short.is_empty(), "{dims:?}");
        }
        // Rows of rows are short as far as they are.
        assert_eq!(Split::of(&[100, 8, 8, 2]).short, [8, 2]);
    }
}
