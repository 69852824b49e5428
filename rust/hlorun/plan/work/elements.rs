//! Counts the operations of copies, fused loops and reductions.

use super::counts::Counts;
use crate::plan::element::epilogue::EpilogueStep;
use crate::plan::element::program::{Program, Register, Task};
use crate::plan::schedule::fold_shape::longest_short_row;
use crate::plan::schedule::tiles::row_of;
use crate::plan::thunk::{
    CopyThunk, FoldWay, Load, LoadKind, LoopThunk, Piece, ReduceThunk, Store,
};
use crate::plan::view::Walk;
use crate::types::PrimitiveType;

/// Most elements of a row for which gathering has a loop of its own.
const TINY_ROW: i64 = 4;

/// Counts elements that a copy moves between views and that do not lie side by side.
pub fn copy(copy: &CopyThunk, counts: &mut Counts) {
    let source = &copy.source;
    let destination = &copy.destination;
    let pairs = |strides: &[i64]| -> Walk {
        let dims = source.dims.iter().copied();
        dims.zip(strides.iter().copied())
            .filter(|pair| pair.0 > 1)
            .collect()
    };
    let (from, to) = (pairs(&source.strides), pairs(&destination.strides));
    // The walk goes along the destination's memory.
    let mut order: Vec<usize> = (0..to.len()).collect();
    order.sort_by_key(|&dim| std::cmp::Reverse(to[dim].1.abs()));
    let walk: Walk = order.iter().map(|&dim| from[dim]).collect();
    let count = source.count();
    count_strided(&merged(&walk), source.element_type, count, counts);
}

/// The walk with neighbouring dimensions as one where strides allow.
fn merged(walk: &Walk) -> Walk {
    let mut found: Walk = Walk::new();
    for &(size, stride) in walk {
        match found.last_mut() {
            Some(outer) if outer.1 == stride * size => *outer = (outer.0 * size, stride),
            _ => found.push((size, stride)),
        }
    }
    found
}

/// Counts the steps of a loop, and the elements of its inputs and results that do not lie side by side.
pub fn fused_loop(fused: &LoopThunk, counts: &mut Counts) {
    let count = fused.count;
    count_loads(&fused.loads, &fused.program, count, counts);
    for store in &fused.stores {
        count_store(store, count, counts);
    }
    program(&fused.program, count, counts);
}

/// Counts the steps that compute the values of a reduction, and the folds.
pub fn reduction(reduction: &ReduceThunk, counts: &mut Counts) {
    let sizes = reduction.space.iter().map(|dimension| dimension.0);
    let count = sizes.fold(1i64, i64::saturating_mul) as usize;
    count_loads(&reduction.loads, &reduction.program, count, counts);
    program(&reduction.program, count, counts);
    let first = reduction.combiner.inputs.first();
    let ty = first.map_or(PrimitiveType::F32, |register| {
        reduction.combiner.types[register.0 as usize]
    });
    let along_rows = reduction.space.last().is_none_or(|dimension| dimension.1);
    let row = reduction.space.last().map_or(1, |dimension| dimension.0) as usize;
    let rows = count as f64 / row.max(1) as f64;
    match (reduction.way, along_rows) {
        (FoldWay::Kernels(_), true) if row <= longest_short_row(reduction) => {
            counts.add("fold-short", ty, count as f64)
        }
        (FoldWay::Kernels(_), true) => {
            counts.add("fold-rows", ty, count as f64);
            counts.add("folded-row", ty, rows);
        }
        (FoldWay::Kernels(_), false) => counts.add("fold-columns", ty, count as f64),
        (FoldWay::Lanes | FoldWay::OneByOne, _) => {
            let steps = reduction.combiner.steps.len().max(1) as f64;
            counts.add("fold-general", ty, count as f64 * steps);
            if along_rows {
                counts.add("folded-row-general", ty, rows * steps);
            }
        }
    }
}

/// Counts elements of each operation of a program, and the bytes that its tasks pass to each other in the first-level
/// cache.
pub fn program(program: &Program, count: usize, counts: &mut Counts) {
    let type_of = |register: &Register| program.types[register.0 as usize];
    for step in &program.steps {
        let ty = step.reads().last().map_or(PrimitiveType::F32, type_of);
        counts.add(&step.operation(), ty, count as f64);
    }
    // Inputs and outputs are counted as memory that is touched.
    let is_inner = |register: &&Register| {
        !program.inputs.contains(register) && !program.outputs.contains(register)
    };
    let size = |registers: &[Register]| -> usize {
        let inner = registers.iter().filter(is_inner);
        inner.map(|register| type_of(register).size_bytes()).sum()
    };
    for task in &program.tasks {
        let bytes = match task {
            Task::Step(at) => {
                let step = &program.steps[*at as usize];
                size(step.reads()) + size(std::slice::from_ref(&step.result))
            }
            Task::Vector(task) => size(&task.outside),
        };
        counts.add("register", PrimitiveType::Pred, (bytes * count) as f64);
    }
}

/// Counts elements of each operation of an epilogue; what they pass to each other stays in registers.
pub fn epilogue(steps: &[EpilogueStep], ty: PrimitiveType, count: usize, counts: &mut Counts) {
    for step in steps {
        counts.add(step.operation(), ty, count as f64);
    }
}

fn count_loads(loads: &[Load], program: &Program, count: usize, counts: &mut Counts) {
    for load in loads {
        let ty = program.types[load.register.0 as usize];
        match &load.kind {
            LoadKind::Iota => counts.add("iota", ty, count as f64),
            LoadKind::View(_) if load.is_dense || row_of(load).is_some() => {}
            LoadKind::View(_) => count_strided(&load.walk, ty, count, counts),
            LoadKind::Joined(pieces) => {
                for Piece { rows, row, .. } in pieces {
                    let walk = [*rows, *row].map(|(size, step)| (size as i64, step));
                    count_strided(&Walk::from_slice(&walk), ty, rows.0 * row.0, counts);
                }
            }
        }
    }
}

fn count_store(store: &Store, count: usize, counts: &mut Counts) {
    if !store.is_dense {
        count_strided(&store.walk, store.view.element_type, count, counts);
    }
}

/// Counts elements that do not lie side by side, by how they lie.
fn count_strided(walk: &Walk, ty: PrimitiveType, count: usize, counts: &mut Counts) {
    let Some(&(size, stride)) = walk.last() else {
        return;
    };
    if walk.iter().all(|step| step.1 == 0) || (walk.len() == 1 && stride == 1) {
        return;
    }
    let class = match stride {
        0 => "repeated",
        1 => "short-row",
        -1 => "reversed",
        _ if walk.iter().any(|step| step.1 == 1 && step.0 > 1) => "transposed",
        _ => "strided",
    };
    let rows = count as f64 / size.max(1) as f64;
    let row = if size <= TINY_ROW {
        "tiny-row"
    } else {
        "short-row"
    };
    match class {
        // Rows of an array that is repeated as a whole are laid out once.
        "short-row" if walk[..walk.len() - 1].iter().all(|step| step.1 == 0) => {}
        "short-row" => counts.add(row, PrimitiveType::Pred, rows),
        "repeated" => {
            counts.add(row, PrimitiveType::Pred, rows);
            counts.add(class, ty, count as f64);
        }
        _ => counts.add(class, ty, count as f64),
    }
}
