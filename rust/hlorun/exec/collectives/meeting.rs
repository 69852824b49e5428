//! Where devices of one run wait for each other.
//!
//! In: devices that arrive at collectives. Out: what the others of the group laid open. Promise: a
//! device that waits is woken when its group is complete, when another device fails, or when it is
//! sure that the group will never be complete; so a run ends on any number of cores.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::super::array::RawArray;
use super::network::{Header, Link, MessageKind, Network};
use super::session::{Posts, Session};
use super::stillness::Report;
use crate::error::{HloError, Result};
use crate::module::InstructionId;
use crate::plan::collective::CollectiveThunk;
use crate::plan::replica_groups::Devices;
use crate::plan::transfer::CHANNELS;

/// Most bytes that wait in one queue of a channel, unless they are one message.
const MAX_QUEUED: usize = 1 << 28;
/// How often a waiting device asks whether the run was interrupted.
const PATIENCE: Duration = Duration::from_millis(50);

/// What a device lays open to its group.
pub struct Post {
    /// Operands, or what stands for them.
    pub inputs: Vec<RawArray>,
    /// Results.
    pub outputs: Vec<RawArray>,
}

// SAFETY: members touch posted arrays only between the two meetings of one execution, each its own
// part of them, and all memory outlives every device of the run.
unsafe impl Send for Post {}
// SAFETY: as above.
unsafe impl Sync for Post {}

/// A group that gathers.
#[derive(Default)]
struct Room {
    arrived: usize,
    generation: u64,
    posts: Vec<Option<Post>>,
    complete: Option<Posts>,
}

/// What a device does.
#[derive(Clone, PartialEq, Eq)]
enum Status {
    Running,
    /// In the collective of this name.
    Waiting(Box<str>),
    Ended,
}

/// Packets of one collective, or one channel, between two devices.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Route {
    pub collective: u32,
    pub source: u32,
    pub target: u32,
}

#[derive(Default)]
struct State {
    failure: Option<HloError>,
    status: Vec<Status>,
    rooms: FxHashMap<(u32, u32), Room>,
    mail: FxHashMap<Route, VecDeque<Vec<u8>>>,
    /// How often a device has run a `send`.
    sends: FxHashMap<(InstructionId, u32), i64>,
    /// Packets to and from other processes so far.
    sent: u64,
    received: u64,
}

/// All devices of a run.
pub struct Meeting<'r> {
    devices: Devices,
    local: Range<u32>,
    link: Option<Link<'r>>,
    state: Mutex<State>,
    changed: Condvar,
    /// Set with the state's failure, for those who only look now and then.
    has_failed: AtomicBool,
}

/// Whether everybody of a run is through.
#[derive(PartialEq, Eq)]
pub(super) enum Progress {
    /// Devices of this process run.
    Running,
    /// Only devices of other processes run.
    Elsewhere,
    /// All ended, or the run failed and every device of this process has ended.
    Over,
}

impl<'r> Meeting<'r> {
    /// A run of `devices`, of which `local` run in this process.
    pub fn new(devices: Devices, local: Range<u32>, network: Option<&'r Network>) -> Self {
        Meeting {
            devices,
            local,
            link: network.map(Network::link),
            state: Mutex::new(State {
                status: vec![Status::Running; devices.count() as usize],
                ..State::default()
            }),
            changed: Condvar::new(),
            has_failed: AtomicBool::new(false),
        }
    }

    /// The connection to other processes.
    pub(super) fn link(&self) -> Option<&Link<'r>> {
        self.link.as_ref()
    }

    /// Whether devices run in other processes.
    pub fn is_spread(&self) -> bool {
        self.link.is_some()
    }

    /// The devices that run.
    pub(super) fn devices(&self) -> Devices {
        self.devices
    }

    /// Whether a device runs in this process.
    pub fn is_local(&self, device: u32) -> bool {
        self.local.contains(&device)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the run with `error`, unless it failed already.
    pub fn fail(&self, error: HloError) {
        self.note(&mut self.lock(), error);
    }

    fn note(&self, state: &mut State, error: HloError) {
        state.failure.get_or_insert(error);
        self.has_failed.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// The failure, if there is one already.
    pub fn check(&self) -> Result<()> {
        if self.has_failed.load(Ordering::Relaxed)
            && let Some(error) = self.failure()
        {
            return Err(error);
        }
        Ok(())
    }

    /// The error the run failed with.
    pub fn failure(&self) -> Option<HloError> {
        self.lock().failure.clone()
    }

    /// Notes that a device has ended; its error, if it has one, ends the others.
    pub fn ended(&self, device: u32, result: &Result<()>) {
        {
            let mut state = self.lock();
            state.status[device as usize] = Status::Ended;
            if let Err(error) = result {
                self.note(&mut state, error.clone());
            } else {
                self.find_deadlock(&mut state);
            }
        }
        self.changed.notify_all();
        if let (Some(link), true) = (&self.link, self.is_local(device)) {
            let (kind, text) = match result {
                Ok(()) => (MessageKind::Ended, String::new()),
                Err(error) => (MessageKind::Failed, error.to_string()),
            };
            // Whoever cannot be told finds out by the silence.
            let _ = link.announce(kind, device, text.as_bytes());
        }
    }

    /// How far the run is.
    pub(super) fn progress(&self) -> Progress {
        let state = self.lock();
        let is_over = |device: usize| state.status[device] == Status::Ended;
        let local = self.local.start as usize..self.local.end as usize;
        if !local.clone().all(is_over) {
            Progress::Running
        } else if state.failure.is_some() || (0..state.status.len()).all(is_over) {
            Progress::Over
        } else {
            Progress::Elsewhere
        }
    }

    /// Devices of `range` that have not ended.
    pub(super) fn running(&self, range: Range<u32>) -> Vec<u32> {
        let state = self.lock();
        range
            .filter(|&device| state.status[device as usize] != Status::Ended)
            .collect()
    }

    /// What this process tells the others of itself.
    pub(super) fn report(&self) -> Report {
        let state = self.lock();
        let local = self.local.start as usize..self.local.end as usize;
        Report {
            is_idle: !state.status[local].contains(&Status::Running),
            sent: state.sent,
            received: state.received,
        }
    }

    /// Fails the run for a device of this process that waits although nobody runs any more.
    pub(super) fn give_up(&self) {
        let mut state = self.lock();
        let local = self.local.start as usize..self.local.end as usize;
        let waiting = state.status[local].iter().zip(self.local.clone());
        let first = waiting
            .into_iter()
            .find_map(|(status, device)| match status {
                Status::Waiting(name) => Some((device, name.clone())),
                _ => None,
            });
        if let (Some((device, name)), None) = (first, &state.failure) {
            let error = HloError::execution(format!(
                "{} waits in {name} for others, but no device of any process goes on",
                self.devices.name(device)
            ));
            self.note(&mut state, error);
        }
    }

    /// With no other process to wait for, a run in which everybody waits has come to a stop.
    fn find_deadlock(&self, state: &mut State) {
        if self.link.is_some() || state.failure.is_some() {
            return;
        }
        let mut waiting =
            state
                .status
                .iter()
                .enumerate()
                .filter_map(|(device, status)| match status {
                    Status::Waiting(name) => Some((device as u32, name)),
                    _ => None,
                });
        let Some((device, name)) = waiting.next() else {
            return;
        };
        if state.status.contains(&Status::Running) {
            return;
        }
        let elsewhere = match waiting.find(|(_, other)| *other != name) {
            Some((other, place)) => format!("{} waits in {place}", self.devices.name(other)),
            None => match state.status.iter().position(|s| *s == Status::Ended) {
                Some(ended) => {
                    let ended = self.devices.name(ended as u32);
                    format!("{ended} has ended its run without coming there")
                }
                None => "nobody else comes there".to_owned(),
            },
        };
        let device = self.devices.name(device);
        let message = format!("{device} waits in {name} for others, but {elsewhere}");
        self.note(state, HloError::execution(message));
    }

    /// Waits as `session`'s device until `ready` gives something.
    fn wait<R>(
        &self,
        session: &Session<'_>,
        mut guard: MutexGuard<'_, State>,
        others: &[u32],
        mut ready: impl FnMut(&mut State) -> Option<R>,
    ) -> Result<R> {
        let device = session.environment.device;
        loop {
            let state = &mut *guard;
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if let Some(result) = ready(state) {
                state.status[device as usize] = Status::Running;
                return Ok(result);
            }
            let gone = others
                .iter()
                .find(|&&other| state.status[other as usize] == Status::Ended);
            if let Some(&gone) = gone {
                let error = session.error(format_args!(
                    "{} waits for {}, which has ended its run without coming here",
                    self.devices.name(device),
                    self.devices.name(gone)
                ));
                self.note(state, error.clone());
                return Err(error);
            }
            if state.status[device as usize] == Status::Running {
                let name = format!("{} {}", session.thunk.opcode.name(), session.thunk.name);
                state.status[device as usize] = Status::Waiting(name.into());
                self.find_deadlock(state);
                continue;
            }
            let (next, timeout) = self
                .changed
                .wait_timeout(guard, PATIENCE)
                .unwrap_or_else(PoisonError::into_inner);
            guard = next;
            if timeout.timed_out()
                && let Err(error) = session.environment.check()
            {
                self.note(&mut guard, error);
            }
        }
    }

    /// Waits until every local member of the group is here; hands out what they posted.
    pub(super) fn meet(&self, session: &Session<'_>, post: Option<Post>) -> Result<Posts> {
        let members = session.members;
        let expected = members
            .iter()
            .filter(|&&member| self.is_local(member))
            .count();
        let at = (session.thunk.key, session.group());
        let mut guard = self.lock();
        let state = &mut *guard;
        let room = state.rooms.entry(at).or_default();
        room.posts.resize_with(members.len(), || None);
        room.posts[session.rank] = post;
        room.arrived += 1;
        let generation = room.generation;
        if room.arrived == expected {
            room.arrived = 0;
            room.generation += 1;
            room.complete = Some(std::mem::take(&mut room.posts).into());
            for &member in members {
                if self.is_local(member) {
                    state.status[member as usize] = Status::Running;
                }
            }
            self.changed.notify_all();
        }
        let others: Vec<u32> = members
            .iter()
            .copied()
            .filter(|&m| self.is_local(m))
            .collect();
        self.wait(session, guard, &others, |state| {
            let room = state.rooms.get(&at)?;
            // Nobody can complete the next meeting before this device has seen this one.
            (room.generation != generation)
                .then(|| room.complete.clone())
                .flatten()
        })
    }

    /// Sends bytes to a device of another process.
    pub(super) fn send(
        &self,
        thunk: &CollectiveThunk,
        source: u32,
        target: u32,
        bytes: &[u8],
    ) -> Result<()> {
        let Some(link) = &self.link else {
            return Ok(());
        };
        // Counted before it leaves: what is under way is then never taken for received.
        self.lock().sent += Link::packets(bytes);
        link.data(thunk.key, source, target, self.devices, bytes)
    }

    /// Which execution of a `send` this is on a device, from 0 on.
    pub(super) fn count_send(&self, instruction: InstructionId, device: u32) -> i64 {
        let mut state = self.lock();
        let count = state.sends.entry((instruction, device)).or_default();
        *count += 1;
        *count - 1
    }

    /// Queues bytes for a device, of this process or another. Waits while those of this process
    /// have too much to fetch.
    pub(super) fn post(&self, session: &Session<'_>, target: u32, bytes: Vec<u8>) -> Result<()> {
        let source = session.environment.device;
        if !self.is_local(target) {
            return self.send(session.thunk, source, target, &bytes);
        }
        let route = Route {
            collective: session.thunk.key,
            source,
            target,
        };
        let mut bytes = Some(bytes);
        self.wait(session, self.lock(), &[target], |state| {
            let queue = state.mail.entry(route).or_default();
            let waiting: usize = queue.iter().map(Vec::len).sum();
            if waiting > 0 && waiting + bytes.as_ref().map_or(0, Vec::len) > MAX_QUEUED {
                return None;
            }
            queue.extend(bytes.take());
            Some(())
        })?;
        self.changed.notify_all();
        Ok(())
    }

    /// The next packet of a channel.
    pub(super) fn fetch(&self, session: &Session<'_>, source: u32) -> Result<Vec<u8>> {
        let route = Route {
            collective: session.thunk.key,
            source,
            target: session.environment.device,
        };
        let packet = self.wait(session, self.lock(), &[source], |state| {
            state.mail.get_mut(&route)?.pop_front()
        })?;
        // Somebody may wait for room in the queue.
        self.changed.notify_all();
        Ok(packet)
    }

    /// Fails a run in which something was sent that nobody fetched.
    pub(in crate::exec) fn check_channels(&self) {
        let mut state = self.lock();
        let left = state
            .mail
            .iter()
            .filter(|(route, queue)| route.collective & CHANNELS != 0 && !queue.is_empty())
            .map(|(route, _)| *route)
            .min_by_key(|route| (route.source, route.target, route.collective));
        if let (Some(route), None) = (left, &state.failure) {
            let error = HloError::execution(format!(
                "{} has sent on channel {} what {} never received",
                self.devices.name(route.source),
                route.collective & !CHANNELS,
                self.devices.name(route.target)
            ));
            self.note(&mut state, error);
        }
    }

    /// The next `size` bytes from a device of another process.
    pub(super) fn receive(
        &self,
        session: &Session<'_>,
        source: u32,
        size: usize,
    ) -> Result<Vec<u8>> {
        let route = Route {
            collective: session.thunk.key,
            source,
            target: session.environment.device,
        };
        let mut received: Vec<u8> = Vec::new();
        while received.len() < size {
            let packet = self.wait(session, self.lock(), &[source], |state| {
                state.mail.get_mut(&route)?.pop_front()
            })?;
            if received.is_empty() {
                received = packet;
            } else {
                received.extend(packet);
            }
        }
        if received.len() != size {
            return Err(session.error(format_args!(
                "{} sent {} bytes where {size} were expected; do all processes run the same module?",
                self.devices.name(source),
                received.len()
            )));
        }
        Ok(received)
    }

    /// Files a message of another process.
    pub(super) fn deliver(&self, header: &Header, payload: &[u8]) {
        let mut state = self.lock();
        let Some(status) = state.status.get_mut(header.source as usize) else {
            return;
        };
        match header.kind {
            MessageKind::Alive => return,
            MessageKind::Ended => *status = Status::Ended,
            MessageKind::Failed => {
                *status = Status::Ended;
                let text = String::from_utf8_lossy(payload);
                let name = self.devices.name(header.source);
                let error = HloError::execution(format!("{name} failed: {text}"));
                self.note(&mut state, error);
            }
            MessageKind::Data => {
                state.received += 1;
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
            }
        }
        drop(state);
        self.changed.notify_all();
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
        let meeting = Meeting::new(devices, 0..2, None);
        meeting.ended(0, &Err(HloError::execution("first")));
        meeting.ended(1, &Err(HloError::execution("second")));
        assert_eq!(meeting.failure(), Some(HloError::execution("first")));
        assert!(meeting.progress() == Progress::Over);
    }
}
