//! Module → `HloModuleProto`.

mod attributes;
mod instruction;
pub mod literal;
mod shape;
mod sharding;

use prost::Message;
use prost::bytes::Bytes;

use super::schema::*;
use crate::error::{HloError, Result};
use crate::module::config::AliasKind;
use crate::module::metadata::read_map;
use crate::module::{ComputationId, HloModule, HloOpcode, Id, IdMap, InstructionId};
use crate::text::printer::{
    StackFrames, UniqueNames, callees, computation_order, instruction_order, unescape,
};
use crate::types::{ShapeId, ShapeIndex};

/// What is being written, and the numbers things have in the proto.
pub(super) struct Writer<'m> {
    pub module: &'m HloModule,
    pub frames: StackFrames,
    /// Names that proto readers want to be unique in the module.
    pub names: UniqueNames,
    /// Numbers of instructions: that of the computation above, the position in it below.
    pub ids: IdMap<InstructionId, i64>,
    /// Shapes that are written already.
    shapes: Vec<Option<Bytes>>,
}

/// The module as an `HloModuleProto`.
///
/// # Errors
/// [`crate::HloError::Unsupported`] for what a proto has no field for.
pub fn write_module(module: &HloModule) -> Result<Vec<u8>> {
    let mut writer = Writer {
        module,
        frames: StackFrames::new(module),
        names: UniqueNames::new(module),
        ids: IdMap::new(module.instruction_count(), -1),
        shapes: vec![None; module.shapes().len()],
    };
    Ok(writer.module()?.encode_to_vec())
}

/// The number of a computation.
pub(super) fn computation_number(id: ComputationId) -> i64 {
    id.index() as i64 + 1
}

pub(super) fn index_numbers(index: &ShapeIndex) -> Vec<i64> {
    index.0.to_vec()
}

impl Writer<'_> {
    fn module(&mut self) -> Result<HloModuleProto> {
        let module = self.module;
        let config = &module.config;
        let mut proto = HloModuleProto {
            name: self.text(module.name),
            host_program_shape: self.program_shape(module.entry, true),
            ..HloModuleProto::default()
        };
        if let Some((id, entry)) = module.entry_computation() {
            proto.entry_computation_id = computation_number(id);
            proto.entry_computation_name = self.computation_name(id, entry.name);
        }
        self.computations(&mut proto)?;
        let aliases = config.input_output_alias.iter();
        let aliases = aliases.map(|alias| AliasEntryProto {
            output_shape_index: index_numbers(&alias.output),
            parameter_number: alias.parameter,
            parameter_shape_index: index_numbers(&alias.parameter_index),
            kind: match alias.kind {
                AliasKind::MustAlias => 2,
                AliasKind::MayAlias => 1,
            },
        });
        proto.input_output_alias = Some(Box::new(HloInputOutputAliasProto {
            entries: aliases.collect(),
        }));
        let donors = config.buffer_donor.iter();
        let donors = donors.map(|donor| BufferDonorEntryProto {
            parameter_number: donor.parameter,
            parameter_shape_index: index_numbers(&donor.parameter_index),
        });
        proto.buffer_donor = Some(Box::new(HloBufferDonorProto {
            entries: donors.collect(),
        }));
        if config.replica_count.is_some() || config.num_partitions.is_some() {
            proto.device_assignment = Some(Box::new(self.devices()));
        }
        for &(key, value) in &config.attributes {
            if module.text().bytes(key) == b"frontend_attributes" {
                let text = module.text().bytes(value);
                self.require_unicode(&unescape(text), || String::from("the header"))?;
                proto.frontend_attributes = self.frontend_attributes(text);
            }
        }
        proto.stack_frame_index = self.stack_frames()?;
        Ok(proto)
    }

    /// Numbers all instructions, then writes the computations and, of a scheduled module, the schedule.
    fn computations(&mut self, proto: &mut HloModuleProto) -> Result<()> {
        let module = self.module;
        let mut is_fused = IdMap::new(module.computation_count(), false);
        let mut orders = Vec::new();
        for id in computation_order(module, false) {
            let order = instruction_order(module, id);
            for (at, &instruction) in order.iter().enumerate() {
                self.ids[instruction] = computation_number(id) << 32 | at as i64;
                let instruction = module.instruction(instruction);
                if instruction.opcode() == HloOpcode::Fusion {
                    for callee in callees(instruction) {
                        is_fused[callee] = true;
                    }
                }
            }
            orders.push((id, order));
        }
        let mut sequences = Vec::new();
        for (id, order) in orders {
            let is_fusion = is_fused[id];
            let computation = self.computation(id, &order, is_fusion)?;
            proto
                .computations
                .push(Bytes::from(computation.encode_to_vec()));
            if module.config.is_scheduled && !is_fusion {
                let scheduled = &module.computation(id).instructions;
                let instruction_ids = scheduled.iter().map(|&id| self.id(id)).collect();
                sequences.push(SequenceEntry {
                    key: computation_number(id),
                    value: Some(InstructionSequence { instruction_ids }),
                });
            }
        }
        if !sequences.is_empty() {
            sequences.sort_by_key(|entry| entry.key);
            proto.schedule = Some(Box::new(HloScheduleProto { sequences }));
        }
        Ok(())
    }

    /// Devices numbered replica by replica.
    fn devices(&self) -> DeviceAssignmentProto {
        let count = |count: Option<i64>| count.unwrap_or(1).clamp(1, 1 << 20) as i32;
        let config = &self.module.config;
        let (replicas, partitions) = (count(config.replica_count), count(config.num_partitions));
        let device = |partition: i32| ComputationDevice {
            replica_device_ids: (0..replicas)
                .map(|replica| i64::from(replica) * i64::from(partitions) + i64::from(partition))
                .collect(),
        };
        DeviceAssignmentProto {
            replica_count: replicas,
            computation_count: partitions,
            computation_devices: (0..partitions).map(device).collect(),
        }
    }

    fn stack_frames(&self) -> Result<Option<Box<StackFrameIndexProto>>> {
        let tables = self.frames.tables();
        if tables.frames.is_empty() {
            return Ok(None);
        }
        let names = |names: &[Vec<u8>], what: &str| {
            let each = names.iter().map(|name| {
                self.require_unicode(name, || format!("the name of a {what} in a stack frame"))?;
                Ok(Bytes::from(name.clone()))
            });
            each.collect::<Result<_>>()
        };
        Ok(Some(Box::new(StackFrameIndexProto {
            file_names: names(&tables.files, "file")?,
            function_names: names(&tables.functions, "function")?,
            file_locations: tables
                .locations
                .iter()
                .map(|place| FileLocation {
                    file_name_id: place.file as i32,
                    function_name_id: place.function as i32,
                    line: place.line as i32,
                    column: place.column as i32,
                    end_line: place.end_line as i32,
                    end_column: place.end_column as i32,
                })
                .collect(),
            stack_frames: tables
                .frames
                .iter()
                .map(|frame| StackFrame {
                    file_location_id: frame.location as i32,
                    parent_frame_id: frame.parent as i32,
                })
                .collect(),
        })))
    }

    /// Fields of protos that are no `bytes` hold UTF-8 alone.
    ///
    /// # Errors
    /// `text` is something else; `what` says where it stands.
    fn require_unicode(&self, text: &[u8], what: impl FnOnce() -> String) -> Result<()> {
        if std::str::from_utf8(text).is_ok() {
            return Ok(());
        }
        let message = format!(
            "{} has bytes that are no UTF-8, which a proto cannot hold",
            what()
        );
        Err(HloError::unsupported(message, ""))
    }

    fn computation(
        &mut self,
        id: ComputationId,
        order: &[InstructionId],
        is_fusion_computation: bool,
    ) -> Result<HloComputationProto> {
        let computation = self.module.computation(id);
        let mut proto = HloComputationProto {
            name: self.computation_name(id, computation.name),
            id: computation_number(id),
            root_id: computation.root.map_or(0, |root| self.id(root)),
            is_fusion_computation,
            execution_thread: Bytes::from_static(b"main"),
            program_shape: self.program_shape(Some(id), false),
            ..HloComputationProto::default()
        };
        if let Some(thread) = computation.execution_thread {
            let thread = unescape(self.module.text().bytes(thread));
            self.require_unicode(&thread, || {
                let name = self.module.str(computation.name);
                format!("the execution thread of %{name}")
            })?;
            proto.execution_thread = Bytes::from(thread);
        }
        for &instruction in order {
            let written = self.instruction(self.module.instruction(instruction))?;
            proto
                .instructions
                .push(Bytes::from(written.encode_to_vec()));
        }
        Ok(proto)
    }

    /// Shapes of parameters and result; of the entry, those of the header where it has them.
    fn program_shape(
        &mut self,
        id: Option<ComputationId>,
        host: bool,
    ) -> Option<Box<ProgramShapeProto>> {
        let module = self.module;
        let computation = module.computation(id?);
        let mut parameters: Vec<ShapeId> = computation
            .parameters
            .iter()
            .map(|&parameter| module.instruction(parameter).shape_id())
            .collect();
        let mut result = module.instruction(computation.root?).shape_id();
        if host && let Some(layout) = &module.config.entry_computation_layout {
            parameters.clone_from(&layout.parameters);
            result = layout.result;
        }
        let names = computation.parameters.iter();
        Some(Box::new(ProgramShapeProto {
            parameters: parameters.into_iter().map(|id| self.shape(id)).collect(),
            result: Some(self.shape(result)),
            parameter_names: names.map(|&parameter| self.name(parameter)).collect(),
        }))
    }

    pub fn frontend_attributes(&self, text: &[u8]) -> Option<Box<FrontendAttributes>> {
        let entries = read_map(text).into_iter().map(|(key, value)| MapEntry {
            key: Bytes::from(key),
            value: Bytes::from(value),
        });
        let mut map: Vec<MapEntry> = entries.collect();
        map.sort_by(|a, b| a.key.cmp(&b.key));
        Some(Box::new(FrontendAttributes { map }))
    }

    pub fn text(&self, text: crate::module::TextRef) -> Bytes {
        Bytes::copy_from_slice(self.module.text().bytes(text))
    }

    /// The name of an instruction.
    pub fn name(&self, id: InstructionId) -> Bytes {
        match self.names.instruction(id) {
            Some(name) => Bytes::copy_from_slice(name.as_bytes()),
            None => self.text(self.module.instruction(id).data().name),
        }
    }

    fn computation_name(&self, id: ComputationId, text: crate::module::TextRef) -> Bytes {
        match self.names.computation(id) {
            Some(name) => Bytes::copy_from_slice(name.as_bytes()),
            None => self.text(text),
        }
    }

    /// The number of an instruction.
    pub fn id(&self, id: InstructionId) -> i64 {
        self.ids[id]
    }
}
