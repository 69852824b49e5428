//! What every thunk of a run may use: memory, threads, its place among the replicas.
//!
//! Before each task a loop asks whether the run is to end, and so does a long task now and then. If it is, the loop unwinds to
//! [`interruptible`], so that no later code of the thunk sees what the missing tasks did not compute.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::memory::Memory;
use super::options::RunOptions;
use super::parallel::{OpEnvironment, ParallelLoop};
use super::rendezvous::Rendezvous;
use super::shadow::Shadow;
use super::threads::parallel_for;
use crate::error::{HloError, Result};
use crate::plan::spmd::groups::Devices;
use crate::plan::thunk::Thunk;

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
    pub rendezvous: Option<&'r Rendezvous<'r>>,
    /// Set where thunks run on copies of what they declare.
    pub shadow: Option<&'r Shadow<'r>>,
    /// What the caller wants of the run.
    pub options: RunOptions<'r>,
    tasks: Box<TaskLoop<'r>>,
}

/// A [`ParallelLoop`] that its run may take to another thread.
type TaskLoop<'r> = dyn Fn(usize, &(dyn Fn(usize) + Sync)) + Send + Sync + 'r;

/// What runs a thunk, for who meets thunks inside others.
pub type RunThunk = fn(&Thunk, &Environment<'_>) -> Result<()>;

/// A thunk of which everything is done that its runs share while addresses stay the same.
pub type PreparedThunk<'t> = Box<dyn Fn(&Environment<'_>) -> Result<()> + 't>;

/// What runs thunks again and again, for who meets thunks inside others.
#[derive(Clone, Copy)]
pub struct Runner {
    /// Runs a thunk once.
    pub run: RunThunk,
    /// Prepares a thunk for further runs; `None` where these would share too little.
    pub prepare: for<'t> fn(&'t Thunk, &Environment<'_>) -> Option<PreparedThunk<'t>>,
}

/// What unwinds from a loop of tasks when the run is to end.
struct Interrupted;

/// The error of a run that its caller wants to end.
fn interrupted() -> HloError {
    HloError::execution("interrupted")
}

/// Runs what runs thunks; a loop of tasks that was left becomes an error.
pub fn interruptible<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // What a loop leaves half-written is memory of the run, which nobody reads after an error.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(payload) if payload.is::<Interrupted>() => Err(interrupted()),
        Err(payload) => resume_unwind(payload),
    }
}

/// A loop over tasks on `threads` threads that unwinds once the run is to end.
fn task_loop<'r>(threads: usize, is_over: &'r (dyn Fn() -> bool + Sync)) -> Box<TaskLoop<'r>> {
    Box::new(move |count, task| {
        let checked = |index: usize| {
            if is_over() {
                resume_unwind(Box::new(Interrupted));
            }
            task(index);
        };
        if threads > 1 {
            parallel_for(count, &checked);
        } else {
            (0..count).for_each(checked);
        }
    })
}

impl<'r> Environment<'r> {
    /// The run of the only device.
    pub fn new(memory: Memory, threads: usize, options: &RunOptions<'r>) -> Environment<'r> {
        Environment {
            memory,
            threads,
            replica: 0,
            partition: 0,
            device: 0,
            crowd: 1,
            rendezvous: None,
            shadow: None,
            options: *options,
            tasks: task_loop(threads, options.interrupted),
        }
    }

    /// The same run, as a shadow run where one is given.
    pub fn shadowed(self, shadow: Option<&'r Shadow<'r>>) -> Environment<'r> {
        Environment { shadow, ..self }
    }

    /// The same run on other memory, with no shadows of its own.
    pub fn over(&self, memory: Memory) -> Environment<'r> {
        Environment {
            memory,
            shadow: None,
            tasks: task_loop(self.threads, self.options.interrupted),
            ..*self
        }
    }

    /// The same run as that of a device among `crowd` that run here.
    pub fn on_device(
        self,
        device: u32,
        devices: Devices,
        crowd: usize,
        rendezvous: &'r Rendezvous<'r>,
    ) -> Environment<'r> {
        Environment {
            replica: devices.replica(device),
            partition: devices.partition(device),
            device,
            crowd,
            rendezvous: Some(rendezvous),
            ..self
        }
    }

    /// The loop to run tasks with.
    pub fn parallel(&self) -> &ParallelLoop<'r> {
        &*self.tasks
    }

    /// The same for operations.
    pub fn operation(&self) -> OpEnvironment<'_> {
        OpEnvironment {
            parallel: self.parallel(),
            threads: self.threads,
        }
    }

    /// The same for products.
    pub fn products(&self) -> hlorun_kernels::Parallel<'_> {
        hlorun_kernels::Parallel {
            threads: self.threads,
            run: self.parallel(),
        }
    }

    /// An error once the caller wants the run to end, or another device has failed.
    pub fn check(&self) -> Result<()> {
        if (self.options.interrupted)() {
            return Err(interrupted());
        }
        match self.rendezvous {
            Some(rendezvous) => rendezvous.check(),
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
    let first: std::sync::Mutex<Option<(usize, HloError)>> = std::sync::Mutex::new(None);
    (environment.parallel())(count, &|i| {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[test]
    fn loops_are_left_when_the_run_is_to_end() {
        for threads in [1, 3] {
            let done = AtomicUsize::new(0);
            let is_over = || done.load(SeqCst) >= 10;
            let options = RunOptions {
                interrupted: &is_over,
                ..RunOptions::default()
            };
            let environment = Environment::new(Memory::new(Vec::new()), threads, &options);
            let parallel = environment.parallel();
            let later = AtomicUsize::new(0);
            let result = interruptible(|| {
                parallel(1_000_000, &|_| {
                    parallel(3, &|_| {
                        done.fetch_add(1, SeqCst);
                    });
                });
                later.fetch_add(1, SeqCst);
                Ok(())
            });
            let message = result.expect_err("an interruption").to_string();
            assert!(message.contains("interrupted"), "{message}");
            assert_eq!(later.load(SeqCst), 0);
            assert!(done.load(SeqCst) < 1000);
        }
    }

    #[test]
    fn other_panics_are_passed_on() {
        let options = RunOptions::default();
        let environment = Environment::new(Memory::new(Vec::new()), 2, &options);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            interruptible(|| {
                (environment.parallel())(10, &|i| assert!(i != 7, "as asked"));
                Ok(())
            })
        }));
        assert!(caught.is_err());
    }
}
