//! Whether every read finds what was written for it.
//!
//! The state is, for every logical buffer, the bytes whose value is in the buffer's place. A write
//! adds them to its own buffer and takes them from all others that lie there; a dropped copy gives
//! its destination what its source has. Where ways meet, what both have stays; a loop is walked until
//! its head has settled, which it does because sets only shrink. A loop in a loop is reached again with
//! less, so that it starts from what its head had settled to: loops in loops take steps by their
//! depth, not by its power.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::byte_set::ByteSet;
use super::plan::{Findings, Places, Plan, each_member, is_dropped};
use crate::plan::memory::assign::AllocationKind;
use crate::plan::thunk::BufferKind;
use crate::plan::thunk::{Access, RowTiledThunk, Thunk, ThunkKind, WhileThunk};
use crate::plan::view::PRIVATE;

/// The bytes of each buffer that are there; buffers without any have no entry.
type State = FxHashMap<u32, ByteSet>;

struct Walk<'p> {
    plan: &'p Plan<'p>,
    places: &'p Places,
    /// Buffers by the allocation they lie in: first byte, size, number; sorted.
    residents: FxHashMap<u32, Vec<(usize, usize, u32)>>,
    /// Size of the largest resident, by allocation.
    largest: FxHashMap<u32, usize>,
    /// Findings count; off while a loop has not settled.
    is_settled: bool,
    /// What a loop was last reached with, and what its head settled to.
    heads: FxHashMap<*const Thunk, (State, State)>,
    /// Thunks that may still be walked.
    left: usize,
}

/// Most thunks that are walked, those of loops again and again; a plan that takes more is not proved.
const MAX_STEPS: usize = 1 << 22;

/// Checks all reads and the outputs.
pub fn check(plan: &Plan<'_>, places: &Places, findings: &mut Findings) {
    check_within(MAX_STEPS, plan, places, findings);
}

fn check_within(steps: usize, plan: &Plan<'_>, places: &Places, findings: &mut Findings) {
    let mut walk = Walk {
        plan,
        places,
        residents: FxHashMap::default(),
        largest: FxHashMap::default(),
        is_settled: true,
        heads: FxHashMap::default(),
        left: steps,
    };
    let mut state = State::default();
    for (number, (buffer, place)) in (0..).zip(plan.buffers.iter().zip(places)) {
        let Some((allocation, offset)) = *place else {
            continue;
        };
        let residents = walk.residents.entry(allocation).or_default();
        residents.push((offset, buffer.size, number));
        let largest = walk.largest.entry(allocation).or_default();
        *largest = (*largest).max(buffer.size);
        let kind = plan.assignment.allocations[allocation as usize].kind;
        let is_given = match buffer.kind {
            BufferKind::Parameter(leaf) => kind == AllocationKind::Parameter(leaf),
            BufferKind::Constant(literal) => kind == AllocationKind::Constant(literal),
            _ => false,
        };
        if is_given && offset == 0 {
            state.insert(number, ByteSet::all(buffer.size));
        }
    }
    for residents in walk.residents.values_mut() {
        residents.sort_unstable();
    }
    walk.sequence(plan.logical, plan.assigned, &mut state, findings);
    if walk.left > 0 {
        walk.outputs(&state, findings);
    } else if let Some(last) = plan.logical.last() {
        let what = format!("the plan has more than {steps} steps to check and is not proved");
        findings.add(last, what);
    }
}

impl Walk<'_> {
    /// Recursion is bounded by the nesting the lowering allows.
    fn sequence(
        &mut self,
        logical: &[Thunk],
        assigned: &[Thunk],
        state: &mut State,
        findings: &mut Findings,
    ) {
        for (before, after) in logical.iter().zip(assigned) {
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                return;
            }
            match (&before.kind, &after.kind) {
                (ThunkKind::Copy(copy), ThunkKind::Nop) => {
                    let valid = state.get(&copy.source.slice.allocation).cloned();
                    state.insert(copy.destination.slice.allocation, valid.unwrap_or_default());
                }
                (ThunkKind::While(_), _) => self.repeat(before, after, state, findings),
                (ThunkKind::Conditional(a), ThunkKind::Conditional(b)) => {
                    self.reads(before, state, findings);
                    let mut ends: Option<State> = None;
                    for (logical, assigned) in a.branches.iter().zip(&b.branches) {
                        let mut own = state.clone();
                        self.sequence(logical, assigned, &mut own, findings);
                        ends = Some(match ends {
                            None => own,
                            Some(others) => meet(&others, &own),
                        });
                    }
                    *state = ends.unwrap_or_default();
                }
                (ThunkKind::RowTiled(tiled), _) => self.group(tiled, state, findings),
                _ if is_dropped(before, after) => {}
                _ => self.touch(before, state, findings),
            }
        }
    }

    fn repeat(
        &mut self,
        before: &Thunk,
        after: &Thunk,
        state: &mut State,
        findings: &mut Findings,
    ) {
        let (ThunkKind::While(a), ThunkKind::While(b)) = (&before.kind, &after.kind) else {
            return;
        };
        let was_settled = std::mem::replace(&mut self.is_settled, false);
        let key = std::ptr::from_ref(before);
        // A buffer of no bytes is none, or equal states look different.
        state.retain(|_, valid| !valid.is_empty());
        let entry = state.clone();
        let known = self.heads.get(&key);
        let is_new = known.is_none_or(|(reached, _)| *reached != entry);
        if let Some((reached, head)) = known
            && meet(&entry, reached) == entry
        {
            *state = meet(&entry, head);
        }
        if is_new {
            self.settle((before, a, b), state, findings);
        }
        self.heads.insert(key, (entry, state.clone()));
        self.is_settled = was_settled;
        self.sequence(&a.condition, &b.condition, state, findings);
        self.reads(before, state, findings);
        if self.is_settled {
            self.sequence(&a.body, &b.body, &mut state.clone(), findings);
        }
    }

    /// Walks a loop until its head, `state`, is the same at the beginning of each trip.
    fn settle(
        &mut self,
        (before, a, b): (&Thunk, &WhileThunk, &WhileThunk),
        state: &mut State,
        findings: &mut Findings,
    ) {
        loop {
            let mut trip = state.clone();
            self.sequence(&a.condition, &b.condition, &mut trip, findings);
            self.reads(before, &trip, findings);
            self.sequence(&a.body, &b.body, &mut trip, findings);
            let head = meet(state, &trip);
            if head == *state {
                return;
            }
            *state = head;
        }
    }

    /// Members one after the other; scratch is theirs alone and empty at first.
    fn group(&mut self, tiled: &RowTiledThunk, state: &mut State, findings: &mut Findings) {
        for member in &tiled.members {
            self.touch(member, state, findings);
        }
        state.retain(|&buffer, _| buffer < PRIVATE);
    }

    /// What a thunk reads, then what it writes.
    fn touch(&self, thunk: &Thunk, state: &mut State, findings: &mut Findings) {
        self.reads(thunk, state, findings);
        each_member(thunk, &mut |member| {
            member.each_access(&mut |access| {
                if access.effect.writes() {
                    self.write(&access, state);
                }
            });
        });
    }

    fn reads(&self, thunk: &Thunk, state: &State, findings: &mut Findings) {
        if !self.is_settled || self.left == 0 {
            return;
        }
        thunk.each_access(&mut |access| {
            if !access.effect.reads() {
                return;
            }
            let buffer = access.slice.allocation;
            for run in ranges(&access) {
                let is_there = state.get(&buffer).is_some_and(|valid| valid.contains(&run));
                if !is_there {
                    findings.add(thunk, self.missing(buffer, &run));
                    return;
                }
            }
        });
    }

    fn missing(&self, buffer: u32, run: &Range<usize>) -> String {
        let owner = self.plan.buffers.get(buffer as usize);
        let kind = owner.map_or("a group's scratch".into(), |b| format!("{:?}", b.kind));
        format!(
            "it reads bytes {run:?} of buffer {buffer} ({kind}), which nobody has written or somebody \
             has written over"
        )
    }

    fn write(&self, access: &Access<'_>, state: &mut State) {
        let buffer = access.slice.allocation;
        let runs = ranges(access);
        if buffer < PRIVATE
            && let Some((allocation, offset)) = self.places[buffer as usize]
        {
            for run in &runs {
                self.clobber(
                    buffer,
                    allocation,
                    run.start + offset..run.end + offset,
                    state,
                );
            }
        }
        let valid = state.entry(buffer).or_default();
        for run in runs {
            valid.insert(run);
        }
    }

    /// Takes bytes of an allocation from everybody but `writer`.
    fn clobber(&self, writer: u32, allocation: u32, bytes: Range<usize>, state: &mut State) {
        let residents = &self.residents[&allocation];
        let reach = bytes.start.saturating_sub(self.largest[&allocation]);
        let first = residents.partition_point(|resident| resident.0 < reach);
        for &(start, size, number) in &residents[first..] {
            if start >= bytes.end {
                break;
            }
            let from = bytes.start.max(start);
            let to = bytes.end.min(start + size);
            if number != writer
                && from < to
                && let Some(valid) = state.get_mut(&number)
            {
                valid.remove(from - start..to - start);
            }
        }
    }

    fn outputs(&self, state: &State, findings: &mut Findings) {
        let Some(last) = self.plan.logical.last() else {
            return;
        };
        for (number, buffer) in (0..).zip(self.plan.buffers) {
            let BufferKind::Output(leaf) = buffer.kind else {
                continue;
            };
            if buffer.size == 0 {
                continue;
            }
            let is_home = self.places[number as usize].is_some_and(|(allocation, offset)| {
                let kind = self.plan.assignment.allocations[allocation as usize].kind;
                kind == AllocationKind::Output(leaf) && offset == 0
            });
            let whole = 0..buffer.size;
            let is_there = state
                .get(&number)
                .is_some_and(|valid| valid.contains(&whole));
            if !is_home || !is_there {
                findings.add(
                    last,
                    format!("output {leaf} is not in its place at the end"),
                );
            }
        }
    }
}

/// The bytes of a logical buffer that an access may touch.
fn ranges(access: &Access<'_>) -> Vec<Range<usize>> {
    let runs = access.footprint().runs.into_iter();
    runs.map(|run| run.start.max(0) as usize..run.end.max(0) as usize)
        .collect()
}

/// What both states have.
fn meet(a: &State, b: &State) -> State {
    let common = a.iter().filter_map(|(buffer, valid)| {
        let both = valid.intersection(b.get(buffer)?);
        (!both.is_empty()).then_some((*buffer, both))
    });
    common.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::InstructionId;
    use crate::module::ids::Id;
    use crate::plan::memory::assign::Assignment;

    /// What is said of three thunks that do nothing, with so many steps to look at them.
    fn found_within(steps: usize) -> Vec<String> {
        let thunk = Thunk {
            instruction: InstructionId::from_index(0),
            kind: ThunkKind::Nop,
        };
        let thunks = vec![thunk; 3];
        let plan = Plan {
            logical: &thunks,
            assigned: &thunks,
            buffers: &[],
            assignment: &Assignment::default(),
        };
        let mut findings = Findings::default();
        check_within(steps, &plan, &[], &mut findings);
        findings.0.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_plan_that_takes_too_many_steps_is_not_proved() {
        assert_eq!(found_within(4), [""; 0]);
        assert_eq!(
            found_within(3),
            ["the plan has more than 3 steps to check and is not proved"]
        );
    }
}
