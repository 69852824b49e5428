//! The module: arenas of computations and instructions, pools for their lists, and the text.
//!
//! Reading goes through [`InstructionRef`] handles. Passes edit through the methods here, which
//! keep the pools consistent; nothing is ever moved, so ids stay valid.

use std::borrow::Cow;

use super::attributes::{AttrKey, AttrValue, Attribute};
use super::computation::HloComputation;
use super::config::HloModuleConfig;
use super::ids::{ComputationId, Id, InstructionId, LiteralId, PoolRange};
use super::instruction::{HloInstruction, InstructionRef};
use super::names::{ModuleText, TextRef};
use super::opcode::HloOpcode;
use crate::types::{Literal, ShapeId, ShapeTable};

/// A parsed or built HLO module.
#[derive(Clone, Debug, Default)]
pub struct HloModule {
    /// Name of the module.
    pub name: TextRef,
    /// The header.
    pub config: HloModuleConfig,
    /// The entry computation. Always present in a module the parser returns.
    pub entry: Option<ComputationId>,
    /// The trailer tables (`FileNames`, …, `StackFrames`) as written; empty when absent.
    pub trailer: TextRef,
    /// What the parser kept without knowing it, in the order of the text.
    pub warnings: Vec<ModuleWarning>,
    pub(crate) text: ModuleText,
    pub(crate) shapes: ShapeTable,
    pub(crate) computations: Vec<HloComputation>,
    pub(crate) instructions: Vec<HloInstruction>,
    pub(crate) operands: Vec<InstructionId>,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) ints: Vec<i64>,
    pub(crate) literals: Vec<Literal>,
}

/// Something in the text that hlorun keeps but does not know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleWarning {
    /// What, in one sentence.
    pub message: String,
    /// Where it stands.
    pub text: TextRef,
}

/// What a new instruction is made of.
#[derive(Clone, Debug)]
pub struct NewInstruction<'a> {
    /// Name, without `%`; the caller keeps names unique.
    pub name: TextRef,
    /// Where in the source it comes from.
    pub text: TextRef,
    /// The operation.
    pub opcode: HloOpcode,
    /// Shape of the result.
    pub shape: ShapeId,
    /// Operands.
    pub operands: &'a [InstructionId],
    /// Attributes.
    pub attributes: &'a [Attribute],
    /// See [`HloInstruction::immediate`].
    pub immediate: u32,
}

impl<'a> NewInstruction<'a> {
    /// An instruction like `data`, with other operands and attributes.
    pub fn like(
        data: &HloInstruction,
        operands: &'a [InstructionId],
        attributes: &'a [Attribute],
    ) -> NewInstruction<'a> {
        NewInstruction {
            name: data.name,
            text: data.text,
            opcode: data.opcode,
            shape: data.shape,
            operands,
            attributes,
            immediate: data.immediate,
        }
    }
}

impl HloModule {
    /// An empty module over `text`.
    pub fn new(text: ModuleText) -> HloModule {
        HloModule {
            text,
            ..HloModule::default()
        }
    }

    /// The module's text.
    pub fn text(&self) -> &ModuleText {
        &self.text
    }

    /// The module's text, to add to.
    pub fn text_mut(&mut self) -> &mut ModuleText {
        &mut self.text
    }

    /// A piece of the text as a string.
    pub fn str(&self, text: TextRef) -> Cow<'_, str> {
        self.text.str(text)
    }

    /// The shapes.
    pub fn shapes(&self) -> &ShapeTable {
        &self.shapes
    }

    /// The shapes, to add to.
    pub fn shapes_mut(&mut self) -> &mut ShapeTable {
        &mut self.shapes
    }

    /// Number of computations.
    pub fn computation_count(&self) -> usize {
        self.computations.len()
    }

    /// Number of instructions in all computations.
    pub fn instruction_count(&self) -> usize {
        self.instructions.len()
    }

    /// Ids of all computations, in the order of the text.
    pub fn computation_ids(&self) -> impl ExactSizeIterator<Item = ComputationId> + use<> {
        (0..self.computations.len()).map(ComputationId::from_index)
    }

    /// A computation.
    pub fn computation(&self, id: ComputationId) -> &HloComputation {
        &self.computations[id.index()]
    }

    /// A computation, to edit.
    pub fn computation_mut(&mut self, id: ComputationId) -> &mut HloComputation {
        &mut self.computations[id.index()]
    }

    /// The entry computation's id and data.
    pub fn entry_computation(&self) -> Option<(ComputationId, &HloComputation)> {
        self.entry.map(|id| (id, self.computation(id)))
    }

    /// The first instruction called `name`, in any computation.
    pub fn find_instruction(&self, name: &str) -> Option<InstructionId> {
        (0..self.instructions.len())
            .map(InstructionId::from_index)
            .find(|&id| self.text.bytes(self.instruction_data(id).name) == name.as_bytes())
    }

    /// A handle on an instruction.
    pub fn instruction(&self, id: InstructionId) -> InstructionRef<'_> {
        InstructionRef { module: self, id }
    }

    /// The stored record of an instruction.
    pub fn instruction_data(&self, id: InstructionId) -> &HloInstruction {
        &self.instructions[id.index()]
    }

    /// The stored record of an instruction, to edit.
    pub fn instruction_data_mut(&mut self, id: InstructionId) -> &mut HloInstruction {
        &mut self.instructions[id.index()]
    }

    /// Operands of an instruction.
    pub fn operand_ids(&self, id: InstructionId) -> &[InstructionId] {
        &self.operands[self.instruction_data(id).operands.range()]
    }

    /// Operands of an instruction, to replace one by one.
    pub fn operand_ids_mut(&mut self, id: InstructionId) -> &mut [InstructionId] {
        let range = self.instruction_data(id).operands.range();
        &mut self.operands[range]
    }

    /// Attributes of an instruction.
    pub fn attributes_of(&self, id: InstructionId) -> &[Attribute] {
        &self.attributes[self.instruction_data(id).attributes.range()]
    }

    /// Attributes of an instruction, to edit in place.
    pub fn attributes_of_mut(&mut self, id: InstructionId) -> &mut [Attribute] {
        let range = self.instruction_data(id).attributes.range();
        &mut self.attributes[range]
    }

    /// A list of the integer pool.
    pub fn int_list(&self, range: PoolRange) -> &[i64] {
        &self.ints[range.range()]
    }

    /// A literal.
    pub fn literal(&self, id: LiteralId) -> &Literal {
        &self.literals[id.index()]
    }

    /// Number of literals.
    pub fn literal_count(&self) -> usize {
        self.literals.len()
    }

    /// Adds a list to the integer pool.
    pub fn add_ints(&mut self, values: &[i64]) -> PoolRange {
        let start = self.ints.len() as u32;
        self.ints.extend_from_slice(values);
        PoolRange {
            start,
            len: values.len() as u32,
        }
    }

    /// Adds a literal.
    pub fn add_literal(&mut self, literal: Literal) -> LiteralId {
        self.literals.push(literal);
        LiteralId::from_index(self.literals.len() - 1)
    }

    /// Replaces a literal.
    pub fn set_literal(&mut self, id: LiteralId, literal: Literal) {
        self.literals[id.index()] = literal;
    }

    /// Adds an empty computation.
    pub fn add_computation(&mut self, computation: HloComputation) -> ComputationId {
        self.computations.push(computation);
        ComputationId::from_index(self.computations.len() - 1)
    }

    /// Adds an instruction at the end of a computation. Parameters are also entered by number by
    /// whoever builds the computation.
    pub fn add_instruction(
        &mut self,
        computation: ComputationId,
        new: NewInstruction<'_>,
    ) -> InstructionId {
        let operands = PoolRange {
            start: self.operands.len() as u32,
            len: new.operands.len() as u32,
        };
        self.operands.extend_from_slice(new.operands);
        let attributes = PoolRange {
            start: self.attributes.len() as u32,
            len: new.attributes.len() as u32,
        };
        self.attributes.extend_from_slice(new.attributes);
        self.instructions.push(HloInstruction {
            name: new.name,
            text: new.text,
            shape: new.shape,
            computation,
            operands,
            attributes,
            immediate: new.immediate,
            opcode: new.opcode,
        });
        let id = InstructionId::from_index(self.instructions.len() - 1);
        self.computations[computation.index()].instructions.push(id);
        id
    }

    /// Replaces the operands of an instruction.
    pub fn set_operands(&mut self, id: InstructionId, operands: &[InstructionId]) {
        let old = self.instruction_data(id).operands;
        if operands.len() <= old.len as usize {
            let range = PoolRange {
                start: old.start,
                len: operands.len() as u32,
            };
            self.operands[range.range()].copy_from_slice(operands);
            self.instruction_data_mut(id).operands = range;
            return;
        }
        let start = self.operands.len() as u32;
        self.operands.extend_from_slice(operands);
        self.instruction_data_mut(id).operands = PoolRange {
            start,
            len: operands.len() as u32,
        };
    }

    /// Replaces all attributes of an instruction.
    pub fn set_attributes(&mut self, id: InstructionId, attributes: &[Attribute]) {
        let range = PoolRange {
            start: self.attributes.len() as u32,
            len: attributes.len() as u32,
        };
        self.attributes.extend_from_slice(attributes);
        self.instruction_data_mut(id).attributes = range;
    }

    /// Sets one attribute, replacing or adding it.
    pub fn set_attribute(&mut self, id: InstructionId, key: AttrKey, value: AttrValue) {
        let range = self.instruction_data(id).attributes;
        if let Some(found) = self.attributes[range.range()]
            .iter_mut()
            .find(|a| a.key == key)
        {
            found.value = value;
            return;
        }
        let mut all = self.attributes[range.range()].to_vec();
        all.push(Attribute { key, value });
        let start = self.attributes.len() as u32;
        let len = all.len() as u32;
        self.attributes.extend(all);
        self.instruction_data_mut(id).attributes = PoolRange { start, len };
    }

    /// Heap bytes held beyond the source text.
    pub fn heap_size(&self) -> usize {
        use std::mem::size_of;
        let lists: usize = self
            .computations
            .iter()
            .map(|c| {
                (c.instructions.capacity() + c.parameters.capacity()) * size_of::<InstructionId>()
            })
            .sum();
        let literals: usize = self.literals.iter().map(Literal::heap_size).sum();
        let attributes: usize = self.attributes.iter().map(|a| a.value.heap_size()).sum();
        let warnings: usize = self.warnings.iter().map(|w| w.message.capacity()).sum();
        lists
            + literals
            + attributes
            + warnings
            + self.shapes.heap_size()
            + self.config.heap_size()
            + self.warnings.capacity() * size_of::<ModuleWarning>()
            + self.text.added_len()
            + self.computations.capacity() * size_of::<HloComputation>()
            + self.instructions.capacity() * size_of::<HloInstruction>()
            + self.operands.capacity() * size_of::<InstructionId>()
            + self.attributes.capacity() * size_of::<Attribute>()
            + self.ints.capacity() * size_of::<i64>()
            + self.literals.capacity() * size_of::<Literal>()
    }

    /// Gives back the unused memory of lists that have more than [`MOST_SPARE`] bytes of it.
    pub fn shrink_to_fit(&mut self) {
        trim(&mut self.computations);
        trim(&mut self.instructions);
        trim(&mut self.operands);
        trim(&mut self.attributes);
        trim(&mut self.ints);
        trim(&mut self.literals);
        for computation in &mut self.computations {
            trim(&mut computation.instructions);
            trim(&mut computation.parameters);
        }
    }
}

/// Lists with no more unused bytes than these are left as they are: shrinking copies them.
const MOST_SPARE: usize = 1024;

fn trim<T>(list: &mut Vec<T>) {
    if (list.capacity() - list.len()) * size_of::<T>() > MOST_SPARE {
        list.shrink_to_fit();
    }
}
