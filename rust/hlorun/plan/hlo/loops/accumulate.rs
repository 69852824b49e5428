//! `loop-accumulate`: a sum of products over trips as one product.
//!
//! Applies to a leaf `acc` with `acc' = acc + A_t·B_t`, read by nothing else in the loop: the rows
//! `A_t` and `B_t` of all trips are collected (or are already rows of an array that never changes)
//! and multiplied once after the loop, contracting over trips as well.

use super::info::{LoopInfo, MAX_BYTES, MIN_TRIPS};
use crate::module::{HloModule, InstructionId};
use crate::plan::hlo::product::Product;
use crate::types::Dims;

/// Runs the pass on one loop.
pub fn run(module: &mut HloModule, info: &mut LoopInfo) {
    if info.trips.len() < MIN_TRIPS {
        return;
    }
    for leaf in 0..info.results.len() {
        accumulate(module, info, leaf);
    }
}

fn accumulate(module: &mut HloModule, info: &mut LoopInfo, leaf: usize) -> Option<()> {
    let element = info.elements[leaf]?;
    let result = info.results[leaf];
    if info.use_count(element) != 1
        || info.use_count(result) != 1
        || info.is_read_by_condition(module, leaf)
    {
        return None;
    }
    let product = Product::of(module, result, &|id| info.use_count(id) == 1)?;
    if product.addend != Some(element) || !product.is_uniform(module) {
        return None;
    }
    let bytes = |id: InstructionId| {
        let size = module.instruction(id).array_shape()?.byte_size()? as i64;
        size.checked_mul(info.trips.len() as i64)
    };
    let accumulator = module.instruction(element).array_shape()?.byte_size()? as i64;
    let (lhs_bytes, rhs_bytes) = (bytes(product.lhs)?, bytes(product.rhs)?);
    // Collecting costs what is written; summing in the loop costs the accumulator in every trip.
    let saved = accumulator.checked_mul(2 * info.trips.len() as i64)?;
    if lhs_bytes.max(rhs_bytes) > MAX_BYTES || lhs_bytes + rhs_bytes > saved {
        return None;
    }
    let lhs_row = info.row_of_invariant(module, product.lhs);
    let rhs_row = info.row_of_invariant(module, product.rhs);
    let index = lhs_row.or(rhs_row).map(|row| row.1);
    let index = match index {
        Some(index) => index,
        None => info.trip_number(module)?,
    };
    let stacked = |module: &mut HloModule,
                   info: &mut LoopInfo,
                   value: InstructionId,
                   row: Option<(usize, InstructionId)>| {
        match row {
            Some((leaf, at)) if info.same_index(module, at, index) => info.initial[leaf],
            _ => {
                let leaf = info.stack_of(module, value, index);
                info.after(module, leaf)
            }
        }
    };
    let lhs = stacked(module, info, product.lhs, lhs_row);
    let rhs = stacked(module, info, product.rhs, rhs_row);
    let shifted = |dims: &Dims| -> Dims {
        std::iter::once(0)
            .chain(dims.iter().map(|d| d + 1))
            .collect()
    };
    let initial = info.initial[leaf];
    let mut outside = info.outside(module, result);
    let sum = outside.dot(
        product.element_type,
        lhs,
        &shifted(&product.lhs_contracting),
        rhs,
        &shifted(&product.rhs_contracting),
    );
    let total = outside.plus(sum, initial);
    info.replace_leaf(leaf, total);
    info.set_result(leaf, element);
    Some(())
}
