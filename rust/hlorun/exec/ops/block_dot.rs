//! Runs `ragged-dot` and `scaled-dot` as matrix products per block.
//!
//! Promise: low floats are multiplied and summed in `f32`; rows no block covers are zero.

use hlorun_kernels::{DType, Gemm, Matrix, Parallel};

use super::convolution::{Typed, compute_type};
use super::index_map::to_i64;
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::element::elementwise::dtype;
use crate::plan::ops::block_dot::{BlockDotOp, Blocks};
use crate::types::strided::{advance, row_major_strides};
use crate::types::{Dims, PrimitiveType};

fn product(dims: &[i64]) -> usize {
    dims.iter().product::<i64>().max(0) as usize
}

/// Times a scale that is repeated over the blocks it divides the array into.
fn scaled(array: &RawArray, scale: &RawArray) -> Result<(AlignedBytes<u8>, RawArray)> {
    let typed = Typed::new(array, PrimitiveType::F32)?;
    let mut bytes = typed.array.to_row_major()?;
    let result = RawArray::over(&mut bytes, PrimitiveType::F32, &array.dims);
    let factors = Typed::new(scale, PrimitiveType::F32)?
        .array
        .to_row_major()?;
    let factors: Vec<f32> = factors
        .as_slice()
        .chunks_exact(4)
        .map(|b| f32::from_ne_bytes(b.try_into().unwrap_or_default()))
        .collect();
    let rank = array.dims.len();
    let steps = row_major_strides(&scale.dims);
    let fits = scale.dims.is_empty()
        || (scale.dims.len() == rank
            && (0..rank).all(|d| {
                array.dims[d] == 0 || (scale.dims[d] > 0 && array.dims[d] % scale.dims[d] == 0)
            }));
    if !fits {
        return Err(HloError::execution(
            "a scale that does not divide its operand",
        ));
    }
    let mut index: Dims = smallvec::SmallVec::from_elem(0, rank);
    for value in bytes.as_mut_slice().chunks_exact_mut(4) {
        let at: i64 = if scale.dims.is_empty() {
            0
        } else {
            (0..rank)
                .map(|d| index[d] / (array.dims[d] / scale.dims[d]) * steps[d])
                .sum()
        };
        let x = f32::from_ne_bytes([value[0], value[1], value[2], value[3]]);
        value.copy_from_slice(&(x * factors[at as usize]).to_ne_bytes());
        advance(&mut index, &array.dims);
    }
    Ok((bytes, result))
}

/// Runs `op`: two operands and their scales or group sizes in, one array out.
pub fn run(
    op: &BlockDotOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    _environment: &OpEnvironment<'_>,
) -> Result<()> {
    let ([lhs, rhs, rest @ ..], [output]) = (inputs, outputs) else {
        return Err(HloError::execution("a product of other arrays"));
    };
    let misfit = || HloError::execution("a product of arrays that do not fit");
    let (mut lhs, mut rhs) = (lhs.clone(), rhs.clone());
    let mut kept = Vec::new();
    if op.blocks == Blocks::Scales {
        let [left, right] = rest else {
            return Err(misfit());
        };
        let (bytes, array) = scaled(&lhs, left)?;
        kept.push(bytes);
        lhs = array;
        let (bytes, array) = scaled(&rhs, right)?;
        kept.push(bytes);
        rhs = array;
    }
    // Whatever is ragged becomes the first of its kind.
    let front = |dims: &[usize], first: Option<usize>| -> Vec<usize> {
        let others = dims.iter().copied().filter(|&d| Some(d) != first);
        first.into_iter().chain(others).collect()
    };
    let (ragged_row, group_dim, ragged_sum) = match op.blocks {
        Blocks::Rows(row, group) => (Some(row), Some(group), None),
        Blocks::Contracted(dim) => (None, None, Some(dim)),
        Blocks::Batch | Blocks::Scales => (None, None, None),
    };
    let partner = ragged_sum
        .and_then(|dim| op.contracting[0].iter().position(|&d| d == dim))
        .map(|at| op.contracting[1][at]);
    let rows = front(&op.free[0], ragged_row);
    let left_order = [
        op.batch[0].to_vec(),
        rows.clone(),
        front(&op.contracting[0], ragged_sum),
    ]
    .concat();
    let right_order = [
        group_dim.into_iter().collect(),
        op.batch[1].to_vec(),
        front(&op.contracting[1], partner),
        op.free[1].to_vec(),
    ]
    .concat();
    let ty = compute_type(&lhs, &rhs, output)?;
    let left = Typed::new(&lhs.transposed(&left_order), ty)?
        .array
        .to_row_major()?;
    let right = Typed::new(&rhs.transposed(&right_order), ty)?
        .array
        .to_row_major()?;
    let sizes = |array: &RawArray, dims: &[usize]| -> Vec<i64> {
        dims.iter().map(|&d| array.dims[d]).collect()
    };
    let batch = product(&sizes(&lhs, &op.batch[0]));
    let m = product(&sizes(&lhs, &rows));
    let n = product(&sizes(&rhs, &op.free[1]));
    let k = product(&sizes(&lhs, &op.contracting[0]));
    let groups = match op.blocks {
        Blocks::Rows(..) | Blocks::Contracted(_) => to_i64(rest.first().ok_or_else(misfit)?)?,
        _ => Vec::new(),
    };
    let stacked = if ragged_sum.is_some() {
        groups.len()
    } else {
        1
    };
    let count = stacked * batch * m * n;
    if count != output.count() || group_dim.is_some_and(|d| rhs.dims[d] != groups.len() as i64) {
        return Err(misfit());
    }
    let mut result = AlignedBytes::zeroed(count * ty.size_bytes())?;
    // Elements along the ragged dimension.
    let length = ragged_row.or(ragged_sum).map_or(0, |d| lhs.dims[d]);
    let mut blocks = BlockProducts {
        dtype: dtype(ty).ok_or_else(misfit)?,
        left: &left,
        right: &right,
        result: &mut result,
        sizes: [batch, m, n, k],
    };
    match (ragged_row, ragged_sum) {
        (Some(_), _) => blocks.of_groups(&groups, length, true)?,
        (None, Some(_)) => blocks.of_groups(&groups, length, false)?,
        (None, None) => {
            for b in 0..batch {
                blocks.multiply((m, n), k, [b * m * k, b * k * n, b * m * n])?;
            }
        }
    }
    // The result's own order has the rows as the operand has them.
    let lead = usize::from(ragged_sum.is_some()) + op.batch[0].len();
    let natural = &op.free[0];
    let found = rows
        .iter()
        .filter_map(|d| natural.iter().position(|x| x == d));
    let order: Vec<usize> = (0..lead)
        .chain(found.map(|at| lead + at))
        .chain(lead + natural.len()..output.dims.len())
        .collect();
    if order.len() != output.dims.len() {
        return Err(misfit());
    }
    let target = output.transposed(&order);
    let array = RawArray::over(&mut result, ty, &target.dims);
    Typed::new(&array, output.element_type)?
        .array
        .copy_to(&target);
    Ok(())
}

/// Products of blocks of dense operands.
struct BlockProducts<'a> {
    dtype: DType,
    left: &'a AlignedBytes<u8>,
    right: &'a AlignedBytes<u8>,
    result: &'a mut AlignedBytes<u8>,
    /// Products, rows, columns and steps of a sum, of the whole.
    sizes: [usize; 4],
}

impl BlockProducts<'_> {
    /// The product of blocks that begin at these elements of the operands and the result.
    fn multiply(
        &mut self,
        (rows, cols): (usize, usize),
        sums: usize,
        at: [usize; 3],
    ) -> Result<()> {
        let gemm = Gemm {
            a: Matrix::row_major(self.sizes[3], 0),
            ..Gemm::dense(self.dtype, rows, cols, sums)
        };
        let at = at.map(|at| at * self.dtype.size_bytes());
        // SAFETY: the blocks are parts of the dense operands and of the result.
        unsafe {
            hlorun_kernels::gemm(
                &gemm,
                self.left.as_ptr().add(at[0]),
                self.right.as_ptr().add(at[1]),
                self.result.as_mut_ptr().add(at[2]),
                &Parallel::SERIAL,
            )?;
        }
        Ok(())
    }

    /// One product per group: of its rows, or else of its part of every sum, among `length`.
    fn of_groups(&mut self, groups: &[i64], length: i64, by_rows: bool) -> Result<()> {
        let [batch, m, n, k] = self.sizes;
        let step = if by_rows { m } else { k } / length.max(1) as usize;
        let mut start = 0i64;
        for (group, &wanted) in groups.iter().enumerate() {
            let taken = wanted.clamp(0, length - start);
            let (begin, taken_count) = (start as usize * step, taken as usize * step);
            start += taken;
            for b in 0..batch {
                let apart = group * batch + b;
                if by_rows {
                    let row = b * m + begin;
                    self.multiply((taken_count, n), k, [row * k, apart * k * n, row * n])?;
                } else {
                    let at = [b * m * k + begin, (b * k + begin) * n, apart * m * n];
                    self.multiply((m, n), taken_count, at)?;
                }
            }
        }
        Ok(())
    }
}
