//! Which logical buffers share memory, and where they lie.
//!
//! In: thunks over logical buffers. Out: the same thunks over slices of allocations, with every
//! copy dropped whose two sides became one buffer. Two buffers may become one when they never hold
//! different live values: at the copy between them the one ends where the other begins.

use smallvec::SmallVec;

use super::heap::{self, Interval};
use super::lifetime::lifetimes;
use super::segment::{Segment, interfere, merge};
use crate::buffers::ALIGNMENT;
use crate::module::LiteralId;
use crate::plan::faults::{self, Fault};
use crate::plan::thunk::{BufferKind, LogicalBuffer};
use crate::plan::thunk::{Thunk, ThunkKind, ThunkSequence};
use crate::plan::view::PRIVATE;

/// Memory that an executable uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocationKind {
    /// The one block of everything temporary.
    Temp,
    /// Leaf number of the entry's parameters; the caller's memory, never written.
    Parameter(u32),
    /// A constant.
    Constant(LiteralId),
    /// Leaf number of the entry's result.
    Output(u32),
}

/// One allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// What it is.
    pub kind: AllocationKind,
    /// Bytes.
    pub size: usize,
}

/// Where a logical buffer went; kept to explain the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Index of the allocation.
    pub allocation: u32,
    /// Offset in it, in bytes.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// First and last thunk that need it.
    pub live: (u32, u32),
    /// The instruction whose value it holds first.
    pub instruction: Option<crate::module::InstructionId>,
}

/// The result of the stage.
#[derive(Clone, Debug, Default)]
pub struct Assignment {
    /// All allocations; the first is the temporary block.
    pub allocations: Vec<Allocation>,
    /// Where each group of logical buffers went.
    pub placements: Vec<Placement>,
    /// Copies left, of those that could be dropped.
    pub copies_left: usize,
}

struct Groups {
    parent: Vec<u32>,
    segments: Vec<Vec<Segment>>,
    kinds: Vec<BufferKind>,
    /// Writes that are still needed, by group.
    writes: Vec<u32>,
    /// Moments at which a group may share memory with another buffer although both are live: a copy
    /// between them, or a thunk that may write the one over the other.
    meetings: Vec<Vec<(u32, u32)>>,
}

impl Groups {
    fn find(&mut self, buffer: u32) -> u32 {
        let mut root = buffer;
        while self.parent[root as usize] != root {
            root = self.parent[root as usize];
        }
        let mut at = buffer;
        while self.parent[at as usize] != root {
            at = std::mem::replace(&mut self.parent[at as usize], root);
        }
        root
    }

    /// The kind a merged group would have; `None` when they cannot be one.
    fn joint_kind(&self, a: u32, b: u32, dropped_writes: u32) -> Option<BufferKind> {
        use BufferKind::{Constant, Output, Parameter, State, Temp};
        let (kind_a, kind_b) = (self.kinds[a as usize], self.kinds[b as usize]);
        match (kind_a, kind_b) {
            (Temp | State, Temp | State) => Some(Temp),
            (Output(k), Temp | State) | (Temp | State, Output(k)) => Some(Output(k)),
            // Memory that is not ours may stand in for a buffer that only its copy writes.
            (Parameter(_) | Constant(_), Temp | State)
                if faults::holds(
                    Fault::WritesForeignMemory,
                    self.writes[b as usize] <= dropped_writes,
                ) =>
            {
                Some(kind_a)
            }
            (Temp | State, Parameter(_) | Constant(_))
                if self.writes[a as usize] <= dropped_writes =>
            {
                Some(kind_b)
            }
            _ => None,
        }
    }

    fn meet(&mut self, a: u32, b: u32, time: u32) {
        self.meetings[a as usize].push((b, time));
        self.meetings[b as usize].push((a, time));
    }

    /// Moments at which the groups `a` and `b` may share memory.
    fn shared_moments(&mut self, a: u32, b: u32) -> SmallVec<[u32; 4]> {
        let (from, to) = if self.meetings[a as usize].len() <= self.meetings[b as usize].len() {
            (a, b)
        } else {
            (b, a)
        };
        let mut moments = SmallVec::new();
        for at in 0..self.meetings[from as usize].len() {
            let (other, time) = self.meetings[from as usize][at];
            if self.find(other) == to {
                moments.push(time);
            }
        }
        moments
    }

    /// Makes `a` and `b` one buffer if they never hold different live values.
    fn join(&mut self, a: u32, b: u32, dropped_writes: u32) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return true;
        }
        let Some(kind) = self.joint_kind(a, b, dropped_writes) else {
            return false;
        };
        // A parameter or constant holds its value at all times, so it never interferes with a
        // buffer that is only read.
        let foreign = matches!(kind, BufferKind::Parameter(_) | BufferKind::Constant(_));
        if !foreign {
            let moments = self.shared_moments(a, b);
            let (x, y) = (&self.segments[a as usize], &self.segments[b as usize]);
            if !faults::holds(Fault::JoinsLiveBuffers, !interfere(x, y, &moments)) {
                return false;
            }
        }
        let merged = merge(&self.segments[a as usize], &self.segments[b as usize]);
        self.parent[b as usize] = a;
        self.segments[a as usize] = merged;
        self.kinds[a as usize] = kind;
        let writes = self.writes[a as usize] + self.writes[b as usize];
        self.writes[a as usize] = writes.saturating_sub(dropped_writes);
        let meetings = std::mem::take(&mut self.meetings[b as usize]);
        self.meetings[a as usize].extend(meetings);
        true
    }
}

/// Assigns memory to `buffers` and rewrites the slices of `thunks`; dropped copies become
/// [`ThunkKind::Nop`].
pub fn assign(thunks: &mut ThunkSequence, buffers: &[LogicalBuffer]) -> Assignment {
    let life = lifetimes(thunks, buffers);
    let mut groups = Groups {
        parent: (0..buffers.len() as u32).collect(),
        segments: life.segments,
        kinds: buffers.iter().map(|b| b.kind).collect(),
        writes: life.writes,
        meetings: vec![Vec::new(); buffers.len()],
    };
    for copy in &life.copies {
        groups.meet(copy.source, copy.destination, copy.time);
    }
    for pair in &life.in_place {
        groups.meet(pair.input, pair.output, pair.time);
    }
    let mut copies = life.copies;
    copies.sort_by_key(|c| {
        let size = buffers[c.source as usize].size;
        (std::cmp::Reverse(c.depth), std::cmp::Reverse(size), c.time)
    });
    for copy in &copies {
        groups.join(copy.source, copy.destination, 1);
    }
    for pair in &life.in_place {
        let (input, output) = (groups.find(pair.input), groups.find(pair.output));
        let writable = |kind| !matches!(kind, BufferKind::Parameter(_) | BufferKind::Constant(_));
        if writable(groups.kinds[input as usize]) && writable(groups.kinds[output as usize]) {
            groups.join(input, output, 0);
        }
    }
    place(thunks, buffers, &mut groups)
}

fn place(thunks: &mut ThunkSequence, buffers: &[LogicalBuffer], groups: &mut Groups) -> Assignment {
    let mut sizes = vec![0usize; buffers.len()];
    for (at, buffer) in buffers.iter().enumerate() {
        let root = groups.find(at as u32) as usize;
        sizes[root] = sizes[root].max(buffer.size);
    }
    let mut allocations = vec![Allocation {
        kind: AllocationKind::Temp,
        size: 0,
    }];
    let mut slots: Vec<Option<(u32, usize)>> = vec![None; buffers.len()];
    let mut temps = Vec::new();
    let mut intervals = Vec::new();
    let mut placements = Vec::new();
    let mut outputs = Vec::new();
    for at in 0..buffers.len() {
        let segments = &groups.segments[at];
        if groups.parent[at] != at as u32 || segments.is_empty() {
            continue;
        }
        let kind = match groups.kinds[at] {
            BufferKind::Parameter(leaf) => AllocationKind::Parameter(leaf),
            BufferKind::Constant(literal) => AllocationKind::Constant(literal),
            BufferKind::Output(leaf) => AllocationKind::Output(leaf),
            BufferKind::Temp | BufferKind::State => {
                temps.push(at);
                intervals.push(Interval {
                    size: sizes[at] as u64,
                    start: segments[0].start,
                    end: segments[segments.len() - 1].end,
                });
                continue;
            }
        };
        if let AllocationKind::Output(_) = kind {
            outputs.push(OutputReuse::new(
                allocations.len() as u32,
                sizes[at] as u64,
                segments[0].start,
            ));
        }
        slots[at] = Some((allocations.len() as u32, 0));
        allocations.push(Allocation {
            kind,
            size: sizes[at],
        });
    }
    reuse_outputs(&mut temps, &mut intervals, &mut outputs, &mut slots);
    let packing = heap::pack(&intervals, ALIGNMENT as u64);
    allocations[0].size = packing.total as usize;
    for (&at, &offset) in temps.iter().zip(&packing.offsets) {
        slots[at] = Some((0, offset as usize));
    }
    for (at, slot) in slots.iter().enumerate() {
        let segments = &groups.segments[at];
        if let (Some((allocation, offset)), Some(first), Some(last)) =
            (*slot, segments.first(), segments.last())
        {
            placements.push(Placement {
                allocation,
                offset,
                size: sizes[at],
                live: (first.start, last.end),
                instruction: buffers[at].instruction,
            });
        }
    }
    let roots: Vec<u32> = (0..buffers.len() as u32).map(|b| groups.find(b)).collect();
    let mut copies_left = 0;
    rewrite(thunks, &roots, &slots, &mut copies_left);
    Assignment {
        allocations,
        placements,
        copies_left,
    }
}

/// The memory of an output before its value is written: room for what is needed only until then.
struct OutputReuse {
    allocation: u32,
    size: u64,
    /// From this moment on the output is in its place.
    taken_from: u32,
    guests: Vec<(u64, Interval)>,
}

impl OutputReuse {
    fn new(allocation: u32, size: u64, taken_from: u32) -> OutputReuse {
        OutputReuse {
            allocation,
            size,
            taken_from,
            guests: Vec::new(),
        }
    }

    /// The lowest aligned offset at which `interval` meets no other guest.
    fn place(&self, interval: &Interval) -> Option<u64> {
        let is_dead = faults::holds(Fault::ReusesLiveOutput, interval.end < self.taken_from);
        if !is_dead || interval.size > self.size {
            return None;
        }
        let mut busy: Vec<(u64, u64)> = self
            .guests
            .iter()
            .filter(|(_, guest)| guest.overlaps(interval))
            .map(|(offset, guest)| (*offset, offset + guest.size))
            .collect();
        busy.sort_unstable();
        let mut at = 0u64;
        for (start, end) in busy {
            if at + interval.size <= start {
                break;
            }
            at = at.max(end.next_multiple_of(ALIGNMENT as u64));
        }
        (at + interval.size <= self.size).then_some(at)
    }
}

/// Temporaries worth placing in an output; smaller ones gain nothing.
const MIN_GUEST: u64 = 1 << 16;
/// Most guests of one output, which bounds the search.
const MAX_GUESTS: usize = 256;

/// Puts temporaries into outputs that are written only after they are dead, largest first, each into
/// the smallest output it fits; the rest stays in `temps`.
fn reuse_outputs(
    temps: &mut Vec<usize>,
    intervals: &mut Vec<Interval>,
    outputs: &mut [OutputReuse],
    slots: &mut [Option<(u32, usize)>],
) {
    outputs.sort_by_key(|l| (l.size, l.allocation));
    let mut order: Vec<usize> = (0..temps.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(intervals[i].size), intervals[i].start, i));
    let mut is_placed = vec![false; temps.len()];
    for i in order {
        let interval = intervals[i];
        if interval.size < MIN_GUEST {
            break;
        }
        for output in outputs.iter_mut() {
            if output.guests.len() < MAX_GUESTS
                && let Some(offset) = output.place(&interval)
            {
                output.guests.push((offset, interval));
                slots[temps[i]] = Some((output.allocation, offset as usize));
                is_placed[i] = true;
                break;
            }
        }
    }
    let mut stays = is_placed.iter().map(|l| !l);
    temps.retain(|_| stays.next().unwrap_or(true));
    let mut stays = is_placed.iter().map(|l| !l);
    intervals.retain(|_| stays.next().unwrap_or(true));
}

/// Recursion is bounded by the nesting the lowering allows.
fn rewrite(
    thunks: &mut ThunkSequence,
    roots: &[u32],
    slots: &[Option<(u32, usize)>],
    copies_left: &mut usize,
) {
    for thunk in thunks.iter_mut() {
        if let ThunkKind::Copy(copy) = &thunk.kind
            && copy.elidable
        {
            let root = |buffer: u32| roots[buffer as usize];
            if root(copy.source.slice.allocation) == root(copy.destination.slice.allocation) {
                thunk.kind = ThunkKind::Nop;
                continue;
            }
            *copies_left += 1;
        }
        thunk.rename(&mut |slice, _| {
            if slice.allocation >= PRIVATE {
                return;
            }
            if let Some((allocation, offset)) = slots[roots[slice.allocation as usize] as usize] {
                slice.allocation = allocation;
                slice.offset += offset;
            }
        });
        for nested in thunk.nested_mut() {
            rewrite(nested, roots, slots, copies_left);
        }
    }
}

/// Takes out the copies that the assignment dropped. Recursion is bounded by the nesting the lowering
/// allows.
pub fn forget_dropped(thunks: &mut ThunkSequence) {
    thunks.retain(|thunk: &Thunk| !matches!(thunk.kind, ThunkKind::Nop));
    for thunk in thunks {
        thunk.nested_mut().into_iter().for_each(forget_dropped);
    }
}
