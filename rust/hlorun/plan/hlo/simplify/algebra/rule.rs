//! What a rule is.

use crate::module::InstructionId;
use crate::plan::hlo::builder::Builder;

/// What a rule found.
pub(super) enum Change {
    /// The instruction is the same as another one, which stands before it.
    Same(InstructionId),
    /// The instruction was rewritten in place.
    Rewritten,
}

/// A rule looks at the instruction `like` of the builder.
pub(super) type Rule = fn(&mut Builder<'_>) -> Option<Change>;
