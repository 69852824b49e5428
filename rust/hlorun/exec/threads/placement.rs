//! Keeps a helper thread off the CPU of the thread it helps.
//!
//! In: the CPUs two threads run on. Out: the affinity of one of them. Promise: a thread is never let onto a CPU that it
//! was not allowed to use when it started; where the system has no such calls, or refuses them, nothing changes.
//!
//! A kernel that wakes a thread sometimes puts it on the CPU of the one that woke it, and takes milliseconds to move it
//! to an idle one: as long as dozens of loops take.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A CPU that is not known.
const UNKNOWN: usize = usize::MAX;
/// How long a thread stays where it was put, so that two threads that want it elsewhere do not chase it about.
const STAY: Duration = Duration::from_millis(1);

/// The CPU the calling thread runs on.
pub fn current_cpu() -> usize {
    #[cfg(target_os = "linux")]
    // SAFETY: takes no pointers.
    let cpu = unsafe { libc::sched_getcpu() };
    #[cfg(not(target_os = "linux"))]
    let cpu = -1;
    usize::try_from(cpu).unwrap_or(UNKNOWN)
}

/// Where a helper runs.
#[repr(align(128))]
pub struct Placement {
    /// The CPU it last said it was on, and the one it is kept off.
    cpu: AtomicUsize,
    avoided: AtomicUsize,
    moved: Mutex<Option<Instant>>,
    thread: OnceLock<Affinity>,
}

impl Default for Placement {
    /// A helper that has not started yet.
    fn default() -> Placement {
        Placement {
            cpu: AtomicUsize::new(UNKNOWN),
            avoided: AtomicUsize::new(UNKNOWN),
            moved: Mutex::new(None),
            thread: OnceLock::new(),
        }
    }
}

impl Placement {
    /// The calling thread is the helper.
    pub fn enter(&self) {
        if let Some(affinity) = Affinity::of_this_thread() {
            let _ = self.thread.set(affinity);
        }
        self.note();
    }

    /// Notes where the helper, which calls this, runs now.
    pub fn note(&self) {
        let cpu = current_cpu();
        if self.cpu.load(Relaxed) != cpu {
            self.cpu.store(cpu, Relaxed);
        }
    }

    /// Moves the helper if it was last seen on `cpu`.
    pub fn leave(&self, cpu: usize) {
        if self.cpu.load(Relaxed) == cpu {
            self.avoid(cpu);
        }
    }

    /// Keeps the helper off `cpu` from now on, instead of what it was kept off before.
    pub fn avoid(&self, cpu: usize) {
        self.avoid_at(cpu, Instant::now());
    }

    fn avoid_at(&self, cpu: usize, now: Instant) {
        if cpu == UNKNOWN || self.avoided.load(SeqCst) == cpu {
            return;
        }
        let Some(thread) = self.thread.get() else {
            return;
        };
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        if moved.is_some_and(|at| now.saturating_duration_since(at) < STAY) {
            return;
        }
        *moved = Some(now);
        if thread.exclude(cpu) {
            self.avoided.store(cpu, SeqCst);
        }
    }
}

#[cfg(target_os = "linux")]
struct Affinity {
    thread: libc::pid_t,
    allowed: libc::cpu_set_t,
}

#[cfg(target_os = "linux")]
impl Affinity {
    fn of_this_thread() -> Option<Affinity> {
        // SAFETY: a set of CPUs is plain bits; the call writes no more than its size.
        unsafe {
            let mut allowed: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            let known = libc::sched_getaffinity(0, size, &raw mut allowed) == 0;
            known.then(|| Affinity {
                // By its number: the function came to glibc in 2.30, and wheels are for older ones.
                thread: libc::syscall(libc::SYS_gettid) as libc::pid_t,
                allowed,
            })
        }
    }

    /// Lets the thread run on all it may use but `cpu`; `false` when nothing else is left or the system refuses.
    fn exclude(&self, cpu: usize) -> bool {
        if cpu >= libc::CPU_SETSIZE as usize {
            return false;
        }
        let mut set = self.allowed;
        // SAFETY: the number of the CPU is inside the set, which the last call only reads.
        unsafe {
            libc::CPU_CLR(cpu, &mut set);
            libc::CPU_COUNT(&set) > 0
                && libc::sched_setaffinity(self.thread, size_of::<libc::cpu_set_t>(), &set) == 0
        }
    }
}

#[cfg(not(target_os = "linux"))]
struct Affinity;

#[cfg(not(target_os = "linux"))]
impl Affinity {
    fn of_this_thread() -> Option<Affinity> {
        None
    }

    fn exclude(&self, _cpu: usize) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_thread_leaves_a_cpu_it_is_kept_off_and_stays_a_while() {
        let (placement, stop) = (Placement::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                placement.enter();
                while !stop.load(SeqCst) {
                    placement.note();
                    std::thread::yield_now();
                }
            });
            let until = Instant::now() + Duration::from_secs(10);
            let wait = |what: &dyn Fn() -> bool| {
                while !what() && Instant::now() < until {
                    std::thread::yield_now();
                }
            };
            let seen = || placement.cpu.load(SeqCst);
            wait(&|| placement.thread.get().is_some() && seen() != UNKNOWN);
            let (cpu, begin) = (seen(), Instant::now());
            placement.avoid_at(cpu, begin);
            // With a single CPU there is nowhere else to go.
            let moved = placement.avoided.load(SeqCst) == cpu;
            if moved {
                wait(&|| seen() != cpu);
            }
            let now = seen();
            placement.avoid_at(now, begin + STAY / 2);
            let soon = placement.avoided.load(SeqCst);
            placement.avoid_at(now, begin + STAY);
            let later = placement.avoided.load(SeqCst);
            stop.store(true, SeqCst);
            if moved {
                assert_ne!(now, cpu);
                assert_eq!((soon, later), (cpu, now));
            }
        });
    }

    #[test]
    fn an_unknown_cpu_changes_nothing() {
        let placement = Placement::default();
        placement.enter();
        placement.avoid(UNKNOWN);
        placement.avoid(1 << 20);
        assert_eq!(placement.avoided.load(SeqCst), UNKNOWN);
    }
}
