//! Runs `fft` by our own kernels or the `rustfft` and `realfft` crates, one dimension after the other.
//!
//! Lines along the last dimension go from the input straight to the output, some at a time; the
//! other dimensions are transformed in place. Several neighbouring columns, or rows whose length the
//! crates have no vectors for, are transformed together, one in each lane. Whether they are depends on
//! their sizes alone.

mod lanes;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hlorun_kernels::fft::{Component, LaneFft, largest_prime};
use num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftNum, FftPlanner};

use super::walk::{Shared, try_split};
use crate::buffers::{AlignedBytes, filled, with_room};
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::transforms::{
    COLUMNS, GRAIN, GROUP, LARGEST_VECTOR_FACTOR, MIN_LINES, MIN_TURNED,
};
use crate::plan::ops::fft::{FftKind, FftOp};
use crate::types::PrimitiveType;

/// Plans that are kept for the next run, and the longest one.
const KEPT_PLANS: usize = 16;
const KEPT_LENGTH: usize = 1 << 21;
/// Complex numbers per element of a line that a plan has at most: twiddles of its factors, and those
/// of a convolution twice as long, rounded up, where a factor is a large prime.
const PLAN_SIZE: usize = 16;

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
    if op.lengths.is_empty() {
        // Along no dimension: lines of one element.
        let line = |array: &RawArray| {
            let mut array = array.clone();
            array.dims.push(1);
            array.strides.push(1);
            array
        };
        let op = FftOp {
            operand: 0,
            kind: op.kind,
            lengths: smallvec::smallvec![1],
        };
        return run(&op, &[line(input)], &[line(output)], environment);
    }
    match input.element_type {
        PrimitiveType::F32 | PrimitiveType::C64 => typed::<f32>(op, input, output, environment),
        _ => typed::<f64>(op, input, output, environment),
    }
}

/// How lines of one length are transformed.
#[derive(Clone)]
enum Plan<T> {
    Complex(Arc<dyn Fft<T>>),
    RealForward(Arc<dyn RealToComplex<T>>),
    RealInverse(Arc<dyn ComplexToReal<T>>),
}

/// Plans of earlier runs, by what they are for, oldest first.
pub struct Kept<K, P>(Mutex<Vec<(K, P)>>);

impl<K: Copy + PartialEq, P: Clone> Kept<K, P> {
    const fn new() -> Kept<K, P> {
        Kept(Mutex::new(Vec::new()))
    }

    fn all(&self) -> MutexGuard<'_, Vec<(K, P)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, key: K) -> Option<P> {
        let all = self.all();
        let found = all.iter().find(|(known, _)| *known == key);
        found.map(|(_, plan)| plan.clone())
    }

    /// Keeps the plan of lines of `length` elements.
    fn keep(&self, key: K, plan: &P, length: usize) {
        if length <= KEPT_LENGTH {
            let mut all = self.all();
            if all.len() >= KEPT_PLANS {
                all.remove(0);
            }
            all.push((key, plan.clone()));
        }
    }
}

/// A component of the elements.
trait Real: FftNum + Default + Component {
    /// Plans for lines one by one.
    fn lines() -> &'static Kept<(FftKind, usize), Plan<Self>>;
    /// Plans for lines in lanes.
    fn lanes() -> &'static Kept<usize, Arc<LaneFft<Self>>>;
}

macro_rules! real {
    ($($t:ty)*) => {$(
        impl Real for $t {
            fn lines() -> &'static Kept<(FftKind, usize), Plan<$t>> {
                static KEPT: Kept<(FftKind, usize), Plan<$t>> = Kept::new();
                &KEPT
            }
            fn lanes() -> &'static Kept<usize, Arc<LaneFft<$t>>> {
                static KEPT: Kept<usize, Arc<LaneFft<$t>>> = Kept::new();
                &KEPT
            }
        }
    )*};
}
real!(f32 f64);

/// A plan, from an earlier run where there was one.
fn plan<T: Real>(kind: FftKind, length: usize) -> Result<Plan<T>> {
    if let Some(plan) = T::lines().find((kind, length)) {
        return Ok(plan);
    }
    // Planning cannot fail, so that the memory it takes is asked for before.
    drop(with_room::<Complex<T>>(length.saturating_mul(PLAN_SIZE))?);
    let plan = match kind {
        FftKind::Forward => Plan::Complex(FftPlanner::new().plan_fft_forward(length)),
        FftKind::Inverse => Plan::Complex(FftPlanner::new().plan_fft_inverse(length)),
        FftKind::RealForward => Plan::RealForward(RealFftPlanner::new().plan_fft_forward(length)),
        FftKind::RealInverse => Plan::RealInverse(RealFftPlanner::new().plan_fft_inverse(length)),
    };
    T::lines().keep((kind, length), &plan, length);
    Ok(plan)
}

/// A plan for lines in lanes, where there is one.
fn lanes_plan<T: Real>(length: usize) -> Option<Arc<LaneFft<T>>> {
    let kept = T::lanes().find(length);
    kept.or_else(|| {
        let plan = Arc::new(LaneFft::new(length)?);
        T::lanes().keep(length, &plan, length);
        Some(plan)
    })
}

/// Whether `count` lines fill enough of the lanes.
fn fills<T>(count: usize) -> bool {
    count.saturating_mul(size_of::<T>()) >= MIN_LINES
}

/// Whether rows of that length are transformed faster in lanes, into which they have to be turned.
fn is_slow_alone(length: usize) -> bool {
    length >= MIN_TURNED && largest_prime(length) > LARGEST_VECTOR_FACTOR
}

/// Elements in row-major order: those of the array, or memory of their own.
fn row_major<T>(array: &RawArray, is_read: bool) -> Result<(Shared, Option<AlignedBytes>)> {
    let want = RawArray::row_major_strides(&array.dims);
    let is_row_major = (0..want.len()).all(|d| array.dims[d] == 1 || array.strides[d] == want[d]);
    if is_row_major && array.pointer.cast::<T>().is_aligned() {
        return Ok((Shared::new(array.pointer), None));
    }
    let mut copy = if is_read {
        array.to_row_major()?.into_uninit()
    } else {
        AlignedBytes::uninitialized(array.byte_size())?
    };
    Ok((Shared::new(copy.as_mut_ptr()), Some(copy)))
}

fn typed<T: Real>(
    op: &FftOp,
    input: &RawArray,
    output: &RawArray,
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let axes = op.lengths.len();
    let start = input.dims.len() - axes;
    let outer: usize = input.dims[..start].iter().map(|&d| d as usize).product();
    let last = op.lengths[axes - 1];
    let mut lengths = op.lengths.clone();
    let is_real = matches!(op.kind, FftKind::RealForward | FftKind::RealInverse);
    if is_real {
        lengths[axes - 1] = last / 2 + 1;
    }
    let lines = outer * lengths[..axes - 1].iter().product::<usize>();
    let inverse = matches!(op.kind, FftKind::Inverse | FftKind::RealInverse);
    let scale = inverse.then(|| {
        let count = op.lengths.iter().product::<usize>();
        T::one() / T::from_usize(count).unwrap_or(T::one())
    });
    let (mut source, mut copy) = row_major::<T>(input, true)?;
    // What is not written in place is written row by row and copied at the end.
    let (target, mut staged) = row_major::<T>(output, false)?;
    let spectra = |data: Shared| {
        (0..axes - 1)
            .try_for_each(|axis| columns::<T>(data, outer, &lengths, axis, inverse, environment))
    };
    let run = Lines {
        count: lines,
        length: last,
        scale,
    };
    if op.kind == FftKind::RealInverse && axes > 1 {
        let mut own = match copy.take() {
            Some(own) => own,
            None => input.to_row_major()?.into_uninit(),
        };
        source = Shared::new(own.as_mut_ptr());
        copy = Some(own);
        spectra(source)?;
    }
    let in_lanes = match !is_real && is_slow_alone(last) && fills::<T>(lines) {
        true => lanes_plan::<T>(last),
        false => None,
    };
    if let Some(fft) = in_lanes {
        let rows = lanes::Rows {
            count: lines,
            length: last,
            scale,
        };
        rows.run(&fft, [source, target], inverse, environment)?;
    } else {
        rows::<T>(&plan(op.kind, last)?, &run, source, target, environment)?;
    }
    if op.kind != FftKind::RealInverse {
        spectra(target)?;
    }
    drop(copy);
    if let Some(staged) = &mut staged {
        RawArray::over(staged, output.element_type, &output.dims).copy_to(output);
    }
    Ok(())
}

/// `count` zeros.
fn zeros<N: Clone + Default>(count: usize) -> Result<Vec<N>> {
    filled(N::default(), count)
}

#[cold]
fn refused(error: realfft::FftError) -> HloError {
    HloError::execution(format!("internal error: fft: {error}"))
}

/// Lines along the last dimension.
struct Lines<T> {
    count: usize,
    /// Real or complex elements of a line, by kind.
    length: usize,
    scale: Option<T>,
}

/// Transforms the lines of `source` into those of `target`.
fn rows<T: Real>(
    plan: &Plan<T>,
    lines: &Lines<T>,
    source: Shared,
    target: Shared,
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let (length, half) = (lines.length, lines.length / 2 + 1);
    let scale = |values: &mut [Complex<T>]| {
        if let Some(scale) = lines.scale {
            values.iter_mut().for_each(|x| *x = *x * scale);
        }
    };
    try_split(environment, lines.count, GRAIN / length, &|range| {
        let group = (GROUP / length).max(1);
        let scratch = match plan {
            Plan::Complex(fft) => fft.get_immutable_scratch_len(),
            Plan::RealForward(fft) => fft.get_scratch_len(),
            Plan::RealInverse(fft) => fft.get_scratch_len(),
        };
        let mut scratch: Vec<Complex<T>> = zeros(scratch)?;
        let mut real: Vec<T> = Vec::new();
        let mut spectrum: Vec<Complex<T>> = Vec::new();
        match plan {
            Plan::Complex(_) => {}
            Plan::RealForward(_) => real = zeros(length)?,
            Plan::RealInverse(_) => spectrum = zeros(half)?,
        }
        let mut line = range.start;
        while line < range.end {
            let n = match plan {
                Plan::Complex(_) => group.min(range.end - line),
                _ => 1,
            };
            // SAFETY: the source has `count` lines of the length that the plan takes, and the
            // target as many of the length that it gives; tasks have disjoint ones.
            unsafe {
                match plan {
                    Plan::Complex(fft) => {
                        let from = source.get().cast::<Complex<T>>().add(line * length);
                        let to = target.get().cast::<Complex<T>>().add(line * length);
                        let from = std::slice::from_raw_parts(from, n * length);
                        let to = std::slice::from_raw_parts_mut(to, n * length);
                        fft.process_immutable_with_scratch(from, to, &mut scratch);
                        scale(to);
                    }
                    Plan::RealForward(fft) => {
                        let from = source.get().cast::<T>().add(line * length);
                        let to = target.get().cast::<Complex<T>>().add(line * half);
                        let to = std::slice::from_raw_parts_mut(to, half);
                        real.copy_from_slice(std::slice::from_raw_parts(from, length));
                        fft.process_with_scratch(&mut real, to, &mut scratch)
                            .map_err(refused)?;
                    }
                    Plan::RealInverse(fft) => {
                        let from = source.get().cast::<Complex<T>>().add(line * half);
                        let to = target.get().cast::<T>().add(line * length);
                        let to = std::slice::from_raw_parts_mut(to, length);
                        spectrum.copy_from_slice(std::slice::from_raw_parts(from, half));
                        // Of a real signal these are real; whatever else is there does not count.
                        spectrum[0].im = T::zero();
                        if length.is_multiple_of(2) {
                            spectrum[half - 1].im = T::zero();
                        }
                        scale(&mut spectrum);
                        fft.process_with_scratch(&mut spectrum, to, &mut scratch)
                            .map_err(refused)?;
                    }
                }
            }
            line += n;
        }
        Ok(())
    })
}

/// Transforms along `axis`, not the last one, of `outer` blocks of the sizes `lengths`, in place.
fn columns<T: Real>(
    data: Shared,
    outer: usize,
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
    let blocks = outer * lengths[..axis].iter().product::<usize>();
    let in_lanes = fills::<T>(inner).then(|| lanes_plan::<T>(length));
    if let Some(fft) = in_lanes.flatten() {
        let columns = lanes::Columns {
            blocks,
            length,
            count: inner,
        };
        return columns.run(&fft, data, inverse, environment);
    }
    let kind = match inverse {
        true => FftKind::Inverse,
        false => FftKind::Forward,
    };
    let Plan::Complex(fft) = plan::<T>(kind, length)? else {
        return Ok(());
    };
    // Whole cache lines, and as many as stay in the second-level cache.
    let line = 64 / size_of::<Complex<T>>();
    let most = COLUMNS / size_of::<Complex<T>>() / length;
    let width = (most / line).clamp(1, 4) * line;
    let strips = inner.div_ceil(width);
    let grain = GRAIN / length / width.min(inner);
    try_split(environment, blocks * strips, grain, &|range| {
        let mut lines: Vec<Complex<T>> = zeros(width.min(inner) * length)?;
        let mut scratch: Vec<Complex<T>> = zeros(fft.get_inplace_scratch_len())?;
        for strip in range {
            let first = strip % strips * width;
            let n = width.min(inner - first);
            let lines = &mut lines[..n * length];
            let start = strip / strips * length * inner + first;
            let at = data.get().cast::<Complex<T>>().wrapping_add(start);
            let size = size_of::<Complex<T>>() as isize;
            let (in_data, in_lines) = (
                [size, inner as isize * size],
                [length as isize * size, size],
            );
            let sizes = [n, length];
            // SAFETY: `n` elements of each of `length` rows, which only this task touches, and `n` lines of `length`.
            unsafe {
                let to = lines.as_mut_ptr().cast();
                hlorun_kernels::copy_strided(
                    size as usize,
                    &sizes,
                    at.cast(),
                    &in_data,
                    to,
                    &in_lines,
                );
            }
            fft.process_with_scratch(lines, &mut scratch);
            // SAFETY: as above.
            unsafe {
                let from = lines.as_ptr().cast();
                hlorun_kernels::copy_strided(
                    size as usize,
                    &sizes,
                    from,
                    &in_lines,
                    at.cast(),
                    &in_data,
                );
            }
        }
        Ok(())
    })
}
