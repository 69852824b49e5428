//! Runs `__cudnn$norm`, summing in `f64`. The first dimensions of the operand are normalized
//! separately; how many elements belong together follows from the size of the scale.

use super::cudnn_conv::{doubles, store};
use crate::buffers::{collected, filled, with_room};
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::plan::ops::cudnn_norm::{CudnnNormOp, NormKind};

/// Runs `op`; results beyond those of its kind are workspaces.
pub fn run(op: &CudnnNormOp, inputs: &[RawArray], outputs: &[RawArray]) -> Result<()> {
    let misfit = || HloError::execution("norm takes other arrays");
    let all = inputs.iter().map(doubles).collect::<Result<Vec<_>>>()?;
    let (Some(x), Some(scale)) = (all.first(), all.get(1)) else {
        return Err(misfit());
    };
    let n = scale.len();
    if n == 0 || x.len() % n != 0 {
        return Err(misfit());
    }
    let rows = x.len() / n;
    let span = |row: usize| row * n..(row + 1) * n;
    let moments = |row: usize| {
        let x = &x[span(row)];
        let mean = x.iter().sum::<f64>() / n as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        (mean, 1.0 / (variance + op.epsilon).sqrt())
    };
    let output = |index: usize| outputs.get(index).ok_or_else(misfit);
    if op.kind != NormKind::Backward {
        let bias = all
            .get(2)
            .filter(|bias| bias.len() == n)
            .ok_or_else(misfit)?;
        let mut y = with_room(x.len())?;
        let (mut means, mut factors) = (with_room(rows)?, with_room(rows)?);
        for row in 0..rows {
            let (mean, factor) = moments(row);
            let row = &x[span(row)];
            y.extend((0..n).map(|i| (row[i] - mean) * factor * scale[i] + bias[i]));
            means.push(mean);
            factors.push(factor);
        }
        store(&y, output(0)?)?;
        if op.kind == NormKind::Training {
            store(&means, output(1)?)?;
            store(&factors, output(2)?)?;
        }
        return Ok(());
    }
    let [_, _, dy, mean, factor] = &all[..] else {
        return Err(misfit());
    };
    if dy.len() != x.len() || mean.len() != rows || factor.len() != rows {
        return Err(misfit());
    }
    let mut dx = with_room(x.len())?;
    let (mut dscale, mut dbias) = (filled(0.0, n)?, filled(0.0, n)?);
    for row in 0..rows {
        let (x, dy) = (&x[span(row)], &dy[span(row)]);
        let normal = collected(x.iter().map(|x| (x - mean[row]) * factor[row]))?;
        let scaled = collected(dy.iter().zip(scale).map(|(dy, s)| dy * s))?;
        let average = scaled.iter().sum::<f64>() / n as f64;
        let slope = scaled.iter().zip(&normal).map(|(a, b)| a * b).sum::<f64>() / n as f64;
        for i in 0..n {
            dx.push(factor[row] * (scaled[i] - average - normal[i] * slope));
            dscale[i] += dy[i] * normal[i];
            dbias[i] += dy[i];
        }
    }
    store(&dx, output(0)?)?;
    store(&dscale, output(1)?)?;
    store(&dbias, output(2)?)
}
