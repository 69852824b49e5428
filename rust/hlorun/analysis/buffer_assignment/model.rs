//! What a buffer-assignment dump says: allocations, values, schedule, live ranges, reports.
//!
//! Names, shapes and instructions stay pieces of the text, eight bytes each, so a dump of several
//! hundred megabytes costs about its own size again. Lists of all allocations and values lie in
//! pools of the dump; records hold ranges into them.

use std::borrow::Cow;

use crate::module::{ModuleText, PoolRange, TextRef};
use crate::types::ShapeIndex;

/// Everything one dump, or the several files of one dump, says.
#[derive(Clone, Debug, Default)]
pub struct BufferAssignmentDump {
    /// The bytes all [`TextRef`]s point into.
    pub text: ModuleText,
    /// Allocations, in the order of the text.
    pub allocations: Vec<BufferAllocation>,
    /// Values of all allocations; see [`BufferAllocation::values`].
    pub assigned: Vec<AssignedValue>,
    /// `Total bytes used: N (human)`.
    pub total: Option<TotalBytes>,
    /// `Used values:`.
    pub used_values: Vec<HloValueEntry>,
    /// Positions of all used values.
    pub positions: Vec<ValuePosition>,
    /// Uses of all used values.
    pub uses: Vec<ValueUse>,
    /// `HloLiveRange`.
    pub live_range: Option<HloLiveRangeDump>,
    /// `-memory-usage-report.txt`, line by line.
    pub report: Vec<super::report::ReportLine>,
    /// `BufferAssignment OOM Debugging.`, line by line.
    pub oom: Vec<super::report::OomLine>,
    /// How the text was laid out, for printing.
    pub style: DumpStyle,
}

/// The parts a dump consists of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SectionKind {
    /// `BufferAssignment:` and its allocations.
    Allocations,
    /// Allocations without the heading, as in excerpts.
    BareAllocations,
    /// `Total bytes used:`.
    Total,
    /// `Used values:`.
    UsedValues,
    /// `HloLiveRange (max N):`.
    LiveRange,
    /// A memory-usage report.
    Report,
    /// `BufferAssignment OOM Debugging.`
    Oom,
}

/// One part of a dump and what stands before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Section {
    /// Which part.
    pub kind: SectionKind,
    /// Empty lines before it.
    pub blank_before: u32,
    /// Which of the files it stands in, from 0.
    pub file: u32,
}

/// The years' differences in how the same facts are laid out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DumpStyle {
    /// The parts in order.
    pub sections: Vec<Section>,
    /// Empty lines at the end of each file; `None` when its last line has no line end.
    pub tails: Vec<Option<u32>>,
    /// Lines end in `\r\n`.
    pub crlf: bool,
    /// ` from instruction: %x`, with a space (2023 and later).
    pub space_before_instruction: bool,
    /// The next value follows the instruction on its line (2023 and 2024).
    pub no_line_after_instruction: bool,
    /// `  (none)` for a value without uses (2026).
    pub uses_none_marker: bool,
    /// Peak lines carry `(cumulative: N bytes)` and an index (2025 and later).
    pub cumulative_peak: bool,
}

/// `Total bytes used: 525448 (513.1KiB)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TotalBytes {
    /// Bytes of all allocations.
    pub bytes: u64,
    /// The same for people, as written; empty when absent.
    pub human: TextRef,
}

/// What an allocation is for, beyond its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AllocationFlags {
    /// `constant`.
    pub constant: bool,
    /// `thread-local`.
    pub thread_local: bool,
    /// `maybe-live-out`: holds a part of the result.
    pub maybe_live_out: bool,
    /// `preallocated-temp`.
    pub preallocated_temp: bool,
}

/// `, parameter 3, shape |f32[784,128]| at ShapeIndex {}`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationParameter {
    /// Number of the entry parameter.
    pub number: u32,
    /// Its shape without layout; empty where the dump has none.
    pub shape: TextRef,
    /// Which part of it, `{}` or `{0,1}`.
    pub index: TextRef,
}

/// One `allocation N: …`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferAllocation {
    /// Its number.
    pub index: u32,
    /// `0x7f56c8061d90`, where the compiler kept it; empty after 2020.
    pub address: TextRef,
    /// Bytes.
    pub size: u64,
    /// Memory space; 0 is not printed.
    pub color: i64,
    /// `page P`.
    pub page: Option<u64>,
    /// Which parameter it is.
    pub parameter: Option<AllocationParameter>,
    /// `output shape is |…|`: it holds the top of the result.
    pub output_shape: Option<TextRef>,
    /// The flags.
    pub flags: AllocationFlags,
    /// Attributes hlorun does not know, as written, commas included.
    pub other: TextRef,
    /// Its values, in [`BufferAssignmentDump::assigned`].
    pub values: PoolRange,
    /// Where the line stands.
    pub text: TextRef,
}

/// `<46 fusion.7{0} (phi) @0>`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueName {
    /// Number of the value.
    pub id: u32,
    /// Memory space.
    pub color: i32,
    /// The defining instruction.
    pub instruction: TextRef,
    /// `{0}`; empty for instructions that are no tuples.
    pub index: TextRef,
    /// Several values meet here.
    pub is_phi: bool,
}

/// ` value: <…> (size=S,offset=O): shape`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssignedValue {
    /// Which value.
    pub name: ValueName,
    /// Bytes.
    pub size: u64,
    /// Bytes from the start of the allocation.
    pub offset: u64,
    /// Shape with layout.
    pub shape: TextRef,
}

/// One position of a value: an instruction and the part of its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValuePosition {
    /// The instruction.
    pub instruction: TextRef,
    /// `{0}`; empty when the instruction is no tuple.
    pub index: TextRef,
}

/// One use of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueUse {
    /// The instruction that uses it.
    pub instruction: TextRef,
    /// As which operand.
    pub operand: u32,
    /// Which part of that operand; empty when the operand is no tuple.
    pub index: TextRef,
}

/// One entry of `Used values:`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HloValueEntry {
    /// Which value.
    pub name: ValueName,
    /// Where it is, the defining position first; in [`BufferAssignmentDump::positions`].
    pub positions: PoolRange,
    /// Who uses it; in [`BufferAssignmentDump::uses`].
    pub uses: PoolRange,
    /// The defining instruction in HLO text.
    pub from_instruction: TextRef,
}

/// `    6:fusion.3` of `InstructionSequence:`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScheduledInstruction {
    /// The moment it runs.
    pub moment: u32,
    /// Its name.
    pub instruction: TextRef,
}

/// `    fusion.7{0}:23-33` of `BufferLiveRange:`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferLiveRange {
    /// The defining instruction.
    pub instruction: TextRef,
    /// Which part of it, always in braces.
    pub index: TextRef,
    /// First moment.
    pub start: u32,
    /// Last moment, inclusive.
    pub end: u32,
}

/// `    fusion.3: 16384 bytes` of the peak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeakValue {
    /// The defining instruction.
    pub instruction: TextRef,
    /// Which part of it; empty before 2025.
    pub index: TextRef,
    /// Bytes: of the whole instruction before 2025, of the part since.
    pub bytes: u64,
    /// Sum up to here, since 2025.
    pub cumulative: Option<u64>,
}

/// `HloLiveRange (max 33):`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HloLiveRangeDump {
    /// One past the last moment.
    pub max: u32,
    /// The schedule.
    pub instruction_sequence: Vec<ScheduledInstruction>,
    /// Live ranges, by value number.
    pub buffer_live_ranges: Vec<BufferLiveRange>,
    /// The moment with most live bytes; `None` when the text says it cannot be known or was cut.
    pub peak_moment: Option<u32>,
    /// Who is live then.
    pub peak_values: Vec<PeakValue>,
    /// The line that stands for the peak when there is none; empty otherwise.
    pub peak_unknown: TextRef,
    /// `Stack trace breakdown …` as written (2026); empty otherwise.
    pub stack_trace: TextRef,
}

impl BufferAssignmentDump {
    /// A piece of the text.
    pub fn str(&self, text: TextRef) -> Cow<'_, str> {
        self.text.str(text)
    }

    /// A piece of the text, as bytes.
    pub fn bytes(&self, text: TextRef) -> &[u8] {
        self.text.bytes(text)
    }

    /// The values of an allocation.
    pub fn values_of(&self, allocation: &BufferAllocation) -> &[AssignedValue] {
        self.assigned
            .get(allocation.values.range())
            .unwrap_or_default()
    }

    /// The positions of a used value.
    pub fn positions_of(&self, value: &HloValueEntry) -> &[ValuePosition] {
        self.positions
            .get(value.positions.range())
            .unwrap_or_default()
    }

    /// The uses of a used value.
    pub fn uses_of(&self, value: &HloValueEntry) -> &[ValueUse] {
        self.uses.get(value.uses.range()).unwrap_or_default()
    }

    /// Bytes of all allocations: what the dump says, or their sum where it does not.
    pub fn total_bytes(&self) -> u64 {
        match self.total {
            Some(total) => total.bytes,
            None => self
                .allocations
                .iter()
                .fold(0, |sum, a| sum.saturating_add(a.size)),
        }
    }

    /// `fusion.7{0}` for people and messages.
    pub fn display_name(&self, instruction: TextRef, index: TextRef) -> String {
        format!("{}{}", self.str(instruction), self.str(index))
    }

    /// An index such as `{0,1}` as numbers; empty text is the whole value.
    pub fn shape_index(&self, index: TextRef) -> ShapeIndex {
        let mut path = ShapeIndex::default();
        for part in self.bytes(index).split(|b| !b.is_ascii_digit()) {
            if let Some(number) = std::str::from_utf8(part).ok().and_then(|p| p.parse().ok()) {
                path.0.push(number);
            }
        }
        path
    }
}
