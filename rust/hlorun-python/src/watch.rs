//! Runs without the interpreter lock, and ends when a signal comes.
//!
//! In: what to run. Out: its result, or the exception of the signal. Promise: the lock is free while
//! it runs, and Ctrl-C ends it soon.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use hlorun::HloError;
use hlorun::exec::executor::RunOptions;
use hlorun::plan::ops::custom_call::CustomCallInfo;
use pyo3::prelude::*;

use crate::callbacks::Callbacks;
use crate::error::{Error, Result, guarded};
use crate::executable::PyExecutable;

/// How often a watched run looks for signals.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

impl PyExecutable {
    /// Runs without the interpreter lock; a long run of several devices on a thread of its own, so that
    /// this one can look for signals.
    pub(crate) fn run_detached(
        &self,
        py: Python<'_>,
        callbacks: &Callbacks<'_>,
        body: &(dyn Fn(&RunOptions<'_>) -> hlorun::Result<()> + Sync),
    ) -> Result<()> {
        self.run_watched(py, callbacks, body)
            .map_err(|error| callbacks.error(error))
    }

    fn run_watched(
        &self,
        py: Python<'_>,
        callbacks: &Callbacks<'_>,
        body: &(dyn Fn(&RunOptions<'_>) -> hlorun::Result<()> + Sync),
    ) -> Result<()> {
        let custom_call = |id, info: &CustomCallInfo, inputs: &[_], outputs: &[_]| {
            callbacks.custom_call(id, &info.target, inputs, outputs)
        };
        let run = |options: &RunOptions<'_>| {
            let options = RunOptions {
                custom_call: Some(&custom_call),
                ..*options
            };
            guarded(|| body(&options))
        };
        let run = &run;
        let stop = AtomicBool::new(false);
        // A small program may still loop for ever.
        if self.core().devices().count() == 1 {
            return run_polled(py, run, &stop);
        }
        if !self.is_watched {
            return py
                .detach(|| run(&RunOptions::default()))
                .map_err(Error::Hlo);
        }
        py.detach(|| {
            std::thread::scope(|scope| {
                let (sender, receiver) = mpsc::channel();
                let interrupted = || stop.load(Ordering::Relaxed);
                let work = move || {
                    let result = run(&RunOptions {
                        interrupted: &interrupted,
                        ..RunOptions::default()
                    });
                    // The receiver lives until the result is there.
                    let _ = sender.send(result);
                };
                if let Err(error) = std::thread::Builder::new()
                    .name("hlorun-run".into())
                    .spawn_scoped(scope, work)
                {
                    let message = format!("cannot start a thread: {error}");
                    return Err(Error::Hlo(HloError::execution(message)));
                }
                let mut signal = None;
                loop {
                    match receiver.recv_timeout(WATCH_INTERVAL) {
                        Ok(result) => {
                            return match signal {
                                Some(error) => Err(Error::Python(error)),
                                None => result.map_err(Error::Hlo),
                            };
                        }
                        Err(mpsc::RecvTimeoutError::Timeout) if signal.is_none() => {
                            signal = Python::attach(|py| py.check_signals()).err();
                            stop.store(signal.is_some(), Ordering::Relaxed);
                        }
                        Err(mpsc::RecvTimeoutError::Timeout) => {}
                        Err(mpsc::RecvTimeoutError::Disconnected) => {
                            let message = "internal error: a run ended without a result";
                            return Err(Error::Hlo(HloError::execution(message)));
                        }
                    }
                }
            })
        })
    }
}

/// Runs on this thread, which looks for signals itself when the run asks whether to go on.
fn run_polled(
    py: Python<'_>,
    run: &(dyn Fn(&RunOptions<'_>) -> hlorun::Result<()> + Sync),
    stop: &AtomicBool,
) -> Result<()> {
    let start = Instant::now();
    let caller = std::thread::current().id();
    let next = Mutex::new(WATCH_INTERVAL);
    let signal = Mutex::new(None);
    let interrupted = || {
        if !stop.load(Ordering::Relaxed) && std::thread::current().id() == caller {
            let now = start.elapsed();
            let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
            if now >= *next {
                *next = now + WATCH_INTERVAL;
                if let Err(error) = Python::attach(|py| py.check_signals()) {
                    stop.store(true, Ordering::Relaxed);
                    *signal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
            }
        }
        stop.load(Ordering::Relaxed)
    };
    let result = py.detach(|| {
        run(&RunOptions {
            interrupted: &interrupted,
            ..RunOptions::default()
        })
    });
    match signal.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(Error::Python(error)),
        None => result.map_err(Error::Hlo),
    }
}
