//! Messages of `hlo.proto`.

use std::collections::BTreeMap;

use prost::Message;
use prost::bytes::Bytes;

use super::data::*;

/// A module and its buffer assignment.
#[derive(Clone, PartialEq, Message)]
pub struct HloProto {
    #[prost(message, optional, boxed, tag = "1")]
    pub hlo_module: Option<Box<HloModuleProto>>,
    #[prost(message, optional, boxed, tag = "3")]
    pub buffer_assignment: Option<Box<BufferAssignmentProto>>,
}

/// A module with the arguments and the result of one run.
#[derive(Clone, PartialEq, Message)]
pub struct HloSnapshot {
    #[prost(message, optional, boxed, tag = "1")]
    pub hlo: Option<Box<HloProto>>,
    /// [`LiteralProto`].
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub arguments: Vec<Bytes>,
    /// [`LiteralProto`].
    #[prost(bytes = "bytes", tag = "3")]
    pub result: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub execution_platform: Bytes,
}

/// A module.
#[derive(Clone, PartialEq, Message)]
pub struct HloModuleProto {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub entry_computation_name: Bytes,
    #[prost(int64, tag = "6")]
    pub entry_computation_id: i64,
    /// [`HloComputationProto`].
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub computations: Vec<Bytes>,
    #[prost(message, optional, boxed, tag = "4")]
    pub host_program_shape: Option<Box<ProgramShapeProto>>,
    #[prost(int64, tag = "5")]
    pub id: i64,
    #[prost(message, optional, boxed, tag = "7")]
    pub schedule: Option<Box<HloScheduleProto>>,
    #[prost(message, optional, boxed, tag = "8")]
    pub input_output_alias: Option<Box<HloInputOutputAliasProto>>,
    #[prost(message, optional, boxed, tag = "18")]
    pub buffer_donor: Option<Box<HloBufferDonorProto>>,
    #[prost(message, optional, boxed, tag = "12")]
    pub spmd_output_sharding: Option<Box<OpSharding>>,
    #[prost(message, repeated, tag = "14")]
    pub spmd_parameters_shardings: Vec<OpSharding>,
    #[prost(message, optional, boxed, tag = "15")]
    pub device_assignment: Option<Box<DeviceAssignmentProto>>,
    #[prost(message, optional, boxed, tag = "17")]
    pub stack_frame_index: Option<Box<StackFrameIndexProto>>,
    #[prost(message, optional, boxed, tag = "19")]
    pub frontend_attributes: Option<Box<FrontendAttributes>>,
}

/// A computation.
#[derive(Clone, PartialEq, Message)]
pub struct HloComputationProto {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// [`HloInstructionProto`].
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub instructions: Vec<Bytes>,
    #[prost(message, optional, boxed, tag = "4")]
    pub program_shape: Option<Box<ProgramShapeProto>>,
    #[prost(int64, tag = "5")]
    pub id: i64,
    #[prost(int64, tag = "6")]
    pub root_id: i64,
    #[prost(bool, tag = "7")]
    pub is_fusion_computation: bool,
    #[prost(bytes = "bytes", tag = "8")]
    pub execution_thread: Bytes,
}

/// An instruction.
#[derive(Clone, PartialEq, Message)]
pub struct HloInstructionProto {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub opcode: Bytes,
    /// [`ShapeProto`].
    #[prost(bytes = "bytes", tag = "3")]
    pub shape: Bytes,
    #[prost(message, optional, boxed, tag = "7")]
    pub metadata: Option<Box<OpMetadata>>,
    /// [`LiteralProto`].
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub literal: Option<Bytes>,
    #[prost(int64, tag = "9")]
    pub parameter_number: i64,
    #[prost(bytes = "bytes", tag = "11")]
    pub fusion_kind: Bytes,
    #[prost(int64, tag = "13")]
    pub tuple_index: i64,
    #[prost(int64, repeated, tag = "14")]
    pub dimensions: Vec<i64>,
    #[prost(message, optional, boxed, tag = "15")]
    pub window: Option<Box<Window>>,
    #[prost(message, optional, boxed, tag = "16")]
    pub convolution_dimension_numbers: Option<Box<ConvolutionDimensionNumbers>>,
    #[prost(int64, tag = "50")]
    pub feature_group_count: i64,
    #[prost(int64, tag = "58")]
    pub batch_group_count: i64,
    #[prost(message, repeated, tag = "17")]
    pub slice_dimensions: Vec<SliceDimensions>,
    #[prost(int32, tag = "18")]
    pub exponent_bits: i32,
    #[prost(int32, tag = "19")]
    pub mantissa_bits: i32,
    #[prost(int64, repeated, tag = "20")]
    pub dynamic_slice_sizes: Vec<i64>,
    #[prost(message, optional, boxed, tag = "21")]
    pub padding_config: Option<Box<PaddingConfig>>,
    #[prost(bytes = "bytes", tag = "22")]
    pub outfeed_config: Bytes,
    #[prost(int32, tag = "23")]
    pub distribution: i32,
    #[prost(float, tag = "24")]
    pub epsilon: f32,
    #[prost(int64, tag = "25")]
    pub feature_index: i64,
    #[prost(int64, tag = "26")]
    pub channel_id: i64,
    #[prost(bytes = "bytes", tag = "27")]
    pub infeed_config: Bytes,
    #[prost(bytes = "bytes", tag = "28")]
    pub custom_call_target: Bytes,
    /// [`ShapeProto`].
    #[prost(bytes = "bytes", optional, tag = "29")]
    pub outfeed_shape: Option<Bytes>,
    #[prost(message, optional, boxed, tag = "30")]
    pub dot_dimension_numbers: Option<Box<DotDimensionNumbers>>,
    #[prost(message, optional, boxed, tag = "90")]
    pub ragged_dot_dimension_numbers: Option<Box<RaggedDotDimensionNumbers>>,
    #[prost(int32, tag = "31")]
    pub fft_type: i32,
    #[prost(int64, repeated, tag = "32")]
    pub fft_length: Vec<i64>,
    #[prost(bytes = "bytes", tag = "63")]
    pub comparison_direction: Bytes,
    #[prost(message, optional, boxed, tag = "33")]
    pub gather_dimension_numbers: Option<Box<GatherDimensionNumbers>>,
    #[prost(int64, repeated, tag = "34")]
    pub gather_slice_sizes: Vec<i64>,
    #[prost(int64, tag = "35")]
    pub id: i64,
    #[prost(int64, repeated, tag = "36")]
    pub operand_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "37")]
    pub control_predecessor_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "38")]
    pub called_computation_ids: Vec<i64>,
    #[prost(message, optional, boxed, tag = "40")]
    pub sharding: Option<Box<OpSharding>>,
    #[prost(bytes = "bytes", tag = "43")]
    pub backend_config: Bytes,
    #[prost(message, repeated, tag = "49")]
    pub replica_groups: Vec<ReplicaGroup>,
    #[prost(int64, tag = "45")]
    pub all_reduce_id: i64,
    #[prost(bool, tag = "71")]
    pub use_global_device_ids: bool,
    #[prost(bool, tag = "47")]
    pub is_host_transfer: bool,
    #[prost(bool, tag = "60")]
    pub is_stable: bool,
    #[prost(message, optional, boxed, tag = "48")]
    pub scatter_dimension_numbers: Option<Box<ScatterDimensionNumbers>>,
    #[prost(message, optional, boxed, tag = "51")]
    pub precision_config: Option<Box<PrecisionConfig>>,
    #[prost(message, repeated, tag = "52")]
    pub source_target_pairs: Vec<SourceTarget>,
    #[prost(message, optional, boxed, tag = "54")]
    pub domain_entry_sharding: Option<Box<OpSharding>>,
    #[prost(message, optional, boxed, tag = "55")]
    pub domain_exit_sharding: Option<Box<OpSharding>>,
    #[prost(bool, tag = "56")]
    pub constrain_layout: bool,
    /// [`ShapeProto`].
    #[prost(bytes = "bytes", repeated, tag = "57")]
    pub operand_shapes_with_layout: Vec<Bytes>,
    #[prost(message, optional, boxed, tag = "59")]
    pub triangular_solve_options: Option<Box<TriangularSolveOptions>>,
    #[prost(message, optional, boxed, tag = "62")]
    pub cholesky_options: Option<Box<CholeskyOptions>>,
    #[prost(message, optional, boxed, tag = "61")]
    pub parameter_replication: Option<Box<ParameterReplication>>,
    #[prost(bool, tag = "65")]
    pub custom_call_has_side_effect: bool,
    #[prost(message, repeated, tag = "74")]
    pub output_operand_aliasing: Vec<OutputOperandAliasing>,
    #[prost(int32, tag = "76")]
    pub custom_call_schedule: i32,
    #[prost(int64, tag = "66")]
    pub delta: i64,
    #[prost(bool, tag = "67")]
    pub indices_are_sorted: bool,
    #[prost(message, optional, boxed, tag = "68")]
    pub frontend_attributes: Option<Box<FrontendAttributes>>,
    #[prost(bool, tag = "69")]
    pub unique_indices: bool,
    #[prost(int32, tag = "70")]
    pub rng_algorithm: i32,
    #[prost(bytes = "bytes", tag = "72")]
    pub comparison_type: Bytes,
    #[prost(bool, tag = "73")]
    pub is_cross_program_prefetch: bool,
    #[prost(int32, optional, tag = "80")]
    pub cross_program_prefetch_index: Option<i32>,
    #[prost(int32, tag = "75")]
    pub padding_type: i32,
    #[prost(int32, tag = "77")]
    pub custom_call_api_version: i32,
    #[prost(bytes = "bytes", tag = "79")]
    pub async_execution_thread: Bytes,
    #[prost(int64, tag = "81")]
    pub k: i64,
    #[prost(bool, tag = "85")]
    pub largest: bool,
    #[prost(message, optional, boxed, tag = "82")]
    pub statistics_viz: Option<Box<StatisticsViz>>,
    #[prost(message, optional, boxed, tag = "87")]
    pub collective_device_list: Option<Box<CollectiveDeviceListProto>>,
    #[prost(message, optional, boxed, tag = "92")]
    pub iota_collective_device_list: Option<Box<IotaReplicaGroupListProto>>,
    #[prost(message, optional, boxed, tag = "93")]
    pub mesh_axes_replica_group_list: Option<Box<MeshAxesReplicaGroupListProto>>,
    #[prost(message, optional, boxed, tag = "88")]
    pub original_value: Option<Box<OriginalValueProto>>,
    #[prost(bool, tag = "89")]
    pub is_composite: bool,
    #[prost(message, optional, boxed, tag = "91")]
    pub result_accuracy: Option<Box<ResultAccuracy>>,
    #[prost(bool, tag = "94")]
    pub is_reverse: bool,
    #[prost(int64, tag = "95")]
    pub num_carries: i64,
    #[prost(int32, tag = "96")]
    pub is_associative: i32,
    #[prost(int32, tag = "97")]
    pub conv_kind: i32,
}

/// One dimension of a `slice`.
#[derive(Clone, PartialEq, Message)]
pub struct SliceDimensions {
    #[prost(int64, tag = "1")]
    pub start: i64,
    #[prost(int64, tag = "2")]
    pub limit: i64,
    #[prost(int64, tag = "3")]
    pub stride: i64,
}

/// The order in which computations run.
#[derive(Clone, PartialEq, Message)]
pub struct HloScheduleProto {
    #[prost(btree_map = "int64, message", tag = "1")]
    pub sequences: BTreeMap<i64, InstructionSequence>,
}

/// The order of one computation.
#[derive(Clone, PartialEq, Message)]
pub struct InstructionSequence {
    #[prost(int64, repeated, tag = "1")]
    pub instruction_ids: Vec<i64>,
}

/// Results in the memory of parameters.
#[derive(Clone, PartialEq, Message)]
pub struct HloInputOutputAliasProto {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<AliasEntryProto>,
}

/// One of them.
#[derive(Clone, PartialEq, Message)]
pub struct AliasEntryProto {
    #[prost(int64, repeated, tag = "1")]
    pub output_shape_index: Vec<i64>,
    #[prost(int64, tag = "2")]
    pub parameter_number: i64,
    #[prost(int64, repeated, tag = "3")]
    pub parameter_shape_index: Vec<i64>,
    #[prost(int32, tag = "4")]
    pub kind: i32,
}

/// Parameters whose memory may be taken.
#[derive(Clone, PartialEq, Message)]
pub struct HloBufferDonorProto {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<BufferDonorEntryProto>,
}

/// One of them.
#[derive(Clone, PartialEq, Message)]
pub struct BufferDonorEntryProto {
    #[prost(int64, tag = "1")]
    pub parameter_number: i64,
    #[prost(int64, repeated, tag = "2")]
    pub parameter_shape_index: Vec<i64>,
}

/// Where instructions come from; numbers count from 1.
#[derive(Clone, PartialEq, Message)]
pub struct StackFrameIndexProto {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub file_names: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub function_names: Vec<Bytes>,
    #[prost(message, repeated, tag = "3")]
    pub file_locations: Vec<FileLocation>,
    #[prost(message, repeated, tag = "4")]
    pub stack_frames: Vec<StackFrame>,
}

/// A place in a source file.
#[derive(Clone, PartialEq, Message)]
pub struct FileLocation {
    #[prost(int32, tag = "1")]
    pub file_name_id: i32,
    #[prost(int32, tag = "2")]
    pub function_name_id: i32,
    #[prost(int32, tag = "3")]
    pub line: i32,
    #[prost(int32, tag = "4")]
    pub column: i32,
    #[prost(int32, tag = "5")]
    pub end_line: i32,
    #[prost(int32, tag = "6")]
    pub end_column: i32,
}

/// A place and who called it.
#[derive(Clone, PartialEq, Message)]
pub struct StackFrame {
    #[prost(int32, tag = "1")]
    pub file_location_id: i32,
    #[prost(int32, tag = "2")]
    pub parent_frame_id: i32,
}

/// Which devices the module was compiled for.
#[derive(Clone, PartialEq, Message)]
pub struct DeviceAssignmentProto {
    #[prost(int32, tag = "1")]
    pub replica_count: i32,
    #[prost(int32, tag = "2")]
    pub computation_count: i32,
    #[prost(message, repeated, tag = "3")]
    pub computation_devices: Vec<ComputationDevice>,
}

/// The devices of one partition.
#[derive(Clone, PartialEq, Message)]
pub struct ComputationDevice {
    #[prost(int64, repeated, tag = "1")]
    pub replica_device_ids: Vec<i64>,
}

/// Where values lie.
#[derive(Clone, PartialEq, Message)]
pub struct BufferAssignmentProto {
    #[prost(message, repeated, tag = "1")]
    pub logical_buffers: Vec<LogicalBufferProto>,
    #[prost(message, repeated, tag = "3")]
    pub buffer_allocations: Vec<BufferAllocationProto>,
}

/// A value that needs memory.
#[derive(Clone, PartialEq, Message)]
pub struct LogicalBufferProto {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(int64, tag = "2")]
    pub size: i64,
    #[prost(message, optional, boxed, tag = "3")]
    pub defined_at: Option<Box<Location>>,
    #[prost(int64, tag = "4")]
    pub color: i64,
}

/// A part of an instruction's result.
#[derive(Clone, PartialEq, Message)]
pub struct Location {
    #[prost(bytes = "bytes", tag = "2")]
    pub instruction_name: Bytes,
    #[prost(int64, tag = "4")]
    pub instruction_id: i64,
    #[prost(int64, repeated, tag = "3")]
    pub shape_index: Vec<i64>,
}

/// An allocation.
#[derive(Clone, PartialEq, Message)]
pub struct BufferAllocationProto {
    #[prost(int64, tag = "1")]
    pub index: i64,
    #[prost(int64, tag = "2")]
    pub size: i64,
    #[prost(bool, tag = "3")]
    pub is_thread_local: bool,
    #[prost(bool, tag = "11")]
    pub is_tuple: bool,
    #[prost(bool, tag = "5")]
    pub is_entry_computation_parameter: bool,
    #[prost(bool, tag = "12")]
    pub is_constant: bool,
    #[prost(int64, tag = "6")]
    pub parameter_number: i64,
    #[prost(int64, repeated, tag = "10")]
    pub parameter_shape_index: Vec<i64>,
    #[prost(bool, tag = "7")]
    pub maybe_live_out: bool,
    #[prost(int64, tag = "8")]
    pub color: i64,
    #[prost(message, repeated, tag = "9")]
    pub assigned: Vec<Assigned>,
}

/// A value in it.
#[derive(Clone, PartialEq, Message)]
pub struct Assigned {
    #[prost(int64, tag = "1")]
    pub logical_buffer_id: i64,
    #[prost(int64, tag = "2")]
    pub offset: i64,
    #[prost(int64, tag = "3")]
    pub size: i64,
}
