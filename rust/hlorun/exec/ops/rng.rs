//! Runs `rng`: Philox counters turned into the distribution, in `f64` or 64-bit integers, then
//! rounded to the result's type.

use hlorun_kernels::DType;

use super::rng_bit_generator::each_draw;
use super::walk::{Shared, split};
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::element::elementwise::dtype;
use crate::plan::ops::rng::{Distribution, RngOp};

/// Elements of a task.
const GRAIN: usize = 16 << 10;

/// Runs `op`: the distribution's two parameters in, one array out.
pub fn run(
    op: &RngOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let [output] = outputs else {
        return Err(HloError::execution("rng gives one array"));
    };
    let count = output.count();
    let ty = output.element_type;
    let Some(to) = dtype(ty) else {
        return Err(HloError::execution("random numbers of this type"));
    };
    let floating = ty.is_floating();
    let (a, b) = match (op.distribution, inputs) {
        (Distribution::State, _) => ([0; 8], [0; 8]),
        (_, [a, b, ..]) if a.count() == 1 && b.count() == 1 => {
            (wide(a, floating)?, wide(b, floating)?)
        }
        _ => return Err(HloError::execution("rng takes two scalars")),
    };
    let mut values = AlignedBytes::uninitialized(8 * count)?;
    let target = Shared::new(values.as_mut_ptr());
    let is_pred = to == DType::Pred;
    let key = [op.seed as u32, (op.seed >> 32) as u32];
    let draw = |n: usize, out: &mut [_]| hlorun_kernels::random::philox(key, n as u128, out);
    split(environment, count, GRAIN, &|range| {
        each_draw(range, draw, |n, x: [u32; 4]| {
            let bits = u64::from(x[0]) | u64::from(x[1]) << 32;
            let more = u64::from(x[2]) | u64::from(x[3]) << 32;
            let unit = |bits: u64| (bits >> 11) as f64 * (0.5f64).powi(53);
            let value: [u8; 8] = match op.distribution {
                Distribution::State => bits.to_ne_bytes(),
                Distribution::Uniform if floating => {
                    let (a, b) = (f64::from_ne_bytes(a), f64::from_ne_bytes(b));
                    let value = a + unit(bits) * (b - a);
                    value.to_ne_bytes()
                }
                Distribution::Normal => {
                    // Box and Muller; 1 - u is never 0.
                    let (a, b) = (f64::from_ne_bytes(a), f64::from_ne_bytes(b));
                    let radius = (-2.0 * (1.0 - unit(bits)).ln()).sqrt();
                    let angle = 2.0 * std::f64::consts::PI * unit(more);
                    (a + b * radius * angle.cos()).to_ne_bytes()
                }
                Distribution::Uniform => {
                    let (a, b) = (u64::from_ne_bytes(a), u64::from_ne_bytes(b));
                    let range = b.wrapping_sub(a);
                    let value = match range {
                        _ if is_pred => [a, b][(bits & 1) as usize],
                        0 => a,
                        _ => a.wrapping_add(bits % range),
                    };
                    value.to_ne_bytes()
                }
            };
            // SAFETY: element `n` of `count`, written by this task alone.
            unsafe { target.get().cast::<[u8; 8]>().add(n).write(value) };
        });
    });
    let from = if floating { DType::F64 } else { DType::U64 };
    let mut result = AlignedBytes::uninitialized(output.byte_size())?;
    // SAFETY: both hold `count` elements of their types.
    unsafe { hlorun_kernels::convert(from, to)(values.as_ptr(), result.as_mut_ptr(), count) };
    RawArray::over(&mut result, ty, &output.dims).copy_to(output);
    Ok(())
}

/// A scalar as `f64`, or as an integer of 64 bits.
fn wide(scalar: &RawArray, floating: bool) -> Result<[u8; 8]> {
    let from = dtype(scalar.element_type)
        .ok_or_else(|| HloError::execution("a parameter without kernels"))?;
    let to = if floating { DType::F64 } else { DType::S64 };
    let dense = scalar.to_row_major()?;
    let mut value = AlignedBytes::zeroed(8)?;
    // SAFETY: one element each.
    unsafe { hlorun_kernels::convert(from, to)(dense.as_ptr(), value.as_mut_ptr(), 1) };
    Ok(value.as_slice().try_into().unwrap_or_default())
}
