//! What is done to every element of a product, or of a convolution, before it is written.

use hlorun_kernels::EpilogueOp;

/// A step of an epilogue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpilogueStep {
    /// What it does with the value so far and its operand.
    pub op: EpilogueOp,
    /// The bits of a constant operand. Other steps take the next of the epilogue's operands: a matrix, a vector over the
    /// columns, or a scalar.
    pub constant: Option<u64>,
}

impl EpilogueStep {
    /// The operation's name, as [`super::program::Step::operation`] says it.
    pub fn operation(&self) -> &'static str {
        match self.op {
            EpilogueOp::Add => "add",
            EpilogueOp::Subtract | EpilogueOp::SubtractFrom => "subtract",
            EpilogueOp::Multiply => "multiply",
            EpilogueOp::AtLeast => "maximum",
            EpilogueOp::AtMost => "minimum",
        }
    }
}
