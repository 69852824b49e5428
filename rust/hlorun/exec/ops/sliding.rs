//! Long windows of associative and commutative operations, in linear time.
//!
//! In: a `reduce-window`. Out: `true` when done here: dimension by dimension, by prefixes and suffixes of blocks. Promise:
//! only additions and products of `f32` and `f64` are done in another order than position by position.

use super::associative::Associative;
use super::lines::{LANES, Lines, dense, long};
use super::walk::{Shared, try_split};
use crate::buffers::AlignedBytes;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::module::attributes::WindowDimension;
use crate::plan::cost::windowed::LONG;
use crate::plan::ops::reduce_window::ReduceWindowOp;
use crate::types::Dims;

/// Runs `op` if a window is long and its operation associative.
pub fn run(
    op: &ReduceWindowOp,
    operands: &[RawArray],
    inits: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<bool> {
    let long = long(op);
    if operands[0].count() == 0 || !long.iter().any(|&d| op.window.0[d].size >= LONG) {
        return Ok(false);
    }
    associative(op, operands, inits, outputs, &long, environment)
}

fn associative(
    op: &ReduceWindowOp,
    operands: &[RawArray],
    inits: &[RawArray],
    outputs: &[RawArray],
    long: &[usize],
    environment: &OpEnvironment<'_>,
) -> Result<bool> {
    let ([operand], [init], [output]) = (operands, inits, outputs) else {
        return Ok(false);
    };
    let ty = operand.element_type;
    let Some(Associative { kernel, identity }) = Associative::of(&op.combiner, ty) else {
        return Ok(false);
    };
    let fits = long.iter().all(|&d| {
        let (w, n, out) = (&op.window.0[d], operand.dims[d], output.dims[d]);
        let reach = i128::from(out - 1) * i128::from(w.stride) + i128::from(w.size);
        w.base_dilation == 1 && w.window_dilation == 1 && reach <= 4 * i128::from(n + out) + 64
    });
    if !fits {
        return Ok(false);
    }
    let (bytes, mut array) = dense(operand)?;
    let mut bytes = bytes.map(AlignedBytes::into_uninit);
    for &dim in long {
        let mut dims: Dims = array.dims.clone();
        dims[dim] = output.dims[dim];
        let count = dims.iter().product::<i64>() as usize;
        let mut next = AlignedBytes::uninitialized(count * ty.size_bytes())?;
        let target = RawArray::over(&mut next, ty, &dims);
        let pass = Pass {
            kernel,
            identity,
            size: ty.size_bytes(),
            window: &op.window.0[dim],
            from: Lines::new(&array.dims, dim),
            to: Lines::new(&dims, dim),
        };
        let (source, destination) = (Shared::new(array.pointer), Shared::new(target.pointer));
        try_split(environment, pass.from.count(), 1, &|range| {
            pass.run(range, source, destination)
        })?;
        bytes = Some(next);
        array = target;
    }
    // The initial value comes first.
    let mut row = AlignedBytes::uninitialized(LANES * ty.size_bytes())?;
    let mut done = 0;
    // SAFETY: the row and the array hold the elements named; kernels may write onto an operand.
    unsafe {
        hlorun_kernels::fill(ty.size_bytes(), init.pointer, row.as_mut_ptr(), LANES);
        while done < array.count() {
            let n = LANES.min(array.count() - done);
            let at = array.pointer.wrapping_add(done * ty.size_bytes());
            kernel(row.as_ptr(), at, at, n);
            done += n;
        }
    }
    array.copy_to(output);
    drop(bytes);
    Ok(true)
}

/// One dimension of an associative window.
struct Pass<'a> {
    kernel: hlorun_kernels::Binary,
    identity: [u8; 8],
    size: usize,
    window: &'a WindowDimension,
    from: Lines,
    to: Lines,
}

impl Pass<'_> {
    fn run(&self, range: std::ops::Range<usize>, source: Shared, target: Shared) -> Result<()> {
        let (size, w) = (self.size, self.window.size as usize);
        let (stride, low) = (self.window.stride as usize, self.window.padding_low);
        let length = (self.to.length - 1) * stride + w;
        let block = |length: usize| AlignedBytes::uninitialized(length * LANES * size);
        let loaded = block(self.from.length)?;
        let (padded, prefixes, suffixes) = (block(length)?, block(length)?, block(length)?);
        let results = block(self.to.length)?;
        for n in range {
            let lanes = self.from.group(n).lanes;
            let row = lanes * size;
            let at = |block: &AlignedBytes, i: usize| block.shared_ptr().wrapping_add(i * row);
            // SAFETY: blocks of this task hold their length times `LANES` elements; indices stay
            // below the lengths.
            unsafe {
                self.from
                    .copy(n, size, source.get(), loaded.shared_ptr(), true);
                for p in 0..length {
                    let input = p as i64 - low;
                    if (0..self.from.length as i64).contains(&input) {
                        let from = at(&loaded, input as usize);
                        std::ptr::copy_nonoverlapping(from, at(&padded, p), row);
                    } else {
                        hlorun_kernels::fill(size, self.identity.as_ptr(), at(&padded, p), lanes);
                    }
                }
                for p in 0..length {
                    let (here, x) = (at(&prefixes, p), at(&padded, p));
                    if p % w == 0 {
                        std::ptr::copy_nonoverlapping(x, here, row);
                    } else {
                        (self.kernel)(at(&prefixes, p - 1), x, here, lanes);
                    }
                }
                for p in (0..length).rev() {
                    let (here, x) = (at(&suffixes, p), at(&padded, p));
                    if p % w == w - 1 || p == length - 1 {
                        std::ptr::copy_nonoverlapping(x, here, row);
                    } else {
                        (self.kernel)(x, at(&suffixes, p + 1), here, lanes);
                    }
                }
                for o in 0..self.to.length {
                    let (p, here) = (o * stride, at(&results, o));
                    if p % w == 0 {
                        std::ptr::copy_nonoverlapping(at(&suffixes, p), here, row);
                    } else {
                        (self.kernel)(at(&suffixes, p), at(&prefixes, p + w - 1), here, lanes);
                    }
                }
                self.to
                    .copy(n, size, target.get(), results.shared_ptr(), false);
            }
        }
        Ok(())
    }
}
