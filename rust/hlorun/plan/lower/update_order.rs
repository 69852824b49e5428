//! `update-order`: what reads an array comes before its updates, so that these happen where the array lies.
//!
//! An update of an array that is read later in the module is moved to its own first reader. A slice of the array that still
//! comes later, with the scalars that its place depends on, is moved before the first update. A slice stays
//! where it depends on the update, or on more than a few scalars: the module allows the new order.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::module::opcode::elementwise_classes;
use crate::module::{HloModule, HloOpcode, InstructionId, InstructionRef, OpClass};
use crate::plan::cost::loops::{MAX_FORMER, MAX_MOVED};

/// Name by which it is switched off.
pub const NAME: &str = "update-order";

/// Whether it takes a part of its operand.
pub fn is_slice(instruction: InstructionRef<'_>) -> bool {
    matches!(
        instruction.opcode(),
        HloOpcode::Slice | HloOpcode::DynamicSlice
    )
}

/// An array, what it was before it was updated, and so on: no more than a few.
pub fn former(array: InstructionRef<'_>) -> impl Iterator<Item = InstructionRef<'_>> {
    fn before<'m>(array: &InstructionRef<'m>) -> Option<InstructionRef<'m>> {
        array.operand(array.updated_operands().next()?)
    }
    std::iter::successors(Some(array), before).take(MAX_FORMER)
}

/// `instructions` with reads before updates.
pub fn ordered(module: &HloModule, instructions: &[InstructionId]) -> Vec<InstructionId> {
    let has_update = |&id: &InstructionId| !module.instruction(id).updated_operands().is_empty();
    if !instructions.iter().any(has_update) {
        return instructions.to_vec();
    }
    slices_first(module, &updates_last(module, instructions))
}

/// `instructions` with updates right before their first readers, where their array is read later.
fn updates_last(module: &HloModule, instructions: &[InstructionId]) -> Vec<InstructionId> {
    // Where the first and the last reader of each instruction come.
    let mut first: FxHashMap<InstructionId, usize> = FxHashMap::default();
    let mut last: FxHashMap<InstructionId, usize> = FxHashMap::default();
    let mut moved: FxHashSet<InstructionId> = FxHashSet::default();
    for (at, &id) in instructions.iter().enumerate().rev() {
        let instruction = module.instruction(id);
        let is_read_later = |k| {
            let arrays = instruction.operand(k).into_iter().flat_map(former);
            let mut last = arrays.filter_map(|array| last.get(&array.id));
            last.any(|&last| last > at)
        };
        let reader = first.get(&id).copied();
        let place = match reader.filter(|_| instruction.updated_operands().any(is_read_later)) {
            Some(place) => {
                moved.insert(id);
                place
            }
            None => at,
        };
        for &operand in instruction.operand_ids() {
            let earliest = first.entry(operand).or_insert(place);
            *earliest = place.min(*earliest);
            let latest = last.entry(operand).or_insert(place);
            *latest = place.max(*latest);
        }
    }
    let mut order = Order::new(module, instructions.len());
    for &id in instructions.iter().filter(|id| !moved.contains(id)) {
        // What moves comes when the first of its readers needs it, behind what it needs itself.
        let mut open = vec![id];
        while let Some(&id) = open.last() {
            let is_missing =
                |id: &&InstructionId| moved.contains(id) && !order.is_there.contains(id);
            let missing = module.operand_ids(id).iter().filter(is_missing);
            let before = open.len();
            open.extend(missing);
            if open.len() == before {
                open.pop();
                order.push(id);
            }
        }
    }
    order.instructions
}

/// The same with slices of an array before its updates, where they do not depend on these.
fn slices_first(module: &HloModule, instructions: &[InstructionId]) -> Vec<InstructionId> {
    let mut slices: FxHashMap<InstructionId, Vec<InstructionId>> = FxHashMap::default();
    for &id in instructions {
        let instruction = module.instruction(id);
        if let (true, Some(whole)) = (is_slice(instruction), instruction.operand(0)) {
            slices.entry(whole.id).or_default().push(id);
        }
    }
    let mut order = Order::new(module, instructions.len());
    for &id in instructions {
        let instruction = module.instruction(id);
        for whole in instruction
            .updated_operands()
            .filter_map(|k| instruction.operand(k))
        {
            // The first update of an array moves what can be moved.
            for slice in slices.remove(&whole.id).into_iter().flatten() {
                order.move_here(slice, id);
            }
        }
        order.push(id);
    }
    order.instructions
}

/// Instructions in their new order, so far.
struct Order<'m> {
    module: &'m HloModule,
    is_there: FxHashSet<InstructionId>,
    instructions: Vec<InstructionId>,
}

impl<'m> Order<'m> {
    fn new(module: &'m HloModule, count: usize) -> Order<'m> {
        Order {
            module,
            is_there: FxHashSet::default(),
            instructions: Vec::with_capacity(count),
        }
    }

    fn push(&mut self, id: InstructionId) {
        if self.is_there.insert(id) {
            self.instructions.push(id);
        }
    }

    /// Appends `slice`, and what its place depends on, unless that is more than some scalars, or `update`.
    fn move_here(&mut self, slice: InstructionId, update: InstructionId) {
        let mut needed = Vec::new();
        let slice_of = self.module.instruction(slice);
        let mut operands = slice_of.operands();
        if operands.all(|operand| self.find(operand, update, 0, &mut needed)) {
            needed.push(slice);
            needed.into_iter().for_each(|id| self.push(id));
        }
    }

    /// Adds what is still missing of `instruction` and its operands, each behind its operands; whether these are few scalars.
    fn find(
        &self,
        instruction: InstructionRef<'_>,
        update: InstructionId,
        depth: usize,
        needed: &mut Vec<InstructionId>,
    ) -> bool {
        let id = instruction.id;
        if self.is_there.contains(&id) || needed.contains(&id) {
            return true;
        }
        let shape = instruction.array_shape();
        let is_scalar = || shape.and_then(|shape| shape.element_count()) == Some(1);
        let is_cheap = match instruction.opcode().class() {
            elementwise_classes!() | OpClass::Movement | OpClass::Constant => is_scalar(),
            OpClass::DynamicIndex => is_scalar() && is_slice(instruction),
            OpClass::Parameter => true,
            _ => instruction.tuple_index().is_some(),
        };
        if id == update || !is_cheap || depth.max(needed.len()) >= MAX_MOVED {
            return false;
        }
        let mut operands = instruction.operands();
        let are_found = operands.all(|operand| self.find(operand, update, depth + 1, needed));
        needed.push(id);
        are_found
    }
}
