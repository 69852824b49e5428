//! Names in scope: an open-addressed table that is reused from one computation to the next.
//!
//! Ids only grow, so entries of earlier computations are told apart by their id and never need to
//! be cleared.

use crate::module::{ModuleText, TextRef};

#[derive(Clone, Copy, Default)]
struct Slot {
    hash: u32,
    name: TextRef,
    /// 1 + position in the arena; 0 is empty.
    id: u32,
}

/// Names to ids.
pub(crate) struct Symbols {
    slots: Vec<Slot>,
    live: usize,
    /// Ids below this are of an earlier scope.
    first: u32,
}

impl Symbols {
    pub fn with_capacity(names: usize) -> Symbols {
        Symbols {
            slots: vec![Slot::default(); (names * 2).next_power_of_two().max(64)],
            live: 0,
            first: 1,
        }
    }

    /// Forgets all names; ids from now on are at least `first_index`, counted from 0.
    pub fn open_scope(&mut self, first_index: usize) {
        self.first = first_index as u32 + 1;
        self.live = 0;
    }

    /// The arena index of `name`.
    #[inline]
    pub fn get(&self, text: &ModuleText, hash: u32, name: &[u8]) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = &self.slots[at];
            if slot.id < self.first {
                return None;
            }
            if slot.hash == hash
                && slot.name.len as usize == name.len()
                && text.bytes(slot.name) == name
            {
                return Some(slot.id as usize - 1);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds `name`; `Err` with the arena index of the one that has it already.
    #[inline]
    pub fn insert(
        &mut self,
        text: &ModuleText,
        hash: u32,
        name: TextRef,
        index: usize,
    ) -> Result<(), usize> {
        if self.slots.len() < 2 * (self.live + 1) {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.id < self.first {
                self.slots[at] = Slot {
                    hash,
                    name,
                    id: index as u32 + 1,
                };
                self.live += 1;
                return Ok(());
            }
            if slot.hash == hash && text.bytes(slot.name) == text.bytes(name) {
                return Err(slot.id as usize - 1);
            }
            at = (at + 1) & mask;
        }
    }

    /// Every name in scope.
    pub fn names(&self) -> impl Iterator<Item = TextRef> + '_ {
        self.slots
            .iter()
            .filter(|slot| slot.id >= self.first)
            .map(|slot| slot.name)
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![Slot::default(); old.len() * 2];
        let mask = self.slots.len() - 1;
        for slot in old.into_iter().filter(|slot| slot.id >= self.first) {
            let mut at = slot.hash as usize & mask;
            while self.slots[at].id != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }
}
