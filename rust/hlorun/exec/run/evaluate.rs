//! Runs a piece of a module while the rest is still being planned.
//!
//! In: a [`Fragment`]. Out: the bytes of its results, those that a run would compute. Promise: it
//! runs on the caller's thread, and a loop ends after [`MAX_TIME`].

use std::time::{Duration, Instant};

use super::executor::sequence;
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::environment::{Environment, interruptible};
use crate::exec::memory::Memory;
use crate::exec::options::RunOptions;
use crate::module::{ComputationId, HloModule};
use crate::plan::fragment;
use crate::plan::memory::assign::AllocationKind;
use crate::plan::options::{CompileOptions, Elements, Evaluate};

/// After this time loops are told to stop.
const MAX_TIME: Duration = Duration::from_millis(100);

/// What a compilation needs to run pieces of its module.
pub const EVALUATE: Evaluate = Evaluate(evaluate);

/// The row-major elements of every array of the result.
///
/// Errors: `HloError::Execution` when memory runs out or time is up, and what operations report.
fn evaluate(
    module: &HloModule,
    computation: ComputationId,
    options: &CompileOptions,
) -> Result<Elements> {
    let fragment = fragment::plan(module, computation, options)?;
    let start = Instant::now();
    let is_late = || start.elapsed() > MAX_TIME;
    let mut outputs = fragment
        .outputs
        .iter()
        .map(|leaf| AlignedBytes::zeroed(leaf.byte_size()))
        .collect::<Result<Vec<_>>>()?;
    let mut arena = AlignedBytes::uninitialized(fragment.assignment.allocations[0].size)?;
    let mut bases = Vec::with_capacity(fragment.assignment.allocations.len());
    for allocation in &fragment.assignment.allocations {
        bases.push(match allocation.kind {
            AllocationKind::Temp => arena.as_mut_ptr(),
            AllocationKind::Output(leaf) => outputs[leaf as usize].as_mut_ptr(),
            AllocationKind::Constant(literal) => fragment
                .module
                .literal(literal)
                .bytes()
                .map_or(std::ptr::null_mut(), |bytes| bytes.as_ptr().cast_mut()),
            AllocationKind::Parameter(_) => {
                return Err(HloError::execution("a fragment has no parameters"));
            }
        });
    }
    let options = RunOptions {
        interrupted: &is_late,
        ..RunOptions::default()
    };
    let environment = Environment::new(Memory::new(bases), 1, &options);
    interruptible(|| sequence(&fragment.thunks, &environment))?;
    Ok(outputs
        .iter()
        .map(|output| output.as_slice().into())
        .collect())
}
