//! Rules for what is computed of repeated values.

use smallvec::SmallVec;

use super::rule::{Change, Rule};
use crate::module::opcode::elementwise_classes;
use crate::module::{AttrKey, Attribute, HloOpcode, InstructionId, OpClass};
use crate::plan::cost::broadcasts::MIN_REPEATED;
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::builder::Builder;
use crate::types::{ArrayShape, Dims};

/// All of them.
pub(super) const RULES: &[Rule] = &[before_it_is_repeated];

/// What is computed of several arrays that are repeated alike, or of scalars, is repeated after it is computed.
fn before_it_is_repeated(b: &mut Builder<'_>) -> Option<Change> {
    let instruction = b.module.instruction(b.like);
    let opcode = instruction.opcode();
    if !matches!(opcode.class(), elementwise_classes!()) {
        return None;
    }
    let shape = instruction
        .array_shape()
        .filter(|shape| shape.is_static())?;
    let (ty, all) = (shape.element_type, shape.element_count()?);
    let mut operands: SmallVec<[InstructionId; 4]> = SmallVec::new();
    // Where the dimensions of those that are no scalars go, and their sizes.
    let mut place: Option<(Dims, Dims)> = None;
    for operand in instruction.operands() {
        if operand.opcode() != HloOpcode::Broadcast {
            return None;
        }
        let from = operand.operand(0)?;
        let sizes = from.array_shape().filter(|shape| shape.is_static())?;
        operands.push(from.id);
        if sizes.dims.is_empty() {
            continue;
        }
        let own = (Dims::from_slice(operand.dimensions()), sizes.dims.clone());
        match &place {
            Some(other) if !faults::holds(Fault::RepeatsUnalike, *other == own) => return None,
            _ => place = Some(own),
        }
    }
    let (at, sizes) = place.unwrap_or_default();
    let few = ArrayShape::new(ty, &sizes).element_count()?;
    if operands.is_empty() || few == 0 || all / few < MIN_REPEATED {
        return None;
    }
    let attributes = b.module.attributes_of(b.like).iter();
    let attributes = attributes.filter(|a| a.key != AttrKey::ControlPredecessors);
    let attributes: SmallVec<[Attribute; 2]> = attributes.cloned().collect();
    for operand in &mut operands {
        if b.shape(*operand).dims.is_empty() {
            *operand = b.broadcast(*operand, &sizes);
        }
    }
    let once = b.add_array(opcode, ty, &sizes, &operands, &attributes);
    let id = b.like;
    let dimensions = b.ints(AttrKey::Dimensions, &at);
    b.module.set_operands(id, &[once]);
    b.module.set_attributes(id, &[dimensions]);
    let data = b.module.instruction_data_mut(id);
    (data.opcode, data.immediate) = (HloOpcode::Broadcast, 0);
    Some(Change::Rewritten)
}
