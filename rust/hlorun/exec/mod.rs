//! Runs executables: thunks in order, on real memory.
//!
//! In: an [`crate::plan::Executable`] and addresses of arrays. Out: the results in the caller's
//! memory. Promise: the same inputs give the same bits, whatever the number of threads.

pub mod array;
pub mod bands;
pub mod collectives;
pub mod copy;
pub mod environment;
pub mod evaluate;
pub mod executor;
pub mod flat;
pub mod fold;
pub mod gemm;
pub mod lockstep;
pub mod loops;
pub mod memory;
pub mod ops;
pub mod placement;
pub mod program;
pub mod reduce;
pub mod replicas;
pub mod small;
mod stream;
pub mod threads;
pub mod turned;
pub mod walk;

pub use executor::RunOptions;
