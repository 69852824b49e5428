//! Logical buffers: memory that has no place yet.

use crate::module::{InstructionId, LiteralId};

/// What a logical buffer holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferKind {
    /// Anything the plan places.
    Temp,
    /// Loop state: written once per trip at the end of the body.
    State,
    /// Leaf number of the entry's parameters.
    Parameter(u32),
    /// A constant's literal.
    Constant(LiteralId),
    /// Leaf number of the entry's result.
    Output(u32),
}

/// A buffer that has no place yet.
#[derive(Clone, Copy, Debug)]
pub struct LogicalBuffer {
    /// Bytes.
    pub size: usize,
    /// What it holds.
    pub kind: BufferKind,
    /// The instruction whose value it holds first.
    pub instruction: Option<InstructionId>,
}
