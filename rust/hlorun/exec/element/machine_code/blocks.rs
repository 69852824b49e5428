//! Blocks: several elements in one register.
//!
//! A block has 16 bytes of elements of 4 or 8 bytes, or four truth values. Stated here: which operations
//! have instructions for blocks, how an array is divided into blocks, and the types of their registers.

use cranelift_codegen::ir::{Type, types};
use hlorun_kernels::vector_bytecode::Op;
use hlorun_kernels::{BinaryOp, DType, UnaryOp};

use super::registers::{Class, bits, class, register};
use crate::plan::cost::scalar_bytecode::MAX_UNROLLED;
use crate::plan::thunk::scalar_bytecode::Element;

/// Bytes of a vector.
pub const BYTES: usize = 16;
/// Truth values of a block.
pub const TRUTHS: usize = 4;

/// Elements of so many bytes that make a block; 1 where none does.
pub fn lanes_of(size: usize) -> usize {
    match size {
        _ if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) => 1,
        1 => TRUTHS,
        4 | 8 => BYTES / size,
        _ => 1,
    }
}

/// The blocks of `n` elements, `lanes` in each, and the single elements behind them: the first element and how many.
/// Few elements are single ones.
pub fn pieces(n: usize, lanes: usize) -> impl Iterator<Item = (usize, usize)> {
    let lanes = if n > MAX_UNROLLED { lanes } else { 1 };
    let blocks = n / lanes * lanes;
    let of_blocks = (0..blocks).step_by(lanes).map(move |at| (at, lanes));
    of_blocks.chain((blocks..n).map(|at| (at, 1)))
}

/// The type of registers that hold so many elements of a type.
pub fn held(dtype: DType, lanes: usize) -> Option<Type> {
    match (lanes, register(dtype)?) {
        (1, ty) => Some(ty),
        (TRUTHS, types::I8) => bits(TRUTHS),
        (_, ty) => ty.by(u32::try_from(lanes).ok()?),
    }
}

/// Single elements that an operation on a block costs as much as: the maximum and minimum of floats also handle zeros and
/// NaN.
pub fn cost(element: &Element) -> usize {
    use BinaryOp as B;
    let selects = matches!(element.op, Op::Clamp | Op::Binary(B::Maximum | B::Minimum));
    match selects && class(element.from) == Class::Float {
        true => lanes(element),
        false => 1,
    }
}

/// Elements that an access to so many bytes counts as in [`crate::plan::cost::machine_code::MAX_ELEMENTS`]: a block takes as
/// much code as its elements at most.
pub fn weight(bytes: usize) -> usize {
    if bytes == BYTES { TRUTHS } else { 1 }
}

/// The type of registers that hold so many bytes, of a block or of an element.
pub fn bytes(count: usize) -> Option<Type> {
    match count {
        BYTES => Some(types::I32X4),
        _ => bits(count),
    }
}

/// Elements that an operation computes together; 1 where it does not.
pub fn lanes(element: &Element) -> usize {
    use BinaryOp as B;
    use UnaryOp as U;
    let Element { op, from, to, .. } = *element;
    let (of, size) = (class(from), from.size_bytes());
    let is_same = from == to;
    let can = match (op, of) {
        (Op::Select, _) => is_same && size == 4 && of != Class::Other,
        (Op::Compare(_), Class::Int | Class::Float) => size == 4,
        (Op::Binary(op), Class::Pred) => matches!(op, B::And | B::Or | B::Xor),
        (Op::Unary(op), Class::Pred) => op == U::Not,
        (Op::Binary(op), Class::Int) => match op {
            B::Add | B::Subtract | B::And | B::Or | B::Xor => size >= 4,
            B::Multiply | B::Maximum | B::Minimum => size == 4,
            B::ShiftLeft | B::ShiftRightArithmetic | B::ShiftRightLogical => size == 4,
            _ => false,
        },
        (Op::Unary(op), Class::Int) => matches!(op, U::Not | U::Negate) && size >= 4,
        (Op::Binary(op), Class::Float) => matches!(
            op,
            B::Add | B::Subtract | B::Multiply | B::Divide | B::Maximum | B::Minimum
        ),
        (Op::Unary(op), Class::Float) => matches!(
            op,
            U::Abs | U::Negate | U::Sqrt | U::Floor | U::Ceil | U::RoundNearestEven
        ),
        (Op::Clamp, Class::Int | Class::Float) => of == Class::Float || size == 4,
        (Op::Convert, _) => matches!(
            (from, to),
            (DType::S32, DType::F32) | (DType::Pred, DType::F32 | DType::S32 | DType::U32)
        ),
        _ => false,
    };
    if can { lanes_of(size) } else { 1 }
}
