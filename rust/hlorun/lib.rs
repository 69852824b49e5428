//! Reads XLA HLO text dumps and runs them on the CPU.
//!
//! text → module → plan → buffers → arrays, one folder per arrow; see `ARCHITECTURE.md`.

pub mod analysis;
pub mod buffers;
pub mod error;
pub mod exec;
#[cfg(test)]
mod fault_tests;
mod float_mode;
pub mod library;
pub mod module;
pub mod plan;
pub mod proto;
pub mod replay;
pub mod stablehlo;
mod suggestion;
pub mod text;
pub mod types;
pub mod verify;

pub use error::{HloError, Result};
