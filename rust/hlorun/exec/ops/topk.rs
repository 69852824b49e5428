//! Runs `topk`: the first k of every row by total order, ties by position.

use super::sort::ordered;
use super::sort_rows::Rows;
use super::walk::{Shared, try_split};
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::ops::sort_keys::SortKey;
use crate::plan::ops::topk::TopKOp;

/// Elements one task looks at, at least.
const GRAIN: usize = 32 << 10;

/// Runs `op`: one array in, values and `s32` positions out.
pub fn run(
    op: &TopKOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let ([operand, ..], [values, indices, ..]) = (inputs, outputs) else {
        return Err(HloError::execution("top-k takes other arrays"));
    };
    let (k, length) = (op.k, operand.dims.last().copied().unwrap_or(0) as usize);
    if k > length || u32::try_from(length).is_err() {
        return Err(HloError::execution("top-k of rows of another length"));
    }
    if values.count() == 0 {
        return Ok(());
    }
    let rows = Rows::new(std::slice::from_ref(operand), operand.dims.len() - 1)?;
    let source = Shared::new(rows.operands[0].pointer);
    let size = operand.element_type.size_bytes();
    let row_count = operand.count() / length;
    let mut value_bytes = AlignedBytes::uninitialized(values.byte_size())?;
    let mut index_bytes = AlignedBytes::uninitialized(indices.byte_size())?;
    let to_values = Shared::new(value_bytes.as_mut_ptr());
    let to_indices = Shared::new(index_bytes.as_mut_ptr());
    let key = SortKey {
        element_type: operand.element_type,
        descending: op.largest,
        total_order: true,
    };
    try_split(environment, row_count, GRAIN / length, &|range| {
        let mut keys: Vec<u64> = Vec::new();
        let mut pairs: Vec<(u64, u32)> = Vec::new();
        let most = length.min(candidates(k));
        if keys.try_reserve_exact(length).is_err() || pairs.try_reserve_exact(most).is_err() {
            return Err(HloError::execution("out of memory for top-k"));
        }
        keys.resize(length, 0);
        for row in range {
            let from = source.at((row * length * size) as isize);
            // SAFETY: the row lies in the operand; results of rows are disjoint.
            unsafe { ordered(&key, from, &mut keys) };
            first(k, &keys, &mut pairs);
            for (i, &(_, position)) in pairs[..k].iter().enumerate() {
                let at = row * k + i;
                // SAFETY: as above.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        from.add(position as usize * size),
                        to_values.get().add(at * size),
                        size,
                    );
                    to_indices.get().cast::<u32>().add(at).write(position);
                }
            }
        }
        Ok(())
    })?;
    RawArray::over(&mut value_bytes, values.element_type, &values.dims).copy_to(values);
    RawArray::over(&mut index_bytes, indices.element_type, &indices.dims).copy_to(indices);
    Ok(())
}

/// Candidates that are kept before all but the first k are dropped.
fn candidates(k: usize) -> usize {
    k.saturating_mul(2).saturating_add(64)
}

/// Leaves the first `k` of `keys` with their positions in `pairs`, in order; `k` is neither 0 nor more
/// than there are.
fn first(k: usize, keys: &[u64], pairs: &mut Vec<(u64, u32)>) {
    /// Keys that are compared at once.
    const CHUNK: usize = 32;
    pairs.clear();
    // Once there are k candidates up to it, what is not below comes later than all of them.
    let mut limit = None;
    for (at, chunk) in (0u32..).step_by(CHUNK).zip(keys.chunks(CHUNK)) {
        if let Some(limit) = limit
            && !chunk.iter().fold(false, |any, &key| any | (key < limit))
        {
            continue;
        }
        for (&key, position) in chunk.iter().zip(at..) {
            if limit.is_some_and(|limit| key >= limit) {
                continue;
            }
            pairs.push((key, position));
            if pairs.len() == candidates(k) {
                let (_, &mut (last, _), _) = pairs.select_nth_unstable(k - 1);
                limit = Some(last);
                pairs.truncate(k);
            }
        }
    }
    if k < pairs.len() {
        pairs.select_nth_unstable(k);
    }
    pairs.truncate(k);
    pairs.sort_unstable();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_those_of_a_sort() {
        let mut state = 1u64;
        for (length, k, values) in [(1, 1, 1), (5000, 10, 40), (5000, 1, 5000), (300, 300, 7)] {
            let keys: Vec<u64> = (0..length)
                .map(|i| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                    let random = (state >> 33) % values;
                    // Falling rows replace every candidate.
                    if k == 1 { length - i } else { random }
                })
                .collect();
            let mut all: Vec<(u64, u32)> = keys.iter().copied().zip(0u32..).collect();
            all.sort_unstable();
            let mut pairs = vec![(0, 0)];
            first(k, &keys, &mut pairs);
            assert_eq!(pairs, all[..k], "{length} {k}");
        }
    }
}
