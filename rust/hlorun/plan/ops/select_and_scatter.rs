//! `select-and-scatter`: every source element goes to the place its window selects.

use super::combiner::Combiner;
use super::index_map::array_operand;
use super::reduce_window::window_of;
use crate::error::Result;
use crate::module::attributes::Window;
use crate::module::{AttrKey, InstructionRef};

/// Parameters of a `select-and-scatter`.
#[derive(Clone, Debug)]
pub struct SelectAndScatterOp {
    /// One entry per dimension.
    pub window: Window,
    /// Whether the first value stays selected against the second.
    pub select: Combiner,
    /// Joins the value there with a source element.
    pub scatter: Combiner,
}

/// Reads the parameters.
pub fn plan(instruction: InstructionRef<'_>) -> Result<SelectAndScatterOp> {
    let operand = array_operand(instruction, 0)?;
    Ok(SelectAndScatterOp {
        window: window_of(instruction, operand)?,
        select: Combiner::of(instruction, AttrKey::SelectComputation, 2, 1)?,
        scatter: Combiner::of(instruction, AttrKey::ScatterComputation, 2, 1)?,
    })
}
