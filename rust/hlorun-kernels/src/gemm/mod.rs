//! Matrix products: C = α·A·B + β·C, batched, any strides, every numeric type.
//!
//! In: a [`Gemm`] and three pointers. Out: C. Promise: with β = 0 the old C is never read; with k = 0 the result is
//! β·C; low floats accumulate in `f32` and round once, integers wrap, `pred` is an "or" of "and"s. No thread is ever
//! started here, and the bits of a result do not depend on how many there are.
//!
//! The routes of a product; the first that fits is taken:
//!
//! ```text
//! gemm ─┬─ batch               f32 and f64, a few elements: in registers, one loop per size
//!       ├─ batched ─┬─ integer ─┬─ one_row        one row: B where it lies (axpy and dots of units)
//!       │           │           ├─ thin           few columns and terms: A where it lies
//!       │           │           └─ Product::run   blocks of packed units (units::Tile, whose sums are by steps)
//!       │           ├─ real ─┬─ small::tiny       both operands where they lie (micro::Tile)
//!       │           │        ├─ small::few_rows   B where it lies (axpy and dots of vector)
//!       │           │        ├─ small::narrow     B not wider than a strip (micro::Tile)
//!       │           │        ├─ by_rows           few columns: B packed for all (micro::Tile)
//!       │           │        └─ by_columns        the rest: A packed for all, or in place (micro::Tile); by a large B,
//!       │           │                             read row by row, where A has few rows (rank_k)
//!       │           └─ complex             c64 and c128, small or of many rows: gemm of reals
//!       ├─ same_type ─┬─ blas       other large c64 and c128, and floats where the kernels are the portable ones
//!       │             └─ portable   k = 0, integers with α, and what is small or has no library
//!       └─ converted                types without loops of their own: gemm in the type they are computed in
//! gemm_with_epilogue ─── real, for one product that is not turned; else gemm, and a pass over C
//! gemm_packed ─── by_rows, by_columns     B in panels
//! ```
//!
//! Reals and integers have a micro-kernel each. A tile of reals fuses every step, reads either operand packed or in place
//! and ends in α, β and the epilogue; one of integers adds whole units, which may be pairs, of operands that are always packed.

mod ahead;
pub mod batch;
pub mod blas;
mod by_columns;
mod by_rows;
mod complex;
pub mod epilogue;
pub mod indirect;
mod integer;
mod memory;
mod micro;
pub(crate) mod pack;
pub mod packed;
pub mod portable;
mod product;
mod rank_k;
mod real;
mod small;
mod steps;
mod strips;
mod thin;
mod tiles;
mod units;
mod vector;
pub mod weighted_lanes;
pub mod weighted_rows;

use crate::DType;
use crate::convert::convert;
use crate::isa::Isa;
use crate::low_float::{Bf16, F16};
use crate::scratch::Scratch;
use epilogue::Epilogue;
use memory::fork;

pub use memory::{OutOfMemory, Outcome};

/// Where the elements of a matrix lie, in elements (not bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Distance from one row to the next.
    pub row_stride: isize,
    /// Distance from one column to the next.
    pub col_stride: isize,
    /// Distance from one matrix of the batch to the next.
    pub batch_stride: isize,
}

impl Matrix {
    /// A dense row-major matrix of `cols` columns; `batch_stride` in elements.
    pub const fn row_major(cols: usize, batch_stride: usize) -> Matrix {
        Matrix {
            row_stride: cols as isize,
            col_stride: 1,
            batch_stride: batch_stride as isize,
        }
    }

    /// The same elements with rows and columns exchanged.
    pub const fn transposed(self) -> Matrix {
        Matrix {
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            batch_stride: self.batch_stride,
        }
    }
}

/// A product C\[m,n\] = α·A\[m,k\]·B\[k,n\] + β·C.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// Element type of A and B.
    pub dtype: DType,
    /// Element type of C.
    pub out: DType,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Layout of A.
    pub a: Matrix,
    /// Layout of B.
    pub b: Matrix,
    /// Layout of C; its elements are distinct.
    pub c: Matrix,
    /// Factor of the product: real and imaginary part.
    pub alpha: (f64, f64),
    /// Factor of the old C; zero means C is not read.
    pub beta: f64,
    /// Number of products.
    pub batch: usize,
}

impl Gemm {
    /// A single dense row-major product with α = 1 and β = 0.
    pub const fn dense(dtype: DType, m: usize, n: usize, k: usize) -> Gemm {
        Gemm {
            dtype,
            out: dtype,
            m,
            n,
            k,
            a: Matrix::row_major(k, 0),
            b: Matrix::row_major(n, 0),
            c: Matrix::row_major(n, 0),
            alpha: (1.0, 0.0),
            beta: 0.0,
            batch: 1,
        }
    }

    /// The same product with A and B exchanged: C's columns are its rows.
    pub const fn transposed(&self) -> Gemm {
        Gemm {
            m: self.n,
            n: self.m,
            a: self.b.transposed(),
            b: self.a.transposed(),
            c: self.c.transposed(),
            ..*self
        }
    }

    /// The same product, whose B is taken for a column where it is one. How far an only column is from the next
    /// one says nothing, and may well be 1, as of rows of one element.
    fn settled(&self) -> Gemm {
        let mut settled = *self;
        if self.n == 1 && self.b.row_stride == 1 {
            settled.b.col_stride = self.k as isize;
        }
        settled
    }
}

/// `run(tasks, body)`; see [`Parallel`].
pub type ParallelFor<'p> = dyn Fn(usize, &(dyn Fn(usize) + Sync)) + Sync + 'p;

/// The caller's threads: `run(tasks, body)` calls `body(0..tasks)` once each, in any order, and returns when all are
/// done.
#[derive(Clone, Copy)]
pub struct Parallel<'a> {
    /// How many tasks are worth making.
    pub threads: usize,
    /// The parallel loop.
    pub run: &'a ParallelFor<'a>,
}

impl Parallel<'_> {
    /// The same parts of work; between two of them it is checked whether the work is to end: the caller's loop then unwinds.
    pub(crate) fn checking(
        &self,
        parts: impl Iterator<Item = usize>,
    ) -> impl Iterator<Item = usize> {
        parts.enumerate().map(|(nth, part)| {
            if nth > 0 {
                (self.run)(1, &|_| {});
            }
            part
        })
    }
}

impl Parallel<'static> {
    /// Everything on the calling thread.
    pub const SERIAL: Parallel<'static> = Parallel {
        threads: 1,
        run: &|tasks, body| {
            for task in 0..tasks {
                body(task);
            }
        },
    };
}

/// A raw pointer that tasks may share: each touches only its own part.
#[derive(Clone, Copy)]
pub(crate) struct Shared<T>(pub *mut T);
// SAFETY: every user hands disjoint parts to its tasks.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) fn get(self) -> *mut T {
        self.0
    }
}

/// Products below this many multiplications are not worth a library call or a second thread.
const SMALL: usize = 32 * 32 * 32;

/// Parts of a product of usual size.
const PARTS: usize = 4;
/// Most rows or columns of one part.
const PART: usize = 1024;

/// In how many parts `size` rows or columns are computed.
fn parts(size: usize) -> usize {
    size.div_ceil(PART).max(PARTS).min(size.div_ceil(64))
}

/// The type products of `dtype` accumulating into `out` are computed in.
fn compute_type(dtype: DType, out: DType) -> DType {
    match (dtype, out) {
        (DType::C128, _) | (_, DType::C128) => DType::C128,
        (DType::F64, DType::C64) | (DType::C64, DType::F64) => DType::C128,
        (DType::C64, _) | (_, DType::C64) => DType::C64,
        (DType::F64, _) | (_, DType::F64) => DType::F64,
        (d, o) if d.is_float() || o.is_float() => DType::F32,
        (_, o) if o.size_bytes() > 4 => DType::S64,
        _ => DType::S32,
    }
}

/// Runs the product.
///
/// # Errors
/// When there is no memory for copies of the operands.
///
/// # Safety
/// Every element the layouts of `g` reach from `a`, `b` (type `g.dtype`) and `c` (type `g.out`) is valid to read, those
/// of C also to write; C overlaps neither A nor B.
pub unsafe fn gemm(
    g: &Gemm,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
    parallel: &Parallel,
) -> Outcome {
    if g.m == 0 || g.n == 0 || g.batch == 0 {
        return Ok(());
    }
    let g = &g.settled();
    let compute = compute_type(g.dtype, g.out);
    // SAFETY: the same contract.
    unsafe {
        if batch::fits(g) {
            batch::gemm(g, a, b, c, parallel);
            return Ok(());
        }
        if let Some(own) = own(g) {
            return batched(g, own, a, b, c, parallel);
        }
        if compute == g.dtype && compute == g.out {
            return same_type(g, a, b, c, parallel);
        }
        for batch in 0..g.batch as isize {
            let a = a.offset(batch * g.a.batch_stride * g.dtype.size_bytes() as isize);
            let b = b.offset(batch * g.b.batch_stride * g.dtype.size_bytes() as isize);
            let c = c.offset(batch * g.c.batch_stride * g.out.size_bytes() as isize);
            converted(g, compute, a, b, c, parallel)?;
        }
    }
    Ok(())
}

/// Runs the product, and does the steps of `epilogue` to the elements of C. They are done in registers where
/// [`takes_epilogue`].
///
/// # Errors
/// As [`gemm`].
///
/// # Safety
/// As [`gemm`]. Unless the epilogue is empty, `g.batch` is 1, `g.out` is `F32` or `F64`, the epilogue was made for its size, and
/// its operands have an element for every row and column of C.
pub unsafe fn gemm_with_epilogue(
    g: &Gemm,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
    epilogue: &Epilogue,
    parallel: &Parallel,
) -> Outcome {
    // SAFETY: the caller's contract.
    unsafe {
        if epilogue.is_empty() || !takes_epilogue(g) {
            gemm(g, a, b, c, parallel)?;
            return apply_epilogue(g, c, epilogue, parallel);
        }
        let g = &g.settled();
        match g.dtype {
            DType::F32 => real::gemm_with_epilogue::<f32>(g, a, b, c, epilogue, parallel),
            _ => real::gemm_with_epilogue::<f64>(g, a, b, c, epilogue, parallel),
        }
    }
}

/// Whether the epilogue of `g` is applied in registers.
pub fn takes_epilogue(g: &Gemm) -> bool {
    let is_plain = g.dtype == g.out && matches!(g.dtype, DType::F32 | DType::F64);
    let is_one = g.batch == 1 && g.m != 0 && g.n != 0 && g.c.col_stride == 1;
    let g = &g.settled();
    is_plain && is_one && !batch::fits(g) && own(g).is_some() && !real::wants_swap(g)
}

/// Does the steps of an epilogue to C as it is.
///
/// # Safety
/// As [`gemm_with_epilogue`].
pub unsafe fn apply_epilogue(
    g: &Gemm,
    c: *mut u8,
    epilogue: &Epilogue,
    parallel: &Parallel,
) -> Outcome {
    if epilogue.is_empty() {
        return Ok(());
    }
    let c = Shared(c);
    let tasks = tiles::worth(parallel, 0, g.m.saturating_mul(g.n), g.m);
    fork(parallel, tasks, &|task| {
        for row in share(g.m, tasks, task, 1) {
            let at = row as isize * g.c.row_stride * g.out.size_bytes() as isize;
            // SAFETY: a row of C, which no other task writes.
            unsafe {
                let c = c.get().offset(at);
                match g.out {
                    DType::F32 => {
                        epilogue.apply_to_row::<f32>([row, 0], c.cast(), g.c.col_stride, g.n)
                    }
                    _ => epilogue.apply_to_row::<f64>([row, 0], c.cast(), g.c.col_stride, g.n),
                }
            }
        }
        Ok(())
    })
}

/// One product of a batch.
type One = unsafe fn(&Gemm, *const u8, *const u8, *mut u8, &Parallel) -> Outcome;

/// Our own product, for the types it has.
fn own(g: &Gemm) -> Option<One> {
    if g.k == 0 {
        return None;
    }
    if let Some(own) = integer::own(g) {
        return Some(own);
    }
    // Without vectors of our own a library is faster.
    let small = g.m.saturating_mul(g.n).saturating_mul(g.k) < SMALL;
    if Isa::active() == Isa::Portable && !small && blas::blas_name().is_some() {
        return None;
    }
    Some(match (g.dtype, g.out) {
        (DType::F32, DType::F32) => real::gemm::<f32, f32, f32>,
        (DType::F64, DType::F64) => real::gemm::<f64, f64, f64>,
        (DType::BF16, DType::BF16) => real::gemm::<f32, Bf16, Bf16>,
        (DType::BF16, DType::F32) => real::gemm::<f32, Bf16, f32>,
        (DType::F16, DType::F16) => real::gemm::<f32, F16, F16>,
        (DType::F16, DType::F32) => real::gemm::<f32, F16, f32>,
        (DType::C64, DType::C64) if complex::suits(g) => complex::gemm::<f32>,
        (DType::C128, DType::C128) if complex::suits(g) => complex::gemm::<f64>,
        _ => return None,
    })
}

/// Whether `g` with β = 1 has the bits of the product with β = 0 to which the old C is added.
pub fn adds_once(g: &Gemm) -> bool {
    let is_plain = g.dtype == g.out && matches!(g.dtype, DType::F32 | DType::F64);
    // A narrow product's sums are cut at another place than that.
    let is_wide = g.c.col_stride == 1 && g.n > 2 * real::WIDEST / g.dtype.size_bytes();
    is_plain && is_wide && g.k <= tiles::KC && own(g).is_some()
}

/// Runs a batch: its products in parallel, or one after the other, each in parallel.
unsafe fn batched(
    g: &Gemm,
    own: One,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
    parallel: &Parallel,
) -> Outcome {
    let (a, b, c) = (Shared(a.cast_mut()), Shared(b.cast_mut()), Shared(c));
    let product = |batch: usize, parallel: &Parallel| {
        let at = |l: Matrix, d: DType| batch as isize * l.batch_stride * d.size_bytes() as isize;
        // SAFETY: matrices of the contract; those of C are disjoint.
        unsafe {
            own(
                g,
                a.get().offset(at(g.a, g.dtype)),
                b.get().offset(at(g.b, g.dtype)),
                c.get().offset(at(g.c, g.out)),
                parallel,
            )
        }
    };
    let work = g.m.saturating_mul(g.n).saturating_mul(g.k);
    let total = work.saturating_mul(g.batch);
    if g.batch == 1 || (g.batch < 2 * parallel.threads && work >= 8 * SMALL) {
        (0..g.batch).try_for_each(|batch| product(batch, parallel))
    } else if parallel.threads == 1 || total < 8 * SMALL {
        (0..g.batch).try_for_each(|batch| product(batch, &Parallel::SERIAL))
    } else {
        let tasks = g.batch.min(4 * parallel.threads);
        fork(parallel, tasks, &|task| {
            let mut own = share(g.batch, tasks, task, 1);
            own.try_for_each(|batch| product(batch, &Parallel::SERIAL))
        })
    }
}

/// One product computed in another type than it is stored in.
unsafe fn converted(
    g: &Gemm,
    compute: DType,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
    parallel: &Parallel,
) -> Outcome {
    // SAFETY: the buffers made here are dense and as large as the matrices; the rest is the caller's contract.
    unsafe {
        let widen = |from: *const u8, rows, cols, layout, dtype: DType| {
            let dense = pack::dense(from, rows, cols, layout, dtype.size_bytes())?;
            let mut wide = Scratch::of(rows * cols, compute.size_bytes())?;
            convert(dtype, compute)(dense.as_ptr(), wide.as_mut_ptr(), rows * cols);
            Ok(wide)
        };
        let wide_a = widen(a, g.m, g.k, g.a, g.dtype)?;
        let wide_b = widen(b, g.k, g.n, g.b, g.dtype)?;
        let mut wide_c = if g.beta == 0.0 {
            Scratch::of(g.m * g.n, compute.size_bytes())?
        } else {
            widen(c, g.m, g.n, g.c, g.out)?
        };
        let inner = Gemm {
            alpha: g.alpha,
            beta: g.beta,
            ..Gemm::dense(compute, g.m, g.n, g.k)
        };
        gemm(
            &inner,
            wide_a.as_ptr(),
            wide_b.as_ptr(),
            wide_c.as_mut_ptr(),
            parallel,
        )?;
        let mut narrow = Scratch::of(g.m * g.n, g.out.size_bytes())?;
        convert(compute, g.out)(wide_c.as_ptr(), narrow.as_mut_ptr(), g.m * g.n);
        pack::scatter(narrow.as_ptr(), c, g.m, g.n, g.c, g.out.size_bytes());
    }
    Ok(())
}

/// Products whose three matrices have the compute type.
unsafe fn same_type(
    g: &Gemm,
    a: *const u8,
    b: *const u8,
    c: *mut u8,
    parallel: &Parallel,
) -> Outcome {
    let work = g.m.saturating_mul(g.n).saturating_mul(g.k.max(1));
    let is_small = work.saturating_mul(g.batch) < 4 * SMALL;
    let (a, b, c) = (Shared(a.cast_mut()), Shared(b.cast_mut()), Shared(c));
    let part = |batches: std::ops::Range<usize>,
                rows: std::ops::Range<usize>,
                cols: std::ops::Range<usize>| {
        let size = g.dtype.size_bytes() as isize;
        for batch in batches {
            let batch = batch as isize;
            let sub = Gemm {
                m: rows.len(),
                n: cols.len(),
                batch: 1,
                ..*g
            };
            // SAFETY: a sub-block of the matrices of the contract; blocks of C given to tasks are disjoint.
            unsafe {
                let (row, col) = (rows.start as isize, cols.start as isize);
                let a = a
                    .get()
                    .offset((batch * g.a.batch_stride + row * g.a.row_stride) * size);
                let b = b
                    .get()
                    .offset((batch * g.b.batch_stride + col * g.b.col_stride) * size);
                let at = batch * g.c.batch_stride + row * g.c.row_stride + col * g.c.col_stride;
                one(&sub, a, b, c.get().offset(at * size))?;
            }
        }
        Ok(())
    };
    // The parts depend on the sizes alone, never on the number of threads: a library may sum differently at the edges
    // of a part, and the same product must give the same bits everywhere.
    if is_small {
        part(0..g.batch, 0..g.m, 0..g.n)
    } else if g.batch >= PARTS {
        fork(parallel, PARTS, &|t| {
            part(share(g.batch, PARTS, t, 1), 0..g.m, 0..g.n)
        })
    } else if g.n >= g.m {
        let parts = parts(g.n);
        fork(parallel, parts, &|t| {
            part(0..g.batch, 0..g.m, share(g.n, parts, t, 32))
        })
    } else {
        let parts = parts(g.m);
        fork(parallel, parts, &|t| {
            part(0..g.batch, share(g.m, parts, t, 32), 0..g.n)
        })
    }
}

/// The `task`-th of `tasks` nearly equal parts of `0..n`, cut at multiples of `grain`.
pub(crate) fn share(n: usize, tasks: usize, task: usize, grain: usize) -> std::ops::Range<usize> {
    let units = n.div_ceil(grain);
    let cut = |t: usize| (units * t / tasks * grain).min(n);
    cut(task)..cut(task + 1)
}

/// One product on the calling thread.
unsafe fn one(g: &Gemm, a: *const u8, b: *const u8, c: *mut u8) -> Outcome {
    if g.m == 0 || g.n == 0 {
        return Ok(());
    }
    // SAFETY: the caller's contract.
    unsafe {
        if g.m * g.n * g.k >= SMALL && blas::gemm(g, a, b, c)? {
            return Ok(());
        }
        portable::gemm(g, a, b, c)
    }
}

#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod complex_tests;
#[cfg(test)]
mod epilogue_tests;
#[cfg(test)]
mod indirect_tests;
#[cfg(test)]
mod integer_tests;
#[cfg(test)]
mod tests;
