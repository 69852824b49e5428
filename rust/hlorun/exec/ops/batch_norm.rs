//! Runs the batch norms, summing in `f64` and rounding once at the end.

use super::cudnn_conv::{doubles, store};
use crate::buffers::{collected, filled};
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::ops::batch_norm::{BatchNormKind, BatchNormOp};

/// Runs `op`; operands and results as [`BatchNormKind`] says.
pub fn run(
    op: &BatchNormOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    _environment: &OpEnvironment<'_>,
) -> Result<()> {
    let results = if op.kind == BatchNormKind::Inference {
        1
    } else {
        3
    };
    let operands = if op.kind == BatchNormKind::Training {
        3
    } else {
        5
    };
    if inputs.len() != operands || outputs.len() != results {
        return Err(HloError::execution("batch norm takes other arrays"));
    }
    let x = doubles(&inputs[0])?;
    let dims = &inputs[0].dims;
    let features = dims[op.feature] as usize;
    let inner: usize = dims[op.feature + 1..].iter().map(|&d| d as usize).product();
    let feature = |i: usize| i / inner.max(1) % features.max(1);
    let n = x.len() as f64 / features.max(1) as f64;
    let sum = |f: &dyn Fn(usize) -> f64| {
        let mut sums = filled(0.0, features)?;
        (0..x.len()).for_each(|i| sums[feature(i)] += f(i));
        Result::Ok(sums)
    };
    let rest = inputs[1..]
        .iter()
        .map(doubles)
        .collect::<Result<Vec<_>>>()?;
    if rest
        .iter()
        .any(|values| values.len() != features && values.len() != x.len())
    {
        return Err(HloError::execution("batch norm operands of another size"));
    }
    let scale = &rest[0];
    let deviation = |variance: &[f64]| {
        let all = variance.iter();
        collected(all.map(|v| 1.0 / (v + op.epsilon).sqrt()))
    };
    let normalize = |mean: &[f64], inverse: &[f64], offset: &[f64]| {
        let one = |(i, &x): (usize, &f64)| {
            let f = feature(i);
            (x - mean[f]) * inverse[f] * scale[f] + offset[f]
        };
        collected(x.iter().enumerate().map(one))
    };
    match op.kind {
        BatchNormKind::Training => {
            let mean = collected(sum(&|i| x[i])?.iter().map(|s| s / n))?;
            let squares = sum(&|i| (x[i] - mean[feature(i)]).powi(2))?;
            let variance = collected(squares.iter().map(|s| s / n))?;
            store(
                &normalize(&mean, &deviation(&variance)?, &rest[1])?,
                &outputs[0],
            )?;
            store(&mean, &outputs[1])?;
            store(&variance, &outputs[2])
        }
        BatchNormKind::Inference => store(
            &normalize(&rest[2], &deviation(&rest[3])?, &rest[1])?,
            &outputs[0],
        ),
        BatchNormKind::Grad => {
            let (mean, gradient) = (&rest[1], &rest[3]);
            let inverse = deviation(&rest[2])?;
            let offset = sum(&|i| gradient[i])?;
            let products = sum(&|i| gradient[i] * (x[i] - mean[feature(i)]))?;
            let one = |i: usize| {
                let f = feature(i);
                let centered = (x[i] - mean[f]) * products[f] * inverse[f] * inverse[f];
                scale[f] * inverse[f] / n * (n * gradient[i] - offset[f] - centered)
            };
            let operand = collected((0..x.len()).map(one))?;
            let scale = collected(products.iter().zip(&inverse).map(|(p, i)| p * i))?;
            store(&operand, &outputs[0])?;
            store(&scale, &outputs[1])?;
            store(&offset, &outputs[2])
        }
    }
}
