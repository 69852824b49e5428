//! Messages of `hlo.proto`.

use prost::Message;
use prost::bytes::Bytes;

use super::data::*;
use super::numbered::Form;
use super::unread::*;
use super::words::*;

declare! {
    /// A module and its buffer assignment.
    pub struct HloProto, hlo_file {
        pub hlo_module: Option<Box<HloModuleProto>> = "1" (message, optional, boxed) as message::<HloModuleProto>(),
        pub buffer_assignment: Option<Box<BufferAssignmentProto>> = "3" (message, optional, boxed) as message::<BufferAssignmentProto>(),
    }
}

declare! {
    /// A module with the arguments and the result of one run.
    pub struct HloSnapshot, snapshot {
        pub hlo: Option<Box<HloProto>> = "1" (message, optional, boxed) as message::<HloProto>(),
        pub arguments: Vec<Bytes> = "2" (bytes = "bytes", repeated) as message::<LiteralProto>(),
        pub result: Bytes = "3" (bytes = "bytes") as message::<LiteralProto>(),
        pub execution_platform: Bytes = "4" (bytes = "bytes") as Form::String,
    }
}

declare! {
    /// A module.
    pub struct HloModuleProto, module {
        pub name: Bytes = "1" (bytes = "bytes") as Form::String,
        pub entry_computation_name: Bytes = "2" (bytes = "bytes") as Form::String,
        pub entry_computation_id: i64 = "6" (int64),
        pub computations: Vec<Bytes> = "3" (bytes = "bytes", repeated) as message::<HloComputationProto>(),
        pub host_program_shape: Option<Box<ProgramShapeProto>> = "4" (message, optional, boxed) as message::<ProgramShapeProto>(),
        pub id: i64 = "5" (int64),
        pub schedule: Option<Box<HloScheduleProto>> = "7" (message, optional, boxed) as message::<HloScheduleProto>(),
        pub input_output_alias: Option<Box<HloInputOutputAliasProto>> = "8" (message, optional, boxed) as message::<HloInputOutputAliasProto>(),
        pub buffer_donor: Option<Box<HloBufferDonorProto>> = "18" (message, optional, boxed) as message::<HloBufferDonorProto>(),
        pub spmd_output_sharding: Option<Box<OpSharding>> = "12" (message, optional, boxed) as message::<OpSharding>(),
        pub spmd_parameters_shardings: Vec<OpSharding> = "14" (message, repeated) as message::<OpSharding>(),
        pub device_assignment: Option<Box<DeviceAssignmentProto>> = "15" (message, optional, boxed) as message::<DeviceAssignmentProto>(),
        pub stack_frame_index: Option<Box<StackFrameIndexProto>> = "17" (message, optional, boxed) as message::<StackFrameIndexProto>(),
        pub frontend_attributes: Option<Box<FrontendAttributes>> = "19" (message, optional, boxed) as message::<FrontendAttributes>(),
        unread {
            cross_program_prefetches = "10" (message, repeated) as message::<CrossProgramPrefetch>(),
            is_dynamic = "11" (bool),
            profile_info = "13" (message, repeated) as message::<ModuleProfileInfo>(),
            use_auto_spmd_partitioning = "16" (bool),
            original_value_recovery_table = "20" (message) as message::<OriginalValueRecoveryTableProto>(),
            device_type = "21" (bytes) as Form::String,
            payloads = "22" (bytes, repeated) as Form::String,
            pjrt_id = "23" (int64),
        }
    }
}

declare! {
    /// A computation.
    pub struct HloComputationProto, computation {
        pub name: Bytes = "1" (bytes = "bytes") as Form::String,
        pub instructions: Vec<Bytes> = "2" (bytes = "bytes", repeated) as message::<HloInstructionProto>(),
        pub program_shape: Option<Box<ProgramShapeProto>> = "4" (message, optional, boxed) as message::<ProgramShapeProto>(),
        pub id: i64 = "5" (int64),
        pub root_id: i64 = "6" (int64),
        pub is_fusion_computation: bool = "7" (bool),
        pub execution_thread: Bytes = "8" (bytes = "bytes") as Form::String,
    }
}

declare! {
    /// An instruction.
    pub struct HloInstructionProto, instruction {
        pub name: Bytes = "1" (bytes = "bytes") as Form::String,
        pub opcode: Bytes = "2" (bytes = "bytes") as Form::String,
        pub shape: Bytes = "3" (bytes = "bytes") as message::<ShapeProto>(),
        pub metadata: Option<Box<OpMetadata>> = "7" (message, optional, boxed) as message::<OpMetadata>(),
        pub literal: Option<Bytes> = "8" (bytes = "bytes", optional) as message::<LiteralProto>(),
        pub parameter_number: i64 = "9" (int64),
        pub fusion_kind: Bytes = "11" (bytes = "bytes") as Form::String,
        pub tuple_index: i64 = "13" (int64),
        pub dimensions: Vec<i64> = "14" (int64, repeated),
        pub window: Option<Box<Window>> = "15" (message, optional, boxed) as message::<Window>(),
        pub convolution_dimension_numbers: Option<Box<ConvolutionDimensionNumbers>> = "16" (message, optional, boxed) as message::<ConvolutionDimensionNumbers>(),
        pub feature_group_count: i64 = "50" (int64),
        pub batch_group_count: i64 = "58" (int64),
        pub slice_dimensions: Vec<SliceDimensions> = "17" (message, repeated) as message::<SliceDimensions>(),
        pub exponent_bits: i32 = "18" (int32),
        pub mantissa_bits: i32 = "19" (int32),
        pub dynamic_slice_sizes: Vec<i64> = "20" (int64, repeated),
        pub padding_config: Option<Box<PaddingConfig>> = "21" (message, optional, boxed) as message::<PaddingConfig>(),
        pub outfeed_config: Bytes = "22" (bytes = "bytes") as Form::String,
        pub distribution: i32 = "23" (int32) as RANDOM_DISTRIBUTION,
        pub epsilon: f32 = "24" (float),
        pub feature_index: i64 = "25" (int64),
        pub channel_id: i64 = "26" (int64),
        pub infeed_config: Bytes = "27" (bytes = "bytes") as Form::String,
        pub custom_call_target: Bytes = "28" (bytes = "bytes") as Form::String,
        pub outfeed_shape: Option<Bytes> = "29" (bytes = "bytes", optional) as message::<ShapeProto>(),
        pub dot_dimension_numbers: Option<Box<DotDimensionNumbers>> = "30" (message, optional, boxed) as message::<DotDimensionNumbers>(),
        pub ragged_dot_dimension_numbers: Option<Box<RaggedDotDimensionNumbers>> = "90" (message, optional, boxed) as message::<RaggedDotDimensionNumbers>(),
        pub fft_type: i32 = "31" (int32) as FFT_TYPE,
        pub fft_length: Vec<i64> = "32" (int64, repeated),
        pub comparison_direction: Bytes = "63" (bytes = "bytes") as Form::String,
        pub gather_dimension_numbers: Option<Box<GatherDimensionNumbers>> = "33" (message, optional, boxed) as message::<GatherDimensionNumbers>(),
        pub gather_slice_sizes: Vec<i64> = "34" (int64, repeated),
        pub id: i64 = "35" (int64),
        pub operand_ids: Vec<i64> = "36" (int64, repeated),
        pub control_predecessor_ids: Vec<i64> = "37" (int64, repeated),
        pub called_computation_ids: Vec<i64> = "38" (int64, repeated),
        pub sharding: Option<Box<OpSharding>> = "40" (message, optional, boxed) as message::<OpSharding>(),
        pub backend_config: Bytes = "43" (bytes = "bytes") as Form::String,
        pub replica_groups: Vec<ReplicaGroup> = "49" (message, repeated) as message::<ReplicaGroup>(),
        pub all_reduce_id: i64 = "45" (int64),
        pub use_global_device_ids: bool = "71" (bool),
        pub is_host_transfer: bool = "47" (bool),
        pub is_stable: bool = "60" (bool),
        pub scatter_dimension_numbers: Option<Box<ScatterDimensionNumbers>> = "48" (message, optional, boxed) as message::<ScatterDimensionNumbers>(),
        pub precision_config: Option<Box<PrecisionConfig>> = "51" (message, optional, boxed) as message::<PrecisionConfig>(),
        pub source_target_pairs: Vec<SourceTarget> = "52" (message, repeated) as message::<SourceTarget>(),
        pub domain_entry_sharding: Option<Box<OpSharding>> = "54" (message, optional, boxed) as message::<OpSharding>(),
        pub domain_exit_sharding: Option<Box<OpSharding>> = "55" (message, optional, boxed) as message::<OpSharding>(),
        pub constrain_layout: bool = "56" (bool),
        pub operand_shapes_with_layout: Vec<Bytes> = "57" (bytes = "bytes", repeated) as message::<ShapeProto>(),
        pub triangular_solve_options: Option<Box<TriangularSolveOptions>> = "59" (message, optional, boxed) as message::<TriangularSolveOptions>(),
        pub cholesky_options: Option<Box<CholeskyOptions>> = "62" (message, optional, boxed) as message::<CholeskyOptions>(),
        pub parameter_replication: Option<Box<ParameterReplication>> = "61" (message, optional, boxed) as message::<ParameterReplication>(),
        pub custom_call_has_side_effect: bool = "65" (bool),
        pub output_operand_aliasing: Vec<OutputOperandAliasing> = "74" (message, repeated) as message::<OutputOperandAliasing>(),
        pub custom_call_schedule: i32 = "76" (int32) as CUSTOM_CALL_SCHEDULE,
        pub delta: i64 = "66" (int64),
        pub indices_are_sorted: bool = "67" (bool),
        pub frontend_attributes: Option<Box<FrontendAttributes>> = "68" (message, optional, boxed) as message::<FrontendAttributes>(),
        pub unique_indices: bool = "69" (bool),
        pub rng_algorithm: i32 = "70" (int32) as RANDOM_ALGORITHM,
        pub comparison_type: Bytes = "72" (bytes = "bytes") as Form::String,
        pub is_cross_program_prefetch: bool = "73" (bool),
        pub cross_program_prefetch_index: Option<i32> = "80" (int32, optional),
        pub padding_type: i32 = "75" (int32) as PADDING_TYPE,
        pub custom_call_api_version: i32 = "77" (int32) as CUSTOM_CALL_API_VERSION,
        pub async_execution_thread: Bytes = "79" (bytes = "bytes") as Form::String,
        pub k: i64 = "81" (int64),
        pub largest: bool = "85" (bool),
        pub statistics_viz: Option<Box<StatisticsViz>> = "82" (message, optional, boxed) as message::<StatisticsViz>(),
        pub collective_device_list: Option<Box<CollectiveDeviceListProto>> = "87" (message, optional, boxed) as message::<CollectiveDeviceListProto>(),
        pub iota_collective_device_list: Option<Box<IotaReplicaGroupListProto>> = "92" (message, optional, boxed) as message::<IotaReplicaGroupListProto>(),
        pub mesh_axes_replica_group_list: Option<Box<MeshAxesReplicaGroupListProto>> = "93" (message, optional, boxed) as message::<MeshAxesReplicaGroupListProto>(),
        pub original_value: Option<Box<OriginalValueProto>> = "88" (message, optional, boxed) as message::<OriginalValueProto>(),
        pub is_composite: bool = "89" (bool),
        pub result_accuracy: Option<Box<ResultAccuracy>> = "91" (message, optional, boxed) as message::<ResultAccuracy>(),
        pub is_reverse: bool = "94" (bool),
        pub num_carries: i64 = "95" (int64),
        pub is_associative: i32 = "96" (int32) as TRI_STATE,
        pub conv_kind: i32 = "97" (int32) as CONVOLUTION_KIND,
        unread {
            sparsity_config = "98" (message) as message::<SparsityConfig>(),
            backend_config_payload = "99" (message) as message::<Payload>(),
        }
    }
}

declare! {
    /// One dimension of a `slice`.
    pub struct SliceDimensions {
        pub start: i64 = "1" (int64),
        pub limit: i64 = "2" (int64),
        pub stride: i64 = "3" (int64),
    }
}

declare! {
    /// The order of the instructions of each computation, by the id of the computation.
    pub struct HloScheduleProto, schedule {
        pub sequences: Vec<SequenceEntry> = "1" (message, repeated) as message::<SequenceEntry>(),
    }
}

declare! {
    /// An entry of that map.
    pub struct SequenceEntry, sequence_entry {
        pub key: i64 = "1" (int64),
        pub value: Option<InstructionSequence> = "2" (message, optional) as message::<InstructionSequence>(),
    }
}

declare! {
    /// The order of one computation.
    pub struct InstructionSequence, sequence {
        pub instruction_ids: Vec<i64> = "1" (int64, repeated),
    }
}

declare! {
    /// Results in the memory of parameters.
    pub struct HloInputOutputAliasProto {
        pub entries: Vec<AliasEntryProto> = "1" (message, repeated) as message::<AliasEntryProto>(),
    }
}

declare! {
    /// One of them.
    pub struct AliasEntryProto {
        pub output_shape_index: Vec<i64> = "1" (int64, repeated),
        pub parameter_number: i64 = "2" (int64),
        pub parameter_shape_index: Vec<i64> = "3" (int64, repeated),
        pub kind: i32 = "4" (int32) as ALIAS_KIND,
    }
}

declare! {
    /// Parameters whose memory may be taken.
    pub struct HloBufferDonorProto {
        pub entries: Vec<BufferDonorEntryProto> = "1" (message, repeated) as message::<BufferDonorEntryProto>(),
    }
}

declare! {
    /// One of them.
    pub struct BufferDonorEntryProto {
        pub parameter_number: i64 = "1" (int64),
        pub parameter_shape_index: Vec<i64> = "2" (int64, repeated),
    }
}

declare! {
    /// Where instructions come from; numbers count from 1.
    pub struct StackFrameIndexProto, stack_frames {
        pub file_names: Vec<Bytes> = "1" (bytes = "bytes", repeated) as Form::String,
        pub function_names: Vec<Bytes> = "2" (bytes = "bytes", repeated) as Form::String,
        pub file_locations: Vec<FileLocation> = "3" (message, repeated) as message::<FileLocation>(),
        pub stack_frames: Vec<StackFrame> = "4" (message, repeated) as message::<StackFrame>(),
    }
}

declare! {
    /// A place in a source file.
    pub struct FileLocation, file_location {
        pub file_name_id: i32 = "1" (int32),
        pub function_name_id: i32 = "2" (int32),
        pub line: i32 = "3" (int32),
        pub column: i32 = "4" (int32),
        pub end_line: i32 = "5" (int32),
        pub end_column: i32 = "6" (int32),
    }
}

declare! {
    /// A place and who called it.
    pub struct StackFrame, stack_frame {
        pub file_location_id: i32 = "1" (int32),
        pub parent_frame_id: i32 = "2" (int32),
    }
}

declare! {
    /// Which devices the module was compiled for.
    pub struct DeviceAssignmentProto {
        pub replica_count: i32 = "1" (int32),
        pub computation_count: i32 = "2" (int32),
        pub computation_devices: Vec<ComputationDevice> = "3" (message, repeated) as message::<ComputationDevice>(),
    }
}

declare! {
    /// The devices of one partition.
    pub struct ComputationDevice {
        pub replica_device_ids: Vec<i64> = "1" (int64, repeated),
    }
}

declare! {
    /// Where values lie.
    pub struct BufferAssignmentProto {
        pub logical_buffers: Vec<LogicalBufferProto> = "1" (message, repeated) as message::<LogicalBufferProto>(),
        pub buffer_allocations: Vec<BufferAllocationProto> = "3" (message, repeated) as message::<BufferAllocationProto>(),
        unread {
            buffer_aliases = "2" (message, repeated) as message::<BufferAlias>(),
            heap_simulator_traces = "4" (message, repeated) as message::<HeapSimulatorTrace>(),
            peak_buffers = "5" (message, repeated) as message::<PeakBuffers>(),
        }
    }
}

declare! {
    /// A value that needs memory.
    pub struct LogicalBufferProto {
        pub id: i64 = "1" (int64),
        pub size: i64 = "2" (int64),
        pub defined_at: Option<Box<Location>> = "3" (message, optional, boxed) as message::<Location>(),
        pub color: i64 = "4" (int64),
    }
}

declare! {
    /// A part of an instruction's result.
    pub struct Location {
        pub instruction_name: Bytes = "2" (bytes = "bytes") as Form::String,
        pub instruction_id: i64 = "4" (int64),
        pub shape_index: Vec<i64> = "3" (int64, repeated),
    }
}

declare! {
    /// An allocation.
    pub struct BufferAllocationProto {
        pub index: i64 = "1" (int64),
        pub size: i64 = "2" (int64),
        pub is_thread_local: bool = "3" (bool),
        pub is_tuple: bool = "11" (bool),
        pub is_entry_computation_parameter: bool = "5" (bool),
        pub is_constant: bool = "12" (bool),
        pub parameter_number: i64 = "6" (int64),
        pub parameter_shape_index: Vec<i64> = "10" (int64, repeated),
        pub maybe_live_out: bool = "7" (bool),
        pub color: i64 = "8" (int64),
        pub assigned: Vec<Assigned> = "9" (message, repeated) as message::<Assigned>(),
        unread {
            is_parameter_aliased_with_output = "13" (bool),
        }
    }
}

declare! {
    /// A value in it.
    pub struct Assigned {
        pub logical_buffer_id: i64 = "1" (int64),
        pub offset: i64 = "2" (int64),
        pub size: i64 = "3" (int64),
        unread {
            element_type = "4" (int32) as PRIMITIVE_TYPE,
        }
    }
}
