//! Names in scope: an open-addressed table that is reused from one computation to the next.
//!
//! Ids only grow, so entries of earlier computations are told apart by their id and never need to
//! be cleared. A slot holds the beginning of its name, so that short names are compared without a
//! look at the text.

use super::lexer::Cursor;
use super::scan::{Key, SEED, WIDTH, Window, fold};
use crate::module::{ModuleText, TextRef};

/// What names are pieces of.
pub(crate) trait Pieces {
    fn piece(&self, text: TextRef) -> &[u8];
}

impl Pieces for ModuleText {
    #[inline]
    fn piece(&self, text: TextRef) -> &[u8] {
        self.bytes(text)
    }
}

impl Pieces for Cursor<'_> {
    #[inline]
    fn piece(&self, text: TextRef) -> &[u8] {
        self.bytes(text)
    }
}

/// Bytes of a name that its slot holds.
const HEAD: usize = 16;

/// A name, ready to be looked up.
#[derive(Clone, Copy, Default)]
pub(crate) struct Symbol {
    head: [u64; 2],
    pub name: TextRef,
    hash: u32,
}

impl Symbol {
    /// The name at the start of `window`, which ends in it; `name` says where it stands.
    #[inline(always)]
    pub fn short(window: &Window, name: TextRef) -> Symbol {
        let key = Key::new(window, name.len as usize);
        Symbol {
            head: [key.0[0], key.0[1]],
            name,
            hash: key.hash(),
        }
    }

    /// The name `bytes`, which stands at `name`.
    pub fn new(bytes: &[u8], name: TextRef) -> Symbol {
        let key = Key::of(bytes);
        Symbol {
            head: [key.0[0], key.0[1]],
            name,
            hash: hash_of(bytes, &SEED),
        }
    }
}

/// The hash of a name of any length.
fn hash_of(name: &[u8], seed: &[u64; 4]) -> u32 {
    let mut hash = Key::of(name).hash_with(seed);
    for piece in name.chunks(WIDTH).skip(1) {
        let piece = Key::of(piece).hash_with(seed);
        let both = fold(u64::from(hash) ^ seed[0], u64::from(piece) ^ seed[1]);
        hash = (both ^ both >> 32) as u32;
    }
    hash
}

/// A [`Symbol`] and what it names.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Slot {
    head: [u64; 2],
    name: TextRef,
    hash: u32,
    /// 1 + position in the arena; 0 is empty.
    id: u32,
}

impl Slot {
    /// Whether it holds `symbol`, whose bytes are a piece of `text` too.
    #[inline(always)]
    fn holds(&self, text: &impl Pieces, symbol: &Symbol) -> bool {
        self.begins(symbol)
            && (symbol.name.len as usize <= HEAD || same_tail(text, self.name, symbol.name))
    }

    #[inline(always)]
    fn begins(&self, symbol: &Symbol) -> bool {
        self.hash == symbol.hash && self.head == symbol.head && self.name.len == symbol.name.len
    }
}

/// Whether two names that are equally long and longer than [`HEAD`] end alike.
#[inline(never)]
fn same_tail(text: &impl Pieces, a: TextRef, b: TextRef) -> bool {
    let (a, b) = (text.piece(a), text.piece(b));
    if b.len() > 2 * HEAD {
        return a == b;
    }
    let (a, b) = (a.last_chunk::<HEAD>(), b.last_chunk::<HEAD>());
    a.map(|tail| u128::from_le_bytes(*tail)) == b.map(|tail| u128::from_le_bytes(*tail))
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
            slots: vec![Slot::default(); (names * 2).next_power_of_two().max(8)],
            live: 0,
            first: 1,
        }
    }

    /// Forgets all names; ids from now on are at least `first_index`, counted from 0.
    pub fn open_scope(&mut self, first_index: usize) {
        self.first = first_index as u32 + 1;
        self.live = 0;
    }

    /// The arena index of `symbol`.
    #[inline(always)]
    pub fn get(&self, text: &impl Pieces, symbol: &Symbol) -> Option<usize> {
        self.find(symbol, |slot| slot.holds(text, symbol))
    }

    /// Whether `name`, which need not be a piece of `text`, is in scope.
    pub fn has(&self, text: &impl Pieces, name: &[u8]) -> bool {
        let symbol = Symbol::new(name, TextRef::new(0, name.len()));
        let is = |slot: &Slot| slot.begins(&symbol) && text.piece(slot.name) == name;
        self.find(&symbol, is).is_some()
    }

    #[inline(always)]
    fn find(&self, symbol: &Symbol, is: impl Fn(&Slot) -> bool) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut at = symbol.hash as usize & mask;
        loop {
            let slot = &self.slots[at];
            if slot.id < self.first {
                return None;
            }
            if is(slot) {
                return Some(slot.id as usize - 1);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds `symbol`; `Err` with the arena index of the one that has its name already.
    #[inline(always)]
    pub fn insert(
        &mut self,
        text: &impl Pieces,
        symbol: &Symbol,
        index: usize,
    ) -> Result<(), usize> {
        if self.slots.len() < 2 * (self.live + 1) {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = symbol.hash as usize & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.id < self.first {
                *slot = Slot {
                    head: symbol.head,
                    name: symbol.name,
                    hash: symbol.hash,
                    id: index as u32 + 1,
                };
                self.live += 1;
                return Ok(());
            }
            if slot.holds(text, symbol) {
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
    #[inline(never)]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![Slot::default(); old.len() * 4];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_length_are_told_apart() {
        let names: Vec<String> = (1..70)
            .flat_map(|length| {
                let long = "n".repeat(length);
                // Differ in the first byte, in the last, not at all.
                [format!("a{long}"), format!("{long}a"), long]
            })
            .collect();
        let mut text = ModuleText::default();
        let mut symbols = Symbols::with_capacity(4);
        for (index, name) in names.iter().enumerate() {
            let at = text.add(name.as_bytes());
            let symbol = Symbol::new(name.as_bytes(), at);
            let found = symbols.get(&text, &symbol);
            assert_eq!(symbols.has(&text, name.as_bytes()), found.is_some());
            assert_eq!(found, names[..index].iter().position(|n| n == name));
            if found.is_none() {
                assert_eq!(symbols.insert(&text, &symbol, index), Ok(()));
            }
            assert!(symbols.insert(&text, &symbol, index).is_err());
        }
        symbols.open_scope(names.len());
        let symbol = Symbol::new(b"a", TextRef::new(0, 1));
        assert_eq!(symbols.get(&text, &symbol), None);
    }

    #[test]
    fn a_window_gives_the_symbol_of_the_name_in_it() {
        let window = *b"abcdefghijklmnopqrstuvwxyz012345";
        for length in 1..=WIDTH {
            let name = TextRef::new(0, length);
            let short = Symbol::short(&window, name);
            let other = Symbol::new(&window[..length], name);
            assert_eq!((short.head, short.hash), (other.head, other.hash));
        }
    }

    /// Names that all have one hash under `seed`: of two pieces that collide, each place takes one.
    fn colliding(seed: &[u64; 4], places: usize) -> Vec<String> {
        let mut names = vec!["n".repeat(WIDTH)];
        for _ in 0..places {
            let mut seen = std::collections::HashMap::new();
            let pair = (0u64..).find_map(|number| {
                let piece = format!("{number:0WIDTH$}");
                let hash = hash_of(format!("{}{piece}", names[0]).as_bytes(), seed);
                let other = seen.insert(hash, piece.clone())?;
                Some([other, piece])
            });
            let pair = pair.unwrap_or_default();
            names = (names.iter())
                .flat_map(|name| pair.iter().map(move |piece| format!("{name}{piece}")))
                .collect();
        }
        names
    }

    #[test]
    fn names_that_collide_under_one_seed_do_not_under_another() {
        let seed = [
            0x9e37_79b9_7f4a_7c15,
            0x517c_c1b7_2722_0a95,
            0xbf58_476d_1ce4_e5b9,
            0x94d0_49bb_1331_11eb,
        ];
        let names = colliding(&seed, 10);
        let hash = hash_of(names[0].as_bytes(), &seed);
        assert!(names.iter().all(|n| hash_of(n.as_bytes(), &seed) == hash));
        let mut text = ModuleText::default();
        let mut symbols = Symbols::with_capacity(4);
        for (index, name) in names.iter().enumerate() {
            let at = text.add(name.as_bytes());
            let symbol = Symbol::new(name.as_bytes(), at);
            assert_eq!(symbols.insert(&text, &symbol, index), Ok(()));
        }
        // As many names in one run of slots would be looked through for each of them.
        let runs = symbols.slots.split(|slot| slot.id == 0);
        let longest = runs.map(<[Slot]>::len).max();
        assert!(longest < Some(names.len() / 4), "{longest:?}");
    }
}
