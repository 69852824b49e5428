//! Names of all that `CompileOptions::disable` may switch off.

use super::element::{choice, vector_bytecode};
use super::schedule::{
    column_folds, loop_merging, pack_constants, product_epilogues, row_loops, row_tiling,
    scalar_bytecode, shared_loops,
};
use super::thunk::machine_code;
use super::{hlo, lower, replication};
use crate::error::{HloError, Result};
use crate::suggestion::closest;

/// Choices of the lowering and steps on thunks that can be switched off, beside [`hlo::PASSES`].
const STEPS: [&str; 23] = [
    "fusion",
    lower::joined_inputs::NAME,
    lower::packed_operand::NAME,
    lower::state_in_place::NAME,
    lower::parts_of_state::NAME,
    lower::reduced_outward::NAME,
    lower::result_order::NAME,
    lower::transposed_inputs::NAME,
    lower::update_order::NAME,
    lower::updated_parts::NAME,
    lower::updates::NAME,
    choice::NAME,
    vector_bytecode::NAME,
    product_epilogues::NAME,
    pack_constants::NAME,
    row_tiling::NAME,
    loop_merging::NAME,
    column_folds::NAME,
    shared_loops::NAME,
    row_loops::NAME,
    scalar_bytecode::NAME,
    machine_code::NAME,
    replication::NAME,
];

/// Everything that `CompileOptions::disable` may name.
pub const PASSES: [&str; hlo::PASSES.len() + STEPS.len()] = {
    let mut all = [""; hlo::PASSES.len() + STEPS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = match at < hlo::PASSES.len() {
            true => hlo::PASSES[at],
            false => STEPS[at - hlo::PASSES.len()],
        };
        at += 1;
    }
    all
};

/// Words for passes in former versions, and what they are called now.
const FORMER: [(&str, &str); 5] = [
    ("bands", row_tiling::NAME),
    ("chains", vector_bytecode::NAME),
    ("flat-loops", scalar_bytecode::NAME),
    ("known-ranges", hlo::simplify::range_analysis::NAME),
    ("single-window", hlo::simplify::gather_scatter::NAME),
];

/// The pass that `name`, or formerly `name`, means.
///
/// Errors: `HloError::Argument`, with the name that may have been meant.
pub fn named(name: &str) -> Result<&'static str> {
    let former = FORMER.iter().find(|row| row.0 == name).map(|row| row.1);
    let known = PASSES.iter().copied().find(|&known| known == name);
    known.or(former).ok_or_else(|| {
        let candidates = PASSES.iter().map(|known| known.as_bytes());
        let meant = match closest(name.as_bytes(), candidates, PASSES.len()) {
            Some(near) => format!("did you mean {near:?}? "),
            None => String::new(),
        };
        HloError::argument(format!(
            "no pass is called {name:?}; {meant}there are {}",
            PASSES.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_names_mean_passes_of_today() {
        for (former, now) in FORMER {
            assert!(!PASSES.contains(&former), "{former}");
            assert_eq!(named(former), Ok(now));
            assert_eq!(named(now), Ok(now));
        }
    }

    #[test]
    fn unknown_names_are_answered_with_the_closest() {
        let error = named("row-tilling").expect_err("no such pass").to_string();
        assert!(error.contains("did you mean \"row-tiling\"?"), "{error}");
        let error = named("nothing").expect_err("no such pass").to_string();
        assert!(!error.contains("did you mean"), "{error}");
        assert!(error.contains("row-tiling, "), "{error}");
    }
}
