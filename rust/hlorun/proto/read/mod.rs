//! Proto → text → module.

pub(super) mod assignment;
mod attributes;
mod heads;
mod instruction;
pub mod literal;
mod shape;
mod sharding;

use std::fmt::Write;
use std::sync::Arc;

use foldhash::HashMap;
use prost::Message;
use prost::bytes::Bytes;

use super::fault;
use super::schema::{
    HloComputationProto, HloInstructionProto, HloModuleProto, MapEntry, OpMetadata,
};
use crate::error::{HloError, Result};
use crate::module::{HloModule, Id, LiteralId, Source};
use crate::text::limits::Limits;
use crate::text::printer::{write_escaped, write_string_or_dict};
use crate::text::{ParseOptions, parse_source};
use crate::types::Literal;
use heads::{Heads, computation_head};

/// The text in the making, and what it refers to.
pub(super) struct Writer<'o> {
    pub out: String,
    pub limits: &'o Limits,
    filename: Option<&'o Arc<str>>,
    /// Shapes as text, by their bytes.
    shapes: HashMap<Bytes, Box<str>>,
    /// Names of computations by id.
    computations: HashMap<i64, Box<str>>,
    /// Values of constants, in the order of the text.
    literals: Vec<Literal>,
    /// Bytes of text that the proto may become.
    most: usize,
}

/// How many times as long as its proto a text may be. A number of a byte may stand for a long name,
/// so that without a bound a text could be as long as the square of its proto.
const MOST_LONGER: usize = 64;
/// What short protos may become on top of that.
const MOST_FOR_SHORT: usize = 1 << 16;

/// The module that `proto`, of `size` bytes, is.
pub(super) fn read_module(
    proto: &HloModuleProto,
    size: usize,
    options: &ParseOptions,
) -> Result<HloModule> {
    let mut writer = Writer::new(size, options);
    writer.module(proto)?;
    let Writer { out, literals, .. } = writer;
    let source = Source::from(out.into_bytes());
    let mut module = parse_source(source, options).map_err(|error| match error {
        HloError::Parse(mut error) => {
            let note = "the place is one in the proto's text, which hlorun makes from it";
            error.notes.push(note.into());
            HloError::Parse(error)
        }
        other => other,
    })?;
    for (number, literal) in literals.into_iter().enumerate() {
        if number < module.literal_count() {
            module.set_literal(LiteralId::from_index(number), literal);
        }
    }
    Ok(module)
}

impl<'o> Writer<'o> {
    /// Of a proto of `size` bytes.
    fn new(size: usize, options: &'o ParseOptions) -> Writer<'o> {
        Writer {
            out: String::new(),
            limits: &options.limits,
            filename: options.filename.as_ref(),
            shapes: HashMap::default(),
            computations: HashMap::default(),
            literals: Vec::new(),
            most: size
                .saturating_mul(MOST_LONGER)
                .saturating_add(MOST_FOR_SHORT),
        }
    }

    pub fn filename(&self) -> Option<&'o Arc<str>> {
        self.filename
    }

    pub fn push_literal(&mut self, literal: Literal) {
        self.literals.push(literal);
    }

    #[cold]
    pub fn fault(&self, message: impl Into<String>) -> HloError {
        fault(self.filename, message)
    }

    /// The message in `bytes`.
    pub fn decode<M: Message + Default>(&self, bytes: Bytes, what: &str) -> Result<M> {
        let mut message = M::default();
        self.merge(&mut message, bytes, what)?;
        Ok(message)
    }

    /// Sets the fields of `message` that are in `bytes`.
    fn merge<M: Message>(&self, message: &mut M, bytes: Bytes, what: &str) -> Result<()> {
        let merged = message.merge(bytes);
        merged.map_err(|error| self.fault(format!("a broken {what}: {error}")))
    }

    /// The error of a message of which not even the head can be read.
    #[cold]
    fn broken<M: Message + Default>(&self, bytes: &Bytes, what: &str) -> HloError {
        match self.decode::<M>(bytes.clone(), what) {
            Err(error) => error,
            Ok(_) => self.fault(format!("a broken {what}")),
        }
    }

    /// Appends what cannot fail to be appended.
    pub fn put(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.out.write_fmt(text);
    }

    /// Checks that `name` can stand in the text as a name.
    fn name<'n>(&self, name: &'n [u8], what: &str) -> Result<&'n str> {
        let is_name = !name.is_empty()
            && name
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
        match std::str::from_utf8(name) {
            Ok(text) if is_name => Ok(text),
            _ => Err(self.fault(format!(
                "expected the name of {what}, of letters, digits, '_', '.' and '-', found {:?}",
                String::from_utf8_lossy(&name[..name.len().min(80)])
            ))),
        }
    }

    /// Appends a name of the proto.
    pub fn put_name(&mut self, name: &[u8], what: &str) -> Result<()> {
        let text = self.name(name, what)?;
        self.out.push_str(text);
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

    pub fn put_computation(&mut self, id: i64) -> Result<()> {
        self.check_length()?;
        let Some(name) = self.computations.get(&id) else {
            return Err(self.fault(format!(
                "an instruction calls computation {id}, which is not there"
            )));
        };
        self.out.push('%');
        self.out.push_str(name);
        Ok(())
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

    /// Appends the names of instructions, which are those of `heads`.
    fn put_instructions(&mut self, ids: &[i64], heads: &Heads<'_>) -> Result<()> {
        self.check_length()?;
        for (at, &id) in ids.iter().enumerate() {
            let Some(head) = heads.get(id) else {
                return Err(self.fault(format!(
                    "an instruction uses instruction {id}, which is not in its computation"
                )));
            };
            self.out.push_str(if at > 0 { ", %" } else { "%" });
            self.out.push_str(head.name);
            self.check_length()?;
        }
        Ok(())
    }

    fn module(&mut self, proto: &HloModuleProto) -> Result<()> {
        self.out.push_str("HloModule ");
        self.put_name(&proto.name, "the module")?;
        self.header(proto)?;
        self.out.push_str("\n\n");
        self.stack_frames(proto);
        let mut computations: Vec<(i64, &Bytes)> = Vec::new();
        for bytes in &proto.computations {
            let Some((name, id)) = computation_head(bytes) else {
                return Err(self.broken::<HloComputationProto>(bytes, "HloComputationProto"));
            };
            computations.push((id, bytes));
            let name = self.name(name, "a computation")?.into();
            if self.computations.insert(id, name).is_some() {
                return Err(self.fault(format!("two computations have the id {id}")));
            }
        }
        let entry = match self.computations.contains_key(&proto.entry_computation_id) {
            true => Some(proto.entry_computation_id),
            false => None,
        };
        // XLA keeps computations and instructions by id, whatever their order in the proto.
        computations.sort_by_key(|computation| computation.0);
        for (_, bytes) in computations {
            let computation: HloComputationProto =
                self.decode(bytes.clone(), "HloComputationProto")?;
            let is_entry = match entry {
                Some(entry) => computation.id == entry,
                None => computation.name == proto.entry_computation_name,
            };
            let schedule = proto.schedule.as_ref();
            let order = schedule.and_then(|schedule| schedule.sequences.get(&computation.id));
            self.computation(
                &computation,
                is_entry,
                order.map(|order| &order.instruction_ids[..]),
            )?;
        }
        Ok(())
    }

    fn header(&mut self, proto: &HloModuleProto) -> Result<()> {
        if proto
            .schedule
            .as_ref()
            .is_some_and(|s| !s.sequences.is_empty())
        {
            self.out.push_str(", is_scheduled=true");
        }
        if let Some(aliases) = proto
            .input_output_alias
            .as_ref()
            .filter(|a| !a.entries.is_empty())
        {
            self.out.push_str(", input_output_alias={ ");
            for (at, entry) in aliases.entries.iter().enumerate() {
                self.out.push_str(if at > 0 { ", {" } else { "{" });
                self.put_list(&entry.output_shape_index);
                self.put(format_args!("}}: ({}, {{", entry.parameter_number));
                self.put_list(&entry.parameter_shape_index);
                let kind = if entry.kind == 2 { "must" } else { "may" };
                self.put(format_args!("}}, {kind}-alias)"));
            }
            self.out.push_str(" }");
        }
        if let Some(donors) = proto
            .buffer_donor
            .as_ref()
            .filter(|d| !d.entries.is_empty())
        {
            self.out.push_str(", buffer_donor={ ");
            for (at, entry) in donors.entries.iter().enumerate() {
                let comma = if at > 0 { ", " } else { "" };
                self.put(format_args!("{comma}({}, {{", entry.parameter_number));
                self.put_list(&entry.parameter_shape_index);
                self.out.push_str("})");
            }
            self.out.push_str(" }");
        }
        if let Some(shape) = &proto.host_program_shape
            && let Some(result) = &shape.result
        {
            self.out.push_str(", entry_computation_layout={(");
            for (at, parameter) in shape.parameters.iter().enumerate() {
                self.out.push_str(if at > 0 { ", " } else { "" });
                self.put_shape(parameter)?;
            }
            self.out.push_str(")->");
            self.put_shape(result)?;
            self.out.push('}');
        }
        if let Some(devices) = &proto.device_assignment {
            for (key, count) in [
                ("replica_count", devices.replica_count),
                ("num_partitions", devices.computation_count),
            ] {
                if count > 1 {
                    self.put(format_args!(", {key}={count}"));
                }
            }
        }
        if let Some(attributes) = &proto.frontend_attributes {
            self.frontend_attributes(&attributes.map)?;
        }
        Ok(())
    }

    pub fn frontend_attributes(&mut self, map: &[MapEntry]) -> Result<()> {
        if map.is_empty() {
            return Ok(());
        }
        self.out.push_str(", frontend_attributes={");
        for (at, entry) in map.iter().enumerate() {
            self.out.push_str(if at > 0 { "," } else { "" });
            self.put_name(&entry.key, "a frontend attribute")?;
            self.out.push('=');
            write_string_or_dict(&mut self.out, &entry.value);
        }
        self.out.push('}');
        Ok(())
    }

    fn stack_frames(&mut self, proto: &HloModuleProto) {
        let Some(index) = proto
            .stack_frame_index
            .as_ref()
            .filter(|i| !i.stack_frames.is_empty())
        else {
            return;
        };
        for (title, names) in [
            ("FileNames", &index.file_names),
            ("FunctionNames", &index.function_names),
        ] {
            self.put(format_args!("{title}\n"));
            for (at, name) in names.iter().enumerate() {
                self.put(format_args!("{} ", at + 1));
                self.put_string(name);
                self.out.push('\n');
            }
            self.out.push('\n');
        }
        self.out.push_str("FileLocations\n");
        for (at, place) in index.file_locations.iter().enumerate() {
            self.put(format_args!(
                "{} {{file_name_id={} function_name_id={} line={} end_line={} column={} end_column={}}}\n",
                at + 1, place.file_name_id, place.function_name_id, place.line, place.end_line, place.column,
                place.end_column
            ));
        }
        self.out.push_str("\nStackFrames\n");
        for (at, frame) in index.stack_frames.iter().enumerate() {
            self.put(format_args!(
                "{} {{file_location_id={} parent_frame_id={}}}\n",
                at + 1,
                frame.file_location_id,
                // The text has 1 for none.
                i64::from(frame.parent_frame_id) + 1
            ));
        }
        self.out.push_str("\n\n");
    }

    fn computation(
        &mut self,
        computation: &HloComputationProto,
        is_entry: bool,
        order: Option<&[i64]>,
    ) -> Result<()> {
        self.out.push_str(if is_entry { "ENTRY %" } else { "%" });
        self.put_name(&computation.name, "a computation")?;
        self.out.push_str(" {\n");
        let heads = Heads::read(&computation.instructions, self)?;
        if heads.get(computation.root_id).is_none() {
            return Err(self.fault(format!(
                "computation '{}' has no instruction {}, its root",
                String::from_utf8_lossy(&computation.name),
                computation.root_id
            )));
        }
        let sequence = match order {
            None => Some(heads.definition_order()),
            Some(ids) => heads.scheduled_order(ids),
        };
        let Some(sequence) = sequence else {
            return Err(self.fault(format!(
                "the schedule of computation '{}' is not one of its instructions",
                String::from_utf8_lossy(&computation.name)
            )));
        };
        // One buffer reused for all instructions: the message is large.
        let mut instruction = Box::<HloInstructionProto>::default();
        for at in sequence {
            instruction.clear();
            let bytes = computation.instructions[at as usize].clone();
            self.merge(&mut *instruction, bytes, "HloInstructionProto")?;
            self.instruction(&instruction, computation.root_id, &heads)?;
        }
        self.out.push('}');
        if !matches!(&computation.execution_thread[..], b"" | b"main") {
            self.out.push_str(", execution_thread=");
            self.put_string(&computation.execution_thread);
        }
        self.out.push_str("\n\n");
        Ok(())
    }

    /// The key of a field of the metadata.
    fn put_key(&mut self, key: &str) {
        self.out.push(' ');
        self.out.push_str(key);
        self.out.push('=');
    }

    /// `metadata={…}`, or nothing when it has no field.
    pub fn metadata(&mut self, metadata: &OpMetadata, separator: &str) {
        let start = self.out.len();
        self.out.push_str(separator);
        self.out.push_str("metadata={");
        let inside = self.out.len();
        let strings = |writer: &mut Self, fields: &[(&str, &Bytes)]| {
            for (key, value) in fields {
                if !value.is_empty() {
                    writer.put_key(key);
                    writer.put_string(value);
                }
            }
        };
        strings(
            self,
            &[
                ("op_type", &metadata.op_type),
                ("op_name", &metadata.op_name),
                ("source_file", &metadata.source_file),
            ],
        );
        for (key, value) in [
            ("source_line", i64::from(metadata.source_line)),
            ("source_end_line", i64::from(metadata.source_end_line)),
            ("source_column", i64::from(metadata.source_column)),
            ("source_end_column", i64::from(metadata.source_end_column)),
        ] {
            if value != 0 {
                self.put_key(key);
                self.put_int(value);
            }
        }
        if !metadata.profile_type.is_empty() {
            self.out.push_str(" profile_type={");
            self.put_list(&metadata.profile_type);
            self.out.push('}');
        }
        strings(self, &[("deduplicated_name", &metadata.deduplicated_name)]);
        for (key, value) in [
            (
                "size_of_generated_code_in_bytes",
                metadata.size_of_generated_code_in_bytes,
            ),
            (
                "size_of_memory_working_set_in_bytes",
                metadata.size_of_memory_working_set_in_bytes,
            ),
            ("stack_frame_id", i64::from(metadata.stack_frame_id)),
        ] {
            if value != 0 {
                self.put_key(key);
                self.put_int(value);
            }
        }
        strings(self, &[("scheduling_name", &metadata.scheduling_name)]);
        match self.out.len() == inside {
            true => self.out.truncate(start),
            false => {
                self.out.remove(inside); // the blank before the first field
                self.out.push('}');
            }
        }
    }
}
