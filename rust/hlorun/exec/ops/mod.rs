//! Runs the operations that are no loops; one file per operation, named as in `plan::ops`.

pub mod gather;
pub mod index_map;
pub mod scatter;
pub mod walk;

use super::array::RawArray;
use crate::error::Result;
use crate::plan::ops::OpKind;

/// What an operation may use beyond its arrays.
#[derive(Clone, Copy)]
pub struct OpEnvironment<'e> {
    /// Runs `task(i)` for every `i` below the count, on all threads of the executable.
    pub parallel: &'e (dyn Fn(usize, &(dyn Fn(usize) + Sync)) + Sync),
    /// Number of this replica.
    pub replica: u32,
    /// Number of this partition.
    pub partition: u32,
}

/// Runs `kind` on `inputs`, writing all of `outputs`.
pub fn run(
    kind: &OpKind,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    match kind {
        OpKind::Gather(op) => gather::run(op, inputs, outputs, environment),
        OpKind::Scatter(op) => scatter::run(op, inputs, outputs, environment),
    }
}
