//! Who meets: a device in one execution of a collective.

use std::sync::Arc;

use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::plan::spmd::collective::CollectiveThunk;

/// What a device lays open to its group.
pub struct Post {
    /// Operands, or what stands for them.
    pub inputs: Vec<RawArray>,
    /// Results.
    pub outputs: Vec<RawArray>,
}

// SAFETY: members touch posted arrays only between the two rendezvous of one execution, each its own
// part of them, and all memory outlives every device of the run.
unsafe impl Send for Post {}
// SAFETY: as above.
unsafe impl Sync for Post {}

/// Posts of the group's members by place; `None` for those of other processes.
pub type Posts = Arc<[Option<Post>]>;

/// A device in one execution of a collective.
pub trait Member {
    /// The collective.
    fn collective(&self) -> &CollectiveThunk;
    /// The device.
    fn device(&self) -> u32;
    /// Number of its group among the collective's.
    fn group(&self) -> u32;
    /// Devices of the group, in the order in which they count.
    fn group_members(&self) -> &[u32];
    /// The device's place among them.
    fn rank(&self) -> usize;
    /// An error once the run is to end.
    fn check(&self) -> Result<()>;
}

/// An error that names the collective.
pub fn error_of(collective: &CollectiveThunk, what: impl std::fmt::Display) -> HloError {
    HloError::execution(format!(
        "{} {}: {what}",
        collective.opcode.name(),
        collective.name
    ))
}
