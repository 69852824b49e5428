//! `loop-defer`: the part of a product that only later trips' outputs need.
//!
//! Applies to `P_t = A_t·W` inside a loop, where `W` never changes and every use of `P_t` is a slice
//! along the free dimension of `W`, at least one of which only becomes row `t` of an output that the
//! loop itself never reads. That slice is computed for all trips after the loop, from the collected
//! `A_t`; the trips compute the rest.

use super::info::{LoopInfo, MAX_BYTES};
use super::map::written_row;
use crate::module::{AttrKey, AttrValue, HloModule, HloOpcode, InstructionId};
use crate::plan::hlo::product::{Product, others};

/// A slice of a product along the last dimension.
struct Piece {
    slice: InstructionId,
    start: i64,
    limit: i64,
    /// The output it becomes a row of, and at which index.
    output: Option<(usize, InstructionId)>,
}

/// Runs the pass on one loop.
pub fn run(module: &mut HloModule, info: &mut LoopInfo) {
    for product in info.products(module, |product| product.addend.is_none()) {
        defer(module, info, &product);
    }
}

fn defer(module: &mut HloModule, info: &mut LoopInfo, product: &Product) -> Option<()> {
    let weights = info.invariant_leaf(product.rhs)?;
    let rank = module.instruction(product.value).array_shape()?.rank();
    let free = others(
        module.instruction(product.rhs).array_shape()?.rank(),
        &product.rhs_contracting,
    );
    let [rhs_free] = free[..] else {
        return None;
    };
    let last = rank.checked_sub(1)?;
    let bytes = module.instruction(product.lhs).array_shape()?.byte_size()? as i64;
    if bytes.checked_mul(info.trips.len() as i64)? > MAX_BYTES {
        return None;
    }
    let pieces = pieces(module, info, product, last)?;
    if pieces.iter().all(|p| p.output.is_none()) {
        return None;
    }
    for piece in &pieces {
        match piece.output {
            Some((leaf, index)) => {
                let row = info.row_of_invariant(module, product.lhs);
                let rows = match row {
                    Some((from, at)) if info.same_index(module, at, index) => info.initial[from],
                    _ => {
                        let stack = info.stack_of(module, product.lhs, index);
                        info.after(module, stack)
                    }
                };
                let (w, element) = (info.initial[weights], info.elements[leaf]?);
                let dims = module.instruction(element).array_shape()?.dims.clone();
                let contracting: Vec<i64> = product.lhs_contracting.iter().map(|d| d + 1).collect();
                let mut outside = info.outside(module, piece.slice);
                let part = outside.slice(w, rhs_free as usize, piece.start, piece.limit);
                let all = outside.dot(
                    product.element_type,
                    rows,
                    &contracting,
                    part,
                    &product.rhs_contracting,
                );
                let all = outside.reshape(all, &dims);
                info.replace_leaf(leaf, all);
                info.set_result(leaf, element);
            }
            None => {
                let mut inside = info.inside(module, piece.slice);
                let part = inside.slice(product.rhs, rhs_free as usize, piece.start, piece.limit);
                let dot = inside.dot(
                    product.element_type,
                    product.lhs,
                    &product.lhs_contracting,
                    part,
                    &product.rhs_contracting,
                );
                info.replace_in_body(module, piece.slice, dot);
            }
        }
    }
    Some(())
}

/// The uses of a product as slices along its last dimension; `None` if one is anything else.
fn pieces(
    module: &HloModule,
    info: &LoopInfo,
    product: &Product,
    last: usize,
) -> Option<Vec<Piece>> {
    let mut pieces: Vec<Piece> = Vec::new();
    let users = info.users(product.value);
    if users.is_empty() {
        return None;
    }
    for &user in users {
        let slice = module.instruction(user);
        let Some(AttrValue::Slice(dims)) = slice.attribute(AttrKey::Slice) else {
            return None;
        };
        let from = module.instruction(product.value).array_shape()?;
        let full = dims.iter().enumerate().all(|(d, s)| {
            s.stride == 1 && (d == last || (s.start == 0 && s.limit == from.dims[d]))
        });
        if slice.opcode() != HloOpcode::Slice || !full {
            return None;
        }
        pieces.push(Piece {
            slice: user,
            start: dims[last].start,
            limit: dims[last].limit,
            output: output_row(module, info, user),
        });
    }
    Some(pieces)
}

/// The leaf of which `value` becomes a row and nothing else: every row is written once, and the
/// loop never reads the leaf.
fn output_row(
    module: &HloModule,
    info: &LoopInfo,
    value: InstructionId,
) -> Option<(usize, InstructionId)> {
    let only_user = |id| match *info.users(id) {
        [user] => Some(module.instruction(user)),
        _ => None,
    };
    let mut row = value;
    let mut update = only_user(value)?;
    if update.opcode() == HloOpcode::Reshape {
        row = update.id;
        update = only_user(row)?;
    }
    if update.opcode() != HloOpcode::DynamicUpdateSlice || update.operand(1)?.id != row {
        return None;
    }
    let leaf = info.leaf_of(update.operand(0)?.id)?;
    let (written, index) = written_row(module, info, leaf)?;
    (written == row && info.results[leaf] == update.id).then_some((leaf, index))
}
