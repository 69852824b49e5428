//! Which attributes an opcode has: those that XLA prints, in its order, whatever the text's order is,
//! and those that a text may have beside them.

use crate::module::AttrKey::{self, *};
use crate::module::{HloOpcode, OpClass};

/// Attributes that only some opcodes have, in print order. Long because it is a table with a row per opcode.
pub fn extra_attributes(opcode: HloOpcode) -> &'static [AttrKey] {
    use HloOpcode as Op;
    match opcode {
        Op::BatchNormGrad | Op::BatchNormInference | Op::BatchNormTraining => {
            &[Epsilon, FeatureIndex]
        }
        Op::Fft => &[FftType, FftLength],
        Op::AsyncStart | Op::AsyncUpdate | Op::AsyncDone => &[AsyncGroupId, AsyncExecutionThread],
        Op::CopyStart => &[IsCrossProgramPrefetch, CrossProgramPrefetchIndex],
        Op::Compare => &[Direction, Type],
        Op::TriangularSolve => &[LeftSide, Lower, UnitDiagonal, TransposeA],
        Op::Cholesky => &[Lower],
        Op::TopK => &[K, Largest],
        Op::Send | Op::SendDone | Op::Recv | Op::RecvDone => &[ChannelId, IsHostTransfer],
        Op::AllGather | Op::AllGatherStart => &[
            ChannelId,
            ReplicaGroups,
            ConstrainLayout,
            Dimensions,
            UseGlobalDeviceIds,
        ],
        Op::AllReduce | Op::AllReduceStart | Op::ReduceScatter => &[
            ChannelId,
            ReplicaGroups,
            ConstrainLayout,
            UseGlobalDeviceIds,
            Dimensions,
        ],
        Op::AllToAll | Op::RaggedAllToAll | Op::CollectiveBroadcast => &[
            ChannelId,
            ReplicaGroups,
            ConstrainLayout,
            Dimensions,
            SplitDimension,
        ],
        Op::CollectivePermute | Op::CollectivePermuteStart => {
            &[ChannelId, SourceTargetPairs, SliceSizes]
        }
        Op::Reverse | Op::Concatenate | Op::Reduce | Op::Transpose | Op::Broadcast | Op::Map => {
            &[Dimensions]
        }
        Op::Reshape => &[InferredDimension],
        Op::Sort => &[Dimensions, IsStable],
        Op::Scan => &[Dimensions, NumCarries, IsReverse, IsAssociative],
        Op::Slice => &[Slice],
        Op::Parameter => &[ParameterReplication],
        Op::GetTupleElement => &[Index],
        Op::Iota => &[IotaDimension],
        Op::ReducePrecision => &[ExponentBits, MantissaBits],
        Op::Infeed => &[InfeedConfig],
        Op::Outfeed => &[OutfeedShape, OutfeedConfig],
        Op::Convolution => &[
            Window,
            DimLabels,
            FeatureGroupCount,
            BatchGroupCount,
            OperandPrecision,
            Algorithm,
        ],
        Op::ReduceWindow | Op::SelectAndScatter => &[Window],
        Op::CustomCall => &[
            Window,
            DimLabels,
            FeatureGroupCount,
            BatchGroupCount,
            OperandPrecision,
            Algorithm,
            PaddingType,
            CustomCallTarget,
            OperandLayoutConstraints,
            CustomCallHasSideEffect,
            Literal,
            OutputOperandAliasing,
            CustomCallSchedule,
            ApiVersion,
        ],
        Op::Pad => &[Padding],
        Op::DynamicSlice => &[DynamicSliceSizes],
        Op::Gather => &[
            OffsetDims,
            CollapsedSliceDims,
            StartIndexMap,
            OperandBatchingDims,
            StartIndicesBatchingDims,
            IndexVectorDim,
            SliceSizes,
            IndicesAreSorted,
        ],
        Op::Scatter => &[
            UpdateWindowDims,
            InsertedWindowDims,
            ScatterDimsToOperandDims,
            InputBatchingDims,
            ScatterIndicesBatchingDims,
            IndexVectorDim,
            IndicesAreSorted,
            UniqueIndices,
        ],
        Op::Dot | Op::RaggedDot | Op::ScaledDot => &[
            LhsBatchDims,
            LhsContractingDims,
            RhsBatchDims,
            RhsContractingDims,
            LhsRaggedDims,
            RhsGroupDims,
            OperandPrecision,
            Algorithm,
            Sparsity,
        ],
        Op::Domain => &[Domain],
        Op::GetDimensionSize | Op::SetDimensionSize => &[Dimensions],
        Op::Rng => &[Distribution],
        Op::RngBitGenerator => &[Algorithm],
        Op::RngGetAndUpdateState => &[Delta],
        Op::Fusion => &[Kind, OutputOperandAliasing],
        _ => &[],
    }
}

/// Attributes that name the computations an opcode calls, in print order.
pub fn computation_attributes(opcode: HloOpcode) -> &'static [AttrKey] {
    use HloOpcode as Op;
    match opcode {
        Op::While => &[Condition, Body],
        Op::SelectAndScatter => &[SelectComputation, ScatterComputation],
        Op::Conditional => &[TrueComputation, FalseComputation, BranchComputations],
        Op::Call
        | Op::Map
        | Op::ReduceWindow
        | Op::Reduce
        | Op::AllReduce
        | Op::AllReduceStart
        | Op::ReduceScatter
        | Op::Scatter
        | Op::Sort
        | Op::Scan => &[ToApply, IsComposite],
        Op::CustomCall => &[ToApply, CalledComputations],
        Op::AsyncStart | Op::AsyncUpdate | Op::AsyncDone | Op::Fusion => &[Calls],
        Op::Unknown => &[
            ToApply,
            Calls,
            CalledComputations,
            Condition,
            Body,
            SelectComputation,
            ScatterComputation,
            TrueComputation,
            FalseComputation,
            BranchComputations,
        ],
        _ => &[],
    }
}

/// Attributes every opcode may have, which stand in fixed places after the others.
pub const COMMON: [AttrKey; 9] = [
    Sharding,
    FrontendAttributes,
    ControlPredecessors,
    Statistics,
    ResultAccuracy,
    OriginalValue,
    Origin,
    Metadata,
    BackendConfig,
];

/// Whether `key` has a place of its own among the attributes of `opcode`.
pub fn is_attribute_of(opcode: HloOpcode, key: AttrKey) -> bool {
    COMMON.contains(&key)
        || extra_attributes(opcode).contains(&key)
        || computation_attributes(opcode).contains(&key)
}

/// Collectives among groups of devices.
macro_rules! grouped {
    () => {
        HloOpcode::AllGather
            | HloOpcode::AllGatherStart
            | HloOpcode::AllReduce
            | HloOpcode::AllReduceStart
            | HloOpcode::ReduceScatter
            | HloOpcode::AllToAll
            | HloOpcode::RaggedAllToAll
            | HloOpcode::CollectiveBroadcast
    };
}

/// Attributes that XLA of some year reads, but that it prints nowhere or in another form.
fn read_only_attributes(opcode: HloOpcode) -> &'static [AttrKey] {
    use HloOpcode as Op;
    match opcode {
        grouped!() | Op::CollectivePermute | Op::CollectivePermuteStart => {
            &[Mode, UseGlobalDeviceIds]
        }
        Op::AllGatherDone | Op::AllReduceDone | Op::CollectivePermuteDone => &[ChannelId],
        Op::Convolution => &[ConvKind, PaddingType, Sparsity],
        Op::CustomCall => &[ConvKind],
        Op::Call => &[OutputOperandAliasing, Calls],
        Op::DynamicReshape => &[InferredDimension],
        Op::Domain => &[Domain],
        _ => &[],
    }
}

/// Whether XLA of any year reads `key` on an `opcode`; `is_async` on one that is written with
/// `-start`, `-update` or `-done`.
pub fn may_have(opcode: HloOpcode, is_async: bool, key: AttrKey) -> bool {
    match key {
        // What no machine computes exactly.
        ResultAccuracy => opcode.is_transcendental() && opcode.class() == OpClass::Unary,
        ParameterReplication => true,
        AsyncExecutionThread | AsyncGroupId | Calls | CalledComputations if is_async => true,
        _ => {
            opcode == HloOpcode::Unknown
                || is_attribute_of(opcode, key)
                || read_only_attributes(opcode).contains(&key)
        }
    }
}

/// Those of them that an operation wrapped into an asynchronous one shows as well, in print order.
pub const SHARED: [AttrKey; 5] = [
    Sharding,
    FrontendAttributes,
    ControlPredecessors,
    Statistics,
    ResultAccuracy,
];

/// Lists that are left out when they have no element.
pub fn is_left_out_when_empty(key: AttrKey) -> bool {
    matches!(
        key,
        LhsBatchDims
            | RhsBatchDims
            | LhsRaggedDims
            | RhsGroupDims
            | OperandBatchingDims
            | StartIndicesBatchingDims
            | InputBatchingDims
            | ScatterIndicesBatchingDims
            | ControlPredecessors
            | OutputOperandAliasing
            | InfeedConfig
            | OutfeedConfig
    )
}

/// What an attribute that the text left out is printed as, where XLA always prints it.
pub fn always_printed(opcode: HloOpcode, key: AttrKey) -> Option<&'static str> {
    use HloOpcode as Op;
    match (opcode, key) {
        (Op::Dot | Op::RaggedDot | Op::ScaledDot, LhsContractingDims | RhsContractingDims) => {
            Some("{}")
        }
        (grouped!(), ReplicaGroups) => Some("{}"),
        (Op::Scan, IsAssociative) => Some("false"),
        _ => None,
    }
}
