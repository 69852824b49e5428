//! Counter-based random bits: Threefry-2x32 of 20 rounds and Philox-4x32 of 10 (Salmon et al., "Parallel Random
//! Numbers: As Easy as 1, 2, 3", SC 2011).
//!
//! In: a key and counters. Out: words. Promise: the words of a counter depend on it and the key alone; counters that
//! follow one another are encrypted side by side in the lanes of vectors.

use crate::isa::Isa;

/// Distances of Threefry's rotations, for even and odd groups of four rounds.
pub const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
/// The constant that makes Threefry's third key word.
pub const PARITY: u32 = 0x1BD1_1BDA;

/// Counters that are encrypted side by side.
const LANES: usize = 16;

/// The same word of each counter.
type Words = [u32; LANES];

// The compiler vectorizes loops that change arrays in place. It does not vectorize arrays built anew by `from_fn`.

/// Changes a word of each counter.
#[inline(always)]
fn each(x: &mut Words, f: impl Fn(u32) -> u32) {
    for x in x {
        *x = f(*x);
    }
}

/// Changes a word of each counter by another one.
#[inline(always)]
fn each_with(x: &mut Words, y: &Words, f: impl Fn(u32, u32) -> u32) {
    for (x, &y) in x.iter_mut().zip(y) {
        *x = f(*x, y);
    }
}

/// Threefry of `LANES` counters, in place.
#[inline(always)]
fn threefry_lanes(key: [u32; 2], x: &mut Words, y: &mut Words) {
    let keys = [key[0], key[1], key[0] ^ key[1] ^ PARITY];
    each(x, |x| x.wrapping_add(keys[0]));
    each(y, |y| y.wrapping_add(keys[1]));
    for block in 0..5 {
        for rotation in ROTATIONS[block % 2] {
            each_with(x, y, u32::wrapping_add);
            each_with(y, x, |y, x| y.rotate_left(rotation) ^ x);
        }
        each(x, |x| x.wrapping_add(keys[(block + 1) % 3]));
        let key = keys[(block + 2) % 3].wrapping_add(block as u32 + 1);
        each(y, |y| y.wrapping_add(key));
    }
}

/// Philox of `LANES` counters, in place.
#[inline(always)]
fn philox_lanes(key: [u32; 2], counter: &mut [Words; 4]) {
    let mut key = key;
    let [a, b, c, d] = counter;
    for _ in 0..10 {
        for k in 0..LANES {
            let p = u64::from(c[k]) * 0xCD9E_8D57;
            let q = u64::from(a[k]) * 0xD251_1F53;
            (a[k], b[k]) = ((p >> 32) as u32 ^ b[k] ^ key[0], p as u32);
            (c[k], d[k]) = ((q >> 32) as u32 ^ d[k] ^ key[1], q as u32);
        }
        key = [
            key[0].wrapping_add(0x9E37_79B9),
            key[1].wrapping_add(0xBB67_AE85),
        ];
    }
}

/// The two words of each counter from `first` on; the low half of a counter comes first.
#[inline(always)]
fn threefry_body(key: [u32; 2], first: u64, out: &mut [[u32; 2]]) {
    for (block, out) in out.chunks_mut(LANES).enumerate() {
        let first = first.wrapping_add((block * LANES) as u64);
        let (mut x, mut y) = ([0; LANES], [0; LANES]);
        for k in 0..LANES {
            let counter = first.wrapping_add(k as u64);
            (x[k], y[k]) = (counter as u32, (counter >> 32) as u32);
        }
        threefry_lanes(key, &mut x, &mut y);
        for ((out, &x), &y) in out.iter_mut().zip(&x).zip(&y) {
            *out = [x, y];
        }
    }
}

/// The four words of each counter from `first` on; the lowest words of a counter come first.
#[inline(always)]
fn philox_body(key: [u32; 2], first: u128, out: &mut [[u32; 4]]) {
    for (block, out) in out.chunks_mut(LANES).enumerate() {
        let first = first.wrapping_add((block * LANES) as u128);
        let mut words = [[0; LANES]; 4];
        for k in 0..LANES {
            let counter = first.wrapping_add(k as u128);
            for (w, word) in words.iter_mut().enumerate() {
                word[k] = (counter >> (32 * w)) as u32;
            }
        }
        philox_lanes(key, &mut words);
        for (k, out) in out.iter_mut().enumerate() {
            *out = words.map(|word| word[k]);
        }
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            $(#[$features])?
            pub unsafe fn threefry(key: [u32; 2], first: u64, out: &mut [[u32; 2]]) {
                super::threefry_body(key, first, out);
            }

            $(#[$features])?
            pub unsafe fn philox(key: [u32; 2], first: u128, out: &mut [[u32; 4]]) {
                super::philox_body(key, first, out);
            }
        }
    };
}
each_tier!(tier);

/// Threefry of as many counters as `out` has room for, which follow `first`; the low half of a counter comes first.
pub fn threefry(key: [u32; 2], first: u64, out: &mut [[u32; 2]]) {
    // SAFETY: the active tier's instructions are there.
    unsafe { of_tier!(Isa::active(), threefry(key, first, out)) }
}

/// Philox of as many counters as `out` has room for, which follow `first`; the lowest words of a counter come first.
pub fn philox(key: [u32; 2], first: u128, out: &mut [[u32; 4]]) {
    // SAFETY: the active tier's instructions are there.
    unsafe { of_tier!(Isa::active(), philox(key, first, out)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_give_the_published_numbers() {
        let mut pair = [[0; 2]];
        threefry([0, 0], 0, &mut pair);
        assert_eq!(pair, [[0x6b20_0159, 0x99ba_4efe]]);
        threefry([!0, !0], !0, &mut pair);
        assert_eq!(pair, [[0x1cb9_96fc, 0xbb00_2be7]]);
        let mut four = [[0; 4]];
        philox([0, 0], 0, &mut four);
        assert_eq!(four, [[0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]]);
        philox([!0, !0], !0, &mut four);
        assert_eq!(four, [[0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]]);
    }

    /// A counter alone and among others, where the low words overflow.
    #[test]
    fn words_depend_on_their_counter_alone() {
        let key = [0x0123_4567, 0x89ab_cdef];
        for first in [0, (1 << 32) - 5, u64::MAX - 7] {
            let mut all = [[0; 2]; 53];
            threefry(key, first, &mut all);
            for (k, words) in all.iter().enumerate() {
                let mut one = [[0; 2]];
                threefry(key, first.wrapping_add(k as u64), &mut one);
                assert_eq!(one[0], *words);
            }
        }
        for first in [0, (1 << 64) - 5, u128::MAX - 7] {
            let mut all = [[0; 4]; 53];
            philox(key, first, &mut all);
            for (k, words) in all.iter().enumerate() {
                let mut one = [[0; 4]];
                philox(key, first.wrapping_add(k as u128), &mut one);
                assert_eq!(one[0], *words);
            }
        }
    }
}
