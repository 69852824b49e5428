//! `loop-map`: a loop whose trips compute rows of their own, elementwise, as whole arrays.
//!
//! Applies to a loop of which every leaf never changes, counts its trips, or is an output of which each trip writes one
//! row and that the loop never reads. A row is made elementwise of the same rows of arrays that never change, of what
//! never changes at all, and of constants, with reshapes and repetitions. Nothing may read the counter after the loop.
//! Indices that are written in different ways are compared trip by trip, up to [`MAX_COMPARED`] in a loop.

use rustc_hash::FxHashMap;

use super::info::{LoopInfo, MIN_TRIPS};
use crate::module::opcode::elementwise_classes;
use crate::module::{
    AttrKey, Attribute, HloModule, HloOpcode, InstructionId, InstructionRef, OpClass,
};
use crate::plan::cost::loops::MAX_COMPARED;
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::builder::Builder;
use crate::types::{ArrayShape, Dims};

/// Name by which it is switched off.
pub const NAME: &str = "loop-map";

/// Runs the pass on one loop.
pub fn run(module: &mut HloModule, info: &mut LoopInfo) {
    if info.trips.len() < MIN_TRIPS || reads_counter(module, info) {
        return;
    }
    let Some(outputs) = outputs(module, info) else {
        return;
    };
    for output in &outputs {
        if let Some(all) = output.lifted(module, info)
            && let Some(element) = info.elements[output.leaf]
        {
            info.replace_leaf(output.leaf, all);
            info.set_result(output.leaf, element);
        }
    }
}

/// The row that every trip writes of leaf `k`, and its index: all rows are written once, and the loop never reads them.
pub(super) fn written_row(
    module: &HloModule,
    info: &LoopInfo,
    k: usize,
) -> Option<(InstructionId, InstructionId)> {
    let update = module.instruction(info.results[k]);
    if update.opcode() != HloOpcode::DynamicUpdateSlice {
        return None;
    }
    let (stack, row, index) = (
        update.operand(0)?,
        update.operand(1)?,
        update.operand(2)?.id,
    );
    let (all, rows) = (stack.array_shape()?, row.array_shape()?);
    let fits = Some(stack.id) == info.elements[k]
        && all.dims.first() == Some(&(info.trips.len() as i64))
        && rows.dims.first() == Some(&1)
        && rows.dims[1..] == all.dims[1..]
        && update.operand_ids().len() == all.rank() + 2
        && info.use_count(update.id) == 1
        && info.use_count(stack.id) == 1
        && !info.is_read_by_condition(module, k);
    (fits && info.is_row_index(module, index)).then_some((row.id, index))
}

/// Whether anything after the loop reads its counter, or the loop as a whole.
fn reads_counter(module: &HloModule, info: &LoopInfo) -> bool {
    let counter = info.leaf_of(info.counter);
    let parent = module.computation(info.parent);
    let is_counter = |id: InstructionId| {
        let data = module.instruction_data(id);
        data.opcode == HloOpcode::GetTupleElement
            && module.operand_ids(id) == [info.id]
            && Some(data.immediate as usize) == counter
    };
    let is_whole = |id: InstructionId| {
        module.operand_ids(id).contains(&info.id)
            && module.instruction_data(id).opcode != HloOpcode::GetTupleElement
    };
    let root = parent.root;
    root.is_some_and(|root| root == info.id || is_counter(root))
        || parent
            .instructions
            .iter()
            .any(|&id| is_whole(id) || module.operand_ids(id).iter().any(|&read| is_counter(read)))
}

/// An output of a loop, made of rows.
struct Output {
    leaf: usize,
    row: InstructionId,
    /// What the row is made of, in the order of the body.
    needed: Vec<InstructionId>,
}

/// All outputs of a loop; `None` where it does anything else.
fn outputs(module: &HloModule, info: &LoopInfo) -> Option<Vec<Output>> {
    let counter = info.leaf_of(info.counter);
    let mut outputs = Vec::new();
    let mut left = MAX_COMPARED;
    for leaf in 0..info.results.len() {
        // A leaf that the body does not look at may be handed on changed.
        if info.is_invariant(leaf) || Some(leaf) == counter {
            continue;
        }
        let (row, index) = written_row(module, info, leaf)?;
        outputs.push(Output {
            leaf,
            row,
            needed: needed(module, info, (row, index), &mut left)?,
        });
    }
    (!outputs.is_empty()).then_some(outputs)
}

/// What `row` at `index` is made of; `None` where that cannot be computed for all trips at a time. `left` is how many
/// indices may be compared.
fn needed(
    module: &HloModule,
    info: &LoopInfo,
    (row, index): (InstructionId, InstructionId),
    left: &mut usize,
) -> Option<Vec<InstructionId>> {
    let mut open = vec![row];
    let mut found: FxHashMap<InstructionId, ()> = FxHashMap::default();
    while let Some(id) = open.pop() {
        if found.insert(id, ()).is_some() || info.invariant_leaf(id).is_some() {
            continue;
        }
        let instruction = module.instruction(id);
        if !instruction.array_shape().is_some_and(ArrayShape::is_static) {
            return None;
        }
        match instruction.opcode() {
            HloOpcode::Constant => {}
            HloOpcode::DynamicSlice => {
                let at = row_of(info, instruction)?;
                if at != index {
                    *left = left.checked_sub(info.trips.len())?;
                }
                let is_same = info.same_index(module, at, index);
                faults::holds(Fault::MapsOtherRows, is_same).then_some(())?;
            }
            HloOpcode::Reshape | HloOpcode::Broadcast => {
                open.extend_from_slice(instruction.operand_ids());
            }
            opcode => match opcode.class() {
                elementwise_classes!() => open.extend_from_slice(instruction.operand_ids()),
                _ => return None,
            },
        }
    }
    let mut needed = module.computation(info.body).instructions.clone();
    needed.retain(|id| found.contains_key(id));
    Some(needed)
}

/// The index of the row that `slice` is of an array that never changes and has one for each trip.
fn row_of(info: &LoopInfo, slice: InstructionRef<'_>) -> Option<InstructionId> {
    let array = slice.operand(0)?;
    info.invariant_leaf(array.id)?;
    let (from, to) = (array.array_shape()?, slice.array_shape()?);
    let fits = from.dims.first() == Some(&(info.trips.len() as i64))
        && to.dims.first() == Some(&1)
        && to.dims[1..] == from.dims[1..]
        && slice.operand_ids().len() == from.rank() + 1;
    fits.then_some(slice.operand(1)?.id)
}

impl Output {
    /// The values of all trips, before the loop.
    fn lifted(&self, module: &mut HloModule, info: &LoopInfo) -> Option<InstructionId> {
        let trips = info.trips.len() as i64;
        let mut values: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
        for &id in &self.needed {
            let mut builder = info.outside(module, id);
            let b = &mut builder;
            let shape = b.shape(id);
            let all = stacked(trips, &shape.dims);
            let data = b.module.instruction_data(id).clone();
            let read: Vec<InstructionId> = b.module.operand_ids(id).to_vec();
            let value = if let Some(leaf) = info.invariant_leaf(id) {
                repeated(b, info.initial[leaf], &all, 1)
            } else {
                match data.opcode {
                    HloOpcode::Constant => {
                        let one = b.add(data.opcode, data.shape, &[], &[], data.immediate);
                        repeated(b, one, &all, 1)
                    }
                    HloOpcode::DynamicSlice => {
                        let leaf = info.invariant_leaf(*read.first()?)?;
                        b.reshape(info.initial[leaf], &all)
                    }
                    HloOpcode::Reshape => b.reshape(*values.get(read.first()?)?, &all),
                    HloOpcode::Broadcast => {
                        let from = b.module.instruction(id).dimensions().to_vec();
                        let dims = stacked(0, &from.iter().map(|d| d + 1).collect::<Dims>());
                        let dims = b.ints(AttrKey::Dimensions, &dims);
                        let value = *values.get(read.first()?)?;
                        b.add_array(data.opcode, shape.element_type, &all, &[value], &[dims])
                    }
                    _ => {
                        let mut operands = Vec::new();
                        for operand in read {
                            let value = *values.get(&operand)?;
                            // A bound or a choice of single elements holds for a whole row.
                            let is_one = b.shape(value).rank() < all.len();
                            operands.push(match is_one {
                                true => repeated(b, value, &all, 0),
                                false => value,
                            });
                        }
                        let attributes = b.module.attributes_of(id).iter();
                        // What it waits for is elsewhere.
                        let kept = attributes.filter(|a| a.key != AttrKey::ControlPredecessors);
                        let kept: Vec<Attribute> = kept.cloned().collect();
                        b.add_array(data.opcode, shape.element_type, &all, &operands, &kept)
                    }
                }
            };
            values.insert(id, value);
        }
        let row = *values.get(&self.row)?;
        let mut builder = info.outside(module, self.row);
        let dims = builder.shape(info.elements[self.leaf]?).dims;
        Some(builder.reshape(row, &dims))
    }
}

/// `first`, then `dims`.
fn stacked(first: i64, dims: &[i64]) -> Dims {
    std::iter::once(first).chain(dims.iter().copied()).collect()
}

/// `value`, whose dimensions are those of `dims` from `first` on, repeated along the others.
fn repeated(b: &mut Builder<'_>, value: InstructionId, dims: &[i64], first: i64) -> InstructionId {
    let shape = b.shape(value);
    let own: Vec<i64> = (0..shape.rank() as i64).map(|d| d + first).collect();
    let own = b.ints(AttrKey::Dimensions, &own);
    let ty = shape.element_type;
    b.add_array(HloOpcode::Broadcast, ty, dims, &[value], &[own])
}
