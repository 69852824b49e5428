//! Small numbers as Parquet packs levels and places in dictionaries: runs of one number, and packed bits.
//!
//! Comes in: numbers of a known width. Goes out: their bytes. Promise: long runs cost nothing.

use super::thrift::varint;

/// Numbers of `width` bits in the making.
pub struct Runs {
    width: u32,
    out: Vec<u8>,
    /// Numbers that are to be packed.
    loose: Vec<u32>,
    /// The last number, and how often it was added in a row.
    last: (u32, usize),
}

/// The shortest run that is written as one.
const SHORTEST: usize = 16;

/// Bits of numbers up to `most`.
pub fn width_of(most: u32) -> u32 {
    u32::BITS - most.leading_zeros()
}

impl Runs {
    pub fn new(width: u32) -> Runs {
        Runs {
            width,
            out: Vec::new(),
            loose: Vec::new(),
            last: (0, 0),
        }
    }

    /// Adds a number `count` times.
    pub fn add(&mut self, value: u32, count: usize) {
        if value == self.last.0 {
            self.last.1 += count;
        } else if count > 0 {
            self.end_run();
            self.last = (value, count);
        }
    }

    fn end_run(&mut self) {
        let (value, mut count) = self.last;
        // Numbers are packed in eights, which a run may have to fill.
        let open = self.loose.len().next_multiple_of(8) - self.loose.len();
        let loose = if count < open + SHORTEST { count } else { open };
        self.loose.resize(self.loose.len() + loose, value);
        count -= loose;
        if count > 0 {
            self.pack();
            varint(&mut self.out, (count as u64) << 1);
            let bytes = self.width.div_ceil(8) as usize;
            self.out.extend_from_slice(&value.to_le_bytes()[..bytes]);
        }
    }

    fn pack(&mut self) {
        if self.loose.is_empty() {
            return;
        }
        let groups = self.loose.len().div_ceil(8);
        self.loose.resize(8 * groups, 0);
        varint(&mut self.out, (groups as u64) << 1 | 1);
        let (mut bits, mut filled) = (0u64, 0);
        for value in self.loose.drain(..) {
            bits |= u64::from(value) << filled;
            filled += self.width;
            while filled >= 8 {
                self.out.push(bits as u8);
                bits >>= 8;
                filled -= 8;
            }
        }
    }

    /// The bytes of all numbers.
    pub fn finish(mut self) -> Vec<u8> {
        self.end_run();
        self.pack();
        self.out
    }
}
