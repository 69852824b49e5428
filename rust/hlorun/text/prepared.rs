//! Instructions whose parts are known before parsing, because hlorun made the text from a proto.
//!
//! In: the text, and where each instruction's name, shape, opcode and operands stand in it. Out: the same
//! records as from parsing. Promise: an instruction that does not match what is known is parsed in the
//! ordinary way.

use super::instruction::Open;
use super::lexer::is_name_start;
use super::parser::Parser;
use super::scan::{WIDTH, window};
use super::symbols::Symbol;
use crate::module::{HloOpcode, PoolRange, TextRef};
use crate::types::{Literal, LiteralValue, Shape, ShapeId};

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
    /// How many shapes the text has; their numbers are below that.
    pub shapes: usize,
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
    /// The value of its `metadata`; empty where it has none.
    pub metadata: TextRef,
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
        };
        Some((open, operands))
    }

    /// Where the metadata at the cursor ends, if it is known.
    #[inline]
    pub(super) fn prepared_metadata(&self) -> Option<usize> {
        let known = self.prepared?.instructions.get(self.prepared_ids.len())?;
        let is_here = known.metadata.start as usize == self.cursor.position;
        (is_here && known.metadata.len > 0).then(|| known.metadata.end())
    }

    /// The shape of an instruction, read where its text first stands.
    #[inline]
    fn prepared_shape(&mut self, known: &PreparedInstruction) -> Option<ShapeId> {
        let number = known.shape as usize;
        if let Some(&Some(shape)) = self.prepared_shapes.get(number) {
            return Some(shape);
        }
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
