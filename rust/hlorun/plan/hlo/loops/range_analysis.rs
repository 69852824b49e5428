//! `range-analysis`: choices that a loop's counter decides the same way in every trip.
//!
//! In a loop whose trips are known the counter has a smallest and a largest value, and so has what
//! is computed from it and from constants. A comparison that comes out the same for all of them is
//! known; a `select` by it is the one operand, and an `and` or `or` with it the other. Index code
//! is full of such: `i < 0 ? i + n : i`.
//!
//! Other leaves that grow by a constant are counters too. Ranges go from a loop to the loops inside
//! it along leaves that never change. They hold for every
//! element of an array, and end where an operation might wrap around.

use rustc_hash::{FxHashMap, FxHashSet};

use super::induction_variable;
use super::info::{Callers, LoopInfo};
use crate::module::{AttrKey, ComputationId, HloModule, HloOpcode, InstructionId};
use crate::plan::hlo::inline;
use crate::types::PrimitiveType;

/// Name by which it is switched off.
pub const NAME: &str = "range-analysis";

/// Smallest and largest value; of truth values, 0 and 1.
type Range = (i128, i128);

/// What is known of the instructions of one computation.
type Ranges = FxHashMap<InstructionId, Range>;

/// Runs the pass on the entry and the loops in it; how many instructions gave way.
pub fn run(module: &mut HloModule) -> usize {
    let callers = Callers::new(module);
    let mut changed = 0;
    let mut seen: FxHashSet<ComputationId> = FxHashSet::default();
    let mut open: Vec<(ComputationId, Ranges)> = module
        .entry
        .map(|entry| (entry, Ranges::default()))
        .into_iter()
        .collect();
    while let Some((computation, mut ranges)) = open.pop() {
        if !seen.insert(computation) {
            continue;
        }
        let is_inside = !ranges.is_empty();
        let instructions = module.computation(computation).instructions.clone();
        for &id in &instructions {
            if !ranges.contains_key(&id)
                && let Some(range) = range_of(module, id, &ranges)
            {
                ranges.insert(id, range);
            }
            match module.instruction_data(id).opcode {
                HloOpcode::While => open.extend(inside(module, &callers, id, &ranges)),
                HloOpcode::Conditional => {
                    let branches = module.instruction(id).called_computations();
                    open.extend(
                        branches
                            .into_iter()
                            .map(|branch| (branch, Ranges::default())),
                    );
                }
                _ => {}
            }
        }
        if is_inside {
            changed += simplify(module, computation, &instructions, &ranges);
        }
    }
    changed
}

/// The body of a loop, and what is known in it.
fn inside(
    module: &HloModule,
    callers: &Callers,
    id: InstructionId,
    outside: &Ranges,
) -> Option<(ComputationId, Ranges)> {
    let Some(info) = LoopInfo::of(module, callers, id) else {
        let body = module
            .instruction(id)
            .computation_attribute(AttrKey::Body)?;
        return Some((body, Ranges::default()));
    };
    let mut ranges = Ranges::default();
    for (k, element) in info.elements.iter().enumerate() {
        if let Some(element) = element
            && info.is_invariant(k)
            && let Some(&range) = outside.get(&info.initial[k])
        {
            ranges.insert(*element, range);
        }
    }
    // Leaves that grow by the same in every trip count as well.
    for (k, element) in info.elements.iter().enumerate() {
        if let Some(element) = *element
            && let Some(step) = step_of(module, info.results[k], element)
            && let Some(&(low, high)) = outside.get(&info.initial[k])
            && let Some(all) = array_range(module, element)
        {
            let way = step * (info.trips.len() as i128 - 1).max(0);
            let range = (low + way.min(0), high + way.max(0));
            if range.0 >= all.0 && range.1 <= all.1 {
                ranges.insert(element, range);
            }
        }
    }
    let first = info.trips.iter().min().copied();
    let last = info.trips.iter().max().copied();
    if let (Some(first), Some(last)) = (first, last) {
        ranges.insert(info.counter, (i128::from(first), i128::from(last)));
    }
    Some((info.body, ranges))
}

/// What `next` adds to `element`, where it adds a constant.
fn step_of(module: &HloModule, next: InstructionId, element: InstructionId) -> Option<i128> {
    if module.instruction_data(next).opcode != HloOpcode::Add {
        return None;
    }
    let &[a, b] = module.operand_ids(next) else {
        return None;
    };
    let other = match (a == element, b == element) {
        (true, false) => b,
        (false, true) => a,
        _ => return None,
    };
    induction_variable::constant(module, other).map(i128::from)
}

/// All values of an array's elements.
fn array_range(module: &HloModule, id: InstructionId) -> Option<Range> {
    type_range(module.instruction(id).array_shape()?.element_type)
}

/// All values of an integer type; `None` for others.
fn type_range(ty: PrimitiveType) -> Option<Range> {
    use PrimitiveType as P;
    Some(match ty {
        P::Pred => (0, 1),
        P::S8 => (i8::MIN.into(), i8::MAX.into()),
        P::S16 => (i16::MIN.into(), i16::MAX.into()),
        P::S32 => (i32::MIN.into(), i32::MAX.into()),
        P::S64 => (i64::MIN.into(), i64::MAX.into()),
        P::U8 => (0, u8::MAX.into()),
        P::U16 => (0, u16::MAX.into()),
        P::U32 => (0, u32::MAX.into()),
        _ => return None,
    })
}

/// What an instruction's values lie between; `None` where nothing is known.
fn range_of(module: &HloModule, id: InstructionId, known: &Ranges) -> Option<Range> {
    use HloOpcode as H;
    let instruction = module.instruction(id);
    let shape = instruction.array_shape()?;
    let all = type_range(shape.element_type)?;
    let of = |k: usize| known.get(instruction.operand_ids().get(k)?).copied();
    let is_pred = shape.element_type == PrimitiveType::Pred;
    let range = match instruction.opcode() {
        H::Constant => {
            let value = i128::from(induction_variable::constant(module, id)?);
            (value, value)
        }
        H::Iota => {
            let dim = instruction.data().immediate as usize;
            (0, i128::from(*shape.dims.get(dim)?).max(1) - 1)
        }
        H::Copy | H::Reshape | H::Broadcast | H::Transpose | H::Slice | H::Reverse | H::Convert => {
            of(0)?
        }
        H::Compare => compared(
            instruction.enumeration(AttrKey::Direction)?.as_ref(),
            of(0)?,
            of(1)?,
        )?,
        H::Not if is_pred => (1 - of(0)?.1, 1 - of(0)?.0),
        H::And if is_pred => match (of(0), of(1)) {
            (Some((_, 0)), _) | (_, Some((_, 0))) => (0, 0),
            (Some(a), Some(b)) => (a.0.min(b.0), a.1.min(b.1)),
            _ => return None,
        },
        H::Or if is_pred => match (of(0), of(1)) {
            (Some((1, _)), _) | (_, Some((1, _))) => (1, 1),
            (Some(a), Some(b)) => (a.0.max(b.0), a.1.max(b.1)),
            _ => return None,
        },
        H::Select => match of(0) {
            Some((1, 1)) => of(1)?,
            Some((0, 0)) => of(2)?,
            _ => (of(1)?.0.min(of(2)?.0), of(1)?.1.max(of(2)?.1)),
        },
        _ if is_pred => return None,
        H::Add => (of(0)?.0 + of(1)?.0, of(0)?.1 + of(1)?.1),
        H::Subtract => (of(0)?.0 - of(1)?.1, of(0)?.1 - of(1)?.0),
        H::Negate => (-of(0)?.1, -of(0)?.0),
        H::Multiply => {
            let (a, b) = (of(0)?, of(1)?);
            let corners = [a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1];
            (*corners.iter().min()?, *corners.iter().max()?)
        }
        H::Minimum => (of(0)?.0.min(of(1)?.0), of(0)?.1.min(of(1)?.1)),
        H::Maximum => (of(0)?.0.max(of(1)?.0), of(0)?.1.max(of(1)?.1)),
        H::Clamp => {
            let (low, high) = (of(0)?, of(2)?);
            let x = of(1).unwrap_or(all);
            (x.0.max(low.0).min(high.0), x.1.max(low.1).min(high.1))
        }
        // Truncated towards zero; of what is not negative by a constant that is positive.
        H::Divide => {
            let (a, b) = (of(0)?, of(1)?);
            if a.0 < 0 || b.0 < 1 {
                return None;
            }
            (a.0 / b.1, a.1 / b.0)
        }
        H::Remainder => {
            let (a, b) = (of(0)?, of(1)?);
            if a.0 < 0 || b.0 < 1 {
                return None;
            }
            (0, a.1.min(b.1 - 1))
        }
        _ => return None,
    };
    (range.0 >= all.0 && range.1 <= all.1 && range.0 <= range.1).then_some(range)
}

/// Whether all of `a` are in a relation to all of `b`.
fn compared(direction: &str, a: Range, b: Range) -> Option<Range> {
    let less = |a: Range, b: Range| match (a.1 < b.0, a.0 >= b.1) {
        (true, _) => (1, 1),
        (_, true) => (0, 0),
        _ => (0, 1),
    };
    let no = |r: Range| (1 - r.1, 1 - r.0);
    let equal = || match (a, b) {
        _ if a.1 < b.0 || b.1 < a.0 => (0, 0),
        _ if a.0 == a.1 && a == b => (1, 1),
        _ => (0, 1),
    };
    Some(match direction {
        "LT" => less(a, b),
        "GE" => no(less(a, b)),
        "GT" => less(b, a),
        "LE" => no(less(b, a)),
        "EQ" => equal(),
        "NE" => no(equal()),
        _ => return None,
    })
}

/// Lets what is decided give way to what it comes to.
fn simplify(
    module: &mut HloModule,
    computation: ComputationId,
    instructions: &[InstructionId],
    ranges: &Ranges,
) -> usize {
    let mut instead: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
    for &id in instructions {
        for operand in module.operand_ids_mut(id) {
            if let Some(&other) = instead.get(operand) {
                *operand = other;
            }
        }
        let instruction = module.instruction(id);
        let operands = instruction.operand_ids();
        let of = |k: usize| operands.get(k).and_then(|operand| ranges.get(operand));
        let is_pred = instruction
            .array_shape()
            .is_some_and(|shape| shape.element_type == PrimitiveType::Pred);
        let which = match (instruction.opcode(), of(0), of(1)) {
            (HloOpcode::Select, Some((1, 1)), _) => 1,
            (HloOpcode::Select, Some((0, 0)), _) => 2,
            (HloOpcode::And, Some((1, 1)), _) if is_pred => 1,
            (HloOpcode::And, _, Some((1, 1))) if is_pred => 0,
            (HloOpcode::Or, Some((0, 0)), _) if is_pred => 1,
            (HloOpcode::Or, _, Some((0, 0))) if is_pred => 0,
            _ => continue,
        };
        let Some(&other) = operands.get(which) else {
            continue;
        };
        // Old texts leave broadcasts out.
        let dims = |id| Some(&module.instruction(id).array_shape()?.dims);
        if dims(other) == dims(id) && dims(id).is_some() {
            instead.insert(id, other);
        }
    }
    if instead.is_empty() {
        return 0;
    }
    let root = module.computation(computation).root;
    if let Some(&other) = root.and_then(|root| instead.get(&root)) {
        module.computation_mut(computation).root = Some(other);
    }
    inline::remove_dead(module, computation);
    instead.len()
}

#[cfg(test)]
mod tests {
    use super::compared;

    #[test]
    fn ranges_are_compared() {
        for (direction, a, b, expected) in [
            ("LT", (0, 4), (5, 9), (1, 1)),
            ("LT", (0, 5), (5, 9), (0, 1)),
            ("LT", (9, 12), (5, 9), (0, 0)),
            ("GE", (0, 4), (0, 0), (1, 1)),
            ("GE", (-1, 4), (0, 0), (0, 1)),
            ("LE", (0, 5), (5, 9), (1, 1)),
            ("GT", (0, 5), (5, 9), (0, 0)),
            ("EQ", (3, 3), (3, 3), (1, 1)),
            ("EQ", (3, 4), (3, 4), (0, 1)),
            ("EQ", (3, 4), (5, 6), (0, 0)),
            ("NE", (3, 4), (5, 6), (1, 1)),
        ] {
            assert_eq!(
                compared(direction, a, b),
                Some(expected),
                "{direction} {a:?} {b:?}"
            );
        }
        assert_eq!(compared("??", (0, 0), (0, 0)), None);
    }
}
