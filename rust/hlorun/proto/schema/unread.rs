//! Messages that hlorun does not read, and need not, but that the text of a proto may hold.

use super::data::*;
use super::hlo::*;
use super::numbered::Form;
use super::words::*;

unread! {
    Payload {
        value = "1" (bytes) as Form::String,
        id = "2" (int64),
    }
    MetadataProfileInfo {
        profile_type = "1" (int32, repeated) as PROFILE_TYPE,
        relative_speedup = "2" (double),
        profile_source = "3" (int32) as PROFILE_SOURCE,
        compilation_event = "4" (int32) as COMPILATION_EVENT,
        profile_generation_strategy = "5" (int32) as PROFILE_GENERATION_STRATEGY,
    }
    ModuleProfileInfo {
        profile_type = "1" (int32) as MODULE_PROFILE_TYPE,
        relative_speedup = "2" (double),
        profile_source = "3" (int32) as PROFILE_SOURCE,
        compilation_event = "4" (int32) as COMPILATION_EVENT,
        fingerprint = "5" (bytes) as Form::String,
        profile_generation_strategy = "6" (int32) as PROFILE_GENERATION_STRATEGY,
        original_changelist = "7" (int64),
        changelist = "8" (int64),
    }
    CrossProgramPrefetch {
        parameter = "1" (int64),
        index = "2" (int64, repeated),
        offset = "3" (int64),
    }
    OriginalValueRecoveryTableProto {
        entries = "1" (message, repeated) as message::<RecoveryEntry>(),
    }
    RecoveryEntry {
        old_original_array = "1" (message) as message::<OriginalArrayProto>(),
        new_original_array = "2" (message) as message::<OriginalArrayProto>(),
        recovery_module = "3" (message) as message::<HloModuleProto>(),
    }
    SparsityConfig {
        lhs = "1" (message) as message::<TensorSparsityConfig>(),
        rhs = "2" (message) as message::<TensorSparsityConfig>(),
    }
    TensorSparsityConfig {
        num_non_zero = "1" (int64),
        block_size = "2" (int64),
        dimension = "3" (int64),
        stride = "4" (int64),
    }
    BufferAlias {
        source_buffer_id = "1" (int64),
        location = "2" (message) as message::<Location>(),
    }
    HeapSimulatorTrace {
        events = "1" (message, repeated) as message::<HeapEvent>(),
        whole_module_simulation = "2" (bool),
        buffer_allocation_index = "3" (int64),
    }
    HeapEvent {
        kind = "1" (int32) as HEAP_EVENT,
        buffer_id = "2" (int64),
        computation_name = "3" (bytes) as Form::String,
        instruction_name = "4" (bytes) as Form::String,
        share_with_canonical_id = "5" (int64),
    }
    PeakBuffers {
        index = "1" (int64),
        logical_buffer_ids = "2" (int64, repeated),
    }
}
