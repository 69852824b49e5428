//! The names of the operations, as XLA names its opcodes.

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

/// The order a comparison uses. They differ for floats only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOrder {
    /// IEEE: NaN is unordered, -0 equals +0.
    Partial,
    /// `-NaN < -inf < … < -0 < +0 < … < +inf < +NaN`.
    Total,
}
