//! One computation: instructions in order, parameters by number, and the root.

use super::ids::InstructionId;
use super::names::TextRef;

/// A computation of a module.
#[derive(Clone, Debug, Default)]
pub struct HloComputation {
    /// The name, without `%`.
    pub name: TextRef,
    /// The header line in the source, for diagnostics.
    pub text: TextRef,
    /// Instructions in the order of the text.
    pub instructions: Vec<InstructionId>,
    /// Parameters; position is the parameter number.
    pub parameters: Vec<InstructionId>,
    /// The instruction whose value the computation returns. Always present in a module the parser
    /// returns.
    pub root: Option<InstructionId>,
    /// `execution_thread="…"`; `None` for the main thread.
    pub execution_thread: Option<TextRef>,
}
