//! Devices and their memories: each device is a number, and all are this CPU.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use super::abi::{Call, Flag, Handles, Out, Ref, args};
use super::error::Outcome;
use super::named::NamedValue;

/// What `jax.Device.device_kind` says.
pub const KIND: &str = "hlorun";
/// The kind of a device's only memory, and its number.
pub const MEMORY_KIND: &str = "device";
const MEMORY_KIND_ID: i32 = 0;

/// What a device is called.
pub struct Description {
    id: i32,
    debug: String,
    name: String,
}

/// A device.
pub struct Device {
    pub description: Description,
    /// Its only memory; set when the client is made.
    pub memories: OnceLock<Handles<Memory>>,
    /// Bytes of its buffers now, and at most so far.
    bytes: AtomicI64,
    peak: AtomicI64,
    /// Its share of the machine's memory in bytes, where the system says how much that is.
    limit: Option<i64>,
}

/// The memory of a device.
pub struct Memory {
    id: i32,
    debug: String,
    name: String,
    /// Its only device; set when the client is made.
    pub devices: OnceLock<Handles<Device>>,
}

impl Device {
    /// Number `id` of `count`.
    pub fn new(id: i32, count: i32) -> Device {
        Device {
            description: Description {
                id,
                debug: format!("hlorun:{id}"),
                name: format!("HlorunDevice(id={id})"),
            },
            memories: OnceLock::new(),
            bytes: AtomicI64::new(0),
            peak: AtomicI64::new(0),
            limit: machine_bytes().map(|bytes| bytes / i64::from(count)),
        }
    }

    /// Its number, which is its place among the client's devices, too.
    pub fn id(&self) -> i32 {
        self.description.id
    }

    /// Counts a buffer of so many bytes.
    pub fn took(&self, bytes: usize) {
        let now = self.bytes.fetch_add(bytes as i64, Ordering::Relaxed) + bytes as i64;
        if now > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// Counts the end of a buffer of so many bytes.
    pub fn freed(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes as i64, Ordering::Relaxed);
    }
}

/// Bytes of the machine's memory; None where the system has no such name for it.
#[cfg(not(unix))]
fn machine_bytes() -> Option<i64> {
    None
}

/// Bytes of the machine's memory.
#[cfg(unix)]
fn machine_bytes() -> Option<i64> {
    // SAFETY: any name may be asked for.
    let (pages, size) = unsafe {
        let pages = libc::sysconf(libc::_SC_PHYS_PAGES);
        (pages, libc::sysconf(libc::_SC_PAGESIZE))
    };
    // A word of 32 bits on some systems.
    #[allow(clippy::useless_conversion)]
    let (pages, size) = (i64::from(pages), i64::from(size));
    (pages > 0 && size > 0).then(|| pages.saturating_mul(size))
}

impl Memory {
    /// The memory of device `id`.
    pub fn new(id: i32) -> Memory {
        Memory {
            id,
            debug: format!("hlorun:{id}:{MEMORY_KIND}"),
            name: format!("HlorunMemory(id={id})"),
            devices: OnceLock::new(),
        }
    }

    /// The number of its device.
    pub fn id(&self) -> i32 {
        self.id
    }
}

args! {
    DescriptionId "PJRT_DeviceDescription_Id" { description: Ref<Description>, id: i32 }
    DescriptionProcessIndex "PJRT_DeviceDescription_ProcessIndex" {
        description: Ref<Description>,
        process_index: i32,
    }
    DescriptionAttributes "PJRT_DeviceDescription_Attributes" {
        description: Ref<Description>,
        len: usize,
        attributes: *const NamedValue,
    }
    DescriptionKind "PJRT_DeviceDescription_Kind" { description: Ref<Description>, kind: Out<u8> }
    DescriptionDebug "PJRT_DeviceDescription_DebugString" {
        description: Ref<Description>,
        text: Out<u8>,
    }
    DescriptionName "PJRT_DeviceDescription_ToString" {
        description: Ref<Description>,
        text: Out<u8>,
    }
    GetDescription "PJRT_Device_GetDescription" {
        device: Ref<Device>,
        description: *const Description,
    }
    IsAddressable "PJRT_Device_IsAddressable" { device: Ref<Device>, is_addressable: Flag }
    LocalHardwareId "PJRT_Device_LocalHardwareId" { device: Ref<Device>, id: i32 }
    AddressableMemories "PJRT_Device_AddressableMemories" {
        device: Ref<Device>,
        memories: Out<*const Memory>,
    }
    DefaultMemory "PJRT_Device_DefaultMemory" { device: Ref<Device>, memory: *const Memory }
    MemoryStats "PJRT_Device_MemoryStats" {
        device: Ref<Device>,
        bytes_in_use: i64,
        peak_bytes_in_use: i64,
        has_peak_bytes_in_use: Flag,
        num_allocs: i64,
        has_num_allocs: Flag,
        largest_alloc_size: i64,
        has_largest_alloc_size: Flag,
        bytes_limit: i64,
        has_bytes_limit: Flag,
        bytes_reserved: i64,
        has_bytes_reserved: Flag,
        peak_bytes_reserved: i64,
        has_peak_bytes_reserved: Flag,
        bytes_reservable_limit: i64,
        has_bytes_reservable_limit: Flag,
        largest_free_block_bytes: i64,
        has_largest_free_block_bytes: Flag,
        pool_bytes: i64,
        has_pool_bytes: Flag,
        peak_pool_bytes: i64,
        has_peak_pool_bytes: Flag,
    }
    MemoryId "PJRT_Memory_Id" { memory: Ref<Memory>, id: i32 }
    MemoryKind "PJRT_Memory_Kind" { memory: Ref<Memory>, kind: Out<u8> }
    MemoryKindId "PJRT_Memory_Kind_Id" { memory: Ref<Memory>, id: i32 }
    MemoryDebug "PJRT_Memory_DebugString" { memory: Ref<Memory>, text: Out<u8> }
    MemoryName "PJRT_Memory_ToString" { memory: Ref<Memory>, text: Out<u8> }
    MemoryDevices "PJRT_Memory_AddressableByDevices" {
        memory: Ref<Memory>,
        devices: Out<*const Device>,
    }
}

impl Call for DescriptionId {
    fn call(&mut self) -> Outcome<()> {
        self.id = self.description.get("device description")?.id;
        Ok(())
    }
}

impl Call for DescriptionProcessIndex {
    fn call(&mut self) -> Outcome<()> {
        self.description.get("device description")?;
        self.process_index = 0;
        Ok(())
    }
}

impl Call for DescriptionAttributes {
    fn call(&mut self) -> Outcome<()> {
        self.description.get("device description")?;
        (self.len, self.attributes) = (0, std::ptr::null());
        Ok(())
    }
}

impl Call for DescriptionKind {
    fn call(&mut self) -> Outcome<()> {
        self.description.get("device description")?;
        self.kind.text(KIND);
        Ok(())
    }
}

impl Call for DescriptionDebug {
    fn call(&mut self) -> Outcome<()> {
        self.text
            .text(&self.description.get("device description")?.debug);
        Ok(())
    }
}

impl Call for DescriptionName {
    fn call(&mut self) -> Outcome<()> {
        self.text
            .text(&self.description.get("device description")?.name);
        Ok(())
    }
}

impl Call for GetDescription {
    fn call(&mut self) -> Outcome<()> {
        self.description = &raw const self.device.get("device")?.description;
        Ok(())
    }
}

impl Call for IsAddressable {
    fn call(&mut self) -> Outcome<()> {
        self.device.get("device")?;
        self.is_addressable = true.into();
        Ok(())
    }
}

impl Call for LocalHardwareId {
    fn call(&mut self) -> Outcome<()> {
        self.id = self.device.get("device")?.id();
        Ok(())
    }
}

impl Call for AddressableMemories {
    fn call(&mut self) -> Outcome<()> {
        let memories = self.device.get("device")?.memories.get();
        self.memories.set(memories.map_or(&[], Handles::pointers));
        Ok(())
    }
}

impl Call for DefaultMemory {
    fn call(&mut self) -> Outcome<()> {
        self.memory = self.device.get("device")?.memory();
        Ok(())
    }
}

impl Device {
    /// Its memory.
    pub fn memory(&self) -> *const Memory {
        let memories = self.memories.get().map_or(&[][..], Handles::pointers);
        memories.first().copied().unwrap_or(std::ptr::null())
    }
}

impl Call for MemoryStats {
    fn call(&mut self) -> Outcome<()> {
        let device = self.device.get("device")?;
        self.bytes_in_use = device.bytes.load(Ordering::Relaxed);
        self.peak_bytes_in_use = device.peak.load(Ordering::Relaxed);
        self.has_peak_bytes_in_use = true.into();
        self.bytes_limit = device.limit.unwrap_or(0);
        self.bytes_reservable_limit = self.bytes_limit;
        self.has_bytes_limit = device.limit.is_some().into();
        self.has_bytes_reservable_limit = self.has_bytes_limit;
        let unknown = [
            &mut self.has_num_allocs,
            &mut self.has_largest_alloc_size,
            &mut self.has_bytes_reserved,
            &mut self.has_peak_bytes_reserved,
            &mut self.has_largest_free_block_bytes,
            &mut self.has_pool_bytes,
            &mut self.has_peak_pool_bytes,
        ];
        unknown.into_iter().for_each(|flag| *flag = false.into());
        Ok(())
    }
}

impl Call for MemoryId {
    fn call(&mut self) -> Outcome<()> {
        self.id = self.memory.get("memory")?.id;
        Ok(())
    }
}

impl Call for MemoryKind {
    fn call(&mut self) -> Outcome<()> {
        self.memory.get("memory")?;
        self.kind.text(MEMORY_KIND);
        Ok(())
    }
}

impl Call for MemoryKindId {
    fn call(&mut self) -> Outcome<()> {
        self.memory.get("memory")?;
        self.id = MEMORY_KIND_ID;
        Ok(())
    }
}

impl Call for MemoryDebug {
    fn call(&mut self) -> Outcome<()> {
        self.text.text(&self.memory.get("memory")?.debug);
        Ok(())
    }
}

impl Call for MemoryName {
    fn call(&mut self) -> Outcome<()> {
        self.text.text(&self.memory.get("memory")?.name);
        Ok(())
    }
}

impl Call for MemoryDevices {
    fn call(&mut self) -> Outcome<()> {
        let devices = self.memory.get("memory")?.devices.get();
        self.devices.set(devices.map_or(&[], Handles::pointers));
        Ok(())
    }
}
