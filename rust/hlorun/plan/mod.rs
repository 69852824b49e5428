//! Everything that is decided before data exists.
//!
//! In: a [`crate::verify::VerifiedModule`]. Out: an [`Executable`]: thunks over slices of allocations.
//! `hlo` rewrites the module, `lower` turns instructions into thunks over logical buffers, `schedule`
//! decides which run together, `memory` which buffers share memory and where they lie.

pub mod cost;
pub mod element;
pub mod error;
pub mod executable;
pub(crate) mod faults;
pub mod fragment;
pub mod hlo;
pub mod limits;
pub mod listing;
pub mod lower;
pub mod memory;
pub mod ops;
pub mod options;
pub mod passes;
pub mod pipeline;
pub mod replication;
pub mod schedule;
pub mod spmd;
pub mod thunk;
pub mod view;
pub mod work;

pub use executable::{Executable, Leaf, Parameter, compile};

pub use options::{Check, CompileOptions, MachineCode};
pub use passes::PASSES;
