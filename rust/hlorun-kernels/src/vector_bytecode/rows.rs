//! Elementwise operations over rows that lie apart, each read and written where it is.
//!
//! In: steps, and for every operand and result where its rows are. Out: a [`RowCode`], which computes a block of columns of all
//! rows before the next block; its machine code row after row. Promise: each element has the bits that the kernels of the steps
//! give; of a NaN only that it is one.

use super::{LARGE_COST, SMALL_COST, Step, Strides, VectorBytecode, WIDE};
use crate::{DType, Isa};

/// Most columns of rows that share an operand and are computed row after row: it stays in the first-level cache. Of longer
/// ones, a block of columns is computed of all rows.
const SHARED_COLUMNS: usize = 1 << 10;

/// An operand or a result.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// Its first element.
    pub address: *mut u8,
    /// Bytes from row to row.
    pub step: isize,
}

/// Operations on rows.
#[derive(Clone, Debug)]
pub struct RowCode {
    code: VectorBytecode,
    /// By operand, then by result: bytes from column to column; 0 where a row has one element for all columns.
    columns: Vec<usize>,
    /// Rows for whose last block there is scratch; 0 where no last block has to be kept.
    kept: usize,
}

/// The blocks of a row. The last one ends with the row, and may overlap the one before it.
pub(super) struct Blocks {
    /// Column where the large blocks that come first end.
    pub(super) large: usize,
    /// Column where the blocks of `width` columns end.
    pub(super) others: usize,
    /// Columns of each of these, and of the last one.
    pub(super) width: usize,
    /// Whether these are large.
    pub(super) is_large: bool,
    /// Columns of a row.
    pub(super) columns: usize,
}

impl Blocks {
    /// The first column of each block but the last, and whether it is large.
    pub(super) fn whole(&self) -> impl Iterator<Item = (usize, bool)> + use<> {
        let per_large = if self.is_large { 1 } else { WIDE };
        let large = (0..self.large).step_by(self.width * per_large);
        let others = (self.large..self.others).step_by(self.width);
        let is_large = self.is_large;
        let large = large.map(|column| (column, true));
        large.chain(others.map(move |column| (column, is_large)))
    }

    /// The first column of the last block, where the others leave columns.
    pub(super) fn last(&self) -> Option<usize> {
        (self.others < self.columns).then(|| self.columns - self.width)
    }
}

impl VectorBytecode {
    /// How `columns` columns, no fewer than a vector has, are cut into blocks.
    pub(super) fn blocks(&self, columns: usize) -> Blocks {
        let (small, large) = (self.lanes, WIDE * self.lanes);
        debug_assert!(columns >= small);
        let rest = columns % large;
        let is_large = rest.div_ceil(small) * SMALL_COST > LARGE_COST && columns >= large;
        let width = if is_large { large } else { small };
        Blocks {
            large: columns - rest,
            others: columns - rest % width,
            width,
            is_large,
            columns,
        }
    }

    /// Runs a block of each of `rows` rows. `outside` are the first elements of the block and the bytes from row to row, of all
    /// inputs and then of all outputs.
    ///
    /// # Safety
    /// There is one outside for every input and output, and the elements of the block are there in every row of each; the table
    /// has the bytecode's own addresses ([`VectorBytecode::place_locals`]); scratch has [`VectorBytecode::scratch_bytes`] that
    /// nobody else uses meanwhile.
    pub(super) unsafe fn run_column(
        &self,
        outside: impl Iterator<Item = (*mut u8, isize)>,
        rows: usize,
        scratch: *mut u8,
        is_large: bool,
    ) {
        // SAFETY: the table's own addresses are there by the caller's promise; all others, and how they move on, are written
        // here.
        unsafe {
            let strides = self.place_outside(outside, scratch);
            self.run_blocks(scratch.cast(), strides, rows, is_large);
        }
    }

    /// Writes into the table at the beginning of `scratch` where operands and results are, and the bytes from row to row.
    ///
    /// # Safety
    /// There is one for every input and output; scratch has [`VectorBytecode::scratch_bytes`] that nobody else uses meanwhile.
    unsafe fn place_outside<'s>(
        &self,
        outside: impl Iterator<Item = (*mut u8, isize)>,
        scratch: *mut u8,
    ) -> Strides<'s> {
        let (own, count) = (self.locals, self.bytes.len());
        let pointers = scratch.cast::<*mut u8>();
        // SAFETY: the caller's promise; the table has room for both, one behind the other.
        unsafe {
            let steps = pointers.add(own + count).cast::<isize>();
            for (k, (address, step)) in outside.take(count).enumerate() {
                pointers.add(own + k).write(address);
                steps.add(k).write(step);
            }
            Strides {
                first: own,
                bytes: std::slice::from_raw_parts(steps, count),
            }
        }
    }
}

impl RowCode {
    /// Code of `steps`, which stores the values `outputs`. Inputs for which `is_single` holds have one element for all columns of
    /// a row. `None` where vector bytecode has no such steps, or single elements of such a type.
    pub fn new(
        inputs: &[DType],
        is_single: &[bool],
        steps: &[Step],
        outputs: &[u32],
    ) -> Option<RowCode> {
        RowCode::on(Isa::active(), inputs, is_single, steps, outputs)
    }

    /// [`RowCode::new`] for a given tier, which must be available.
    pub fn on(
        isa: Isa,
        inputs: &[DType],
        is_single: &[bool],
        steps: &[Step],
        outputs: &[u32],
    ) -> Option<RowCode> {
        let code = VectorBytecode::with_singles(isa, inputs, is_single, steps, outputs)?;
        let size = |(k, &bytes): (usize, &u16)| match is_single.get(k) {
            Some(true) => 0,
            _ => usize::from(bytes) / code.lanes,
        };
        let columns = code.bytes.iter().enumerate().map(size).collect();
        let kept = 0;
        Some(RowCode {
            code,
            columns,
            kept,
        })
    }

    /// Lets results take the place of operands, of at most `rows` rows at a time: a last block that shares columns with the one
    /// before it is computed first, and kept in scratch until the others are there.
    pub fn replace_operands(&mut self, rows: usize) {
        self.kept = rows;
    }

    /// Lets it become machine code; see [`VectorBytecode::make_machine_code_after`].
    pub fn make_machine_code_after(&mut self, least: u64) {
        self.code.make_machine_code_after(least);
    }

    /// Fewest columns it computes.
    pub fn min_columns(&self) -> usize {
        self.code.lanes
    }

    /// Whether row after row is taken by machine code, any number of them: rows of so many columns, and what is between the
    /// beginnings of two of them in each operand and result.
    pub fn goes_by_rows(&self, columns: usize, mut steps: impl Iterator<Item = isize>) -> bool {
        let mut are_shared = || {
            let mut all = steps.by_ref().zip(&self.columns);
            all.any(|(step, &size)| step == 0 && size > 0)
        };
        self.code.has_rows() && (columns <= SHARED_COLUMNS || !are_shared())
    }

    /// Blocks of a row of so many columns, and their columns; those that two of them share count twice.
    pub fn blocks_of(&self, columns: usize) -> (usize, usize) {
        let blocks = self.code.blocks(columns);
        let large = WIDE * self.code.lanes;
        let whole = blocks.whole().map(|block| block.1);
        let last = blocks.last().map(|_| blocks.is_large);
        let sizes = whole.chain(last).map(|is_large| match is_large {
            true => large,
            false => self.code.lanes,
        });
        sizes.fold((0, 0), |(count, all), size| (count + 1, all + size))
    }

    /// Calls of functions that a block takes.
    pub fn functions(&self) -> usize {
        self.code.calls.len()
    }

    /// Whether no element of a row of so many columns is computed twice.
    pub fn blocks_are_apart(&self, columns: usize) -> bool {
        self.code.blocks(columns).last().is_none()
    }

    /// Bytes of scratch a run needs, zero before the first one, at a multiple of 64.
    pub fn scratch_bytes(&self) -> usize {
        self.code.scratch_bytes() + self.kept * self.results() * self.code.block_bytes()
    }

    fn results(&self) -> usize {
        self.code.bytes.len() - self.code.inputs
    }

    /// Computes `rows` rows of `columns` columns, no fewer than [`RowCode::min_columns`]. `outside` are the operands and then the
    /// results.
    ///
    /// # Safety
    /// `outside` has one for every input and output. Each operand has an element at every column of every row, or one in every
    /// row where it is single; each result has room for as many, all apart. A result overlaps no operand; where
    /// [`RowCode::blocks_are_apart`] holds of `columns`, [`RowCode::replace_operands`] was asked for as many rows, or
    /// [`RowCode::goes_by_rows`], it may be one whose elements have the same size, at the same places. Scratch has [`RowCode::scratch_bytes`] that nobody else uses
    /// meanwhile.
    pub unsafe fn run(&self, outside: &[Rows], (rows, columns): (usize, usize), scratch: *mut u8) {
        debug_assert_eq!(outside.len(), self.columns.len());
        let by_rows = || self.goes_by_rows(columns, outside.iter().map(|rows| rows.step));
        // SAFETY: the caller's promise.
        if rows > 0 && by_rows() && unsafe { self.run_rows(outside, (rows, columns), scratch) } {
            return;
        }
        debug_assert!(self.kept == 0 || rows <= self.kept);
        let blocks = self.code.blocks(columns);
        let at = |column: usize| {
            let all = outside.iter().zip(&self.columns);
            all.map(move |(rows, &size)| (rows.address.wrapping_add(column * size), rows.step))
        };
        // SAFETY: the caller's promise: every block lies inside the columns. A last block that overlaps the one before it either
        // computes the same again, where no result is an operand, or was computed into scratch before any block was written.
        unsafe {
            let room = scratch.add(self.code.table_bytes());
            self.code.place_locals(scratch.cast(), room);
            let run = |column, is_large| {
                self.code.run_column(at(column), rows, scratch, is_large);
            };
            let last = blocks.last();
            if let Some(column) = last
                && self.kept > 0
            {
                let operands = at(column).take(self.code.inputs);
                let kept = (0..self.results()).map(|k| self.kept(scratch, k, blocks.width));
                let outside = operands.chain(kept);
                self.code
                    .run_column(outside, rows, scratch, blocks.is_large);
            }
            for (column, is_large) in blocks.whole() {
                run(column, is_large);
            }
            match last {
                Some(column) if self.kept > 0 => {
                    let results = at(blocks.others).skip(self.code.inputs);
                    self.put_kept(results, rows, &blocks, blocks.others - column, scratch);
                }
                Some(column) => run(column, blocks.is_large),
                None => {}
            }
        }
    }

    /// Computes row after row by machine code; returns whether there is some.
    ///
    /// # Safety
    /// That of [`RowCode::run`]. Every element is read before it is written, once.
    unsafe fn run_rows(&self, outside: &[Rows], extent: (usize, usize), scratch: *mut u8) -> bool {
        let all = outside.iter().map(|rows| (rows.address, rows.step));
        // SAFETY: the caller's promise.
        unsafe {
            let strides = self.code.place_outside(all, scratch);
            self.code.run_rows(scratch.cast(), strides.bytes, extent)
        }
    }

    /// Where the last blocks of a result, of so many columns, are kept, and the bytes from row to row.
    fn kept(&self, scratch: *mut u8, result: usize, width: usize) -> (*mut u8, isize) {
        let offset = self.code.scratch_bytes() + result * self.kept * self.code.block_bytes();
        let step = width * self.columns[self.code.inputs + result];
        (scratch.wrapping_add(offset), step as isize)
    }

    /// Puts the columns that only the last block has where they belong. The block begins `shared` columns before them.
    ///
    /// # Safety
    /// `results` are the places of these columns, as [`RowCode::run`] asks for them; the blocks of so many rows are kept in
    /// `scratch`.
    unsafe fn put_kept(
        &self,
        results: impl Iterator<Item = (*mut u8, isize)>,
        rows: usize,
        blocks: &Blocks,
        shared: usize,
        scratch: *mut u8,
    ) {
        let sizes = &self.columns[self.code.inputs..];
        for (result, ((to, to_step), &size)) in results.zip(sizes).enumerate() {
            let (from, from_step) = self.kept(scratch, result, blocks.width);
            let bytes = (blocks.columns - blocks.others) * size;
            for row in 0..rows as isize {
                let from = from
                    .wrapping_offset(row * from_step)
                    .wrapping_add(shared * size);
                let to = to.wrapping_offset(row * to_step);
                // SAFETY: the caller's promise; scratch is nobody else's.
                unsafe { from.copy_to_nonoverlapping(to, bytes) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::BinaryOp;
    use crate::vector_bytecode::tests::binary_step as step;

    /// `(single - row) * row` and the difference, of rows that lie apart.
    fn check<T: Copy + PartialEq + std::fmt::Debug>(
        dtype: DType,
        value: impl Fn(usize) -> T,
        compute: impl Fn(T, T) -> [T; 2],
    ) {
        let steps = [
            step(BinaryOp::Subtract, [0, 1], dtype),
            step(BinaryOp::Multiply, [2, 1], dtype),
        ];
        for isa in Isa::available().into_iter().filter(|isa| isa.is_fused()) {
            let code = RowCode::on(isa, &[dtype; 2], &[true, false], &steps, &[3, 2]).unwrap();
            let mut scratch = vec![0u64; code.scratch_bytes() / 8 + 8];
            let codes = [code.clone(), by_machine(&code, isa)];
            let all = [16, 17, 29, 63, 64, 100, 127, 128, 129, 200, 257];
            for (columns, code) in all
                .into_iter()
                .flat_map(|n| codes.iter().map(move |c| (n, c)))
            {
                for (rows, pitch) in [(1, columns), (5, columns + 3), (12, columns + 1)] {
                    let single: Vec<T> = (0..rows).map(|i| value(7 * i)).collect();
                    let mut row: Vec<T> = (0..rows * pitch).map(&value).collect();
                    let end = value(1);
                    let mut results = [vec![end; rows * columns], vec![end; rows * pitch]];
                    let rows_of = |values: *mut T, step: usize| Rows {
                        address: values.cast(),
                        step: (step * size_of::<T>()) as isize,
                    };
                    let [product, difference] = &mut results;
                    let outside = [
                        rows_of(single.as_ptr().cast_mut(), 1),
                        rows_of(row.as_mut_ptr(), pitch),
                        rows_of(product.as_mut_ptr(), columns),
                        rows_of(difference.as_mut_ptr(), pitch),
                    ];
                    let room = scratch.as_mut_ptr().cast();
                    // SAFETY: there are so many elements, and the scratch is as large as asked for.
                    unsafe { code.run(&outside, (rows, columns), room) };
                    for (at, &y) in row.iter().enumerate() {
                        let (i, j) = (at / pitch, at % pitch);
                        let wanted = match j < columns {
                            true => compute(single[i], y),
                            false => [end; 2],
                        };
                        let found = results[0].get(i * columns + j).filter(|_| j < columns);
                        let found = [*found.unwrap_or(&end), results[1][at]];
                        assert_eq!(found, wanted, "{isa:?} {rows} {columns} {at}");
                    }
                }
            }
        }
    }

    /// The same as machine code, where the CPU has such.
    fn by_machine(code: &RowCode, isa: Isa) -> RowCode {
        let mut code = code.clone();
        code.make_machine_code_after(0);
        #[cfg(target_arch = "x86_64")]
        if isa == Isa::Avx512 {
            assert!(code.code.has_machine_code() && code.code.has_rows());
        }
        code
    }

    #[test]
    fn rows_are_computed_where_they_lie() {
        let float = |i: usize| (i as f32).sin();
        check(DType::F32, float, |x, y| [(x - y) * y, x - y]);
        let double = |i: usize| (i as f64).sin();
        check(DType::F64, double, |x, y| [(x - y) * y, x - y]);
        let integer = |i: usize| (i * i % 1009) as i32;
        check(DType::S32, integer, |x, y| [(x - y) * y, x - y]);
    }

    /// Lets squares take the place of the elements, of which rows have five more.
    fn square_in_place(code: &RowCode, (rows, columns): (usize, usize), scratch: &mut [u64]) {
        let pitch = columns + 5;
        let value = |i: usize| i as f32 * 0.5;
        let mut values: Vec<f32> = (0..rows * pitch).map(value).collect();
        let own = Rows {
            address: values.as_mut_ptr().cast(),
            step: 4 * pitch as isize,
        };
        let room = scratch.as_mut_ptr().cast();
        // SAFETY: there are so many elements, and the scratch is as large as asked for.
        unsafe { code.run(&[own, own], (rows, columns), room) };
        for (at, &found) in values.iter().enumerate() {
            let wanted = match at % pitch < columns {
                true => value(at) * value(at),
                false => value(at),
            };
            assert_eq!(found, wanted, "{columns} {at}");
        }
    }

    #[test]
    fn a_result_may_be_an_operand() {
        let steps = [step(BinaryOp::Multiply, [0, 0], DType::F32)];
        for isa in Isa::available().into_iter().filter(|isa| isa.is_fused()) {
            let apart = RowCode::on(isa, &[DType::F32], &[], &steps, &[1]).unwrap();
            let least = apart.min_columns();
            let whole = [1, 2, 7, 8, 9, 14, 16, 22].map(|vectors| vectors * least);
            let rows = 3;
            let mut replacing = apart.clone();
            replacing.replace_operands(rows);
            let mut scratch = vec![0u64; replacing.scratch_bytes() / 8 + 8];
            let machine = by_machine(&apart, isa);
            let by_rows = machine.code.has_rows().then_some(&machine);
            for columns in whole.into_iter().chain(least + 1..12 * least) {
                let code = match apart.blocks_are_apart(columns) {
                    true => &apart,
                    false => &replacing,
                };
                for code in [Some(code), by_rows].into_iter().flatten() {
                    square_in_place(code, (rows, columns), &mut scratch);
                }
            }
            assert!(apart.blocks_are_apart(2 * least) && !apart.blocks_are_apart(least + 1));
        }
    }

    #[test]
    fn single_elements_of_narrow_types_are_refused() {
        for isa in Isa::available().into_iter().filter(|isa| isa.is_fused()) {
            let of = |dtype, is_single| {
                let steps = [step(BinaryOp::Add, [0, 1], dtype)];
                RowCode::on(isa, &[dtype; 2], &[is_single, false], &steps, &[2]).is_some()
            };
            assert!(of(DType::F64, true) && of(DType::BF16, false));
            assert!(!of(DType::BF16, true) && !of(DType::Pred, true));
        }
    }
}
