//! What the pool's protocol is made of; `tests/loom` has another file of this name.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};
pub use std::sync::{Condvar, Mutex, MutexGuard};
pub use std::thread::{Thread, current, park};

/// Looks at a slot before its owner sleeps until the last visitor has left.
pub const WAITS: usize = 4096;
