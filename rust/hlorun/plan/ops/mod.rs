//! Operations that are no loops: sort, gather, scatter, convolution, … each with what it needs to
//! know decided here, before data exists.
//!
//! In: an instruction. Out: an [`OpKind`]; `exec::ops` holds a file of the same name that runs it.
//! Inputs and outputs are views; outputs are dense in the shape's layout.

pub mod combiner;
pub mod gather;
pub mod index_map;
pub mod scatter;

use super::view::ArrayView;
use crate::error::Result;
use crate::module::{HloOpcode, InstructionRef};

/// An operation with its operands and results.
#[derive(Clone, Debug)]
pub struct OpThunk {
    /// What it does.
    pub kind: OpKind,
    /// Leaves of the operands, in order.
    pub inputs: Vec<ArrayView>,
    /// Leaves of the result, in order; dense, distinct from the inputs.
    pub outputs: Vec<ArrayView>,
}

/// What an operation does, with its parameters.
#[derive(Clone, Debug)]
pub enum OpKind {
    /// See [`gather`].
    Gather(Box<gather::GatherOp>),
    /// See [`scatter`].
    Scatter(Box<scatter::ScatterOp>),
}

impl OpThunk {
    /// Whether it may leave bytes of its outputs as they were, or reads them. None does.
    pub fn updates_output(&self) -> bool {
        false
    }
}

/// Plans `instruction`; an error names what is not supported.
pub fn plan(instruction: InstructionRef<'_>) -> Result<OpKind> {
    use HloOpcode as H;
    Ok(match instruction.opcode() {
        H::Gather => OpKind::Gather(Box::new(gather::plan(instruction)?)),
        H::Scatter => OpKind::Scatter(Box::new(scatter::plan(instruction)?)),
        _ => {
            return Err(super::unsupported(
                instruction,
                format!("{} is not supported", instruction.opcode_name()),
            ));
        }
    })
}
