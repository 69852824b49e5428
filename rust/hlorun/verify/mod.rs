//! Is a module legal? Shape inference for every operation, and the rules beyond it.
//!
//! Comes in: a module, from text or from passes. Goes out: a [`VerifiedModule`], or every rule it breaks, each
//! with its instruction and line. Promise: a module that passes has consistent sizes, indices and
//! signatures, so that planning and running may rely on them; time and memory are linear in the
//! module (up to 1,000 errors are kept); nothing recurses on input-controlled depth, and nothing a
//! module holds makes this panic.
//!
//! # Rules
//!
//! Module ([`config`]):
//! 1. There is an entry computation; `replica_count` and `num_partitions` are at least 1.
//! 2. `entry_computation_layout` has the shapes of the entry's parameters and root.
//! 3. `input_output_alias` and `buffer_donor` name places that exist; an output and a parameter's
//!    part are named once; an aliased pair has equal sizes in bytes.
//!
//! Computation ([`structure`]):
//! 4. It has a root of its own, and its parameters are numbered 0, 1, … once each.
//! 5. Operands and control predecessors stand in the same computation, before their user; a cycle
//!    is named.
//! 6. No computation calls itself, directly or through others; the cycle is named.
//!
//! Shape ([`shapes`]):
//! 7. At most 64 dimensions, no negative size, fewer than 2^63 bytes; a layout is a permutation
//!    of the dimensions.
//!
//! Instruction ([`rules`], one file per family):
//! 8. The opcode is known, takes so many operands, and has the attributes it needs in their form.
//! 9. Operand types and sizes fit each other and the attributes; dimension numbers are in range,
//!    unique, and sorted where XLA wants them so; a literal has the declared shape.
//! 10. The declared shape is the inferred one. Layouts and dynamic flags are not compared. Where a
//!     dimension is unbounded (`?`) nothing is inferred.
//! 11. Called computations take and return what their caller gives and needs: `fusion`, `call`,
//!     `while`, `conditional`, `async-start`, `reduce`, `reduce-window`, `scatter`,
//!     `select-and-scatter`, `sort`, `map`, `scan`, `all-reduce`, `reduce-scatter`.
//! 12. Replica groups name no device twice, have equal sizes except for `all-reduce`, and cover
//!     0..n where XLA requires it; source-target pairs are unique.
//! 13. `-done` and `-update` continue a matching `-start`.
//!
//! Custom calls ([`custom_calls`], one file per family):
//! 14. A `custom-call` of a target that hlorun knows takes and returns what that library does: types,
//!     sizes and number of operands and results, workspaces apart, as its configuration says.
//!
//! Leniency. Element types may differ where XLA defaults allow it: the operands and result of
//! `dot` and `convolution`, and among floating types the operands of `all-reduce` and the types its
//! computation works on. All other mixed precision is an error. Shardings are not looked at.

pub mod config;
pub mod custom_calls;
pub mod inferred;
mod left_out;
mod report;
pub mod rules;
pub mod shapes;
pub mod structure;
mod verified;

use std::sync::Arc;

use crate::error::{HloError, Result};
use crate::module::{HloModule, InstructionId, InstructionRef};
use inferred::ShapeClasses;
use report::Report;
use verified::Held;

pub use inferred::InferredShape;
pub use left_out::left_out_shape;
pub use rules::infer_shape;
pub use verified::VerifiedModule;

/// Checks every rule; [`HloError::Verify`] holds all that are broken, in the order of the text.
pub fn verify(module: &HloModule) -> Result<VerifiedModule<'_>> {
    check(module)?;
    Ok(VerifiedModule(Held::Borrowed(module)))
}

/// As [`verify`], of a module that several own.
pub fn verify_shared(module: Arc<HloModule>) -> Result<VerifiedModule<'static>> {
    check(&module)?;
    Ok(VerifiedModule(Held::Shared(module)))
}

fn check(module: &HloModule) -> Result<()> {
    let mut report = Report::new(module);
    let cx = rules::Context {
        module,
        classes: ShapeClasses::new(module.shapes()),
    };
    config::check(&cx, &mut report);
    let shapes = shapes::ShapeProblems::new(module.shapes());
    let mut positions = structure::Positions::new(module);
    structure::check_calls(module, &mut report);
    for id in module.computation_ids() {
        structure::check_computation(module, id, &mut positions, &mut report);
        for &instruction in &module.computation(id).instructions {
            check_instruction(&cx, &shapes, instruction, &mut report);
        }
    }
    let errors = report.finish();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(HloError::Verify(errors))
    }
}

fn check_instruction(
    cx: &rules::Context<'_>,
    shapes: &shapes::ShapeProblems,
    id: InstructionId,
    report: &mut Report<'_>,
) {
    let i = cx.module.instruction(id);
    if let Some(problem) = shapes.of(i.shape_id()) {
        report.instruction(id, problem);
        return;
    }
    // A shape that is no shape was reported where it is declared.
    if i.operands().any(|o| shapes.of(o.shape_id()).is_some()) {
        return;
    }
    match infer_shape(i) {
        Err(problem) => report.instruction(id, &problem),
        Ok(inferred) => {
            if !cx.classes.fits(cx.module.shapes(), i.shape_id(), &inferred) {
                report.instruction(id, &mismatch(i, &inferred));
            } else if let Err(problem) = rules::check(i, cx) {
                report.instruction(id, &problem);
            }
        }
    }
}

/// What is declared, what was inferred, and from what.
#[cold]
fn mismatch(i: InstructionRef<'_>, inferred: &InferredShape) -> String {
    let table = i.module.shapes();
    format!(
        "declares {}, but {} is {}",
        inferred::show(table, i.shape_id()),
        report::summary(i),
        inferred.display(table)
    )
}
