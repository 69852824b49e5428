//! `simplify`: a form that later passes may rely on.
//!
//! In: a flattened module. Out: the same values, in which chains of movements and conversions are
//! one, a broadcast of a scalar is direct, a part of a tuple that is put together here is that part,
//! each part of a tuple is taken once, a branch that is known is in its conditional's place, and
//! nothing is computed that is its operand or a constant anyway, or for every repetition of an operand
//! by itself. A fold of one element per result is its reducer.
//!
//! Each rule goes one way: what it puts in computes no more than what it takes out, whoever else reads
//! that. It has no more instructions either, except where a broadcast moves behind what is computed, and
//! those of a reducer. All rules keep every bit, but for the payload of a NaN and for squares, of which `power` may round the
//! last bit otherwise.
//! An array of another layout stands for one as a copy, since loops walk arrays in the order of
//! their layouts.

mod arithmetic;
mod broadcasts;
mod control;
mod folds;
mod movement;
mod rule;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::Result;
use crate::module::{AttrValue, ComputationId, HloModule, HloOpcode, InstructionId};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::inline;
use crate::plan::hlo::loops::info::Callers;
use crate::plan::view::major_to_minor;
use rule::Change;

/// Name by which it is switched off.
pub const NAME: &str = "simplify";
/// Rules that are applied to one instruction in a row.
const MAX_STEPS: usize = 16;

/// Runs the rules on all computations, operands before their readers; how many instructions changed.
pub fn run(module: &mut HloModule) -> Result<usize> {
    let callers = Callers::new(module);
    let mut changed = 0;
    for computation in module.computation_ids().collect::<Vec<_>>() {
        changed += simplify(module, &callers, computation)?;
    }
    Ok(changed)
}

fn simplify(
    module: &mut HloModule,
    callers: &Callers,
    computation: ComputationId,
) -> Result<usize> {
    let is_entry = module.entry == Some(computation);
    let old_root = module.computation(computation).root;
    let old = std::mem::take(&mut module.computation_mut(computation).instructions);
    let whole = whole_tuples(module, &old, old_root);
    let mut all = Vec::with_capacity(old.len());
    let mut instead: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
    let mut parts: FxHashMap<(InstructionId, u32), InstructionId> = FxHashMap::default();
    let mut changed = 0;
    for id in old {
        redirect(module, id, &instead);
        let mut same = None;
        for _ in 0..MAX_STEPS {
            let mut builder = Builder {
                module,
                computation,
                like: id,
            };
            match step(&mut builder, callers, &whole)? {
                Some(Change::Same(other)) => same = Some(other),
                Some(Change::Rewritten) => {
                    changed += 1;
                    continue;
                }
                None => {}
            }
            break;
        }
        if same.is_none() {
            same = taken_before(module, id, &mut parts);
        }
        all.append(&mut module.computation_mut(computation).instructions);
        let is_result = is_entry && old_root == Some(id);
        match same.map(|other| (other, standing(module, id, other, is_result))) {
            Some((other, Standing::Itself)) => {
                instead.insert(id, other);
                changed += 1;
            }
            Some((other, Standing::Copied)) => {
                become_copy(module, id, other);
                all.push(id);
                changed += 1;
            }
            _ => all.push(id),
        }
    }
    let data = module.computation_mut(computation);
    data.instructions = all;
    data.root = old_root.map(|root| instead.get(&root).copied().unwrap_or(root));
    if changed > 0 {
        inline::remove_dead(module, computation);
    }
    Ok(changed)
}

/// The first rule that applies to the builder's instruction.
fn step(
    builder: &mut Builder<'_>,
    callers: &Callers,
    whole: &FxHashSet<InstructionId>,
) -> Result<Option<Change>> {
    let rules = movement::RULES.iter().chain(arithmetic::RULES);
    for rule in rules.chain(broadcasts::RULES).chain(folds::RULES) {
        if let Some(change) = rule(builder) {
            return Ok(Some(change));
        }
    }
    if !whole.contains(&builder.like)
        && let Some(change) = movement::whole_tuple(builder)
    {
        return Ok(Some(change));
    }
    control::known_branch(builder, callers)
}

/// Lets an instruction read what stands for its operands.
pub(super) fn redirect(
    module: &mut HloModule,
    id: InstructionId,
    instead: &FxHashMap<InstructionId, InstructionId>,
) {
    for operand in module.operand_ids_mut(id) {
        *operand = instead.get(operand).copied().unwrap_or(*operand);
    }
    for attribute in module.attributes_of_mut(id) {
        if let AttrValue::Instructions(ids) = &mut attribute.value {
            for id in ids {
                *id = instead.get(id).copied().unwrap_or(*id);
            }
        }
    }
}

/// The same part of the same tuple, where it was taken before.
fn taken_before(
    module: &HloModule,
    id: InstructionId,
    parts: &mut FxHashMap<(InstructionId, u32), InstructionId>,
) -> Option<InstructionId> {
    let data = module.instruction_data(id);
    let &[tuple] = module.operand_ids(id) else {
        return None;
    };
    if data.opcode != HloOpcode::GetTupleElement {
        return None;
    }
    let first = *parts.entry((tuple, data.immediate)).or_insert(id);
    (first != id).then_some(first)
}

/// How one instruction stands for another that has the same value.
pub(super) enum Standing {
    /// As it is.
    Itself,
    /// As a copy in the other's layout.
    Copied,
    /// Not at all.
    Not,
}

/// How `other` stands for `id`, which is the module's result or not.
pub(super) fn standing(
    module: &HloModule,
    id: InstructionId,
    other: InstructionId,
    is_result: bool,
) -> Standing {
    let (a, b) = (module.instruction(id), module.instruction(other));
    if a.shape_id() == b.shape_id() {
        return Standing::Itself;
    }
    let (Some(from), Some(to)) = (b.array_shape(), a.array_shape()) else {
        return Standing::Not;
    };
    if from.element_type != to.element_type || from.dims != to.dims {
        return Standing::Not;
    }
    if !is_result && major_to_minor(from) == major_to_minor(to) {
        return Standing::Itself;
    }
    match a.opcode() {
        HloOpcode::Copy => Standing::Not,
        _ => Standing::Copied,
    }
}

pub(super) fn become_copy(module: &mut HloModule, id: InstructionId, other: InstructionId) {
    module.set_operands(id, &[other]);
    module.set_attributes(id, &[]);
    let data = module.instruction_data_mut(id);
    (data.opcode, data.immediate) = (HloOpcode::Copy, 0);
}

/// Tuples that stay tuples: the state of loops, and results of loop bodies, which passes on loops take
/// apart.
fn whole_tuples(
    module: &HloModule,
    instructions: &[InstructionId],
    root: Option<InstructionId>,
) -> FxHashSet<InstructionId> {
    let loops = instructions
        .iter()
        .filter(|&&id| module.instruction_data(id).opcode == HloOpcode::While);
    let states = loops.flat_map(|&id| module.operand_ids(id)).copied();
    states.chain(root).collect()
}
