//! `result-order`: what the entry computation returns is computed in the order in which results are stored, row-major,
//! whatever its layout, so that no copy follows.
//!
//! Applies to arrays that nothing else reads, and that a loop may compute row-major without reading much across memory.
//! After the pass `bitcasts` layouts mean nothing, so the order changes no element, and no condition here can make one
//! wrong.

use rustc_hash::FxHashSet;

use super::Lowering;
use crate::module::{ComputationId, HloModule, HloOpcode, InstructionId, InstructionRef};
use crate::plan::transposition::Transposition;
use crate::plan::view::{ArrayView, BufferSlice, identity_order};

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

/// Whether a row-major loop reads operands of the result's layout well: blocks of them are transposed as they are read, or
/// there is one, and reading it costs what copying the result would.
fn reads_well(module: &HloModule, instruction: InstructionRef<'_>) -> bool {
    let is_array = |id: &&InstructionId| {
        let opcode = module.instruction_data(**id).opcode;
        !matches!(
            opcode,
            HloOpcode::Broadcast | HloOpcode::Constant | HloOpcode::Iota
        )
    };
    let arrays: FxHashSet<&InstructionId> =
        instruction.operand_ids().iter().filter(is_array).collect();
    let Some(shape) = instruction.array_shape().filter(|_| arrays.len() > 1) else {
        return true;
    };
    let view = ArrayView::of_shape(BufferSlice::NOWHERE, shape);
    let walk = view.walk(&identity_order(shape.rank()));
    Transposition::of(&walk, shape.element_type.size_bytes()).is_some()
}
