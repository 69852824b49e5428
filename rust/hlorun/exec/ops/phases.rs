//! Convolutions of inputs that are spread out by a base dilation, as transposed convolutions are: outputs as far apart as
//! the inputs see the same positions of the window, and all other positions see none.
//!
//! In: a convolution. Out: one for each such set of outputs, without base dilation, on views of the kernel and the output.

use smallvec::SmallVec;

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
    let is_spread = op.window.0.iter().any(|w| w.base_dilation > 1);
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
    /// Keeps every output along spatial dimension `d` whose number is `first` modulo the base dilation.
    fn take(&mut self, d: usize, first: i64) -> Option<()> {
        let window = self.op.window.0[d];
        let spread = window.base_dilation;
        if spread == 1 {
            return Some(());
        }
        // Output first + spread * q looks at this place of the spread input, plus spread * q, at position k.
        let place = |k: i64| {
            let at = k.checked_mul(window.window_dilation)?;
            at.checked_add(first)?.checked_sub(window.padding_low)
        };
        let mut seeing = (0..window.size.min(spread))
            .filter(|&k| place(k).is_some_and(|at| at.rem_euclid(spread) == 0));
        let (begin, next) = (seeing.next(), seeing.next());
        let step = next.zip(begin).map_or(spread, |(next, begin)| next - begin);
        let begin = begin.unwrap_or(window.size);
        let size = (window.size - begin + step - 1) / step;
        self.op.window.0[d] = WindowDimension {
            size,
            base_dilation: 1,
            padding_low: if size > 0 {
                -(place(begin)? / spread)
            } else {
                0
            },
            window_dilation: step
                .checked_mul(window.window_dilation)?
                .div_euclid(spread)
                .max(1),
            ..window
        };
        let skipped = match window.window_reversal {
            true => window.size - 1 - begin - (size - 1) * step,
            false => begin,
        };
        every(
            &mut self.kernel,
            self.op.kernel.spatial[d],
            skipped.max(0),
            step,
            size,
        );
        let dim = self.op.output.spatial[d];
        let count = (self.output.dims[dim] - first + spread - 1) / spread;
        every(&mut self.output, dim, first, spread, count);
        Some(())
    }
}

/// Keeps `count` indices of a dimension from `first` on, `step` apart.
fn every(array: &mut RawArray, dim: usize, first: i64, step: i64, count: i64) {
    let bytes = first * array.strides[dim] * array.element_type.size_bytes() as i64;
    array.pointer = array.pointer.wrapping_offset(bytes as isize);
    array.strides[dim] = array.strides[dim].saturating_mul(step);
    array.dims[dim] = count;
}
