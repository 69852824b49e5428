//! Instructions whose parts are known before parsing, because hlorun made the text from a proto.
//!
//! In: the text, and where each instruction's name, shape, opcode, operands and attributes stand in it. Out: the same
//! records as from parsing. Promise: an instruction that does not match what is known is parsed in the
//! ordinary way.

use smallvec::SmallVec;

use super::error::Parsed;
use super::instruction::Open;
use super::lexer::is_name_start;
use super::parser::Parser;
use super::scan::{WIDTH, window};
use super::symbols::Symbol;
use crate::module::attributes::SliceDimension;
use crate::module::{
    AttrKey, AttrValue, Attribute, ComputationId, HloOpcode, Id, PoolRange, TextRef,
};
use crate::types::{ArrayShape, Literal, LiteralValue, Shape, ShapeId};

/// The instructions of a text in its order.
#[derive(Default)]
pub(crate) struct Prepared {
    pub instructions: Vec<PreparedInstruction>,
    /// Operands of all of them, as positions in `instructions`.
    pub operands: Vec<u32>,
    /// Values of constants, in the order of the text.
    pub literals: Vec<Literal>,
    /// The tables of stack frames and the space after them; empty where there are none.
    pub trailer: TextRef,
    /// How many computations there are.
    pub computations: usize,
    /// How many instructions the longest of them has.
    pub longest: usize,
    /// Shapes by their numbers, where what the text says of them is known.
    pub shapes: Vec<Option<ArrayShape>>,
    /// The shapes of the entry's layout in the header, in its order, with their numbers.
    pub layout: SmallVec<[(TextRef, u32); 8]>,
    /// Attributes of all instructions.
    pub attributes: Vec<(AttrKey, PreparedValue)>,
    /// Lists of attributes.
    pub ints: Vec<i64>,
}

/// The value of an attribute.
#[derive(Clone, Copy)]
pub(crate) enum PreparedValue {
    Int(i64),
    Bool(bool),
    /// From and to in `Prepared::ints`.
    Ints(u32, u32),
    /// Likewise, with three numbers for each dimension.
    Slice(u32, u32),
    /// A word as XLA spells it.
    Word(TextRef),
    Raw(TextRef),
    /// A computation that stands before, or is the one that this stands in, by its number.
    Computation(u32),
}

/// An instruction as it is written.
#[derive(Clone, Copy)]
pub(crate) struct PreparedInstruction {
    /// Its name, behind a `%`; a space, `=` and a space stand between that and the shape.
    pub name: TextRef,
    /// Number of its shape: equal ones are written alike.
    pub shape: u32,
    pub opcode: HloOpcode,
    /// Followed by `(`.
    pub opcode_text: TextRef,
    /// Its operands in `Prepared::operands`, from and to; `None` where one of them is written later.
    pub operands: Option<(u32, u32)>,
    /// Where what stands in the parentheses ends.
    pub close: u32,
    /// Number of the value of a constant.
    pub literal: u32,
    /// Its first attributes in `Prepared::attributes`, from and to.
    pub attributes: (u32, u32),
    /// Where those end.
    pub attributes_end: u32,
}

impl Parser<'_> {
    /// As [`Parser::plain_instruction`], of what is known of the next instruction.
    #[inline]
    pub(super) fn prepared_instruction(&mut self, start: usize) -> Option<(Open, PoolRange)> {
        let prepared = self.prepared?;
        let number = self.prepared_ids.len();
        let known = prepared.instructions.get(number)?;
        let (first, end) = known.operands?;
        let operands = prepared.operands.get(first as usize..end as usize)?;
        let source = self.cursor.source;
        let first = *source.get(known.name.start as usize)?;
        if known.name.start as usize != self.cursor.position + 1
            || !(is_name_start(first) || first.is_ascii_digit())
            || operands.iter().any(|&at| at as usize >= number)
        {
            return None;
        }
        let name = match window(source, known.name.start as usize) {
            Some(text) if (known.name.len as usize) < WIDTH => Symbol::short(text, known.name),
            _ => Symbol::new(self.cursor.bytes(known.name), known.name),
        };
        let shape = self.prepared_shape(known)?;
        let open = known.opcode_text.end() + 1;
        let close = known.close as usize + 1;
        let (mut literal_end, mut position) = (0, close);
        match known.opcode {
            HloOpcode::Parameter => position = open,
            HloOpcode::Constant => {
                position = open;
                if self.is_value_of(prepared.literals.get(known.literal as usize)?, shape) {
                    literal_end = close;
                }
            }
            _ => {}
        }
        self.cursor.position = position;
        let base = self.module.operands.len();
        let ids = operands.iter().map(|&at| self.prepared_ids[at as usize]);
        self.module.operands.extend(ids);
        let operands = PoolRange {
            start: base as u32,
            len: (self.module.operands.len() - base) as u32,
        };
        let open = Open {
            name: Some(name),
            start,
            shape,
            opcode: known.opcode,
            opcode_text: known.opcode_text,
            wrapped: None,
            infer: false,
            base: self.operands.len(),
            literal_end,
            is_prepared: true,
        };
        Some((open, operands))
    }

    /// Takes in what is known of the attributes at the cursor, as long as parsing them would not fail.
    #[inline]
    pub(super) fn prepared_attributes(&mut self) -> Option<()> {
        let prepared = self.prepared?;
        let known = prepared.instructions.get(self.prepared_ids.len())?;
        let (first, end) = known.attributes;
        let attributes = prepared.attributes.get(first as usize..end as usize)?;
        // A computation that an instruction was made into shifts the ids of those behind it.
        if attributes.is_empty()
            || attributes.len() > self.limits.attributes
            || self.cursor.position != known.close as usize + 1
            || self.module.computation_count() != self.prepared_computations
        {
            return None;
        }
        self.module.attributes.reserve(attributes.len());
        for &(key, value) in attributes {
            let ints = |from: u32, to: u32| prepared.ints.get(from as usize..to as usize);
            let value = match value {
                PreparedValue::Int(value) => AttrValue::Int(value),
                PreparedValue::Bool(value) => AttrValue::Bool(value),
                PreparedValue::Ints(from, to) => {
                    AttrValue::Ints(self.module.add_ints(ints(from, to).unwrap_or_default()))
                }
                PreparedValue::Slice(from, to) => {
                    let (dims, _) = ints(from, to).unwrap_or_default().as_chunks();
                    let dims = dims.iter().map(|&[start, limit, stride]| SliceDimension {
                        start,
                        limit,
                        stride,
                    });
                    AttrValue::Slice(dims.collect())
                }
                PreparedValue::Word(text) => AttrValue::Enum(text),
                PreparedValue::Raw(text) => AttrValue::Raw(text),
                PreparedValue::Computation(number) => {
                    AttrValue::Computation(ComputationId::from_index(number as usize))
                }
            };
            self.module.attributes.push(Attribute { key, value });
        }
        self.cursor.position = known.attributes_end as usize;
        Some(())
    }

    /// The shape at the cursor, of the entry's layout.
    pub(super) fn layout_shape(&mut self) -> Parsed<ShapeId> {
        self.cursor.skip_space();
        match self.prepared_layout_shape() {
            Some(shape) => Ok(shape),
            None => self.shape(),
        }
    }

    fn prepared_layout_shape(&mut self) -> Option<ShapeId> {
        let at = self.prepared_layout;
        let &(text, number) = self.prepared?.layout.get(at)?;
        if text.start as usize != self.cursor.position {
            return None;
        }
        self.prepared_layout += 1;
        let shape = self.numbered_shape(number)?;
        self.cursor.position = text.end();
        Some(shape)
    }

    /// A shape that is known by its number.
    #[inline]
    fn numbered_shape(&mut self, number: u32) -> Option<ShapeId> {
        let number = number as usize;
        let slot = self.prepared_shapes.get_mut(number)?;
        if slot.is_none()
            && let Some(array) = self.prepared?.shapes.get(number)?
        {
            *slot = Some(self.module.shapes.array(array.clone()));
        }
        *slot
    }

    /// The shape of an instruction, read where its text first stands.
    #[inline]
    fn prepared_shape(&mut self, known: &PreparedInstruction) -> Option<ShapeId> {
        if let Some(shape) = self.numbered_shape(known.shape) {
            return Some(shape);
        }
        let number = known.shape as usize;
        let before = self.cursor.position;
        self.cursor.position = known.name.end() + " = ".len();
        let shape = self.shape().ok();
        self.cursor.position = before;
        *self.prepared_shapes.get_mut(number)? = shape;
        shape
    }

    /// Whether `literal` is what its text says an array of `shape` is.
    fn is_value_of(&self, literal: &Literal, shape: ShapeId) -> bool {
        match (&literal.value, self.module.shapes.get(shape)) {
            (LiteralValue::Array(_), Shape::Array(array)) => {
                array.dynamic == 0
                    && literal.shape.element_type == array.element_type
                    && literal.shape.dims == array.dims
            }
            _ => false,
        }
    }
}
