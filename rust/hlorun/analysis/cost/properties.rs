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
/// The sums, which every instruction has, have places of their own. The bytes of operands and results are a
/// sorted list: most instructions have few, and they are made in about the order of the keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties {
    /// Bit `k` says whether sum `k` is there.
    has: u8,
    sums: [f64; SUMS.len()],
    parts: Vec<(Key, f64)>,
    is_brief: bool,
}

/// The keys that stand before those of operands and results.
const SUMS: [Key; 4] = [
    Key::Flops,
    Key::Transcendentals,
    Key::BytesAccessed,
    Key::OptimalSeconds,
];

impl Key {
    /// Which of [`SUMS`] it is.
    fn sum(&self) -> Option<usize> {
        SUMS.iter().position(|key| key == self)
    }
}

impl Properties {
    /// No properties yet; with `is_brief`, those of operands and results are never kept.
    pub(super) fn new(is_brief: bool) -> Properties {
        Properties {
            is_brief,
            ..Properties::default()
        }
    }

    /// The value of `key`.
    pub fn get(&self, key: &Key) -> f64 {
        match key.sum() {
            Some(k) => self.sums[k],
            None => self.place(key).map_or(0.0, |place| self.parts[place].1),
        }
    }

    /// All that are not 0.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, f64)> {
        let parts = self.parts.iter().map(|(key, value)| (key, *value));
        SUMS.iter()
            .zip(self.sums)
            .chain(parts)
            .filter(|(_, value)| *value != 0.0)
    }

    /// Where `key` is among the parts, or where it belongs.
    fn place(&self, key: &Key) -> Result<usize, usize> {
        match self.parts.last() {
            Some((last, _)) if last >= key => self.parts.binary_search_by(|(k, _)| k.cmp(key)),
            _ => Err(self.parts.len()),
        }
    }

    fn set_sum(&mut self, sum: usize, value: f64) {
        self.has |= 1 << sum;
        self.sums[sum] = value;
    }

    pub(super) fn set(&mut self, key: Key, value: f64) {
        if let Some(sum) = key.sum() {
            self.set_sum(sum, value);
        } else if !self.is_brief {
            match self.place(&key) {
                Ok(place) => self.parts[place].1 = value,
                Err(place) => self.parts.insert(place, (key, value)),
            }
        }
    }

    /// Forgets the seconds.
    pub(super) fn remove_seconds(&mut self) {
        if let Some(seconds) = Key::OptimalSeconds.sum() {
            self.has &= !(1 << seconds);
            self.sums[seconds] = 0.0;
        }
    }

    /// Forgets the bytes of the whole result.
    pub(super) fn remove_output(&mut self) {
        self.parts
            .retain(|(key, _)| !matches!(key, Key::OutputBytes(index) if index.is_root()));
    }

    pub(super) fn add_all(&mut self, other: &Properties) {
        self.join(other, |mine, theirs| mine + theirs);
    }

    /// Raises each property to that of `other`, where that is more.
    pub(super) fn raise_to(&mut self, other: &Properties) {
        self.join(other, f64::max);
    }

    fn join(&mut self, other: &Properties, both: impl Fn(f64, f64) -> f64) {
        for (sum, &value) in other.sums.iter().enumerate() {
            match (other.has >> sum & 1, self.has >> sum & 1) {
                (0, _) => {}
                (_, 0) => self.set_sum(sum, value),
                _ => self.sums[sum] = both(self.sums[sum], value),
            }
        }
        let mut at = 0;
        for (key, value) in &other.parts {
            while self.parts.get(at).is_some_and(|(mine, _)| mine < key) {
                at += 1;
            }
            match self.parts.get_mut(at) {
                Some((mine, sum)) if mine == key => *sum = both(*sum, *value),
                _ => self.parts.insert(at, (key.clone(), *value)),
            }
        }
    }

    /// What a function applied `count` times adds: everything but bytes.
    pub(super) fn add_applied(&mut self, function: &Properties, count: f64) {
        for sum in [Key::Flops, Key::Transcendentals]
            .iter()
            .filter_map(Key::sum)
        {
            if function.has >> sum & 1 == 1 {
                self.set_sum(sum, self.sums[sum] + function.sums[sum] * count);
            }
        }
    }

    /// Sets the bytes of the whole result and of the first operands.
    pub(super) fn set_bytes(&mut self, output: f64, operands: impl IntoIterator<Item = f64>) {
        if self.is_brief {
            return;
        }
        self.set(Key::OutputBytes(ShapeIndex::default()), output);
        for (k, bytes) in operands.into_iter().enumerate() {
            self.set(Key::OperandBytes(k as u32), bytes);
        }
    }

    /// Says of the first `count` operands that their elements are read once.
    pub(super) fn set_read_once(&mut self, count: usize) {
        if self.is_brief {
            return;
        }
        for k in 0..count as u32 {
            self.set(Key::OperandUtilization(k), 1.0);
        }
    }
}
