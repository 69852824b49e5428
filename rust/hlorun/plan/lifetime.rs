//! When each logical buffer holds something that is still needed.
//!
//! In: thunks over logical buffers. Out: for each buffer a sorted list of [`Segment`]s on one
//! clock. The clock counts thunks in the order of the text; loops and branches are walked once,
//! and what is read in a loop it was not made in lives through the whole loop.

use super::lower::{BufferKind, LogicalBuffer};
use super::thunk::{Access, BandThunk, Load, Thunk, ThunkKind, ThunkSequence, visit_view};
use super::view::PRIVATE;

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
struct Touch {
    time: u32,
    access: Access,
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
    touches: Vec<Vec<Touch>>,
    copies: Vec<CopyCandidate>,
    in_place: Vec<InPlaceCandidate>,
}

/// Walks `thunks`.
pub fn lifetimes(thunks: &mut ThunkSequence, buffers: &[LogicalBuffer]) -> Lifetimes {
    let mut walk = Walk {
        clock: 0,
        loops: Vec::new(),
        touches: vec![Vec::new(); buffers.len()],
        copies: Vec::new(),
        in_place: Vec::new(),
    };
    walk.sequence(thunks, None, 0);
    let end = walk.clock;
    let segments = walk
        .touches
        .iter()
        .enumerate()
        .map(|(at, touches)| walk.segments(touches, buffers[at].kind, end))
        .collect();
    let writes = walk
        .touches
        .iter()
        .map(|t| t.iter().filter(|t| t.access != Access::Read).count() as u32)
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
    fn sequence(&mut self, thunks: &mut ThunkSequence, inside: Option<u32>, depth: u32) {
        for thunk in thunks {
            let time = self.clock;
            self.clock += 1;
            if let ThunkKind::While(body) = &mut thunk.kind {
                let id = self.loops.len() as u32;
                self.loops.push(Loop {
                    span: Segment {
                        start: time,
                        end: time,
                    },
                    check: time,
                    parent: inside,
                });
                self.sequence(&mut body.condition, Some(id), depth + 1);
                let check = self.clock;
                self.clock += 1;
                self.loops[id as usize].check = check;
                // Its indices, too, are read after the whole condition.
                visit_view(&mut body.predicate, Access::Read, &mut |slice, access| {
                    self.touch(slice.allocation, check, access, Some(id));
                });
                self.sequence(&mut body.body, Some(id), depth + 1);
                self.loops[id as usize].span.end = self.clock;
                self.clock += 1;
                continue;
            }
            thunk.visit_slices(&mut |slice, access| {
                self.touch(slice.allocation, time, access, inside);
            });
            self.candidates(&thunk.kind, time, depth);
            for nested in thunk.nested() {
                self.sequence(nested, inside, depth);
            }
        }
    }

    fn touch(&mut self, buffer: u32, time: u32, access: Access, inside: Option<u32>) {
        self.touches[buffer as usize].push(Touch {
            time,
            access,
            inside,
        });
    }

    fn candidates(&mut self, kind: &ThunkKind, time: u32, depth: u32) {
        match kind {
            ThunkKind::Copy(copy) if copy.elidable => self.copies.push(CopyCandidate {
                time,
                source: copy.source.slice.allocation,
                destination: copy.destination.slice.allocation,
                depth,
            }),
            ThunkKind::Bands(bands) => self.band_candidates(bands, time),
            ThunkKind::Loop(fused) => {
                for (at, store) in fused.stores.iter().enumerate() {
                    if !store.covers_buffer || !fused.program.in_place[at] {
                        continue;
                    }
                    for load in &fused.loads {
                        let Some(view) = load.whole_buffer() else {
                            continue;
                        };
                        let only_so = fused.loads.iter().all(|other| {
                            !other.touches(view.slice.allocation) || other.whole_buffer().is_some()
                        });
                        if only_so
                            && view.slice.size == store.view.slice.size
                            && view.element_type.size_bytes()
                                == store.view.element_type.size_bytes()
                        {
                            self.in_place.push(InPlaceCandidate {
                                time,
                                input: view.slice.allocation,
                                output: store.view.slice.allocation,
                            });
                        }
                    }
                }
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

    /// A member may write over what no later member reads, band for band: everybody has to walk it
    /// from its first byte to its last. All of a group happens at one moment, so each buffer has at
    /// most one partner, and what members write is no input to be written over.
    fn band_candidates(&mut self, bands: &BandThunk, time: u32) {
        let loads = |thunk: &Thunk| -> Vec<Load> {
            match &thunk.kind {
                ThunkKind::Loop(fused) => fused.loads.clone(),
                ThunkKind::Reduce(reduce) => reduce.loads.clone(),
                _ => Vec::new(),
            }
        };
        let all: Vec<Vec<Load>> = bands.members.iter().map(loads).collect();
        let start = self.in_place.len();
        for (at, member) in bands.members.iter().enumerate() {
            let first = self.in_place.len();
            self.candidates(&member.kind, time, 0);
            for pair in self.in_place.split_off(first) {
                let mut touching = all.iter().flatten().filter(|l| l.touches(pair.input));
                let mut later = all[at + 1..].iter().flatten();
                let is_free = pair.input < PRIVATE
                    && pair.output < PRIVATE
                    && touching.all(|load| load.whole_buffer().is_some())
                    && !later.any(|load| load.touches(pair.input))
                    && !bands
                        .members
                        .iter()
                        .any(|m| writes_or_starts(m, pair.input))
                    && self.in_place[start..]
                        .iter()
                        .all(|other| other.input != pair.input && other.output != pair.output);
                if is_free {
                    self.in_place.push(pair);
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

    fn segments(&self, touches: &[Touch], kind: BufferKind, end: u32) -> Vec<Segment> {
        let Some(first) = touches.first() else {
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
        for touch in touches {
            match self.foreign_loop(touch.inside, home) {
                Some(id) => {
                    hull.start = hull.start.min(self.loops[id as usize].span.start);
                    hull.end = hull.end.max(self.loops[id as usize].span.end);
                }
                None => hull.end = hull.end.max(touch.time),
            }
            // The one full write of a state buffer inside its loop ends what was there before.
            if kind == BufferKind::State
                && touch.access == Access::Write
                && let Some(id) = touch.inside
                && Some(id) == self.foreign_loop(touch.inside, home)
            {
                hole = Some((id, touch.time));
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
        for touch in touches {
            if touch.time >= span.start && touch.time < write {
                last_read = last_read.max(match self.foreign_loop(touch.inside, Some(id)) {
                    Some(inner) => self.loops[inner as usize].span.end,
                    None => touch.time,
                });
            }
        }
        let late = touches
            .iter()
            .any(|t| t.time > write && t.time <= span.end && t.access == Access::Read);
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

/// Whether a member writes the buffer, starts a reduction from it or multiplies it.
fn writes_or_starts(member: &Thunk, buffer: u32) -> bool {
    match &member.kind {
        ThunkKind::Loop(fused) => {
            let mut stores = fused.stores.iter();
            stores.any(|store| store.view.slice.allocation == buffer)
        }
        ThunkKind::Reduce(reduce) => {
            let mut views = reduce.inits.iter().chain(&reduce.outputs);
            views.any(|view| view.slice.allocation == buffer)
        }
        ThunkKind::Gemm(gemm) => {
            let mut views = [&gemm.a, &gemm.b, &gemm.c].into_iter();
            views.any(|view| view.slice.allocation == buffer)
        }
        _ => false,
    }
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
