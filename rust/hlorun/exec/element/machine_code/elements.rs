//! Elementwise operations: which ones are instructions, and these.

use cranelift_codegen::ir::Value;
use cranelift_frontend::FunctionBuilder;
use hlorun_kernels::vector_bytecode::Op;
use hlorun_kernels::{BinaryOp, CompareDirection, DType, UnaryOp};

use super::registers::{Class, class, register};
use super::{convert, floats, integers};
use crate::plan::thunk::scalar_bytecode::Element;

/// How many operands an operation has.
pub fn operands(op: Op) -> usize {
    match op {
        Op::Unary(_) | Op::Convert | Op::Bitcast => 1,
        Op::Binary(_) | Op::Compare(_) | Op::CompareTotal(_) => 2,
        Op::Select | Op::Clamp => 3,
    }
}

/// Whether there are instructions for an operation.
pub fn is_known(element: &Element) -> bool {
    let from = class(element.from);
    let are_held = register(element.from).is_some() && register(element.to).is_some();
    are_held
        && match element.op {
            Op::Select => true,
            Op::Bitcast => element.from.size_bytes() == element.to.size_bytes(),
            Op::Convert => convert::is_known(element.from, element.to),
            Op::Compare(_) | Op::Clamp => from != Class::Other,
            Op::CompareTotal(_) => false,
            Op::Unary(op) => match from {
                Class::Pred => op == UnaryOp::Not,
                Class::Int => integers::has_unary(op),
                Class::Float | Class::Rounded => floats::has_unary(op),
                Class::Other => false,
            },
            Op::Binary(op) => match from {
                Class::Pred => matches!(
                    op,
                    BinaryOp::And
                        | BinaryOp::Or
                        | BinaryOp::Xor
                        | BinaryOp::Add
                        | BinaryOp::Multiply
                        | BinaryOp::Maximum
                        | BinaryOp::Minimum
                ),
                Class::Int => integers::has_binary(op),
                Class::Float | Class::Rounded => floats::has_binary(op),
                Class::Other => false,
            },
        }
}

/// Whether an operation that [`is_known`] calls a function.
pub fn is_call(element: &Element) -> bool {
    match (class(element.from), element.op) {
        (Class::Float | Class::Rounded, Op::Unary(op)) => floats::is_unary_call(op),
        (Class::Float | Class::Rounded, Op::Binary(op)) => floats::is_binary_call(op),
        _ => false,
    }
}

/// Whether the kernel that folds elements by an operation has the order of [`super::emit::Emitter::fold`].
/// Narrow floats are folded in wider ones.
pub fn folds(element: &Element) -> bool {
    is_known(element) && matches!(class(element.from), Class::Pred | Class::Int | Class::Float)
}

/// The instructions of one element.
pub fn compute(b: &mut FunctionBuilder<'_>, element: &Element, x: [Value; 3]) -> Option<Value> {
    let Element { op, from, to, .. } = *element;
    if class(from) == Class::Rounded && !matches!(op, Op::Select | Op::Convert | Op::Bitcast) {
        let count = operands(op);
        let mut wide = x;
        for value in &mut wide[..count] {
            *value = convert::widen(b, *value);
        }
        let is_rounded = class(to) == Class::Rounded;
        let result = compute(
            b,
            &Element {
                from: DType::F32,
                to: if is_rounded { DType::F32 } else { to },
                ..*element
            },
            wide,
        )?;
        return Some(match is_rounded {
            true => convert::round(b, result),
            false => result,
        });
    }
    Some(match (op, class(from)) {
        (Op::Select, _) => floats::choose(b, x[0], x[1], x[2]),
        (Op::Bitcast, _) => x[0],
        (Op::Convert, _) => convert::convert(b, from, to, x[0])?,
        (Op::Compare(direction), _) => compare(b, direction, from, x[0], x[1])?,
        (Op::Unary(_), Class::Pred) => integers::pred_not(b, x[0]),
        (Op::Unary(op), Class::Int) => integers::unary(b, op, from, x[0])?,
        (Op::Unary(op), Class::Float) => floats::unary(b, op, x[0])?,
        (Op::Binary(op), Class::Pred) => integers::pred_binary(b, op, x[0], x[1])?,
        (Op::Binary(op), Class::Int) => integers::binary(b, op, from, x[0], x[1])?,
        (Op::Binary(op), Class::Float) => floats::binary(b, op, x[0], x[1])?,
        (Op::Clamp, class) => {
            let [low, value, high] = x;
            let mut extreme = |op, x, y| match class {
                Class::Pred => integers::pred_binary(b, op, x, y),
                Class::Int => integers::binary(b, op, from, x, y),
                _ => floats::binary(b, op, x, y),
            };
            let at_least = extreme(BinaryOp::Maximum, value, low)?;
            extreme(BinaryOp::Minimum, at_least, high)?
        }
        _ => return None,
    })
}

/// Whether `a` is in the relation to `b`, as 0 or 1; floats by the partial order.
pub fn compare(
    b: &mut FunctionBuilder<'_>,
    direction: CompareDirection,
    dtype: DType,
    x: Value,
    y: Value,
) -> Option<Value> {
    Some(match class(dtype) {
        Class::Pred => integers::pred_compare(b, direction, x, y),
        Class::Int => integers::compare(b, direction, dtype, x, y),
        Class::Float => floats::compare(b, direction, x, y),
        Class::Rounded => {
            let (x, y) = (convert::widen(b, x), convert::widen(b, y));
            floats::compare(b, direction, x, y)
        }
        Class::Other => return None,
    })
}
