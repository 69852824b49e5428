//! The client: a number of devices, all of which are this CPU.
//!
//! In: how many. Out: their handles. Promise: a client lives as long as the process, since buffers and
//! executables name its devices; there is one for each number of devices.

use std::sync::{Mutex, OnceLock, PoisonError};

use pyo3::prelude::*;

use super::abi::{Call, Handles, In, Out, Ref, args};
use super::device::{Description, Device, Memory};
use super::error::{Failure, Outcome};
use super::named::{NamedValue, Shown, Value};
use super::topology::Topology;

/// The platform's name.
pub const PLATFORM: &str = "hlorun";
/// Its version, for people.
pub const VERSION: &str = concat!("hlorun ", env!("CARGO_PKG_VERSION"));
/// The option that says how many devices there are.
const DEVICES_OPTION: &str = "devices";
/// Most devices.
const MAX_DEVICES: i64 = 1 << 10;

/// A `PJRT_Client`.
pub struct Client {
    pub devices: Vec<Device>,
    memories: Vec<Memory>,
    device_handles: Handles<Device>,
    memory_handles: Handles<Memory>,
    pub description_handles: Handles<Description>,
}

/// Clients by their numbers of devices.
static CLIENTS: Mutex<Vec<&'static Client>> = Mutex::new(Vec::new());

impl Client {
    /// The client of so many devices.
    pub fn of(count: i64) -> Outcome<&'static Client> {
        if !(1..=MAX_DEVICES).contains(&count) {
            return Err(Failure::argument(format!(
                "hlorun makes 1 to {MAX_DEVICES} devices, not {count}"
            )));
        }
        let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = clients.iter().find(|c| c.devices.len() as i64 == count);
        if let Some(client) = known {
            return Ok(client);
        }
        let client = Box::leak(Box::new(Client::new(count as i32)));
        clients.push(client);
        Ok(client)
    }

    fn new(count: i32) -> Client {
        let devices: Vec<Device> = (0..count).map(|id| Device::new(id, count)).collect();
        let memories: Vec<Memory> = (0..count).map(Memory::new).collect();
        for (device, memory) in devices.iter().zip(&memories) {
            // The first value of each.
            let _ = device.memories.set(Handles::of([memory]));
            let _ = memory.devices.set(Handles::of([device]));
        }
        Client {
            device_handles: Handles::of(&devices),
            memory_handles: Handles::of(&memories),
            description_handles: Handles::of(devices.iter().map(|d| &d.description)),
            devices,
            memories,
        }
    }

    /// The device with this number.
    pub fn device(&self, id: i64) -> Outcome<&Device> {
        usize::try_from(id)
            .ok()
            .and_then(|id| self.devices.get(id))
            .ok_or_else(|| {
                let count = self.devices.len();
                Failure::argument(format!("there is no device {id}: there are {count}"))
            })
    }

    /// The client's own reference to what came in as a handle.
    pub fn place(
        &'static self,
        device: &Ref<Device>,
        memory: &Ref<Memory>,
    ) -> Outcome<&'static Device> {
        let id = match (memory.optional(), device.optional()) {
            (Some(memory), _) => memory.id(),
            (None, Some(device)) => device.id(),
            (None, None) => return Err(Failure::argument("neither a device nor a memory")),
        };
        self.device(i64::from(id))
    }
}

/// The versions of StableHLO that jaxlib writes and reads.
static VERSIONS: OnceLock<[[i64; 3]; 2]> = OnceLock::new();
/// Attributes of the plugin, made when first asked for.
static ATTRIBUTES: OnceLock<Shown> = OnceLock::new();

/// Says which versions of StableHLO programs may come in: the current one and the oldest. The first
/// call counts.
#[pyfunction]
pub fn _set_stablehlo_versions(current: [i64; 3], oldest: [i64; 3]) {
    let _ = VERSIONS.set([current, oldest]);
}

fn attributes() -> Shown {
    let mut shown = vec![NamedValue::new("xla_version", Value::Int(2))];
    if let Some([current, oldest]) = VERSIONS.get() {
        shown.push(NamedValue::new(
            "stablehlo_current_version",
            Value::Ints(current),
        ));
        shown.push(NamedValue::new(
            "stablehlo_minimum_version",
            Value::Ints(oldest),
        ));
    }
    Shown::new(shown)
}

args! {
    Initialize "PJRT_Plugin_Initialize" {}
    Attributes "PJRT_Plugin_Attributes" { attributes: Out<NamedValue> }
    Create "PJRT_Client_Create" {
        options: In<NamedValue>,
        kv_get_callback: *const (),
        kv_get_user_arg: *const (),
        kv_put_callback: *const (),
        kv_put_user_arg: *const (),
        client: *const Client,
    }
    Destroy "PJRT_Client_Destroy" { client: Ref<Client> }
    PlatformName "PJRT_Client_PlatformName" { client: Ref<Client>, name: Out<u8> }
    ProcessIndex "PJRT_Client_ProcessIndex" { client: Ref<Client>, index: i32 }
    PlatformVersion "PJRT_Client_PlatformVersion" { client: Ref<Client>, version: Out<u8> }
    GetTopology "PJRT_Client_TopologyDescription" {
        client: Ref<Client>,
        topology: *const Topology,
    }
    Devices "PJRT_Client_Devices" { client: Ref<Client>, devices: Out<*const Device> }
    AddressableDevices "PJRT_Client_AddressableDevices" {
        client: Ref<Client>,
        devices: Out<*const Device>,
    }
    LookupDevice "PJRT_Client_LookupDevice" { client: Ref<Client>, id: i32, device: *const Device }
    LookupAddressableDevice "PJRT_Client_LookupAddressableDevice" {
        client: Ref<Client>,
        id: i32,
        device: *const Device,
    }
    AddressableMemories "PJRT_Client_AddressableMemories" {
        client: Ref<Client>,
        memories: Out<*const Memory>,
    }
    DefaultDeviceAssignment "PJRT_Client_DefaultDeviceAssignment" {
        client: Ref<Client>,
        replicas: i32,
        partitions: i32,
        len: usize,
        assignment: *mut i32,
    }
}

impl Call for Initialize {
    fn call(&mut self) -> Outcome<()> {
        Ok(())
    }
}

impl Call for Attributes {
    fn call(&mut self) -> Outcome<()> {
        self.attributes
            .set(ATTRIBUTES.get_or_init(attributes).values());
        Ok(())
    }
}

impl Call for Create {
    fn call(&mut self) -> Outcome<()> {
        let mut count = 1;
        for option in self.options.get("the options")? {
            match option.name()? {
                DEVICES_OPTION => count = option.int()?,
                // What `jax.distributed` says of this process.
                "num_nodes" if option.int()? == 1 => {}
                "num_nodes" => {
                    let message = "hlorun runs JAX's devices in one process: jax.distributed is not supported";
                    return Err(Failure::unsupported(message));
                }
                "node_id" | "partition_index" => {}
                name => {
                    return Err(Failure::argument(format!(
                        "hlorun knows no option {name}: the only one is {DEVICES_OPTION}"
                    )));
                }
            }
        }
        self.client = Client::of(count)?;
        Ok(())
    }
}

impl Call for Destroy {
    fn call(&mut self) -> Outcome<()> {
        Ok(())
    }
}

impl Call for PlatformName {
    fn call(&mut self) -> Outcome<()> {
        self.client.get("client")?;
        self.name.text(PLATFORM);
        Ok(())
    }
}

impl Call for ProcessIndex {
    fn call(&mut self) -> Outcome<()> {
        self.client.get("client")?;
        self.index = 0;
        Ok(())
    }
}

impl Call for PlatformVersion {
    fn call(&mut self) -> Outcome<()> {
        self.client.get("client")?;
        self.version.text(VERSION);
        Ok(())
    }
}

impl Call for GetTopology {
    fn call(&mut self) -> Outcome<()> {
        self.topology = std::ptr::from_ref(self.client.get("client")?).cast();
        Ok(())
    }
}

impl Call for Devices {
    fn call(&mut self) -> Outcome<()> {
        self.devices
            .set(self.client.get("client")?.device_handles.pointers());
        Ok(())
    }
}

impl Call for AddressableDevices {
    fn call(&mut self) -> Outcome<()> {
        self.devices
            .set(self.client.get("client")?.device_handles.pointers());
        Ok(())
    }
}

impl Call for LookupDevice {
    fn call(&mut self) -> Outcome<()> {
        self.device = self.client.get("client")?.device(i64::from(self.id))?;
        Ok(())
    }
}

impl Call for LookupAddressableDevice {
    fn call(&mut self) -> Outcome<()> {
        self.device = self.client.get("client")?.device(i64::from(self.id))?;
        Ok(())
    }
}

impl Call for AddressableMemories {
    fn call(&mut self) -> Outcome<()> {
        let client = self.client.get("client")?;
        debug_assert_eq!(client.memories.len(), client.devices.len());
        self.memories.set(client.memory_handles.pointers());
        Ok(())
    }
}

impl Call for DefaultDeviceAssignment {
    fn call(&mut self) -> Outcome<()> {
        let client = self.client.get("client")?;
        let (replicas, partitions) = (self.replicas, self.partitions);
        if replicas < 0 || partitions < 0 {
            let message = format!("there are no {replicas} replicas of {partitions} partitions");
            return Err(Failure::argument(message));
        }
        let count = replicas as usize * partitions as usize;
        let available = client.devices.len();
        if count > available {
            return Err(Failure::argument(format!(
                "{replicas} replicas of {partitions} partitions need more than the {available} devices there are"
            )));
        }
        if self.assignment.is_null() || self.len < count {
            let message = format!("room for {} devices, {count} are needed", self.len);
            return Err(Failure::argument(message));
        }
        for id in 0..count {
            // SAFETY: C promises room for `len` numbers, and `count` is no more.
            unsafe { self.assignment.add(id).write(id as i32) };
        }
        Ok(())
    }
}
