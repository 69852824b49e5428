//! How often things run: trips of loops, runs of computations, and which instructions are steps.
//!
//! Comes in: a module. Goes out: counts per run of the module. Promise: linear in what the module
//! holds, also where it is not legal; nothing overflows, counts end at [`MOST_RUNS`].

use crate::library::known_trip_count;
use crate::module::{
    AttrKey, ComputationId, HloModule, HloOpcode, IdMap, InstructionId, InstructionRef,
};
use crate::plan::hlo::loops::induction_variable::constant;

/// Counts end here: nothing can run more often, and texts can ask for any number.
pub const MOST_RUNS: u64 = 1_000_000_000_000_000_000;

/// How often the computations of a module run in one run of it.
#[derive(Clone, Debug)]
pub struct Runs {
    computations: IdMap<ComputationId, Option<u64>>,
    is_inner: IdMap<ComputationId, bool>,
}

impl Runs {
    /// Counts the runs of every computation.
    ///
    /// A branch of a conditional counts as taken, and a loop whose trips are not known as one trip.
    /// What a module calls in a circle does not run twice.
    pub fn of(module: &HloModule) -> Runs {
        let count = module.computation_count();
        let mut runs = Runs {
            computations: IdMap::new(count, None),
            is_inner: IdMap::new(count, false),
        };
        let mut calls: IdMap<ComputationId, Vec<(ComputationId, u64)>> =
            IdMap::new(count, Vec::new());
        for id in module.computation_ids() {
            for &instruction in &module.computation(id).instructions {
                let instruction = module.instruction(instruction);
                let called = instruction.called_computations();
                if called.is_empty() {
                    continue;
                }
                if !runs_callees(instruction.opcode()) {
                    called.iter().for_each(|&c| runs.is_inner[c] = true);
                }
                let times = match instruction.opcode() {
                    HloOpcode::While => trip_count(instruction).unwrap_or(1),
                    HloOpcode::Fusion => 1,
                    opcode if runs_callees(opcode) => 1,
                    _ => continue,
                };
                calls[id].extend(called.into_iter().map(|callee| (callee, times)));
            }
        }
        let Some(entry) = module.entry else {
            return runs;
        };
        let order = reached_last_first(entry, &calls, count);
        order.iter().for_each(|&id| runs.computations[id] = Some(0));
        runs.computations[entry] = Some(1);
        for &id in order.iter().rev() {
            let of_caller = runs.computations[id].unwrap_or(0);
            for &(callee, times) in &calls[id] {
                let more = of_caller.saturating_mul(times);
                let before = runs.computations[callee].unwrap_or(0);
                runs.computations[callee] = Some(before.saturating_add(more).min(MOST_RUNS));
            }
        }
        runs
    }

    /// How often a computation runs; `None` for one that is applied per element, or never reached.
    pub fn computation(&self, id: ComputationId) -> Option<u64> {
        self.computations[id]
    }

    /// Whether a computation is a part of one instruction: fused, or applied per element.
    pub fn is_inner(&self, id: ComputationId) -> bool {
        self.is_inner[id]
    }

    /// How often an instruction runs as a step of its own; `None` where it is a part of another, only
    /// runs other computations, or is not reached.
    pub fn step(&self, instruction: InstructionRef<'_>) -> Option<u64> {
        let computation = instruction.computation();
        let is_step = !self.is_inner(computation) && !runs_callees(instruction.opcode());
        self.computation(computation).filter(|_| is_step)
    }
}

/// Whether an opcode does nothing but run what it calls.
fn runs_callees(opcode: HloOpcode) -> bool {
    matches!(
        opcode,
        HloOpcode::While | HloOpcode::Call | HloOpcode::Conditional | HloOpcode::AsyncStart
    )
}

/// What `entry` reaches; callees before their callers where calls form no circle.
fn reached_last_first(
    entry: ComputationId,
    calls: &IdMap<ComputationId, Vec<(ComputationId, u64)>>,
    count: usize,
) -> Vec<ComputationId> {
    let mut is_seen = IdMap::new(count, false);
    let mut order = Vec::new();
    let mut stack = vec![(entry, 0)];
    is_seen[entry] = true;
    while let Some((id, next)) = stack.last_mut() {
        match calls[*id].get(*next) {
            Some(&(callee, _)) => {
                *next += 1;
                if !is_seen[callee] {
                    is_seen[callee] = true;
                    stack.push((callee, 0));
                }
            }
            None => {
                order.push(*id);
                stack.pop();
            }
        }
    }
    order
}

/// How often the body of a `while` runs: what its configuration says, or what its code counts;
/// `None` for other instructions and where neither says.
pub fn trip_count(instruction: InstructionRef<'_>) -> Option<u64> {
    if instruction.opcode() != HloOpcode::While {
        return None;
    }
    let fits = |trips: &u64| i64::try_from(*trips).is_ok();
    let known = known_trip_count(instruction).filter(fits);
    known.or_else(|| counted(instruction).filter(fits))
}

/// The most copies of a copy that are looked through: a module that nobody verified may have circles.
const MOST_COPIES: usize = 64;

fn through_copies(mut instruction: InstructionRef<'_>) -> InstructionRef<'_> {
    for _ in 0..MOST_COPIES {
        let (HloOpcode::Copy | HloOpcode::Bitcast | HloOpcode::Reshape, &[operand]) =
            (instruction.opcode(), instruction.operand_ids())
        else {
            break;
        };
        instruction = instruction.module.instruction(operand);
    }
    instruction
}

fn integer(module: &HloModule, id: InstructionId) -> Option<i64> {
    constant(module, through_copies(module.instruction(id)).id)
}

/// Which element of the loop's state an instruction of its condition or body reads.
fn state_element(instruction: InstructionRef<'_>) -> Option<usize> {
    let instruction = through_copies(instruction);
    let element = instruction.tuple_index()?;
    let from = instruction.operand(0)?;
    (from.opcode() == HloOpcode::Parameter).then_some(element)
}

/// Trips of a loop that counts a constant number of times, by the form of its code.
fn counted(instruction: InstructionRef<'_>) -> Option<u64> {
    let module = instruction.module;
    let root = |key| {
        let computation = instruction.computation_attribute(key)?;
        Some(module.instruction(module.computation(computation).root?))
    };
    let (test, next) = (root(AttrKey::Condition)?, root(AttrKey::Body)?);
    let state = instruction.operand(0)?;
    let (&[counter, limit], HloOpcode::Compare) = (test.operand_ids(), test.opcode()) else {
        return None;
    };
    if next.opcode() != HloOpcode::Tuple || state.opcode() != HloOpcode::Tuple {
        return None;
    }
    let element = state_element(module.instruction(counter))?;
    let limit = integer(module, limit)?;
    let start = integer(module, state.operand(element)?.id)?;
    let step = through_copies(next.operand(element)?);
    if step.opcode() != HloOpcode::Add
        || !step.operands().any(|o| state_element(o) == Some(element))
    {
        return None;
    }
    let by = step
        .operand_ids()
        .iter()
        .find_map(|&o| integer(module, o))?;
    if by <= 0 {
        return None;
    }
    // A difference of two 64-bit numbers needs 65 bits.
    let (start, limit, by) = (i128::from(start), i128::from(limit), i128::from(by));
    let end = match test.enumeration(AttrKey::Direction)?.as_ref() {
        "LT" => limit,
        "LE" => limit + 1,
        _ => return None,
    };
    let trips = ((end - start + by - 1).div_euclid(by)).max(0);
    u64::try_from(trips).ok()
}
