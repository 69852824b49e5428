//! Replaces instructions by what computes their value.
//!
//! In: which instructions, and a function that appends what stands for one. Out: the module without
//! them, inner computations first. Promise: a value keeps its shape, layout and dynamic sizes included,
//! and whoever observes a run still sees it.

use rustc_hash::FxHashMap;

use crate::error::{HloError, Result};
use crate::module::post_order::computation_post_order;
use crate::module::{ComputationId, HloModule, Id, InstructionId, InstructionRef};
use crate::plan::error::unsupported;
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::pass::PassContext;
use crate::plan::limits::MAX_LEAVES;
use crate::types::ShapeId;

/// What stands for each instruction that is gone.
type Replaced = FxHashMap<InstructionId, InstructionId>;

/// Most instructions that are added to a module of fewer: computations that apply each other twice,
/// level upon level, double each time.
const MAX_ADDED: usize = 1 << 20;

/// Replaces every instruction that `is_wanted`; returns how many there were.
///
/// Errors: what `write` refuses, and `HloError::Unsupported` where too much would be added.
pub fn each(
    module: &mut HloModule,
    cx: &mut PassContext<'_>,
    is_wanted: impl Fn(InstructionRef<'_>) -> bool,
    write: impl Fn(&mut Builder<'_>, InstructionId) -> Result<InstructionId>,
) -> Result<usize> {
    let has_any = |module: &HloModule, computation: ComputationId| {
        let instructions = &module.computation(computation).instructions;
        instructions
            .iter()
            .any(|&id| is_wanted(module.instruction(id)))
    };
    if !module.computation_ids().any(|id| has_any(module, id)) {
        return Ok(0);
    }
    let order = computation_post_order(module)
        .map_err(|_| HloError::execution("a computation calls itself"))?;
    let count = module.instruction_count();
    let most = count + MAX_ADDED.max(count);
    let mut replaced = Replaced::default();
    for computation in order {
        if !has_any(module, computation) {
            continue;
        }
        let old = std::mem::take(&mut module.computation_mut(computation).instructions);
        for id in old {
            for operand in module.operand_ids_mut(id) {
                *operand = replaced.get(operand).copied().unwrap_or(*operand);
            }
            if !is_wanted(module.instruction(id)) {
                module.computation_mut(computation).instructions.push(id);
                continue;
            }
            let first = module.instruction_count();
            let mut builder = Builder {
                module,
                computation,
                like: id,
            };
            let new = write(&mut builder, id)?;
            if module.instruction_count() > most {
                let what = format!("more than {most} instructions when written out");
                return Err(unsupported(module.instruction(id), what));
            }
            finish(module, first, id, new);
            cx.calls.push((id, new));
            replaced.insert(id, new);
        }
        if let Some(root) = &mut module.computation_mut(computation).root {
            *root = replaced.get(root).copied().unwrap_or(*root);
        }
    }
    for call in &mut cx.calls {
        call.1 = replaced.get(&call.1).copied().unwrap_or(call.1);
    }
    Ok(replaced.len())
}

/// Completes the instructions from `first` on, of which `new` stands for `old`.
fn finish(module: &mut HloModule, first: usize, old: InstructionId, new: InstructionId) {
    // Parts of an instruction of the text have no text of their own.
    for part in first..module.instruction_count() {
        let part = InstructionId::from_index(part);
        module.instruction_data_mut(part).text.len = 0;
    }
    let shape = module.instruction_data(old).shape;
    if new.index() >= first && fits(module, shape, module.instruction_data(new).shape) {
        module.instruction_data_mut(new).shape = shape;
    }
}

/// Whether two shapes have the same arrays, layouts and dynamic sizes apart.
fn fits(module: &HloModule, a: ShapeId, b: ShapeId) -> bool {
    let shapes = module.shapes();
    let (Some(a), Some(b)) = (shapes.leaves(a, MAX_LEAVES), shapes.leaves(b, MAX_LEAVES)) else {
        return false;
    };
    let is_same =
        |a: ShapeId, b: ShapeId| match (shapes.get(a).as_array(), shapes.get(b).as_array()) {
            (Some(a), Some(b)) => a.element_type == b.element_type && a.dims == b.dims,
            (None, None) => true,
            _ => false,
        };
    a.len() == b.len()
        && a.iter()
            .zip(&b)
            .all(|(a, b)| a.0 == b.0 && is_same(a.1, b.1))
}
