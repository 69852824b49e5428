//! Products that are not worth preparing much for: of a few rows, or small in all.
//!
//! In: a [`Product`]. Out: its C. Promise: the larger operand is read once, where it lies. On one thread, except for
//! [`few_rows`].

use super::ahead::Ahead;
use super::memory::fork;
use super::micro::{Real, Source};
use super::product::Product;
use super::real::WIDEST;
use super::tiles::{KC, Tiles, worth};
use super::vector::Columns;
use super::{Outcome, Parallel, Shared, share};
use crate::scratch::Scratch;

/// A few rows by a B that is read where it lies: `y = x·B` before α and β.
pub(super) fn few_rows<E: Real, S: Source<E>>(g: &Product<E, S>, parallel: &Parallel) -> Outcome {
    let by_row = g.b.layout.col_stride == 1;
    // Each piece of a row begins a stream from memory: pieces are as long as a task for each thread allows. Columns that are
    // contiguous lie one behind the other.
    let parts = match by_row {
        true => parallel.threads,
        false => 4 * parallel.threads,
    };
    // Columns of a task: enough to read whole lines of every row.
    let most = parts.min(g.n.div_ceil(256));
    let tasks = worth(parallel, g.m * g.k * g.n, g.k.saturating_mul(g.n), most);
    let lies_ready = g.is_plain
        && g.a.layout.col_stride == 1
        && (g.m == 1 || g.a.layout.row_stride == g.k as isize);
    let mut copied = None;
    let x = if lies_ready {
        g.a.at(0, 0).cast_mut().cast()
    } else {
        let x = copied.insert(Scratch::new::<E>(g.m * g.k)?).get::<E>();
        for i in 0..g.m {
            for p in 0..g.k {
                // SAFETY: an element of A; the buffer has m·k.
                unsafe { x.add(i * g.k + p).write(g.a.at(i, p).read().get()) };
            }
        }
        x
    };
    let x = Shared(x);
    // With α = 1 and β = 0 the sums are C itself.
    let is_sum = g.alpha == E::ONE && g.beta == E::ZERO && g.c_row >= 0;
    fork(parallel, tasks, &|task| {
        let own = share(g.n, tasks, task, 64);
        let mut beside = None;
        let (y, y_row) = if is_sum {
            (g.c(0, own.start), g.c_row as usize)
        } else {
            let room = Scratch::new::<E>(g.m * own.len())?;
            (beside.insert(room).get::<E>(), own.len())
        };
        let b = g.b.at(0, own.start);
        // SAFETY: columns of B, and room for their sums; tasks own their columns of C.
        unsafe {
            if by_row {
                for j in 0..own.len() {
                    y.add(j).write(E::ZERO);
                }
                let x = std::slice::from_raw_parts(x.get(), g.k);
                let y = std::slice::from_raw_parts_mut(y, own.len());
                (S::loops().axpy)(x, b, g.b.layout.row_stride, y);
            } else {
                (S::loops().dots)(&Columns {
                    x: x.get(),
                    rows: g.m,
                    depth: g.k,
                    b,
                    b_col: g.b.layout.col_stride,
                    columns: own.len(),
                    y,
                    y_row,
                });
            }
            for i in 0..g.m {
                let c = g.c(i, own.start);
                if !is_sum {
                    let sums = std::slice::from_raw_parts(y.add(i * y_row), own.len());
                    for (j, &sum) in sums.iter().enumerate() {
                        let sum = g.alpha.mul(sum);
                        let c = c.add(j);
                        c.write(if g.beta == E::ZERO {
                            sum
                        } else {
                            sum.add(g.beta.mul(c.read()))
                        });
                    }
                }
                g.epilogue.apply_to_row([i, own.start], c, 1, own.len());
            }
        }
        Ok(())
    })
}

/// A product too small to prepare anything for: both operands are read where they lie.
pub(super) fn tiny<E: Real, S: Source<E>>(g: &Product<E, S>) {
    let kernels = E::kernels();
    let vectors = usize::from(g.n.is_multiple_of(2 * kernels.lanes));
    let width = kernels.lanes << vectors;
    let tiles = Tiles::new(g.m, kernels.direct_rows[vectors]);
    for tile in 0..tiles.count {
        let own = tiles.get(tile);
        let kernel = kernels.get(own.len(), vectors, false);
        for j in (0..g.n).step_by(width) {
            let part = g.tile(own.start, j, 0..g.k, width);
            // SAFETY: a tile of the product.
            unsafe { kernel(&part) }
        }
    }
}

/// A few rows by a dense B that is not wider than a strip: both are read where they lie. A strip that is wider than B
/// reads on into B's next row, in lanes that are not written; the last rows, after which B ends, are copied.
pub(super) fn narrow<E: Real, S: Source<E>>(g: &Product<E, S>) -> Outcome {
    let kernels = E::kernels();
    let vectors = g.n.div_ceil(kernels.lanes).next_power_of_two().ilog2() as usize;
    let width = kernels.lanes << vectors;
    let tiles = Tiles::new(g.m, kernels.direct_rows[vectors]);
    // Row p is read to p·n + width, which is inside of k·n for so many rows. The sums are cut here, so that the place must
    // not depend on the tier: it is where the widest strip would end.
    let reach =
        (WIDEST / size_of::<E>() * if g.n > WIDEST / size_of::<E>() { 2 } else { 1 }).max(width);
    let inside = (g.k + 1).saturating_sub(reach.div_ceil(g.n));
    let mut scratch = Scratch::new::<E>(width * (g.k - inside))?;
    let last = scratch.get::<E>();
    if inside < g.k {
        g.pack_b(inside..g.k, 0..g.n, width, last);
    }
    let blocks = (0..inside)
        .step_by(KC)
        .chain((inside < g.k).then_some(inside));
    for p in blocks {
        let (end, b, b_row) = if p < inside {
            (inside.min(p + KC), g.b.at(p, 0).cast(), g.n as isize)
        } else {
            (g.k, last.cast_const(), width as isize)
        };
        for tile in 0..tiles.count {
            let own = tiles.get(tile);
            let kernel = kernels.get(own.len(), vectors, false);
            let mut part = g.tile(own.start, 0, p..end, g.n);
            (part.b, part.b_row, part.ahead) = (b, b_row, Ahead::nothing(b));
            // SAFETY: a tile of the product; every row of the strip ends before B or its copy does.
            unsafe { kernel(&part) }
        }
    }
    Ok(())
}
