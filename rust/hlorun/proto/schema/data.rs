//! Messages of `xla_data.proto`.

use prost::Message;
use prost::bytes::Bytes;

use super::numbered::Form;
use super::unread::*;
use super::words::*;

declare! {
    /// `padding` of `pad`.
    pub struct PaddingConfig {
        pub dimensions: Vec<PaddingConfigDimension> = "1" (message, repeated) as message::<PaddingConfigDimension>(),
    }
}

declare! {
    /// One dimension of it.
    pub struct PaddingConfigDimension {
        pub edge_padding_low: i64 = "1" (int64),
        pub edge_padding_high: i64 = "2" (int64),
        pub interior_padding: i64 = "3" (int64),
    }
}

declare! {
    /// A shape.
    pub struct ShapeProto, shape {
        pub element_type: i32 = "2" (int32) as PRIMITIVE_TYPE,
        pub dimensions: Vec<i64> = "3" (int64, repeated),
        pub is_dynamic_dimension: Vec<bool> = "6" (bool, repeated),
        pub tuple_shapes: Vec<Bytes> = "4" (bytes = "bytes", repeated) as message::<ShapeProto>(),
        pub layout: Option<Box<LayoutProto>> = "5" (message, optional, boxed) as message::<LayoutProto>(),
    }
}

declare! {
    /// The layout of an array.
    pub struct LayoutProto, layout {
        pub minor_to_major: Vec<i64> = "1" (int64, repeated),
        pub dim_level_types: Vec<i32> = "9" (int32, repeated) as DIM_LEVEL_TYPE,
        pub dim_unique: Vec<bool> = "13" (bool, repeated),
        pub dim_ordered: Vec<bool> = "14" (bool, repeated),
        pub tiles: Vec<TileProto> = "6" (message, repeated) as message::<TileProto>(),
        pub tail_padding_alignment_in_elements: i64 = "16" (int64),
        pub element_size_in_bits: i64 = "7" (int64),
        pub memory_space: i64 = "8" (int64),
        pub index_primitive_type: i32 = "11" (int32) as PRIMITIVE_TYPE,
        pub pointer_primitive_type: i32 = "12" (int32) as PRIMITIVE_TYPE,
        pub physical_shape: Option<Bytes> = "10" (bytes = "bytes", optional) as message::<ShapeProto>(),
        pub dynamic_shape_metadata_prefix_bytes: i64 = "15" (int64),
        pub split_configs: Vec<SplitConfigProto> = "17" (message, repeated) as message::<SplitConfigProto>(),
    }
}

declare! {
    /// A tile of it.
    pub struct TileProto {
        pub dimensions: Vec<i64> = "1" (int64, repeated),
    }
}

declare! {
    /// How a dimension is split between memories.
    pub struct SplitConfigProto {
        pub dimension: i64 = "1" (int64),
        pub split_indices: Vec<i64> = "2" (int64, repeated),
    }
}

declare! {
    /// Shapes of parameters and result.
    pub struct ProgramShapeProto, program_shape {
        pub parameters: Vec<Bytes> = "1" (bytes = "bytes", repeated) as message::<ShapeProto>(),
        pub result: Option<Bytes> = "2" (bytes = "bytes", optional) as message::<ShapeProto>(),
        pub parameter_names: Vec<Bytes> = "3" (bytes = "bytes", repeated) as Form::String,
    }
}

declare! {
    /// Where an operation comes from.
    pub struct OpMetadata, op_metadata {
        pub op_type: Bytes = "1" (bytes = "bytes") as Form::String,
        pub op_name: Bytes = "2" (bytes = "bytes") as Form::String,
        pub source_file: Bytes = "3" (bytes = "bytes") as Form::String,
        pub source_line: i32 = "4" (int32),
        pub source_end_line: i32 = "17" (int32),
        pub source_column: i32 = "18" (int32),
        pub source_end_column: i32 = "19" (int32),
        pub profile_type: Vec<i32> = "5" (int32, repeated) as PROFILE_TYPE,
        pub size_of_generated_code_in_bytes: i64 = "8" (int64),
        pub size_of_memory_working_set_in_bytes: i64 = "9" (int64),
        pub deduplicated_name: Bytes = "12" (bytes = "bytes") as Form::String,
        pub stack_frame_id: i32 = "15" (int32),
        pub scheduling_name: Bytes = "16" (bytes = "bytes") as Form::String,
        unread {
            profile_info = "10" (message) as message::<MetadataProfileInfo>(),
            metadata_payload = "20" (message) as message::<Payload>(),
        }
    }
}

declare! {
    /// A value. Elements stand in the order of its layout; those of two bytes and fewer are bytes.
    pub struct LiteralProto, literal {
        pub shape: Option<Box<ShapeProto>> = "1" (message, optional, boxed) as message::<ShapeProto>(),
        pub preds: Vec<bool> = "2" (bool, repeated),
        pub s1s: Bytes = "30" (bytes = "bytes") as Form::String,
        pub s2s: Bytes = "26" (bytes = "bytes") as Form::String,
        pub s4s: Bytes = "21" (bytes = "bytes") as Form::String,
        pub s8s: Bytes = "15" (bytes = "bytes") as Form::String,
        pub u1s: Bytes = "31" (bytes = "bytes") as Form::String,
        pub u2s: Bytes = "27" (bytes = "bytes") as Form::String,
        pub u4s: Bytes = "22" (bytes = "bytes") as Form::String,
        pub u8s: Bytes = "3" (bytes = "bytes") as Form::String,
        pub s32s: Vec<i32> = "4" (int32, repeated),
        pub s64s: Vec<i64> = "5" (int64, repeated),
        pub u32s: Vec<u32> = "6" (uint32, repeated),
        pub u64s: Vec<u64> = "7" (uint64, repeated),
        pub f32s: Vec<f32> = "8" (float, repeated),
        pub f64s: Vec<f64> = "9" (double, repeated),
        pub c64s: Vec<f32> = "12" (float, repeated),
        pub c128s: Vec<f64> = "18" (double, repeated),
        pub tuple_literals: Vec<Bytes> = "10" (bytes = "bytes", repeated) as message::<LiteralProto>(),
        pub f16s: Bytes = "11" (bytes = "bytes") as Form::String,
        pub bf16s: Bytes = "13" (bytes = "bytes") as Form::String,
        pub u16s: Bytes = "16" (bytes = "bytes") as Form::String,
        pub s16s: Bytes = "17" (bytes = "bytes") as Form::String,
        pub f4e2m1fns: Bytes = "32" (bytes = "bytes") as Form::String,
        pub f8e3m4s: Bytes = "29" (bytes = "bytes") as Form::String,
        pub f8e4m3b11fnuzs: Bytes = "23" (bytes = "bytes") as Form::String,
        pub f8e4m3fns: Bytes = "20" (bytes = "bytes") as Form::String,
        pub f8e4m3fnuzs: Bytes = "25" (bytes = "bytes") as Form::String,
        pub f8e4m3s: Bytes = "28" (bytes = "bytes") as Form::String,
        pub f8e5m2fnuzs: Bytes = "24" (bytes = "bytes") as Form::String,
        pub f8e5m2s: Bytes = "19" (bytes = "bytes") as Form::String,
        pub f8e8m0fnus: Bytes = "33" (bytes = "bytes") as Form::String,
        pub sparse_indices: Vec<i64> = "14" (int64, repeated),
        pub dynamic_sizes: Vec<i32> = "34" (int32, repeated),
        unread {
            f6e3m2fns = "35" (bytes) as Form::String,
            f6e2m3fns = "36" (bytes) as Form::String,
        }
    }
}

declare! {
    /// The window of a convolution or reduction.
    pub struct Window {
        pub dimensions: Vec<WindowDimension> = "1" (message, repeated) as message::<WindowDimension>(),
    }
}

declare! {
    /// One dimension of it.
    pub struct WindowDimension {
        pub size: i64 = "1" (int64),
        pub stride: i64 = "2" (int64),
        pub padding_low: i64 = "3" (int64),
        pub padding_high: i64 = "4" (int64),
        pub window_dilation: i64 = "5" (int64),
        pub base_dilation: i64 = "6" (int64),
        pub window_reversal: bool = "7" (bool),
    }
}

declare! {
    /// The dimensions of a `gather`.
    pub struct GatherDimensionNumbers, gather {
        pub offset_dims: Vec<i64> = "1" (int64, repeated),
        pub collapsed_slice_dims: Vec<i64> = "2" (int64, repeated),
        pub start_index_map: Vec<i64> = "3" (int64, repeated),
        pub index_vector_dim: i64 = "4" (int64),
        pub operand_batching_dims: Vec<i64> = "5" (int64, repeated),
        pub start_indices_batching_dims: Vec<i64> = "6" (int64, repeated),
    }
}

declare! {
    /// The dimensions of a `scatter`.
    pub struct ScatterDimensionNumbers, scatter {
        pub update_window_dims: Vec<i64> = "1" (int64, repeated),
        pub inserted_window_dims: Vec<i64> = "2" (int64, repeated),
        pub scatter_dims_to_operand_dims: Vec<i64> = "3" (int64, repeated),
        pub index_vector_dim: i64 = "4" (int64),
        pub input_batching_dims: Vec<i64> = "5" (int64, repeated),
        pub scatter_indices_batching_dims: Vec<i64> = "6" (int64, repeated),
    }
}

declare! {
    /// The dimensions of a `convolution`.
    pub struct ConvolutionDimensionNumbers {
        pub input_batch_dimension: i64 = "7" (int64),
        pub input_feature_dimension: i64 = "8" (int64),
        pub input_spatial_dimensions: Vec<i64> = "11" (int64, repeated),
        pub kernel_input_feature_dimension: i64 = "3" (int64),
        pub kernel_output_feature_dimension: i64 = "4" (int64),
        pub kernel_spatial_dimensions: Vec<i64> = "6" (int64, repeated),
        pub output_batch_dimension: i64 = "9" (int64),
        pub output_feature_dimension: i64 = "10" (int64),
        pub output_spatial_dimensions: Vec<i64> = "12" (int64, repeated),
    }
}

declare! {
    /// The dimensions of a `dot`.
    pub struct DotDimensionNumbers, dot {
        pub lhs_contracting_dimensions: Vec<i64> = "1" (int64, repeated),
        pub rhs_contracting_dimensions: Vec<i64> = "2" (int64, repeated),
        pub lhs_batch_dimensions: Vec<i64> = "3" (int64, repeated),
        pub rhs_batch_dimensions: Vec<i64> = "4" (int64, repeated),
    }
}

declare! {
    /// The dimensions of a `ragged-dot`.
    pub struct RaggedDotDimensionNumbers, ragged_dot {
        pub dot_dimension_numbers: Option<Box<DotDimensionNumbers>> = "1" (message, optional, boxed) as message::<DotDimensionNumbers>(),
        pub lhs_ragged_dimensions: Vec<i64> = "2" (int64, repeated),
        pub rhs_group_dimensions: Vec<i64> = "3" (int64, repeated),
    }
}

declare! {
    /// Attributes of `triangular-solve`.
    pub struct TriangularSolveOptions {
        pub left_side: bool = "1" (bool),
        pub lower: bool = "2" (bool),
        pub unit_diagonal: bool = "3" (bool),
        pub transpose_a: i32 = "4" (int32) as TRANSPOSE,
    }
}

declare! {
    /// Attributes of `cholesky`.
    pub struct CholeskyOptions {
        pub lower: bool = "1" (bool),
    }
}

declare! {
    /// What the frontend wants to tell the backend.
    pub struct FrontendAttributes {
        pub map: Vec<MapEntry> = "1" (message, repeated) as message::<MapEntry>(),
    }
}

declare! {
    /// One entry of it.
    pub struct MapEntry {
        pub key: Bytes = "1" (bytes = "bytes") as Form::String,
        pub value: Bytes = "2" (bytes = "bytes") as Form::String,
    }
}

declare! {
    /// Statistics of an instruction for pictures.
    pub struct StatisticsViz {
        pub stat_index_to_visualize: i64 = "1" (int64),
        pub statistics: Vec<Statistic> = "2" (message, repeated) as message::<Statistic>(),
    }
}

declare! {
    /// One of them.
    pub struct Statistic {
        pub stat_name: Bytes = "1" (bytes = "bytes") as Form::String,
        pub stat_val: f64 = "2" (double),
    }
}

declare! {
    /// Devices along named axes.
    pub struct MeshProto {
        pub axes: Vec<MeshAxis> = "1" (message, repeated) as message::<MeshAxis>(),
        pub device_ids: Vec<i64> = "2" (int64, repeated),
        pub iota_transform: Option<Box<IotaTransform>> = "3" (message, optional, boxed) as message::<IotaTransform>(),
    }
}

declare! {
    /// One axis.
    pub struct MeshAxis {
        pub name: Bytes = "1" (bytes = "bytes") as Form::String,
        pub size: i64 = "2" (int64),
    }
}

declare! {
    /// The order of a mesh's devices.
    pub struct IotaTransform {
        pub reshape_dims: Vec<i64> = "1" (int64, repeated),
        pub transpose_perm: Vec<i64> = "2" (int64, repeated),
    }
}

declare! {
    /// An axis, or a part of one.
    pub struct AxisRefProto {
        pub mesh_axis_index: i64 = "1" (int64),
        pub sub_axis_info: Option<Box<SubAxis>> = "2" (message, optional, boxed) as message::<SubAxis>(),
    }
}

declare! {
    /// The part of an axis.
    pub struct SubAxis {
        pub pre_size: i64 = "1" (int64),
        pub size: i64 = "2" (int64),
    }
}

declare! {
    /// A sharding by axes of a mesh.
    pub struct NamedShardingProto {
        pub mesh: Option<Box<MeshProto>> = "2" (message, optional, boxed) as message::<MeshProto>(),
        pub dim_shardings: Vec<DimensionSharding> = "3" (message, repeated) as message::<DimensionSharding>(),
        pub replicated_axes: Vec<AxisRefProto> = "4" (message, repeated) as message::<AxisRefProto>(),
        pub unreduced_axes: Vec<AxisRefProto> = "5" (message, repeated) as message::<AxisRefProto>(),
        pub manual_axes: Vec<AxisRefProto> = "7" (message, repeated) as message::<AxisRefProto>(),
        pub metadata: Vec<OpMetadata> = "6" (message, repeated) as message::<OpMetadata>(),
    }
}

declare! {
    /// The axes of one dimension.
    pub struct DimensionSharding {
        pub axes: Vec<AxisRefProto> = "1" (message, repeated) as message::<AxisRefProto>(),
        pub is_closed: bool = "2" (bool),
    }
}

declare! {
    /// Where the pieces of a value live.
    pub struct OpSharding {
        pub r#type: i32 = "1" (int32) as SHARDING_TYPE,
        pub tile_assignment_dimensions: Vec<i64> = "3" (int64, repeated),
        pub tile_assignment_devices: Vec<i64> = "4" (int64, repeated),
        pub tuple_shardings: Vec<Bytes> = "5" (bytes = "bytes", repeated) as message::<OpSharding>(),
        pub replicate_on_last_tile_dim: bool = "6" (bool),
        pub metadata: Vec<Bytes> = "7" (bytes = "bytes", repeated) as message::<OpMetadata>(),
        pub last_tile_dims: Vec<i32> = "8" (int32, repeated) as SHARDING_TYPE,
        pub iota_reshape_dims: Vec<i64> = "9" (int64, repeated),
        pub iota_transpose_perm: Vec<i32> = "10" (int32, repeated),
        pub is_shard_group: bool = "11" (bool),
        pub shard_group_id: i64 = "12" (int64),
        pub shard_group_type: i32 = "13" (int32) as SHARD_GROUP_TYPE,
        pub named_sharding: Option<Box<NamedShardingProto>> = "14" (message, optional, boxed) as message::<NamedShardingProto>(),
        unread {
            tile_shape = "2" (message) as message::<ShapeProto>(),
        }
    }
}

declare! {
    /// Devices that work together.
    pub struct ReplicaGroup {
        pub replica_ids: Vec<i64> = "1" (int64, repeated),
    }
}

declare! {
    /// Groups along axes of a mesh.
    pub struct MeshAxesReplicaGroupListProto {
        pub mesh: Option<Box<MeshProto>> = "1" (message, optional, boxed) as message::<MeshProto>(),
        pub axes: Vec<AxisRefProto> = "2" (message, repeated) as message::<AxisRefProto>(),
    }
}

declare! {
    /// Groups as a reshaped and transposed range.
    pub struct IotaReplicaGroupListProto {
        pub num_replica_groups: i64 = "1" (int64),
        pub num_devices_per_group: i64 = "2" (int64),
        pub iota_reshape_dims: Vec<i64> = "3" (int64, repeated),
        pub iota_transpose_perm: Vec<i32> = "4" (int32, repeated),
    }
}

declare! {
    /// The groups of a collective.
    pub struct CollectiveDeviceListProto {
        pub replica_groups: Vec<ReplicaGroup> = "1" (message, repeated) as message::<ReplicaGroup>(),
        pub iota_replica_group_list: Option<Box<IotaReplicaGroupListProto>> = "2" (message, optional, boxed) as message::<IotaReplicaGroupListProto>(),
    }
}

declare! {
    /// Who sends to whom.
    pub struct SourceTarget {
        pub source: i64 = "1" (int64),
        pub target: i64 = "2" (int64),
    }
}

declare! {
    /// How exact a result is to be.
    pub struct ResultAccuracy {
        pub mode: Option<i32> = "1" (int32, optional) as ACCURACY_MODE,
        pub tolerance: Option<Box<Tolerance>> = "2" (message, optional, boxed) as message::<Tolerance>(),
    }
}

declare! {
    /// Errors that are allowed.
    pub struct Tolerance {
        pub atol: f64 = "1" (double),
        pub rtol: f64 = "2" (double),
        pub ulps: i64 = "3" (int64),
    }
}

declare! {
    /// How exact a product is to be.
    pub struct PrecisionConfig {
        pub operand_precision: Vec<i32> = "1" (int32, repeated) as PRECISION,
        pub algorithm: i32 = "2" (int32) as DOT_ALGORITHM,
    }
}

declare! {
    /// Which leaves of a parameter are the same for all replicas.
    pub struct ParameterReplication {
        pub replicated_at_leaf_buffers: Vec<bool> = "1" (bool, repeated),
    }
}

declare! {
    /// A part of a result in the memory of an operand.
    pub struct OutputOperandAliasing {
        pub output_shape_index: Vec<i64> = "1" (int64, repeated),
        pub operand_index: i64 = "2" (int64),
        pub operand_shape_index: Vec<i64> = "3" (int64, repeated),
    }
}

declare! {
    /// Which values of the module before its passes this one is.
    pub struct OriginalValueProto {
        pub elements: Vec<OriginalValueElementProto> = "1" (message, repeated) as message::<OriginalValueElementProto>(),
        pub is_synthetic_call: bool = "2" (bool),
    }
}

declare! {
    /// One of them.
    pub struct OriginalValueElementProto {
        pub shape_index: Vec<i64> = "1" (int64, repeated),
        pub original_array: Option<Box<OriginalArrayProto>> = "2" (message, optional, boxed) as message::<OriginalArrayProto>(),
    }
}

declare! {
    /// An array by its instruction.
    pub struct OriginalArrayProto {
        pub instruction_name: Bytes = "1" (bytes = "bytes") as Form::String,
        pub shape_index: Vec<i64> = "2" (int64, repeated),
    }
}
