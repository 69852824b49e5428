//! The driver of products of many columns: tasks share B's strips, and where these do not come out even for the threads
//! also the rows; A is packed for all of them, or read in place.
//!
//! In: a [`Product`], or one whose B lies in panels. Out: its C. Promise: blocks of the depth in ascending order, whatever
//! the tiles and the number of threads.

use super::ahead::Ahead;
use super::micro::{Real, Source};
use super::product::{Product, Strips};
use super::rank_k::Update;
use super::tiles::{BAND, GROUP, KC, READERS, Tiles, depth_step, row_parts, strip_vectors, worth};
use super::{Outcome, Parallel, Shared, memory::fork, share};
use crate::scratch::Scratch;
use std::ops::{Range, RangeInclusive};

/// Elements of a B that stays in a cache while it is read in place.
const CACHED: usize = 1 << 14;
/// Bytes of a B that is large, more than most second-level caches keep, and of a row that is long. Such a B is read row by
/// row where A has so many rows.
const LARGE: usize = 1 << 20;
const LONG_ROW: usize = 1 << 10;
const ROWS: RangeInclusive<usize> = 2..=32;
/// Bytes of the sums of a task that reads B row by row.
const SUMS: usize = 24 << 10;
/// Strips that a task should have where B is read in place, so that it reads long rows.
const NEIGHBOURS: usize = 4;

/// Where a strip of B is read.
#[derive(Clone, Copy)]
enum Right<E> {
    /// In place.
    Direct,
    /// In place, row by row, by all rows of A at once.
    Rows,
    /// Copied by the task.
    Copied,
    /// In the panels of [`super::packed`].
    Panels(Shared<E>),
}

/// A product, and how it is cut.
struct Driver<'g, E: 'static, S> {
    g: &'g Product<'g, E, S>,
    cut: Strips<E>,
    right: Right<E>,
    /// Tiles of A are copied, not read in place.
    is_packed: bool,
}

/// Rows of A for some of the depth.
struct Left<E> {
    rows: Range<usize>,
    tiles: Tiles,
    depth: Range<usize>,
    /// Where the copied tiles lie, of one block of the depth after the other.
    packed: Option<Shared<E>>,
}

impl<E: Copy> Left<E> {
    /// The copied tiles of the block of the depth that begins at `p`.
    fn block(&self, p: usize) -> Option<*mut E> {
        let at = (p - self.depth.start) * self.rows.len();
        Some(self.packed?.get().wrapping_add(at))
    }
}

/// Runs the product, whose B lies in `panels` if there are any.
pub(super) fn run<E: Real, S: Source<E>>(
    g: &Product<E, S>,
    panels: Option<Shared<E>>,
    parallel: &Parallel,
) -> Outcome {
    let driver = Driver::new(g, panels);
    let most = driver.cut.most_rows(driver.is_packed);
    for first in parallel.checking((0..g.m).step_by(BAND)) {
        let rows = first..g.m.min(first + BAND);
        let most = match driver.right {
            Right::Rows => rows.len(),
            _ => most.min(14),
        };
        let tiles = Tiles::new(rows.len(), most);
        let step = depth_step::<E>(rows.len());
        for start in parallel.checking((0..g.k).step_by(step)) {
            let depth = start..g.k.min(start + step);
            let room = if driver.is_packed {
                rows.len() * depth.len()
            } else {
                0
            };
            let mut scratch = Scratch::new::<E>(room)?;
            let left = Left {
                rows: rows.clone(),
                tiles,
                depth,
                packed: driver.is_packed.then(|| Shared(scratch.get())),
            };
            if driver.is_packed {
                driver.pack(&left, parallel)?;
            }
            driver.multiply(&left, parallel)?;
        }
    }
    Ok(())
}

impl<'g, E: Real, S: Source<E>> Driver<'g, E, S> {
    fn new(g: &'g Product<'g, E, S>, panels: Option<Shared<E>>) -> Driver<'g, E, S> {
        let vectors = strip_vectors(E::kernels(), g.m, g.n);
        let cut = Strips::<E>::new(vectors, g.n);
        let strips = cut.count;
        let row = g.n.saturating_mul(size_of::<S>());
        let is_large = row >= LONG_ROW && row.saturating_mul(g.k) > LARGE;
        let by_rows = is_large && g.b.layout.col_stride == 1 && ROWS.contains(&g.m);
        let right = match panels {
            Some(panels) => Right::Panels(panels),
            None if by_rows => Right::Rows,
            None if g.is_plain && g.b.layout.col_stride == 1 => {
                let few = g.m.div_ceil(cut.most_rows(true)) <= READERS;
                if few || g.k * g.n <= CACHED {
                    Right::Direct
                } else {
                    Right::Copied
                }
            }
            None => Right::Copied,
        };
        // Few columns, or few multiplications: tiles of A are read in place. So are rows that are contiguous, where tiles
        // are as high without packing.
        let rows = cut.most_rows(false);
        let in_rows = g.a.layout.col_stride == 1 && rows == cut.most_rows(true);
        let is_packed = matches!(right, Right::Rows)
            || !g.is_plain
            || (!in_rows
                && ((strips > 2 && g.m.min(BAND) * g.k * strips > 1 << 12)
                    || (strips == 1 && g.k >= 128 && g.m > rows)));
        Driver {
            g,
            cut,
            right,
            is_packed,
        }
    }

    /// Copies the tiles of A, on all threads.
    fn pack(&self, left: &Left<E>, parallel: &Parallel) -> Outcome {
        let (rows, depth, tiles) = (&left.rows, &left.depth, left.tiles);
        let blocks = depth.len().div_ceil(KC);
        let pieces = tiles.count * blocks;
        let tasks = worth(parallel, 0, rows.len() * depth.len() / 4, pieces);
        fork(parallel, tasks, &|task| {
            for piece in share(pieces, tasks, task, 1) {
                let own = tiles.get(piece / blocks);
                let p = depth.start + piece % blocks * KC;
                let block = p..depth.end.min(p + KC);
                if let Some(to) = left.block(p) {
                    let to = to.wrapping_add(own.start * block.len());
                    let own = rows.start + own.start..rows.start + own.end;
                    self.g.pack_a(own, block, to);
                }
            }
            Ok(())
        })
    }

    /// Multiplies rows of A by all strips of B, which the tasks share.
    fn multiply(&self, left: &Left<E>, parallel: &Parallel) -> Outcome {
        let (depth, strips) = (&left.depth, self.cut.count);
        let work = left.rows.len() * depth.len() * self.g.n;
        let most = match self.right {
            Right::Direct => strips
                .div_ceil(NEIGHBOURS)
                .max(strips.min(2 * parallel.threads)),
            Right::Rows => strips
                .div_ceil(self.summed_strips(left))
                .max(strips.min(2 * parallel.threads)),
            _ => strips,
        };
        let tasks = worth(parallel, work, depth.len() * self.g.n, most);
        let group = match self.right {
            Right::Rows => self.summed_strips(left),
            _ => GROUP,
        };
        let group = strips.div_ceil(tasks).min(group);
        // Where tasks of one strip do not come out even for the threads, they are cut along the rows, too. Those of the same
        // rows follow one another: a thread keeps its part of A.
        let row_parts = match self.right {
            Right::Rows => 1,
            _ if tasks < strips => 1,
            _ => row_parts(parallel, tasks, left.tiles.count),
        };
        let room = match self.right {
            Right::Rows => group * self.cut.width * left.rows.len(),
            Right::Copied => group * self.cut.width * KC.min(depth.len()),
            _ => self.cut.width * KC,
        };
        fork(parallel, tasks * row_parts, &|task| {
            let own = share(strips, tasks, task % tasks, 1);
            let tiles = share(left.tiles.count, row_parts, task / tasks, 1);
            let mut scratch = Scratch::new::<E>(room)?;
            for first in own.clone().step_by(group) {
                let strips = first..own.end.min(first + group);
                for p in depth.clone().step_by(KC) {
                    let block = p..depth.end.min(p + KC);
                    self.block(left, tiles.clone(), block, strips.clone(), scratch.get());
                }
            }
            Ok(())
        })
    }

    /// One block of the depth: some tiles of A by some strips of B.
    fn block(
        &self,
        left: &Left<E>,
        tiles: Range<usize>,
        depth: Range<usize>,
        strips: Range<usize>,
        scratch: *mut E,
    ) {
        let (g, width) = (self.g, self.cut.width);
        let columns = strips.start * width..g.n.min(strips.end * width);
        match self.right {
            Right::Rows => return self.update(left, depth, columns, scratch),
            Right::Copied => g.pack_b(depth.clone(), columns, width, scratch),
            // The last strip may be cut off.
            Right::Direct if columns.len() % width != 0 => {
                let last = columns.end - columns.len() % width..columns.end;
                g.pack_b(depth.clone(), last, width, scratch);
            }
            _ => {}
        }
        let packed = left.block(depth.start);
        let sharers = self.sharers(tiles.len());
        for (at, tile) in tiles.enumerate() {
            let own = left.tiles.get(tile);
            let i = left.rows.start + own.start;
            for s in strips.clone() {
                let cut = width.min(g.n - s * width);
                let kernel = self.cut.kernel(own.len(), cut, self.is_packed);
                let mut part = g.tile(i, s * width, depth.clone(), cut);
                if let Some(packed) = packed {
                    part.a = packed.wrapping_add(own.start * depth.len());
                }
                (part.b, part.b_row) = self.strip(s, &depth, strips.start, scratch);
                part.ahead = self
                    .next(s, left, sharers, &depth, &strips, scratch)
                    .and_then(|(next, row)| Ahead::part(next, row, depth.len(), at, sharers))
                    .unwrap_or(Ahead::nothing(part.b));
                // SAFETY: a tile of the product; tasks own their rows and columns of C.
                unsafe { kernel(&part) }
            }
        }
    }

    /// Strips whose sums fit [`SUMS`].
    fn summed_strips(&self, left: &Left<E>) -> usize {
        (SUMS / size_of::<E>() / left.rows.len() / self.cut.width).max(1)
    }

    /// One block of the depth: all rows of A by some columns of B, with sums at `scratch`.
    fn update(&self, left: &Left<E>, depth: Range<usize>, columns: Range<usize>, sums: *mut E) {
        let g = self.g;
        let x = left.block(depth.start).expect("A is packed");
        let update = Update {
            x: x.cast_const(),
            rows: left.rows.len(),
            depth: depth.len(),
            b: g.b.at(depth.start, columns.start),
            b_row: g.b.layout.row_stride,
            columns: columns.len(),
            y: sums,
        };
        // SAFETY: a block of A and B, and room for the sums; tasks own their columns of C.
        unsafe {
            // Zero bytes are 0.0 in `f32` and `f64`.
            sums.write_bytes(0, update.rows * update.columns);
            (S::loops().rank_k)(&update);
            for row in 0..update.rows {
                let c = g.c(left.rows.start + row, columns.start);
                let from = sums.add(row * update.columns);
                (S::loops().settle)(from, c, update.columns, g.scales(depth.start));
                if depth.end == g.k {
                    let origin = [left.rows.start + row, columns.start];
                    g.epilogue.apply_to_row(origin, c, 1, update.columns);
                }
            }
        }
    }

    /// Strip `s` for a block of the depth, and the elements from one of its rows to the next. `first` is the strip at
    /// `scratch`.
    #[inline]
    fn strip(
        &self,
        s: usize,
        depth: &Range<usize>,
        first: usize,
        scratch: *mut E,
    ) -> (*const E, isize) {
        let (g, width) = (self.g, self.cut.width);
        let copied = |slot: usize| {
            scratch
                .wrapping_add(slot * width * depth.len())
                .cast_const()
        };
        match self.right {
            Right::Panels(panels) => {
                let at = (s * g.k + depth.start) * width;
                (panels.get().wrapping_add(at).cast_const(), width as isize)
            }
            Right::Direct if (s + 1) * width <= g.n => {
                (g.b.at(depth.start, s * width).cast(), g.b.layout.row_stride)
            }
            Right::Direct => (copied(0), width as isize),
            Right::Rows => unreachable!("read by `update`"),
            Right::Copied => (copied(s - first), width as isize),
        }
    }

    /// How many of a task's tiles share the requests for what is read next. Where B is read in place the first tile makes
    /// them all: there are few tiles, or B is small.
    fn sharers(&self, tiles: usize) -> usize {
        match self.right {
            Right::Direct | Right::Rows => 1,
            Right::Copied | Right::Panels(_) => tiles,
        }
    }

    /// The rows of B that are read or copied after strip `s`, and the bytes from one to the next. What several tiles read,
    /// or what is copied for all, is in use until the block ends: next is the same strip in the block that follows, or in
    /// the next group. In place, or with one tile, it is the next strip.
    #[inline]
    fn next(
        &self,
        s: usize,
        left: &Left<E>,
        sharers: usize,
        depth: &Range<usize>,
        strips: &Range<usize>,
        scratch: *mut E,
    ) -> Option<(*const u8, isize)> {
        let g = self.g;
        let is_last = s + 1 == strips.end;
        let ends = depth.end == left.depth.end;
        let (p, s) = match self.right {
            Right::Copied if !self.is_packed => return None,
            Right::Direct | Right::Panels(_) if sharers == 1 => match (is_last, ends) {
                (false, _) => (depth.start, s + 1),
                (true, false) => (depth.end, strips.start),
                (true, true) => (left.depth.start, strips.end),
            },
            _ if ends => (left.depth.start, s + strips.len()),
            _ => (depth.end, s),
        };
        if s >= self.cut.count {
            return None;
        }
        if let Right::Panels(_) = self.right {
            let (b, row) = self.strip(s, &(p..p), strips.start, scratch);
            return Some((b.cast(), row * size_of::<E>() as isize));
        }
        let row = g.b.layout.row_stride * size_of::<S>() as isize;
        // Rows that are not contiguous are not asked for.
        (g.b.layout.col_stride == 1).then(|| (g.b.at(p, s * self.cut.width).cast(), row))
    }
}
