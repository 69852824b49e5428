//! One device in one execution of a collective: its group, its place, and how it reaches the others.

use std::sync::Arc;

use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::environment::Environment;
use crate::exec::rendezvous::{Member, Post, Posts, Rendezvous, error_of};
use crate::plan::spmd::collective::{CollectiveKind, CollectiveThunk};

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
    /// Number of the group among the collective's.
    pub group: u32,
    /// This device's operands.
    pub inputs: Vec<RawArray>,
    /// This device's results.
    pub outputs: Vec<RawArray>,
    /// What the group laid open, where all devices are known to be here.
    pub posts: Option<Posts>,
}

// SAFETY: its arrays are touched as posted ones are, see `Post`.
unsafe impl Sync for Session<'_> {}

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
    pub fn rendezvous(&self) -> Option<&'a Rendezvous<'a>> {
        self.environment.rendezvous
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
        self.rendezvous()
            .is_some_and(|rendezvous| !rendezvous.is_local(self.members[rank]))
    }

    /// Places of the members of other processes.
    pub fn remote(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len()).filter(|&rank| self.is_remote(rank))
    }

    /// Lays `inputs` and this device's results open and waits for the others of this process.
    pub fn meet(&self, inputs: Vec<RawArray>) -> Result<Posts> {
        match (&self.posts, self.rendezvous()) {
            (Some(posts), _) => Ok(posts.clone()),
            (None, Some(rendezvous)) => rendezvous.meet(self, Some(self.post(inputs))),
            (None, None) => Ok(Arc::from([Some(self.post(inputs))])),
        }
    }

    /// Waits until the others of this process have finished with what this device laid open.
    pub fn part(&self) -> Result<()> {
        match self.rendezvous() {
            Some(rendezvous) if self.posts.is_none() => rendezvous.meet(self, None).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Sends bytes to a member of another process.
    pub fn send(&self, rank: usize, bytes: &[u8]) -> Result<()> {
        match self.rendezvous() {
            Some(rendezvous) if !bytes.is_empty() => rendezvous.send(
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
        match self.rendezvous() {
            Some(rendezvous) if size > 0 => rendezvous.receive(self, self.members[rank], size),
            _ => Ok(Vec::new()),
        }
    }

    /// An error that names the collective.
    pub fn error(&self, what: impl std::fmt::Display) -> HloError {
        error_of(self.thunk, what)
    }
}

impl Member for Session<'_> {
    fn collective(&self) -> &CollectiveThunk {
        self.thunk
    }

    fn device(&self) -> u32 {
        self.environment.device
    }

    fn group(&self) -> u32 {
        self.group
    }

    fn group_members(&self) -> &[u32] {
        self.members
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn check(&self) -> Result<()> {
        self.environment.check()
    }
}
