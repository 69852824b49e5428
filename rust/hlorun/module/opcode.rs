//! The one table of opcodes: text name, arity and class.
//!
//! Stages match on [`OpClass`] exhaustively, so that the compiler lists what a new class touches;
//! a new opcode of an existing class is one row here.

/// A pattern: classes that compute each element of their result from one of each operand.
macro_rules! elementwise_classes {
    () => {
        OpClass::Unary
            | OpClass::Binary
            | OpClass::Compare
            | OpClass::Select
            | OpClass::Clamp
            | OpClass::Convert
            | OpClass::Complex
    };
}

/// A pattern: classes that have a thunk of their own and no effect.
macro_rules! operation_classes {
    () => {
        OpClass::GatherScatter
            | OpClass::Dot
            | OpClass::Convolution
            | OpClass::Window
            | OpClass::Map
            | OpClass::Scan
            | OpClass::Sort
            | OpClass::Fft
            | OpClass::LinearAlgebra
            | OpClass::BatchNorm
            | OpClass::DynamicShape
    };
}

pub(crate) use {elementwise_classes, operation_classes};

/// What family an opcode belongs to; the stages dispatch on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpClass {
    /// One operand, result element by element.
    Unary,
    /// Two operands, result element by element.
    Binary,
    /// `compare`.
    Compare,
    /// `select`: predicate, on-true, on-false.
    Select,
    /// `clamp`: min, operand, max.
    Clamp,
    /// `convert`, `reduce-precision`, `stochastic-convert`.
    Convert,
    /// `bitcast-convert`.
    BitcastConvert,
    /// `complex`, `real`, `imag`.
    Complex,
    /// `constant`.
    Constant,
    /// `parameter`.
    Parameter,
    /// `iota`.
    Iota,
    /// `tuple`, `get-tuple-element`.
    Tuple,
    /// Result elements are operand elements at affine positions: broadcast, reshape, transpose,
    /// slice, reverse, bitcast, copy.
    Movement,
    /// `pad`, `concatenate`: pieces of several operands.
    Assemble,
    /// `dynamic-slice`, `dynamic-update-slice`.
    DynamicIndex,
    /// `gather`, `scatter`.
    GatherScatter,
    /// `dot`, `ragged-dot`, `scaled-dot`.
    Dot,
    /// `convolution`.
    Convolution,
    /// `reduce`.
    Reduce,
    /// `reduce-window`, `select-and-scatter`.
    Window,
    /// `map`.
    Map,
    /// `scan`.
    Scan,
    /// `sort`, `topk`.
    Sort,
    /// `fft`.
    Fft,
    /// `cholesky`, `triangular-solve`.
    LinearAlgebra,
    /// `batch-norm-*`.
    BatchNorm,
    /// `rng`, `rng-bit-generator`, `rng-get-and-update-state`.
    Random,
    /// `while`, `conditional`, `call`, `fusion`, `async-*`.
    ControlFlow,
    /// `custom-call`.
    CustomCall,
    /// `all-reduce` and its kin.
    Collective,
    /// `replica-id`, `partition-id`.
    DeviceId,
    /// `get-dimension-size`, `set-dimension-size`, `dynamic-reshape`.
    DynamicShape,
    /// `after-all`, `add-dependency`, `opt-barrier`, `domain`: order or annotation, no arithmetic.
    Ordering,
    /// `copy-start`, `copy-done`.
    AsyncCopy,
    /// `infeed`, `outfeed`, `send`, `recv` and their `-done`.
    HostTransfer,
    /// An opcode hlorun does not know.
    Unknown,
}

/// Number of operands an opcode takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Arity {
    /// At least this many.
    pub min: u8,
    /// At most this many; `None` when there is no limit.
    pub max: Option<u8>,
}

macro_rules! opcodes {
    ($($variant:ident $name:literal $min:literal $max:tt $class:ident;)*) => {
        /// Every operation of HLO.
        #[repr(u8)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum HloOpcode { $($variant),* }

        const TABLE: &[(HloOpcode, &str, Arity, OpClass)] = &[
            $((HloOpcode::$variant, $name, Arity { min: $min, max: opcodes!(@max $max) }, OpClass::$class)),*
        ];
    };
    (@max n) => { None };
    (@max $max:literal) => { Some($max) };
}

opcodes! {
    Abs "abs" 1 1 Unary;
    Acos "acos" 1 1 Unary;
    Acosh "acosh" 1 1 Unary;
    Add "add" 2 2 Binary;
    AddDependency "add-dependency" 2 2 Ordering;
    AfterAll "after-all" 0 n Ordering;
    AllGather "all-gather" 1 n Collective;
    AllGatherDone "all-gather-done" 1 1 Collective;
    AllGatherStart "all-gather-start" 1 n Collective;
    AllReduce "all-reduce" 0 n Collective;
    AllReduceDone "all-reduce-done" 1 1 Collective;
    AllReduceStart "all-reduce-start" 0 n Collective;
    AllToAll "all-to-all" 1 n Collective;
    And "and" 2 2 Binary;
    Asin "asin" 1 1 Unary;
    Asinh "asinh" 1 1 Unary;
    AsyncDone "async-done" 1 1 ControlFlow;
    AsyncStart "async-start" 0 n ControlFlow;
    AsyncUpdate "async-update" 1 1 ControlFlow;
    Atan2 "atan2" 2 2 Binary;
    Atanh "atanh" 1 1 Unary;
    BatchNormGrad "batch-norm-grad" 5 5 BatchNorm;
    BatchNormInference "batch-norm-inference" 5 5 BatchNorm;
    BatchNormTraining "batch-norm-training" 3 3 BatchNorm;
    Bitcast "bitcast" 1 1 Movement;
    BitcastConvert "bitcast-convert" 1 1 BitcastConvert;
    Broadcast "broadcast" 1 1 Movement;
    Call "call" 0 n ControlFlow;
    Cbrt "cbrt" 1 1 Unary;
    Ceil "ceil" 1 1 Unary;
    Cholesky "cholesky" 1 1 LinearAlgebra;
    Clamp "clamp" 3 3 Clamp;
    CollectiveBroadcast "collective-broadcast" 1 n Collective;
    CollectivePermute "collective-permute" 1 n Collective;
    CollectivePermuteDone "collective-permute-done" 1 1 Collective;
    CollectivePermuteStart "collective-permute-start" 1 n Collective;
    Compare "compare" 2 2 Compare;
    Complex "complex" 2 2 Complex;
    Concatenate "concatenate" 1 n Assemble;
    Conditional "conditional" 2 n ControlFlow;
    Constant "constant" 0 0 Constant;
    Convert "convert" 1 1 Convert;
    Convolution "convolution" 2 2 Convolution;
    Copy "copy" 1 1 Movement;
    CopyDone "copy-done" 1 1 AsyncCopy;
    CopyStart "copy-start" 1 1 AsyncCopy;
    Cos "cosine" 1 1 Unary;
    Cosh "cosh" 1 1 Unary;
    Clz "count-leading-zeros" 1 1 Unary;
    CustomCall "custom-call" 0 n CustomCall;
    Divide "divide" 2 2 Binary;
    Domain "domain" 1 1 Ordering;
    Dot "dot" 2 4 Dot;
    DynamicReshape "dynamic-reshape" 1 n DynamicShape;
    DynamicSlice "dynamic-slice" 1 n DynamicIndex;
    DynamicUpdateSlice "dynamic-update-slice" 2 n DynamicIndex;
    Erf "erf" 1 1 Unary;
    Exp "exponential" 1 1 Unary;
    Expm1 "exponential-minus-one" 1 1 Unary;
    Fft "fft" 1 1 Fft;
    Floor "floor" 1 1 Unary;
    Fusion "fusion" 0 n ControlFlow;
    Gather "gather" 2 2 GatherScatter;
    GetDimensionSize "get-dimension-size" 1 1 DynamicShape;
    GetTupleElement "get-tuple-element" 1 1 Tuple;
    Imag "imag" 1 1 Complex;
    Infeed "infeed" 0 1 HostTransfer;
    Iota "iota" 0 0 Iota;
    IsFinite "is-finite" 1 1 Unary;
    Log "log" 1 1 Unary;
    Log1p "log-plus-one" 1 1 Unary;
    Logistic "logistic" 1 1 Unary;
    Map "map" 0 n Map;
    Maximum "maximum" 2 2 Binary;
    Minimum "minimum" 2 2 Binary;
    Mulhi "mulhi" 2 2 Binary;
    Multiply "multiply" 2 2 Binary;
    Negate "negate" 1 1 Unary;
    Not "not" 1 1 Unary;
    OptimizationBarrier "opt-barrier" 1 1 Ordering;
    Or "or" 2 2 Binary;
    Outfeed "outfeed" 1 2 HostTransfer;
    Pad "pad" 2 2 Assemble;
    Parameter "parameter" 0 0 Parameter;
    PartitionId "partition-id" 0 0 DeviceId;
    PopulationCount "popcnt" 1 1 Unary;
    Power "power" 2 2 Binary;
    RaggedAllToAll "ragged-all-to-all" 6 n Collective;
    RaggedDot "ragged-dot" 3 3 Dot;
    Real "real" 1 1 Complex;
    Recv "recv" 0 1 HostTransfer;
    RecvDone "recv-done" 1 1 HostTransfer;
    Reduce "reduce" 2 n Reduce;
    ReducePrecision "reduce-precision" 1 1 Convert;
    ReduceScatter "reduce-scatter" 1 n Collective;
    ReduceWindow "reduce-window" 2 n Window;
    Remainder "remainder" 2 2 Binary;
    ReplicaId "replica-id" 0 0 DeviceId;
    Reshape "reshape" 1 1 Movement;
    Reverse "reverse" 1 1 Movement;
    Rng "rng" 0 n Random;
    RngBitGenerator "rng-bit-generator" 1 1 Random;
    RngGetAndUpdateState "rng-get-and-update-state" 0 0 Random;
    RoundNearestAfz "round-nearest-afz" 1 1 Unary;
    RoundNearestEven "round-nearest-even" 1 1 Unary;
    Rsqrt "rsqrt" 1 1 Unary;
    ScaledDot "scaled-dot" 4 4 Dot;
    Scan "scan" 1 n Scan;
    Scatter "scatter" 3 n GatherScatter;
    Select "select" 3 3 Select;
    SelectAndScatter "select-and-scatter" 3 3 Window;
    Send "send" 1 2 HostTransfer;
    SendDone "send-done" 1 1 HostTransfer;
    SetDimensionSize "set-dimension-size" 2 2 DynamicShape;
    ShiftLeft "shift-left" 2 2 Binary;
    ShiftRightArithmetic "shift-right-arithmetic" 2 2 Binary;
    ShiftRightLogical "shift-right-logical" 2 2 Binary;
    Sign "sign" 1 1 Unary;
    Sin "sine" 1 1 Unary;
    Sinh "sinh" 1 1 Unary;
    Slice "slice" 1 1 Movement;
    Sort "sort" 1 n Sort;
    Sqrt "sqrt" 1 1 Unary;
    StochasticConvert "stochastic-convert" 2 2 Convert;
    Subtract "subtract" 2 2 Binary;
    Tan "tan" 1 1 Unary;
    Tanh "tanh" 1 1 Unary;
    TopK "topk" 1 1 Sort;
    Transpose "transpose" 1 1 Movement;
    TriangularSolve "triangular-solve" 2 2 LinearAlgebra;
    Tuple "tuple" 0 n Tuple;
    TupleSelect "tuple-select" 3 3 Select;
    While "while" 1 1 ControlFlow;
    Xor "xor" 2 2 Binary;
    Unknown "<unknown opcode>" 0 n Unknown;
}

impl HloOpcode {
    /// Every opcode HLO has; [`HloOpcode::Unknown`] is not one.
    pub fn all() -> impl Iterator<Item = HloOpcode> {
        TABLE
            .iter()
            .map(|row| row.0)
            .filter(|&op| op != HloOpcode::Unknown)
    }

    /// Whether it is a function that no machine computes exactly.
    pub fn is_transcendental(self) -> bool {
        use HloOpcode as Op;
        matches!(
            self,
            Op::Acos
                | Op::Acosh
                | Op::Asin
                | Op::Asinh
                | Op::Atan2
                | Op::Atanh
                | Op::Cbrt
                | Op::Cos
                | Op::Cosh
                | Op::Erf
                | Op::Exp
                | Op::Expm1
                | Op::Log
                | Op::Log1p
                | Op::Logistic
                | Op::Power
                | Op::Rsqrt
                | Op::Sin
                | Op::Sinh
                | Op::Sqrt
                | Op::Tan
                | Op::Tanh
        )
    }

    /// The collective that it begins, `all-reduce` for itself and for `all-reduce-start`; `None` for
    /// what ends one, and for everything else.
    pub fn collective(self) -> Option<HloOpcode> {
        use HloOpcode as Op;
        match self {
            Op::AllGatherStart => Some(Op::AllGather),
            Op::AllReduceStart => Some(Op::AllReduce),
            Op::CollectivePermuteStart => Some(Op::CollectivePermute),
            Op::AllGatherDone | Op::AllReduceDone | Op::CollectivePermuteDone => None,
            _ => (self.class() == OpClass::Collective).then_some(self),
        }
    }

    /// The name in HLO text, `"dynamic-update-slice"`.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// How many operands it takes.
    pub fn arity(self) -> Arity {
        TABLE[self as usize].2
    }

    /// Its family.
    pub fn class(self) -> OpClass {
        TABLE[self as usize].3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_declaration_order_and_names_are_unique() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index);
            assert!(TABLE[..index].iter().all(|other| other.1 != row.1));
        }
    }
}
