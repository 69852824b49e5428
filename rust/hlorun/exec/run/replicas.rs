//! Runs the replicas and partitions of an executable together.
//!
//! In: addresses of the arrays of every device. Out: all results in the callers' memory. Promise:
//! devices of one process go side by side where they cannot part ways; otherwise they run in parallel
//! on threads of their own, which never hold a worker of the pool while they wait. The first that fails ends the others with its error; inputs are only read, so several
//! devices may share them.

use std::ops::Range;

use super::lockstep;
use crate::error::{HloError, Result};
use crate::exec::environment::{Environment, interruptible};
use crate::exec::options::DeviceArrays;
use crate::exec::options::RunOptions;
use crate::exec::rendezvous::{Network, Rendezvous};
use crate::exec::run::executor::sequence;
use crate::float_mode::DefaultMode;
use crate::plan::Executable;

/// Tells the others that a device is gone, whatever way its thread ends.
struct Leaving<'m, 'r> {
    rendezvous: &'m Rendezvous<'r>,
    device: u32,
    result: Result<()>,
}

impl Drop for Leaving<'_, '_> {
    fn drop(&mut self) {
        self.rendezvous.ended(self.device, &self.result);
    }
}

impl Executable {
    /// For every leaf of the result, whether it is the same on all devices because of how it is
    /// computed from inputs at these addresses: [`Executable::run_devices`] is best given one array
    /// for it then.
    pub fn common_outputs(&self, arrays: &[DeviceArrays]) -> Vec<bool> {
        let plan = (arrays.len() > 1)
            .then(|| self.lockstep(&lockstep::common_inputs(arrays)))
            .flatten();
        match plan {
            Some(plan) => plan.shared_outputs.clone(),
            None => vec![false; self.outputs().len()],
        }
    }

    /// Runs all devices once: `arrays[i]` is the `i`-th device's, replica by replica. Over a
    /// `network`, only the devices of this process are given and run here, and every process calls
    /// this.
    ///
    /// Errors: `HloError::Argument` for a wrong number of devices or addresses; else the error of
    /// the device that failed first.
    ///
    /// # Safety
    ///
    /// As for [`Executable::run`], for every device; inputs may be the same for several, outputs
    /// where [`Executable::common_outputs`] says so, and then for all.
    pub unsafe fn run_devices(
        &self,
        arrays: &[DeviceArrays],
        network: Option<&Network>,
        options: &RunOptions<'_>,
    ) -> Result<()> {
        let _mode = DefaultMode::enter();
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
        if network.is_none()
            && let Some(plan) = self.lockstep(&lockstep::common_inputs(arrays))
        {
            // SAFETY: by the caller's promise.
            return unsafe { lockstep::run(self, &plan, arrays, options) };
        }
        self.run_on_threads(arrays, local, network, options)
    }

    /// Runs the devices `local` on a thread each.
    fn run_on_threads(
        &self,
        arrays: &[DeviceArrays],
        local: Range<u32>,
        network: Option<&Network>,
        options: &RunOptions<'_>,
    ) -> Result<()> {
        let devices = self.devices();
        // All memory outlives all threads: a device that has failed leaves what it posted readable.
        let mut arenas = Vec::with_capacity(arrays.len());
        for _ in arrays {
            arenas.push(self.take_arena()?);
        }
        let rendezvous = Rendezvous::new(devices, local.clone(), network);
        let count = arrays.len();
        let shadow = self.shadow();
        let threads = (self.threads() / count.max(1)).max(1);
        std::thread::scope(|scope| {
            for ((device, arrays), arena) in local.clone().zip(arrays).zip(&mut arenas) {
                let memory = self.memory(arena.as_mut_ptr(), &arrays.inputs, &arrays.outputs);
                let environment = Environment::new(memory, threads, options)
                    .on_device(device, devices, count, &rendezvous)
                    .shadowed(shadow.as_ref());
                let rendezvous = &rendezvous;
                let work = move || {
                    let _mode = DefaultMode::enter();
                    let mut leaving = Leaving {
                        rendezvous,
                        device,
                        result: Err(HloError::execution(format!(
                            "internal error: {} panicked",
                            devices.name(device)
                        ))),
                    };
                    leaving.result = interruptible(|| sequence(self.thunks(), &environment));
                };
                if let Err(error) = std::thread::Builder::new()
                    .name(format!("hlorun-device-{device}"))
                    .spawn_scoped(scope, work)
                {
                    let error = HloError::execution(format!("cannot start a thread: {error}"));
                    for missing in device..local.end {
                        rendezvous.ended(missing, &Err(error.clone()));
                    }
                    break;
                }
            }
            rendezvous.attend(options.interrupted);
        });
        rendezvous.check_channels();
        for arena in arenas {
            self.return_arena(arena);
        }
        rendezvous.failure().map_or(Ok(()), Err)
    }
}
