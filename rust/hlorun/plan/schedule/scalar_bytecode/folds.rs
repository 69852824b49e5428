//! Reductions of few elements as scalar bytecode.
//!
//! In: a [`ReduceThunk`]. Out: its values, and operations that fold them in the order in which
//! [`crate::exec::reduce`] folds one tile: a row by the kernel, or by the reducer element after
//! element; rows that belong to the same results one onto the other.

use hlorun_kernels::scalar_bytecode;
use hlorun_kernels::vector_bytecode::Op;
use hlorun_kernels::{BinaryOp, DType};

use super::builder::Builder;
use super::moves::place;
use super::steps::SmallCode;
use crate::plan::cost::reduce::{MAX_LANES, MIN_LANE_RUN, MIN_REGULAR};
use crate::plan::cost::scalar_bytecode::{ELEMENTS_PER_WORK, MAX_UNROLLED};
use crate::plan::cost::scalar_bytecode::{MAX_REDUCED, MAX_STEPS};
use crate::plan::cost::small_loop::MAX_REPEATED;
use crate::plan::element::elementwise::dtype;
use crate::plan::element::program::Program;
use crate::plan::faults::{self, Fault};
use crate::plan::schedule::fold_shape::Shape;
use crate::plan::schedule::small_loop;
use crate::plan::schedule::tiles;
use crate::plan::thunk::scalar_bytecode::{Element, Place};
use crate::plan::thunk::small_loop::Line;
use crate::plan::thunk::{FoldWay, Load, LoopThunk, ReduceThunk};

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
        let kept = reduction.space.iter().filter(|(_, reduced)| !reduced);
        let results = kept.map(|&(size, _)| size as usize).product();
        let is_short = (1..=MAX_REDUCED).contains(&total) && is_in_order(reduction, results);
        if !is_short && !is_one_tile(reduction, total) {
            return None;
        }
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
            small: None,
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
        match reduction.way {
            FoldWay::Kernels(op) => self.fold_by_kernel(&fold, op, total),
            FoldWay::Lanes | FoldWay::OneByOne => self.fold_by_program(&fold, total, base),
        }
    }

    fn fold_by_kernel(&mut self, fold: &Fold<'_>, op: BinaryOp, total: usize) -> Option<()> {
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
        if let Some((rows, length)) = short_rows(fold.reduction, total) {
            let kernel = hlorun_kernels::fold_rows(op, ty)?;
            for at in (0..total).step_by(rows * length) {
                self.breathe();
                let op = self.push(scalar_bytecode::call_fold_rows(kernel));
                op.operands[0] = from.behind(at * size);
                op.out = out.behind(result_of(space, at) * size);
                (op.x, op.n, op.element) = (rows as i64, length, element);
                self.work += rows * length / ELEMENTS_PER_WORK;
            }
            return Some(());
        }
        let (run, is_reduced) = space.last().map_or((1, true), |&(n, r)| (n as usize, r));
        for at in (0..total).step_by(run) {
            let from = from.behind(at * size);
            let out = out.behind(result_of(space, at) * size);
            self.breathe();
            if is_reduced {
                let op = self.push(scalar_bytecode::call_reduce(kernel));
                (op.operands[0], op.out, op.n, op.element) = (from, out, run, element);
                self.work += run / ELEMENTS_PER_WORK;
            } else {
                self.combine(op, ty, [out, from], run)?;
            }
        }
        Some(())
    }

    /// Combines neighbouring elements with as many others, in their place.
    fn combine(&mut self, op: BinaryOp, ty: DType, places: [Place; 2], n: usize) -> Option<()> {
        let [out, from] = places;
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
            let (out, from) = (out.behind(at * size), from.behind(at * size));
            let op = self.push(function);
            (op.operands[0], op.operands[1], op.out) = (out, from, out);
            (op.n, op.unit, op.sizes, op.element) = (each, size, [size, size, 0], element);
        }
        self.work += n / ELEMENTS_PER_WORK;
        Some(())
    }

    fn fold_by_program(&mut self, fold: &Fold<'_>, total: usize, base: usize) -> Option<()> {
        let space = &fold.reduction.space;
        let (run, is_reduced) = space.last().map_or((1, true), |&(n, r)| (n as usize, r));
        // A row is folded element after element, rows onto each other as vectors.
        let lanes = if is_reduced { 1 } else { run };
        let combiner: &Program = &fold.reduction.combiner;
        if total / lanes * (combiner.steps.len() + 1) > MAX_STEPS {
            return None;
        }
        let reducer = LoopThunk {
            count: lanes,
            program: combiner.clone(),
            loads: Vec::new(),
            stores: Vec::new(),
            small: None,
        };
        let small = small_loop::of(&reducer)?;
        let operands = combiner.outputs.len();
        let (left, right) = combiner.inputs.split_at_checked(operands)?;
        let mut code = SmallCode::new(self, &reducer, &small, base);
        for at in (0..total).step_by(lanes) {
            let result = result_of(space, at);
            for k in 0..operands {
                let size = fold.sizes[k];
                code.bind(left[k], fold.outputs[k].behind(result * size));
                code.bind(right[k], fold.values[k].behind(at * size));
            }
            code.steps()?;
            for k in 0..operands {
                let size = fold.sizes[k];
                let out = fold.outputs[k].behind(result * size);
                code.copy_out(combiner.outputs[k], out, size);
            }
        }
        Some(())
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
        || (size < MIN_LANE_RUN && row_lanes(size) * results < MIN_LANE_RUN)
}

/// How the tiles of a reduction are folded.
fn shape(reduction: &ReduceThunk, total: usize) -> Shape {
    let widest = tiles::widest(reduction, total);
    Shape::of(&reduction.space, reduction.way, widest)
}

/// How many rows a kernel folds together, and their length, where it does that.
fn short_rows(reduction: &ReduceThunk, total: usize) -> Option<(usize, usize)> {
    let ty = dtype(reduction.outputs.first()?.element_type)?;
    let FoldWay::Kernels(op) = reduction.way else {
        return None;
    };
    let has_kernel = hlorun_kernels::fold_rows(op, ty).is_some();
    match shape(reduction, total) {
        Shape::ShortRows { size, run } if has_kernel => Some((run / size, size)),
        _ => None,
    }
}

/// Whether a reduction has one tile, which kernels fold row by row, or row onto row, as they do here.
fn is_one_tile(reduction: &ReduceThunk, total: usize) -> bool {
    let most = MAX_REPEATED.min(tiles::widest(reduction, total));
    let ends_inside = |load: &Load| tiles::row_of(load).is_some_and(|row| row < total);
    let is_same_order = || {
        let is_plain = matches!(shape(reduction, total), Shape::Plain);
        is_plain || short_rows(reduction, total).is_some()
    };
    matches!(reduction.way, FoldWay::Kernels(_))
        && (1..=most).contains(&total)
        && !reduction.loads.iter().any(ends_inside)
        && faults::holds(Fault::FoldsInOtherOrder, is_same_order())
}

const _: () = assert!(MAX_REDUCED < MIN_REGULAR, "fewer are folded in order");
