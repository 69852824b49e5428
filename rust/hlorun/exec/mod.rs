//! Runs executables: thunks in order, on real memory.

pub mod array;
pub mod ops;
pub mod program;
