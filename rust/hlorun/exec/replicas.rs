//! Runs the replicas and partitions of an executable together.
//!
//! In: addresses of the arrays of every device. Out: all results in the callers' memory. Promise:
//! devices run in parallel on threads of their own, which never hold a worker of the pool while
//! they wait; the first that fails ends the others with its error; inputs are only read, so several
//! devices may share them.

use super::collectives::{Meeting, Network};
use super::environment::Environment;
use super::executor::{RunOptions, sequence};
use crate::error::{HloError, Result};
use crate::plan::Executable;

/// Addresses of one device's arrays.
#[derive(Clone, Debug, Default)]
pub struct DeviceArrays {
    /// For every leaf of [`Executable::inputs`].
    pub inputs: Vec<*const u8>,
    /// For every leaf of [`Executable::outputs`].
    pub outputs: Vec<*mut u8>,
}

// SAFETY: addresses may be used from any thread; see `run_devices` for what they promise.
unsafe impl Send for DeviceArrays {}
// SAFETY: as above.
unsafe impl Sync for DeviceArrays {}

/// Tells the others that a device is gone, whatever way its thread ends.
struct Leaving<'m, 'r> {
    meeting: &'m Meeting<'r>,
    device: u32,
    result: Result<()>,
}

impl Drop for Leaving<'_, '_> {
    fn drop(&mut self) {
        self.meeting.ended(self.device, &self.result);
    }
}

impl Executable {
    /// Runs all devices once: `arrays[i]` is the `i`-th device's, replica by replica. Over a
    /// `network`, only the devices of this process are given and run here, and every process calls
    /// this.
    ///
    /// Errors: `HloError::Argument` for a wrong number of devices or addresses; else the error of
    /// the device that failed first.
    ///
    /// # Safety
    ///
    /// As for [`Executable::run`], for every device; inputs may be the same for several.
    pub unsafe fn run_devices(
        &self,
        arrays: &[DeviceArrays],
        network: Option<&Network>,
        options: &RunOptions<'_>,
    ) -> Result<()> {
        let devices = self.devices();
        let local = network.map_or(0..devices.count(), |network| network.local(devices));
        if arrays.len() != local.len() {
            return Err(HloError::argument(format!(
                "expected the arrays of {} devices, got {}",
                local.len(),
                arrays.len()
            )));
        }
        for device in arrays {
            if device.inputs.len() != self.inputs().len()
                || device.outputs.len() != self.outputs().len()
            {
                return Err(HloError::argument(format!(
                    "expected {} input and {} output arrays for each device, got {} and {}",
                    self.inputs().len(),
                    self.outputs().len(),
                    device.inputs.len(),
                    device.outputs.len()
                )));
            }
        }
        // All memory outlives all threads: a device that has failed leaves what it posted readable.
        let mut arenas = Vec::with_capacity(arrays.len());
        for _ in arrays {
            arenas.push(self.take_arena()?);
        }
        let meeting = Meeting::new(devices, local.clone(), network);
        let threads = (self.threads() / arrays.len().max(1)).max(1);
        std::thread::scope(|scope| {
            for ((device, arrays), arena) in local.clone().zip(arrays).zip(&mut arenas) {
                let environment = Environment {
                    memory: self.memory(arena.as_mut_ptr(), &arrays.inputs, &arrays.outputs),
                    threads,
                    replica: devices.replica(device),
                    partition: devices.partition(device),
                    device,
                    meeting: Some(&meeting),
                    options: *options,
                };
                let meeting = &meeting;
                let work = move || {
                    let mut leaving = Leaving {
                        meeting,
                        device,
                        result: Err(HloError::execution(format!(
                            "internal error: {} panicked",
                            devices.name(device)
                        ))),
                    };
                    leaving.result = sequence(self.thunks(), &environment);
                };
                if let Err(error) = std::thread::Builder::new()
                    .name(format!("hlorun-device-{device}"))
                    .spawn_scoped(scope, work)
                {
                    let error = HloError::execution(format!("cannot start a thread: {error}"));
                    for missing in device..local.end {
                        meeting.ended(missing, &Err(error.clone()));
                    }
                    break;
                }
            }
            meeting.serve();
        });
        for arena in arenas {
            self.return_arena(arena);
        }
        match meeting.failure() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
