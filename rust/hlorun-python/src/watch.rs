//! Runs without the interpreter lock, and ends when a signal comes or its time is up.
//!
//! In: what to run. Out: its result, the exception of the signal, or `HloTimeoutError`. Promise: the
//! lock is free while it runs, and Ctrl-C and the time limit end it soon.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hlorun::exec::{ArrayMut, ArrayRef, RunOptions};
use hlorun::plan::ops::custom_call::CustomCallInfo;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::callbacks::Callbacks;
use crate::error::{Error, Result, guarded, timed_out};

/// How often a run looks for signals, in nanoseconds.
const WATCH_INTERVAL: u64 = 50_000_000;

/// The longest a run may take.
#[derive(Clone, Copy, Default)]
pub struct TimeLimit(Option<Duration>);

impl TimeLimit {
    /// From Python's seconds; None for no limit.
    pub fn new(seconds: Option<f64>) -> Result<TimeLimit> {
        let Some(seconds) = seconds else {
            return Ok(TimeLimit(None));
        };
        if seconds.is_nan() || seconds < 0.0 {
            let message = format!("timeout is a number of seconds of at least 0, not {seconds}");
            return Err(Error::Python(PyValueError::new_err(message)));
        }
        // What is longer than a clock can tell is no limit.
        Ok(TimeLimit(Duration::try_from_secs_f64(seconds).ok()))
    }
}

/// Whether a run is to end, and why.
struct Watch {
    start: Instant,
    limit: TimeLimit,
    /// The thread that asked for the run, which alone may handle signals.
    caller: std::thread::ThreadId,
    /// When to look for signals again, in nanoseconds since the start.
    next: AtomicU64,
    is_over: AtomicBool,
    signal: Mutex<Option<PyErr>>,
}

impl Watch {
    fn new(limit: TimeLimit) -> Watch {
        Watch {
            start: Instant::now(),
            limit,
            caller: std::thread::current().id(),
            next: AtomicU64::new(WATCH_INTERVAL),
            is_over: AtomicBool::new(false),
            signal: Mutex::new(None),
        }
    }

    /// Called often, from every thread of the run.
    fn interrupted(&self) -> bool {
        if self.is_over.load(Ordering::Relaxed) {
            return true;
        }
        let now = self.start.elapsed();
        if self.limit.0.is_some_and(|limit| now >= limit) {
            self.is_over.store(true, Ordering::Relaxed);
            return true;
        }
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        if now >= self.next.load(Ordering::Relaxed) && std::thread::current().id() == self.caller {
            self.next
                .store(now.saturating_add(WATCH_INTERVAL), Ordering::Relaxed);
            if let Err(error) = Python::attach(|py| py.check_signals()) {
                *self.signal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                self.is_over.store(true, Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    /// What the caller is told of a run that ended with `result`.
    fn outcome(self, result: hlorun::Result<()>) -> Result<()> {
        let signal = self.signal.into_inner();
        if let Some(error) = signal.unwrap_or_else(PoisonError::into_inner) {
            return Err(Error::Python(error));
        }
        match (result, self.limit.0) {
            (Err(_), Some(limit)) if self.is_over.into_inner() => Err(timed_out(limit)),
            (result, _) => result.map_err(Error::Hlo),
        }
    }
}

/// What a run does, with the options it is given.
type Body<'a> = dyn Fn(&RunOptions<'_>) -> hlorun::Result<()> + Sync + 'a;

/// Runs `body` without the interpreter lock.
pub fn run_detached(
    py: Python<'_>,
    callbacks: &Callbacks<'_>,
    limit: TimeLimit,
    body: &Body<'_>,
) -> Result<()> {
    py.detach(|| run_unlocked(callbacks, limit, body))
}

/// Runs `body` on a thread that does not hold the interpreter lock.
pub fn run_unlocked(callbacks: &Callbacks<'_>, limit: TimeLimit, body: &Body<'_>) -> Result<()> {
    let custom_call =
        |id, info: &CustomCallInfo, inputs: &[ArrayRef<'_>], outputs: &[ArrayMut<'_>]| {
            callbacks.custom_call(id, &info.target, inputs, outputs)
        };
    let watch = Watch::new(limit);
    let options = RunOptions {
        interrupted: &|| watch.interrupted(),
        custom_call: Some(&custom_call),
        ..RunOptions::default()
    };
    // A run of one step asks nobody whether it may go on.
    let result = match watch.interrupted() {
        true => Err(hlorun::HloError::execution("no time to run")),
        false => guarded(|| body(&options)),
    };
    watch
        .outcome(result)
        .map_err(|error| callbacks.error(error))
}
