//! What it means for an operation that an operand or its result has short dimensions outside.

use crate::module::opcode::elementwise_classes;
use crate::module::{HloModule, HloOpcode, InstructionId, InstructionRef, OpClass};
use crate::plan::cost::layouts::{CUT, OPERATED, REDUCED, REPEATED, SHORTENED, TURNED};
use crate::types::Dims;

use super::split::{Split, count, elements};

/// How an operand and the result depend on each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edge {
    /// They are walked in one order where both or none have the layout; where both do, that gains so much.
    Same(i64),
    /// Each may have the layout for itself. Only one of them can have it where there is something to gain.
    Free(i64),
    /// Where one of both has the layout, elements are brought from one order into the other, which costs so much.
    Turned(i64),
}

impl Edge {
    /// What it costs where one of both has the layout.
    pub fn cost(self, module: &HloModule, operand: InstructionId) -> i64 {
        match self {
            Edge::Turned(cost) => cost,
            Edge::Same(_) | Edge::Free(_) => elements(module, operand).saturating_mul(TURNED),
        }
    }
}

fn turned(elements: i64) -> Edge {
    Edge::Turned(elements.saturating_mul(TURNED))
}

/// The edge of operand `k` of an instruction.
pub fn edge(module: &HloModule, id: InstructionId, k: usize) -> Edge {
    let instruction = module.instruction(id);
    let Some(from) = instruction
        .operand(k)
        .and_then(|operand| operand.array_shape())
    else {
        return Edge::Free(0);
    };
    let all = count(&from.dims);
    if all <= 1 {
        return Edge::Free(0);
    }
    let Some(to) = instruction.array_shape() else {
        return match instruction.opcode() {
            // Folds several arrays; each column is a lane.
            HloOpcode::Reduce => Edge::Free(0),
            HloOpcode::Tuple => turned(all),
            _ => operated(all),
        };
    };
    let (from, to) = (&from.dims[..], &to.dims[..]);
    match (instruction.opcode(), instruction.opcode().class()) {
        (_, elementwise_classes!()) => Edge::Same(0),
        (HloOpcode::Copy | HloOpcode::Reverse, _) => Edge::Same(0),
        (HloOpcode::Broadcast, _) => repeated(from, to, instruction.dimensions()),
        (HloOpcode::Reshape, _) => reshaped(from, to),
        (HloOpcode::Transpose, _) => transposed(from, to, instruction.dimensions()),
        (HloOpcode::Reduce, _) => reduced(from, to, instruction.dimensions()),
        (HloOpcode::Slice | HloOpcode::Pad | HloOpcode::Concatenate, _)
        | (_, OpClass::DynamicIndex) => cut(instruction, from, to),
        _ => operated(all),
    }
}

fn operated(elements: i64) -> Edge {
    Edge::Turned(elements.saturating_mul(OPERATED))
}

/// Pieces of rows, or rows made of pieces: as many dimensions on both sides.
fn cut(instruction: InstructionRef<'_>, from: &[i64], to: &[i64]) -> Edge {
    let (one, other) = (Split::of(from), Split::of(to));
    // Of an update in place, the piece alone is touched.
    let touched = match instruction.opcode() {
        HloOpcode::DynamicUpdateSlice => {
            instruction.operand(1).and_then(|piece| piece.array_shape())
        }
        _ => None,
    };
    let touched = touched.and_then(|piece| piece.element_count());
    let touched = touched.unwrap_or_else(|| count(from).min(count(to)));
    if one.short.len() != other.short.len() || one.run.len() != other.run.len() {
        return turned(touched);
    }
    let is_cut = |a: &[i64], b: &[i64], each: i64| if a == b { 0 } else { each };
    let each = is_cut(one.short, other.short, CUT) - is_cut(one.run, other.run, SHORTENED);
    Edge::Same(touched.saturating_mul(each))
}

fn repeated(from: &[i64], to: &[i64], dims: &[i64]) -> Edge {
    let (one, other) = (Split::of(from), Split::of(to));
    let first_short = (to.len() - other.short.len()) as i64;
    let is_short = |dim: &i64| *dim >= first_short;
    let (long, short) = dims.split_at(from.len() - one.short.len());
    let ends_run = |dims: &[i64]| dims.last() == Some(&(first_short - 1));
    if one.short.is_empty() {
        // All of a row is one element, of which the next row has another, or all rows are the same.
        return match (dims.iter().any(is_short), dims.iter().all(is_short)) {
            (false, _) if !other.short.is_empty() && ends_run(dims) => {
                Edge::Free(count(to).saturating_mul(REPEATED))
            }
            (false, _) | (_, true) => Edge::Free(0),
            _ => turned(count(from)),
        };
    }
    let are_apart = !long.iter().any(is_short) && short.iter().all(is_short);
    match (are_apart, ends_run(long)) {
        (true, true) => Edge::Same(0),
        // One element for all of a run.
        (true, false) => Edge::Free(0),
        (false, _) => turned(count(from)),
    }
}

fn reshaped(from: &[i64], to: &[i64]) -> Edge {
    let (one, other) = (Split::of(from), Split::of(to));
    let are_same = |a: &[i64], b: &[i64]| {
        let sizes = |dims: &[i64]| {
            dims.iter()
                .copied()
                .filter(|&size| size != 1)
                .collect::<Dims>()
        };
        sizes(a) == sizes(b)
    };
    match are_same(one.short, other.short) {
        // Rows of one element are in the same order anyway.
        true if count(one.short) == 1 => Edge::Free(0),
        true if count(one.run) == count(other.run) => Edge::Same(0),
        _ => turned(count(from)),
    }
}

fn transposed(from: &[i64], to: &[i64], order: &[i64]) -> Edge {
    let (one, other) = (Split::of(from), Split::of(to));
    let long = |split: &Split<'_>| split.outer.len() + split.run.len();
    let kept = &order[..long(&other)];
    let is_kept = one.run.len() == other.run.len()
        && one.short.len() == other.short.len()
        && kept.is_sorted()
        && kept.iter().all(|&dim| dim < long(&one) as i64);
    if is_kept {
        return Edge::Same(0);
    }
    // The order in which one side lies is that of the dimensions on the other side.
    let memory = |split: &Split<'_>| {
        let order = split.layout().minor_to_major.into_iter().rev();
        order.map(i64::from)
    };
    let mut back = Dims::from_elem(0, order.len());
    for (at, &dim) in order.iter().enumerate() {
        back[dim as usize] = at as i64;
    }
    let goes_with = other.short.is_empty() && memory(&one).eq(order.iter().copied());
    let comes_with = one.short.is_empty() && memory(&other).eq(back.iter().copied());
    match goes_with || comes_with {
        true => Edge::Free(count(from).saturating_mul(CUT)),
        false => turned(count(from)),
    }
}

fn reduced(from: &[i64], to: &[i64], dims: &[i64]) -> Edge {
    let (one, other) = (Split::of(from), Split::of(to));
    let long = one.outer.len() + one.run.len();
    let is_reduced = |dim: usize| dims.contains(&(dim as i64));
    let gain = match (long..from.len()).any(|dim| is_reduced(dim) && from[dim] > 1) {
        true => count(from).saturating_mul(REDUCED),
        false => 0,
    };
    let left = (long..from.len()).filter(|&dim| !is_reduced(dim));
    let is_left = left.map(|dim| from[dim]).eq(other.short.iter().copied());
    match (one.short.is_empty(), other.short.is_empty()) {
        (false, true) => Edge::Free(gain),
        (false, false) if is_left && !is_reduced(long - 1) && one.run.len() == other.run.len() => {
            Edge::Same(gain)
        }
        // Few results; the walk is that of the operand.
        _ => turned(count(to)),
    }
}
