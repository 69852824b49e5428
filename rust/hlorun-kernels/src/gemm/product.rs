//! A real product as its drivers see it, and the strips of columns that it is cut into.
//!
//! In: where the matrices lie. Out: their elements' places, packed blocks and tiles for the kernels. Promise: nothing is
//! read here but by packing.

use super::ahead::Ahead;
use super::epilogue::{Epilogue, TileEpilogue};
use super::micro::{Kernel, Kernels, Real, Source, Tile};
use super::strips::Job;
use super::{Gemm, Matrix, Shared};
use std::any::TypeId;
use std::ops::Range;

/// A matrix of elements stored as `S`.
#[derive(Clone, Copy)]
pub(super) struct Operand<S> {
    pub first: Shared<S>,
    pub layout: Matrix,
}

impl<S: Copy> Operand<S> {
    pub fn new(first: *const u8, layout: Matrix) -> Operand<S> {
        Operand {
            first: Shared(first.cast_mut().cast()),
            layout,
        }
    }

    /// The matrix without the rows before `row`.
    pub fn rows_from(&self, row: usize) -> Operand<S> {
        Operand {
            first: Shared(self.at(row, 0).cast_mut()),
            ..*self
        }
    }

    #[inline]
    pub fn at(&self, row: usize, column: usize) -> *const S {
        let at = row as isize * self.layout.row_stride + column as isize * self.layout.col_stride;
        self.first.get().wrapping_offset(at)
    }
}

/// The product, all of one type and one layout, of which C is row-major.
pub(super) struct Product<'e, E, S> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: Operand<S>,
    pub b: Operand<S>,
    pub c: Shared<E>,
    pub c_row: isize,
    pub alpha: E,
    pub beta: E,
    /// The operands need no conversion.
    pub is_plain: bool,
    /// What is done to the elements of C.
    pub epilogue: &'e Epilogue,
}

impl<E: Real, S: Source<E>> Product<'_, E, S> {
    /// `g` without an epilogue; its C holds elements of `E`.
    pub fn new(g: &Gemm, a: *const u8, b: *const u8, c: *mut E) -> Self {
        Product {
            m: g.m,
            n: g.n,
            k: g.k,
            a: Operand::new(a, g.a),
            b: Operand::new(b, g.b),
            c: Shared(c),
            c_row: g.c.row_stride,
            alpha: E::of(g.alpha.0),
            beta: E::of(g.beta),
            is_plain: TypeId::of::<S>() == TypeId::of::<E>(),
            epilogue: Epilogue::none(),
        }
    }

    #[inline]
    pub fn c(&self, i: usize, j: usize) -> *mut E {
        self.c
            .get()
            .wrapping_offset(i as isize * self.c_row)
            .wrapping_add(j)
    }

    pub fn pack_a(&self, rows: Range<usize>, depth: Range<usize>, to: *mut E) {
        let job = Job {
            from: self.a.at(rows.start, depth.start),
            lane: self.a.layout.row_stride,
            step: self.a.layout.col_stride,
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
            from: self.b.at(depth.start, columns.start),
            lane: self.b.layout.col_stride,
            step: self.b.layout.row_stride,
            count: columns.len(),
            width,
            depth: depth.len(),
            to,
        };
        // SAFETY: a block of B; the callers make room for it.
        unsafe { (S::loops().pack)(&job) }
    }

    /// β for a block of the depth: later blocks add to what the first one wrote.
    #[inline]
    fn beta(&self, p: usize) -> E {
        if p == 0 { self.beta } else { E::ONE }
    }

    /// α and β for a block of the depth.
    #[inline]
    pub fn scales(&self, p: usize) -> [E; 2] {
        [self.alpha, self.beta(p)]
    }

    /// The tile of C at row `i` and column `j`: of operands where they lie, with nothing asked for ahead.
    #[inline]
    pub fn tile(&self, i: usize, j: usize, depth: Range<usize>, width: usize) -> Tile<E> {
        let b = self.b.at(depth.start, j);
        Tile {
            depth: depth.len(),
            a: self.a.at(i, depth.start).cast(),
            a_row: self.a.layout.row_stride,
            a_col: self.a.layout.col_stride,
            b: b.cast(),
            b_row: self.b.layout.row_stride,
            ahead: Ahead::nothing(b),
            c: self.c(i, j),
            c_row: self.c_row,
            width,
            alpha: self.alpha,
            beta: self.beta(depth.start),
            epilogue: match depth.end == self.k {
                true => self.epilogue.at(i, j),
                false => TileEpilogue::NONE,
            },
        }
    }
}

/// Columns of a product, cut into strips for kernels of one width.
pub(super) struct Strips<E: 'static> {
    kernels: &'static Kernels<E>,
    /// Vectors of a strip, as a power of two.
    vectors: usize,
    /// Columns of a strip.
    pub width: usize,
    pub count: usize,
}

impl<E: Real> Strips<E> {
    pub fn new(vectors: usize, columns: usize) -> Strips<E> {
        let kernels = E::kernels();
        let width = kernels.lanes << vectors;
        Strips {
            kernels,
            vectors,
            width,
            count: columns.div_ceil(width),
        }
    }

    /// Most rows of a tile whose A is packed, or read in place.
    pub fn most_rows(&self, is_packed: bool) -> usize {
        self.kernels.most_rows(is_packed)[self.vectors]
    }

    /// The kernel of a tile of so many rows and columns.
    #[inline]
    pub fn kernel(&self, rows: usize, columns: usize, is_packed: bool) -> Kernel<E> {
        self.kernels.fitting(rows, self.vectors, columns, is_packed)
    }
}
