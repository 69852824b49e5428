//! Rewrites of the flattened module, HLO in and HLO out.
//!
//! Each has a name by which `compile(…, disable=[name])` switches it off, keeps the module's
//! meaning up to the order of floating-point sums, and states in its own file when it applies.

mod bitcast_width;
mod common_subexpressions;
mod constant_folding;
mod dot_strength;
mod dynamic_padding;
mod emit;
mod known_ranges;
mod library_product;
mod loop_accumulate;
mod loop_defer;
mod loop_hoist;
mod loop_info;
mod loop_unroll;
mod product;
mod rewrite;
mod scan;
mod single_window;
mod transpose_fold;
mod trip_index;
mod tuple_select;

pub use dynamic_padding::DynamicSize;

use crate::error::Result;
use crate::module::{
    ComputationId, HloComputation, HloModule, HloOpcode, IdMap, InstructionId, NewInstruction,
};
use crate::plan::CompileOptions;
use crate::plan::stated_layouts::StatedLayouts;
use crate::types::ShapeId;

/// Names of what can be switched off: passes, in the order in which they run, and choices of the
/// lowering.
pub const PASSES: [&str; 14] = [
    single_window::NAME,
    constant_folding::NAME,
    known_ranges::NAME,
    loop_unroll::NAME,
    common_subexpressions::NAME,
    "transpose-fold",
    "loop-hoist",
    "loop-accumulate",
    "loop-defer",
    dot_strength::NAME,
    crate::plan::lower::panels::NAME,
    crate::plan::chains::NAME,
    crate::plan::bands::NAME,
    crate::plan::flat::NAME,
];

/// What the passes did.
pub struct Applied {
    /// Those that changed something, and how many products or loops they changed.
    pub rewrites: Vec<(&'static str, usize)>,
    /// Sizes that follow the entry's result; there are any only if its root was wrapped for them.
    pub dynamic_sizes: Vec<DynamicSize>,
}

/// Replaces what the lowering has no thunk for, then runs every pass that is not switched off;
/// returns what they did.
pub fn run(module: &mut HloModule, options: &CompileOptions) -> Result<Applied> {
    let layouts = StatedLayouts::of(module);
    scan::run(module)?;
    tuple_select::run(module);
    bitcast_width::run(module);
    library_product::run(module)?;
    let dynamic_sizes = dynamic_padding::run(module)?;
    crate::plan::transfer::order(module);
    forget_unreachable(module);
    layouts.keep(module);
    let mut applied = Vec::new();
    let enabled = |name: &str| !options.disable.iter().any(|d| d == name);
    for name in PASSES {
        if !enabled(name) {
            continue;
        }
        let mut changed = 0;
        match name {
            single_window::NAME => changed = single_window::run(module),
            known_ranges::NAME => changed = known_ranges::run(module),
            constant_folding::NAME => changed = constant_folding::run(module, options),
            common_subexpressions::NAME => changed = common_subexpressions::run(module),
            loop_unroll::NAME => {
                let callers = loop_info::Callers::new(module);
                for id in while_loops(module) {
                    if let Some(info) = loop_info::LoopInfo::of(module, &callers, id) {
                        changed += usize::from(loop_unroll::run(module, &info)?);
                    }
                }
            }
            "transpose-fold" => changed = transpose_fold::run(module),
            dot_strength::NAME => changed = dot_strength::run(module),
            _ => {}
        }
        let pass: Option<fn(&mut HloModule, &mut loop_info::LoopInfo)> = match name {
            "loop-hoist" => Some(loop_hoist::run),
            "loop-accumulate" => Some(loop_accumulate::run),
            "loop-defer" => Some(loop_defer::run),
            _ => None,
        };
        if let Some(pass) = pass {
            let callers = loop_info::Callers::new(module);
            for id in while_loops(module) {
                let Some(mut info) = loop_info::LoopInfo::of(module, &callers, id) else {
                    continue;
                };
                pass(module, &mut info);
                changed += usize::from(info.is_changed());
                info.finish(module)?;
            }
        }
        if changed > 0 {
            layouts.keep(module);
            applied.push((name, changed));
        }
    }
    Ok(Applied {
        rewrites: applied,
        dynamic_sizes,
    })
}

/// Empties computations that nothing runs any more: those of fusions and calls, which stand in the
/// place of the calls now. What they call would otherwise seem to have a second caller.
fn forget_unreachable(module: &mut HloModule) {
    let mut is_reached = IdMap::new(module.computation_count(), false);
    let mut open: Vec<ComputationId> = module.entry.into_iter().collect();
    while let Some(id) = open.pop() {
        if std::mem::replace(&mut is_reached[id], true) {
            continue;
        }
        for &instruction in &module.computation(id).instructions {
            open.extend(module.instruction(instruction).called_computations());
        }
    }
    for id in module.computation_ids() {
        if !is_reached[id] {
            module.computation_mut(id).instructions.clear();
        }
    }
}

/// An empty computation of one parameter, named and placed after `like`.
fn emit_computation(
    module: &mut HloModule,
    like: InstructionId,
    parameter: ShapeId,
) -> (ComputationId, InstructionId) {
    let data = module.instruction_data(like);
    let (name, text) = (data.name, data.text);
    let computation = module.add_computation(HloComputation {
        name,
        text,
        ..HloComputation::default()
    });
    let parameter = module.add_instruction(
        computation,
        NewInstruction {
            name,
            text,
            opcode: HloOpcode::Parameter,
            shape: parameter,
            operands: &[],
            attributes: &[],
            immediate: 0,
        },
    );
    module
        .computation_mut(computation)
        .parameters
        .push(parameter);
    (computation, parameter)
}

/// The loops of all computations that can run.
fn while_loops(module: &HloModule) -> Vec<InstructionId> {
    let mut found = Vec::new();
    for computation in module.computation_ids() {
        for &id in &module.computation(computation).instructions {
            if module.instruction_data(id).opcode == HloOpcode::While {
                found.push(id);
            }
        }
    }
    found
}
