//! Runs the batch norms, summing in `f64` and rounding once at the end.

use super::OpEnvironment;
use super::convolution::Typed;
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::plan::ops::batch_norm::{BatchNormKind, BatchNormOp};
use crate::types::PrimitiveType;

/// The elements of an array as `f64` in row-major order.
fn read(array: &RawArray) -> Result<Vec<f64>> {
    let typed = Typed::new(array, PrimitiveType::F64)?;
    let bytes = typed.array.to_row_major()?;
    let values = bytes.as_slice().chunks_exact(8);
    Ok(values
        .map(|b| f64::from_ne_bytes(b.try_into().unwrap_or_default()))
        .collect())
}

fn write(values: &[f64], output: &RawArray) -> Result<()> {
    if values.len() != output.count() {
        return Err(HloError::execution("batch norm results of another size"));
    }
    let mut bytes = AlignedBytes::uninitialized(8 * values.len())?;
    for (to, value) in bytes.as_mut_slice().chunks_exact_mut(8).zip(values) {
        to.copy_from_slice(&value.to_ne_bytes());
    }
    let array = RawArray::over(&mut bytes, PrimitiveType::F64, &output.dims);
    Typed::new(&array, output.element_type)?
        .array
        .copy_to(output);
    Ok(())
}

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
    let x = read(&inputs[0])?;
    let dims = &inputs[0].dims;
    let features = dims[op.feature] as usize;
    let inner: usize = dims[op.feature + 1..].iter().map(|&d| d as usize).product();
    let feature = |i: usize| i / inner.max(1) % features.max(1);
    let n = x.len() as f64 / features.max(1) as f64;
    let sum = |f: &dyn Fn(usize) -> f64| {
        let mut sums = vec![0.0; features];
        (0..x.len()).for_each(|i| sums[feature(i)] += f(i));
        sums
    };
    let rest = inputs[1..].iter().map(read).collect::<Result<Vec<_>>>()?;
    if rest
        .iter()
        .any(|values| values.len() != features && values.len() != x.len())
    {
        return Err(HloError::execution("batch norm operands of another size"));
    }
    let scale = &rest[0];
    let deviation = |variance: &[f64]| -> Vec<f64> {
        variance
            .iter()
            .map(|v| 1.0 / (v + op.epsilon).sqrt())
            .collect()
    };
    let normalize = |mean: &[f64], inverse: &[f64], offset: &[f64]| -> Vec<f64> {
        let one = |(i, &x): (usize, &f64)| {
            let f = feature(i);
            (x - mean[f]) * inverse[f] * scale[f] + offset[f]
        };
        x.iter().enumerate().map(one).collect()
    };
    match op.kind {
        BatchNormKind::Training => {
            let mean: Vec<f64> = sum(&|i| x[i]).iter().map(|s| s / n).collect();
            let squares = sum(&|i| (x[i] - mean[feature(i)]).powi(2));
            let variance: Vec<f64> = squares.iter().map(|s| s / n).collect();
            write(
                &normalize(&mean, &deviation(&variance), &rest[1]),
                &outputs[0],
            )?;
            write(&mean, &outputs[1])?;
            write(&variance, &outputs[2])
        }
        BatchNormKind::Inference => write(
            &normalize(&rest[2], &deviation(&rest[3]), &rest[1]),
            &outputs[0],
        ),
        BatchNormKind::Grad => {
            let (mean, gradient) = (&rest[1], &rest[3]);
            let inverse = deviation(&rest[2]);
            let offset = sum(&|i| gradient[i]);
            let products = sum(&|i| gradient[i] * (x[i] - mean[feature(i)]));
            let one = |i: usize| {
                let f = feature(i);
                let centered = (x[i] - mean[f]) * products[f] * inverse[f] * inverse[f];
                scale[f] * inverse[f] / n * (n * gradient[i] - offset[f] - centered)
            };
            let operand: Vec<f64> = (0..x.len()).map(one).collect();
            let scale: Vec<f64> = products.iter().zip(&inverse).map(|(p, i)| p * i).collect();
            write(&operand, &outputs[0])?;
            write(&scale, &outputs[1])?;
            write(&offset, &outputs[2])
        }
    }
}
