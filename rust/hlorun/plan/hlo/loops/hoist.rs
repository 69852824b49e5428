//! `loop-hoist`: the part of a product that does not wait for the trip before.
//!
//! Applies to `concat(x_t, h)·W` or `x_t·W` inside a loop, where `x_t` is row `t` of an array that
//! never changes, `W` never changes, and the concatenation is along the one contracting dimension:
//! the products of all rows with their part of `W` become one large product before the loop, and
//! each trip adds its row of the result.

use super::info::{LoopInfo, MAX_BYTES};
use crate::module::{HloModule, HloOpcode, InstructionId};
use crate::plan::hlo::product::Product;

/// One piece of the contracted dimension.
struct Piece {
    value: InstructionId,
    start: i64,
    limit: i64,
    /// Leaf and row index, for pieces that are rows of what never changes.
    row: Option<(usize, InstructionId)>,
}

/// Runs the pass on one loop.
pub fn run(module: &mut HloModule, info: &mut LoopInfo) {
    for product in info.products(module, |_| true) {
        hoist(module, info, &product);
    }
}

fn hoist(module: &mut HloModule, info: &mut LoopInfo, product: &Product) -> Option<()> {
    let weights = info.invariant_leaf(product.rhs)?;
    let [lhs_dim] = product.lhs_contracting[..] else {
        return None;
    };
    let [rhs_dim] = product.rhs_contracting[..] else {
        return None;
    };
    let pieces = pieces(module, info, product.lhs, lhs_dim);
    if pieces.iter().all(|p| p.row.is_none()) {
        return None;
    }
    let result = module.instruction(product.value).array_shape()?;
    let bytes = result.byte_size()? as i64 * info.trips.len() as i64;
    let hoisted = pieces.iter().filter(|p| p.row.is_some()).count() as i64;
    if bytes.checked_mul(hoisted)? > MAX_BYTES {
        return None;
    }
    let mut terms: Vec<InstructionId> = product.addend.into_iter().collect();
    let mut inner: Option<InstructionId> = None;
    for piece in &pieces {
        match piece.row {
            Some((leaf, index)) => {
                let (rows, w) = (info.initial[leaf], info.initial[weights]);
                let mut outside = info.outside(module, product.value);
                let part = outside.slice(w, rhs_dim as usize, piece.start, piece.limit);
                let all = outside.dot(product.element_type, rows, &[lhs_dim + 1], part, &[rhs_dim]);
                let (_, element) = info.add_leaf(module, all);
                terms.push(info.inside(module, product.value).row(element, index));
            }
            None => {
                let mut inside = info.inside(module, product.value);
                let part = inside.slice(product.rhs, rhs_dim as usize, piece.start, piece.limit);
                let dot = inside.dot(
                    product.element_type,
                    piece.value,
                    &[lhs_dim],
                    part,
                    &[rhs_dim],
                );
                inner = Some(match inner {
                    Some(sum) => inside.plus(sum, dot),
                    None => dot,
                });
            }
        }
    }
    let mut inside = info.inside(module, product.value);
    let mut sum = terms[0];
    for &term in &terms[1..] {
        sum = inside.plus(sum, term);
    }
    if let Some(dot) = inner {
        sum = inside.plus(dot, sum);
    }
    info.replace_in_body(module, product.value, sum);
    Some(())
}

/// The contracted dimension of `lhs` in pieces: neighbouring pieces that have to wait stay together.
fn pieces(module: &HloModule, info: &LoopInfo, lhs: InstructionId, dim: i64) -> Vec<Piece> {
    let instruction = module.instruction(lhs);
    let whole = |row| {
        let limit = instruction
            .array_shape()
            .map_or(0, |s| s.dims[dim as usize]);
        vec![Piece {
            value: lhs,
            start: 0,
            limit,
            row,
        }]
    };
    if let Some(row) = info.row_of_invariant(module, lhs) {
        return whole(Some(row));
    }
    if instruction.opcode() != HloOpcode::Concatenate || instruction.dimensions() != [dim] {
        return whole(None);
    }
    let mut pieces = Vec::new();
    let mut start = 0;
    for operand in instruction.operands() {
        let Some(shape) = operand.array_shape() else {
            return whole(None);
        };
        let limit = start + shape.dims[dim as usize];
        pieces.push(Piece {
            value: operand.id,
            start,
            limit,
            row: info.row_of_invariant(module, operand.id),
        });
        start = limit;
    }
    pieces
}
