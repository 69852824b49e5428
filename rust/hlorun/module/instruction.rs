//! One instruction: what is stored, and the handle through which it is read.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::attributes::*;
use super::hlo_module::HloModule;
use super::ids::{ComputationId, Id, InstructionId, LiteralId, PoolRange};
use super::names::TextRef;
use super::opcode::HloOpcode;
use crate::types::{ArrayShape, Literal, Shape, ShapeId};

/// The computations that an instruction calls; few call more than two.
pub type CalledComputations = SmallVec<[ComputationId; 2]>;

/// What the arena stores for an instruction; lists lie in the module's pools.
#[derive(Clone, Debug)]
pub struct HloInstruction {
    /// The name, without `%`.
    pub name: TextRef,
    /// The whole instruction in the source, for diagnostics.
    pub text: TextRef,
    /// Shape of the result.
    pub shape: ShapeId,
    /// The computation it stands in.
    pub computation: ComputationId,
    /// Its operands, in the operand pool.
    pub operands: PoolRange,
    /// Its attributes, in the attribute pool.
    pub attributes: PoolRange,
    /// For `parameter` its number, for `get-tuple-element` the index, for `iota` the dimension,
    /// for `constant` the literal's position, for opcodes hlorun does not know the position of the
    /// opcode's name in the text; 0 otherwise.
    pub immediate: u32,
    /// The operation.
    pub opcode: HloOpcode,
}

/// A handle on an instruction of a module; copies freely.
#[derive(Clone, Copy)]
pub struct InstructionRef<'m> {
    /// The module it belongs to.
    pub module: &'m HloModule,
    /// Its id.
    pub id: InstructionId,
}

impl<'m> InstructionRef<'m> {
    /// The stored record.
    pub fn data(self) -> &'m HloInstruction {
        self.module.instruction_data(self.id)
    }

    /// The name, without `%`.
    pub fn name(self) -> Cow<'m, str> {
        self.module.str(self.data().name)
    }

    /// The operation.
    pub fn opcode(self) -> HloOpcode {
        self.data().opcode
    }

    /// The opcode's text, also for opcodes hlorun does not know.
    pub fn opcode_name(self) -> Cow<'m, str> {
        match self.opcode() {
            HloOpcode::Unknown => {
                // The name is the run of name bytes at the position that `immediate` keeps.
                let start = self.data().immediate;
                let rest = self.module.text().bytes_from(start as usize);
                let length = rest
                    .iter()
                    .take_while(|&&b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
                    .count();
                self.module.str(TextRef {
                    start,
                    len: length as u32,
                })
            }
            opcode => Cow::Borrowed(opcode.name()),
        }
    }

    /// Id of the result's shape.
    pub fn shape_id(self) -> ShapeId {
        self.data().shape
    }

    /// The result's shape.
    pub fn shape(self) -> &'m Shape {
        self.module.shapes().get(self.data().shape)
    }

    /// The result's shape, if it is an array.
    pub fn array_shape(self) -> Option<&'m ArrayShape> {
        self.shape().as_array()
    }

    /// Shape of what a collective gives; of one that starts here, without its operands and what else
    /// it holds until it is done.
    pub fn collective_shape(self) -> ShapeId {
        let holds_operands = matches!(
            self.opcode(),
            HloOpcode::AllGatherStart | HloOpcode::CollectivePermuteStart
        );
        match self.shape() {
            Shape::Tuple(parts) if holds_operands && parts.len() > 1 => parts[1],
            _ => self.shape_id(),
        }
    }

    /// The computation it stands in.
    pub fn computation(self) -> ComputationId {
        self.data().computation
    }

    /// Whether its elements are of another type than its first operand's: what a `bitcast` may do,
    /// unlike other instructions that only move elements.
    pub fn changes_element_type(self) -> bool {
        let operand = self.operand(0).and_then(InstructionRef::array_shape);
        match (operand, self.array_shape()) {
            (Some(from), Some(to)) => from.element_type != to.element_type,
            _ => false,
        }
    }

    /// Ids of the operands.
    pub fn operand_ids(self) -> &'m [InstructionId] {
        self.module.operand_ids(self.id)
    }

    /// Operand `index`, if there is one.
    pub fn operand(self, index: usize) -> Option<InstructionRef<'m>> {
        self.operand_ids()
            .get(index)
            .map(|&id| self.module.instruction(id))
    }

    /// All operands.
    pub fn operands(self) -> impl ExactSizeIterator<Item = InstructionRef<'m>> {
        self.operand_ids()
            .iter()
            .map(move |&id| self.module.instruction(id))
    }

    /// All attributes, in the order of the text.
    pub fn attributes(self) -> &'m [Attribute] {
        self.module.attributes_of(self.id)
    }

    /// The value of the attribute `key`.
    pub fn attribute(self, key: AttrKey) -> Option<&'m AttrValue> {
        self.attributes()
            .iter()
            .find(|a| a.key == key)
            .map(|a| &a.value)
    }

    /// An integer list such as `dimensions={1,0}`; empty when absent.
    pub fn ints(self, key: AttrKey) -> &'m [i64] {
        match self.attribute(key) {
            Some(AttrValue::Ints(range)) => self.module.int_list(*range),
            _ => &[],
        }
    }

    /// An integer attribute.
    pub fn int(self, key: AttrKey) -> Option<i64> {
        match self.attribute(key) {
            Some(AttrValue::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// A boolean attribute.
    pub fn bool(self, key: AttrKey) -> Option<bool> {
        match self.attribute(key) {
            Some(AttrValue::Bool(value)) => Some(*value),
            _ => None,
        }
    }

    /// A decimal attribute; whole numbers count.
    pub fn float(self, key: AttrKey) -> Option<f64> {
        match self.attribute(key) {
            Some(AttrValue::Float(value)) => Some(*value),
            Some(AttrValue::Int(value)) => Some(*value as f64),
            _ => None,
        }
    }

    /// An identifier attribute such as `direction=EQ`.
    pub fn enumeration(self, key: AttrKey) -> Option<Cow<'m, str>> {
        match self.attribute(key) {
            Some(AttrValue::Enum(text)) => Some(self.module.str(*text)),
            _ => None,
        }
    }

    /// A quoted string, without quotes, escapes as written.
    pub fn string(self, key: AttrKey) -> Option<&'m [u8]> {
        match self.attribute(key) {
            Some(AttrValue::String(text)) => Some(self.module.text().bytes(*text)),
            _ => None,
        }
    }

    /// The branches of a conditional, in the order of its operands; `None` where it states none.
    pub fn branch_computations(self) -> Option<Vec<ComputationId>> {
        if let Some(AttrValue::Computations(branches)) = self.attribute(AttrKey::BranchComputations)
        {
            return Some(branches.to_vec());
        }
        Some(vec![
            self.computation_attribute(AttrKey::TrueComputation)?,
            self.computation_attribute(AttrKey::FalseComputation)?,
        ])
    }

    /// A computation such as `to_apply`.
    pub fn computation_attribute(self, key: AttrKey) -> Option<ComputationId> {
        match self.attribute(key) {
            Some(AttrValue::Computation(id)) => Some(*id),
            _ => None,
        }
    }

    /// `dimensions={…}`.
    pub fn dimensions(self) -> &'m [i64] {
        self.ints(AttrKey::Dimensions)
    }

    /// Every computation it calls, in the order of the text.
    pub fn called_computations(self) -> CalledComputations {
        let mut called = CalledComputations::new();
        for attribute in self.attributes() {
            match &attribute.value {
                AttrValue::Computation(id) => called.push(*id),
                AttrValue::Computations(ids) => called.extend_from_slice(ids),
                _ => {}
            }
        }
        called
    }

    /// Instructions that must run before it without being operands.
    pub fn control_predecessors(self) -> &'m [InstructionId] {
        match self.attribute(AttrKey::ControlPredecessors) {
            Some(AttrValue::Instructions(ids)) => ids,
            _ => &[],
        }
    }

    /// `window={…}`.
    pub fn window(self) -> Option<&'m Window> {
        match self.attribute(AttrKey::Window) {
            Some(AttrValue::Window(window)) => Some(window),
            _ => None,
        }
    }

    /// The operands of which the results are copies with parts of other values.
    pub fn updated_operands(self) -> std::ops::Range<usize> {
        match self.opcode() {
            HloOpcode::DynamicUpdateSlice => 0..1,
            HloOpcode::Scatter => 0..self.operand_ids().len() / 2,
            _ => 0..0,
        }
    }

    /// The number of a `parameter`.
    pub fn parameter_number(self) -> Option<usize> {
        (self.opcode() == HloOpcode::Parameter).then(|| self.data().immediate as usize)
    }

    /// The index of a `get-tuple-element`.
    pub fn tuple_index(self) -> Option<usize> {
        (self.opcode() == HloOpcode::GetTupleElement).then(|| self.data().immediate as usize)
    }

    /// The value of a `constant`.
    pub fn literal(self) -> Option<&'m Literal> {
        (self.opcode() == HloOpcode::Constant).then(|| {
            self.module
                .literal(LiteralId::from_index(self.data().immediate as usize))
        })
    }

    /// `custom_call_target`, unescaped only as far as it never needs to be.
    pub fn custom_call_target(self) -> Option<Cow<'m, str>> {
        self.string(AttrKey::CustomCallTarget)
            .map(String::from_utf8_lossy)
    }

    /// Whether it is its computation's root.
    pub fn is_root(self) -> bool {
        self.module.computation(self.computation()).root == Some(self.id)
    }
}

impl std::fmt::Debug for InstructionRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.opcode_name(), self.name())
    }
}
