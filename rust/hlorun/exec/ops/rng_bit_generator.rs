//! Runs `rng-bit-generator`, bit for bit as XLA:CPU does.
//!
//! Threefry turns a counter into two words: 64-bit results are one counter each; 32-bit results
//! split one dimension (the first even one, else the longest) into pairs. Philox turns a counter
//! into four words, which follow one another. Results narrower than 32 bits are the low bits of
//! 32-bit results.

use super::walk::{Shared, split};
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::ops::rng_bit_generator::{Algorithm, RngBitGeneratorOp};

/// Counters one task turns into bits.
const GRAIN: usize = 32 << 10;

/// Threefry-2x32, 20 rounds (Salmon et al., 2011).
pub fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD1_1BDA];
    let mut x = [
        counter[0].wrapping_add(keys[0]),
        counter[1].wrapping_add(keys[1]),
    ];
    for block in 0..5 {
        for rotation in ROTATIONS[block % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(rotation) ^ x[0];
        }
        x[0] = x[0].wrapping_add(keys[(block + 1) % 3]);
        x[1] = x[1]
            .wrapping_add(keys[(block + 2) % 3])
            .wrapping_add(block as u32 + 1);
    }
    x
}

/// Philox-4x32, 10 rounds (Salmon et al., 2011).
pub fn philox(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let (mut key, mut x) = (key, counter);
    for _ in 0..10 {
        let a = u64::from(x[0]) * 0xD251_1F53;
        let b = u64::from(x[2]) * 0xCD9E_8D57;
        x = [
            (b >> 32) as u32 ^ x[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ x[3] ^ key[1],
            a as u32,
        ];
        key = [
            key[0].wrapping_add(0x9E37_79B9),
            key[1].wrapping_add(0xBB67_AE85),
        ];
    }
    x
}

fn words(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

/// Runs `op`: the state in, the new state and the bits out.
pub fn run(
    op: &RngBitGeneratorOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let ([state], [new_state, bits]) = (inputs, outputs) else {
        return Err(HloError::execution("rng-bit-generator takes a state"));
    };
    let length = state.count();
    if state.dims != new_state.dims || !(2..=3).contains(&length) {
        return Err(HloError::execution("a random state of another length"));
    }
    let bytes = state.to_row_major()?;
    let mut words64 = [0u64; 3];
    for (word, chunk) in words64.iter_mut().zip(bytes.as_slice().chunks_exact(8)) {
        *word = u64::from_ne_bytes(chunk.try_into().unwrap_or_default());
    }
    let size = bits.element_type.size_bytes();
    let mut result = AlignedBytes::uninitialized(bits.byte_size())?;
    let target = Target {
        pointer: Shared::new(result.as_mut_ptr()),
        size,
    };
    match op.algorithm {
        Algorithm::ThreeFry => {
            let used = three_fry(&words64, bits, &target, environment);
            words64[1] = words64[1].wrapping_add(used);
        }
        Algorithm::Philox => {
            if length == 2 {
                words64[2] = words64[0];
            }
            let used = philox_bits(&words64, bits.count(), &target, environment);
            let (low, carry) = words64[1].overflowing_add(used);
            words64[1] = low;
            words64[2] = words64[2].wrapping_add(u64::from(carry));
        }
    }
    RawArray::over(&mut result, bits.element_type, &bits.dims).copy_to(bits);
    let mut state_bytes = AlignedBytes::zeroed(8 * length)?;
    for (chunk, word) in state_bytes.as_mut_slice().chunks_exact_mut(8).zip(words64) {
        chunk.copy_from_slice(&word.to_ne_bytes());
    }
    RawArray::over(&mut state_bytes, new_state.element_type, &new_state.dims).copy_to(new_state);
    Ok(())
}

/// Where bits go; elements of `size` bytes.
struct Target {
    pointer: Shared,
    size: usize,
}

impl Target {
    /// Writes the low bits of a word, or both words, as element `at`.
    ///
    /// # Safety
    ///
    /// `at` is an element of the result, written by this task alone.
    unsafe fn write(&self, at: usize, low: u32, high: u32) {
        let pointer = self.pointer.get();
        // SAFETY: by the caller's promise.
        unsafe {
            match self.size {
                1 => pointer.add(at).write(low as u8),
                2 => pointer.cast::<u16>().add(at).write(low as u16),
                4 => pointer.cast::<u32>().add(at).write(low),
                _ => {
                    let word = u64::from(low) | u64::from(high) << 32;
                    pointer.cast::<u64>().add(at).write(word);
                }
            }
        }
    }
}

/// Returns how many counters were used.
fn three_fry(
    state: &[u64; 3],
    bits: &RawArray,
    target: &Target,
    environment: &OpEnvironment<'_>,
) -> u64 {
    let key = words(state[0]);
    let draw = |n: usize| threefry(key, words(state[1].wrapping_add(n as u64)));
    let count = bits.count();
    if target.size == 8 {
        split(environment, count, GRAIN, &|range| {
            for n in range {
                let [low, high] = draw(n);
                // SAFETY: element `n` of `count`.
                unsafe { target.write(n, low, high) };
            }
        });
        return count as u64;
    }
    let dims: Vec<usize> = bits.dims.iter().map(|&d| d as usize).collect();
    let even = dims.iter().position(|d| d % 2 == 0);
    // The first of the longest.
    let longest = (0..dims.len()).rev().max_by_key(|&d| dims[d]);
    let axis = even.or(longest);
    let size = axis.map_or(1, |axis| dims[axis]);
    let half = size.div_ceil(2);
    let inner: usize = axis.map_or(1, |axis| dims[axis + 1..].iter().product());
    let outer: usize = axis.map_or(1, |axis| dims[..axis].iter().product());
    let total = outer * half * inner;
    split(environment, total, GRAIN, &|range| {
        for n in range {
            let pair = draw(n);
            let (i, rest) = (n % inner, n / inner);
            let (j, o) = (rest % half, rest / half);
            for (k, word) in pair.into_iter().enumerate() {
                if 2 * j + k < size {
                    // SAFETY: an index below `outer * size * inner`, the number of elements.
                    unsafe { target.write((o * size + 2 * j + k) * inner + i, word, 0) };
                }
            }
        }
    });
    total as u64
}

fn philox_bits(
    state: &[u64; 3],
    count: usize,
    target: &Target,
    environment: &OpEnvironment<'_>,
) -> u64 {
    let key = words(state[0]);
    let per_draw = if target.size == 8 { 2 } else { 4 };
    let draws = count.div_ceil(per_draw);
    split(environment, draws, GRAIN, &|range| {
        for n in range {
            let (low, carry) = state[1].overflowing_add(n as u64);
            let high = state[2].wrapping_add(u64::from(carry));
            let ([a, b], [c, d]) = (words(low), words(high));
            let x = philox(key, [a, b, c, d]);
            for k in 0..per_draw.min(count - n * per_draw) {
                let (low, high) = if per_draw == 2 {
                    (x[2 * k], x[2 * k + 1])
                } else {
                    (x[k], 0)
                };
                // SAFETY: below `count`.
                unsafe { target.write(n * per_draw + k, low, high) };
            }
        }
    });
    draws as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_give_the_published_numbers() {
        assert_eq!(threefry([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry([!0, !0], [!0, !0]), [0x1cb9_96fc, 0xbb00_2be7]);
        assert_eq!(
            philox([0, 0], [0; 4]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox([!0, !0], [!0; 4]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
    }
}
