//! The protocols of the pool and of devices under every order of events of two and three threads.
//!
//! The files that they use are compiled here over loom's primitives: `cargo test` in this folder.
#![cfg(test)]

#[path = "../../../rust/hlorun/exec/threads/slot.rs"]
mod slot;
#[allow(dead_code)]
#[path = "../../../rust/hlorun/exec/rendezvous/protocol.rs"]
mod protocol;
mod rendezvous;
mod sync;

/// Where the protocol of devices looks for its primitives.
mod exec {
    pub mod threads {
        pub(crate) use crate::sync;
    }
}

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use slot::{Beds, Slot};
use sync::{AtomicBool, AtomicUsize};

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// What one task writes without a lock; loom reports a second access at the same time.
struct Cell(UnsafeCell<usize>);

// SAFETY: loom checks every access.
unsafe impl Sync for Cell {}
// SAFETY: as above.
unsafe impl Send for Cell {}

impl Cell {
    fn add(&self) {
        // SAFETY: loom checks that nobody else is here.
        self.0.with_mut(|count| unsafe { *count += 1 });
    }

    fn get(&self) -> usize {
        // SAFETY: as above.
        self.0.with(|count| unsafe { *count })
    }
}

fn cells() -> [Cell; 2] {
    std::array::from_fn(|_| Cell(UnsafeCell::new(0)))
}

#[test]
fn every_task_runs_once_and_the_loop_outlives_its_visitors() {
    model(|| {
        let slot = Arc::new(Slot::new(2));
        let visitor = loom::thread::spawn({
            let slot = slot.clone();
            move || slot.visit(1)
        });
        // Two loops, one after the other: a late visitor of the first finds the second or nothing.
        for _ in 0..2 {
            assert!(slot.take());
            let runs = cells();
            slot.run(2, &|task| runs[task].add(), || {});
            // All tasks have ended: reading needs no lock.
            assert_eq!(runs.each_ref().map(Cell::get), [1, 1]);
        }
        visitor.join().unwrap();
    });
}

#[test]
fn every_task_runs_once_however_many_there_are() {
    // More tasks than shares, and a visitor of whom there is no share.
    for (tasks, threads, visitor) in [(3, 2, 1), (2, 3, 2)] {
        model(move || {
            let slot = Arc::new(Slot::new(threads));
            let visitor = loom::thread::spawn({
                let slot = slot.clone();
                move || slot.visit(visitor)
            });
            assert!(slot.take());
            let runs: [Cell; 3] = std::array::from_fn(|_| Cell(UnsafeCell::new(0)));
            slot.run(tasks, &|task| runs[task].add(), || {});
            let want = [1, 1, usize::from(tasks > 2)];
            assert_eq!(runs.each_ref().map(Cell::get), want);
            visitor.join().unwrap();
        });
    }
}

#[test]
fn loops_within_tasks_end() {
    model(|| {
        let slots = Arc::new([Slot::new(2), Slot::new(2)]);
        let visitor = loom::thread::spawn({
            let slots = slots.clone();
            move || slots.iter().for_each(|slot| slot.visit(1))
        });
        assert!(slots[0].take());
        let inner = cells();
        slots[0].run(
            2,
            &|task| match task {
                0 => {
                    assert!(slots[1].take());
                    slots[1].run(2, &|task| inner[task].add(), || {});
                }
                _ => {}
            },
            || {},
        );
        assert_eq!(inner.each_ref().map(Cell::get), [1, 1]);
        visitor.join().unwrap();
    });
}

#[test]
fn a_slot_has_one_owner() {
    model(|| {
        let slot = Arc::new(Slot::new(2));
        let other = loom::thread::spawn({
            let slot = slot.clone();
            move || slot.take()
        });
        let (here, there) = (slot.take(), other.join().unwrap());
        assert!(here != there);
    });
}

#[test]
fn who_sleeps_while_work_is_offered_is_woken() {
    model(|| {
        let shared = Arc::new((Beds::new(), Slot::new(2), AtomicBool::new(false)));
        let helper = loom::thread::spawn({
            let shared = shared.clone();
            move || {
                let (beds, slot, is_over) = &*shared;
                // Without a wake-up this never ends, which loom reports.
                while !is_over.load(SeqCst) {
                    if slot.has_tasks() {
                        slot.visit(1);
                    }
                    beds.sleep(|| slot.has_tasks() || is_over.load(SeqCst));
                }
            }
        });
        let (beds, slot, is_over) = &*shared;
        let wake = || {
            if !beds.are_empty() {
                beds.wake(None);
            }
        };
        assert!(slot.take());
        let runs = cells();
        slot.run(2, &|task| runs[task].add(), wake);
        assert_eq!(runs.each_ref().map(Cell::get), [1, 1]);
        is_over.store(true, SeqCst);
        wake();
        helper.join().unwrap();
    });
}

#[test]
fn a_panic_reaches_the_owner() {
    model(|| {
        let slot = Arc::new(Slot::new(2));
        let visitor = loom::thread::spawn({
            let slot = slot.clone();
            move || slot.visit(1)
        });
        assert!(slot.take());
        let others = AtomicUsize::new(0);
        let task = |task| match task {
            0 => std::panic::resume_unwind(Box::new("as asked")),
            _ => drop(others.fetch_add(1, SeqCst)),
        };
        let caught = catch_unwind(AssertUnwindSafe(|| slot.run(2, &task, || {})));
        assert!(caught.is_err());
        visitor.join().unwrap();
        // The slot is free again.
        assert!(slot.take());
    });
}
