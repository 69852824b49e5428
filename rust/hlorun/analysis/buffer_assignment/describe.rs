//! An assignment in memory → the dump XLA would write of it.

use super::assign::{Analyses, Assigned};
use super::check::human_readable_bytes;
use super::model::*;
use crate::analysis::dataflow::{self, PositionId, ValueIndex};
use crate::module::{InstructionId, ModuleText, PoolRange, TextRef};
use crate::text::printer::{PrintOptions, print_instruction};
use crate::types::{Shape, ShapeIndex, ShapeStyle};
use foldhash::HashMap;

struct Writer<'a, 'm> {
    of: &'a Analyses<'m>,
    dump: BufferAssignmentDump,
    names: HashMap<InstructionId, TextRef>,
    texts: HashMap<InstructionId, TextRef>,
    indices: HashMap<ShapeIndex, TextRef>,
}

/// Describes `allocations` in the form of one file of 2025.
pub(super) fn describe(of: &Analyses<'_>, allocations: Vec<Assigned>) -> BufferAssignmentDump {
    let mut writer = Writer {
        of,
        dump: BufferAssignmentDump {
            text: ModuleText::default(),
            style: DumpStyle {
                sections: [
                    (SectionKind::Allocations, 0),
                    (SectionKind::Total, 1),
                    (SectionKind::UsedValues, 1),
                    (SectionKind::LiveRange, 2),
                ]
                .into_iter()
                .map(|(kind, blank_before)| Section {
                    kind,
                    blank_before,
                    file: 0,
                })
                .collect(),
                tails: vec![Some(0)],
                space_before_instruction: true,
                cumulative_peak: true,
                ..DumpStyle::default()
            },
            ..BufferAssignmentDump::default()
        },
        names: HashMap::default(),
        texts: HashMap::default(),
        indices: HashMap::default(),
    };
    let mut used: Vec<ValueIndex> = Vec::new();
    let mut total = 0u64;
    for (index, allocation) in allocations.into_iter().enumerate() {
        total = total.saturating_add(allocation.size);
        used.extend(allocation.values.iter().map(|pair| pair.0));
        writer.allocation(index as u32, allocation);
    }
    let human = writer.add(&human_readable_bytes(total));
    writer.dump.total = Some(TotalBytes {
        bytes: total,
        human,
    });
    used.sort_unstable();
    used.into_iter().for_each(|value| writer.used_value(value));
    writer.live_range();
    writer.dump
}

impl Writer<'_, '_> {
    fn add(&mut self, text: &str) -> TextRef {
        self.dump.text.add(text.as_bytes())
    }

    fn name(&mut self, id: InstructionId) -> TextRef {
        if let Some(&name) = self.names.get(&id) {
            return name;
        }
        let name = self.of.module.instruction(id).name().into_owned();
        let name = self.add(&name);
        self.names.insert(id, name);
        name
    }

    /// `{0,1}`; nothing for what is no tuple.
    fn index(&mut self, position: PositionId) -> TextRef {
        let positions = &self.of.dataflow.positions;
        let id = positions.instruction(position);
        match self.of.module.instruction(id).shape() {
            Shape::Tuple(_) => self.braced(position),
            _ => TextRef::default(),
        }
    }

    fn braced(&mut self, position: PositionId) -> TextRef {
        let index = self.of.dataflow.positions.index(position);
        if let Some(&text) = self.indices.get(&index) {
            return text;
        }
        let text = self.add(&index.to_string());
        self.indices.insert(index, text);
        text
    }

    fn shape(&mut self, position: PositionId, style: ShapeStyle) -> TextRef {
        let shape = self.of.dataflow.positions.shape(position);
        let text = self.of.module.shapes().display(shape, style).to_string();
        self.add(&text)
    }

    fn value_name(&mut self, value: ValueIndex) -> ValueName {
        let found = self.of.dataflow.value(value);
        let position = found.defining_position;
        ValueName {
            id: found.id,
            color: 0,
            instruction: self.name(self.of.dataflow.positions.instruction(position)),
            index: self.index(position),
            is_phi: found.is_phi,
        }
    }

    fn bytes(&self, value: ValueIndex) -> u64 {
        let shape = self.of.dataflow.shape(value);
        dataflow::byte_size_of(self.of.module, shape).unwrap_or(0)
    }

    fn allocation(&mut self, index: u32, mut allocation: Assigned) {
        allocation.values.sort_unstable();
        let start = self.dump.assigned.len() as u32;
        let root = self.of.module.entry_computation().and_then(|(_, e)| e.root);
        let top = root.map(|root| self.of.dataflow.positions.root(root));
        let result = top.and_then(|top| self.of.dataflow.value_at(top));
        let mut holds_result = false;
        for &(value, offset) in &allocation.values {
            holds_result |= Some(value) == result;
            let name = self.value_name(value);
            let position = self.of.dataflow.value(value).defining_position;
            let shape = self.shape(position, ShapeStyle::CANONICAL);
            let size = self.bytes(value);
            self.dump.assigned.push(AssignedValue {
                name,
                size,
                offset,
                shape,
            });
        }
        let parameter = allocation.parameter.take().map(|(number, index)| {
            let id = self
                .of
                .module
                .entry_computation()
                .and_then(|(_, entry)| entry.parameters.get(number as usize).copied());
            let position = id.and_then(|id| self.of.dataflow.positions.at(id, &index));
            AllocationParameter {
                number,
                shape: position
                    .map(|p| self.shape(p, ShapeStyle::LOGICAL))
                    .unwrap_or_default(),
                index: self.add(&index.to_string()),
            }
        });
        let output_shape = match (holds_result, top) {
            (true, Some(top)) => Some(self.shape(top, ShapeStyle::LOGICAL)),
            _ => None,
        };
        self.dump.allocations.push(BufferAllocation {
            index,
            address: TextRef::default(),
            size: allocation.size,
            color: 0,
            page: None,
            parameter,
            output_shape,
            flags: allocation.flags,
            other: TextRef::default(),
            values: PoolRange {
                start,
                len: self.dump.assigned.len() as u32 - start,
            },
            text: TextRef::default(),
        });
    }

    fn used_value(&mut self, value: ValueIndex) {
        let of = self.of;
        let name = self.value_name(value);
        let positions_start = self.dump.positions.len() as u32;
        for &position in of.dataflow.positions_of(value) {
            let listing = ValuePosition {
                instruction: self.name(of.dataflow.positions.instruction(position)),
                index: self.index(position),
            };
            self.dump.positions.push(listing);
        }
        let uses_start = self.dump.uses.len() as u32;
        for used in of.dataflow.uses_of(value) {
            let listing = ValueUse {
                instruction: self.name(used.instruction),
                operand: used.operand,
                index: self.index(used.position),
            };
            self.dump.uses.push(listing);
        }
        let id = of.dataflow.defining_instruction(value);
        let from_instruction = match self.texts.get(&id) {
            Some(&text) => text,
            None => {
                let line = print_instruction(of.module, id, &PrintOptions::default());
                let text = self.add(&line);
                self.texts.insert(id, text);
                text
            }
        };
        self.dump.used_values.push(HloValueEntry {
            name,
            positions: PoolRange {
                start: positions_start,
                len: self.dump.positions.len() as u32 - positions_start,
            },
            uses: PoolRange {
                start: uses_start,
                len: self.dump.uses.len() as u32 - uses_start,
            },
            from_instruction,
        });
    }

    fn live_range(&mut self) {
        let of = self.of;
        let mut range = HloLiveRangeDump {
            max: of.live.end_time(),
            ..HloLiveRangeDump::default()
        };
        for (moment, &id) in of.live.sequence().iter().enumerate() {
            range.instruction_sequence.push(ScheduledInstruction {
                moment: moment as u32,
                instruction: self.name(id),
            });
        }
        let peak = of.live.peak_moment(of.module, &of.dataflow);
        let mut live_values = Vec::new();
        for value in of.dataflow.indices() {
            let Some(bound) = of.live.range(value) else {
                continue;
            };
            let position = of.dataflow.value(value).defining_position;
            let entry = BufferLiveRange {
                instruction: self.name(of.dataflow.positions.instruction(position)),
                index: self.braced(position),
                start: bound.start,
                end: bound.end,
            };
            range.buffer_live_ranges.push(entry);
            if peak.is_some_and(|peak| bound.start <= peak && peak <= bound.end) {
                let id = of.dataflow.positions.instruction(position);
                let name = of.module.instruction(id).name();
                let index = of.dataflow.positions.index(position);
                live_values.push((std::cmp::Reverse(self.bytes(value)), name, index, entry));
            }
        }
        live_values.sort_by(|a, b| (a.0, &a.1, &a.2).cmp(&(b.0, &b.1, &b.2)));
        range.peak_moment = peak;
        let mut sum = 0u64;
        for (bytes, _, _, entry) in live_values {
            sum = sum.saturating_add(bytes.0);
            range.peak_values.push(PeakValue {
                instruction: entry.instruction,
                index: entry.index,
                bytes: bytes.0,
                cumulative: Some(sum),
            });
        }
        if peak.is_none() {
            let text = "  Peak memory could not be determined due to unbounded dynamic shape.";
            range.peak_unknown = self.add(text);
        }
        self.dump.live_range = Some(range);
    }
}
