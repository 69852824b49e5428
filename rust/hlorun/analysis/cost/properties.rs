//! Properties of a cost analysis under XLA's names.
//!
//! In: keys and numbers. Out: sums of them. Promise: what is absent is 0.

use std::collections::BTreeMap;
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties(pub(super) BTreeMap<Key, f64>);

impl Properties {
    /// The value of `key`.
    pub fn get(&self, key: &Key) -> f64 {
        self.0.get(key).copied().unwrap_or(0.0)
    }

    /// All that are not 0.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, f64)> {
        self.0
            .iter()
            .map(|(k, v)| (k, *v))
            .filter(|(_, v)| *v != 0.0)
    }

    pub(super) fn set(&mut self, key: Key, value: f64) {
        self.0.insert(key, value);
    }

    pub(super) fn add(&mut self, key: Key, value: f64) {
        *self.0.entry(key).or_default() += value;
    }

    pub(super) fn add_all(&mut self, other: &Properties) {
        for (key, value) in &other.0 {
            self.add(key.clone(), *value);
        }
    }

    /// What a function applied `count` times adds: everything but bytes.
    pub(super) fn add_applied(&mut self, function: &Properties, count: f64) {
        for key in [Key::Flops, Key::Transcendentals] {
            if let Some(value) = function.0.get(&key) {
                self.add(key, value * count);
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
