//! Buffers: arrays on a device, row-major and never written again once they are made.
//!
//! Promise: memory lives as long as a run or a transfer needs it, whatever becomes of the buffer, and as
//! long as there are external references, until the buffer is destroyed.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hlorun::buffers::AlignedBytes;
use hlorun::types::{ArrayShape, Dims, PrimitiveType};

use super::abi::{Call, Flag, Out, Ref, args};
use super::device::{Device, Memory};
use super::error::{Failure, Outcome, contained};
use super::event::{Event, ready};
use super::handles::{Handle, give, objects};
use super::types::{MemoryLayout, TOKEN, minor_to_major, number};

/// Is told that memory of the caller's is not needed any more: its address, and its own argument.
pub type OnDelete = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// Whose memory it is.
enum Owner {
    Here(AlignedBytes),
    Caller {
        pointer: *mut c_void,
        on_delete: Option<OnDelete>,
        argument: *mut c_void,
    },
}

/// The memory of a buffer.
pub struct Storage {
    owner: Owner,
    bytes: usize,
    device: &'static Device,
}

// SAFETY: the memory is only read once it is shared, and the caller's callback may come from any
// thread, by PJRT's contract.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// Memory of our own.
    pub fn new(block: AlignedBytes, device: &'static Device) -> Storage {
        let bytes = block.len();
        device.took(bytes);
        Storage {
            owner: Owner::Here(block),
            bytes,
            device,
        }
    }

    /// Memory of the caller's, which is there until `on_delete` is called with its address.
    pub fn of_caller(
        pointer: *mut c_void,
        on_delete: Option<OnDelete>,
        argument: *mut c_void,
        device: &'static Device,
    ) -> Storage {
        Storage {
            owner: Owner::Caller {
                pointer,
                on_delete,
                argument,
            },
            bytes: 0,
            device,
        }
    }

    /// The first byte.
    pub fn pointer(&self) -> *const u8 {
        match &self.owner {
            Owner::Here(block) => block.as_ptr(),
            Owner::Caller { pointer, .. } => pointer.cast(),
        }
    }

    /// A copy of the first `bytes`, which are all.
    fn copied(&self, bytes: usize, device: &'static Device) -> Outcome<Storage> {
        let mut block = AlignedBytes::uninitialized(bytes)?;
        // SAFETY: a storage has the bytes of its buffers, which nobody writes; the block is new.
        unsafe { std::ptr::copy_nonoverlapping(self.pointer(), block.as_mut_ptr(), bytes) };
        Ok(Storage::new(block, device))
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.device.freed(self.bytes);
        if let Owner::Caller {
            pointer,
            on_delete: Some(on_delete),
            argument,
        } = self.owner
        {
            // SAFETY: by PJRT's contract, called once, when nobody needs the memory.
            contained(|| unsafe { on_delete(pointer, argument) });
        }
    }
}

/// What a buffer holds.
#[derive(Default)]
struct Contents {
    /// None once it is deleted or donated.
    storage: Option<Arc<Storage>>,
    /// Why there never was any.
    failure: Option<Failure>,
    /// Users outside of the API, and what they use.
    external: usize,
    held: Option<Arc<Storage>>,
}

/// A `PJRT_Buffer`.
pub struct Buffer {
    pub device: &'static Device,
    pub element_type: PrimitiveType,
    pub dims: Dims,
    /// Whether it stands for a token, which C sees in place of its one element.
    is_token: bool,
    minor_to_major: Vec<i64>,
    contents: Mutex<Contents>,
}

objects!(Buffer);

impl Buffer {
    /// An array over `storage`, which holds it row-major.
    pub fn new(
        storage: Arc<Storage>,
        device: &'static Device,
        element_type: PrimitiveType,
        dims: &[i64],
    ) -> Buffer {
        Buffer::with(Some(storage), None, device, element_type, dims)
    }

    /// A token.
    pub fn token(device: &'static Device) -> Outcome<Buffer> {
        let block = AlignedBytes::zeroed(1)?.into_uninit();
        let storage = Arc::new(Storage::new(block, device));
        let mut token = Buffer::new(storage, device, PrimitiveType::Pred, &[]);
        token.is_token = true;
        Ok(token)
    }

    /// An array that there is not.
    pub fn failed(
        failure: Failure,
        device: &'static Device,
        element_type: PrimitiveType,
        dims: &[i64],
    ) -> Buffer {
        Buffer::with(None, Some(failure), device, element_type, dims)
    }

    fn with(
        storage: Option<Arc<Storage>>,
        failure: Option<Failure>,
        device: &'static Device,
        element_type: PrimitiveType,
        dims: &[i64],
    ) -> Buffer {
        Buffer {
            device,
            element_type,
            dims: Dims::from_slice(dims),
            is_token: false,
            minor_to_major: minor_to_major(dims.len()),
            contents: Mutex::new(Contents {
                storage,
                failure,
                ..Contents::default()
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it holds.
    pub fn storage(&self) -> Outcome<Arc<Storage>> {
        let contents = self.lock();
        match (&contents.storage, &contents.failure) {
            (Some(storage), _) => Ok(storage.clone()),
            (None, Some(failure)) => Err(failure.clone()),
            (None, None) => Err(deleted(self)),
        }
    }

    /// Gives the contents up; users of them keep them.
    pub fn delete(&self) {
        let mut contents = self.lock();
        let storage = contents.storage.take();
        contents.failure = None;
        drop(contents);
        // The caller's callback may be called here.
        drop(storage);
    }

    /// Whether it has been deleted or donated.
    pub fn is_deleted(&self) -> bool {
        let contents = self.lock();
        contents.storage.is_none() && contents.failure.is_none()
    }

    /// The array on `device`. Devices share memory, which nobody writes; a copy on the same device is
    /// one, since whoever asked for it wants another address.
    fn on_device(&self, device: &'static Device) -> Outcome<Buffer> {
        match std::ptr::eq(self.device, device) {
            true => Ok(self.over(
                Arc::new(self.storage()?.copied(self.byte_size(), device)?),
                device,
            )),
            false => Ok(self.over(self.storage()?, device)),
        }
    }

    /// The same array under another handle.
    pub fn again(&self) -> Outcome<Buffer> {
        Ok(self.over(self.storage()?, self.device))
    }

    /// An array of this one's type and sizes.
    fn over(&self, storage: Arc<Storage>, device: &'static Device) -> Buffer {
        let mut buffer = Buffer::new(storage, device, self.element_type, &self.dims);
        buffer.is_token = self.is_token;
        buffer
    }

    /// Bytes of all elements.
    pub fn byte_size(&self) -> usize {
        byte_size(self.element_type, &self.dims).unwrap_or(0)
    }

    /// The order of its dimensions, the fastest first.
    pub fn minor_to_major(&self) -> &[i64] {
        &self.minor_to_major
    }
}

#[cold]
fn deleted(buffer: &Buffer) -> Failure {
    let shape = shape_text(buffer.element_type, &buffer.dims);
    Failure::argument(format!("the buffer of {shape} has been deleted or donated"))
}

/// How messages write a shape.
pub fn shape_text(element_type: PrimitiveType, dims: &[i64]) -> String {
    let dims: Vec<String> = dims.iter().map(i64::to_string).collect();
    format!("{}[{}]", element_type.name(), dims.join(","))
}

/// Bytes of an array.
pub fn byte_size(element_type: PrimitiveType, dims: &[i64]) -> Outcome<usize> {
    let size = match dims.iter().all(|&size| size >= 0) {
        true => ArrayShape::new(element_type, dims).byte_size(),
        false => None,
    };
    size.ok_or_else(|| {
        let shape = shape_text(element_type, dims);
        Failure::argument(format!("{shape} is no shape of an array in memory"))
    })
}

args! {
    Destroy "PJRT_Buffer_Destroy" { buffer: Handle<Buffer> }
    ElementType "PJRT_Buffer_ElementType" { buffer: Handle<Buffer>, number: i32 }
    Dimensions "PJRT_Buffer_Dimensions" { buffer: Handle<Buffer>, dims: Out<i64> }
    UnpaddedDimensions "PJRT_Buffer_UnpaddedDimensions" { buffer: Handle<Buffer>, dims: Out<i64> }
    DynamicDimensions "PJRT_Buffer_DynamicDimensionIndices" {
        buffer: Handle<Buffer>,
        dims: Out<usize>,
    }
    GetMemoryLayout "PJRT_Buffer_GetMemoryLayout" { buffer: Handle<Buffer>, layout: MemoryLayout }
    OnDeviceSize "PJRT_Buffer_OnDeviceSizeInBytes" { buffer: Handle<Buffer>, bytes: usize }
    Delete "PJRT_Buffer_Delete" { buffer: Handle<Buffer> }
    IsDeleted "PJRT_Buffer_IsDeleted" { buffer: Handle<Buffer>, is_deleted: Flag }
    CopyToDevice "PJRT_Buffer_CopyToDevice" {
        buffer: Handle<Buffer>,
        device: Ref<Device>,
        copy: Handle<Buffer>,
    }
    CopyToMemory "PJRT_Buffer_CopyToMemory" {
        buffer: Handle<Buffer>,
        memory: Ref<Memory>,
        copy: Handle<Buffer>,
    }
    IsOnCpu "PJRT_Buffer_IsOnCpu" { buffer: Handle<Buffer>, is_on_cpu: Flag }
    GetDevice "PJRT_Buffer_Device" { buffer: Handle<Buffer>, device: *const Device }
    GetMemory "PJRT_Buffer_Memory" { buffer: Handle<Buffer>, memory: *const Memory }
    ReadyEvent "PJRT_Buffer_ReadyEvent" { buffer: Handle<Buffer>, event: Handle<Event> }
    UnsafePointer "PJRT_Buffer_UnsafePointer" { buffer: Handle<Buffer>, address: usize }
    DataPointer "PJRT_Buffer_OpaqueDeviceMemoryDataPointer" {
        buffer: Handle<Buffer>,
        pointer: *const u8,
    }
    IncreaseExternal "PJRT_Buffer_IncreaseExternalReferenceCount" { buffer: Handle<Buffer> }
    DecreaseExternal "PJRT_Buffer_DecreaseExternalReferenceCount" { buffer: Handle<Buffer> }
}

impl Call for Destroy {
    fn call(&mut self) -> Outcome<()> {
        drop(self.buffer.destroy());
        Ok(())
    }
}

impl Call for ElementType {
    fn call(&mut self) -> Outcome<()> {
        let buffer = self.buffer.get("buffer")?;
        self.number = match buffer.is_token {
            true => TOKEN,
            false => number(buffer.element_type)?,
        };
        Ok(())
    }
}

impl Call for Dimensions {
    fn call(&mut self) -> Outcome<()> {
        self.dims.set(&self.buffer.get("buffer")?.dims);
        Ok(())
    }
}

impl Call for UnpaddedDimensions {
    fn call(&mut self) -> Outcome<()> {
        self.dims.set(&self.buffer.get("buffer")?.dims);
        Ok(())
    }
}

impl Call for DynamicDimensions {
    fn call(&mut self) -> Outcome<()> {
        self.buffer.get("buffer")?;
        self.dims.set(&[]);
        Ok(())
    }
}

impl Call for GetMemoryLayout {
    fn call(&mut self) -> Outcome<()> {
        self.layout
            .show(self.buffer.get("buffer")?.minor_to_major());
        Ok(())
    }
}

impl Call for OnDeviceSize {
    fn call(&mut self) -> Outcome<()> {
        self.bytes = self.buffer.get("buffer")?.byte_size();
        Ok(())
    }
}

impl Call for Delete {
    fn call(&mut self) -> Outcome<()> {
        self.buffer.get("buffer")?.delete();
        Ok(())
    }
}

impl Call for IsDeleted {
    fn call(&mut self) -> Outcome<()> {
        self.is_deleted = self.buffer.get("buffer")?.is_deleted().into();
        Ok(())
    }
}

/// The client's own reference to a device, which lives as long as the process.
fn kept(device: &Ref<Device>) -> Outcome<&'static Device> {
    device.get("device")
}

impl Call for CopyToDevice {
    fn call(&mut self) -> Outcome<()> {
        let device = kept(&self.device)?;
        self.copy = give(self.buffer.get("buffer")?.on_device(device)?);
        Ok(())
    }
}

impl Call for CopyToMemory {
    fn call(&mut self) -> Outcome<()> {
        let devices = self.memory.get("memory")?.devices.get();
        // SAFETY: devices are their client's, which is never freed.
        let device = devices.and_then(|devices| unsafe { devices.first() });
        let device = device.ok_or_else(|| Failure::argument("the memory has no device"))?;
        self.copy = give(self.buffer.get("buffer")?.on_device(device)?);
        Ok(())
    }
}

impl Call for IsOnCpu {
    fn call(&mut self) -> Outcome<()> {
        self.buffer.get("buffer")?;
        self.is_on_cpu = true.into();
        Ok(())
    }
}

impl Call for GetDevice {
    fn call(&mut self) -> Outcome<()> {
        self.device = self.buffer.get("buffer")?.device;
        Ok(())
    }
}

impl Call for GetMemory {
    fn call(&mut self) -> Outcome<()> {
        self.memory = self.buffer.get("buffer")?.device.memory();
        Ok(())
    }
}

impl Call for ReadyEvent {
    fn call(&mut self) -> Outcome<()> {
        self.event = match self.buffer.get("buffer")?.storage() {
            Ok(_) => ready(),
            Err(failure) => {
                let event = Event::new();
                event.set(Err(failure));
                event.handle()
            }
        };
        Ok(())
    }
}

impl Call for UnsafePointer {
    fn call(&mut self) -> Outcome<()> {
        self.address = self.buffer.get("buffer")?.storage()?.pointer() as usize;
        Ok(())
    }
}

impl Call for DataPointer {
    fn call(&mut self) -> Outcome<()> {
        self.pointer = self.buffer.get("buffer")?.storage()?.pointer();
        Ok(())
    }
}

impl Call for IncreaseExternal {
    fn call(&mut self) -> Outcome<()> {
        let buffer = self.buffer.get("buffer")?;
        let storage = buffer.storage()?;
        let mut contents = buffer.lock();
        contents.external += 1;
        contents.held.get_or_insert(storage);
        Ok(())
    }
}

impl Call for DecreaseExternal {
    fn call(&mut self) -> Outcome<()> {
        let buffer = self.buffer.get("buffer")?;
        let mut contents = buffer.lock();
        if contents.external == 0 {
            return Err(Failure::argument("the buffer has no external references"));
        }
        contents.external -= 1;
        let unheld = match contents.external {
            0 => contents.held.take(),
            _ => None,
        };
        drop(contents);
        drop(unheld);
        Ok(())
    }
}
