//! Copies computations and instructions of one module into another.
//!
//! In: a module. Out: a new one that shares its text and shapes. Promise: operands, called
//! computations, literals and control predecessors of what was copied are copies; control
//! predecessors that were not copied are left out.

use foldhash::HashMap;

use super::attributes::{AttrValue, Attribute};
use super::computation::HloComputation;
use super::hlo_module::{HloModule, NewInstruction};
use super::ids::{ComputationId, Id, InstructionId, LiteralId};
use super::opcode::HloOpcode;

/// A module that is made of parts of another.
pub struct Copier<'m> {
    /// The module that is copied from.
    pub from: &'m HloModule,
    /// The module that is made.
    pub to: HloModule,
    /// Copies of instructions.
    pub instructions: HashMap<InstructionId, InstructionId>,
    computations: HashMap<ComputationId, ComputationId>,
    literals: HashMap<LiteralId, LiteralId>,
}

impl<'m> Copier<'m> {
    /// Begins with a module that has the name, the text and the stack frames of `from`, but no header
    /// and no computations.
    pub fn new(from: &'m HloModule) -> Copier<'m> {
        let to = HloModule {
            name: from.name,
            trailer: from.trailer,
            text: from.text.clone(),
            shapes: from.shapes.clone(),
            ints: from.ints.clone(),
            ..HloModule::default()
        };
        Copier {
            from,
            to,
            instructions: HashMap::default(),
            computations: HashMap::default(),
            literals: HashMap::default(),
        }
    }

    /// Copies computations and all that they call; returns the copy of the first.
    pub fn copy_computations(&mut self, roots: Vec<ComputationId>) -> Option<ComputationId> {
        let from = self.from;
        let first = roots.first().copied();
        let mut stack = roots;
        let mut order = Vec::new();
        while let Some(id) = stack.pop() {
            if self.computations.contains_key(&id) {
                continue;
            }
            let old = from.computation(id);
            let new = self.to.add_computation(HloComputation {
                name: old.name,
                text: old.text,
                execution_thread: old.execution_thread,
                ..HloComputation::default()
            });
            self.computations.insert(id, new);
            order.push((old, new));
            for &instruction in &old.instructions {
                stack.extend(from.instruction(instruction).called_computations());
            }
        }
        for (old, new) in order {
            self.copy_instructions(&old.instructions, new);
            let copies = &self.instructions;
            let parameters = old.parameters.iter().filter_map(|p| copies.get(p).copied());
            let root = old.root.and_then(|root| copies.get(&root).copied());
            let computation = self.to.computation_mut(new);
            computation.parameters = parameters.collect();
            computation.root = root;
        }
        first.and_then(|first| self.computations.get(&first).copied())
    }

    /// Copies instructions with operands among them or copied before, in their order, to the end of a
    /// computation.
    pub fn copy_instructions(&mut self, ids: &[InstructionId], into: ComputationId) {
        // A text may name operands before it defines them.
        let first = self.to.instruction_count();
        for (at, &id) in ids.iter().enumerate() {
            self.instructions
                .insert(id, InstructionId::from_index(first + at));
        }
        for &id in ids {
            let operands: Vec<InstructionId> = self
                .from
                .operand_ids(id)
                .iter()
                .filter_map(|operand| self.instructions.get(operand).copied())
                .collect();
            self.copy_instruction(id, into, &operands);
        }
    }

    /// Copies an instruction to the end of a computation, with these operands.
    pub fn copy_instruction(
        &mut self,
        id: InstructionId,
        into: ComputationId,
        operands: &[InstructionId],
    ) -> InstructionId {
        let from = self.from;
        let data = from.instruction_data(id);
        let mut attributes: Vec<Attribute> = Vec::new();
        for attribute in from.attributes_of(id) {
            let mapped = |id: &ComputationId| self.computations.get(id).copied().unwrap_or(*id);
            let value = match &attribute.value {
                AttrValue::Instructions(ids) => AttrValue::Instructions(
                    ids.iter()
                        .filter_map(|id| self.instructions.get(id).copied())
                        .collect(),
                ),
                AttrValue::Computation(id) => AttrValue::Computation(mapped(id)),
                AttrValue::Computations(ids) => {
                    AttrValue::Computations(ids.iter().map(mapped).collect())
                }
                AttrValue::Literal(id) => AttrValue::Literal(self.literal(*id)),
                value => value.clone(),
            };
            attributes.push(Attribute {
                key: attribute.key,
                value,
            });
        }
        let immediate = match data.opcode {
            HloOpcode::Constant => {
                let id = LiteralId::from_index(data.immediate as usize);
                self.literal(id).index() as u32
            }
            _ => data.immediate,
        };
        self.to.add_instruction(
            into,
            NewInstruction {
                immediate,
                ..NewInstruction::like(data, operands, &attributes)
            },
        )
    }

    fn literal(&mut self, id: LiteralId) -> LiteralId {
        if let Some(&new) = self.literals.get(&id) {
            return new;
        }
        let new = self.to.add_literal(self.from.literal(id).clone());
        self.literals.insert(id, new);
        new
    }
}
