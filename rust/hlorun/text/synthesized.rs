//! Instructions and computations the text implies but does not spell out: unnamed operands, compact
//! tuple access `%p#0#1`, wrapped computations of asynchronous operations, and parameters of
//! instructions that stand alone.

use super::attribute_table::is_attribute_of;
use super::error::{Fault, Parsed};
use super::instruction::Open;
use super::lexer::snippet;
use super::parser::Parser;
use super::symbols::Symbol;
use crate::module::{
    AttrKey, AttrValue, Attribute, ComputationId, HloComputation, HloInstruction, HloOpcode, Id,
    InstructionId, PoolRange, TextRef,
};
use crate::types::{Shape, ShapeId};

impl Parser<'_> {
    /// Gives the instructions of this computation that have no name in the text names of their
    /// own, now that all others are known.
    pub(super) fn name_anonymous(&mut self) -> Parsed<()> {
        for (id, base) in std::mem::take(&mut self.anonymous) {
            let name = self.free_name(&base)?;
            let symbol = Symbol::new(self.module.text.bytes(name), name);
            self.module.instructions[id.index()].name = name;
            let taken = self
                .instruction_names
                .insert(&self.module.text, &symbol, id.index());
            debug_assert!(taken.is_ok(), "free_name returned a name that is taken");
        }
        Ok(())
    }

    /// `base`, or `base.1`, `base.2`, …: the first that no instruction here has.
    fn free_name(&mut self, base: &[u8]) -> Parsed<TextRef> {
        let mut name = base.to_vec();
        loop {
            if !self.instruction_names.has(&self.module.text, &name) {
                return self.add_text(&name);
            }
            let count = self.name_counters.entry(base.to_vec()).or_insert(0);
            *count += 1;
            name.truncate(base.len());
            name.extend_from_slice(format!(".{count}").as_bytes());
        }
    }

    /// `#0#1` after the name of an operand: the part of the tuple, through instructions that are
    /// made once per part.
    #[cold]
    pub(super) fn tuple_access(
        &mut self,
        computation: ComputationId,
        name: TextRef,
        found: Option<InstructionId>,
    ) -> Parsed<InstructionId> {
        let Some(mut id) = found else {
            return Err(Fault::new(
                name.start as usize,
                format!(
                    "a part of '{}' is used before it is defined",
                    snippet(self.cursor.bytes(name))
                ),
            ));
        };
        while self.cursor.peek() == b'#' {
            let at = self.cursor.position;
            self.cursor.position += 1;
            let index = self.cursor.integer("the index of a tuple element")?;
            let shape = self.module.instructions[id.index()].shape;
            let part = usize::try_from(index).ok().and_then(|index| {
                let parts = self.module.shapes.get(shape).as_tuple()?;
                parts.get(index).copied()
            });
            let Some(part) = part else {
                return Err(Fault::new(
                    at,
                    format!(
                        "shape {} has no element {index}",
                        self.module
                            .shapes
                            .display(shape, crate::types::ShapeStyle::LOGICAL)
                    ),
                ));
            };
            id = match self.parts.get(&(id, index)) {
                Some(&known) => known,
                None => {
                    let made = self.make_part(computation, id, index, part, at);
                    self.parts.insert((id, index), made);
                    made
                }
            };
        }
        Ok(id)
    }

    fn make_part(
        &mut self,
        computation: ComputationId,
        tuple: InstructionId,
        index: i64,
        shape: ShapeId,
        at: usize,
    ) -> InstructionId {
        let operands = PoolRange {
            start: self.module.operands.len() as u32,
            len: 1,
        };
        self.module.operands.push(tuple);
        let attributes = PoolRange {
            start: self.module.attributes.len() as u32,
            len: 1,
        };
        self.module.attributes.push(Attribute {
            key: AttrKey::Index,
            value: AttrValue::Int(index),
        });
        let id = self.push_anonymous(
            b"get-tuple-element".to_vec(),
            HloInstruction {
                name: TextRef::default(),
                text: TextRef::new(at, self.cursor.position),
                shape,
                computation,
                operands,
                attributes,
                immediate: index as u32,
                opcode: HloOpcode::GetTupleElement,
            },
        );
        self.order.push(id);
        id
    }

    fn push_anonymous(&mut self, base: Vec<u8>, instruction: HloInstruction) -> InstructionId {
        let id = InstructionId::from_index(self.module.instructions.len());
        self.module.instructions.push(instruction);
        self.anonymous.push((id, base));
        id
    }

    /// A parameter for an operand that nothing defines; only for instructions that stand alone.
    #[cold]
    pub(super) fn missing_operand(
        &mut self,
        computation: ComputationId,
        name: Option<TextRef>,
        shape: Option<ShapeId>,
        at: usize,
    ) -> Parsed<InstructionId> {
        let Some(shape) = shape else {
            return Err(Fault::new(
                at,
                "an operand that nothing defines needs a shape to become a parameter",
            ));
        };
        let number = self.parameters.len() as u32;
        let id = InstructionId::from_index(self.module.instructions.len());
        let name = match name {
            Some(name) => name,
            None => self.free_name(format!("_{number}").as_bytes())?,
        };
        let symbol = Symbol::new(self.module.text.bytes(name), name);
        let inserted = self
            .instruction_names
            .insert(&self.module.text, &symbol, id.index());
        if inserted.is_err() {
            return Err(Fault::new(at, "this operand's name is taken"));
        }
        self.module.instructions.push(HloInstruction {
            name,
            text: TextRef::new(at, self.cursor.position),
            shape,
            computation,
            operands: PoolRange::default(),
            attributes: PoolRange::default(),
            immediate: number,
            opcode: HloOpcode::Parameter,
        });
        self.order.push(id);
        self.parameters.push((number, id));
        Ok(id)
    }

    /// For `xxx-start(…)`: a computation that holds the `xxx`, its attributes moved there, and
    /// `calls=` on the `async-start`. Returns where the attributes of the start begin then.
    pub(super) fn wrap_async(
        &mut self,
        open: &Open,
        wrapped: HloOpcode,
        operands: PoolRange,
        first_attribute: usize,
    ) -> Parsed<usize> {
        let at = open.opcode_text.start as usize;
        let result = match self.module.shapes.get(open.shape).as_tuple() {
            Some([operands, result, ..])
                if matches!(self.module.shapes.get(*operands), Shape::Tuple(_)) =>
            {
                *result
            }
            _ => {
                return Err(Fault::new(
                    at,
                    "the shape of an asynchronous start is ((operands), result, …)",
                ));
            }
        };
        let text = TextRef::new(open.start, self.cursor.position);
        let id = ComputationId::from_index(self.module.computations.len());
        let mut instructions = Vec::new();
        for number in 0..operands.len {
            let operand = self.module.operands[operands.start as usize + number as usize];
            let name = match number {
                0 => "async_param".to_owned(),
                _ => format!("async_param.{number}"),
            };
            instructions.push(InstructionId::from_index(self.module.instructions.len()));
            let name = self.add_text(name.as_bytes())?;
            self.module.instructions.push(HloInstruction {
                name,
                text,
                shape: self.module.instructions[operand.index()].shape,
                computation: id,
                operands: PoolRange::default(),
                attributes: PoolRange::default(),
                immediate: number,
                opcode: HloOpcode::Parameter,
            });
        }
        let parameters = instructions.clone();
        let (inner, outer_start, thread) = self.split_attributes(first_attribute, wrapped, id);
        let inner_operands = PoolRange {
            start: self.module.operands.len() as u32,
            len: parameters.len() as u32,
        };
        self.module.operands.extend_from_slice(&parameters);
        let root = InstructionId::from_index(self.module.instructions.len());
        let name = self.add_text(b"async_op")?;
        let immediate = if wrapped == HloOpcode::Unknown {
            at as u32
        } else {
            0
        };
        self.module.instructions.push(HloInstruction {
            name,
            text,
            shape: result,
            computation: id,
            operands: inner_operands,
            attributes: inner,
            immediate,
            opcode: wrapped,
        });
        instructions.push(root);
        self.anonymous_computations.push((id, b"async_wrapped"));
        self.module.computations.push(HloComputation {
            name: TextRef::default(),
            text,
            instructions,
            parameters,
            root: Some(root),
            execution_thread: thread,
        });
        Ok(outer_start)
    }

    /// Divides the attributes from `first` on between the wrapped operation (first in the pool)
    /// and the start (last); the range of the wrapped ones, where the others begin, the thread.
    fn split_attributes(
        &mut self,
        first: usize,
        opcode: HloOpcode,
        wrapped: ComputationId,
    ) -> (PoolRange, usize, Option<TextRef>) {
        let all = self.module.attributes.split_off(first);
        let mut outer = Vec::new();
        let mut thread = None;
        // Where each attribute goes: position in the wrapped part, or in the outer part.
        let mut moved = Vec::with_capacity(all.len());
        for attribute in all {
            match attribute.key {
                AttrKey::OutputOperandAliasing
                    if !is_attribute_of(opcode, AttrKey::OutputOperandAliasing) =>
                {
                    moved.push((false, outer.len()));
                    outer.push(attribute);
                }
                AttrKey::AsyncExecutionThread
                | AttrKey::ControlPredecessors
                | AttrKey::Sharding => {
                    if let (AttrKey::AsyncExecutionThread, AttrValue::String(text)) =
                        (attribute.key, &attribute.value)
                    {
                        thread = Some(*text);
                    }
                    moved.push((false, outer.len()));
                    outer.push(attribute);
                }
                AttrKey::Metadata
                | AttrKey::BackendConfig
                | AttrKey::FrontendAttributes
                | AttrKey::Statistics
                | AttrKey::Origin
                | AttrKey::OriginalValue => {
                    moved.push((false, outer.len()));
                    outer.push(attribute.clone());
                    self.module.attributes.push(attribute);
                }
                _ => {
                    moved.push((true, self.module.attributes.len() - first));
                    self.module.attributes.push(attribute);
                }
            }
        }
        let inner = PoolRange {
            start: first as u32,
            len: (self.module.attributes.len() - first) as u32,
        };
        let outer_start = self.module.attributes.len();
        self.module.attributes.extend(outer);
        self.module.attributes.push(Attribute {
            key: AttrKey::Calls,
            value: AttrValue::Computation(wrapped),
        });
        let position = |old: usize| match moved.get(old.wrapping_sub(first)) {
            Some(&(true, at)) => first + at,
            Some(&(false, at)) => outer_start + at,
            None => old,
        };
        for call in &mut self.open_calls {
            call.attribute = position(call.attribute);
        }
        for use_ in &mut self.open_uses {
            use_.attribute = position(use_.attribute);
        }
        (inner, outer_start, thread)
    }

    /// Remembers the start that an `async-update`, whose operands are parsed, continues.
    pub(super) fn note_update(&mut self, id: InstructionId, operands: PoolRange) {
        if let Some(started) = self.started_by(operands) {
            self.started.insert(id, started);
        }
    }

    /// The start that the first of `operands` is or continues; `None` where it is not parsed yet.
    fn started_by(&self, operands: PoolRange) -> Option<InstructionId> {
        let operand = self.module.operands[operands.range()].first()?;
        match self.module.instructions.get(operand.index())?.opcode {
            HloOpcode::AsyncUpdate => self.started.get(operand).copied(),
            _ => Some(*operand),
        }
    }

    /// Checks that `xxx-update` and `xxx-done` continue a start of `xxx`.
    pub(super) fn continues(
        &self,
        open: &Open,
        wrapped: HloOpcode,
        operands: PoolRange,
    ) -> Parsed<()> {
        let started = self.started_by(operands);
        let root = started.and_then(|id| {
            let start = self.module.instruction(id);
            let callee = start.computation_attribute(AttrKey::Calls)?;
            // A callee that is not parsed yet has no id and is in `pending_calls`, which is sorted by
            // attribute.
            let attributes = start.data().attributes.range();
            let calls = &self.pending_calls;
            let first = calls.partition_point(|call| call.attribute < attributes.start);
            let pending = calls.get(first).map(|call| call.attribute);
            match pending.is_some_and(|at| attributes.contains(&at)) {
                true => None,
                false => self.module.computations.get(callee.index())?.root,
            }
        });
        let Some(root) = root.map(|root| self.module.instruction(root)) else {
            return Ok(());
        };
        if root.opcode() == wrapped || root.opcode() == HloOpcode::Unknown {
            return Ok(());
        }
        let message = format!("this goes on with a start of {}", root.opcode_name());
        Err(Fault::new(open.opcode_text.start as usize, message))
    }

    /// Adds `bytes` to the module's text.
    pub(super) fn add_text(&mut self, bytes: &[u8]) -> Parsed<TextRef> {
        let text = &self.module.text;
        // Positions are 32 bits wide.
        if text.source().len() + text.added_len() + bytes.len() > u32::MAX as usize {
            return Err(Fault::new(
                self.cursor.position,
                "the text and the names it implies exceed 4 GiB",
            ));
        }
        Ok(self.module.text.add(bytes))
    }

    /// Names the computations the text does not name, now that all others are known.
    pub(super) fn name_anonymous_computations(&mut self) -> Parsed<()> {
        let mut number = 0usize;
        for (id, base) in std::mem::take(&mut self.anonymous_computations) {
            let mut name = base.to_vec();
            loop {
                if !self.computation_names.has(&self.module.text, &name) {
                    let text = self.add_text(&name)?;
                    self.module.computations[id.index()].name = text;
                    let symbol = Symbol::new(&name, text);
                    let _ = self
                        .computation_names
                        .insert(&self.module.text, &symbol, id.index());
                    break;
                }
                number += 1;
                name.truncate(base.len());
                name.extend_from_slice(format!(".{number}").as_bytes());
            }
        }
        Ok(())
    }
}
