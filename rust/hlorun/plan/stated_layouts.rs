//! The layouts that `bitcast`s read their operands in.
//!
//! A `bitcast` means what it does by the layout that its operand has in the text. What takes the
//! operand's place, when calls are flattened or a pass rewrites it, has the same value but maybe
//! another layout; then a copy in the stated layout goes between.

use crate::module::{ComputationId, HloModule, HloOpcode, InstructionId, NewInstruction};
use crate::plan::view::major_to_minor;
use crate::types::{Shape, ShapeId};

/// The operand's shape for every `bitcast` of arrays in a module.
pub struct StatedLayouts(Vec<(InstructionId, ShapeId)>);

impl StatedLayouts {
    /// Of the module as it is.
    pub fn of(module: &HloModule) -> StatedLayouts {
        let mut stated = Vec::new();
        for computation in module.computation_ids() {
            for &id in &module.computation(computation).instructions {
                if module.instruction_data(id).opcode == HloOpcode::Bitcast
                    && let &[operand] = module.operand_ids(id)
                {
                    stated.push((id, module.instruction_data(operand).shape));
                }
            }
        }
        StatedLayouts(stated)
    }

    /// Puts copies before those `bitcast`s whose operand has another layout now.
    pub fn keep(&self, module: &mut HloModule) {
        for &(id, shape) in &self.0 {
            let data = module.instruction_data(id);
            let (&[operand], HloOpcode::Bitcast) = (module.operand_ids(id), data.opcode) else {
                continue;
            };
            let computation = data.computation;
            let copy = in_stated_layout(module, computation, id, operand, shape);
            if copy == operand {
                continue;
            }
            let instructions = &mut module.computation_mut(computation).instructions;
            instructions.pop();
            // One that is gone reads nothing.
            if let Some(at) = instructions.iter().position(|&other| other == id) {
                instructions.insert(at, copy);
                module.operand_ids_mut(id)[0] = copy;
            }
        }
    }
}

/// Changes `operands`, which are to take the place of those of `reader`, so that it reads what the
/// text says; a copy is appended to the computation where one is needed.
pub fn keep_stated_layout(
    module: &mut HloModule,
    computation: ComputationId,
    reader: InstructionId,
    operands: &mut [InstructionId],
) {
    if let (&[stated], [operand]) = (module.operand_ids(reader), operands) {
        let shape = module.instruction_data(stated).shape;
        *operand = in_stated_layout(module, computation, reader, *operand, shape);
    }
}

/// `operand` for `reader`, or, if that is a `bitcast` and the layout of `stated` is another one, a
/// copy in that layout, which is appended to the computation.
fn in_stated_layout(
    module: &mut HloModule,
    computation: ComputationId,
    reader: InstructionId,
    operand: InstructionId,
    stated: ShapeId,
) -> InstructionId {
    let data = module.instruction_data(reader);
    if data.opcode != HloOpcode::Bitcast {
        return operand;
    }
    let (Shape::Array(from), Shape::Array(to)) = (
        module.instruction(operand).shape(),
        module.shapes().get(stated),
    ) else {
        return operand;
    };
    if from.dims != to.dims || major_to_minor(from) == major_to_minor(to) {
        return operand;
    }
    let (name, text) = (data.name, data.text);
    module.add_instruction(
        computation,
        NewInstruction {
            name,
            text,
            opcode: HloOpcode::Copy,
            shape: stated,
            operands: &[operand],
            attributes: &[],
            immediate: 0,
        },
    )
}
