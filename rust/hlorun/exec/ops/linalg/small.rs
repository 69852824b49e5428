//! Small matrices, many at once.
//!
//! In: the operands and results of a [`LinalgOp`] and which matrices of the batch. Out: their results, except for
//! matrices that cannot be factored, which are named. Conditions: `f32` or `f64`, a Cholesky, LU or QR factorization,
//! the Q of one or a product with it, or a triangular solve, of at most [`small_matrices::MAX_ELEMENTS`] elements each.
//! Promise: which matrices run together changes no bits.

use std::ops::Range;

use hlorun_kernels::small_matrices::{self as kernels, Real};

use crate::buffers::filled;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::ops::walk::SharedArray;
use crate::plan::cost::small_matrices::{MAX_ELEMENTS, MIN_TOGETHER};
use crate::plan::ops::linalg::{LinalgOp, Routine, Transpose};
use crate::types::{PrimitiveType, strided};

/// Matrices, and vectors as their first columns, seen as the kernels want them.
#[derive(Clone, Copy)]
struct View<'a> {
    array: &'a RawArray,
    rank: usize,
    rows: usize,
    columns: usize,
    /// Elements from the first one to where this view begins, and between its neighbours.
    start: isize,
    row: isize,
    column: isize,
}

impl<'a> View<'a> {
    fn new((array, rank): &'a (SharedArray, usize)) -> View<'a> {
        let (array, rank) = (array.get(), *rank);
        let lead = array.dims.len() - rank;
        let dim = |d: usize| array.dims.get(lead + d).map_or(1, |&n| n.max(0) as usize);
        let stride = |d: usize| array.strides.get(lead + d).map_or(0, |&s| s as isize);
        View {
            array,
            rank,
            rows: dim(0),
            columns: dim(1),
            start: 0,
            row: stride(0),
            column: stride(1),
        }
    }

    fn size(&self) -> usize {
        self.rows * self.columns
    }

    fn transposed(self) -> View<'a> {
        View {
            rows: self.columns,
            columns: self.rows,
            row: self.column,
            column: self.row,
            ..self
        }
    }

    fn rows_reversed(self) -> View<'a> {
        View {
            start: self.start + (self.rows as isize - 1) * self.row,
            row: -self.row,
            ..self
        }
    }

    fn columns_reversed(self) -> View<'a> {
        self.transposed().rows_reversed().transposed()
    }

    /// The first element of matrix `index`.
    fn first<T>(&self, index: usize) -> *mut T {
        let lead = self.array.dims.len() - self.rank;
        let lead = self.array.dims[..lead].iter().zip(&self.array.strides);
        let offset = strided::place(index as i64, lead) as isize + self.start;
        self.array.pointer.cast::<T>().wrapping_offset(offset)
    }

    /// Bytes from each of the matrices `range` to the next, if these are as many everywhere. None for blocks of one matrix,
    /// whose elements are moved one by one in less time than it takes to prepare a strided copy.
    fn step<T, const L: usize>(&self, range: &Range<usize>) -> Option<isize> {
        if L == 1 {
            return None;
        }
        let place = |index: usize| self.first::<T>(index).addr() as isize;
        let mut pairs = (range.start + 1..range.end).map(|at| place(at) - place(at - 1));
        let step = pairs.next().unwrap_or(0);
        pairs.all(|own| own == step).then_some(step)
    }

    /// Sizes of matrices side by side, slowest first, and the bytes between neighbours in the array and in a block of `L`
    /// lanes.
    fn walk<T, const L: usize>(
        &self,
        count: usize,
        step: isize,
    ) -> ([usize; 3], [isize; 3], [isize; 3]) {
        let size = size_of::<T>() as isize;
        let line = size * L as isize;
        (
            [self.columns, self.rows, count],
            [self.column * size, self.row * size, step],
            [line * self.rows as isize, line, size],
        )
    }

    /// Calls `f` with the number in the block and the address of every element of matrix `index`.
    fn each<T>(&self, index: usize, mut f: impl FnMut(usize, *mut T)) {
        let first = self.first::<T>(index);
        for j in 0..self.columns {
            let column = first.wrapping_offset(j as isize * self.column);
            for i in 0..self.rows {
                f(
                    j * self.rows + i,
                    column.wrapping_offset(i as isize * self.row),
                );
            }
        }
    }

    /// Brings the matrices `range` into the lanes of `block`; lanes left over get the last of them.
    fn load<T: Copy, const L: usize>(&self, range: &Range<usize>, block: &mut [[T; L]]) {
        let (count, block) = (range.len(), &mut block[..self.size()]);
        if let Some(step) = self.step::<T, L>(range) {
            let (sizes, from, to) = self.walk::<T, L>(count, step);
            let (first, all) = (
                self.first::<T>(range.start).cast(),
                block.as_mut_ptr().cast(),
            );
            // SAFETY: elements of the array, which has this type and which no task writes while another reads; the block
            // has a lane for each of so many matrices.
            unsafe { hlorun_kernels::copy_strided(size_of::<T>(), &sizes, first, &from, all, &to) };
        } else {
            for (l, index) in range.clone().enumerate() {
                // SAFETY: as above.
                self.each(index, |at, from: *mut T| unsafe {
                    block[at][l] = from.read_unaligned()
                });
            }
        }
        for lanes in block {
            let last = lanes[count - 1];
            lanes[count..].fill(last);
        }
    }

    /// Writes the lanes of the matrices `range`, but for those that failed.
    fn store<T: Copy, const L: usize>(
        &self,
        range: &Range<usize>,
        block: &[[T; L]],
        failed: &[bool; L],
    ) {
        let step = self.step::<T, L>(range);
        if let Some(step) = step.filter(|_| !failed[..range.len()].contains(&true)) {
            let block = &block[..self.size()];
            let (sizes, to, from) = self.walk::<T, L>(range.len(), step);
            let (first, all) = (self.first::<T>(range.start).cast(), block.as_ptr().cast());
            // SAFETY: elements of the array, which has this type and which no other task touches; the block has a lane for
            // each of so many matrices.
            unsafe { hlorun_kernels::copy_strided(size_of::<T>(), &sizes, all, &from, first, &to) };
            return;
        }
        for (l, index) in range.clone().enumerate() {
            if !failed[l] {
                // SAFETY: as above.
                self.each(index, |at, to: *mut T| unsafe {
                    to.write_unaligned(block[at][l])
                });
            }
        }
    }
}

/// Whether `op` over matrices of these arrays runs here.
pub fn fits(
    op: &LinalgOp,
    inputs: &[(SharedArray, usize)],
    outputs: &[(SharedArray, usize)],
) -> bool {
    let ty = inputs[0].0.get().element_type;
    let operands = match op.routine {
        Routine::Potrf | Routine::Getrf | Routine::Geqrf => 1,
        Routine::Trsm | Routine::Orgqr => 2,
        Routine::Ormqr => 3,
        _ => return false,
    };
    let small = |(array, rank): &(SharedArray, usize)| {
        let array = array.get();
        let dims = &array.dims[array.dims.len() - rank..];
        let count = dims.iter().fold(1i64, |all, &d| all.saturating_mul(d));
        (1..=MAX_ELEMENTS as i64).contains(&count)
    };
    // Statuses and row exchanges are integers.
    let is_number = |at: usize, rank: usize| rank == 2 || at == 1 && op.routine == Routine::Geqrf;
    let typed = |at: usize, (array, rank): &(SharedArray, usize)| {
        let wanted = if is_number(at, *rank) {
            ty
        } else {
            PrimitiveType::S32
        };
        array.get().element_type == wanted
    };
    matches!(ty, PrimitiveType::F32 | PrimitiveType::F64)
        && inputs.len() == operands
        && inputs.iter().all(|i| i.0.get().element_type == ty)
        && outputs.iter().enumerate().all(|(at, o)| typed(at, o))
        && inputs.iter().chain(outputs).all(small)
        && shapes_agree(op, inputs, outputs)
}

/// Whether the sizes are those the routine's kernels rely on.
fn shapes_agree(
    op: &LinalgOp,
    inputs: &[(SharedArray, usize)],
    outputs: &[(SharedArray, usize)],
) -> bool {
    let a = View::new(&inputs[0]);
    let same = |x: &View, y: &View| x.rows == y.rows && x.columns == y.columns;
    let first = View::new(&outputs[0]);
    let least = a.rows.min(a.columns);
    let vector = |at: usize| outputs.get(at).is_none_or(|o| View::new(o).rows == least);
    match op.routine {
        Routine::Potrf => a.rows == a.columns && same(&a, &first),
        Routine::Trsm => {
            let b = View::new(&inputs[1]);
            let n = if op.left { b.rows } else { b.columns };
            a.rows == a.columns && n == a.rows && same(&b, &first)
        }
        Routine::Orgqr => {
            let taus = View::new(&inputs[1]).rows;
            same(&a, &first) && a.columns <= a.rows && taus <= a.columns
        }
        Routine::Ormqr => {
            let c = View::new(&inputs[2]);
            let size = if op.left { c.rows } else { c.columns };
            let taus = View::new(&inputs[1]).rows;
            same(&c, &first) && a.rows == size && taus <= a.columns.min(size)
        }
        _ => same(&a, &first) && vector(1),
    }
}

/// Runs the matrices `range`; calls `alone` for those that another routine has to do.
pub fn run(
    op: &LinalgOp,
    inputs: &[(SharedArray, usize)],
    outputs: &[(SharedArray, usize)],
    range: Range<usize>,
    alone: &dyn Fn(usize) -> Result<()>,
) -> Result<()> {
    let work = Work {
        op,
        inputs,
        outputs,
        alone,
    };
    if inputs[0].0.get().element_type == PrimitiveType::F32 {
        work.groups::<f32, F32_LANES>(range)
    } else {
        work.groups::<f64, F64_LANES>(range)
    }
}

/// Matrices in the lanes of a vector.
const F32_LANES: usize = 16;
const F64_LANES: usize = 8;

/// Matrices of an element type that are computed together.
pub fn lanes(ty: PrimitiveType) -> usize {
    match ty {
        PrimitiveType::F32 => F32_LANES,
        _ => F64_LANES,
    }
}

struct Work<'a> {
    op: &'a LinalgOp,
    inputs: &'a [(SharedArray, usize)],
    outputs: &'a [(SharedArray, usize)],
    alone: &'a dyn Fn(usize) -> Result<()>,
}

impl Work<'_> {
    /// Groups of `L`, and those that are too few for one by themselves.
    fn groups<F: Real, const L: usize>(&self, range: Range<usize>) -> Result<()> {
        let mut next = range.start;
        while next < range.end {
            let left = range.end - next;
            if left < MIN_TOGETHER {
                self.group::<F, 1>(next..next + 1)?;
                next += 1;
            } else {
                let count = left.min(L);
                self.group::<F, L>(next..next + count)?;
                next += count;
            }
        }
        Ok(())
    }

    fn group<F: Real, const L: usize>(&self, range: Range<usize>) -> Result<()> {
        let failed = match self.op.routine {
            Routine::Potrf => self.cholesky::<F, L>(&range)?,
            Routine::Trsm => self.solve::<F, L>(&range)?,
            Routine::Getrf => self.lu::<F, L>(&range)?,
            Routine::Geqrf => self.qr::<F, L>(&range)?,
            Routine::Ormqr => self.apply_q::<F, L>(&range)?,
            _ => self.q::<F, L>(&range)?,
        };
        for (l, index) in range.enumerate() {
            if failed[l] {
                (self.alone)(index)?;
            }
        }
        Ok(())
    }

    /// Writes a status of 0 to the last result if there are `count`.
    fn succeeded<const L: usize>(&self, count: usize, range: &Range<usize>, failed: &[bool; L]) {
        if let Some(status) = self.outputs.get(count - 1) {
            View::new(status).store(range, &[[0i32; L]], failed);
        }
    }

    fn cholesky<F: Real, const L: usize>(&self, range: &Range<usize>) -> Result<[bool; L]> {
        let (mut from, mut to) = (View::new(&self.inputs[0]), View::new(&self.outputs[0]));
        if !self.op.lower {
            (from, to) = (from.transposed(), to.transposed());
        }
        let n = from.rows;
        let mut a = filled([F::ZERO; L], from.size())?;
        from.load(range, &mut a);
        let failed = kernels::cholesky(&mut a, n);
        if self.op.zero_other {
            for j in 1..n {
                a[j * n..j * n + j].fill([F::ZERO; L]);
            }
        }
        to.store(range, &a, &failed);
        self.succeeded(2, range, &failed);
        Ok(failed)
    }

    fn solve<F: Real, const L: usize>(&self, range: &Range<usize>) -> Result<[bool; L]> {
        let (mut from, mut b) = (View::new(&self.inputs[0]), View::new(&self.inputs[1]));
        let mut to = View::new(&self.outputs[0]);
        // x a = b is a' x' = b', and the last row of an upper triangle is the first of a lower one.
        let is_turned = (self.op.transpose == Transpose::No) != self.op.left;
        if !self.op.left {
            (b, to) = (b.transposed(), to.transposed());
        }
        if is_turned {
            from = from.transposed();
        }
        if self.op.lower == is_turned {
            from = from.rows_reversed().columns_reversed();
            (b, to) = (b.rows_reversed(), to.rows_reversed());
        }
        let mut a = filled([F::ZERO; L], from.size())?;
        let mut x = filled([F::ZERO; L], b.size())?;
        from.load(range, &mut a);
        b.load(range, &mut x);
        kernels::solve(&a, from.rows, &mut x, self.op.unit_diagonal);
        to.store(range, &x, &[false; L]);
        Ok([false; L])
    }

    fn lu<F: Real, const L: usize>(&self, range: &Range<usize>) -> Result<[bool; L]> {
        let (from, to) = (View::new(&self.inputs[0]), View::new(&self.outputs[0]));
        let mut a = filled([F::ZERO; L], from.size())?;
        let mut pivots = filled([0i32; L], from.rows.min(from.columns))?;
        from.load(range, &mut a);
        let failed = kernels::lu(&mut a, from.rows, from.columns, &mut pivots);
        to.store(range, &a, &failed);
        if let Some(rows) = self.outputs.get(1) {
            View::new(rows).store(range, &pivots, &failed);
        }
        self.succeeded(3, range, &failed);
        Ok(failed)
    }

    fn qr<F: Real, const L: usize>(&self, range: &Range<usize>) -> Result<[bool; L]> {
        let (from, to) = (View::new(&self.inputs[0]), View::new(&self.outputs[0]));
        let mut a = filled([F::ZERO; L], from.size())?;
        let mut taus = filled([F::ZERO; L], from.rows.min(from.columns))?;
        from.load(range, &mut a);
        let failed = kernels::qr(&mut a, from.rows, from.columns, &mut taus);
        to.store(range, &a, &failed);
        if let Some(factors) = self.outputs.get(1) {
            View::new(factors).store(range, &taus, &failed);
        }
        self.succeeded(3, range, &failed);
        Ok(failed)
    }

    fn q<F: Real, const L: usize>(&self, range: &Range<usize>) -> Result<[bool; L]> {
        let (from, factors) = (View::new(&self.inputs[0]), View::new(&self.inputs[1]));
        let mut a = filled([F::ZERO; L], from.size())?;
        let mut taus = filled([F::ZERO; L], factors.rows)?;
        from.load(range, &mut a);
        factors.load(range, &mut taus);
        kernels::q(&mut a, from.rows, from.columns, &taus);
        View::new(&self.outputs[0]).store(range, &a, &[false; L]);
        self.succeeded(2, range, &[false; L]);
        Ok([false; L])
    }

    fn apply_q<F: Real, const L: usize>(&self, range: &Range<usize>) -> Result<[bool; L]> {
        let (from, factors) = (View::new(&self.inputs[0]), View::new(&self.inputs[1]));
        let (mut c, mut to) = (View::new(&self.inputs[2]), View::new(&self.outputs[0]));
        let mut is_transposed = self.op.transpose != Transpose::No;
        // The transpose of c Q is that of Q times that of c.
        if !self.op.left {
            (c, to) = (c.transposed(), to.transposed());
            is_transposed = !is_transposed;
        }
        let mut a = filled([F::ZERO; L], from.size())?;
        let mut taus = filled([F::ZERO; L], factors.rows)?;
        let mut x = filled([F::ZERO; L], c.size())?;
        from.load(range, &mut a);
        factors.load(range, &mut taus);
        c.load(range, &mut x);
        kernels::apply_q(&a, from.rows, &taus, &mut x, is_transposed);
        to.store(range, &x, &[false; L]);
        self.succeeded(2, range, &[false; L]);
        Ok([false; L])
    }
}
