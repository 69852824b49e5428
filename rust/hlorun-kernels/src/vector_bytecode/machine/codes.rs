//! What the codes of vector bytecode are in instructions.
//!
//! In: a code. Out: the addresses it reads and writes, and the instruction it is, where it is one.

use super::super::code::{Code, Micro};
use super::instructions::Name;

/// Addresses that a code reads, and the one it writes.
pub(super) fn accesses(micro: &Micro) -> ([Option<u16>; 3], Option<u16>) {
    use Code::*;
    let [left, right] = micro.pair();
    let Micro { a, b, c, .. } = *micro;
    match micro.code {
        LoadConstant | AddC | SubC | RSubC | MulC | DivC | RDivC | MaxC | MinC | AtLeastC
        | AtMostC | ScaleAddC | Bounds | Square | Neg | Abs | Sqrt | Floor | Ceil | RoundEven
        | Exp | RoundBf16 | RoundF16 | IntAddC | IntSubC | RIntSubC | IntMulC | AndC | OrC
        | XorC | ShlC | ShrC | SarC | IntMaxC | IntMinC | UintMaxC | UintMinC | IntToFloat
        | FloatToInt | TotalKey | TurnC | RotateC => ([None; 3], None),
        Store | StoreBf16 | StoreF16 => ([None; 3], Some(a)),
        LoadMask | Call => ([Some(a), None, None], Some(b)),
        StoreMask => ([Some(b), None, None], Some(a)),
        MulAdd | Select | RSelect => ([Some(a), Some(b), None], None),
        SelectC | RSelectC => ([Some(b), None, None], None),
        Turn => ([Some(left), Some(right), None], None),
        Mix => ([Some(a), Some(left), Some(right)], Some(b)),
        MixC | MixRotateC => ([Some(a), None, None], Some(b)),
        EqC | NeC | LtC | LeC | GtC | GeC | IntEqC | IntNeC | IntLtC | IntLeC | IntGtC | IntGeC
        | UintLtC | UintLeC | UintGtC | UintGeC => ([None; 3], Some(b)),
        Eq | Ne | Lt | Le | Gt | Ge | IntEq | IntNe | IntLt | IntLe | IntGt | IntGe | UintLt
        | UintLe | UintGt | UintGe => ([Some(a), None, None], Some(b)),
        MaskAnd | MaskOr | MaskXor => ([Some(a), Some(b), None], Some(c)),
        MaskNot => ([Some(a), None, None], Some(c)),
        Load | LoadBf16 | LoadF16 | LoadSingle | Add | Sub | RSub | Mul | Div | RDiv | Max
        | Min | MulAddC | ScaleAdd | IntAdd | IntSub | RIntSub | IntMul | And | Or | Xor | Shl
        | Shr | Sar | IntMax | IntMin | UintMax | UintMin => ([Some(a), None, None], None),
    }
}

/// Where a code has its second operand.
#[derive(Clone, Copy)]
pub(super) enum Other {
    Value,
    Constant,
}

/// The instruction of a code that is one, where its second operand is, and whether that is the left one.
pub(super) fn one_instruction(code: Code) -> Option<(Name, Other, bool)> {
    use Code::*;
    use Other::{Constant, Value};
    Some(match code {
        Add => (Name::Add, Value, false),
        AddC => (Name::Add, Constant, false),
        Sub => (Name::Subtract, Value, false),
        SubC => (Name::Subtract, Constant, false),
        RSub => (Name::Subtract, Value, true),
        RSubC => (Name::Subtract, Constant, true),
        Mul => (Name::Multiply, Value, false),
        MulC => (Name::Multiply, Constant, false),
        Div => (Name::Divide, Value, false),
        DivC => (Name::Divide, Constant, false),
        RDiv => (Name::Divide, Value, true),
        RDivC => (Name::Divide, Constant, true),
        IntAdd => (Name::IntAdd, Value, false),
        IntAddC => (Name::IntAdd, Constant, false),
        IntSub => (Name::IntSubtract, Value, false),
        IntSubC => (Name::IntSubtract, Constant, false),
        RIntSub => (Name::IntSubtract, Value, true),
        RIntSubC => (Name::IntSubtract, Constant, true),
        IntMul => (Name::IntMultiply, Value, false),
        IntMulC => (Name::IntMultiply, Constant, false),
        And => (Name::And, Value, false),
        AndC => (Name::And, Constant, false),
        Or => (Name::Or, Value, false),
        OrC => (Name::Or, Constant, false),
        Xor => (Name::Xor, Value, false),
        XorC => (Name::Xor, Constant, false),
        Shl => (Name::ShiftLeft, Value, false),
        ShlC => (Name::ShiftLeft, Constant, false),
        Shr => (Name::ShiftRight, Value, false),
        ShrC => (Name::ShiftRight, Constant, false),
        Sar => (Name::ShiftRightSigned, Value, false),
        SarC => (Name::ShiftRightSigned, Constant, false),
        IntMax => (Name::IntLarger, Value, false),
        IntMaxC => (Name::IntLarger, Constant, false),
        IntMin => (Name::IntSmaller, Value, false),
        IntMinC => (Name::IntSmaller, Constant, false),
        UintMax => (Name::UintLarger, Value, false),
        UintMaxC => (Name::UintLarger, Constant, false),
        UintMin => (Name::UintSmaller, Value, false),
        UintMinC => (Name::UintSmaller, Constant, false),
        RotateC => (Name::RotateLeft, Constant, false),
        _ => return None,
    })
}

/// Numbers of relations, of floats and of integers. With NaN, "not equal", "unordered" and "not less" are true.
pub(super) mod relation {
    pub(in super::super) const EQUAL: u8 = 0;
    pub(in super::super) const NOT_EQUAL: u8 = 4;
    pub(in super::super) const UNORDERED: u8 = 3;
    pub(in super::super) const LESS: u8 = 0x11;
    pub(in super::super) const LESS_OR_EQUAL: u8 = 0x12;
    pub(in super::super) const GREATER_OR_EQUAL: u8 = 0x1d;
    pub(in super::super) const GREATER: u8 = 0x1e;
    pub(in super::super) const NOT_LESS: u8 = 0x15;
    pub(in super::super) const INT_LESS: u8 = 1;
    pub(in super::super) const INT_LESS_OR_EQUAL: u8 = 2;
    pub(in super::super) const INT_GREATER_OR_EQUAL: u8 = 5;
    pub(in super::super) const INT_GREATER: u8 = 6;
}

/// The comparison of a code, its relation, and where its second operand is.
pub(super) fn comparison(code: Code) -> Option<(Name, u8, Other)> {
    use Code::*;
    use Name::{Compare as F, IntCompare as I, UintCompare as U};
    use Other::{Constant as C, Value as V};
    use relation::*;
    Some(match code {
        Eq => (F, EQUAL, V),
        EqC => (F, EQUAL, C),
        Ne => (F, NOT_EQUAL, V),
        NeC => (F, NOT_EQUAL, C),
        Lt => (F, LESS, V),
        LtC => (F, LESS, C),
        Le => (F, LESS_OR_EQUAL, V),
        LeC => (F, LESS_OR_EQUAL, C),
        Gt => (F, GREATER, V),
        GtC => (F, GREATER, C),
        Ge => (F, GREATER_OR_EQUAL, V),
        GeC => (F, GREATER_OR_EQUAL, C),
        IntEq => (I, EQUAL, V),
        IntEqC => (I, EQUAL, C),
        IntNe => (I, NOT_EQUAL, V),
        IntNeC => (I, NOT_EQUAL, C),
        IntLt => (I, INT_LESS, V),
        IntLtC => (I, INT_LESS, C),
        IntLe => (I, INT_LESS_OR_EQUAL, V),
        IntLeC => (I, INT_LESS_OR_EQUAL, C),
        IntGt => (I, INT_GREATER, V),
        IntGtC => (I, INT_GREATER, C),
        IntGe => (I, INT_GREATER_OR_EQUAL, V),
        IntGeC => (I, INT_GREATER_OR_EQUAL, C),
        UintLt => (U, INT_LESS, V),
        UintLtC => (U, INT_LESS, C),
        UintLe => (U, INT_LESS_OR_EQUAL, V),
        UintLeC => (U, INT_LESS_OR_EQUAL, C),
        UintGt => (U, INT_GREATER, V),
        UintGtC => (U, INT_GREATER, C),
        UintGe => (U, INT_GREATER_OR_EQUAL, V),
        UintGeC => (U, INT_GREATER_OR_EQUAL, C),
        _ => return None,
    })
}
