//! The names of the operations, as XLA names its opcodes.

use crate::DType;

listed! {
/// Unary elementwise operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum UnaryOp {
    Abs, Negate, Sign, Floor, Ceil, RoundNearestAfz, RoundNearestEven, IsFinite, Not, PopulationCount,
    CountLeadingZeros, Exp, Expm1, Log, Log1p, Logistic, Sqrt, Rsqrt, Cbrt, Sin, Cos, Tan, Tanh, Erf, Acos,
    Acosh, Asin, Asinh, Atan, Atanh, Sinh, Cosh, Real, Imag,
}
}

listed! {
/// Binary elementwise operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add, Subtract, Multiply,
    /// The upper half of an integer product in twice the width.
    MultiplyHigh,
    Divide, Remainder, Maximum, Minimum, Power, Atan2, And, Or, Xor, ShiftLeft, ShiftRightArithmetic,
    ShiftRightLogical,
}
}

listed! {
/// The relation a comparison tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CompareDirection {
    Eq, Ne, Lt, Le, Gt, Ge,
}
}

impl CompareDirection {
    /// The relation of the right operand to the left one.
    pub fn exchanged(self) -> CompareDirection {
        use CompareDirection::{Eq, Ge, Gt, Le, Lt, Ne};
        match self {
            Eq | Ne => self,
            Lt => Gt,
            Le => Ge,
            Gt => Lt,
            Ge => Le,
        }
    }
}

/// The order a comparison uses. They differ for floats only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOrder {
    /// IEEE: NaN is unordered, -0 equals +0.
    Partial,
    /// `-NaN < -inf < … < -0 < +0 < … < +inf < +NaN`.
    Total,
}

/// Whether one comparison with a float of these bits finds the larger one: it is neither NaN nor a negative zero.
pub(crate) fn is_lower_bound(bits: u64, dtype: DType) -> bool {
    let (is_nan, negative_zero) = match dtype {
        DType::F64 => (f64::from_bits(bits).is_nan(), (-0f64).to_bits()),
        _ => (
            f32::from_bits(bits as u32).is_nan(),
            u64::from((-0f32).to_bits()),
        ),
    };
    !is_nan && bits != negative_zero
}

/// Whether one comparison with a float of these bits finds the smaller one: it is neither NaN nor a positive zero.
pub(crate) fn is_upper_bound(bits: u64, dtype: DType) -> bool {
    let is_nan = match dtype {
        DType::F64 => f64::from_bits(bits).is_nan(),
        _ => f32::from_bits(bits as u32).is_nan(),
    };
    !is_nan && bits != 0
}
