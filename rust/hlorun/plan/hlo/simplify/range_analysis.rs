//! `range-analysis`: choices and limits that integers' ranges decide.
//!
//! An `iota`, a constant, what a `clamp` or a `remainder` leaves, the places a `sort` found, a truth
//! value as a number, and in a loop whose trips are known its counter have a smallest and a largest
//! value, and so has what is computed from them. A comparison that comes out the same for all of them
//! is known; a `select` by it is the one operand, an `and` or `or` with it the other, and a
//! `maximum`, `minimum`, `clamp` or `remainder` that changes none of them is its operand. Index code
//! is full of such: `i < 0 ? i + n : i`.
//!
//! Other leaves that grow by a constant are counters too. Ranges go from a loop to the loops inside
//! it along leaves that never change. They hold for every
//! element of an array, and end where an operation might wrap around.

use rustc_hash::{FxHashMap, FxHashSet};

use super::algebra::{Standing, become_copy, redirect, standing};
use crate::module::{AttrKey, ComputationId, HloModule, HloOpcode, InstructionId, InstructionRef};
use crate::plan::hlo::loops::induction_variable;
use crate::plan::hlo::loops::info::{Callers, LoopInfo};
use crate::types::PrimitiveType;

/// Name by which it is switched off.
pub const NAME: &str = "range-analysis";

/// Smallest and largest value; of truth values, 0 and 1.
pub type Range = (i128, i128);

/// What is known of the instructions of one computation.
pub type Ranges = FxHashMap<InstructionId, Range>;

/// Runs the pass on the entry, the loops in it and the branches; how many instructions gave way.
pub fn run(module: &mut HloModule) -> usize {
    visit(module, simplify)
}

/// Calls `act` with the entry, the loops in it and the branches, and with what is known of their instructions; the sum of
/// what it returns.
pub fn visit(
    module: &mut HloModule,
    mut act: impl FnMut(&mut HloModule, ComputationId, &Ranges) -> usize,
) -> usize {
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
        changed += act(module, computation, &ranges);
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

/// The range of an operand: what is known, or all that its type has.
fn operand(instruction: InstructionRef<'_>, k: usize, known: &Ranges) -> Option<Range> {
    let id = instruction.operand_ids().get(k)?;
    let by_type = || array_range(instruction.module, *id);
    known.get(id).copied().or_else(by_type)
}

/// What an instruction's values lie between; `None` where no more than the type is known.
fn range_of(module: &HloModule, id: InstructionId, known: &Ranges) -> Option<Range> {
    let instruction = module.instruction(id);
    let all = type_range(instruction.array_shape()?.element_type)?;
    let range = match instruction.opcode() {
        HloOpcode::Constant => constants(instruction)?,
        HloOpcode::Iota => {
            let dim = instruction.data().immediate as usize;
            let size = *instruction.array_shape()?.dims.get(dim)?;
            (0, i128::from(size).max(1) - 1)
        }
        HloOpcode::GetTupleElement => places_of(module, instruction, known)?,
        _ if all == (0, 1) => truth(instruction, known)?,
        _ => moved(instruction, known).or_else(|| arithmetic(instruction, all, known))?,
    };
    (range.0 >= all.0 && range.1 <= all.1 && range.0 <= range.1 && range != all).then_some(range)
}

/// The smallest and the largest element of a constant.
fn constants(instruction: InstructionRef<'_>) -> Option<Range> {
    let ty = instruction.array_shape()?.element_type;
    let mut values = induction_variable::integers(instruction.literal()?.bytes()?, ty);
    let first = values.next()??;
    let (low, high) = values.try_fold((first, first), |(low, high), value| {
        let value = value?;
        Some((low.min(value), high.max(value)))
    })?;
    Some((i128::from(low), i128::from(high)))
}

/// Elements that a `sort` moves are those of its operand.
fn places_of(module: &HloModule, instruction: InstructionRef<'_>, known: &Ranges) -> Option<Range> {
    let from = module.instruction(*instruction.operand_ids().first()?);
    let which = instruction.data().immediate as usize;
    (from.opcode() == HloOpcode::Sort).then(|| operand(from, which, known))?
}

/// What only moves elements, and leaves some out.
fn moved(instruction: InstructionRef<'_>, known: &Ranges) -> Option<Range> {
    use HloOpcode as H;
    let of = |k: usize| operand(instruction, k, known);
    Some(match instruction.opcode() {
        H::Copy | H::Reshape | H::Broadcast | H::Transpose | H::Slice | H::Reverse => of(0)?,
        H::DynamicSlice | H::Gather => of(0)?,
        H::Sort if instruction.operand_ids().len() == 1 => of(0)?,
        H::Pad | H::DynamicUpdateSlice => hull(of(0)?, of(1)?),
        H::Concatenate => {
            let mut all = (0..instruction.operand_ids().len()).map(of);
            let first = all.next()??;
            all.try_fold(first, |sum, one| Some(hull(sum, one?)))?
        }
        H::Select => match of(0)? {
            (1, 1) => of(1)?,
            (0, 0) => of(2)?,
            _ => hull(of(1)?, of(2)?),
        },
        _ => return None,
    })
}

/// The smallest range that holds both.
fn hull(a: Range, b: Range) -> Range {
    (a.0.min(b.0), a.1.max(b.1))
}

/// The range of a truth value.
fn truth(instruction: InstructionRef<'_>, known: &Ranges) -> Option<Range> {
    let of = |k: usize| operand(instruction, k, known);
    Some(match instruction.opcode() {
        HloOpcode::Compare => {
            let direction = instruction.enumeration(AttrKey::Direction)?;
            compared(direction.as_ref(), of(0)?, of(1)?)?
        }
        HloOpcode::Not => (1 - of(0)?.1, 1 - of(0)?.0),
        HloOpcode::And => (of(0)?.0.min(of(1)?.0), of(0)?.1.min(of(1)?.1)),
        HloOpcode::Or => (of(0)?.0.max(of(1)?.0), of(0)?.1.max(of(1)?.1)),
        _ => moved(instruction, known)?,
    })
}

/// The range of a number that is computed; a type's `all` values are more than it may have.
fn arithmetic(instruction: InstructionRef<'_>, all: Range, known: &Ranges) -> Option<Range> {
    use HloOpcode as H;
    let of = |k: usize| operand(instruction, k, known);
    Some(match instruction.opcode() {
        H::Convert => of(0)?,
        H::Add => (of(0)?.0 + of(1)?.0, of(0)?.1 + of(1)?.1),
        H::Subtract => (of(0)?.0 - of(1)?.1, of(0)?.1 - of(1)?.0),
        H::Negate => (-of(0)?.1, -of(0)?.0),
        H::Abs => match of(0)? {
            // The smallest number has no opposite.
            (low, high) if low > all.0 => {
                let least = if low <= 0 && high >= 0 {
                    0
                } else {
                    low.abs().min(high.abs())
                };
                (least, low.abs().max(high.abs()))
            }
            _ => return None,
        },
        H::Multiply => {
            let (a, b) = (of(0)?, of(1)?);
            let corners = [a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1];
            (*corners.iter().min()?, *corners.iter().max()?)
        }
        // No bit is set that the operand has not.
        H::And => match (of(0)?, of(1)?) {
            (a, b) if a.0 >= 0 && b.0 >= 0 => (0, a.1.min(b.1)),
            (a, _) if a.0 >= 0 => (0, a.1),
            (_, b) if b.0 >= 0 => (0, b.1),
            _ => return None,
        },
        H::Minimum => (of(0)?.0.min(of(1)?.0), of(0)?.1.min(of(1)?.1)),
        H::Maximum => (of(0)?.0.max(of(1)?.0), of(0)?.1.max(of(1)?.1)),
        H::Clamp => {
            let (low, x, high) = (of(0)?, of(1)?, of(2)?);
            (x.0.max(low.0).min(high.0), x.1.max(low.1).min(high.1))
        }
        // Truncated towards zero; of what is not negative by what is positive.
        H::Divide => match (of(0)?, of(1)?) {
            (a, b) if a.0 >= 0 && b.0 >= 1 => (a.0 / b.1, a.1 / b.0),
            _ => return None,
        },
        // It has the dividend's sign.
        H::Remainder => match (of(0)?, of(1)?) {
            (a, b) if b.0 >= 1 => ((1 - b.1).max(a.0).min(0), (b.1 - 1).min(a.1).max(0)),
            _ => return None,
        },
        _ => return None,
    })
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
fn simplify(module: &mut HloModule, computation: ComputationId, ranges: &Ranges) -> usize {
    let instructions = module.computation(computation).instructions.clone();
    let mut instead: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
    let root = module.computation(computation).root;
    let is_entry = module.entry == Some(computation);
    let mut changed = 0;
    for id in instructions {
        redirect(module, id, &instead);
        let instruction = module.instruction(id);
        let Some(which) = decided(instruction, ranges) else {
            continue;
        };
        let Some(&other) = instruction.operand_ids().get(which) else {
            continue;
        };
        match standing(module, id, other, is_entry && root == Some(id)) {
            Standing::Itself => {
                instead.insert(id, other);
            }
            Standing::Copied => become_copy(module, id, other),
            // Old texts leave broadcasts out.
            Standing::Not => continue,
        }
        changed += 1;
    }
    if let Some(&other) = root.and_then(|root| instead.get(&root)) {
        module.computation_mut(computation).root = Some(other);
    }
    changed
}

/// The operand whose value an instruction always has.
fn decided(instruction: InstructionRef<'_>, ranges: &Ranges) -> Option<usize> {
    use HloOpcode as H;
    let of = |k: usize| operand(instruction, k, ranges);
    let (a, b) = match instruction.opcode() {
        H::Select => {
            return match of(0)? {
                (1, 1) => Some(1),
                (0, 0) => Some(2),
                _ => None,
            };
        }
        H::And | H::Or | H::Minimum | H::Maximum | H::Remainder => (of(0)?, of(1)?),
        H::Clamp => {
            let (low, x, high) = (of(0)?, of(1)?, of(2)?);
            return (low.1 <= x.0 && x.1 <= high.0).then_some(1);
        }
        _ => return None,
    };
    let is_pred = a.0 >= 0 && a.1 <= 1 && b.0 >= 0 && b.1 <= 1;
    match instruction.opcode() {
        H::And if is_pred && a == (1, 1) => Some(1),
        H::And if is_pred && b == (1, 1) => Some(0),
        H::Or if is_pred && a == (0, 0) => Some(1),
        H::Or if is_pred && b == (0, 0) => Some(0),
        H::Minimum if a.1 <= b.0 => Some(0),
        H::Minimum if b.1 <= a.0 => Some(1),
        H::Maximum if a.0 >= b.1 => Some(0),
        H::Maximum if b.0 >= a.1 => Some(1),
        H::Remainder if a.0 >= 0 && b.0 > a.1 => Some(0),
        _ => None,
    }
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
