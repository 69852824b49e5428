//! A buffer assignment from the module alone.
//!
//! Comes in: a module and a schedule. Goes out: a [`BufferAssignmentDump`] that prints in XLA's
//! format. The rules are those of XLA's `BufferAssigner`: parameters, constants, results and tuples
//! get allocations of their own, which later values may reuse; everything else goes to one heap;
//! what runs per element is thread-local. Promise: [`super::check()`] finds nothing wrong with the
//! result.

use foldhash::HashSet;
use smallvec::SmallVec;

use super::can_share::can_share;
use super::check::{ComputationKind, computation_kinds};
use super::describe::describe;
use super::model::{AllocationFlags, BufferAssignmentDump};
use super::timeline::Timeline;
use crate::analysis::dataflow::{self, HloAliasAnalysis, HloDataflowAnalysis, ValueIndex};
use crate::analysis::live_range::{HloLiveRange, LiveRangeOptions, TimeBound};
use crate::analysis::schedule::HloSchedule;
use crate::error::{HloError, Result};
use crate::module::{ComputationId, HloModule, HloOpcode, IdMap, InstructionId};
use crate::plan::memory::heap::{self, Interval};
use crate::types::{Shape, ShapeIndex};

/// How to assign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssignOptions {
    /// Offsets in the heap are multiples of this many bytes.
    pub alignment: u64,
}

impl Default for AssignOptions {
    fn default() -> AssignOptions {
        AssignOptions { alignment: 64 }
    }
}

/// Stands for no place in a list.
const NOWHERE: usize = usize::MAX;

/// An allocation in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Assigned {
    pub size: u64,
    /// Values with their offsets.
    pub values: SmallVec<[(ValueIndex, u64); 1]>,
    pub parameter: Option<(u32, ShapeIndex)>,
    pub flags: AllocationFlags,
    is_tuple: bool,
    /// When its values are live, by start and value; they never overlap by more than a moment.
    timeline: Timeline,
    /// Some value is not scheduled and may be live at any time.
    is_timeless: bool,
    /// A parameter the result does not alias: never written.
    is_readonly: bool,
}

/// A module's values and when they are live.
pub(super) struct Analyses<'m> {
    pub module: &'m HloModule,
    pub dataflow: HloDataflowAnalysis,
    pub alias: HloAliasAnalysis,
    pub live: HloLiveRange,
}

impl<'m> Analyses<'m> {
    /// Errors: those of [`assign_buffers`].
    pub fn of(module: &'m HloModule, schedule: &HloSchedule) -> Result<Analyses<'m>> {
        if let Some(problem) = schedule.problems(module).first() {
            let message = format!("buffers need a legal schedule: {problem:?}");
            return Err(HloError::unsupported(message, ""));
        }
        let dataflow = HloDataflowAnalysis::run(module)?;
        let alias = HloAliasAnalysis::run(module, &dataflow);
        let options = LiveRangeOptions::default();
        let live = HloLiveRange::run(module, schedule, &dataflow, &alias, options);
        Ok(Analyses {
            module,
            dataflow,
            alias,
            live,
        })
    }
}

/// Assigns memory to all values of a module.
///
/// # Errors
/// [`HloError::Unsupported`] when the module's values cannot be followed, when a size is not
/// known, or when the schedule is illegal.
pub fn assign_buffers(
    module: &HloModule,
    schedule: &HloSchedule,
    options: AssignOptions,
) -> Result<BufferAssignmentDump> {
    let analyses = Analyses::of(module, schedule)?;
    let allocations = allocations_of(&analyses, options)?;
    Ok(describe(&analyses, allocations))
}

/// All allocations with their values.
///
/// # Errors
/// As [`assign_buffers`].
pub(super) fn allocations_of(
    analyses: &Analyses<'_>,
    options: AssignOptions,
) -> Result<Vec<Assigned>> {
    let mut assigner = Assigner::new(analyses, options)?;
    assigner.global();
    assigner.heap();
    assigner.thread_local();
    Ok(assigner.allocations)
}

struct Assigner<'a, 'm> {
    of: &'a Analyses<'m>,
    options: AssignOptions,
    kinds: IdMap<ComputationId, ComputationKind>,
    /// Order of instructions that decides between buffers of equal size.
    order: IdMap<InstructionId, u32>,
    buffer_sizes: Vec<u64>,
    lives_out: Vec<bool>,
    donated: HashSet<(i64, &'m ShapeIndex)>,
    allocations: Vec<Assigned>,
    /// By value; none yet where it is [`NOWHERE`].
    allocation_of: Vec<usize>,
    /// Allocations that later buffers may reuse and their bytes, in the order they were made.
    reusable: Vec<(usize, u64)>,
    /// Buffers for the heap.
    heap_buffers: Vec<usize>,
}

impl<'a, 'm> Assigner<'a, 'm> {
    fn new(of: &'a Analyses<'m>, options: AssignOptions) -> Result<Assigner<'a, 'm>> {
        let mut buffer_sizes = Vec::new();
        let mut lives_out = Vec::new();
        for buffer in of.alias.buffers() {
            let mut size = 0;
            for &value in buffer {
                let shape = of.dataflow.shape(value);
                let bytes = dataflow::byte_size_of(of.module, shape).ok_or_else(|| {
                    let id = of.dataflow.defining_instruction(value);
                    let name = of.module.instruction(id).name();
                    HloError::unsupported(format!("the size of `{name}` is not known"), name)
                })?;
                size = size.max(bytes);
            }
            buffer_sizes.push(size);
            let out = |&value: &ValueIndex| of.dataflow.lives_out(of.module, value);
            lives_out.push(buffer.iter().any(out));
        }
        Ok(Assigner {
            of,
            options,
            kinds: computation_kinds(of.module),
            order: instruction_order(of),
            buffer_sizes,
            lives_out,
            donated: of.module.config.donated(),
            allocations: Vec::new(),
            allocation_of: vec![NOWHERE; of.dataflow.values().len()],
            reusable: Vec::new(),
            heap_buffers: Vec::new(),
        })
    }

    /// Buffers whose first value is in a computation of `kind`, largest first.
    fn sorted_buffers(&self, kind: ComputationKind) -> Vec<usize> {
        let alias = &self.of.alias;
        let mut sorted: Vec<usize> = (0..alias.buffer_count())
            .filter(|&buffer| {
                let id = self
                    .of
                    .dataflow
                    .defining_instruction(alias.buffer(buffer)[0]);
                self.kinds[self.of.module.instruction(id).computation()] == kind
            })
            .collect();
        let first = |buffer: usize| {
            let position = |&v: &ValueIndex| self.order[self.of.dataflow.defining_instruction(v)];
            let positions = alias.buffer(buffer).iter().map(position);
            positions.min().unwrap_or(0)
        };
        sorted.sort_by_cached_key(|&buffer| {
            let size = std::cmp::Reverse(self.buffer_sizes[buffer]);
            (size, !self.lives_out[buffer], first(buffer), buffer)
        });
        sorted
    }

    fn new_allocation(&mut self, buffer: usize) -> &mut Assigned {
        let index = self.allocations.len();
        self.allocations.push(Assigned {
            size: self.buffer_sizes[buffer],
            ..Assigned::default()
        });
        self.add(index, buffer, 0);
        &mut self.allocations[index]
    }

    fn add(&mut self, allocation: usize, buffer: usize, offset: u64) {
        for &value in self.of.alias.buffer(buffer) {
            let target = &mut self.allocations[allocation];
            target.values.push((value, offset));
            match self.of.live.range(value) {
                // Nothing is put into the heap's allocation after it is packed, so it needs no timeline.
                _ if target.flags.preallocated_temp => {}
                Some(range) => target.timeline.insert(value, range),
                None => target.is_timeless = true,
            }
            self.allocation_of[value.0 as usize] = allocation;
        }
        self.allocations[allocation].flags.maybe_live_out |= self.lives_out[buffer];
    }

    fn allocation_of(&self, value: ValueIndex) -> Option<usize> {
        Some(self.allocation_of[value.0 as usize]).filter(|&allocation| allocation != NOWHERE)
    }

    fn global(&mut self) {
        for buffer in self.sorted_buffers(ComputationKind::Global) {
            self.assign_one(buffer);
        }
    }

    fn thread_local(&mut self) {
        for buffer in self.sorted_buffers(ComputationKind::ThreadLocal) {
            let value = self.of.alias.buffer(buffer)[0];
            let id = self.of.dataflow.defining_instruction(value);
            let constant = self.of.module.instruction(id).opcode() == HloOpcode::Constant;
            let flags = &mut self.new_allocation(buffer).flags;
            flags.constant = constant;
            flags.thread_local = !constant;
        }
    }

    fn assign_one(&mut self, buffer: usize) {
        let of = self.of;
        let values = of.alias.buffer(buffer);
        let defining = |value: ValueIndex| {
            of.module
                .instruction(of.dataflow.defining_instruction(value))
        };
        for &value in values {
            let instruction = defining(value);
            if instruction.opcode() == HloOpcode::Constant {
                let allocation = self.new_allocation(buffer);
                allocation.flags.constant = true;
                return;
            }
            let is_entry = Some(instruction.computation()) == of.module.entry;
            if let Some(number) = instruction.parameter_number().filter(|_| is_entry) {
                let position = of.dataflow.value(value).defining_position;
                let index = of.dataflow.positions.index(position);
                let aliased = self.donated.contains(&(number as i64, &index));
                let at = self.allocations.len();
                let allocation = self.new_allocation(buffer);
                allocation.parameter = Some((number as u32, index));
                allocation.is_readonly = !aliased;
                if aliased {
                    self.reusable.push((at, self.buffer_sizes[buffer]));
                }
                return;
            }
        }
        for &value in values {
            let shape = of.module.shapes().get(of.dataflow.shape(value));
            if matches!(shape, Shape::Tuple(_)) {
                self.new_allocation(buffer).is_tuple = true;
                return;
            }
            let instruction = defining(value);
            let top = of.dataflow.value(value).defining_position;
            if !of.dataflow.positions.is_root(top) {
                continue;
            }
            for &operand in instruction.operand_ids() {
                let whole = of.dataflow.value_at(of.dataflow.positions.root(operand));
                if let Some(allocation) = whole.and_then(|value| self.allocation_of(value))
                    && self.try_reuse(allocation, buffer)
                {
                    return;
                }
            }
        }
        for at in (0..self.reusable.len()).rev() {
            let (allocation, size) = self.reusable[at];
            if self.fits(buffer, size) && self.try_reuse(allocation, buffer) {
                return;
            }
        }
        let scheduled = values.iter().all(|&value| of.live.range(value).is_some());
        if !self.lives_out[buffer] && scheduled {
            self.heap_buffers.push(buffer);
            return;
        }
        let index = self.allocations.len();
        self.new_allocation(buffer);
        self.reusable.push((index, self.buffer_sizes[buffer]));
    }

    /// Whether an allocation of `bytes` has the size for a buffer.
    fn fits(&self, buffer: usize, bytes: u64) -> bool {
        match self.lives_out[buffer] {
            true => self.buffer_sizes[buffer] == bytes,
            false => self.buffer_sizes[buffer] <= bytes,
        }
    }

    fn try_reuse(&mut self, allocation: usize, buffer: usize) -> bool {
        let of = self.of;
        let target = &self.allocations[allocation];
        let reusable = !target.is_tuple && !target.is_readonly && !target.flags.constant;
        if !reusable || !self.fits(buffer, target.size) {
            return false;
        }
        for &value in of.alias.buffer(buffer) {
            if self.interferes(value, target) || self.copies_from(value, allocation) {
                return false;
            }
        }
        self.add(allocation, buffer, 0);
        true
    }

    /// Whether a value is needed at a moment at which a value of `target` is.
    fn interferes(&self, value: ValueIndex, target: &Assigned) -> bool {
        let Some(wanted) = self.of.live.range(value).filter(|_| !target.is_timeless) else {
            return true;
        };
        // Going back in time, the first value that ends too early ends the search.
        for (other, range) in target.timeline.until(wanted.end) {
            if range.end < wanted.start {
                return false;
            }
            let free = if wanted.end == range.start {
                self.hands_over(&wanted, other)
            } else if range.end == wanted.start {
                self.hands_over(&range, value)
            } else {
                false
            };
            if !free {
                return true;
            }
        }
        false
    }

    /// Whether the last reader of a value may write `by` over it.
    fn hands_over(&self, operand: &TimeBound, by: ValueIndex) -> bool {
        let of = self.of;
        if operand.start == operand.end {
            return false;
        }
        let user = of.dataflow.defining_instruction(by);
        let to = of.dataflow.value(by).defining_position;
        can_share(
            of.module,
            &of.dataflow,
            &of.alias,
            operand.end_position,
            user,
            to,
        )
    }

    /// Whether `value` is a copy of something in `allocation`; copies are made to have two.
    fn copies_from(&self, value: ValueIndex, allocation: usize) -> bool {
        let of = self.of;
        let instruction = of
            .module
            .instruction(of.dataflow.defining_instruction(value));
        instruction.opcode() == HloOpcode::Copy
            && instruction.operand_ids().iter().any(|&operand| {
                of.dataflow.positions.of(operand).any(|position| {
                    let held = of.dataflow.value_at(position);
                    held.and_then(|held| self.allocation_of(held)) == Some(allocation)
                })
            })
    }

    /// Packs what is left into one allocation.
    fn heap(&mut self) {
        let of = self.of;
        let heap_buffers = std::mem::take(&mut self.heap_buffers);
        if heap_buffers.is_empty() {
            return;
        }
        let bounds: Vec<(u32, u32)> = heap_buffers
            .iter()
            .map(|&buffer| {
                let ranges = of.alias.buffer(buffer).iter();
                let ranges: Vec<TimeBound> = ranges.filter_map(|&v| of.live.range(v)).collect();
                let start = ranges.iter().map(|r| r.start).min().unwrap_or(0);
                let end = ranges.iter().map(|r| r.end).max().unwrap_or(0);
                (start, end)
            })
            .collect();
        let chains = self.handed_over(&heap_buffers, &bounds);
        let intervals: Vec<Interval> = chains
            .iter()
            .map(|chain| Interval {
                size: chain
                    .iter()
                    .map(|&at| self.buffer_sizes[heap_buffers[at]])
                    .max()
                    .unwrap_or(0),
                start: chain.iter().map(|&at| bounds[at].0).min().unwrap_or(0),
                end: chain.iter().map(|&at| bounds[at].1).max().unwrap_or(0),
            })
            .collect();
        let packing = heap::pack(&intervals, self.options.alignment);
        let index = self.allocations.len();
        let mut size = 0u64;
        self.allocations.push(Assigned::default());
        self.allocations[index].flags.preallocated_temp = true;
        for (chain, &offset) in chains.iter().zip(&packing.offsets) {
            for &at in chain {
                let buffer = heap_buffers[at];
                self.add(index, buffer, offset);
                size = size.max(offset.saturating_add(self.buffer_sizes[buffer]));
            }
        }
        self.allocations[index].size = size;
    }

    /// Buffers that follow each other in place, as chains of indices into `heap_buffers`.
    fn handed_over(&self, heap_buffers: &[usize], bounds: &[(u32, u32)]) -> Vec<Vec<usize>> {
        let of = self.of;
        let mut place = vec![NOWHERE; of.alias.buffer_count()];
        for (at, &buffer) in heap_buffers.iter().enumerate() {
            place[buffer] = at;
        }
        let mut order: Vec<usize> = (0..heap_buffers.len()).collect();
        order.sort_by_key(|&at| (bounds[at].0, at));
        let mut chain_of = vec![NOWHERE; heap_buffers.len()];
        let mut chains: Vec<Vec<usize>> = Vec::new();
        let mut taken = vec![false; heap_buffers.len()];
        for at in order {
            let buffer = heap_buffers[at];
            let starts = of
                .alias
                .buffer(buffer)
                .iter()
                .filter_map(|&value| Some((of.live.range(value)?.start, value)))
                .min();
            let before = starts.and_then(|(_, value)| {
                let user = of.dataflow.defining_instruction(value);
                of.module.operand_ids(user).iter().find_map(|&operand| {
                    let held = of.dataflow.value_at(of.dataflow.positions.root(operand))?;
                    let other = place[of.alias.buffer_of(held)];
                    if other == NOWHERE {
                        return None;
                    }
                    let range = of.live.range(held)?;
                    let same_size =
                        self.buffer_sizes[heap_buffers[other]] == self.buffer_sizes[buffer];
                    let last = bounds[other].1 == bounds[at].0 && range.end == bounds[at].0;
                    let free = other != at && !taken[other];
                    (same_size && last && free && self.hands_over(&range, value)).then_some(other)
                })
            });
            let chain = match before.and_then(|other| {
                taken[other] = true;
                Some(chain_of[other]).filter(|&chain| chain != NOWHERE)
            }) {
                Some(chain) => chain,
                None => {
                    chains.push(Vec::new());
                    chains.len() - 1
                }
            };
            chains[chain].push(at);
            chain_of[at] = chain;
        }
        chains
    }
}

/// Callers before callees, operands before users.
fn instruction_order(of: &Analyses<'_>) -> IdMap<InstructionId, u32> {
    let module = of.module;
    let mut position = IdMap::new(module.instruction_count(), 0u32);
    let computations = crate::module::post_order::computation_post_order(module)
        .unwrap_or_else(|_| module.computation_ids().collect());
    let mut next = 0;
    for computation in computations.into_iter().rev() {
        for &id in of.dataflow.post_order.of(computation) {
            position[id] = next;
            next += 1;
        }
    }
    position
}
