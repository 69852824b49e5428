//! `reduced-outward`: a reduction over a short fastest dimension is walked with that dimension outside of the next one.
//!
//! Distances of all pairs of points, `sum((a[i, k] - b[j, k])²)` over `k`, have short rows, which are folded across the lanes
//! of a vector. Walked as `[i, k, j]`, neighbouring results are lanes, and nothing is turned.
//!
//! Applies where all that is reduced is computed element by element from arrays that are read many times: one with gaps in the
//! new order is copied first (`transposed-inputs`). An array that is read once would have to be turned as a whole, which costs
//! more. Threads share the outer dimensions: all of them are kept, and there are planes enough. The order of a walk changes no element, but
//! sums of floats are formed in the order of the row, where those of long rows are formed on lanes otherwise.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::loops::simple_combiner;
use super::{Lowering, Order};
use crate::module::opcode::elementwise_classes;
use crate::module::{
    AttrKey, ComputationId, HloModule, HloOpcode, InstructionId, InstructionRef, OpClass,
};
use crate::plan::cost::column_folds::{MAX_PLANE, MIN_COLUMNS};
use crate::plan::cost::reduced_outward::{MAX_ROW, MAX_STEPS, MIN_ELEMENTS, MIN_PLANES};
use crate::plan::cost::transposed_inputs::MIN_REPEATS;
use crate::plan::view::major_to_minor;

/// Name by which it is switched off.
pub const NAME: &str = "reduced-outward";

impl Lowering<'_> {
    /// The reductions of `computation` to which it applies, and the orders of their walks.
    pub(super) fn reduced_outward(
        &self,
        computation: ComputationId,
    ) -> FxHashMap<InstructionId, Order> {
        if self.options.is_off(NAME) || !self.options.fuse {
            return FxHashMap::default();
        }
        let module = self.module;
        let instructions = &module.computation(computation).instructions;
        let candidates = instructions.iter().filter_map(|&id| {
            let reduction = module.instruction(id);
            let order = order(reduction).filter(|_| is_kernel(module, reduction))?;
            Some((id, order))
        });
        let mut orders: FxHashMap<InstructionId, Order> = candidates.collect();
        if orders.is_empty() {
            return orders;
        }
        let mut reads: FxHashMap<InstructionId, usize> = FxHashMap::default();
        for operand in instructions.iter().flat_map(|&id| module.operand_ids(id)) {
            *reads.entry(*operand).or_default() += 1;
        }
        if let Some(root) = module.computation(computation).root {
            *reads.entry(root).or_default() += 1;
        }
        orders.retain(|&id, _| reads_repeatedly(module, &reads, module.instruction(id)));
        orders
    }
}

/// The order of its walk, slowest dimension first: the reduced dimensions that are fastest in memory go outside of the kept
/// one before them. `None` where sizes do not suit that.
fn order(reduction: InstructionRef<'_>) -> Option<Order> {
    if reduction.opcode() != HloOpcode::Reduce || reduction.operand_ids().len() != 2 {
        return None;
    }
    let shape = reduction.operand(0)?.array_shape()?;
    let size = |dim: u8| shape.dims[usize::from(dim)];
    let is_reduced = |dim: u8| reduction.dimensions().contains(&i64::from(dim));
    let mut order = major_to_minor(shape);
    let column = order
        .iter()
        .rposition(|&dim| !is_reduced(dim) && size(dim) != 1)?;
    let count = |dims: &[u8]| dims.iter().map(|&dim| size(dim)).product::<i64>();
    let (outer, row) = (count(&order[..column]), count(&order[column + 1..]));
    let columns = size(order[column]);
    let plane = row
        .saturating_mul(columns)
        .saturating_mul(shape.element_type.size_bytes() as i64);
    let suits = (2..=MAX_ROW).contains(&row)
        && columns >= MIN_COLUMNS as i64
        && plane <= MAX_PLANE as i64
        && outer >= MIN_PLANES
        && !order[..column].iter().any(|&dim| is_reduced(dim))
        && shape.element_count()? >= MIN_ELEMENTS as i64;
    let column = order.remove(column);
    order.push(column);
    suits.then_some(order)
}

/// Whether its reducer is one operation that has a kernel.
fn is_kernel(module: &HloModule, reduction: InstructionRef<'_>) -> bool {
    let combiner = reduction.computation_attribute(AttrKey::ToApply);
    let root = combiner.and_then(|combiner| module.computation(combiner).root);
    simple_combiner(root.map(|root| module.instruction(root))).is_some()
}

/// Whether what is reduced is computed for this reduction alone, from arrays that are read many times; `reads` are those of
/// all values of the computation.
fn reads_repeatedly(
    module: &HloModule,
    reads: &FxHashMap<InstructionId, usize>,
    reduction: InstructionRef<'_>,
) -> bool {
    // The steps that compute it, and how often they and the reduction read each.
    let mut own: FxHashMap<InstructionId, usize> = FxHashMap::default();
    let mut left = MAX_STEPS;
    let mut open: SmallVec<[InstructionId; 16]> = SmallVec::new();
    open.extend(reduction.operand_ids().first().copied());
    while let Some(id) = open.pop() {
        let instruction = module.instruction(id);
        if !matches!(instruction.opcode().class(), elementwise_classes!()) {
            if !repeats(instruction, &mut left) {
                return false;
            }
            continue;
        }
        let count = own.entry(id).or_default();
        *count += 1;
        if *count == 1 {
            open.extend_from_slice(module.operand_ids(id));
        }
        let Some(rest) = left.checked_sub(1) else {
            return false;
        };
        left = rest;
    }
    own.iter().all(|(id, count)| reads.get(id) == Some(count))
}

/// Whether movements make it of a much smaller array, or of one element. Looks at `left` instructions at most, and counts
/// them down.
fn repeats(mut instruction: InstructionRef<'_>, left: &mut usize) -> bool {
    let Some(shape) = instruction.array_shape() else {
        return false;
    };
    if instruction.opcode() == HloOpcode::Iota {
        return true;
    }
    let Some(all) = shape.element_count() else {
        return false;
    };
    let most = (all / MIN_REPEATS as i64).max(1);
    while *left > 0 {
        *left -= 1;
        let count = instruction.array_shape().map(|shape| shape.element_count());
        match count.flatten() {
            Some(count) if count <= most => return true,
            Some(_) if instruction.opcode().class() == OpClass::Movement => {}
            _ => return false,
        }
        match instruction.operand(0) {
            Some(operand) => instruction = operand,
            None => return false,
        }
    }
    false
}
