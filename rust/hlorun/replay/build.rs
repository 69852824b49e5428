//! Binds a module's instructions to the places of their values.

use foldhash::HashMap;

use super::extract::{Extracted, extract};
use super::sharing::{Overlap, is_allowed};
use super::{Access, Boundary, Compute, Place, Replay, Step};
use crate::analysis::buffer_assignment::{
    BufferAssignmentDump, ComputationKind, computation_kinds,
};
use crate::analysis::dataflow::{
    HloAliasAnalysis, HloDataflowAnalysis, PositionId, ValueIndex, byte_size_of,
};
use crate::analysis::schedule::HloSchedule;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::module::{ComputationId, HloModule, HloOpcode, IdMap, InstructionId, InstructionRef};
use crate::plan::error::elided_constant;
use crate::plan::error::unsupported;
use crate::plan::options::CompileOptions;
use crate::plan::{self, Executable, Leaf};
use crate::types::{ArrayShape, PrimitiveType, Shape};
use crate::verify::{VerifiedModule, verify};

pub(super) struct Builder<'a> {
    pub(super) module: &'a HloModule,
    dump: &'a BufferAssignmentDump,
    options: &'a CompileOptions,
    pub(super) dataflow: HloDataflowAnalysis,
    alias: HloAliasAnalysis,
    kinds: IdMap<ComputationId, ComputationKind>,
    places: Vec<Option<Place>>,
    used: Vec<bool>,
}

/// Builds a replay; see [`Replay::new`].
pub fn build(
    module: &VerifiedModule<'_>,
    dump: &BufferAssignmentDump,
    whole: &Executable,
    options: &CompileOptions,
) -> Result<Replay> {
    let dataflow = HloDataflowAnalysis::run(module)?;
    let alias = HloAliasAnalysis::run(module, &dataflow);
    let mut builder = Builder {
        module,
        dump,
        options,
        kinds: computation_kinds(module),
        places: vec![None; dataflow.values().len()],
        used: vec![false; dump.allocations.len()],
        dataflow,
        alias,
    };
    let instructions = builder.names();
    builder.read_places(&instructions)?;
    let schedule = builder.schedule(&instructions)?;
    let Some((entry, computation)) = module.entry_computation() else {
        return Err(HloError::execution("the module has no entry computation"));
    };
    let mut steps = HashMap::default();
    for id in module.computation_ids() {
        if builder.kinds[id] == ComputationKind::Global {
            let order = schedule
                .sequence(id)
                .unwrap_or(&module.computation(id).instructions);
            steps.insert(id, builder.steps(order)?);
        }
    }
    let parameters = builder.boundary(&computation.parameters, whole.inputs())?;
    let root: Vec<InstructionId> = computation.root.into_iter().collect();
    let outputs = builder.boundary(&root, whole.outputs())?;
    let constants = builder.constants()?;
    let blocks = dump.allocations.iter().zip(&builder.used);
    let blocks = blocks
        .map(|(allocation, &used)| match used {
            true => usize::try_from(allocation.size).unwrap_or(usize::MAX),
            false => 0,
        })
        .collect();
    let names = builder.dataflow.indices();
    Ok(Replay {
        names: names.map(|value| builder.value_name(value)).collect(),
        blocks,
        steps,
        entry,
        parameters,
        constants,
        outputs,
    })
}

impl<'a> Builder<'a> {
    /// Instructions that get memory of the assignment, by name.
    fn names(&self) -> HashMap<&'a [u8], InstructionId> {
        let mut names: HashMap<&[u8], InstructionId> = HashMap::default();
        for computation in self.module.computation_ids() {
            if self.kinds[computation] == ComputationKind::Global {
                for &id in &self.module.computation(computation).instructions {
                    let name = self
                        .module
                        .text()
                        .bytes(self.module.instruction_data(id).name);
                    names.entry(name).or_insert(id);
                }
            }
        }
        names
    }

    fn value_name(&self, value: ValueIndex) -> Box<str> {
        let position = self.dataflow.value(value).defining_position;
        let id = self.dataflow.positions.instruction(position);
        let instruction = self.module.instruction(id);
        match instruction.shape() {
            Shape::Tuple(_) => {
                let index = self.dataflow.positions.index(position);
                format!("{}{index}", instruction.name()).into()
            }
            _ => instruction.name().into(),
        }
    }

    /// The order the dump says, or that of the text.
    fn schedule(&self, names: &HashMap<&'a [u8], InstructionId>) -> Result<HloSchedule> {
        let Some(range) = &self.dump.live_range else {
            return Ok(HloSchedule::from_text_order(self.module));
        };
        let mut flat = Vec::with_capacity(range.instruction_sequence.len());
        for step in &range.instruction_sequence {
            let id = names.get(self.dump.bytes(step.instruction)).copied();
            flat.push(id.ok_or_else(|| {
                HloError::execution(format!(
                    "the assignment schedules `{}`, which the module does not have",
                    self.dump.str(step.instruction)
                ))
            })?);
        }
        let mut schedule = HloSchedule::from_flat_sequence(self.module, &flat);
        for id in self.module.computation_ids() {
            if self.kinds[id] == ComputationKind::Global && schedule.sequence(id).is_none() {
                schedule.set_sequence(id, Vec::new());
            }
        }
        Ok(schedule)
    }

    /// Where the dump puts each value.
    fn read_places(&mut self, names: &HashMap<&'a [u8], InstructionId>) -> Result<()> {
        for (block, allocation) in self.dump.allocations.iter().enumerate() {
            for assigned in self.dump.values_of(allocation) {
                let name = &assigned.name;
                let Some(&id) = names.get(self.dump.bytes(name.instruction)) else {
                    continue;
                };
                let index = self.dump.shape_index(name.index);
                let Some(position) = self.dataflow.positions.at(id, &index) else {
                    continue;
                };
                let Some(value) = self.dataflow.value_at(position) else {
                    continue;
                };
                if self.dataflow.value(value).defining_position != position {
                    continue;
                }
                let place = self.place(value, assigned.offset, assigned.size, allocation.size)?;
                let place = Place { block, ..place };
                let known = &mut self.places[value.0 as usize];
                if known.is_some_and(|known| known != place) {
                    return Err(HloError::execution(format!(
                        "the assignment has two places for `{}`",
                        self.value_name(value)
                    )));
                }
                *known = Some(place);
            }
        }
        Ok(())
    }

    /// The bytes a value needs at `offset`, checked against what it was given.
    fn place(&self, value: ValueIndex, offset: u64, given: u64, limit: u64) -> Result<Place> {
        let shape = self.dataflow.shape(value);
        let found = self.module.shapes().get(shape);
        let needed = match found.as_array() {
            Some(array) => array.byte_size().and_then(|n| u64::try_from(n).ok()),
            None => byte_size_of(self.module, shape),
        };
        let refuse = |what: String| {
            let name = self.value_name(value);
            Err(HloError::execution(format!(
                "the assignment puts `{name}` at byte {offset}: {what}"
            )))
        };
        let Some(needed) = needed else {
            return refuse("its size is not known".into());
        };
        if found.as_array().is_some() && byte_size_of(self.module, shape) != Some(needed) {
            let name = self.value_name(value);
            return Err(HloError::unsupported(
                format!("`{name}` packs several elements into a byte, which a replay does not do"),
                name,
            ));
        }
        if given < needed {
            return refuse(format!("it has {given} bytes there and needs {needed}"));
        }
        let Some(end) = offset.checked_add(needed).filter(|&end| end <= limit) else {
            return refuse(format!(
                "its {needed} bytes reach over the end of the allocation at {limit}"
            ));
        };
        let unit = found.as_array().map_or(1, |a| alignment(a.element_type));
        if !offset.is_multiple_of(unit) {
            return refuse(format!("its elements lie at multiples of {unit}"));
        }
        // An allocation's size fits in memory or the run says so.
        Ok(Place {
            block: 0,
            start: usize::try_from(offset).unwrap_or(usize::MAX),
            end: usize::try_from(end).unwrap_or(usize::MAX),
        })
    }

    pub(super) fn access(&mut self, value: ValueIndex, leaf: Option<usize>) -> Result<Access> {
        match self.places[value.0 as usize] {
            Some(place) => {
                self.used[place.block] = true;
                Ok(Access { value, place, leaf })
            }
            None => Err(HloError::execution(format!(
                "the assignment has no memory for `{}`",
                self.value_name(value)
            ))),
        }
    }

    pub(super) fn value_at(&self, position: PositionId) -> Result<ValueIndex> {
        self.dataflow.value_at(position).ok_or_else(|| {
            let id = self.dataflow.positions.instruction(position);
            let name = self.module.instruction(id).name();
            HloError::execution(format!("no value reaches `{name}`"))
        })
    }

    pub(super) fn array_at(&self, position: PositionId) -> Option<&'a ArrayShape> {
        let module: &'a HloModule = self.module;
        let shape = self.dataflow.positions.shape(position);
        module.shapes().get(shape).as_array()
    }

    /// The arrays of the entry's parameters or result, and their places.
    fn boundary(&mut self, ids: &[InstructionId], leaves: &[Leaf]) -> Result<Vec<Boundary>> {
        let mut found = Vec::new();
        let mut rest = leaves.iter().enumerate();
        for &id in ids {
            for position in self.dataflow.positions.of(id) {
                let Some(array) = self.array_at(position) else {
                    continue;
                };
                let Some((number, _)) = rest.find(|(_, leaf)| fits(array, leaf)) else {
                    let instruction = self.module.instruction(id);
                    return Err(unsupported(
                        instruction,
                        "a part of it is never made".into(),
                    ));
                };
                let value = self.value_at(position)?;
                found.push(Boundary {
                    access: self.access(value, Some(number))?,
                    shape: array.clone(),
                });
            }
        }
        Ok(found)
    }

    /// The constants that have memory, as they lie there.
    fn constants(&mut self) -> Result<Vec<(Access, Box<[u8]>)>> {
        let mut found = Vec::new();
        for computation in self.module.computation_ids() {
            if self.kinds[computation] != ComputationKind::Global {
                continue;
            }
            for &id in &self.module.computation(computation).instructions {
                let instruction = self.module.instruction(id);
                let (Some(literal), Some(array)) =
                    (instruction.literal(), instruction.array_shape())
                else {
                    continue;
                };
                let value = self.value_at(self.dataflow.positions.root(id))?;
                let Some(bytes) = literal.bytes() else {
                    return Err(elided_constant(instruction));
                };
                let access = self.access(value, None)?;
                found.push((access, laid_out(array, bytes)?));
            }
        }
        Ok(found)
    }

    fn steps(&mut self, order: &[InstructionId]) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        for &id in order {
            let instruction = self.module.instruction(id);
            match instruction.opcode() {
                HloOpcode::Parameter | HloOpcode::Constant => {}
                HloOpcode::While => steps.push(self.while_step(instruction)?),
                HloOpcode::Conditional => steps.push(self.conditional(instruction)?),
                HloOpcode::Call | HloOpcode::AsyncStart => steps.push(self.call(instruction)?),
                HloOpcode::Tuple => {
                    let tables = self.tables(id)?;
                    steps.extend(tables.into_iter().map(Step::Table));
                }
                HloOpcode::GetTupleElement => steps.extend(self.read_table(instruction)?),
                _ => {
                    if let Some(compute) = self.compute(instruction)? {
                        steps.push(Step::Compute(Box::new(compute)));
                    }
                }
            }
        }
        Ok(steps)
    }

    /// The tables of pointers an instruction writes.
    fn tables(&mut self, id: InstructionId) -> Result<Vec<Access>> {
        let mut tables = Vec::new();
        for position in self.dataflow.positions.of(id) {
            if self.array_at(position).is_none()
                && let Some(value) = self.defined_at(position)
                && self.places[value.0 as usize].is_some()
            {
                tables.push(self.access(value, None)?);
            }
        }
        Ok(tables)
    }

    fn read_table(&mut self, instruction: InstructionRef<'a>) -> Result<Option<Step>> {
        let operand = instruction.operand_ids().first().copied();
        let value = operand
            .map(|id| self.dataflow.positions.root(id))
            .and_then(|position| self.dataflow.value_at(position));
        match value.filter(|value| self.places[value.0 as usize].is_some()) {
            Some(value) => Ok(Some(Step::ReadTable {
                instruction: instruction.name().into(),
                table: self.access(value, None)?,
            })),
            None => Ok(None),
        }
    }

    /// The value that begins at a position.
    fn defined_at(&self, position: PositionId) -> Option<ValueIndex> {
        let value = self.dataflow.value_at(position)?;
        let found = self.dataflow.value(value);
        (found.defining_position == position && !found.is_phi).then_some(value)
    }

    fn compute(&mut self, instruction: InstructionRef<'a>) -> Result<Option<Compute>> {
        let id = instruction.id;
        let positions = self.dataflow.positions.of(id);
        let defines = |position: PositionId| {
            self.array_at(position).is_some() && self.defined_at(position).is_some()
        };
        if !positions.into_iter().any(defines) {
            return Ok(None);
        }
        let extracted = extract(self.module, id)?;
        let options = CompileOptions {
            replicas: 1,
            partitions: 1,
            ..self.options.clone()
        };
        let executable = plan::compile(&verify(&extracted.module)?, &options)?;
        let (reads, read_positions) = self.reads(instruction, &extracted)?;
        let (writes, written_positions) = self.writes(instruction, &extracted, &executable)?;
        let mut staged = vec![false; executable.outputs().len()];
        let mut conflict = None;
        for (k, write) in writes.iter().enumerate() {
            for (read, &from) in reads.iter().zip(&read_positions) {
                if !read.place.overlaps(&write.place) {
                    continue;
                }
                if let Some(leaf) = write.leaf {
                    staged[leaf] = true;
                }
                let overlap = Overlap {
                    instruction: id,
                    read: (from, read.value, read.place),
                    written: (written_positions[k], write.value, write.place),
                };
                if !is_allowed(self.module, &self.dataflow, &self.alias, &overlap) {
                    conflict.get_or_insert_with(|| self.conflict(instruction, &overlap));
                }
            }
            let others = writes[..k].iter().chain(&writes[k + 1..]);
            if let Some(leaf) = write.leaf
                && others.clone().any(|w| w.place.overlaps(&write.place))
            {
                staged[leaf] = true;
            }
        }
        Ok(Some(Compute {
            id,
            instruction: instruction.name().into(),
            reads,
            writes,
            tables: self.tables(id)?,
            staged,
            conflict,
            executable,
        }))
    }

    fn conflict(&self, instruction: InstructionRef<'_>, overlap: &Overlap) -> Box<str> {
        let ((_, read, place), (_, written, over)) = (overlap.read, overlap.written);
        format!(
            "`{}` overwrites `{}` (bytes {}-{} of allocation {}) with its result `{}` (bytes {}-{}) \
             while it reads it",
            instruction.name(),
            self.value_name(read),
            place.start,
            place.end,
            self.dump.allocations[place.block].index,
            self.value_name(written),
            over.start,
            over.end
        )
        .into()
    }

    /// What an instruction reads, each array once.
    fn reads(
        &mut self,
        instruction: InstructionRef<'a>,
        extracted: &Extracted,
    ) -> Result<(Vec<Access>, Vec<PositionId>)> {
        let (mut reads, mut at) = (Vec::new(), Vec::new());
        for (leaf, (operand, index)) in extracted.parameters.iter().enumerate() {
            let id = instruction.operand_ids()[*operand];
            let Some(position) = self.dataflow.positions.at(id, index) else {
                continue;
            };
            let value = self.value_at(position)?;
            reads.push(self.access(value, Some(leaf))?);
            at.push(position);
        }
        // Constants that were taken along are read all the same.
        for &id in instruction.operand_ids() {
            let position = self.dataflow.positions.root(id);
            if self.array_at(position).is_some() && !at.contains(&position) {
                let value = self.value_at(position)?;
                reads.push(self.access(value, None)?);
                at.push(position);
            }
        }
        Ok((reads, at))
    }

    fn writes(
        &mut self,
        instruction: InstructionRef<'a>,
        extracted: &Extracted,
        executable: &Executable,
    ) -> Result<(Vec<Access>, Vec<PositionId>)> {
        let (mut writes, mut at) = (Vec::new(), Vec::new());
        let mut rest = executable.outputs().iter().enumerate().peekable();
        for index in &extracted.results {
            let Some(position) = self.dataflow.positions.at(instruction.id, index) else {
                continue;
            };
            let Some(array) = self.array_at(position) else {
                continue;
            };
            // Workspaces are never made, so their arrays are not among the outputs.
            let leaf = rest
                .next_if(|(_, leaf)| {
                    Some(leaf.byte_size()) == array.byte_size()
                        && leaf.element_type == array.element_type
                })
                .map(|(leaf, _)| leaf);
            match self.defined_at(position) {
                Some(value) => {
                    writes.push(self.access(value, leaf)?);
                    at.push(position);
                }
                None if leaf.is_some() => {
                    let what =
                        "it passes a part of an operand on, which a replay cannot tell apart";
                    return Err(unsupported(instruction, what.into()));
                }
                None => {}
            }
        }
        if rest.next().is_some() {
            return Err(unsupported(
                instruction,
                "its results alone are not those of its shape".into(),
            ));
        }
        Ok((writes, at))
    }
}

/// Bytes at whose multiples elements lie.
fn alignment(ty: PrimitiveType) -> u64 {
    ty.size_bytes().clamp(1, 8) as u64
}

/// Whether an array of the plan is one of this shape.
fn fits(shape: &ArrayShape, leaf: &Leaf) -> bool {
    shape.element_type == leaf.element_type && shape.dims == leaf.dims
}

/// Row-major bytes in the order of the shape's layout.
fn laid_out(shape: &ArrayShape, bytes: &[u8]) -> Result<Box<[u8]>> {
    if shape.byte_size() != Some(bytes.len()) {
        return Err(HloError::execution(format!(
            "{} bytes for a constant of shape {shape}",
            bytes.len()
        )));
    }
    let mut out = vec![0u8; bytes.len()];
    let array = |pointer: *mut u8, strides| RawArray {
        pointer,
        element_type: shape.element_type,
        dims: shape.dims.clone(),
        strides,
    };
    let source = array(
        bytes.as_ptr().cast_mut(),
        RawArray::row_major_strides(&shape.dims),
    );
    source.copy_to(&array(out.as_mut_ptr(), shape.strides()));
    Ok(out.into())
}
