//! The work of the steps of a plan: operations by class, and the memory they touch.
//!
//! In: an executable. Out: a tree of steps, in the order in which they run. Promise: it holds amounts alone and no
//! times, which depend on the machine.

mod counts;
mod elements;
mod operations;

pub use counts::Count;

use counts::Counts;

use super::executable::Executable;
use super::ops::OpThunk;
use super::thunk::{Access, Effect, GemmThunk, GemmWay, Order, Place, Thunk, ThunkKind};
use super::view::{ArrayView, PRIVATE};
use crate::module::InstructionId;
use crate::types::PrimitiveType;

/// Bytes of a cache line.
const LINE: u64 = 64;

/// The work of one step.
#[derive(Clone, Debug)]
pub struct StepWork {
    /// The instruction it computes, in the executable's module; the last one, where it computes several.
    pub instruction: InstructionId,
    /// The kind of its thunk, by name.
    pub kind: &'static str,
    /// Trips of a loop, where they are known.
    pub trips: Option<u64>,
    /// Whether it is a fused loop that runs in one piece, or a `while` that has scalar bytecode.
    pub is_small: bool,
    /// Its operations, without those of nested steps.
    pub counts: Vec<Count>,
    /// The memory it touches, without that of nested steps.
    pub touched: Vec<Touched>,
    /// Condition and body of a `while`, branches of a `conditional`.
    pub nested: Vec<Vec<StepWork>>,
}

/// A piece of memory that a step touches.
#[derive(Clone, Copy, Debug)]
pub struct Touched {
    /// The allocation.
    pub allocation: u32,
    /// The first byte, counted from the allocation's start.
    pub start: u64,
    /// Bytes from the first one touched to the last.
    pub span: u64,
    /// Bytes that are moved.
    pub bytes: u64,
    /// Windows at indices that the bytes lie in; 0 where they lie side by side.
    pub windows: u64,
    /// Whether they are written.
    pub writes: bool,
}

/// The steps of an executable.
pub fn work(executable: &Executable) -> Vec<StepWork> {
    sequence(executable.thunks())
}

/// Recursion here and below is bounded by the nesting the lowering allows.
fn sequence(thunks: &[Thunk]) -> Vec<StepWork> {
    let steps = thunks
        .iter()
        .filter(|thunk| !matches!(thunk.kind, ThunkKind::Nop));
    steps.map(step).collect()
}

fn step(thunk: &Thunk) -> StepWork {
    let mut counts = Counts::default();
    count(thunk, &mut counts);
    let touched = touched(thunk);
    if let ThunkKind::RowTiled(tiled) = &thunk.kind {
        // What members pass to each other stays in the second-level cache.
        let once: u64 = touched.iter().map(|piece| piece.bytes).sum();
        let all: u64 = tiled.members.iter().map(member_bytes).sum();
        counts.add(
            "scratch",
            PrimitiveType::Pred,
            all.saturating_sub(once) as f64,
        );
    }
    let (trips, is_small) = match &thunk.kind {
        ThunkKind::While(repeated) => (repeated.trip_count, repeated.bytecode.is_some()),
        ThunkKind::Loop(fused) => (None, fused.small.is_some()),
        _ => (None, false),
    };
    StepWork {
        instruction: thunk.instruction,
        kind: thunk.kind.name(),
        trips,
        is_small,
        counts: counts.0,
        touched,
        nested: thunk.nested().into_iter().map(|s| sequence(s)).collect(),
    }
}

fn count(thunk: &Thunk, counts: &mut Counts) {
    match &thunk.kind {
        ThunkKind::Copy(copy) => elements::copy(copy, counts),
        ThunkKind::Loop(fused) => elements::fused_loop(fused, counts),
        ThunkKind::Reduce(reduction) => elements::reduction(reduction, counts),
        ThunkKind::RowTiled(tiled) => {
            for member in &tiled.members {
                count(member, counts);
            }
        }
        ThunkKind::Gemm(product) => gemm(product, counts),
        ThunkKind::PackOperand(pack) => {
            counts.add("operand", pack.b.element_type, pack.b.count() as f64);
        }
        ThunkKind::Op(op) => operations::count(op, counts),
        ThunkKind::While(_)
        | ThunkKind::Conditional(_)
        | ThunkKind::DeviceId(_)
        | ThunkKind::CollectiveStart(_)
        | ThunkKind::Collective(_)
        | ThunkKind::Observe(_)
        | ThunkKind::Nop => {}
    }
}

fn gemm(product: &GemmThunk, counts: &mut Counts) {
    let ty = product.a.element_type;
    let (batch, m, n, k) = product.sizes();
    let [batch, m, n, k] = [batch, m, n, k].map(|size| size as f64);
    let steps = batch * m * n * k;
    elements::epilogue(&product.epilogue, ty, product.c.count(), counts);
    if m.min(n) <= 1.0 {
        return counts.add("matrix-vector", ty, 2.0 * steps);
    }
    counts.add("product", ty, 2.0 * steps);
    // An operand that is packed already is not copied.
    let right = match product.way {
        GemmWay::PackedOperand(_) => 0.0,
        GemmWay::Whole | GemmWay::RowBlocks(_) => batch * k * n,
    };
    counts.add("operand", ty, batch * m * k + right);
    counts.add("result", ty, batch * m * n);
    if batch > 1.0 {
        counts.add("matrix", ty, batch);
    }
}

/// What the thunk itself touches. A piece counts once as read and once as written: further accesses find it in the
/// first-level cache, as do reads of what is written before.
fn touched(thunk: &Thunk) -> Vec<Touched> {
    let mut found: Vec<Touched> = Vec::new();
    let scattered = match &thunk.kind {
        ThunkKind::Op(op) => operations::scattered(op),
        _ => None,
    };
    thunk.each_access(&mut |access| {
        let Some(range) = access.hull() else { return };
        let is_index = matches!(access.place, Place::Index(_));
        if access.slice.allocation >= PRIVATE || is_index {
            return;
        }
        let span = (range.end - range.start).max(0) as u64;
        let start = range.start.max(0) as u64;
        let (bytes, windows) = match (&scattered, &thunk.kind) {
            (Some(scattered), ThunkKind::Op(op)) if is_scattered(op, &access) => *scattered,
            _ => (bytes_moved(&access).min(span), 0),
        };
        for writes in [false, true] {
            let happens = match writes {
                false => access.effect.reads(),
                true => access.effect.writes(),
            };
            let is_known = found.iter().any(|other| {
                other.allocation == access.slice.allocation
                    && other.start <= start
                    && other.start + other.span >= start + span
                    && (other.writes || !writes)
            });
            if happens && !is_known {
                found.push(Touched {
                    allocation: access.slice.allocation,
                    start,
                    span,
                    bytes,
                    windows,
                    writes,
                });
            }
        }
    });
    found
}

/// Bytes that a member of a group moves, those of scratch for all rows included.
fn member_bytes(member: &Thunk) -> u64 {
    let mut bytes = 0;
    member.each_access(&mut |access| bytes += bytes_moved(&access));
    bytes
}

/// Whether an access goes to windows at indices: to the operand of a gather, or to that of a scatter.
fn is_scattered(op: &OpThunk, access: &Access<'_>) -> bool {
    let Place::View(view) = access.place else {
        return false;
    };
    let is_same = |other: Option<&ArrayView>| other.is_some_and(|other| std::ptr::eq(other, view));
    match op.kind.updated_operands() {
        0 => is_same(op.inputs.first()),
        count if access.effect == Effect::Update => {
            op.outputs[..count].iter().any(|o| is_same(Some(o)))
        }
        _ => false,
    }
}

/// Bytes that an access moves: of elements that lie apart, whole cache lines.
fn bytes_moved(access: &Access<'_>) -> u64 {
    let Place::View(view) = access.place else {
        return access.slice.size as u64;
    };
    let size = view.element_type.size_bytes() as u64;
    let pairs: Vec<(i64, i64)> = match access.order {
        Order::Elements(walk) => walk.iter().copied().collect(),
        Order::Rows(_) | Order::Any => {
            let strides = view.strides.iter().copied();
            view.dims.iter().copied().zip(strides).collect()
        }
    };
    let strided = pairs.iter().filter(|pair| pair.1 != 0 && pair.0 > 1);
    let elements = strided
        .clone()
        .fold(1u64, |all, pair| all.saturating_mul(pair.0 as u64));
    let nearest = strided.map(|pair| pair.1.unsigned_abs()).min();
    let step = nearest.unwrap_or(1).saturating_mul(size);
    elements.saturating_mul(step.clamp(size, LINE.max(size)))
}
