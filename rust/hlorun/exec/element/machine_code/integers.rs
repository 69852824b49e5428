//! Integer and `pred` operations as instructions, by the rules of the kernels: nothing traps, x/0
//! is all ones, x%0 is x, MIN/-1 is MIN, MIN%-1 is 0; shifts by the width or more give 0 or the
//! sign.
//!
//! Types narrower than 32 bits are computed in 32 and cut off.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode, Type, Value, ValueDef, types};
use cranelift_frontend::FunctionBuilder;
use hlorun_kernels::{BinaryOp, CompareDirection, DType, UnaryOp};

use super::registers;
use crate::plan::faults::{self, Fault};

type Builder<'b> = FunctionBuilder<'b>;

pub fn has_unary(op: UnaryOp) -> bool {
    use UnaryOp::*;
    matches!(
        op,
        Abs | Negate | Sign | Not | PopulationCount | CountLeadingZeros
    )
}

pub fn has_binary(op: BinaryOp) -> bool {
    !matches!(op, BinaryOp::Power | BinaryOp::Atan2)
}

/// The type in which a type's operations are computed.
fn wide(dtype: DType) -> Type {
    match dtype.size_bytes() {
        8 => types::I64,
        _ => types::I32,
    }
}

/// A value in the wide type, with its sign or with zeros.
fn extend(b: &mut Builder<'_>, dtype: DType, x: Value, signed: bool) -> Value {
    match (dtype.size_bytes() < 4, signed) {
        (false, _) => x,
        (true, true) => b.ins().sextend(types::I32, x),
        (true, false) => b.ins().uextend(types::I32, x),
    }
}

/// A wide value cut off to its own type.
fn cut(b: &mut Builder<'_>, dtype: DType, x: Value) -> Option<Value> {
    let own = registers::register(dtype)?;
    Some(match dtype.size_bytes() < 4 {
        true => b.ins().ireduce(own, x),
        false => x,
    })
}

/// The bits of a value that is the same in every trip.
pub fn constant(b: &Builder<'_>, x: Value) -> Option<i64> {
    let ValueDef::Result(inst, _) = b.func.dfg.value_def(x) else {
        return None;
    };
    match b.func.dfg.insts[inst] {
        InstructionData::UnaryImm {
            opcode: Opcode::Iconst,
            imm,
        } => Some(imm.bits()),
        _ => None,
    }
}

/// The same as a number of the type.
fn constant_of(b: &Builder<'_>, dtype: DType, x: Value) -> Option<i64> {
    let free = 64 - 8 * dtype.size_bytes() as u32;
    let bits = constant(b, x)?;
    Some(match dtype.is_signed() {
        true => bits << free >> free,
        false => ((bits as u64) << free >> free) as i64,
    })
}

pub fn unary(b: &mut Builder<'_>, op: UnaryOp, dtype: DType, x: Value) -> Option<Value> {
    let (ty, signed) = (wide(dtype), dtype.is_signed());
    let width = 8 * dtype.size_bytes() as i64;
    let own = extend(b, dtype, x, signed);
    let result = match op {
        UnaryOp::Abs if !signed => own,
        UnaryOp::Abs => {
            let negated = b.ins().ineg(own);
            let is_negative = b.ins().icmp_imm(IntCC::SignedLessThan, own, 0);
            b.ins().select(is_negative, negated, own)
        }
        UnaryOp::Negate => b.ins().ineg(own),
        UnaryOp::Sign => {
            let (zero, one) = (b.ins().iconst(ty, 0), b.ins().iconst(ty, 1));
            let is_zero = b.ins().icmp_imm(IntCC::Equal, own, 0);
            let positive = b.ins().select(is_zero, zero, one);
            if signed {
                let is_negative = b.ins().icmp_imm(IntCC::SignedLessThan, own, 0);
                let less = b.ins().iconst(ty, -1);
                b.ins().select(is_negative, less, positive)
            } else {
                positive
            }
        }
        UnaryOp::Not => b.ins().bnot(own),
        UnaryOp::PopulationCount => {
            let bits = extend(b, dtype, x, false);
            b.ins().popcnt(bits)
        }
        UnaryOp::CountLeadingZeros => {
            let bits = extend(b, dtype, x, false);
            let zeros = b.ins().clz(bits);
            b.ins().iadd_imm(zeros, width - i64::from(ty.bits()))
        }
        _ => return None,
    };
    cut(b, dtype, result)
}

pub fn binary(
    b: &mut Builder<'_>,
    op: BinaryOp,
    dtype: DType,
    x: Value,
    y: Value,
) -> Option<Value> {
    use BinaryOp::*;
    let signed = dtype.is_signed();
    let result = match op {
        Divide | Remainder => return quotient(b, op == Remainder, dtype, x, y),
        ShiftLeft | ShiftRightArithmetic | ShiftRightLogical => return shift(b, op, dtype, x, y),
        MultiplyHigh => return multiply_high(b, dtype, x, y),
        _ => {
            let (x, y) = (extend(b, dtype, x, signed), extend(b, dtype, y, signed));
            match op {
                Add => b.ins().iadd(x, y),
                Subtract => b.ins().isub(x, y),
                Multiply => b.ins().imul(x, y),
                And => b.ins().band(x, y),
                Or => b.ins().bor(x, y),
                Xor => b.ins().bxor(x, y),
                Maximum | Minimum => {
                    let direction = match op {
                        Maximum => CompareDirection::Gt,
                        _ => CompareDirection::Lt,
                    };
                    let is_first = b.ins().icmp(relation(direction, signed), x, y);
                    b.ins().select(is_first, x, y)
                }
                _ => return None,
            }
        }
    };
    cut(b, dtype, result)
}

/// Quotients and rests towards zero.
fn quotient(b: &mut Builder<'_>, rest: bool, dtype: DType, x: Value, y: Value) -> Option<Value> {
    let (ty, signed) = (wide(dtype), dtype.is_signed());
    let known = constant_of(b, dtype, y);
    let (x, y) = (extend(b, dtype, x, signed), extend(b, dtype, y, signed));
    if let Some(divisor) = known.filter(|&y| y > 0 && y & (y - 1) == 0) {
        let result = power_of_two(b, rest, signed, x, divisor);
        return cut(b, dtype, result);
    }
    let is_safe = known.is_some_and(|y| y != 0 && !(signed && y == -1));
    let divisor = if is_safe {
        y
    } else {
        let is_zero = b.ins().icmp_imm(IntCC::Equal, y, 0);
        let is_bad = if signed {
            // Wide enough types cannot overflow, but their quotient has to be the same.
            let lowest = -1i64 << (8 * dtype.size_bytes() - 1);
            let lowest = b.ins().iconst(ty, mask(ty, lowest));
            let ones = b.ins().iconst(ty, mask(ty, -1));
            let is_lowest = b.ins().icmp(IntCC::Equal, x, lowest);
            let is_ones = b.ins().icmp(IntCC::Equal, y, ones);
            let overflows = b.ins().band(is_lowest, is_ones);
            b.ins().bor(is_zero, overflows)
        } else {
            is_zero
        };
        let one = b.ins().iconst(ty, 1);
        b.ins().select(is_bad, one, y)
    };
    let result = match (rest, signed) {
        (false, true) => b.ins().sdiv(x, divisor),
        (false, false) => b.ins().udiv(x, divisor),
        (true, true) => b.ins().srem(x, divisor),
        (true, false) => b.ins().urem(x, divisor),
    };
    let result = if is_safe {
        result
    } else {
        let is_zero = b.ins().icmp_imm(IntCC::Equal, y, 0);
        let instead = match rest {
            true => x,
            false => b.ins().iconst(ty, mask(ty, -1)),
        };
        b.ins().select(is_zero, instead, result)
    };
    cut(b, dtype, result)
}

/// Division by a power of two: what is negative is raised by less than the divisor first.
fn power_of_two(b: &mut Builder<'_>, rest: bool, signed: bool, x: Value, divisor: i64) -> Value {
    let by = i64::from(divisor.trailing_zeros());
    if !signed {
        return match rest {
            true => b.ins().band_imm(x, divisor - 1),
            false => b.ins().ushr_imm(x, by),
        };
    }
    let raised = if divisor == 1 {
        x
    } else {
        let bits = i64::from(b.func.dfg.value_type(x).bits());
        let sign = b.ins().sshr_imm(x, bits - 1);
        let raise = b.ins().ushr_imm(sign, bits - by);
        b.ins().iadd(x, raise)
    };
    match rest {
        true => {
            let whole = b.ins().band_imm(raised, -divisor);
            b.ins().isub(x, whole)
        }
        false => b.ins().sshr_imm(raised, by),
    }
}

/// The bits of a constant that fit a type.
fn mask(ty: Type, value: i64) -> i64 {
    match ty.bits() {
        64 => value,
        bits => value & ((1 << bits) - 1),
    }
}

pub fn shift(b: &mut Builder<'_>, op: BinaryOp, dtype: DType, x: Value, y: Value) -> Option<Value> {
    let ty = wide(dtype);
    let width = 8 * dtype.size_bytes() as i64;
    let known = constant(b, y).map(|bits| {
        let free = 64 - width as u32;
        (bits as u64) << free >> free
    });
    // An amount is unsigned whatever its type is.
    let amount = extend(b, dtype, y, false);
    let is_arithmetic = op == BinaryOp::ShiftRightArithmetic;
    let x = extend(b, dtype, x, is_arithmetic);
    let is_inside = |b: &mut Builder<'_>| b.ins().icmp_imm(IntCC::UnsignedLessThan, amount, width);
    let result = match known {
        Some(by) if is_arithmetic => b.ins().sshr_imm(x, (by as i64).clamp(0, width - 1)),
        Some(by) if by >= width as u64 => b.ins().iconst(ty, 0),
        Some(by) if op == BinaryOp::ShiftLeft => b.ins().ishl_imm(x, by as i64),
        Some(by) => b.ins().ushr_imm(x, by as i64),
        None if is_arithmetic => {
            let (inside, most) = (is_inside(b), b.ins().iconst(ty, width - 1));
            let by = b.ins().select(inside, amount, most);
            b.ins().sshr(x, by)
        }
        None => {
            let (inside, zero) = (is_inside(b), b.ins().iconst(ty, 0));
            let shifted = match op {
                BinaryOp::ShiftLeft => b.ins().ishl(x, amount),
                _ => b.ins().ushr(x, amount),
            };
            match faults::holds(Fault::ShiftsByWidth, false) {
                true => shifted,
                false => b.ins().select(inside, shifted, zero),
            }
        }
    };
    cut(b, dtype, result)
}

fn multiply_high(b: &mut Builder<'_>, dtype: DType, x: Value, y: Value) -> Option<Value> {
    let signed = dtype.is_signed();
    if dtype.size_bytes() == 8 {
        return Some(match signed {
            true => b.ins().smulhi(x, y),
            false => b.ins().umulhi(x, y),
        });
    }
    let mut widest = |x: Value| match signed {
        true => b.ins().sextend(types::I64, x),
        false => b.ins().uextend(types::I64, x),
    };
    let (x, y) = (widest(x), widest(y));
    let product = b.ins().imul(x, y);
    let high = b.ins().ushr_imm(product, 8 * dtype.size_bytes() as i64);
    Some(b.ins().ireduce(registers::register(dtype)?, high))
}

pub fn relation(direction: CompareDirection, signed: bool) -> IntCC {
    use CompareDirection::*;
    match (direction, signed) {
        (Eq, _) => IntCC::Equal,
        (Ne, _) => IntCC::NotEqual,
        (Lt, true) => IntCC::SignedLessThan,
        (Le, true) => IntCC::SignedLessThanOrEqual,
        (Gt, true) => IntCC::SignedGreaterThan,
        (Ge, true) => IntCC::SignedGreaterThanOrEqual,
        (Lt, false) => IntCC::UnsignedLessThan,
        (Le, false) => IntCC::UnsignedLessThanOrEqual,
        (Gt, false) => IntCC::UnsignedGreaterThan,
        (Ge, false) => IntCC::UnsignedGreaterThanOrEqual,
    }
}

pub fn compare(
    b: &mut Builder<'_>,
    direction: CompareDirection,
    dtype: DType,
    x: Value,
    y: Value,
) -> Value {
    b.ins().icmp(relation(direction, dtype.is_signed()), x, y)
}

/// Whether a truth value is true: any byte but zero is.
fn truth(b: &mut Builder<'_>, x: Value) -> Value {
    b.ins().icmp_imm(IntCC::NotEqual, x, 0)
}

pub fn pred_not(b: &mut Builder<'_>, x: Value) -> Value {
    b.ins().icmp_imm(IntCC::Equal, x, 0)
}

pub fn pred_binary(b: &mut Builder<'_>, op: BinaryOp, x: Value, y: Value) -> Option<Value> {
    use BinaryOp::*;
    let (x, y) = (truth(b, x), truth(b, y));
    Some(match op {
        And | Multiply | Minimum => b.ins().band(x, y),
        Or | Add | Maximum => b.ins().bor(x, y),
        Xor => b.ins().bxor(x, y),
        _ => return None,
    })
}

/// Bytes are equal or not; in an order there are two of them.
pub fn pred_compare(b: &mut Builder<'_>, direction: CompareDirection, x: Value, y: Value) -> Value {
    let (x, y) = match direction {
        CompareDirection::Eq | CompareDirection::Ne => (x, y),
        _ => (truth(b, x), truth(b, y)),
    };
    b.ins().icmp(relation(direction, false), x, y)
}
