//! `state-in-place`: loop state that every trip returns as it got it is read where its initial value
//! lies, without a buffer of its own.
//!
//! Applies to the elements of a flat tuple of arrays that the body's root takes from the body's
//! parameter at the same place. State that moves to another place, and all of a nested tuple, gets
//! buffers.

use super::{Lowering, Value};
use crate::module::{ComputationId, HloOpcode, InstructionRef};
use crate::plan::faults::{self, Fault};

/// Name by which it is switched off.
pub const NAME: &str = "state-in-place";

impl Lowering<'_> {
    /// Which elements of the state stay where they are; empty where none is known to.
    pub(super) fn state_in_place(&self, body: ComputationId, initial: &Value) -> Vec<bool> {
        let is_flat = matches!(initial, Value::Tuple(parts)
            if parts.iter().all(|part| matches!(part, Value::Array(_))));
        let root = self.module.computation(body).root;
        let root = root.map(|id| self.module.instruction(id));
        let is_known = is_flat && !self.options.is_off(NAME);
        let Some(root) = root.filter(|root| is_known && root.opcode() == HloOpcode::Tuple) else {
            return Vec::new();
        };
        let is_same = |(at, part): (usize, InstructionRef<'_>)| {
            let whole = part.operand(0);
            let is_whole = whole.is_some_and(|whole| whole.opcode() == HloOpcode::Parameter);
            let is_same = part.tuple_index() == Some(at) && is_whole;
            faults::holds(Fault::HandsOnChangedState, is_same)
        };
        root.operands().enumerate().map(is_same).collect()
    }
}
