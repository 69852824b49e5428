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

/// The dimensions of both operands and of the result, in the order in which blocks are products.
struct Order {
    /// The dimension of rows, of groups, or of sums that groups divide.
    row: Option<usize>,
    group: Option<usize>,
    sum: Option<usize>,
    rows: Vec<usize>,
    left: Vec<usize>,
    right: Vec<usize>,
    /// The result has the rows as the operand has them.
    result: Vec<usize>,
}

impl Order {
    /// Whatever is ragged becomes the first of its kind.
    fn new(op: &BlockDotOp) -> Order {
        let front = |dims: &[usize], first: Option<usize>| -> Vec<usize> {
            let others = dims.iter().copied().filter(|&d| Some(d) != first);
            first.into_iter().chain(others).collect()
        };
        let (row, group, sum) = match op.blocks {
            Blocks::Rows(row, group) => (Some(row), Some(group), None),
            Blocks::Contracted(dim) => (None, None, Some(dim)),
            Blocks::Batch | Blocks::Scales => (None, None, None),
        };
        let partner = sum
            .and_then(|dim| op.contracting[0].iter().position(|&d| d == dim))
            .map(|at| op.contracting[1][at]);
        let rows = front(&op.free[0], row);
        let lead = usize::from(sum.is_some()) + op.batch[0].len();
        let natural = &op.free[0];
        let found = rows
            .iter()
            .filter_map(|d| natural.iter().position(|x| x == d));
        let columns = lead + natural.len();
        let result = (0..lead)
            .chain(found.map(|at| lead + at))
            .chain(columns..columns + op.free[1].len())
            .collect();
        let sums = [
            front(&op.contracting[0], sum),
            front(&op.contracting[1], partner),
        ];
        let groups: Vec<usize> = group.into_iter().collect();
        Order {
            row,
            group,
            sum,
            left: [&op.batch[0][..], &rows, &sums[0]].concat(),
            right: [&groups[..], &op.batch[1], &sums[1], &op.free[1]].concat(),
            rows,
            result,
        }
    }
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
        for (operand, scale) in [(&mut lhs, left), (&mut rhs, right)] {
            let (bytes, array) = scaled(operand, scale)?;
            kept.push(bytes);
            *operand = array;
        }
    }
    let order = Order::new(op);
    let ty = compute_type(&lhs, &rhs, output)?;
    let dense = |array: &RawArray, order: &[usize]| -> Result<AlignedBytes<u8>> {
        let typed = Typed::new(&array.transposed(order), ty)?;
        typed.array.to_row_major()
    };
    let (left, right) = (dense(&lhs, &order.left)?, dense(&rhs, &order.right)?);
    let size = |array: &RawArray, dims: &[usize]| -> usize {
        product(&dims.iter().map(|&d| array.dims[d]).collect::<Vec<_>>())
    };
    let batch = size(&lhs, &op.batch[0]);
    let (m, n) = (size(&lhs, &order.rows), size(&rhs, &op.free[1]));
    let k = size(&lhs, &op.contracting[0]);
    let groups = match op.blocks {
        Blocks::Rows(..) | Blocks::Contracted(_) => to_i64(rest.first().ok_or_else(misfit)?)?,
        _ => Vec::new(),
    };
    let stacked = order.sum.map_or(1, |_| groups.len());
    let count = stacked * batch * m * n;
    let has_groups = |d: usize| rhs.dims[d] == groups.len() as i64;
    let fits = count == output.count()
        && order.group.is_none_or(has_groups)
        && order.result.len() == output.dims.len();
    if !fits {
        return Err(misfit());
    }
    let mut result = AlignedBytes::zeroed(count * ty.size_bytes())?;
    let mut blocks = BlockProducts {
        dtype: dtype(ty).ok_or_else(misfit)?,
        left: &left,
        right: &right,
        result: &mut result,
        sizes: [batch, m, n, k],
    };
    match (order.row, order.sum) {
        (Some(row), _) => blocks.of_groups(&groups, lhs.dims[row], true)?,
        (None, Some(sum)) => blocks.of_groups(&groups, lhs.dims[sum], false)?,
        (None, None) => {
            for b in 0..batch {
                blocks.multiply((m, n), k, [b * m * k, b * k * n, b * m * n])?;
            }
        }
    }
    let target = output.transposed(&order.result);
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
