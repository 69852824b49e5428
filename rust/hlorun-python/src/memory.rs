//! Memory of modules and plans: assignments hlorun makes itself, and their sums.

use std::fmt::Write;
use std::sync::Arc;

use foldhash::HashMap;
use hlorun::analysis::buffer_assignment::{
    AllocationFlags, AssignOptions, AssignedValue, BufferAssignmentDump, PlacedBuffers,
    assign_buffers, human_bytes, parse, place_buffers,
};
use hlorun::analysis::schedule::HloSchedule;
use hlorun::module::{HloModule, TextRef};
use hlorun::plan::Executable;
use hlorun::plan::memory::assign::{AllocationKind, Placement};
use hlorun::types::ShapeStyle;
use pyo3::prelude::*;

use crate::coverage::Coverage;

/// Bytes a module needs, under the names JAX has for them.
///
/// Examples:
///     >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
///     >>> module.memory_analysis().temp_size_in_bytes
///     0
#[pyclass(frozen, get_all, module = "hlorun", name = "CompiledMemoryStats")]
pub struct PyMemoryStats {
    /// Arguments.
    pub argument_size_in_bytes: u64,
    /// Results, those in the memory of arguments among them.
    pub output_size_in_bytes: u64,
    /// Temporaries.
    pub temp_size_in_bytes: u64,
    /// Arguments whose memory results take over.
    pub alias_size_in_bytes: u64,
    /// Code; hlorun makes none.
    generated_code_size_in_bytes: u64,
    /// Arguments in host memory; hlorun has one memory.
    host_argument_size_in_bytes: u64,
    /// Results in host memory.
    host_output_size_in_bytes: u64,
    /// Temporaries in host memory.
    host_temp_size_in_bytes: u64,
    /// Aliased arguments in host memory.
    host_alias_size_in_bytes: u64,
    /// Code in host memory.
    host_generated_code_size_in_bytes: u64,
    /// Most bytes needed at one moment: arguments, results, constants and live temporaries; None
    /// where the dump has temporaries and does not say when they are live.
    pub peak_memory_in_bytes: Option<u64>,
}

#[pymethods]
impl PyMemoryStats {
    fn __repr__(&self) -> String {
        let peak = self
            .peak_memory_in_bytes
            .map_or("None".to_owned(), |bytes| bytes.to_string());
        format!(
            "CompiledMemoryStats(argument_size_in_bytes={}, output_size_in_bytes={}, \
             temp_size_in_bytes={}, alias_size_in_bytes={}, peak_memory_in_bytes={})",
            self.argument_size_in_bytes,
            self.output_size_in_bytes,
            self.temp_size_in_bytes,
            self.alias_size_in_bytes,
            peak
        )
    }
}

/// XLA's assignment of a module in the order of its text.
pub fn assign(module: &HloModule) -> hlorun::Result<Arc<BufferAssignmentDump>> {
    let schedule = HloSchedule::from_text_order(module);
    assign_buffers(module, &schedule, AssignOptions::default()).map(Arc::new)
}

/// The same as numbers.
pub fn place(module: &HloModule) -> hlorun::Result<PlacedBuffers> {
    let schedule = HloSchedule::from_text_order(module);
    place_buffers(module, &schedule, AssignOptions::default())
}

/// Instruction and index of a value.
type ValueKey<'d> = (&'d [u8], &'d [u8]);

/// When the values of an assignment are live.
pub struct LiveRanges<'d> {
    dump: &'d BufferAssignmentDump,
    ranges: HashMap<ValueKey<'d>, (u32, u32)>,
}

impl<'d> LiveRanges<'d> {
    /// Those the dump states.
    pub fn of(dump: &'d BufferAssignmentDump) -> LiveRanges<'d> {
        let stated = dump.live_range.iter().flat_map(|r| &r.buffer_live_ranges);
        let ranges = stated.map(|r| {
            let key = value_key(dump, r.instruction, r.index);
            (key, (r.start, r.end))
        });
        LiveRanges {
            dump,
            ranges: ranges.collect(),
        }
    }

    /// First and last moment of a value, where the dump states them.
    pub fn get(&self, value: &AssignedValue) -> Option<(u32, u32)> {
        let key = value_key(self.dump, value.name.instruction, value.name.index);
        self.ranges.get(&key).copied()
    }
}

/// A value by its instruction and its place in the result; `{}` is written or left out.
fn value_key(dump: &BufferAssignmentDump, instruction: TextRef, index: TextRef) -> ValueKey<'_> {
    let index = match dump.bytes(index) {
        b"{}" => &b""[..],
        index => index,
    };
    (dump.bytes(instruction), index)
}

/// The sums of a dump.
pub fn statistics(dump: &BufferAssignmentDump) -> PyMemoryStats {
    let ranges = LiveRanges::of(dump);
    let mut sums = Sums::default();
    for allocation in &dump.allocations {
        let values = dump.values_of(allocation).iter();
        let values = values.map(|value| (value.offset, value.size, ranges.get(value)));
        let is_parameter = allocation.parameter.is_some();
        sums.add(allocation.size, is_parameter, allocation.flags, values);
    }
    sums.finish(dump.live_range.is_some())
}

/// The sums of an assignment of hlorun's own.
pub fn placed_statistics(placed: &PlacedBuffers) -> PyMemoryStats {
    let mut sums = Sums::default();
    for allocation in &placed.allocations {
        let values = placed.values_of(allocation).iter();
        let values = values.map(|value| (value.offset, value.size, value.live));
        let is_parameter = allocation.parameter.is_some();
        sums.add(allocation.size, is_parameter, allocation.flags, values);
    }
    sums.finish(true)
}

/// Sums of allocations while they are added up.
#[derive(Default)]
struct Sums {
    argument: u64,
    output: u64,
    temp: u64,
    alias: u64,
    /// Allocations that are there all the time.
    fixed: u64,
    has_heap: bool,
    heap: Coverage,
}

impl Sums {
    /// Adds an allocation, whose values are offset, size, first and last moment. A dump may claim any
    /// size, so sums stop at the largest number.
    fn add(
        &mut self,
        size: u64,
        is_parameter: bool,
        flags: AllocationFlags,
        values: impl Iterator<Item = (u64, u64, Option<(u32, u32)>)>,
    ) {
        if is_parameter {
            self.argument = self.argument.saturating_add(size);
            if flags.maybe_live_out {
                self.alias = self.alias.saturating_add(size);
            }
        }
        if flags.maybe_live_out {
            self.output = self.output.saturating_add(size);
        }
        if flags.preallocated_temp {
            self.temp = self.temp.saturating_add(size);
            for (offset, size, live) in values {
                self.has_heap = true;
                if let Some(live) = live {
                    self.heap.add(offset, size, live);
                }
            }
        } else if !flags.thread_local {
            self.fixed = self.fixed.saturating_add(size);
        }
    }

    fn finish(self, has_live_ranges: bool) -> PyMemoryStats {
        let is_known = !self.has_heap || has_live_ranges;
        let most = self.heap.most();
        PyMemoryStats {
            argument_size_in_bytes: self.argument,
            output_size_in_bytes: self.output,
            temp_size_in_bytes: self.temp,
            alias_size_in_bytes: self.alias,
            generated_code_size_in_bytes: 0,
            host_argument_size_in_bytes: 0,
            host_output_size_in_bytes: 0,
            host_temp_size_in_bytes: 0,
            host_alias_size_in_bytes: 0,
            host_generated_code_size_in_bytes: 0,
            peak_memory_in_bytes: is_known.then_some(self.fixed.saturating_add(most)),
        }
    }
}

/// The shape of what a placement holds: the part of its instruction's result of that size, or
/// plain bytes.
fn shape_text(module: &HloModule, placement: &Placement) -> String {
    let shapes = module.shapes();
    let whole = placement
        .instruction
        .map(|id| module.instruction(id).shape_id());
    let leaves = whole
        .and_then(|id| shapes.leaves(id, 4096))
        .unwrap_or_default();
    let fits = leaves.into_iter().find(|(_, leaf)| {
        let array = shapes.get(*leaf).as_array();
        array.is_some_and(|array| array.is_static() && array.byte_size() == Some(placement.size))
    });
    match fits {
        Some((_, leaf)) => shapes.display(leaf, ShapeStyle::CANONICAL).to_string(),
        None => format!("u8[{}]{{0}}", placement.size),
    }
}

/// hlorun's own plan in the form of XLA's dump. Moments count the plan's steps; a value is the
/// memory of a group of buffers that share it, named by the instruction it is for first.
pub fn plan_dump(executable: &Executable) -> hlorun::Result<BufferAssignmentDump> {
    let module = executable.module();
    let assignment = executable.assignment();
    let mut out = String::from("BufferAssignment:\n");
    let mut seen: std::collections::HashMap<String, u32> = Default::default();
    let mut ranges = String::new();
    let (mut last, mut total) = (0u32, 0u64);
    let name_of = |k: usize| {
        let id = assignment.placements[k].instruction?;
        Some(module.instruction(id).name().into_owned())
    };
    // Writing to a string cannot fail.
    for (number, allocation) in assignment.allocations.iter().enumerate() {
        let parameter = |leaf: u32| {
            let leaf = leaf as usize;
            let mut all = executable.parameters().iter().enumerate();
            let found = all.find(|(_, p)| p.leaves.contains(&leaf));
            found.map_or((0, 0), |(number, p)| (number, leaf - p.leaves.start))
        };
        let kind = match allocation.kind {
            AllocationKind::Temp => "preallocated-temp".to_owned(),
            AllocationKind::Constant(_) => "constant".to_owned(),
            AllocationKind::Output(_) => "maybe-live-out".to_owned(),
            AllocationKind::Parameter(leaf) => {
                let (number, part) = parameter(leaf);
                let input = &executable.inputs()[leaf as usize];
                let shape = hlorun::types::ArrayShape::new(input.element_type, &input.dims);
                let leaves = executable.parameters()[number].leaves.len();
                let index = match leaves {
                    1 => "{}".to_owned(),
                    _ => format!("{{{part}}}"),
                };
                format!("parameter {number}, shape |{shape}| at ShapeIndex {index}")
            }
        };
        if allocation.size == 0 {
            continue;
        }
        total += allocation.size as u64;
        let _ = writeln!(
            out,
            "allocation {number}: size {}, {kind}:",
            allocation.size
        );
        for (k, placement) in assignment.placements.iter().enumerate() {
            if placement.allocation as usize != number || placement.size == 0 {
                continue;
            }
            let name = name_of(k).unwrap_or_else(|| "state".into());
            let count = seen.entry(name.clone()).or_default();
            let name = match *count {
                0 => name,
                n => format!("{name}.plan{n}"),
            };
            *count += 1;
            let _ = writeln!(
                out,
                " value: <{k} {name} @0> (size={},offset={}): {}",
                placement.size,
                placement.offset,
                shape_text(module, placement)
            );
            let (start, end) = placement.live;
            last = last.max(end);
            let _ = writeln!(ranges, "    {name}{{}}:{start}-{end}");
        }
    }
    let _ = write!(
        out,
        "\nTotal bytes used: {total} ({})\n\nHloLiveRange (max {}):\n  InstructionSequence:\n  \
         BufferLiveRange:\n{ranges}",
        human_bytes(total),
        u64::from(last) + 1,
    );
    parse(out.into_bytes(), None)
}
