//! `transposed-inputs`: what a loop would read across memory is copied before it, into the order in which the loop reads.
//!
//! Applies to inputs of many elements whose neighbours, as the loop goes, lie in different cache lines, while others lie side
//! by side along another dimension, which moves only after several of them. A copy transposes blocks in registers and
//! touches each line once; read by the loop itself, every element costs a line. A copy is legal everywhere; these conditions
//! are about cost.

use super::views::Order;
use super::{Lowering, Scope};
use crate::error::Result;
use crate::module::InstructionRef;
use crate::plan::cost::transposed_inputs::{MIN_ELEMENTS, MIN_ROW, MIN_STEP};
use crate::plan::view::{ArrayView, Walk};

/// Name by which it is switched off.
pub const NAME: &str = "transposed-inputs";

impl<'m> Lowering<'m> {
    /// `view`, or a copy of it, for a loop that reads it in the order `order`; the copy is a step of `instruction`.
    pub(super) fn along_memory(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
        view: ArrayView,
        order: &Order,
    ) -> Result<ArrayView> {
        let walk = view.walk(order);
        if self.options.is_off(NAME) || !is_across(&walk, view.element_type.size_bytes()) {
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
fn is_across(walk: &Walk, size: usize) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_inputs_across_memory_are_copied() {
        let is_across = |walk: &[(i64, i64)]| is_across(&Walk::from_slice(walk), 4);
        assert!(is_across(&[(1000, 1), (1000, 1000)]));
        assert!(is_across(&[(300, 10), (20, 3000), (1000, 0), (10, 30)]));
        assert!(is_across(&[(1000, 1), (1000, -1000)]));
        // Along memory, or near it.
        assert!(!is_across(&[(1000, 1000), (1000, 1)]));
        assert!(!is_across(&[(1000, 1), (1000, 15)]));
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
