//! May a result lie where an operand of the same instruction does?

use crate::analysis::buffer_assignment::can_share;
use crate::analysis::dataflow::{HloAliasAnalysis, HloDataflowAnalysis, PositionId, ValueIndex};
use crate::module::{HloModule, HloOpcode, InstructionId};

use super::Place;

/// One operand and one result of an instruction that overlap.
pub struct Overlap {
    pub instruction: InstructionId,
    /// Where the instruction reads.
    pub read: (PositionId, ValueIndex, Place),
    /// What it writes.
    pub written: (PositionId, ValueIndex, Place),
}

/// Whether the instruction may write the one over the other: it must, or it reads each element
/// before it writes that element's place.
pub fn is_allowed(
    module: &HloModule,
    dataflow: &HloDataflowAnalysis,
    alias: &HloAliasAnalysis,
    overlap: &Overlap,
) -> bool {
    let (from, read, read_place) = overlap.read;
    let (to, written, written_place) = overlap.written;
    if read_place.start != written_place.start {
        return false;
    }
    // What a custom call overwrites is its backend's knowledge, as the bias of a matrix product.
    let target = module.instruction(overlap.instruction);
    if target.opcode() == HloOpcode::CustomCall {
        return read_place == written_place;
    }
    // One element is read before anything is written.
    let single = |position: PositionId| {
        let shape = module.shapes().get(dataflow.positions.shape(position));
        shape
            .as_array()
            .is_some_and(|a| a.element_count() == Some(1))
    };
    alias.buffer_of(read) == alias.buffer_of(written)
        || (read_place == written_place && single(from) && single(to))
        || can_share(module, dataflow, alias, from, overlap.instruction, to)
}
