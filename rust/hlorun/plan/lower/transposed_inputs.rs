//! `transposed-inputs`: what a loop would read across memory is copied before it, into the order in which the loop reads.
//!
//! Applies to inputs of many elements whose neighbours, as the loop goes, lie in different cache lines, while others lie side
//! by side along another dimension. A copy transposes blocks in registers and touches each line once; read by the loop
//! itself, every element costs a line. A copy is legal everywhere; these conditions are about cost.

use super::views::Order;
use super::{Lowering, Scope};
use crate::error::Result;
use crate::module::InstructionRef;
use crate::plan::cost::transposed_inputs::{MIN_ELEMENTS, MIN_STEP};
use crate::plan::view::{ArrayView, Walk};

/// Name by which it is switched off.
pub const NAME: &str = "transposed-inputs";

impl<'m> Lowering<'m> {
    /// `view`, or a copy of it, for the loop of `instruction`, which reads it in the order `order`.
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
    let moving = || walk.iter().filter(|step| step.1 != 0);
    let Some(last) = walk.last().map(|step| step.1.unsigned_abs()) else {
        return false;
    };
    let elements = moving().fold(1i64, |all, step| all.saturating_mul(step.0));
    let is_far = last.saturating_mul(size as u64) >= MIN_STEP as u64;
    is_far && elements >= MIN_ELEMENTS as i64 && moving().any(|step| step.1.unsigned_abs() < last)
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
        // No dimension lies closer.
        assert!(!is_across(&[(1000, 5000), (1000, 5)]));
        assert!(!is_across(&[(1000, 0), (100_000, 20)]));
        assert!(!is_across(&[]));
        assert!(is_across(&[(i64::MAX, 1), (i64::MAX, 1000)]));
        assert!(!is_across(&[(1000, 1), (0, 1000)]));
    }
}
