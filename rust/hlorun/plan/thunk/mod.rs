//! Thunks: the steps of an executable.

pub mod accesses;
pub mod buffer;
pub mod footprint;
pub mod kinds;
pub mod machine_code;
pub mod picked_walk;
pub mod row_loop;
pub mod scalar_bytecode;
pub mod small_loop;

pub use accesses::{Access, Effect, Order, Place};
pub use buffer::{BufferKind, LogicalBuffer};
pub use kinds::*;
pub use picked_walk::PickedWalk;
