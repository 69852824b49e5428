//! Where devices of one run wait for each other.
//!
//! In: devices that arrive at collectives. Out: what the others of the group laid open. Promise: a
//! device that waits is woken when its group is complete, when another device fails, or when it is
//! sure that the group will never be complete; so a run ends on any number of cores.

mod attend;
mod deadlock;
mod member;
mod network;
mod protocol;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashMap;

use deadlock::Report;
pub use member::{Member, Post, Posts, error_of};
use network::{Header, Link, MessageKind};
pub use network::{Network, Transport};
use protocol::{Arrival, Deadlock, PATIENCE, Protocol, Rules, State, Status, Waiter};

use crate::error::{HloError, Result};
use crate::module::InstructionId;
use crate::plan::spmd::collective::CollectiveThunk;
use crate::plan::spmd::groups::Devices;
use crate::plan::spmd::transfer::CHANNELS;

/// Most bytes that wait in one queue of a channel, unless they are one message.
const MAX_QUEUED: usize = 1 << 28;

/// Packets of one collective, or one channel, between two devices.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Route {
    pub collective: u32,
    pub source: u32,
    pub target: u32,
}

impl Rules for Devices {
    type Place = (u32, u32);
    type Post = Post;
    type Route = Route;
    type Error = HloError;

    fn deadlock(&self, stuck: &Deadlock<'_>) -> HloError {
        let name = |device| self.name(device);
        let elsewhere = match (stuck.other, stuck.ended) {
            (Some((other, place)), _) => format!("{} waits in {place}", name(other)),
            (None, Some(ended)) => {
                format!("{} has ended its run without coming there", name(ended))
            }
            (None, None) => "nobody else comes there".to_owned(),
        };
        let (device, place) = (name(stuck.device), stuck.place);
        HloError::execution(format!(
            "{device} waits in {place} for others, but {elsewhere}"
        ))
    }
}

impl Waiter<HloError> for dyn Member + '_ {
    fn device(&self) -> u32 {
        Member::device(self)
    }

    fn place(&self) -> Box<str> {
        let collective = self.collective();
        format!("{} {}", collective.opcode.name(), collective.name).into()
    }

    fn gone(&self, other: u32) -> HloError {
        let collective = self.collective();
        let name = |device| collective.devices.name(device);
        error_of(
            collective,
            format_args!(
                "{} waits for {}, which has ended its run without coming here",
                name(Member::device(self)),
                name(other)
            ),
        )
    }

    fn check(&self) -> Result<()> {
        Member::check(self)
    }
}

/// What is counted of a run.
#[derive(Default)]
struct Counts {
    /// How often a device has run a `send`.
    sends: FxHashMap<(InstructionId, u32), i64>,
    /// Packets to and from other processes so far.
    sent: u64,
    received: u64,
}

/// All devices of a run.
pub struct Rendezvous<'r> {
    local: Range<u32>,
    link: Option<Link<'r>>,
    protocol: Protocol<Devices>,
    counts: Mutex<Counts>,
}

/// Whether everybody of a run is through.
#[derive(PartialEq, Eq)]
pub(crate) enum Progress {
    /// Devices of this process run.
    Running,
    /// Only devices of other processes run.
    Elsewhere,
    /// All ended, or the run failed and every device of this process has ended.
    Over,
}

impl<'r> Rendezvous<'r> {
    /// A run of `devices`, of which `local` run in this process.
    pub fn new(devices: Devices, local: Range<u32>, network: Option<&'r Network>) -> Self {
        Rendezvous {
            local,
            link: network.map(Network::link),
            protocol: Protocol::new(devices, devices.count() as usize, network.is_some()),
            counts: Mutex::default(),
        }
    }

    /// The connection to other processes.
    pub(crate) fn link(&self) -> Option<&Link<'r>> {
        self.link.as_ref()
    }

    /// Whether devices run in other processes.
    pub fn is_spread(&self) -> bool {
        self.link().is_some()
    }

    /// The devices that run.
    pub(crate) fn devices(&self) -> Devices {
        self.protocol.rules
    }

    /// Whether a device runs in this process.
    pub fn is_local(&self, device: u32) -> bool {
        self.local.contains(&device)
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the run with `error`, unless it failed already.
    pub fn fail(&self, error: HloError) {
        self.protocol.note(&mut self.protocol.lock(), error);
    }

    /// The failure, if there is one already.
    pub fn check(&self) -> Result<()> {
        self.protocol.check()
    }

    /// The error the run failed with.
    pub fn failure(&self) -> Option<HloError> {
        self.protocol.lock().failure.clone()
    }

    /// Notes that a device has ended; its error, if it has one, ends the others.
    pub fn ended(&self, device: u32, result: &Result<()>) {
        self.protocol.ended(device, result.clone());
        if let (Some(link), true) = (self.link(), self.is_local(device)) {
            let (kind, text) = match result {
                Ok(()) => (MessageKind::Ended, String::new()),
                Err(error) => (MessageKind::Failed, error.to_string()),
            };
            // Whoever cannot be told finds out by the silence.
            let _ = link.announce(kind, device, text.as_bytes());
        }
    }

    /// What the devices of this process do.
    fn local_status<'s>(&self, state: &'s State<Devices>) -> &'s [Status] {
        &state.status[self.local.start as usize..self.local.end as usize]
    }

    /// How far the run is.
    pub(crate) fn progress(&self) -> Progress {
        let state = self.protocol.lock();
        let are_over = |status: &[Status]| status.iter().all(|s| *s == Status::Ended);
        if !are_over(self.local_status(&state)) {
            Progress::Running
        } else if state.failure.is_some() || are_over(&state.status) {
            Progress::Over
        } else {
            Progress::Elsewhere
        }
    }

    /// Waits until every device of this process has ended, and ends them when the caller wants that.
    pub(crate) fn watch(&self, interrupted: &dyn Fn() -> bool) {
        let mut asked = Instant::now();
        let mut guard = self.protocol.lock();
        let has_ended = |status: &Status| *status == Status::Ended;
        while !self.local_status(&guard).iter().all(has_ended) {
            guard = self.protocol.wait_for_end(guard);
            if asked.elapsed() >= PATIENCE {
                asked = Instant::now();
                // Without the lock: whoever answers may wait for a thread that wants it.
                drop(guard);
                if interrupted() {
                    self.fail(HloError::execution("interrupted"));
                }
                guard = self.protocol.lock();
            }
        }
    }

    /// Devices of `range` that have not ended.
    pub(crate) fn running(&self, range: Range<u32>) -> Vec<u32> {
        let state = self.protocol.lock();
        range
            .filter(|&device| state.status[device as usize] != Status::Ended)
            .collect()
    }

    /// What this process tells the others of itself.
    pub(crate) fn report(&self) -> Report {
        // Nothing is received between the look at the devices and the counts.
        let state = self.protocol.lock();
        let counts = self.counts();
        Report {
            is_idle: !self.local_status(&state).contains(&Status::Running),
            sent: counts.sent,
            received: counts.received,
        }
    }

    /// Fails the run for a device of this process that waits although nobody runs any more.
    pub(crate) fn give_up(&self) {
        let mut state = self.protocol.lock();
        let mut waiting = self.local_status(&state).iter().zip(self.local.clone());
        let first = waiting.find_map(|(status, device)| match status {
            Status::Waiting(name) => Some((device, name.clone())),
            _ => None,
        });
        if let (Some((device, name)), None) = (first, &state.failure) {
            let error = HloError::execution(format!(
                "{} waits in {name} for others, but no device of any process goes on",
                self.devices().name(device)
            ));
            self.protocol.note(&mut state, error);
        }
    }

    /// Waits until every local member of the group is here; hands out what they posted.
    pub(crate) fn meet(&self, member: &dyn Member, post: Option<Post>) -> Result<Posts> {
        let all = member.group_members();
        let is_local = |device: &u32| self.is_local(*device);
        let members: Vec<u32> = all.iter().copied().filter(is_local).collect();
        let arrival = Arrival {
            place: (member.collective().key, member.group()),
            members: &members,
            rank: member.rank(),
            size: all.len(),
            post,
        };
        self.protocol.meet(member, arrival)
    }

    /// Sends bytes to a device of another process.
    pub(crate) fn send(
        &self,
        thunk: &CollectiveThunk,
        source: u32,
        target: u32,
        bytes: &[u8],
    ) -> Result<()> {
        let Some(link) = self.link() else {
            return Ok(());
        };
        // Counted before it leaves: what is under way is then never taken for received.
        self.counts().sent += Link::packets(bytes);
        link.data(thunk.key, source, target, self.devices(), bytes)
    }

    /// Which execution of a `send` this is on a device, from 0 on.
    pub(crate) fn count_send(&self, instruction: InstructionId, device: u32) -> i64 {
        let mut counts = self.counts();
        let count = counts.sends.entry((instruction, device)).or_default();
        *count += 1;
        *count - 1
    }

    /// Queues bytes for a device, of this process or another. Waits while those of this process
    /// have too much to fetch.
    pub(crate) fn post(&self, member: &dyn Member, target: u32, bytes: Vec<u8>) -> Result<()> {
        let source = member.device();
        if !self.is_local(target) {
            return self.send(member.collective(), source, target, &bytes);
        }
        let route = Route {
            collective: member.collective().key,
            source,
            target,
        };
        self.protocol.post(member, route, target, bytes, MAX_QUEUED)
    }

    /// The next packet of a channel.
    pub(crate) fn fetch(&self, member: &dyn Member, source: u32) -> Result<Vec<u8>> {
        let route = Route {
            collective: member.collective().key,
            source,
            target: member.device(),
        };
        self.protocol.fetch(member, route, source)
    }

    /// Fails a run in which something was sent that nobody fetched.
    pub(in crate::exec) fn check_channels(&self) {
        let mut state = self.protocol.lock();
        let left = state
            .mail
            .iter()
            .filter(|(route, queue)| route.collective & CHANNELS != 0 && !queue.is_empty())
            .map(|(route, _)| *route)
            .min_by_key(|route| (route.source, route.target, route.collective));
        if let (Some(route), None) = (left, &state.failure) {
            let error = HloError::execution(format!(
                "{} has sent on channel {} what {} never received",
                self.devices().name(route.source),
                route.collective & !CHANNELS,
                self.devices().name(route.target)
            ));
            self.protocol.note(&mut state, error);
        }
    }

    /// The next `size` bytes from a device of another process.
    pub(crate) fn receive(&self, member: &dyn Member, source: u32, size: usize) -> Result<Vec<u8>> {
        let mut received: Vec<u8> = Vec::new();
        while received.len() < size {
            let packet = self.fetch(member, source)?;
            if received.is_empty() {
                received = packet;
            } else {
                received.extend(packet);
            }
        }
        if received.len() != size {
            return Err(error_of(
                member.collective(),
                format_args!(
                    "{} sent {} bytes where {size} were expected; do all processes run the same module?",
                    self.devices().name(source),
                    received.len()
                ),
            ));
        }
        Ok(received)
    }

    /// Files a message of another process.
    pub(crate) fn deliver(&self, header: &Header, payload: &[u8]) {
        let mut state = self.protocol.lock();
        let Some(status) = state.status.get_mut(header.source as usize) else {
            return;
        };
        match header.kind {
            MessageKind::Alive => return,
            MessageKind::Ended => *status = Status::Ended,
            MessageKind::Failed => {
                *status = Status::Ended;
                let text = String::from_utf8_lossy(payload);
                let name = self.devices().name(header.source);
                let error = HloError::execution(format!("{name} failed: {text}"));
                self.protocol.note(&mut state, error);
            }
            MessageKind::Data => {
                self.counts().received += 1;
                let route = Route {
                    collective: header.collective,
                    source: header.source,
                    target: header.target,
                };
                state
                    .mail
                    .entry(route)
                    .or_default()
                    .push_back(payload.to_vec());
                state.rouse(header.target);
            }
        }
        drop(state);
        self.protocol.tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_stays() {
        let devices = Devices {
            replicas: 2,
            partitions: 1,
        };
        let rendezvous = Rendezvous::new(devices, 0..2, None);
        rendezvous.ended(0, &Err(HloError::execution("first")));
        rendezvous.ended(1, &Err(HloError::execution("second")));
        assert_eq!(rendezvous.failure(), Some(HloError::execution("first")));
        assert!(rendezvous.progress() == Progress::Over);
    }
}
