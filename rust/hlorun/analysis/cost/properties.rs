//! Properties of a cost analysis under XLA's names.
//!
//! In: keys and numbers. Out: sums of them. Promise: what is absent is 0.

use std::fmt;

use crate::types::ShapeIndex;

/// The name of a property.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// Floating-point operations; integer ones count too.
    Flops,
    /// Elements of transcendental functions.
    Transcendentals,
    /// Bytes read and written.
    BytesAccessed,
    /// Seconds; only ever -1, for unknown.
    OptimalSeconds,
    /// Bytes read of an operand.
    OperandBytes(u32),
    /// Bytes written to a part of the result.
    OutputBytes(ShapeIndex),
    /// How often the elements of an operand are read, 1 for once each.
    OperandUtilization(u32),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Flops => f.write_str("flops"),
            Key::Transcendentals => f.write_str("transcendentals"),
            Key::BytesAccessed => f.write_str("bytes accessed"),
            Key::OptimalSeconds => f.write_str("optimal_seconds"),
            Key::OperandBytes(k) => write!(f, "bytes accessed{k}{{}}"),
            Key::OutputBytes(index) => write!(f, "bytes accessedout{index}"),
            Key::OperandUtilization(k) => write!(f, "utilization{k}{{}}"),
        }
    }
}

/// Properties by key; what is absent is 0.
///
/// A sorted list: most instructions have few, and they are made in about the order of the keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties(Vec<(Key, f64)>);

impl Properties {
    /// The value of `key`.
    pub fn get(&self, key: &Key) -> f64 {
        self.place(key).map_or(0.0, |place| self.0[place].1)
    }

    /// All that are not 0.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, f64)> {
        self.0
            .iter()
            .map(|(k, v)| (k, *v))
            .filter(|(_, v)| *v != 0.0)
    }

    /// Where `key` is, or where it belongs.
    fn place(&self, key: &Key) -> Result<usize, usize> {
        match self.0.last() {
            Some((last, _)) if last >= key => self.0.binary_search_by(|(k, _)| k.cmp(key)),
            _ => Err(self.0.len()),
        }
    }

    pub(super) fn set(&mut self, key: Key, value: f64) {
        match self.place(&key) {
            Ok(place) => self.0[place].1 = value,
            Err(place) => self.0.insert(place, (key, value)),
        }
    }

    pub(super) fn add(&mut self, key: Key, value: f64) {
        match self.place(&key) {
            Ok(place) => self.0[place].1 += value,
            Err(place) => self.0.insert(place, (key, value)),
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if let Ok(place) = self.place(key) {
            self.0.remove(place);
        }
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Key) -> bool) {
        self.0.retain(|(key, _)| keep(key));
    }

    pub(super) fn add_all(&mut self, other: &Properties) {
        self.join(other, |mine, theirs| mine + theirs);
    }

    /// Raises each property to that of `other`, where that is more.
    pub(super) fn raise_to(&mut self, other: &Properties) {
        self.join(other, f64::max);
    }

    fn join(&mut self, other: &Properties, both: impl Fn(f64, f64) -> f64) {
        let mut at = 0;
        for (key, value) in &other.0 {
            while self.0.get(at).is_some_and(|(mine, _)| mine < key) {
                at += 1;
            }
            match self.0.get_mut(at) {
                Some((mine, sum)) if mine == key => *sum = both(*sum, *value),
                _ => self.0.insert(at, (key.clone(), *value)),
            }
        }
    }

    /// What a function applied `count` times adds: everything but bytes.
    pub(super) fn add_applied(&mut self, function: &Properties, count: f64) {
        for key in [Key::Flops, Key::Transcendentals] {
            if let Ok(place) = function.place(&key) {
                self.add(key, function.0[place].1 * count);
            }
        }
    }

    /// Sets the whole result's bytes, and `None` operands' to nothing.
    pub(super) fn set_bytes(&mut self, output: f64, operands: &[f64]) {
        self.set(Key::OutputBytes(ShapeIndex::default()), output);
        for (k, &bytes) in operands.iter().enumerate() {
            self.set(Key::OperandBytes(k as u32), bytes);
        }
    }
}
