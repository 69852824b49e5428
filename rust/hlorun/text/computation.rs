//! Computations: `[ENTRY] name [(parameters) -> shape] { instructions }`.

use super::error::{Fault, Parsed};
use super::lexer::{is_name_byte, snippet};
use super::parser::{Parser, PendingOperand};
use super::tables::hash_bytes;
use crate::module::{AttrValue, ComputationId, HloComputation, Id, InstructionId, TextRef};
use crate::types::ShapeId;

impl Parser<'_> {
    /// One computation at the cursor, space already skipped.
    pub(super) fn computation(&mut self) -> Parsed<()> {
        let start = self.cursor.position;
        let is_entry = self.cursor.eat_word(b"ENTRY");
        let name = self.cursor.name("a computation")?;
        let id = ComputationId::from_index(self.module.computation_count());
        let bytes = self.cursor.bytes(name);
        if self
            .computation_names
            .insert(&self.module.text, hash_bytes(bytes), name, id.index())
            .is_err()
        {
            return Err(Fault::new(
                name.start as usize,
                format!("computation '{}' is defined twice", snippet(bytes)),
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
        let root = self.body(id)?;
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
                self.cursor.name("the name of a parameter")?;
                self.cursor.expect(b':', "':' after a parameter's name")?;
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

    /// The instructions and the closing brace. They are left in `order`.
    fn body(&mut self, computation: ComputationId) -> Parsed<InstructionId> {
        self.instruction_names
            .open_scope(self.module.instruction_count());
        self.order.clear();
        self.parameters.clear();
        self.pending_operands.clear();
        let mut root = None;
        loop {
            self.cursor.skip_space();
            if self.cursor.peek() == b'}' {
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
            }
            let id = self.instruction(computation, start)?;
            if is_root && root.replace(id).is_some() {
                return Err(Fault::new(start, "a computation has only one ROOT"));
            }
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
        let count = self.parameters.len();
        let list: Vec<InstructionId> = self.parameters.iter().flatten().copied().collect();
        if list.len() == count {
            return Ok(list);
        }
        let missing = self
            .parameters
            .iter()
            .position(Option::is_none)
            .unwrap_or(0);
        let at = match self.parameters.iter().flatten().last() {
            Some(&id) => self.module.instruction_data(id).text.start as usize,
            None => self.cursor.position,
        };
        Err(Fault::new(
            at,
            format!("the computation has no parameter {missing}, but later ones"),
        ))
    }

    /// Fills in operands that were used before they were defined.
    fn resolve_operands(&mut self) -> Parsed<()> {
        for pending in std::mem::take(&mut self.pending_operands) {
            let name = match &pending {
                PendingOperand::Operand { name, .. } | PendingOperand::Attribute { name, .. } => {
                    *name
                }
            };
            let Some(id) = self.find_instruction(name) else {
                return Err(self.unknown_instruction(name));
            };
            match pending {
                PendingOperand::Operand { slot, .. } => self.module.operands[slot] = id,
                PendingOperand::Attribute {
                    attribute, part, ..
                } => {
                    if let AttrValue::Instructions(list) =
                        &mut self.module.attributes[attribute].value
                    {
                        list[part] = id;
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
                self.warn_unknown_key(key);
            }
        }
        Ok(thread)
    }
}
