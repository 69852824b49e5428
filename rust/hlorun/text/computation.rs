//! Computations: `[ENTRY] name [(parameters) -> shape] { instructions }`.

use super::error::{Fault, Parsed};
use super::lexer::{is_name_byte, snippet};
use super::parser::{Parser, PendingOperand};
use super::symbols::{Symbol, Symbols};
use crate::module::{AttrValue, ComputationId, HloComputation, Id, InstructionId, TextRef};
use crate::types::ShapeId;

impl Parser<'_> {
    /// One computation at the cursor, space already skipped.
    pub(super) fn computation(&mut self) -> Parsed<()> {
        let start = self.cursor.position;
        let is_entry = self.cursor.eat_word(b"ENTRY");
        let symbol = self.cursor.symbol("a computation")?;
        let name = symbol.name;
        let id = ComputationId::from_index(self.module.computation_count());
        self.prepared_computations += 1;
        let names = &mut self.computation_names;
        if names
            .insert(&self.module.text, &symbol, id.index())
            .is_err()
        {
            let name_bytes = self.cursor.bytes(name);
            return Err(Fault::new(
                name.start as usize,
                format!("computation '{}' is defined twice", snippet(name_bytes)),
            ));
        }
        if is_entry {
            if self.module.entry.is_some() {
                return Err(Fault::new(start, "a module has only one ENTRY computation"));
            }
            self.module.entry = Some(id);
        }
        let declared = self.signature()?;
        self.cursor.expect(b'{', "'{' before the instructions")?;
        let text = TextRef::new(start, self.cursor.position);
        self.module.computations.push(HloComputation {
            name,
            text,
            ..HloComputation::default()
        });
        self.last_computation = Some(id);
        let root = self.body(id, true)?;
        if let Some((at, shape)) = declared {
            self.check_result(at, shape, root)?;
        }
        let thread = self.computation_attributes()?;
        let computation = &mut self.module.computations[id.index()];
        computation.root = Some(root);
        computation.execution_thread = thread;
        computation.instructions = self.order.as_slice().to_vec();
        Ok(())
    }

    /// `(name: shape, …) -> shape`, if there is one; the result's position and shape.
    fn signature(&mut self) -> Parsed<Option<(usize, ShapeId)>> {
        if !self.cursor.eat(b'(') {
            return Ok(None);
        }
        if !self.cursor.eat(b')') {
            loop {
                self.cursor.parameter_name()?;
                // XLA takes a name without it as well.
                self.cursor.eat(b':');
                self.shape()?;
                if !self.cursor.eat(b',') {
                    break;
                }
            }
            self.cursor
                .expect(b')', "',' or ')' in the list of parameters")?;
        }
        if !self.cursor.eat_text(b"->") {
            return Err(self.cursor.expected("'->' after the parameters"));
        }
        self.cursor.skip_space();
        let at = self.cursor.position;
        Ok(Some((at, self.shape()?)))
    }

    /// `{ instructions }` as the value of an attribute.
    pub(super) fn nested_computation(&mut self) -> Parsed<ComputationId> {
        let start = self.cursor.position;
        if self.depth >= self.limits.computation_depth {
            return Err(Fault::new(
                start,
                format!(
                    "computations within attributes nest deeper than {}",
                    self.limits.computation_depth
                ),
            ));
        }
        self.depth += 1;
        self.cursor.expect(b'{', "'{' of a computation")?;
        let id = ComputationId::from_index(self.module.computation_count());
        self.module.computations.push(HloComputation {
            text: TextRef::new(start, self.cursor.position),
            ..HloComputation::default()
        });
        // The attribute this belongs to is not in the pool yet, but those before it are, and the
        // instructions in the braces would come between.
        let outer_attributes = self.module.attributes.split_off(self.open_attributes);
        let outer_start = self.open_attributes;
        let names = std::mem::replace(&mut self.instruction_names, Symbols::with_capacity(32));
        let order = std::mem::take(&mut self.order);
        let parameters = std::mem::take(&mut self.parameters);
        let anonymous = std::mem::take(&mut self.anonymous);
        let parts = std::mem::take(&mut self.parts);
        let pending = std::mem::take(&mut self.pending_operands);
        let operands = std::mem::take(&mut self.operands);
        let forward = std::mem::take(&mut self.forward);
        let calls = std::mem::take(&mut self.open_calls);
        let uses = std::mem::take(&mut self.open_uses);
        let alone = std::mem::take(&mut self.stands_alone);

        let root = self.body(id, true)?;
        self.anonymous_computations.push((id, b"_"));
        let computation = &mut self.module.computations[id.index()];
        computation.root = Some(root);
        computation.instructions = self.order.as_slice().to_vec();

        self.instruction_names = names;
        self.order = order;
        self.parameters = parameters;
        self.anonymous = anonymous;
        self.parts = parts;
        self.operands = operands;
        self.forward = forward;
        self.stands_alone = alone;
        self.depth -= 1;

        let shift = self.module.attributes.len() - outer_start;
        self.module.attributes.extend(outer_attributes);
        self.open_attributes = outer_start + shift;
        self.open_calls = calls;
        for call in &mut self.open_calls {
            call.attribute += shift;
        }
        self.open_uses = uses;
        for use_ in &mut self.open_uses {
            use_.attribute += shift;
        }
        self.pending_operands = pending;
        Ok(id)
    }

    /// Instructions to the end of the text, or to `}` when `braced`, as a computation `name`.
    pub(super) fn lone_body(&mut self, name: TextRef, start: usize, braced: bool) -> Parsed<()> {
        let id = ComputationId::from_index(self.module.computation_count());
        self.module.computations.push(HloComputation {
            name,
            text: TextRef::new(start, start),
            ..HloComputation::default()
        });
        let root = self.body(id, braced)?;
        let computation = &mut self.module.computations[id.index()];
        computation.root = Some(root);
        computation.instructions = self.order.as_slice().to_vec();
        Ok(())
    }

    /// The instructions and the closing brace (or the end of the text). They are left in `order`.
    fn body(&mut self, computation: ComputationId, braced: bool) -> Parsed<InstructionId> {
        self.instruction_names
            .open_scope(self.module.instruction_count());
        self.order.clear();
        self.parameters.clear();
        self.pending_operands.clear();
        if !self.parts.is_empty() {
            self.parts.clear();
        }
        let mut root = None;
        loop {
            self.cursor.skip_space();
            if !braced && self.cursor.at_end() && !self.order.is_empty() {
                break;
            }
            if self.cursor.peek() == b'}' && braced {
                if self.order.is_empty() {
                    return Err(self.cursor.expected("an instruction"));
                }
                self.cursor.position += 1;
                break;
            }
            let start = self.cursor.position;
            let is_root = self.cursor.peek() == b'R' && self.at_root();
            if is_root {
                self.cursor.position += 4;
                self.cursor.skip_space();
            }
            let id = self.instruction(computation, start)?;
            if is_root && root.replace(id).is_some() {
                return Err(Fault::new(start, "a computation has only one ROOT"));
            }
        }
        if !self.anonymous.is_empty() {
            self.name_anonymous()?;
        }
        self.resolve_operands()?;
        let parameters = self.parameter_list()?;
        self.module.computations[computation.index()].parameters = parameters;
        root.or_else(|| self.order.last().copied())
            .ok_or_else(|| self.cursor.expected("an instruction"))
    }

    fn at_root(&self) -> bool {
        self.cursor.is_word(b"ROOT")
            && !is_name_byte(self.cursor.at(4))
            && self.cursor.at(4) != b'='
    }

    /// The parameters, each number exactly once.
    fn parameter_list(&mut self) -> Parsed<Vec<InstructionId>> {
        if !self.parameters.is_sorted() {
            self.parameters.sort_unstable();
        }
        for (expected, &(number, id)) in self.parameters.iter().enumerate() {
            let number = number as usize;
            if number == expected {
                continue;
            }
            let message = if number < expected {
                format!("parameter {number} is defined twice in this computation")
            } else {
                format!("this computation has a parameter {number} but no parameter {expected}")
            };
            let at = self.module.instruction_data(id).text.start as usize;
            return Err(Fault::new(at, message));
        }
        Ok(self.parameters.iter().map(|&(_, id)| id).collect())
    }

    /// Fills in operands that were used before they were defined.
    fn resolve_operands(&mut self) -> Parsed<()> {
        for pending in std::mem::take(&mut self.pending_operands) {
            let name = match &pending {
                PendingOperand::Operand { name, .. } => *name,
                PendingOperand::Attribute(use_) => use_.name,
            };
            let symbol = Symbol::new(self.cursor.bytes(name), name);
            let Some(id) = self.find_instruction(&symbol) else {
                return Err(self.unknown_instruction(name));
            };
            match pending {
                PendingOperand::Operand { slot, .. } => self.module.operands[slot] = id,
                PendingOperand::Attribute(use_) => {
                    if let AttrValue::Instructions(list) =
                        &mut self.module.attributes[use_.attribute].value
                    {
                        list[use_.part] = id;
                    }
                }
            }
        }
        Ok(())
    }

    fn check_result(&self, at: usize, declared: ShapeId, root: InstructionId) -> Parsed<()> {
        let found = self.module.instruction_data(root).shape;
        if self.module.shapes.compatible(declared, found) {
            return Ok(());
        }
        use crate::types::ShapeStyle;
        Err(Fault::new(
            at,
            format!(
                "the computation is declared to return {} but its root '{}' has shape {}",
                self.module.shapes.display(declared, ShapeStyle::LOGICAL),
                self.module.str(self.module.instruction_data(root).name),
                self.module.shapes.display(found, ShapeStyle::LOGICAL)
            ),
        ))
    }

    /// `, execution_thread="…"` after the closing brace.
    fn computation_attributes(&mut self) -> Parsed<Option<TextRef>> {
        let mut thread = None;
        while self.cursor.eat(b',') {
            let key = self.cursor.word("an attribute of the computation")?;
            self.cursor.expect(b'=', "'=' after the attribute's name")?;
            if self.cursor.bytes(key) == b"execution_thread" {
                thread = Some(self.cursor.string("a quoted thread name")?);
            } else {
                self.cursor.skip_space();
                self.raw_value()?;
                self.warn_unknown_key(key, "attribute")?;
            }
        }
        Ok(thread)
    }
}
