//! The walk of a load or a store, with what many copies along it share.
//!
//! Planning lists nothing. A run that copies along the walk for some time finds how to do so by vectors
//! ([`crate::exec`]) and leaves it here for all runs of the executable.

use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use hlorun_kernels::strided::picks::{Picks, Spread};

use crate::plan::view::Walk;

/// See the module.
#[derive(Default)]
pub struct PickedWalk {
    walk: Walk,
    /// How elements are brought side by side.
    pub picks: Found<Picks>,
    /// How elements that lie side by side go to their places.
    pub spread: Found<Spread>,
}

/// A way to copy, or that there is none, once it has been asked for a few times.
pub struct Found<C> {
    asked: AtomicU32,
    block: OnceLock<Option<Box<Block<C>>>>,
}

/// Elements of a walk that are copied together.
pub struct Block<C> {
    /// Inner dimensions that it has all of.
    pub depth: usize,
    /// Steps of the next dimension; 1 where there is none.
    pub times: usize,
    /// Elements of one step: those of the inner dimensions.
    pub count: usize,
    /// Bytes of an element.
    pub size: usize,
    /// The copy.
    pub copy: C,
}

impl<C> Found<C> {
    /// What `find` finds, which is called once, by the first that asks after so many others: many walks are used too rarely for
    /// it to pay.
    #[inline]
    pub fn after(&self, others: u32, find: impl FnOnce() -> Option<Block<C>>) -> Option<&Block<C>> {
        match self.block.get() {
            Some(block) => block.as_deref(),
            None => self.found(others, find),
        }
    }

    #[cold]
    fn found(&self, others: u32, find: impl FnOnce() -> Option<Block<C>>) -> Option<&Block<C>> {
        // Which thread counts first does not matter.
        if self.asked.fetch_add(1, Ordering::Relaxed) < others {
            return None;
        }
        self.block.get_or_init(|| find().map(Box::new)).as_deref()
    }
}

impl<C> Default for Found<C> {
    fn default() -> Found<C> {
        Found {
            asked: AtomicU32::new(0),
            block: OnceLock::new(),
        }
    }
}

impl<C> Block<C> {
    /// Splits `times` steps, at least those of one block, into runs of whole blocks: the first step of each run, and its
    /// blocks. Where they do not fill a block, the last one overlaps the one before.
    pub fn runs(&self, times: usize) -> impl Iterator<Item = (usize, usize)> {
        let (whole, rest) = match self.times {
            0 | 1 => (times, 0),
            own => (times / own, times % own),
        };
        let last = (rest > 0).then(|| (times - self.times, 1));
        std::iter::once((0, whole)).chain(last)
    }
}

impl Deref for PickedWalk {
    type Target = Walk;

    fn deref(&self) -> &Walk {
        &self.walk
    }
}

impl From<Walk> for PickedWalk {
    fn from(walk: Walk) -> PickedWalk {
        PickedWalk {
            walk,
            ..PickedWalk::default()
        }
    }
}

/// The walk alone.
impl Clone for PickedWalk {
    fn clone(&self) -> PickedWalk {
        self.walk.clone().into()
    }
}

/// The walk alone.
impl std::fmt::Debug for PickedWalk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.walk.fmt(f)
    }
}

/// That of the walks.
impl PartialEq for PickedWalk {
    fn eq(&self, other: &PickedWalk) -> bool {
        self.walk == other.walk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_found_once_and_after_others_have_asked() {
        let found = Found::<()>::default();
        let block = || Block {
            depth: 1,
            times: 2,
            count: 3,
            size: 4,
            copy: (),
        };
        let asked = [(); 3].map(|()| found.after(2, || Some(block())).is_some());
        assert_eq!(asked, [false, false, true]);
        assert!(found.after(2, || None).is_some());
        let none = Found::<()>::default();
        assert!(none.after(0, || None).is_none() && none.after(0, || Some(block())).is_none());
    }

    #[test]
    fn the_last_steps_are_copied_twice_where_they_do_not_fill_a_block() {
        let runs = |block, times| {
            let block = Block {
                depth: 1,
                times: block,
                count: 3,
                size: 4,
                copy: (),
            };
            block.runs(times).collect::<Vec<_>>()
        };
        assert_eq!(runs(1, 5), [(0, 5)]);
        assert_eq!(runs(4, 12), [(0, 3)]);
        assert_eq!(runs(4, 13), [(0, 3), (9, 1)]);
    }
}
