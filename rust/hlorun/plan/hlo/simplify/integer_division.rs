//! `integer-division`: signed integers divided by a known positive number, by shifts and masks.
//!
//! HLO rounds quotients towards zero. What rounds down, as `//` and `%` of Python do, corrects them where the dividend is
//! negative and the remainder is not zero; that is where the remainder is negative, so that one comparison says it. By a power
//! of two, the corrected quotient is an arithmetic shift, and the corrected remainder the lowest bits. The same holds without
//! a correction where no dividend is negative. Whether a remainder by a power of two is zero, its lowest bits say. Divisions by
//! powers of two that XLA has expanded are taken for what they were.

use super::facts::{Number, is, signed};
use super::range_analysis::{self, Ranges};
use super::readers::replace_before;
use crate::module::{AttrKey, AttrValue, HloModule, HloOpcode, InstructionId};
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::inline;

/// Name by which it is switched off.
pub const NAME: &str = "integer-division";

/// Runs the pass on what range analysis reaches; how many instructions changed.
pub fn run(module: &mut HloModule) -> usize {
    range_analysis::visit(module, |module, computation, ranges| {
        let mut changed = 0;
        // Comparisons of remainders last: corrections are found by them.
        for rewrite in [divisions, comparisons] {
            changed += replace_before(module, computation, |module, id| {
                let mut builder = Builder {
                    module,
                    computation,
                    like: id,
                };
                rewrite(&mut builder, ranges).is_some()
            });
        }
        if changed > 0 {
            inline::remove_dead(module, computation);
        }
        changed
    })
}

fn divisions(b: &mut Builder<'_>, ranges: &Ranges) -> Option<()> {
    match opcode(b, b.like) {
        HloOpcode::Divide | HloOpcode::Remainder => of_no_negative(b, ranges),
        HloOpcode::And => negative_remainder(b),
        HloOpcode::Select => corrected_quotient(b).or_else(|| corrected_remainder(b)),
        _ => None,
    }
}

fn comparisons(b: &mut Builder<'_>, _: &Ranges) -> Option<()> {
    (opcode(b, b.like) == HloOpcode::Compare).then(|| remainder_of_zero(b))?
}

fn opcode(b: &Builder<'_>, id: InstructionId) -> HloOpcode {
    b.module.instruction_data(id).opcode
}

/// The operands of an instruction of two, if it has the opcode, and no operand is broadcast, as old texts leave out.
fn pair(b: &Builder<'_>, id: InstructionId, wanted: HloOpcode) -> Option<[InstructionId; 2]> {
    let &[x, y] = b.module.operand_ids(id) else {
        return None;
    };
    let dims = |id| Some(&b.module.instruction(id).array_shape()?.dims);
    let is_plain = dims(x)? == dims(id)? && dims(y)? == dims(id)?;
    (is_plain && opcode(b, id) == wanted).then_some([x, y])
}

/// The operands and the direction of a comparison.
fn comparison(b: &Builder<'_>, id: InstructionId) -> Option<([InstructionId; 2], String)> {
    let operands = pair(b, id, HloOpcode::Compare)?;
    let direction = b.module.instruction(id).enumeration(AttrKey::Direction)?;
    Some((operands, direction.into_owned()))
}

/// The dividend and the divisor of a division of signed integers by a known positive number.
fn division(b: &Builder<'_>, id: InstructionId, wanted: HloOpcode) -> Option<(InstructionId, i64)> {
    if opcode(b, id) == HloOpcode::Select {
        return expanded(b, id, wanted);
    }
    let [x, y] = pair(b, id, wanted)?;
    let divisor = signed(b.module, y)?;
    (divisor > 0).then_some((x, divisor))
}

/// The same, of a division by a power of two.
fn by_power(b: &Builder<'_>, id: InstructionId, wanted: HloOpcode) -> Option<(InstructionId, i64)> {
    division(b, id, wanted).filter(|&(_, divisor)| divisor.count_ones() == 1)
}

/// The same of what XLA makes of a division by a power of two: bits of the magnitude of `x`, with its sign.
fn expanded(b: &Builder<'_>, id: InstructionId, wanted: HloOpcode) -> Option<(InstructionId, i64)> {
    let (x, bits) = with_sign_of(b, id)?;
    let opcode = match wanted {
        HloOpcode::Divide => HloOpcode::ShiftRightLogical,
        _ => HloOpcode::And,
    };
    let [magnitude, number] = pair(b, bits, opcode)?;
    if with_sign_of(b, magnitude)? != (x, x) {
        return None;
    }
    let number = signed(b.module, number)?;
    let sign_bit = b.shape(x).element_type.bit_width() as i64 - 1;
    let divisor = match wanted {
        HloOpcode::Divide => (0..sign_bit).contains(&number).then(|| 1i64 << number)?,
        _ => number.checked_add(1)?,
    };
    (divisor > 1 && divisor.count_ones() == 1).then_some((x, divisor))
}

/// `x` and `y` of a choice of `-y` where `x` is negative, otherwise `y`.
fn with_sign_of(b: &Builder<'_>, id: InstructionId) -> Option<(InstructionId, InstructionId)> {
    let (&[which, negated, y], HloOpcode::Select) = (b.module.operand_ids(id), opcode(b, id))
    else {
        return None;
    };
    let ([x, zero], direction) = comparison(b, which)?;
    let is_negative = direction == "LT" && signed(b.module, zero) == Some(0);
    let is_negated =
        opcode(b, negated) == HloOpcode::Negate && b.module.operand_ids(negated) == [y];
    (is_negative && is_negated).then_some((x, y))
}

/// An array like `id`, of a number.
fn everywhere(b: &mut Builder<'_>, id: InstructionId, number: i64) -> InstructionId {
    let shape = b.shape(id);
    let bytes = &number.to_le_bytes()[..shape.element_type.size_bytes()];
    b.everywhere(shape.element_type, bytes, &shape.dims)
}

/// Makes the instruction another one.
fn become_one(b: &mut Builder<'_>, opcode: HloOpcode, operands: [InstructionId; 2]) {
    b.module.set_operands(b.like, &operands);
    b.module.set_attributes(b.like, &[]);
    b.module.instruction_data_mut(b.like).opcode = opcode;
}

/// The quotient of `x`, rounded down.
fn shift(b: &mut Builder<'_>, x: InstructionId, divisor: i64) {
    let bits = everywhere(b, x, divisor.trailing_zeros().into());
    become_one(b, HloOpcode::ShiftRightArithmetic, [x, bits]);
}

/// The remainder of `x` that is not negative.
fn mask(b: &mut Builder<'_>, x: InstructionId, divisor: i64) {
    let bits = everywhere(b, x, divisor - 1);
    become_one(b, HloOpcode::And, [x, bits]);
}

/// A division of what is never negative.
fn of_no_negative(b: &mut Builder<'_>, ranges: &Ranges) -> Option<()> {
    let own = opcode(b, b.like);
    let (x, divisor) = by_power(b, b.like, own)?;
    let is_never_negative = ranges.get(&x).is_some_and(|range| range.0 >= 0);
    if !faults::holds(Fault::ShiftsNegativeNumbers, is_never_negative) {
        return None;
    }
    match own {
        HloOpcode::Divide => shift(b, x, divisor),
        _ => mask(b, x, divisor),
    }
    Some(())
}

/// That the dividend is not positive, or the remainder negative, and that the remainder is not zero: it is negative.
fn negative_remainder(b: &mut Builder<'_>) -> Option<()> {
    let [p, q] = pair(b, b.like, HloOpcode::And)?;
    let remainder = [(p, q), (q, p)].into_iter().find_map(|(p, q)| {
        let ([r, zero], direction) = comparison(b, q)?;
        let (x, _) = division(b, r, HloOpcode::Remainder)?;
        let is_nonzero = direction == "NE" && is(b.module, zero, Number::Zero);
        (is_nonzero && excludes_positive(b, p, [x, r])).then_some(r)
    })?;
    let zero = everywhere(b, remainder, 0);
    let direction = AttrValue::Enum(b.module.text_mut().add(b"LT"));
    become_one(b, HloOpcode::Compare, [remainder, zero]);
    b.module
        .set_attribute(b.like, AttrKey::Direction, direction);
    Some(())
}

/// Whether a truth value says that one of two numbers is negative, or that it is not positive.
fn excludes_positive(b: &Builder<'_>, p: InstructionId, numbers: [InstructionId; 2]) -> bool {
    let Some(([a, limit], direction)) = comparison(b, p) else {
        return false;
    };
    let limited = (direction.as_str(), signed(b.module, limit));
    if numbers.contains(&a) {
        return matches!(limited, ("LT", Some(0 | 1)) | ("LE", Some(0)));
    }
    match (opcode(b, a), b.module.operand_ids(a)) {
        // Of a number and the divisor, the signs differ.
        (HloOpcode::Sign, [x]) => {
            let is_one = limited.1 == Some(1) || is_sign_of_positive(b, limit);
            direction == "NE" && is_one && numbers.contains(x)
        }
        // The other truth value says that the divisor is negative.
        (HloOpcode::Compare, _) => {
            let is_same = direction == "NE" && is(b.module, limit, Number::Zero);
            let is_negative = |&number: &InstructionId| {
                comparison(b, a).is_some_and(|([x, zero], direction)| {
                    x == number && direction == "LT" && signed(b.module, zero) == Some(0)
                })
            };
            is_same && numbers.iter().any(is_negative)
        }
        _ => false,
    }
}

fn is_sign_of_positive(b: &Builder<'_>, id: InstructionId) -> bool {
    let of = match b.module.operand_ids(id) {
        &[number] if opcode(b, id) == HloOpcode::Sign => signed(b.module, number),
        _ => None,
    };
    of.is_some_and(|number| number > 0)
}

/// Whether a remainder by a power of two is zero, or is not.
fn remainder_of_zero(b: &mut Builder<'_>) -> Option<()> {
    let ([r, zero], direction) = comparison(b, b.like)?;
    let (x, divisor) = by_power(b, r, HloOpcode::Remainder)?;
    if !matches!(direction.as_str(), "EQ" | "NE") || !is(b.module, zero, Number::Zero) {
        return None;
    }
    let shape = b.shape(r);
    let bits = everywhere(b, r, divisor - 1);
    let (ty, dims) = (shape.element_type, shape.dims);
    let low = b.add_array(HloOpcode::And, ty, &dims, &[x, bits], &[]);
    b.module.set_operands(b.like, &[low, zero]);
    Some(())
}

/// The operands of a choice by whether a remainder is negative: the remainder, and the two that are chosen from.
fn by_negative_remainder(b: &Builder<'_>) -> Option<[InstructionId; 3]> {
    let &[which, yes, no] = b.module.operand_ids(b.like) else {
        return None;
    };
    let ([r, zero], direction) = comparison(b, which)?;
    let is_negative = direction == "LT" && is(b.module, zero, Number::Zero);
    is_negative.then_some([r, yes, no])
}

/// The quotient by a power of two, less one where the remainder is negative.
fn corrected_quotient(b: &mut Builder<'_>) -> Option<()> {
    let [r, less, quotient] = by_negative_remainder(b)?;
    let of = by_power(b, quotient, HloOpcode::Divide)?;
    let is_less_by = |opcode, number| {
        pair(b, less, opcode)
            .is_some_and(|[q, by]| q == quotient && signed(b.module, by) == Some(number))
    };
    let is_one_less = is_less_by(HloOpcode::Subtract, 1) || is_less_by(HloOpcode::Add, -1);
    if !is_one_less || by_power(b, r, HloOpcode::Remainder)? != of {
        return None;
    }
    shift(b, of.0, of.1);
    Some(())
}

/// The remainder by a power of two, and the divisor with it where it is negative.
fn corrected_remainder(b: &mut Builder<'_>) -> Option<()> {
    let [r, more, remainder] = by_negative_remainder(b)?;
    let (x, divisor) = by_power(b, r, HloOpcode::Remainder)?;
    let [p, q] = pair(b, more, HloOpcode::Add)?;
    let is_divisor = |id| signed(b.module, id) == Some(divisor);
    let is_more = p == r && is_divisor(q) || q == r && is_divisor(p);
    if remainder != r || !is_more {
        return None;
    }
    mask(b, x, divisor);
    Some(())
}
