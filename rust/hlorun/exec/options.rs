//! What a caller may say about a run.

use std::time::{Duration, Instant};

use super::hooks::{CustomCallHook, Observer};
use crate::plan::thunk::Thunk;

/// What a caller may say about a run.
#[derive(Clone, Copy)]
pub struct RunOptions<'r> {
    /// Asked now and then; `true` ends the run with an error.
    pub interrupted: &'r (dyn Fn() -> bool + Sync),
    /// Shown every value of an executable compiled with `CompileOptions::observe`: the number of the
    /// device, the instruction of [`Executable::module`] and its arrays, valid during the call. An
    /// error ends the run.
    pub observer: Option<&'r Observer<'r>>,
    /// Asked to run calls of targets that are not hlorun's own; `None` where it does not know the
    /// target either.
    pub custom_call: Option<&'r CustomCallHook<'r>>,
    /// Told about every step once it is done.
    pub profile: Option<&'r (dyn Fn(&Step<'_>) + Sync)>,
}

/// A step that has run.
#[derive(Clone, Copy, Debug)]
pub struct Step<'r> {
    /// What.
    pub thunk: &'r Thunk,
    /// On which device.
    pub device: u32,
    /// Since when.
    pub start: Instant,
    /// How long; steps inside it included.
    pub duration: Duration,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        RunOptions {
            interrupted: &|| false,
            observer: None,
            custom_call: None,
            profile: None,
        }
    }
}

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
