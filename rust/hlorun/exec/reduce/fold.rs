//! Folds a tile of computed values into accumulators.
//!
//! In: values in the order of the walk. Out: accumulators combined with them. A run of values that belongs to one result is
//! folded into it, a run that spans several results is combined with them element by element. Short rows are folded by a
//! kernel of their own, or transposed, so that neighbouring results are lanes; few columns are folded onto themselves, by a
//! general reducer each row with the next one. A general reducer runs on lanes, each of which takes a stretch of the run,
//! and lanes are combined in the order of their stretches: it has to be associative, as HLO demands, but need not be
//! commutative. One that chooses among pairs by a total order takes those of a row in any order, and those of few columns
//! row by row; rows for which that matters, as they come out as NaN or zeros of both signs, are folded again in order.

use super::columns::Columns;
use super::job::{Accumulators, Choosing, Job, Run, writes_in_place};
use super::moves::{Stretches, halve_by, part_pairs, part_rows};
use crate::error::Result;
use crate::exec::element::program::Frame;
use crate::exec::element::rows;
use crate::plan::cost::reduce::{MAX_LANES, MIN_LANE_RUN};
use crate::plan::element::program::{Program, Register};
use crate::plan::schedule::fold_shape::Shape;
use crate::plan::schedule::scalar_bytecode::folds::result_of;
use crate::plan::thunk::FoldWay;
use hlorun_kernels::Scratch;
use hlorun_kernels::choice::MIN_ROW;
use smallvec::SmallVec;

/// What one thread needs to compute and fold tiles.
pub(crate) struct Tile {
    /// Runs the program that computes the values.
    pub(crate) values: Frame,
    /// Runs the reducer where it has no kernels of its own.
    combiner: Option<Frame>,
    /// Whether the reducer may write its results over its left operands.
    in_place: bool,
    /// How many rows those operands of short rows that are the same for all of them are laid out for.
    repeated_rows: usize,
    /// Per operand, room for a tile that is transposed or folded; none where neither happens.
    stage: SmallVec<[*mut u8; 2]>,
    _scratch: Option<Scratch>,
    /// What code over rows needs.
    pub(super) rows: Option<Frame>,
    /// What one pass over columns needs.
    pub(super) columns: Option<Scratch>,
    /// Values computed since the last check whether the run is to end.
    pub(super) unasked: usize,
}

impl Tile {
    /// Room for tiles of `tile` values.
    pub(crate) fn new(job: &Job<'_>, values: Frame, tile: usize) -> Result<Tile> {
        let types = &job.thunk.program.types;
        let needs_stage = match job.shape {
            Shape::Plain => job.fold.is_none(),
            Shape::ShortRows { .. } => job.fold_rows.is_none(),
            Shape::FewColumns { .. } | Shape::FewGroups { .. } => true,
        };
        let bytes = |r: &Register| (types[r.0 as usize].size_bytes() * tile).next_multiple_of(64);
        let staged = match needs_stage {
            true => &job.thunk.program.outputs[..],
            false => &[],
        };
        let mut scratch = match staged.iter().map(bytes).sum() {
            0 => None,
            all => Some(Scratch::new::<u8>(all)?),
        };
        let mut next: *mut u8 = scratch.as_mut().map_or(std::ptr::null_mut(), Scratch::get);
        let rooms = staged.iter().map(|register| {
            let room = next;
            next = next.wrapping_add(bytes(register));
            room
        });
        let stage = rooms.collect();
        Ok(Tile {
            values,
            in_place: writes_in_place(&job.thunk.combiner),
            repeated_rows: 0,
            combiner: match (job.fold, job.combine) {
                (Some(_), Some(_)) => None,
                _ => Some(Frame::new(&job.thunk.combiner, tile)?),
            },
            stage,
            _scratch: scratch,
            rows: job.rows.map(rows::frame).transpose()?,
            columns: job.columns.as_ref().map(Columns::scratch).transpose()?,
            unasked: 0,
        })
    }

    /// Drops the values that are laid out, as the input may have changed.
    pub(super) fn forget(&mut self) {
        self.repeated_rows = 0;
    }

    /// Folds `n` computed values, the first of which is element `start` of the walk.
    pub(crate) fn accumulate(
        &mut self,
        job: &Job<'_>,
        start: usize,
        n: usize,
        accumulators: &Accumulators,
    ) {
        let space = &job.thunk.space;
        let Some(&(inner, inner_reduced)) = space.last() else {
            let only = Run {
                from: 0,
                count: 1,
                index: 0,
            };
            return self.fold_run(job, only, accumulators);
        };
        let inner = inner as usize;
        let is_whole = start.is_multiple_of(inner) && n.is_multiple_of(inner);
        match job.shape {
            Shape::ShortRows { .. } if is_whole => {
                let index = result_of(space, start);
                return self.fold_short_rows(job, n / inner, inner, index, accumulators);
            }
            Shape::FewColumns { run, .. } if is_whole && n > inner => {
                return self.fold_runs(job, start..start + n, (run, inner, 1), accumulators);
            }
            Shape::FewGroups { size, row, run }
                if start.is_multiple_of(size) && n.is_multiple_of(size) && n > size =>
            {
                return self.fold_runs(job, start..start + n, (run, size, row), accumulators);
            }
            _ => {}
        }
        let mut done = 0;
        while done < n {
            let position = start + done;
            let mut run = Run {
                from: done,
                count: (inner - position % inner).min(n - done),
                index: result_of(space, position),
            };
            let is_general_row = inner_reduced && job.fold.is_none() && run.count == inner;
            if is_general_row {
                run.count *= self.fold_general_rows(job, position, n - done, run, accumulators);
            } else if inner_reduced {
                self.fold_run(job, run, accumulators);
            } else {
                self.combine_run(job, run, accumulators);
            }
            done += run.count;
        }
    }

    fn value(&self, job: &Job<'_>, k: usize, at: usize) -> *const u8 {
        let output = job.thunk.program.outputs[k];
        let size = job.thunk.program.types[output.0 as usize].size_bytes();
        self.values
            .pointer(output)
            .wrapping_add(at * size)
            .cast_const()
    }

    /// Folds the values of `run` into its result.
    fn fold_run(&mut self, job: &Job<'_>, run: Run, accumulators: &Accumulators) {
        if let Some(fold) = job.fold {
            let values = self.value(job, 0, run.from);
            // SAFETY: the tile holds the values, the accumulator is one element.
            unsafe { fold(values, run.count, accumulators.at(0, run.index)) };
            return;
        }
        if !self.choose_rows(job, run, 1, accumulators) {
            self.fold_rows_apart(job, run, 1, accumulators);
        }
    }

    /// Folds `rows` neighbouring rows, the first of which is `run`, by the kernel that chooses among the pairs of a row. Returns
    /// false, and folds nothing, where there is none, or rows are too short.
    fn choose_rows(
        &mut self,
        job: &Job<'_>,
        run: Run,
        rows: usize,
        accumulators: &Accumulators,
    ) -> bool {
        let Some((own, kernel)) = job.choosing.and_then(|own| Some((own, own.row?))) else {
            return false;
        };
        if run.count < MIN_ROW {
            return false;
        }
        for row in 0..rows {
            let here = Run {
                from: run.from + row * run.count,
                index: run.index + row,
                ..run
            };
            let mut chosen = [0u64; 2];
            let [value, second] = &mut chosen;
            let to = [(&raw mut *value).cast::<u8>(), (&raw mut *second).cast()];
            let pairs = [0, 1].map(|k| self.value(job, k, here.from));
            let results = [0, 1].map(|k| accumulators.at(k, here.index));
            // SAFETY: the tile holds the pairs; an element has eight bytes at most; every row has a result of its own.
            unsafe {
                if kernel(pairs, run.count, to, own.choice) {
                    (own.pairs)(results, to.map(<*mut u8>::cast_const), 1, own.choice);
                    continue;
                }
            }
            self.fold_rows_apart(job, here, 1, accumulators);
        }
        true
    }

    /// Folds the row of `run`, the first element of which is `position` of the walk, by a general reducer, and as many
    /// rows after it as can be folded together among `left` values; returns how many these are.
    fn fold_general_rows(
        &mut self,
        job: &Job<'_>,
        position: usize,
        left: usize,
        run: Run,
        accumulators: &Accumulators,
    ) -> usize {
        let size = run.count;
        let results = match *job.thunk.space {
            [.., (results, _), _] => results as usize,
            _ => 1,
        };
        let rows = (left / size).min(results - position / size % results);
        if self.choose_rows(job, run, rows, accumulators) {
            return rows;
        }
        match job.lanes_together(size, results) {
            Some(lanes) => {
                let stretches = Stretches {
                    from: run.from,
                    row: size,
                    rows,
                    lanes,
                    steps: size / lanes,
                };
                self.fold_lanes(job, stretches, run.index, accumulators);
            }
            None => self.fold_rows_apart(job, run, rows, accumulators),
        }
        rows
    }

    /// Folds the values of `run`, and of as many as `rows` in all that follow it and belong to neighbouring results:
    /// each row by lanes of its own, and what is left of it value by value. How a row is folded does not depend on the
    /// others.
    fn fold_rows_apart(
        &mut self,
        job: &Job<'_>,
        run: Run,
        rows: usize,
        accumulators: &Accumulators,
    ) {
        let row = run.count;
        let mut done = 0;
        if job.thunk.way != FoldWay::OneByOne {
            while row - done >= MIN_LANE_RUN {
                let left = row - done;
                let lanes = 1 << (left / 8).min(MAX_LANES).ilog2();
                let stretches = Stretches {
                    from: run.from + done,
                    row,
                    rows,
                    lanes,
                    steps: left / lanes,
                };
                self.fold_lanes(job, stretches, run.index, accumulators);
                done += left / lanes * lanes;
            }
        }
        if rows == 1 {
            for from in run.from + done..run.from + row {
                let one = Run {
                    from,
                    count: 1,
                    ..run
                };
                self.step(job, one, accumulators);
            }
            return;
        }
        let rest = Stretches {
            from: run.from + done,
            row,
            rows,
            lanes: 1,
            steps: row - done,
        };
        let stage = self.staged(job, rest, &accumulators.sizes);
        for at in 0..rest.steps {
            let results = |k: usize| accumulators.at(k, run.index);
            self.reduce_lanes(job, rows, &results, &|k| {
                let bytes = at * rows * accumulators.sizes[k];
                stage[k].wrapping_add(bytes).cast_const()
            });
        }
    }

    /// Puts stretches side by side; returns where those of each operand are.
    fn staged(
        &mut self,
        job: &Job<'_>,
        stretches: Stretches,
        sizes: &[usize],
    ) -> SmallVec<[*mut u8; 2]> {
        self.repeated_rows = 0;
        for (k, &size) in sizes.iter().enumerate() {
            let values = self.value(job, k, stretches.from);
            // SAFETY: the tile holds the values, and the stage as many as a tile.
            unsafe { stretches.transpose(size, values, self.stage[k]) };
        }
        self.stage.clone()
    }

    /// Folds stretches step by step, all of them at a time, then neighbouring ones of a row with each other until there is
    /// one for each row; of that, the first belongs to result `index`.
    fn fold_lanes(
        &mut self,
        job: &Job<'_>,
        stretches: Stretches,
        index: usize,
        accumulators: &Accumulators,
    ) {
        let Stretches {
            rows, lanes, steps, ..
        } = stretches;
        let sizes = &accumulators.sizes;
        let stage = self.staged(job, stretches, sizes);
        let all = rows * lanes;
        let at = |k: usize, lane: usize| stage[k].wrapping_add(lane * sizes[k]);
        let first = |k: usize| at(k, 0);
        for step in 1..steps {
            for (k, &size) in sizes.iter().enumerate() {
                // What is read next lies behind these stretches, if it is no copy.
                let next = self.value(job, k, stretches.from + (steps + step) * all);
                if job.operands[k].is_dense {
                    hlorun_kernels::stream::expect::<true>(next, all * size);
                }
            }
            self.reduce_lanes(job, all, &first, &|k| at(k, step * all).cast_const());
        }
        let mut width = all;
        while width > rows {
            // Lanes of even numbers become the left operands, those of odd ones the right.
            width /= 2;
            for (k, &size) in sizes.iter().enumerate() {
                // SAFETY: a stretch has at least two values, so the stage has room behind the lanes.
                unsafe { part_pairs(size, at(k, 0), width, at(k, all)) };
            }
            self.reduce_lanes(job, width, &first, &|k| at(k, all).cast_const());
        }
        let to = |k: usize| accumulators.at(k, index);
        self.reduce_lanes(job, rows, &to, &|k| at(k, 0).cast_const());
    }

    /// Folds `rows` rows of `size` values: by a kernel, or transposed, so that their results are lanes.
    fn fold_short_rows(
        &mut self,
        job: &Job<'_>,
        rows: usize,
        size: usize,
        index: usize,
        accumulators: &Accumulators,
    ) {
        if let Some(fold) = job.fold_rows {
            // SAFETY: the tile holds `rows * size` values; there is a result for each row.
            unsafe { fold(self.value(job, 0, 0), rows, size, accumulators.at(0, index)) };
            return;
        }
        let program = &job.thunk.program;
        let width = |k: usize| program.types[program.outputs[k].0 as usize].size_bytes();
        let columns = Stretches {
            from: 0,
            row: size,
            rows,
            lanes: 1,
            steps: size,
        };
        for k in 0..program.outputs.len() {
            if job.operands[k].repeats && self.repeated_rows == rows {
                continue;
            }
            // SAFETY: the tile holds `rows * size` values and the stage as many.
            unsafe { columns.transpose(width(k), self.value(job, k, 0), self.stage[k]) };
        }
        self.repeated_rows = rows;
        let stage = self.stage.clone();
        for position in 0..size {
            let values = |k: usize| {
                stage[k]
                    .wrapping_add(position * rows * width(k))
                    .cast_const()
            };
            match job.combine {
                Some(combine) => {
                    let to = accumulators.at(0, index);
                    // SAFETY: both hold `rows` elements; kernels may write onto an operand.
                    unsafe { combine(to, values(0), to, rows) };
                }
                None => self.reduce_lanes(job, rows, &|k| accumulators.at(k, index), &values),
            }
        }
    }

    /// Folds the values of a tile, elements `range` of the walk: rows of `size` values, of which those of a run of values
    /// are folded onto each other until one row is left. Of that, every `group` values belong to one result.
    fn fold_runs(
        &mut self,
        job: &Job<'_>,
        range: std::ops::Range<usize>,
        (run, size, group): (usize, usize, usize),
        accumulators: &Accumulators,
    ) {
        let mut at = range.start;
        while at < range.end {
            let count = (run - at % run).min(range.end - at);
            let rows = Run {
                from: at - range.start,
                count,
                index: result_of(&job.thunk.space, at),
            };
            match (job.combine, job.fold) {
                (Some(combine), Some(fold)) => {
                    self.fold_halves(job, (combine, fold), rows, (size, group), accumulators);
                }
                _ => self.fold_neighbours(job, rows, size, accumulators),
            }
            at += count;
        }
    }

    /// Runs the reducer on each row of `size` values and the next one, until one row is left, unless a kernel chooses among
    /// pairs row by row.
    fn fold_neighbours(
        &mut self,
        job: &Job<'_>,
        run: Run,
        size: usize,
        accumulators: &Accumulators,
    ) {
        let (rows, index) = (run.count / size, run.index);
        if let Some((own, kernel)) = job.choosing.and_then(Choosing::by_columns) {
            let pairs = [0, 1].map(|k| self.value(job, k, run.from));
            let results = [0, 1].map(|k| accumulators.at(k, index));
            // SAFETY: the tile holds so many pairs; every column has a result of its own.
            return unsafe { kernel(pairs, [rows, size], results, own) };
        }
        let sizes = &accumulators.sizes;
        let stage = self.stage.clone();
        let mut left = rows;
        while left > 1 {
            let firsts = left.div_ceil(2);
            // The rows of the tile are read where they are, later ones moved inside the stage.
            let behind = if left == rows { firsts } else { left };
            for (k, &width) in sizes.iter().enumerate() {
                let from = if left == rows {
                    self.value(job, k, run.from)
                } else {
                    stage[k].cast_const()
                };
                // SAFETY: the tile and the stage hold `rows` rows. Half of them, rounded up, and half of
                // that, rounded down, are no more.
                unsafe { part_rows(from, stage[k], left, behind, size * width) };
            }
            let second = |k: usize| {
                let row = size * sizes[k];
                stage[k].wrapping_add(behind * row).cast_const()
            };
            self.reduce_lanes(job, left / 2 * size, &|k| stage[k], &second);
            left = firsts;
        }
        let to = |k: usize| accumulators.at(k, index);
        let last = |k: usize| match rows {
            1 => self.value(job, k, run.from),
            _ => stage[k].cast_const(),
        };
        let last: SmallVec<[*const u8; 4]> = (0..sizes.len()).map(last).collect();
        self.reduce_lanes(job, size, &to, &|k| last[k]);
    }

    /// Combines the lower half of the rows of `size` values with the upper one, until one row is left.
    fn fold_halves(
        &mut self,
        job: &Job<'_>,
        (combine, fold): (hlorun_kernels::Binary, hlorun_kernels::Reduce),
        run: Run,
        (size, group): (usize, usize),
        accumulators: &Accumulators,
    ) {
        let (rows, index) = (run.count / size, run.index);
        let width = accumulators.sizes[0];
        let stage = self.stage[0];
        let values = self.value(job, 0, run.from);
        // SAFETY: the tile holds the rows, and the stage as many.
        let from = unsafe {
            match job.halve_rows {
                Some(halve) => halve(values, rows, size, stage),
                None => halve_by(combine, values, (rows, size, width), stage),
            }
        };
        if group > 1 {
            for at in 0..size / group {
                // SAFETY: a group of the row that is left, and its result.
                unsafe {
                    let values = from.add(at * group * width);
                    fold(values, group, accumulators.at(0, index + at));
                }
            }
            return;
        }
        let to = accumulators.at(0, index);
        // SAFETY: both hold `size` elements.
        unsafe { combine(to, from, to, size) };
    }

    /// Combines the values of `run` with as many results.
    fn combine_run(&mut self, job: &Job<'_>, run: Run, accumulators: &Accumulators) {
        if let Some(combine) = job.combine {
            let to = accumulators.at(0, run.index);
            // SAFETY: both hold as many elements; kernels may write onto an operand.
            unsafe { combine(to, self.value(job, 0, run.from), to, run.count) };
            return;
        }
        self.step(job, run, accumulators);
    }

    /// Runs the reducer on the values of `run` and as many results.
    fn step(&mut self, job: &Job<'_>, run: Run, accumulators: &Accumulators) {
        let values: SmallVec<[*const u8; 4]> = (0..job.thunk.program.outputs.len())
            .map(|k| self.value(job, k, run.from))
            .collect();
        let results = |k: usize| accumulators.at(k, run.index);
        self.reduce_lanes(job, run.count, &results, &|k| values[k]);
    }

    /// Combines `parts` partial results from `first` on with result `index`.
    pub(crate) fn fold_partials(
        &mut self,
        job: &Job<'_>,
        partials: &Accumulators,
        first: usize,
        parts: usize,
        index: usize,
        accumulators: &Accumulators,
    ) {
        if let Some(fold) = job.fold {
            // SAFETY: `parts` partial results were written.
            unsafe { fold(partials.at(0, first), parts, accumulators.at(0, index)) };
            return;
        }
        for part in first..first + parts {
            self.reduce_lanes(job, 1, &|k| accumulators.at(k, index), &|k| {
                partials.at(k, part).cast_const()
            });
        }
    }

    /// Runs the reducer on `count` lanes: results at `left`, values at `right`, results to `left`.
    fn reduce_lanes(
        &mut self,
        job: &Job<'_>,
        count: usize,
        left: &dyn Fn(usize) -> *mut u8,
        right: &dyn Fn(usize) -> *const u8,
    ) {
        if let Some(own) = job.choosing {
            let (left, right) = ([left(0), left(1)], [right(0), right(1)]);
            // SAFETY: all operands hold `count` elements; the left ones overlap nothing else.
            return unsafe { (own.pairs)(left, right, count, own.choice) };
        }
        let combiner: &Program = &job.thunk.combiner;
        let in_place = self.in_place;
        let Some(frame) = self.combiner.as_mut() else {
            unreachable!("a reducer without both kernels has a frame");
        };
        let operands = combiner.outputs.len();
        for k in 0..operands {
            frame.bind(combiner.inputs[k], left(k));
            frame.bind(combiner.inputs[operands + k], right(k).cast_mut());
            if in_place {
                frame.bind(combiner.outputs[k], left(k));
            }
        }
        // SAFETY: all inputs hold `count` elements; results lie in the frame's own memory, since the
        // plan never lets a reducer's output be one of its inputs, or where the left operands do.
        unsafe {
            frame.run(combiner, count);
            if in_place {
                return;
            }
            for k in 0..operands {
                let output = combiner.outputs[k];
                let size = combiner.types[output.0 as usize].size_bytes();
                std::ptr::copy_nonoverlapping(frame.pointer(output), left(k), count * size);
            }
        }
    }
}
