//! One device in one execution of a collective: its group, its place, and how it reaches the others.

use std::sync::Arc;

use super::super::array::RawArray;
use super::super::environment::Environment;
use super::meeting::{Meeting, Post};
use crate::error::{HloError, Result};
use crate::plan::collective::{CollectiveKind, CollectiveThunk};

/// A device among its group.
pub struct Session<'a> {
    /// The collective.
    pub thunk: &'a CollectiveThunk,
    /// The run.
    pub environment: &'a Environment<'a>,
    /// Devices of the group, in the order in which they count.
    pub members: &'a [u32],
    /// This device's place among them.
    pub rank: usize,
    group: u32,
    /// This device's operands.
    pub inputs: Vec<RawArray>,
    /// This device's results.
    pub outputs: Vec<RawArray>,
    /// What the group laid open, where all devices are known to be here.
    pub posts: Option<Posts>,
}

// SAFETY: its arrays are touched as posted ones are, see `Post`.
unsafe impl Sync for Session<'_> {}

/// Posts of the group's members by place; `None` for those of other processes.
pub type Posts = Arc<[Option<Post>]>;

impl<'a> Session<'a> {
    /// The device's place; `None` when it takes no part and so receives nothing.
    pub fn begin(
        thunk: &'a CollectiveThunk,
        environment: &'a Environment<'a>,
    ) -> Result<Option<Session<'a>>> {
        let place = thunk.groups.place.get(environment.device as usize);
        let Some((group, rank)) = place.copied().flatten() else {
            return match thunk.kind {
                CollectiveKind::Broadcast | CollectiveKind::Permute { .. } => Ok(None),
                _ => Err(HloError::execution(format!(
                    "{} {}: {} is in none of its groups",
                    thunk.opcode.name(),
                    thunk.name,
                    thunk.devices.name(environment.device)
                ))),
            };
        };
        let memory = &environment.memory;
        Ok(Some(Session {
            thunk,
            environment,
            members: &thunk.groups.members[group as usize],
            rank: rank as usize,
            group,
            inputs: thunk.inputs.iter().map(|v| memory.array(v)).collect(),
            outputs: thunk.outputs.iter().map(|v| memory.array(v)).collect(),
            posts: None,
        }))
    }

    /// Where the devices of the run meet, if there are several.
    pub fn meeting(&self) -> Option<&'a Meeting<'a>> {
        self.environment.meeting
    }

    /// What this device lays open.
    pub fn post(&self, inputs: Vec<RawArray>) -> Post {
        Post {
            inputs,
            outputs: self.outputs.clone(),
        }
    }

    /// Whether the member at `rank` runs in another process.
    pub fn is_remote(&self, rank: usize) -> bool {
        self.meeting()
            .is_some_and(|meeting| !meeting.is_local(self.members[rank]))
    }

    /// Places of the members of other processes.
    pub fn remote(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len()).filter(|&rank| self.is_remote(rank))
    }

    /// Lays `inputs` and this device's results open and waits for the others of this process.
    pub fn meet(&self, inputs: Vec<RawArray>) -> Result<Posts> {
        match (&self.posts, self.meeting()) {
            (Some(posts), _) => Ok(posts.clone()),
            (None, Some(meeting)) => meeting.meet(self, Some(self.post(inputs))),
            (None, None) => Ok(Arc::from([Some(self.post(inputs))])),
        }
    }

    /// Waits until the others of this process have finished with what this device laid open.
    pub fn part(&self) -> Result<()> {
        match self.meeting() {
            Some(meeting) if self.posts.is_none() => meeting.meet(self, None).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Number of the group among the collective's.
    pub fn group(&self) -> u32 {
        self.group
    }

    /// Sends bytes to a member of another process.
    pub fn send(&self, rank: usize, bytes: &[u8]) -> Result<()> {
        match self.meeting() {
            Some(meeting) if !bytes.is_empty() => meeting.send(
                self.thunk,
                self.environment.device,
                self.members[rank],
                bytes,
            ),
            _ => Ok(()),
        }
    }

    /// The next `size` bytes a member of another process sent here.
    pub fn receive(&self, rank: usize, size: usize) -> Result<Vec<u8>> {
        match self.meeting() {
            Some(meeting) if size > 0 => meeting.receive(self, self.members[rank], size),
            _ => Ok(Vec::new()),
        }
    }

    /// An error that names the collective.
    pub fn error(&self, what: impl std::fmt::Display) -> HloError {
        HloError::execution(format!(
            "{} {}: {what}",
            self.thunk.opcode.name(),
            self.thunk.name
        ))
    }
}
