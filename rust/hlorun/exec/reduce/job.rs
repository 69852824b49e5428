//! What is reduced, and where results gather.

use super::columns::Columns;
use crate::exec::element::sources::Sources;
use crate::exec::environment::Environment;
use crate::plan::cost::reduce::MIN_LANE_RUN;
use crate::plan::element::elementwise::dtype;
use crate::plan::element::program::{Home, Program, Register, Task};
use crate::plan::faults::{self, Fault};
use crate::plan::schedule::fold_shape::Shape;
use crate::plan::schedule::scalar_bytecode::folds::{has_total_order, row_lanes};
use crate::plan::thunk::row_loop::RowLoop;
use crate::plan::thunk::{FoldWay, Load, ReduceThunk};
use crate::plan::view::Walk;
use hlorun_kernels::choice::{Choice, Choose, ChooseColumns, ChooseRow};
use smallvec::SmallVec;

/// Addresses of accumulators that tasks use in disjoint parts.
#[derive(Clone)]
pub(crate) struct Accumulators {
    pub(crate) pointers: SmallVec<[*mut u8; 2]>,
    pub(crate) sizes: SmallVec<[usize; 2]>,
}

impl Accumulators {
    pub(crate) fn at(&self, k: usize, index: usize) -> *mut u8 {
        self.pointers[k].wrapping_add(index * self.sizes[k])
    }

    /// The accumulators whose result `index` is this one's result `at`.
    pub(super) fn renumbered(&self, at: usize, index: usize) -> Accumulators {
        Accumulators {
            pointers: (0..self.pointers.len())
                .map(|k| self.at(k, at).wrapping_sub(index * self.sizes[k]))
                .collect(),
            sizes: self.sizes.clone(),
        }
    }
}

// SAFETY: each task is given results no other task touches.
unsafe impl Sync for Accumulators {}

/// What is known of the values of an operand.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    /// All rows of it are the same.
    pub(super) repeats: bool,
    /// They are read where they lie, in the order of the walk.
    pub(super) is_dense: bool,
}

impl Operand {
    /// Those of one that `load` brings, if any does; rows have `row` values.
    fn of(load: Option<&Load>, row: i64) -> Operand {
        Operand {
            repeats: load.is_some_and(|load| repeats(&load.walk, row)),
            is_dense: load.is_some_and(|load| load.is_dense),
        }
    }

    /// All operands of a reduction.
    pub(super) fn all(thunk: &ReduceThunk) -> SmallVec<[Operand; 2]> {
        let row = thunk.space.last().map_or(1, |dimension| dimension.0);
        let load = |output| thunk.loads.iter().find(|load| load.register == output);
        let outputs = thunk.program.outputs.iter();
        outputs
            .map(|&output| Operand::of(load(output), row))
            .collect()
    }
}

/// Values of a tile, and the result they belong to: the first one's, where they belong to several.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) from: usize,
    pub(super) count: usize,
    pub(super) index: usize,
}

/// The kernels of a reduction that chooses among pairs.
#[derive(Clone, Copy)]
pub(super) struct Choosing {
    pub(super) choice: Choice,
    pub(super) pairs: Choose,
    /// Chooses among the pairs of a row, in any order; `None` where the order matters.
    pub(super) row: Option<ChooseRow>,
    /// Chooses down columns, row by row; `None` where the order matters: then rows are combined with their neighbours first.
    pub(super) columns: Option<ChooseColumns>,
}

impl Choosing {
    pub(super) fn of(thunk: &ReduceThunk) -> Option<Choosing> {
        let choice = thunk.choice?;
        let ty = |k: usize| dtype(thunk.outputs.get(k)?.element_type);
        let (value, second) = (ty(0)?, ty(1)?);
        let is_any_order = faults::holds(Fault::ChoosesInAnyOrder, has_total_order(thunk));
        Some(Choosing {
            choice,
            pairs: choice.kernel(value, second)?,
            row: choice.row_kernel(value, second).filter(|_| is_any_order),
            columns: choice.column_kernel(value, second).filter(|_| is_any_order),
        })
    }

    /// How columns are chosen, if by a kernel.
    pub(super) fn by_columns(self) -> Option<(Choice, ChooseColumns)> {
        Some((self.choice, self.columns?))
    }
}

/// Whether each `row` elements of a walk are the same ones.
fn repeats(walk: &Walk, row: i64) -> bool {
    let mut period = 1i64;
    walk.iter().rev().all(|&(size, stride)| {
        let is_inside = period < row;
        period = period.saturating_mul(size);
        match is_inside {
            true => period <= row,
            false => stride == 0,
        }
    })
}

/// The kernels of a reduction by one operation.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    pub(super) fold: hlorun_kernels::Reduce,
    pub(super) combine: hlorun_kernels::Binary,
    pub(super) identity: Option<[u8; 16]>,
    pub(super) fold_rows: Option<hlorun_kernels::FoldRows>,
    pub(super) halve_rows: Option<hlorun_kernels::HalveRows>,
}

/// One reduction being run.
pub(crate) struct Job<'t> {
    pub(crate) thunk: &'t ReduceThunk,
    pub(super) sources: Sources<'t>,
    pub(super) total: usize,
    /// Values of a tile.
    pub(crate) tile: usize,
    /// Tiles end at multiples of this, or with `usize::MAX` anywhere.
    pub(super) run: usize,
    pub(crate) shape: Shape,
    pub(super) operands: SmallVec<[Operand; 2]>,
    /// Set where the reducer chooses one of two pairs.
    pub(super) choosing: Option<Choosing>,
    pub(crate) fold: Option<hlorun_kernels::Reduce>,
    pub(crate) combine: Option<hlorun_kernels::Binary>,
    pub(super) fold_rows: Option<hlorun_kernels::FoldRows>,
    pub(super) halve_rows: Option<hlorun_kernels::HalveRows>,
    pub(super) identity: Option<[u8; 16]>,
    /// Set where values are computed and folded in one pass.
    pub(super) columns: Option<Columns<'t>>,
    /// Set where values are computed over rows.
    pub(super) rows: Option<&'t RowLoop>,
    /// Asked whether the run is to end; none where the reduction is short.
    pub(super) run_of: Option<&'t Environment<'t>>,
}

impl Job<'_> {
    /// Lanes of a row of `size` values, where rows are folded together whose results are among `results` neighbours, and the
    /// lanes of each have the same number of values.
    ///
    /// Whether they are is decided by the rows that a whole tile holds, not by those that are there: the
    /// order in which a row is folded must not depend on where a thread's share ends.
    pub(super) fn lanes_together(&self, size: usize, results: usize) -> Option<usize> {
        let lanes = row_lanes(size);
        let is_worth = lanes * results.min(self.tile / size) >= MIN_LANE_RUN;
        (is_worth && self.thunk.way != FoldWay::OneByOne).then_some(lanes)
    }
}

/// Whether a reducer is one piece of vector bytecode, which writes what it has computed after it has read everything.
pub(super) fn writes_in_place(combiner: &Program) -> bool {
    let outputs = &combiner.outputs;
    let is_own = |(k, register): (usize, &Register)| {
        let ty = |register: Register| combiner.types[register.0 as usize];
        matches!(combiner.homes[register.0 as usize], Home::Slot(_))
            && !outputs[..k].contains(register)
            && ty(*register).size_bytes() == ty(combiner.inputs[k]).size_bytes()
    };
    matches!(combiner.tasks[..], [Task::Vector(_)]) && outputs.iter().enumerate().all(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_the_same() {
        let is_same = |walk: &[(i64, i64)], row| repeats(&Walk::from_slice(walk), row);
        assert!(is_same(&[(9, 0), (4, 1)], 4));
        assert!(is_same(&[(9, 0), (2, 0), (2, 5)], 4));
        assert!(is_same(&[(36, 0)], 1));
        assert!(!is_same(&[(36, 1)], 4));
        assert!(!is_same(&[(9, 4), (4, 1)], 4));
        assert!(!is_same(&[(9, 1), (4, 0)], 4));
        assert!(!is_same(&[(6, 0), (6, 1)], 4));
    }
}
