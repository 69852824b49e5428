//! The threads that all runs of a process share.
//!
//! A loop's tasks are taken one by one by the thread that runs the loop and by whoever is free, so
//! that a loop ends even when no other thread wakes up, and loops within loops need no thread of
//! their own. What a task computes must not depend on who takes it. The loops of one run follow one
//! another within microseconds: a thread that finds nothing to do keeps watching for a while before
//! it sleeps.

use super::placement::{Placement, current_cpu};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};
use std::sync::{Condvar, Mutex, Once, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Loops that threads can join at one time; further ones run on their callers alone.
const SLOTS: usize = 16;
/// How long a thread without work watches for some before it sleeps.
const WATCH: Duration = Duration::from_micros(200);
/// Looks at the slots between two looks at the clock.
const LOOKS: usize = 64;
/// Looks at a slot before its owner sleeps until the last visitor has left.
const WAITS: usize = 4096;

type Task<'t> = &'t (dyn Fn(usize) + Sync);

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
struct Slot {
    owned: AtomicBool,
    job: AtomicPtr<Job>,
    /// The next task to take, and their number; also a hint to those who look for work.
    next: AtomicUsize,
    count: AtomicUsize,
    visitors: AtomicUsize,
    /// The owner, once it sleeps until there is no visitor.
    owner: Mutex<Option<Thread>>,
    owner_sleeps: AtomicBool,
}

impl Slot {
    fn new() -> Slot {
        Slot {
            owned: AtomicBool::new(false),
            job: AtomicPtr::new(std::ptr::null_mut()),
            next: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            visitors: AtomicUsize::new(0),
            owner: Mutex::new(None),
            owner_sleeps: AtomicBool::new(false),
        }
    }

    fn has_tasks(&self) -> bool {
        self.next.load(SeqCst) < self.count.load(SeqCst) && !self.job.load(SeqCst).is_null()
    }

    /// Takes tasks until there are none.
    fn work(&self, task: Task<'_>) {
        let count = self.count.load(Relaxed);
        loop {
            let index = self.next.fetch_add(1, SeqCst);
            if index >= count {
                return;
            }
            task(index);
        }
    }

    /// Works on what the slot offers, if anything.
    fn visit(&self) {
        self.visitors.fetch_add(1, SeqCst);
        let job = self.job.load(SeqCst);
        if !job.is_null() {
            // SAFETY: the owner takes the job back before it waits for its visitors to leave, and
            // keeps it alive until then. This visitor has been counted before it read the job, so
            // either it has read null or the owner is going to see it.
            let job = unsafe { &*job };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work(job.task))) {
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

    /// Takes the job back and waits until nobody uses it.
    fn close(&self) {
        self.job.store(std::ptr::null_mut(), SeqCst);
        for _ in 0..WAITS {
            if self.visitors.load(SeqCst) == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        *lock(&self.owner) = Some(std::thread::current());
        self.owner_sleeps.store(true, SeqCst);
        while self.visitors.load(SeqCst) != 0 {
            std::thread::park();
        }
        self.owner_sleeps.store(false, SeqCst);
    }
}

/// Locks what no thread leaves half-changed, whatever panics.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Pool {
    slots: [Slot; SLOTS],
    /// Threads there are besides the callers.
    helpers: usize,
    /// Where the helpers run.
    placements: Box<[Placement]>,
    sleepers: AtomicUsize,
    sleeping: Mutex<()>,
    wake: Condvar,
}

/// The pool of this process. A child that is forked has none of its parent's threads, so it makes
/// its own.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

fn pool() -> &'static Pool {
    let mut pool = POOL.load(SeqCst);
    if pool.is_null() {
        static MAKING: Mutex<()> = Mutex::new(());
        static AT_FORK: Once = Once::new();
        extern "C" fn in_child() {
            POOL.store(std::ptr::null_mut(), SeqCst);
        }
        // SAFETY: the handler stores one atomic, which it may do in a child of many threads.
        AT_FORK.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
        let _guard = lock(&MAKING);
        pool = POOL.load(SeqCst);
        if pool.is_null() {
            pool = Box::into_raw(Box::new(Pool::new()));
            POOL.store(pool, SeqCst);
            // SAFETY: the pool was just leaked, so it lives for ever.
            Pool::start(unsafe { &*pool });
        }
    }
    // SAFETY: a pool is never freed.
    unsafe { &*pool }
}

impl Pool {
    fn new() -> Pool {
        let helpers = std::thread::available_parallelism().map_or(1, usize::from) - 1;
        Pool {
            slots: std::array::from_fn(|_| Slot::new()),
            helpers,
            placements: (0..helpers).map(|_| Placement::default()).collect(),
            sleepers: AtomicUsize::new(0),
            sleeping: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Starts the helpers. One that cannot be started is missing and nothing else: the callers do
    /// its share.
    fn start(pool: &'static Pool) {
        for (index, placement) in pool.placements.iter().enumerate() {
            let _ = std::thread::Builder::new()
                .name(format!("hlorun-{index}"))
                .spawn(|| pool.help(placement));
        }
    }

    /// What a helper does all its life.
    fn help(&self, placement: &Placement) {
        placement.enter();
        let mut since = Instant::now();
        loop {
            placement.note();
            let mut found = false;
            for slot in &self.slots {
                if slot.has_tasks() {
                    slot.visit();
                    found = true;
                }
            }
            if found
                || (0..LOOKS).any(|_| {
                    std::hint::spin_loop();
                    self.slots.iter().any(Slot::has_tasks)
                })
            {
                since = Instant::now();
            } else if since.elapsed() < WATCH {
                std::thread::yield_now();
            } else {
                self.sleep();
                since = Instant::now();
            }
        }
    }

    fn sleep(&self) {
        let guard = lock(&self.sleeping);
        self.sleepers.fetch_add(1, SeqCst);
        // A caller offers its loop and then looks for sleepers, so one of the two sees the other.
        if !self.slots.iter().any(Slot::has_tasks) {
            drop(
                self.wake
                    .wait(guard)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
        self.sleepers.fetch_sub(1, SeqCst);
    }

    fn wake(&self, tasks: usize) {
        let cpu = current_cpu();
        if self.sleepers.load(SeqCst) == 0 {
            for placement in &self.placements {
                placement.leave(cpu);
            }
            return;
        }
        for placement in &self.placements {
            placement.avoid(cpu);
        }
        let _guard = lock(&self.sleeping);
        if tasks >= self.helpers {
            self.wake.notify_all();
        } else {
            (0..tasks).for_each(|_| self.wake.notify_one());
        }
    }

    fn run(&self, count: usize, task: Task<'_>) {
        let free = |slot: &&Slot| !slot.owned.load(Relaxed) && !slot.owned.swap(true, SeqCst);
        let Some(slot) = self.slots.iter().find(free) else {
            return (0..count).for_each(task);
        };
        // SAFETY: only the lifetime changes. The job is read by visitors of the slot, of which there
        // are none once it is closed, below.
        let task = unsafe { std::mem::transmute::<Task<'_>, Task<'static>>(task) };
        let job = Job {
            task,
            panic: Mutex::new(None),
        };
        slot.next.store(0, SeqCst);
        slot.count.store(count, SeqCst);
        slot.job.store((&raw const job).cast_mut(), SeqCst);
        self.wake(count - 1);
        let own = catch_unwind(AssertUnwindSafe(|| slot.work(task)));
        slot.close();
        slot.owned.store(false, SeqCst);
        if let Some(panic) = own.err().or_else(|| lock(&job.panic).take()) {
            resume_unwind(panic);
        }
    }
}

/// Threads that work on a loop, the caller's among them.
pub fn available_threads() -> usize {
    pool().helpers + 1
}

/// Runs `task(i)` for every `i < count`, in any order and at the same time.
///
/// # Panics
/// When a task does, after all others that were begun have ended.
pub fn parallel_for(count: usize, task: &(dyn Fn(usize) + Sync)) {
    let pool = pool();
    if count <= 1 || pool.helpers == 0 {
        (0..count).for_each(task);
    } else {
        pool.run(count, task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once() {
        for count in [0, 1, 2, 3, 100, 10_000] {
            let runs: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            parallel_for(count, &|i| {
                runs[i].fetch_add(1, SeqCst);
            });
            assert!(runs.iter().all(|run| run.load(SeqCst) == 1), "{count}");
        }
    }

    #[test]
    fn loops_nest_and_run_beside_each_other() {
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 * SLOTS {
                scope.spawn(|| {
                    for _ in 0..50 {
                        parallel_for(4, &|_| {
                            parallel_for(3, &|i| {
                                total.fetch_add(i, SeqCst);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(total.load(SeqCst), 2 * SLOTS * 50 * 4 * 3);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        for _ in 0..20 {
            let caught = catch_unwind(|| {
                parallel_for(50, &|i| assert!(i != 37, "as asked"));
            });
            assert!(caught.is_err());
            every_task_runs_once();
        }
    }

    #[test]
    fn sleepers_wake() {
        if available_threads() == 1 {
            return;
        }
        // A loop of two tasks that wait for each other, so two threads must be there. Other tests
        // may hold all slots or keep all helpers busy for a while.
        let meets = || {
            let (here, met) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let until = Instant::now() + Duration::from_secs(1);
            parallel_for(2, &|_| {
                here.fetch_add(1, SeqCst);
                while here.load(SeqCst) < 2 && Instant::now() < until {
                    std::thread::yield_now();
                }
                met.fetch_add(usize::from(here.load(SeqCst) == 2), SeqCst);
            });
            met.load(SeqCst) == 2
        };
        parallel_for(8, &|_| std::thread::sleep(Duration::from_millis(1)));
        std::thread::sleep(WATCH * 20);
        assert!((0..20).any(|_| meets()));
    }
}
