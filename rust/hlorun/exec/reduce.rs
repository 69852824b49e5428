//! Fused reductions.
//!
//! The walk visits every element once, in the order in which the operand lies. Accumulators are the
//! results themselves: a run of elements that belongs to one result is folded into it, a run that
//! spans several results is combined with them element by element.

use super::environment::{Environment, try_parallel};
use super::loops::Sources;
use super::program::Frame;
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::plan::elementwise::dtype;
use crate::plan::program::Program;
use crate::plan::thunk::ReduceThunk;
use crate::types::PrimitiveType;

/// Elements from which a second thread pays.
const PARALLEL_ELEMENTS: usize = 1 << 15;
/// Elements of one partial result when everything is reduced; fixed, so that results do not depend
/// on the number of threads.
const PARTIAL: usize = 1 << 16;

/// Addresses of accumulators that tasks use in disjoint parts.
#[derive(Clone)]
struct Accumulators {
    pointers: Vec<*mut u8>,
    sizes: Vec<usize>,
}
// SAFETY: each task is given results no other task touches.
unsafe impl Sync for Accumulators {}

impl Accumulators {
    fn at(&self, k: usize, index: usize) -> *mut u8 {
        // SAFETY: `index` is below the number of results.
        unsafe { self.pointers[k].add(index * self.sizes[k]) }
    }
}

/// One reduction being run.
struct Job<'t> {
    thunk: &'t ReduceThunk,
    sources: Sources<'t>,
    total: usize,
    tile: usize,
    /// See [`Sources::run_length`].
    run: usize,
    fold: Option<hlorun_kernels::Reduce>,
    combine: Option<hlorun_kernels::Binary>,
}

/// Runs a fused reduction.
pub fn run(thunk: &ReduceThunk, environment: &Environment<'_>) -> Result<()> {
    let accumulators = Accumulators {
        pointers: thunk
            .outputs
            .iter()
            .map(|o| environment.memory.first(o))
            .collect(),
        sizes: thunk
            .outputs
            .iter()
            .map(|o| o.element_type.size_bytes())
            .collect(),
    };
    let results = thunk.outputs.first().map_or(0, |o| o.count());
    let Some(wide) = wide_type(thunk) else {
        return reduce_into(thunk, environment, &accumulators, results);
    };
    // Narrow floats are accumulated in `f32` and rounded once.
    let mut bytes = AlignedBytes::uninitialized(results * wide.size_bytes())?;
    let accumulators_wide = Accumulators {
        pointers: vec![bytes.as_mut_ptr()],
        sizes: vec![wide.size_bytes()],
    };
    reduce_into(thunk, environment, &accumulators_wide, results)?;
    if let Some(narrow) = dtype(thunk.outputs[0].element_type) {
        let convert = hlorun_kernels::convert(hlorun_kernels::DType::F32, narrow);
        // SAFETY: both hold `results` elements of their types.
        unsafe { convert(bytes.as_ptr(), accumulators.at(0, 0), results) };
    }
    Ok(())
}

/// The type in which results are accumulated, where it is not their own.
fn wide_type(thunk: &ReduceThunk) -> Option<PrimitiveType> {
    let output = *thunk.program.outputs.first()?;
    let computed = thunk.program.types[output.0 as usize];
    (thunk.simple.is_some() && computed != thunk.outputs[0].element_type).then_some(computed)
}

fn reduce_into(
    thunk: &ReduceThunk,
    environment: &Environment<'_>,
    accumulators: &Accumulators,
    results: usize,
) -> Result<()> {
    let inits: Vec<*const u8> = thunk
        .inits
        .iter()
        .map(|i| environment.memory.first(i).cast_const())
        .collect();
    let wide = wide_type(thunk);
    for (k, &init) in inits.iter().enumerate() {
        let mut widened = [0u8; 16];
        let mut init = init;
        if let (Some(_), Some(narrow)) = (wide, dtype(thunk.outputs[k].element_type)) {
            let convert = hlorun_kernels::convert(narrow, hlorun_kernels::DType::F32);
            // SAFETY: an initial value is one element, `widened` has room for one.
            unsafe { convert(init, widened.as_mut_ptr(), 1) };
            init = widened.as_ptr();
        }
        // SAFETY: each accumulator has `results` elements; an initial value is one element.
        unsafe {
            hlorun_kernels::fill(accumulators.sizes[k], init, accumulators.at(k, 0), results);
        }
    }
    let total: usize = thunk.space.iter().map(|s| s.0.max(0) as usize).product();
    if total == 0 || results == 0 {
        return Ok(());
    }
    let kernels = thunk.simple.and_then(|op| {
        let ty = dtype(wide.unwrap_or(thunk.outputs[0].element_type))?;
        Some((
            hlorun_kernels::reduce(op, ty)?,
            hlorun_kernels::binary(op, ty)?,
        ))
    });
    let sources = Sources::new(&environment.memory, &thunk.program, &thunk.loads);
    let job = Job {
        thunk,
        run: sources.run_length(),
        sources,
        total,
        tile: Frame::tile_for(&thunk.program, total),
        fold: kernels.map(|k| k.0),
        combine: kernels.map(|k| k.1),
    };
    match thunk.space.as_slice() {
        [] => job.range(0..total, accumulators),
        [(size, true)] => job.partials(*size as usize, accumulators, environment),
        [(size, false), ..] => job.rows(*size as usize, accumulators, environment),
        [(outer, true), (inner, false), rest @ ..] => {
            let below: usize = rest.iter().map(|s| s.0 as usize).product();
            job.columns(
                *outer as usize,
                *inner as usize,
                below,
                accumulators,
                environment,
            )
        }
        [(_, true), (_, true), ..] => Err(HloError::execution("a reduction that was not merged")),
    }
}

impl Job<'_> {
    fn tasks(&self, environment: &Environment<'_>, most: usize) -> usize {
        if self.total < PARALLEL_ELEMENTS {
            1
        } else {
            (environment.threads * if environment.threads > 1 { 2 } else { 1 })
                .clamp(1, most.max(1))
        }
    }

    /// The outermost dimension is kept: parts of it are independent.
    fn rows(
        &self,
        size: usize,
        accumulators: &Accumulators,
        environment: &Environment<'_>,
    ) -> Result<()> {
        let tasks = self.tasks(environment, size);
        let below = self.total / size;
        try_parallel(environment, tasks, &|task| {
            let begin = size * task / tasks;
            let end = size * (task + 1) / tasks;
            self.range(begin * below..end * below, accumulators)
        })
    }

    /// The outermost dimension is reduced, the next one kept: parts of the kept one are independent.
    fn columns(
        &self,
        outer: usize,
        inner: usize,
        below: usize,
        accumulators: &Accumulators,
        environment: &Environment<'_>,
    ) -> Result<()> {
        let tasks = self.tasks(environment, (inner * below).div_ceil(256).min(inner));
        if tasks == 1 {
            return self.range(0..self.total, accumulators);
        }
        try_parallel(environment, tasks, &|task| {
            let begin = inner * task / tasks * below;
            let end = inner * (task + 1) / tasks * below;
            let mut scratch = self.scratch()?;
            for row in 0..outer {
                let at = row * inner * below;
                self.range_with(&mut scratch, at + begin..at + end, accumulators);
            }
            Ok(())
        })
    }

    /// Everything is reduced: partial results of a fixed size, combined in order.
    fn partials(
        &self,
        size: usize,
        accumulators: &Accumulators,
        environment: &Environment<'_>,
    ) -> Result<()> {
        let parts = size.div_ceil(PARTIAL);
        // A general reducer need not have a neutral element, so that its parts could start at all.
        if parts == 1 || self.fold.is_none() {
            return self.range(0..size, accumulators);
        }
        let width = accumulators.sizes[0];
        let mut bytes = AlignedBytes::uninitialized(parts * width)?;
        let partial = Accumulators {
            pointers: vec![bytes.as_mut_ptr()],
            sizes: vec![width],
        };
        let tasks = if environment.threads > 1 { parts } else { 1 };
        try_parallel(environment, tasks, &|task| {
            let all = if tasks == 1 { 0..parts } else { task..task + 1 };
            let mut scratch = self.scratch()?;
            for part in all {
                let begin = part * PARTIAL;
                let end = (begin + PARTIAL).min(size);
                let here = Accumulators {
                    pointers: vec![partial.at(0, part)],
                    sizes: vec![width],
                };
                self.first_then_range(&mut scratch, begin..end, &here);
            }
            Ok(())
        })?;
        if let Some(fold) = self.fold {
            // SAFETY: `parts` partial results were just written.
            unsafe { fold(partial.at(0, 0), parts, accumulators.at(0, 0)) };
        }
        Ok(())
    }

    fn scratch(&self) -> Result<Scratch> {
        let combiner = &self.thunk.combiner;
        Ok(Scratch {
            values: self.sources.frame(&self.thunk.program, self.tile)?,
            combiner: if self.fold.is_some() {
                None
            } else {
                Some(Frame::new(combiner, self.tile)?)
            },
        })
    }

    fn range(&self, range: std::ops::Range<usize>, accumulators: &Accumulators) -> Result<()> {
        let mut scratch = self.scratch()?;
        self.range_with(&mut scratch, range, accumulators);
        Ok(())
    }

    /// Starts an accumulator with the first element instead of the initial value.
    fn first_then_range(
        &self,
        scratch: &mut Scratch,
        range: std::ops::Range<usize>,
        accumulator: &Accumulators,
    ) {
        let frame = &mut scratch.values;
        let program = &self.thunk.program;
        self.sources.fill(program, frame, range.start, 1);
        // SAFETY: one element of every input was filled; the accumulator holds one element.
        unsafe {
            frame.run(program, 1);
            let value = frame.pointer(program.outputs[0]);
            std::ptr::copy_nonoverlapping(value, accumulator.at(0, 0), accumulator.sizes[0]);
        }
        self.range_with(scratch, range.start + 1..range.end, accumulator);
    }

    fn range_with(
        &self,
        scratch: &mut Scratch,
        range: std::ops::Range<usize>,
        accumulators: &Accumulators,
    ) {
        let program = &self.thunk.program;
        let mut start = range.start;
        while start < range.end {
            // Tiles end at the same places however the work is divided, so that sums are formed in
            // the same order for every number of threads.
            let n = (self.tile - start % self.tile)
                .min(super::walk::rest_of_run(self.run, start))
                .min(range.end - start);
            self.sources.fill(program, &mut scratch.values, start, n);
            // SAFETY: every input holds `n` elements.
            unsafe { scratch.values.run(program, n) };
            self.accumulate(scratch, start, n, accumulators);
            start += n;
        }
    }

    /// Folds `n` computed values, the first of which is element `start` of the walk.
    fn accumulate(
        &self,
        scratch: &mut Scratch,
        start: usize,
        n: usize,
        accumulators: &Accumulators,
    ) {
        let space = &self.thunk.space;
        let Some(&(inner, inner_reduced)) = space.last() else {
            return self.fold_run(scratch, 0, 1, 0, accumulators);
        };
        let inner = inner as usize;
        let mut done = 0;
        while done < n {
            let position = start + done;
            let within = position % inner;
            let count = (inner - within).min(n - done);
            let mut outer = position / inner;
            let mut step = if inner_reduced { 1 } else { inner };
            let mut index = if inner_reduced { 0 } else { within };
            for &(size, reduced) in space[..space.len() - 1].iter().rev() {
                let size = size as usize;
                if !reduced {
                    index += outer % size * step;
                    step *= size;
                }
                outer /= size;
            }
            if inner_reduced {
                self.fold_run(scratch, done, count, index, accumulators);
            } else {
                self.combine_run(scratch, done, count, index, accumulators);
            }
            done += count;
        }
    }

    /// Folds values `from..from + count` into result `index`.
    fn fold_run(
        &self,
        scratch: &mut Scratch,
        from: usize,
        count: usize,
        index: usize,
        accumulators: &Accumulators,
    ) {
        if let Some(fold) = self.fold {
            let values = scratch.values.pointer(self.thunk.program.outputs[0]);
            // SAFETY: the tile holds the values, the accumulator is one element.
            unsafe {
                fold(
                    values.add(from * accumulators.sizes[0]),
                    count,
                    accumulators.at(0, index),
                )
            };
            return;
        }
        for i in 0..count {
            self.step(scratch, from + i, 1, index, accumulators);
        }
    }

    /// Combines values `from..from + count` with results `index..index + count`.
    fn combine_run(
        &self,
        scratch: &mut Scratch,
        from: usize,
        count: usize,
        index: usize,
        accumulators: &Accumulators,
    ) {
        if let Some(combine) = self.combine {
            let values = scratch.values.pointer(self.thunk.program.outputs[0]);
            let accumulator = accumulators.at(0, index);
            // SAFETY: both hold `count` elements; kernels may write onto an operand.
            unsafe {
                combine(
                    accumulator,
                    values.add(from * accumulators.sizes[0]),
                    accumulator,
                    count,
                );
            }
            return;
        }
        self.step(scratch, from, count, index, accumulators);
    }

    /// Runs the reducer on `count` lanes.
    fn step(
        &self,
        scratch: &mut Scratch,
        from: usize,
        count: usize,
        index: usize,
        accumulators: &Accumulators,
    ) {
        let combiner: &Program = &self.thunk.combiner;
        let Some(frame) = scratch.combiner.as_mut() else {
            return;
        };
        let operands = self.thunk.program.outputs.len();
        for k in 0..operands {
            frame.bind(combiner.inputs[k], accumulators.at(k, index));
            let output = self.thunk.program.outputs[k];
            let size = self.thunk.program.types[output.0 as usize].size_bytes();
            // SAFETY: the tile holds `from + count` values.
            let values = unsafe { scratch.values.pointer(output).add(from * size) };
            frame.bind(combiner.inputs[operands + k], values);
        }
        // SAFETY: all inputs hold `count` elements; results lie in the frame's own memory, since the
        // plan never lets a reducer's output be one of its inputs.
        unsafe {
            frame.run(combiner, count);
            for k in 0..operands {
                std::ptr::copy_nonoverlapping(
                    frame.pointer(combiner.outputs[k]),
                    accumulators.at(k, index),
                    count * accumulators.sizes[k],
                );
            }
        }
    }
}

struct Scratch {
    values: Frame,
    combiner: Option<Frame>,
}
