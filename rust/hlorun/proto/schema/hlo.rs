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

numbered! {
    /// A computation.
    pub struct HloComputationProto, computation {
        pub name: Bytes = "1" (bytes = "bytes"),
        /// [`HloInstructionProto`].
        pub instructions: Vec<Bytes> = "2" (bytes = "bytes", repeated),
        pub program_shape: Option<Box<ProgramShapeProto>> = "4" (message, optional, boxed),
        pub id: i64 = "5" (int64),
        pub root_id: i64 = "6" (int64),
        pub is_fusion_computation: bool = "7" (bool),
        pub execution_thread: Bytes = "8" (bytes = "bytes"),
    }
}

numbered! {
    /// An instruction.
    pub struct HloInstructionProto, instruction {
        pub name: Bytes = "1" (bytes = "bytes"),
        pub opcode: Bytes = "2" (bytes = "bytes"),
        /// [`ShapeProto`].
        pub shape: Bytes = "3" (bytes = "bytes"),
        pub metadata: Option<Box<OpMetadata>> = "7" (message, optional, boxed),
        /// [`LiteralProto`].
        pub literal: Option<Bytes> = "8" (bytes = "bytes", optional),
        pub parameter_number: i64 = "9" (int64),
        pub fusion_kind: Bytes = "11" (bytes = "bytes"),
        pub tuple_index: i64 = "13" (int64),
        pub dimensions: Vec<i64> = "14" (int64, repeated),
        pub window: Option<Box<Window>> = "15" (message, optional, boxed),
        pub convolution_dimension_numbers: Option<Box<ConvolutionDimensionNumbers>> = "16" (message, optional, boxed),
        pub feature_group_count: i64 = "50" (int64),
        pub batch_group_count: i64 = "58" (int64),
        pub slice_dimensions: Vec<SliceDimensions> = "17" (message, repeated),
        pub exponent_bits: i32 = "18" (int32),
        pub mantissa_bits: i32 = "19" (int32),
        pub dynamic_slice_sizes: Vec<i64> = "20" (int64, repeated),
        pub padding_config: Option<Box<PaddingConfig>> = "21" (message, optional, boxed),
        pub outfeed_config: Bytes = "22" (bytes = "bytes"),
        pub distribution: i32 = "23" (int32),
        pub epsilon: f32 = "24" (float),
        pub feature_index: i64 = "25" (int64),
        pub channel_id: i64 = "26" (int64),
        pub infeed_config: Bytes = "27" (bytes = "bytes"),
        pub custom_call_target: Bytes = "28" (bytes = "bytes"),
        /// [`ShapeProto`].
        pub outfeed_shape: Option<Bytes> = "29" (bytes = "bytes", optional),
        pub dot_dimension_numbers: Option<Box<DotDimensionNumbers>> = "30" (message, optional, boxed),
        pub ragged_dot_dimension_numbers: Option<Box<RaggedDotDimensionNumbers>> = "90" (message, optional, boxed),
        pub fft_type: i32 = "31" (int32),
        pub fft_length: Vec<i64> = "32" (int64, repeated),
        pub comparison_direction: Bytes = "63" (bytes = "bytes"),
        pub gather_dimension_numbers: Option<Box<GatherDimensionNumbers>> = "33" (message, optional, boxed),
        pub gather_slice_sizes: Vec<i64> = "34" (int64, repeated),
        pub id: i64 = "35" (int64),
        pub operand_ids: Vec<i64> = "36" (int64, repeated),
        pub control_predecessor_ids: Vec<i64> = "37" (int64, repeated),
        pub called_computation_ids: Vec<i64> = "38" (int64, repeated),
        pub sharding: Option<Box<OpSharding>> = "40" (message, optional, boxed),
        pub backend_config: Bytes = "43" (bytes = "bytes"),
        pub replica_groups: Vec<ReplicaGroup> = "49" (message, repeated),
        pub all_reduce_id: i64 = "45" (int64),
        pub use_global_device_ids: bool = "71" (bool),
        pub is_host_transfer: bool = "47" (bool),
        pub is_stable: bool = "60" (bool),
        pub scatter_dimension_numbers: Option<Box<ScatterDimensionNumbers>> = "48" (message, optional, boxed),
        pub precision_config: Option<Box<PrecisionConfig>> = "51" (message, optional, boxed),
        pub source_target_pairs: Vec<SourceTarget> = "52" (message, repeated),
        pub domain_entry_sharding: Option<Box<OpSharding>> = "54" (message, optional, boxed),
        pub domain_exit_sharding: Option<Box<OpSharding>> = "55" (message, optional, boxed),
        pub constrain_layout: bool = "56" (bool),
        /// [`ShapeProto`].
        pub operand_shapes_with_layout: Vec<Bytes> = "57" (bytes = "bytes", repeated),
        pub triangular_solve_options: Option<Box<TriangularSolveOptions>> = "59" (message, optional, boxed),
        pub cholesky_options: Option<Box<CholeskyOptions>> = "62" (message, optional, boxed),
        pub parameter_replication: Option<Box<ParameterReplication>> = "61" (message, optional, boxed),
        pub custom_call_has_side_effect: bool = "65" (bool),
        pub output_operand_aliasing: Vec<OutputOperandAliasing> = "74" (message, repeated),
        pub custom_call_schedule: i32 = "76" (int32),
        pub delta: i64 = "66" (int64),
        pub indices_are_sorted: bool = "67" (bool),
        pub frontend_attributes: Option<Box<FrontendAttributes>> = "68" (message, optional, boxed),
        pub unique_indices: bool = "69" (bool),
        pub rng_algorithm: i32 = "70" (int32),
        pub comparison_type: Bytes = "72" (bytes = "bytes"),
        pub is_cross_program_prefetch: bool = "73" (bool),
        pub cross_program_prefetch_index: Option<i32> = "80" (int32, optional),
        pub padding_type: i32 = "75" (int32),
        pub custom_call_api_version: i32 = "77" (int32),
        pub async_execution_thread: Bytes = "79" (bytes = "bytes"),
        pub k: i64 = "81" (int64),
        pub largest: bool = "85" (bool),
        pub statistics_viz: Option<Box<StatisticsViz>> = "82" (message, optional, boxed),
        pub collective_device_list: Option<Box<CollectiveDeviceListProto>> = "87" (message, optional, boxed),
        pub iota_collective_device_list: Option<Box<IotaReplicaGroupListProto>> = "92" (message, optional, boxed),
        pub mesh_axes_replica_group_list: Option<Box<MeshAxesReplicaGroupListProto>> = "93" (message, optional, boxed),
        pub original_value: Option<Box<OriginalValueProto>> = "88" (message, optional, boxed),
        pub is_composite: bool = "89" (bool),
        pub result_accuracy: Option<Box<ResultAccuracy>> = "91" (message, optional, boxed),
        pub is_reverse: bool = "94" (bool),
        pub num_carries: i64 = "95" (int64),
        pub is_associative: i32 = "96" (int32),
        pub conv_kind: i32 = "97" (int32),
    }
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
