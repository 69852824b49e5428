//! Gathers of few windows: each is loaded from where its index vector says.

use smallvec::SmallVec;

use super::builder::Builder;
use super::moves::place;
use crate::plan::cost::scalar_bytecode::{MAX_GATHERED, MAX_MOVED};
use crate::plan::faults::{self, Fault};
use crate::plan::ops::gather::GatherOp;
use crate::plan::ops::{OpKind, OpThunk};
use crate::plan::view::{ArrayView, DynamicIndex};

/// Windows that follow one another along a batch dimension: how many, and the elements between them in the
/// indices, in the operand and in the result.
type Batch = (i64, [i64; 3]);

impl Builder {
    pub(crate) fn operation(&mut self, op: &OpThunk) -> Option<()> {
        match &op.kind {
            OpKind::Gather(gather) => self.gather_windows(gather, op),
            _ => None,
        }
    }

    fn gather_windows(&mut self, gather: &GatherOp, op: &OpThunk) -> Option<()> {
        let ([operand, indices], [output]) = (&op.inputs[..], &op.outputs[..]) else {
            return None;
        };
        let size = operand.element_type.size_bytes();
        let map = &gather.map;
        let bytes = usize::try_from(window_run(gather, operand, output)?).ok()? * size;
        let batches = batches(gather, operand, indices, output)?;
        let windows = batches
            .iter()
            .try_fold(1i64, |n, batch| n.checked_mul(batch.0))?;
        if windows > MAX_GATHERED || bytes > MAX_MOVED || operand.count() == 0 {
            return None;
        }
        let (from, to) = (place(operand)?, place(output)?);
        place(indices)?;
        let between = indices.strides.get(map.index_vector_dim).copied();
        let index_size = indices.element_type.size_bytes() as i64;
        for window in 0..windows {
            let [index, source, target] = offsets(&batches, window);
            let vector = map.components.iter().enumerate().map(|(k, &dim)| {
                let at = indices.offset + index + k as i64 * between.unwrap_or(0);
                Some(DynamicIndex {
                    slice: indices.slice,
                    offset: usize::try_from(at * index_size).ok()?,
                    element_type: indices.element_type,
                    limit: operand.dims[dim] - gather.slice_sizes[dim],
                    stride: operand.strides[dim],
                })
            });
            let vector = vector.collect::<Option<SmallVec<[DynamicIndex; 4]>>>()?;
            let from = from.moved(source as isize * size as isize)?;
            let to = to.moved(target as isize * size as isize)?;
            self.load(from, &vector, size, bytes, to)?;
        }
        Some(())
    }
}

/// The elements of a window, where they lie side by side in the operand and in the result.
fn window_run(gather: &GatherOp, operand: &ArrayView, output: &ArrayView) -> Option<i64> {
    let mut run = 1;
    for (&from, &to) in gather.map.window.iter().zip(&gather.offset_dims).rev() {
        let count = gather.slice_sizes[from];
        if count != 1 {
            let is_next = operand.strides[from] == run && output.strides[to] == run;
            let is_next = faults::holds(Fault::GathersApart, is_next);
            run = is_next.then(|| run.checked_mul(count))??;
        }
    }
    Some(run)
}

/// The batch dimensions, outermost first.
fn batches(
    gather: &GatherOp,
    operand: &ArrayView,
    indices: &ArrayView,
    output: &ArrayView,
) -> Option<SmallVec<[Batch; 4]>> {
    let map = &gather.map;
    let of_indices: SmallVec<[usize; 6]> = (0..indices.dims.len())
        .filter(|&dim| dim != map.index_vector_dim)
        .collect();
    let sizes: SmallVec<[i64; 6]> = of_indices.iter().map(|&dim| indices.dims[dim]).collect();
    if !map.batch_fits(&sizes, &operand.dims) {
        return None;
    }
    let moved = map.batch_steps(of_indices.len(), &operand.strides);
    let each = of_indices.iter().zip(&moved).zip(&gather.batch_dims);
    let batches = each.map(|((&from, &moved), &to)| {
        let steps = [indices.strides[from], moved, output.strides[to]];
        (indices.dims[from], steps)
    });
    Some(batches.collect())
}

/// How far window `window` is from the first one.
fn offsets(batches: &[Batch], window: i64) -> [i64; 3] {
    let mut rest = window;
    let mut sum = [0; 3];
    for &(count, steps) in batches.iter().rev() {
        for (sum, step) in sum.iter_mut().zip(steps) {
            *sum += rest % count * step;
        }
        rest /= count;
    }
    sum
}
