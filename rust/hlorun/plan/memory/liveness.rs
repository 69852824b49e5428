//! At which moments the value of one buffer is still needed.
//!
//! In: the accesses to a buffer, on a clock that runs through loops and branches in the order of the text. Out: [`Segment`]s.
//! Control flow is structured, so that each part of it is walked backwards and tells whether it needs the value that it
//! begins with (see Appel, Modern Compiler Implementation, chapter 10, on liveness): of a conditional one branch runs, and
//! the end of a loop's body leads back to its condition.

use super::segment::{Segment, merge};
use crate::plan::faults::{self, Fault};
use crate::plan::thunk::Effect;

/// An access on the clock.
#[derive(Clone, Copy, Debug)]
pub struct TimedAccess {
    /// When.
    pub time: u32,
    /// What happens.
    pub effect: Effect,
    /// The region it is in; none: outside of loops and branches.
    pub inside: Option<u32>,
}

/// Where a region leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// A loop: its condition up to the moment `check`, when it may be left, then its body.
    Loop {
        /// When the predicate is read.
        check: u32,
    },
    /// A branch of a conditional.
    Branch {
        /// Its number.
        conditional: u32,
    },
}

/// A part of the clock that control enters at its first moment only. Nothing happens then, nor at the last moment.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// From its first to its last moment.
    pub span: Segment,
    /// The region around it.
    pub parent: Option<u32>,
    /// Where it leads to.
    pub flow: Flow,
}

/// All loops and branches.
#[derive(Default)]
pub struct Regions {
    /// By number; a region comes after the one around it.
    pub list: Vec<Region>,
    /// Of each conditional, from when its index is read until a branch has ended, and its branches in order.
    pub conditionals: Vec<(Segment, Vec<u32>)>,
}

/// A part of a region, with its accesses in order of time.
#[derive(Clone, Copy)]
struct Part<'a> {
    accesses: &'a [TimedAccess],
    /// The region; none: what is outside of loops and branches.
    region: Option<u32>,
    /// The moments of the part; of a loop, those of its condition or of its body.
    span: Segment,
    /// Whether the buffer may hold a value where the part begins.
    is_defined: bool,
}

impl Regions {
    /// A new region from `start` on; its number.
    pub fn begin(&mut self, start: u32, parent: Option<u32>, flow: Flow) -> u32 {
        let id = self.list.len() as u32;
        if let Flow::Branch { conditional } = flow {
            self.conditionals[conditional as usize].1.push(id);
        }
        let span = Segment { start, end: start };
        self.list.push(Region { span, parent, flow });
        id
    }

    /// A new conditional, whose index is read at `time`; its number.
    pub fn begin_conditional(&mut self, time: u32) -> u32 {
        let span = Segment {
            start: time,
            end: time,
        };
        self.conditionals.push((span, Vec::new()));
        self.conditionals.len() as u32 - 1
    }

    /// When a buffer is live that is touched by `accesses`, at least one, and read at `end` if that is given.
    pub fn live(&self, accesses: &[TimedAccess], end: Option<u32>) -> Vec<Segment> {
        // A trip leaves nothing to the next but in buffers that are written before the loop, too.
        let home = end.map_or_else(|| self.home(accesses), |_| None);
        let last = accesses.last().map_or(0, |access| access.time);
        let part = Part {
            accesses,
            region: home,
            span: Segment {
                start: 0,
                end: end.unwrap_or(last),
            },
            is_defined: false,
        };
        let mut found = Vec::new();
        self.walk(part, end.is_some(), Some(&mut found));
        merge(&found, &[])
    }

    /// The innermost loop around all accesses.
    fn home(&self, accesses: &[TimedAccess]) -> Option<u32> {
        let mut home = accesses.first().and_then(|access| access.inside);
        while let Some(id) = home {
            let region = &self.list[id as usize];
            let is_loop = matches!(region.flow, Flow::Loop { .. });
            let within = |a: &TimedAccess| (region.span.start..=region.span.end).contains(&a.time);
            if is_loop && accesses.iter().all(within) {
                break;
            }
            home = region.parent;
        }
        home
    }

    /// Of the regions around `inside`, the one directly in `region`; none where `inside` is `region` itself.
    fn child(&self, inside: Option<u32>, region: Option<u32>) -> Option<u32> {
        let mut at = inside.filter(|_| inside != region)?;
        loop {
            match self.list[at as usize].parent {
                parent if parent == region => return Some(at),
                parent => at = parent?,
            }
        }
    }

    /// Adds when the value is live in `part`, if it is live after it or not, and tells whether it is before.
    ///
    /// Recursion is bounded by the nesting; a region is walked at most three times for each loop around it.
    fn walk(&self, part: Part<'_>, is_live_after: bool, found: Option<&mut Vec<Segment>>) -> bool {
        let mut run = Run {
            end: is_live_after.then_some(part.span.end),
            found,
        };
        let mut before = part.accesses;
        while let Some(last) = before.last() {
            let child = self.child(last.inside, part.region);
            let start = match child.map(|id| (id, self.list[id as usize].flow)) {
                None => last.time,
                Some((_, Flow::Branch { conditional })) => {
                    self.conditionals[conditional as usize].0.start + 1
                }
                Some((id, Flow::Loop { .. })) => self.list[id as usize].span.start,
            };
            let (rest, accesses) = before.split_at(before.partition_point(|a| a.time < start));
            before = rest;
            let is_defined = part.is_defined || !rest.is_empty();
            match child.map(|id| (id, self.list[id as usize].flow)) {
                None => run.touch(accesses, part.region.is_some()),
                Some((id, Flow::Loop { check })) => self.repeat(id, check, accesses, &mut run),
                Some((_, Flow::Branch { conditional })) => {
                    self.choose(conditional, accesses, is_defined, &mut run);
                }
            }
        }
        let first = match part.accesses.first() {
            _ if part.is_defined => part.span.start,
            first => first.map_or(part.span.end, |access| access.time),
        };
        run.begin(first) && part.is_defined
    }

    fn repeat(&self, id: u32, check: u32, accesses: &[TimedAccess], run: &mut Run<'_>) {
        let Segment { start, end } = self.list[id as usize].span;
        let (condition, body) = accesses.split_at(accesses.partition_point(|a| a.time <= check));
        let part = |accesses, start, end| Part {
            accesses,
            region: Some(id),
            span: Segment { start, end },
            is_defined: true,
        };
        let (condition, body) = (part(condition, start, check), part(body, check, end));
        let is_left_live = run.begin(end);
        let is_read_in_body = self.walk(body, false, None);
        let is_live = self.walk(condition, is_left_live || is_read_in_body, None);
        if let Some(found) = run.found.as_deref_mut() {
            let leads_back = is_live && !faults::holds(Fault::DiesInsideLoop, false);
            // The condition of the next trip may read what the body leaves alone.
            let enters_body = self.walk(body, leads_back, Some(&mut *found));
            self.walk(condition, is_left_live || enters_body, Some(found));
        }
        run.end = is_live.then_some(start);
    }

    fn choose(
        &self,
        conditional: u32,
        accesses: &[TimedAccess],
        is_defined: bool,
        run: &mut Run<'_>,
    ) {
        let (span, branches) = &self.conditionals[conditional as usize];
        let is_live_after = run.begin(span.end) && !faults::holds(Fault::DiesInsideBranch, false);
        let mut is_live = false;
        let mut rest = accesses;
        for &id in branches {
            // A branch without accesses needs the value only where it is needed after the conditional.
            if rest.is_empty() && !is_live_after {
                break;
            }
            let span = self.list[id as usize].span;
            if !is_live_after && rest[0].time > span.end {
                continue;
            }
            let (own, later) = rest.split_at(rest.partition_point(|a| a.time <= span.end));
            rest = later;
            let part = Part {
                accesses: own,
                region: Some(id),
                span,
                is_defined,
            };
            is_live |= self.walk(part, is_live_after, run.found.as_deref_mut());
        }
        run.end = is_live.then_some(span.start);
    }
}

/// A stretch of time that is found from its end.
struct Run<'a> {
    /// Its last moment; none: the value is not needed from here on.
    end: Option<u32>,
    found: Option<&'a mut Vec<Segment>>,
}

impl Run<'_> {
    /// Closes the stretch at `start`, if there is one; whether there was. A first access may lie in a region that comes later
    /// than the stretch: then the stretch is its end.
    fn begin(&mut self, start: u32) -> bool {
        let Some(end) = self.end.take() else {
            return false;
        };
        if let Some(found) = &mut self.found {
            let start = start.min(end);
            found.push(Segment { start, end });
        }
        true
    }

    /// The accesses of one moment.
    fn touch(&mut self, accesses: &[TimedAccess], is_inside: bool) {
        let Some(first) = accesses.first() else {
            return;
        };
        let replaces = accesses.iter().any(|access| access.effect.replaces());
        let needs = accesses.iter().any(|access| !access.effect.replaces());
        let forgets =
            is_inside && self.end.is_none() && faults::holds(Fault::StateDiesEarly, false);
        if replaces {
            self.end.get_or_insert(first.time);
            self.begin(first.time);
        }
        if needs && !forgets {
            self.end.get_or_insert(first.time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(time: u32, effect: Effect, inside: Option<u32>) -> TimedAccess {
        TimedAccess {
            time,
            effect,
            inside,
        }
    }

    fn s(start: u32, end: u32) -> Segment {
        Segment { start, end }
    }

    /// A loop from 2 to 10, whose condition ends at 4.
    fn one_loop() -> Regions {
        let mut regions = Regions::default();
        let id = regions.begin(2, None, Flow::Loop { check: 4 });
        regions.list[id as usize].span.end = 10;
        regions
    }

    /// A conditional from 2 to 11 with branches from 3 to 6 and from 7 to 10.
    fn two_branches() -> Regions {
        let mut regions = Regions::default();
        let conditional = regions.begin_conditional(2);
        for (start, end) in [(3, 6), (7, 10)] {
            let id = regions.begin(start, None, Flow::Branch { conditional });
            regions.list[id as usize].span.end = end;
        }
        regions.conditionals[conditional as usize].0.end = 11;
        regions
    }

    #[test]
    fn straight_code_is_live_from_writes_to_reads() {
        use Effect::{Read, Write, WritePart};
        let live = |accesses: &[(u32, Effect)]| {
            let accesses: Vec<_> = accesses.iter().map(|&(t, e)| access(t, e, None)).collect();
            Regions::default().live(&accesses, None)
        };
        assert_eq!(live(&[(1, Write), (5, Read)]), [s(1, 5)]);
        assert_eq!(
            live(&[(1, WritePart), (3, WritePart), (5, Read)]),
            [s(1, 5)]
        );
        assert_eq!(
            live(&[(1, Write), (3, Read), (6, Write), (7, Read)]),
            [s(1, 3), s(6, 7)]
        );
        assert_eq!(live(&[(1, Write)]), [s(1, 1)]);
        let written = [access(1, Write, None)];
        assert_eq!(Regions::default().live(&written, Some(9)), [s(1, 9)]);
    }

    #[test]
    fn loops_keep_what_a_later_trip_reads() {
        use Effect::{Read, Write};
        let live = |accesses: &[TimedAccess]| one_loop().live(accesses, None);
        // Made before, read in every trip.
        assert_eq!(
            live(&[access(1, Write, None), access(6, Read, Some(0))]),
            [s(1, 10)]
        );
        // State: read, then replaced, and read after the loop, which the condition ends.
        let state = [
            access(1, Write, None),
            access(6, Read, Some(0)),
            access(8, Write, Some(0)),
            access(12, Read, None),
        ];
        assert_eq!(live(&state), [s(1, 6), s(8, 12)]);
        let state = [
            access(1, Write, None),
            access(8, Write, Some(0)),
            access(12, Read, None),
        ];
        assert_eq!(live(&state), [s(1, 4), s(8, 12)]);
        // Of one trip.
        assert_eq!(
            live(&[access(6, Write, Some(0)), access(8, Read, Some(0))]),
            [s(6, 8)]
        );
    }

    #[test]
    fn loops_keep_what_a_later_condition_reads() {
        use Effect::{Read, Write};
        let mut regions = Regions::default();
        let id = regions.begin(2, None, Flow::Loop { check: 8 });
        regions.list[id as usize].span.end = 12;
        let accesses = [access(1, Write, None), access(3, Read, Some(id))];
        assert_eq!(regions.live(&accesses, None), [s(1, 12)]);
    }

    #[test]
    fn loops_in_loops_take_no_long_time() {
        use Effect::{Read, Write};
        let mut regions = Regions::default();
        let depth = 100;
        for at in 0..depth {
            let flow = Flow::Loop { check: 2 * at + 3 };
            let id = regions.begin(2 * at + 2, at.checked_sub(1), flow);
            regions.list[id as usize].span.end = 1000 - at;
        }
        let inside = Some(depth - 1);
        let accesses = [access(1, Write, None), access(500, Read, inside)];
        assert_eq!(regions.live(&accesses, None), [s(1, 1000)]);
    }

    /// A random program: its regions, its accesses, and of each moment those that may follow.
    struct Program {
        regions: Regions,
        accesses: Vec<TimedAccess>,
        next: Vec<Vec<u32>>,
        state: u32,
    }

    impl Program {
        fn below(&mut self, n: u32) -> u32 {
            self.state = self
                .state
                .wrapping_mul(1_664_525)
                .wrapping_add(1_013_904_223);
            (self.state >> 16) % n
        }

        /// A moment after `before`.
        fn tick(&mut self, before: &[u32]) -> u32 {
            let time = self.next.len() as u32;
            self.next.push(Vec::new());
            for &at in before {
                self.next[at as usize].push(time);
            }
            time
        }

        /// Some thunks after the moment `last`; the last of them.
        fn sequence(&mut self, inside: Option<u32>, depth: u32, mut last: u32) -> u32 {
            for _ in 0..self.below(4) {
                let kind = self.below(6);
                let time = self.tick(&[last]);
                last = time;
                if kind < 3 {
                    let effects = [Effect::Read, Effect::Write, Effect::WritePart];
                    let effect = effects[kind as usize];
                    self.accesses.push(access(time, effect, inside));
                } else if kind == 3 && depth < 4 {
                    let id = self.regions.begin(time, inside, Flow::Loop { check: time });
                    let end = self.sequence(Some(id), depth + 1, time);
                    let check = self.tick(&[end]);
                    self.regions.list[id as usize].flow = Flow::Loop { check };
                    let end = self.sequence(Some(id), depth + 1, check);
                    let end = self.tick(&[end]);
                    self.next[end as usize].push(time);
                    self.regions.list[id as usize].span.end = end;
                    last = check;
                } else if kind == 4 && depth < 4 {
                    let conditional = self.regions.begin_conditional(time);
                    let mut ends = Vec::new();
                    for _ in 0..1 + self.below(3) {
                        let start = self.tick(&[time]);
                        let flow = Flow::Branch { conditional };
                        let id = self.regions.begin(start, inside, flow);
                        let end = self.sequence(Some(id), depth + 1, start);
                        let end = self.tick(&[end]);
                        self.regions.list[id as usize].span.end = end;
                        ends.push(end);
                    }
                    last = self.tick(&ends);
                    self.regions.conditionals[conditional as usize].0.end = last;
                }
            }
            last
        }

        /// Whether the value is needed after each moment, by iteration.
        fn needed_after(&self) -> Vec<bool> {
            let mut before = vec![false; self.next.len()];
            let mut after = before.clone();
            loop {
                let old = after.clone();
                for time in (0..self.next.len()).rev() {
                    after[time] = self.next[time].iter().any(|&t| before[t as usize]);
                    let own = self.accesses.iter().find(|a| a.time as usize == time);
                    before[time] = match own.map(|access| access.effect.replaces()) {
                        None => after[time],
                        Some(replaces) => !replaces,
                    };
                }
                if after == old {
                    return after;
                }
            }
        }
    }

    #[test]
    fn nothing_dies_that_is_needed() {
        for seed in 0..3000 {
            let mut program = Program {
                regions: Regions::default(),
                accesses: vec![access(0, Effect::Write, None)],
                next: vec![Vec::new()],
                state: seed * 7919,
            };
            program.sequence(None, 0, 0);
            let live = program.regions.live(&program.accesses, None);
            let is_live = |a: u32, b: u32| live.iter().any(|s| s.start <= a && b <= s.end);
            // Nothing happens where branches begin and end, so that stretches may be cut there.
            let regions = &program.regions;
            let is_cut = |time: u32| {
                let mut branches = regions.list.iter().filter(|region| match region.flow {
                    Flow::Branch { .. } => true,
                    Flow::Loop { .. } => false,
                });
                branches.any(|branch| branch.span.start == time)
                    || regions
                        .conditionals
                        .iter()
                        .any(|(span, _)| span.end == time)
            };
            for (time, needed) in (0..).zip(program.needed_after()) {
                let follows = program.next[time as usize].contains(&(time + 1));
                let own = program.accesses.iter().find(|a| a.time == time + 1);
                let dies = own.is_some_and(|access| access.effect.replaces());
                let end = match follows
                    && !dies
                    && !is_cut(time + 1)
                    && program.next[time as usize].len() == 1
                {
                    true => time + 1,
                    false => time,
                };
                assert!(!needed || is_live(time, end), "{seed}: {time} in {live:?}");
            }
        }
    }

    #[test]
    fn one_branch_needs_nothing_in_another() {
        use Effect::{Read, Write};
        let live = |accesses: &[TimedAccess]| two_branches().live(accesses, None);
        // A result.
        let result = [
            access(5, Write, Some(0)),
            access(8, Write, Some(1)),
            access(12, Read, None),
        ];
        assert_eq!(live(&result), [s(5, 6), s(8, 10), s(11, 12)]);
        // An operand of both; of the second; of both and of what follows.
        let operand = [
            access(1, Write, None),
            access(4, Read, Some(0)),
            access(8, Read, Some(1)),
        ];
        assert_eq!(live(&operand), [s(1, 2), s(3, 4), s(7, 8)]);
        assert_eq!(live(&[operand[0], operand[2]]), [s(1, 2), s(7, 8)]);
        let later = [operand[0], operand[1], access(13, Read, None)];
        assert_eq!(live(&later), [s(1, 2), s(3, 6), s(7, 10), s(11, 13)]);
        // Of one branch.
        assert_eq!(
            live(&[access(4, Write, Some(0)), access(5, Read, Some(0))]),
            [s(4, 5)]
        );
    }
}
