//! Running out of memory, as a value.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Parallel;

/// Memory that could not be had; the result is unwritten or written in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Bytes that were asked for.
    pub bytes: usize,
}

/// Whether the memory something needed was there.
pub type Outcome = Result<(), OutOfMemory>;

/// Runs `body(0..tasks)`, on the calling thread when there is only one. A task that finds no memory does not keep the
/// others from running.
pub(super) fn fork(
    parallel: &Parallel,
    tasks: usize,
    body: &(dyn Fn(usize) -> Outcome + Sync),
) -> Outcome {
    if tasks == 1 || parallel.threads == 1 {
        return (0..tasks).try_for_each(body);
    }
    // Nothing asks for no bytes in vain.
    let missing = AtomicUsize::new(0);
    (parallel.run)(tasks, &|task| {
        if let Err(error) = body(task) {
            missing.fetch_max(error.bytes, Ordering::Relaxed);
        }
    });
    match missing.into_inner() {
        0 => Ok(()),
        bytes => Err(OutOfMemory { bytes }),
    }
}
