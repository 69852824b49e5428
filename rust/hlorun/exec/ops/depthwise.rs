//! Convolutions whose groups have one input and one output feature each, with features side by side in
//! memory: a vector is a sum of neighbouring features.

use smallvec::SmallVec;

use super::im2col::{Geometry, Run};
use super::pack_kernel::pack_kernel;
use super::walk::{Shared, byte_strides, try_split};
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::narrow_convolution::GRAIN;
use crate::plan::ops::convolution::ConvolutionOp;
use crate::types::PrimitiveType;

/// Runs `op` in `f32` or `f64`, if it is one of these.
pub fn run(
    op: &ConvolutionOp,
    geometry: &Geometry,
    kernel: &RawArray,
    input: &RawArray,
    output: &RawArray,
    environment: &OpEnvironment<'_>,
) -> Result<bool> {
    let groups = op.feature_group_count;
    let columns = output.dims[op.output.feature] as usize;
    let is_side_by_side = input.strides[op.input.feature] == 1;
    if groups == 1 || geometry.features > 1 || columns > groups || !is_side_by_side {
        return Ok(false);
    }
    match input.element_type {
        PrimitiveType::F64 => typed::<f64>(op, geometry, kernel, input, output, environment)?,
        PrimitiveType::F32 => typed::<f32>(op, geometry, kernel, input, output, environment)?,
        _ => return Ok(false),
    }
    Ok(true)
}

trait Float:
    Copy + Default + Send + Sync + std::ops::Mul<Output = Self> + std::ops::Add<Output = Self>
{
}
impl Float for f32 {}
impl Float for f64 {}

fn typed<T: Float>(
    op: &ConvolutionOp,
    geometry: &Geometry,
    kernel: &RawArray,
    input: &RawArray,
    output: &RawArray,
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let columns = op.feature_group_count;
    let windows = geometry.positions_in_window();
    let (inner, outer) = (
        geometry.outputs[geometry.outputs.len() - 1],
        &geometry.outputs[..geometry.outputs.len() - 1],
    );
    let rows = output.dims[op.output.outer] as usize * outer.iter().product::<usize>();
    let weights = pack_kernel(op, kernel, columns as i64, true)?;
    // SAFETY: the packed kernel holds this many elements.
    let packed: &[T] =
        unsafe { std::slice::from_raw_parts(weights.as_ptr().cast(), columns * windows) };
    let by_window: Vec<T> = (0..windows * columns)
        .map(|i| packed[i % columns * windows + i / columns])
        .collect();
    let job = Rows {
        op,
        geometry,
        weights: &by_window,
        input: Shared::new(input.pointer),
        output: Shared::new(output.pointer),
        strides: byte_strides(&output.strides, size_of::<T>()),
        sizes: [inner, columns, windows],
    };
    let work = (inner * columns * windows).max(1);
    try_split(environment, rows, (GRAIN / work).max(1), &|range| {
        let mut sums: Vec<T> = Vec::new();
        sums.try_reserve_exact(inner * columns)
            .map_err(|_| HloError::execution("out of memory for convolution"))?;
        for row in range {
            sums.clear();
            sums.resize(inner * columns, T::default());
            job.sum(row, &mut sums);
            job.write(row, &sums);
        }
        Ok(())
    })
}

/// The output row by row, all features of a row together.
struct Rows<'a, T> {
    op: &'a ConvolutionOp,
    geometry: &'a Geometry,
    /// By window position, all features together.
    weights: &'a [T],
    input: Shared,
    output: Shared,
    /// Bytes between the outputs.
    strides: SmallVec<[isize; 6]>,
    /// Outputs of a row, features, and positions of a window.
    sizes: [usize; 3],
}

impl<T: Float> Rows<'_, T> {
    /// Adds up one row, `[output][feature]`.
    fn sum(&self, row: usize, sums: &mut [T]) {
        let [inner, columns, windows] = self.sizes;
        let positions = row * inner..(row + 1) * inner;
        self.geometry
            .runs(&positions, &(0..windows), 0, |_, window, run| {
                let weights = &self.weights[window * columns..(window + 1) * columns];
                self.add(&run, weights, sums);
            });
    }

    fn add(&self, run: &Run, weights: &[T], sums: &mut [T]) {
        let columns = weights.len();
        let input = self.input.get().cast::<T>().cast_const();
        for i in 0..run.count {
            let at = run.input + i as i64 * run.input_step;
            // SAFETY: runs name inputs inside the array, whose features are neighbours.
            let x =
                unsafe { std::slice::from_raw_parts(input.wrapping_offset(at as isize), columns) };
            let to = (run.first + i * run.step) * columns;
            for ((sum, &x), &w) in sums[to..to + columns].iter_mut().zip(x).zip(weights) {
                *sum = *sum + x * w;
            }
        }
    }

    /// Writes one row to where it lies in the output.
    fn write(&self, row: usize, sums: &[T]) {
        let (op, strides) = (self.op, &self.strides);
        let [inner, columns, _] = self.sizes;
        let mut rest = row;
        let mut at = 0isize;
        for d in (0..op.output.spatial.len().saturating_sub(1)).rev() {
            at += (rest % self.geometry.outputs[d]) as isize * strides[op.output.spatial[d]];
            rest /= self.geometry.outputs[d];
        }
        at += rest as isize * strides[op.output.outer];
        let step = op.output.spatial.last().map_or(0, |&d| strides[d]);
        let size = size_of::<T>() as isize;
        // SAFETY: one output row of all features.
        unsafe {
            hlorun_kernels::copy_strided(
                size_of::<T>(),
                &[inner, columns],
                sums.as_ptr().cast(),
                &[columns as isize * size, size],
                self.output.at(at),
                &[step, strides[op.output.feature]],
            );
        }
    }
}
