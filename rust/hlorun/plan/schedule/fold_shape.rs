//! Along which dimensions of a tile a reduction folds.

use crate::plan::cost::reduce::{FEW_COLUMNS, MIN_REGULAR, SHORT_ROW, SHORT_ROW_GENERAL};
use crate::plan::thunk::FoldWay;

/// How the values of a tile belong to results.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Whole rows of `size` values, one result each.
    ShortRows {
        /// Values of a row.
        size: usize,
        /// Values of neighbouring results.
        run: usize,
    },
    /// Whole rows of `size` values, each for the same results.
    FewColumns {
        /// Results.
        size: usize,
        /// Values for them.
        run: usize,
    },
    /// Whole rows of `size` values, each for the same results, of which `row` neighbours belong to one.
    FewGroups {
        /// Values of a row.
        size: usize,
        /// Values of one result.
        row: usize,
        /// Values of the same results.
        run: usize,
    },
    /// Anything else.
    Plain,
}

impl Shape {
    /// The shape of tiles of `tile` values of a walk.
    pub fn of(space: &[(i64, bool)], way: FoldWay, tile: usize) -> Shape {
        if let [.., (outer, true), (groups, false), (row, true)] = *space
            && matches!(way, FoldWay::Kernels(_))
            && let Some(size) = groups.checked_mul(row)
            && (1..=FEW_COLUMNS as i64).contains(&size)
            && let Some(run) = outer.checked_mul(size)
            && run >= MIN_REGULAR as i64
            && size as usize * 2 <= tile
        {
            return Shape::FewGroups {
                size: size as usize,
                row: row as usize,
                run: run as usize,
            };
        }
        let [.., (outer, outer_reduced), (inner, inner_reduced)] = *space else {
            return Shape::Plain;
        };
        let (outer, size) = (outer as usize, inner as usize);
        let Some(run) = outer.checked_mul(size) else {
            return Shape::Plain;
        };
        let longest = match way {
            FoldWay::Kernels(_) => SHORT_ROW,
            FoldWay::Lanes | FoldWay::OneByOne => SHORT_ROW_GENERAL,
        };
        match (outer_reduced, inner_reduced) {
            _ if run < MIN_REGULAR || size * 2 > tile => Shape::Plain,
            (false, true) if size <= longest => Shape::ShortRows { size, run },
            (true, false) if size <= FEW_COLUMNS && way != FoldWay::OneByOne => {
                Shape::FewColumns { size, run }
            }
            _ => Shape::Plain,
        }
    }
}
