//! Which values are the same on every device, and which steps therefore run once for all of them.
//!
//! In: the thunks of an executable, and which of its inputs are one array for all devices. Out: a
//! [`Lockstep`]: the same thunks in steps that run on each device, once for all, or as a rendezvous.
//! Promise: every value has the bits it has when each device computes it for itself.
//!
//! A value is the same everywhere when it is computed from constants, common inputs, results of
//! collectives that span all devices, and values that are the same everywhere; it is then written
//! once, into memory all devices read. Such memory mirrors the allocations of one device: allocation
//! `n + a` of `n` is the common one that stands for allocation `a`, with the same offsets.

pub mod accesses;
pub mod byte_ranges;
pub mod products;

use rustc_hash::FxHashMap;

use super::faults::{self, Fault};
use super::memory::assign::{AllocationKind, Assignment};
use super::ops::OpKind;
use super::spmd::collective::{CollectiveKind, CollectiveThunk};
use super::thunk::{Effect, GemmThunk, Thunk, ThunkKind, ThunkSequence};
use super::view::{BufferSlice, PRIVATE};
use accesses::{Facts, NestedAccess};
use byte_ranges::ByteRanges;
use products::Postponed;

/// Name by which it is switched off.
pub const NAME: &str = "replicated-values";

/// Steps that write less are left to each device: an interruption of all costs more.
const MIN_BYTES: usize = 64 << 10;
/// Most rounds until no step contradicts another; beyond, nothing is shared.
const MAX_ROUNDS: usize = 64;

/// Steps of all devices, one after the other.
#[derive(Clone, Debug)]
pub enum Step {
    /// Every device runs these.
    Each(ThunkSequence),
    /// One runs these for all.
    Once(ThunkSequence),
    /// All devices meet.
    Meet {
        /// In this.
        collective: Box<CollectiveThunk>,
        /// For every operand, the product that it is where that is not computed before: each block
        /// of it is computed, combined and forgotten.
        products: Vec<Option<Box<GemmThunk>>>,
    },
}

/// The thunks of an executable for devices that go through them side by side.
#[derive(Clone, Debug)]
pub struct Lockstep {
    /// What runs. Slices of common memory name allocations behind those of a device.
    pub steps: Vec<Step>,
    /// For every leaf of the result, whether it is one array for all devices.
    pub shared_outputs: Vec<bool>,
    /// For every allocation, whether devices use memory of their own for it.
    pub own: Vec<bool>,
    /// For every allocation, whether there is a common one.
    pub common: Vec<bool>,
}

/// Where a value is, and whether it is the same everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// With each device; they may differ.
    Varies,
    /// With each device, the same bits, written by this thunk.
    Copies(u32),
    /// In common memory, written by this thunk.
    Common(u32),
}

/// What has been decided about a thunk; decisions only move down this list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Choice {
    /// By its size.
    Free,
    /// Once, because a later one that runs once updates its result.
    Once,
    /// On each device, because something else needs its result there.
    Each,
}

/// What keeps devices from going side by side.
#[derive(Default)]
struct Obstacles {
    /// A collective inside control flow, where devices may part ways.
    nested_collective: bool,
    /// A transfer, for which one device may wait while others go on.
    transfer: bool,
    /// A loop of any number of trips: the failure of another device has to end it,
    open_loop: bool,
    /// which only a call of the user's can have before the next rendezvous.
    custom_call: bool,
}

impl Obstacles {
    /// Recursion is bounded by the nesting the lowering allows.
    fn find(&mut self, thunks: &ThunkSequence, depth: u32) {
        for thunk in thunks {
            match &thunk.kind {
                ThunkKind::Collective(collective) => {
                    self.nested_collective |= depth > 0;
                    self.transfer |= matches!(
                        collective.kind,
                        CollectiveKind::Send { .. } | CollectiveKind::Receive { .. }
                    );
                }
                ThunkKind::CollectiveStart(_) => self.nested_collective |= depth > 0,
                ThunkKind::While(repeated) => self.open_loop |= repeated.trip_count.is_none(),
                ThunkKind::Op(op) => self.custom_call |= matches!(op.kind, OpKind::Custom(_)),
                _ => {}
            }
            for nested in thunk.nested() {
                self.find(nested, depth + 1);
            }
        }
    }

    fn any(&self) -> bool {
        self.nested_collective || self.transfer || (self.open_loop && self.custom_call)
    }
}

/// Whether all devices get the same from it.
fn spreads(collective: &CollectiveThunk) -> bool {
    let everybody = collective.devices.count() as usize;
    matches!(
        collective.kind,
        CollectiveKind::AllReduce | CollectiveKind::AllGather { .. } | CollectiveKind::Broadcast
    ) && faults::holds(
        Fault::SharesGroupResult,
        matches!(&collective.groups.members[..], [one] if one.len() == everybody),
    )
}

/// The analysis of one executable.
struct Analysis<'a> {
    thunks: &'a [Thunk],
    facts: Vec<Facts>,
    allocations: usize,
    /// Places before the first thunk.
    before: ByteRanges<Place>,
    choices: Vec<Choice>,
    /// Whether a thunk's results are the same everywhere.
    uniform: Vec<bool>,
    /// Whether it runs once, if it is free to.
    wanted: Vec<bool>,
}

impl<'a> Analysis<'a> {
    fn new(
        thunks: &'a [Thunk],
        assignment: &Assignment,
        common_inputs: &[bool],
        enabled: bool,
    ) -> Analysis<'a> {
        let mut before = ByteRanges::default();
        for (index, allocation) in assignment.allocations.iter().enumerate() {
            if let AllocationKind::Parameter(leaf) = allocation.kind
                && !common_inputs[leaf as usize]
            {
                let slice = BufferSlice {
                    allocation: index as u32,
                    offset: 0,
                    size: allocation.size,
                };
                before.set(&slice, Place::Varies);
            }
        }
        let count = thunks.len();
        Analysis {
            facts: thunks.iter().map(Facts::of).collect(),
            thunks,
            allocations: assignment.allocations.len(),
            before,
            choices: vec![if enabled { Choice::Free } else { Choice::Each }; count],
            uniform: vec![false; count],
            wanted: vec![false; count],
        }
    }

    fn is_rendezvous(&self, at: usize) -> bool {
        matches!(self.thunks[at].kind, ThunkKind::Collective(_))
    }

    /// Which results are the same everywhere; where they lie plays no role.
    fn find_uniform(&mut self) {
        let mut places = self.before.clone();
        for at in 0..self.thunks.len() {
            let facts = &self.facts[at];
            let uniform = match &self.thunks[at].kind {
                ThunkKind::Collective(collective) => spreads(collective),
                _ => {
                    facts.is_deterministic
                        && facts
                            .accesses
                            .iter()
                            .filter(|access| access.reads_before)
                            .all(|access| {
                                let varies = places.any(&access.slice, |p| p == Place::Varies);
                                faults::holds(Fault::SharesVaryingValue, !varies)
                            })
                }
            };
            self.uniform[at] = uniform;
            for access in facts.accesses.iter().filter(|access| access.writes) {
                let place = if uniform {
                    Place::Copies(at as u32)
                } else {
                    Place::Varies
                };
                places.set(&access.slice, place);
            }
        }
    }

    /// Marks neighbours that together write enough to be worth a step of their own.
    fn find_wanted(&mut self) {
        let mut start = 0;
        while start < self.thunks.len() {
            if self.is_rendezvous(start) || !self.uniform[start] {
                self.wanted[start] = self.uniform[start];
                start += 1;
                continue;
            }
            let mut end = start;
            let mut bytes = 0;
            while end < self.thunks.len() && self.uniform[end] && !self.is_rendezvous(end) {
                bytes += self.facts[end].bytes_written;
                end += 1;
            }
            self.wanted[start..end].fill(bytes >= MIN_BYTES);
            start = end;
        }
    }

    fn runs_once(&self, at: usize) -> bool {
        self.uniform[at]
            && match self.choices[at] {
                Choice::Free => self.wanted[at],
                Choice::Once => true,
                Choice::Each => false,
            }
    }

    /// Walks the thunks with the choices made so far; `visit` gets each with the places before it.
    /// Returns the places at the end.
    fn walk(&self, visit: &mut dyn FnMut(usize, &ByteRanges<Place>)) -> ByteRanges<Place> {
        let mut places = self.before.clone();
        for at in 0..self.thunks.len() {
            visit(at, &places);
            let place = match (self.uniform[at], self.runs_once(at)) {
                (_, true) => Place::Common(at as u32),
                (true, false) => Place::Copies(at as u32),
                (false, false) => Place::Varies,
            };
            for access in self.facts[at]
                .accesses
                .iter()
                .filter(|access| access.writes)
            {
                places.set(&access.slice, place);
            }
        }
        places
    }

    /// Whether a slice that `at` touches lies in memory it writes.
    fn is_written(&self, at: usize, slice: &BufferSlice) -> bool {
        self.facts[at].written.any(slice, |()| true)
    }

    /// Whether what `at` reads at `access` has to be where `at` writes: it is updated there.
    fn must_be_at_home(&self, at: usize, access: &NestedAccess) -> bool {
        access.reads_before
            && (access.writes || (self.facts[at].is_nested && self.is_written(at, &access.slice)))
    }

    /// Decisions that contradict each other, as those that resolve them.
    fn contradictions(&self, outputs: &[BufferSlice]) -> Vec<(u32, Choice)> {
        let mut found = Vec::new();
        let gather = |places: &ByteRanges<Place>, slice: &BufferSlice| {
            let (mut common, mut others, mut own) = (Vec::new(), false, Vec::new());
            places.each(slice, |place| match place {
                Place::Common(by) => common.push(by),
                Place::Copies(by) => own.push(by),
                Place::Varies => others = true,
            });
            (common, others, own)
        };
        let end = self.walk(&mut |at, places| {
            let once = self.runs_once(at) && !self.is_rendezvous(at);
            for access in self.facts[at].accesses.iter().filter(|t| t.reads_before) {
                let (common, others, own) = gather(places, &access.slice);
                let is_mixed = !common.is_empty() && (others || !own.is_empty());
                if !self.must_be_at_home(at, access) {
                    if is_mixed {
                        found.extend(common.iter().map(|&by| (by, Choice::Each)));
                    }
                } else if !once {
                    found.extend(common.iter().map(|&by| (by, Choice::Each)));
                } else {
                    for by in own {
                        if self.choices[by as usize] == Choice::Each
                            || self.is_rendezvous(by as usize)
                        {
                            found.push((at as u32, Choice::Each));
                        } else {
                            found.push((by, Choice::Once));
                        }
                    }
                }
            }
        });
        for slice in outputs {
            let (common, others, own) = gather(&end, slice);
            if !common.is_empty() && (others || !own.is_empty()) {
                found.extend(common.iter().map(|&by| (by, Choice::Each)));
            }
        }
        found
    }

    /// Changes choices until none contradicts another.
    fn settle(&mut self, outputs: &[BufferSlice]) {
        for _ in 0..MAX_ROUNDS {
            let mut changed = false;
            for (at, choice) in self.contradictions(outputs) {
                let old = &mut self.choices[at as usize];
                if choice > *old {
                    *old = choice;
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
        self.choices.fill(Choice::Each);
    }

    /// The thunk `at` with the slices that lie in common memory renamed.
    fn renamed(&self, at: usize, places: &ByteRanges<Place>, used: &mut Lockstep) -> Thunk {
        let once = self.runs_once(at);
        let is_nested = self.facts[at].is_nested;
        let mut rename = |slice: &mut BufferSlice, effect: Effect| {
            let at_home = effect.writes() || (is_nested && self.is_written(at, slice));
            let common = if at_home {
                once
            } else {
                places.any(slice, |place| matches!(place, Place::Common(_)))
            };
            if common {
                used.common[slice.allocation as usize] = true;
                slice.allocation += self.allocations as u32;
            } else {
                used.own[slice.allocation as usize] = true;
            }
        };
        let mut thunk = self.thunks[at].clone();
        visit_all(&mut thunk, &mut rename);
        super::schedule::scalar_bytecode::renew(&mut thunk);
        thunk
    }

    /// Appends the steps; products that are postponed become part of their rendezvous. Returns the
    /// places at the end.
    fn make_steps(&self, postponed: &[Postponed], lockstep: &mut Lockstep) -> ByteRanges<Place> {
        let mut waiting: FxHashMap<(usize, usize), Box<GemmThunk>> = FxHashMap::default();
        self.walk(&mut |at, places| {
            let thunk = self.renamed(at, places, lockstep);
            let steps = &mut lockstep.steps;
            let once = self.runs_once(at);
            if let ThunkKind::Collective(collective) = thunk.kind {
                let products = (0..collective.inputs.len())
                    .map(|operand| waiting.remove(&(at, operand)))
                    .collect();
                steps.push(Step::Meet {
                    collective,
                    products,
                });
                return;
            }
            if let (Some(wait), ThunkKind::Gemm(gemm)) =
                (postponed.iter().find(|p| p.product == at), &thunk.kind)
            {
                waiting.insert((wait.rendezvous, wait.operand), gemm.clone());
                return;
            }
            match steps.last_mut() {
                Some(Step::Once(list)) if once => list.push(thunk),
                Some(Step::Each(list)) if !once => list.push(thunk),
                _ if once => steps.push(Step::Once(vec![thunk])),
                _ => steps.push(Step::Each(vec![thunk])),
            }
        })
    }
}

/// Visits the slices of a thunk and of those inside it. Recursion is bounded by the nesting the
/// lowering allows.
fn visit_all(thunk: &mut Thunk, f: &mut dyn FnMut(&mut BufferSlice, Effect)) {
    thunk.rename(&mut |slice, effect| {
        if slice.allocation < PRIVATE {
            f(slice, effect);
        }
    });
    for nested in thunk.nested_mut() {
        for thunk in nested.iter_mut() {
            visit_all(thunk, f);
        }
    }
}

/// Plans the side-by-side run of `thunks` by all devices; `common_inputs` says which leaves of the
/// parameters are one array for all. `None` where devices may part ways at a collective, which
/// stands inside control flow.
pub fn plan(
    thunks: &ThunkSequence,
    assignment: &Assignment,
    outputs: usize,
    common_inputs: &[bool],
    enabled: bool,
) -> Option<Lockstep> {
    let mut thunks = thunks.clone();
    let mut obstacles = Obstacles::default();
    obstacles.find(&thunks, 0);
    if obstacles.any() {
        return None;
    }
    // Nothing leaves for another process, so there is nothing to start early.
    thunks.retain(|thunk| !matches!(thunk.kind, ThunkKind::CollectiveStart(_)));
    let allocations = assignment.allocations.len();
    let output_slices = products::output_slices(assignment);
    let mut analysis = Analysis::new(&thunks, assignment, common_inputs, enabled);
    analysis.find_uniform();
    analysis.find_wanted();
    analysis.settle(&output_slices);
    let mut lockstep = Lockstep {
        steps: Vec::new(),
        shared_outputs: vec![false; outputs],
        own: vec![false; allocations],
        common: vec![false; allocations],
    };
    let mut postponed = products::postponed(&thunks, &analysis.facts, &output_slices);
    postponed.retain(|p| !analysis.uniform[p.product]);
    let end = analysis.make_steps(&postponed, &mut lockstep);
    for slice in &output_slices {
        if let AllocationKind::Output(leaf) = assignment.allocations[slice.allocation as usize].kind
        {
            lockstep.shared_outputs[leaf as usize] =
                end.any(slice, |place| matches!(place, Place::Common(_)));
        }
    }
    Some(lockstep)
}
