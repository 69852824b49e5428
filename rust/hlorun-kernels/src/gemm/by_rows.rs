//! The driver of products of few columns: rows of A are shared among the tasks; B is packed for all of them, unless it is
//! in panels or small.
//!
//! In: a [`Product`], or one whose B lies in panels. Out: its C. Promise: as [`super::by_columns`].

use super::ahead::Ahead;
use super::micro::{Real, Source};
use super::product::{Product, Strips};
use super::tiles::{KC, Tiles, depth_step, strip_vectors, worth};
use super::{Outcome, Parallel, Shared, memory::fork, share};
use crate::scratch::Scratch;
use std::ops::Range;

/// Where B is read.
#[derive(Clone, Copy)]
enum Right<E> {
    /// In place.
    Direct,
    /// In strips that were copied for all tasks.
    Copied(Shared<E>),
    /// In the panels of [`super::packed`].
    Panels(Shared<E>),
}

/// A product, and how it is cut.
struct Driver<'g, E: 'static, S> {
    g: &'g Product<'g, E, S>,
    cut: Strips<E>,
    tiles: Tiles,
    /// Most rows of a tile.
    most: usize,
    /// A, and B, is read in place.
    direct_a: bool,
    direct_b: bool,
}

/// Runs the product, whose B lies in `panels` if there are any.
pub(super) fn run<E: Real, S: Source<E>>(
    g: &Product<E, S>,
    panels: Option<Shared<E>>,
    parallel: &Parallel,
) -> Outcome {
    let driver = Driver::new(g, panels.is_some());
    let row = driver.cut.count * driver.cut.width;
    let step = depth_step::<E>(row);
    for start in parallel.checking((0..g.k).step_by(step)) {
        let depth = start..g.k.min(start + step);
        let is_copied = !driver.direct_b && panels.is_none();
        let room = if is_copied { row * depth.len() } else { 0 };
        let mut right = Scratch::new::<E>(room)?;
        let right = Shared(right.get::<E>());
        if is_copied {
            let blocks = depth.len().div_ceil(KC);
            let tasks = worth(parallel, 0, room / 4, blocks);
            fork(parallel, tasks, &|task| {
                for block in share(blocks, tasks, task, 1) {
                    let p = depth.start + block * KC;
                    let block = p..depth.end.min(p + KC);
                    let to = right.get().wrapping_add((p - depth.start) * row);
                    g.pack_b(block, 0..g.n, driver.cut.width, to);
                }
                Ok(())
            })?;
        }
        let right = match panels {
            Some(panels) => Right::Panels(panels),
            None if driver.direct_b => Right::Direct,
            None => Right::Copied(right),
        };
        driver.multiply(&depth, right, parallel)?;
    }
    Ok(())
}

impl<'g, E: Real, S: Source<E>> Driver<'g, E, S> {
    fn new(g: &'g Product<'g, E, S>, has_panels: bool) -> Driver<'g, E, S> {
        let cut = Strips::<E>::new(strip_vectors(E::kernels(), g.m, g.n), g.n);
        let direct_a = g.is_plain && cut.count <= 4;
        let (most, width) = (cut.most_rows(!direct_a), cut.width);
        Driver {
            g,
            cut,
            tiles: Tiles::new(g.m, most),
            most,
            direct_a,
            direct_b: !has_panels
                && g.is_plain
                && g.b.layout.col_stride == 1
                && g.n.is_multiple_of(width)
                && g.k * g.n <= 1 << 12,
        }
    }

    /// Multiplies all rows of A, which the tasks share, by some of the depth of B.
    fn multiply(&self, depth: &Range<usize>, right: Right<E>, parallel: &Parallel) -> Outcome {
        let (g, tiles) = (self.g, self.tiles);
        let work = g.m * depth.len() * g.n;
        let tasks = worth(parallel, work, g.m * depth.len(), tiles.count);
        let room = if self.direct_a { 0 } else { self.most * KC };
        fork(parallel, tasks, &|task| {
            let mut scratch = Scratch::new::<E>(room)?;
            let own = share(tiles.count, tasks, task, 1);
            let first = own.start;
            for tile in own {
                let own = tiles.get(tile);
                for p in depth.clone().step_by(KC) {
                    let block = p..depth.end.min(p + KC);
                    let right = match right {
                        Right::Direct => None,
                        // The strips of a block of the depth lie one after the other.
                        Right::Copied(strips) => {
                            let row = (p - depth.start) * self.cut.count * self.cut.width;
                            Some((strips.get().wrapping_add(row), block.len()))
                        }
                        Right::Panels(panels) => {
                            Some((panels.get().wrapping_add(p * self.cut.width), g.k))
                        }
                    };
                    self.block(own.clone(), block, right, tile == first, scratch.get());
                }
            }
            Ok(())
        })
    }

    /// One block of the depth: one tile of A by all strips of B, which are in place, or begin at `right`, each as deep as
    /// said. `is_first`: this task has not read them yet, so that they may be in no cache of its own.
    fn block(
        &self,
        own: Range<usize>,
        depth: Range<usize>,
        right: Option<(*mut E, usize)>,
        is_first: bool,
        scratch: *mut E,
    ) {
        let (g, width) = (self.g, self.cut.width);
        if !self.direct_a {
            g.pack_a(own.clone(), depth.clone(), scratch);
        }
        for s in 0..self.cut.count {
            let cut = width.min(g.n - s * width);
            let kernel = self.cut.kernel(own.len(), cut, !self.direct_a);
            let mut part = g.tile(own.start, s * width, depth.clone(), cut);
            if !self.direct_a {
                part.a = scratch;
            }
            if let Some((right, rows)) = right {
                part.b = right.wrapping_add(s * width * rows);
                part.b_row = width as isize;
            }
            part.ahead = match is_first {
                true => Ahead::own(part.b, part.b_row),
                false => Ahead::nothing(part.b),
            };
            // SAFETY: a tile of the product; tasks own their rows of C.
            unsafe { kernel(&part) }
        }
    }
}
