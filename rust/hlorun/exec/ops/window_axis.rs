//! The positions of a window along one dimension that see inputs, found by position or by output.
//!
//! Promise: memory is bounded by those positions, not by the window; it is asked for fallibly, and the search for them
//! ends when the run is to end.

use crate::buffers::with_room;
use crate::error::Result;
use crate::exec::parallel::OpEnvironment;
use crate::module::attributes::WindowDimension;

use super::window::{Span, spans};

/// A window along one dimension.
pub struct WindowAxis {
    /// Positions of the window.
    pub width: usize,
    /// How far outputs are apart that see inputs at a position: the same at all of them.
    pub step: i64,
    /// The positions that see inputs, in order.
    seen: Vec<Span>,
    /// The same, ordered by the first output modulo the step and then by position; empty where the step is 1.
    by_residue: Vec<Span>,
}

impl WindowAxis {
    /// The axis of `window` over `input` inputs, for `outputs` outputs.
    pub fn new(
        window: &WindowDimension,
        input: i64,
        outputs: i64,
        environment: &OpEnvironment<'_>,
    ) -> Result<WindowAxis> {
        let seen = spans(window, input, &(0..outputs), environment)?;
        let step = seen.first().map_or(1, |span: &Span| span.step);
        let mut by_residue = Vec::new();
        if step > 1 {
            by_residue = with_room(seen.len())?;
            by_residue.extend_from_slice(&seen);
            by_residue.sort_unstable_by_key(|span| (span.first % step, span.position));
        }
        Ok(WindowAxis {
            width: window.size as usize,
            step,
            seen,
            by_residue,
        })
    }

    /// That of one position, which the only output sees the only input through.
    pub fn single() -> WindowAxis {
        WindowAxis {
            width: 1,
            step: 1,
            seen: vec![Span {
                position: 0,
                first: 0,
                step: 1,
                count: 1,
                base: 0,
                base_step: 1,
            }],
            by_residue: Vec::new(),
        }
    }

    /// The positions that see inputs, in order.
    pub fn seen(&self) -> &[Span] {
        &self.seen
    }

    /// The span of a position, if it sees inputs.
    pub fn at(&self, position: usize) -> Option<&Span> {
        let position = position as i64;
        // Most often all positions from the first on see inputs.
        let near = usize::try_from(position - self.seen.first()?.position).ok()?;
        let near = self.seen.get(near);
        near.filter(|span| span.position == position).or_else(|| {
            let found = self.seen.binary_search_by_key(&position, |s| s.position);
            found.ok().map(|at| &self.seen[at])
        })
    }

    /// The positions, in order, that outputs `residue` modulo the step see inputs through. First and last outputs fall
    /// from each to the next.
    pub fn of_residue(&self, residue: i64) -> &[Span] {
        if self.step == 1 {
            return &self.seen;
        }
        let all = &self.by_residue;
        let of = |span: &Span| span.first % self.step;
        let begin = all.partition_point(|span| of(span) < residue);
        let end = all.partition_point(|span| of(span) <= residue);
        &all[begin..end]
    }

    /// The positions, in order, that output `output` sees inputs through.
    pub fn of_output(&self, output: i64) -> &[Span] {
        let all = self.of_residue(output % self.step);
        let begin = all.partition_point(|span| span.first > output);
        let end = all.partition_point(|span| span.first + (span.count - 1) * span.step >= output);
        &all[begin..end.max(begin)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::span;
    use super::*;

    /// Compares with a search over all positions.
    fn check(window: WindowDimension, input: i64, outputs: i64) {
        let environment = OpEnvironment {
            parallel: &|count, task| (0..count).for_each(task),
            threads: 1,
        };
        let axis = WindowAxis::new(&window, input, outputs, &environment).unwrap();
        let spans: Vec<Option<Span>> = (0..window.size)
            .map(|k| span(&window, input, &(0..outputs), k))
            .collect();
        for (k, span) in spans.iter().enumerate() {
            assert_eq!(axis.at(k), span.as_ref(), "{window:?} {input} {outputs}");
        }
        for output in 0..outputs {
            let sees = |span: &&Span| span.input(output).is_some();
            let wanted: Vec<Span> = spans.iter().flatten().filter(sees).copied().collect();
            let got = axis.of_output(output);
            assert_eq!(got, wanted, "{window:?} {input} {outputs} {output}");
        }
    }

    #[test]
    fn positions_are_those_of_a_search() {
        for (stride, window_dilation, base_dilation) in [
            (1, 1, 1),
            (2, 1, 1),
            (1, 3, 1),
            (1, 1, 3),
            (2, 3, 4),
            (3, 2, 6),
            (4, 6, 2),
            (5, 1, 7),
            (1 << 40, 3, 5),
            (3, i64::MAX, 1 << 62),
        ] {
            for padding_low in [0, 1, 4, -3, 17, i64::MAX, i64::MIN] {
                for (size, input, outputs) in [(1, 1, 1), (3, 5, 9), (9, 3, 20), (30, 4, 6)] {
                    let window = WindowDimension {
                        size,
                        stride,
                        padding_low,
                        padding_high: 0,
                        window_dilation,
                        base_dilation,
                        window_reversal: false,
                    };
                    check(window, input, outputs);
                }
            }
        }
    }
}
