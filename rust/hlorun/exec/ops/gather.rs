//! Runs `gather`: one strided copy per window, a plain copy where rows are dense.

use smallvec::SmallVec;

use super::OpEnvironment;
use super::index_map::Starts;
use super::walk::{Nest, Shared, byte_strides, split};
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::plan::ops::gather::GatherOp;

/// Bytes one task moves at least.
const GRAIN: usize = 256 << 10;

/// Runs `op`: operand and indices in, one array out.
pub fn run(
    op: &GatherOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let ([operand, indices], [output]) = (inputs, outputs) else {
        return Err(HloError::execution("gather takes two arrays"));
    };
    if output.count() == 0 {
        return Ok(());
    }
    let starts = Starts::new(&op.map, indices)?;
    let size = operand.element_type.size_bytes();
    let source_strides = byte_strides(&operand.strides, size);
    let target_strides = byte_strides(&output.strides, size);
    let window: SmallVec<[i64; 6]> = op.map.window.iter().map(|&d| op.slice_sizes[d]).collect();
    let from: SmallVec<[isize; 6]> = op.map.window.iter().map(|&d| source_strides[d]).collect();
    let to: SmallVec<[isize; 6]> = op.offset_dims.iter().map(|&d| target_strides[d]).collect();
    // An empty operand has no window to read; a slice size never exceeds a dimension.
    if operand.count() == 0 {
        return Err(HloError::execution("gather from an empty operand"));
    }
    let nest = Nest::by_memory(&window, [to.as_slice(), from.as_slice()]);
    let element = size as isize;
    let dense = nest.inner.1 == [element; 2] || nest.inner.0 == 1;
    // Result offset of a window, and how far batching dimensions move its source.
    let mut moved: SmallVec<[isize; 6]> = SmallVec::from_elem(0, starts.batch.len());
    for &(operand_dim, batch_dim) in &op.map.batching {
        moved[batch_dim] += source_strides[operand_dim];
        if starts.batch[batch_dim] > operand.dims[operand_dim] {
            return Err(HloError::execution("gather batching dimensions differ"));
        }
    }
    let placed: SmallVec<[isize; 6]> = op.batch_dims.iter().map(|&d| target_strides[d]).collect();
    // The trailing unit dimension keeps one window per row.
    let mut batch = starts.batch.clone();
    batch.push(1);
    let batches = batch_nest(&batch, &placed, &moved);
    let (source, target) = (Shared::new(operand.pointer), Shared::new(output.pointer));
    let components: SmallVec<[(isize, i64); 4]> = op
        .map
        .components
        .iter()
        .map(|&d| (source_strides[d], operand.dims[d] - op.slice_sizes[d]))
        .collect();
    let copy_window = |to: isize, from: isize| {
        nest.for_rows(0..nest.rows(), |[t, f]| {
            let (to, from) = (target.at(to + t), source.at(from + f));
            // SAFETY: starts are clamped, so the window lies in the operand; the result's batch and
            // offset dimensions cover it without overlap.
            unsafe {
                if dense {
                    std::ptr::copy_nonoverlapping(from, to, nest.inner.0 * size);
                } else {
                    let (step_to, step_from) = (nest.inner.1[0], nest.inner.1[1]);
                    hlorun_kernels::copy_strided(
                        size,
                        &[nest.inner.0],
                        from,
                        &[step_from],
                        to,
                        &[step_to],
                    );
                }
            }
        });
    };
    let bytes = (nest.rows() * nest.inner.0 * size).max(1);
    split(environment, starts.count(), GRAIN / bytes, &|range| {
        let mut n = range.start;
        batches.for_rows(range, |[to, from]| {
            let start: isize = starts
                .get(n)
                .iter()
                .zip(&components)
                .map(|(&index, &(stride, limit))| index.clamp(0, limit) as isize * stride)
                .sum();
            copy_window(to, from + start);
            n += 1;
        });
    });
    Ok(())
}

/// A nest whose rows are single windows, in row-major batch order.
pub(super) fn batch_nest(dims: &[i64], first: &[isize], second: &[isize]) -> Nest<2> {
    let outer = dims
        .iter()
        .zip(first.iter().zip(second))
        .map(|(&size, (&a, &b))| (size.max(0) as usize, [a, b]))
        .collect();
    Nest {
        outer,
        inner: (1, [0; 2]),
        is_empty: dims.contains(&0),
    }
}
