//! Along which dimensions of a tile a reduction folds.

use crate::plan::cost::reduce::{
    FEW_COLUMNS, MIN_REGULAR, SHORT_ROW, SHORT_ROW_GENERAL, SHORT_ROW_OF_TRUTHS,
};
use crate::plan::thunk::{FoldWay, ReduceThunk};
use crate::types::PrimitiveType;

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
    /// The shape of tiles of `tile` values of a reduction.
    pub fn of(reduction: &ReduceThunk, tile: usize) -> Shape {
        Shape::along(
            &reduction.space,
            reduction.way,
            longest_short_row(reduction),
            tile,
        )
    }

    /// The same of the dimensions `space`, where rows of at most `longest` values are short.
    fn along(space: &[(i64, bool)], way: FoldWay, longest: usize, tile: usize) -> Shape {
        // Few values are folded in their order. Short runs of columns are folded one after the other in a tile; a tile of rows
        // ends where a run does, so that short runs would be tiles of their own.
        let total = space.iter().map(|&(size, _)| size);
        let is_few = total.fold(1i64, i64::saturating_mul) < MIN_REGULAR as i64;
        if let [.., (outer, true), (groups, false), (row, true)] = *space
            && matches!(way, FoldWay::Kernels(_))
            && let Some(size) = groups.checked_mul(row)
            && (1..=FEW_COLUMNS as i64).contains(&size)
            && let Some(run) = outer.checked_mul(size)
            && !is_few
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
        match (outer_reduced, inner_reduced) {
            _ if is_few || size * 2 > tile => Shape::Plain,
            (false, true) if size <= longest && run >= MIN_REGULAR => {
                Shape::ShortRows { size, run }
            }
            (true, false) if size <= FEW_COLUMNS && way != FoldWay::OneByOne => {
                Shape::FewColumns { size, run }
            }
            _ => Shape::Plain,
        }
    }
}

/// Most values of rows that are folded side by side.
pub fn longest_short_row(reduction: &ReduceThunk) -> usize {
    let ty = reduction.outputs.first().map(|output| output.element_type);
    longest(reduction.way, ty)
}

/// The same for a way to fold and the type of a result.
fn longest(way: FoldWay, ty: Option<PrimitiveType>) -> usize {
    match way {
        FoldWay::Kernels(_) if ty == Some(PrimitiveType::Pred) => SHORT_ROW_OF_TRUTHS,
        FoldWay::Kernels(_) => SHORT_ROW,
        FoldWay::Lanes | FoldWay::OneByOne => SHORT_ROW_GENERAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(space: &[(i64, bool)]) -> Shape {
        let way = FoldWay::Kernels(hlorun_kernels::BinaryOp::Add);
        Shape::along(space, way, SHORT_ROW, 2048)
    }

    #[test]
    fn shapes_follow_the_two_fastest_dimensions() {
        assert!(matches!(
            shape(&[(1000, false), (4, true)]),
            Shape::ShortRows { size: 4, run: 4000 }
        ));
        assert!(matches!(
            shape(&[(7, false), (1000, true), (4, false)]),
            Shape::FewColumns { size: 4, run: 4000 }
        ));
        assert!(matches!(shape(&[(1000, false), (64, true)]), Shape::Plain));
        assert!(matches!(shape(&[(8, false), (4, true)]), Shape::Plain));
    }

    #[test]
    fn short_runs_are_folded_where_there_are_many() {
        assert!(matches!(
            shape(&[(37, false), (37, true), (3, false)]),
            Shape::FewColumns { size: 3, run: 111 }
        ));
        assert!(matches!(
            shape(&[(40, false), (2, true), (3, false), (4, true)]),
            Shape::FewGroups {
                size: 12,
                row: 4,
                run: 24
            }
        ));
        let few = [(4, false), (8, true), (4, false)];
        assert!(matches!(shape(&few), Shape::Plain));
    }

    #[test]
    fn rows_of_truth_values_may_be_longer() {
        let way = FoldWay::Kernels(hlorun_kernels::BinaryOp::Or);
        let longest = |ty| longest(way, Some(ty));
        assert_eq!(longest(PrimitiveType::Pred), SHORT_ROW_OF_TRUTHS);
        assert_eq!(longest(PrimitiveType::U8), SHORT_ROW);
        let general = super::longest(FoldWay::OneByOne, Some(PrimitiveType::Pred));
        assert_eq!(general, SHORT_ROW_GENERAL);
    }
}
