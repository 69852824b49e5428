//! The module: header, computations in any order, and the calls between them.

use foldhash::HashMap;

use super::ParseOptions;
use super::error::{Fault, Parsed};
use super::foreign;
use super::infer::InferShape;
use super::lexer::Cursor;
use super::limits::Limits;
use super::prepared::Prepared;
use super::shape::{self, ShapeCache};
use super::symbols::{Symbol, Symbols};
use super::tables::{self, NameTable};
use crate::error::{HloError, Result};
use crate::module::{
    AttrKey, AttrValue, ComputationId, HloModule, HloOpcode, Id, InstructionId, ModuleText,
    ModuleWarning, TextRef,
};
use crate::suggestion::closest;
use crate::types::ShapeId;

/// A use of a computation before its definition.
pub(super) struct PendingCall {
    /// Position in the attribute pool.
    pub attribute: usize,
    /// Position in the attribute's list.
    pub part: usize,
    pub name: TextRef,
}

/// A use of an instruction in an attribute before its definition in the same computation.
pub(super) struct PendingUse {
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
    /// In an attribute.
    Attribute(PendingUse),
}

/// Everything the parser holds while it reads one module.
pub(super) struct Parser<'s> {
    pub cursor: Cursor<'s>,
    pub module: HloModule,
    pub limits: Limits,
    pub infer_shape: Option<InferShape>,
    /// Whether warnings are errors.
    pub strict: bool,
    pub opcodes: &'static NameTable<HloOpcode>,
    pub keys: &'static NameTable<AttrKey>,
    pub shapes: ShapeCache,
    pub instruction_names: Symbols,
    pub computation_names: Symbols,
    /// The last computation that stands on its own.
    pub last_computation: Option<ComputationId>,
    /// Uses by finished instructions, whose attributes never move again.
    pub pending_calls: Vec<PendingCall>,
    /// Uses by the attributes of the instruction being read, which may still move in the pool.
    pub open_calls: Vec<PendingCall>,
    /// Uses of instructions by finished instructions of this computation.
    pub pending_operands: Vec<PendingOperand>,
    /// Uses of instructions by the attributes of the instruction being read.
    pub open_uses: Vec<PendingUse>,
    /// Instructions of the computation being read.
    pub order: Vec<InstructionId>,
    /// Parameters of the computation being read, with their numbers.
    pub parameters: Vec<(u32, InstructionId)>,
    /// Instructions of the computation being read that still need a name, and its beginning.
    pub anonymous: Vec<(InstructionId, Vec<u8>)>,
    /// The last number given to a made-up name, by its beginning.
    pub name_counters: HashMap<Vec<u8>, usize>,
    /// Computations that still need a name.
    pub anonymous_computations: Vec<(ComputationId, &'static [u8])>,
    /// Parts of tuples made for `%p#0`, by tuple and index.
    pub parts: HashMap<(InstructionId, i64), InstructionId>,
    /// The start that each `async-update` continues, through any updates between; missing while the
    /// start is not parsed.
    pub started: HashMap<InstructionId, InstructionId>,
    /// Whether operands that nothing defines become parameters.
    pub stands_alone: bool,
    /// Where in the attribute pool the attributes of the instruction being read start.
    pub open_attributes: usize,
    /// Computations being read within attributes.
    pub depth: usize,
    /// Operands of the instructions being read, innermost last.
    pub operands: Vec<InstructionId>,
    /// Operands in `operands` that are not defined yet.
    pub forward: Vec<(usize, TextRef)>,
    /// The last metadata read; the next is often the same.
    pub last_metadata: TextRef,
    /// The last sharding read, likewise.
    pub last_sharding: TextRef,
    /// Instructions known from the proto that the text was made from.
    pub prepared: Option<&'s Prepared>,
    /// Ids of those parsed so far, in order.
    pub prepared_ids: Vec<InstructionId>,
    /// Shapes by the numbers they have there.
    pub prepared_shapes: Vec<Option<ShapeId>>,
    /// How many shapes of the entry's layout were read.
    pub prepared_layout: usize,
    /// How many computations with a header of their own were begun.
    pub prepared_computations: usize,
}

/// Reads the modules of `source` between `start` and `end`; with `one`, a second is an error. What is
/// `prepared` is that of the one module.
pub(super) fn parse_range(
    source: &[u8],
    text: &ModuleText,
    range: std::ops::Range<usize>,
    options: &ParseOptions,
    one: bool,
    prepared: Option<&Prepared>,
) -> Result<Vec<HloModule>> {
    // Room for four, as a list makes it, would be larger than most modules.
    let mut modules = Vec::with_capacity(1);
    let mut position = range.start;
    if source[position..].starts_with(b"\xef\xbb\xbf") {
        position += 3;
    }
    loop {
        let mut parser = Parser::new(
            &source[..range.end],
            text.clone(),
            position,
            options,
            prepared,
        );
        if let Err(fault) = parser.module() {
            return Err(fault.into_error(text));
        }
        position = parser.cursor.position;
        modules.push(parser.module);
        if position >= range.end {
            return Ok(modules);
        }
        if one {
            let fault = Fault::new(position, "the text holds more than one module");
            let mut error = fault.into_error(text);
            if let HloError::Parse(error) = &mut error {
                error
                    .notes
                    .push("parse_modules and load_modules read all of them".into());
            }
            return Err(error);
        }
    }
}

/// Instructions of a computation for which room is made at the start.
const SHORT_COMPUTATION: usize = 32;

/// What room is made for at the start. Tables that a short text does not fill would take longer to clear
/// than to use.
struct Room {
    lines: usize,
    operands: usize,
    computations: usize,
    /// Instructions of one computation.
    names: usize,
    /// Bytes of text in which shapes stand that are not known.
    shapes: usize,
}

impl Room {
    fn of(text: &[u8], prepared: Option<&Prepared>) -> Room {
        let most_computations = text.len() / 8192 + 64;
        match prepared {
            Some(known) => Room {
                lines: known.instructions.len(),
                operands: known.operands.len(),
                computations: known.computations.min(most_computations),
                names: known.longest.min(256),
                shapes: 0,
            },
            None => {
                let lines = guess_lines(text);
                Room {
                    lines,
                    operands: lines * 2,
                    computations: (text.len() / 128).min(most_computations),
                    names: (text.len() / 64).min(256),
                    shapes: text.len(),
                }
            }
        }
    }
}

/// About how many lines `text` has, from samples; what is reserved for too many is given back.
fn guess_lines(text: &[u8]) -> usize {
    const SAMPLES: usize = 16;
    const SAMPLE: usize = 1024;
    let step = (text.len() / SAMPLES).max(SAMPLE);
    let samples = text
        .chunks(step)
        .map(|piece| &piece[..piece.len().min(SAMPLE)]);
    let (mut lines, mut bytes) = (0, 0);
    for sample in samples {
        lines += memchr::memchr_iter(b'\n', sample).count();
        bytes += sample.len();
    }
    let guess = (lines + 2) as f64 * text.len() as f64 / bytes.max(1) as f64;
    // Lines much shorter than instructions are something else.
    ((guess * 1.1) as usize).min(text.len() / 16) + 8
}

impl<'s> Parser<'s> {
    fn new(
        source: &'s [u8],
        text: ModuleText,
        position: usize,
        options: &ParseOptions,
        prepared: Option<&'s Prepared>,
    ) -> Parser<'s> {
        let mut cursor = Cursor::new(source);
        cursor.position = position;
        let mut module = HloModule::new(text);
        let room = Room::of(&source[position..], prepared);
        module.instructions.reserve(room.lines);
        module.attributes.reserve(room.lines);
        module.operands.reserve(room.operands);
        if let Some(known) = prepared {
            module.literals.reserve(known.literals.len());
            module.computations.reserve(known.computations);
            module.ints.reserve(known.ints.len());
            module.shapes.reserve(known.shapes.len());
        }
        Parser {
            cursor,
            module,
            limits: options.limits,
            infer_shape: options.infer_shape,
            strict: options.strict,
            opcodes: &tables::OPCODES,
            keys: &tables::KEYS,
            shapes: ShapeCache::new(room.shapes),
            instruction_names: Symbols::with_capacity(room.names),
            computation_names: Symbols::with_capacity(room.computations),
            last_computation: None,
            pending_calls: Vec::new(),
            open_calls: Vec::new(),
            pending_operands: Vec::new(),
            open_uses: Vec::new(),
            order: Vec::with_capacity(room.lines.min(SHORT_COMPUTATION)),
            parameters: Vec::with_capacity(room.lines.min(SHORT_COMPUTATION / 4)),
            anonymous: Vec::new(),
            name_counters: HashMap::default(),
            anonymous_computations: Vec::new(),
            started: HashMap::default(),
            parts: HashMap::default(),
            stands_alone: false,
            open_attributes: 0,
            depth: 0,
            operands: Vec::new(),
            forward: Vec::new(),
            last_metadata: TextRef::default(),
            last_sharding: TextRef::default(),
            prepared,
            prepared_ids: Vec::with_capacity(prepared.map_or(0, |known| known.instructions.len())),
            prepared_shapes: vec![None; prepared.map_or(0, |known| known.shapes.len())],
            prepared_layout: 0,
            prepared_computations: 0,
        }
    }

    /// One module, to its end: the end of the text or the next `HloModule`.
    fn module(&mut self) -> Parsed<()> {
        let named = self.cursor.eat_word(b"HloModule");
        if named {
            self.module.name = self.cursor.name("the name of the module")?;
            // XLA's lexer takes a colon behind a name as a part of it.
            self.cursor.eat(b':');
            self.header()?;
        }
        if !named
            && let Some(what) = foreign::recognize(&self.cursor.source[self.cursor.position..])
        {
            return Err(Fault::new(self.cursor.position, what.to_owned()));
        }
        if named || self.at_computation() {
            self.computations()?;
        } else {
            self.lone_instructions()?;
        }
        self.name_anonymous_computations()?;
        self.resolve_calls()?;
        if !named {
            self.name_module()?;
        }
        self.module.shrink_to_fit();
        Ok(())
    }

    /// Whether a computation starts at the cursor, rather than instructions without one.
    fn at_computation(&mut self) -> bool {
        self.cursor.skip_space();
        if self.cursor.at_end() || self.at_trailer() {
            return true;
        }
        let mut ahead = self.cursor;
        if ahead.eat_word(b"ENTRY") {
            return true;
        }
        ahead.name("").is_ok() && {
            ahead.skip_space();
            matches!(ahead.peek(), b'{' | b'(')
        }
    }

    /// Instructions without a computation around them, perhaps in braces.
    fn lone_instructions(&mut self) -> Parsed<()> {
        self.stands_alone = true;
        self.module.config.stands_alone = true;
        // XLA takes the order of the text as the schedule.
        self.module.config.is_scheduled = true;
        let braced = self.cursor.eat(b'{');
        let name = self.add_text(b"_")?;
        let start = self.cursor.position;
        self.lone_body(name, start, braced)?;
        self.cursor.skip_space();
        if !self.cursor.at_end() {
            return Err(self.cursor.expected("the end of the text"));
        }
        self.module.entry = Some(ComputationId::from_index(0));
        Ok(())
    }

    /// XLA's name for a module without a header.
    fn name_module(&mut self) -> Parsed<()> {
        let entry = match self.module.entry_computation() {
            Some((_, entry)) => self.module.text.bytes(entry.name).to_vec(),
            None => Vec::new(),
        };
        let name = match self.stands_alone {
            true => b"_".to_vec(),
            false => [&b"module_"[..], &entry].concat(),
        };
        self.module.name = self.add_text(&name)?;
        Ok(())
    }

    fn computations(&mut self) -> Parsed<()> {
        loop {
            self.cursor.skip_space();
            if self.at_trailer() {
                self.trailer()?;
                continue;
            }
            if self.cursor.at_end() || self.cursor.is_word(b"HloModule") {
                break;
            }
            self.computation()?;
        }
        let Some(last) = self.last_computation else {
            return Err(self.cursor.expected("a computation"));
        };
        self.module.entry.get_or_insert(last);
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
        let symbol = self.cursor.symbol("the name of a computation")?;
        Ok((symbol.name, self.find_computation(&symbol)))
    }

    #[inline]
    fn find_computation(&self, symbol: &Symbol) -> Option<ComputationId> {
        self.computation_names
            .get(&self.cursor, symbol)
            .map(ComputationId::from_index)
    }

    /// Fills in the computations that were used before they were defined.
    fn resolve_calls(&mut self) -> Parsed<()> {
        for call in std::mem::take(&mut self.pending_calls) {
            let symbol = Symbol::new(self.cursor.bytes(call.name), call.name);
            let Some(id) = self.find_computation(&symbol) else {
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

    /// Notes an opcode that no table knows.
    #[cold]
    pub fn warn_unknown_opcode(&mut self, opcode: TextRef) -> Parsed<()> {
        if self.enough_warnings() {
            return Ok(());
        }
        let name = self.cursor.bytes(opcode);
        let known = HloOpcode::all().map(|op| op.name().as_bytes());
        let note = closest(name, known, usize::MAX).map(|near| format!("did you mean '{near}'?"));
        let message = format!("unknown opcode '{}'", super::lexer::snippet(name));
        self.warn(opcode, message, note)
    }

    /// Notes an attribute that no table knows; `what` says of what.
    #[cold]
    pub fn warn_unknown_key(&mut self, key: TextRef, what: &str) -> Parsed<()> {
        if self.enough_warnings() {
            return Ok(());
        }
        let name = self.cursor.bytes(key);
        let known = AttrKey::all()
            .filter_map(|key| key.name())
            .map(str::as_bytes);
        let note = closest(name, known, usize::MAX).map(|near| format!("did you mean '{near}'?"));
        let message = format!("unknown {what} '{}'", super::lexer::snippet(name));
        self.warn(key, message, note)
    }

    /// Notes an attribute that instructions of this opcode do not have.
    #[cold]
    pub fn warn_foreign_key(&mut self, key: TextRef, opcode: HloOpcode) -> Parsed<()> {
        let name = super::lexer::snippet(self.cursor.bytes(key));
        let message = format!("{} has no attribute '{name}'", opcode.name());
        self.warn(key, message, None)
    }

    /// Whether a further warning would neither be kept nor fail.
    fn enough_warnings(&self) -> bool {
        !self.strict && self.module.warnings.len() >= self.limits.warnings
    }

    /// Keeps a warning, or fails with it when parsing is strict.
    #[cold]
    pub fn warn(&mut self, text: TextRef, message: String, note: Option<String>) -> Parsed<()> {
        if self.strict {
            let mut fault = Fault::new(text.start as usize, message);
            fault.notes.extend(note);
            return Err(fault);
        }
        if !self.enough_warnings() {
            let message = match note {
                Some(note) => format!("{message}; {note}"),
                None => message,
            };
            self.module.warnings.push(ModuleWarning { message, text });
        }
        Ok(())
    }
}
