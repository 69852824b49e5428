//! Identities of arithmetic that keep every bit, and squares, which are rounded once instead of power's twice.
//!
//! Of floating-point numbers `x - 0`, `x + -0`, `x * 1` and `x / 1` are `x`; `x + 0` is not, since
//! it makes `0` of `-0`, and neither is `x * 0` zero.

use super::rule::{Change, Rule};
use crate::module::{AttrKey, AttrValue, HloOpcode, InstructionId};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::simplify::facts::{Number, has_identities, is, unsigned};
use crate::types::PrimitiveType;

/// All of them, in the order in which they are tried.
pub(super) const RULES: &[Rule] = &[
    neutral_operand,
    absorbing_operand,
    with_itself,
    power,
    division_by_power_of_two,
    twice,
    negated_operand,
    negated_comparison,
    select,
    complex,
];

/// The opcode, the operands and the result's type of a binary instruction on arrays.
fn binary(b: &Builder<'_>) -> Option<(HloOpcode, InstructionId, InstructionId, PrimitiveType)> {
    let &[x, y] = b.module.operand_ids(b.like) else {
        return None;
    };
    let instruction = b.module.instruction(b.like);
    let ty = instruction.array_shape()?.element_type;
    // Old texts leave broadcasts out.
    let dims = |id| Some(&b.module.instruction(id).array_shape()?.dims);
    if dims(x)? != dims(b.like)? || dims(y)? != dims(b.like)? {
        return None;
    }
    Some((instruction.opcode(), x, y, ty))
}

/// An operand that does nothing.
fn neutral_operand(b: &mut Builder<'_>) -> Option<Change> {
    use HloOpcode as H;
    use Number as N;
    let (opcode, x, y, _) = binary(b)?;
    let (number, is_symmetric) = match opcode {
        H::Add => (N::NegativeZero, true),
        H::Subtract | H::ShiftLeft | H::ShiftRightArithmetic | H::ShiftRightLogical => {
            (N::Zero, false)
        }
        H::Multiply => (N::One, true),
        H::Divide => (N::One, false),
        H::And => (N::AllOnes, true),
        H::Or | H::Xor => (N::Zero, true),
        _ => return None,
    };
    if is(b.module, y, number) {
        return Some(Change::Same(x));
    }
    (is_symmetric && is(b.module, x, number)).then_some(Change::Same(y))
}

/// An operand that decides the result of an integer operation.
fn absorbing_operand(b: &mut Builder<'_>) -> Option<Change> {
    use HloOpcode as H;
    let (opcode, x, y, ty) = binary(b)?;
    let is_whole = ty.is_integral() || ty == PrimitiveType::Pred;
    let number = match opcode {
        H::And => Number::Zero,
        H::Multiply if is_whole => Number::Zero,
        H::Or => Number::AllOnes,
        _ => return None,
    };
    let absorbs = |id| is(b.module, id, number);
    [x, y].into_iter().find(|&id| absorbs(id)).map(Change::Same)
}

/// Both operands are the same value.
fn with_itself(b: &mut Builder<'_>) -> Option<Change> {
    use HloOpcode as H;
    let (opcode, x, y, ty) = binary(b)?;
    if x != y {
        return None;
    }
    match opcode {
        H::And | H::Or | H::Maximum | H::Minimum => Some(Change::Same(x)),
        H::Subtract | H::Xor if ty.is_integral() || ty == PrimitiveType::Pred => {
            let dims = b.shape(b.like).dims;
            let zero = b.zero(ty);
            let zeros = b.broadcast(zero, &dims);
            Some(Change::Same(zeros))
        }
        _ => None,
    }
}

/// `x` to the first power is `x`, to the second `x * x`.
fn power(b: &mut Builder<'_>) -> Option<Change> {
    let (HloOpcode::Power, x, y, ty) = binary(b)? else {
        return None;
    };
    if !(has_identities(ty) || ty.is_integral()) {
        return None;
    }
    if is(b.module, y, Number::One) {
        return Some(Change::Same(x));
    }
    if !is(b.module, y, Number::Two) {
        return None;
    }
    b.module.set_operands(b.like, &[x, x]);
    b.module.instruction_data_mut(b.like).opcode = HloOpcode::Multiply;
    Some(Change::Rewritten)
}

/// An unsigned number divided by a power of two is shifted; the remainder is its lowest bits.
fn division_by_power_of_two(b: &mut Builder<'_>) -> Option<Change> {
    let (opcode, x, y, ty) = binary(b)?;
    if !matches!(opcode, HloOpcode::Divide | HloOpcode::Remainder) {
        return None;
    }
    let divisor = unsigned(b.module, y)?;
    if !divisor.is_power_of_two() {
        return None;
    }
    let (opcode, number) = match opcode {
        HloOpcode::Divide => (
            HloOpcode::ShiftRightLogical,
            u64::from(divisor.trailing_zeros()),
        ),
        _ => (HloOpcode::And, divisor - 1),
    };
    let dims = b.shape(b.like).dims;
    let numbers = b.everywhere(ty, &number.to_le_bytes()[..ty.size_bytes()], &dims);
    b.module.set_operands(b.like, &[x, numbers]);
    b.module.instruction_data_mut(b.like).opcode = opcode;
    Some(Change::Rewritten)
}

/// The opcode and the operand of an instruction of one operand.
fn unary(b: &Builder<'_>, id: InstructionId) -> Option<(HloOpcode, InstructionId)> {
    match b.module.operand_ids(id) {
        &[operand] => Some((b.module.instruction_data(id).opcode, operand)),
        _ => None,
    }
}

/// What undoes itself, and what is the same the second time.
fn twice(b: &mut Builder<'_>) -> Option<Change> {
    use HloOpcode as H;
    let (opcode, operand) = unary(b, b.like)?;
    let (before, x) = unary(b, operand)?;
    match (opcode, before) {
        (H::Not, H::Not) | (H::Negate, H::Negate) => Some(Change::Same(x)),
        (H::Abs, H::Abs) => Some(Change::Same(operand)),
        // A number without a sign is its own magnitude, and its negative is another number.
        (H::Abs, H::Negate) if !b.shape(b.like).element_type.is_unsigned_integral() => {
            b.module.operand_ids_mut(b.like)[0] = x;
            Some(Change::Rewritten)
        }
        _ => None,
    }
}

/// `x + -y` is `x - y`, and `x - -y` is `x + y`.
fn negated_operand(b: &mut Builder<'_>) -> Option<Change> {
    use HloOpcode as H;
    let (opcode, x, y, ty) = binary(b)?;
    if !(has_identities(ty) || ty.is_integral()) {
        return None;
    }
    let negated = |id| match unary(b, id) {
        Some((H::Negate, operand)) => Some(operand),
        _ => None,
    };
    let (new, operands) = match (opcode, negated(x), negated(y)) {
        (H::Add, _, Some(y)) => (H::Subtract, [x, y]),
        (H::Add, Some(x), _) => (H::Subtract, [y, x]),
        (H::Subtract, _, Some(y)) => (H::Add, [x, y]),
        _ => return None,
    };
    b.module.set_operands(b.like, &operands);
    b.module.instruction_data_mut(b.like).opcode = new;
    Some(Change::Rewritten)
}

/// `not` of a comparison is the other comparison, where all values can be ordered.
fn negated_comparison(b: &mut Builder<'_>) -> Option<Change> {
    let (HloOpcode::Not, compared) = unary(b, b.like)? else {
        return None;
    };
    let comparison = b.module.instruction(compared);
    if comparison.opcode() != HloOpcode::Compare {
        return None;
    }
    let ty = comparison.operand(0)?.array_shape()?.element_type;
    let is_ordered = ty.is_integral() || ty == PrimitiveType::Pred;
    let direction = match comparison.enumeration(AttrKey::Direction)?.as_ref() {
        "EQ" => "NE",
        "NE" => "EQ",
        "LT" if is_ordered => "GE",
        "GE" if is_ordered => "LT",
        "GT" if is_ordered => "LE",
        "LE" if is_ordered => "GT",
        _ => return None,
    };
    let operands = comparison.operand_ids().to_vec();
    let attributes = comparison.attributes().to_vec();
    let text = b.module.text_mut().add(direction.as_bytes());
    let id = b.like;
    b.module.set_operands(id, &operands);
    b.module.set_attributes(id, &attributes);
    b.module
        .set_attribute(id, AttrKey::Direction, AttrValue::Enum(text));
    b.module.instruction_data_mut(id).opcode = HloOpcode::Compare;
    Some(Change::Rewritten)
}

/// A choice that is made, or that makes no difference.
fn select(b: &mut Builder<'_>) -> Option<Change> {
    let &[which, yes, no] = b.module.operand_ids(b.like) else {
        return None;
    };
    if b.module.instruction_data(b.like).opcode != HloOpcode::Select {
        return None;
    }
    if yes == no || is(b.module, which, Number::One) {
        return Some(Change::Same(yes));
    }
    if is(b.module, which, Number::Zero) {
        return Some(Change::Same(no));
    }
    // A choice by what is not the case is the other choice.
    let (HloOpcode::Not, other) = unary(b, which)? else {
        return None;
    };
    b.module.set_operands(b.like, &[other, no, yes]);
    Some(Change::Rewritten)
}

/// Parts of a complex number that is put together here, and a number put together from its parts.
fn complex(b: &mut Builder<'_>) -> Option<Change> {
    use HloOpcode as H;
    let opcode = b.module.instruction_data(b.like).opcode;
    let operands = b.module.operand_ids(b.like);
    match (opcode, operands) {
        (H::Real | H::Imag, &[number]) => {
            let &[re, im] = b.module.operand_ids(number) else {
                return None;
            };
            let is_complex = b.module.instruction_data(number).opcode == H::Complex;
            is_complex.then_some(Change::Same(if opcode == H::Real { re } else { im }))
        }
        (H::Complex, &[re, im]) => match (unary(b, re)?, unary(b, im)?) {
            ((H::Real, a), (H::Imag, b)) if a == b => Some(Change::Same(a)),
            _ => None,
        },
        _ => None,
    }
}
