//! Hash tables from text to opcodes, attribute keys and element types, built once.

use std::sync::LazyLock;

use crate::module::{AttrKey, HloOpcode};
use crate::types::PrimitiveType;

/// A hash of a short byte string, good enough for open addressing; reads eight bytes at a time.
#[inline(always)]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u32 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    #[inline(always)]
    fn load8(bytes: &[u8], at: usize) -> u64 {
        match bytes.get(at..at + 8) {
            Some(chunk) => u64::from_le_bytes(chunk.try_into().unwrap_or([0; 8])),
            None => 0,
        }
    }
    #[inline(always)]
    fn fold(a: u64, b: u64) -> u64 {
        let wide = u128::from(a) * u128::from(b);
        wide as u64 ^ (wide >> 64) as u64
    }
    let length = bytes.len();
    let mut hash = length as u64 ^ 0x51_7c_c1_b7_27_22_0a_95;
    if length >= 8 {
        let mut at = 0;
        while at + 8 <= length {
            hash = fold(hash ^ load8(bytes, at), K);
            at += 8;
        }
        hash = fold(hash ^ load8(bytes, length - 8), K);
    } else if length >= 4 {
        let first = u32::from_le_bytes(bytes[..4].try_into().unwrap_or([0; 4]));
        let last = u32::from_le_bytes(bytes[length - 4..].try_into().unwrap_or([0; 4]));
        hash = fold(hash ^ (u64::from(first) << 32 | u64::from(last)), K);
    } else if length > 0 {
        let packed = u64::from(bytes[0])
            | u64::from(bytes[length / 2]) << 8
            | u64::from(bytes[length - 1]) << 16;
        hash = fold(hash ^ packed, K);
    }
    (hash ^ (hash >> 32)) as u32
}

/// Fixed names and what they stand for.
pub(crate) struct NameTable<T> {
    slots: Vec<Option<(&'static [u8], T)>>,
}

impl<T: Copy> NameTable<T> {
    fn new(rows: impl Iterator<Item = (&'static str, T)>) -> NameTable<T> {
        let rows: Vec<_> = rows.collect();
        let mut slots = vec![None; (rows.len() * 4).next_power_of_two()];
        let mask = slots.len() - 1;
        for (name, value) in rows {
            let mut at = hash_bytes(name.as_bytes()) as usize & mask;
            while slots[at].is_some() {
                at = (at + 1) & mask;
            }
            slots[at] = Some((name.as_bytes(), value));
        }
        NameTable { slots }
    }

    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<T> {
        let mask = self.slots.len() - 1;
        let mut at = hash_bytes(name) as usize & mask;
        while let Some((known, value)) = &self.slots[at] {
            if *known == name {
                return Some(*value);
            }
            at = (at + 1) & mask;
        }
        None
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
    }
}
