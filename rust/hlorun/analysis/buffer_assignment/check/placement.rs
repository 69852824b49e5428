//! Where values lie: sizes, totals, flags, parameters, results, what must and must not share bytes.

use foldhash::{HashMap, HashSet};

use super::FindingKind;
use super::context::{Checker, ComputationKind};
use crate::analysis::buffer_assignment::can_share::works_in_place;
use crate::analysis::buffer_assignment::model::*;
use crate::analysis::dataflow::{self, ValueIndex};
use crate::analysis::live_range::{HloLiveRange, TimeBound};
use crate::module::{HloModule, HloOpcode, InstructionId};
use crate::types::{Shape, ShapeStyle};

pub(super) fn check(checker: &mut Checker<'_>, live_range: Option<&HloLiveRange>) {
    let dump = checker.dump;
    for (number, allocation) in dump.allocations.iter().enumerate() {
        let complete = checker.has_section(&[SectionKind::Allocations]);
        if complete && allocation.index as usize != number {
            let message = format!(
                "allocation {} is the one with number {number} in the list",
                allocation.index
            );
            checker.find(FindingKind::AllocationNumber, allocation.text, message);
        }
        sizes(checker, allocation);
        flags(checker, allocation);
        parameter(checker, allocation);
        output(checker, allocation);
        if let Some(live_range) = live_range {
            overlaps(checker, allocation, live_range);
        }
    }
    total(checker);
    must_alias(checker);
    duplicate_parameters(checker);
}

fn values<'a>(
    checker: &Checker<'a>,
    allocation: &BufferAllocation,
) -> Vec<(&'a AssignedValue, Option<ValueIndex>)> {
    let range = allocation.values.range();
    let found = checker.assigned.get(range.clone()).unwrap_or_default();
    let listed = checker.dump.assigned.get(range).unwrap_or_default();
    listed.iter().zip(found.iter().copied()).collect()
}

fn sizes(checker: &mut Checker<'_>, allocation: &BufferAllocation) {
    let mut top = 0u64;
    for (assigned, value) in values(checker, allocation) {
        let shown = checker.name_of(&assigned.name);
        let end = assigned.offset.saturating_add(assigned.size);
        top = top.max(end);
        if end > allocation.size {
            let message = format!(
                "`{shown}` lies at bytes {}-{end} of allocation {}, which has {} bytes",
                assigned.offset, allocation.index, allocation.size
            );
            checker.find(FindingKind::OutOfBounds, assigned.name.instruction, message);
        }
        let temp = allocation.flags.preallocated_temp && allocation.color != 0;
        if i64::from(assigned.name.color) != allocation.color && !temp {
            let message = format!(
                "`{shown}` has color {}, its allocation {} has color {}",
                assigned.name.color, allocation.index, allocation.color
            );
            checker.find(
                FindingKind::ValueAttribute,
                assigned.name.instruction,
                message,
            );
        }
        let Some(value) = value else { continue };
        let shape = checker.dataflow.shape(value);
        if !checker.same_shape(assigned.shape, shape, true) {
            let message = format!(
                "`{shown}` has shape {} in the dump and {} in the module",
                checker.dump.str(assigned.shape),
                checker.shape_name(shape, ShapeStyle::FULL)
            );
            checker.find(FindingKind::Shape, assigned.shape, message);
        }
        let bytes = dataflow::byte_size_of(checker.module, shape);
        if let Some(bytes) = bytes.filter(|&bytes| bytes != assigned.size)
            && !has_dynamic_size(checker.module, checker.dataflow.shape(value))
        {
            let message = format!(
                "`{shown}` has {} bytes in the dump, its shape in the module has {bytes}",
                assigned.size
            );
            checker.find(FindingKind::Size, assigned.name.instruction, message);
        }
    }
    // Memory spaces of their own are as large as somebody said.
    if allocation.color == 0 && allocation.values.len > 0 && top < allocation.size {
        let message = format!(
            "allocation {} has {} bytes, its values end at byte {top}",
            allocation.index, allocation.size
        );
        checker.find(FindingKind::Size, allocation.text, message);
    }
}

/// Backends add room for run-time sizes to dynamic arrays.
fn has_dynamic_size(module: &HloModule, shape: crate::types::ShapeId) -> bool {
    let array = module.shapes().get(shape).as_array();
    array.is_some_and(|array| !array.is_static())
}

fn total(checker: &mut Checker<'_>) {
    let dump = checker.dump;
    let Some(total) = dump.total else { return };
    let sum = dump
        .allocations
        .iter()
        .fold(0u64, |sum, a| sum.saturating_add(a.size));
    if checker.has_section(&[SectionKind::Allocations]) && sum != total.bytes {
        let message = format!(
            "the dump says {} bytes in total, its allocations have {sum}",
            total.bytes
        );
        checker.find(FindingKind::Total, total.human, message);
    }
    let human = human_readable_bytes(total.bytes);
    if total.human.len > 0 && dump.bytes(total.human) != human.as_bytes() {
        let message = format!(
            "the dump says {} bytes are {}, they are {human}",
            total.bytes,
            dump.str(total.human)
        );
        checker.find(FindingKind::Total, total.human, message);
    }
}

/// Bytes as XLA writes them for people, `513.1KiB`.
pub fn human_readable_bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut rest = bytes;
    let mut units = ['K', 'M', 'G', 'T', 'P', 'E'].into_iter();
    let mut unit = units.next().unwrap_or('K');
    while rest >= 1 << 20 {
        rest >>= 10;
        unit = units.next().unwrap_or('E');
    }
    let digits = if unit == 'K' { 1 } else { 2 };
    format!("{:.digits$}{unit}iB", rest as f64 / 1024.0)
}

fn flags(checker: &mut Checker<'_>, allocation: &BufferAllocation) {
    let all = values(checker, allocation);
    if all.is_empty() || all.iter().any(|(_, value)| value.is_none()) {
        return;
    }
    let held: Vec<ValueIndex> = all.iter().filter_map(|(_, value)| *value).collect();
    let live_out = held
        .iter()
        .find(|&&value| checker.buffer_lives_out[checker.alias.buffer_of(value)]);
    let constant = held.iter().find(|&&value| checker.is_constant(value));
    let local = held
        .iter()
        .find(|&&value| checker.kind_of(value) == ComputationKind::ThreadLocal)
        // A constant is shared by all threads.
        .filter(|_| constant.is_none());
    let theirs = allocation.flags;
    let mut expect = |name: &str, theirs: bool, because: Option<&ValueIndex>, why: &str| {
        if theirs == because.is_some() {
            return;
        }
        let message = match because {
            Some(&value) => format!(
                "allocation {} is not {name}, but in the module `{}` {why}",
                allocation.index,
                checker.value_name(value)
            ),
            None => format!(
                "allocation {} is {name}, but in the module none of its values {why}",
                allocation.index
            ),
        };
        checker.find(FindingKind::AllocationFlag, allocation.text, message);
    };
    expect("constant", theirs.constant, constant, "is a constant");
    expect(
        "thread-local",
        theirs.thread_local,
        local,
        "belongs to a computation that runs per element",
    );
    expect(
        "maybe-live-out",
        theirs.maybe_live_out,
        live_out,
        "is part of the result",
    );
    let other = theirs.constant
        || theirs.thread_local
        || theirs.maybe_live_out
        || allocation.parameter.is_some();
    // A tuple's table of pointers may have an allocation of its own without any flag.
    let tuples = held.iter().all(|&value| {
        let shape = checker.dataflow.shape(value);
        matches!(checker.module.shapes().get(shape), Shape::Tuple(_))
    });
    if theirs.preallocated_temp && other {
        let message = format!(
            "allocation {} is preallocated-temp and something else too",
            allocation.index
        );
        checker.find(FindingKind::AllocationFlag, allocation.text, message);
    } else if !theirs.preallocated_temp && !other && !tuples {
        let message = format!(
            "allocation {} is no parameter, constant, thread-local, live-out or temporary one; \
             by the module its values are temporary",
            allocation.index
        );
        checker.find(FindingKind::AllocationFlag, allocation.text, message);
    }
}

fn entry_parameter(module: &HloModule, number: usize) -> Option<InstructionId> {
    let (_, entry) = module.entry_computation()?;
    entry.parameters.get(number).copied()
}

fn is_entry_parameter(module: &HloModule, id: InstructionId) -> bool {
    let instruction = module.instruction(id);
    instruction.opcode() == HloOpcode::Parameter && Some(instruction.computation()) == module.entry
}

fn parameter(checker: &mut Checker<'_>, allocation: &BufferAllocation) {
    let module = checker.module;
    let dump = checker.dump;
    let mut said = None;
    if let Some(parameter) = &allocation.parameter {
        let index = dump.shape_index(parameter.index);
        let id = entry_parameter(module, parameter.number as usize);
        said = id.and_then(|id| checker.dataflow.positions.at(id, &index));
        let Some(position) = said else {
            let message = format!(
                "allocation {} is parameter {} at {}, which the module has not",
                allocation.index,
                parameter.number,
                dump.str(parameter.index)
            );
            checker.find(FindingKind::Parameter, allocation.text, message);
            return;
        };
        let shape = checker.dataflow.positions.shape(position);
        // Dumps before 2022 print the whole parameter's shape for every part of it.
        let whole = id.map_or(shape, |id| module.instruction(id).shape_id());
        if parameter.shape.len > 0
            && !checker.same_shape(parameter.shape, shape, false)
            && !checker.same_shape(parameter.shape, whole, false)
        {
            let message = format!(
                "allocation {}: parameter {} has shape {} in the dump and {} in the module",
                allocation.index,
                parameter.number,
                dump.str(parameter.shape),
                checker.shape_name(shape, ShapeStyle::LOGICAL)
            );
            checker.find(FindingKind::Parameter, parameter.shape, message);
        }
        let value = checker.dataflow.value_at(position);
        let holds = values(checker, allocation);
        if value.is_some() && !holds.iter().any(|(_, held)| *held == value) {
            let message = format!(
                "allocation {} is parameter {}, it does not hold the module's `{}`",
                allocation.index,
                parameter.number,
                checker.position_name(position)
            );
            checker.find(FindingKind::Parameter, allocation.text, message);
        }
    }
    for (assigned, value) in values(checker, allocation) {
        let Some(value) = value else { continue };
        let id = checker.dataflow.defining_instruction(value);
        let defined = checker.dataflow.value(value).defining_position;
        if is_entry_parameter(module, id) && said != Some(defined) {
            let message = format!(
                "`{}` is a part of parameter {} in the module, allocation {} is not said to be it",
                checker.value_name(value),
                module.instruction(id).parameter_number().unwrap_or(0),
                allocation.index
            );
            checker.find(FindingKind::Parameter, assigned.name.instruction, message);
        }
    }
}

fn duplicate_parameters(checker: &mut Checker<'_>) {
    if !checker.has_section(&[SectionKind::Allocations]) {
        return;
    }
    let mut seen: HashSet<(u32, Vec<u8>)> = HashSet::default();
    let dump = checker.dump;
    for allocation in &dump.allocations {
        let Some(parameter) = &allocation.parameter else {
            continue;
        };
        if !seen.insert((parameter.number, dump.bytes(parameter.index).to_vec())) {
            let message = format!(
                "parameter {} at {} has two allocations",
                parameter.number,
                dump.str(parameter.index)
            );
            checker.find(FindingKind::Parameter, allocation.text, message);
        }
    }
}

fn output(checker: &mut Checker<'_>, allocation: &BufferAllocation) {
    let module = checker.module;
    let root = module.entry_computation().and_then(|(_, entry)| entry.root);
    let Some(root) = root else { return };
    let top = checker.dataflow.positions.root(root);
    let value = checker.dataflow.value_at(top);
    let holds = value.is_some()
        && values(checker, allocation)
            .iter()
            .any(|(_, held)| *held == value);
    let message = match allocation.output_shape {
        None if holds => format!(
            "allocation {} holds the result `{}`, the dump gives it no output shape",
            allocation.index,
            checker.position_name(top)
        ),
        Some(_) if !holds => format!(
            "allocation {} is said to hold the result, in the module that is `{}`",
            allocation.index,
            checker.position_name(top)
        ),
        Some(text) if !checker.same_shape(text, module.instruction(root).shape_id(), false) => {
            format!(
                "the output shape is {} in the dump and {} in the module",
                checker.dump.str(text),
                checker.shape_name(module.instruction(root).shape_id(), ShapeStyle::LOGICAL)
            )
        }
        _ => return,
    };
    checker.find(FindingKind::Output, allocation.text, message);
}

/// Values of one buffer lie in one place.
fn must_alias(checker: &mut Checker<'_>) {
    let dump = checker.dump;
    let mut place: HashMap<usize, (u32, u64, &AssignedValue)> = HashMap::default();
    for allocation in &dump.allocations {
        for (assigned, value) in values(checker, allocation) {
            let Some(value) = value else { continue };
            let buffer = checker.alias.buffer_of(value);
            let (index, offset, first) =
                *place
                    .entry(buffer)
                    .or_insert((allocation.index, assigned.offset, assigned));
            if (index, offset) != (allocation.index, assigned.offset) {
                let message = format!(
                    "`{}` must share memory with `{}` in the module; it lies at byte {} of \
                     allocation {}, the other at byte {offset} of allocation {index}",
                    checker.name_of(&assigned.name),
                    checker.name_of(&first.name),
                    assigned.offset,
                    allocation.index
                );
                checker.find(FindingKind::MustAlias, assigned.name.instruction, message);
            }
        }
    }
}

struct Lived<'a> {
    assigned: &'a AssignedValue,
    value: ValueIndex,
    bound: TimeBound,
}

/// Two values in the same bytes must not be needed at the same moment.
fn overlaps(checker: &mut Checker<'_>, allocation: &BufferAllocation, live: &HloLiveRange) {
    let mut lived: Vec<Lived<'_>> = values(checker, allocation)
        .into_iter()
        .filter_map(|(assigned, value)| {
            let value = value?;
            Some(Lived {
                assigned,
                value,
                bound: live.range(value)?,
            })
        })
        .filter(|lived| lived.assigned.size > 0)
        .collect();
    lived.sort_by_key(|l| (l.bound.start, l.bound.end, l.value));
    let mut active: Vec<usize> = Vec::new();
    for late in 0..lived.len() {
        let (b, start) = (&lived[late], lived[late].bound.start);
        active.retain(|&early| lived[early].bound.end >= start);
        for &early in &active {
            let a = &lived[early];
            if shares_bytes(a.assigned, b.assigned) && !may_share(checker, a, b) {
                let message = format!(
                    "`{}` (bytes {}-{}, moments {}-{}) and `{}` (bytes {}-{}, moments {}-{}) \
                     overlap in allocation {}; in the module they need not share memory",
                    checker.name_of(&a.assigned.name),
                    a.assigned.offset,
                    a.assigned.offset.saturating_add(a.assigned.size),
                    a.bound.start,
                    a.bound.end,
                    checker.name_of(&b.assigned.name),
                    b.assigned.offset,
                    b.assigned.offset.saturating_add(b.assigned.size),
                    b.bound.start,
                    b.bound.end,
                    allocation.index
                );
                checker.find(FindingKind::Overlap, b.assigned.name.instruction, message);
            }
        }
        active.push(late);
    }
}

fn shares_bytes(a: &AssignedValue, b: &AssignedValue) -> bool {
    a.offset < b.offset.saturating_add(b.size) && b.offset < a.offset.saturating_add(a.size)
}

/// Whether the earlier `a` may lie in the bytes of `b` although both are live at a moment.
fn may_share(checker: &Checker<'_>, a: &Lived<'_>, b: &Lived<'_>) -> bool {
    if checker.alias.buffer_of(a.value) == checker.alias.buffer_of(b.value) {
        return true;
    }
    if a.bound.end != b.bound.start || a.bound.start == b.bound.start {
        return false;
    }
    let is_same_place =
        a.assigned.offset == b.assigned.offset && a.assigned.size == b.assigned.size;
    // The last to read `a` may write its result there, if it is an operation that can.
    let (module, dataflow) = (checker.module, &checker.dataflow);
    let holder = dataflow.positions.instruction(a.bound.end_position);
    let user = dataflow.defining_instruction(b.value);
    let result = dataflow.value(b.value).defining_position;
    is_same_place
        && module.operand_ids(user).contains(&holder)
        && works_in_place(
            module,
            dataflow,
            &checker.alias,
            a.bound.end_position,
            user,
            result,
        )
}

#[cfg(test)]
mod tests {
    use super::human_readable_bytes;

    #[test]
    fn bytes_read_as_xla_writes_them() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.0KiB"),
            (525_448, "513.1KiB"),
            (2_564_824, "2.45MiB"),
            (5 << 30, "5.00GiB"),
            (u64::MAX, "16.00EiB"),
        ] {
            assert_eq!(human_readable_bytes(bytes), text);
        }
    }
}
