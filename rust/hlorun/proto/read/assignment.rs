//! `BufferAssignmentProto` → the text of a buffer-assignment dump, which is parsed as any other.

use std::rc::Rc;

use foldhash::{HashMap, HashSet};
use prost::Message;
use prost::bytes::Bytes;

use super::Writer;
use crate::error::Result;
use crate::proto::schema::{
    BufferAllocationProto, BufferAssignmentProto, HloComputationProto, HloModuleProto,
    LogicalBufferProto, ShapeProto,
};
use crate::text::ParseOptions;

/// The dump that `assignment`, of a proto of `size` bytes, is.
pub fn assignment_text(
    module: &HloModuleProto,
    assignment: &BufferAssignmentProto,
    size: usize,
    options: &ParseOptions,
) -> Result<String> {
    let mut writer = Assignment {
        writer: Writer::new(size, options),
        instructions: HashMap::default(),
        parameters: HashMap::default(),
        tuples: HashMap::default(),
        root: -1,
        loops: HashSet::default(),
        computations: HashMap::default(),
    };
    writer.read_module(module)?;
    let buffers: HashMap<i64, &LogicalBufferProto> = assignment
        .logical_buffers
        .iter()
        .map(|buffer| (buffer.id, buffer))
        .collect();
    writer.writer.out.push_str("BufferAssignment:\n");
    let mut total: i64 = 0;
    for allocation in &assignment.buffer_allocations {
        writer.allocation(allocation, &buffers)?;
        total = total.saturating_add(allocation.size);
    }
    writer
        .writer
        .put(format_args!("\nTotal bytes used: {total}\n"));
    Ok(writer.writer.out)
}

/// What is needed of an instruction.
#[derive(Clone, PartialEq, Message)]
struct Head {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    opcode: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    shape: Bytes,
    #[prost(int64, tag = "9")]
    parameter_number: i64,
    #[prost(int64, tag = "35")]
    id: i64,
    #[prost(int64, repeated, tag = "38")]
    called_computation_ids: Vec<i64>,
}

struct Assignment<'o> {
    writer: Writer<'o>,
    /// Instructions of all computations by id.
    instructions: HashMap<i64, Head>,
    /// Shapes of elements, by the bytes of the shapes of tuples.
    tuples: HashMap<Bytes, Rc<[Bytes]>>,
    /// The instruction whose value the module returns.
    root: i64,
    /// Computations that loops call.
    loops: HashSet<i64>,
    /// The computations of instructions.
    computations: HashMap<i64, i64>,
    /// Shapes of the entry computation's parameters by number.
    parameters: HashMap<i64, Bytes>,
}

impl Assignment<'_> {
    fn read_module(&mut self, module: &HloModuleProto) -> Result<()> {
        for bytes in &module.computations {
            let computation: HloComputationProto =
                self.writer.decode(bytes.clone(), "HloComputationProto")?;
            let is_entry = computation.id == module.entry_computation_id;
            if is_entry {
                self.root = computation.root_id;
            }
            for bytes in &computation.instructions {
                let head: Head = self.writer.decode(bytes.clone(), "HloInstructionProto")?;
                if &head.opcode[..] == b"while" {
                    self.loops.extend(&head.called_computation_ids);
                }
                self.computations.insert(head.id, computation.id);
                if is_entry && &head.opcode[..] == b"parameter" {
                    self.parameters
                        .insert(head.parameter_number, head.shape.clone());
                }
                self.instructions.insert(head.id, head);
            }
        }
        Ok(())
    }

    fn allocation(
        &mut self,
        allocation: &BufferAllocationProto,
        buffers: &HashMap<i64, &LogicalBufferProto>,
    ) -> Result<()> {
        self.writer.check_length()?;
        let (index, size) = (allocation.index, allocation.size);
        self.writer
            .put(format_args!("allocation {index}: size {size}"));
        if allocation.color != 0 {
            self.writer
                .put(format_args!(", color {}", allocation.color));
        }
        if allocation.is_entry_computation_parameter {
            self.parameter(allocation)?;
        }
        self.output(allocation, buffers)?;
        let is_temporary = !(allocation.is_entry_computation_parameter
            || allocation.maybe_live_out
            || allocation.is_thread_local
            || allocation.is_constant);
        for (is_set, name) in [
            (allocation.is_constant, ", constant"),
            (allocation.is_thread_local, ", thread-local"),
            (allocation.maybe_live_out, ", maybe-live-out"),
            (is_temporary, ", preallocated-temp"),
        ] {
            if is_set {
                self.writer.out.push_str(name);
            }
        }
        self.writer.out.push_str(":\n");
        for assigned in &allocation.assigned {
            let id = assigned.logical_buffer_id;
            let Some(buffer) = buffers.get(&id) else {
                return Err(self.writer.fault(format!(
                    "allocation {index} holds the logical buffer {id}, which is not there"
                )));
            };
            self.value(buffer, assigned.size, assigned.offset)?;
        }
        Ok(())
    }

    /// The shape of the result, where the allocation holds it.
    fn output(
        &mut self,
        allocation: &BufferAllocationProto,
        buffers: &HashMap<i64, &LogicalBufferProto>,
    ) -> Result<()> {
        let places = allocation.assigned.iter().filter_map(|assigned| {
            let buffer = buffers.get(&assigned.logical_buffer_id)?;
            buffer.defined_at.as_deref()
        });
        let holds_result = places
            .filter(|place| place.instruction_id == self.root)
            .any(|place| place.shape_index.is_empty());
        let shape = self
            .instructions
            .get(&self.root)
            .map(|head| head.shape.clone());
        if let Some(shape) = shape.filter(|_| holds_result) {
            self.writer.out.push_str(", output shape is |");
            self.writer.put_shape(&shape)?;
            self.writer.out.push('|');
        }
        Ok(())
    }

    fn parameter(&mut self, allocation: &BufferAllocationProto) -> Result<()> {
        let number = allocation.parameter_number;
        let index = &allocation.parameter_shape_index;
        self.writer.put(format_args!(", parameter {number}"));
        if let Some(shape) = self.parameters.get(&number).cloned() {
            let shape = self.part(shape, index)?;
            self.writer.out.push_str(", shape |");
            self.writer.put_shape(&shape)?;
            self.writer.out.push('|');
        }
        self.writer.out.push_str(" at ShapeIndex {");
        self.writer.put_list(index);
        self.writer.out.push('}');
        Ok(())
    }

    fn value(&mut self, buffer: &LogicalBufferProto, size: i64, offset: i64) -> Result<()> {
        self.writer.check_length()?;
        let place = buffer.defined_at.clone().unwrap_or_default();
        let Some(head) = self.instructions.get(&place.instruction_id) else {
            return Err(self.writer.fault(format!(
                "logical buffer {} is defined at instruction {}, which is not there",
                buffer.id, place.instruction_id
            )));
        };
        let (name, whole) = (head.name.clone(), head.shape.clone());
        let is_tuple = !place.shape_index.is_empty() || { !self.parts(&whole)?.is_empty() };
        self.writer.put(format_args!(" value: <{} ", buffer.id));
        self.writer.put_name(&name, "an instruction")?;
        if is_tuple {
            self.writer.out.push('{');
            self.writer.put_list(&place.shape_index);
            self.writer.out.push('}');
        }
        if self.is_phi(place.instruction_id) {
            self.writer.out.push_str(" (phi)");
        }
        let color = buffer.color;
        self.writer
            .put(format_args!(" @{color}> (size={size},offset={offset}): "));
        let shape = self.part(whole, &place.shape_index)?;
        self.writer.put_shape(&shape)?;
        self.writer.out.push('\n');
        Ok(())
    }

    /// Whether a value defined at an instruction joins several, which the proto does not say: results of
    /// loops and conditionals, and what a loop passes to its computations.
    fn is_phi(&self, instruction: i64) -> bool {
        let opcode = self
            .instructions
            .get(&instruction)
            .map(|head| &head.opcode[..]);
        match opcode {
            Some(b"while" | b"conditional") => true,
            Some(b"parameter") => {
                let computation = self.computations.get(&instruction);
                computation.is_some_and(|id| self.loops.contains(id))
            }
            _ => false,
        }
    }

    /// The shapes of a tuple's elements, decoded once: many values are parts of one tuple.
    fn parts(&mut self, shape: &Bytes) -> Result<Rc<[Bytes]>> {
        if let Some(parts) = self.tuples.get(shape) {
            return Ok(parts.clone());
        }
        let whole: ShapeProto = self.writer.decode(shape.clone(), "ShapeProto")?;
        let parts: Rc<[Bytes]> = whole.tuple_shapes.into();
        self.tuples.insert(shape.clone(), parts.clone());
        Ok(parts)
    }

    /// The part of a shape at `index`.
    fn part(&mut self, mut shape: Bytes, index: &[i64]) -> Result<Bytes> {
        for &at in index {
            let parts = self.parts(&shape)?;
            let part = usize::try_from(at).ok();
            let part = part.and_then(|at| parts.get(at).cloned());
            shape = part.ok_or_else(|| {
                let message = format!("the shape index {index:?} leads to no part of its shape");
                self.writer.fault(message)
            })?;
        }
        Ok(shape)
    }
}
