//! Products of `f32`, `f64`, `bf16` and `f16`: our own, for every shape.
//!
//! In: a [`Gemm`] of any strides. Out: C. Promise: sums along k run in blocks of [`KC`] in ascending order, each block
//! one sum in registers, whatever the shape of the tiles, the number of threads and the split of C among them: the bits
//! of an element depend on k, its row of A and its column of B alone, and on nothing else of the product but the path
//! that its sizes choose. Scratch memory is bounded, whatever the size of the matrices.
//!
//! A product of many columns runs by columns: A is copied into tiles of rows once, by all threads, and each task
//! multiplies it with strips of B that it copies into its cache (Goto and van de Geijn, "Anatomy of High-Performance
//! Matrix Multiplication", 2008). One of few columns runs by rows: B is copied once, and each task reads its rows of A
//! where they lie. Operands that are read only once or twice are not copied at all.

use super::memory::fork;
use super::micro::{Kernels, Real, Source, Tile};
use super::small::{few_rows, narrow, tiny};
use super::strips::Job;
use super::tiles::{Tiles, strip_vectors};
use super::{Gemm, Matrix, Outcome, Parallel, Shared, share};
use crate::scratch::Scratch;
use std::ops::Range;

/// Steps along k in one block: a strip of B of this length stays in the first-level cache.
pub(super) const KC: usize = 256;
/// Most rows of A that are packed for all threads at once.
const WIDE: usize = 2048;
/// Most bytes that are packed for all threads at once, where a block of the depth is not more.
const SHARED: usize = 4 << 20;
/// Steps by which a strip that is read in place is asked for ahead.
const AHEAD: isize = 12;
/// Strips of B a task keeps in its second-level cache.
const GROUP: usize = 8;
/// Columns of B below which a product runs by rows when it has more of those.
const FEW: usize = 128;
/// Half as many rows as a product has at least that runs by rows.
const FEW_ROWS: usize = 16;
/// Rows of A up to which B is read in place when its columns are contiguous.
const SKINNY: usize = 32;
/// Multiplications of a product that is too small to prepare anything for.
const TINY: usize = 64 * 64 * 64;
/// Bytes of the widest vector of any tier.
pub(super) const WIDEST: usize = 64;
/// Elements of a B that stays in a cache while it is read in place.
const CACHED: usize = 1 << 14;
/// Tiles of rows up to which B is read in place by each.
const READERS: usize = 2;
/// Bytes of a B of which no cache keeps much: it is read in place by one tile only, and asked for some rows ahead.
const LARGE: usize = 16 << 20;
const FAR_AHEAD: usize = 96;
/// Strips that a task should have where B is read in place, so that it reads long rows.
const NEIGHBOURS: usize = 4;
/// Depth up to which a product of many columns runs by rows: it writes more than it reads.
const SHALLOW: usize = 32;
/// Most elements of its B, which every task reads for each of its tiles.
const SHALLOW_ELEMENTS: usize = 1 << 17;
/// Multiplications, and elements read, that are worth another thread.
const WORTH: usize = 3 << 18;
const WORTH_READ: usize = 1 << 17;

/// How many of at most `most` tasks are worth making of so many multiplications and elements.
pub(super) fn worth(
    parallel: &Parallel,
    multiplications: usize,
    elements: usize,
    most: usize,
) -> usize {
    if parallel.threads == 1 || (multiplications < WORTH && elements < WORTH_READ) {
        1
    } else {
        most.clamp(1, parallel.threads * 8)
    }
}

/// The product, all of one type and one layout, of which C is row-major.
pub(super) struct Product<E, S> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: Shared<S>,
    pub a_at: Matrix,
    pub b: Shared<S>,
    pub b_at: Matrix,
    pub c: Shared<E>,
    pub c_row: isize,
    pub alpha: E,
    pub beta: E,
    /// The operands need no conversion.
    pub is_plain: bool,
}

impl<E: Real, S: Source<E>> Product<E, S> {
    pub fn a(&self, i: usize, p: usize) -> *const S {
        let at = i as isize * self.a_at.row_stride + p as isize * self.a_at.col_stride;
        self.a.get().wrapping_offset(at)
    }

    pub fn b(&self, p: usize, j: usize) -> *const S {
        let at = p as isize * self.b_at.row_stride + j as isize * self.b_at.col_stride;
        self.b.get().wrapping_offset(at)
    }

    pub fn c(&self, i: usize, j: usize) -> *mut E {
        self.c
            .get()
            .wrapping_offset(i as isize * self.c_row)
            .wrapping_add(j)
    }

    fn pack_a(&self, rows: Range<usize>, depth: Range<usize>, to: *mut E) {
        let job = Job {
            from: self.a(rows.start, depth.start),
            lane: self.a_at.row_stride,
            step: self.a_at.col_stride,
            count: rows.len(),
            width: rows.len(),
            depth: depth.len(),
            to,
        };
        // SAFETY: a block of A; the callers make room for it.
        unsafe { (S::loops().pack)(&job) }
    }

    pub fn pack_b(&self, depth: Range<usize>, columns: Range<usize>, width: usize, to: *mut E) {
        let job = Job {
            from: self.b(depth.start, columns.start),
            lane: self.b_at.col_stride,
            step: self.b_at.row_stride,
            count: columns.len(),
            width,
            depth: depth.len(),
            to,
        };
        // SAFETY: a block of B; the callers make room for it.
        unsafe { (S::loops().pack)(&job) }
    }

    /// Whether B is read from memory, not from a cache.
    fn is_large(&self) -> bool {
        self.k.saturating_mul(self.n) > LARGE / size_of::<S>()
    }

    /// β for a block of the depth: later blocks add to what the first one wrote.
    pub fn beta(&self, p: usize) -> E {
        if p == 0 { self.beta } else { E::ONE }
    }
}

/// Where a strip of B is read.
enum Right {
    /// In place.
    Direct,
    /// Copied by the task.
    Copied,
    /// In the panels of [`super::packed`].
    Panels,
}

/// B's strips are shared among the tasks; A is packed for all of them.
pub(super) fn by_columns<E: Real, S: Source<E>>(
    g: &Product<E, S>,
    panels: Option<Shared<E>>,
    parallel: &Parallel,
) -> Outcome {
    let kernels = E::kernels();
    let vectors = match panels {
        Some(_) => 1,
        None => strip_vectors(kernels.lanes, g.m, g.n),
    };
    let width = kernels.lanes << vectors;
    let strips = g.n.div_ceil(width);
    let right = match panels {
        Some(_) => Right::Panels,
        None if g.is_plain && g.b_at.col_stride == 1 => {
            let readers = if g.is_large() { 1 } else { READERS };
            let few = g.m.div_ceil(kernels.packed_rows[vectors]) <= readers;
            if few || g.k * g.n <= CACHED {
                Right::Direct
            } else {
                Right::Copied
            }
        }
        None => Right::Copied,
    };
    // Few columns, or few multiplications: tiles of A are read in place.
    let packed = !g.is_plain
        || (strips > 2 && g.m.min(WIDE) * g.k * strips > 1 << 12)
        || (strips == 1 && g.k >= 128 && g.m > kernels.direct_rows[vectors]);
    let most = if packed {
        &kernels.packed_rows
    } else {
        &kernels.direct_rows
    }[vectors];
    for block in (0..g.m).step_by(WIDE) {
        let rows = block..g.m.min(block + WIDE);
        let tiles = Tiles::new(rows.len(), most.min(14));
        let step = if packed {
            (SHARED / size_of::<E>() / rows.len() / KC).max(1) * KC
        } else {
            g.k.next_multiple_of(KC)
        };
        for start in (0..g.k).step_by(step) {
            let depth = start..g.k.min(start + step);
            let room = if packed { rows.len() * depth.len() } else { 0 };
            let mut left = Scratch::new::<E>(room)?;
            let left = Shared(left.get::<E>());
            if packed {
                let tasks = worth(parallel, 0, room / 4, tiles.count);
                fork(parallel, tasks, &|task| {
                    for tile in share(tiles.count, tasks, task, 1) {
                        let own = tiles.get(tile);
                        for p in depth.clone().step_by(KC) {
                            let block = p..depth.end.min(p + KC);
                            let at = (p - depth.start) * rows.len() + own.start * block.len();
                            let to = left.get().wrapping_add(at);
                            g.pack_a(block_of(&rows, &own), block, to);
                        }
                    }
                    Ok(())
                })?;
            }
            let work = rows.len() * depth.len() * g.n;
            let most = match right {
                Right::Direct => strips
                    .div_ceil(NEIGHBOURS)
                    .max(strips.min(2 * parallel.threads)),
                _ => strips,
            };
            let tasks = worth(parallel, work, depth.len() * g.n, most);
            let group = strips.div_ceil(tasks).min(GROUP);
            let run = |task: usize| {
                let own = share(strips, tasks, task, 1);
                let copied = matches!(right, Right::Copied);
                let room = if copied {
                    group * width * KC.min(depth.len())
                } else {
                    width * KC
                };
                let mut scratch = Scratch::new::<E>(room)?;
                for first in own.clone().step_by(group) {
                    let strips = first..own.end.min(first + group);
                    for p in depth.clone().step_by(KC) {
                        let block = p..depth.end.min(p + KC);
                        let a = packed.then(|| {
                            let at = (p - depth.start) * rows.len();
                            left.get().wrapping_add(at).cast_const()
                        });
                        columns(
                            g,
                            kernels,
                            &rows,
                            tiles,
                            a,
                            block,
                            strips.clone(),
                            vectors,
                            &right,
                            panels,
                            scratch.get(),
                        );
                    }
                }
                Ok(())
            };
            fork(parallel, tasks, &run)?;
        }
    }
    Ok(())
}

fn block_of(rows: &Range<usize>, own: &Range<usize>) -> Range<usize> {
    rows.start + own.start..rows.start + own.end
}

/// One block of the depth: all tiles of A by some strips of B.
#[allow(clippy::too_many_arguments, reason = "the body of one loop")]
fn columns<E: Real, S: Source<E>>(
    g: &Product<E, S>,
    kernels: &Kernels<E>,
    rows: &Range<usize>,
    tiles: Tiles,
    left: Option<*const E>,
    depth: Range<usize>,
    strips: Range<usize>,
    vectors: usize,
    right: &Right,
    panels: Option<Shared<E>>,
    scratch: *mut E,
) {
    let width = kernels.lanes << vectors;
    let room = width * depth.len();
    let strip = |s: usize| -> (*const E, isize) {
        let columns = s * width..g.n.min((s + 1) * width);
        match (right, panels) {
            (_, Some(panels)) => {
                let at = (s * g.k + depth.start) * width;
                (panels.get().wrapping_add(at).cast_const(), width as isize)
            }
            (Right::Direct, _) if columns.len() == width => {
                (g.b(depth.start, columns.start).cast(), g.b_at.row_stride)
            }
            _ => {
                let slot = if matches!(right, Right::Copied) {
                    s - strips.start
                } else {
                    0
                };
                (
                    scratch.wrapping_add(slot * room).cast_const(),
                    width as isize,
                )
            }
        }
    };
    let columns = strips.start * width..g.n.min(strips.end * width);
    match right {
        Right::Copied => g.pack_b(depth.clone(), columns, width, scratch),
        // The last strip may be cut off.
        Right::Direct if columns.len() % width != 0 => {
            let last = columns.end - columns.len() % width..columns.end;
            g.pack_b(depth.clone(), last, width, scratch);
        }
        _ => {}
    }
    let rows_at = |p: usize, s: usize| -> (*const u8, isize) {
        let step = g.b_at.row_stride * size_of::<S>() as isize;
        match g.b_at.col_stride {
            1 => (g.b(p, s * width).cast(), step),
            _ => (scratch.cast_const().cast(), 0),
        }
    };
    for tile in 0..tiles.count {
        let own = tiles.get(tile);
        for s in strips.clone() {
            let cut = width.min(g.n - s * width);
            let kernel = kernels.fitting(own.len(), vectors, cut, left.is_some());
            let (b, b_row) = strip(s);
            // While the first tile is computed: what is read or copied from B after this.
            let first = tile == 0;
            let (ahead, ahead_step) = match right {
                Right::Copied if first && left.is_some() && depth.end < g.k => {
                    rows_at(depth.end, s)
                }
                Right::Copied if first && left.is_some() => rows_at(0, s + strips.len()),
                Right::Direct if first && g.is_large() => rows_at(depth.start + FAR_AHEAD, s),
                Right::Direct if first && s + 1 < strips.end => rows_at(depth.start, s + 1),
                Right::Direct if first && depth.end < g.k => rows_at(depth.end, strips.start),
                Right::Panels => {
                    let step = b_row * size_of::<E>() as isize;
                    (b.wrapping_offset(AHEAD * b_row).cast(), step)
                }
                _ => (b.cast(), 0),
            };
            let i = rows.start + own.start;
            let tile = Tile {
                depth: depth.len(),
                a: match left {
                    Some(left) => left.wrapping_add(own.start * depth.len()),
                    None => g.a(i, depth.start).cast(),
                },
                a_row: g.a_at.row_stride,
                a_col: g.a_at.col_stride,
                b,
                b_row,
                ahead,
                ahead_step,
                c: g.c(i, s * width),
                c_row: g.c_row,
                width: cut,
                alpha: g.alpha,
                beta: g.beta(depth.start),
            };
            // SAFETY: a tile of the product; tasks own their columns of C.
            unsafe { kernel(&tile) }
        }
    }
}

/// Rows of A are shared among the tasks; B, of few columns, is packed for all of them.
fn by_rows<E: Real, S: Source<E>>(g: &Product<E, S>, parallel: &Parallel) -> Outcome {
    let kernels = E::kernels();
    let vectors = strip_vectors(kernels.lanes, 8, g.n);
    let width = kernels.lanes << vectors;
    let strips = g.n.div_ceil(width);
    let direct_a = g.is_plain && strips <= 4;
    let most = if direct_a {
        &kernels.direct_rows
    } else {
        &kernels.packed_rows
    }[vectors];
    let tiles = Tiles::new(g.m, most);
    let direct_b =
        g.is_plain && g.b_at.col_stride == 1 && g.n.is_multiple_of(width) && g.k * g.n <= 1 << 12;
    let step = if direct_b {
        g.k.next_multiple_of(KC)
    } else {
        (SHARED / size_of::<E>() / (strips * width) / KC).max(1) * KC
    };
    for start in (0..g.k).step_by(step) {
        let depth = start..g.k.min(start + step);
        let row = strips * width;
        let room = if direct_b { 0 } else { row * depth.len() };
        let mut right = Scratch::new::<E>(room)?;
        let right = Shared(right.get::<E>());
        if !direct_b {
            let blocks = depth.len().div_ceil(KC);
            let tasks = worth(parallel, 0, room / 4, blocks);
            fork(parallel, tasks, &|task| {
                for block in share(blocks, tasks, task, 1) {
                    let p = depth.start + block * KC;
                    let block = p..depth.end.min(p + KC);
                    let to = right.get().wrapping_add((p - depth.start) * row);
                    g.pack_b(block, 0..g.n, width, to);
                }
                Ok(())
            })?;
        }
        let work = g.m * depth.len() * g.n;
        let tasks = worth(parallel, work, g.m * depth.len(), tiles.count);
        fork(parallel, tasks, &|task| {
            let mut scratch = Scratch::new::<E>(if direct_a { 0 } else { most * KC })?;
            let scratch = scratch.get::<E>();
            for tile in share(tiles.count, tasks, task, 1) {
                let own = tiles.get(tile);
                for p in depth.clone().step_by(KC) {
                    let block = p..depth.end.min(p + KC);
                    let a: *const E = if direct_a {
                        g.a(own.start, p).cast()
                    } else {
                        g.pack_a(own.clone(), block.clone(), scratch);
                        scratch
                    };
                    for s in 0..strips {
                        let cut = width.min(g.n - s * width);
                        let kernel = kernels.fitting(own.len(), vectors, cut, !direct_a);
                        let (b, b_row) = if direct_b {
                            (g.b(p, s * width).cast(), g.b_at.row_stride)
                        } else {
                            let at = (p - depth.start) * row + s * width * block.len();
                            (right.get().wrapping_add(at).cast_const(), width as isize)
                        };
                        let tile = Tile {
                            depth: block.len(),
                            a,
                            a_row: g.a_at.row_stride,
                            a_col: g.a_at.col_stride,
                            b,
                            b_row,
                            ahead: b.wrapping_offset(AHEAD * b_row).cast(),
                            ahead_step: b_row * size_of::<E>() as isize,
                            c: g.c(own.start, s * width),
                            c_row: g.c_row,
                            width: cut,
                            alpha: g.alpha,
                            beta: g.beta(p),
                        };
                        // SAFETY: a tile of the product; tasks own their rows of C.
                        unsafe { kernel(&tile) }
                    }
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Chooses the way of a product. Ways that sum in different orders are told apart by sizes alone, not by the tier.
fn run<E: Real, S: Source<E>>(g: &Product<E, S>, parallel: &Parallel) -> Outcome {
    let lanes = E::kernels().lanes;
    let widest = WIDEST / size_of::<E>();
    let close = g.b_at.col_stride == 1 && g.b_at.row_stride == g.n as isize;
    let is_narrow = g.is_plain && close && g.m < 2 * FEW_ROWS && g.n <= (2 * widest).min(4 * lanes);
    let whole = if is_narrow { widest } else { lanes };
    let fits = g.b_at.col_stride == 1 && g.n.is_multiple_of(whole);
    if g.is_plain && fits && g.m > 1 && g.k <= KC && g.m * g.n * g.k <= TINY {
        tiny(g);
        return Ok(());
    }
    // How far an only column is from the next one says nothing.
    let is_column = g.b_at.row_stride == 1 && (g.n == 1 || g.b_at.col_stride != 1);
    let by_row = g.m == 1 && g.b_at.col_stride == 1 && !is_column;
    let by_column = g.m <= SKINNY && is_column && (g.m == 1 || g.k >= 4 * widest);
    if by_row || by_column {
        return few_rows(g, by_row, parallel);
    }
    let shallow =
        g.k <= SHALLOW && g.n >= FEW && g.m >= 2 * SKINNY && g.k * g.n <= SHALLOW_ELEMENTS;
    if is_narrow {
        return narrow(g);
    }
    if shallow || (g.n <= FEW && g.m >= 2 * g.n.max(FEW_ROWS)) {
        by_rows(g, parallel)
    } else {
        by_columns(g, None, parallel)
    }
}

/// Whether the columns of C should be the vectors.
fn wants_swap(g: &Gemm) -> bool {
    let vector = g.n == 1 && g.m > 1;
    // Columns that would fill a vector badly.
    let few = g.n < 16 && g.n < g.m;
    let tall = few && g.n < 8 && g.m >= 16 && g.a.row_stride == 1;
    let narrow = few && g.m >= if g.n < 8 { 32 } else { 256 } && g.k >= 64 && g.a.col_stride == 1;
    let plain = g.c.col_stride == 1 || g.c.row_stride != 1;
    vector || tall || narrow || (!plain && g.m > SKINNY)
}

/// Runs one product: operands stored as `S`, C as `O`, sums in `E`.
///
/// # Safety
/// As [`super::gemm`]; `k` is not zero.
pub(super) unsafe fn gemm<E: Real, S: Source<E>, O: Source<E>>(
    g: &Gemm,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
    parallel: &Parallel,
) -> Outcome {
    if g.m == 0 || g.n == 0 {
        return Ok(());
    }
    let (g, a, b) = if wants_swap(g) {
        (&g.transposed(), b, a)
    } else {
        (g, a, b)
    };
    let is_plain = std::any::TypeId::of::<S>() == std::any::TypeId::of::<E>();
    let in_place = std::any::TypeId::of::<O>() == std::any::TypeId::of::<E>()
        && (g.c.col_stride == 1 || g.n == 1);
    let mut product = Product::<E, S> {
        m: g.m,
        n: g.n,
        k: g.k,
        a: Shared(a.cast_mut().cast()),
        a_at: g.a,
        b: Shared(b.cast_mut().cast()),
        b_at: g.b,
        c: Shared(c.cast()),
        c_row: g.c.row_stride,
        alpha: E::of(g.alpha.0),
        beta: E::of(g.beta),
        is_plain,
    };
    if in_place {
        return run(&product, parallel);
    }
    // The sums of a band of rows are made beside C and rounded, or moved, into it.
    let band = (SHARED / g.n).max(WIDE).min(g.m);
    let mut sums = Scratch::new::<E>(band * g.n)?;
    let (sums, out) = (Shared(sums.get::<E>()), Shared(c.cast::<O>()));
    let beta = E::of(g.beta);
    for start in (0..g.m).step_by(band) {
        product.m = band.min(g.m - start);
        product.a = Shared(
            a.cast::<S>()
                .wrapping_offset(start as isize * g.a.row_stride)
                .cast_mut(),
        );
        product.c = sums;
        product.c_row = g.n as isize;
        product.beta = E::ZERO;
        run(&product, parallel)?;
        let rows = product.m;
        let tasks = worth(parallel, 0, rows * g.n / 2, rows.min(parallel.threads));
        let (row, column) = (g.c.row_stride, g.c.col_stride);
        fork(parallel, tasks, &|task| {
            for i in share(rows, tasks, task, 1) {
                let from = sums.get().wrapping_add(i * g.n);
                let to = out.get().wrapping_offset((start + i) as isize * row);
                // SAFETY: a row of the sums and of C, which no other task writes.
                unsafe { (O::loops().finish)(from, to, column, g.n, beta) };
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Columns of a panel.
pub(super) fn panel_width<E: Real>() -> usize {
    2 * E::kernels().lanes
}
