//! The table of instructions.

use foldhash::HashMap;
use hlorun::analysis::cost::{CostAnalysis, Key, Properties};
use hlorun::analysis::runs::trip_count;
use hlorun::module::escape::unescape;
use hlorun::module::{AttrKey, AttrValue, HloModule, HloOpcode, Id, InstructionId, InstructionRef};
use hlorun::types::ShapeStyle;

use super::attribute_text::attributes;
use super::columns::{Flags, Floats, Ints, Lists, Numbers, Texts, Words, table};
use crate::handle::SharedModule;
use crate::shape::{element_type, leaf_bytes};

table! {
    /// One row per instruction, computation by computation in the order of the text.
    Instructions "instructions" {
        /// The file, as in `modules`.
        path: Words,
        /// Number of the instruction in its module; `edges`, `collectives`, `custom_calls` and `graphs` name it.
        id: Ints,
        /// Name of its computation.
        computation: Words,
        /// Name, without `%`.
        name: Texts,
        /// The operation, `dynamic-update-slice`.
        opcode: Words,
        /// Shape of the result with its layout, as HLO text has it.
        shape: Words,
        /// Element type of an array; `tuple`, `token`, `opaque` or `buffer` otherwise.
        element_type: Words,
        /// Sizes of the dimensions of an array.
        dims: Lists<Numbers>,
        /// Layout of an array: its dimensions, the one that varies fastest first; empty where the text has none.
        minor_to_major: Lists<Numbers>,
        /// Bytes of the result in NumPy arrays, tuples summed; null where they are not known.
        bytes: Ints,
        /// Names of the computations it calls.
        called_computations: Lists<Texts>,
        /// Number of instructions that take it as an operand.
        users: Ints,
        /// Whether it is its computation's root.
        is_root: Flags,
        /// Number of a parameter; null for other opcodes.
        parameter_number: Ints,
        /// Target of a custom call; empty for other opcodes.
        custom_call_target: Words,
        /// Floating-point operations of one run by XLA's cost analysis, loops with one trip; -1 for custom calls nobody knows; null where the analysis failed.
        flops: Floats,
        /// Elements of transcendental functions, as `flops`.
        transcendentals: Floats,
        /// Bytes read and written, as `flops`.
        bytes_accessed: Floats,
        /// How often it runs as a step of its own in one run of the module; null for parts of fusions, what is applied per element, and what only runs other computations.
        runs: Ints,
        /// Trips of a `while`; null where they are not known, and for other opcodes.
        trips: Ints,
        /// Attributes as written, without metadata and backend configuration.
        attributes: Words,
        /// Line of the text, from 1; null in modules from protos.
        line: Ints,
        /// The framework's operation; empty when absent, as all of metadata.
        op_type: Words,
        /// The framework's name for it.
        op_name: Words,
        /// The source file, also where only a stack frame names it.
        source_file: Words,
        /// The line in the source file; null when absent.
        source_line: Ints,
    }
}

/// The instructions of a module, computation by computation in the order of the text.
pub fn in_order(module: &HloModule) -> impl Iterator<Item = InstructionRef<'_>> {
    module
        .computation_ids()
        .flat_map(|id| module.computation(id).instructions.iter())
        .map(|&id| module.instruction(id))
}

/// Operation, name, file and line that the metadata of an instruction gives, "" where it has none.
#[derive(Default)]
pub struct Origin {
    pub op_type: String,
    pub op_name: String,
    pub source_file: String,
    pub source_line: Option<i64>,
}

impl Origin {
    /// Of an instruction; the innermost stack frame stands in for a file that is not named.
    pub fn of(shared: &SharedModule, id: InstructionId) -> Origin {
        let mut metadata = shared.metadata(id);
        if let (None, Some(frame)) = (&metadata.source_file, metadata.stack_frame_id)
            && let Some(frame) = shared.frames().outwards(frame).next()
        {
            metadata.source_file = Some(frame.file);
            metadata.source_line = Some(frame.line);
        }
        Origin {
            op_type: metadata.op_type.unwrap_or_default(),
            op_name: metadata.op_name.unwrap_or_default(),
            source_file: metadata.source_file.unwrap_or_default(),
            source_line: metadata.source_line,
        }
    }
}

/// The target of a custom call, unescaped; empty for other opcodes.
pub fn custom_call_target(instruction: InstructionRef<'_>) -> String {
    let target = instruction.string(AttrKey::CustomCallTarget);
    String::from_utf8_lossy(&unescape(target.unwrap_or_default())).into_owned()
}

/// Lines of places in a text that are asked for in rising order.
struct Lines<'t> {
    text: &'t [u8],
    at: usize,
    line: i64,
}

impl Lines<'_> {
    fn of(&mut self, place: usize) -> i64 {
        if place < self.at {
            (self.at, self.line) = (0, 1);
        }
        let place = place.min(self.text.len());
        // Pieces whose counts fit a byte, which the compiler adds up many bytes at a time.
        let pieces = self.text[self.at..place].chunks(255);
        let counts = pieces.map(|piece| piece.iter().map(|&b| u8::from(b == b'\n')).sum::<u8>());
        self.line += counts.map(i64::from).sum::<i64>();
        self.at = place;
        self.line
    }
}

/// Places of operation, name and file, and the line.
type OriginPlaces = (i32, i32, i32, Option<i64>);

/// What is looked up once per module: places of words by what they stand for.
struct Places<'m> {
    path: i32,
    none: i32,
    no_attributes: i32,
    /// The attributes of one instruction, to be written over for the next.
    text: Vec<u8>,
    /// Places of type, name and file, and the line, by the text of the metadata.
    origins: HashMap<&'m [u8], OriginPlaces>,
    last_origin: Option<(&'m [u8], OriginPlaces)>,
    /// Place of the shape and of the element type, and bytes, by shape.
    shapes: Vec<Option<(i32, i32, Option<i64>)>>,
    /// Places of known opcodes, by number.
    opcodes: [Option<i32>; 256],
}

impl Instructions {
    /// Adds the instructions of a module.
    pub fn add(&mut self, shared: &SharedModule, costs: Option<&CostAnalysis>, path: &str) {
        let module = &shared.module;
        let is_text = shared.proto.is_none();
        let mut lines = Lines {
            text: module.text().source(),
            at: 0,
            line: 1,
        };
        let mut places = Places {
            path: self.path.place(path),
            none: self.custom_call_target.place(""),
            no_attributes: self.attributes.place(""),
            text: Vec::new(),
            origins: HashMap::default(),
            last_origin: None,
            shapes: vec![None; module.shapes().len() + 1],
            opcodes: [None; 256],
        };
        let mut computation = None;
        let mut computation_place = 0;
        for instruction in in_order(module) {
            if computation != Some(instruction.computation()) {
                computation = Some(instruction.computation());
                let name = module.computation(instruction.computation()).name;
                computation_place = self.computation.place(&module.str(name));
            }
            self.path.push_place(places.path);
            self.computation.push_place(computation_place);
            self.names(shared, instruction, &mut places);
            self.shape(shared, instruction, &mut places);
            self.cost(costs.map(|costs| costs.instruction(instruction.id)));
            self.runs
                .push(shared.runs().step(instruction).map(|n| n as i64));
            self.trips.push(trip_count(instruction).map(|n| n as i64));
            self.attribute_text(instruction, &mut places);
            let start = instruction.data().text.start as usize;
            self.line.push(is_text.then(|| lines.of(start)));
            self.origin(shared, instruction, &mut places);
        }
    }

    fn names(
        &mut self,
        shared: &SharedModule,
        instruction: InstructionRef<'_>,
        places: &mut Places<'_>,
    ) {
        let module = instruction.module;
        self.id.count(instruction.id.index());
        self.name
            .push_bytes(module.text().bytes(instruction.data().name));
        let opcode = match instruction.opcode() {
            HloOpcode::Unknown => self.opcode.place(&instruction.opcode_name()),
            known => *places.opcodes[known as usize]
                .get_or_insert_with(|| self.opcode.place(known.name())),
        };
        self.opcode.push_place(opcode);
        for id in instruction.called_computations() {
            let name = module.str(module.computation(id).name);
            self.called_computations.items.push(&name);
        }
        self.called_computations.end_row();
        self.users.count(shared.users(instruction.id).len());
        self.is_root.push(instruction.is_root());
        self.parameter_number
            .push(instruction.parameter_number().map(|n| n as i64));
    }

    fn shape(
        &mut self,
        shared: &SharedModule,
        instruction: InstructionRef<'_>,
        places: &mut Places<'_>,
    ) {
        let id = instruction.shape_id();
        let shapes = instruction.module.shapes();
        let (shape, kind, bytes) = *places.shapes[id.index()].get_or_insert_with(|| {
            let text = shapes.display(id, ShapeStyle::FULL).to_string();
            let kind = element_type(shapes.get(id));
            let bytes = leaf_bytes(shared, id).map(|n| n as i64);
            let kind = self.element_type.place(kind);
            (self.shape.place(&text), kind, bytes)
        });
        self.shape.push_place(shape);
        self.element_type.push_place(kind);
        let array = instruction.array_shape();
        self.dims
            .push(array.iter().flat_map(|a| a.dims.iter().copied()));
        let layout = array.and_then(|array| array.layout.as_ref());
        let order = layout.iter().flat_map(|l| &l.minor_to_major);
        self.minor_to_major.push(order.map(|&dim| i64::from(dim)));
        self.bytes.push(bytes);
        match instruction.opcode() {
            HloOpcode::CustomCall => {
                self.custom_call_target
                    .push(&custom_call_target(instruction));
            }
            _ => self.custom_call_target.push_place(places.none),
        }
    }

    fn cost(&mut self, cost: Option<&Properties>) {
        for (column, key) in [
            (&mut self.flops, Key::Flops),
            (&mut self.transcendentals, Key::Transcendentals),
            (&mut self.bytes_accessed, Key::BytesAccessed),
        ] {
            column.push(cost.map(|cost| cost.get(&key)));
        }
    }

    fn attribute_text(&mut self, instruction: InstructionRef<'_>, places: &mut Places<'_>) {
        let out = &mut places.text;
        out.clear();
        for (key, value) in attributes(instruction) {
            if matches!(key, b"metadata" | b"backend_config") {
                continue;
            }
            if !out.is_empty() {
                out.extend_from_slice(b", ");
            }
            if !key.is_empty() {
                out.extend_from_slice(key);
                out.push(b'=');
            }
            out.extend_from_slice(value);
        }
        match out.is_empty() {
            true => self.attributes.push_place(places.no_attributes),
            false => {
                let place = self.attributes.place_bytes(out);
                self.attributes.push_place(place);
            }
        }
    }

    fn origin<'m>(
        &mut self,
        shared: &SharedModule,
        instruction: InstructionRef<'m>,
        places: &mut Places<'m>,
    ) {
        let text = match instruction.attribute(AttrKey::Metadata) {
            Some(AttrValue::Raw(text)) => instruction.module.text().bytes(*text),
            _ => &[],
        };
        // Neighbours often are of one operation of the program.
        let (op_type, op_name, file, line) = match places.last_origin {
            Some((last, origin)) if last == text => origin,
            _ => *places.origins.entry(text).or_insert_with(|| {
                let origin = Origin::of(shared, instruction.id);
                (
                    self.op_type.place(&origin.op_type),
                    self.op_name.place(&origin.op_name),
                    self.source_file.place(&origin.source_file),
                    origin.source_line,
                )
            }),
        };
        places.last_origin = Some((text, (op_type, op_name, file, line)));
        self.op_type.push_place(op_type);
        self.op_name.push_place(op_name);
        self.source_file.push_place(file);
        self.source_line.push(line);
    }
}
