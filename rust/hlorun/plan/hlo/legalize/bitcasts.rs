//! `bitcast` as the movements it stands for.
//!
//! In: a verified module. Out: the same without `bitcast` of arrays. A `bitcast` keeps elements in
//! their physical order, so what it means depends on the layouts that the text gives its operand
//! and its result: the operand is transposed to its physical order, reshaped (and read as another
//! type), and transposed back. From here on layouts mean nothing to any instruction, so a pass may
//! put any array of the same value in the place of another.
//!
//! A `bitcast` of other values, or one whose sides differ in bits, stays; the lowering refuses it.

use crate::module::{ComputationId, HloModule, HloOpcode, Id, InstructionId};
use crate::plan::hlo::builder::Builder;
use crate::plan::ops::bitcast_convert::width;
use crate::plan::view::major_to_minor;
use crate::types::{ArrayShape, Dims};

/// Rewrites every computation; how many instructions.
pub fn run(module: &mut HloModule) -> usize {
    let mut changed = 0;
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let instructions = &module.computation(computation).instructions;
        let is_bitcast =
            |id: &InstructionId| module.instruction_data(*id).opcode == HloOpcode::Bitcast;
        if !instructions.iter().any(is_bitcast) {
            continue;
        }
        let old = std::mem::take(&mut module.computation_mut(computation).instructions);
        for id in old {
            if is_bitcast_of_arrays(module, id) {
                changed += usize::from(rewrite(module, computation, id).is_some());
            }
            let instructions = &mut module.computation_mut(computation).instructions;
            instructions.push(id);
        }
    }
    changed
}

fn is_bitcast_of_arrays(module: &HloModule, id: InstructionId) -> bool {
    module.instruction_data(id).opcode == HloOpcode::Bitcast && shapes(module, id).is_some()
}

/// The operand's and the result's shape.
fn shapes(module: &HloModule, id: InstructionId) -> Option<(&ArrayShape, &ArrayShape)> {
    let instruction = module.instruction(id);
    Some((
        instruction.operand(0)?.array_shape()?,
        instruction.array_shape()?,
    ))
}

/// Makes `id` the last of the movements, if both sides hold the same bits.
fn rewrite(module: &mut HloModule, computation: ComputationId, id: InstructionId) -> Option<()> {
    let operand = *module.operand_ids(id).first()?;
    let (from, to) = shapes(module, id)?;
    let bits = |shape: &ArrayShape| {
        let count = shape.element_count()?;
        count.checked_mul(width(shape.element_type).into())
    };
    if bits(from)? != bits(to)? {
        return None;
    }
    let out: Dims = major_to_minor(from).iter().map(|&d| d.into()).collect();
    let order = major_to_minor(to);
    let physical: Dims = order.iter().map(|&d| to.dims[usize::from(d)]).collect();
    let mut back = Dims::from_elem(0, order.len());
    for (at, &dim) in order.iter().enumerate() {
        back[usize::from(dim)] = at as i64;
    }
    let to = ArrayShape::new(to.element_type, &physical);
    let first = module.instruction_count();
    let mut b = Builder {
        module,
        computation,
        like: id,
    };
    let flat = b.arranged(operand, &out);
    let flat = as_type(&mut b, flat, &to);
    let value = b.arranged(flat, &back);
    // The bitcast itself becomes the last step.
    if value.index() < first {
        module.set_operands(id, &[value]);
        module.set_attributes(id, &[]);
        module.instruction_data_mut(id).opcode = HloOpcode::Copy;
    } else {
        let last = module.instruction_data(value).clone();
        module.computation_mut(computation).instructions.pop();
        let data = module.instruction_data_mut(id);
        (data.opcode, data.operands, data.attributes) =
            (last.opcode, last.operands, last.attributes);
    }
    // Parts of an instruction of the text have no text of their own.
    for part in first..module.instruction_count() {
        module
            .instruction_data_mut(InstructionId::from_index(part))
            .text
            .len = 0;
    }
    Some(())
}

/// The elements of `flat` in their order, as an array of the shape `to`.
fn as_type(b: &mut Builder<'_>, flat: InstructionId, to: &ArrayShape) -> InstructionId {
    let from = b.shape(flat);
    let (own, other) = (width(from.element_type), width(to.element_type));
    if from.element_type == to.element_type {
        return b.reshape(flat, &to.dims);
    }
    let ty = to.element_type;
    let count = from.element_count().unwrap_or(0);
    let convert = |b: &mut Builder<'_>, operand, dims: &[i64]| {
        b.add_array(HloOpcode::BitcastConvert, ty, dims, &[operand], &[])
    };
    if own == other {
        let flat = b.reshape(flat, &to.dims);
        convert(b, flat, &to.dims)
    } else if own > other {
        // One element becomes several along a new last dimension.
        let line = b.reshape(flat, &[count]);
        let parts = convert(b, line, &[count, i64::from(own / other)]);
        b.reshape(parts, &to.dims)
    } else {
        let ratio = i64::from(other / own);
        let groups = b.reshape(flat, &[count / ratio, ratio]);
        let line = convert(b, groups, &[count / ratio]);
        b.reshape(line, &to.dims)
    }
}
