//! Windows combined by kernels: parts of them whose elements lie side by side, or single elements.
//!
//! Threads share windows of one part by the places they go to: each finds all windows, and combines those of its own part
//! of the operand. Of other windows, each thread combines some parts of all.

use std::ops::{BitAnd, BitOr, BitXor, Range};

use smallvec::SmallVec;

use super::super::index_map::{BLOCK, Starts, Windows};
use super::super::walk::{Nest, Shared, byte_strides, split};
use crate::exec::array::{RawArray, strides_in_order};
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::scatter::{
    BLOCK_BITS, CACHED, LINE, MANY_UPDATES, MAX_TASKS, MAX_UNCOPIED, MIN_SPLIT, MIN_WINDOW,
};
use crate::plan::cost::windowed::GRAIN;
use crate::plan::element::elementwise::dtype;
use crate::plan::faults::{self, Fault};
use crate::plan::ops::combiner::Shortcut;
use crate::plan::ops::scatter::ScatterOp;
use crate::types::PrimitiveType as P;
use hlorun_kernels::places::OUTSIDE;
use hlorun_kernels::{BinaryOp, Extremes};

/// A scatter over given arrays whose windows are combined by a kernel.
pub struct PreparedScatter {
    windows: Windows,
    kernel: Kernel,
    /// Parts of a window, in the operand and in the updates.
    parts: Nest<2>,
    /// Elements of a part.
    n: usize,
    /// See [`are_disjoint`].
    is_disjoint: bool,
    /// Tasks that have enough to do.
    worth: usize,
    target: Shared,
    source: Shared,
}

impl PreparedScatter {
    /// `Err` gives the indices back where no kernel here does the scatter: the combiner has none, to split each window among
    /// threads takes less time, or windows of several parts overlap, are not faster by part, or are copied first.
    pub(super) fn new(
        op: &ScatterOp,
        starts: Starts,
        output: &RawArray,
        update: &RawArray,
    ) -> std::result::Result<PreparedScatter, Starts> {
        let Some(shortcut) = op.combiner.shortcut.filter(|_| op.count == 1) else {
            return Err(starts);
        };
        let (size, count) = (output.element_type.size_bytes(), starts.count());
        let is_disjoint = are_disjoint(op, output, update);
        let keep_order = || faults::holds(Fault::CombinesLooseParts, is_disjoint);
        let parts = window_nest(op, output, update, Nest::by_memory).dense_rows(size);
        let n = parts.inner.0;
        let splits_windows = is_disjoint && n >= MIN_SPLIT && n * count >= 2 * GRAIN;
        let is_copied =
            || update.count() > MAX_UNCOPIED && side_by_side(op, output, update).is_some();
        let is_by_part =
            || are_faster_by_part(&parts, count, output) && !is_copied() && keep_order();
        if splits_windows || (parts.rows() != 1 && !is_by_part()) {
            return Err(starts);
        }
        let updates = count.saturating_mul(parts.rows());
        let has_many = updates / output.count().max(1) >= MANY_UPDATES;
        let is_one_row = starts.batch.len() <= 1;
        let facts = [has_many, is_one_row, is_disjoint];
        let Some(kernel) = kernel(shortcut, output.element_type, n, facts) else {
            return Err(starts);
        };
        let blocks = (output.count() * size) >> BLOCK_BITS;
        Ok(PreparedScatter {
            windows: windows(op, starts, output, update)?,
            kernel,
            worth: (n * updates / GRAIN).min(blocks),
            parts,
            n,
            is_disjoint,
            target: Shared::new(output.pointer),
            source: Shared::new(update.pointer),
        })
    }

    /// Whether every run reads the indices again, and keeps none of them.
    pub(super) fn reads_indices_anew(&self) -> bool {
        self.windows.reads_indices_anew()
    }

    /// Lets indices, updates and result be at other addresses.
    pub fn move_to(&mut self, [indices, update]: [*mut u8; 2], output: *mut u8) {
        self.windows.read_at(indices);
        (self.source, self.target) = (Shared::new(update), Shared::new(output));
    }

    /// Combines all windows with their updates.
    pub fn run(&self, environment: &OpEnvironment<'_>) {
        let share = |own| Share {
            windows: &self.windows,
            parts: &self.parts,
            own,
            target: self.target,
            source: self.source,
        };
        let (kernel, parts) = (self.kernel, self.parts.rows());
        if parts > 1 {
            split(
                environment,
                parts,
                parts.div_ceil(self.worth.max(1)),
                &|own| {
                    // SAFETY: windows that do not lie inside the operand are left out. Windows are the same or share no element, so
                    // that tasks share none.
                    unsafe { kernel.run(&share(own), |_| true) };
                },
            );
            return;
        }
        let most = environment.threads.min(MAX_TASKS).min(self.worth);
        // The number of tasks is a power of two, as each window asks for its task.
        let bits = match self.is_disjoint && self.n >= MIN_WINDOW {
            true => most.max(1).ilog2(),
            false => 0,
        };
        if bits == 0 {
            // SAFETY: as above.
            unsafe { kernel.run(&share(0..parts), |_| true) };
            return;
        }
        (environment.parallel)(1 << bits, &|task| {
            let is_own = |to: isize| task_of(to, bits) == task;
            // SAFETY: as above; windows at different places share no element, and each place is one task's.
            unsafe { kernel.run(&share(0..parts), is_own) };
        });
    }
}

/// What a task combines: some parts of all windows.
struct Share<'w> {
    windows: &'w Windows,
    /// Parts of a window, in the operand and in the updates.
    parts: &'w Nest<2>,
    /// Those of the task.
    own: Range<usize>,
    target: Shared,
    source: Shared,
}

/// Which of `1 << bits` tasks combines the window at a place. Neighbouring blocks are scattered over the tasks, whatever
/// the distance of the places (Fibonacci hashing; Knuth, "The Art of Computer Programming", 6.4).
fn task_of(place: isize, bits: u32) -> usize {
    let block = (place.unsigned_abs() >> BLOCK_BITS) as u64;
    (block.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits)) as usize
}

/// The elements of one window, with steps in the operand and in the updates; `nest` chooses their order.
pub(super) fn window_nest(
    op: &ScatterOp,
    output: &RawArray,
    update: &RawArray,
    nest: impl Fn(&[i64], [&[isize]; 2]) -> Nest<2>,
) -> Nest<2> {
    let to = byte_strides(&output.strides, output.element_type.size_bytes());
    let from = byte_strides(&update.strides, update.element_type.size_bytes());
    let sizes: SmallVec<[i64; 6]> = op
        .update_window_dims
        .iter()
        .map(|&d| update.dims[d])
        .collect();
    let to: SmallVec<[isize; 6]> = op.map.window.iter().map(|&d| to[d]).collect();
    let from: SmallVec<[isize; 6]> = op.update_window_dims.iter().map(|&d| from[d]).collect();
    nest(&sizes, [to.as_slice(), from.as_slice()])
}

/// Whether to combine one part of all windows before the next takes less time than window by window: there are at least as
/// many windows as parts, and each part has its own lines of memory, or the operand is in the cache.
fn are_faster_by_part(parts: &Nest<2>, count: usize, output: &RawArray) -> bool {
    let bytes = output.count() * output.element_type.size_bytes();
    let are_apart = || {
        parts
            .outer
            .iter()
            .all(|&(_, [to, _])| to.unsigned_abs() >= LINE)
    };
    parts.rows() <= count && (bytes <= CACHED || are_apart())
}

/// The order of the updates' dimensions, the slowest one first, in which those of a window lie side by side as its
/// elements in the operand do, where they do not yet; `None` where windows are not short rows of the operand.
pub(super) fn side_by_side(
    op: &ScatterOp,
    output: &RawArray,
    update: &RawArray,
) -> Option<SmallVec<[usize; 6]>> {
    op.combiner.shortcut.filter(|_| op.count == 1)?;
    let pairs = op.map.window.iter().zip(&op.update_window_dims);
    let mut window: SmallVec<[(usize, usize); 6]> = pairs.map(|(&to, &from)| (to, from)).collect();
    window.sort_by_key(|&(to, _)| std::cmp::Reverse(output.strides[to]));
    let windows = op.scatter_dims.iter().copied();
    let order: SmallVec<[usize; 6]> = windows
        .chain(window.iter().map(|&(_, from)| from))
        .collect();
    let moved = RawArray {
        strides: strides_in_order(&update.dims, &order),
        ..update.clone()
    };
    let nest = window_nest(op, output, &moved, Nest::by_memory);
    let (n, steps) = nest.inner;
    let size = output.element_type.size_bytes() as isize;
    let is_short_row = nest.rows() == 1 && (2..MIN_SPLIT).contains(&n) && steps == [size; 2];
    let strides = update.strides.iter().zip(&moved.strides);
    let mut sizes = update.dims.iter().zip(strides);
    let is_there = sizes.all(|(&size, (is, wanted))| size == 1 || is == wanted);
    (is_short_row && !is_there).then_some(order)
}

/// Whether any two windows are the same or share no element, wherever they begin. Only then may they be combined part by
/// part, or by several threads: an element may be in one part of a window and in another part of the next.
pub(super) fn are_disjoint(op: &ScatterOp, output: &RawArray, update: &RawArray) -> bool {
    let mut dims = op.map.window.iter().zip(&op.update_window_dims);
    dims.all(|(&dim, &from)| update.dims[from] == 1 || update.dims[from] == output.dims[dim])
}

/// Where windows begin in the operand and the updates; the indices where what they name cannot be walked so.
fn windows(
    op: &ScatterOp,
    starts: Starts,
    output: &RawArray,
    update: &RawArray,
) -> std::result::Result<Windows, Starts> {
    let to = byte_strides(&output.strides, output.element_type.size_bytes());
    let from = byte_strides(&update.strides, update.element_type.size_bytes());
    // The window has the size of the update's, and one element along all other dimensions.
    let mut limits = output.dims.clone();
    limits.iter_mut().for_each(|limit| *limit -= 1);
    for (&dim, &from) in op.map.window.iter().zip(&op.update_window_dims) {
        limits[dim] = output.dims[dim] - update.dims[from];
    }
    let batch = op.scatter_dims.iter().zip(&starts.batch);
    let fits = limits.iter().all(|&limit| limit >= 0)
        && batch.clone().all(|(&dim, &size)| update.dims[dim] == size);
    if !fits || !op.map.batch_fits(&starts.batch, &output.dims) {
        return Err(starts);
    }
    // A dimension that two components name goes where the last one says.
    let components = &op.map.components;
    if (1..components.len()).any(|at| components[..at].contains(&components[at])) {
        return Err(starts);
    }
    if op
        .map
        .batching
        .iter()
        .any(|(dim, _)| components.contains(dim))
    {
        return Err(starts);
    }
    let placed = op.map.batch_steps(starts.batch.len(), &to);
    let plain: SmallVec<[isize; 6]> = op.scatter_dims.iter().map(|&d| from[d]).collect();
    let components = components.iter().map(|&d| (to[d], limits[d])).collect();
    Ok(Windows::new(starts, components, &placed, &plain))
}

/// How a window and its updates become one.
#[derive(Clone, Copy)]
enum Kernel {
    /// The window stays.
    Nothing,
    /// Bytes of the updates.
    Copy(usize),
    /// One element.
    Add(P),
    /// One element; whether there are so many updates of each that most leave it as it is.
    Maximum(P, bool),
    Minimum(P, bool),
    /// One element; see [`has_bits`].
    Bits(BinaryOp, P),
    /// So many elements; whether windows are disjoint.
    Rows(hlorun_kernels::CombineRows, usize, bool),
}

fn kernel(
    shortcut: Shortcut,
    ty: P,
    n: usize,
    [has_many, is_one_row, is_disjoint]: [bool; 3],
) -> Option<Kernel> {
    let rows = || {
        let Shortcut::Binary(binary) = shortcut else {
            return None;
        };
        let rows = hlorun_kernels::combine_rows(binary, dtype(ty)?)?;
        Some(Kernel::Rows(rows, n, is_disjoint))
    };
    Some(match shortcut {
        Shortcut::First => Kernel::Nothing,
        Shortcut::Second => Kernel::Copy(n * ty.size_bytes()),
        Shortcut::Binary(BinaryOp::Add) if n == 1 && is_wide(ty) => Kernel::Add(ty),
        // Of floats, an extreme takes several instructions: kernels of rows have those of the CPU for it. They read the
        // places from a list, which several rows of windows would have to be written to first.
        Shortcut::Binary(BinaryOp::Maximum | BinaryOp::Minimum)
            if n == 1 && ty.is_floating() && is_one_row && !has_many =>
        {
            rows()?
        }
        Shortcut::Binary(BinaryOp::Maximum) if n == 1 && is_wide(ty) => {
            Kernel::Maximum(ty, has_many)
        }
        Shortcut::Binary(BinaryOp::Minimum) if n == 1 && is_wide(ty) => {
            Kernel::Minimum(ty, has_many)
        }
        Shortcut::Binary(binary) if n == 1 && has_bits(binary, ty) => Kernel::Bits(binary, ty),
        Shortcut::Binary(_) => rows()?,
    })
}

/// Real types of at least four bytes.
fn is_wide(ty: P) -> bool {
    matches!(ty, P::F32 | P::F64 | P::S32 | P::U32 | P::S64 | P::U64)
}

/// Whether `binary` is one of the operations on the bytes of truth values and unsigned integers, or on the bits of integers
/// of 32 bits, that elements have code for.
fn has_bits(binary: BinaryOp, ty: P) -> bool {
    use BinaryOp::{And, Maximum, Minimum, Or, Xor};
    match ty {
        P::Pred | P::U8 => matches!(binary, Maximum | Minimum | Or | And),
        P::U32 | P::S32 => matches!(binary, Or | And | Xor),
        _ => false,
    }
}

/// Changes the elements of windows of one element whose places are `is_own`; where `change` gives `None`, they stay.
///
/// # Safety
///
/// As for [`Kernel::run`].
#[inline(always)]
unsafe fn each<T: Copy>(
    share: &Share<'_>,
    is_own: impl Fn(isize) -> bool,
    change: impl Fn(T, T) -> Option<T>,
) {
    let change_all = |[target, source]: [*mut u8; 2], [targets, sources]: [&[isize]; 2]| {
        for (&to, &from) in targets.iter().zip(sources) {
            // SAFETY: the caller's promise; places are those of windows and their updates.
            unsafe {
                let to = target.offset(to).cast::<T>();
                let value = source.offset(from).cast::<T>().read_unaligned();
                if let Some(value) = change(to.read_unaligned(), value) {
                    to.write_unaligned(value);
                }
            }
        }
    };
    rows(change_all, share, is_own);
}

/// Combines windows of one element by an operation that [`has_bits`].
///
/// # Safety
///
/// As for [`Kernel::run`].
unsafe fn bits((binary, ty): (BinaryOp, P), share: &Share<'_>, is_own: impl Fn(isize) -> bool) {
    macro_rules! elements {
        ($t:ty, $f:expr) => {
            // SAFETY: the caller's promise.
            unsafe { each(share, is_own, |old: $t, new: $t| Some($f(old, new))) }
        };
    }
    match (ty, binary) {
        (P::Pred | P::U8, BinaryOp::Maximum) => elements!(u8, u8::max),
        (P::Pred | P::U8, BinaryOp::Minimum) => elements!(u8, u8::min),
        (P::Pred | P::U8, BinaryOp::Or) => elements!(u8, u8::bitor),
        (P::Pred | P::U8, _) => elements!(u8, u8::bitand),
        (_, BinaryOp::Or) => elements!(u32, u32::bitor),
        (_, BinaryOp::And) => elements!(u32, u32::bitand),
        _ => elements!(u32, u32::bitxor),
    }
}

impl Kernel {
    /// Combines the parts of `share` of those windows whose places are `is_own`.
    ///
    /// # Safety
    ///
    /// Windows that are not left out lie inside the array at the target, and their updates inside that at the source;
    /// nobody else uses the elements of these parts of the windows that are `is_own`.
    unsafe fn run(self, share: &Share<'_>, is_own: impl Fn(isize) -> bool) {
        macro_rules! elements {
            ($t:ty, $f:expr) => {{
                let change = $f;
                // SAFETY: the caller's promise.
                unsafe { each(share, is_own, |old: $t, new| Some(change(old, new))) }
            }};
        }
        macro_rules! extremes {
            ($t:ty, $has_many:expr, $stays:expr, $f:expr) => {{
                let stays = $stays;
                if !$has_many {
                    return elements!($t, $f);
                }
                // SAFETY: as above.
                unsafe {
                    each(share, is_own, |old: $t, new: $t| {
                        (!stays(old, new)).then(|| $f(old, new))
                    })
                }
            }};
        }
        match self {
            Kernel::Nothing => {}
            Kernel::Copy(1) => elements!(u8, |_, new| new),
            Kernel::Copy(2) => elements!(u16, |_, new| new),
            Kernel::Copy(4) => elements!(u32, |_, new| new),
            Kernel::Copy(8) => elements!(u64, |_, new| new),
            Kernel::Copy(bytes) => share.parts.for_rows(share.own.clone(), |[t, f]| {
                let all = 0..share.windows.count();
                share.windows.for_each::<true>(all, |to, from| {
                    if is_own(to) {
                        let (from, to) = (share.source.at(from + f), share.target.at(to + t));
                        // SAFETY: as above.
                        unsafe { hlorun_kernels::copy(from, to, bytes) };
                    }
                });
            }),
            Kernel::Add(P::F32) => elements!(f32, |a: f32, b| a + b),
            Kernel::Add(P::F64) => elements!(f64, |a: f64, b| a + b),
            Kernel::Add(P::S32 | P::U32) => elements!(u32, u32::wrapping_add),
            Kernel::Add(_) => elements!(u64, u64::wrapping_add),
            Kernel::Maximum(ty, many) => match ty {
                P::F32 => extremes!(f32, many, |old, new| new < old, Extremes::larger),
                P::F64 => extremes!(f64, many, |old, new| new < old, Extremes::larger),
                P::S32 => extremes!(i32, many, |old, new| new <= old, i32::max),
                P::U32 => extremes!(u32, many, |old, new| new <= old, u32::max),
                P::S64 => extremes!(i64, many, |old, new| new <= old, i64::max),
                _ => extremes!(u64, many, |old, new| new <= old, u64::max),
            },
            Kernel::Minimum(ty, many) => match ty {
                P::F32 => extremes!(f32, many, |old, new| new > old, Extremes::smaller),
                P::F64 => extremes!(f64, many, |old, new| new > old, Extremes::smaller),
                P::S32 => extremes!(i32, many, |old, new| new >= old, i32::min),
                P::U32 => extremes!(u32, many, |old, new| new >= old, u32::min),
                P::S64 => extremes!(i64, many, |old, new| new >= old, i64::min),
                _ => extremes!(u64, many, |old, new| new >= old, u64::min),
            },
            Kernel::Bits(binary, ty) => {
                // SAFETY: as above.
                unsafe { bits((binary, ty), share, is_own) }
            }
            Kernel::Rows(kernel, n, is_disjoint) => {
                let combine = |[to, from]: [*mut u8; 2], places: [&[isize]; 2]| {
                    // SAFETY: the caller's promise; places are those of windows and their updates.
                    unsafe { kernel.run(to, from, places, n, is_disjoint) }
                };
                rows(combine, share, is_own);
            }
        }
    }
}

/// Calls `combine(arrays, places)` for each part of `share` with the byte offsets of windows that are `is_own`, some at a
/// time and in order, from the first of two arrays, and those of their updates from the second one.
fn rows(
    combine: impl Fn([*mut u8; 2], [&[isize]; 2]),
    share: &Share<'_>,
    is_own: impl Fn(isize) -> bool,
) {
    let &Share {
        windows,
        target,
        source,
        ..
    } = share;
    let all = 0..windows.count();
    let combine = |[target, source]: [*mut u8; 2], places: [&[isize]; 2]| {
        share.parts.for_rows(share.own.clone(), |[to, from]| {
            let part = [target.wrapping_offset(to), source.wrapping_offset(from)];
            combine(part, places);
        });
    };
    let at_once = all.len().min(BLOCK);
    let mut targets = SmallVec::<[isize; BLOCK]>::new();
    let mut sources = SmallVec::<[isize; BLOCK]>::new();
    targets.resize(at_once, 0);
    sources.resize(at_once, 0);
    if windows.are_one_row() {
        let mut updates = SmallVec::<[isize; BLOCK]>::new();
        updates.extend((0..at_once as isize).map(|k| k * windows.plain_step()));
        windows.for_each_block::<true>(all, |moves, first, has_outside| {
            let is_left_out = |moved: isize| (moved == OUTSIDE) | !is_own(moved);
            let arrays = [target.get(), source.at(first)];
            if !has_outside && moves.iter().all(|&moved| is_own(moved)) {
                return combine(arrays, [moves, &updates[..moves.len()]]);
            }
            let mut found = 0;
            for (&moved, &update) in moves.iter().zip(&updates) {
                (targets[found], sources[found]) = (moved, update);
                found += usize::from(!is_left_out(moved));
            }
            combine(arrays, [&targets[..found], &sources[..found]]);
        });
        return;
    }
    let mut found = 0;
    let arrays = [target.get(), source.get()];
    windows.for_each::<true>(all, |to, from| {
        (targets[found], sources[found]) = (to, from);
        found += usize::from(is_own(to));
        if found == at_once {
            combine(arrays, [&targets, &sources]);
            found = 0;
        }
    });
    combine(arrays, [&targets[..found], &sources[..found]]);
}
