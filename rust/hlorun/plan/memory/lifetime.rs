//! When each logical buffer holds something that is still needed.
//!
//! In: thunks over logical buffers. Out: for each buffer a sorted list of [`Segment`]s on one clock, and where buffers might
//! become one. The clock counts thunks in the order of the text, and the ends of loops and branches; [`super::liveness`] says
//! how control flows over it.

use super::liveness::{Flow, Regions, TimedAccess};
use super::segment::Segment;
use crate::plan::faults::{self, Fault};
use crate::plan::thunk::{
    Access, Effect, LoopThunk, Order, Place, RowTiledThunk, Thunk, ThunkKind, ThunkSequence,
};
use crate::plan::thunk::{BufferKind, LogicalBuffer};
use crate::plan::view::{PRIVATE, is_one_run};

/// A copy that might be dropped.
#[derive(Clone, Copy, Debug)]
pub struct CopyCandidate {
    /// When.
    pub time: u32,
    /// From which buffer.
    pub source: u32,
    /// To which buffer.
    pub destination: u32,
    /// How many loops it is in.
    pub depth: u32,
}

/// A loop or product whose output may take the place of an input.
#[derive(Clone, Copy, Debug)]
pub struct InPlaceCandidate {
    /// When.
    pub time: u32,
    /// The input's buffer.
    pub input: u32,
    /// The output's buffer.
    pub output: u32,
}

/// What the walk over the thunks found.
#[derive(Default)]
pub struct Lifetimes {
    /// Segments by buffer; empty for buffers nobody touches.
    pub segments: Vec<Vec<Segment>>,
    /// How often each buffer is written.
    pub writes: Vec<u32>,
    /// Copies that might be dropped.
    pub copies: Vec<CopyCandidate>,
    /// Outputs that might take the place of inputs.
    pub in_place: Vec<InPlaceCandidate>,
    /// Number of thunks.
    pub length: u32,
}

struct Walk {
    clock: u32,
    regions: Regions,
    accesses: Vec<Vec<TimedAccess>>,
    copies: Vec<CopyCandidate>,
    in_place: Vec<InPlaceCandidate>,
}

/// Walks `thunks`.
pub fn lifetimes(thunks: &ThunkSequence, buffers: &[LogicalBuffer]) -> Lifetimes {
    let mut walk = Walk {
        clock: 0,
        regions: Regions::default(),
        accesses: vec![Vec::new(); buffers.len()],
        copies: Vec::new(),
        in_place: Vec::new(),
    };
    walk.sequence(thunks, None, 0);
    let end = walk.clock;
    let segments = walk
        .accesses
        .iter()
        .enumerate()
        .map(|(at, accesses)| segments(&walk.regions, accesses, buffers[at].kind, end))
        .collect();
    let writes = walk
        .accesses
        .iter()
        .map(|t| t.iter().filter(|t| t.effect.writes()).count() as u32)
        .collect();
    Lifetimes {
        segments,
        writes,
        copies: walk.copies,
        in_place: walk.in_place,
        length: end,
    }
}

impl Walk {
    /// The next moment.
    fn tick(&mut self) -> u32 {
        self.clock += 1;
        self.clock - 1
    }

    /// Recursion is bounded by the nesting the lowering allows.
    fn sequence(&mut self, thunks: &ThunkSequence, inside: Option<u32>, depth: u32) {
        for thunk in thunks {
            let time = self.tick();
            match &thunk.kind {
                ThunkKind::While(body) => {
                    let id = self.regions.begin(time, inside, Flow::Loop { check: time });
                    self.sequence(&body.condition, Some(id), depth + 1);
                    let check = self.tick();
                    self.regions.list[id as usize].flow = Flow::Loop { check };
                    // Its indices, too, are read after the whole condition.
                    for access in thunk.accesses() {
                        self.note(&access, check, Some(id));
                    }
                    self.sequence(&body.body, Some(id), depth + 1);
                    self.regions.list[id as usize].span.end = self.tick();
                }
                ThunkKind::Conditional(branches) => {
                    for access in thunk.accesses() {
                        self.note(&access, time, inside);
                    }
                    let conditional = self.regions.begin_conditional(time);
                    for branch in &branches.branches {
                        let start = self.tick();
                        let flow = Flow::Branch { conditional };
                        let id = self.regions.begin(start, inside, flow);
                        self.sequence(branch, Some(id), depth);
                        self.regions.list[id as usize].span.end = self.tick();
                    }
                    self.regions.conditionals[conditional as usize].0.end = self.tick();
                }
                _ => {
                    for access in thunk.accesses() {
                        self.note(&access, time, inside);
                    }
                    self.candidates(thunk, time, depth);
                }
            }
        }
    }

    fn note(&mut self, access: &Access<'_>, time: u32, inside: Option<u32>) {
        self.accesses[access.slice.allocation as usize].push(TimedAccess {
            time,
            effect: access.effect,
            inside,
        });
    }

    fn candidates(&mut self, thunk: &Thunk, time: u32, depth: u32) {
        match &thunk.kind {
            ThunkKind::Copy(copy) if copy.elidable => self.copies.push(CopyCandidate {
                time,
                source: copy.source.slice.allocation,
                destination: copy.destination.slice.allocation,
                depth,
            }),
            ThunkKind::RowTiled(tiled) => self.row_tiled_candidates(tiled, time),
            ThunkKind::Loop(fused) => {
                let pairs = in_place_pairs(thunk, fused);
                self.in_place
                    .extend(pairs.into_iter().map(|(input, output)| InPlaceCandidate {
                        time,
                        input,
                        output,
                    }));
            }
            ThunkKind::Collective(collective) => {
                for (input, output) in collective.in_place() {
                    self.in_place.push(InPlaceCandidate {
                        time,
                        input,
                        output,
                    });
                }
            }
            _ => {}
        }
    }

    /// A member may write over what no other member touches but element by element, and no later one
    /// at all. All of a group happens at one moment, so each buffer has at most one partner, and what
    /// members write is no input to be written over.
    fn row_tiled_candidates(&mut self, tiled: &RowTiledThunk, time: u32) {
        let start = self.in_place.len();
        for (at, member) in tiled.members.iter().enumerate() {
            let ThunkKind::Loop(fused) = &member.kind else {
                continue;
            };
            for (input, output) in in_place_pairs(member, fused) {
                let mut before = tiled.members[..at].iter();
                let mut later = tiled.members[at + 1..].iter();
                let is_free = input < PRIVATE
                    && output < PRIVATE
                    && before.all(|member| {
                        faults::holds(Fault::GroupReusesInput, reads_in_order(member, input))
                    })
                    && faults::holds(
                        Fault::GroupReusesLiveInput,
                        later.all(|member| is_apart(member, input)),
                    )
                    && self.in_place[start..]
                        .iter()
                        .all(|other| other.input != input && other.output != output);
                if is_free {
                    self.in_place.push(InPlaceCandidate {
                        time,
                        input,
                        output,
                    });
                }
            }
        }
    }
}

fn segments(
    regions: &Regions,
    accesses: &[TimedAccess],
    kind: BufferKind,
    end: u32,
) -> Vec<Segment> {
    let whole = Segment { start: 0, end };
    match kind {
        _ if accesses.is_empty() => Vec::new(),
        BufferKind::Parameter(_) | BufferKind::Constant(_) => vec![whole],
        BufferKind::Output(_) => regions.live(accesses, Some(end)),
        BufferKind::Temp | BufferKind::State => regions.live(accesses, None),
    }
}

/// Whether an access reads the whole buffer, element `k` of it as element `k` of the thunk's space.
fn reads_whole_in_order(access: &Access<'_>) -> bool {
    let (Place::View(view), Order::Elements(walk)) = (access.place, access.order) else {
        return false;
    };
    let count: i64 = walk.iter().map(|step| step.0).product();
    access.effect == Effect::Read
        && is_one_run(walk)
        && view.offset == 0
        && view.dynamic.is_empty()
        && view.slice.size == count as usize * view.element_type.size_bytes()
}

/// Whether a thunk touches nothing of the buffer but by reading all of it in order.
fn reads_in_order(thunk: &Thunk, buffer: u32) -> bool {
    let mut accesses = thunk.accesses();
    accesses.all(|access| access.slice.allocation != buffer || reads_whole_in_order(&access))
}

/// Whether a thunk touches nothing of the buffer.
fn is_apart(thunk: &Thunk, buffer: u32) -> bool {
    thunk
        .accesses()
        .all(|access| access.slice.allocation != buffer)
}

/// Inputs and outputs of a loop, by their buffers, that may be one piece of memory: element `k` of
/// the output is written where element `k` of the input was read, and nothing else of the input is
/// touched.
fn in_place_pairs(thunk: &Thunk, fused: &LoopThunk) -> Vec<(u32, u32)> {
    let mut pairs = Vec::new();
    for (at, store) in fused.stores.iter().enumerate() {
        let reads_first = faults::holds(Fault::LoopReadsAfterWrite, fused.program.in_place[at]);
        if !store.covers_buffer || !reads_first {
            continue;
        }
        for access in thunk.accesses().filter(reads_whole_in_order) {
            let (input, Place::View(view)) = (access.slice.allocation, access.place) else {
                continue;
            };
            if faults::holds(Fault::LoopReusesInput, reads_in_order(thunk, input))
                && view.slice.size == store.view.slice.size
                && view.element_type.size_bytes() == store.view.element_type.size_bytes()
            {
                pairs.push((input, store.view.slice.allocation));
            }
        }
    }
    pairs
}
