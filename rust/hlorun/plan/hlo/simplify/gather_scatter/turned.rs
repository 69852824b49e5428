//! A transpose of a gather becomes the gather that makes its result in that order.
//!
//! Applies where nobody else reads the gather, the transpose keeps the order of the window's dimensions and that of
//! those that say which window, and a window lies in one piece afterwards: XLA's optimizations leave gathers whose
//! windows come first, with a transpose behind them.

use super::windows::come_last;
use crate::module::{AttrKey, ComputationId, HloModule, HloOpcode, InstructionId};
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::simplify::readers::readers_of;
use crate::plan::ops::gather;
use crate::types::Dims;

/// Turns the gathers of a computation; returns how many there were.
pub fn run(module: &mut HloModule, computation: ComputationId) -> usize {
    let ids = module.computation(computation).instructions.clone();
    let is_transpose = |&id: &InstructionId| {
        let transpose = module.instruction(id);
        transpose.opcode() == HloOpcode::Transpose
            && transpose.operand(0).map(|gather| gather.opcode()) == Some(HloOpcode::Gather)
    };
    let wanted: Vec<InstructionId> = ids.iter().copied().filter(is_transpose).collect();
    if wanted.is_empty() {
        return 0;
    }
    let readers = readers_of(module, &ids);
    let root = module.computation(computation).root;
    let mut changed = 0;
    for id in wanted {
        let gather = module.operand_ids(id)[0];
        let is_read_once = readers.get(&gather).is_some_and(|all| all.len() == 1);
        if is_read_once && root != Some(gather) && turn(module, computation, id, gather).is_some() {
            changed += 1;
        }
    }
    changed
}

/// Makes the transpose `id` of `gather` a gather.
fn turn(
    module: &mut HloModule,
    computation: ComputationId,
    id: InstructionId,
    gather: InstructionId,
) -> Option<()> {
    let plan = gather::plan(module.instruction(gather)).ok()?;
    let order = module.instruction(id).dimensions();
    let is_window = |from: &i64| plan.offset_dims.iter().any(|&dim| dim as i64 == *from);
    let (window, which): (Vec<i64>, Vec<i64>) = order.iter().partition(|&from| is_window(from));
    let offset: Dims = (0..order.len() as i64)
        .filter(|&to| is_window(&order[to as usize]))
        .collect();
    let places: Vec<usize> = offset.iter().map(|&dim| dim as usize).collect();
    if !module.instruction(id).array_shape()?.is_static()
        || !plan.offset_dims.is_sorted()
        || !faults::holds(Fault::TurnsWindows, window.is_sorted() && which.is_sorted())
        || !come_last(&places, &plan.batch_dims)
    {
        return None;
    }
    let operands = module.operand_ids(gather).to_vec();
    let mut attributes = module.attributes_of(gather).to_vec();
    let mut builder = Builder {
        module,
        computation,
        like: id,
    };
    let offset = builder.ints(AttrKey::OffsetDims, &offset);
    attributes.retain(|attribute| attribute.key != AttrKey::OffsetDims);
    attributes.insert(0, offset);
    module.set_operands(id, &operands);
    module.set_attributes(id, &attributes);
    let data = module.instruction_data_mut(id);
    (data.opcode, data.immediate) = (HloOpcode::Gather, 0);
    Some(())
}
