//! `reduce-window`: a fold over every position of a window.

use super::combiner::Combiner;
use super::index_map::array_operand;
use crate::error::Result;
use crate::module::attributes::Window;
use crate::module::{AttrKey, InstructionRef};
use crate::plan::error::unsupported;
use crate::types::ArrayShape;

/// Parameters of a `reduce-window`.
#[derive(Clone, Debug)]
pub struct ReduceWindowOp {
    /// Number of operands, and of initial values.
    pub count: usize,
    /// One entry per dimension.
    pub window: Window,
    /// Accumulators, then values; returns the accumulators.
    pub combiner: Combiner,
}

/// The window of `instruction`, one entry per dimension of `operand`, with legal sizes.
pub fn window_of(instruction: InstructionRef<'_>, operand: &ArrayShape) -> Result<Window> {
    let window = instruction.window().cloned().unwrap_or_default();
    if window.0.len() != operand.rank() {
        return Err(unsupported(
            instruction,
            format!(
                "a window of {} dimensions over {}",
                window.0.len(),
                operand.rank()
            ),
        ));
    }
    let legal = window
        .0
        .iter()
        .all(|d| d.size >= 0 && d.stride >= 1 && d.window_dilation >= 1 && d.base_dilation >= 1);
    if !legal {
        return Err(unsupported(instruction, "an impossible window".into()));
    }
    Ok(window)
}

/// Reads the parameters.
pub fn plan(instruction: InstructionRef<'_>) -> Result<ReduceWindowOp> {
    let operands = instruction.operand_ids().len();
    if !operands.is_multiple_of(2) {
        return Err(unsupported(instruction, "an odd number of operands".into()));
    }
    let count = operands / 2;
    let operand = array_operand(instruction, 0)?;
    Ok(ReduceWindowOp {
        count,
        window: window_of(instruction, operand)?,
        combiner: Combiner::of(instruction, AttrKey::ToApply, 2 * count, count)?,
    })
}
