//! Runs `fft` through the `rustfft` crate, one dimension after the other, lines in parallel.

use num_complex::Complex;
use rustfft::{FftNum, FftPlanner};

use super::OpEnvironment;
use super::walk::{Shared, split};
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::plan::ops::fft::{FftKind, FftOp};
use crate::types::PrimitiveType;

/// Elements a task transforms at least.
const GRAIN: usize = 16 << 10;

/// Runs `op`: one array in, one out.
pub fn run(
    op: &FftOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let (Some(input), [output]) = (inputs.get(op.operand), outputs) else {
        return Err(HloError::execution("fft takes one array"));
    };
    if output.count() == 0 {
        return Ok(());
    }
    match input.element_type {
        PrimitiveType::F32 | PrimitiveType::C64 => typed::<f32>(op, input, output, environment),
        _ => typed::<f64>(op, input, output, environment),
    }
}

fn typed<T: FftNum + Default + num_complex::ComplexFloat<Real = T>>(
    op: &FftOp,
    input: &RawArray,
    output: &RawArray,
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let axes = op.lengths.len();
    let start = input.dims.len() - axes;
    let outer: usize = input.dims[..start].iter().map(|&d| d as usize).product();
    let block: usize = op.lengths.iter().product();
    let total = outer * block;
    let last = op.lengths[axes - 1];
    let half = last / 2 + 1;
    let lines = total / last;
    let mut data: Vec<Complex<T>> = Vec::new();
    data.try_reserve_exact(total)
        .map_err(|_| HloError::execution("out of memory for fft"))?;
    let dense = input.to_row_major()?;
    match op.kind {
        FftKind::RealForward => {
            // SAFETY: the dense copy holds the input's elements, which are `total` numbers of type `T`: the
            // plan has checked types and sizes of both sides.
            let real = unsafe { std::slice::from_raw_parts(dense.as_ptr().cast::<T>(), total) };
            data.extend(real.iter().map(|&re| Complex::new(re, T::default())));
        }
        FftKind::RealInverse => {
            // SAFETY: as above; the input holds half a spectrum per line.
            let spectrum = unsafe {
                std::slice::from_raw_parts(dense.as_ptr().cast::<Complex<T>>(), lines * half)
            };
            for line in spectrum.chunks_exact(half) {
                data.extend_from_slice(line);
                data.extend(std::iter::repeat_n(Complex::default(), last - half));
            }
        }
        FftKind::Forward | FftKind::Inverse => {
            // SAFETY: as above, `total` complex numbers.
            let all =
                unsafe { std::slice::from_raw_parts(dense.as_ptr().cast::<Complex<T>>(), total) };
            data.extend_from_slice(all);
        }
    }
    drop(dense);
    let inverse = matches!(op.kind, FftKind::Inverse | FftKind::RealInverse);
    // The dimension with half a spectrum comes first on the way there and last on the way back.
    let order: Vec<usize> = if inverse {
        (0..axes).collect()
    } else {
        (0..axes).rev().collect()
    };
    for axis in order {
        if op.kind == FftKind::RealInverse && axis == axes - 1 {
            for line in data.chunks_exact_mut(last) {
                for k in half..last {
                    line[k] = line[last - k].conj();
                }
            }
        }
        transform(&mut data, &op.lengths, axis, inverse, environment)?;
    }
    if inverse {
        let scale = T::one() / T::from_usize(block).unwrap_or(T::one());
        data.iter_mut().for_each(|x| *x = *x * scale);
    }
    let mut result = AlignedBytes::uninitialized(output.byte_size())?;
    let to = result.as_mut_ptr();
    // SAFETY: the result holds `total` real, `lines * half` or `total` complex elements by kind.
    unsafe {
        match op.kind {
            FftKind::RealInverse => {
                for (i, x) in data.iter().enumerate() {
                    to.cast::<T>().add(i).write(x.re);
                }
            }
            FftKind::RealForward => {
                for (i, line) in data.chunks_exact(last).enumerate() {
                    let to = to.cast::<Complex<T>>().add(i * half);
                    std::ptr::copy_nonoverlapping(line.as_ptr(), to, half);
                }
            }
            FftKind::Forward | FftKind::Inverse => {
                std::ptr::copy_nonoverlapping(data.as_ptr(), to.cast(), total);
            }
        }
    }
    RawArray::over(&mut result, output.element_type, &output.dims).copy_to(output);
    Ok(())
}

/// Transforms along `axis` of blocks of the sizes `lengths`.
fn transform<T: FftNum + Default>(
    data: &mut [Complex<T>],
    lengths: &[usize],
    axis: usize,
    inverse: bool,
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let length = lengths[axis];
    if length <= 1 {
        return Ok(());
    }
    let inner: usize = lengths[axis + 1..].iter().product();
    let lines = data.len() / length;
    let mut planner = FftPlanner::<T>::new();
    let fft = if inverse {
        planner.plan_fft_inverse(length)
    } else {
        planner.plan_fft_forward(length)
    };
    let shared = Shared::new(data.as_mut_ptr().cast());
    let failed = std::sync::atomic::AtomicBool::new(false);
    split(environment, lines, GRAIN / length, &|range| {
        let mut line: Vec<Complex<T>> = Vec::new();
        let mut scratch: Vec<Complex<T>> = Vec::new();
        let needed = fft.get_inplace_scratch_len();
        if line.try_reserve_exact(length).is_err() || scratch.try_reserve_exact(needed).is_err() {
            failed.store(true, std::sync::atomic::Ordering::Relaxed);
            return;
        }
        scratch.resize(needed, Complex::default());
        for n in range {
            let first = n / inner * inner * length + n % inner;
            let at = |i: usize| {
                shared
                    .get()
                    .cast::<Complex<T>>()
                    .wrapping_add(first + i * inner)
            };
            line.clear();
            // SAFETY: lines are disjoint parts of the data.
            line.extend((0..length).map(|i| unsafe { at(i).read() }));
            fft.process_with_scratch(&mut line, &mut scratch);
            for (i, &x) in line.iter().enumerate() {
                // SAFETY: as above.
                unsafe { at(i).write(x) };
            }
        }
    });
    if failed.into_inner() {
        return Err(HloError::execution("out of memory for fft"));
    }
    Ok(())
}
