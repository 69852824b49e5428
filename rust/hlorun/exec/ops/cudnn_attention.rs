//! Runs `__cudnn$fmha*`: scores of one head at a time, in `f32`.

use hlorun_kernels::{DType, Gemm, Matrix, Parallel};

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

/// Runs `op`: Q, K, V and a bias in; the result, and for training the logarithms of the sums, out.
pub fn run(
    op: &CudnnAttentionOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let misfit = || HloError::execution("attention takes other arrays");
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
    // The bias is repeated along dimensions of size 1 in front of its rows and columns.
    let bias = match rest.first().filter(|_| op.has_bias) {
        Some(bias) => {
            let rank = bias.dims.len();
            let mut full = bias.clone();
            let wanted: Vec<i64> = op.batch[0]
                .iter()
                .map(|&d| q.dims[d])
                .chain([s as i64, t as i64])
                .collect();
            if rank > wanted.len() {
                return Err(misfit());
            }
            let missing = wanted.len() - rank;
            full.dims = wanted.iter().copied().collect();
            full.strides = smallvec::SmallVec::from_elem(0, missing);
            for d in 0..rank {
                let repeats = bias.dims[d] == 1;
                if !repeats && bias.dims[d] != wanted[missing + d] {
                    return Err(misfit());
                }
                full.strides.push(if repeats { 0 } else { bias.strides[d] });
            }
            Some(
                Typed::new(&full, PrimitiveType::F32)?
                    .array
                    .to_row_major()?,
            )
        }
        None => None,
    };
    let mut result = AlignedBytes::zeroed(4 * batch * s * d)?;
    let mut sums = AlignedBytes::zeroed(4 * batch * s)?;
    let (to, to_sums) = (
        Shared::new(result.as_mut_ptr()),
        Shared::new(sums.as_mut_ptr()),
    );
    try_split(environment, batch, (1 << 16) / (s * t).max(1), &|range| {
        let mut scores = filled(0f32, s * t)?;
        for b in range {
            let mut gemm = Gemm {
                b: Matrix::row_major(keys.columns, 0).transposed(),
                alpha: (op.scale, 0.0),
                ..Gemm::dense(DType::F32, s, t, keys.columns)
            };
            let part = |heads: &Heads| {
                heads
                    .bytes
                    .shared_ptr()
                    .wrapping_add(4 * b * heads.rows * heads.columns)
            };
            let bias = bias.as_ref().map(|bias| {
                // SAFETY: the bias was repeated to all scores.
                unsafe {
                    std::slice::from_raw_parts(bias.as_ptr().cast::<f32>().add(b * s * t), s * t)
                }
            });
            // SAFETY: parts of dense operands, as large as the products say; results are disjoint.
            unsafe {
                let scores_at = scores.as_mut_ptr().cast();
                hlorun_kernels::gemm(
                    &gemm,
                    part(&queries),
                    part(&keys),
                    scores_at,
                    &Parallel::SERIAL,
                )?;
                for (i, row) in scores.chunks_exact_mut(t.max(1)).enumerate().take(s) {
                    let sum = softmax(
                        row,
                        bias.map(|bias| &bias[i * t..(i + 1) * t]),
                        op.causal.then_some(i),
                    );
                    to_sums.get().cast::<f32>().add(b * s + i).write(sum);
                }
                gemm = Gemm::dense(DType::F32, s, d, t);
                let to = to.at((4 * b * s * d) as isize);
                hlorun_kernels::gemm(
                    &gemm,
                    scores.as_ptr().cast(),
                    part(&values),
                    to,
                    &Parallel::SERIAL,
                )?;
            }
        }
        Ok(())
    })?;
    let array = RawArray::over(&mut result, PrimitiveType::F32, &output.dims);
    Typed::new(&array, output.element_type)?
        .array
        .copy_to(output);
    // Training keeps the logarithms of the sums; anything else is a workspace.
    if let Some(stats) = more.iter().find(|o| o.element_type == PrimitiveType::F32)
        && stats.count() == batch * s
    {
        RawArray::over(&mut sums, PrimitiveType::F32, &stats.dims).copy_to(stats);
    }
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
