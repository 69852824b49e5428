//! What every thunk of a run may use: memory, threads, its place among the replicas.

use super::collectives::Meeting;
use super::executor::RunOptions;
use super::memory::Memory;
use super::ops::{OpEnvironment, ParallelLoop};
use super::threads::parallel_for;
use crate::error::{HloError, Result};

/// One run.
pub struct Environment<'r> {
    /// Addresses.
    pub memory: Memory,
    /// Threads to use; 1 keeps everything on the caller's.
    pub threads: usize,
    /// Number of this replica.
    pub replica: u32,
    /// Number of this partition.
    pub partition: u32,
    /// `replica * partitions + partition`.
    pub device: u32,
    /// Devices whose values pass through the caches by turns while a step runs.
    pub crowd: usize,
    /// Where it meets the other devices, when there are any.
    pub meeting: Option<&'r Meeting<'r>>,
    /// What the caller wants of the run.
    pub options: RunOptions<'r>,
}

fn serial_for(count: usize, task: &(dyn Fn(usize) + Sync)) {
    (0..count).for_each(task);
}

impl Environment<'_> {
    /// The loop to run tasks with.
    pub fn parallel(&self) -> &'static ParallelLoop {
        if self.threads > 1 {
            &parallel_for
        } else {
            &serial_for
        }
    }

    /// The same for operations.
    pub fn operation(&self) -> OpEnvironment<'static> {
        OpEnvironment {
            parallel: self.parallel(),
            replica: self.replica,
            partition: self.partition,
        }
    }

    /// The same for products.
    pub fn products(&self) -> hlorun_kernels::Parallel<'static> {
        hlorun_kernels::Parallel {
            threads: self.threads,
            run: self.parallel(),
        }
    }

    /// An error once the caller wants the run to end, or another device has failed.
    pub fn check(&self) -> Result<()> {
        if (self.options.interrupted)() {
            return Err(HloError::execution("interrupted"));
        }
        match self.meeting {
            Some(meeting) => meeting.check(),
            None => Ok(()),
        }
    }
}

/// Runs fallible tasks in parallel; the error of the lowest task wins, so that it does not depend on
/// timing.
pub fn try_parallel(
    environment: &Environment<'_>,
    count: usize,
    task: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<()> {
    if count <= 1 || environment.threads <= 1 {
        return (0..count).try_for_each(task);
    }
    let first: std::sync::Mutex<Option<(usize, HloError)>> = std::sync::Mutex::new(None);
    parallel_for(count, &|i| {
        if let Err(error) = task(i)
            && let Ok(mut first) = first.lock()
            && first.as_ref().is_none_or(|(at, _)| i < *at)
        {
            *first = Some((i, error));
        }
    });
    match first.into_inner() {
        Ok(Some((_, error))) => Err(error),
        _ => Ok(()),
    }
}
