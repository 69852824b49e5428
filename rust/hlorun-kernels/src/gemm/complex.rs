//! Products of complex matrices as products of real ones.
//!
//! In: a [`Gemm`] of `c64` or `c128`. Out: C. A row of A, read as reals, is `re, im, re, im, …`, and so is one of C. So C is
//! the real product of A and a matrix that has two rows for each row of B: `re, im, …`, and `-im, re, …`. That has the
//! multiplications of the definition, and no others.
//!
//! Promise: an element has the bits of the real product's: at each step of k the product with the real part of A is added,
//! then the one with its imaginary part; long sums are cut where real ones are.

use super::memory::fork;
use super::micro::Real;
use super::{Gemm, Matrix, Outcome, Parallel, SMALL, Shared, blas, pack, share, tiles};
use crate::DType;
use crate::element::Cx;
use crate::isa::Isa;
use crate::scratch::Scratch;

/// Fewest rows and columns of C for which it pays to write B twice.
const MIN_ROWS: usize = 6;
const MIN_COLUMNS: usize = 4;

/// Whether such a product runs here. A library is faster where B is large and its rows are long for the rows that read it.
pub(super) fn suits(g: &Gemm) -> bool {
    let [rows, columns] = if turns(g) { [g.n, g.m] } else { [g.m, g.n] };
    let has_rows = g.c.col_stride == 1 || g.c.row_stride == 1;
    let has_vectors = Isa::active().is_fused();
    let is_small = g.m.saturating_mul(g.n).saturating_mul(g.k) < SMALL;
    let is_best = is_small || rows >= columns || blas::blas_name().is_none();
    let is_large_enough = rows >= MIN_ROWS && columns >= MIN_COLUMNS;
    has_vectors && has_rows && g.alpha.1 == 0.0 && is_large_enough && is_best
}

/// Whether the columns of C are computed as rows: they lie side by side, and its rows do not.
fn turns(g: &Gemm) -> bool {
    g.c.col_stride != 1
}

/// A product that [`suits`].
///
/// # Errors
/// When there is no memory for copies of the operands.
///
/// # Safety
/// As [`super::gemm`]; `g.dtype` and `g.out` are complex numbers of `E`, and `g.batch` is ignored.
pub(super) unsafe fn gemm<E: Real>(
    g: &Gemm,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
    parallel: &Parallel,
) -> Outcome {
    let turned = g.transposed();
    let (g, a, b) = if turns(g) { (&turned, b, a) } else { (g, a, b) };
    let mut room = Scratch::new::<E>(g.k.saturating_mul(g.n).saturating_mul(4))?;
    let twice = Shared(room.get::<[Cx<E>; 1]>());
    // SAFETY: the caller's contract; a dense copy of A holds m·k elements, and the room two rows of n for each row of B.
    unsafe {
        let copied = (g.a.col_stride != 1)
            .then(|| pack::dense(a, g.m, g.k, g.a, size_of::<Cx<E>>()))
            .transpose()?;
        let (a, a_row) = match &copied {
            Some(copy) => (copy.as_ptr(), g.k as isize),
            None => (a, g.a.row_stride),
        };
        let b = Shared(b.cast_mut().cast::<Cx<E>>());
        let tasks = tiles::worth(parallel, 0, g.k.saturating_mul(g.n), g.k);
        fork(parallel, tasks, &|task| {
            for p in share(g.k, tasks, task, 1) {
                let to = twice.get().cast::<Cx<E>>().add(2 * p * g.n);
                both_rows(
                    b.get().offset(p as isize * g.b.row_stride),
                    g.b.col_stride,
                    to,
                    g.n,
                );
            }
            Ok(())
        })?;
        let real = if size_of::<E>() == 4 {
            DType::F32
        } else {
            DType::F64
        };
        let reals = |complex: isize| Matrix {
            row_stride: 2 * complex,
            col_stride: 1,
            batch_stride: 0,
        };
        let product = Gemm {
            dtype: real,
            out: real,
            n: 2 * g.n,
            k: 2 * g.k,
            a: reals(a_row),
            b: reals(g.n as isize),
            c: reals(g.c.row_stride),
            batch: 1,
            ..*g
        };
        super::gemm(&product, a, twice.get().cast(), c, parallel)
    }
}

/// Writes a row of `n` elements, and the row of their products with i.
///
/// # Safety
/// `n` elements lie `step` apart from `from` on, and twice as many have room at `to`.
unsafe fn both_rows<E: Real>(from: *const Cx<E>, step: isize, to: *mut Cx<E>, n: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        if step == 1 {
            std::ptr::copy_nonoverlapping(from, to, n);
        } else {
            for j in 0..n {
                to.add(j).write(from.offset(j as isize * step).read());
            }
        }
        let row = std::slice::from_raw_parts(to, n);
        let turned = to.add(n).cast::<std::mem::MaybeUninit<Cx<E>>>();
        let turned = std::slice::from_raw_parts_mut(turned, n);
        for (to, x) in turned.iter_mut().zip(row) {
            to.write(Cx {
                re: E::ZERO.sub(x.im),
                im: x.re,
            });
        }
    }
}
