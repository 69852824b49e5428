//! Long windows in linear time.
//!
//! In: a `reduce-window`. Out: `true` when done here. Two forms: a window along one dimension that
//! always reaches back to the start is a running fold, whatever its computation; an associative and
//! commutative operation goes dimension by dimension, by prefixes and suffixes of blocks. Promise:
//! the first form folds in the same order as position by position; the second changes only the
//! order of additions and products of `f32` and `f64`, every other result is the same.

use hlorun_kernels::low_float::{Bf16, F16, LowFloat};
use hlorun_kernels::{BinaryOp, Extremes};
use smallvec::SmallVec;

use super::associative::Associative;
use super::lanes::{Folder, Row};
use super::walk::{Shared, split, try_split};
use crate::buffers::AlignedBytes;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::module::attributes::WindowDimension;
use crate::plan::cost::windowed::{LINES, LONG, RUNNING_GRAIN};
use crate::plan::element::elementwise::dtype;
use crate::plan::ops::combiner::Shortcut;
use crate::plan::ops::reduce_window::ReduceWindowOp;
use crate::types::{Dims, PrimitiveType};

/// Lanes of one block at most.
const LANES: usize = 256;

/// Dimensions along which windows are not just the element at their place.
fn long(op: &ReduceWindowOp) -> SmallVec<[usize; 6]> {
    let windows = op.window.0.iter().enumerate();
    windows
        .filter(|(_, window)| !window.is_trivial())
        .map(|(d, _)| d)
        .collect()
}

/// Runs `op` if it is a running fold.
pub fn run_running(
    op: &ReduceWindowOp,
    operands: &[RawArray],
    inits: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<bool> {
    let [dim] = long(op)[..] else {
        return Ok(false);
    };
    let (w, out) = (&op.window.0[dim], outputs[0].dims[dim]);
    let plain = w.stride == 1 && w.base_dilation == 1 && w.window_dilation == 1;
    if operands[0].count() == 0 || !plain || out < 2 || w.padding_low < out - 1 {
        return Ok(false);
    }
    running(op, operands, inits, outputs, dim, environment)?;
    Ok(true)
}

/// Runs `op` if a window is long and its operation associative.
pub fn run_associative(
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

/// Lines along `dim` of a row-major array, grouped into lanes.
struct Lines {
    /// Elements between neighbours of a line.
    step: usize,
    /// `(first element, lanes, elements between lanes)` of every group, given by its number.
    outer: usize,
    inner: usize,
    length: usize,
    across_outer: bool,
}

/// A group of lines: where they start and how far they are apart.
struct Group {
    start: usize,
    lanes: usize,
    lane_step: usize,
}

impl Lines {
    fn new(dims: &[i64], dim: usize) -> Lines {
        let product = |part: &[i64]| part.iter().product::<i64>() as usize;
        let (outer, inner) = (product(&dims[..dim]), product(&dims[dim + 1..]));
        Lines {
            step: inner,
            outer,
            inner,
            length: dims[dim] as usize,
            across_outer: inner < 16 && outer > inner,
        }
    }

    /// Groups per index of the dimension that is not walked by lanes, and how many of those.
    fn shape(&self) -> (usize, usize) {
        let (lanes, others) = if self.across_outer {
            (self.outer, self.inner)
        } else {
            (self.inner, self.outer)
        };
        (lanes.div_ceil(LANES), others)
    }

    fn count(&self) -> usize {
        let (blocks, others) = self.shape();
        blocks * others
    }

    fn group(&self, n: usize) -> Group {
        let (blocks, _) = self.shape();
        let (other, first) = (n / blocks, n % blocks * LANES);
        let line = self.length * self.inner;
        if self.across_outer {
            Group {
                start: first * line + other,
                lanes: LANES.min(self.outer - first),
                lane_step: line,
            }
        } else {
            Group {
                start: other * line + first,
                lanes: LANES.min(self.inner - first),
                lane_step: 1,
            }
        }
    }

    /// Copies the group's lines between the array and a block `[length][lanes]`.
    ///
    /// # Safety
    ///
    /// `array` is the whole array, `block` holds the block.
    unsafe fn copy(&self, n: usize, size: usize, array: *mut u8, block: *mut u8, load: bool) {
        let group = self.group(n);
        let there = array.wrapping_add(group.start * size);
        let far = [
            (self.step * size) as isize,
            (group.lane_step * size) as isize,
        ];
        let near = [(group.lanes * size) as isize, size as isize];
        let dims = [self.length, group.lanes];
        // SAFETY: by the caller's promise.
        unsafe {
            if load {
                hlorun_kernels::copy_strided(size, &dims, there, &far, block, &near);
            } else {
                hlorun_kernels::copy_strided(size, &dims, block, &near, there, &far);
            }
        }
    }
}

/// The array if it is row-major, otherwise a copy that is, with its memory.
fn dense(array: &RawArray) -> Result<(Option<AlignedBytes<u8>>, RawArray)> {
    if array.is_row_major() {
        return Ok((None, array.clone()));
    }
    let mut bytes = array.to_row_major()?;
    let view = RawArray::over(&mut bytes, array.element_type, &array.dims);
    Ok((Some(bytes), view))
}

/// The array if it is row-major, otherwise memory for its elements in that order.
fn room(array: &RawArray) -> Result<(Option<AlignedBytes>, RawArray)> {
    if array.is_row_major() {
        return Ok((None, array.clone()));
    }
    let mut bytes = AlignedBytes::uninitialized(array.byte_size())?;
    let view = RawArray::over(&mut bytes, array.element_type, &array.dims);
    Ok((Some(bytes), view))
}

fn running(
    op: &ReduceWindowOp,
    operands: &[RawArray],
    inits: &[RawArray],
    outputs: &[RawArray],
    dim: usize,
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let window = &op.window.0[dim];
    let sources = operands.iter().map(dense).collect::<Result<Vec<_>>>()?;
    let results = outputs.iter().map(room).collect::<Result<Vec<_>>>()?;
    let types: SmallVec<[PrimitiveType; 2]> = outputs.iter().map(|o| o.element_type).collect();
    let running = Running {
        op,
        pointers: sources.iter().map(|s| Shared::new(s.1.pointer)).collect(),
        targets: results.iter().map(|r| Shared::new(r.1.pointer)).collect(),
        first: inits.iter().map(|init| Shared::new(init.pointer)).collect(),
        sizes: types.iter().map(|ty| ty.size_bytes()).collect(),
        types,
        from: Lines::new(&operands[0].dims, dim),
        to: Lines::new(&outputs[0].dims, dim),
        reach: window.size - 1 - window.padding_low,
    };
    let (from, to) = (&running.from, &running.to);
    if let Some(line) = running.line() {
        let grain = RUNNING_GRAIN / to.length.max(1);
        split(environment, to.outer * to.inner, grain, &|range| {
            for n in range {
                let (outer, lane) = (n / to.inner, n % to.inner);
                let start = (outer * to.length * to.inner + lane) * running.sizes[0];
                let (init, source) = (running.first[0].get(), &running.pointers[0]);
                // SAFETY: line `n` of the copy and of the result, which no other task writes.
                unsafe { line.run(init, source, running.targets[0], start) };
            }
        });
    } else if let Some((_, kernel)) = running.kernel().filter(|_| !to.across_outer) {
        let grain = RUNNING_GRAIN / (LANES.min(to.inner) * to.length).max(1);
        split(environment, to.count(), grain, &|range| {
            for n in range {
                let group = to.group(n);
                running.neighbours(kernel, group.start, group.lanes);
            }
        });
    } else {
        let grain = (LANES * 64 / (LANES.min(from.group(0).lanes) * from.length.max(1))).max(1);
        try_split(environment, from.count(), grain, &|range| {
            running.groups(range)
        })?;
    }
    for ((bytes, result), output) in results.iter().zip(outputs) {
        if bytes.is_some() {
            result.copy_to(output);
        }
    }
    Ok(())
}

/// A window that always reaches back to the start.
struct Running<'o> {
    op: &'o ReduceWindowOp,
    pointers: Vec<Shared>,
    targets: Vec<Shared>,
    first: Vec<Shared>,
    types: SmallVec<[PrimitiveType; 2]>,
    sizes: SmallVec<[usize; 2]>,
    from: Lines,
    to: Lines,
    /// Output o folds inputs 0..=o + reach.
    reach: i64,
}

impl Running<'_> {
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
