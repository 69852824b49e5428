//! Runs `__cudnn$fmha*`: scores of one head at a time, in `f32`.

use hlorun_kernels::{DType, Gemm, Matrix, Parallel};
use smallvec::SmallVec;

use super::convolution::Typed;
use super::walk::{Shared, try_split};
use crate::buffers::{AlignedBytes, filled};
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::ops::cudnn_attention::CudnnAttentionOp;
use crate::types::PrimitiveType;

/// An operand as `[batch…, rows, columns]` in `f32`.
struct Heads {
    bytes: AlignedBytes<u8>,
    batch: usize,
    rows: usize,
    columns: usize,
}

fn heads(array: &RawArray, batch: &[usize], rows: usize, columns: usize) -> Result<Heads> {
    let order: Vec<usize> = batch.iter().copied().chain([rows, columns]).collect();
    let view = RawArray {
        pointer: array.pointer,
        element_type: array.element_type,
        dims: order.iter().map(|&d| array.dims[d]).collect(),
        strides: order.iter().map(|&d| array.strides[d]).collect(),
    };
    Ok(Heads {
        bytes: Typed::new(&view, PrimitiveType::F32)?
            .array
            .to_row_major()?,
        batch: batch.iter().map(|&d| array.dims[d]).product::<i64>() as usize,
        rows: array.dims[rows] as usize,
        columns: array.dims[columns] as usize,
    })
}

/// The dimension that is neither batch nor `sum`.
fn other(array: &RawArray, batch: &[usize], sum: usize) -> usize {
    let is_other = |d: &usize| *d != sum && !batch.contains(d);
    (0..array.dims.len()).find(is_other).unwrap_or(sum)
}

/// The bias of all scores, repeated along dimensions of size 1 and in front of its own.
fn repeated(
    op: &CudnnAttentionOp,
    queries: &RawArray,
    bias: &RawArray,
    (s, t): (usize, usize),
) -> Result<AlignedBytes<u8>> {
    let wanted: SmallVec<[i64; 6]> = op.batch[0]
        .iter()
        .map(|&d| queries.dims[d])
        .chain([s as i64, t as i64])
        .collect();
    let missing = wanted
        .len()
        .checked_sub(bias.dims.len())
        .ok_or_else(misfit)?;
    let mut full = bias.clone();
    full.strides = SmallVec::from_elem(0, missing);
    for (d, &size) in bias.dims.iter().enumerate() {
        if size != 1 && size != wanted[missing + d] {
            return Err(misfit());
        }
        full.strides
            .push(if size == 1 { 0 } else { bias.strides[d] });
    }
    full.dims = wanted.iter().copied().collect();
    Typed::new(&full, PrimitiveType::F32)?.array.to_row_major()
}

fn misfit() -> HloError {
    HloError::execution("attention takes other arrays")
}

/// What all heads have in common.
struct Attention<'a> {
    op: &'a CudnnAttentionOp,
    queries: Heads,
    keys: Heads,
    values: Heads,
    bias: Option<AlignedBytes<u8>>,
    /// `[batch, queries, columns of the values]`.
    result: Shared,
    /// Logarithms of the sums of exponentials, `[batch, queries]`.
    sums: Shared,
    /// Where the weights, `[batch, queries, keys]`, are kept, if they are a result.
    weights: Option<Shared>,
}

impl Attention<'_> {
    /// Runs the heads `range`.
    fn run(&self, range: std::ops::Range<usize>) -> Result<()> {
        let (s, t) = (self.queries.rows, self.keys.rows);
        let mut scores = filled(0f32, s * t)?;
        for head in range {
            self.head(head, &mut scores)?;
        }
        Ok(())
    }

    fn head(&self, head: usize, scores: &mut [f32]) -> Result<()> {
        let (s, t, d) = (self.queries.rows, self.keys.rows, self.values.columns);
        let part = |heads: &Heads| {
            heads
                .bytes
                .shared_ptr()
                .wrapping_add(4 * head * heads.rows * heads.columns)
        };
        let products = Gemm {
            b: Matrix::row_major(self.keys.columns, 0).transposed(),
            alpha: (self.op.scale, 0.0),
            ..Gemm::dense(DType::F32, s, t, self.keys.columns)
        };
        // SAFETY: parts of dense operands, as large as the product says, and scores for all of it.
        unsafe {
            let to = scores.as_mut_ptr().cast();
            let (queries, keys) = (part(&self.queries), part(&self.keys));
            hlorun_kernels::gemm(&products, queries, keys, to, &Parallel::SERIAL)?;
        }
        let bias = self.bias.as_ref().map(|bias| {
            // SAFETY: the bias was repeated to the scores of all heads.
            unsafe {
                let first = bias.as_ptr().cast::<f32>().add(head * s * t);
                std::slice::from_raw_parts(first, s * t)
            }
        });
        for (i, row) in scores.chunks_exact_mut(t.max(1)).enumerate().take(s) {
            let bias = bias.map(|bias| &bias[i * t..(i + 1) * t]);
            let sum = softmax(row, bias, self.op.causal.then_some(i));
            // SAFETY: there is a sum for every query of every head, and this head is this task's.
            unsafe { self.sums.get().cast::<f32>().add(head * s + i).write(sum) };
        }
        let means = Gemm::dense(DType::F32, s, d, t);
        // SAFETY: as above; results of heads are disjoint.
        unsafe {
            let to = self.result.at((4 * head * s * d) as isize);
            let weights = scores.as_ptr().cast();
            hlorun_kernels::gemm(&means, weights, part(&self.values), to, &Parallel::SERIAL)?;
        }
        if let Some(kept) = &self.weights {
            // SAFETY: there is room for the scores of every head.
            unsafe {
                let to = kept.get().cast::<f32>().add(head * s * t);
                scores.as_ptr().copy_to_nonoverlapping(to, s * t);
            }
        }
        Ok(())
    }
}

/// Runs `op`: Q, K, V and a bias in; the result, and for training the logarithms of the sums or the weights, out.
pub fn run(
    op: &CudnnAttentionOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let ([q, k, v, rest @ ..], [output, more @ ..]) = (inputs, outputs) else {
        return Err(misfit());
    };
    let [sum_q, sum_k, sum_v] = op.contracting;
    let queries = heads(q, &op.batch[0], other(q, &op.batch[0], sum_q), sum_q)?;
    let keys = heads(k, &op.batch[1], other(k, &op.batch[1], sum_k), sum_k)?;
    let values = heads(v, &op.batch[2], sum_v, other(v, &op.batch[2], sum_v))?;
    let (batch, s, t, d) = (queries.batch, queries.rows, keys.rows, values.columns);
    let fits = keys.batch == batch
        && values.batch == batch
        && keys.columns == queries.columns
        && values.rows == t
        && output.count() == batch * s * d;
    if !fits {
        return Err(misfit());
    }
    let bias = rest
        .first()
        .filter(|_| op.has_bias)
        .map(|bias| repeated(op, q, bias, (s, t)))
        .transpose()?;
    let mut result = AlignedBytes::zeroed(4 * batch * s * d)?;
    let mut sums = AlignedBytes::zeroed(4 * batch * s)?;
    // Training keeps the logarithms of the sums, or the weights. Bytes before or behind them are a workspace.
    let kept = more.iter().find(|kept| kept.element_type.is_floating());
    let has_weights = kept.is_some_and(|kept| kept.dims.len() == op.batch[0].len() + 2);
    let all_weights = || AlignedBytes::zeroed(4 * batch * s * t);
    let mut weights = has_weights.then(all_weights).transpose()?;
    let attention = Attention {
        op,
        queries,
        keys,
        values,
        bias,
        result: Shared::new(result.as_mut_ptr()),
        sums: Shared::new(sums.as_mut_ptr()),
        weights: weights
            .as_mut()
            .map(|weights| Shared::new(weights.as_mut_ptr())),
    };
    try_split(environment, batch, (1 << 16) / (s * t).max(1), &|range| {
        attention.run(range)
    })?;
    put(&mut result, output)?;
    match kept {
        Some(kept) => put(weights.as_mut().unwrap_or(&mut sums), kept),
        None => Ok(()),
    }
}

/// Converts dense numbers in `f32` to those of a result.
fn put(numbers: &mut AlignedBytes<u8>, result: &RawArray) -> Result<()> {
    if numbers.len() != 4 * result.count() {
        return Err(misfit());
    }
    let array = RawArray::over(numbers, PrimitiveType::F32, &result.dims);
    Typed::new(&array, result.element_type)?
        .array
        .copy_to(result);
    Ok(())
}

/// Scores to weights in place; returns the logarithm of the sum of exponentials. With `causal` only
/// the scores up to that position count.
fn softmax(row: &mut [f32], bias: Option<&[f32]>, causal: Option<usize>) -> f32 {
    if let Some(bias) = bias {
        row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
    }
    let seen = causal.map_or(row.len(), |i| (i + 1).min(row.len()));
    let (row, hidden) = row.split_at_mut(seen);
    hidden.fill(0.0);
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0f64;
    for x in row.iter_mut() {
        *x = (*x - most).exp();
        sum += f64::from(*x);
    }
    row.iter_mut()
        .for_each(|x| *x = (f64::from(*x) / sum) as f32);
    (f64::from(most) + sum.ln()) as f32
}
