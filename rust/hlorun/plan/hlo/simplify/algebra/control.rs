//! A `conditional` whose branch is known.

use super::rule::Change;
use crate::error::Result;
use crate::module::HloOpcode;
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::inline;
use crate::plan::hlo::loops::induction_variable;
use crate::plan::hlo::loops::info::Callers;
use crate::types::PrimitiveType;

/// Puts the branch that a constant chooses in the conditional's place.
///
/// Nobody else may call the branch: what several call would be written out for each, level upon
/// level.
pub(super) fn known_branch(b: &mut Builder<'_>, callers: &Callers) -> Result<Option<Change>> {
    let conditional = b.module.instruction(b.like);
    if conditional.opcode() != HloOpcode::Conditional {
        return Ok(None);
    }
    let Some(branches) = conditional.branch_computations() else {
        return Ok(None);
    };
    let Some((&chooser, arguments)) = conditional.operand_ids().split_first() else {
        return Ok(None);
    };
    let Some(index) = induction_variable::constant(b.module, chooser) else {
        return Ok(None);
    };
    let shape = b.module.instruction(chooser).array_shape();
    let is_pred = shape.is_some_and(|shape| shape.element_type == PrimitiveType::Pred);
    // A predicate's first branch is that of `true`; an index out of range means the last branch.
    let last = branches.len().saturating_sub(1);
    let chosen = match is_pred {
        true => usize::from(index == 0),
        false => usize::try_from(index).unwrap_or(last).min(last),
    };
    let (Some(&branch), Some(&argument)) = (branches.get(chosen), arguments.get(chosen)) else {
        return Ok(None);
    };
    if callers.of(branch) != 1 {
        return Ok(None);
    }
    // The branch runs here or there, never twice.
    let result = conditional.shape_id();
    let is_array = conditional.array_shape().is_some();
    let root = b.module.computation(branch).root;
    if !root.is_some_and(|root| is_array || b.module.instruction_data(root).shape == result) {
        return Ok(None);
    }
    let value = inline::clone_body(b.module, branch, b.computation, &[argument])?;
    Ok(Some(Change::Same(value)))
}
