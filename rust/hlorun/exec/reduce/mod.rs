//! Fused reductions.
//!
//! The walk visits every element once, in the order in which the operand lies. Accumulators are the
//! results themselves, or partial results of stretches of a fixed size, combined in order: so sums
//! are formed in the same order for every number of threads. How a tile is folded is [`fold`]'s.

mod columns;
pub(crate) mod fold;
pub(crate) mod job;
mod moves;

use super::element::rows;
use super::element::sources::Sources;
use super::element::walk::rest_of_run;
use super::environment::{Environment, PreparedThunk, try_parallel};
use super::memory::Memory;
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::plan::cost::reduce::{
    CHECKED_VALUES, COLUMN_BYTES, COLUMN_PARTIAL, FEW_ROWS, FOLD_WORK, GENERAL_WORK,
    MAX_COLUMN_PARTIALS, MIN_COLUMN_ROWS, PARALLEL_ELEMENTS, PARALLEL_WORK, PARTIAL,
};
use crate::plan::element::elementwise::dtype;
use crate::plan::schedule::fold_shape::Shape;
use crate::plan::schedule::tiles;
use crate::plan::thunk::{FoldWay, ReduceThunk};
use crate::types::PrimitiveType;
use columns::Columns;
use fold::Tile;
use job::{Accumulators, Job, Operand};
use smallvec::smallvec;
use std::cell::RefCell;

/// Room for accumulators.
struct Partials {
    all: Accumulators,
    _bytes: Vec<AlignedBytes>,
}

impl Partials {
    fn new(sizes: &[usize], count: usize) -> Result<Partials> {
        let mut bytes = sizes
            .iter()
            .map(|size| AlignedBytes::uninitialized(size * count))
            .collect::<Result<Vec<_>>>()?;
        Ok(Partials {
            all: Accumulators {
                pointers: bytes.iter_mut().map(AlignedBytes::as_mut_ptr).collect(),
                sizes: sizes.into(),
            },
            _bytes: bytes,
        })
    }
}

/// Where the results of a reduction gather: in memory of their own where narrow floats are accumulated in `f32` and rounded
/// once.
struct Results {
    /// The results themselves.
    own: Accumulators,
    wide: Option<(Accumulators, AlignedBytes)>,
    count: usize,
}

impl Results {
    fn new(thunk: &ReduceThunk, memory: &Memory) -> Result<Results> {
        let outputs = thunk.outputs.iter();
        let own = Accumulators {
            pointers: outputs.clone().map(|o| memory.first(o)).collect(),
            sizes: outputs.map(|o| o.element_type.size_bytes()).collect(),
        };
        let count = thunk.outputs.first().map_or(0, |o| o.count());
        let wide = wide_type(thunk).map(|wide| {
            let mut bytes = AlignedBytes::uninitialized(count * wide.size_bytes())?;
            let accumulators = Accumulators {
                pointers: smallvec![bytes.as_mut_ptr()],
                sizes: smallvec![wide.size_bytes()],
            };
            Ok::<_, HloError>((accumulators, bytes))
        });
        Ok(Results {
            own,
            wide: wide.transpose()?,
            count,
        })
    }

    fn accumulators(&self) -> &Accumulators {
        match &self.wide {
            Some((accumulators, _)) => accumulators,
            None => &self.own,
        }
    }

    /// Rounds what was accumulated elsewhere.
    fn round(&self, thunk: &ReduceThunk) {
        if let (Some((from, _)), Some(narrow)) = (&self.wide, dtype(thunk.outputs[0].element_type))
        {
            let convert = hlorun_kernels::convert(hlorun_kernels::DType::F32, narrow);
            // SAFETY: both hold `count` elements of their types.
            unsafe { convert(from.at(0, 0), self.own.at(0, 0), self.count) };
        }
    }
}

/// Whether one thread reduces so many elements.
fn are_few(total: usize) -> bool {
    total < PARALLEL_ELEMENTS
}

/// The work of a reduction, as [`PARALLEL_WORK`] counts it.
fn work(thunk: &ReduceThunk) -> usize {
    let fold = match thunk.way {
        FoldWay::Kernels(_) => FOLD_WORK,
        FoldWay::Lanes | FoldWay::OneByOne => GENERAL_WORK.saturating_mul(thunk.combiner.work),
    };
    let each = thunk.program.work.saturating_add(fold);
    thunk.count().saturating_mul(each)
}

/// Whether one thread of so many does it all. Few elements that take long are shared out where that changes no bits: where
/// the outermost dimension is kept.
fn is_one_task(thunk: &ReduceThunk, threads: usize) -> bool {
    let takes_long = || {
        threads > 1
            && matches!(thunk.space.first(), Some((_, false)))
            && work(thunk) >= PARALLEL_WORK
    };
    are_few(thunk.count()) && !takes_long()
}

/// A fused reduction with all done that its runs share; `None` where it has no elements, several threads run it, results
/// change their places, or preparing fails.
pub fn prepare<'t>(
    thunk: &'t ReduceThunk,
    environment: &Environment<'_>,
) -> Option<PreparedThunk<'t>> {
    let total = thunk.count();
    let stay = thunk.outputs.iter().all(|output| output.dynamic.is_empty());
    if total == 0 || !is_one_task(thunk, environment.threads) || !stay {
        return None;
    }
    let results = Results::new(thunk, &environment.memory).ok()?;
    let job = Job::new(thunk, &environment.memory, total).ok()?;
    let tile = job.tile().ok()?;
    let state = RefCell::new((job, tile));
    Some(Box::new(move |environment| {
        let (job, tile) = &mut *state.borrow_mut();
        let accumulators = results.accumulators();
        start(thunk, &environment.memory, accumulators, 0, results.count);
        job.sources.locate(&environment.memory);
        job.sources.refresh(&mut tile.values);
        tile.forget();
        job.range_with(tile, 0..total, accumulators);
        results.round(thunk);
        Ok(())
    }))
}

/// Runs a fused reduction.
pub fn run(thunk: &ReduceThunk, environment: &Environment<'_>) -> Result<()> {
    let results = Results::new(thunk, &environment.memory)?;
    reduce_into(thunk, environment, results.accumulators(), results.count)?;
    results.round(thunk);
    Ok(())
}

/// The type in which results are accumulated, where it is not their own.
pub(crate) fn wide_type(thunk: &ReduceThunk) -> Option<PrimitiveType> {
    let output = *thunk.program.outputs.first()?;
    let computed = thunk.program.types[output.0 as usize];
    (matches!(thunk.way, FoldWay::Kernels(_)) && computed != thunk.outputs[0].element_type)
        .then_some(computed)
}

fn reduce_into(
    thunk: &ReduceThunk,
    environment: &Environment<'_>,
    accumulators: &Accumulators,
    results: usize,
) -> Result<()> {
    start(thunk, &environment.memory, accumulators, 0, results);
    let total = thunk.count();
    if total == 0 || results == 0 {
        return Ok(());
    }
    let mut job = Job::new(thunk, &environment.memory, total)?;
    if is_one_task(thunk, environment.threads) {
        return job.range(0..total, accumulators);
    }
    job.run_of = Some(environment);
    match thunk.space.as_slice() {
        [] => job.range(0..total, accumulators),
        [(size, true)] => job.partials(1, *size as usize, accumulators, environment),
        [(rows, false), (size, true)]
            if (*rows as usize) < FEW_ROWS && *size as usize >= 2 * PARTIAL =>
        {
            job.partials(*rows as usize, *size as usize, accumulators, environment)
        }
        [(size, false), ..] => job.rows(*size as usize, accumulators, environment),
        [(outer, true), (inner, false), rest @ ..] => {
            let below: usize = rest.iter().map(|s| s.0 as usize).product();
            let (outer, inner) = (*outer as usize, *inner as usize);
            let parts = (total / COLUMN_PARTIAL)
                .min(outer / MIN_COLUMN_ROWS)
                .min(MAX_COLUMN_PARTIALS);
            match job.identity {
                Some(identity) if parts > 1 => {
                    let sizes = (outer, inner, below);
                    job.column_partials(sizes, parts, identity, accumulators, environment)
                }
                _ => job.columns(outer, inner, below, accumulators, environment),
            }
        }
        [(_, true), (_, true), ..] => Err(HloError::execution("a reduction that was not merged")),
    }
}

/// Puts the initial values into `count` results from `first` on.
pub(crate) fn start(
    thunk: &ReduceThunk,
    memory: &Memory,
    accumulators: &Accumulators,
    first: usize,
    count: usize,
) {
    let wide = wide_type(thunk);
    for (k, init) in thunk.inits.iter().enumerate() {
        let mut init = memory.first(init).cast_const();
        let mut widened = 0f32;
        if let (Some(_), Some(narrow)) = (wide, dtype(thunk.outputs[k].element_type)) {
            let convert = hlorun_kernels::convert(narrow, hlorun_kernels::DType::F32);
            let out = (&raw mut widened).cast::<u8>();
            // SAFETY: an initial value is one element, `widened` has room for one.
            unsafe { convert(init, out, 1) };
            init = out;
        }
        let to = accumulators.at(k, first);
        // SAFETY: there are more than `first + count` accumulators; an initial value is one element.
        unsafe { hlorun_kernels::fill(accumulators.sizes[k], init, to, count) };
    }
}

impl<'t> Job<'t> {
    pub(crate) fn new(thunk: &'t ReduceThunk, memory: &Memory, total: usize) -> Result<Job<'t>> {
        let ty = wide_type(thunk).or_else(|| thunk.outputs.first().map(|o| o.element_type));
        let kernels = match (thunk.way, ty.and_then(dtype)) {
            (FoldWay::Kernels(op), Some(ty)) => hlorun_kernels::reduce(op, ty)
                .zip(hlorun_kernels::binary(op, ty))
                .map(|(fold, combine)| job::Kernels {
                    fold,
                    combine,
                    identity: hlorun_kernels::reduce_identity(op, ty),
                    fold_rows: hlorun_kernels::fold_rows(op, ty),
                    halve_rows: hlorun_kernels::halve_rows(op, ty),
                }),
            _ => None,
        };
        let sources = Sources::new(memory, &thunk.program, &thunk.loads)?;
        let widest = tiles::widest(thunk, total);
        let shape = Shape::of(thunk, widest);
        let (tile, run) = match shape {
            // A tile has whole runs, and so does what a task takes: each run is folded as a whole. An input whose rows are
            // runs is read where it lies, run by run.
            Shape::FewColumns { run, .. } | Shape::FewGroups { run, .. }
                if run <= widest && sources.limit(0) != run =>
            {
                (widest / run * run, usize::MAX)
            }
            Shape::ShortRows { size, run }
            | Shape::FewColumns { size, run }
            | Shape::FewGroups { size, run, .. } => (widest / size * size, run),
            Shape::Plain => (widest, usize::MAX),
        };
        Ok(Job {
            thunk,
            sources,
            total,
            tile,
            run,
            shape,
            operands: Operand::all(thunk),
            choosing: job::Choosing::of(thunk),
            fold: kernels.map(|k| k.fold),
            combine: kernels.map(|k| k.combine),
            identity: kernels.and_then(|k| k.identity),
            fold_rows: kernels.and_then(|k| k.fold_rows),
            halve_rows: kernels.and_then(|k| k.halve_rows),
            rows: thunk.rows.as_deref(),
            columns: Columns::of(thunk),
            run_of: None,
        })
    }

    /// Finds the inputs that lie in a row tile's scratch where they are now.
    pub(crate) fn rebase(&mut self, memory: &Memory) {
        self.sources.rebase(memory);
    }

    fn tasks(&self, environment: &Environment<'_>, most: usize) -> usize {
        if is_one_task(self.thunk, environment.threads) {
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
        let most = match self.shape {
            Shape::FewColumns { .. } if below == 1 => 1,
            _ => (inner * below).div_ceil(256).min(inner),
        };
        let tasks = self.tasks(environment, most);
        try_parallel(environment, tasks, &|task| {
            let mut tile = self.tile()?;
            let columns = inner * task / tasks..inner * (task + 1) / tasks;
            self.column_blocks(&mut tile, 0..outer, columns, (inner, below), accumulators);
            Ok(())
        })
    }

    /// Rows of some of `inner` columns of `below` elements each, a block of columns after the other.
    fn column_blocks(
        &self,
        tile: &mut Tile,
        rows: std::ops::Range<usize>,
        columns: std::ops::Range<usize>,
        (inner, below): (usize, usize),
        accumulators: &Accumulators,
    ) {
        let is_few =
            are_few(self.total) || matches!(self.shape, Shape::FewColumns { .. }) && below == 1;
        let block = match is_few {
            true => inner,
            false => {
                let bytes: usize = accumulators.sizes.iter().sum();
                (COLUMN_BYTES / (bytes * below)).max(1)
            }
        };
        let row = inner * below;
        if block >= inner && columns == (0..inner) {
            return self.range_with(tile, rows.start * row..rows.end * row, accumulators);
        }
        for begin in columns.clone().step_by(block) {
            let end = (begin + block).min(columns.end);
            for at in rows.clone() {
                let part = at * row + begin * below..at * row + end * below;
                let ahead = (at + 1 < rows.end).then_some(row);
                self.range_ahead(tile, part, ahead, accumulators);
            }
        }
    }

    /// The outermost dimension is reduced and long: partial results of stretches of it.
    fn column_partials(
        &self,
        (outer, inner, below): (usize, usize, usize),
        parts: usize,
        identity: [u8; 16],
        accumulators: &Accumulators,
        environment: &Environment<'_>,
    ) -> Result<()> {
        let results = self.thunk.outputs.first().map_or(0, |o| o.count());
        let partials = Partials::new(&accumulators.sizes, parts * results)?;
        let size = accumulators.sizes[0];
        try_parallel(environment, parts, &|part| {
            let here = partials.all.renumbered(part * results, 0);
            // SAFETY: each part has `results` accumulators of its own.
            unsafe { hlorun_kernels::fill(size, identity.as_ptr(), here.at(0, 0), results) };
            let rows = outer * part / parts..outer * (part + 1) / parts;
            let mut tile = self.tile()?;
            self.column_blocks(&mut tile, rows, 0..inner, (inner, below), &here);
            Ok(())
        })?;
        if let Some(combine) = self.combine {
            for part in 0..parts {
                let to = accumulators.at(0, 0);
                // SAFETY: both hold `results` accumulators; kernels may write onto an operand.
                unsafe { combine(to, partials.all.at(0, part * results), to, results) };
            }
        }
        Ok(())
    }

    /// Rows that are reduced as a whole: partial results of a fixed size, combined in order.
    fn partials(
        &self,
        rows: usize,
        size: usize,
        accumulators: &Accumulators,
        environment: &Environment<'_>,
    ) -> Result<()> {
        let parts = size.div_ceil(PARTIAL);
        if parts == 1 || self.thunk.way == FoldWay::OneByOne {
            return self.range(0..rows * size, accumulators);
        }
        let partials = Partials::new(&accumulators.sizes, rows * parts)?;
        let all = rows * parts;
        let tasks = (environment.threads * 4).min(all).max(1);
        try_parallel(environment, tasks, &|task| {
            let mut tile = self.tile()?;
            for at in all * task / tasks..all * (task + 1) / tasks {
                let (row, part) = (at / parts, at % parts);
                let begin = row * size + part * PARTIAL;
                let end = (begin + PARTIAL).min((row + 1) * size);
                let here = partials.all.renumbered(at, row);
                self.first_then_range(&mut tile, begin..end, row, &here);
            }
            Ok(())
        })?;
        let mut tile = self.tile()?;
        for row in 0..rows {
            tile.fold_partials(self, &partials.all, row * parts, parts, row, accumulators);
        }
        Ok(())
    }

    pub(crate) fn tile(&self) -> Result<Tile> {
        let frame = self.sources.frame(&self.thunk.program, self.tile)?;
        Tile::new(self, frame, self.tile)
    }

    fn range(&self, range: std::ops::Range<usize>, accumulators: &Accumulators) -> Result<()> {
        let mut tile = self.tile()?;
        self.range_with(&mut tile, range, accumulators);
        Ok(())
    }

    /// Starts accumulator `index` with the first element instead of the initial value.
    fn first_then_range(
        &self,
        tile: &mut Tile,
        range: std::ops::Range<usize>,
        index: usize,
        accumulators: &Accumulators,
    ) {
        let program = &self.thunk.program;
        let frame = &mut tile.values;
        self.sources.fill(frame, range.start, 1);
        // SAFETY: one element of every input was filled; accumulators hold one element.
        unsafe {
            frame.run(program, 1);
            for (k, &output) in program.outputs.iter().enumerate() {
                let value = frame.pointer(output);
                std::ptr::copy_nonoverlapping(
                    value,
                    accumulators.at(k, index),
                    accumulators.sizes[k],
                );
            }
        }
        self.range_with(tile, range.start + 1..range.end, accumulators);
    }

    pub(crate) fn range_with(
        &self,
        tile: &mut Tile,
        range: std::ops::Range<usize>,
        accumulators: &Accumulators,
    ) {
        self.range_ahead(tile, range, None, accumulators);
    }

    /// The same, where what is read next lies `ahead` of what is read.
    fn range_ahead(
        &self,
        tile: &mut Tile,
        range: std::ops::Range<usize>,
        ahead: Option<usize>,
        accumulators: &Accumulators,
    ) {
        if let (Some(columns), Some(scratch)) = (&self.columns, &mut tile.columns)
            && columns.has_whole(&range)
        {
            let result = |index| accumulators.at(0, index);
            return columns.fold(&self.sources, range, &result, scratch);
        }
        let mut start = range.start;
        while start < range.end {
            // Tiles end at the same places however the work is divided, so that sums are formed in
            // the same order for every number of threads.
            let limit = match self.shape {
                Shape::Plain => self.sources.limit(start),
                _ => rest_of_run(self.run, start),
            };
            let n = (self.tile - start % self.tile)
                .min(limit)
                .min(range.end - start);
            if let Some(ahead) = ahead {
                self.sources.expect(start + ahead, n);
            }
            self.values(tile, start, n);
            tile.accumulate(self, start, n, accumulators);
            start += n;
            tile.unasked += n;
            if tile.unasked >= CHECKED_VALUES {
                tile.unasked = 0;
                self.run_of.iter().for_each(|run| run.operation().check());
            }
        }
    }

    /// Computes elements `start..start + n` of the walk into the outputs of the tile.
    fn values(&self, tile: &mut Tile, start: usize, n: usize) {
        let (program, values) = (&self.thunk.program, &mut tile.values);
        let Some((rows, frame)) = self.rows.zip(tile.rows.as_mut()).filter(|(rows, _)| {
            // Tiles are whole rows where the plan has such code; see [`crate::plan::schedule::row_loops`].
            start.is_multiple_of(rows.row) && n.is_multiple_of(rows.row)
        }) else {
            self.sources.fill(values, start, n);
            // SAFETY: every input holds `n` elements.
            return unsafe { values.run(program, n) };
        };
        let place = |result: usize, first: usize| {
            let output = program.outputs[result];
            let size = program.types[output.0 as usize].size_bytes();
            let to = values.pointer(output).wrapping_add((first - start) * size);
            (to, size)
        };
        // SAFETY: the elements are whole rows; a tile has room for `n` elements of each output, and no input lies in it.
        unsafe { rows::range(rows, &self.sources, place, frame, start..start + n) };
    }
}
