//! Thunks that scalar bytecode and machine code leave for.
//!
//! In: the thunks of a scalar program, and what runs them. Promise: the first run of each is an ordinary one; from the second on it
//! is prepared, where that pays. Allocations keep their addresses while the program runs; the places that indices name are found
//! again in every run.

use std::cell::{Cell, OnceCell};

use crate::error::{HloError, Result};
use crate::exec::environment::{Environment, PreparedThunk, Runner};
use crate::plan::cost::scalar_bytecode::MAX_PREPARED;
use crate::plan::thunk::Thunk;

/// Runs the thunk of a number.
pub type RunOutside<'c> = dyn Fn(usize, &Environment<'_>) -> Result<()> + 'c;

/// All thunks of one run of a program, by their numbers in the code.
pub struct OutsideThunks<'t> {
    thunks: Vec<Repeated<'t>>,
    runner: Runner,
}

/// One of them.
struct Repeated<'t> {
    thunk: &'t Thunk,
    has_run: Cell<bool>,
    prepared: OnceCell<Option<PreparedThunk<'t>>>,
}

impl<'t> OutsideThunks<'t> {
    /// Those of a program.
    pub fn new(thunks: &[&'t Thunk], runner: Runner) -> OutsideThunks<'t> {
        let repeated = |&thunk| Repeated {
            thunk,
            has_run: Cell::new(false),
            prepared: OnceCell::new(),
        };
        OutsideThunks {
            thunks: thunks.iter().map(repeated).collect(),
            runner,
        }
    }

    /// Runs the thunk of a number.
    pub fn run(&self, number: usize, environment: &Environment<'_>) -> Result<()> {
        let Some(repeated) = self.thunks.get(number) else {
            return Err(HloError::execution("code of other thunks"));
        };
        let thunk = repeated.thunk;
        if !repeated.has_run.replace(true) || number >= MAX_PREPARED {
            return (self.runner.run)(thunk, environment);
        }
        let prepare = || (self.runner.prepare)(thunk, environment);
        match repeated.prepared.get_or_init(prepare) {
            Some(prepared) => prepared(environment),
            None => (self.runner.run)(thunk, environment),
        }
    }
}
