//! Instructions: `name = shape opcode(operands), key=value, …`, with operands that may be
//! instructions themselves.

use smallvec::SmallVec;

use super::error::{Fault, Parsed};
use super::infer::infer_simple;
use super::lexer::snippet;
use super::literal::parse_literal;
use super::parser::{Parser, PendingOperand};
use super::scan::WIDTH;
use super::shape::can_be_shape;
use super::symbols::Symbol;
use crate::module::{
    AttrKey, AttrValue, Attribute, ComputationId, HloInstruction, HloOpcode, Id, InstructionId,
    PoolRange, TextRef,
};
use crate::suggestion::closest;
use crate::types::{ArrayShape, Literal, LiteralValue, PrimitiveType, ShapeId, ShapeStyle};

/// An instruction whose operands are being read.
pub(super) struct Open {
    /// `None` for an instruction that stands as an operand.
    pub name: Option<Symbol>,
    pub start: usize,
    pub shape: ShapeId,
    pub opcode: HloOpcode,
    pub opcode_text: TextRef,
    /// For `xxx-start(…)`, what starts.
    pub wrapped: Option<HloOpcode>,
    /// Whether the text leaves the shape out.
    pub infer: bool,
    /// Where its operands start in `Parser::operands`.
    pub base: usize,
    /// Of a constant whose value is known without its text: where that text ends. 0 otherwise.
    pub literal_end: usize,
    /// Whether it is the next of those known from a proto.
    pub is_prepared: bool,
}

impl Parser<'_> {
    /// One instruction of `computation`, `ROOT` already read.
    pub(super) fn instruction(
        &mut self,
        computation: ComputationId,
        start: usize,
    ) -> Parsed<InstructionId> {
        let forward = self.pending_operands.len();
        let id = if let Some((open, operands)) = self.prepared_instruction(start) {
            self.finish(computation, &open, operands, forward)?
        } else if !self.stands_alone
            && let Some((open, operands)) = self.plain_instruction(start)
        {
            self.finish(computation, &open, operands, forward)?
        } else {
            self.general_instruction(computation, start)?
        };
        if self.prepared.is_some() {
            self.prepared_ids.push(id);
        }
        Ok(id)
    }

    /// An instruction written in any way.
    #[inline(never)]
    fn general_instruction(
        &mut self,
        computation: ComputationId,
        start: usize,
    ) -> Parsed<InstructionId> {
        let name = if self.stands_alone && can_be_shape(&self.cursor) {
            // A right-hand side on its own.
            Symbol::new(b"_", self.add_text(b"_")?)
        } else {
            let name = self.cursor.symbol("an instruction or '}'")?;
            self.cursor
                .expect(b'=', "'=' after the instruction's name")?;
            name
        };
        let mut outer: SmallVec<[Open; 2]> = SmallVec::new();
        let mut open = self.head(Some(name), start)?;
        loop {
            // After `(`, or after an operand that was an instruction.
            match self.operand_list(computation, open.opcode)? {
                Next::End => {}
                Next::Nested(at) => {
                    let inner = self.head(None, at)?;
                    outer.push(std::mem::replace(&mut open, inner));
                    continue;
                }
            }
            let forward = self.pending_operands.len();
            let operands = self.take_operands(open.base);
            let id = self.finish(computation, &open, operands, forward)?;
            match outer.pop() {
                None => return Ok(id),
                Some(parent) => {
                    open = parent;
                    self.operands.push(id);
                    self.after_operand()?;
                }
            }
        }
    }

    /// `shape opcode(`.
    fn head(&mut self, name: Option<Symbol>, start: usize) -> Parsed<Open> {
        self.cursor.skip_space();
        let infer = !can_be_shape(&self.cursor);
        let shape = match infer {
            false => self.shape()?,
            true => self.no_shape()?,
        };
        let (opcode_text, key) = self.cursor.keyed_word("an opcode")?;
        let known = self.opcodes.of_key(&key);
        let (opcode, wrapped) = match known.filter(|_| opcode_text.len as usize <= WIDTH) {
            Some(opcode) => (opcode, None),
            None => self.async_opcode(self.cursor.bytes(opcode_text), opcode_text)?,
        };
        self.cursor.expect(b'(', "'(' after the opcode")?;
        Ok(Open {
            name,
            start,
            shape,
            opcode,
            opcode_text,
            wrapped,
            infer,
            base: self.operands.len(),
            literal_end: 0,
            is_prepared: false,
        })
    }

    /// A shape in the place of one that the text leaves out, before an opcode that can do without.
    #[cold]
    fn no_shape(&mut self) -> Parsed<ShapeId> {
        let mut ahead = self.cursor;
        let needs_shape = match ahead.word("") {
            Err(_) => true,
            Ok(word) => {
                let opcode = self.opcodes.get(ahead.bytes(word));
                !ahead.eat(b'(')
                    || matches!(
                        opcode,
                        None | Some(HloOpcode::Parameter | HloOpcode::Constant | HloOpcode::Iota)
                    )
            }
        };
        if needs_shape {
            return Err(self.cursor.expected("the shape of the instruction"));
        }
        Ok(self.module.shapes.tuple(&[]))
    }

    /// The shape of instruction `id` from its operands.
    #[cold]
    fn infer(&mut self, id: InstructionId, opcode: TextRef, knows_all: bool) -> Parsed<()> {
        let inferred = match knows_all {
            true => infer_simple(&mut self.module, id).or_else(|simple| match self.infer_shape {
                Some(infer) => infer(&mut self.module, id),
                None => Err(simple),
            }),
            false => Err("something it uses is defined later".to_owned()),
        };
        match inferred {
            Ok(shape) => {
                self.module.instructions[id.index()].shape = shape;
                Ok(())
            }
            Err(reason) => Err(Fault::new(
                opcode.start as usize,
                format!(
                    "the shape of this {} is left out: {reason}",
                    self.module.str(opcode)
                ),
            )),
        }
    }

    /// `xxx-start` and its kin for any `xxx` that is an opcode.
    #[cold]
    fn async_opcode(
        &mut self,
        name: &[u8],
        text: TextRef,
    ) -> Parsed<(HloOpcode, Option<HloOpcode>)> {
        for (suffix, opcode) in [
            (&b"-start"[..], HloOpcode::AsyncStart),
            (&b"-update"[..], HloOpcode::AsyncUpdate),
            (&b"-done"[..], HloOpcode::AsyncDone),
        ] {
            if let Some(wrapped) = name.strip_suffix(suffix)
                && let Some(wrapped) = self.opcodes.get(wrapped)
            {
                return Ok((opcode, Some(wrapped)));
            }
        }
        self.warn_unknown_opcode(text)?;
        Ok((HloOpcode::Unknown, None))
    }

    /// Operands up to and including the closing parenthesis.
    #[inline]
    fn operand_list(&mut self, computation: ComputationId, opcode: HloOpcode) -> Parsed<Next> {
        if matches!(opcode, HloOpcode::Parameter | HloOpcode::Constant) {
            return Ok(Next::End);
        }
        if self.cursor.eat(b')') {
            return Ok(Next::End);
        }
        loop {
            self.cursor.skip_space();
            let at = self.cursor.position;
            let mut shape = None;
            if self.cursor.peek() != b'%' && can_be_shape(&self.cursor) {
                shape = Some(self.shape()?);
                self.cursor.skip_space();
            }
            if shape.is_some() && self.stands_alone && matches!(self.cursor.peek(), b',' | b')') {
                let id = self.missing_operand(computation, None, shape, at)?;
                self.operands.push(id);
            } else {
                let symbol = self.cursor.symbol("an operand")?;
                let name = symbol.name;
                if self.cursor.peek() == b'#' {
                    let found = self.find_instruction(&symbol);
                    let id = self.tuple_access(computation, name, found)?;
                    self.check_operand_shape(id, shape, at, name)?;
                    self.operands.push(id);
                } else {
                    self.cursor.skip_space();
                    if self.cursor.peek() == b'(' {
                        self.cursor.position = at;
                        return Ok(Next::Nested(at));
                    }
                    self.operand(computation, &symbol, shape, at)?;
                }
            }
            if self.cursor.eat(b',') {
                continue;
            }
            self.cursor.expect(b')', "',' or ')' after an operand")?;
            return Ok(Next::End);
        }
    }

    /// After an operand that was an instruction itself: `,` is eaten, `)` is left.
    fn after_operand(&mut self) -> Parsed<()> {
        if self.cursor.eat(b',') {
            return Ok(());
        }
        self.cursor.skip_space();
        if self.cursor.peek() != b')' {
            return Err(self.cursor.expected("',' or ')' after an operand"));
        }
        Ok(())
    }

    #[inline]
    fn operand(
        &mut self,
        computation: ComputationId,
        symbol: &Symbol,
        shape: Option<ShapeId>,
        at: usize,
    ) -> Parsed<()> {
        let name = symbol.name;
        let id = match self.find_instruction(symbol) {
            Some(id) => {
                self.check_operand_shape(id, shape, at, name)?;
                id
            }
            None if self.stands_alone && shape.is_some() => {
                self.missing_operand(computation, Some(name), shape, at)?
            }
            None => {
                self.forward.push((self.operands.len(), name));
                InstructionId::from_index(0)
            }
        };
        self.operands.push(id);
        Ok(())
    }

    /// Compares the shape written at an operand with the one it is defined with.
    #[inline]
    fn check_operand_shape(
        &self,
        id: InstructionId,
        shape: Option<ShapeId>,
        at: usize,
        name: TextRef,
    ) -> Parsed<()> {
        let Some(shape) = shape else { return Ok(()) };
        let defined = self.module.instructions[id.index()].shape;
        if shape != defined && !self.module.shapes.compatible(shape, defined) {
            return Err(self.operand_shape_fault(at, name, shape, defined));
        }
        Ok(())
    }

    #[cold]
    fn operand_shape_fault(
        &self,
        at: usize,
        name: TextRef,
        shape: ShapeId,
        defined: ShapeId,
    ) -> Box<Fault> {
        Fault::new(
            at,
            format!(
                "operand '{}' is given shape {} here but is defined with shape {}",
                self.module.str(name),
                self.module.shapes.display(shape, ShapeStyle::LOGICAL),
                self.module.shapes.display(defined, ShapeStyle::LOGICAL)
            ),
        )
    }

    /// The number that an opcode cannot be without, among its attributes from `first` on.
    fn needed_number(&self, open: &Open, key: AttrKey, first: usize) -> Parsed<u32> {
        let mut attributes = self.module.attributes[first..].iter();
        let value = attributes.find(|a| a.key == key).map(|a| &a.value);
        match value {
            Some(&AttrValue::Int(value)) if (0..=i64::from(u32::MAX)).contains(&value) => {
                Ok(value as u32)
            }
            _ => Err(Fault::new(
                open.opcode_text.start as usize,
                format!(
                    "{} needs a non-negative {}=",
                    open.opcode.name(),
                    key.name().unwrap_or_default()
                ),
            )),
        }
    }

    /// Enters the name of an instruction; one without waits for a name that is free.
    fn enter_name(&mut self, open: &Open, id: InstructionId) -> Parsed<()> {
        let Some(symbol) = &open.name else {
            let mut base = self.cursor.bytes(open.opcode_text).to_vec();
            base.extend_from_slice(b".anon");
            self.anonymous.push((id, base));
            return Ok(());
        };
        let names = &mut self.instruction_names;
        if names.insert(&self.module.text, symbol, id.index()).is_err() {
            return Err(Fault::new(
                symbol.name.start as usize,
                format!(
                    "instruction '{}' is defined twice in this computation",
                    snippet(self.module.text.bytes(symbol.name))
                ),
            ));
        }
        Ok(())
    }

    /// The immediate: the number of a parameter, the index of a literal, or where the name of an unknown opcode stands;
    /// 0 of others.
    #[inline]
    fn immediate(&mut self, open: &Open) -> Parsed<u32> {
        let literal = match open.opcode {
            HloOpcode::Parameter => return self.parameter_number(),
            HloOpcode::Constant if open.literal_end > 0 => {
                self.cursor.position = open.literal_end;
                Literal {
                    shape: ArrayShape::new(PrimitiveType::Pred, &[]),
                    value: LiteralValue::Elided,
                }
            }
            HloOpcode::Constant => {
                let shapes = &self.module.shapes;
                let literal = parse_literal(&mut self.cursor, shapes, open.shape, &self.limits)?;
                self.cursor.expect(b')', "')' after the literal")?;
                literal
            }
            HloOpcode::Unknown => return Ok(open.opcode_text.start),
            _ => return Ok(0),
        };
        self.module.literals.push(literal);
        Ok((self.module.literals.len() - 1) as u32)
    }

    /// Wraps the opcode of a `-start` into a computation; checks that `-update` and `-done` continue a start of
    /// theirs. Returns where the instruction's own attributes begin.
    fn wrapped(
        &mut self,
        open: &Open,
        operands: PoolRange,
        forward: usize,
        first_attribute: usize,
    ) -> Parsed<usize> {
        match (open.wrapped, open.opcode) {
            (Some(wrapped), HloOpcode::AsyncStart) => {
                if let Some(PendingOperand::Operand { name, .. }) =
                    self.pending_operands.get(forward)
                {
                    return Err(Fault::new(
                        name.start as usize,
                        "an operand of an asynchronous start is used before it is defined",
                    ));
                }
                return self.wrap_async(open, wrapped, operands, first_attribute);
            }
            (Some(wrapped), HloOpcode::AsyncUpdate | HloOpcode::AsyncDone)
                if forward == self.pending_operands.len() =>
            {
                self.continues(open, wrapped, operands)?;
            }
            _ => {}
        }
        Ok(first_attribute)
    }

    /// What stands after the operands, and the finished instruction in the arena.
    ///
    /// Those of its operands that are not defined yet are pending from `forward` on.
    fn finish(
        &mut self,
        computation: ComputationId,
        open: &Open,
        operands: PoolRange,
        forward: usize,
    ) -> Parsed<InstructionId> {
        let mut immediate = self.immediate(open)?;
        let mut first_attribute = self.module.attributes.len();
        if open.name.is_some() {
            let opcode = open.wrapped.unwrap_or(open.opcode);
            self.attributes(opcode, open)?;
            first_attribute = self.open_attributes;
        }
        if open.wrapped.is_some() {
            first_attribute = self.wrapped(open, operands, forward, first_attribute)?;
        }
        let knows_operands = forward == self.pending_operands.len();
        if open.opcode == HloOpcode::Broadcast && knows_operands {
            self.scalar_broadcast(operands, first_attribute);
        }
        let knows_all = knows_operands && self.open_calls.is_empty();
        if !(self.open_calls.is_empty() && self.open_uses.is_empty()) {
            self.pending_calls.append(&mut self.open_calls);
            let uses = self.open_uses.drain(..).map(PendingOperand::Attribute);
            self.pending_operands.extend(uses);
        }
        let attributes = PoolRange {
            start: first_attribute as u32,
            len: (self.module.attributes.len() - first_attribute) as u32,
        };
        match open.opcode {
            HloOpcode::GetTupleElement => {
                immediate = self.needed_number(open, AttrKey::Index, first_attribute)?;
            }
            HloOpcode::Iota => {
                immediate = self.needed_number(open, AttrKey::IotaDimension, first_attribute)?;
            }
            _ => {}
        }
        let id = InstructionId::from_index(self.module.instructions.len());
        self.enter_name(open, id)?;
        self.module.instructions.push(HloInstruction {
            name: open.name.map(|symbol| symbol.name).unwrap_or_default(),
            text: TextRef::new(open.start, self.cursor.position),
            shape: open.shape,
            computation,
            operands,
            attributes,
            immediate,
            opcode: open.opcode,
        });
        self.order.push(id);
        if open.opcode == HloOpcode::AsyncUpdate && knows_operands {
            self.note_update(id, operands);
        }
        if open.infer {
            self.infer(id, open.opcode_text, knows_all)?;
        }
        if open.opcode == HloOpcode::Parameter {
            self.parameters.push((immediate, id));
        }
        Ok(id)
    }

    /// A broadcast of a scalar may leave `dimensions={}` out.
    fn scalar_broadcast(&mut self, operands: PoolRange, first_attribute: usize) {
        let operand = self.module.operands.get(operands.start as usize);
        let is_scalar = operands.len == 1
            && operand.is_some_and(|operand| {
                // One that is defined later is not known yet.
                let known = self.module.instructions.get(operand.index());
                let shape = known.map(|operand| self.module.shapes.get(operand.shape));
                let array = shape.and_then(|shape| shape.as_array());
                array.is_some_and(|array| array.rank() == 0)
            });
        let attributes = &self.module.attributes[first_attribute..];
        if is_scalar && attributes.iter().all(|a| a.key != AttrKey::Dimensions) {
            let none = AttrValue::Ints(PoolRange::default());
            self.module.attributes.push(Attribute {
                key: AttrKey::Dimensions,
                value: none,
            });
        }
    }

    /// Moves the operands from `base` on to the module's pool.
    #[inline]
    fn take_operands(&mut self, base: usize) -> PoolRange {
        let start = self.module.operands.len();
        if !self.forward.is_empty() {
            let first = self.forward.partition_point(|&(at, _)| at < base);
            let pending = self.forward.drain(first..);
            self.pending_operands
                .extend(pending.map(|(at, name)| PendingOperand::Operand {
                    slot: start + at - base,
                    name,
                }));
        }
        let len = self.operands.len() - base;
        self.module
            .operands
            .extend_from_slice(&self.operands[base..]);
        self.operands.truncate(base);
        PoolRange {
            start: start as u32,
            len: len as u32,
        }
    }

    fn parameter_number(&mut self) -> Parsed<u32> {
        self.cursor.skip_space();
        let at = self.cursor.position;
        let number = self.cursor.integer("a parameter number")?;
        self.cursor.expect(b')', "')' after the parameter number")?;
        u32::try_from(number)
            .map_err(|_| Fault::new(at, format!("{number} is no parameter number")))
    }

    /// The instruction of this computation of that name, if it was defined already.
    #[inline]
    pub(super) fn find_instruction(&self, symbol: &Symbol) -> Option<InstructionId> {
        self.instruction_names
            .get(&self.module.text, symbol)
            .map(InstructionId::from_index)
    }

    #[cold]
    pub(super) fn unknown_instruction(&self, name: TextRef) -> Box<Fault> {
        let bytes = self.cursor.bytes(name);
        let fault = Fault::new(
            name.start as usize,
            format!(
                "there is no instruction '{}' in this computation",
                snippet(bytes)
            ),
        );
        let candidates = self
            .instruction_names
            .names()
            .map(|n| self.module.text.bytes(n));
        match closest(bytes, candidates, self.limits.suggestion_candidates) {
            Some(near) => fault.with_note(format!("did you mean '{near}'?")),
            None => fault,
        }
    }
}

/// What the operand list led to.
enum Next {
    /// Its end.
    End,
    /// An operand that is an instruction, starting at this byte.
    Nested(usize),
}
