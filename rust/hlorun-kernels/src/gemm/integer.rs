//! Products of integers and truth values.
//!
//! In: a [`Gemm`] of any strides. Out: C. Promise: sums modulo 2³² or 2⁶⁴ whose low bits C gets (an "or" where C holds
//! truth values), whatever the tiles and the number of threads. Scratch memory is bounded by the larger of C's rows and
//! the depth, whatever the size of the matrices.
//!
//! A is copied into rows of units once, by all threads; each task multiplies some of them with strips of B that it
//! copies into its cache. Integers of up to 16 bits are multiplied in pairs.

use super::memory::fork;
use super::product::Operand;
use super::tiles::{BAND, GROUP, SHARED, Tiles, worth};
use super::units::{Job, KC, ROW, Stored, Tile, Truth, Unit, loops, row_loops};
use super::units::{Pair, Row, Single};
use super::{Gemm, Matrix, One, OutOfMemory, Outcome, Parallel, Shared, pack, share, thin};
use crate::DType;
use crate::convert::convert;
use crate::element::{SubS, SubU};
use crate::scratch::Scratch;
use std::ops::Range;

/// Multiplications below which nothing is prepared: to pack would take longer than pairs save.
const TINY: usize = 8 * 8 * 16;

/// The product for the types of `g`, if it is here.
pub(super) fn own(g: &Gemm) -> Option<One> {
    use DType::*;
    if g.alpha != (1.0, 0.0) || g.m.saturating_mul(g.n).saturating_mul(g.k) < TINY {
        return None;
    }
    let narrow = matches!(g.out, Pred | S8 | U8 | S16 | U16);
    Some(match (g.dtype, g.out) {
        (S2, S32 | U32) => gemm::<SubS<2>, Pair, u32>,
        (S4, S32 | U32) => gemm::<SubS<4>, Pair, u32>,
        (S8, S32 | U32) => gemm::<i8, Pair, u32>,
        (U2, S32 | U32) => gemm::<SubU<2>, Pair, u32>,
        (U4, S32 | U32) => gemm::<SubU<4>, Pair, u32>,
        (U8, S32 | U32) => gemm::<u8, Pair, u32>,
        (S8, _) if narrow => gemm::<i8, Pair, u32>,
        (U8, _) if narrow => gemm::<u8, Pair, u32>,
        (Pred, S32 | U32) => gemm::<Truth, Pair, u32>,
        (Pred, _) if narrow => gemm::<Truth, Pair, u32>,
        (S16, S32 | U32) => gemm::<i16, Pair, u32>,
        (S16, _) if narrow => gemm::<i16, Pair, u32>,
        // The low 16 bits of a sum do not depend on the operands' signs.
        (U16, S8 | U8 | S16 | U16) => gemm::<i16, Pair, u32>,
        (S32 | U32, S32 | U32) => gemm::<i32, u32, u32>,
        (S64 | U64, S64 | U64) => gemm::<i64, u64, u64>,
        _ => return None,
    })
}

/// One product, of which the sums go to `c`, row-major.
struct Product<S, W> {
    m: usize,
    n: usize,
    k: usize,
    a: Operand<S>,
    b: Operand<S>,
    c: Shared<W>,
    c_row: isize,
}

impl<S: Stored, W: Single> Product<S, W> {
    /// Rows of A, for one block of the depth, as rows of units at `to`.
    fn pack_a<U: Unit>(&self, rows: Range<usize>, depth: Range<usize>, to: *mut U) -> Outcome {
        let (row, col) = (self.a.layout.row_stride, self.a.layout.col_stride);
        let mut job = Job {
            from: self.a.at(rows.start, depth.start),
            lane: row,
            step: col,
            lanes: rows.len(),
            depth: depth.len(),
            to,
            to_row: ROW,
        };
        let units = depth.len().div_ceil(U::DEPTH);
        // SAFETY: a block of A, and room for its rows.
        unsafe {
            if col == 1 || row != 1 {
                (loops::<S, U>().by_lane)(&job);
                return Ok(());
            }
            let mut turned = Scratch::new::<U>(rows.len() * units)?;
            (job.to, job.to_row) = (turned.get(), rows.len());
            (loops::<S, U>().by_step)(&job);
            turn(job.to, rows.len(), to, ROW, units, rows.len());
        }
        Ok(())
    }

    /// Columns of B, for one block of the depth, as strips at `to`.
    fn pack_b<U: Unit>(
        &self,
        depth: Range<usize>,
        columns: Range<usize>,
        strip: usize,
        to: *mut U,
    ) -> Outcome {
        let (row, col) = (self.b.layout.row_stride, self.b.layout.col_stride);
        let units = depth.len().div_ceil(U::DEPTH);
        let turns = row == 1 && col != 1;
        let mut turned = Scratch::new::<U>(if turns { strip * ROW } else { 0 })?;
        for (s, first) in columns.clone().step_by(strip).enumerate() {
            let lanes = strip.min(columns.end - first);
            let to = to.wrapping_add(s * strip * units);
            let mut job = Job {
                from: self.b.at(depth.start, first),
                lane: col,
                step: row,
                lanes,
                depth: depth.len(),
                to,
                to_row: strip,
            };
            // SAFETY: a block of B, and room for its strips.
            unsafe {
                if lanes < strip {
                    // What the kernels multiply and do not write.
                    std::ptr::write_bytes(to, 0, strip * units);
                }
                if turns {
                    (job.to, job.to_row) = (turned.get(), ROW);
                    (loops::<S, U>().by_lane)(&job);
                    turn(job.to, ROW, to, strip, lanes, units);
                } else {
                    (loops::<S, U>().by_step)(&job);
                }
            }
        }
        Ok(())
    }

    /// Multiplies units `U`.
    fn run<U: Unit<Sum = W>>(&self, parallel: &Parallel) -> Outcome {
        let kernels = U::kernels();
        let (most, strip) = (kernels.tiles.len(), kernels.strip);
        let strips = self.n.div_ceil(strip);
        let block = KC * U::DEPTH;
        for first in parallel.checking((0..self.m).step_by(BAND)) {
            let rows = first..self.m.min(first + BAND);
            let tiles = Tiles::new(rows.len(), most);
            // Blocks of the depth whose A is packed at once.
            let packed = rows.len() * ROW;
            let step = (SHARED / size_of::<U>() / packed).max(1) * block;
            for start in parallel.checking((0..self.k).step_by(step)) {
                let depth = start..self.k.min(start + step);
                let blocks = depth.len().div_ceil(block);
                let part = |at: usize| {
                    let p = depth.start + at * block;
                    p..depth.end.min(p + block)
                };
                let mut left = Scratch::new::<U>(blocks * packed)?;
                let left = Shared(left.get::<U>());
                let tasks = worth(parallel, 0, rows.len() * depth.len() / 4, tiles.count);
                fork(parallel, tasks, &|task| {
                    for tile in share(tiles.count, tasks, task, 1) {
                        let own = tiles.get(tile);
                        for at in 0..blocks {
                            let to = left.get().wrapping_add(at * packed + own.start * ROW);
                            let own = first + own.start..first + own.end;
                            self.pack_a(own, part(at), to)?;
                        }
                    }
                    Ok(())
                })?;
                let work = rows.len() * depth.len() * self.n;
                let tasks = worth(parallel, work / 2, depth.len() * self.n / 4, usize::MAX);
                // Few strips: some tasks share one, and copy it each for itself.
                let across = tasks.min(strips);
                let down = (tasks / across).min(tiles.count.div_ceil(4)).max(1);
                let group = strips.div_ceil(across).min(GROUP);
                fork(parallel, across * down, &|task| {
                    let own = share(strips, across, task % across, 1);
                    let tall = share(tiles.count, down, task / across, 1);
                    let mut right = Scratch::new::<U>(group * strip * KC)?;
                    let right = right.get::<U>();
                    for s in own.clone().step_by(group) {
                        let strips = s..own.end.min(s + group);
                        for at in 0..blocks {
                            let depth = part(at);
                            let columns = s * strip..self.n.min(strips.end * strip);
                            self.pack_b(depth.clone(), columns, strip, right)?;
                            let units = depth.len().div_ceil(U::DEPTH);
                            for tile in tall.clone() {
                                let own = tiles.get(tile);
                                for (slot, s) in strips.clone().enumerate() {
                                    let at = at * packed + own.start * ROW;
                                    let row = (first + own.start) as isize * self.c_row;
                                    let tile = Tile::<U> {
                                        depth: units,
                                        a: left.get().wrapping_add(at),
                                        b: right.wrapping_add(slot * strip * units),
                                        c: self
                                            .c
                                            .get()
                                            .wrapping_offset(row)
                                            .wrapping_add(s * strip),
                                        c_row: self.c_row,
                                        width: strip.min(self.n - s * strip),
                                        adds: depth.start > 0,
                                    };
                                    // SAFETY: a tile of the product; tasks own their part of C.
                                    unsafe { kernels.tiles[own.len() - 1](&tile) }
                                }
                            }
                        }
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

/// Transposes units.
///
/// # Safety
/// `from` has `rows` rows of `cols` units, `from_row` apart, and `to` room for `cols` rows.
unsafe fn turn<U>(
    from: *const U,
    from_row: usize,
    to: *mut U,
    to_row: usize,
    rows: usize,
    cols: usize,
) {
    let layout = |row| Matrix::row_major(row, 0);
    // SAFETY: the caller's contract.
    unsafe {
        pack::strided(
            from.cast(),
            layout(from_row),
            to.cast(),
            layout(to_row).transposed(),
            rows,
            cols,
            size_of::<U>(),
        );
    }
}

/// One row by a B that is read where it lies, if it can be.
fn one_row<S: Stored, W: Single>(
    g: &Product<S, W>,
    parallel: &Parallel,
) -> Result<bool, OutOfMemory> {
    let [by_row, by_column] = row_loops::<S, W>();
    let (run, stride): (Row<S, W>, isize) = match (g.b.layout.col_stride, g.b.layout.row_stride) {
        (1, row) => (by_row, row),
        (column, 1) => (by_column, column),
        _ => return Ok(false),
    };
    let mut x = Scratch::new::<S>(g.k)?;
    let x = x.get::<S>();
    for p in 0..g.k {
        // SAFETY: the row of A.
        unsafe { x.add(p).write(g.a.at(0, p).read()) };
    }
    let x = Shared(x);
    let tasks = worth(parallel, g.k * g.n, g.k * g.n, g.n.div_ceil(64));
    fork(parallel, tasks, &|task| {
        let own = share(g.n, tasks, task, 64);
        // SAFETY: the copy of A, these columns of B and of C, which are this task's.
        unsafe {
            let x = std::slice::from_raw_parts(x.get().cast_const(), g.k);
            let y = std::slice::from_raw_parts_mut(g.c.get().add(own.start), own.len());
            let b = g.b.at(0, own.start);
            run(x, b, stride, y);
        }
        Ok(())
    })?;
    Ok(true)
}

/// Many rows by a B of few columns and rows, if it is that.
fn thin<S: Stored, W: Single>(g: &Product<S, W>, parallel: &Parallel) -> Result<bool, OutOfMemory> {
    if g.n > thin::MAX_COLUMNS || g.k > thin::MAX_TERMS || g.m <= g.k {
        return Ok(false);
    }
    let lanes = thin::lanes(g.n);
    let mut b = Scratch::new::<W>(g.k * lanes)?;
    let b = b.get::<W>();
    for (p, lane) in (0..g.k).flat_map(|p| (0..lanes).map(move |lane| (p, lane))) {
        let is_column = lane < g.n;
        // SAFETY: an element of B where there is one, and its place in the scratch.
        unsafe {
            let value = if is_column {
                g.b.at(p, lane).read().wide()
            } else {
                0
            };
            b.add(p * lanes + lane).write(W::unit(value, 0));
        }
    }
    let b = Shared(b);
    let tasks = worth(parallel, g.m * g.k * lanes / 4, g.m * (g.k + g.n), g.m);
    fork(parallel, tasks, &|task| {
        let own = share(g.m, tasks, task, 1);
        let rows = thin::Rows {
            a: g.a.at(own.start, 0),
            a_row: g.a.layout.row_stride,
            a_col: g.a.layout.col_stride,
            b: b.get().cast_const(),
            terms: g.k,
            c: g.c.get().wrapping_offset(own.start as isize * g.c_row),
            c_row: g.c_row,
            rows: own.len(),
            columns: g.n,
        };
        // SAFETY: these rows of A and of C, which are this task's; all of B.
        unsafe { thin::multiply(&rows) };
        Ok(())
    })?;
    Ok(true)
}

/// Runs one product: operands stored as `S`, multiplied as units `U`, or one by one as `W`.
///
/// # Safety
/// As [`super::gemm`]; `S` is what `g.dtype` is stored as, and `W` is `U`'s sum.
unsafe fn gemm<S: Stored, U: Unit<Sum = W>, W: Single>(
    g: &Gemm,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
    parallel: &Parallel,
) -> Outcome {
    if g.n == 1 && g.m > 1 {
        // SAFETY: the same contract.
        return unsafe { gemm::<S, U, W>(&g.transposed(), b, a, c, parallel) };
    }
    let plain = g.out.size_bytes() == size_of::<W>() && g.c.col_stride == 1 && g.beta == 0.0;
    // The sums of a band of rows are made beside C and moved into it.
    let band = if plain {
        g.m
    } else {
        (SHARED / g.n).max(BAND).min(g.m)
    };
    let mut sums = Scratch::new::<W>(if plain { 0 } else { band * g.n })?;
    let sums = sums.get::<W>();
    let whole = Operand::<S>::new(a, g.a);
    for first in (0..g.m).step_by(band) {
        let rows = band.min(g.m - first);
        let (to, to_row) = if plain {
            (c.cast(), g.c.row_stride)
        } else {
            (sums, g.n as isize)
        };
        let product = Product::<S, W> {
            m: rows,
            n: g.n,
            k: g.k,
            a: whole.rows_from(first),
            b: Operand::new(b, g.b),
            c: Shared(to),
            c_row: to_row,
        };
        let done = match g.m {
            1 => one_row(&product, parallel)?,
            _ => thin(&product, parallel)?,
        };
        if !done {
            product.run::<U>(parallel)?;
        }
        if !plain {
            let size = g.out.size_bytes();
            let at = first as isize * g.c.row_stride * size as isize;
            // SAFETY: these rows of C, and their sums.
            unsafe { finish::<W>(g, sums, c.wrapping_offset(at), rows)? };
        }
    }
    Ok(())
}

/// Moves sums into rows of C.
///
/// # Safety
/// `sums` has `rows` dense rows, and `c` is the first of as many rows of C.
unsafe fn finish<W: Single>(g: &Gemm, sums: *mut W, c: *mut u8, rows: usize) -> Outcome {
    let wide = if size_of::<W>() == 8 {
        DType::S64
    } else {
        DType::S32
    };
    let (count, size) = (rows * g.n, g.out.size_bytes());
    // SAFETY: the caller's contract; the buffers made here have room for the rows.
    unsafe {
        if g.beta != 0.0 {
            let old = pack::dense(c, rows, g.n, g.c, size)?;
            let mut wider = Scratch::new::<W>(count)?;
            convert(g.out, wide)(old.as_ptr(), wider.get(), count);
            let beta = W::unit(g.beta as i64, 0);
            let old = std::slice::from_raw_parts(wider.get::<W>().cast_const(), count);
            for (sum, &old) in std::slice::from_raw_parts_mut(sums, count)
                .iter_mut()
                .zip(old)
            {
                *sum = sum.mul_add(beta, old);
            }
        }
        if size == size_of::<W>() {
            pack::scatter(sums.cast(), c, rows, g.n, g.c, size);
            return Ok(());
        }
        let mut narrow = Scratch::new::<u8>(count * size)?;
        convert(wide, g.out)(sums.cast(), narrow.get(), count);
        pack::scatter(narrow.get(), c, rows, g.n, g.c, size);
    }
    Ok(())
}
