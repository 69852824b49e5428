//! Windows: which outputs see an element of the input at a given position of the window.
//!
//! In: the window along one dimension. Out: [`Span`]s, arithmetic progressions of outputs and of
//! the inputs they see. Promise: work and memory are bounded by outputs times inputs, however far
//! the text's numbers reach beyond them.

use std::ops::Range;

use crate::buffers::push;
use crate::error::Result;
use crate::exec::parallel::OpEnvironment;
use crate::module::attributes::WindowDimension;
use crate::plan::cost::convolution::CHECKED_POSITIONS;

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
    let (start, end) = (i128::from(range.start), i128::from(range.end - 1));
    if (stride, dilation) == (1, 1) {
        // The general case, without its divisions, which are slow.
        let (low, high) = (start.max(-offset), end.min(last - offset));
        return (low <= high).then(|| Span {
            position,
            first: low as i64,
            step: 1,
            count: (high - low) as i64 + 1,
            base: (low + offset) as i64,
            base_step: 1,
        });
    }
    let mut low = start.max((-offset + stride - 1).div_euclid(stride));
    let high = end.min((last - offset).div_euclid(stride));
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

/// The spans of all positions of a window that any output of `range` sees an input through, in the order of the positions.
///
/// The search for them looks at no more positions than there are pairs of outputs and inputs, and ends when the run is to
/// end. Errors: out of memory.
pub fn spans(
    dim: &WindowDimension,
    input: i64,
    range: &Range<i64>,
    environment: &OpEnvironment<'_>,
) -> Result<Vec<Span>> {
    let mut found = Vec::new();
    if input <= 0 || dim.size <= 0 || range.is_empty() {
        return Ok(found);
    }
    let Some((first, step)) = candidates(dim) else {
        return Ok(found);
    };
    let dilation = i128::from(dim.window_dilation);
    let stride = i128::from(dim.stride);
    let low = i128::from(dim.padding_low);
    // Positions below `begin` lie before what the last output sees, those from `end` on behind what the first one sees.
    let begin = low - i128::from(range.end - 1) * stride;
    let end = low - i128::from(range.start) * stride
        + i128::from(input - 1) * i128::from(dim.base_dilation);
    let end = (end.div_euclid(dilation) + 1).clamp(0, i128::from(dim.size));
    let begin = (begin + dilation - 1).div_euclid(dilation).clamp(0, end);
    let begin = begin + (first - begin).rem_euclid(step);
    let mut looked = 0;
    let mut look = |position: i64| {
        looked += 1;
        if looked % CHECKED_POSITIONS == 0 {
            environment.check();
        }
        match span(dim, input, range, position) {
            Some(span) => push(&mut found, span),
            None => Ok(()),
        }
    };
    let pairs = i128::from(range.end - range.start) * i128::from(input);
    if (end - begin + step - 1) / step <= pairs {
        let mut position = begin;
        while position < end {
            look(position as i64)?;
            position += step;
        }
    } else {
        // Few pairs in a wide window: each pair is looked at instead.
        for position in seen_by_each(dim, input, range, environment)? {
            look(position)?;
        }
    }
    Ok(found)
}

/// The first position, and the distance of all, at which some output could see some input if there were enough of both;
/// `None` if none.
fn candidates(dim: &WindowDimension) -> Option<(i128, i128)> {
    // stride * o + window_dilation * position = low modulo base_dilation
    let common = gcd(i128::from(dim.stride), i128::from(dim.base_dilation));
    solution(dim.window_dilation.into(), dim.padding_low.into(), common)
}

/// The least `x`, not negative, with `a * x = b` modulo `m`, and how far solutions are apart; `None` if there is none.
fn solution(a: i128, b: i128, m: i128) -> Option<(i128, i128)> {
    let common = gcd(a, m);
    let period = m / common;
    let first = (b / common).rem_euclid(period) * inverse(a / common, period);
    (b.rem_euclid(common) == 0).then(|| (first.rem_euclid(period), period))
}

/// The positions that outputs of `range` see inputs through, found output by output and then put in order.
fn seen_by_each(
    dim: &WindowDimension,
    input: i64,
    range: &Range<i64>,
    environment: &OpEnvironment<'_>,
) -> Result<Vec<i64>> {
    let (step, dilation) = (
        i128::from(dim.base_dilation),
        i128::from(dim.window_dilation),
    );
    let mut positions = Vec::new();
    for (outputs, output) in range.clone().enumerate() {
        if outputs % CHECKED_POSITIONS as usize == 0 {
            environment.check();
        }
        // Input i lies at position (step * i + start) / window_dilation.
        let start = i128::from(dim.padding_low) - i128::from(output) * i128::from(dim.stride);
        let Some((first, period)) = solution(step, -start, dilation) else {
            continue;
        };
        let last = i128::from(dim.size - 1) * dilation;
        let least = (-start + step - 1).div_euclid(step).max(0);
        let most = (last - start).div_euclid(step).min(i128::from(input - 1));
        let mut at = least + (first - least).rem_euclid(period);
        while at <= most {
            push(&mut positions, ((step * at + start) / dilation) as i64)?;
            at += period;
            if positions.len() % CHECKED_POSITIONS as usize == 0 {
                environment.check();
            }
        }
    }
    positions.sort_unstable();
    positions.dedup();
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans_of(dim: &WindowDimension, input: i64, outputs: i64) -> Vec<Span> {
        let environment = OpEnvironment {
            parallel: &|count, task| (0..count).for_each(task),
            threads: 1,
        };
        spans(dim, input, &(0..outputs), &environment).unwrap()
    }

    /// A window with holes between the elements it sees, which are far more than the elements.
    #[test]
    fn holes_are_not_looked_at() {
        let far = 1 << 50;
        for (stride, window_dilation, base_dilation) in [
            (far, 1, far),
            (2 * far, 1, far),
            (1, 1, far),
            (far, 3, 5 * far),
            (far + 1, 1, far),
            (7, 5, far + 3),
            (1, 1, 1),
            (1, far, 1),
        ] {
            let dim = WindowDimension {
                size: 4 * far,
                stride,
                padding_low: 2,
                padding_high: 0,
                window_dilation,
                base_dilation,
                window_reversal: false,
            };
            let (inputs, outputs) = (4, 3);
            let pairs = (0..outputs).flat_map(|o| (0..inputs).map(move |i| (o, i)));
            let sees = |&(o, i): &(i64, i64)| {
                let at = i128::from(i) * i128::from(base_dilation) + 2
                    - i128::from(o) * i128::from(stride);
                let position = at.div_euclid(window_dilation.into());
                at.rem_euclid(window_dilation.into()) == 0
                    && (0..i128::from(dim.size)).contains(&position)
            };
            let wanted = pairs.filter(sees).count() as i64;
            let found = spans_of(&dim, inputs, outputs);
            let pairs: i64 = found.iter().map(|span| span.count).sum();
            assert_eq!(pairs, wanted, "{dim:?} {found:?}");
        }
    }

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
            for s in spans_of(&dim, input, outputs) {
                for i in 0..s.count {
                    got.push((s.position, s.first + i * s.step, s.base + i * s.base_step));
                }
            }
            assert_eq!(got, wanted, "{dim:?}");
        }
    }
}
