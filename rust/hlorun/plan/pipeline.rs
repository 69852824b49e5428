//! The loop that runs passes.
//!
//! In: a table of [`Pass`]es and a module. Out: the rewritten module and a [`PassRecord`] for each
//! pass. The loop skips what is switched off, stops at the limit, takes the time, and shows the
//! module to [`CompileOptions::inspect`] after each pass. Where the options ask for checks, the module
//! is verified after each pass, and the error names the pass that broke a rule. Steps on thunks go through
//! [`Pipeline::step`], which does the same but for showing a module.

use std::time::{Duration, Instant};

use super::hlo::pass::{Pass, PassContext};
use super::hlo::tidy;
use super::options::{Check, CompileOptions, Inspect};
use crate::error::{HloError, Result};
use crate::module::HloModule;
use crate::module::compact::compact;

/// What a pass did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassRecord {
    /// Its name.
    pub name: &'static str,
    /// Instructions, loops or steps it changed.
    pub changes: usize,
    /// The time it took.
    pub time: Duration,
}

/// The loop's state.
pub struct Pipeline<'o> {
    options: &'o CompileOptions,
    records: Vec<PassRecord>,
    /// Optional passes that may still run.
    left: usize,
    shown: usize,
}

impl<'o> Pipeline<'o> {
    /// Before the first pass.
    pub fn new(options: &'o CompileOptions) -> Pipeline<'o> {
        Pipeline {
            options,
            records: Vec::new(),
            left: options.pass_limit.unwrap_or(usize::MAX),
            shown: 0,
        }
    }

    /// Runs the passes of a table in order.
    pub fn run(
        &mut self,
        module: &mut HloModule,
        passes: &[Pass],
        cx: &mut PassContext<'_>,
    ) -> Result<()> {
        for pass in passes {
            if pass.is_optional && !self.take(pass.name) {
                continue;
            }
            self.time(pass.name, || {
                let changes = (pass.run)(module, cx)?;
                // Whoever observes a run wants all values.
                if changes > 0 && !cx.options.observe {
                    tidy::run(module);
                }
                Ok(changes)
            })?;
            self.show(pass.name, module)?;
        }
        Ok(())
    }

    /// Shows and checks the module after a pass.
    fn show(&mut self, name: &'static str, module: &HloModule) -> Result<()> {
        let number = self.shown;
        self.shown += 1;
        if self.options.check != Check::Off {
            crate::verify::verify(&compact(module)).map_err(|error| {
                HloError::execution(format!("the module is not legal after `{name}`: {error}"))
            })?;
        }
        match &self.options.inspect {
            Some(Inspect(inspect)) => inspect(number, name, module),
            None => Ok(()),
        }
    }

    /// Runs an optional step on thunks, which returns how many it changed.
    pub fn step(&mut self, name: &'static str, step: impl FnOnce() -> usize) {
        if self.take(name) {
            // A step on thunks cannot fail.
            let _ = self.time(name, || Ok(step()));
        }
    }

    /// Whether an optional pass runs; it then counts towards the limit.
    fn take(&mut self, name: &str) -> bool {
        let is_on = self.left > 0 && !self.options.is_off(name);
        self.left -= usize::from(is_on);
        is_on
    }

    fn time(&mut self, name: &'static str, run: impl FnOnce() -> Result<usize>) -> Result<()> {
        let start = Instant::now();
        let changes = run()?;
        self.records.push(PassRecord {
            name,
            changes,
            time: start.elapsed(),
        });
        Ok(())
    }

    /// What ran, in order.
    pub fn into_records(self) -> Vec<PassRecord> {
        self.records
    }
}
