//! A module without what passes left behind.
//!
//! In: a module in the middle of planning. Out: the same program as a text would hold it: computations
//! that were emptied are gone, and the order of the instructions is the schedule. So it prints, and
//! what is printed parses to it.

use super::attributes::AttrValue;
use super::hlo_module::HloModule;
use super::ids::{ComputationId, Id, IdMap};

/// A copy of `module` that can be printed.
pub fn compact(module: &HloModule) -> HloModule {
    let mut compact = module.clone();
    let mut new_ids = IdMap::new(module.computation_count(), ComputationId::from_index(0));
    compact.computations.clear();
    for id in module.computation_ids() {
        let computation = module.computation(id);
        if !computation.instructions.is_empty() {
            new_ids[id] = compact.add_computation(computation.clone());
        }
    }
    for instruction in &mut compact.instructions {
        instruction.computation = new_ids[instruction.computation];
    }
    for attribute in &mut compact.attributes {
        match &mut attribute.value {
            AttrValue::Computation(id) => *id = new_ids[*id],
            AttrValue::Computations(ids) => ids.iter_mut().for_each(|id| *id = new_ids[*id]),
            _ => {}
        }
    }
    compact.entry = module.entry.map(|entry| new_ids[entry]);
    compact.config.is_scheduled = true;
    compact
}
