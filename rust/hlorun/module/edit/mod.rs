//! Changes of a module that make it smaller, or another one.
//!
//! In: a module and edits. Out: a module in which they are done. Promise: what nothing reads or runs
//! any more is gone, parameters of the entry included, and the header says nothing of what is gone.
//! Whether the result is legal is the verifier's to say.

mod shapes;

pub use shapes::{resized, widened};

use foldhash::HashSet;

use super::attributes::{AttrKey, AttrValue, Attribute};
use super::copy::Copier;
use super::effects::Effects;
use super::hlo_module::{HloModule, NewInstruction};
use super::ids::{ComputationId, Id, InstructionId};
use super::opcode::HloOpcode;
use super::part::outer_config;
use crate::types::{ArrayShape, Literal, LiteralValue, Shape, ShapeId};

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edit {
    /// Users of the instruction read its operand of this number instead, which has its shape.
    Operand(InstructionId, usize),
    /// Users of the instruction, an array, read zeros instead.
    Zero(InstructionId),
    /// The instruction of the entry computation becomes a parameter.
    Parameter(InstructionId),
    /// The entry computation returns these of its instructions, one alone or a tuple.
    Outputs(Box<[InstructionId]>),
    /// The constant, a scalar integer, holds this number.
    Number(InstructionId, i64),
    /// The loop runs its body once.
    Once(InstructionId),
}

/// The module with all edits done.
pub fn edited(module: &HloModule, edits: &[Edit]) -> HloModule {
    let mut editor = Editor {
        module: module.clone(),
        added: 0,
    };
    for edit in edits {
        editor.apply(edit);
    }
    cleared(editor.module, interface(module))
}

/// The parameters and the result of the entry computation.
fn interface(module: &HloModule) -> Option<(Vec<InstructionId>, Option<InstructionId>)> {
    let (_, entry) = module.entry_computation()?;
    Some((entry.parameters.to_vec(), entry.root))
}

struct Editor {
    module: HloModule,
    /// Instructions that were made up, for their names.
    added: usize,
}

impl Editor {
    fn apply(&mut self, edit: &Edit) {
        match *edit {
            Edit::Operand(id, number) => {
                if let Some(&operand) = self.module.operand_ids(id).get(number) {
                    self.replace(id, operand);
                }
            }
            Edit::Zero(id) => {
                let shape = self.module.instruction_data(id).shape;
                let Shape::Array(array) = self.module.shapes().get(shape).clone() else {
                    return;
                };
                let zero = self.zeros(id, shape, &array);
                self.replace(id, zero);
            }
            Edit::Parameter(id) => {
                let shape = self.module.instruction_data(id).shape;
                let Some((entry, computation)) = self.module.entry_computation() else {
                    return;
                };
                let number = computation.parameters.len() as u32;
                let new = self.add(entry, HloOpcode::Parameter, shape, &[], number);
                self.module.computation_mut(entry).parameters.push(new);
                self.replace(id, new);
            }
            Edit::Outputs(ref outputs) => self.return_only(outputs),
            Edit::Number(id, number) => self.set_number(id, number),
            Edit::Once(id) => {
                let body = self.module.instruction(id).attribute(AttrKey::Body);
                if let Some(&AttrValue::Computation(body)) = body {
                    self.module.instruction_data_mut(id).opcode = HloOpcode::Call;
                    let body = Attribute {
                        key: AttrKey::ToApply,
                        value: AttrValue::Computation(body),
                    };
                    self.module.set_attributes(id, &[body]);
                }
            }
        }
    }

    /// Adds an instruction at the beginning of a computation.
    fn add(
        &mut self,
        computation: ComputationId,
        opcode: HloOpcode,
        shape: ShapeId,
        operands: &[InstructionId],
        immediate: u32,
    ) -> InstructionId {
        let name = format!("edited.{}.{}", self.module.instruction_count(), self.added);
        self.added += 1;
        let name = self.module.text_mut().add(name.as_bytes());
        let new = self.module.add_instruction(
            computation,
            NewInstruction {
                name,
                text: name,
                opcode,
                shape,
                operands,
                attributes: &[],
                immediate,
            },
        );
        let first = operands.len().min(1);
        let instructions = &mut self.module.computation_mut(computation).instructions;
        instructions.pop();
        instructions.insert(first, new);
        new
    }

    /// Zeros in the computation of `like`.
    fn zeros(&mut self, like: InstructionId, shape: ShapeId, array: &ArrayShape) -> InstructionId {
        let computation = self.module.instruction_data(like).computation;
        let bytes = vec![0; array.element_type.size_bytes()];
        let scalar = ArrayShape::new(array.element_type, &[]);
        let literal = self.module.add_literal(Literal {
            shape: scalar.clone(),
            value: LiteralValue::Array(bytes.into()),
        });
        let scalar = self.module.shapes_mut().array(scalar);
        let zero = self.add(
            computation,
            HloOpcode::Constant,
            scalar,
            &[],
            literal.index() as u32,
        );
        if array.rank() == 0 {
            return zero;
        }
        let broadcast = self.add(computation, HloOpcode::Broadcast, shape, &[zero], 0);
        let dimensions = AttrValue::Ints(self.module.add_ints(&[]));
        self.module
            .set_attribute(broadcast, AttrKey::Dimensions, dimensions);
        broadcast
    }

    /// Users of `old`, and the computation if it returns it, get `new` instead.
    fn replace(&mut self, old: InstructionId, new: InstructionId) {
        let computation = self.module.instruction_data(old).computation;
        let all = self.module.computation(computation).instructions.clone();
        for id in all.into_iter().filter(|&id| id != new) {
            for operand in self.module.operand_ids_mut(id) {
                if *operand == old {
                    *operand = new;
                }
            }
        }
        let computation = self.module.computation_mut(computation);
        if computation.root == Some(old) {
            computation.root = Some(new);
        }
    }

    fn return_only(&mut self, outputs: &[InstructionId]) {
        let Some(entry) = self.module.entry else {
            return;
        };
        let root = match outputs {
            [one] => *one,
            _ => {
                let parts: Vec<ShapeId> = outputs
                    .iter()
                    .map(|&id| self.module.instruction_data(id).shape)
                    .collect();
                let shape = self.module.shapes_mut().tuple(&parts);
                let tuple = self.add(entry, HloOpcode::Tuple, shape, outputs, 0);
                // The last of a schedule.
                let instructions = &mut self.module.computation_mut(entry).instructions;
                instructions.retain(|&id| id != tuple);
                instructions.push(tuple);
                tuple
            }
        };
        self.module.computation_mut(entry).root = Some(root);
    }

    fn set_number(&mut self, id: InstructionId, number: i64) {
        let data = self.module.instruction_data(id);
        let shape = self.module.instruction(id).array_shape();
        let Some(shape) = shape.filter(|s| s.rank() == 0 && s.element_type.is_integral()) else {
            return;
        };
        if data.opcode != HloOpcode::Constant {
            return;
        }
        let size = shape.element_type.size_bytes();
        let literal = Literal {
            shape: ArrayShape::new(shape.element_type, &[]),
            value: LiteralValue::Array(number.to_ne_bytes()[..size.min(8)].into()),
        };
        let literal = self.module.add_literal(literal);
        self.module.instruction_data_mut(id).immediate = literal.index() as u32;
    }
}

/// The module without instructions whose value nobody reads, and without what nothing runs.
fn cleared(
    mut module: HloModule,
    before: Option<(Vec<InstructionId>, Option<InstructionId>)>,
) -> HloModule {
    let mut effects = Effects::default();
    for computation in module.computation_ids() {
        let Some(root) = module.computation(computation).root else {
            continue;
        };
        let instructions = module.computation(computation).instructions.clone();
        let mut live: HashSet<InstructionId> = HashSet::from_iter([root]);
        let is_entry = module.entry == Some(computation);
        // Operands may stand behind their users.
        let mut open: Vec<InstructionId> = instructions
            .iter()
            .copied()
            .filter(|&id| {
                let is_parameter = module.instruction_data(id).opcode == HloOpcode::Parameter;
                is_parameter && !is_entry || effects.of(&module, id).must_run()
            })
            .chain([root])
            .collect();
        live.extend(open.iter().copied());
        while let Some(id) = open.pop() {
            let operands = module.operand_ids(id).iter().copied();
            open.extend(operands.filter(|&operand| live.insert(operand)));
        }
        let kept = module.computation_mut(computation);
        kept.instructions.retain(|id| live.contains(id));
        kept.parameters.retain(|id| live.contains(id));
        let parameters = kept.parameters.clone();
        for (number, id) in parameters.into_iter().enumerate() {
            module.instruction_data_mut(id).immediate = number as u32;
        }
    }
    let mut copier = Copier::new(&module);
    let entry = copier.copy_computations(module.entry.into_iter().collect());
    let mut made = copier.to;
    made.entry = entry;
    made.config = match before == interface(&module) {
        true => module.config.clone(),
        false => outer_config(&module),
    };
    made
}
