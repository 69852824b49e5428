//! `loop-copies`: a loop whose body or condition other instructions call too gets a copy of it.
//!
//! A function that is called twice leaves loops that share their computations. What is known of one of them,
//! such as its number of trips or its initial values, would not hold for the other, and what changes one would
//! change both. Applies to computations without effects, so that every channel stays in one place, as long as all
//! copies together are not more than [`MAX_COPIED`] instructions. These conditions are about caution and cost, not
//! legality: a copy computes what the original computes.

use crate::error::Result;
use crate::module::{AttrKey, AttrValue, ComputationId, Effects, HloModule, HloOpcode};
use crate::plan::cost::loops::MAX_COPIED;
use crate::plan::hlo::builder::emit_computation;
use crate::plan::hlo::inline;
use crate::plan::hlo::loops::info::while_loops;
use rustc_hash::FxHashMap;

/// Name by which it is switched off.
pub const NAME: &str = "loop-copies";

/// Runs the pass; how many computations it copied.
pub fn run(module: &mut HloModule) -> Result<usize> {
    let mut callers: FxHashMap<ComputationId, usize> = FxHashMap::default();
    for id in module.computation_ids() {
        count_calls(module, id, &mut callers);
    }
    let mut effects = Effects::default();
    let (mut copied, mut left) = (0, MAX_COPIED);
    let mut open = while_loops(module);
    while let Some(id) = open.pop() {
        let keys = [AttrKey::Body, AttrKey::Condition];
        let callees = keys.map(|key| module.instruction(id).computation_attribute(key));
        let mut called = callees.iter().flatten();
        if !called.all(|&callee| effects.of_computation(module, callee).is_pure()) {
            continue;
        }
        for (key, callee) in keys.into_iter().zip(callees) {
            let is_shared =
                |callee: &ComputationId| callers.get(callee).is_some_and(|&calls| calls > 1);
            let Some(callee) = callee.filter(is_shared) else {
                continue;
            };
            let count = module.computation(callee).instructions.len();
            if count > left {
                continue;
            }
            let Some(copy) = copy(module, callee)? else {
                continue;
            };
            module.set_attribute(id, key, AttrValue::Computation(copy));
            callers.entry(callee).and_modify(|calls| *calls -= 1);
            callers.insert(copy, 1);
            count_calls(module, copy, &mut callers);
            let all = module.computation(copy).instructions.iter().copied();
            open.extend(all.filter(|&id| module.instruction_data(id).opcode == HloOpcode::While));
            left -= count;
            copied += 1;
        }
    }
    Ok(copied)
}

/// Adds the calls of one computation.
fn count_calls(
    module: &HloModule,
    computation: ComputationId,
    callers: &mut FxHashMap<ComputationId, usize>,
) {
    for &id in &module.computation(computation).instructions {
        for callee in module.instruction(id).called_computations() {
            *callers.entry(callee).or_default() += 1;
        }
    }
}

/// A copy of a computation of one parameter.
fn copy(module: &mut HloModule, callee: ComputationId) -> Result<Option<ComputationId>> {
    let &[parameter] = module.computation(callee).parameters.as_slice() else {
        return Ok(None);
    };
    let shape = module.instruction_data(parameter).shape;
    let (new, argument) = emit_computation(module, parameter, shape);
    module.computation_mut(new).name = module.computation(callee).name;
    let root = inline::clone_body(module, callee, new, &[argument])?;
    module.computation_mut(new).root = Some(root);
    Ok(Some(new))
}
