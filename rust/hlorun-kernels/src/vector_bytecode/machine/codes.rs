//! What the codes of vector bytecode are in instructions.
//!
//! In: a code. Out: the addresses it reads and writes, and the instruction it is, where it is one.

use super::super::code::{Code, Micro};
use super::instructions::Mnemonic;

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

/// `with_twins!(CODE; VALUE CONSTANT => result, …)`: the result of a code whose second operand is a value, and of its
/// twin with a constant, and which of the two it is.
macro_rules! with_twins {
    ($code:expr; $($value:ident $constant:ident => $result:expr,)*) => {
        match $code {
            $(Code::$value => Some(($result, Other::Value)),
            Code::$constant => Some(($result, Other::Constant)),)*
            _ => None,
        }
    };
}

/// The instruction of a code that is one, whether its second operand is the left one, and where that is.
pub(super) fn one_instruction(code: Code) -> Option<((Mnemonic, bool), Other)> {
    use Mnemonic::*;
    with_twins!(code;
        Add AddC => (Add, false),
        Sub SubC => (Subtract, false),
        RSub RSubC => (Subtract, true),
        Mul MulC => (Multiply, false),
        Div DivC => (Divide, false),
        RDiv RDivC => (Divide, true),
        IntAdd IntAddC => (IntAdd, false),
        IntSub IntSubC => (IntSubtract, false),
        RIntSub RIntSubC => (IntSubtract, true),
        IntMul IntMulC => (IntMultiply, false),
        And AndC => (And, false),
        Or OrC => (Or, false),
        Xor XorC => (Xor, false),
        Shl ShlC => (ShiftLeft, false),
        Shr ShrC => (ShiftRight, false),
        Sar SarC => (ShiftRightSigned, false),
        IntMax IntMaxC => (IntLarger, false),
        IntMin IntMinC => (IntSmaller, false),
        UintMax UintMaxC => (UintLarger, false),
        UintMin UintMinC => (UintSmaller, false),
    )
    .or_else(|| (code == Code::RotateC).then_some(((RotateLeft, false), Other::Constant)))
}

/// Numbers of predicates, of floats and of integers. With NaN, "not equal", "unordered" and "not less" are true.
pub(super) mod predicate {
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

/// The comparison of a code and its predicate, and where its second operand is.
pub(super) fn comparison(code: Code) -> Option<((Mnemonic, u8), Other)> {
    use Mnemonic::{Compare as F, IntCompare as I, UintCompare as U};
    use predicate::*;
    with_twins!(code;
        Eq EqC => (F, EQUAL),
        Ne NeC => (F, NOT_EQUAL),
        Lt LtC => (F, LESS),
        Le LeC => (F, LESS_OR_EQUAL),
        Gt GtC => (F, GREATER),
        Ge GeC => (F, GREATER_OR_EQUAL),
        IntEq IntEqC => (I, EQUAL),
        IntNe IntNeC => (I, NOT_EQUAL),
        IntLt IntLtC => (I, INT_LESS),
        IntLe IntLeC => (I, INT_LESS_OR_EQUAL),
        IntGt IntGtC => (I, INT_GREATER),
        IntGe IntGeC => (I, INT_GREATER_OR_EQUAL),
        UintLt UintLtC => (U, INT_LESS),
        UintLe UintLeC => (U, INT_LESS_OR_EQUAL),
        UintGt UintGtC => (U, INT_GREATER),
        UintGe UintGeC => (U, INT_GREATER_OR_EQUAL),
    )
}
