//! Products of `f32`, `f64`, `bf16` and `f16`: our own, for every shape.
//!
//! In: a [`Gemm`] of any strides. Out: C. Promise: sums along k run in blocks of [`KC`] in ascending order, each block
//! one sum that begins at zero, whatever the shape of the tiles, the number of threads and the split of C among them: the bits
//! of an element depend on k, its row of A and its column of B alone, and on nothing else of the product but the path
//! that its sizes choose. Scratch memory is bounded, whatever the size of the matrices.
//!
//! A product of many columns runs by columns ([`by_columns`]): A is copied into tiles of rows once, by all threads, unless
//! its rows are contiguous and tiles no lower for that, and each task multiplies it with strips of B that it copies into its
//! cache (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008). One of few columns runs by rows
//! ([`by_rows`]): B is copied once, and each task reads its rows of A where they lie. Operands that are read only once or
//! twice are not copied at all. Where few rows multiply a large B they are copied, and B is read row by row
//! ([`super::rank_k`]).

use super::epilogue::Epilogue;
use super::memory::fork;
use super::micro::{Real, Source};
use super::product::Product;
use super::small::{few_rows, narrow, tiny};
use super::tiles::{BAND, KC, SHARED, worth};
use super::{Gemm, Outcome, Parallel, Shared, by_columns, by_rows, share};
use crate::scratch::Scratch;
use std::any::TypeId;

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
/// Depth up to which a product of many columns runs by rows: it writes more than it reads.
const SHALLOW: usize = 32;
/// Most elements of its B, which every task reads for each of its tiles.
const SHALLOW_ELEMENTS: usize = 1 << 17;

/// The path of a product; see [`super`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Path {
    Tiny,
    FewRows,
    Narrow,
    Strips,
}

/// Chooses the path of a product. Paths that sum in different orders are told apart by sizes alone, not by the tier.
fn path<E: Real, S: Source<E>>(g: &Product<E, S>) -> Path {
    let lanes = E::kernels().lanes;
    let widest = WIDEST / size_of::<E>();
    let close = g.b.layout.col_stride == 1 && g.b.layout.row_stride == g.n as isize;
    let is_narrow = g.is_plain && close && g.m < 2 * FEW_ROWS && g.n <= (2 * widest).min(4 * lanes);
    let whole = if is_narrow { widest } else { lanes };
    let fits = g.b.layout.col_stride == 1 && g.n.is_multiple_of(whole);
    if g.is_plain && fits && g.m > 1 && g.k <= KC && g.m * g.n * g.k <= TINY {
        return Path::Tiny;
    }
    let by_row = g.m == 1 && g.b.layout.col_stride == 1;
    let by_column = g.m <= SKINNY
        && g.b.layout.col_stride != 1
        && g.b.layout.row_stride == 1
        && (g.m == 1 || g.k >= 4 * widest);
    if by_row || by_column {
        Path::FewRows
    } else if is_narrow {
        Path::Narrow
    } else {
        Path::Strips
    }
}

fn run<E: Real, S: Source<E>>(g: &Product<E, S>, parallel: &Parallel) -> Outcome {
    match path(g) {
        Path::Tiny => {
            tiny(g);
            Ok(())
        }
        Path::FewRows => few_rows(g, parallel),
        Path::Narrow => narrow(g),
        Path::Strips => with_strips(g, None, parallel),
    }
}

/// Whether a product of `E` reads B in strips, so that it has the same bits from panels.
pub(super) fn reads_strips<E: Real + Source<E>>(g: &Gemm) -> bool {
    let product = Product::<E, E>::new(g, std::ptr::null(), std::ptr::null(), std::ptr::null_mut());
    !wants_swap(g) && path(&product) == Path::Strips
}

/// Runs a product with B in strips: those of `panels`, if there are any.
pub(super) fn with_strips<E: Real, S: Source<E>>(
    g: &Product<E, S>,
    panels: Option<Shared<E>>,
    parallel: &Parallel,
) -> Outcome {
    let shallow =
        g.k <= SHALLOW && g.n >= FEW && g.m >= 2 * SKINNY && g.k * g.n <= SHALLOW_ELEMENTS;
    if shallow || (g.n <= FEW && g.m >= 2 * g.n.max(FEW_ROWS)) {
        by_rows::run(g, panels, parallel)
    } else {
        by_columns::run(g, panels, parallel)
    }
}

/// Whether the columns of C should be the vectors.
pub(super) fn wants_swap(g: &Gemm) -> bool {
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
    let in_place = TypeId::of::<O>() == TypeId::of::<E>() && (g.c.col_stride == 1 || g.n == 1);
    let mut product = Product::<E, S>::new(g, a, b, c.cast());
    if in_place {
        return run(&product, parallel);
    }
    // The sums of a band of rows are made beside C and rounded, or moved, into it.
    let band = (SHARED / g.n).max(BAND).min(g.m);
    let mut sums = Scratch::new::<E>(band * g.n)?;
    let (sums, out) = (Shared(sums.get::<E>()), Shared(c.cast::<O>()));
    let (beta, whole) = (E::of(g.beta), product.a);
    for start in (0..g.m).step_by(band) {
        product.m = band.min(g.m - start);
        product.a = whole.rows_from(start);
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

/// Runs one product that [`super::takes_epilogue`].
///
/// # Safety
/// As [`super::gemm_with_epilogue`].
pub(super) unsafe fn gemm_with_epilogue<E: Real + Source<E>>(
    g: &Gemm,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
    epilogue: &Epilogue,
    parallel: &Parallel,
) -> Outcome {
    let product = Product::<E, E> {
        epilogue,
        ..Product::new(g, a, b, c.cast())
    };
    run(&product, parallel)
}
