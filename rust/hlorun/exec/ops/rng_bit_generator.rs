//! Runs `rng-bit-generator`, bit for bit as XLA:CPU does.
//!
//! Threefry turns a counter into two words: 64-bit results are one counter each; 32-bit results
//! split one dimension (the first even one, else the longest) into pairs. Philox turns a counter
//! into four words, which follow one another. Results narrower than 32 bits are the low bits of
//! 32-bit results.

use std::ops::Range;

use super::walk::{Shared, split};
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::ops::rng_bit_generator::{Algorithm, RngBitGeneratorOp};

/// Counters one task turns into bits.
const GRAIN: usize = 32 << 10;
/// Counters whose words are made before they are stored.
const BLOCK: usize = 256;

/// Calls `store` with each counter of `range` and its words; `draw` makes those from one counter on.
pub fn each_draw<const W: usize>(
    range: Range<usize>,
    draw: impl Fn(usize, &mut [[u32; W]]),
    mut store: impl FnMut(usize, [u32; W]),
) {
    let mut block = [[0; W]; BLOCK];
    for first in range.clone().step_by(BLOCK) {
        let block = &mut block[..BLOCK.min(range.end - first)];
        draw(first, block);
        for (k, &words) in block.iter().enumerate() {
            store(first + k, words);
        }
    }
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
    let draw = |n: usize, out: &mut [_]| {
        hlorun_kernels::random::threefry(key, state[1].wrapping_add(n as u64), out);
    };
    let count = bits.count();
    if target.size == 8 {
        split(environment, count, GRAIN, &|range| {
            each_draw(range, draw, |n, [low, high]| {
                // SAFETY: element `n` of `count`.
                unsafe { target.write(n, low, high) };
            });
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
    if total == 0 {
        return 0;
    }
    split(environment, total, GRAIN, &|range| {
        let (mut i, rest) = (range.start % inner, range.start / inner);
        let (mut j, mut o) = (rest % half, rest / half);
        each_draw(range, draw, |_, pair| {
            for (k, word) in pair.into_iter().enumerate() {
                if 2 * j + k < size {
                    // SAFETY: an index below `outer * size * inner`, the number of elements.
                    unsafe { target.write((o * size + 2 * j + k) * inner + i, word, 0) };
                }
            }
            i += 1;
            if i == inner {
                (i, j) = (0, j + 1);
            }
            if j == half {
                (j, o) = (0, o + 1);
            }
        });
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
    let first = u128::from(state[1]) | u128::from(state[2]) << 64;
    let draw = |n: usize, out: &mut [_]| {
        hlorun_kernels::random::philox(key, first.wrapping_add(n as u128), out);
    };
    split(environment, draws, GRAIN, &|range| {
        each_draw(range, draw, |n, x: [u32; 4]| {
            for k in 0..per_draw.min(count - n * per_draw) {
                let (low, high) = if per_draw == 2 {
                    (x[2 * k], x[2 * k + 1])
                } else {
                    (x[k], 0)
                };
                // SAFETY: below `count`.
                unsafe { target.write(n * per_draw + k, low, high) };
            }
        });
    });
    draws as u64
}
