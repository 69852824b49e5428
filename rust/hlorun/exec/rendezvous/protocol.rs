//! How threads that stand for devices wait for each other.
//!
//! In: devices that arrive, post packets or end. Out: what the others of a group laid open, or the
//! next packet. Promise: a device that waits is woken when its group is complete, when its packet is
//! there, when another device fails, or when nobody who could complete it runs any more.
//!
//! Nothing here knows arrays, networks or instructions, so that `tests/loom` can compile this file
//! and try every order of events.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::exec::threads::sync::{AtomicBool, Condvar, Mutex, MutexGuard};

/// How often a waiting device asks whether the run was interrupted.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// What the protocol is used for.
pub trait Rules {
    /// A group and where it meets.
    type Place: Eq + Hash + Copy;
    /// What a device lays open to its group.
    type Post;
    /// A queue of packets from one device to another.
    type Route: Eq + Hash + Copy;
    /// Why a run ends early.
    type Error: Clone;

    /// All devices wait or have ended.
    fn deadlock(&self, stuck: &Deadlock<'_>) -> Self::Error;
}

/// A device that waits; what errors say of it.
pub trait Waiter<E> {
    /// Its number.
    fn device(&self) -> u32;
    /// Where it waits.
    fn place(&self) -> Box<str>;
    /// It waits for a device that has ended.
    fn gone(&self, other: u32) -> E;
    /// Whether the run was interrupted.
    fn check(&self) -> Result<(), E>;
}

/// Where a run has come to a stop.
pub struct Deadlock<'s> {
    /// A device that waits, and where.
    pub device: u32,
    pub place: &'s str,
    /// Another that waits somewhere else.
    pub other: Option<(u32, &'s str)>,
    /// One that has ended.
    pub ended: Option<u32>,
}

/// What a device does.
#[derive(Clone, PartialEq, Eq)]
pub enum Status {
    Running,
    /// In the collective of this name.
    Waiting(Box<str>),
    Ended,
}

/// What the members of a group posted, by rank.
pub type Posts<R> = Arc<[Option<<R as Rules>::Post>]>;

/// A group that gathers.
struct Room<P> {
    arrived: usize,
    generation: u64,
    posts: Vec<Option<P>>,
    complete: Option<Arc<[Option<P>]>>,
}

/// What is known of all devices; only under the lock.
pub struct State<R: Rules> {
    pub failure: Option<R::Error>,
    pub status: Vec<Status>,
    rooms: FxHashMap<R::Place, Room<R::Post>>,
    pub mail: FxHashMap<R::Route, VecDeque<Vec<u8>>>,
}

impl<R: Rules> State<R> {
    /// A device that waits may go on: until it has looked for itself, it does not count as waiting.
    pub fn rouse(&mut self, device: u32) {
        if let Some(status @ Status::Waiting(_)) = self.status.get_mut(device as usize) {
            *status = Status::Running;
        }
    }
}

/// A device of a group, on its way in.
pub struct Arrival<'m, P, T> {
    pub place: P,
    /// The members that run here; all of them have to come.
    pub members: &'m [u32],
    /// The device's place in the group, and how many the group has.
    pub rank: usize,
    pub size: usize,
    /// What it lays open.
    pub post: Option<T>,
}

/// The devices of a run.
pub struct Protocol<R: Rules> {
    /// What it is used for.
    pub rules: R,
    /// Whether devices that run elsewhere may end a wait.
    is_spread: bool,
    state: Mutex<State<R>>,
    changed: Condvar,
    /// Told when a device has ended, for the one who waits for all.
    has_ended: Condvar,
    /// Set with the state's failure, for those who only look now and then.
    has_failed: AtomicBool,
}

impl<R: Rules> Protocol<R> {
    /// `count` devices that run.
    pub fn new(rules: R, count: usize, is_spread: bool) -> Protocol<R> {
        Protocol {
            rules,
            is_spread,
            state: Mutex::new(State {
                failure: None,
                status: vec![Status::Running; count],
                rooms: FxHashMap::default(),
                mail: FxHashMap::default(),
            }),
            changed: Condvar::new(),
            has_ended: Condvar::new(),
            has_failed: AtomicBool::new(false),
        }
    }

    /// The state. Who changes what others wait for calls [`Protocol::tell`] afterwards.
    pub fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all that wait.
    pub fn tell(&self) {
        self.changed.notify_all();
    }

    /// Ends the run with `error`, unless it failed already.
    pub fn note(&self, state: &mut State<R>, error: R::Error) {
        state.failure.get_or_insert(error);
        self.has_failed.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// The failure, if there is one already.
    pub fn check(&self) -> Result<(), R::Error> {
        if self.has_failed.load(Ordering::Relaxed)
            && let Some(error) = self.lock().failure.clone()
        {
            return Err(error);
        }
        Ok(())
    }

    /// Notes that a device has ended; its error, if it has one, ends the others.
    pub fn ended(&self, device: u32, result: Result<(), R::Error>) {
        {
            let mut state = self.lock();
            state.status[device as usize] = Status::Ended;
            match result {
                Ok(()) => self.find_deadlock(&mut state),
                Err(error) => self.note(&mut state, error),
            }
        }
        self.changed.notify_all();
        self.has_ended.notify_all();
    }

    /// Waits until a device has ended, or for a while.
    pub fn wait_for_end<'s>(&'s self, guard: MutexGuard<'s, State<R>>) -> MutexGuard<'s, State<R>> {
        let waited = self.has_ended.wait_timeout(guard, PATIENCE);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// With nobody elsewhere to wait for, a run in which everybody waits has come to a stop.
    fn find_deadlock(&self, state: &mut State<R>) {
        if self.is_spread || state.failure.is_some() || state.status.contains(&Status::Running) {
            return;
        }
        let devices = || state.status.iter().zip(0u32..);
        let mut waiting = devices().filter_map(|(status, device)| match status {
            Status::Waiting(place) => Some((device, &**place)),
            _ => None,
        });
        let Some((device, place)) = waiting.next() else {
            return;
        };
        let error = self.rules.deadlock(&Deadlock {
            device,
            place,
            other: waiting.find(|(_, other)| *other != place),
            ended: devices().find_map(|(s, device)| (*s == Status::Ended).then_some(device)),
        });
        self.note(state, error);
    }

    /// Waits as `waiter` until `ready` gives something. It fails when one of `others` has ended.
    pub fn wait<T>(
        &self,
        waiter: &(impl Waiter<R::Error> + ?Sized),
        mut guard: MutexGuard<'_, State<R>>,
        others: &[u32],
        mut ready: impl FnMut(&mut State<R>) -> Option<T>,
    ) -> Result<T, R::Error> {
        let device = waiter.device() as usize;
        loop {
            let state = &mut *guard;
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if let Some(result) = ready(state) {
                state.status[device] = Status::Running;
                return Ok(result);
            }
            let has_ended = |other: &&u32| state.status[**other as usize] == Status::Ended;
            if let Some(&gone) = others.iter().find(has_ended) {
                let error = waiter.gone(gone);
                self.note(state, error.clone());
                return Err(error);
            }
            if state.status[device] == Status::Running {
                state.status[device] = Status::Waiting(waiter.place());
                self.find_deadlock(state);
                continue;
            }
            let (next, timeout) = self
                .changed
                .wait_timeout(guard, PATIENCE)
                .unwrap_or_else(PoisonError::into_inner);
            guard = next;
            if timeout.timed_out()
                && let Err(error) = waiter.check()
            {
                self.note(&mut guard, error);
            }
        }
    }

    /// Waits until every member of the group is here; hands out what they posted.
    pub fn meet(
        &self,
        waiter: &(impl Waiter<R::Error> + ?Sized),
        arrival: Arrival<'_, R::Place, R::Post>,
    ) -> Result<Posts<R>, R::Error> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let room = state.rooms.entry(arrival.place).or_insert_with(|| Room {
            arrived: 0,
            generation: 0,
            posts: Vec::new(),
            complete: None,
        });
        room.posts.resize_with(arrival.size, || None);
        room.posts[arrival.rank] = arrival.post;
        room.arrived += 1;
        let generation = room.generation;
        if room.arrived == arrival.members.len() {
            room.arrived = 0;
            room.generation += 1;
            room.complete = Some(std::mem::take(&mut room.posts).into());
            for &member in arrival.members {
                // One that a failure ended after it came here stays ended.
                state.rouse(member);
            }
            self.changed.notify_all();
        }
        self.wait(waiter, guard, arrival.members, |state| {
            let room = state.rooms.get(&arrival.place)?;
            // Nobody can complete the next meeting before this device has seen this one.
            (room.generation != generation)
                .then(|| room.complete.clone())
                .flatten()
        })
    }

    /// Queues bytes for the device `target`. Waits while a queue that is not empty would come to hold
    /// more than `most` bytes.
    pub fn post(
        &self,
        waiter: &(impl Waiter<R::Error> + ?Sized),
        route: R::Route,
        target: u32,
        bytes: Vec<u8>,
        most: usize,
    ) -> Result<(), R::Error> {
        let size = bytes.len();
        let mut bytes = Some(bytes);
        self.wait(waiter, self.lock(), &[target], |state| {
            let queue = state.mail.entry(route).or_default();
            let queued: usize = queue.iter().map(Vec::len).sum();
            if queued > 0 && queued + size > most {
                return None;
            }
            queue.extend(bytes.take());
            state.rouse(target);
            Some(())
        })?;
        self.changed.notify_all();
        Ok(())
    }

    /// The next packet from the device `source`.
    pub fn fetch(
        &self,
        waiter: &(impl Waiter<R::Error> + ?Sized),
        route: R::Route,
        source: u32,
    ) -> Result<Vec<u8>, R::Error> {
        let packet = self.wait(waiter, self.lock(), &[source], |state| {
            let packet = state.mail.get_mut(&route)?.pop_front()?;
            // It may wait for room in the queue.
            state.rouse(source);
            Some(packet)
        })?;
        self.changed.notify_all();
        Ok(packet)
    }
}
