//! Typed ids of the module's arenas and the maps keyed by them.

use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// An id that is a dense index into one arena.
pub trait Id: Copy + Eq {
    /// Position in the arena.
    fn index(self) -> usize;
    /// The id of a position; positions beyond `u32::MAX - 1` are the caller's error and saturate.
    fn from_index(index: usize) -> Self;
}

macro_rules! define_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(NonZeroU32);

        impl Id for $name {
            fn index(self) -> usize {
                self.0.get() as usize - 1
            }

            fn from_index(index: usize) -> $name {
                let raw = u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1);
                $name(NonZeroU32::new(raw).unwrap_or(NonZeroU32::MAX))
            }
        }
    };
}

define_id!(
    /// An instruction of a module, unique across its computations.
    InstructionId
);
define_id!(
    /// A computation of a module.
    ComputationId
);
define_id!(
    /// A literal of a module.
    LiteralId
);

/// A run of entries in one of the module's pools.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PoolRange {
    /// First entry.
    pub start: u32,
    /// Number of entries.
    pub len: u32,
}

impl PoolRange {
    /// As a range of `usize`.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// A table with one value for every id of an arena.
#[derive(Clone, Debug)]
pub struct IdMap<I, T> {
    values: Vec<T>,
    id: PhantomData<fn(I)>,
}

impl<I: Id, T: Clone> IdMap<I, T> {
    /// `len` copies of `value`.
    pub fn new(len: usize, value: T) -> IdMap<I, T> {
        IdMap {
            values: vec![value; len],
            id: PhantomData,
        }
    }

    /// Makes room for ids below `len`, filling with `value`.
    pub fn grow(&mut self, len: usize, value: T) {
        if self.values.len() < len {
            self.values.resize(len, value);
        }
    }
}

impl<I: Id, T> IdMap<I, T> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// All entries with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.values
            .iter()
            .enumerate()
            .map(|(i, v)| (I::from_index(i), v))
    }
}

impl<I: Id, T> Index<I> for IdMap<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.values[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdMap<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.values[id.index()]
    }
}
