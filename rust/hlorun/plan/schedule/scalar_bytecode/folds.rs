//! Reductions of few elements as scalar bytecode.
//!
//! In: a [`ReduceThunk`]. Out: its values, and operations that fold them in the order in which
//! [`crate::exec::reduce`] folds one tile: a row by the kernel, or by the reducer element after
//! element; a few columns by kernels, the lower half of the rows with the upper one, or by the
//! reducer, each row with the next one; more columns row after row.

use hlorun_kernels::choice::{Choice, ChooseColumns};
use hlorun_kernels::scalar_bytecode;
use hlorun_kernels::vector_bytecode::Op;
use hlorun_kernels::{BinaryOp, DType};

use super::builder::Builder;
use super::moves::place;
use super::steps::SmallCode;
use crate::plan::cost::reduce::{MAX_LANES, MIN_LANE_RUN, MIN_REGULAR};
use crate::plan::cost::scalar_bytecode::{
    ELEMENTS_PER_WORK, MAX_CHOSEN, MAX_REDUCED, MAX_SCRATCH, MAX_STEPS, MAX_UNROLLED, MIN_CHOSEN,
    MIN_CHOSEN_COLUMNS,
};
use crate::plan::cost::small_loop::runs_step_by_step;
use crate::plan::element::elementwise::dtype;
use crate::plan::element::program::Program;
use crate::plan::faults::{self, Fault};
use crate::plan::schedule::column_folds::plane_of;
use crate::plan::schedule::fold_shape::Shape;
use crate::plan::schedule::small_loop;
use crate::plan::schedule::tiles;
use crate::plan::thunk::scalar_bytecode::{Code, ColumnChoice, Element, Place};
use crate::plan::thunk::small_loop::Line;
use crate::plan::thunk::{FoldWay, Load, LoopThunk, ReduceThunk};
use crate::plan::view::Walk;

/// Lanes of a row that a general reducer folds as a whole: so many that each has the same number of
/// values.
pub fn row_lanes(size: usize) -> usize {
    let most = 1 << (size / 8).clamp(1, MAX_LANES).ilog2();
    most.min(1 << size.trailing_zeros().min(16))
}

/// The result that element `position` of a walk belongs to.
pub fn result_of(space: &[(i64, bool)], position: usize) -> usize {
    let (mut rest, mut index, mut step) = (position, 0, 1);
    for &(size, reduced) in space.iter().rev() {
        let size = size as usize;
        if !reduced {
            index += rest % size * step;
            step *= size;
        }
        rest /= size;
    }
    index
}

/// How often rows are halved until one is left, and that one combined with the results.
fn levels(rows: usize) -> usize {
    rows.next_power_of_two().ilog2() as usize + 1
}

/// A reduction whose values are computed.
struct Fold<'r> {
    reduction: &'r ReduceThunk,
    values: Vec<Place>,
    outputs: Vec<Place>,
    sizes: Vec<usize>,
}

impl Builder {
    pub(crate) fn reduce(&mut self, reduction: &ReduceThunk) -> Option<()> {
        let sizes = reduction.space.iter().map(|&(size, _)| size);
        let total = usize::try_from(sizes.product::<i64>()).ok()?;
        let by_columns = column_choice(reduction, total);
        if total > MAX_CHOSEN && by_columns.is_none() && choosing_kernel(reduction).is_some() {
            return None;
        }
        let kept = reduction.space.iter().filter(|(_, reduced)| !reduced);
        let results = kept.map(|&(size, _)| size as usize).product();
        let is_short = (1..=MAX_REDUCED).contains(&total) && is_in_order(reduction, results);
        let shape = match is_short {
            true => Shape::Plain,
            false => shape_of_tile(reduction, total)?,
        };
        let is_plain = matches!(shape, Shape::Plain);
        let shape = match faults::holds(Fault::FoldsInOtherOrder, is_plain) {
            true => Shape::Plain,
            false => shape,
        };
        let apart = reduction.program.step_by_step();
        let program = apart.as_ref().unwrap_or(&reduction.program);
        let types = program.outputs.iter().map(|r| program.types[r.0 as usize]);
        if !types.eq(reduction.outputs.iter().map(|output| output.element_type)) {
            // Narrow floats are summed in wider ones.
            return None;
        }
        let values = LoopThunk {
            count: total,
            program: program.clone(),
            loads: reduction.loads.clone(),
            stores: Vec::new(),
            is_shared: false,
            small: None,
            rows: None,
        };
        let small = small_loop::of(&values)?;
        let mut code = SmallCode::new(self, &values, &small, 0);
        code.run()?;
        let base = code.scratch().next_multiple_of(size_of::<Line>());
        let places = program.outputs.iter().map(|&value| code.place(value));
        let values = places.collect::<Vec<_>>();
        let outputs = reduction.outputs.iter();
        let fold = Fold {
            reduction,
            values,
            outputs: outputs.clone().map(place).collect::<Option<_>>()?,
            sizes: outputs.map(|o| o.element_type.size_bytes()).collect(),
        };
        for (k, init) in reduction.inits.iter().enumerate() {
            let init = place(init)?;
            for result in 0..results {
                self.breathe();
                let size = fold.sizes[k];
                self.copy_bytes(1, size, init, fold.outputs[k].behind(result * size));
            }
        }
        if let Some(own) = by_columns {
            return self.choose_columns(&fold, own, total);
        }
        match reduction.way {
            FoldWay::Kernels(op) => self.fold_by_kernel(&fold, op, (shape, total), base),
            FoldWay::Lanes | FoldWay::OneByOne => self.fold_by_program(&fold, (shape, total), base),
        }
    }

    fn fold_by_kernel(
        &mut self,
        fold: &Fold<'_>,
        op: BinaryOp,
        (shape, total): (Shape, usize),
        base: usize,
    ) -> Option<()> {
        let ([from], [out], [size]) = (&fold.values[..], &fold.outputs[..], &fold.sizes[..]) else {
            return None;
        };
        let ty = dtype(fold.reduction.outputs[0].element_type)?;
        let kernel = hlorun_kernels::reduce(op, ty)?;
        let element = Some(Element {
            op: Op::Binary(op),
            from: ty,
            to: ty,
            scalar: None,
        });
        let space = &fold.reduction.space;
        let (run, is_reduced) = space.last().map_or((1, true), |&(n, r)| (n as usize, r));
        let fold_row = |builder: &mut Builder, from: Place, n: usize, out: Place| {
            builder.breathe();
            let op = builder.push(scalar_bytecode::call_reduce(kernel));
            (op.operands[0], op.out, op.n, op.element) = (from, out, n, element);
            builder.work += n / ELEMENTS_PER_WORK;
        };
        let step = match shape {
            Shape::Plain => run,
            Shape::ShortRows { run, .. }
            | Shape::FewColumns { run, .. }
            | Shape::FewGroups { run, .. } => run,
        };
        let halvings = match shape {
            Shape::FewColumns { size, run } | Shape::FewGroups { size, run, .. } => {
                levels(run / size)
            }
            Shape::Plain | Shape::ShortRows { .. } => 1,
        };
        if !matches!(shape, Shape::Plain) && total / step * halvings > MAX_STEPS {
            return None;
        }
        for at in (0..total).step_by(step) {
            let from = from.behind(at * size);
            let out = out.behind(result_of(space, at) * size);
            self.breathe();
            match shape {
                Shape::ShortRows { size: length, run } => {
                    let kernel = hlorun_kernels::fold_rows(op, ty)?;
                    let op = self.push(scalar_bytecode::call_fold_rows(kernel));
                    (op.operands[0], op.out) = (from, out);
                    (op.x, op.n, op.element) = ((run / length) as i64, length, element);
                    self.work += run / ELEMENTS_PER_WORK;
                }
                Shape::FewColumns { size: width, run } => {
                    let row = self.fold_halves((op, ty), from, (run / width, width), base)?;
                    self.combine(op, ty, [out, row, out], width)?;
                }
                Shape::FewGroups {
                    size: width,
                    row: group,
                    run,
                } => {
                    let row = self.fold_halves((op, ty), from, (run / width, width), base)?;
                    for result in 0..width / group {
                        let from = row.behind(result * group * size);
                        fold_row(self, from, group, out.behind(result * size));
                    }
                }
                Shape::Plain if is_reduced => fold_row(self, from, run, out),
                Shape::Plain => self.combine(op, ty, [out, from, out], run)?,
            }
        }
        Some(())
    }

    /// Combines the lower half of `rows` rows of `width` values with the upper half, until one row is left; returns
    /// its place. The scratch is free from `base` on.
    fn fold_halves(
        &mut self,
        (op, ty): (BinaryOp, DType),
        from: Place,
        (rows, width): (usize, usize),
        base: usize,
    ) -> Option<Place> {
        let row = width * ty.size_bytes();
        // Values in the scratch are computed for this reduction alone.
        let to = match from {
            Place::Scratch(_) => from,
            _ => Place::Scratch(base),
        };
        if matches!(to, Place::Scratch(at) if at + rows * row > MAX_SCRATCH) {
            return None;
        }
        let (mut from, mut left) = (from, rows);
        while left > 1 {
            let half = left / 2;
            // An odd row in the middle stays where it is; it is the last of those that are left.
            let upper = left - half;
            self.breathe();
            self.combine(op, ty, [from, from.behind(upper * row), to], half * width)?;
            if upper > half {
                self.copy_bytes(
                    width,
                    ty.size_bytes(),
                    from.behind(half * row),
                    to.behind(half * row),
                );
            }
            (from, left) = (to, upper);
        }
        Some(from)
    }

    /// Combines `n` neighbouring elements at the first place with as many at the second one. The results go to the third
    /// place, which may be one of the others.
    fn combine(&mut self, op: BinaryOp, ty: DType, places: [Place; 3], n: usize) -> Option<()> {
        let [left, right, out] = places;
        let size = ty.size_bytes();
        let element = Some(Element {
            op: Op::Binary(op),
            from: ty,
            to: ty,
            scalar: None,
        });
        let short = scalar_bytecode::binary(op, ty).filter(|_| n <= MAX_UNROLLED);
        let (function, count, each) = match short {
            Some(short) => (short, n, 1),
            None => (
                scalar_bytecode::call_binary(hlorun_kernels::binary(op, ty)?),
                1,
                n,
            ),
        };
        for at in 0..count {
            let [left, right, out] = [left, right, out].map(|place| place.behind(at * size));
            let op = self.push(function);
            (op.operands[0], op.operands[1], op.out) = (left, right, out);
            (op.n, op.unit, op.sizes, op.element) = (each, size, [size, size, 0], element);
        }
        self.work += n / ELEMENTS_PER_WORK;
        Some(())
    }

    /// Chooses among pairs by a kernel, down the columns of each plane.
    fn choose_columns(&mut self, fold: &Fold<'_>, own: ColumnChoice, total: usize) -> Option<()> {
        let ([values, seconds], [out, out_seconds]) = (&fold.values[..], &fold.outputs[..]) else {
            return None;
        };
        let [value, second] = own.sizes;
        let [rows, columns] = own.shape;
        let number = self.choices.len();
        self.choices.push(own);
        for at in (0..total).step_by(rows * columns) {
            let result = result_of(&fold.reduction.space, at);
            self.breathe();
            let op = self.push_code(Code::Choose(number));
            op.operands = [
                values.behind(at * value),
                seconds.behind(at * second),
                out_seconds.behind(result * second),
            ];
            op.out = out.behind(result * value);
            (op.n, op.unit) = (rows * columns, value);
            self.work += rows * columns / ELEMENTS_PER_WORK;
        }
        Some(())
    }

    fn fold_by_program(
        &mut self,
        fold: &Fold<'_>,
        (shape, total): (Shape, usize),
        base: usize,
    ) -> Option<()> {
        let space = &fold.reduction.space;
        let steps = fold.reduction.combiner.steps.len() + 1;
        if let Shape::FewColumns { size, run } = shape {
            if total / run * levels(run / size) * steps > MAX_STEPS {
                return None;
            }
            for at in (0..total).step_by(run) {
                let values = fold.values.iter().zip(&fold.sizes);
                let values = values.map(|(value, size)| value.behind(at * size));
                let (row, above) =
                    self.fold_neighbours(fold, values.collect(), (run / size, size), base)?;
                self.apply(fold, (result_of(space, at), &row), size, above)?;
            }
            return Some(());
        }
        let (run, is_reduced) = space.last().map_or((1, true), |&(n, r)| (n as usize, r));
        // A row is folded element after element, rows onto each other as vectors.
        let lanes = if is_reduced { 1 } else { run };
        if total / lanes * steps > MAX_STEPS {
            return None;
        }
        for at in (0..total).step_by(lanes) {
            let values = fold.values.iter().zip(&fold.sizes);
            let values: Vec<Place> = values
                .map(|(value, size)| value.behind(at * size))
                .collect();
            self.apply(fold, (result_of(space, at), &values), lanes, base)?;
        }
        Some(())
    }

    /// Runs the reducer on `lanes` neighbouring results, from `result` on, and as many values.
    fn apply(
        &mut self,
        fold: &Fold<'_>,
        (result, values): (usize, &[Place]),
        lanes: usize,
        base: usize,
    ) -> Option<()> {
        let outputs = fold.outputs.iter().zip(&fold.sizes);
        let outputs: Vec<Place> = outputs
            .map(|(out, size)| out.behind(result * size))
            .collect();
        self.reduce_lanes(fold, [&outputs, values], lanes, base)
    }

    /// Runs the reducer on `lanes` elements at the places `left` and as many at `right`; results go to `left`.
    fn reduce_lanes(
        &mut self,
        fold: &Fold<'_>,
        [left, right]: [&[Place]; 2],
        lanes: usize,
        base: usize,
    ) -> Option<()> {
        let combiner: &Program = &fold.reduction.combiner;
        let reducer = LoopThunk {
            count: lanes,
            program: combiner.step_by_step().unwrap_or_else(|| combiner.clone()),
            loads: Vec::new(),
            stores: Vec::new(),
            is_shared: false,
            small: None,
            rows: None,
        };
        let small = small_loop::of(&reducer)?;
        let mut code = SmallCode::new(self, &reducer, &small, base);
        let (lefts, rights) = combiner.inputs.split_at_checked(left.len())?;
        for (k, (&left, &right)) in left.iter().zip(right).enumerate() {
            code.bind(lefts[k], left);
            code.bind(rights[k], right);
        }
        code.steps()?;
        for (k, &left) in left.iter().enumerate() {
            code.copy_out(combiner.outputs[k], left, fold.sizes[k]);
        }
        Some(())
    }

    /// Runs the reducer on pairs of neighbours among `rows` rows of `width` values, until one row is left; returns its
    /// places, and from where on the scratch is free.
    fn fold_neighbours(
        &mut self,
        fold: &Fold<'_>,
        mut values: Vec<Place>,
        (rows, width): (usize, usize),
        base: usize,
    ) -> Option<(Vec<Place>, usize)> {
        // Rooms for the rows of even numbers, two used in turn for reading and writing, and for those of odd numbers.
        let half =
            |size: usize| (rows.div_ceil(2) * width * size).next_multiple_of(size_of::<Line>());
        let mut above = base;
        let mut rooms = || {
            let room = |&size: &usize| {
                above += half(size);
                Place::Scratch(above - half(size))
            };
            fold.sizes.iter().map(room).collect::<Vec<_>>()
        };
        let (mut evens, mut next, odds) = (rooms(), rooms(), rooms());
        let mut left = rows;
        while left > 1 {
            let firsts = left.div_ceil(2);
            for (k, &size) in fold.sizes.iter().enumerate() {
                let rows = |count: usize| [(count as i64, 2 * width as i64), (width as i64, 1)];
                let (first, second) = (values[k], values[k].behind(width * size));
                self.breathe();
                let walk = Walk::from_slice(&rows(firsts));
                self.gather(&walk, size, firsts * width, first, evens[k]);
                self.breathe();
                let walk = Walk::from_slice(&rows(left / 2));
                self.gather(&walk, size, left / 2 * width, second, odds[k]);
            }
            self.reduce_lanes(fold, [&evens, &odds], left / 2 * width, above)?;
            values.clone_from(&evens);
            std::mem::swap(&mut evens, &mut next);
            left = firsts;
        }
        Some((values, above))
    }
}

/// Whether the few elements of a reduction are folded in the order of its walk, whichever way they
/// are folded elsewhere.
fn is_in_order(reduction: &ReduceThunk, results: usize) -> bool {
    let size = match reduction.space[..] {
        [.., (size, true)] => size as usize,
        _ => 1,
    };
    matches!(reduction.way, FoldWay::Kernels(_))
        || is_selection(reduction)
        || (size < MIN_LANE_RUN && row_lanes(size) * results < MIN_LANE_RUN)
}

/// Whether it selects one of two pairs, and is associative.
fn is_selection(reduction: &ReduceThunk) -> bool {
    reduction.choice.is_some()
        && faults::holds(Fault::FoldsInOtherOrder, has_total_order(reduction))
}

/// Whether it selects one of two pairs by a total order: NaN wins, if any, and second elements are no floats.
pub fn has_total_order(reduction: &ReduceThunk) -> bool {
    let has_no_nan = |k: usize| {
        let output = reduction.outputs.get(k);
        output.is_some_and(|output| !output.element_type.is_floating())
    };
    let is_kept = |choice: Choice| choice.nan || has_no_nan(0);
    let choice = reduction.choice;
    choice.is_some_and(|choice| is_kept(choice) && has_no_nan(1))
}

/// The kernel that chooses among pairs down columns, and their types, where pairs may be taken in any order; there is one for
/// rows then, too.
fn choosing_kernel(reduction: &ReduceThunk) -> Option<(Choice, ChooseColumns, [DType; 2])> {
    let ty = |k: usize| dtype(reduction.outputs.get(k)?.element_type);
    let (choice, types) = (reduction.choice?, [ty(0)?, ty(1)?]);
    let kernel = choice.column_kernel(types[0], types[1])?;
    let is_any_order = faults::holds(Fault::ChoosesInAnyOrder, has_total_order(reduction));
    is_any_order.then_some((choice, kernel, types))
}

/// The choice down the columns of a reduction, where they are so many that a kernel takes less time than operations.
fn column_choice(reduction: &ReduceThunk, total: usize) -> Option<ColumnChoice> {
    let (rows, columns) = plane_of(&reduction.space)?;
    let shape = [usize::try_from(rows).ok()?, usize::try_from(columns).ok()?];
    if shape[1] < MIN_CHOSEN_COLUMNS || total < MIN_CHOSEN {
        return None;
    }
    let (choice, kernel, types) = choosing_kernel(reduction)?;
    Some(ColumnChoice {
        choice,
        kernel,
        shape,
        sizes: types.map(DType::size_bytes),
    })
}

/// How a reduction of one tile is folded; `None` where it has several tiles, or no operations here fold it that way.
fn shape_of_tile(reduction: &ReduceThunk, total: usize) -> Option<Shape> {
    let widest = tiles::widest(reduction, total);
    let ends_inside = |load: &Load| tiles::row_of(load).is_some_and(|row| row < total);
    let is_small =
        (1..=widest).contains(&total) && runs_step_by_step(total, reduction.program.steps.len());
    if !is_small || reduction.loads.iter().any(ends_inside) {
        return None;
    }
    let shape = Shape::of(reduction, widest);
    let is_row = reduction.space.last().is_none_or(|&(_, reduced)| reduced);
    let can = match (shape, reduction.way) {
        (Shape::ShortRows { .. }, FoldWay::Kernels(op)) => {
            let ty = dtype(reduction.outputs.first()?.element_type)?;
            hlorun_kernels::fold_rows(op, ty).is_some()
        }
        (_, FoldWay::Kernels(_)) | (Shape::FewColumns { .. }, _) => true,
        (Shape::Plain, _) => !is_row,
        (Shape::ShortRows { .. } | Shape::FewGroups { .. }, _) => false,
    };
    can.then_some(shape)
}

const _: () = assert!(MAX_REDUCED < MIN_REGULAR, "fewer are folded in order");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_numbered_by_kept_dimensions() {
        let space = [(2, false), (3, true), (4, false), (5, true)];
        assert_eq!(result_of(&space, 0), 0);
        assert_eq!(result_of(&space, 5), 1);
        assert_eq!(result_of(&space, 20), 0);
        assert_eq!(result_of(&space, 60 + 20 + 15), 4 + 3);
    }

    #[test]
    fn lanes_divide_rows() {
        for (size, lanes) in [(4096, 128), (512, 64), (100, 4), (97, 1), (66, 2), (8, 1)] {
            assert_eq!(row_lanes(size), lanes, "{size}");
        }
    }
}
