//! The caller's `CompileOptionsProto`: how many devices, and which.

use hlorun::plan::spmd::groups::Devices;
use prost::Message;

use super::client::Client;
use super::device::Device;
use super::error::{Failure, Outcome};

#[derive(Message)]
struct CompileOptions {
    #[prost(bool, tag = "2")]
    has_tupled_parameters: bool,
    #[prost(message, optional, tag = "3")]
    build: Option<BuildOptions>,
    #[prost(bool, tag = "4")]
    is_portable: bool,
}

#[derive(Message)]
struct BuildOptions {
    #[prost(int64, tag = "1")]
    device_ordinal: i64,
    #[prost(int64, tag = "4")]
    replicas: i64,
    #[prost(int64, tag = "5")]
    partitions: i64,
    #[prost(message, optional, tag = "9")]
    assignment: Option<DeviceAssignment>,
}

#[derive(Message)]
struct DeviceAssignment {
    #[prost(int32, tag = "1")]
    replica_count: i32,
    #[prost(int32, tag = "2")]
    computation_count: i32,
    #[prost(message, repeated, tag = "3")]
    partitions: Vec<PartitionDevices>,
}

#[derive(Message)]
struct PartitionDevices {
    #[prost(int64, repeated, tag = "1")]
    devices: Vec<i64>,
}

/// What the options say.
pub struct Placement {
    pub replicas: u32,
    pub partitions: u32,
    /// One for each partition of each replica, replica by replica.
    pub devices: Vec<&'static Device>,
}

/// Reads the options.
pub fn placement(client: &'static Client, options: &[u8]) -> Outcome<Placement> {
    let options = CompileOptions::decode(options)
        .map_err(|error| Failure::argument(format!("the compile options: {error}")))?;
    if options.has_tupled_parameters {
        let message = "parameters that are passed as one tuple are not supported";
        return Err(Failure::unsupported(message));
    }
    let build = options.build.unwrap_or_default();
    let replicas = count("replicas", build.replicas)?;
    let partitions = count("partitions", build.partitions)?;
    let available = client.devices.len();
    let needed = u64::from(replicas) * u64::from(partitions);
    if needed > available as u64 {
        return Err(Failure::argument(format!(
            "the program is for {replicas} x {partitions} devices; there are {available}"
        )));
    }
    let assignment = build.assignment.filter(|_| !options.is_portable);
    let mut devices = Vec::with_capacity(needed as usize);
    for replica in 0..replicas as usize {
        for partition in 0..partitions as usize {
            let given = assignment.as_ref().map(|assignment| {
                let devices = assignment.partitions.get(partition);
                devices.and_then(|p| p.devices.get(replica)).copied()
            });
            let id = match given {
                Some(Some(id)) => id,
                Some(None) => {
                    let message = "the device assignment is smaller than the program";
                    return Err(Failure::argument(message));
                }
                // Proto 3 cannot tell 0 from nothing, and -1 is nothing as well.
                None if needed == 1 => build.device_ordinal.max(0),
                None => devices.len() as i64,
            };
            devices.push(client.device(id)?);
        }
    }
    Ok(Placement {
        replicas,
        partitions,
        devices,
    })
}

/// The serialized `DeviceAssignmentProto` of a program's devices.
pub fn assignment(counts: Devices, devices: &[&'static Device]) -> Vec<u8> {
    let partitions = counts.partitions as usize;
    let of_partition = |partition| PartitionDevices {
        devices: devices
            .iter()
            .skip(partition)
            .step_by(partitions)
            .map(|device| i64::from(device.id()))
            .collect(),
    };
    let proto = DeviceAssignment {
        replica_count: counts.replicas as i32,
        computation_count: counts.partitions as i32,
        partitions: (0..partitions).map(of_partition).collect(),
    };
    proto.encode_to_vec()
}

fn count(name: &str, given: i64) -> Outcome<u32> {
    u32::try_from(given.max(1))
        .map_err(|_| Failure::argument(format!("{given} {name} are too many")))
}

/// `HloModuleProtoWithConfig`.
#[derive(Message)]
struct ModuleWithConfig {
    #[prost(bytes = "vec", tag = "1")]
    module: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    config: Option<ModuleConfig>,
}

/// What a reader wants of `HloModuleConfigProto`.
#[derive(Message)]
struct ModuleConfig {
    /// A `ProgramShapeProto`.
    #[prost(bytes = "vec", tag = "1")]
    entry_computation_layout: Vec<u8>,
    #[prost(int64, tag = "4")]
    replica_count: i64,
    #[prost(int64, tag = "5")]
    num_partitions: i64,
}

/// The part of `HloModuleProto` that the configuration repeats.
#[derive(Message)]
struct ModuleShape {
    /// A `ProgramShapeProto`.
    #[prost(bytes = "vec", tag = "4")]
    host_program_shape: Vec<u8>,
}

/// A serialized `HloModuleProto` with the configuration that its readers want.
pub fn with_config(module: &[u8], counts: Devices) -> Outcome<Vec<u8>> {
    let shape = ModuleShape::decode(module)
        .map_err(|error| Failure::internal(format!("the module's proto: {error}")))?;
    let proto = ModuleWithConfig {
        module: module.to_vec(),
        config: Some(ModuleConfig {
            entry_computation_layout: shape.host_program_shape,
            replica_count: i64::from(counts.replicas),
            num_partitions: i64::from(counts.partitions),
        }),
    };
    Ok(proto.encode_to_vec())
}
