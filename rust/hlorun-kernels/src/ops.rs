//! The names of the operations, as XLA names its opcodes.

/// Unary elementwise operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum UnaryOp {
    Abs,
    Negate,
    Sign,
    Floor,
    Ceil,
    RoundNearestAfz,
    RoundNearestEven,
    IsFinite,
    Not,
    PopulationCount,
    CountLeadingZeros,
    Exp,
    Expm1,
    Log,
    Log1p,
    Logistic,
    Sqrt,
    Rsqrt,
    Cbrt,
    Sin,
    Cos,
    Tan,
    Tanh,
    Erf,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Sinh,
    Cosh,
    Real,
    Imag,
}

impl UnaryOp {
    /// Every operation, in declaration order.
    pub const ALL: [UnaryOp; 34] = {
        use UnaryOp::*;
        [
            Abs,
            Negate,
            Sign,
            Floor,
            Ceil,
            RoundNearestAfz,
            RoundNearestEven,
            IsFinite,
            Not,
            PopulationCount,
            CountLeadingZeros,
            Exp,
            Expm1,
            Log,
            Log1p,
            Logistic,
            Sqrt,
            Rsqrt,
            Cbrt,
            Sin,
            Cos,
            Tan,
            Tanh,
            Erf,
            Acos,
            Acosh,
            Asin,
            Asinh,
            Atan,
            Atanh,
            Sinh,
            Cosh,
            Real,
            Imag,
        ]
    };
}

/// Binary elementwise operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    /// The upper half of an integer product in twice the width.
    MultiplyHigh,
    Divide,
    Remainder,
    Maximum,
    Minimum,
    Power,
    Atan2,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
}

impl BinaryOp {
    /// Every operation, in declaration order.
    pub const ALL: [BinaryOp; 16] = {
        use BinaryOp::*;
        [
            Add,
            Subtract,
            Multiply,
            MultiplyHigh,
            Divide,
            Remainder,
            Maximum,
            Minimum,
            Power,
            Atan2,
            And,
            Or,
            Xor,
            ShiftLeft,
            ShiftRightArithmetic,
            ShiftRightLogical,
        ]
    };
}

/// The relation a comparison tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CompareDirection {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl CompareDirection {
    /// Every direction, in declaration order.
    pub const ALL: [CompareDirection; 6] = {
        use CompareDirection::*;
        [Eq, Ne, Lt, Le, Gt, Ge]
    };
}

/// The order a comparison uses. They differ for floats only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOrder {
    /// IEEE: NaN is unordered, -0 equals +0.
    Partial,
    /// `-NaN < -inf < … < -0 < +0 < … < +inf < +NaN`.
    Total,
}
