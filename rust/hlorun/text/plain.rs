//! Instructions the way XLA prints them, read in one straight line.
//!
//! Comes in: the text at an instruction. Goes out: what the general way in `instruction.rs` makes
//! of its name, shape, opcode and operands, or nothing. Promise: nothing is taken in, and the
//! cursor stays, wherever anything stands that a printer would have written otherwise, from a
//! second space to an error: the general way then decides what it is.

use super::instruction::Open;
use super::lexer::is_name_start;
use super::parser::{Parser, PendingOperand};
use super::scan::{Key, WIDTH, Window, name_run, shape_end, window};
use super::shape::parse_shape;
use super::symbols::Symbol;
use crate::module::{HloOpcode, Id, InstructionId, PoolRange, TextRef};
use crate::types::ShapeId;

impl Parser<'_> {
    /// `name = shape opcode(operands)`; of a parameter or constant up to the parenthesis.
    #[inline]
    pub(super) fn plain_instruction(&mut self, start: usize) -> Option<(Open, PoolRange)> {
        let (base, pending) = (self.module.operands.len(), self.pending_operands.len());
        let Some(open) = self.plain_head(start) else {
            self.module.operands.truncate(base);
            self.pending_operands.truncate(pending);
            return None;
        };
        let operands = PoolRange {
            start: base as u32,
            len: (self.module.operands.len() - base) as u32,
        };
        Some((open, operands))
    }

    #[inline(always)]
    fn plain_head(&mut self, start: usize) -> Option<Open> {
        let source = self.cursor.source;
        let mut at = self.cursor.position;
        let name = Word::at(source, at)?.symbol()?;
        at = name.name.end();
        if source.get(at..at + 3)? != b" = " {
            return None;
        }
        at += 3;
        let shape = self.plain_shape(&mut at)?;
        let word = window(source, at)?;
        let run = name_run(word);
        let opcode = self.opcodes.of_key(&Key::new(word, run))?;
        if *word.get(run)? != b'(' {
            return None;
        }
        let opcode_text = TextRef::new(at, at + run);
        at += run + 1;
        if !matches!(opcode, HloOpcode::Parameter | HloOpcode::Constant) {
            at = self.plain_operands(at)?;
        }
        self.cursor.position = at;
        Some(Open {
            name: Some(name),
            start,
            shape,
            opcode,
            opcode_text,
            wrapped: None,
            infer: false,
            base: self.operands.len(),
            literal_end: 0,
            is_prepared: false,
        })
    }

    /// The operands from `at` on, into the module's pool; where their closing parenthesis ends.
    #[inline(always)]
    fn plain_operands(&mut self, mut at: usize) -> Option<usize> {
        let source = self.cursor.source;
        if *source.get(at)? == b')' {
            return Some(at + 1);
        }
        loop {
            let mut stated = None;
            let mut word = Word::at(source, at)?;
            if !word.percent && matches!(word.text.get(word.length)?, b'[' | b'(') {
                stated = Some(self.plain_shape(&mut at)?);
                word = Word::at(source, at)?;
            }
            let symbol = word.symbol()?;
            at = symbol.name.end();
            let next = *source.get(at)?;
            if next != b',' && next != b')' {
                return None;
            }
            let id = match self.find_instruction(&symbol) {
                Some(id) => {
                    let defined = self.module.instructions[id.index()].shape;
                    if stated
                        .is_some_and(|stated| stated != defined && !self.alike(stated, defined))
                    {
                        return None;
                    }
                    id
                }
                None => {
                    self.pending_operands.push(PendingOperand::Operand {
                        slot: self.module.operands.len(),
                        name: symbol.name,
                    });
                    InstructionId::from_index(0)
                }
            };
            self.module.operands.push(id);
            at += 1;
            if next == b')' {
                return Some(at);
            }
            if *source.get(at)? != b' ' {
                return None;
            }
            at += 1;
            if *source.get(at)? == b'/' {
                // `/*index=5*/`
                let mut ahead = self.cursor;
                ahead.position = at;
                ahead.skip_space();
                at = ahead.position;
            }
        }
    }

    #[inline(never)]
    fn alike(&self, a: ShapeId, b: ShapeId) -> bool {
        self.module.shapes.compatible(a, b)
    }

    /// A shape at `at` and the space after it.
    #[inline(always)]
    fn plain_shape(&mut self, at: &mut usize) -> Option<ShapeId> {
        let source = self.cursor.source;
        let text = window(source, *at)?;
        if text[0] != b'('
            && let Some(length) = shape_end(text)
            && let Some(shape) = self.shapes.known(text, length)
        {
            *at += length;
            return self.plain_space(at, shape);
        }
        let mut ahead = self.cursor;
        ahead.position = *at;
        let rank = self.limits.rank;
        let shape = parse_shape(&mut ahead, &mut self.module.shapes, &mut self.shapes, rank);
        *at = ahead.position;
        self.plain_space(at, shape.ok()?)
    }

    #[inline(always)]
    fn plain_space(&self, at: &mut usize, shape: ShapeId) -> Option<ShapeId> {
        if *self.cursor.source.get(*at)? != b' ' {
            return None;
        }
        *at += 1;
        Some(shape)
    }
}

/// A run of name bytes, perhaps after a `%`.
struct Word<'s> {
    percent: bool,
    /// Where the run starts.
    start: usize,
    text: &'s Window,
    length: usize,
}

impl<'s> Word<'s> {
    #[inline(always)]
    fn at(source: &'s [u8], at: usize) -> Option<Word<'s>> {
        let mut start = at;
        let mut text = window(source, at)?;
        let percent = text[0] == b'%';
        if percent {
            start += 1;
            text = window(source, start)?;
        }
        Some(Word {
            percent,
            start,
            text,
            length: name_run(text),
        })
    }

    /// The name it is, if it is one and ends within the window.
    #[inline(always)]
    fn symbol(&self) -> Option<Symbol> {
        let first = self.text[0];
        let starts = is_name_start(first) || self.percent && first.is_ascii_digit();
        let name = TextRef::new(self.start, self.start + self.length);
        (starts && self.length < WIDTH).then(|| Symbol::short(self.text, name))
    }
}
