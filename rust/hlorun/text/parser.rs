//! The module: header, computations in any order, and the calls between them.

use super::error::{Fault, Parsed, closest};
use super::lexer::Cursor;
use super::limits::Limits;
use super::shape::{self, ShapeCache};
use super::symbols::Symbols;
use super::tables::{self, NameTable, hash_bytes};
use crate::error::Result;
use crate::module::{
    AttrKey, AttrValue, ComputationId, HloModule, HloOpcode, Id, InstructionId, ModuleText,
    ModuleWarning, TextRef,
};
use crate::types::ShapeId;

/// A use of a computation before its definition.
pub(super) struct PendingCall {
    /// Position in the attribute pool.
    pub attribute: usize,
    /// Position in the attribute's list.
    pub part: usize,
    pub name: TextRef,
}

/// A use of an instruction before its definition in the same computation.
pub(super) enum PendingOperand {
    /// Position in the operand pool.
    Operand { slot: usize, name: TextRef },
    /// Position in the attribute pool and in the attribute's list.
    Attribute {
        attribute: usize,
        part: usize,
        name: TextRef,
    },
}

/// Everything the parser holds while it reads one module.
pub(super) struct Parser<'s> {
    pub cursor: Cursor<'s>,
    pub module: HloModule,
    pub limits: Limits,
    pub opcodes: &'static NameTable<HloOpcode>,
    pub keys: &'static NameTable<AttrKey>,
    pub shapes: ShapeCache,
    pub instruction_names: Symbols,
    pub computation_names: Symbols,
    pub pending_calls: Vec<PendingCall>,
    pub pending_operands: Vec<PendingOperand>,
    /// Instructions of the computation being read.
    pub order: Vec<InstructionId>,
    /// Parameters of the computation being read, by number.
    pub parameters: Vec<Option<InstructionId>>,
    /// Operands of the instructions being read, innermost last.
    pub operands: Vec<InstructionId>,
    /// Operands in `operands` that are not defined yet.
    pub forward: Vec<(usize, TextRef)>,
    /// The last metadata read; the next is often the same.
    pub last_metadata: TextRef,
    pub unknown_keys: usize,
}

/// Reads the one module of `source`.
pub(super) fn parse_one(source: &[u8], text: ModuleText, limits: &Limits) -> Result<HloModule> {
    if source.len() > limits.source_bytes {
        let message = format!(
            "the text has {} bytes, more than the limit of {}",
            source.len(),
            limits.source_bytes
        );
        return Err(Fault::new(0, message).into_error(&text));
    }
    let mut parser = Parser::new(source, text, limits);
    match parser.module() {
        Ok(()) => Ok(parser.module),
        Err(fault) => Err(fault.into_error(parser.module.text())),
    }
}

impl<'s> Parser<'s> {
    fn new(source: &'s [u8], text: ModuleText, limits: &Limits) -> Parser<'s> {
        let mut cursor = Cursor::new(source);
        if source.starts_with(b"\xef\xbb\xbf") {
            cursor.position = 3;
        }
        let mut module = HloModule::new(text);
        // A line of HLO is rarely shorter than this.
        let guess = source.len() / 270 + 8;
        module.instructions.reserve(guess);
        module.attributes.reserve(guess * 2);
        module.operands.reserve(guess * 2);
        Parser {
            cursor,
            module,
            limits: *limits,
            opcodes: &tables::OPCODES,
            keys: &tables::KEYS,
            shapes: ShapeCache::new(),
            instruction_names: Symbols::with_capacity(256),
            computation_names: Symbols::with_capacity(source.len() / 8192 + 64),
            pending_calls: Vec::new(),
            pending_operands: Vec::new(),
            order: Vec::new(),
            parameters: Vec::new(),
            operands: Vec::new(),
            forward: Vec::new(),
            last_metadata: TextRef::default(),
            unknown_keys: 0,
        }
    }

    fn module(&mut self) -> Parsed<()> {
        if self.cursor.eat_word(b"HloModule") {
            self.module.name = self.cursor.name("the name of the module")?;
            self.header()?;
        }
        self.computations()?;
        self.resolve_calls()?;
        self.module.shrink_to_fit();
        Ok(())
    }

    fn computations(&mut self) -> Parsed<()> {
        loop {
            self.cursor.skip_space();
            if self.cursor.at_end() {
                break;
            }
            self.computation()?;
        }
        if self.module.computation_count() == 0 {
            return Err(self.cursor.expected("a computation"));
        }
        if self.module.entry.is_none() {
            let last = self.module.computation_count() - 1;
            self.module.entry = Some(ComputationId::from_index(last));
        }
        Ok(())
    }

    /// A shape at the cursor.
    #[inline]
    pub fn shape(&mut self) -> Parsed<ShapeId> {
        shape::parse_shape(
            &mut self.cursor,
            &mut self.module.shapes,
            &mut self.shapes,
            self.limits.rank,
        )
    }

    /// A use of a computation by name; `None` when it is not defined yet.
    pub fn computation_use(&mut self) -> Parsed<(TextRef, Option<ComputationId>)> {
        let name = self.cursor.name("the name of a computation")?;
        let bytes = self.cursor.bytes(name);
        let found = self
            .computation_names
            .get(&self.module.text, hash_bytes(bytes), bytes)
            .map(ComputationId::from_index);
        Ok((name, found))
    }

    /// Fills in the computations that were used before they were defined.
    fn resolve_calls(&mut self) -> Parsed<()> {
        for call in std::mem::take(&mut self.pending_calls) {
            let bytes = self.cursor.bytes(call.name);
            let found = self
                .computation_names
                .get(&self.module.text, hash_bytes(bytes), bytes)
                .map(ComputationId::from_index);
            let Some(id) = found else {
                return Err(self.unknown_computation(call.name));
            };
            match &mut self.module.attributes[call.attribute].value {
                AttrValue::Computation(slot) => *slot = id,
                AttrValue::Computations(list) => {
                    if let Some(slot) = list.get_mut(call.part) {
                        *slot = id;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    #[cold]
    fn unknown_computation(&self, name: TextRef) -> Box<Fault> {
        let bytes = self.cursor.bytes(name);
        let fault = Fault::new(
            name.start as usize,
            format!("there is no computation '{}'", super::lexer::snippet(bytes)),
        );
        let candidates = self
            .computation_names
            .names()
            .map(|n| self.module.text.bytes(n));
        match closest(bytes, candidates, self.limits.suggestion_candidates) {
            Some(near) => fault.with_note(format!("did you mean '{near}'?")),
            None => fault,
        }
    }

    /// Notes an attribute that no table knows.
    #[cold]
    pub fn warn_unknown_key(&mut self, key: TextRef) {
        self.unknown_keys += 1;
        if self.module.warnings.len() < self.limits.warnings {
            let message = format!("unknown attribute '{}'", self.module.str(key));
            self.module
                .warnings
                .push(ModuleWarning { message, text: key });
        }
    }
}
