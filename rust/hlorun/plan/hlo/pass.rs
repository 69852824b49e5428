//! What a pass is.

use crate::error::Result;
use crate::module::{HloModule, InstructionId};
use crate::plan::options::CompileOptions;

/// A rewrite of the module.
pub struct Pass {
    /// The word for it in `disable`, in dumps and in reports.
    pub name: &'static str,
    /// Names of passes that have to stand before it in the table.
    pub needs: &'static [&'static str],
    /// It may be switched off. The lowering relies on the others.
    pub is_optional: bool,
    /// Rewrites; returns how many instructions or loops it changed.
    pub run: fn(&mut HloModule, &mut PassContext<'_>) -> Result<usize>,
}

/// What a pass may use beside the module.
pub struct PassContext<'o> {
    /// How the module is compiled.
    pub options: &'o CompileOptions,
    /// Sizes that follow the entry's result; there are any only if its root was wrapped for them.
    pub dynamic_sizes: Vec<DynamicSize>,
    /// Calls that were flattened, and the instruction that has the value of each.
    pub calls: Vec<(InstructionId, InstructionId)>,
}

/// A dimension of a result whose size is known only after the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DynamicSize {
    /// Which array of the result.
    pub leaf: usize,
    /// Which of its dimensions.
    pub dim: usize,
}
