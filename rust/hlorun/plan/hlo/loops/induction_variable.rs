//! What an index expression is in each trip of a loop.
//!
//! In: a scalar integer expression of a loop's counter. Out: its value for every trip, found by
//! evaluating it, so that any way of writing "row t" or "row n-1-t" is understood.

use rustc_hash::FxHashMap;

use crate::module::{AttrKey, HloModule, HloOpcode, InstructionId};
use crate::types::PrimitiveType;
use crate::types::integer::{integer, wrapped};

/// Longest expression that is looked at.
const MAX_NODES: usize = 64;

/// Values of the expression `root` when `counter` has each of the values `trips`; `None` when it
/// depends on anything else.
pub fn evaluate(
    module: &HloModule,
    root: InstructionId,
    counter: InstructionId,
    trips: &[i64],
) -> Option<Vec<i64>> {
    let mut order = Vec::new();
    let mut stack = vec![(root, false)];
    let mut seen: FxHashMap<InstructionId, bool> = FxHashMap::default();
    while let Some((id, visited)) = stack.pop() {
        if visited {
            order.push(id);
            continue;
        }
        if seen.insert(id, true).is_some() {
            continue;
        }
        if order.len() + stack.len() > MAX_NODES {
            return None;
        }
        stack.push((id, true));
        if id != counter {
            stack.extend(module.operand_ids(id).iter().map(|&o| (o, false)));
        }
    }
    let mut values: FxHashMap<InstructionId, i64> = FxHashMap::default();
    let mut results = Vec::with_capacity(trips.len());
    for &trip in trips {
        values.clear();
        for &id in &order {
            let value = if id == counter {
                trip
            } else {
                step(module, id, &values)?
            };
            values.insert(id, value);
        }
        results.push(*values.get(&root)?);
    }
    Some(results)
}

/// Whether values are `0..n` in some order.
pub fn is_permutation(values: &[i64]) -> bool {
    let mut seen = vec![false; values.len()];
    values.iter().all(|&v| {
        usize::try_from(v)
            .ok()
            .and_then(|v| seen.get_mut(v))
            .is_some_and(|slot| !std::mem::replace(slot, true))
    })
}

/// The value of a scalar integer constant.
pub fn constant(module: &HloModule, id: InstructionId) -> Option<i64> {
    let instruction = module.instruction(id);
    let shape = instruction.array_shape()?;
    let bytes = instruction.literal()?.bytes()?;
    (shape.element_count() == Some(1)).then(|| integer(bytes, shape.element_type))?
}

/// The [`integer`]s of an array, in their order.
pub fn integers(bytes: &[u8], ty: PrimitiveType) -> impl Iterator<Item = Option<i64>> + Clone + '_ {
    bytes
        .chunks_exact(ty.size_bytes())
        .map(move |raw| integer(raw, ty))
}

fn step(
    module: &HloModule,
    id: InstructionId,
    values: &FxHashMap<InstructionId, i64>,
) -> Option<i64> {
    let instruction = module.instruction(id);
    let shape = instruction.array_shape()?;
    if shape.element_count() != Some(1) {
        return None;
    }
    let operand = |k: usize| values.get(instruction.operand_ids().get(k)?).copied();
    let value = match instruction.opcode() {
        HloOpcode::Constant => return constant(module, id),
        HloOpcode::Add => operand(0)?.wrapping_add(operand(1)?),
        HloOpcode::Subtract => operand(0)?.wrapping_sub(operand(1)?),
        HloOpcode::Multiply => operand(0)?.wrapping_mul(operand(1)?),
        HloOpcode::Negate => operand(0)?.wrapping_neg(),
        HloOpcode::Maximum => operand(0)?.max(operand(1)?),
        HloOpcode::Minimum => operand(0)?.min(operand(1)?),
        HloOpcode::Clamp => operand(1)?.max(operand(0)?).min(operand(2)?),
        HloOpcode::Convert | HloOpcode::Copy | HloOpcode::Reshape | HloOpcode::Broadcast => {
            operand(0)?
        }
        HloOpcode::Select => {
            if operand(0)? != 0 {
                operand(1)?
            } else {
                operand(2)?
            }
        }
        HloOpcode::Compare => {
            let (a, b) = (operand(0)?, operand(1)?);
            i64::from(
                match instruction.enumeration(AttrKey::Direction)?.as_ref() {
                    "EQ" => a == b,
                    "NE" => a != b,
                    "LT" => a < b,
                    "LE" => a <= b,
                    "GT" => a > b,
                    "GE" => a >= b,
                    _ => return None,
                },
            )
        }
        _ => return None,
    };
    wrapped(value, shape.element_type)
}

#[cfg(test)]
mod tests {
    use super::is_permutation;

    #[test]
    fn permutations() {
        assert!(is_permutation(&[2, 0, 1]));
        assert!(!is_permutation(&[0, 0, 1]));
        assert!(!is_permutation(&[1, 2, 3]));
        assert!(is_permutation(&[]));
    }
}
