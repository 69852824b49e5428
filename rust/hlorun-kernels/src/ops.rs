//! The names of the operations, as XLA names its opcodes.

/// An enumeration, and the list of all it has.
macro_rules! operations {
    ($(#[$about:meta])* $name:ident { $($(#[$each:meta])* $op:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum $name {
            $($(#[$each])* $op,)*
        }

        impl $name {
            /// Every one, in declaration order.
            pub const ALL: [$name; [$($name::$op),*].len()] = [$($name::$op),*];
        }
    };
}

operations! {
    /// Unary elementwise operations.
    UnaryOp {
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
}

operations! {
    /// Binary elementwise operations.
    BinaryOp {
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
}

operations! {
    /// The relation a comparison tests.
    CompareDirection {
        Eq,
        Ne,
        Lt,
        Le,
        Gt,
        Ge,
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
