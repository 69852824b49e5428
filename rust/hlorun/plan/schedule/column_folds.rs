//! `column-folds`: reductions that compute their values and fold them in one pass of vector bytecode.
//!
//! In: a reduction whose fastest dimension is kept and whose second fastest one is reduced: planes of rows, each column of
//! which belongs to one result. Out: [`ReduceThunk::columns`]. A block of results stays in the first-level cache while the
//! values of its columns are computed, row by row, and no value is stored. Results have the same bits: either way a result
//! is combined with the values of its column in the order of the rows.
//!
//! Legal where the elements of every row of an input lie side by side, or a row is one element for all columns. It pays where planes
//! are small enough to stay in a core's cache: blocks of columns read them with gaps.

use hlorun_kernels::vector_bytecode::ColumnFold;

use crate::plan::cost::column_folds::{MAX_PLANE, MIN_COLUMNS};
use crate::plan::element::program::{Program, Register};
use crate::plan::faults::{self, Fault};
use crate::plan::thunk::{FoldWay, LoadKind, ReduceThunk, Thunk, ThunkKind};
use crate::plan::view::Walk;

/// Name by which it is switched off.
pub const NAME: &str = "column-folds";

/// How an input lies in the planes of a reduction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planes {
    /// From plane to plane.
    pub outer: Walk,
    /// Elements from row to row.
    pub row_step: i64,
    /// Whether a row is one element, read for every column; otherwise its elements lie side by side.
    pub is_single: bool,
}

/// Rows and columns of a plane of the walk `space`.
pub fn plane_of(space: &[(i64, bool)]) -> Option<(i64, i64)> {
    match *space {
        [.., (rows, true), (columns, false)] => Some((rows, columns)),
        _ => None,
    }
}

/// How an input of this walk lies in planes of so many rows and columns.
pub fn planes(walk: &Walk, (rows, columns): (i64, i64)) -> Option<Planes> {
    let mut outer = walk.clone();
    let column_step = split_last(&mut outer, columns)?;
    let row_step = split_last(&mut outer, rows)?;
    let is_row = faults::holds(Fault::FoldsScatteredRows, matches!(column_step, 0 | 1));
    is_row.then_some(Planes {
        outer,
        row_step,
        is_single: column_step == 0,
    })
}

/// Takes the fastest dimension of `size` elements off a walk; returns its stride. `None` where the walk ends within it.
pub(super) fn split_last(walk: &mut Walk, size: i64) -> Option<i64> {
    if size == 1 {
        return Some(0);
    }
    let last = walk.last_mut()?;
    let stride = last.1;
    if last.0 % size != 0 {
        return None;
    }
    match last.0 / size {
        1 => {
            walk.pop();
        }
        times => *last = (times, stride * size),
    }
    Some(stride)
}

/// Finds such reductions in `thunks` and everything nested in them; returns how many there are.
pub fn run(thunks: &mut [Thunk]) -> usize {
    let mut count = 0;
    let mut sequences: Vec<&mut [Thunk]> = vec![thunks];
    while let Some(sequence) = sequences.pop() {
        for thunk in sequence {
            match &mut thunk.kind {
                ThunkKind::Reduce(reduction) => {
                    reduction.columns = fold(reduction).map(Box::new);
                    count += usize::from(reduction.columns.is_some());
                }
                ThunkKind::RowTiled(tiled) => sequences.push(&mut tiled.members[..]),
                ThunkKind::While(own) => {
                    sequences.extend([&mut own.condition[..], &mut own.body[..]]);
                }
                ThunkKind::Conditional(own) => {
                    sequences.extend(own.branches.iter_mut().map(|branch| &mut branch[..]));
                }
                _ => {}
            }
        }
    }
    count
}

fn fold(reduction: &ReduceThunk) -> Option<ColumnFold> {
    let FoldWay::Kernels(op) = reduction.way else {
        return None;
    };
    let (rows, columns) = plane_of(&reduction.space)?;
    let has_planes = reduction.space.len() > 2;
    if !has_planes || rows < 2 || columns < MIN_COLUMNS as i64 {
        return None;
    }
    let program: &Program = &reduction.program;
    let mut is_single = vec![false; program.inputs.len()];
    for (at, &input) in program.inputs.iter().enumerate() {
        let load = reduction.loads.iter().find(|load| load.register == input)?;
        if !matches!(load.kind, LoadKind::View(_)) {
            return None;
        }
        is_single[at] = planes(&load.walk, (rows, columns))?.is_single;
    }
    let inputs = program.inputs.iter().zip(&is_single);
    let mut rows_of_elements = inputs.filter(|(_, is_single)| !**is_single);
    let is_small = |input: &Register| {
        let size = program.types[input.0 as usize].size_bytes() as i64;
        rows.saturating_mul(columns).saturating_mul(size) <= MAX_PLANE as i64
    };
    if !rows_of_elements.all(|(input, _)| is_small(input)) {
        return None;
    }
    let fold = program.column_fold(&is_single, op)?;
    (columns >= fold.min_columns() as i64).then_some(fold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_are_found_in_merged_walks() {
        let planes = |walk: &[(i64, i64)]| planes(&Walk::from_slice(walk), (4, 100));
        let found = |outer: &[(i64, i64)], row_step, is_single| {
            Some(Planes {
                outer: Walk::from_slice(outer),
                row_step,
                is_single,
            })
        };
        // Dense, repeated, an element for each row, one for all, and rows with gaps.
        assert_eq!(planes(&[(800, 1)]), found(&[(2, 400)], 100, false));
        assert_eq!(planes(&[(2, 0), (400, 1)]), found(&[(2, 0)], 100, false));
        assert_eq!(planes(&[(8, 1), (100, 0)]), found(&[(2, 4)], 1, true));
        assert_eq!(planes(&[(800, 0)]), found(&[(2, 0)], 0, true));
        assert_eq!(
            planes(&[(2, 500), (4, 120), (100, 1)]),
            found(&[(2, 500)], 120, false)
        );
        // Along the columns, and dimensions that end inside a row.
        assert_eq!(planes(&[(8, 1), (100, 8)]), None);
        assert_eq!(planes(&[(16, 50), (50, 1)]), None);
        assert_eq!(planes(&[]), None);
    }
}
