//! Folds columns in one pass: `result[j] = combine(result[j], value(i, j))`, row by row.
//!
//! In: steps that compute values of a row and combine them with what the results are so far. Out: a [`ColumnFold`], which
//! keeps a block of columns in the first-level cache over all rows. Promise: each result is combined with the values of its
//! column in the order of the rows, and has the bits that the kernels of the steps give.

use super::{Rows, Step, VectorBytecode};
use crate::{DType, Isa};

/// Values and the combination of them, in one pass.
#[derive(Clone, Debug)]
pub struct ColumnFold {
    code: VectorBytecode,
    /// By operand: whether a row has one element for all columns.
    is_single: Vec<bool>,
    /// Bytes of an element, by operand.
    sizes: Vec<usize>,
}

impl ColumnFold {
    /// A fold by `steps`. The last of the `inputs` is what the results are so far, the result of the last step what they
    /// become. Inputs for which `is_single` holds have one element for all columns of a row. `None` where vector bytecode
    /// has no such steps, or single elements of such a type.
    pub fn new(inputs: &[DType], is_single: &[bool], steps: &[Step]) -> Option<ColumnFold> {
        ColumnFold::on(Isa::active(), inputs, is_single, steps)
    }

    /// [`ColumnFold::new`] for a given tier, which must be available.
    pub fn on(
        isa: Isa,
        inputs: &[DType],
        is_single: &[bool],
        steps: &[Step],
    ) -> Option<ColumnFold> {
        let (&result, _) = inputs.split_last()?;
        // Results lie in the scratch at their own size, as blocks of their code do.
        if steps.last()?.to != result || !matches!(result.size_bytes(), 4 | 8) {
            return None;
        }
        let last = (inputs.len() + steps.len() - 1) as u32;
        Some(ColumnFold {
            code: VectorBytecode::with_singles(isa, inputs, is_single, steps, &[last])?,
            is_single: is_single.to_vec(),
            sizes: inputs.iter().map(|dtype| dtype.size_bytes()).collect(),
        })
    }

    /// Lets it become machine code; see [`VectorBytecode::make_machine_code_after`].
    pub fn make_machine_code_after(&mut self, least: u64) {
        self.code.make_machine_code_after(least);
    }

    /// Fewest columns it folds.
    pub fn min_columns(&self) -> usize {
        self.code.lanes
    }

    /// Bytes of scratch a run needs, zero before the first one, at a multiple of 64.
    pub fn scratch_bytes(&self) -> usize {
        self.code.scratch_bytes() + self.code.block_bytes()
    }

    /// Folds `rows` rows of `columns` columns, no fewer than [`ColumnFold::min_columns`], into `results`.
    ///
    /// # Safety
    /// Each of the `operands`, of which there is one for every input but the last, has an element at every column of every
    /// row, or one in every row where it is single; there is a result for every column, and results overlap no operand;
    /// scratch has [`ColumnFold::scratch_bytes`] that nobody else uses meanwhile.
    pub unsafe fn run(
        &self,
        operands: &[Rows],
        results: *mut u8,
        (rows, columns): (usize, usize),
        scratch: *mut u8,
    ) {
        let code = &self.code;
        debug_assert!(operands.len() + 1 == self.sizes.len());
        let size = code.size;
        let blocks = code.blocks(columns);
        // The last columns are folded by a block that ends there and may overlap the one before it. It works on a copy of the
        // results; only those that are not folded yet are copied back.
        // SAFETY: the caller's promise: every block lies inside the columns, and the scratch ends with room for one.
        unsafe {
            let apart = scratch.add(code.scratch_bytes());
            if let Some(first) = blocks.last() {
                let bytes = blocks.width * size;
                std::ptr::copy_nonoverlapping(results.add(first * size), apart, bytes);
            }
            code.place_locals(scratch.cast(), scratch.add(code.table_bytes()));
            for (column, is_large) in blocks.whole() {
                let to = results.add(column * size);
                self.block(operands, (column, rows), to, scratch, is_large);
            }
            if let Some(first) = blocks.last() {
                self.block(operands, (first, rows), apart, scratch, blocks.is_large);
                let done = (blocks.others - first) * size;
                let to = results.add(blocks.others * size);
                let left = (columns - blocks.others) * size;
                std::ptr::copy_nonoverlapping(apart.add(done), to, left);
            }
        }
    }

    /// Folds all rows of a block from `column` on into the results at `to`.
    ///
    /// # Safety
    /// As for [`ColumnFold::run`], for the columns of the block. The table has the bytecode's own addresses.
    unsafe fn block(
        &self,
        operands: &[Rows],
        (column, rows): (usize, usize),
        to: *mut u8,
        scratch: *mut u8,
        is_large: bool,
    ) {
        let rows_of = |(k, operand): (usize, &Rows)| {
            let before = match self.is_single.get(k) {
                Some(true) => 0,
                _ => column * self.sizes[k],
            };
            (operand.address.wrapping_add(before), operand.step)
        };
        // The results so far, and what they become.
        let results = std::iter::repeat((to, 0));
        let outside = operands.iter().enumerate().map(rows_of).chain(results);
        // SAFETY: the caller's promise.
        unsafe { self.code.run_column(outside, rows, scratch, is_large) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::BinaryOp;
    use crate::vector_bytecode::tests::binary_step as step;

    /// Sums of `(single - row) * (row - single)`, in either order of operands.
    fn steps(dtype: DType) -> Vec<Step> {
        vec![
            step(BinaryOp::Subtract, [0, 1], dtype),
            step(BinaryOp::Subtract, [1, 0], dtype),
            step(BinaryOp::Multiply, [3, 4], dtype),
            step(BinaryOp::Add, [2, 5], dtype),
        ]
    }

    /// Folds rows of values made by `value` on every tier, and compares with the same one by one.
    fn check<T: Copy + PartialEq + std::fmt::Debug>(
        dtype: DType,
        value: impl Fn(usize) -> T,
        fold: impl Fn(T, T, T) -> T,
    ) {
        for isa in Isa::available().into_iter().filter(|isa| isa.is_fused()) {
            let code = ColumnFold::on(isa, &[dtype; 3], &[true, false], &steps(dtype)).unwrap();
            let mut scratch = vec![0u64; code.scratch_bytes() / 8 + 8];
            for columns in [16, 17, 63, 64, 100, 127, 128, 129, 200, 257, 777] {
                for rows in [0, 1, 2, 5, 33] {
                    let single: Vec<T> = (0..rows).map(|i| value(7 * i)).collect();
                    let row: Vec<T> = (0..rows * columns).map(&value).collect();
                    let mut results: Vec<T> = (0..columns + 1).map(&value).collect();
                    let mut wanted = results.clone();
                    for (at, &y) in row.iter().enumerate() {
                        let so_far = &mut wanted[at % columns];
                        *so_far = fold(*so_far, single[at / columns], y);
                    }
                    let size = size_of::<T>();
                    let rows_of = |values: &[T], step: usize| Rows {
                        address: values.as_ptr().cast_mut().cast(),
                        step: (step * size) as isize,
                    };
                    let operands = [rows_of(&single, 1), rows_of(&row, columns)];
                    let (to, room) = (results.as_mut_ptr().cast(), scratch.as_mut_ptr().cast());
                    // SAFETY: there are so many elements, and the scratch is as large as asked for.
                    unsafe { code.run(&operands, to, (rows, columns), room) };
                    assert_eq!(results, wanted, "{isa:?} {rows} {columns}");
                }
            }
        }
    }

    #[test]
    fn columns_are_folded_row_by_row() {
        let float = |i: usize| (i as f32).sin();
        check(DType::F32, float, |sum, x, y| sum + (x - y) * (y - x));
        let double = |i: usize| (i as f64).sin();
        check(DType::F64, double, |sum, x, y| sum + (x - y) * (y - x));
        let integer = |i: usize| (i * i % 1009) as i32;
        check(DType::S32, integer, |sum, x, y| sum + (x - y) * (y - x));
    }

    #[test]
    fn types_that_do_not_fit_are_refused() {
        for isa in Isa::available().into_iter().filter(|isa| isa.is_fused()) {
            let on = |dtype, steps: &[Step]| {
                ColumnFold::on(isa, &[dtype; 3], &[true, false], steps).is_some()
            };
            assert!(on(DType::F64, &steps(DType::F64)));
            assert!(!on(DType::BF16, &steps(DType::BF16)));
            assert!(!on(DType::S16, &steps(DType::S16)));
            assert!(!on(DType::F32, &[]));
        }
    }
}
