//! The code of vector bytecode: operations on an accumulator and on values in memory.
//!
//! In: an operation and its types. Out: whether vector bytecode has it, and the codes that do it.

use super::{Width, is_half, width};
use crate::DType;
use crate::low_float::{Bf16, F16, LowFloat};
use crate::math::Float;
use crate::ops::{BinaryOp, CompareDirection, UnaryOp, is_lower_bound, is_upper_bound};

/// What a [`Micro`] does. `C` ends the names of those whose operand is the constant in `bits`, `R` begins the names of
/// those whose accumulator is the right operand; the others' operand is the value `a`. Codes of several operations say
/// themselves where their operands are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[rustfmt::skip]
pub(super) enum Code {
    Load, LoadBf16, LoadF16, LoadConstant,
    /// The element at `a`, for all of the block.
    LoadSingle,
    Store, StoreBf16, StoreF16,
    /// Truth bytes at `a` to the mask `b`, and back.
    LoadMask, StoreMask,
    /// The call `c` on the value `a`; its result is written to `b` and loaded.
    Call,
    Add, AddC, Sub, SubC, RSub, RSubC, Mul, MulC, Div, DivC, RDiv, RDivC, Max, MaxC, Min, MinC,
    /// Maximum and minimum with a constant that one comparison decides; see [`one_comparison`].
    AtLeastC, AtMostC,
    /// A product and a sum, each rounded: `accumulator * a + b`, `accumulator * a + bits`, `accumulator * bits + a`,
    /// `accumulator * bits + more`.
    MulAdd, MulAddC, ScaleAdd, ScaleAddC,
    /// `AtLeastC` by `bits`, then `AtMostC` by `more`.
    Bounds,
    Square, Neg, Abs, Sqrt, Floor, Ceil, RoundEven, Exp, RoundBf16, RoundF16,
    IntAdd, IntAddC, IntSub, IntSubC, RIntSub, RIntSubC, IntMul, IntMulC, And, AndC, Or, OrC, Xor, XorC,
    Shl, ShlC, Shr, ShrC, Sar, SarC, IntMax, IntMaxC, IntMin, IntMinC, UintMax, UintMaxC, UintMin, UintMinC,
    IntToFloat, FloatToInt,
    /// A float to a signed integer that compares as the float does in the total order.
    TotalKey,
    /// `(accumulator << d) | (accumulator >>> e)`, where `bits` holds the distances, or else the addresses they are at.
    Turn, TurnC,
    /// The sum of the accumulator and `a` is written to `b`, and combined with the turned accumulator by exclusive or.
    Mix, MixC,
    /// The same of an accumulator that is turned by `bits`, without loss.
    RotateC, MixRotateC,
    /// Comparisons write the mask `b`.
    Eq, EqC, Ne, NeC, Lt, LtC, Le, LeC, Gt, GtC, Ge, GeC,
    IntEq, IntEqC, IntNe, IntNeC, IntLt, IntLtC, IntLe, IntLeC, IntGt, IntGtC, IntGe, IntGeC,
    UintLt, UintLtC, UintLe, UintLeC, UintGt, UintGtC, UintGe, UintGeC,
    /// `b ? accumulator : operand`, and the other way round.
    Select, SelectC, RSelect, RSelectC,
    /// Masks `a` and `b` to the mask `c`.
    MaskAnd, MaskOr, MaskXor, MaskNot,
}

/// One operation on a block; `a` and `b` are addresses, `c` is one of the bytecode's own or the number of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Micro {
    pub(super) code: Code,
    pub(super) a: u16,
    pub(super) b: u16,
    pub(super) c: u16,
    pub(super) bits: u64,
    /// The second constant.
    pub(super) more: u64,
}

impl Micro {
    /// The two distances of a turn, or their addresses.
    pub(super) fn pair(&self) -> [u16; 2] {
        [self.bits as u16, (self.bits >> 16) as u16]
    }
}

/// Two distances, or addresses, as a [`Micro`] holds them.
pub(super) fn pair([left, right]: [u16; 2]) -> u64 {
    u64::from(left) | u64::from(right) << 16
}

/// How an operation of two operands is done: with the value or the constant on the right, or on the left.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) value: Code,
    pub(super) constant: Code,
    pub(super) reverse: Option<(Code, Code)>,
}

const fn commutative(value: Code, constant: Code) -> Pair {
    Pair {
        value,
        constant,
        reverse: Some((value, constant)),
    }
}

const fn one_way(value: Code, constant: Code) -> Pair {
    Pair {
        value,
        constant,
        reverse: None,
    }
}

pub(super) const fn two_way(
    value: Code,
    constant: Code,
    reverse: Code,
    reverse_constant: Code,
) -> Pair {
    Pair {
        value,
        constant,
        reverse: Some((reverse, reverse_constant)),
    }
}

pub(super) fn binary(op: BinaryOp, dtype: DType) -> Option<Pair> {
    use Code::*;
    let is_float = dtype.is_float();
    let is_signed = matches!(dtype, DType::S32 | DType::S64);
    Some(match (op, is_float) {
        (BinaryOp::Add, true) => commutative(Add, AddC),
        (BinaryOp::Subtract, true) => two_way(Sub, SubC, RSub, RSubC),
        (BinaryOp::Multiply, true) => commutative(Mul, MulC),
        (BinaryOp::Divide, true) => two_way(Div, DivC, RDiv, RDivC),
        (BinaryOp::Maximum, true) => commutative(Max, MaxC),
        (BinaryOp::Minimum, true) => commutative(Min, MinC),
        (BinaryOp::Add, false) => commutative(IntAdd, IntAddC),
        (BinaryOp::Subtract, false) => two_way(IntSub, IntSubC, RIntSub, RIntSubC),
        (BinaryOp::Multiply, false) => commutative(IntMul, IntMulC),
        (BinaryOp::And, false) => commutative(And, AndC),
        (BinaryOp::Or, false) => commutative(Or, OrC),
        (BinaryOp::Xor, false) => commutative(Xor, XorC),
        (BinaryOp::ShiftLeft, false) => one_way(Shl, ShlC),
        (BinaryOp::ShiftRightLogical, false) => one_way(Shr, ShrC),
        (BinaryOp::ShiftRightArithmetic, false) => one_way(Sar, SarC),
        (BinaryOp::Maximum, false) if is_signed => commutative(IntMax, IntMaxC),
        (BinaryOp::Minimum, false) if is_signed => commutative(IntMin, IntMinC),
        (BinaryOp::Maximum, false) => commutative(UintMax, UintMaxC),
        (BinaryOp::Minimum, false) => commutative(UintMin, UintMinC),
        _ => return None,
    })
}

pub(super) fn compare(direction: CompareDirection, dtype: DType) -> Pair {
    use Code::*;
    use CompareDirection as D;
    let pair = |value, constant, reverse, reverse_constant| {
        two_way(value, constant, reverse, reverse_constant)
    };
    if dtype.is_float() {
        return match direction {
            D::Eq => commutative(Eq, EqC),
            D::Ne => commutative(Ne, NeC),
            D::Lt => pair(Lt, LtC, Gt, GtC),
            D::Le => pair(Le, LeC, Ge, GeC),
            D::Gt => pair(Gt, GtC, Lt, LtC),
            D::Ge => pair(Ge, GeC, Le, LeC),
        };
    }
    let is_signed = matches!(dtype, DType::S32 | DType::S64);
    match (direction, is_signed) {
        (D::Eq, _) => commutative(IntEq, IntEqC),
        (D::Ne, _) => commutative(IntNe, IntNeC),
        (D::Lt, true) => pair(IntLt, IntLtC, IntGt, IntGtC),
        (D::Le, true) => pair(IntLe, IntLeC, IntGe, IntGeC),
        (D::Gt, true) => pair(IntGt, IntGtC, IntLt, IntLtC),
        (D::Ge, true) => pair(IntGe, IntGeC, IntLe, IntLeC),
        (D::Lt, false) => pair(UintLt, UintLtC, UintGt, UintGtC),
        (D::Le, false) => pair(UintLe, UintLeC, UintGe, UintGeC),
        (D::Gt, false) => pair(UintGt, UintGtC, UintLt, UintLtC),
        (D::Ge, false) => pair(UintGe, UintGeC, UintLe, UintLeC),
    }
}

/// Whether vector bytecode has the operation.
pub(super) fn is_supported(op: super::Op, from: DType, to: DType) -> bool {
    let word = |dtype| width(dtype).is_some_and(|w| w != Width::Truth);
    match op {
        super::Op::Unary(op) => match (op, from) {
            (UnaryOp::Not, DType::Pred) => true,
            _ => {
                (from.is_float() || from.is_integer())
                    && from == to
                    && word(from)
                    && (direct(op, from).is_some() || crate::unary(op, from).is_some())
                    && !(is_half(from) && matches!(op, UnaryOp::IsFinite))
            }
        },
        super::Op::Binary(op) => match from {
            DType::Pred => matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor),
            _ => word(from) && binary(op, from).is_some(),
        },
        super::Op::Compare(_) => word(from),
        super::Op::CompareTotal(_) => matches!(from, DType::F32 | DType::F64),
        super::Op::Select => word(to),
        super::Op::Clamp => word(from) && binary(BinaryOp::Maximum, from).is_some(),
        super::Op::Bitcast => {
            word(from)
                && word(to)
                && from.size_bytes() == to.size_bytes()
                && !is_half(from)
                && !is_half(to)
        }
        super::Op::Convert => match (from, to) {
            (DType::Pred, to) => word(to),
            (DType::BF16 | DType::F16, DType::F32) | (DType::F32, DType::BF16 | DType::F16) => true,
            (DType::S32, DType::F32) | (DType::F32, DType::S32) => true,
            (DType::S64, DType::F64) => true,
            (DType::S32, DType::U32) | (DType::U32, DType::S32) => true,
            (DType::S64, DType::U64) | (DType::U64, DType::S64) => true,
            _ => false,
        },
    }
}

/// Unary operations that are one code, of integers with a constant: see [`direct_constant`].
pub(super) fn direct(op: UnaryOp, dtype: DType) -> Option<Code> {
    if dtype.is_integer() {
        return match op {
            UnaryOp::Not => Some(Code::XorC),
            UnaryOp::Negate => Some(Code::RIntSubC),
            _ => None,
        };
    }
    Some(match op {
        UnaryOp::Exp if dtype != DType::F64 => Code::Exp,
        UnaryOp::Abs => Code::Abs,
        UnaryOp::Negate => Code::Neg,
        UnaryOp::Sqrt => Code::Sqrt,
        UnaryOp::Floor => Code::Floor,
        UnaryOp::Ceil => Code::Ceil,
        UnaryOp::RoundNearestEven => Code::RoundEven,
        _ => return None,
    })
}

/// The bits of the constant of a [`direct`] operation.
pub(super) fn direct_constant(op: UnaryOp) -> u64 {
    match op {
        UnaryOp::Not => !0,
        _ => 0,
    }
}

/// Whether an operation is a code of its own.
pub(super) fn is_direct(op: UnaryOp, dtype: DType) -> bool {
    direct(op, dtype).is_some()
}

/// What [`Code::TotalKey`] makes of the bits of a constant.
pub(super) fn total_key(bits: u64, dtype: DType) -> u64 {
    let key = match dtype {
        DType::F64 => f64::from_bits(bits).total_key(),
        _ => f32::from_bits(bits as u32).total_key(),
    };
    key as u64
}

/// The bits of a constant as a lane holds it.
pub(super) fn constant(bytes: [u8; 16], dtype: DType) -> u64 {
    let low = u16::from_le_bytes([bytes[0], bytes[1]]);
    match dtype {
        DType::BF16 => u64::from(Bf16(low).decode().to_bits()),
        DType::F16 => u64::from(F16(low).decode().to_bits()),
        _ => {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[..8]);
            u64::from_le_bytes(eight)
        }
    }
}

/// `code`, or a cheaper one where a single comparison with the constant gives the same result, also for NaN and both zeros.
pub(super) fn one_comparison(code: Code, bits: u64, dtype: DType) -> Code {
    match code {
        Code::MaxC if is_lower_bound(bits, dtype) => Code::AtLeastC,
        Code::MinC if is_upper_bound(bits, dtype) => Code::AtMostC,
        _ => code,
    }
}

/// `first` and then `second` as one operation of the same bits, where there is one.
pub(super) fn joined(first: &Micro, second: &Micro) -> Option<Micro> {
    let (code, a, b, bits, more) = match (first.code, second.code) {
        (Code::Mul, Code::Add) => (Code::MulAdd, first.a, second.a, 0, 0),
        (Code::Mul, Code::AddC) => (Code::MulAddC, first.a, 0, second.bits, 0),
        (Code::MulC, Code::Add) => (Code::ScaleAdd, second.a, 0, first.bits, 0),
        (Code::MulC, Code::AddC) => (Code::ScaleAddC, 0, 0, first.bits, second.bits),
        (Code::AtLeastC, Code::AtMostC) => (Code::Bounds, 0, 0, first.bits, second.bits),
        _ => return None,
    };
    Some(Micro {
        code,
        a,
        b,
        c: 0,
        bits,
        more,
    })
}

/// The bits of one.
pub(super) fn one(dtype: DType) -> u64 {
    match dtype {
        DType::F32 | DType::BF16 | DType::F16 => u64::from(1f32.to_bits()),
        DType::F64 => 1f64.to_bits(),
        _ => 1,
    }
}
