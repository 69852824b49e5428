//! Folds a tile of computed values into accumulators.
//!
//! In: values in the order of the walk. Out: accumulators combined with them. A run of values that
//! belongs to one result is folded into it, a run that spans several results is combined with them
//! element by element. Short rows are folded by a kernel of their own, or transposed, so that
//! neighbouring results are lanes; few columns are folded onto themselves, by a general reducer each row
//! with the next one. A general reducer runs on lanes, each of which takes a stretch of the run, and
//! lanes are combined in the order of their stretches: it has to be associative, as HLO demands, but
//! need not be commutative.

use super::job::{Accumulators, Job};
use crate::error::Result;
use crate::exec::element::program::Frame;
use crate::plan::cost::reduce::{MAX_LANES, MIN_LANE_RUN};
use crate::plan::element::program::{Program, Register};
use crate::plan::schedule::fold_shape::Shape;
use crate::plan::schedule::scalar_bytecode::folds::{result_of, row_lanes};
use crate::plan::thunk::FoldWay;
use hlorun_kernels::Scratch;
use smallvec::SmallVec;

/// Values of a tile, and the result they belong to: the first one's, where they belong to several.
#[derive(Clone, Copy)]
struct Run {
    from: usize,
    count: usize,
    index: usize,
}

/// What one thread needs to compute and fold tiles.
pub(crate) struct Tile {
    /// Runs the program that computes the values.
    pub(crate) values: Frame,
    /// Runs the reducer where it has no kernels of its own.
    combiner: Option<Frame>,
    /// Per operand, room for a tile that is transposed or folded; none where neither happens.
    stage: SmallVec<[*mut u8; 2]>,
    _scratch: Option<Scratch>,
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
            combiner: match (job.fold, job.combine) {
                (Some(_), Some(_)) => None,
                _ => Some(Frame::new(&job.thunk.combiner, tile)?),
            },
            stage,
            _scratch: scratch,
        })
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
            Shape::FewColumns { .. } if is_whole && n > inner => {
                let index = result_of(space, start);
                return self.fold_columns(job, n / inner, inner, (1, index), accumulators);
            }
            Shape::FewGroups { size, row, .. }
                if start.is_multiple_of(size) && n.is_multiple_of(size) && n > size =>
            {
                let index = result_of(space, start);
                return self.fold_columns(job, n / size, size, (row, index), accumulators);
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
            if is_general_row && let Some((lanes, rows)) = rows_together(job, position, n - done) {
                run.count = rows * inner;
                self.fold_lanes(job, lanes, rows, run, accumulators);
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
        // SAFETY: the tile holds more than `at` values.
        unsafe { self.values.pointer(output).add(at * size).cast_const() }
    }

    /// Folds the values of `run` into its result.
    fn fold_run(&mut self, job: &Job<'_>, run: Run, accumulators: &Accumulators) {
        if let Some(fold) = job.fold {
            let values = self.value(job, 0, run.from);
            // SAFETY: the tile holds the values, the accumulator is one element.
            unsafe { fold(values, run.count, accumulators.at(0, run.index)) };
            return;
        }
        let mut done = 0;
        if job.thunk.way != FoldWay::OneByOne {
            while run.count - done >= MIN_LANE_RUN {
                let left = run.count - done;
                let lanes = 1 << (left / 8).min(MAX_LANES).ilog2();
                let from = run.from + done;
                let count = left / lanes * lanes;
                self.fold_lanes(job, lanes, 1, Run { from, count, ..run }, accumulators);
                done += count;
            }
        }
        for from in run.from + done..run.from + run.count {
            let one = Run {
                from,
                count: 1,
                ..run
            };
            self.step(job, one, accumulators);
        }
    }

    /// Folds values of which each of `lanes` takes a stretch of the same length: lane by lane, then
    /// neighbouring lanes with each other until there is one for each of `results`.
    fn fold_lanes(
        &mut self,
        job: &Job<'_>,
        lanes: usize,
        results: usize,
        run: Run,
        accumulators: &Accumulators,
    ) {
        let steps = run.count / lanes;
        let sizes = &accumulators.sizes;
        for (k, &size) in sizes.iter().enumerate() {
            let values = self.value(job, k, run.from);
            // SAFETY: the values are `lanes` stretches of `steps`, and the stage holds a tile.
            unsafe { transpose(size, values, lanes, steps, self.stage[k]) };
        }
        let stage = self.stage.clone();
        let at = |k: usize, lane: usize| stage[k].wrapping_add(lane * sizes[k]);
        let first = |k: usize| at(k, 0);
        for row in 1..steps {
            self.reduce_lanes(job, lanes, &first, &|k| at(k, row * lanes).cast_const());
        }
        let mut width = lanes;
        while width > results {
            // Lanes of even numbers become the left operands, those of odd ones the right.
            width /= 2;
            for (k, &size) in sizes.iter().enumerate() {
                // SAFETY: a stretch has at least two values, so the stage has room behind the lanes.
                unsafe { part_pairs(size, at(k, 0), width, at(k, lanes)) };
            }
            self.reduce_lanes(job, width, &first, &|k| at(k, lanes).cast_const());
        }
        let to = |k: usize| accumulators.at(k, run.index);
        self.reduce_lanes(job, results, &to, &|k| at(k, 0).cast_const());
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
        for k in 0..program.outputs.len() {
            // SAFETY: the tile holds `rows * size` values and the stage as many.
            unsafe {
                let values = self.value(job, k, 0);
                transpose(width(k), values, rows, size, self.stage[k]);
            }
        }
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

    /// Folds `rows` rows of `size` values onto each other until one row is left; of that, every `group`
    /// values belong to one result, the first of which is `index`.
    fn fold_columns(
        &mut self,
        job: &Job<'_>,
        rows: usize,
        size: usize,
        (group, index): (usize, usize),
        accumulators: &Accumulators,
    ) {
        match (job.combine, job.fold) {
            (Some(combine), Some(fold)) => {
                let kernels = (combine, fold);
                self.fold_halves(job, kernels, (rows, size), (group, index), accumulators);
            }
            _ => self.fold_neighbours(job, (rows, size), index, accumulators),
        }
    }

    /// Runs the reducer on each row and the next one, until one row is left.
    fn fold_neighbours(
        &mut self,
        job: &Job<'_>,
        (rows, size): (usize, usize),
        index: usize,
        accumulators: &Accumulators,
    ) {
        let sizes = &accumulators.sizes;
        let stage = self.stage.clone();
        let mut left = rows;
        while left > 1 {
            let firsts = left.div_ceil(2);
            // The rows of the tile are read where they are, later ones moved inside the stage.
            let behind = if left == rows { firsts } else { left };
            for (k, &width) in sizes.iter().enumerate() {
                let from = if left == rows {
                    self.value(job, k, 0)
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
        self.reduce_lanes(job, size, &to, &|k| stage[k].cast_const());
    }

    /// Combines the lower half of the rows with the upper one, until one row is left.
    fn fold_halves(
        &mut self,
        job: &Job<'_>,
        (combine, fold): (hlorun_kernels::Binary, hlorun_kernels::Reduce),
        (rows, size): (usize, usize),
        (group, index): (usize, usize),
        accumulators: &Accumulators,
    ) {
        let width = accumulators.sizes[0];
        let stage = self.stage[0];
        let mut from = self.value(job, 0, 0);
        let mut left = rows;
        while left > 1 {
            let half = left / 2;
            // An odd row in the middle stays where it is; it is the last of those that are left.
            let upper = left - half;
            // SAFETY: rows lie inside the tile, and later inside the stage; kernels may write onto
            // an operand.
            unsafe {
                combine(from, from.add(upper * size * width), stage, half * size);
                if upper > half && !std::ptr::eq(from, stage) {
                    let odd = half * size * width;
                    std::ptr::copy_nonoverlapping(from.add(odd), stage.add(odd), size * width);
                }
            }
            from = stage.cast_const();
            left = upper;
        }
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
        let combiner: &Program = &job.thunk.combiner;
        let Some(frame) = self.combiner.as_mut() else {
            unreachable!("a reducer without both kernels has a frame");
        };
        let operands = combiner.outputs.len();
        for k in 0..operands {
            frame.bind(combiner.inputs[k], left(k));
            frame.bind(combiner.inputs[operands + k], right(k).cast_mut());
        }
        // SAFETY: all inputs hold `count` elements; results lie in the frame's own memory, since the
        // plan never lets a reducer's output be one of its inputs.
        unsafe {
            frame.run(combiner, count);
            for k in 0..operands {
                let output = combiner.outputs[k];
                let size = combiner.types[output.0 as usize].size_bytes();
                std::ptr::copy_nonoverlapping(frame.pointer(output), left(k), count * size);
            }
        }
    }
}

/// Transposes `rows` rows of `columns` elements of `size` bytes into `columns` rows.
///
/// # Safety
///
/// Both hold all elements and do not overlap.
unsafe fn transpose(size: usize, from: *const u8, rows: usize, columns: usize, to: *mut u8) {
    let bytes = size as isize;
    let (row, column) = (bytes * columns as isize, bytes * rows as isize);
    // SAFETY: the caller's promise.
    unsafe {
        hlorun_kernels::copy_strided(
            size,
            &[columns, rows],
            from,
            &[bytes, row],
            to,
            &[column, bytes],
        );
    }
}

/// Of `rows` rows of `bytes` bytes, copies those of even numbers to `to`, and the others `behind` rows after it.
///
/// # Safety
///
/// There are so many rows at `from`, and room for `behind + rows / 2` at `to`. Either `from` is `to` and `behind` is
/// `rows`, or the two do not overlap.
unsafe fn part_rows(from: *const u8, to: *mut u8, rows: usize, behind: usize, bytes: usize) {
    // SAFETY: the caller's promise; what is written over has been read before.
    unsafe {
        for i in 0..rows / 2 {
            let row = from.add((2 * i + 1) * bytes);
            std::ptr::copy_nonoverlapping(row, to.add((behind + i) * bytes), bytes);
        }
        for i in 0..rows.div_ceil(2) {
            std::ptr::copy(from.add(2 * i * bytes), to.add(i * bytes), bytes);
        }
    }
}

/// Of `pairs` pairs of elements at `at`, leaves the first ones there and moves the second ones.
///
/// # Safety
///
/// There are so many pairs; `seconds` has room and overlaps none of them.
unsafe fn part_pairs(size: usize, at: *mut u8, pairs: usize, seconds: *mut u8) {
    by_size!(size, T => {
        let (at, seconds) = (at.cast::<T>(), seconds.cast::<T>());
        // SAFETY: the caller's promise; what is written over has been read before.
        unsafe {
            for i in 0..pairs {
                seconds.add(i).write(at.add(2 * i + 1).read());
            }
            for i in 0..pairs {
                at.add(i).write(at.add(2 * i).read());
            }
        }
    })
}

/// Lanes and rows, where the rows from `position` on, of which `left` values are there, are folded
/// together: their results are neighbours, and the lanes of each have the same number of values.
///
/// Whether they are is decided by the rows that a whole tile holds, not by those that are there: the
/// order in which a row is folded must not depend on where a thread's share ends.
fn rows_together(job: &Job<'_>, position: usize, left: usize) -> Option<(usize, usize)> {
    let (size, results) = match *job.thunk.space {
        [.., (results, _), (size, _)] => (size as usize, results as usize),
        [(size, _)] => (size as usize, 1),
        [] => return None,
    };
    let each = row_lanes(size);
    let is_worth = each * results.min(job.tile / size) >= MIN_LANE_RUN;
    let rows = (left / size).min(results - position / size % results);
    (is_worth && job.thunk.way != FoldWay::OneByOne).then_some((each * rows, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_numbered_by_kept_dimensions() {
        let space = [(2, false), (3, true), (4, false), (5, true)];
        assert_eq!(result_of(&space, 0), 0);
        assert_eq!(result_of(&space, 5), 1);
        assert_eq!(result_of(&space, 20), 0);
        assert_eq!(result_of(&space, 60 + 20 + 15), 4 + 3);
    }

    #[test]
    fn pairs_are_parted() {
        let mut values = [0u32, 1, 2, 3, 4, 5, 6, 7];
        let mut seconds = [0u32; 4];
        // SAFETY: four pairs, and room for as many.
        unsafe {
            part_pairs(
                4,
                values.as_mut_ptr().cast(),
                4,
                seconds.as_mut_ptr().cast(),
            )
        };
        assert_eq!(
            (&values[..4], &seconds[..]),
            (&[0, 2, 4, 6][..], &[1, 3, 5, 7][..])
        );
    }

    #[test]
    fn rows_are_parted() {
        let rows = [[0u8, 1], [2, 3], [4, 5], [6, 7], [8, 9]];
        let mut parted = [[0u8; 2]; 5];
        // SAFETY: five rows of two bytes, and room for as many.
        unsafe { part_rows(rows.as_ptr().cast(), parted.as_mut_ptr().cast(), 5, 3, 2) };
        assert_eq!(parted, [[0, 1], [4, 5], [8, 9], [2, 3], [6, 7]]);
        let at = parted.as_mut_ptr().cast::<u8>();
        // SAFETY: three rows of two bytes, and room for one behind them.
        unsafe { part_rows(at, at, 3, 3, 2) };
        assert_eq!(parted[..2], [[0, 1], [8, 9]]);
        assert_eq!(parted[3], [4, 5]);
    }

    #[test]
    fn lanes_divide_rows() {
        for (size, lanes) in [(4096, 128), (512, 64), (100, 4), (97, 1), (66, 2), (8, 1)] {
            assert_eq!(row_lanes(size), lanes, "{size}");
        }
    }

    #[test]
    fn shapes_follow_the_two_fastest_dimensions() {
        let shape = |space: &[(i64, bool)]| {
            Shape::of(space, FoldWay::Kernels(hlorun_kernels::BinaryOp::Add), 2048)
        };
        assert!(matches!(
            shape(&[(1000, false), (4, true)]),
            Shape::ShortRows { size: 4, run: 4000 }
        ));
        assert!(matches!(
            shape(&[(7, false), (1000, true), (4, false)]),
            Shape::FewColumns { size: 4, run: 4000 }
        ));
        assert!(matches!(shape(&[(1000, false), (64, true)]), Shape::Plain));
        assert!(matches!(shape(&[(8, false), (4, true)]), Shape::Plain));
    }
}
