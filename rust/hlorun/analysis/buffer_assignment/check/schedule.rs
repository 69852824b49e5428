//! The schedule, the live ranges it makes, and the peak.

use foldhash::{HashMap, HashSet};

use super::FindingKind;
use super::context::{Checker, ComputationKind};
use crate::analysis::buffer_assignment::model::*;
use crate::analysis::dataflow::{self, ValueIndex};
use crate::analysis::live_range::{HloLiveRange, LiveRangeOptions};
use crate::analysis::schedule::{HloSchedule, ScheduleProblem};
use crate::module::{HloOpcode, InstructionId, TextRef};

/// Checks the dump's schedule; returns the live ranges of the module under it. Without a schedule
/// in the dump, a scheduled module's own order counts.
pub(super) fn check(checker: &mut Checker<'_>) -> Option<HloLiveRange> {
    let Some(dumped) = &checker.dump.live_range else {
        let schedule = HloSchedule::from_text_order(checker.module);
        let scheduled = checker.module.config.is_scheduled;
        return scheduled.then(|| run(checker, &schedule, false));
    };
    let flat = sequence(checker, dumped)?;
    let schedule = HloSchedule::from_flat_sequence(checker.module, &flat);
    let times: HashMap<InstructionId, TextRef> = flat
        .iter()
        .copied()
        .zip(dumped.instruction_sequence.iter().map(|s| s.instruction))
        .collect();
    let mut legal = true;
    for problem in schedule.problems(checker.module) {
        legal = false;
        let name = |id| checker.module.instruction(id).name();
        let (id, message) = match problem {
            ScheduleProblem::Missing(id) => (
                id,
                format!("the module has `{}`, the schedule does not", name(id)),
            ),
            ScheduleProblem::Twice(id) => (id, format!("`{}` is scheduled twice", name(id))),
            ScheduleProblem::Foreign(id) => (
                id,
                format!("`{}` is scheduled in another computation", name(id)),
            ),
            ScheduleProblem::TooEarly { instruction, needs } => (
                instruction,
                format!(
                    "`{}` is scheduled before `{}`, which it needs in the module",
                    name(instruction),
                    name(needs)
                ),
            ),
        };
        let at = times.get(&id).copied().unwrap_or_default();
        checker.find(FindingKind::Schedule, at, message);
    }
    for computation in checker.module.computation_ids() {
        let global = checker.kinds[computation] == ComputationKind::Global;
        if global && schedule.sequence(computation).is_none() {
            legal = false;
            let message = format!(
                "the module runs computation `{}`, the schedule has none of its instructions",
                checker
                    .module
                    .str(checker.module.computation(computation).name)
            );
            checker.find(FindingKind::Schedule, TextRef::default(), message);
        }
    }
    let range = run(checker, &schedule, false);
    if legal {
        legal = nesting(checker, &range, &flat, dumped);
    }
    if !legal {
        return None;
    }
    let range = live_ranges(checker, &schedule, range, dumped);
    peak(checker, &range, dumped);
    Some(range)
}

fn run(checker: &Checker<'_>, schedule: &HloSchedule, newer: bool) -> HloLiveRange {
    HloLiveRange::run(
        checker.module,
        schedule,
        &checker.dataflow,
        &checker.alias,
        LiveRangeOptions {
            async_from_caller_start: newer,
        },
    )
}

/// The scheduled instructions; `None` when names are unknown or moments are no count.
fn sequence(checker: &mut Checker<'_>, dumped: &HloLiveRangeDump) -> Option<Vec<InstructionId>> {
    let mut flat = Vec::with_capacity(dumped.instruction_sequence.len());
    let mut legal = true;
    for (moment, entry) in dumped.instruction_sequence.iter().enumerate() {
        if entry.moment as usize != moment {
            legal = false;
            let message = format!(
                "`{}` is the instruction at moment {moment}, the dump says {}",
                checker.dump.str(entry.instruction),
                entry.moment
            );
            checker.find(FindingKind::Schedule, entry.instruction, message);
        }
        match checker.instruction(entry.instruction) {
            Some(id) => flat.push(id),
            None => {
                legal = false;
                let message = format!(
                    "the schedule runs `{}`, which the module has not",
                    checker.dump.str(entry.instruction)
                );
                checker.find(FindingKind::UnknownInstruction, entry.instruction, message);
            }
        }
    }
    if dumped.max as usize != dumped.instruction_sequence.len() {
        let message = format!(
            "the last moment is said to be {}, the schedule has {} instructions",
            dumped.max,
            dumped.instruction_sequence.len()
        );
        let at = dumped.instruction_sequence.first().map(|e| e.instruction);
        checker.find(FindingKind::Schedule, at.unwrap_or_default(), message);
    }
    legal.then_some(flat)
}

/// Called computations run right before the instruction that calls them.
fn nesting(
    checker: &mut Checker<'_>,
    range: &HloLiveRange,
    flat: &[InstructionId],
    dumped: &HloLiveRangeDump,
) -> bool {
    let wrong = (0..flat.len()).find(|&i| range.sequence().get(i) != Some(&flat[i]));
    let Some(moment) = wrong else {
        return true;
    };
    let name = |id: InstructionId| checker.module.instruction(id).name();
    let message = format!(
        "`{}` is scheduled at moment {moment}; as the module nests its computations `{}` is next",
        name(flat[moment]),
        range
            .sequence()
            .get(moment)
            .map_or("nothing".into(), |&id| name(id))
    );
    let at = dumped.instruction_sequence[moment].instruction;
    checker.find(FindingKind::Schedule, at, message);
    false
}

/// Compares all live ranges. Where only the rule of another year fits, that one counts.
fn live_ranges(
    checker: &mut Checker<'_>,
    schedule: &HloSchedule,
    range: HloLiveRange,
    dumped: &HloLiveRangeDump,
) -> HloLiveRange {
    let mut values: Vec<Option<ValueIndex>> = Vec::new();
    for entry in &dumped.buffer_live_ranges {
        values.push(live_range_value(checker, entry));
    }
    let differs = |range: &HloLiveRange| {
        let pairs = values.iter().zip(&dumped.buffer_live_ranges);
        pairs
            .filter_map(|(value, entry)| Some((range.range((*value)?)?, entry)))
            .any(|(ours, theirs)| (ours.start, ours.end) != (theirs.start, theirs.end))
    };
    let has_async = range
        .sequence()
        .iter()
        .any(|&id| checker.module.instruction(id).opcode() == HloOpcode::AsyncStart);
    let range = match has_async && differs(&range) {
        true => {
            let newer = run(checker, schedule, true);
            if differs(&newer) { range } else { newer }
        }
        false => range,
    };
    let mut seen: HashSet<ValueIndex> = HashSet::default();
    for (value, entry) in values.into_iter().zip(&dumped.buffer_live_ranges) {
        let shown = checker.dump.display_name(entry.instruction, entry.index);
        let message = match value {
            None => format!("`{shown}` has a live range, the module defines no such value"),
            Some(value) if !seen.insert(value) => format!("`{shown}` has two live ranges"),
            Some(value) => match range.range(value) {
                None => format!("`{shown}` has a live range, the schedule does not run it"),
                Some(ours) if (ours.start, ours.end) == (entry.start, entry.end) => continue,
                Some(ours) => format!(
                    "`{shown}` lives {}-{} in the dump, {}-{} by its uses in the module",
                    entry.start, entry.end, ours.start, ours.end
                ),
            },
        };
        checker.find(FindingKind::LiveRange, entry.instruction, message);
    }
    for value in checker.dataflow.indices() {
        if range.range(value).is_some() && !seen.contains(&value) {
            let message = format!(
                "the module defines `{}`, the dump has no live range of it",
                checker.value_name(value)
            );
            checker.find(FindingKind::LiveRange, TextRef::default(), message);
        }
    }
    range
}

/// Live ranges and the peak write `{}` also behind values that are no tuples.
fn live_range_value(checker: &Checker<'_>, entry: &BufferLiveRange) -> Option<ValueIndex> {
    braced_value(checker, entry.instruction, entry.index)
}

fn braced_value(checker: &Checker<'_>, instruction: TextRef, index: TextRef) -> Option<ValueIndex> {
    let id = checker.instruction(instruction)?;
    let index = checker.dump.shape_index(index);
    checker.value_defined_at(checker.dataflow.positions.at(id, &index)?)
}

fn peak(checker: &mut Checker<'_>, range: &HloLiveRange, dumped: &HloLiveRangeDump) {
    let module = checker.module;
    let Some(theirs) = dumped.peak_moment else {
        return;
    };
    let at = dumped.peak_values.first().map(|v| v.instruction);
    let at = at.unwrap_or_default();
    match range.peak_moment(module, &checker.dataflow) {
        Some(ours) if ours == theirs => {}
        Some(ours) => {
            let message =
                format!("the dump's peak is at moment {theirs}, by the module it is at {ours}");
            checker.find(FindingKind::Peak, at, message);
            return;
        }
        None => return,
    }
    let newer = checker.dump.style.cumulative_peak;
    let bytes_of = |checker: &Checker<'_>, value: ValueIndex| {
        let id = checker.dataflow.defining_instruction(value);
        let shape = match newer {
            true => checker.dataflow.shape(value),
            false => module.instruction(id).shape_id(),
        };
        dataflow::byte_size_of(module, shape).unwrap_or(0)
    };
    // Before 2025 a line names the instruction only, once per part that is live.
    let mut expected = Expected::default();
    for value in checker.dataflow.indices() {
        if range
            .range(value)
            .is_some_and(|r| r.start <= theirs && theirs <= r.end)
        {
            let id = checker.dataflow.defining_instruction(value);
            let bytes = bytes_of(checker, value);
            expected
                .entry((id, newer.then_some(value)))
                .or_insert((0, bytes))
                .0 += 1;
        }
    }
    peak_lines(checker, &dumped.peak_values, theirs, &mut expected);
    let mut missing: Vec<_> = expected
        .into_iter()
        .filter(|(_, (count, _))| *count > 0)
        .map(|((id, value), _)| (id, value))
        .collect();
    missing.sort_unstable();
    for (id, value) in missing {
        let shown = value.map_or_else(
            || module.instruction(id).name().into_owned(),
            |value| checker.value_name(value),
        );
        let message =
            format!("by the module `{shown}` is live at the peak, the dump does not list it");
        checker.find(FindingKind::Peak, at, message);
    }
}

/// How often what is live at the peak is still to be listed, and its bytes; by instruction, and by
/// value where lines name values.
type Expected = HashMap<(InstructionId, Option<ValueIndex>), (u32, u64)>;

/// Holds the lines about the peak, which is at moment `theirs`, against `expected`, of which what they
/// list is taken.
fn peak_lines(
    checker: &mut Checker<'_>,
    lines: &[PeakValue],
    theirs: u32,
    expected: &mut Expected,
) {
    let newer = checker.dump.style.cumulative_peak;
    let mut sum = 0u64;
    for entry in lines {
        let shown = checker.dump.display_name(entry.instruction, entry.index);
        sum = sum.saturating_add(entry.bytes);
        let id = checker.instruction(entry.instruction);
        let value = match newer {
            true => braced_value(checker, entry.instruction, entry.index),
            false => None,
        };
        let live = id.and_then(|id| expected.get_mut(&(id, value)));
        let message = match live {
            Some((count, _)) if *count == 0 => {
                format!("`{shown}` is listed too often as live at moment {theirs}")
            }
            Some((count, bytes)) => {
                *count -= 1;
                if *bytes != entry.bytes {
                    format!(
                        "`{shown}` has {} bytes at the peak, by its shape it has {bytes}",
                        entry.bytes
                    )
                } else if entry.cumulative.is_some_and(|theirs| theirs != sum) {
                    format!(
                        "up to `{shown}` the dump counts {} bytes, the lines add up to {sum}",
                        entry.cumulative.unwrap_or(0)
                    )
                } else {
                    continue;
                }
            }
            None => {
                format!("`{shown}` is said to be live at moment {theirs}, by the module it is not")
            }
        };
        checker.find(FindingKind::Peak, entry.instruction, message);
    }
}
