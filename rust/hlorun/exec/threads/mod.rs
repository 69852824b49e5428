//! The threads that all runs of a process share.
//!
//! A loop's tasks are taken one by one by the thread that runs the loop and by whoever is free, each
//! from its own share first and then from the others', so that a loop ends even when no other
//! thread wakes up, and loops within loops need no thread of their own. What a task computes must
//! not depend on who takes it. The loops of one run follow one another within microseconds: a
//! thread that finds nothing to do keeps watching for a while before it sleeps.

pub(crate) mod placement;
pub(crate) mod slot;
pub(crate) mod sync;

use crate::float_mode::DefaultMode;
use placement::{Placement, current_cpu};
use slot::{Beds, Slot, Task, lock};
use std::sync::Mutex;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Loops that threads can join at one time; further ones run on their callers alone.
const SLOTS: usize = 16;
/// How long a thread without work watches for some before it sleeps.
const WATCH: Duration = Duration::from_micros(200);
/// Looks at the slots between two looks at the clock.
const LOOKS: usize = 64;

struct Pool {
    slots: [Slot; SLOTS],
    /// Threads there are besides the callers.
    helpers: usize,
    /// Where the helpers run.
    placements: Box<[Placement]>,
    beds: Beds,
}

/// The pool of this process. A child that is forked has none of its parent's threads, so it makes
/// its own.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

fn pool() -> &'static Pool {
    let mut pool = POOL.load(SeqCst);
    if pool.is_null() {
        static MAKING: Mutex<()> = Mutex::new(());
        #[cfg(unix)]
        forget_after_fork();
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

/// Makes a child that is forked forget the pool. Other systems have no fork.
#[cfg(unix)]
fn forget_after_fork() {
    static AT_FORK: std::sync::Once = std::sync::Once::new();
    extern "C" fn in_child() {
        POOL.store(std::ptr::null_mut(), SeqCst);
    }
    // SAFETY: the handler stores one atomic, which it may do in a child of many threads.
    AT_FORK.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
}

impl Pool {
    fn new() -> Pool {
        let helpers = std::thread::available_parallelism().map_or(1, usize::from) - 1;
        Pool {
            slots: std::array::from_fn(|_| Slot::new(helpers + 1)),
            helpers,
            placements: (0..helpers).map(|_| Placement::default()).collect(),
            beds: Beds::new(),
        }
    }

    /// Starts the helpers. One that cannot be started is missing and nothing else: the callers do
    /// its share.
    fn start(pool: &'static Pool) {
        for (index, placement) in pool.placements.iter().enumerate() {
            let _ = std::thread::Builder::new()
                .name(format!("hlorun-{index}"))
                .spawn(move || pool.help(index + 1, placement));
        }
    }

    /// What helper `thread` does all its life.
    fn help(&self, thread: usize, placement: &Placement) {
        let _mode = DefaultMode::enter();
        placement.enter();
        let mut since = Instant::now();
        loop {
            placement.note();
            let mut found = false;
            for slot in &self.slots {
                if slot.has_tasks() {
                    slot.visit(thread);
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
                self.beds.sleep(|| self.slots.iter().any(Slot::has_tasks));
                since = Instant::now();
            }
        }
    }

    fn wake(&self, tasks: usize) {
        let cpu = current_cpu();
        if self.beds.are_empty() {
            for placement in &self.placements {
                placement.leave(cpu);
            }
            return;
        }
        for placement in &self.placements {
            placement.avoid(cpu);
        }
        self.beds.wake((tasks < self.helpers).then_some(tasks));
    }

    fn run(&self, count: usize, task: Task<'_>) {
        match self.slots.iter().find(|slot| slot.take()) {
            Some(slot) => slot.run(count, task, || self.wake(count - 1)),
            None => (0..count).for_each(task),
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
    use std::panic::catch_unwind;
    use std::sync::atomic::AtomicUsize;

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
