//! Proves a plan: that memory is shared and work is moved only where nobody can tell.
//!
//! In: the thunks over logical buffers, the same thunks over allocations, and the assignment. Out:
//! nothing, or what is wrong. It asks [`Thunk::accesses`] and the assignment and nothing else, least
//! of all the analyses that made the plan. What it proves:
//!
//! 1. Every access lies inside its slice and every slice inside its allocation; the two lists of
//!    thunks are the same but for where buffers lie, and each buffer lies in one place.
//! 2. Every read finds, in all its bytes, what was written to its logical buffer, and not what has
//!    been written over it since; every output holds its value at the end ([`values`]).
//! 3. Nothing that one task of a thunk reads or writes is written by another one, or by the same one
//!    out of order ([`tasks`]).
//! 4. Memory of the caller and constants are never written.
//!
//! Whether the accesses are the truth is for a shadow run to show.

mod byte_set;
pub mod plan;
mod tasks;
mod values;

use super::assign::AllocationKind;
use crate::error::{HloError, Result};
use crate::module::HloModule;
use crate::plan::thunk::{Thunk, ThunkKind};
use crate::plan::view::PRIVATE;
pub use plan::{Finding, Plan};
use plan::{Findings, Places, each_member, is_dropped};

/// Checks a plan.
pub fn findings(plan: &Plan<'_>) -> Vec<Finding> {
    let mut findings = Findings::default();
    let mut places = vec![None; plan.buffers.len()];
    find_places(
        plan,
        plan.logical,
        plan.assigned,
        &mut places,
        &mut findings,
    );
    if findings.0.is_empty() {
        spread_places(plan.logical, plan.assigned, &mut places, &mut findings);
        values::check(plan, &places, &mut findings);
        tasks::check(plan.assigned, &mut findings);
    }
    findings.0
}

/// Checks a plan; an error names the first instructions at which it is wrong.
pub fn check(plan: &Plan<'_>, module: &HloModule) -> Result<()> {
    let findings = findings(plan);
    if findings.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = findings
        .iter()
        .map(|f| format!("{}: {}", module.instruction(f.instruction).name(), f.what))
        .collect();
    Err(HloError::execution(format!(
        "the plan checker found a fault of hlorun in this plan:\n{}",
        lines.join("\n")
    )))
}

/// Compares both lists of thunks and finds where each buffer lies. Recursion is bounded by the
/// nesting the lowering allows.
fn find_places(
    plan: &Plan<'_>,
    logical: &[Thunk],
    assigned: &[Thunk],
    places: &mut Places,
    findings: &mut Findings,
) {
    for (before, after) in logical.iter().zip(assigned) {
        if is_dropped(before, after) {
            continue;
        }
        let same = before.accesses().count() == after.accesses().count()
            && before.nested().len() == after.nested().len()
            && before.instruction == after.instruction;
        if !same {
            findings.add(before, "its thunk is another one than was planned".into());
            return;
        }
        for (logical, own) in before.accesses().zip(after.accesses()) {
            let place = own
                .slice
                .offset
                .checked_sub(logical.slice.offset)
                .map(|offset| (own.slice.allocation, offset));
            let known = &mut places[logical.slice.allocation as usize];
            let fits = place.is_some() && (known.is_none() || *known == place);
            if !fits || logical.slice.size != own.slice.size {
                let buffer = logical.slice.allocation;
                findings.add(before, format!("buffer {buffer} lies in several places"));
            }
            *known = place;
        }
        each_member(after, &mut |member| {
            member.each_access(&mut |access| {
                let allocations = &plan.assignment.allocations;
                let allocation = allocations.get(access.slice.allocation as usize);
                let is_scratch = access.slice.allocation >= PRIVATE;
                let end = access.slice.offset.checked_add(access.slice.size);
                let room = allocation.map_or(0, |allocation| allocation.size);
                if !is_scratch && end.is_none_or(|end| end > room) {
                    findings.add(
                        after,
                        format!("{:?} lies outside its allocation", access.slice),
                    );
                }
                if !access.is_inside() {
                    findings.add(
                        after,
                        format!("it reaches bytes {:?} of {:?}", access.hull(), access.slice),
                    );
                }
                let is_foreign = allocation.is_some_and(|allocation| {
                    matches!(
                        allocation.kind,
                        AllocationKind::Parameter(_) | AllocationKind::Constant(_)
                    )
                });
                if is_foreign && access.effect.writes() && access.slice.size > 0 {
                    findings.add(after, "it writes a parameter or a constant".into());
                }
            });
        });
        for (logical, assigned) in before.nested().into_iter().zip(after.nested()) {
            if logical.len() != assigned.len() {
                findings.add(before, "it has other steps than were planned".into());
                return;
            }
            find_places(plan, logical, assigned, places, findings);
        }
    }
}

/// The dropped copies, those inside control flow too. Recursion is bounded by the nesting the
/// lowering allows.
fn dropped_copies<'t>(logical: &'t [Thunk], assigned: &[Thunk], found: &mut Vec<&'t Thunk>) {
    for (before, after) in logical.iter().zip(assigned) {
        if is_dropped(before, after) {
            found.push(before);
        }
        for (logical, assigned) in before.nested().into_iter().zip(after.nested()) {
            dropped_copies(logical, assigned, found);
        }
    }
}

/// Both sides of a dropped copy are one place, which may be known of one side only.
fn spread_places(
    logical: &[Thunk],
    assigned: &[Thunk],
    places: &mut Places,
    findings: &mut Findings,
) {
    let mut copies = Vec::new();
    dropped_copies(logical, assigned, &mut copies);
    let mut is_changed = true;
    while is_changed {
        is_changed = false;
        for thunk in &copies {
            let ThunkKind::Copy(copy) = &thunk.kind else {
                findings.add(thunk, "it was dropped and is no copy".into());
                continue;
            };
            let [from, to] =
                [&copy.source, &copy.destination].map(|view| view.slice.allocation as usize);
            match (places[from], places[to]) {
                (Some(a), Some(b)) if a != b => {
                    findings.add(thunk, "a copy between two places was dropped".into());
                }
                (Some(place), None) => (places[to], is_changed) = (Some(place), true),
                (None, Some(place)) => (places[from], is_changed) = (Some(place), true),
                _ => {}
            }
            if copy.source.slice.size != copy.destination.slice.size || !copy.elidable {
                findings.add(thunk, "a copy that moves something was dropped".into());
            }
        }
    }
}
