//! From when to when each value must be kept, over a schedule.
//!
//! Comes in: a module, its values and a schedule. Goes out: [`HloLiveRange`], XLA's analysis of
//! that name over the whole module: called computations run where they are called, and moments
//! count instructions. Promise: near linear time; a value of a computation without a sequence has
//! no live range.

use foldhash::HashSet;

use crate::analysis::dataflow::{
    self, HloAliasAnalysis, HloDataflowAnalysis, PositionId, ValueIndex, graph,
};
use crate::analysis::schedule::HloSchedule;
use crate::module::{ComputationId, HloModule, HloOpcode, IdMap, InstructionId};
use crate::types::ShapeIndex;

/// When a value is live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeBound {
    /// First moment.
    pub start: u32,
    /// Last moment, inclusive.
    pub end: u32,
    /// The last position the value is passed on to.
    pub end_position: PositionId,
}

/// Differences between the years.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LiveRangeOptions {
    /// Values inside async computations live from the start of the computation around them
    /// (2026), not only from where they are defined.
    pub async_from_caller_start: bool,
}

/// Live ranges of a module's values.
#[derive(Clone, Debug)]
pub struct HloLiveRange {
    sequence: Vec<InstructionId>,
    ranges: Vec<Option<TimeBound>>,
}

const NEVER: u32 = u32::MAX;

struct Flat<'m> {
    sequence: Vec<InstructionId>,
    time: IdMap<InstructionId, u32>,
    /// First moment and one past the last.
    spans: IdMap<ComputationId, Option<(u32, u32)>>,
    /// The async computation a computation runs inside.
    async_context: IdMap<ComputationId, Option<ComputationId>>,
    donated: HashSet<(i64, &'m ShapeIndex)>,
}

impl HloLiveRange {
    /// Computes the live ranges.
    pub fn run(
        module: &HloModule,
        schedule: &HloSchedule,
        dataflow: &HloDataflowAnalysis,
        alias: &HloAliasAnalysis,
        options: LiveRangeOptions,
    ) -> HloLiveRange {
        let flat = flatten(module, schedule);
        let mut ranges: Vec<Option<TimeBound>> = dataflow
            .indices()
            .map(|value| bounds(module, dataflow, &flat, value, options))
            .collect();
        normalize(&mut ranges, alias);
        HloLiveRange {
            sequence: flat.sequence,
            ranges,
        }
    }

    /// All scheduled instructions, in the order they run.
    pub fn sequence(&self) -> &[InstructionId] {
        &self.sequence
    }

    /// One past the last moment.
    pub fn end_time(&self) -> u32 {
        self.sequence.len() as u32
    }

    /// When a value is live.
    pub fn range(&self, value: ValueIndex) -> Option<TimeBound> {
        self.ranges[value.0 as usize]
    }

    /// The first moment at which most bytes are live; 0 without values, `None` when a size is not
    /// known. As XLA counts it: a part of a tuple weighs what the whole tuple's table does, and
    /// what ends at a moment still weighs at the next.
    pub fn peak_moment(&self, module: &HloModule, dataflow: &HloDataflowAnalysis) -> Option<u32> {
        let mut events: Vec<(u64, bool, u64)> = Vec::new();
        for value in dataflow.indices() {
            if let Some(range) = self.range(value) {
                let instruction = module.instruction(dataflow.defining_instruction(value));
                let bytes = dataflow::byte_size_of(module, instruction.shape_id())?;
                events.push((u64::from(range.start), false, bytes));
                events.push((u64::from(range.end) + 1, true, bytes));
            }
        }
        events.sort_unstable();
        let (mut live, mut most, mut moment) = (0u64, 0u64, 0u64);
        for (time, ends, bytes) in events {
            if ends {
                live = live.saturating_sub(bytes);
            } else {
                live = live.saturating_add(bytes);
            }
            if live > most {
                (most, moment) = (live, time);
            }
        }
        u32::try_from(moment).ok()
    }
}

/// Puts called computations in front of their callers.
fn flatten<'m>(module: &'m HloModule, schedule: &HloSchedule) -> Flat<'m> {
    struct Frame {
        computation: ComputationId,
        context: Option<ComputationId>,
        start: u32,
        next: usize,
        /// Computations to run before instruction `next`, the first last.
        callees: Vec<(ComputationId, Option<ComputationId>)>,
        asked: bool,
    }
    let mut flat = Flat {
        sequence: Vec::new(),
        time: IdMap::new(module.instruction_count(), NEVER),
        spans: IdMap::new(module.computation_count(), None),
        async_context: IdMap::new(module.computation_count(), None),
        donated: module.config.donated(),
    };
    let mut open = IdMap::new(module.computation_count(), false);
    let mut stack: Vec<Frame> = Vec::new();
    let mut enter = module.entry.map(|entry| (entry, None));
    loop {
        if let Some((computation, context)) = enter.take()
            && !open[computation]
            && schedule.sequence(computation).is_some()
        {
            open[computation] = true;
            flat.async_context[computation] = context;
            stack.push(Frame {
                computation,
                context,
                start: flat.sequence.len() as u32,
                next: 0,
                callees: Vec::new(),
                asked: false,
            });
        }
        let Some(frame) = stack.last_mut() else {
            return flat;
        };
        let sequence = schedule.sequence(frame.computation).unwrap_or_default();
        let Some(&id) = sequence.get(frame.next) else {
            flat.spans[frame.computation] = Some((frame.start, flat.sequence.len() as u32));
            stack.pop();
            continue;
        };
        if !frame.asked {
            frame.asked = true;
            frame.callees = callees(module, id, frame.context);
            frame.callees.reverse();
        }
        if let Some(callee) = frame.callees.pop() {
            enter = Some(callee);
            continue;
        }
        if flat.time[id] == NEVER {
            flat.time[id] = flat.sequence.len() as u32;
            flat.sequence.push(id);
        }
        frame.next += 1;
        frame.asked = false;
    }
}

/// What runs before an instruction, and inside which async computation.
fn callees(
    module: &HloModule,
    id: InstructionId,
    context: Option<ComputationId>,
) -> Vec<(ComputationId, Option<ComputationId>)> {
    let instruction = module.instruction(id);
    let called = instruction.called_computations();
    match instruction.opcode() {
        HloOpcode::Call => called.into_iter().map(|c| (c, context)).collect(),
        HloOpcode::Conditional => graph::branches(module, id)
            .into_iter()
            .map(|c| (c, context))
            .collect(),
        HloOpcode::While => match graph::while_computations(module, id) {
            Some((condition, body)) => vec![(condition, context), (body, context)],
            None => Vec::new(),
        },
        HloOpcode::AsyncStart => called.into_iter().map(|c| (c, Some(c))).collect(),
        _ => Vec::new(),
    }
}

fn bounds(
    module: &HloModule,
    dataflow: &HloDataflowAnalysis,
    flat: &Flat<'_>,
    value: ValueIndex,
    options: LiveRangeOptions,
) -> Option<TimeBound> {
    let id = dataflow.defining_instruction(value);
    let instruction = module.instruction(id);
    let computation = instruction.computation();
    let time = Some(flat.time[id]).filter(|&time| time != NEVER)?;
    let span = flat.spans[computation]?;
    let is_parameter = instruction.opcode() == HloOpcode::Parameter;
    // A parameter is there from the start of its computation, a root to its end.
    let mut start = if is_parameter { span.0 } else { time };
    let mut end = if instruction.is_root() { span.1 } else { time };
    if let Some(context) = flat.async_context[computation] {
        async_bounds(
            module, dataflow, flat, context, span, options, &mut start, &mut end,
        );
    }
    let mut end_position = dataflow.value(value).defining_position;
    for &position in &dataflow.positions_of(value)[1..] {
        let held_by = module.instruction(dataflow.positions.instruction(position));
        let until = if held_by.is_root() {
            flat.spans[held_by.computation()].map(|span| span.1)
        } else {
            Some(flat.time[held_by.id]).filter(|&time| time != NEVER)
        };
        if let Some(until) = until.filter(|&until| until > end) {
            (end, end_position) = (until, position);
        }
    }
    let is_donated = || {
        let position = dataflow.value(value).defining_position;
        let index = dataflow.positions.index(position);
        let number = instruction.parameter_number().map(|number| number as i64);
        number.is_some_and(|number| flat.donated.contains(&(number, &index)))
    };
    let keeps_parameter = is_parameter && Some(computation) == module.entry && !is_donated();
    if keeps_parameter {
        end = flat.sequence.len() as u32;
    } else if let Some(last) = last_use(module, dataflow, flat, value) {
        end = end.max(last);
    }
    Some(TimeBound {
        start,
        end,
        end_position,
    })
}

/// What is inside an async computation lives until the operation is done.
#[allow(clippy::too_many_arguments)]
fn async_bounds(
    module: &HloModule,
    dataflow: &HloDataflowAnalysis,
    flat: &Flat<'_>,
    context: ComputationId,
    span: (u32, u32),
    options: LiveRangeOptions,
    start: &mut u32,
    end: &mut u32,
) {
    for &caller in dataflow.calls.callers(context) {
        if !matches!(
            module.instruction(caller).opcode(),
            HloOpcode::AsyncStart | HloOpcode::AsyncUpdate | HloOpcode::AsyncDone
        ) {
            continue;
        }
        let done = async_done(module, dataflow, caller)
            .map(|done| flat.time[done])
            .filter(|&time| time != NEVER);
        *end = (*end).max(done.unwrap_or(span.1));
        if options.async_from_caller_start
            && let Some(outer) = flat.spans[module.instruction(caller).computation()]
        {
            *start = (*start).min(outer.0);
        }
    }
}

/// The `async-done` at the end of a chain.
fn async_done(
    module: &HloModule,
    dataflow: &HloDataflowAnalysis,
    mut id: InstructionId,
) -> Option<InstructionId> {
    loop {
        if module.instruction(id).opcode() == HloOpcode::AsyncDone {
            return Some(id);
        }
        let next = dataflow.users.of(id).iter().find(|(user, _)| {
            matches!(
                module.instruction(*user).opcode(),
                HloOpcode::AsyncUpdate | HloOpcode::AsyncDone
            )
        });
        id = next?.0;
    }
}

fn last_use(
    module: &HloModule,
    dataflow: &HloDataflowAnalysis,
    flat: &Flat<'_>,
    value: ValueIndex,
) -> Option<u32> {
    let mut last = None;
    for used in dataflow.uses_of(value) {
        let user = module.instruction(used.instruction);
        let mut at = used.instruction;
        match user.opcode() {
            // The uses inside say when a call is done with it.
            HloOpcode::Call => {
                let callee = user.called_computations().first().copied();
                if callee.is_some_and(|callee| flat.spans[callee].is_some()) {
                    continue;
                }
            }
            // What a loop starts with is gone once its body runs.
            HloOpcode::While => {
                let body = graph::while_computations(module, used.instruction)
                    .map(|pair| pair.1)
                    .filter(|&body| flat.spans[body].is_some());
                if let Some(&parameter) =
                    body.and_then(|body| module.computation(body).parameters.first())
                {
                    at = parameter;
                }
            }
            _ => {}
        }
        if flat.time[at] != NEVER {
            last = last.max(Some(flat.time[at]));
        }
    }
    last
}

/// Values that share memory follow each other: each lives until the next begins, and what comes
/// later lives at least as long as what came before.
fn normalize(ranges: &mut [Option<TimeBound>], alias: &HloAliasAnalysis) {
    for buffer in alias.buffers() {
        if buffer.len() < 2 {
            continue;
        }
        let mut order: Vec<(u32, u32, ValueIndex)> = buffer
            .iter()
            .filter_map(|&value| ranges[value.0 as usize].map(|r| (r.start, r.end, value)))
            .collect();
        order.sort_unstable();
        for pair in 1..order.len() {
            let (first, second) = (order[pair - 1].2.0 as usize, order[pair].2.0 as usize);
            let (Some(mut one), Some(mut two)) = (ranges[first], ranges[second]) else {
                continue;
            };
            two.end = two.end.max(one.end);
            one.end = one.end.min(two.start);
            ranges[first] = Some(one);
            ranges[second] = Some(two);
        }
    }
}
