//! Windows along one dimension that always reach back to the start, or on to the end, in linear time.
//!
//! In: a `reduce-window`, whatever its computation. Out: whether it is one of these, and its results. Promise: elements are
//! folded position by position, but for sums and products of floats ([`running_blocks`]).

use hlorun_kernels::low_float::{Bf16, F16, LowFloat};
use hlorun_kernels::{BinaryOp, Extremes};
use smallvec::SmallVec;

use super::lanes::{Folder, Row};
use super::lines::{LANES, Lines, dense, long};
use super::running_blocks::{self, BLOCK, Rows, order_matters};
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

/// The dimension along which `op` is a running fold over these arrays, and whether it begins at the end.
fn running_dimension(
    op: &ReduceWindowOp,
    operands: &[RawArray],
    outputs: &[RawArray],
) -> Option<(usize, bool)> {
    let [dim] = long(op)[..] else {
        return None;
    };
    let (w, out) = (&op.window.0[dim], outputs[0].dims[dim]);
    let plain = w.stride == 1 && w.base_dilation == 1 && w.window_dilation == 1;
    if operands[0].count() == 0 || !plain || out < 2 {
        return None;
    }
    if w.padding_low >= out - 1 {
        return Some((dim, false));
    }
    let reaches_end = w.padding_high == out - 1 && w.padding_high == w.size - 1;
    let mirrored = reaches_end && out == operands[0].dims[dim];
    // Other computations are taken for associative where XLA:CPU does so, too.
    let is_free = || out > BLOCK as i64 || commutes(op, outputs[0].element_type);
    (mirrored && is_free()).then_some((dim, true))
}

/// Whether `op` has a kernel and may be folded from the end, with operands in another order.
fn commutes(op: &ReduceWindowOp, ty: PrimitiveType) -> bool {
    use BinaryOp as B;
    match op.combiner.shortcut {
        Some(Shortcut::Binary(binary)) if op.count == 1 => {
            let kernel = dtype(ty).and_then(|ty| hlorun_kernels::binary(binary, ty));
            matches!(
                binary,
                B::Add | B::Multiply | B::Maximum | B::Minimum | B::And | B::Or | B::Xor
            ) && kernel.is_some()
        }
        _ => false,
    }
}

/// Runs `op` if it is a running fold.
pub fn run(
    op: &ReduceWindowOp,
    operands: &[RawArray],
    inits: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<bool> {
    let Some(running) = running_dimension(op, operands, outputs) else {
        return Ok(false);
    };
    let sources = operands.iter().map(dense).collect::<Result<Lent<_>>>()?;
    let results = outputs.iter().map(room).collect::<Result<Lent<_>>>()?;
    let from: SmallVec<[&RawArray; 2]> = sources.iter().map(|source| &source.1).collect();
    let to: SmallVec<[&RawArray; 2]> = results.iter().map(|result| &result.1).collect();
    RunningFold::new(op, (&from, inits, &to), running).run(environment)?;
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
    let running = running_dimension(op, operands, outputs)?;
    if !operands.iter().chain(outputs).all(RawArray::is_row_major) {
        return None;
    }
    let from: SmallVec<[&RawArray; 2]> = operands.iter().collect();
    let to: SmallVec<[&RawArray; 2]> = outputs.iter().collect();
    Some(RunningFold::new(op, (&from, inits, &to), running))
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
    /// Whether lines begin at their end.
    mirrored: bool,
}

impl<'o> RunningFold<'o> {
    /// Over row-major arrays: operands, initial values, results.
    fn new(
        op: &'o ReduceWindowOp,
        (operands, inits, outputs): (&[&RawArray], &[RawArray], &[&RawArray]),
        (dim, mirrored): (usize, bool),
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
            reach: if mirrored {
                0
            } else {
                window.size - 1 - window.padding_low
            },
            mirrored,
        }
    }

    /// Folds all lines.
    pub fn run(&self, environment: &OpEnvironment<'_>) -> Result<()> {
        let to = &self.to;
        let Some(step) = self.step() else {
            return self.general(environment);
        };
        let (lines, fold) = (to.outer * to.inner, fold_line(step.binary, self.types[0]));
        if let Some(fold) = fold.filter(|_| lines < LINES || to.across_outer) {
            let grain = RUNNING_GRAIN / to.length.max(1);
            split(environment, lines, grain, &|range| {
                for n in range {
                    self.line(&step, fold, n);
                }
            });
            return Ok(());
        }
        let grain = RUNNING_GRAIN / (LANES.min(to.group(0).lanes) * to.length).max(1);
        try_split(environment, to.count(), grain, &|range| {
            let rows = Rows::new(step.kernel, self.sizes[0], LANES, step.in_blocks)?;
            if to.across_outer {
                return self.gathered(&step, &rows, range);
            }
            for n in range {
                let row = |array: Shared, lines: &Lines, at: usize| {
                    let element = lines.group(n).start + at * to.inner;
                    array.at((element * self.sizes[0]) as isize)
                };
                let from = |at| row(self.pointers[0], &self.from, at).cast_const();
                let arrays = (from, |at| row(self.targets[0], to, at));
                // SAFETY: rows of lines that the arrays have, and that no other task writes.
                unsafe { self.rows(&step, &rows, arrays, to.group(n).lanes) };
            }
            Ok(())
        })
    }

    /// How a result is made of the one before and an input, where one kernel does that.
    fn step(&self) -> Option<Step> {
        if self.mirrored && !commutes(self.op, self.types[0]) {
            return None;
        }
        let lead = usize::try_from(-self.reach).ok()?;
        let left = self.to.length.checked_sub(lead)?;
        match self.op.combiner.shortcut {
            Some(Shortcut::Binary(binary)) if self.op.count == 1 && left > 0 => Some(Step {
                binary,
                kernel: hlorun_kernels::binary(binary, dtype(self.types[0])?)?,
                in_blocks: order_matters(binary, self.types[0]),
                lead,
                count: left.min(self.from.length),
            }),
            _ => None,
        }
    }

    /// Folds line `n` by itself.
    fn line(&self, step: &Step, fold: FoldLine, n: usize) {
        let (outer, lane) = (n / self.to.inner, n % self.to.inner);
        let at = |array: Shared, lines: &Lines, at: usize| {
            let place = self.place(lines, at);
            let element = (outer * lines.length + place) * lines.inner + lane;
            array.at((element * self.sizes[0]) as isize)
        };
        let stride = self.to.inner as isize * if self.mirrored { -1 } else { 1 };
        let to = |place| at(self.targets[0], &self.to, place);
        let arrays = (
            at(self.pointers[0], &self.from, 0).cast_const(),
            to(step.lead),
        );
        let (init, extent) = (self.first[0].get(), (step.count, stride));
        // SAFETY: line `n` of the operand and of the result, which no other task writes.
        unsafe {
            fold(init, arrays, extent, step.in_blocks);
            self.ends(step, to, 1);
        }
    }

    /// Folds lines side by side, row by row.
    ///
    /// # Safety
    ///
    /// `from` and `to` give the rows of `lanes` neighbouring lines, which no other task writes.
    unsafe fn rows(
        &self,
        step: &Step,
        rows: &Rows,
        (from, to): (impl Fn(usize) -> *const u8, impl Fn(usize) -> *mut u8),
        lanes: usize,
    ) {
        let from = |at| from(self.place(&self.from, at));
        let to = |at| to(self.place(&self.to, at));
        let later = |at| to(step.lead + at);
        // SAFETY: by the caller's promise.
        unsafe {
            rows.run(self.first[0].get(), (from, later), step.count, lanes);
            self.ends(step, to, lanes);
        }
    }

    /// Writes the results of `lanes` lines that fold nothing yet, and those that fold all.
    ///
    /// # Safety
    ///
    /// As that of [`RunningFold::rows`].
    unsafe fn ends(&self, step: &Step, to: impl Fn(usize) -> *mut u8, lanes: usize) {
        let (size, end) = (self.sizes[0], step.lead + step.count);
        // SAFETY: by the caller's promise; the initial value is one element.
        unsafe {
            for at in 0..step.lead {
                hlorun_kernels::fill(size, self.first[0].get(), to(at), lanes);
            }
            for at in end..self.to.length {
                std::ptr::copy_nonoverlapping(to(end - 1), to(at), lanes * size);
            }
        }
    }

    /// Where the element of a line lies before which there are `at` others.
    fn place(&self, lines: &Lines, at: usize) -> usize {
        if self.mirrored {
            lines.length - 1 - at
        } else {
            at
        }
    }

    /// Folds groups of lines that are copied to lie side by side.
    fn gathered(&self, step: &Step, rows: &Rows, range: std::ops::Range<usize>) -> Result<()> {
        let (from, to, size) = (&self.from, &self.to, self.sizes[0]);
        let room = |length: usize| AlignedBytes::uninitialized(length * LANES * size);
        let (inputs, results) = (room(from.length)?, room(to.length)?);
        for n in range {
            let lanes = from.group(n).lanes;
            let row = |block: &AlignedBytes, at: usize| {
                block.shared_ptr().wrapping_add(at * lanes * size)
            };
            let arrays = (|at| row(&inputs, at).cast_const(), |at| row(&results, at));
            // SAFETY: group `n` exists, no other task writes it, and the blocks have room for all lanes.
            unsafe {
                from.copy(n, size, self.pointers[0].get(), inputs.shared_ptr(), true);
                self.rows(step, rows, arrays, lanes);
                to.copy(n, size, self.targets[0].get(), results.shared_ptr(), false);
            }
        }
        Ok(())
    }

    /// Folds lines whatever their operation, in order.
    fn general(&self, environment: &OpEnvironment<'_>) -> Result<()> {
        let from = &self.from;
        let lanes = LANES.min(from.group(0).lanes);
        let grain = (LANES * 64 / (lanes * from.length.max(1))).max(1);
        try_split(environment, from.count(), grain, &|range| {
            self.groups(range)
        })
    }

    /// Folds groups of lines, all lanes of a group at once.
    fn groups(&self, range: std::ops::Range<usize>) -> Result<()> {
        let (from, to, sizes) = (&self.from, &self.to, &self.sizes);
        let mut folder = Folder::new(&self.op.combiner, &self.types, LANES)?;
        let mut blocks: Vec<Block> = Vec::new();
        for &size in sizes {
            let block = |length: usize| AlignedBytes::uninitialized(length * LANES * size);
            blocks.push([block(from.length)?, block(to.length)?]);
        }
        for n in range {
            let lanes = from.group(n).lanes;
            for (k, block) in blocks.iter().enumerate() {
                let (array, block) = (self.pointers[k].get(), block[0].shared_ptr());
                // SAFETY: group `n` exists, the block has room for all lanes.
                unsafe { from.copy(n, sizes[k], array, block, true) };
            }
            match self.mirrored {
                true => self.backwards(&mut folder, &blocks, lanes),
                false => self.forwards(&mut folder, &blocks, lanes),
            }
            for (k, block) in blocks.iter().enumerate() {
                let (array, block) = (self.targets[k].get(), block[1].shared_ptr());
                // SAFETY: as above; groups are disjoint.
                unsafe { to.copy(n, sizes[k], array, block, false) };
            }
        }
        Ok(())
    }

    /// Rows `at` of the inputs or the results of a group.
    fn rows_at(
        &self,
        blocks: &[Block],
        which: usize,
        at: usize,
        lanes: usize,
    ) -> SmallVec<[Row; 2]> {
        let row = |(block, &size): (&Block, &usize)| {
            Row::dense(block[which].shared_ptr().wrapping_add(at * lanes * size))
        };
        blocks.iter().zip(&self.sizes).map(row).collect()
    }

    /// Writes row `at` of the results of a group: the initial values.
    fn begin(&self, blocks: &[Block], at: usize, lanes: usize) {
        for (k, block) in blocks.iter().enumerate() {
            let here = block[1]
                .shared_ptr()
                .wrapping_add(at * lanes * self.sizes[k]);
            // SAFETY: a row of the block; the initial value is one element.
            unsafe { hlorun_kernels::fill(self.sizes[k], self.first[k].get(), here, lanes) };
        }
    }

    /// Writes row `at` of the results of a group: row `from` of the inputs, or of the results.
    fn repeat(&self, blocks: &[Block], at: usize, (which, from): (usize, usize), lanes: usize) {
        for (block, size) in blocks.iter().zip(&self.sizes) {
            let row = lanes * size;
            let here = block[1].shared_ptr().wrapping_add(at * row);
            // SAFETY: different rows of blocks.
            unsafe {
                let from = block[which].shared_ptr().wrapping_add(from * row);
                std::ptr::copy_nonoverlapping(from, here, row);
            }
        }
    }

    fn forwards(&self, folder: &mut Folder, blocks: &[Block], lanes: usize) {
        let mut next = 0;
        for o in 0..self.to.length {
            match o.checked_sub(1) {
                None => self.begin(blocks, o, lanes),
                Some(before) => self.repeat(blocks, o, (1, before), lanes),
            }
            let end = (o as i64).saturating_add(self.reach);
            while next <= end.min(self.from.length as i64 - 1) {
                let accumulators = self.rows_at(blocks, 1, o, lanes);
                let values = self.rows_at(blocks, 0, next as usize, lanes);
                // SAFETY: rows of `lanes` elements in blocks of this task.
                unsafe { folder.fold(&accumulators, &values, lanes) };
                next += 1;
            }
        }
    }

    /// From the end; what is folded keeps its order.
    fn backwards(&self, folder: &mut Folder, blocks: &[Block], lanes: usize) {
        let last = self.to.length - 1;
        for o in (0..=last).rev() {
            let values = if o == last {
                self.begin(blocks, o, lanes);
                self.rows_at(blocks, 0, o, lanes)
            } else {
                self.repeat(blocks, o, (0, o), lanes);
                self.rows_at(blocks, 1, o + 1, lanes)
            };
            // SAFETY: rows of `lanes` elements in blocks of this task.
            unsafe { folder.fold(&self.rows_at(blocks, 1, o, lanes), &values, lanes) };
        }
    }
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

/// Inputs and results of a group of lines, row by row.
type Block = [AlignedBytes; 2];

/// How a result is made of the one before and an input.
struct Step {
    binary: BinaryOp,
    kernel: hlorun_kernels::Binary,
    in_blocks: bool,
    /// Results that fold nothing, and those that fold one input more than the one before.
    lead: usize,
    count: usize,
}

/// How a line is folded by itself: `fold(init, (from, to), (length, step), in_blocks)`, as [`running_blocks::line`] has it.
type FoldLine = unsafe fn(*const u8, (*const u8, *mut u8), (usize, isize), bool);

/// What folds a line of elements of type `ty` without a call for each.
fn fold_line(op: BinaryOp, ty: PrimitiveType) -> Option<FoldLine> {
    macro_rules! typed {
        ($t:ty, $f:expr) => {{
            unsafe fn fold(
                init: *const u8,
                (from, to): (*const u8, *mut u8),
                (length, step): (usize, isize),
                in_blocks: bool,
            ) {
                let (init, arrays) = (init.cast::<$t>(), (from.cast::<$t>(), to.cast::<$t>()));
                // SAFETY: by the caller's promise. A step of one is named so that neighbours are taken at once.
                unsafe {
                    match step {
                        1 => running_blocks::line(init, arrays, (length, 1), in_blocks, $f),
                        _ => running_blocks::line(init, arrays, (length, step), in_blocks, $f),
                    }
                }
            }
            fold
        }};
    }
    Some(match (op, ty) {
        (BinaryOp::Add, PrimitiveType::F32) => typed!(f32, |a: f32, b: f32| a + b),
        (BinaryOp::Add, PrimitiveType::F64) => typed!(f64, |a: f64, b: f64| a + b),
        (BinaryOp::Add, PrimitiveType::S32 | PrimitiveType::U32) => {
            typed!(u32, u32::wrapping_add)
        }
        (BinaryOp::Add, PrimitiveType::S64 | PrimitiveType::U64) => {
            typed!(u64, u64::wrapping_add)
        }
        (BinaryOp::Multiply, PrimitiveType::F32) => typed!(f32, |a: f32, b: f32| a * b),
        (BinaryOp::Multiply, PrimitiveType::F64) => typed!(f64, |a: f64, b: f64| a * b),
        (BinaryOp::Maximum, PrimitiveType::F32) => typed!(f32, f32::larger),
        (BinaryOp::Maximum, PrimitiveType::F64) => typed!(f64, f64::larger),
        (BinaryOp::Maximum, PrimitiveType::S32) => typed!(i32, i32::max),
        (BinaryOp::Minimum, PrimitiveType::F32) => typed!(f32, f32::smaller),
        (BinaryOp::Minimum, PrimitiveType::F64) => typed!(f64, f64::smaller),
        (BinaryOp::Minimum, PrimitiveType::S32) => typed!(i32, i32::min),
        (BinaryOp::Add, PrimitiveType::F16) => typed!(F16, |a, b| widened(BinaryOp::Add, a, b)),
        (BinaryOp::Add, PrimitiveType::BF16) => typed!(Bf16, |a, b| widened(BinaryOp::Add, a, b)),
        (BinaryOp::Multiply, PrimitiveType::F16) => {
            typed!(F16, |a, b| widened(BinaryOp::Multiply, a, b))
        }
        (BinaryOp::Multiply, PrimitiveType::BF16) => {
            typed!(Bf16, |a, b| widened(BinaryOp::Multiply, a, b))
        }
        (BinaryOp::Maximum, PrimitiveType::F16) => {
            typed!(F16, |a, b| widened(BinaryOp::Maximum, a, b))
        }
        (BinaryOp::Maximum, PrimitiveType::BF16) => {
            typed!(Bf16, |a, b| widened(BinaryOp::Maximum, a, b))
        }
        (BinaryOp::Minimum, PrimitiveType::F16) => {
            typed!(F16, |a, b| widened(BinaryOp::Minimum, a, b))
        }
        (BinaryOp::Minimum, PrimitiveType::BF16) => {
            typed!(Bf16, |a, b| widened(BinaryOp::Minimum, a, b))
        }
        _ => return None,
    })
}
