//! What passes share that replace single instructions.

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::module::{ComputationId, HloModule, InstructionId};

/// For each instruction, those that read it, once for each operand.
pub type Readers = FxHashMap<InstructionId, Vec<InstructionId>>;

/// Those of all that `instructions` read.
pub fn readers_of(module: &HloModule, instructions: &[InstructionId]) -> Readers {
    let mut readers = Readers::default();
    for &id in instructions {
        for &operand in module.operand_ids(id) {
            readers.entry(operand).or_default().push(id);
        }
    }
    readers
}

/// Calls `replace` for each instruction that is `wanted`. Later instructions are not in the computation yet, so that what
/// `replace` adds follows directly. Returns how many were replaced.
pub fn replace_each(
    module: &mut HloModule,
    wanted: impl Fn(&HloModule, InstructionId) -> bool,
    replace: impl Fn(&mut HloModule, InstructionId, &Readers) -> Result<bool>,
) -> Result<usize> {
    let mut changed = 0;
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let instructions = &module.computation(computation).instructions;
        if !instructions.iter().any(|&id| wanted(module, id)) {
            continue;
        }
        let ids = std::mem::take(&mut module.computation_mut(computation).instructions);
        let readers = readers_of(module, &ids);
        for id in ids {
            module.computation_mut(computation).instructions.push(id);
            if wanted(module, id) {
                changed += usize::from(replace(module, id, &readers)?);
            }
        }
    }
    Ok(changed)
}

/// Calls `replace` for each instruction of a computation; what it adds goes before the instruction. Returns how many were
/// replaced.
pub fn replace_before(
    module: &mut HloModule,
    computation: ComputationId,
    mut replace: impl FnMut(&mut HloModule, InstructionId) -> bool,
) -> usize {
    let mut changed = 0;
    let ids = std::mem::take(&mut module.computation_mut(computation).instructions);
    let mut all = Vec::with_capacity(ids.len());
    for id in ids {
        changed += usize::from(replace(module, id));
        all.append(&mut module.computation_mut(computation).instructions);
        all.push(id);
    }
    module.computation_mut(computation).instructions = all;
    changed
}
