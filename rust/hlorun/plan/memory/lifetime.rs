//! When each logical buffer holds something that is still needed.
//!
//! In: thunks over logical buffers. Out: for each buffer a sorted list of [`Segment`]s on one
//! clock. The clock counts thunks in the order of the text; loops and branches are walked once,
//! and what is read in a loop it was not made in lives through the whole loop.

use crate::plan::faults::{self, Fault};
use crate::plan::thunk::{
    Access, Effect, LoopThunk, Order, Place, RowTiledThunk, Thunk, ThunkKind, ThunkSequence,
};
use crate::plan::thunk::{BufferKind, LogicalBuffer};
use crate::plan::view::{PRIVATE, is_one_run};

/// A stretch of time, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First thunk.
    pub start: u32,
    /// Last thunk.
    pub end: u32,
}

/// A loop on the clock.
#[derive(Clone, Copy, Debug)]
struct Loop {
    span: Segment,
    /// When the predicate is read, and the loop may end.
    check: u32,
    parent: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct TimedAccess {
    time: u32,
    effect: Effect,
    inside: Option<u32>,
}

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
    loops: Vec<Loop>,
    accesses: Vec<Vec<TimedAccess>>,
    copies: Vec<CopyCandidate>,
    in_place: Vec<InPlaceCandidate>,
}

/// Walks `thunks`.
pub fn lifetimes(thunks: &ThunkSequence, buffers: &[LogicalBuffer]) -> Lifetimes {
    let mut walk = Walk {
        clock: 0,
        loops: Vec::new(),
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
        .map(|(at, accesses)| walk.segments(accesses, buffers[at].kind, end))
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
    /// Recursion is bounded by the nesting the lowering allows.
    fn sequence(&mut self, thunks: &ThunkSequence, inside: Option<u32>, depth: u32) {
        for thunk in thunks {
            let time = self.clock;
            self.clock += 1;
            if let ThunkKind::While(body) = &thunk.kind {
                let id = self.loops.len() as u32;
                self.loops.push(Loop {
                    span: Segment {
                        start: time,
                        end: time,
                    },
                    check: time,
                    parent: inside,
                });
                self.sequence(&body.condition, Some(id), depth + 1);
                let check = self.clock;
                self.clock += 1;
                self.loops[id as usize].check = check;
                // Its indices, too, are read after the whole condition.
                for access in thunk.accesses() {
                    self.note(&access, check, Some(id));
                }
                self.sequence(&body.body, Some(id), depth + 1);
                self.loops[id as usize].span.end = self.clock;
                self.clock += 1;
                continue;
            }
            for access in thunk.accesses() {
                self.note(&access, time, inside);
            }
            self.candidates(thunk, time, depth);
            for nested in thunk.nested() {
                self.sequence(nested, inside, depth);
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

    /// The outermost loop around a touch in `inside` that is not around `home`.
    fn foreign_loop(&self, inside: Option<u32>, home: Option<u32>) -> Option<u32> {
        let mut around_home = Vec::new();
        let mut at = home;
        while let Some(id) = at {
            around_home.push(id);
            at = self.loops[id as usize].parent;
        }
        let mut outermost = None;
        let mut at = inside;
        while let Some(id) = at {
            if !around_home.contains(&id) {
                outermost = Some(id);
            }
            at = self.loops[id as usize].parent;
        }
        outermost
    }

    fn segments(&self, accesses: &[TimedAccess], kind: BufferKind, end: u32) -> Vec<Segment> {
        let Some(first) = accesses.first() else {
            return Vec::new();
        };
        let home = first.inside;
        let whole = match kind {
            BufferKind::Parameter(_) | BufferKind::Constant(_) => Some(Segment { start: 0, end }),
            _ => None,
        };
        if let Some(whole) = whole {
            return vec![whole];
        }
        let mut hull = Segment {
            start: first.time,
            end: first.time,
        };
        if let BufferKind::Output(_) = kind {
            hull.end = end;
        }
        let mut hole = None;
        for access in accesses {
            let outer = self.foreign_loop(access.inside, home);
            match outer.filter(|_| !faults::holds(Fault::DiesInsideLoop, false)) {
                Some(id) => {
                    hull.start = hull.start.min(self.loops[id as usize].span.start);
                    hull.end = hull.end.max(self.loops[id as usize].span.end);
                }
                None => hull.end = hull.end.max(access.time),
            }
            // The one full write of a state buffer inside its loop ends what was there before.
            if kind == BufferKind::State
                && access.effect.replaces()
                && let Some(id) = access.inside
                && Some(id) == self.foreign_loop(access.inside, home)
            {
                hole = Some((id, access.time));
            }
        }
        let Some((id, write)) = hole else {
            return vec![hull];
        };
        let span = self.loops[id as usize].span;
        // What is read after the loop was there when the condition ended it.
        let mut last_read = if hull.end > span.end {
            self.loops[id as usize].check
        } else {
            span.start
        };
        for access in accesses {
            let is_before = access.time >= span.start && access.time < write;
            if is_before && !faults::holds(Fault::StateDiesEarly, false) {
                last_read = last_read.max(match self.foreign_loop(access.inside, Some(id)) {
                    Some(inner) => self.loops[inner as usize].span.end,
                    None => access.time,
                });
            }
        }
        let late = accesses
            .iter()
            .any(|t| t.time > write && t.time <= span.end && t.effect == Effect::Read);
        if late || last_read >= write {
            return vec![hull];
        }
        vec![
            Segment {
                start: hull.start,
                end: last_read,
            },
            Segment {
                start: write,
                end: hull.end,
            },
        ]
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

/// Whether two sorted lists meet anywhere but where, at the moments `except`, the one ends and the
/// other begins. What is written at such a moment and read by nobody still ends nothing.
pub fn interfere(a: &[Segment], b: &[Segment], except: &[u32]) -> bool {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let start = a[i].start.max(b[j].start);
        let end = a[i].end.min(b[j].end);
        let follow =
            (a[i].end, b[j].start) == (start, start) || (b[j].end, a[i].start) == (start, start);
        if start <= end && !(start == end && follow && except.contains(&start)) {
            return true;
        }
        if a[i].end < b[j].end {
            i += 1;
        } else {
            j += 1;
        }
    }
    false
}

/// The union of two sorted lists.
pub fn merge(a: &[Segment], b: &[Segment]) -> Vec<Segment> {
    let mut all: Vec<Segment> = a.iter().chain(b).copied().collect();
    all.sort_by_key(|s| s.start);
    let mut merged: Vec<Segment> = Vec::with_capacity(all.len());
    for segment in all {
        match merged.last_mut() {
            Some(last) if segment.start <= last.end => last.end = last.end.max(segment.end),
            _ => merged.push(segment),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(start: u32, end: u32) -> Segment {
        Segment { start, end }
    }

    #[test]
    fn touching_at_the_copy_is_no_interference() {
        assert!(!interfere(&[s(0, 5)], &[s(5, 9)], &[5]));
        assert!(interfere(&[s(0, 5)], &[s(5, 9)], &[4]));
        assert!(interfere(&[s(0, 6)], &[s(5, 9)], &[5]));
        // Written over an input that lives on, and read by nobody.
        assert!(interfere(&[s(0, 6)], &[s(5, 5)], &[5]));
        assert!(interfere(&[s(5, 5)], &[s(0, 6)], &[5]));
        assert!(!interfere(&[s(0, 5)], &[s(5, 5)], &[5]));
        assert!(!interfere(&[s(0, 3), s(8, 10)], &[s(3, 8)], &[3, 8]));
        assert!(interfere(&[s(0, 3), s(8, 10)], &[s(3, 8)], &[8]));
        assert_eq!(merge(&[s(0, 3), s(8, 10)], &[s(3, 8)]), vec![s(0, 10)]);
    }
}
