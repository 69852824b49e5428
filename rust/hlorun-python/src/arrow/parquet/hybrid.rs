//! Parquet's hybrid of run lengths and bit packing, for levels and dictionary indices.

/// Values of a bit-packed group; shorter runs are packed.
const GROUP: usize = 8;
/// Most groups of a bit-packed run, so that its header is one byte.
const MOST_GROUPS: u8 = 63;

/// Bits that numbers up to `most` take.
pub fn width_of(most: u32) -> u32 {
    u32::BITS - most.leading_zeros()
}

/// Appends numbers of `width` bits.
pub struct Hybrid<'o> {
    out: &'o mut Vec<u8>,
    width: usize,
    /// A number, and how often it came last.
    run: (u32, usize),
    group: [u32; GROUP],
    /// Numbers of `group` that are set.
    held: usize,
    /// Groups of the current bit-packed run, and where its header is.
    groups: u8,
    header: usize,
}

impl<'o> Hybrid<'o> {
    pub fn new(out: &'o mut Vec<u8>, width: u32) -> Hybrid<'o> {
        Hybrid {
            out,
            width: width as usize,
            run: (0, 0),
            group: [0; GROUP],
            held: 0,
            groups: 0,
            header: 0,
        }
    }

    /// Adds a number `count` times.
    #[inline]
    pub fn push(&mut self, value: u32, count: usize) {
        if self.run.0 == value {
            self.run.1 += count;
        } else if count > 0 {
            self.end_run();
            self.run = (value, count);
        }
    }

    #[inline]
    fn end_run(&mut self) {
        let (value, mut count) = self.run;
        // Runs begin between groups, so that a group that was begun is filled first.
        if self.held > 0 || count < GROUP {
            let filled = count.min(GROUP - self.held);
            // A loop, as almost all of these are of one or two numbers.
            for _ in 0..filled {
                self.group[self.held % GROUP] = value;
                self.held += 1;
            }
            if self.held < GROUP {
                return;
            }
            self.end_group();
            count -= filled;
        }
        if count >= GROUP {
            self.end_packed();
            let mut header = (count as u64) << 1;
            while header >= 0x80 {
                self.out.push(header as u8 | 0x80);
                header >>= 7;
            }
            self.out.push(header as u8);
            let bytes = self.width.div_ceil(8);
            self.out.extend_from_slice(&value.to_le_bytes()[..bytes]);
        } else {
            self.group[..count].fill(value);
            self.held = count;
        }
    }

    #[inline]
    fn end_group(&mut self) {
        if self.groups == 0 {
            self.header = self.out.len();
            self.out.push(0);
        }
        let width = self.width;
        let end = self.out.len() + width;
        if width <= 16 {
            let pack = |all: u64, &value: &u32| all << width | u64::from(value);
            let low = self.group[..4].iter().rev().fold(0, pack);
            let high = self.group[4..].iter().rev().fold(0, pack);
            let all = u128::from(low) | u128::from(high) << (4 * width);
            // A known number of bytes is copied faster, and the rest is cut off.
            self.out.extend_from_slice(&all.to_le_bytes());
        } else {
            let (mut bits, mut count) = (0u64, 0);
            for &value in &self.group {
                bits |= u64::from(value) << count;
                count += width;
                while count >= 8 {
                    self.out.push(bits as u8);
                    bits >>= 8;
                    count -= 8;
                }
            }
        }
        self.out.truncate(end);
        self.held = 0;
        self.groups += 1;
        if self.groups == MOST_GROUPS {
            self.end_packed();
        }
    }

    fn end_packed(&mut self) {
        if self.groups > 0 {
            self.out[self.header] = self.groups << 1 | 1;
            self.groups = 0;
        }
    }

    /// Ends the numbers; readers know how many there are.
    pub fn end(mut self) {
        self.end_run();
        if self.held > 0 {
            self.group[self.held..].fill(0);
            self.end_group();
        }
        self.end_packed();
    }
}
