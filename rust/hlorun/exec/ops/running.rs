//! Windows along one dimension that always reach back to the start, in linear time.
//!
//! In: a `reduce-window`, whatever its computation. Out: whether it is one of these, and its results. Promise: it folds in the same order as position by position.

use hlorun_kernels::low_float::{Bf16, F16, LowFloat};
use hlorun_kernels::{BinaryOp, Extremes};
use smallvec::SmallVec;

use super::lanes::{Folder, Row};
use super::lines::{LANES, Lines, dense, long};
use super::walk::{Shared, split, try_split};
use crate::buffers::AlignedBytes;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::windowed::{LINES, RUNNING_GRAIN};
use crate::plan::element::elementwise::dtype;
use crate::plan::ops::combiner::Shortcut;
use crate::plan::ops::reduce_window::ReduceWindowOp;
use crate::types::PrimitiveType;

/// The dimension along which `op` is a running fold over these arrays.
fn running_dimension(
    op: &ReduceWindowOp,
    operands: &[RawArray],
    outputs: &[RawArray],
) -> Option<usize> {
    let [dim] = long(op)[..] else {
        return None;
    };
    let (w, out) = (&op.window.0[dim], outputs[0].dims[dim]);
    let plain = w.stride == 1 && w.base_dilation == 1 && w.window_dilation == 1;
    let reaches_back = out >= 2 && w.padding_low >= out - 1;
    (operands[0].count() != 0 && plain && reaches_back).then_some(dim)
}

/// Runs `op` if it is a running fold.
pub fn run(
    op: &ReduceWindowOp,
    operands: &[RawArray],
    inits: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<bool> {
    let Some(dim) = running_dimension(op, operands, outputs) else {
        return Ok(false);
    };
    let sources = operands.iter().map(dense).collect::<Result<Lent<_>>>()?;
    let results = outputs.iter().map(room).collect::<Result<Lent<_>>>()?;
    let from: SmallVec<[&RawArray; 2]> = sources.iter().map(|source| &source.1).collect();
    let to: SmallVec<[&RawArray; 2]> = results.iter().map(|result| &result.1).collect();
    RunningFold::new(op, (&from, inits, &to), dim).run(environment)?;
    for ((bytes, result), output) in results.iter().zip(outputs) {
        if bytes.is_some() {
            result.copy_to(output);
        }
    }
    Ok(true)
}

/// `op` over these arrays, with all done that its runs share; `None` where it is no running fold, or arrays are copied.
pub fn prepare<'o>(
    op: &'o ReduceWindowOp,
    operands: &[RawArray],
    inits: &[RawArray],
    outputs: &[RawArray],
) -> Option<RunningFold<'o>> {
    let dim = running_dimension(op, operands, outputs)?;
    if !operands.iter().chain(outputs).all(RawArray::is_row_major) {
        return None;
    }
    let from: SmallVec<[&RawArray; 2]> = operands.iter().collect();
    let to: SmallVec<[&RawArray; 2]> = outputs.iter().collect();
    Some(RunningFold::new(op, (&from, inits, &to), dim))
}

/// Row-major arrays, with their memory where it is not that of the operation's arrays.
type Lent<B> = SmallVec<[(Option<AlignedBytes<B>>, RawArray); 2]>;

/// The array if it is row-major, otherwise memory for its elements in that order.
fn room(array: &RawArray) -> Result<(Option<AlignedBytes>, RawArray)> {
    if array.is_row_major() {
        return Ok((None, array.clone()));
    }
    let mut bytes = AlignedBytes::uninitialized(array.byte_size())?;
    let view = RawArray::over(&mut bytes, array.element_type, &array.dims);
    Ok((Some(bytes), view))
}

/// A running fold over given row-major arrays.
pub struct RunningFold<'o> {
    op: &'o ReduceWindowOp,
    pointers: SmallVec<[Shared; 2]>,
    targets: SmallVec<[Shared; 2]>,
    first: SmallVec<[Shared; 2]>,
    types: SmallVec<[PrimitiveType; 2]>,
    sizes: SmallVec<[usize; 2]>,
    from: Lines,
    to: Lines,
    /// Output o folds inputs 0..=o + reach.
    reach: i64,
}

impl<'o> RunningFold<'o> {
    /// Over row-major arrays: operands, initial values, results.
    fn new(
        op: &'o ReduceWindowOp,
        (operands, inits, outputs): (&[&RawArray], &[RawArray], &[&RawArray]),
        dim: usize,
    ) -> RunningFold<'o> {
        let window = &op.window.0[dim];
        let types: SmallVec<[PrimitiveType; 2]> = outputs.iter().map(|o| o.element_type).collect();
        let shared = |array: &&RawArray| Shared::new(array.pointer);
        RunningFold {
            op,
            pointers: operands.iter().map(shared).collect(),
            targets: outputs.iter().map(shared).collect(),
            first: inits.iter().map(|init| Shared::new(init.pointer)).collect(),
            sizes: types.iter().map(|ty| ty.size_bytes()).collect(),
            types,
            from: Lines::new(&operands[0].dims, dim),
            to: Lines::new(&outputs[0].dims, dim),
            reach: window.size - 1 - window.padding_low,
        }
    }

    /// Folds all lines.
    pub fn run(&self, environment: &OpEnvironment<'_>) -> Result<()> {
        let (from, to) = (&self.from, &self.to);
        if let Some(line) = self.line() {
            let grain = RUNNING_GRAIN / to.length.max(1);
            split(environment, to.outer * to.inner, grain, &|range| {
                for n in range {
                    let (outer, lane) = (n / to.inner, n % to.inner);
                    let start = (outer * to.length * to.inner + lane) * self.sizes[0];
                    let (init, source) = (self.first[0].get(), &self.pointers[0]);
                    // SAFETY: line `n` of the operand and of the result, which no other task writes.
                    unsafe { line.run(init, source, self.targets[0], start) };
                }
            });
        } else if let Some((_, kernel)) = self.kernel().filter(|_| !to.across_outer) {
            let grain = RUNNING_GRAIN / (LANES.min(to.inner) * to.length).max(1);
            split(environment, to.count(), grain, &|range| {
                for n in range {
                    let group = to.group(n);
                    self.neighbours(kernel, group.start, group.lanes);
                }
            });
        } else {
            let lanes = LANES.min(from.group(0).lanes);
            let grain = (LANES * 64 / (lanes * from.length.max(1))).max(1);
            try_split(environment, from.count(), grain, &|range| {
                self.groups(range)
            })?;
        }
        Ok(())
    }

    /// The kernel that makes an element of the result of the one before and an input.
    fn kernel(&self) -> Option<(BinaryOp, hlorun_kernels::Binary)> {
        let is_step = self.reach == 0 && self.from.length == self.to.length;
        match self.op.combiner.shortcut {
            Some(Shortcut::Binary(op)) if self.op.count == 1 && is_step => {
                Some((op, hlorun_kernels::binary(op, dtype(self.types[0])?)?))
            }
            _ => None,
        }
    }

    /// How a line is folded by itself, where there are few.
    fn line(&self) -> Option<Line> {
        let to = &self.to;
        let (binary, kernel) = self.kernel().filter(|_| to.outer * to.inner < LINES)?;
        Some(Line {
            kernel,
            binary,
            ty: self.types[0],
            length: to.length,
            step: to.inner,
        })
    }

    /// Makes `lanes` neighbouring lines, the first of which begins at element `start`, row by row.
    fn neighbours(&self, kernel: hlorun_kernels::Binary, start: usize, lanes: usize) {
        let size = self.sizes[0];
        let row = |array: &Shared, at: usize| {
            let element = start + at * self.to.inner;
            array.at((element * size) as isize)
        };
        for at in 0..self.to.length {
            let (source, here) = (row(&self.pointers[0], at), row(&self.targets[0], at));
            // SAFETY: rows of lines that the arrays have, and that no other task writes; the initial value
            // is one element, and kernels may write onto an operand.
            unsafe {
                let before = match at.checked_sub(1) {
                    Some(before) => row(&self.targets[0], before),
                    None => {
                        hlorun_kernels::fill(size, self.first[0].get(), here, lanes);
                        here
                    }
                };
                kernel(before, source, here, lanes);
            }
        }
    }

    /// Folds groups of lines, all lanes of a group at once.
    fn groups(&self, range: std::ops::Range<usize>) -> Result<()> {
        let (from, to, sizes) = (&self.from, &self.to, &self.sizes);
        let mut folder = Folder::new(&self.op.combiner, &self.types, LANES)?;
        let mut blocks = Vec::new();
        for &size in sizes {
            let block = |length: usize| AlignedBytes::uninitialized(length * LANES * size);
            blocks.push((block(from.length)?, block(to.length)?));
        }
        for n in range {
            let lanes = from.group(n).lanes;
            for (k, block) in blocks.iter().enumerate() {
                let (array, block) = (self.pointers[k].get(), block.0.shared_ptr());
                // SAFETY: group `n` exists, the block has room for all lanes.
                unsafe { from.copy(n, sizes[k], array, block, true) };
            }
            let mut next = 0i64;
            for o in 0..to.length {
                for (k, block) in blocks.iter().enumerate() {
                    let row = lanes * sizes[k];
                    let here = block.1.shared_ptr().wrapping_add(o * row);
                    // SAFETY: rows of the block; the initial value is one element.
                    unsafe {
                        if o == 0 {
                            hlorun_kernels::fill(sizes[k], self.first[k].get(), here, lanes);
                        } else {
                            std::ptr::copy_nonoverlapping(here.wrapping_sub(row), here, row);
                        }
                    }
                }
                let end = (o as i64).saturating_add(self.reach);
                while next <= end.min(from.length as i64 - 1) {
                    let row = |block: &AlignedBytes, at: usize, size: usize| {
                        Row::dense(block.shared_ptr().wrapping_add(at * lanes * size))
                    };
                    let rows = blocks.iter().zip(sizes);
                    let accumulators: SmallVec<[Row; 2]> = rows
                        .clone()
                        .map(|(block, &size)| row(&block.1, o, size))
                        .collect();
                    let values: SmallVec<[Row; 2]> = rows
                        .map(|(block, &size)| row(&block.0, next as usize, size))
                        .collect();
                    // SAFETY: rows of `lanes` elements in blocks of this task.
                    unsafe { folder.fold(&accumulators, &values, lanes) };
                    next += 1;
                }
            }
            for (k, block) in blocks.iter().enumerate() {
                let (array, block) = (self.targets[k].get(), block.1.shared_ptr());
                // SAFETY: as above; groups are disjoint.
                unsafe { to.copy(n, sizes[k], array, block, false) };
            }
        }
        Ok(())
    }
}

/// Whether [`widened`] has the operation.
fn is_widened(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Add | BinaryOp::Multiply | BinaryOp::Maximum | BinaryOp::Minimum
    )
}

/// An operation of narrow floats: that of `f32`, rounded.
#[inline(always)]
fn widened<E: LowFloat>(op: BinaryOp, a: E, b: E) -> E {
    let (a, b) = (a.decode(), b.decode());
    E::encode(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Multiply => a * b,
        BinaryOp::Maximum => a.larger(b),
        _ => a.smaller(b),
    })
}

/// A line folded element by element.
struct Line {
    kernel: hlorun_kernels::Binary,
    binary: BinaryOp,
    ty: PrimitiveType,
    length: usize,
    /// Elements between neighbours of the line.
    step: usize,
}

impl Line {
    /// `target[i]` folds the initial value and `source[0..=i]`; both begin `start` bytes in.
    ///
    /// # Safety
    ///
    /// `init` is one element, and the lines have all of theirs.
    unsafe fn run(&self, init: *const u8, source: &Shared, target: Shared, start: usize) {
        let (from, to) = (source.at(start as isize), target.at(start as isize));
        macro_rules! typed {
            ($t:ty, $f:expr) => {{
                // SAFETY: by the caller's promise.
                unsafe {
                    let mut sum = init.cast::<$t>().read_unaligned();
                    for i in 0..self.length {
                        sum = $f(sum, from.cast::<$t>().add(i * self.step).read());
                        to.cast::<$t>().add(i * self.step).write(sum);
                    }
                }
            }};
        }
        match (self.binary, self.ty) {
            (BinaryOp::Add, PrimitiveType::F32) => typed!(f32, |a: f32, b: f32| a + b),
            (BinaryOp::Add, PrimitiveType::F64) => typed!(f64, |a: f64, b: f64| a + b),
            (BinaryOp::Add, PrimitiveType::S32 | PrimitiveType::U32) => {
                typed!(u32, u32::wrapping_add)
            }
            (BinaryOp::Multiply, PrimitiveType::F32) => typed!(f32, |a: f32, b: f32| a * b),
            (BinaryOp::Multiply, PrimitiveType::F64) => typed!(f64, |a: f64, b: f64| a * b),
            (BinaryOp::Maximum, PrimitiveType::F32) => typed!(f32, f32::larger),
            (BinaryOp::Maximum, PrimitiveType::F64) => typed!(f64, f64::larger),
            (BinaryOp::Maximum, PrimitiveType::S32) => typed!(i32, i32::max),
            (BinaryOp::Minimum, PrimitiveType::F32) => typed!(f32, f32::smaller),
            (BinaryOp::Minimum, PrimitiveType::F64) => typed!(f64, f64::smaller),
            (BinaryOp::Minimum, PrimitiveType::S32) => typed!(i32, i32::min),
            (op, PrimitiveType::F16) if is_widened(op) => typed!(F16, |a, b| widened(op, a, b)),
            (op, PrimitiveType::BF16) if is_widened(op) => typed!(Bf16, |a, b| widened(op, a, b)),
            _ => {
                let bytes = self.step * self.ty.size_bytes();
                let mut before = init;
                for i in 0..self.length {
                    let (x, here) = (from.wrapping_add(i * bytes), to.wrapping_add(i * bytes));
                    // SAFETY: as above.
                    unsafe { (self.kernel)(before, x, here, 1) };
                    before = here;
                }
            }
        }
    }
}
