//! `state-parts`: small parts of loop state that a fused loop reads at other indices than it writes are
//! copied before it, so that it can write the next state where the state lies.
//!
//! Applies to slices, at known or computed places, of an element of the state, if the fused loop that computes
//! the element's next value reads them, perhaps reshaped or broadcast: a matrix from which a product of
//! its own column and row is subtracted. Together they are a small part of the element, which is large itself.
//! These conditions are about cost, not legality: a copy is legal everywhere.

use rustc_hash::FxHashSet;

use super::Lowering;
use super::analysis::{Analysis, Role};
use super::update_order::former;
use crate::module::{ComputationId, HloOpcode, InstructionId, InstructionRef};
use crate::plan::cost::loops::{MIN_STATE, PARTS};

/// Name by which it is switched off.
pub const NAME: &str = "state-parts";

impl Lowering<'_> {
    /// Slices of the state of a loop with this body that are to be copied.
    pub(super) fn parts_of_state(
        &self,
        body: ComputationId,
        analysis: &Analysis,
    ) -> FxHashSet<InstructionId> {
        let mut parts = FxHashSet::default();
        let root = self.module.computation(body).root;
        let root = root.map(|id| self.module.instruction(id));
        let is_off = self.options.is_off(NAME);
        let Some(root) = root.filter(|root| !is_off && root.opcode() == HloOpcode::Tuple) else {
            return parts;
        };
        for (at, next) in root.operands().enumerate() {
            let state = next.array_shape().and_then(|shape| shape.element_count());
            let cluster = analysis
                .position
                .get(&next.id)
                .map(|&at| at as usize)
                .filter(|&at| analysis.is_root[at])
                .and_then(|at| analysis.clusters[at]);
            let (Some(state), Some(cluster)) = (state.filter(|&n| n >= MIN_STATE), cluster) else {
                continue;
            };
            let members = analysis.clusters.iter().zip(&analysis.instructions);
            let own: FxHashSet<InstructionId> = members
                .filter(|(member, _)| **member == Some(cluster))
                .flat_map(|(_, &id)| self.module.instruction(id).operands())
                .filter_map(|operand| part(analysis, operand, at))
                .collect();
            let count = |&id: &InstructionId| {
                let shape = self.module.instruction(id).array_shape();
                shape
                    .and_then(|shape| shape.element_count())
                    .unwrap_or(state)
            };
            let all = own.iter().map(count).fold(0, i64::saturating_add);
            if all <= state / PARTS {
                parts.extend(own);
            }
        }
        parts
    }
}

/// The slice of element `at` of the state, perhaps after updates of it, that `operand` is, reshaped or broadcast.
fn part(analysis: &Analysis, operand: InstructionRef<'_>, at: usize) -> Option<InstructionId> {
    let mut part = operand;
    loop {
        let position = *analysis.position.get(&part.id)? as usize;
        if !matches!(analysis.roles[position], Role::View | Role::Alias) {
            return None;
        }
        let source = part.operand(0)?;
        let is_slice = matches!(part.opcode(), HloOpcode::Slice | HloOpcode::DynamicSlice);
        if is_slice {
            let is_state = |source: InstructionRef<'_>| {
                let whole = source.operand(0);
                source.tuple_index() == Some(at)
                    && whole.is_some_and(|whole| whole.opcode() == HloOpcode::Parameter)
            };
            return former(source).any(is_state).then_some(part.id);
        }
        part = source;
    }
}
