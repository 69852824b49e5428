//! The protocol of the pool: how loops are offered, joined and ended, and how threads sleep.
//!
//! In: a loop's tasks, from the thread that owns a slot. Out: each of them has run once, on that
//! thread or a visitor's. Promise: a loop outlives its visitors; who goes to sleep while work is
//! offered is woken. A thread begins with the same share of the tasks in every loop of as many, so
//! that loops over the same arrays find in its cache what it wrote. The primitives come from
//! `super::sync`, so that `tests/loom` can run this file under every order of events.

use super::sync::{
    AtomicBool, AtomicPtr, AtomicUsize, Condvar, Mutex, MutexGuard, Thread, WAITS, current, park,
    spin_loop,
};
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

pub type Task<'t> = &'t (dyn Fn(usize) + Sync);

/// A loop, on the stack of the thread that runs it.
struct Job {
    task: Task<'static>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A place where a loop is offered to other threads.
///
/// `job` is set by the slot's owner and is non-null only while the job exists: the owner takes it
/// back and then waits until there are no visitors, and a visitor reads it after counting itself.
#[repr(align(128))]
pub struct Slot {
    owned: AtomicBool,
    job: AtomicPtr<Job>,
    /// How many tasks somebody has taken, and their number; also a hint to those who look for work.
    taken: AtomicUsize,
    count: AtomicUsize,
    /// The shares of a loop's tasks, one for each thread.
    shares: Box<[Share]>,
    visitors: AtomicUsize,
    /// The owner, once it sleeps until there is no visitor.
    owner: Mutex<Option<Thread>>,
    owner_sleeps: AtomicBool,
}

/// The next task of a share; on cache lines of its own, since one thread takes most of them.
#[repr(align(128))]
struct Share(AtomicUsize);

impl Slot {
    /// A free slot for the loops of `threads` threads.
    pub fn new(threads: usize) -> Slot {
        Slot {
            owned: AtomicBool::new(false),
            job: AtomicPtr::new(std::ptr::null_mut()),
            taken: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            shares: (0..threads.max(1))
                .map(|_| Share(AtomicUsize::new(0)))
                .collect(),
            visitors: AtomicUsize::new(0),
            owner: Mutex::new(None),
            owner_sleeps: AtomicBool::new(false),
        }
    }

    /// Whether a visitor would find work.
    pub fn has_tasks(&self) -> bool {
        self.taken.load(SeqCst) < self.count.load(SeqCst) && !self.job.load(SeqCst).is_null()
    }

    /// The tasks of every share of a loop of `count`.
    fn divided(&self, count: usize) -> impl Fn(usize) -> Range<usize> + use<> {
        let shares = count.min(self.shares.len());
        let (each, more) = (count / shares, count % shares);
        let begin = move |share: usize| share * each + share.min(more);
        move |share| begin(share)..begin(share + 1)
    }

    /// Takes tasks of the share of thread `thread`, then of the others, until there are none.
    fn work(&self, thread: usize, task: Task<'_>) {
        let count = self.count.load(Relaxed);
        let divided = self.divided(count);
        let shares = count.min(self.shares.len());
        let mut share = thread % shares;
        while self.taken.fetch_add(1, SeqCst) < count {
            // No more threads get here than there are tasks left, and a share that is used up stays so:
            // this thread finds a task in one round.
            let index = loop {
                let (next, end) = (&self.shares[share].0, divided(share).end);
                // Without the look, all who pass a share would write to it.
                if next.load(Relaxed) < end {
                    let index = next.fetch_add(1, SeqCst);
                    if index < end {
                        break index;
                    }
                }
                share = (share + 1) % shares;
            };
            task(index);
        }
    }

    /// Works as thread `thread` on what the slot offers, if anything.
    pub fn visit(&self, thread: usize) {
        self.visitors.fetch_add(1, SeqCst);
        let job = self.job.load(SeqCst);
        if !job.is_null() {
            // SAFETY: the owner takes the job back before it waits for its visitors to leave, and
            // keeps it alive until then. This visitor has been counted before it read the job, so
            // either it has read null or the owner is going to see it.
            let job = unsafe { &*job };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work(thread, job.task))) {
                *lock(&job.panic) = Some(panic);
            }
        }
        if self.visitors.fetch_sub(1, SeqCst) == 1
            && self.owner_sleeps.load(SeqCst)
            && let Some(owner) = lock(&self.owner).as_ref()
        {
            owner.unpark();
        }
    }

    /// Whether the caller owns the slot from now on, until [`Slot::run`] returns.
    pub fn take(&self) -> bool {
        !self.owned.load(Relaxed) && !self.owned.swap(true, SeqCst)
    }

    /// Runs every task below `count`, which is not 0, with whoever comes after `offered` was called.
    /// The caller is thread 0. The slot is the caller's, and free in the end.
    pub fn run(&self, count: usize, task: Task<'_>, offered: impl FnOnce()) {
        // SAFETY: only the lifetime changes. The job is read by visitors of the slot, of which there
        // are none once it is closed, below.
        let task = unsafe { std::mem::transmute::<Task<'_>, Task<'static>>(task) };
        let job = Job {
            task,
            panic: Mutex::new(None),
        };
        let divided = self.divided(count);
        for (at, share) in self.shares.iter().take(count).enumerate() {
            share.0.store(divided(at).start, Relaxed);
        }
        self.taken.store(0, SeqCst);
        self.count.store(count, SeqCst);
        // Whoever reads the job sees its shares.
        self.job.store((&raw const job).cast_mut(), SeqCst);
        let own = catch_unwind(AssertUnwindSafe(|| {
            offered();
            self.work(0, task);
        }));
        self.close();
        self.owned.store(false, SeqCst);
        if let Some(panic) = own.err().or_else(|| lock(&job.panic).take()) {
            resume_unwind(panic);
        }
    }

    /// Takes the job back and waits until nobody uses it.
    fn close(&self) {
        self.job.store(std::ptr::null_mut(), SeqCst);
        for _ in 0..WAITS {
            if self.visitors.load(SeqCst) == 0 {
                return;
            }
            spin_loop();
        }
        *lock(&self.owner) = Some(current());
        self.owner_sleeps.store(true, SeqCst);
        while self.visitors.load(SeqCst) != 0 {
            park();
        }
        self.owner_sleeps.store(false, SeqCst);
    }
}

/// Locks what no thread leaves half-changed, whatever panics.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where threads without work sleep.
pub struct Beds {
    sleepers: AtomicUsize,
    sleeping: Mutex<()>,
    wake: Condvar,
}

impl Beds {
    /// Nobody sleeps.
    pub fn new() -> Beds {
        Beds {
            sleepers: AtomicUsize::new(0),
            sleeping: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Whether all are awake.
    pub fn are_empty(&self) -> bool {
        self.sleepers.load(SeqCst) == 0
    }

    /// Sleeps until someone wakes this thread, unless there is work.
    pub fn sleep(&self, has_work: impl Fn() -> bool) {
        let guard = lock(&self.sleeping);
        self.sleepers.fetch_add(1, SeqCst);
        // A caller offers its loop and then looks for sleepers, so one of the two sees the other.
        if !has_work() {
            drop(
                self.wake
                    .wait(guard)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
        self.sleepers.fetch_sub(1, SeqCst);
    }

    /// Wakes some of the sleepers, or all.
    pub fn wake(&self, count: Option<usize>) {
        let _guard = lock(&self.sleeping);
        match count {
            None => self.wake.notify_all(),
            Some(count) => (0..count).for_each(|_| self.wake.notify_one()),
        }
    }
}
