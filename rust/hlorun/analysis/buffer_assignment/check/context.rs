//! What all checks share: names, values and shapes of both sides, and the list of findings.

use foldhash::{HashMap, HashSet};

use super::{Finding, FindingKind, LONGEST_MESSAGE, MOST_FINDINGS};
use crate::analysis::buffer_assignment::line;
use crate::analysis::buffer_assignment::model::*;
use crate::analysis::dataflow::{
    HloAliasAnalysis, HloDataflowAnalysis, PositionId, ValueIndex, graph,
};
use crate::error::Result;
use crate::module::{ComputationId, HloModule, HloOpcode, IdMap, InstructionId, TextRef};
use crate::types::{Shape, ShapeId, ShapeStyle, ShapeTable};

/// How the instructions of a computation get memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ComputationKind {
    /// Not called from the entry: nothing is allocated.
    Dead,
    /// The body of a fusion: nothing is allocated.
    Fusion,
    /// Runs per element: allocations are thread-local.
    ThreadLocal,
    /// The entry, loops, branches and calls.
    Global,
}

/// A dump and a module side by side.
pub(super) struct Checker<'a> {
    pub(super) dump: &'a BufferAssignmentDump,
    pub(super) module: &'a HloModule,
    pub(super) dataflow: HloDataflowAnalysis,
    pub(super) alias: HloAliasAnalysis,
    pub(super) kinds: IdMap<ComputationId, ComputationKind>,
    /// The value behind each entry of [`BufferAssignmentDump::assigned`].
    pub(super) assigned: Vec<Option<ValueIndex>>,
    /// Whether each group of values that share memory is part of the result.
    pub(super) buffer_lives_out: Vec<bool>,
    names: HashMap<&'a [u8], InstructionId>,
    shapes: ShapeTable,
    parsed_shapes: HashMap<&'a [u8], Option<ShapeId>>,
    findings: Vec<Finding>,
}

impl<'a> Checker<'a> {
    /// Analyses the module and looks its names up.
    ///
    /// # Errors
    /// [`crate::HloError::Unsupported`] when the module's values cannot be followed.
    pub fn new(dump: &'a BufferAssignmentDump, module: &'a HloModule) -> Result<Checker<'a>> {
        let dataflow = HloDataflowAnalysis::run(module)?;
        let alias = HloAliasAnalysis::run(module, &dataflow);
        let kinds = computation_kinds(module);
        let mut names: HashMap<&[u8], InstructionId> = HashMap::default();
        // Should a name stand twice, the one that gets memory is meant.
        for memory in [true, false] {
            for computation in module.computation_ids() {
                let has_memory = matches!(
                    kinds[computation],
                    ComputationKind::Global | ComputationKind::ThreadLocal
                );
                if has_memory == memory {
                    for &id in &module.computation(computation).instructions {
                        let name = module.text().bytes(module.instruction_data(id).name);
                        names.entry(name).or_insert(id);
                    }
                }
            }
        }
        let lives_out = |&value: &ValueIndex| dataflow.lives_out(module, value);
        let buffers = alias.buffers();
        let buffer_lives_out = buffers.map(|buffer| buffer.iter().any(lives_out)).collect();
        Ok(Checker {
            dump,
            module,
            dataflow,
            alias,
            kinds,
            assigned: Vec::new(),
            buffer_lives_out,
            names,
            shapes: module.shapes().clone(),
            parsed_shapes: HashMap::default(),
            findings: Vec::new(),
        })
    }

    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    /// Notes a finding; `at` is where the dump says it, empty when it does not.
    pub(super) fn find(&mut self, kind: FindingKind, at: TextRef, mut message: String) {
        if self.findings.len() >= MOST_FINDINGS {
            return;
        }
        if message.len() > LONGEST_MESSAGE {
            let mut ends = (0..=LONGEST_MESSAGE).rev();
            let cut = ends.find(|&at| message.is_char_boundary(at));
            message.truncate(cut.unwrap_or(0));
            message.push('…');
        }
        let source = self.dump.text.source();
        let location = (at.len > 0).then(|| {
            let filename = self.dump.text.filename().map(Into::into);
            line::location(source, at.start as usize, filename)
        });
        self.findings.push(Finding {
            kind,
            message,
            location,
        });
    }

    /// The instruction a dump names.
    pub(super) fn instruction(&self, name: TextRef) -> Option<InstructionId> {
        self.names.get(self.dump.bytes(name)).copied()
    }

    /// The position a dump names. An index must be there exactly for tuples.
    pub(super) fn position(&self, instruction: TextRef, index: TextRef) -> Option<PositionId> {
        let id = self.instruction(instruction)?;
        let is_tuple = matches!(self.module.instruction(id).shape(), Shape::Tuple(_));
        if is_tuple != (index.len > 0) {
            return None;
        }
        let index = self.dump.shape_index(index);
        self.dataflow.positions.at(id, &index)
    }

    /// The value a dump names, if the module defines it there.
    pub(super) fn value(&self, instruction: TextRef, index: TextRef) -> Option<ValueIndex> {
        self.value_defined_at(self.position(instruction, index)?)
    }

    pub(super) fn value_defined_at(&self, position: PositionId) -> Option<ValueIndex> {
        let value = self.dataflow.value_at(position)?;
        (self.dataflow.value(value).defining_position == position).then_some(value)
    }

    /// `fusion.7{0}` as the dump would write it.
    pub(super) fn position_name(&self, position: PositionId) -> String {
        let id = self.dataflow.positions.instruction(position);
        let instruction = self.module.instruction(id);
        match instruction.shape() {
            Shape::Tuple(_) => {
                format!(
                    "{}{}",
                    instruction.name(),
                    self.dataflow.positions.index(position)
                )
            }
            _ => instruction.name().into_owned(),
        }
    }

    pub(super) fn value_name(&self, value: ValueIndex) -> String {
        self.position_name(self.dataflow.value(value).defining_position)
    }

    pub(super) fn name_of(&self, name: &ValueName) -> String {
        self.dump.display_name(name.instruction, name.index)
    }

    /// How the computation that defines a value gets its memory.
    pub(super) fn kind_of(&self, value: ValueIndex) -> ComputationKind {
        let id = self.dataflow.defining_instruction(value);
        self.kinds[self.module.instruction(id).computation()]
    }

    pub(super) fn shape_name(&self, shape: ShapeId, style: ShapeStyle) -> String {
        self.module.shapes().display(shape, style).to_string()
    }

    /// Whether a shape the dump writes is `shape`; layouts count only where `layouts` says so.
    pub(super) fn same_shape(&mut self, text: TextRef, shape: ShapeId, layouts: bool) -> bool {
        let bytes = self.dump.bytes(text);
        let known = self.parsed_shapes.get(bytes).copied();
        let parsed = known.unwrap_or_else(|| {
            let parsed = crate::text::parse_shape(bytes, &mut self.shapes).ok();
            self.parsed_shapes.insert(bytes, parsed);
            parsed
        });
        parsed.is_some_and(|parsed| equal_shapes(&self.shapes, parsed, shape, layouts))
    }

    /// The values the dump should have.
    pub(super) fn expects_memory(&self, value: ValueIndex) -> bool {
        matches!(
            self.kind_of(value),
            ComputationKind::Global | ComputationKind::ThreadLocal
        )
    }

    pub(super) fn is_constant(&self, value: ValueIndex) -> bool {
        let id = self.dataflow.defining_instruction(value);
        self.module.instruction(id).opcode() == HloOpcode::Constant
    }

    pub(super) fn has_section(&self, kinds: &[SectionKind]) -> bool {
        let sections = &self.dump.style.sections;
        sections.iter().any(|section| kinds.contains(&section.kind))
    }
}

/// How each computation's instructions get memory.
pub fn computation_kinds(module: &HloModule) -> IdMap<ComputationId, ComputationKind> {
    let mut kinds = IdMap::new(module.computation_count(), ComputationKind::Dead);
    let mut stack: Vec<(ComputationId, ComputationKind)> = module
        .entry
        .map(|entry| (entry, ComputationKind::Global))
        .into_iter()
        .collect();
    while let Some((computation, kind)) = stack.pop() {
        if kinds[computation] != ComputationKind::Dead {
            continue;
        }
        kinds[computation] = kind;
        for &id in &module.computation(computation).instructions {
            let instruction = module.instruction(id);
            let opcode = instruction.opcode();
            let called = match opcode {
                HloOpcode::Fusion => ComputationKind::Fusion,
                _ if graph::is_control_flow(opcode) && kind == ComputationKind::Global => kind,
                _ => ComputationKind::ThreadLocal,
            };
            stack.extend(
                instruction
                    .called_computations()
                    .into_iter()
                    .map(|callee| (callee, called)),
            );
        }
    }
    kinds
}

/// Structural equality; memory spaces and tiles, which assignment itself adds, never count.
fn equal_shapes(table: &ShapeTable, a: ShapeId, b: ShapeId, layouts: bool) -> bool {
    let mut seen: HashSet<(ShapeId, ShapeId)> = HashSet::default();
    let mut stack = vec![(a, b)];
    while let Some((a, b)) = stack.pop() {
        if a == b || !seen.insert((a, b)) {
            continue;
        }
        let equal = match (table.get(a), table.get(b)) {
            (Shape::Array(a), Shape::Array(b)) => {
                a.same_dims_and_type(b) && (!layouts || a.minor_to_major() == b.minor_to_major())
            }
            (Shape::Tuple(a), Shape::Tuple(b)) => {
                stack.extend(a.iter().copied().zip(b.iter().copied()));
                a.len() == b.len()
            }
            (Shape::Buffer(a), Shape::Buffer(b)) => {
                stack.push((*a, *b));
                true
            }
            (Shape::Token, Shape::Token) | (Shape::Opaque, Shape::Opaque) => true,
            _ => false,
        };
        if !equal {
            return false;
        }
    }
    true
}
