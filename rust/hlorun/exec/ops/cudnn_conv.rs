//! Runs the convolutions of cuDNN: a convolution per group, then the epilogue in `f32` or wider.

use super::convolution::{self, Typed};
use crate::buffers::{AlignedBytes, collected};
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::ops::cudnn_conv::{Activation, CudnnConvOp, Role};
use crate::types::{Dims, PrimitiveType};

/// Runs `op`; results beyond the first are workspaces.
pub fn run(
    op: &CudnnConvOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let ([first, second, ..], [output, ..]) = (inputs, outputs) else {
        return Err(HloError::execution("a convolution of other arrays"));
    };
    let plain = op.scale == 1.0 && !op.has_bias && op.activation == Activation::None;
    if plain {
        return convolve(op, first, second, output, environment);
    }
    let wide = match output.element_type {
        ty @ (PrimitiveType::F64 | PrimitiveType::C64 | PrimitiveType::C128) => ty,
        _ => PrimitiveType::F32,
    };
    if wide.is_complex() {
        return Err(HloError::execution(
            "a complex convolution with an epilogue",
        ));
    }
    let size = output.count().checked_mul(wide.size_bytes());
    let size = size.ok_or_else(|| HloError::execution("convolution too large"))?;
    let mut bytes = AlignedBytes::uninitialized(size)?;
    let result = RawArray::over(&mut bytes, wide, &output.dims);
    convolve(op, first, second, &result, environment)?;
    let mut values = doubles(&result)?;
    values.iter_mut().for_each(|x| *x *= op.scale);
    if op.has_bias {
        if let Some(side) = inputs.get(3)
            && op.side_scale != 0.0
        {
            let side = doubles(side)?;
            if side.len() != values.len() {
                return Err(HloError::execution("a side input of another size"));
            }
            for (x, side) in values.iter_mut().zip(side) {
                *x += op.side_scale * side;
            }
        }
        let bias = inputs
            .get(2)
            .ok_or_else(|| HloError::execution("no bias"))?;
        let bias = doubles(bias)?;
        let feature = op.convolution.output.feature;
        let inner: usize = output.dims[feature + 1..]
            .iter()
            .map(|&d| d as usize)
            .product();
        if bias.len() as i64 != output.dims[feature] {
            return Err(HloError::execution("a bias of another size"));
        }
        for (i, x) in values.iter_mut().enumerate() {
            *x += bias[i / inner % bias.len()];
        }
    }
    for x in &mut values {
        *x = match op.activation {
            Activation::None => *x,
            Activation::Relu if x.is_nan() => *x,
            Activation::Relu => x.max(0.0),
            Activation::Relu6 if x.is_nan() => *x,
            Activation::Relu6 => x.clamp(0.0, 6.0),
            Activation::Elu => {
                if *x > 0.0 {
                    *x
                } else {
                    x.exp_m1()
                }
            }
            Activation::Sigmoid => 1.0 / (1.0 + (-*x).exp()),
            Activation::Tanh => x.tanh(),
            Activation::LeakyRelu(alpha) => {
                if *x > 0.0 {
                    *x
                } else {
                    *x * alpha
                }
            }
        };
    }
    store(&values, output)
}

/// The elements as `f64`, row-major.
pub fn doubles(array: &RawArray) -> Result<Vec<f64>> {
    let typed = Typed::new(array, PrimitiveType::F64)?;
    let bytes = typed.array.to_row_major()?;
    let values = bytes.as_slice().chunks_exact(8);
    collected(values.map(|b| f64::from_ne_bytes(b.try_into().unwrap_or_default())))
}

/// Writes row-major `f64`, rounded once to the type of `output`.
pub fn store(values: &[f64], output: &RawArray) -> Result<()> {
    if values.len() != output.count() {
        return Err(HloError::execution("a result of another size"));
    }
    // Only read from.
    let array = RawArray {
        pointer: values.as_ptr().cast_mut().cast(),
        element_type: PrimitiveType::F64,
        dims: output.dims.clone(),
        strides: RawArray::row_major_strides(&output.dims),
    };
    Typed::new(&array, output.element_type)?
        .array
        .copy_to(output);
    Ok(())
}

/// The part of `array` that group `group` of `groups` has along `dim`.
fn slice(array: &RawArray, dim: usize, group: usize, groups: usize) -> RawArray {
    let mut view = array.clone();
    let size = array.dims[dim] / groups as i64;
    let bytes = group as i64 * size * array.strides[dim] * array.element_type.size_bytes() as i64;
    view.pointer = view.pointer.wrapping_offset(bytes as isize);
    view.dims = array.dims.iter().copied().collect::<Dims>();
    view.dims[dim] = size;
    view
}

fn convolve(
    op: &CudnnConvOp,
    first: &RawArray,
    second: &RawArray,
    output: &RawArray,
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    if op.role == Role::Forward || op.groups == 1 {
        let inputs = [first.clone(), second.clone()];
        return convolution::run(
            &op.convolution,
            &inputs,
            std::slice::from_ref(output),
            environment,
        );
    }
    let [a, b, c] = op.group_dims;
    for group in 0..op.groups {
        let inputs = [
            slice(first, a, group, op.groups),
            slice(second, b, group, op.groups),
        ];
        let result = slice(output, c, group, op.groups);
        convolution::run(
            &op.convolution,
            &inputs,
            std::slice::from_ref(&result),
            environment,
        )?;
    }
    Ok(())
}
