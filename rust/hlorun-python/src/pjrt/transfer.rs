//! Elements from the host and back to it.
//!
//! Every transfer is over when its call returns: what comes in is copied, what goes out is written.

use std::ffi::c_void;
use std::sync::Arc;

use hlorun::buffers::AlignedBytes;
use hlorun::types::PrimitiveType;

use super::abi::{Call, In, Ref, args};
use super::buffer::{Buffer, OnDelete, Storage, byte_size, shape_text};
use super::client::Client;
use super::device::{Device, Memory};
use super::error::{Failure, Outcome};
use super::event::{Event, ready};
use super::handles::{Handle, give, objects};
use super::types::{MemoryLayout, from_number, row_major_strides};

args! {
    FromHost "PJRT_Client_BufferFromHostBuffer" {
        client: Ref<Client>,
        data: *const u8,
        element_type: i32,
        dims: In<i64>,
        byte_strides: In<i64>,
        semantics: i32,
        device: Ref<Device>,
        memory: Ref<Memory>,
        layout: Ref<MemoryLayout>,
        done: Handle<Event>,
        buffer: Handle<Buffer>,
    }
    View "PJRT_Client_CreateViewOfDeviceBuffer" {
        client: Ref<Client>,
        pointer: *mut c_void,
        dims: In<i64>,
        element_type: i32,
        layout: Ref<MemoryLayout>,
        device: Ref<Device>,
        on_delete: Option<OnDelete>,
        on_delete_argument: *mut c_void,
        stream: isize,
        buffer: Handle<Buffer>,
        memory: Ref<Memory>,
    }
    Uninitialized "PJRT_Client_CreateUninitializedBuffer" {
        client: Ref<Client>,
        dims: In<i64>,
        element_type: i32,
        layout: Ref<MemoryLayout>,
        device: Ref<Device>,
        memory: Ref<Memory>,
        buffer: Handle<Buffer>,
    }
    ErrorBuffer "PJRT_Client_CreateErrorBuffer" {
        client: Ref<Client>,
        error_code: i32,
        error_message: In<u8>,
        dims: In<i64>,
        element_type: i32,
        layout: Ref<MemoryLayout>,
        memory: Ref<Memory>,
        buffer: Handle<Buffer>,
    }
    ToHost "PJRT_Buffer_ToHostBuffer" {
        buffer: Handle<Buffer>,
        layout: Ref<MemoryLayout>,
        destination: *mut u8,
        size: usize,
        event: Handle<Event>,
    }
    RawToHost "PJRT_Buffer_CopyRawToHost" {
        buffer: Handle<Buffer>,
        destination: *mut u8,
        offset: i64,
        size: i64,
        event: Handle<Event>,
    }
    RawToHostFuture "PJRT_Buffer_CopyRawToHostFuture" {
        buffer: Handle<Buffer>,
        offset: i64,
        size: i64,
        event: Handle<Event>,
        callback_data: Handle<Future>,
        callback: Option<unsafe extern "C" fn(*mut FutureReady)>,
    }
    Donate "PJRT_Buffer_DonateWithControlDependency" {
        buffer: Handle<Buffer>,
        callback_data: *const (),
        callback: Option<unsafe extern "C" fn(*mut c_void)>,
        donated: Handle<Buffer>,
    }
}

/// Copies an array between layouts, both given by bytes between neighbours.
///
/// # Safety
/// Every element that either strides reach lies in memory of its own side, which nobody writes (the
/// source's) or uses (the destination's) meanwhile.
unsafe fn copy(
    element_type: PrimitiveType,
    dims: &[i64],
    (source, source_strides): (*const u8, &[i64]),
    (destination, strides): (*mut u8, &[i64]),
) {
    if dims.contains(&0) {
        return;
    }
    let size = element_type.size_bytes();
    let dense = row_major_strides(dims, size);
    if source_strides == dense && strides == dense {
        let bytes = byte_size(element_type, dims).unwrap_or(0);
        // SAFETY: both are dense, so that the elements are all that lies between the first and the last.
        unsafe { std::ptr::copy_nonoverlapping(source, destination, bytes) };
        return;
    }
    let dims: Vec<usize> = dims.iter().map(|&d| d as usize).collect();
    let signed = |strides: &[i64]| strides.iter().map(|&s| s as isize).collect::<Vec<_>>();
    // SAFETY: by the caller's promise.
    unsafe {
        hlorun_kernels::copy_strided(
            size,
            &dims,
            source.cast_mut(),
            &signed(source_strides),
            destination,
            &signed(strides),
        );
    }
}

/// Refuses arrays on a device that are not row-major.
fn require_row_major(
    layout: &Ref<MemoryLayout>,
    element_type: PrimitiveType,
    dims: &[i64],
) -> Outcome<()> {
    let Some(layout) = layout.optional() else {
        return Ok(());
    };
    let size = element_type.size_bytes();
    let strides = layout.byte_strides(dims, size)?;
    let differs = strides
        .iter()
        .zip(row_major_strides(dims, size))
        .zip(dims)
        .any(|((&a, b), &dim)| a != b && dim > 1);
    if differs && !dims.contains(&0) {
        let shape = shape_text(element_type, dims);
        return Err(Failure::unsupported(format!(
            "arrays on hlorun's devices are row-major; another layout was asked for {shape}"
        )));
    }
    Ok(())
}

/// An array that is to be made: where, of what type, of which sizes, and how many bytes.
type Wanted<'a> = (&'static Device, PrimitiveType, &'a [i64], usize);

/// Reads what C says of an array that is to be made.
fn wanted<'a>(
    client: &Ref<Client>,
    (device, memory): (&Ref<Device>, &Ref<Memory>),
    (element_type, dims): (i32, &In<i64>),
    layout: &Ref<MemoryLayout>,
) -> Outcome<Wanted<'a>> {
    // Clients live as long as the process.
    let client: &'static Client = client.get("client")?;
    let device = client.place(device, memory)?;
    let element_type = from_number(element_type)?;
    let dims = dims.get("the sizes")?;
    let bytes = byte_size(element_type, dims)?;
    require_row_major(layout, element_type, dims)?;
    Ok((device, element_type, dims, bytes))
}

impl Call for FromHost {
    fn call(&mut self) -> Outcome<()> {
        let (device, element_type, dims, bytes) = wanted(
            &self.client,
            (&self.device, &self.memory),
            (self.element_type, &self.dims),
            &self.layout,
        )?;
        let size = element_type.size_bytes();
        let dense = row_major_strides(dims, size);
        let given = self.byte_strides.get("the strides")?;
        let strides = match given.len() {
            0 => &dense[..],
            len if len == dims.len() => given,
            len => {
                let message = format!("{len} strides for {} dimensions", dims.len());
                return Err(Failure::argument(message));
            }
        };
        if self.data.is_null() && bytes > 0 {
            return Err(Failure::argument("the host's elements are null"));
        }
        let mut block = AlignedBytes::uninitialized(bytes)?;
        // SAFETY: C promises the elements that its strides reach; the block is new and has room for all.
        unsafe {
            copy(
                element_type,
                dims,
                (self.data, strides),
                (block.as_mut_ptr(), &dense),
            );
        }
        let storage = Arc::new(Storage::new(block, device));
        self.done = ready();
        self.buffer = give(Buffer::new(storage, device, element_type, dims));
        Ok(())
    }
}

impl Call for View {
    fn call(&mut self) -> Outcome<()> {
        let (device, element_type, dims, bytes) = wanted(
            &self.client,
            (&self.device, &self.memory),
            (self.element_type, &self.dims),
            &self.layout,
        )?;
        let alignment = element_type.component().size_bytes();
        let mut pointer = self.pointer;
        if bytes == 0 {
            // Runs want an address even where there is nothing.
            pointer = std::ptr::without_provenance_mut(alignment);
        }
        if pointer.is_null() || !(pointer as usize).is_multiple_of(alignment) {
            return Err(Failure::argument(format!(
                "{} at {pointer:?}: expected an address that is a multiple of {alignment}, and not null",
                shape_text(element_type, dims)
            )));
        }
        let storage = match bytes {
            0 => {
                let none = AlignedBytes::uninitialized(0)?;
                if let Some(on_delete) = self.on_delete {
                    // SAFETY: by PJRT's contract; there is nothing to keep.
                    unsafe { on_delete(self.pointer, self.on_delete_argument) };
                }
                Storage::new(none, device)
            }
            _ => Storage::of_caller(pointer, self.on_delete, self.on_delete_argument, device),
        };
        self.buffer = give(Buffer::new(Arc::new(storage), device, element_type, dims));
        Ok(())
    }
}

impl Call for Uninitialized {
    fn call(&mut self) -> Outcome<()> {
        let (device, element_type, dims, bytes) = wanted(
            &self.client,
            (&self.device, &self.memory),
            (self.element_type, &self.dims),
            &self.layout,
        )?;
        // Zeros, so that nothing of this process's memory shows.
        let block = AlignedBytes::zeroed(bytes)?.into_uninit();
        let storage = Arc::new(Storage::new(block, device));
        self.buffer = give(Buffer::new(storage, device, element_type, dims));
        Ok(())
    }
}

impl Call for ErrorBuffer {
    fn call(&mut self) -> Outcome<()> {
        let none = Ref::null();
        let (device, element_type, dims, _) = wanted(
            &self.client,
            (&none, &self.memory),
            (self.element_type, &self.dims),
            &self.layout,
        )?;
        let message = self.error_message.get("the message")?;
        let failure = Failure {
            code: self.error_code,
            message: String::from_utf8_lossy(message).into_owned(),
        };
        self.buffer = give(Buffer::failed(failure, device, element_type, dims));
        Ok(())
    }
}

impl Call for ToHost {
    fn call(&mut self) -> Outcome<()> {
        let buffer = self.buffer.get("buffer")?;
        let bytes = buffer.byte_size();
        if self.destination.is_null() {
            self.size = bytes;
            return Ok(());
        }
        if self.size < bytes {
            let message = format!("room for {} bytes, {bytes} are needed", self.size);
            return Err(Failure::argument(message));
        }
        let size = buffer.element_type.size_bytes();
        let dense = row_major_strides(&buffer.dims, size);
        let strides = match self.layout.optional() {
            Some(layout) => layout.byte_strides(&buffer.dims, size)?,
            None => dense.clone(),
        };
        let reach: i64 = strides
            .iter()
            .zip(&buffer.dims)
            .map(|(&stride, &dim)| {
                if stride < 0 {
                    i64::MAX / 64
                } else {
                    stride.saturating_mul((dim - 1).max(0))
                }
            })
            .fold(size as i64, i64::saturating_add);
        if bytes > 0 && reach > self.size as i64 {
            return Err(Failure::argument(
                "the layout reaches beyond the room there is",
            ));
        }
        let storage = buffer.storage()?;
        // SAFETY: the storage holds the elements, dense; C promises room for `size` bytes, beyond which
        // the strides do not reach.
        unsafe {
            copy(
                buffer.element_type,
                &buffer.dims,
                (storage.pointer(), &dense),
                (self.destination, &strides),
            );
        }
        self.event = ready();
        Ok(())
    }
}

/// The bytes `offset..offset + size` of a buffer.
fn piece(buffer: &Buffer, offset: i64, size: i64) -> Outcome<(Arc<Storage>, usize, usize)> {
    let bytes = buffer.byte_size() as i64;
    let end = offset.checked_add(size);
    if offset < 0 || size < 0 || end.is_none_or(|end| end > bytes) {
        return Err(Failure::argument(format!(
            "bytes {offset} to {} of a buffer of {bytes}",
            end.unwrap_or(i64::MAX)
        )));
    }
    Ok((buffer.storage()?, offset as usize, size as usize))
}

impl Call for RawToHost {
    fn call(&mut self) -> Outcome<()> {
        let buffer = self.buffer.get("buffer")?;
        let (storage, offset, size) = piece(&buffer, self.offset, self.size)?;
        if size > 0 && self.destination.is_null() {
            return Err(Failure::argument("the destination is null"));
        }
        if size > 0 {
            // SAFETY: `piece` found the bytes inside the storage; C promises room for them.
            unsafe {
                let source = storage.pointer().add(offset);
                std::ptr::copy_nonoverlapping(source, self.destination, size);
            }
        }
        self.event = ready();
        Ok(())
    }
}

/// A copy whose destination the caller says later.
pub struct Future {
    storage: Arc<Storage>,
    offset: usize,
    size: usize,
    event: Arc<Event>,
}

objects!(Future);

/// What the caller says then.
#[repr(C)]
pub struct FutureReady {
    struct_size: usize,
    future: Handle<Future>,
    error_code: i32,
    error_message: In<u8>,
    destination: *mut u8,
}

unsafe extern "C" fn finish(args: *mut FutureReady) {
    super::error::contained(|| {
        // SAFETY: C promises the struct.
        let Some(args) = (unsafe { args.as_ref() }) else {
            return;
        };
        let Some(future) = args.future.destroy() else {
            return;
        };
        let message = args.error_message.get("the message").unwrap_or(&[]);
        future.event.set(match args.error_code {
            0 if future.size > 0 && args.destination.is_null() => {
                Err(Failure::argument("the destination is null"))
            }
            0 => {
                // SAFETY: as in `RawToHost`.
                unsafe {
                    let source = future.storage.pointer().add(future.offset);
                    std::ptr::copy_nonoverlapping(source, args.destination, future.size);
                }
                Ok(())
            }
            code => Err(Failure {
                code,
                message: String::from_utf8_lossy(message).into_owned(),
            }),
        });
    });
}

impl Call for RawToHostFuture {
    fn call(&mut self) -> Outcome<()> {
        let buffer = self.buffer.get("buffer")?;
        let (storage, offset, size) = piece(&buffer, self.offset, self.size)?;
        let event = Event::new();
        self.event = event.handle();
        self.callback_data = give(Future {
            storage,
            offset,
            size,
            event,
        });
        self.callback = Some(finish);
        Ok(())
    }
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

impl Call for Donate {
    fn call(&mut self) -> Outcome<()> {
        let buffer = self.buffer.get("buffer")?;
        let donated = buffer.again()?;
        buffer.delete();
        self.donated = give(donated);
        // Whatever is waited for, the array is there already.
        self.callback_data = std::ptr::null();
        self.callback = Some(nothing);
        Ok(())
    }
}
