//! Messages of `xla_data.proto`.

use prost::Message;
use prost::bytes::Bytes;
/// `padding` of `pad`.
#[derive(Clone, PartialEq, Message)]
pub struct PaddingConfig {
    #[prost(message, repeated, tag = "1")]
    pub dimensions: Vec<PaddingConfigDimension>,
}

/// One dimension of it.
#[derive(Clone, PartialEq, Message)]
pub struct PaddingConfigDimension {
    #[prost(int64, tag = "1")]
    pub edge_padding_low: i64,
    #[prost(int64, tag = "2")]
    pub edge_padding_high: i64,
    #[prost(int64, tag = "3")]
    pub interior_padding: i64,
}

numbered! {
    /// A shape.
    pub struct ShapeProto, shape {
        pub element_type: i32 = "2" (int32),
        pub dimensions: Vec<i64> = "3" (int64, repeated),
        pub is_dynamic_dimension: Vec<bool> = "6" (bool, repeated),
        /// [`ShapeProto`].
        pub tuple_shapes: Vec<Bytes> = "4" (bytes = "bytes", repeated),
        pub layout: Option<Box<LayoutProto>> = "5" (message, optional, boxed),
    }
}

numbered! {
    /// The layout of an array.
    pub struct LayoutProto, layout {
        pub minor_to_major: Vec<i64> = "1" (int64, repeated),
        pub dim_level_types: Vec<i32> = "9" (int32, repeated),
        pub dim_unique: Vec<bool> = "13" (bool, repeated),
        pub dim_ordered: Vec<bool> = "14" (bool, repeated),
        pub tiles: Vec<TileProto> = "6" (message, repeated),
        pub tail_padding_alignment_in_elements: i64 = "16" (int64),
        pub element_size_in_bits: i64 = "7" (int64),
        pub memory_space: i64 = "8" (int64),
        pub index_primitive_type: i32 = "11" (int32),
        pub pointer_primitive_type: i32 = "12" (int32),
        /// [`ShapeProto`].
        pub physical_shape: Option<Bytes> = "10" (bytes = "bytes", optional),
        pub dynamic_shape_metadata_prefix_bytes: i64 = "15" (int64),
        pub split_configs: Vec<SplitConfigProto> = "17" (message, repeated),
    }
}

/// A tile of it.
#[derive(Clone, PartialEq, Message)]
pub struct TileProto {
    #[prost(int64, repeated, tag = "1")]
    pub dimensions: Vec<i64>,
}

/// How a dimension is split between memories.
#[derive(Clone, PartialEq, Message)]
pub struct SplitConfigProto {
    #[prost(int64, tag = "1")]
    pub dimension: i64,
    #[prost(int64, repeated, tag = "2")]
    pub split_indices: Vec<i64>,
}

/// Shapes of parameters and result.
#[derive(Clone, PartialEq, Message)]
pub struct ProgramShapeProto {
    /// [`ShapeProto`].
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub parameters: Vec<Bytes>,
    /// [`ShapeProto`].
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub result: Option<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub parameter_names: Vec<Bytes>,
}

numbered! {
    /// Where an operation comes from.
    pub struct OpMetadata, op_metadata {
        pub op_type: Bytes = "1" (bytes = "bytes"),
        pub op_name: Bytes = "2" (bytes = "bytes"),
        pub source_file: Bytes = "3" (bytes = "bytes"),
        pub source_line: i32 = "4" (int32),
        pub source_end_line: i32 = "17" (int32),
        pub source_column: i32 = "18" (int32),
        pub source_end_column: i32 = "19" (int32),
        pub profile_type: Vec<i32> = "5" (int32, repeated),
        pub size_of_generated_code_in_bytes: i64 = "8" (int64),
        pub size_of_memory_working_set_in_bytes: i64 = "9" (int64),
        pub deduplicated_name: Bytes = "12" (bytes = "bytes"),
        pub stack_frame_id: i32 = "15" (int32),
        pub scheduling_name: Bytes = "16" (bytes = "bytes"),
    }
}

numbered! {
    /// A value. Elements stand in the order of its layout; those of two bytes and fewer are bytes.
    pub struct LiteralProto, literal {
        pub shape: Option<Box<ShapeProto>> = "1" (message, optional, boxed),
        pub preds: Vec<bool> = "2" (bool, repeated),
        pub s1s: Bytes = "30" (bytes = "bytes"),
        pub s2s: Bytes = "26" (bytes = "bytes"),
        pub s4s: Bytes = "21" (bytes = "bytes"),
        pub s8s: Bytes = "15" (bytes = "bytes"),
        pub u1s: Bytes = "31" (bytes = "bytes"),
        pub u2s: Bytes = "27" (bytes = "bytes"),
        pub u4s: Bytes = "22" (bytes = "bytes"),
        pub u8s: Bytes = "3" (bytes = "bytes"),
        pub s32s: Vec<i32> = "4" (int32, repeated),
        pub s64s: Vec<i64> = "5" (int64, repeated),
        pub u32s: Vec<u32> = "6" (uint32, repeated),
        pub u64s: Vec<u64> = "7" (uint64, repeated),
        pub f32s: Vec<f32> = "8" (float, repeated),
        pub f64s: Vec<f64> = "9" (double, repeated),
        pub c64s: Vec<f32> = "12" (float, repeated),
        pub c128s: Vec<f64> = "18" (double, repeated),
        /// [`LiteralProto`].
        pub tuple_literals: Vec<Bytes> = "10" (bytes = "bytes", repeated),
        pub f16s: Bytes = "11" (bytes = "bytes"),
        pub bf16s: Bytes = "13" (bytes = "bytes"),
        pub u16s: Bytes = "16" (bytes = "bytes"),
        pub s16s: Bytes = "17" (bytes = "bytes"),
        pub f4e2m1fns: Bytes = "32" (bytes = "bytes"),
        pub f8e3m4s: Bytes = "29" (bytes = "bytes"),
        pub f8e4m3b11fnuzs: Bytes = "23" (bytes = "bytes"),
        pub f8e4m3fns: Bytes = "20" (bytes = "bytes"),
        pub f8e4m3fnuzs: Bytes = "25" (bytes = "bytes"),
        pub f8e4m3s: Bytes = "28" (bytes = "bytes"),
        pub f8e5m2fnuzs: Bytes = "24" (bytes = "bytes"),
        pub f8e5m2s: Bytes = "19" (bytes = "bytes"),
        pub f8e8m0fnus: Bytes = "33" (bytes = "bytes"),
        pub sparse_indices: Vec<i64> = "14" (int64, repeated),
        pub dynamic_sizes: Vec<i32> = "34" (int32, repeated),
    }
}

/// The window of a convolution or reduction.
#[derive(Clone, PartialEq, Message)]
pub struct Window {
    #[prost(message, repeated, tag = "1")]
    pub dimensions: Vec<WindowDimension>,
}

/// One dimension of it.
#[derive(Clone, PartialEq, Message)]
pub struct WindowDimension {
    #[prost(int64, tag = "1")]
    pub size: i64,
    #[prost(int64, tag = "2")]
    pub stride: i64,
    #[prost(int64, tag = "3")]
    pub padding_low: i64,
    #[prost(int64, tag = "4")]
    pub padding_high: i64,
    #[prost(int64, tag = "5")]
    pub window_dilation: i64,
    #[prost(int64, tag = "6")]
    pub base_dilation: i64,
    #[prost(bool, tag = "7")]
    pub window_reversal: bool,
}

/// The dimensions of a `gather`.
#[derive(Clone, PartialEq, Message)]
pub struct GatherDimensionNumbers {
    #[prost(int64, repeated, tag = "1")]
    pub offset_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub collapsed_slice_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub start_index_map: Vec<i64>,
    #[prost(int64, tag = "4")]
    pub index_vector_dim: i64,
    #[prost(int64, repeated, tag = "5")]
    pub operand_batching_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "6")]
    pub start_indices_batching_dims: Vec<i64>,
}

/// The dimensions of a `scatter`.
#[derive(Clone, PartialEq, Message)]
pub struct ScatterDimensionNumbers {
    #[prost(int64, repeated, tag = "1")]
    pub update_window_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub inserted_window_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub scatter_dims_to_operand_dims: Vec<i64>,
    #[prost(int64, tag = "4")]
    pub index_vector_dim: i64,
    #[prost(int64, repeated, tag = "5")]
    pub input_batching_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "6")]
    pub scatter_indices_batching_dims: Vec<i64>,
}

/// The dimensions of a `convolution`.
#[derive(Clone, PartialEq, Message)]
pub struct ConvolutionDimensionNumbers {
    #[prost(int64, tag = "7")]
    pub input_batch_dimension: i64,
    #[prost(int64, tag = "8")]
    pub input_feature_dimension: i64,
    #[prost(int64, repeated, tag = "11")]
    pub input_spatial_dimensions: Vec<i64>,
    #[prost(int64, tag = "3")]
    pub kernel_input_feature_dimension: i64,
    #[prost(int64, tag = "4")]
    pub kernel_output_feature_dimension: i64,
    #[prost(int64, repeated, tag = "6")]
    pub kernel_spatial_dimensions: Vec<i64>,
    #[prost(int64, tag = "9")]
    pub output_batch_dimension: i64,
    #[prost(int64, tag = "10")]
    pub output_feature_dimension: i64,
    #[prost(int64, repeated, tag = "12")]
    pub output_spatial_dimensions: Vec<i64>,
}

/// The dimensions of a `dot`.
#[derive(Clone, PartialEq, Message)]
pub struct DotDimensionNumbers {
    #[prost(int64, repeated, tag = "1")]
    pub lhs_contracting_dimensions: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub rhs_contracting_dimensions: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub lhs_batch_dimensions: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    pub rhs_batch_dimensions: Vec<i64>,
}

/// The dimensions of a `ragged-dot`.
#[derive(Clone, PartialEq, Message)]
pub struct RaggedDotDimensionNumbers {
    #[prost(message, optional, boxed, tag = "1")]
    pub dot_dimension_numbers: Option<Box<DotDimensionNumbers>>,
    #[prost(int64, repeated, tag = "2")]
    pub lhs_ragged_dimensions: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub rhs_group_dimensions: Vec<i64>,
}

/// Attributes of `triangular-solve`.
#[derive(Clone, PartialEq, Message)]
pub struct TriangularSolveOptions {
    #[prost(bool, tag = "1")]
    pub left_side: bool,
    #[prost(bool, tag = "2")]
    pub lower: bool,
    #[prost(bool, tag = "3")]
    pub unit_diagonal: bool,
    #[prost(int32, tag = "4")]
    pub transpose_a: i32,
}

/// Attributes of `cholesky`.
#[derive(Clone, PartialEq, Message)]
pub struct CholeskyOptions {
    #[prost(bool, tag = "1")]
    pub lower: bool,
}

/// What the frontend wants to tell the backend.
#[derive(Clone, PartialEq, Message)]
pub struct FrontendAttributes {
    #[prost(message, repeated, tag = "1")]
    pub map: Vec<MapEntry>,
}

/// One entry of it.
#[derive(Clone, PartialEq, Message)]
pub struct MapEntry {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// Statistics of an instruction for pictures.
#[derive(Clone, PartialEq, Message)]
pub struct StatisticsViz {
    #[prost(int64, tag = "1")]
    pub stat_index_to_visualize: i64,
    #[prost(message, repeated, tag = "2")]
    pub statistics: Vec<Statistic>,
}

/// One of them.
#[derive(Clone, PartialEq, Message)]
pub struct Statistic {
    #[prost(bytes = "bytes", tag = "1")]
    pub stat_name: Bytes,
    #[prost(double, tag = "2")]
    pub stat_val: f64,
}

/// Devices along named axes.
#[derive(Clone, PartialEq, Message)]
pub struct MeshProto {
    #[prost(message, repeated, tag = "1")]
    pub axes: Vec<MeshAxis>,
    #[prost(int64, repeated, tag = "2")]
    pub device_ids: Vec<i64>,
    #[prost(message, optional, boxed, tag = "3")]
    pub iota_transform: Option<Box<IotaTransform>>,
}

/// One axis.
#[derive(Clone, PartialEq, Message)]
pub struct MeshAxis {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(int64, tag = "2")]
    pub size: i64,
}

/// The order of a mesh's devices.
#[derive(Clone, PartialEq, Message)]
pub struct IotaTransform {
    #[prost(int64, repeated, tag = "1")]
    pub reshape_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub transpose_perm: Vec<i64>,
}

/// An axis, or a part of one.
#[derive(Clone, PartialEq, Message)]
pub struct AxisRefProto {
    #[prost(int64, tag = "1")]
    pub mesh_axis_index: i64,
    #[prost(message, optional, boxed, tag = "2")]
    pub sub_axis_info: Option<Box<SubAxis>>,
}

/// The part of an axis.
#[derive(Clone, PartialEq, Message)]
pub struct SubAxis {
    #[prost(int64, tag = "1")]
    pub pre_size: i64,
    #[prost(int64, tag = "2")]
    pub size: i64,
}

/// A sharding by axes of a mesh.
#[derive(Clone, PartialEq, Message)]
pub struct NamedShardingProto {
    #[prost(message, optional, boxed, tag = "2")]
    pub mesh: Option<Box<MeshProto>>,
    #[prost(message, repeated, tag = "3")]
    pub dim_shardings: Vec<DimensionSharding>,
    #[prost(message, repeated, tag = "4")]
    pub replicated_axes: Vec<AxisRefProto>,
    #[prost(message, repeated, tag = "5")]
    pub unreduced_axes: Vec<AxisRefProto>,
    #[prost(message, repeated, tag = "7")]
    pub manual_axes: Vec<AxisRefProto>,
    #[prost(message, repeated, tag = "6")]
    pub metadata: Vec<OpMetadata>,
}

/// The axes of one dimension.
#[derive(Clone, PartialEq, Message)]
pub struct DimensionSharding {
    #[prost(message, repeated, tag = "1")]
    pub axes: Vec<AxisRefProto>,
    #[prost(bool, tag = "2")]
    pub is_closed: bool,
}

/// Where the pieces of a value live.
#[derive(Clone, PartialEq, Message)]
pub struct OpSharding {
    #[prost(int32, tag = "1")]
    pub r#type: i32,
    #[prost(int64, repeated, tag = "3")]
    pub tile_assignment_dimensions: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    pub tile_assignment_devices: Vec<i64>,
    /// [`OpSharding`].
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub tuple_shardings: Vec<Bytes>,
    #[prost(bool, tag = "6")]
    pub replicate_on_last_tile_dim: bool,
    /// [`OpMetadata`].
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub metadata: Vec<Bytes>,
    #[prost(int32, repeated, tag = "8")]
    pub last_tile_dims: Vec<i32>,
    #[prost(int64, repeated, tag = "9")]
    pub iota_reshape_dims: Vec<i64>,
    #[prost(int32, repeated, tag = "10")]
    pub iota_transpose_perm: Vec<i32>,
    #[prost(bool, tag = "11")]
    pub is_shard_group: bool,
    #[prost(int64, tag = "12")]
    pub shard_group_id: i64,
    #[prost(int32, tag = "13")]
    pub shard_group_type: i32,
    #[prost(message, optional, boxed, tag = "14")]
    pub named_sharding: Option<Box<NamedShardingProto>>,
}

/// Devices that work together.
#[derive(Clone, PartialEq, Message)]
pub struct ReplicaGroup {
    #[prost(int64, repeated, tag = "1")]
    pub replica_ids: Vec<i64>,
}

/// Groups along axes of a mesh.
#[derive(Clone, PartialEq, Message)]
pub struct MeshAxesReplicaGroupListProto {
    #[prost(message, optional, boxed, tag = "1")]
    pub mesh: Option<Box<MeshProto>>,
    #[prost(message, repeated, tag = "2")]
    pub axes: Vec<AxisRefProto>,
}

/// Groups as a reshaped and transposed range.
#[derive(Clone, PartialEq, Message)]
pub struct IotaReplicaGroupListProto {
    #[prost(int64, tag = "1")]
    pub num_replica_groups: i64,
    #[prost(int64, tag = "2")]
    pub num_devices_per_group: i64,
    #[prost(int64, repeated, tag = "3")]
    pub iota_reshape_dims: Vec<i64>,
    #[prost(int32, repeated, tag = "4")]
    pub iota_transpose_perm: Vec<i32>,
}

/// The groups of a collective.
#[derive(Clone, PartialEq, Message)]
pub struct CollectiveDeviceListProto {
    #[prost(message, repeated, tag = "1")]
    pub replica_groups: Vec<ReplicaGroup>,
    #[prost(message, optional, boxed, tag = "2")]
    pub iota_replica_group_list: Option<Box<IotaReplicaGroupListProto>>,
}

/// Who sends to whom.
#[derive(Clone, PartialEq, Message)]
pub struct SourceTarget {
    #[prost(int64, tag = "1")]
    pub source: i64,
    #[prost(int64, tag = "2")]
    pub target: i64,
}

/// How exact a result is to be.
#[derive(Clone, PartialEq, Message)]
pub struct ResultAccuracy {
    #[prost(int32, optional, tag = "1")]
    pub mode: Option<i32>,
    #[prost(message, optional, boxed, tag = "2")]
    pub tolerance: Option<Box<Tolerance>>,
}

/// Errors that are allowed.
#[derive(Clone, PartialEq, Message)]
pub struct Tolerance {
    #[prost(double, tag = "1")]
    pub atol: f64,
    #[prost(double, tag = "2")]
    pub rtol: f64,
    #[prost(int64, tag = "3")]
    pub ulps: i64,
}

/// How exact a product is to be.
#[derive(Clone, PartialEq, Message)]
pub struct PrecisionConfig {
    #[prost(int32, repeated, tag = "1")]
    pub operand_precision: Vec<i32>,
    #[prost(int32, tag = "2")]
    pub algorithm: i32,
}

/// Which leaves of a parameter are the same for all replicas.
#[derive(Clone, PartialEq, Message)]
pub struct ParameterReplication {
    #[prost(bool, repeated, tag = "1")]
    pub replicated_at_leaf_buffers: Vec<bool>,
}

/// A part of a result in the memory of an operand.
#[derive(Clone, PartialEq, Message)]
pub struct OutputOperandAliasing {
    #[prost(int64, repeated, tag = "1")]
    pub output_shape_index: Vec<i64>,
    #[prost(int64, tag = "2")]
    pub operand_index: i64,
    #[prost(int64, repeated, tag = "3")]
    pub operand_shape_index: Vec<i64>,
}

/// Which values of the module before its passes this one is.
#[derive(Clone, PartialEq, Message)]
pub struct OriginalValueProto {
    #[prost(message, repeated, tag = "1")]
    pub elements: Vec<OriginalValueElementProto>,
    #[prost(bool, tag = "2")]
    pub is_synthetic_call: bool,
}

/// One of them.
#[derive(Clone, PartialEq, Message)]
pub struct OriginalValueElementProto {
    #[prost(int64, repeated, tag = "1")]
    pub shape_index: Vec<i64>,
    #[prost(message, optional, boxed, tag = "2")]
    pub original_array: Option<Box<OriginalArrayProto>>,
}

/// An array by its instruction.
#[derive(Clone, PartialEq, Message)]
pub struct OriginalArrayProto {
    #[prost(bytes = "bytes", tag = "1")]
    pub instruction_name: Bytes,
    #[prost(int64, repeated, tag = "2")]
    pub shape_index: Vec<i64>,
}
