//! Hash tables from text to opcodes, attribute keys and element types, built once.

use std::sync::LazyLock;

use super::scan::{Key, WIDTH, Window};
use crate::module::{AttrKey, HloOpcode};
use crate::types::PrimitiveType;

/// Fixed names, none longer than a key, and what they stand for.
pub(crate) struct NameTable<T> {
    names: Vec<Key>,
    values: Vec<Option<T>>,
}

impl<T: Copy> NameTable<T> {
    fn new(rows: impl Iterator<Item = (&'static str, T)>) -> NameTable<T> {
        let rows: Vec<_> = rows.collect();
        let size = (rows.len() * 4).next_power_of_two();
        let mut names = vec![Key::default(); size];
        let mut values = vec![None; size];
        for (name, value) in rows {
            debug_assert!(name.len() <= WIDTH, "{name} is longer than a key");
            let key = Key::of(name.as_bytes());
            let mut at = key.hash() as usize & (size - 1);
            while values[at].is_some() {
                at = (at + 1) & (size - 1);
            }
            names[at] = key;
            values[at] = Some(value);
        }
        NameTable { names, values }
    }

    /// What the word with this key stands for.
    #[inline]
    pub fn of_key(&self, key: &Key) -> Option<T> {
        let mask = self.names.len() - 1;
        let mut at = key.hash() as usize & mask;
        while let Some(value) = self.values[at] {
            if self.names[at] == *key {
                return Some(value);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// What the first `length` bytes of `window` stand for.
    #[inline]
    pub fn at_start(&self, window: &Window, length: usize) -> Option<T> {
        self.of_key(&Key::new(window, length))
    }

    /// What `name` stands for.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<T> {
        match name.len() <= WIDTH {
            true => self.of_key(&Key::of(name)),
            false => None,
        }
    }
}

/// Opcodes by name.
pub(crate) static OPCODES: LazyLock<NameTable<HloOpcode>> =
    LazyLock::new(|| NameTable::new(HloOpcode::all().map(|op| (op.name(), op))));

/// Attribute keys by name.
pub(crate) static KEYS: LazyLock<NameTable<AttrKey>> = LazyLock::new(|| {
    NameTable::new(AttrKey::all().filter_map(|key| key.name().map(|name| (name, key))))
});

/// Element types by name.
pub(crate) static TYPES: LazyLock<NameTable<PrimitiveType>> =
    LazyLock::new(|| NameTable::new(PrimitiveType::all().map(|ty| (ty.name(), ty))));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found() {
        for op in HloOpcode::all() {
            assert_eq!(OPCODES.get(op.name().as_bytes()), Some(op));
        }
        for key in AttrKey::all() {
            assert_eq!(KEYS.get(key.name().unwrap_or("").as_bytes()), Some(key));
        }
        for ty in PrimitiveType::all() {
            assert_eq!(TYPES.get(ty.name().as_bytes()), Some(ty));
        }
        assert_eq!(OPCODES.get(b"ad"), None);
        assert_eq!(OPCODES.get(&[b'a'; WIDTH + 1]), None);
    }
}
