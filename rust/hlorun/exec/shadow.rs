//! Which executions of a shadow run are on copies.
//!
//! In: the thunks of a run. Out: whether to copy. Promise: every execution is, until the copies of one
//! thunk have taken [`BUDGET`] bytes; from then on its 2nd, 4th, 8th … execution.

use std::sync::Mutex;

use rustc_hash::FxHashMap;

use super::threads::slot::lock;
use crate::module::HloModule;
use crate::plan::thunk::Thunk;

/// Bytes that the copies of one thunk may take before it is only sampled.
const BUDGET: usize = 1 << 30;

/// What copies count at least: opening and closing their pages takes as long as copying this much.
const LEAST: usize = 1 << 16;

/// What a shadow run knows beside the memory.
pub struct Shadow<'m> {
    /// The module, which names the instruction of a thunk at fault.
    pub module: &'m HloModule,
    /// By address of the thunk, which the plan keeps.
    spent: Mutex<FxHashMap<usize, Spent>>,
}

/// What a thunk has cost so far.
#[derive(Default)]
struct Spent {
    executions: u64,
    bytes: usize,
}

impl<'m> Shadow<'m> {
    /// Nothing has run.
    pub fn new(module: &'m HloModule) -> Shadow<'m> {
        Shadow {
            module,
            spent: Mutex::default(),
        }
    }

    /// Whether this execution of the thunk is to be one on copies, of `bytes` bytes.
    pub fn wants(&self, thunk: &Thunk, bytes: usize) -> bool {
        let mut spent = lock(&self.spent);
        let spent = spent.entry(std::ptr::from_ref(thunk).addr()).or_default();
        spent.executions += 1;
        if spent.bytes >= BUDGET && !spent.executions.is_power_of_two() {
            return false;
        }
        spent.bytes = spent.bytes.saturating_add(bytes.max(LEAST));
        true
    }
}
