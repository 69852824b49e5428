//! Sums of vectors that are weighted lane by lane: what a convolution of features that do not mix is made of.
//!
//! In: for every term, inputs and a weight for each lane. Out: outputs, each one step further in every input than the one
//! before. Promise: an element is one sum in the order of the terms, fused where the tier has fused multiply-add, and then
//! what the epilogue makes of it; how many are computed at once changes no bit.

use super::epilogue::{Epilogue, Vectors};
use super::micro::Real;
use crate::{DType, Isa};

/// Outputs `o` of `lanes` lanes: `to[o * to_step + i]` becomes the sum of `inputs[o * input_step + i] * weights[i]` over
/// all terms. Steps are in elements.
pub struct WeightedLanes<'a> {
    /// Inputs of the first output, and weights.
    pub terms: &'a [(*const u8, *const u8)],
    /// Neighbouring elements of an output.
    pub lanes: usize,
    /// Outputs.
    pub count: usize,
    /// From the inputs of an output to those of the next.
    pub input_step: isize,
    /// The first output.
    pub to: *mut u8,
    /// From an output to the next.
    pub to_step: isize,
    /// What is done to the sums, as to a matrix with a column for each lane.
    pub epilogue: &'a Epilogue,
    /// The row of that matrix that the first output is.
    pub row: usize,
    /// Rows from an output to the next.
    pub row_step: usize,
}

/// Runs [`WeightedLanes`].
pub type WeightedLanesKernel = unsafe fn(&WeightedLanes);

/// Lanes whose sums are in registers at one time; of what is left over, and of few.
const WIDE: usize = 16;
const SHORT: usize = 4;
/// Outputs whose sums are: as many as the registers of any tier hold, so that weights are read once for all of them.
const OUTPUTS: usize = 6;
/// Lanes of one output, and of each of up to `FEW`: a sum waits for its last addition, so that there have to be others.
const ALONE: usize = 64;
const SOME: usize = 32;
const FEW: usize = 3;

/// What is done to the sums of the lanes `at..at + N` of the outputs `first..first + P`.
trait Finish {
    /// # Safety
    /// The lanes and outputs are the job's.
    unsafe fn finish<T: Vectors<F>, F: Real, const N: usize, const P: usize>(
        job: &WeightedLanes,
        at: usize,
        first: usize,
        sums: &mut [[F; N]; P],
    );
}

/// Nothing.
struct Bare;

impl Finish for Bare {
    #[inline(always)]
    unsafe fn finish<T: Vectors<F>, F: Real, const N: usize, const P: usize>(
        _: &WeightedLanes,
        _: usize,
        _: usize,
        _: &mut [[F; N]; P],
    ) {
    }
}

/// The epilogue of outputs that are rows in order.
struct InRegisters;

impl Finish for InRegisters {
    #[inline(always)]
    unsafe fn finish<T: Vectors<F>, F: Real, const N: usize, const P: usize>(
        job: &WeightedLanes,
        at: usize,
        first: usize,
        sums: &mut [[F; N]; P],
    ) {
        let tile = job.epilogue.at(job.row + first, at);
        // SAFETY: the caller's contract: operands have an element for each row and lane.
        unsafe { tile.apply::<T, F, P, N, true>(sums, N) }
    }
}

/// Lanes `at..at + N` of the outputs `first..first + P`.
#[inline(always)]
unsafe fn block<T: Vectors<F>, F: Real, A: Finish, const N: usize, const P: usize>(
    job: &WeightedLanes,
    at: usize,
    first: usize,
) {
    let mut sums = [[F::ZERO; N]; P];
    let start = first as isize * job.input_step + at as isize;
    for &(inputs, weights) in job.terms {
        let inputs = inputs.cast::<F>().wrapping_offset(start);
        // SAFETY: the caller's contract.
        let weights = unsafe {
            weights
                .cast::<F>()
                .add(at)
                .cast::<[F; N]>()
                .read_unaligned()
        };
        for (p, sums) in sums.iter_mut().enumerate() {
            let x = inputs.wrapping_offset(p as isize * job.input_step);
            // SAFETY: as above.
            let x = unsafe { x.cast::<[F; N]>().read_unaligned() };
            for ((sum, &x), &weight) in sums.iter_mut().zip(&x).zip(&weights) {
                *sum = F::fma::<T>(x, weight, *sum);
            }
        }
    }
    // SAFETY: the caller's contract.
    unsafe { A::finish::<T, F, N, P>(job, at, first, &mut sums) };
    for (p, sums) in sums.iter().enumerate() {
        let to = (first + p) as isize * job.to_step + at as isize;
        let to = job.to.cast::<F>().wrapping_offset(to);
        // SAFETY: as above.
        unsafe { to.cast::<[F; N]>().write_unaligned(*sums) };
    }
}

/// Lanes `at..at + N` of all outputs.
#[inline(always)]
unsafe fn lanes<T: Vectors<F>, F: Real, A: Finish, const N: usize>(job: &WeightedLanes, at: usize) {
    // Parts of nearly the same size, so that none has too few sums at a time.
    let parts = job.count.div_ceil(OUTPUTS);
    for part in 0..parts {
        let own = super::share(job.count, parts, part, 1);
        // SAFETY: the caller's contract.
        unsafe {
            match own.len() {
                1 => block::<T, F, A, N, 1>(job, at, own.start),
                2 => block::<T, F, A, N, 2>(job, at, own.start),
                3 => block::<T, F, A, N, 3>(job, at, own.start),
                4 => block::<T, F, A, N, 4>(job, at, own.start),
                5 => block::<T, F, A, N, 5>(job, at, own.start),
                outputs => {
                    debug_assert_eq!(outputs, OUTPUTS, "no part is empty");
                    block::<T, F, A, N, OUTPUTS>(job, at, own.start);
                }
            }
        }
    }
}

/// All of a job of at least [`WIDE`] lanes. The last lanes reach back where fewer are left.
#[inline(always)]
unsafe fn wide<T: Vectors<F>, F: Real, A: Finish>(job: &WeightedLanes) {
    let n = job.lanes;
    let mut at = 0;
    // SAFETY: the caller's contract; lanes end at `n`.
    unsafe {
        while job.count == 1 && n - at >= ALONE {
            block::<T, F, A, ALONE, 1>(job, at, 0);
            at += ALONE;
        }
        while job.count <= FEW && n - at >= SOME {
            match job.count {
                0 => {}
                1 => block::<T, F, A, SOME, 1>(job, at, 0),
                2 => block::<T, F, A, SOME, 2>(job, at, 0),
                _ => block::<T, F, A, SOME, FEW>(job, at, 0),
            }
            at += SOME;
        }
        while at < n {
            lanes::<T, F, A, WIDE>(job, at.min(n - WIDE));
            at += WIDE;
        }
    }
}

/// All of a job of fewer lanes than [`WIDE`].
#[inline(always)]
unsafe fn short<T: Vectors<F>, F: Real>(job: &WeightedLanes) {
    let n = job.lanes;
    let mut at = 0;
    // SAFETY: the caller's contract; lanes end at `n`.
    unsafe {
        while n >= SHORT && at < n {
            lanes::<T, F, Bare, SHORT>(job, at.min(n - SHORT));
            at += SHORT;
        }
        while at < n {
            lanes::<T, F, Bare, 1>(job, at);
            at += 1;
        }
    }
}

#[inline(always)]
unsafe fn sum<T: Vectors<F>, F: Real>(job: &WeightedLanes) {
    let is_wide = job.lanes >= WIDE;
    // SAFETY: the caller's contract.
    unsafe {
        match (is_wide, job.epilogue.is_empty()) {
            (true, false) if job.row_step == 1 => return wide::<T, F, InRegisters>(job),
            (true, _) => wide::<T, F, Bare>(job),
            (false, _) => short::<T, F>(job),
        }
        if !job.epilogue.is_empty() {
            for o in 0..job.count {
                let to = job.to.cast::<F>().wrapping_offset(o as isize * job.to_step);
                let origin = [job.row + o * job.row_step, 0];
                job.epilogue.apply_to_row(origin, to, 1, job.lanes);
            }
        }
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn run<F: Real>(job: &WeightedLanes)
            where
                $tier: Vectors<F>,
            {
                // SAFETY: the caller's contract.
                unsafe { sum::<$tier, F>(job) }
            }

            pub fn pick(dtype: DType) -> Option<WeightedLanesKernel> {
                match dtype {
                    DType::F32 => Some(run::<f32>),
                    DType::F64 => Some(run::<f64>),
                    _ => None,
                }
            }
        }
    };
}
each_tier!(tier);

/// What sums weighted lanes; `None` where the type has no such kernel.
///
/// It is to be called with terms that have `lanes` weights, and as many inputs for each output, and with an epilogue whose
/// operands have an element for each row and lane; outputs overlap none of them.
pub fn weighted_lanes(dtype: DType) -> Option<WeightedLanesKernel> {
    of_tier!(Isa::active(), pick(dtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_one_sum_in_the_order_of_the_terms() {
        let values: Vec<f32> = (0..1000)
            .map(|i| [1e8, 1.5, -1e8, 0.1, -0.0, 3.0, 1e-3][i * 5 % 7])
            .collect();
        let kernel = weighted_lanes(DType::F32).unwrap();
        let starts = [0usize, 7, 1, 30, 64, 2, 90];
        let at = |start: usize| values[start..].as_ptr().cast();
        let terms = starts.map(|start| (at(start), at(2 * start + 3)));
        for n in [1usize, 3, 4, 7, 15, 16, 17, 31, 32, 40, 64, 65, 100, 131] {
            for count in [1usize, 2, 3, 4, 5, 6, 7, 13] {
                let mut got = vec![f32::NAN; count * (n + 1)];
                let job = WeightedLanes {
                    terms: &terms,
                    lanes: n,
                    count,
                    input_step: 45,
                    to: got.as_mut_ptr().cast(),
                    to_step: n as isize + 1,
                    epilogue: Epilogue::none(),
                    row: 0,
                    row_step: 1,
                };
                // SAFETY: every term has at least 700 inputs and weights.
                unsafe { kernel(&job) };
                for (o, row) in got.chunks(n + 1).enumerate() {
                    assert!(row[n].is_nan());
                    for (i, got) in row[..n].iter().enumerate() {
                        let want = starts.iter().fold(0f32, |sum, start| {
                            let (x, w) = (values[start + o * 45 + i], values[2 * start + 3 + i]);
                            match Isa::active().is_fused() {
                                true => x.mul_add(w, sum),
                                false => x * w + sum,
                            }
                        });
                        assert_eq!(got.to_bits(), want.to_bits(), "{n} {count} {o} {i}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_epilogue_is_done_to_every_output_once() {
        use super::super::epilogue::{EpilogueOp, EpilogueOperand};
        let kernel = weighted_lanes(DType::F64).unwrap();
        let values: Vec<f64> = (0..700).map(|i| (i * 7 % 31) as f64).collect();
        let at = |start: usize| values[start..].as_ptr().cast::<u8>();
        let residual: Vec<f64> = (0..9 * 131).map(|i| (i * 5 % 17) as f64).collect();
        let terms = [(at(0), at(40)), (at(9), at(3))];
        for n in [1usize, 3, 4, 9, 15, 16, 17, 32, 64, 70, 131] {
            for (count, row_step) in [(1usize, 1usize), (2, 1), (4, 1), (7, 1), (1, 2), (4, 2)] {
                let operand = |first: &[f64], row_stride| EpilogueOperand::Matrix {
                    first: first.as_ptr().cast(),
                    row_stride,
                };
                let steps = [
                    (EpilogueOp::Multiply, operand(&values, 0)),
                    (EpilogueOp::Add, operand(&residual, n as isize)),
                    (
                        EpilogueOp::AtLeast,
                        EpilogueOperand::Scalar(900f64.to_bits()),
                    ),
                ];
                let mut got = vec![f64::NAN; count * (n + 1)];
                let job = WeightedLanes {
                    terms: &terms,
                    lanes: n,
                    count,
                    input_step: 45,
                    to: got.as_mut_ptr().cast(),
                    to_step: n as isize + 1,
                    epilogue: &Epilogue::new(8, steps),
                    row: 1,
                    row_step,
                };
                // SAFETY: every term has at least 411 inputs and 131 weights; operands have nine rows.
                unsafe { kernel(&job) };
                for (o, row) in got.chunks(n + 1).enumerate() {
                    assert!(row[n].is_nan());
                    for (i, &got) in row[..n].iter().enumerate() {
                        let x = |start: usize| values[start + o * 45 + i];
                        // All numbers are small integers: no sum is rounded.
                        let sum = x(0) * values[40 + i] + x(9) * values[3 + i];
                        let y = sum * values[i] + residual[(1 + o * row_step) * n + i];
                        assert_eq!(got, y.max(900.0), "{n} {count} {row_step} {o} {i}");
                    }
                }
            }
        }
    }
}
