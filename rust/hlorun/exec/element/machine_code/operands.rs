//! What an operation of the scalar code reads, by its kind: elements to compute with, indices, what decides a jump.

use hlorun_kernels::DType;
use hlorun_kernels::scalar_bytecode::Kind;
use hlorun_kernels::vector_bytecode;

use super::elements;
use crate::plan::thunk::scalar_bytecode::{Code, Element, Place, ScalarOp};

/// What a jump asks.
pub fn decides_by(op: &ScalarOp) -> Option<([Place; 2], DType)> {
    let Code::Function(function) = op.code else {
        return None;
    };
    match function.kind {
        Kind::BackIf | Kind::JumpIfZero => Some(([op.operands[0], Place::Nowhere], DType::U8)),
        Kind::Switch => Some(([op.operands[0], Place::Nowhere], DType::S32)),
        Kind::BackIfCompare(_, dtype) => Some(([op.operands[0], op.operands[1]], dtype)),
        _ => None,
    }
}

/// The type of an operation's index.
pub fn index_type(op: &ScalarOp) -> Option<DType> {
    match op.code {
        Code::Function(function) => match function.kind {
            Kind::Index(dtype, _) | Kind::Load(dtype, _) | Kind::Store(dtype, _) => Some(dtype),
            _ => None,
        },
        _ => None,
    }
}

/// The operands of `count` elements from `lane` on, in the order of the operation: where they are, their type, and how
/// many there are, which is one where all elements read the same.
pub fn lane_operands(
    op: &ScalarOp,
    element: &Element,
    (lane, count): (usize, usize),
) -> impl Iterator<Item = (Place, DType, usize)> {
    let mut found = [(Place::Nowhere, element.from, count); 3];
    let operands = elements::operands(element.op);
    for (at, (found, &place)) in found
        .iter_mut()
        .zip(&op.operands)
        .enumerate()
        .take(operands)
    {
        let ty = match (element.op, at) {
            (vector_bytecode::Op::Select, 0) => DType::Pred,
            _ => element.from,
        };
        let is_one = element.scalar.is_some() && at == 1;
        let (first, own) = if is_one { (0, 1) } else { (lane, count) };
        *found = (place.behind(first * ty.size_bytes()), ty, own);
    }
    if element.scalar == Some(hlorun_kernels::Side::Left) {
        found.swap(0, 1);
    }
    found.into_iter().take(operands)
}
