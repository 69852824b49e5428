//! Convolutions of inputs that are spread out by a base dilation, as transposed convolutions are: outputs as far apart as
//! the inputs see the same positions of the window, and all other positions see none.
//!
//! In: a convolution. Out: one for each such set of outputs, without base dilation, on views of the kernel and the output.

use smallvec::SmallVec;

use super::window::{gcd, inverse};
use crate::exec::array::RawArray;
use crate::module::attributes::WindowDimension;
use crate::plan::cost::{convolution::MAX_PHASES, narrow_convolution::MAX_FEATURES};
use crate::plan::ops::convolution::ConvolutionOp;

/// One of them; a kernel without elements means that its outputs are zero.
pub struct Phase {
    /// The convolution.
    pub op: ConvolutionOp,
    /// Its kernel.
    pub kernel: RawArray,
    /// Where its results go.
    pub output: RawArray,
}

/// Cuts `op`, if that saves work: those of few features look for positions that see inputs themselves.
pub fn cut(op: &ConvolutionOp, kernel: &RawArray, output: &RawArray) -> Option<Vec<Phase>> {
    let groups = (op.feature_group_count * op.batch_group_count) as i64;
    let is_spread = op.has_base_dilation();
    let is_regular = (op.window.0.iter()).all(|w| w.base_dilation == 1 || w.stride == 1);
    let is_wide = output.dims[op.output.feature] / groups > MAX_FEATURES as i64;
    let sizes = op.window.0.iter().zip(&op.output.spatial);
    let counts: SmallVec<[i64; 3]> = sizes
        .map(|(w, &d)| w.base_dilation.min(output.dims[d]))
        .collect();
    let fits = counts.iter().try_fold(1i64, |all, &n| {
        all.checked_mul(n).filter(|&n| n <= MAX_PHASES)
    });
    let count = fits.filter(|_| is_spread && is_regular && is_wide)?;
    (0..count)
        .map(|mut rest| {
            let mut phase = Phase {
                op: op.clone(),
                kernel: kernel.clone(),
                output: output.clone(),
            };
            for (d, &count) in counts.iter().enumerate() {
                phase.take(d, rest % count)?;
                rest /= count;
            }
            Some(phase)
        })
        .collect()
}

impl Phase {
    /// Keeps every output along spatial dimension `d` whose number is `first` modulo the base dilation; `None` where a
    /// number is too large for the convolution that is left.
    fn take(&mut self, d: usize, first: i64) -> Option<()> {
        let window = self.op.window.0[d];
        let spread = window.base_dilation;
        if spread == 1 {
            return Some(());
        }
        let (wide_spread, dilation) = (i128::from(spread), i128::from(window.window_dilation));
        // Output first + spread * q looks at this place of the spread input, plus spread * q, at position k.
        let place =
            |k: i64| i128::from(k) * dilation + i128::from(first) - i128::from(window.padding_low);
        // Of the positions, each `step`th sees inputs, from `begin` on.
        let common = gcd(wide_spread, dilation);
        let step = (wide_spread / common) as i64;
        let begin =
            first_multiple([place(0), dilation, wide_spread], common).filter(|&k| k < window.size);
        let size = begin.map_or(0, |begin| (window.size - begin - 1) / step + 1);
        let skipped = match (begin, window.window_reversal) {
            (None, _) => 0,
            (Some(begin), false) => begin,
            // The last of them comes first in the kernel.
            (Some(begin), true) => window.size - 1 - begin - (size - 1) * step,
        };
        let padding = begin.map_or(0, |begin| -(place(begin) / wide_spread));
        self.op.window.0[d] = WindowDimension {
            size,
            base_dilation: 1,
            padding_low: padding.try_into().ok()?,
            window_dilation: (i128::from(step) * dilation / wide_spread)
                .try_into()
                .ok()?,
            ..window
        };
        let dim = self.op.kernel.spatial[d];
        every(&mut self.kernel, dim, skipped, step, size);
        let dim = self.op.output.spatial[d];
        let count = (self.output.dims[dim] - first - 1) / spread + 1;
        every(&mut self.output, dim, first, spread, count);
        Some(())
    }
}

/// The least `k` from zero on for which `spread` divides `start + k * dilation`, if there is one; `common` is the greatest
/// common divisor of `spread` and `dilation`.
fn first_multiple([start, dilation, spread]: [i128; 3], common: i128) -> Option<i64> {
    if start % common != 0 {
        return None;
    }
    let step = spread / common;
    // Both factors are less than the step, so that their product fits.
    let wanted = (-start / common).rem_euclid(step);
    Some((wanted * inverse(dilation / common, step) % step) as i64)
}

/// Keeps `count` indices of a dimension from `first` on, `step` apart; they lie in the array.
fn every(array: &mut RawArray, dim: usize, first: i64, step: i64, count: i64) {
    let bytes = first * array.strides[dim] * array.element_type.size_bytes() as i64;
    array.pointer = array.pointer.wrapping_offset(bytes as isize);
    // Where there is no second index, the step may reach beyond any array.
    if count > 1 {
        array.strides[dim] *= step;
    }
    array.dims[dim] = count;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::attributes::Window;
    use crate::plan::ops::convolution::ConvolutionDims;
    use crate::types::PrimitiveType;

    /// Whether each index of the output is that of one phase, and how many weights and outputs phases have.
    fn check(window: WindowDimension, outputs: i64) {
        let dims = || ConvolutionDims {
            outer: 0,
            feature: 1,
            spatial: [2].into_iter().collect(),
        };
        let op = ConvolutionOp {
            input: dims(),
            kernel: dims(),
            output: dims(),
            window: Window([window].into_iter().collect()),
            feature_group_count: 1,
            batch_group_count: 1,
            epilogue: Vec::new(),
        };
        // Only addresses are computed.
        let array = |dims: [i64; 3]| RawArray {
            pointer: std::ptr::null_mut(),
            element_type: PrimitiveType::F32,
            strides: [dims[1] * dims[2], dims[2], 1].into_iter().collect(),
            dims: dims.into_iter().collect(),
        };
        let features = MAX_FEATURES as i64 + 1;
        let (kernel, output) = (
            array([features, 1, window.size]),
            array([1, features, outputs]),
        );
        let Some(phases) = cut(&op, &kernel, &output) else {
            return;
        };
        let indices = |array: &RawArray| {
            let (first, step) = (array.pointer as i64 / 4, array.strides[2]);
            (0..array.dims[2]).map(move |i| first + i * step)
        };
        let mut written: Vec<i64> = Vec::new();
        for phase in &phases {
            let left = phase.op.window.0[0];
            assert_eq!(left.size, phase.kernel.dims[2]);
            for (q, output) in indices(&phase.output).enumerate() {
                let mut seen: Vec<(i64, i128)> = Vec::new();
                for (k, weight) in indices(&phase.kernel).enumerate() {
                    let k = if left.window_reversal {
                        left.size - 1 - k as i64
                    } else {
                        k as i64
                    };
                    let at = i128::from(k) * i128::from(left.window_dilation) + q as i128;
                    seen.push((weight, at - i128::from(left.padding_low)));
                }
                let mut wanted = Vec::new();
                for k in 0..window.size {
                    let at = i128::from(k) * i128::from(window.window_dilation);
                    let at = at + i128::from(output) - i128::from(window.padding_low);
                    let spread = i128::from(window.base_dilation);
                    let weight = if window.window_reversal {
                        window.size - 1 - k
                    } else {
                        k
                    };
                    if at % spread == 0 {
                        wanted.push((weight, at / spread));
                    }
                }
                seen.sort_unstable();
                wanted.sort_unstable();
                assert_eq!(seen, wanted, "{window:?} {output}");
                written.push(output);
            }
        }
        written.sort_unstable();
        assert_eq!(written, (0..outputs).collect::<Vec<_>>(), "{window:?}");
    }

    #[test]
    fn first_multiples_are_those_of_a_search() {
        for spread in 1..20 {
            for dilation in 1..20 {
                for start in -45..45 {
                    let found = (0..spread).find(|k| (start + k * dilation) % spread == 0);
                    let got = first_multiple([start, dilation, spread], gcd(spread, dilation));
                    assert_eq!(got.map(i128::from), found, "{start} {dilation} {spread}");
                }
            }
        }
    }

    #[test]
    fn phases_share_the_outputs_and_see_what_they_saw() {
        let large = [1 << 40, 1 << 62, i64::MAX - 1, i64::MAX];
        let lows = [0, 1, 5, -3, i64::MAX, i64::MIN, 1 << 40];
        for base_dilation in [2, 3, 4, 6, 64].into_iter().chain(large) {
            for window_dilation in [1, 2, 3, 4, 1 << 40, i64::MAX] {
                for padding_low in lows {
                    for (size, outputs) in [(0, 4), (1, 1), (1, 20), (2, 64), (5, 7), (9, 30)] {
                        for window_reversal in [false, true] {
                            let window = WindowDimension {
                                size,
                                stride: 1,
                                padding_low,
                                padding_high: 0,
                                window_dilation,
                                base_dilation,
                                window_reversal,
                            };
                            check(window, outputs);
                        }
                    }
                }
            }
        }
    }
}
