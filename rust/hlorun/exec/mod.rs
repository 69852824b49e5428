//! Runs executables: thunks in order, on real memory.
//!
//! In: an [`crate::plan::Executable`] and addresses of arrays. Out: the results in the caller's
//! memory. Promise: the same inputs give the same bits, whatever the number of threads.

pub(crate) mod array;
pub(crate) mod element;
pub(crate) mod environment;
pub(crate) mod gemm;
pub(crate) mod hooks;
pub(crate) mod memory;
pub(crate) mod ops;
pub(crate) mod options;
pub(crate) mod parallel;
pub(crate) mod reduce;
pub(crate) mod rendezvous;
pub(crate) mod row_tiling;
pub(crate) mod run;
pub(crate) mod spmd;
pub(crate) mod threads;

pub use hooks::{ArrayMut, ArrayRef};
pub use hooks::{CustomCallHook, Observer};
pub use options::DeviceArrays;
pub use options::{RunOptions, Step};
pub use rendezvous::{Network, Transport};
pub use run::evaluate::EVALUATE;
