//! Windows: which outputs see an element of the input at a given position of the window.
//!
//! In: the window along one dimension. Out: [`Span`]s, arithmetic progressions of outputs and of
//! the inputs they see. Promise: work and memory are bounded by outputs times inputs, however far
//! the text's numbers reach beyond them.

use std::ops::Range;

use crate::module::attributes::WindowDimension;

/// Outputs `first, first + step, …` that see inputs `base, base + base_step, …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Position in the window.
    pub position: i64,
    /// First output.
    pub first: i64,
    /// Distance of outputs.
    pub step: i64,
    /// Number of outputs, at least one.
    pub count: i64,
    /// First input.
    pub base: i64,
    /// Distance of inputs.
    pub base_step: i64,
}

impl Span {
    /// The input that output `output` sees, if it is one of these.
    pub fn input(&self, output: i64) -> Option<i64> {
        let delta = output - self.first;
        // Most steps are 1, and divisions slow.
        let (nth, is_between) = match self.step {
            1 => (delta, false),
            step => (delta.div_euclid(step), delta % step != 0),
        };
        let is_here = !is_between && (0..self.count).contains(&nth);
        is_here.then(|| self.base + nth * self.base_step)
    }
}

/// Inverse of `a` modulo `m`, both coprime, `m` at least 1.
pub fn inverse(a: i128, m: i128) -> i128 {
    let (mut r, mut next, mut t, mut s) = (m, a.rem_euclid(m), 0i128, 1i128);
    while next != 0 {
        let q = r / next;
        (r, next) = (next, r - q * next);
        (t, s) = (s, t - q * s);
    }
    t.rem_euclid(m)
}

/// The greatest common divisor of two positive numbers.
pub fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The span of window position `position` over the outputs `range`, if any sees an input.
pub fn span(dim: &WindowDimension, input: i64, range: &Range<i64>, position: i64) -> Option<Span> {
    let (stride, dilation) = (i128::from(dim.stride), i128::from(dim.base_dilation));
    // Output o looks at stride * o + offset of the dilated base.
    let offset =
        i128::from(position) * i128::from(dim.window_dilation) - i128::from(dim.padding_low);
    let last = i128::from(input - 1) * dilation;
    if input <= 0 {
        return None;
    }
    let mut low = i128::from(range.start).max((-offset + stride - 1).div_euclid(stride));
    let high = i128::from(range.end - 1).min((last - offset).div_euclid(stride));
    let common = gcd(stride, dilation);
    if offset.rem_euclid(common) != 0 {
        return None;
    }
    let period = dilation / common;
    if period > 1 {
        // stride * o = -offset modulo dilation
        let wanted = (-offset / common).rem_euclid(period) * inverse(stride / common, period);
        low += (wanted - low).rem_euclid(period);
    }
    if low > high {
        return None;
    }
    let count = (high - low) / period + 1;
    Some(Span {
        position,
        first: low as i64,
        step: period as i64,
        count: count as i64,
        base: ((stride * low + offset) / dilation) as i64,
        base_step: (stride * period / dilation).min(i128::from(i64::MAX)) as i64,
    })
}

/// The spans of all positions of a window that any output of `range` sees an input through, in the
/// order of the positions.
pub fn spans(dim: &WindowDimension, input: i64, range: &Range<i64>) -> Vec<Span> {
    let mut found = Vec::new();
    if input <= 0 || dim.size <= 0 {
        return found;
    }
    let (stride, dilation) = (i128::from(dim.stride), i128::from(dim.window_dilation));
    let mut next = 0i128;
    // Later outputs look further, so they reach inputs at earlier positions.
    for output in range.clone().rev() {
        let start = i128::from(dim.padding_low) - i128::from(output) * stride;
        let end = start + i128::from(input - 1) * i128::from(dim.base_dilation);
        let low = (start + dilation - 1).div_euclid(dilation).max(next);
        let high = end.div_euclid(dilation).min(i128::from(dim.size) - 1);
        for position in low..=high {
            found.extend(span(dim, input, range, position as i64));
        }
        next = next.max(high + 1);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_what_counting_gives() {
        for (size, stride, low, window_dilation, base_dilation, input, outputs) in [
            (3, 1, 1, 1, 1, 5, 5),
            (3, 2, 1, 1, 1, 7, 4),
            (2, 1, 0, 3, 1, 9, 6),
            (3, 2, 2, 1, 3, 4, 6),
            (4, 3, 5, 2, 2, 5, 5),
            (2, 4, -2, 1, 6, 3, 3),
            (1, 7, 0, 1, 5, 6, 4),
        ] {
            let dim = WindowDimension {
                size,
                stride,
                padding_low: low,
                padding_high: 0,
                window_dilation,
                base_dilation,
                window_reversal: false,
            };
            let mut wanted = Vec::new();
            for k in 0..size {
                for o in 0..outputs {
                    let at = o * stride + k * window_dilation - low;
                    if at >= 0 && at % base_dilation == 0 && at / base_dilation < input {
                        wanted.push((k, o, at / base_dilation));
                    }
                }
            }
            let mut got = Vec::new();
            for s in spans(&dim, input, &(0..outputs)) {
                for i in 0..s.count {
                    got.push((s.position, s.first + i * s.step, s.base + i * s.base_step));
                }
            }
            assert_eq!(got, wanted, "{dim:?}");
        }
    }
}
