//! `loop-unroll`: a loop of few trips over arrays, written out.
//!
//! A trip that is elementwise reads its arrays from memory and writes them back. Written out, trips
//! are loops over the same rows like any others. Arrays gain because trips are fused and there is less
//! to call; scalars gain nothing, because scalar bytecode is as fast and less code. Arrays that no
//! cache holds also gain because loops run together, a tile of rows at a time, and what one leaves
//! for the next stays in the cache (see [`crate::plan::schedule::row_tiling`]).
//!
//! Applies to loops of 2 to [`MAX_UNROLLED_TRIPS`] trips, known from the condition, whose body has
//! nothing but elementwise operations and movements, few of them, and changes [`MIN_CHANGED`] bytes or
//! more. A loop of one trip is its body, whatever that is, and one of none what it starts with.
//! Where a loop was written out, `constant-folding` runs once more, with its bounds anew.

use super::info::{Callers, LoopInfo};
use crate::error::Result;
use crate::module::{Effects, HloModule, HloOpcode, InstructionId, OpClass};
use crate::plan::cost::loops::{MAX_ALL_UNROLLED, MAX_UNROLLED, MAX_UNROLLED_TRIPS, MIN_CHANGED};
use crate::plan::hlo::inline;

/// Name by which it is switched off.
pub const NAME: &str = "loop-unroll";

/// Runs the pass on all loops; how many were written out.
pub fn run(module: &mut HloModule) -> Result<usize> {
    let callers = Callers::new(module);
    let mut effects = Effects::default();
    let mut changed = 0;
    let mut left = MAX_ALL_UNROLLED;
    for id in super::info::while_loops(module) {
        let Some(info) = LoopInfo::of(module, &callers, id) else {
            continue;
        };
        let count = module.computation(info.body).instructions.len() * info.trips.len();
        if is_trivial(module, &info, &mut effects) {
            unroll(module, &info)?;
            changed += 1;
        } else if count <= left && applies(module, &info) {
            unroll(module, &info)?;
            changed += 1;
            left -= count;
        }
    }
    Ok(changed)
}

/// Whether a loop has at most one trip, and its condition does nothing besides.
fn is_trivial(module: &HloModule, info: &LoopInfo, effects: &mut Effects) -> bool {
    let shape = |id: InstructionId| module.instruction_data(id).shape;
    let ends = [
        module.operand_ids(info.id).first().copied(),
        module.computation(info.body).root,
    ];
    info.trips.len() <= 1
        && info.condition_has_only(module, |&id| effects.of(module, id).is_pure())
        && ends
            .iter()
            .flatten()
            .all(|&end| shape(end) == shape(info.id))
}

/// Writes one loop out in its place.
fn unroll(module: &mut HloModule, info: &LoopInfo) -> Result<()> {
    let &[mut value] = module.operand_ids(info.id) else {
        return Ok(());
    };
    let old = std::mem::take(&mut module.computation_mut(info.parent).instructions);
    for _ in &info.trips {
        value = inline::clone_body(module, info.body, info.parent, &[value])?;
    }
    let trips = std::mem::take(&mut module.computation_mut(info.parent).instructions);
    let at = old
        .iter()
        .position(|&id| id == info.id)
        .unwrap_or(old.len());
    let (before, after) = old.split_at(at);
    let all = before.iter().chain(&trips).chain(after).copied().collect();
    module.computation_mut(info.parent).instructions = all;
    redirect(module, info, value);
    // The loop itself may have effects, which would keep it.
    let is_part = |module: &HloModule, id| {
        module.instruction(id).tuple_index().is_some() && module.operand_ids(id) == [info.id]
    };
    let mut all = std::mem::take(&mut module.computation_mut(info.parent).instructions);
    all.retain(|&id| id != info.id && !is_part(module, id));
    module.computation_mut(info.parent).instructions = all;
    inline::remove_dead(module, info.parent);
    Ok(())
}

fn applies(module: &HloModule, info: &LoopInfo) -> bool {
    let body = &module.computation(info.body).instructions;
    let trips = info.trips.len();
    if !(2..=MAX_UNROLLED_TRIPS).contains(&trips) || body.len() * trips > MAX_UNROLLED {
        return false;
    }
    let is_simple = |&id: &InstructionId| {
        use OpClass as C;
        matches!(
            module.instruction_data(id).opcode.class(),
            C::Unary
                | C::Binary
                | C::Compare
                | C::Select
                | C::Clamp
                | C::Convert
                | C::BitcastConvert
                | C::Constant
                | C::Iota
                | C::Tuple
                | C::Movement
                | C::Parameter
        )
    };
    let shape = |id: InstructionId| module.instruction_data(id).shape;
    let mut leaves = info.initial.iter().zip(&info.results).enumerate();
    let bytes = |(k, (_, &result)): (usize, (_, &InstructionId))| {
        let shape = module.instruction(result).array_shape();
        let count = shape.and_then(|s| Some((s.element_count()?, s.element_type)));
        let size = count.map_or(0, |(count, ty)| {
            count.saturating_mul(ty.size_bytes() as i64)
        });
        if info.is_invariant(k) { 0 } else { size }
    };
    body.iter().all(is_simple)
        // What the condition does besides, such as taking from a queue, is to be done.
        && info.condition_has_only(module, is_simple)
        && leaves.clone().all(|(_, (&a, &b))| shape(a) == shape(b))
        && leaves
            .try_fold(0i64, |sum, leaf| sum.checked_add(bytes(leaf)))
            .is_some_and(|bytes| bytes >= MIN_CHANGED)
}

/// Lets everything that reads the loop read `value`, a tuple.
fn redirect(module: &mut HloModule, info: &LoopInfo, value: InstructionId) {
    let elements = module.operand_ids(value).to_vec();
    let instructions = module.computation(info.parent).instructions.clone();
    let new = |module: &HloModule, old: InstructionId| {
        let data = module.instruction_data(old);
        if old == info.id {
            Some(value)
        } else if data.opcode == HloOpcode::GetTupleElement
            && module.operand_ids(old).first() == Some(&info.id)
        {
            elements.get(data.immediate as usize).copied()
        } else {
            None
        }
    };
    // The elements themselves go on reading the loop until nobody reads them.
    for &id in &instructions {
        if new(module, id).is_some() {
            continue;
        }
        for k in 0..module.operand_ids(id).len() {
            if let Some(new) = new(module, module.operand_ids(id)[k]) {
                module.operand_ids_mut(id)[k] = new;
            }
        }
    }
    if let Some(root) = module.computation(info.parent).root
        && let Some(new) = new(module, root)
    {
        module.computation_mut(info.parent).root = Some(new);
    }
}
