//! Where everything lies: how long buffers live, which share memory, and the checker of both.

pub mod assign;
pub mod checker;
pub mod heap;
pub mod lifetime;
mod liveness;
mod segment;
