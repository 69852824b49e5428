//! Steps that show values to the run's observer.
//!
//! In: an instruction and where its value is. Out: a step after the one that computes it. Nothing is
//! written down unless values are observed.

use rustc_hash::FxHashMap;

use super::{Lowering, Scope, Value, collect_leaves};
use crate::module::{InstructionId, InstructionRef, OpClass};
use crate::plan::thunk::{ObserveThunk, ThunkKind};

impl Lowering<'_> {
    /// Lets every value be shown once it is computed, also as that of the `calls` it stands for.
    pub fn observe(&mut self, calls: &[(InstructionId, InstructionId)]) {
        let mut observed: FxHashMap<_, Vec<_>> = FxHashMap::default();
        for &(call, value) in calls {
            observed.entry(value).or_default().push(call);
        }
        self.observed = Some(observed);
    }

    /// A step that shows `value`, for each instruction that has it.
    pub(super) fn push_observation(
        &self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'_>,
        value: &Value,
    ) {
        let Some(observed) = &self.observed else {
            return;
        };
        let calls = observed.get(&instruction.id).map_or(&[][..], Vec::as_slice);
        // What only passes values on has been shown where they were computed.
        let is_computed = !matches!(
            instruction.opcode().class(),
            OpClass::Parameter | OpClass::Constant | OpClass::Tuple
        );
        // A part of what the text writes as one instruction has no text of its own.
        let itself = (is_computed && instruction.data().text.len > 0).then_some(instruction.id);
        for id in itself.into_iter().chain(calls.iter().copied()) {
            let mut leaves = Vec::new();
            collect_leaves(value, &mut leaves);
            if !leaves.is_empty() {
                scope.push(id, ThunkKind::Observe(Box::new(ObserveThunk { leaves })));
            }
        }
    }
}
