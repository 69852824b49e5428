//! Proto → text → module.

pub(super) mod assignment;
mod attributes;
mod dimension_numbers;
mod header;
mod heads;
mod instruction;
pub mod literal;
mod metadata;
mod schedule;
mod shape;
mod sharding;

use std::fmt::Write;
use std::sync::Arc;

use foldhash::HashMap;
use prost::bytes::Bytes;
use prost::{DecodeError, Message};
use smallvec::SmallVec;

use super::fault;
use super::schema::numbered::{Described, Kind, MOST_FIELDS, Numbered};
use super::schema::{HloComputationProto, HloModuleProto, module as field};
use super::wire::{Field, MOST_AGAIN, Present, Value, View, read_fields};
use crate::error::{HloError, Result};
use crate::module::{HloModule, Id, LiteralId, Source, TextRef};
use crate::text::limits::Limits;
use crate::text::prepared::Prepared;
use crate::text::printer::write_escaped;
use crate::text::scan::{WIDTH, Window, name_run, window};
use crate::text::{ParseOptions, parse_prepared};
use crate::types::Literal;
use heads::{Computation, Head, Heads};
use shape::ShortShapes;

/// The text in the making, and what it refers to.
pub(super) struct Writer<'o> {
    pub out: String,
    pub limits: &'o Limits,
    filename: Option<&'o Arc<str>>,
    /// Shapes as they are written, by their bytes: those that are not in `short_shapes`.
    shapes: HashMap<SmallVec<[u8; SHORT_SHAPE]>, WrittenShape>,
    /// Those that are short, as most are.
    short_shapes: ShortShapes,
    /// Names of computations by id, and their numbers in the text where they are begun.
    computations: HashMap<i64, (&'o str, Option<u32>)>,
    /// How many computations are begun.
    begun: u32,
    /// Up to where the attributes in the text are in `prepared` too.
    noted: usize,
    /// What the parser need not find out again; and values of constants, in the order of the text.
    prepared: Prepared,
    /// The module that is read; fields of its messages lie in it.
    open: &'o Bytes,
    /// Bytes of text that the proto may become.
    most: usize,
}

/// The fields of a message; up to 16 without an allocation, in 512 bytes of the stack.
type FieldList<'p> = SmallVec<[Field<'p>; 16]>;

/// A shape in the text.
#[derive(Clone, Copy)]
struct WrittenShape {
    /// Its place in the text.
    start: usize,
    end: usize,
    /// How many were written before.
    number: u32,
}

/// How many times as long as its proto a text may be. A number of a byte may stand for a long name,
/// so that without a bound a text could be as long as the square of its proto.
const MOST_LONGER: usize = 64;
/// Whether a byte may stand in a name.
const IN_NAMES: [bool; 256] = {
    let mut is_in = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let letter = (byte as u8).is_ascii_alphanumeric();
        is_in[byte] = letter || matches!(byte as u8, b'_' | b'.' | b'-');
        byte += 1;
    }
    is_in
};
/// Bytes of the ShapeProto of an array of a few dimensions with its layout; longer ones are allocated.
const SHORT_SHAPE: usize = 40;
/// Stands for the module in writers that read none.
static NOTHING: Bytes = Bytes::new();
/// What short protos may become on top of that.
const MOST_FOR_SHORT: usize = 1 << 16;

/// The module that `proto`, an `HloModuleProto`, is.
pub(super) fn read_module(proto: &Bytes, options: &ParseOptions) -> Result<HloModule> {
    let mut writer = Writer::new(proto.len(), options);
    writer.open = proto;
    writer.module()?;
    let Writer { out, prepared, .. } = writer;
    let source = Source::from(out.into_bytes());
    let mut module =
        parse_prepared(source, options, Some(&prepared)).map_err(|error| match error {
            HloError::Parse(mut error) => {
                let note =
                    "the line is of the HLO text that hlorun made from the proto, not of the file";
                error.notes.push(note.into());
                HloError::Parse(error)
            }
            other => other,
        })?;
    for (number, literal) in prepared.literals.into_iter().enumerate() {
        if number < module.literal_count() {
            module.set_literal(LiteralId::from_index(number), literal);
        }
    }
    Ok(module)
}

/// Adds the fields of the message in `part`. One function for all messages, to be in the cache.
#[inline(never)]
fn add_fields<'p>(
    part: &'p [u8],
    kinds: &[Kind; MOST_FIELDS],
    fields: &mut FieldList<'p>,
) -> Option<Present> {
    read_fields(part, kinds, |field| {
        fields.push(field);
        true
    })
}

impl<'o> Writer<'o> {
    /// Of a proto of `size` bytes.
    fn new(size: usize, options: &'o ParseOptions) -> Writer<'o> {
        Writer {
            // About as long as what XLA prints of it.
            out: String::with_capacity(size.saturating_add(size / 2).min(isize::MAX as usize)),
            limits: &options.limits,
            filename: options.filename.as_ref(),
            shapes: HashMap::default(),
            short_shapes: ShortShapes::default(),
            computations: HashMap::default(),
            begun: 0,
            noted: 0,
            prepared: Prepared::default(),
            open: &NOTHING,
            most: size
                .saturating_mul(MOST_LONGER)
                .saturating_add(MOST_FOR_SHORT),
        }
    }

    pub fn push_literal(&mut self, literal: Literal) {
        self.prepared.literals.push(literal);
    }

    #[cold]
    pub fn fault(&self, message: impl Into<String>) -> HloError {
        fault(self.filename, message)
    }

    /// The message in `bytes`.
    pub fn decode<M: Message + Default>(&self, bytes: Bytes, what: &str) -> Result<M> {
        M::decode(bytes).map_err(|error| self.fault(format!("a broken {what}: {error}")))
    }

    /// Reads the fields of a message into `fields`. Several `parts` of it are merged.
    fn fields<'f, 'p, M: Numbered>(
        &self,
        parts: impl Iterator<Item = &'p [u8]>,
        fields: &'f mut FieldList<'p>,
    ) -> Result<View<'f, 'p>> {
        let mut present = Present::default();
        for part in parts {
            let Some(more) = add_fields(part, M::KINDS, fields) else {
                return Err(self.broken::<M>(part));
            };
            present |= more;
        }
        Ok(View::new(fields, present))
    }

    /// The single numbers of a message, by their field; 0 where they are not there or above `N`.
    fn numbers<M: Numbered, const N: usize>(&self, bytes: &[u8]) -> Result<[i64; N]> {
        let mut numbers = [0; N];
        let add = |field| match field {
            (at, Value::Number(value)) if (at as usize) < N => {
                numbers[at as usize] = value as i64;
                true
            }
            _ => true,
        };
        match read_fields(bytes, M::KINDS, add) {
            Some(_) => Ok(numbers),
            None => Err(self.broken::<M>(bytes)),
        }
    }

    /// The message in a field; several of them are one.
    fn message<M: Message + Described + Default>(
        &self,
        proto: View<'_, '_>,
        number: u32,
    ) -> Result<Option<M>> {
        let mut parts = proto.each(number).peekable();
        if parts.peek().is_none() {
            return Ok(None);
        }
        let mut message = M::default();
        for part in parts {
            let merged = message.merge(self.open.slice_ref(part));
            merged.map_err(|error| self.broken_as::<M>(&error))?;
        }
        Ok(Some(message))
    }

    /// The messages in a repeated field.
    fn messages<M: Message + Described + Default>(
        &self,
        proto: View<'_, '_>,
        number: u32,
    ) -> Result<Vec<M>> {
        let part = |part: &[u8]| {
            M::decode(self.open.slice_ref(part)).map_err(|error| self.broken_as::<M>(&error))
        };
        proto.each(number).map(part).collect()
    }

    /// The literal in a field. Its elements stay where they are.
    fn read_literal(&self, bytes: &[u8]) -> Result<Literal> {
        literal::read_literal(self.open.slice_ref(bytes), self.limits, self.filename)
    }

    /// The error of a message whose fields cannot be read.
    #[cold]
    fn broken<M: Message + Described + Default>(&self, bytes: &[u8]) -> HloError {
        match M::decode(bytes) {
            Err(error) => self.broken_as::<M>(&error),
            Ok(_) => self.fault(format!(
                "a broken {}: a number is there more than {MOST_AGAIN} times again",
                M::table().name
            )),
        }
    }

    #[cold]
    fn broken_as<M: Described>(&self, error: &DecodeError) -> HloError {
        self.fault(format!("a broken {}: {error}", M::table().name))
    }

    /// Appends what cannot fail to be appended.
    pub fn put(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.out.write_fmt(text);
    }

    /// Checks that `name` can stand in the text as a name.
    fn name<'n>(&self, name: &'n [u8], what: &str) -> Result<&'n str> {
        let is_name = match self.window_at(name) {
            Some(window) => !name.is_empty() && name_run(window) >= name.len(),
            None => !name.is_empty() && name.iter().all(|&b| IN_NAMES[b as usize]),
        };
        if !is_name {
            return Err(self.fault(format!(
                "expected the name of {what}, of letters, digits, '_', '.' and '-', found {:?}",
                String::from_utf8_lossy(&name[..name.len().min(80)])
            )));
        }
        // SAFETY: every byte is one of `IN_NAMES`, as which `name_run` knows them too; those are ASCII.
        Ok(unsafe { std::str::from_utf8_unchecked(name) })
    }

    /// The bytes at `part`, which are no more than these, and those behind it; `None` where `part` is
    /// longer, or is not of the module, or the module ends before.
    #[inline(always)]
    fn window_at(&self, part: &[u8]) -> Option<&'o Window> {
        let open: &'o [u8] = self.open;
        let start = part.as_ptr().addr().wrapping_sub(open.as_ptr().addr());
        match part.len() <= WIDTH {
            true => window(open, start),
            false => None,
        }
    }

    /// Appends `name`, which [`Writer::name`] gave.
    #[inline(always)]
    fn put_checked(&mut self, name: &str) {
        match self.window_at(name.as_bytes()) {
            Some(window) => self.put_start(window, name.len()),
            None => self.out.push_str(name),
        }
    }

    /// Appends the shape that was written from `start` to `end` once more.
    #[inline(always)]
    fn put_shape_again(&mut self, start: usize, end: usize) {
        match window(self.out.as_bytes(), start) {
            Some(&window) if end - start <= WIDTH => self.put_start(&window, end - start),
            _ => self.out.extend_from_within(start..end),
        }
    }

    /// Appends the first `length` bytes of `window`, which are ASCII: a copy of a fixed size takes no call.
    #[inline(always)]
    fn put_start(&mut self, window: &Window, length: usize) {
        debug_assert!(window[..length].is_ascii());
        let end = self.out.len() + length;
        // SAFETY: what stays are `length` bytes more, which are ASCII; where appending panics, nothing
        // is appended.
        unsafe {
            let out = self.out.as_mut_vec();
            out.extend_from_slice(window);
            out.truncate(end);
        }
    }

    /// Appends a name of the proto.
    pub fn put_name(&mut self, name: &[u8], what: &str) -> Result<()> {
        let text = self.name(name, what)?;
        self.put_checked(text);
        Ok(())
    }

    pub fn put_string(&mut self, bytes: &[u8]) {
        self.out.push('"');
        write_escaped(&mut self.out, bytes);
        self.out.push('"');
    }

    pub fn put_list<T: Copy + Into<i64>>(&mut self, items: &[T]) {
        for (at, &item) in items.iter().enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            self.put_int(item.into());
        }
    }

    pub fn put_int(&mut self, number: i64) {
        self.out.push_str(itoa::Buffer::new().format(number));
    }

    /// Appends the name of a computation; its number where it is begun.
    pub fn put_computation(&mut self, id: i64) -> Result<Option<u32>> {
        self.check_length()?;
        let Some(&(name, number)) = self.computations.get(&id) else {
            return Err(self.fault(format!(
                "an instruction calls computation {id}, which is not there"
            )));
        };
        self.out.push('%');
        self.put_checked(name);
        Ok(number)
    }

    fn check_length(&self) -> Result<()> {
        match self.out.len() > self.most {
            true => Err(self.fault(format!(
                "the text of the proto has more than {} bytes, {MOST_LONGER} times its size",
                self.most
            ))),
            false => Ok(()),
        }
    }

    /// Appends the names of instructions.
    #[inline]
    fn put_instructions<'h>(&mut self, heads: impl Iterator<Item = &'h Head<'h>>) -> Result<()> {
        let mut mark = "%";
        for head in heads {
            self.check_length()?;
            self.out.push_str(mark);
            self.put_checked(head.name);
            mark = ", %";
        }
        self.check_length()
    }

    fn module(&mut self) -> Result<()> {
        let bytes: &'o [u8] = self.open;
        let parts = std::iter::once(bytes);
        let mut fields = FieldList::new();
        let proto = self.fields::<HloModuleProto>(parts, &mut fields)?;
        self.out.push_str("HloModule ");
        self.put_name(proto.bytes(field::name), "the module")?;
        let schedule = self.schedule(proto)?;
        self.header(proto, !schedule.is_empty())?;
        self.out.push_str("\n\n");
        let start = self.out.len();
        self.stack_frames(proto)?;
        self.prepared.trailer = TextRef::new(start, self.out.len());
        let count = proto.each(field::computations).count();
        let mut computations: SmallVec<[Computation<'_>; 8]> = SmallVec::with_capacity(count);
        self.computations.reserve(count);
        self.prepared.computations = count;
        let mut instructions: SmallVec<[&[u8]; 64]> = SmallVec::with_capacity(bytes.len() / 64);
        for bytes in proto.each(field::computations) {
            let Some(computation) = Computation::read(bytes, &mut instructions) else {
                return Err(self.broken::<HloComputationProto>(bytes));
            };
            let name = self.name(computation.name, "a computation")?;
            if self
                .computations
                .insert(computation.id, (name, None))
                .is_some()
            {
                return Err(self.fault(format!("two computations have the id {}", computation.id)));
            }
            computations.push(computation);
        }
        let entry = proto.int(field::entry_computation_id);
        let entry_name = proto.bytes(field::entry_computation_name);
        let has_entry = self.computations.contains_key(&entry);
        // XLA keeps computations and instructions by id, whatever their order in the proto.
        computations.sort_by_key(|computation| computation.id);
        let bytes: usize = instructions.iter().map(|bytes| bytes.len()).sum();
        let likely = |each: usize| (instructions.len() * each).min(bytes / 8);
        self.prepared.instructions.reserve(likely(1));
        self.prepared.operands.reserve(likely(2));
        self.prepared.attributes.reserve(likely(1));
        self.prepared.ints.reserve(likely(1));
        self.prepared.shapes.reserve(likely(1).min(16));
        let lengths = computations.iter().map(|one| one.own(&instructions).len());
        self.prepared.longest = lengths.max().unwrap_or(0);
        let mut heads = Heads::default();
        for computation in &computations {
            let is_entry = match has_entry {
                true => computation.id == entry,
                false => computation.name == entry_name,
            };
            self.computation(
                computation,
                computation.own(&instructions),
                is_entry,
                schedule.get(&computation.id).copied(),
                &mut heads,
            )?;
        }
        Ok(())
    }

    fn computation<'p>(
        &mut self,
        computation: &Computation<'p>,
        instructions: &[&'p [u8]],
        is_entry: bool,
        order: Option<&[u8]>,
        heads: &mut Heads<'p>,
    ) -> Result<()> {
        if let Some((_, number)) = self.computations.get_mut(&computation.id) {
            *number = Some(self.begun);
        }
        self.begun += 1;
        self.out.push_str(if is_entry { "ENTRY %" } else { "%" });
        self.put_name(computation.name, "a computation")?;
        self.out.push_str(" {\n");
        heads.read(instructions, self)?;
        if heads.get(computation.root_id).is_none() {
            return Err(self.fault(format!(
                "computation '{}' has no instruction {}, its root",
                String::from_utf8_lossy(computation.name),
                computation.root_id
            )));
        }
        let sequence = match order {
            None => Some(heads.definition_order()),
            Some(entry) => self.scheduled_order(entry, heads)?,
        };
        let Some(sequence) = sequence else {
            return Err(self.fault(format!(
                "the schedule of computation '{}' is not one of its instructions",
                String::from_utf8_lossy(computation.name)
            )));
        };
        for at in sequence {
            self.instruction(at, computation.root_id, heads)?;
        }
        self.out.push('}');
        if !matches!(computation.execution_thread, b"" | b"main") {
            self.out.push_str(", execution_thread=");
            self.put_string(computation.execution_thread);
        }
        self.out.push_str("\n\n");
        Ok(())
    }
}
