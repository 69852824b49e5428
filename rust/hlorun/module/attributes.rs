//! Attributes of instructions: `key=value` after the operands, kept in the order of the text.
//!
//! A value is stored by its syntactic form; what it means is asked through the typed accessors of
//! `InstructionRef`. Keys that are not in the table are kept as they were written.

use smallvec::SmallVec;

use super::ids::{ComputationId, InstructionId, LiteralId, PoolRange};
use super::names::TextRef;
use super::sharding::HloSharding;
use crate::types::{ShapeId, ShapeIndex};

macro_rules! attribute_keys {
    ($($variant:ident $name:literal;)*) => {
        /// Name of an attribute.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum AttrKey {
            $($variant,)*
            /// A key hlorun does not know, by its text.
            Other(TextRef),
        }

        const KEYS: &[(AttrKey, &str)] = &[$((AttrKey::$variant, $name)),*];

        impl AttrKey {
            /// The key in the text; `None` for [`AttrKey::Other`].
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(AttrKey::$variant => Some($name),)*
                    AttrKey::Other(_) => None,
                }
            }
        }
    };
}

attribute_keys! {
    Algorithm "algorithm";
    ApiVersion "api_version";
    AsyncExecutionThread "async_execution_thread";
    AsyncGroupId "async_group_id";
    BackendConfig "backend_config";
    BatchGroupCount "batch_group_count";
    Body "body";
    BranchComputations "branch_computations";
    CalledComputations "called_computations";
    Calls "calls";
    ChannelId "channel_id";
    CollapsedSliceDims "collapsed_slice_dims";
    Condition "condition";
    ConvKind "conv_kind";
    ConstrainLayout "constrain_layout";
    ControlPredecessors "control-predecessors";
    CrossProgramPrefetchIndex "cross_program_prefetch_index";
    CustomCallHasSideEffect "custom_call_has_side_effect";
    CustomCallSchedule "schedule";
    CustomCallTarget "custom_call_target";
    Delta "delta";
    DimLabels "dim_labels";
    Dimensions "dimensions";
    Direction "direction";
    Distribution "distribution";
    Domain "domain";
    DynamicSliceSizes "dynamic_slice_sizes";
    Epsilon "epsilon";
    ExponentBits "exponent_bits";
    FalseComputation "false_computation";
    FeatureGroupCount "feature_group_count";
    FeatureIndex "feature_index";
    FftLength "fft_length";
    FftType "fft_type";
    FrontendAttributes "frontend_attributes";
    Index "index";
    IndexVectorDim "index_vector_dim";
    IndicesAreSorted "indices_are_sorted";
    InferredDimension "inferred_dimension";
    InfeedConfig "infeed_config";
    InputBatchingDims "input_batching_dims";
    InsertedWindowDims "inserted_window_dims";
    InvertPermutation "invert_permutation";
    IotaDimension "iota_dimension";
    IsComposite "is_composite";
    IsCrossProgramPrefetch "is_cross_program_prefetch";
    IsHostTransfer "is_host_transfer";
    IsStable "is_stable";
    IsReverse "is_reverse";
    IsAssociative "is_associative";
    NumCarries "num_carries";
    K "k";
    Kind "kind";
    Largest "largest";
    LeftSide "left_side";
    LhsBatchDims "lhs_batch_dims";
    LhsContractingDims "lhs_contracting_dims";
    LhsRaggedDims "lhs_ragged_dims";
    Literal "literal";
    Lower "lower";
    MantissaBits "mantissa_bits";
    Metadata "metadata";
    Mode "mode";
    OffsetDims "offset_dims";
    OperandBatchingDims "operand_batching_dims";
    OperandLayoutConstraints "operand_layout_constraints";
    OperandPrecision "operand_precision";
    Origin "origin";
    OriginalValue "original_value";
    OutfeedConfig "outfeed_config";
    OutfeedShape "outfeed_shape";
    OutputOperandAliasing "output_to_operand_aliasing";
    Padding "padding";
    PaddingType "padding_type";
    ParameterReplication "parameter_replication";
    ReplicaGroups "replica_groups";
    ResultAccuracy "result_accuracy";
    RhsBatchDims "rhs_batch_dims";
    RhsContractingDims "rhs_contracting_dims";
    RhsGroupDims "rhs_group_dims";
    ScatterDimsToOperandDims "scatter_dims_to_operand_dims";
    ScatterIndicesBatchingDims "scatter_indices_batching_dims";
    ScatterComputation "scatter";
    SelectComputation "select";
    Sharding "sharding";
    Slice "slice";
    SliceSizes "slice_sizes";
    SliceSizesPerDim "slice_sizes_per_dim";
    SourceTargetPairs "source_target_pairs";
    Sparsity "sparsity";
    SplitDimension "split_dimension";
    StartIndexMap "start_index_map";
    StartIndicesBatchingDims "start_indices_batching_dims";
    Statistics "statistics";
    ToApply "to_apply";
    TransposeA "transpose_a";
    TransposeB "transpose_b";
    TrueComputation "true_computation";
    Type "type";
    UniqueIndices "unique_indices";
    UnitDiagonal "unit_diagonal";
    UpdateWindowDims "update_window_dims";
    UseGlobalDeviceIds "use_global_device_ids";
    Window "window";
}

impl AttrKey {
    /// Every key of the table.
    pub fn all() -> impl Iterator<Item = AttrKey> {
        KEYS.iter().map(|row| row.0)
    }

    /// Whether its numbers are sizes of dimensions.
    pub fn holds_sizes(self) -> bool {
        matches!(
            self,
            AttrKey::DynamicSliceSizes | AttrKey::SliceSizes | AttrKey::SliceSizesPerDim
        )
    }

    /// Looks a key up by its text.
    pub fn from_name(name: &[u8]) -> Option<AttrKey> {
        KEYS.iter()
            .find(|row| row.1.as_bytes() == name)
            .map(|row| row.0)
    }
}

/// One dimension of a `window={…}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WindowDimension {
    /// Elements the window covers (before dilation).
    pub size: i64,
    /// Distance between window positions.
    pub stride: i64,
    /// Padding before the first element; may be negative.
    pub padding_low: i64,
    /// Padding after the last element; may be negative.
    pub padding_high: i64,
    /// `rhs_dilate`: distance between elements of the window.
    pub window_dilation: i64,
    /// `lhs_dilate`: distance between elements of the base.
    pub base_dilation: i64,
    /// `rhs_reversal`: the window is read backwards.
    pub window_reversal: bool,
}

impl Default for WindowDimension {
    fn default() -> WindowDimension {
        WindowDimension {
            size: 1,
            stride: 1,
            padding_low: 0,
            padding_high: 0,
            window_dilation: 1,
            base_dilation: 1,
            window_reversal: false,
        }
    }
}

impl WindowDimension {
    /// Each window is the element at its own place.
    pub fn is_trivial(&self) -> bool {
        let plain = WindowDimension {
            window_dilation: self.window_dilation,
            window_reversal: self.window_reversal,
            ..WindowDimension::default()
        };
        *self == plain
    }
}

/// `window={size=3x3 stride=2x2 …}`; empty for a window over no dimension.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Window(pub SmallVec<[WindowDimension; 4]>);

/// One dimension of `padding=low_high[_interior]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PaddingDimension {
    /// Elements added before; negative removes.
    pub edge_low: i64,
    /// Elements added after; negative removes.
    pub edge_high: i64,
    /// Elements between neighbours; never negative.
    pub interior: i64,
}

/// One dimension of `slice={[start:limit:stride]}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SliceDimension {
    /// First index.
    pub start: i64,
    /// One past the last index.
    pub limit: i64,
    /// Step, at least 1.
    pub stride: i64,
}

/// `dim_labels=b01f_01io->b01f`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs)]
pub struct ConvolutionDimensionNumbers {
    pub input_batch: i64,
    pub input_feature: i64,
    pub input_spatial: SmallVec<[i64; 3]>,
    pub kernel_input_feature: i64,
    pub kernel_output_feature: i64,
    pub kernel_spatial: SmallVec<[i64; 3]>,
    pub output_batch: i64,
    pub output_feature: i64,
    pub output_spatial: SmallVec<[i64; 3]>,
}

/// Groups of devices a collective runs over.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ReplicaGroups {
    /// `{{0,1},{2,3}}`; no group at all means one group of everybody.
    List(Vec<Vec<i64>>),
    /// `[2,4]<=[4,2]T(1,0)`: groups × devices, dimensions of the iota, its transpose.
    Iota {
        /// Number of groups, devices in each (and further dimensions where the text has them).
        tile: Vec<i64>,
        /// Dimensions the iota is reshaped to.
        reshape: Vec<i64>,
        /// Permutation applied to it; empty for the identity.
        transpose: Vec<i64>,
    },
    /// Named mesh axes, kept as written.
    Mesh(TextRef),
}

/// One entry of `output_to_operand_aliasing={{0}: (1, {})}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OutputOperandAlias {
    /// Where in the output.
    pub output: ShapeIndex,
    /// Which operand.
    pub operand: i64,
    /// Where in the operand.
    pub operand_index: ShapeIndex,
}

/// The value of an attribute, by its form in the text.
#[derive(Clone, PartialEq, Debug)]
pub enum AttrValue {
    /// `true`, `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A decimal number.
    Float(f64),
    /// `{1,0}`, in the module's integer pool.
    Ints(PoolRange),
    /// An identifier such as `EQ` or `kLoop`.
    Enum(TextRef),
    /// `{highest,default}`.
    Enums(Box<[TextRef]>),
    /// A quoted string; the text between the quotes, escapes as written.
    String(TextRef),
    /// One computation.
    Computation(ComputationId),
    /// `{a, b}`.
    Computations(Box<[ComputationId]>),
    /// Instructions of the same computation.
    Instructions(Box<[InstructionId]>),
    /// `window`.
    Window(Box<Window>),
    /// `padding` of `pad`.
    Padding(Box<[PaddingDimension]>),
    /// `slice`.
    Slice(Box<[SliceDimension]>),
    /// `dim_labels`.
    DimLabels(Box<ConvolutionDimensionNumbers>),
    /// `replica_groups`.
    ReplicaGroups(Box<ReplicaGroups>),
    /// `{{0,1},{1,0}}`.
    Pairs(Box<[(i64, i64)]>),
    /// Booleans in braces.
    Bools(Box<[bool]>),
    /// `output_to_operand_aliasing`.
    Aliasing(Box<[OutputOperandAlias]>),
    /// `sharding`.
    Sharding(Box<HloSharding>),
    /// A shape, as of `outfeed_shape`.
    Shape(ShapeId),
    /// `{f32[2]{0}, …}`.
    Shapes(Box<[ShapeId]>),
    /// The value of a `constant`, or `literal=`.
    Literal(LiteralId),
    /// Anything else, as written: metadata and braces are understood when asked for.
    Raw(TextRef),
}

impl AttrValue {
    /// Heap bytes held beside the module's pools.
    pub fn heap_size(&self) -> usize {
        use std::mem::{size_of, size_of_val};
        fn spilled<A: smallvec::Array>(list: &SmallVec<A>) -> usize {
            match list.spilled() {
                true => list.capacity() * size_of::<A::Item>(),
                false => 0,
            }
        }
        match self {
            AttrValue::Bool(_)
            | AttrValue::Int(_)
            | AttrValue::Float(_)
            | AttrValue::Ints(_)
            | AttrValue::Enum(_)
            | AttrValue::String(_)
            | AttrValue::Computation(_)
            | AttrValue::Shape(_)
            | AttrValue::Literal(_)
            | AttrValue::Raw(_) => 0,
            AttrValue::Enums(list) => size_of_val(&list[..]),
            AttrValue::Computations(list) => size_of_val(&list[..]),
            AttrValue::Instructions(list) => size_of_val(&list[..]),
            AttrValue::Window(window) => size_of::<Window>() + spilled(&window.0),
            AttrValue::Padding(list) => size_of_val(&list[..]),
            AttrValue::Slice(list) => size_of_val(&list[..]),
            AttrValue::DimLabels(_) => size_of::<ConvolutionDimensionNumbers>(),
            AttrValue::ReplicaGroups(groups) => {
                size_of::<ReplicaGroups>()
                    + match &**groups {
                        ReplicaGroups::List(list) => list
                            .iter()
                            .map(|group| size_of::<Vec<i64>>() + size_of_val(&group[..]))
                            .sum(),
                        ReplicaGroups::Iota {
                            tile,
                            reshape,
                            transpose,
                        } => (tile.len() + reshape.len() + transpose.len()) * size_of::<i64>(),
                        ReplicaGroups::Mesh(_) => 0,
                    }
            }
            AttrValue::Pairs(list) => size_of_val(&list[..]),
            AttrValue::Bools(list) => list.len(),
            AttrValue::Aliasing(list) => size_of_val(&list[..]),
            AttrValue::Sharding(_) => size_of::<HloSharding>(),
            AttrValue::Shapes(list) => size_of_val(&list[..]),
        }
    }
}

/// One `key=value`.
#[derive(Clone, PartialEq, Debug)]
pub struct Attribute {
    /// Its name.
    pub key: AttrKey,
    /// Its value.
    pub value: AttrValue,
}
