//! `result-order`: what the entry computation returns is computed in the order in which results are stored, row-major,
//! whatever its layout, so that no copy follows.
//!
//! Applies to arrays that nothing else reads, and that are computed from arrays of no more bytes: one or the other is read
//! across memory.
//! After the pass `bitcasts` layouts mean nothing, so the order changes no element, and no condition here can make one
//! wrong.

use rustc_hash::FxHashSet;

use super::Lowering;
use super::analysis::MAX_CLUSTER;
use crate::module::opcode::elementwise_classes;
use crate::module::{ComputationId, HloModule, HloOpcode, InstructionId, InstructionRef, OpClass};

/// Name by which it is switched off.
pub const NAME: &str = "result-order";

impl Lowering<'_> {
    /// The instructions of `computation` to which it applies.
    pub(super) fn row_major_results(&self, computation: ComputationId) -> FxHashSet<InstructionId> {
        if self.options.is_off(NAME) {
            return FxHashSet::default();
        }
        let mut results = only_returned(self.module, computation);
        results.retain(|&id| reads_well(self.module, self.module.instruction(id)));
        results
    }
}

/// What the entry computation returns and nothing else reads; nothing of another computation.
fn only_returned(module: &HloModule, computation: ComputationId) -> FxHashSet<InstructionId> {
    let mut found: FxHashSet<InstructionId> = FxHashSet::default();
    if module.entry != Some(computation) {
        return found;
    }
    let is_tuple = |id| module.instruction_data(id).opcode == HloOpcode::Tuple;
    let mut open: Vec<InstructionId> = module.computation(computation).root.into_iter().collect();
    while let Some(id) = open.pop() {
        if found.insert(id) && is_tuple(id) {
            open.extend_from_slice(module.operand_ids(id));
        }
    }
    // Readers come first: where a tuple is read, its elements are.
    for &id in module.computation(computation).instructions.iter().rev() {
        if !is_tuple(id) || !found.contains(&id) {
            for operand in module.operand_ids(id) {
                found.remove(operand);
            }
        }
    }
    found
}

/// Whether the arrays that `instruction` is computed from, which have its layout, are put into row-major order at no higher
/// price than its result would be: together they have no more bytes.
fn reads_well(module: &HloModule, instruction: InstructionRef<'_>) -> bool {
    let bytes = |id: InstructionId| {
        let shape = module.instruction(id).array_shape();
        let bytes = shape.and_then(|shape| shape.byte_size());
        bytes.unwrap_or(usize::MAX)
    };
    let most = bytes(instruction.id);
    let mut seen: FxHashSet<InstructionId> = FxHashSet::default();
    let mut open = vec![instruction.id];
    let mut read = 0usize;
    while let Some(id) = open.pop() {
        for &operand in module.operand_ids(id) {
            let opcode = module.instruction_data(operand).opcode;
            let is_made = matches!(
                opcode,
                HloOpcode::Broadcast | HloOpcode::Constant | HloOpcode::Iota
            );
            if is_made || !seen.insert(operand) {
                continue;
            }
            match opcode.class() {
                elementwise_classes!() => open.push(operand),
                _ => read = read.saturating_add(bytes(operand)),
            }
        }
        if read > most || seen.len() > MAX_CLUSTER as usize {
            return false;
        }
    }
    true
}
