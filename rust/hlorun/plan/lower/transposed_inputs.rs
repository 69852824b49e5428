//! `transposed-inputs`: what a loop would read across memory is copied before it, into the order in which the loop reads.
//!
//! Applies to inputs of many elements whose neighbours, as the loop goes, lie some elements apart, while others lie side
//! by side along another dimension, which moves only after several of them. A copy transposes blocks in registers and
//! touches each cache line once; read by the loop itself, every element costs an access of its own, and far apart a line. Applies also to inputs that are read many
//! times with gaps: a copy closes the gaps once. A copy is legal everywhere; these conditions are about cost.

use super::views::Order;
use super::{Lowering, Scope};
use crate::error::Result;
use crate::module::InstructionRef;
use crate::plan::cost::tiles::MOST_REPEATED;
use crate::plan::cost::transposed_inputs::{
    MIN_ELEMENTS, MIN_REPEATED, MIN_REPEATS, MIN_ROW, MIN_STEP,
};
use crate::plan::view::{ArrayView, Walk};

/// Name by which it is switched off.
pub const NAME: &str = "transposed-inputs";

impl<'m> Lowering<'m> {
    /// `view`, or a copy of it, for a loop that reads it in the order `order`; the copy is a step of `instruction`. A loop
    /// lays out an array of few elements itself, unless it `needs_rows` that lie side by side.
    pub(super) fn along_memory(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
        view: ArrayView,
        order: &Order,
        needs_rows: bool,
    ) -> Result<ArrayView> {
        let walk = view.walk(order);
        let size = view.element_type.size_bytes();
        if self.options.is_off(NAME)
            || !(is_across(&walk, size) || is_repeated_apart(&walk, needs_rows))
        {
            return Ok(view);
        }
        // What is repeated is copied once.
        let mut once = view.clone();
        for (size, &stride) in once.dims.iter_mut().zip(&view.strides) {
            *size = if stride == 0 { 1 } else { *size };
        }
        let mut copy = self.copy_dense(scope, instruction, &once, order)?;
        for (stride, &former) in copy.strides.iter_mut().zip(&view.strides) {
            *stride = if former == 0 { 0 } else { *stride };
        }
        copy.dims = view.dims;
        Ok(copy)
    }
}

/// Whether a loop of this walk reads an array across memory.
pub(super) fn is_across(walk: &Walk, size: usize) -> bool {
    let count = |steps: &[(i64, i64)]| {
        let moving = steps.iter().filter(|step| step.1 != 0);
        moving.fold(1i64, |all, step| all.saturating_mul(step.0))
    };
    let Some((&(_, last), before)) = walk.split_last() else {
        return false;
    };
    let is_far = last.unsigned_abs().saturating_mul(size as u64) >= MIN_STEP as u64;
    let is_closer =
        |at: &usize| before[*at].1 != 0 && before[*at].1.unsigned_abs() < last.unsigned_abs();
    let closest = (0..before.len())
        .filter(is_closer)
        .min_by_key(|&at| before[at].1.unsigned_abs());
    is_far
        && count(walk) >= MIN_ELEMENTS as i64
        && closest.is_some_and(|at| count(&walk[at + 1..]) >= MIN_ROW as i64)
}

/// Whether a loop of this walk reads an array many times with gaps. One of few elements the loop lays out itself, so that it
/// counts only where the loop `needs_rows`.
fn is_repeated_apart(walk: &Walk, needs_rows: bool) -> bool {
    let count = |is_counted: &dyn Fn(i64) -> bool| {
        let steps = walk.iter().filter(|step| is_counted(step.1));
        steps.fold(1i64, |all, step| all.saturating_mul(step.0))
    };
    let is_apart = walk.last().is_some_and(|step| !matches!(step.1, 0 | 1));
    let is_long = || count(&|stride| stride != 0) > MOST_REPEATED;
    is_apart
        && (needs_rows || is_long())
        && count(&|stride| stride == 0) >= MIN_REPEATS as i64
        && count(&|_| true) >= MIN_REPEATED as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_with_gaps_are_copied_where_they_are_repeated() {
        let is_apart = |walk: &[(i64, i64)]| is_repeated_apart(&Walk::from_slice(walk), true);
        assert!(is_apart(&[(500, 0), (3, 1), (400, 3)]));
        assert!(is_apart(&[(500, 0), (400, -1)]));
        assert!(!is_apart(&[(500, 0), (1200, 1)]));
        assert!(!is_apart(&[(500, 3), (3, 1), (400, 0)]));
        assert!(!is_apart(&[(2, 0), (3, 1), (4000, 3)]));
        assert!(!is_apart(&[(20, 0), (3, 1), (4, 3)]));
        assert!(!is_apart(&[]));
        // What a loop lays out itself.
        let short = Walk::from_slice(&[(500, 0), (400, 3)]);
        assert!(is_repeated_apart(&short, true) && !is_repeated_apart(&short, false));
    }

    #[test]
    fn only_inputs_across_memory_are_copied() {
        let is_across = |walk: &[(i64, i64)]| is_across(&Walk::from_slice(walk), 4);
        assert!(is_across(&[(1000, 1), (1000, 1000)]));
        assert!(is_across(&[(300, 10), (20, 3000), (1000, 0), (10, 30)]));
        assert!(is_across(&[(1000, 1), (1000, -1000)]));
        // Along memory, or near it.
        assert!(!is_across(&[(1000, 1000), (1000, 1)]));
        assert!(!is_across(&[(1000, 1), (1000, 3)]));
        assert!(is_across(&[(1000, 1), (1000, 15)]));
        // The same element again and again.
        assert!(!is_across(&[(1000, 1), (1000, 1000), (1000, 0)]));
        // Few elements, however often.
        assert!(!is_across(&[(1000, 0), (8, 1), (8, 100)]));
        // Few lines before it comes back to the first.
        assert!(!is_across(&[(1_000_000, 1), (3, 1_000_000)]));
        assert!(is_across(&[(3, 1), (1000, 3), (1000, 3000)]));
        // No dimension lies closer.
        assert!(!is_across(&[(1000, 5000), (1000, 5)]));
        assert!(!is_across(&[(1000, 0), (100_000, 20)]));
        assert!(!is_across(&[]));
        assert!(is_across(&[(i64::MAX, 1), (i64::MAX, 1000)]));
        assert!(!is_across(&[(1000, 1), (0, 1000)]));
    }
}
