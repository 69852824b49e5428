//! Threads that help the caller of a parallel loop.
//!
//! In: a number of tasks and a body. Out: the body has run once for each. Promise: the caller takes tasks itself and
//! never waits for a thread to start, only for tasks that others have begun; so a loop makes progress however busy the
//! machine is, loops may be nested and may run at the same time, and in a process forked off without the threads they
//! still end. A panic of a task is the caller's, after the others have ended.
//!
//! An idle thread watches for new loops for a moment before it sleeps, because waking it costs more than a small task.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long an idle thread watches before it sleeps.
const WATCH: Duration = Duration::from_micros(100);

/// A loop that is being run; lies on its caller's stack.
struct Job<'b> {
    body: &'b (dyn Fn(usize) + Sync),
    count: usize,
    next: AtomicUsize,
    /// Helpers that have joined and not left; joined only while the job is listed.
    helpers: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Job<'_> {
    /// Runs tasks until none is left to begin.
    fn work(&self) {
        loop {
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            if task >= self.count {
                return;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.body)(task))) {
                self.next.store(self.count, Ordering::Relaxed);
                lock(&self.panic).get_or_insert(panic);
            }
        }
    }

    fn has_tasks(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.count
    }
}

/// The address of a job, valid while it is listed or has helpers.
#[derive(Clone, Copy, PartialEq)]
struct Listed(*const Job<'static>);
// SAFETY: a job is shared data behind atomics and a mutex, and its body is Sync.
unsafe impl Send for Listed {}

/// The jobs with tasks to begin, and who waits for more.
struct Board {
    jobs: Vec<Listed>,
    sleeping: usize,
}

struct Pool {
    board: Mutex<Board>,
    posted: Condvar,
    /// Counts posted jobs, so that a watching thread needs no lock.
    posts: AtomicUsize,
    helpers: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `RAYON_NUM_THREADS` when it says so, else the cores this process may use.
fn wanted() -> usize {
    let named = std::env::var("RAYON_NUM_THREADS").ok();
    named
        .and_then(|n| n.trim().parse().ok())
        .filter(|&n| n > 0)
        .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
        .unwrap_or(1)
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<&'static Pool> = OnceLock::new();
    POOL.get_or_init(|| {
        let pool: &'static Pool = Box::leak(Box::new(Pool {
            board: Mutex::new(Board {
                jobs: Vec::new(),
                sleeping: 0,
            }),
            posted: Condvar::new(),
            posts: AtomicUsize::new(0),
            helpers: wanted() - 1,
        }));
        for i in 0..pool.helpers {
            // Without the thread its share of the work is the callers'.
            let _ = std::thread::Builder::new()
                .name(format!("hlorun-{i}"))
                .spawn(move || help(pool));
        }
        pool
    })
}

/// Threads that work on a loop, the caller's included.
pub fn threads() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(wanted)
}

/// The life of a helper.
fn help(pool: &'static Pool) {
    let mut seen = usize::MAX;
    loop {
        let posts = pool.posts.load(Ordering::Acquire);
        if posts == seen {
            watch(pool, seen);
        }
        seen = pool.posts.load(Ordering::Acquire);
        let joined = {
            let board = lock(&pool.board);
            // SAFETY: a listed job is alive.
            let open = |job: &&Listed| unsafe { (*job.0).has_tasks() };
            let job = board.jobs.iter().find(open).copied();
            if let Some(job) = job {
                // SAFETY: as above; with a helper it stays so when it is taken off the list.
                unsafe { (*job.0).helpers.fetch_add(1, Ordering::Relaxed) };
            }
            job
        };
        if let Some(job) = joined {
            // SAFETY: this thread is one of its helpers until the last line, after which it does not touch it.
            unsafe {
                (*job.0).work();
                (*job.0).helpers.fetch_sub(1, Ordering::Release);
            }
            // There may be another.
            seen = usize::MAX;
        }
    }
}

/// Returns once there are other posts than `seen`.
fn watch(pool: &Pool, seen: usize) {
    let start = Instant::now();
    while start.elapsed() < WATCH {
        for _ in 0..32 {
            if pool.posts.load(Ordering::Acquire) != seen {
                return;
            }
            std::hint::spin_loop();
        }
    }
    let mut board = lock(&pool.board);
    board.sleeping += 1;
    while pool.posts.load(Ordering::Acquire) == seen {
        board = pool
            .posted
            .wait(board)
            .unwrap_or_else(PoisonError::into_inner);
    }
    board.sleeping -= 1;
}

/// Runs `body(i)` for every `i < count`, on the calling thread and those that are free.
pub fn parallel_for(count: usize, body: &(dyn Fn(usize) + Sync)) {
    if count <= 1 || threads() == 1 {
        (0..count).for_each(body);
        return;
    }
    let pool = pool();
    let job = Job {
        body,
        count,
        next: AtomicUsize::new(0),
        helpers: AtomicUsize::new(0),
        panic: Mutex::new(None),
    };
    let listed = Listed((&raw const job).cast());
    let sleeping = {
        let mut board = lock(&pool.board);
        board.jobs.push(listed);
        pool.posts.fetch_add(1, Ordering::Release);
        board.sleeping
    };
    for _ in 0..sleeping.min(count - 1) {
        pool.posted.notify_one();
    }
    job.work();
    lock(&pool.board).jobs.retain(|&other| other != listed);
    // Nobody can join any more; who has joined is at work on its last task.
    let mut turns = 0u32;
    while job.helpers.load(Ordering::Acquire) > 0 {
        turns += 1;
        if turns.is_multiple_of(1 << 12) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
    if let Some(panic) = job
        .panic
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
    {
        resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn every_task_of_nested_and_simultaneous_loops_runs_once() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for count in [0, 1, 2, 7, 100] {
                        let runs: Vec<AtomicU32> = (0..count * 5).map(|_| 0.into()).collect();
                        parallel_for(count, &|i| {
                            parallel_for(5, &|j| {
                                runs[i * 5 + j].fetch_add(1, Ordering::Relaxed);
                            });
                        });
                        assert!(runs.iter().all(|r| r.load(Ordering::Relaxed) == 1));
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_threads_live_on() {
        for _ in 0..20 {
            let result = catch_unwind(|| parallel_for(50, &|i| assert!(i != 17, "seventeen")));
            assert!(result.is_err());
        }
        let sum = AtomicUsize::new(0);
        parallel_for(50, &|i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 1225);
    }
}
