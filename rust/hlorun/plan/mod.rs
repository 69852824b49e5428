//! All that is decided before data exists.
//!
//! Comes in: a module. Goes out: orders, values, live ranges and offsets. Promise: nothing here
//! reads text or touches data.

pub mod dataflow;
pub mod heap_simulator;
pub mod live_range;
pub mod schedule;
