//! Questions asked about modules and dumps, without running anything.
//!
//! Comes in: modules, and the texts XLA writes beside them. Goes out: findings, numbers and
//! reports. Promise: nothing here changes its input.

pub mod buffer_assignment;
pub mod cost;
pub mod dataflow;
pub mod live_range;
pub mod runs;
pub mod schedule;
