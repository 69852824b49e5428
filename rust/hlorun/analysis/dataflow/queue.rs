//! Instructions that wait in an order that is known beforehand.
//!
//! Comes in: all instructions in their order, then some of them again and again. Goes out: of those that wait
//! the first. Promise: each waits once at most, and adding and taking take near constant time.

use crate::module::{IdMap, InstructionId};

/// Instructions by their ranks, as bits.
pub struct Queue {
    order: Vec<InstructionId>,
    rank: IdMap<InstructionId, u32>,
    /// A bit per rank.
    waiting: Vec<u64>,
    /// A bit per word of `waiting` that is not zero.
    words: Vec<u64>,
    /// No word of `words` before this one has bits.
    first: usize,
}

impl Queue {
    /// Nothing waits; `order` has every id once, the first to be taken first.
    pub fn new(order: Vec<InstructionId>) -> Queue {
        let mut rank = IdMap::new(order.len(), 0);
        for (at, &id) in order.iter().enumerate() {
            rank[id] = at as u32;
        }
        Queue {
            waiting: vec![0; order.len().div_ceil(64)],
            words: vec![0; order.len().div_ceil(64 * 64)],
            first: 0,
            order,
            rank,
        }
    }

    /// Lets an instruction wait, if it does not yet.
    pub fn push(&mut self, id: InstructionId) {
        let rank = self.rank[id] as usize;
        let word = rank / 64;
        self.waiting[word] |= 1 << (rank % 64);
        self.words[word / 64] |= 1 << (word % 64);
        self.first = self.first.min(word / 64);
    }

    /// Takes the first that waits.
    pub fn pop(&mut self) -> Option<InstructionId> {
        while self.words.get(self.first) == Some(&0) {
            self.first += 1;
        }
        let words = self.words.get_mut(self.first)?;
        let word = self.first * 64 + words.trailing_zeros() as usize;
        let waiting = &mut self.waiting[word];
        let rank = word * 64 + waiting.trailing_zeros() as usize;
        *waiting &= *waiting - 1;
        if *waiting == 0 {
            *words &= *words - 1;
        }
        Some(self.order[rank])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::Id;

    #[test]
    fn the_first_in_the_order_is_taken_first() {
        let count = 10_000;
        let order = (0..count).rev().map(InstructionId::from_index).collect();
        let mut queue = Queue::new(order);
        let mut take = |pushed: &[usize]| {
            for &index in pushed {
                queue.push(InstructionId::from_index(index));
            }
            queue.pop().map(InstructionId::index)
        };
        assert_eq!(take(&[]), None);
        assert_eq!(take(&[7, 9_999, 4_095, 7]), Some(9_999));
        assert_eq!(take(&[9_000, 0]), Some(9_000));
        let rest: Vec<_> = (0..4).map(|_| take(&[])).collect();
        assert_eq!(rest, [Some(4_095), Some(7), Some(0), None]);
        assert_eq!(take(&[5_000]), Some(5_000));
        assert_eq!(take(&[]), None);
    }
}
