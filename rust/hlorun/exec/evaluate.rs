//! Runs a piece of a module while the rest is still being planned.
//!
//! In: a [`Fragment`]. Out: the bytes of its results, those that a run would compute. Promise: it
//! runs on the caller's thread, and a loop ends after [`MAX_TIME`].

use std::time::{Duration, Instant};

use super::environment::Environment;
use super::executor::{RunOptions, sequence};
use super::memory::Memory;
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::plan::assign::AllocationKind;
use crate::plan::fragment::Fragment;

/// After this time loops are told to stop.
const MAX_TIME: Duration = Duration::from_millis(100);

/// The row-major elements of every array of the result.
///
/// Errors: `HloError::Execution` when memory runs out or time is up, and what operations report.
pub fn evaluate(fragment: &Fragment<'_>) -> Result<Vec<Box<[u8]>>> {
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
    let environment = Environment {
        memory: Memory::new(bases),
        threads: 1,
        replica: 0,
        partition: 0,
        device: 0,
        crowd: 1,
        meeting: None,
        options: RunOptions {
            interrupted: &is_late,
            ..RunOptions::default()
        },
    };
    sequence(&fragment.thunks, &environment)?;
    Ok(outputs
        .iter()
        .map(|output| output.as_slice().into())
        .collect())
}
