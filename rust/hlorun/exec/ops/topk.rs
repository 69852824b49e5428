//! Runs `topk`: the first k of every row by total order, ties by position.

use super::OpEnvironment;
use super::sort::{Rows, ordered};
use super::walk::{Shared, split};
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
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
    let failed = std::sync::atomic::AtomicBool::new(false);
    split(environment, row_count, GRAIN / length, &|range| {
        let mut keys: Vec<u64> = Vec::new();
        let mut pairs: Vec<(u64, u32)> = Vec::new();
        if keys.try_reserve_exact(length).is_err() || pairs.try_reserve_exact(length).is_err() {
            failed.store(true, std::sync::atomic::Ordering::Relaxed);
            return;
        }
        keys.resize(length, 0);
        for row in range {
            let from = source.at((row * length * size) as isize);
            // SAFETY: the row lies in the operand; results of rows are disjoint.
            unsafe { ordered(&key, from, &mut keys) };
            pairs.clear();
            pairs.extend(keys.iter().copied().zip(0u32..));
            if k < length {
                pairs.select_nth_unstable(k);
            }
            pairs[..k].sort_unstable();
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
    });
    if failed.into_inner() {
        return Err(HloError::execution("out of memory for top-k"));
    }
    RawArray::over(&mut value_bytes, values.element_type, &values.dims).copy_to(values);
    RawArray::over(&mut index_bytes, indices.element_type, &indices.dims).copy_to(indices);
    Ok(())
}
