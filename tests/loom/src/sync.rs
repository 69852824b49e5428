//! Loom's primitives under the names of `rust/hlorun/exec/threads/sync.rs`.
//!
//! Loom takes a load that is sequentially consistent for one that acquires, and then shows orders that
//! cannot be. What reads and writes in one step sees the latest value, so loads are such steps here.

pub use loom::hint::spin_loop;
pub use loom::sync::{Condvar, Mutex, MutexGuard};
pub use loom::thread::{Thread, current, park};

use loom::sync::atomic as model;
use std::sync::atomic::Ordering;

/// Owners sleep at once, so that this way is modelled too.
pub const WAITS: usize = 1;

macro_rules! atomic {
    ($name:ident, $value:ty, $load:expr) => {
        pub struct $name(model::$name);

        impl $name {
            pub fn new(value: $value) -> $name {
                $name(model::$name::new(value))
            }

            pub fn load(&self, _: Ordering) -> $value {
                ($load)(&self.0)
            }

            pub fn store(&self, value: $value, order: Ordering) {
                self.0.swap(value, order);
            }
        }
    };
}

atomic!(AtomicBool, bool, |x: &model::AtomicBool| x
    .fetch_or(false, Ordering::SeqCst));
atomic!(AtomicUsize, usize, |x: &model::AtomicUsize| x
    .fetch_add(0, Ordering::SeqCst));

impl AtomicBool {
    pub fn swap(&self, value: bool, order: Ordering) -> bool {
        self.0.swap(value, order)
    }
}

impl AtomicUsize {
    pub fn fetch_add(&self, value: usize, order: Ordering) -> usize {
        self.0.fetch_add(value, order)
    }

    pub fn fetch_sub(&self, value: usize, order: Ordering) -> usize {
        self.0.fetch_sub(value, order)
    }
}

pub struct AtomicPtr<T>(model::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    pub fn new(value: *mut T) -> AtomicPtr<T> {
        AtomicPtr(model::AtomicPtr::new(value))
    }

    pub fn load(&self, order: Ordering) -> *mut T {
        let null = std::ptr::null_mut();
        match self.0.compare_exchange(null, null, order, order) {
            Ok(value) | Err(value) => value,
        }
    }

    pub fn store(&self, value: *mut T, order: Ordering) {
        self.0.swap(value, order);
    }
}
