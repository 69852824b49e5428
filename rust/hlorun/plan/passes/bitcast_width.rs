//! `bitcast` between element types of different widths, as a `bitcast-convert` of flat arrays.
//!
//! In: a flattened module. Out: the same, in which every `bitcast` of arrays keeps the width of its
//! elements. The bits keep their physical order: flattened by the operand's layout, read as the
//! other type, and given dimensions by the result's layout.

use super::rewrite::Builder;
use crate::module::{ComputationId, HloModule, HloOpcode, InstructionId};
use crate::plan::ops::bitcast_convert::width;
use crate::types::ArrayShape;

/// Rewrites every computation.
pub fn run(module: &mut HloModule) {
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let instructions = &module.computation(computation).instructions;
        if instructions.iter().any(|&id| changes_width(module, id)) {
            rewrite(module, computation);
        }
    }
}

fn rewrite(module: &mut HloModule, computation: ComputationId) {
    let old = std::mem::take(&mut module.computation_mut(computation).instructions);
    for id in old {
        if changes_width(module, id)
            && let Some(converted) = convert(module, computation, id)
        {
            module.operand_ids_mut(id)[0] = converted;
        }
        let instructions = &mut module.computation_mut(computation).instructions;
        instructions.push(id);
    }
}

fn shapes(module: &HloModule, id: InstructionId) -> Option<(&ArrayShape, &ArrayShape)> {
    let instruction = module.instruction(id);
    Some((
        instruction.operand(0)?.array_shape()?,
        instruction.array_shape()?,
    ))
}

fn changes_width(module: &HloModule, id: InstructionId) -> bool {
    module.instruction_data(id).opcode == HloOpcode::Bitcast
        && shapes(module, id)
            .is_some_and(|(from, to)| from.element_type.bit_width() != to.element_type.bit_width())
}

/// The operand of `id` as a flat array of the result's type, if both sides hold the same bits.
fn convert(
    module: &mut HloModule,
    computation: ComputationId,
    id: InstructionId,
) -> Option<InstructionId> {
    let (from, to) = shapes(module, id)?;
    let (from_type, to_type) = (from.element_type, to.element_type);
    let (from_count, to_count) = (from.element_count()?, to.element_count()?);
    let bits = |count: i64, width: u32| count.checked_mul(width.into());
    if bits(from_count, width(from_type))? != bits(to_count, width(to_type))? {
        return None;
    }
    let operand = *module.operand_ids(id).first()?;
    let mut b = Builder {
        module,
        computation,
        like: id,
    };
    let flat = b.add_array(
        HloOpcode::Bitcast,
        from_type,
        &[from_count],
        &[operand],
        &[],
    );
    Some(b.add_array(
        HloOpcode::BitcastConvert,
        to_type,
        &[to_count],
        &[flat],
        &[],
    ))
}
