//! The table of functions, in the order of the C header.

use super::abi::{Call, Extension, Head, entry};
use super::error::Failure;
use super::handles::{Handle, give};
use super::{
    buffer, client, compile, device, error, event, executable, execute, layouts, topology, transfer,
};

/// The version of the C API whose functions the table has.
const VERSION: (i32, i32) = (0, 90);

/// `PJRT_Api`.
#[repr(C)]
pub struct Api {
    head: Head,
    version_head: Head,
    major: i32,
    minor: i32,
    functions: [Function; COUNT],
}

/// The address of a function.
#[repr(transparent)]
struct Function(*const ());

// SAFETY: addresses of functions and of a constant.
unsafe impl Sync for Api {}

/// The function whose arguments are `A`.
const fn f<A: Call>() -> Function {
    Function(entry::<A> as *const ())
}

/// A function that is not implemented: a failure that says so, for callers that do not look for null.
macro_rules! missing {
    ($name:literal) => {{
        unsafe extern "C" fn missing(_: *mut ()) -> Handle<Failure> {
            give(Failure::unsupported(concat!("hlorun has no ", $name)))
        }
        Function(missing as *const ())
    }};
}

/// The table.
pub static API: Api = Api {
    head: Head {
        struct_size: size_of::<Api>(),
        extension_start: (&raw const layouts::EXTENSION).cast::<Extension>(),
    },
    version_head: Head {
        struct_size: size_of::<Head>() + 2 * size_of::<i32>(),
        extension_start: std::ptr::null(),
    },
    major: VERSION.0,
    minor: VERSION.1,
    functions: FUNCTIONS,
};

const COUNT: usize = 128;

#[rustfmt::skip]
const FUNCTIONS: [Function; COUNT] = [
    Function(error::destroy as *const ()),
    Function(error::message as *const ()),
    f::<error::GetCode>(),
    f::<client::Initialize>(),
    f::<client::Attributes>(),
    f::<event::Destroy>(),
    f::<event::IsReady>(),
    f::<event::GetError>(),
    f::<event::Await>(),
    f::<event::OnReady>(),
    f::<client::Create>(),
    f::<client::Destroy>(),
    f::<client::PlatformName>(),
    f::<client::ProcessIndex>(),
    f::<client::PlatformVersion>(),
    f::<client::Devices>(),
    f::<client::AddressableDevices>(),
    f::<client::LookupDevice>(),
    f::<client::LookupAddressableDevice>(),
    f::<client::AddressableMemories>(),
    f::<compile::Compile>(),
    f::<client::DefaultDeviceAssignment>(),
    f::<transfer::FromHost>(),
    f::<device::DescriptionId>(),
    f::<device::DescriptionProcessIndex>(),
    f::<device::DescriptionAttributes>(),
    f::<device::DescriptionKind>(),
    f::<device::DescriptionDebug>(),
    f::<device::DescriptionName>(),
    f::<device::GetDescription>(),
    f::<device::IsAddressable>(),
    f::<device::LocalHardwareId>(),
    f::<device::AddressableMemories>(),
    f::<device::DefaultMemory>(),
    f::<device::MemoryStats>(),
    f::<device::MemoryId>(),
    f::<device::MemoryKind>(),
    f::<device::MemoryDebug>(),
    f::<device::MemoryName>(),
    f::<device::MemoryDevices>(),
    f::<executable::Destroy>(),
    f::<executable::Name>(),
    f::<executable::NumReplicas>(),
    f::<executable::NumPartitions>(),
    f::<executable::NumOutputs>(),
    f::<executable::CodeSize>(),
    f::<executable::CostAnalysis>(),
    f::<executable::OutputMemoryKinds>(),
    f::<executable::OptimizedProgram>(),
    f::<executable::Serialize>(),
    f::<executable::DestroyLoaded>(),
    f::<executable::GetExecutable>(),
    f::<executable::AddressableDevices>(),
    f::<executable::Delete>(),
    f::<executable::IsDeleted>(),
    f::<execute::Execute>(),
    f::<compile::Load>(),
    f::<executable::FingerprintLoaded>(),
    f::<buffer::Destroy>(),
    f::<buffer::ElementType>(),
    f::<buffer::Dimensions>(),
    f::<buffer::UnpaddedDimensions>(),
    f::<buffer::DynamicDimensions>(),
    f::<buffer::GetMemoryLayout>(),
    f::<buffer::OnDeviceSize>(),
    f::<buffer::GetDevice>(),
    f::<buffer::GetMemory>(),
    f::<buffer::Delete>(),
    f::<buffer::IsDeleted>(),
    f::<buffer::CopyToDevice>(),
    f::<transfer::ToHost>(),
    f::<buffer::IsOnCpu>(),
    f::<buffer::ReadyEvent>(),
    f::<buffer::UnsafePointer>(),
    f::<buffer::IncreaseExternal>(),
    f::<buffer::DecreaseExternal>(),
    f::<buffer::DataPointer>(),
    missing!("PJRT_CopyToDeviceStream_Destroy"),
    missing!("PJRT_CopyToDeviceStream_AddChunk"),
    missing!("PJRT_CopyToDeviceStream_TotalBytes"),
    missing!("PJRT_CopyToDeviceStream_GranuleSize"),
    missing!("PJRT_CopyToDeviceStream_CurrentBytes"),
    f::<topology::Create>(),
    f::<topology::Destroy>(),
    f::<topology::PlatformName>(),
    f::<topology::PlatformVersion>(),
    f::<topology::Descriptions>(),
    missing!("PJRT_TopologyDescription_Serialize"),
    f::<topology::Attributes>(),
    f::<compile::CompileFor>(),
    f::<executable::OutputTypes>(),
    f::<executable::OutputDimensions>(),
    f::<buffer::CopyToMemory>(),
    f::<transfer::View>(),
    f::<executable::Fingerprint>(),
    f::<client::GetTopology>(),
    f::<executable::MemoryStats>(),
    f::<device::MemoryKindId>(),
    missing!("PJRT_ExecuteContext_Create"),
    missing!("PJRT_ExecuteContext_Destroy"),
    f::<transfer::RawToHost>(),
    missing!("PJRT_AsyncHostToDeviceTransferManager_Destroy"),
    missing!("PJRT_AsyncHostToDeviceTransferManager_TransferData"),
    missing!("PJRT_Client_CreateBuffersForAsyncHostToDevice"),
    missing!("PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer"),
    missing!("PJRT_AsyncHostToDeviceTransferManager_Device"),
    missing!("PJRT_AsyncHostToDeviceTransferManager_BufferCount"),
    missing!("PJRT_AsyncHostToDeviceTransferManager_BufferSize"),
    missing!("PJRT_AsyncHostToDeviceTransferManager_SetBufferError"),
    missing!("PJRT_AsyncHostToDeviceTransferManager_AddMetadata"),
    missing!("PJRT_Client_DmaMap"),
    missing!("PJRT_Client_DmaUnmap"),
    f::<transfer::Uninitialized>(),
    missing!("PJRT_Client_UpdateGlobalProcessInfo"),
    missing!("PJRT_TopologyDescription_Deserialize"),
    missing!("PJRT_Client_CreateAliasBuffer"),
    missing!("PJRT_Client_FulfillAliasBuffer"),
    f::<executable::GetAssignment>(),
    f::<transfer::ErrorBuffer>(),
    missing!("PJRT_AsyncHostToDeviceTransferManager_TransferLiteral"),
    f::<transfer::RawToHostFuture>(),
    missing!("PJRT_Device_PoisonExecution"),
    missing!("PJRT_Device_CreateAsyncTrackingEvent"),
    missing!("PJRT_AsyncTrackingEvent_Destroy"),
    f::<executable::GetOptions>(),
    f::<transfer::Donate>(),
    f::<event::Create>(),
    f::<event::Set>(),
];
