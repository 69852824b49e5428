//! Rewrites of the flattened module, HLO in and HLO out.
//!
//! Each has a name by which `compile(…, disable=[name])` switches it off, keeps the module's
//! meaning up to the order of floating-point sums, and states in its own file when it applies.

pub mod builder;
pub(crate) mod emit;
pub mod inline;
pub mod layout_assignment;
pub mod legalize;
pub mod loops;
pub mod pass;
mod product;
pub mod simplify;
pub mod tidy;

pub use pass::DynamicSize;

use crate::error::Result;
use crate::module::HloModule;
use crate::plan::hlo::loops::info::while_loops;
use crate::plan::hlo::pass::{Pass, PassContext};

/// What makes a text flat, and writes out what the lowering has no thunk for. These run also where every
/// value of the text is observed.
pub static FLATTEN: &[Pass] = &[
    required("bitcasts", |module, _| Ok(legalize::bitcasts::run(module))),
    required("inline", |module, cx| {
        cx.calls = inline::inline(module, cx.options.observe)?;
        // The text may hold computations that nothing runs.
        tidy::keep_values(module);
        Ok(cx.calls.len())
    }),
    required("map", legalize::map::run),
    required("scan", legalize::scan::run),
    required("tuple-select", legalize::tuple_select::run),
    required("norms", legalize::norms::run),
    required("library-products", legalize::library_product::run),
    required("dynamic-padding", |module, cx| {
        added(module, |module| {
            cx.dynamic_sizes =
                legalize::dynamic_padding::run(module, &mut cx.calls, cx.options.observe)?;
            Ok(())
        })
    }),
];

/// What changes a value of the text, so that nobody can observe it: the order of transfers, and the optional
/// passes, in the order in which they run.
pub static TABLE: &[Pass] = ORDER;

const ORDER: &[Pass] = &[
    required("transfer-order", |module, _| {
        Ok(legalize::transfer_order::run(module))
    }),
    optional(loops::copies::NAME, &[], |module, _| {
        loops::copies::run(module)
    }),
    optional(simplify::top_k::NAME, &[], |module, _| {
        simplify::top_k::run(module)
    }),
    optional(simplify::algebra::NAME, &[], |module, _| {
        simplify::algebra::run(module)
    }),
    optional(
        simplify::tree_reductions::NAME,
        &[simplify::algebra::NAME],
        |module, _| simplify::tree_reductions::run(module),
    ),
    optional(
        loops::state::NAME,
        &[simplify::algebra::NAME],
        |module, _| loops::state::run(module),
    ),
    optional(simplify::constant_folding::NAME, &[], |module, cx| {
        Ok(simplify::constant_folding::run(module, cx.options))
    }),
    optional(simplify::select_updates::NAME, &[], |module, cx| {
        let decides = !cx.options.is_off(simplify::range_analysis::NAME);
        Ok(simplify::select_updates::run(module, |module| {
            if decides {
                simplify::range_analysis::run(module);
            }
        }))
    }),
    optional(simplify::one_hot::NAME, &[], |module, _| {
        Ok(simplify::one_hot::run(module))
    }),
    optional(simplify::gather_scatter::NAME, &[], |module, _| {
        Ok(simplify::gather_scatter::run(module))
    }),
    optional(
        simplify::range_analysis::NAME,
        &[simplify::constant_folding::NAME],
        |module, _| Ok(simplify::range_analysis::run(module)),
    ),
    optional(
        simplify::integer_division::NAME,
        &[simplify::constant_folding::NAME],
        |module, _| Ok(simplify::integer_division::run(module)),
    ),
    optional(
        loops::unroll::NAME,
        &[simplify::range_analysis::NAME],
        |module, cx| {
            let changed = loops::unroll::run(module)?;
            let name = simplify::constant_folding::NAME;
            // Where trips are written out, their counters are constants.
            if changed > 0 && !cx.options.is_off(name) {
                simplify::constant_folding::run(module, cx.options);
            }
            Ok(changed)
        },
    ),
    optional(simplify::narrow_indices::NAME, &[], |module, _| {
        simplify::narrow_indices::run(module)
    }),
    optional(simplify::common_subexpressions::NAME, &[], |module, _| {
        Ok(simplify::common_subexpressions::run(module))
    }),
    optional(
        loops::invariants::NAME,
        &[simplify::common_subexpressions::NAME],
        |module, _| loops::invariants::run(module),
    ),
    optional("transpose-fold", &[], |module, _| {
        Ok(simplify::transpose_fold::run(module))
    }),
    optional(loops::map::NAME, &[], |module, _| {
        each_loop(module, loops::map::run)
    }),
    optional("loop-hoist", &[], |module, _| {
        each_loop(module, loops::hoist::run)
    }),
    optional("loop-accumulate", &["loop-hoist"], |module, _| {
        each_loop(module, loops::accumulate::run)
    }),
    optional("loop-defer", &["loop-accumulate"], |module, _| {
        each_loop(module, loops::defer::run)
    }),
    optional(
        simplify::dot_strength::NAME,
        &["transpose-fold"],
        |module, _| Ok(simplify::dot_strength::run(module)),
    ),
    optional(layout_assignment::NAME, &[], |module, _| {
        layout_assignment::run(module)
    }),
    optional(
        simplify::short_reductions::NAME,
        &[layout_assignment::NAME],
        |module, _| Ok(simplify::short_reductions::run(module)),
    ),
];

/// How many rows of [`TABLE`] are optional.
const OPTIONAL: usize = {
    let (mut row, mut count) = (0, 0);
    while row < ORDER.len() {
        count += ORDER[row].is_optional as usize;
        row += 1;
    }
    count
};

/// Names of the optional passes, in the order in which they run.
pub const PASSES: [&str; OPTIONAL] = {
    let mut names = [""; OPTIONAL];
    let (mut row, mut at) = (0, 0);
    while row < ORDER.len() {
        if ORDER[row].is_optional {
            names[at] = ORDER[row].name;
            at += 1;
        }
        row += 1;
    }
    names
};

type Run = fn(&mut HloModule, &mut PassContext<'_>) -> Result<usize>;

const fn required(name: &'static str, run: Run) -> Pass {
    Pass {
        name,
        needs: &[],
        is_optional: false,
        run,
    }
}

const fn optional(name: &'static str, needs: &'static [&'static str], run: Run) -> Pass {
    Pass {
        name,
        needs,
        is_optional: true,
        run,
    }
}

/// Runs a pass that reports no changes; the number of instructions it made.
fn added(module: &mut HloModule, run: impl FnOnce(&mut HloModule) -> Result<()>) -> Result<usize> {
    let before = module.instruction_count();
    run(module)?;
    Ok(module.instruction_count() - before)
}

/// Runs a pass on every loop whose trips are known; how many loops it changed.
fn each_loop(
    module: &mut HloModule,
    run: fn(&mut HloModule, &mut loops::info::LoopInfo),
) -> Result<usize> {
    let callers = loops::info::Callers::new(module);
    let mut changed = 0;
    for id in while_loops(module) {
        let Some(mut info) = loops::info::LoopInfo::of(module, &callers, id) else {
            continue;
        };
        info.find_users(module);
        run(module, &mut info);
        changed += usize::from(info.is_changed());
        info.finish(module)?;
    }
    Ok(changed)
}
