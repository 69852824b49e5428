//! Whether the tasks of one thunk keep out of each other's way.
//!
//! A thunk runs as tasks in any order, on any number of threads. So of two accesses of it that meet
//! in memory and of which one writes, each byte must be touched by one task only, and by that one in
//! the order the thunk promises: a loop reads element `k` before it writes element `k`, a group takes
//! rows through its members in order.

use std::ops::Range;

use super::plan::{Findings, each_member};
use crate::plan::schedule::row_tiling::stays_in_row;
use crate::plan::spmd::collective::CollectiveKind;
use crate::plan::thunk::{Access, Effect, Order, Place, Thunk, ThunkKind};
use crate::plan::view::{PRIVATE, Walk};

/// Checks `thunks` and everything nested in them. Recursion is bounded by the nesting the lowering
/// allows.
pub fn check(thunks: &[Thunk], findings: &mut Findings) {
    for thunk in thunks {
        for nested in thunk.nested() {
            check(nested, findings);
        }
        thunk_alone(thunk, findings);
    }
}

/// An access, the member of the group that has it, and its bytes.
struct TaskAccess<'t> {
    access: Access<'t>,
    member: usize,
    hull: Range<i128>,
}

fn thunk_alone(thunk: &Thunk, findings: &mut Findings) {
    let mut accesses: Vec<TaskAccess<'_>> = Vec::new();
    let mut member = 0;
    each_member(thunk, &mut |own| {
        own.each_access(&mut |access| {
            if let Some(hull) = access.hull() {
                accesses.push(TaskAccess {
                    access,
                    member,
                    hull,
                });
            }
        });
        member += 1;
    });
    let rows = match &thunk.kind {
        ThunkKind::RowTiled(tiled) => Some(tiled.rows),
        _ => None,
    };
    // By allocation and place, so that only neighbours are compared.
    accesses.sort_by_key(|one| (one.access.slice.allocation, one.hull.start));
    for (at, one) in accesses.iter().enumerate() {
        for other in &accesses[at + 1..] {
            if other.access.slice.allocation != one.access.slice.allocation
                || other.hull.start >= one.hull.end
            {
                break;
            }
            if !one.access.effect.writes() && !other.access.effect.writes() {
                continue;
            }
            if !may_meet(thunk, rows, one, other) {
                let place = match one.access.slice.allocation {
                    PRIVATE.. => "its scratch",
                    _ => "memory",
                };
                findings.add(
                    thunk,
                    format!(
                        "its tasks meet in {place}: {:?} of bytes {:?} and {:?} of bytes {:?}",
                        one.access.effect, one.hull, other.access.effect, other.hull
                    ),
                );
            }
        }
    }
}

/// Whether two accesses that overlap, one of them a write, are for the same task and in order.
fn may_meet(
    thunk: &Thunk,
    rows: Option<usize>,
    one: &TaskAccess<'_>,
    other: &TaskAccess<'_>,
) -> bool {
    if let Some(rows) = rows
        && one.member != other.member
    {
        return same_rows(rows, one, other);
    }
    let (write, read) = match one.access.effect.writes() {
        true => (&one.access, &other.access),
        false => (&other.access, &one.access),
    };
    if matches!(read.place, Place::Index(_)) {
        return false;
    }
    match &thunk.kind {
        // Pieces of one array that lie between each other touch no byte twice.
        _ if write.is_apart(read) => true,
        ThunkKind::Loop(fused) => {
            let index = fused.stores.iter().position(
                |store| matches!(write.place, Place::View(view) if std::ptr::eq(view, &store.view)),
            );
            read.effect == Effect::Read
                && index.is_some_and(|index| fused.program.in_place[index])
                && same_elements(write, read)
        }
        ThunkKind::RowTiled(tiled) => {
            let member = &tiled.members[one.member];
            may_meet(member, None, one, other)
        }
        // Element by element onto itself, or where an operation updates its operand.
        ThunkKind::Copy(_) => read.effect == Effect::Read && same_elements(write, read),
        ThunkKind::Op(op) => {
            let updated = op.inputs.iter().zip(&op.outputs);
            let mut updated = updated.take(op.kind.updated_operands());
            write.effect == Effect::Update
                && read.effect == Effect::Read
                && same_elements(write, read)
                && updated.any(|(input, output)| is_of(read, input) && is_of(write, output))
        }
        ThunkKind::Collective(collective) => {
            let in_place = match &collective.kind {
                CollectiveKind::AllReduce => 0,
                CollectiveKind::PermuteSlices(permute) => permute.first_output,
                _ => return false,
            };
            let inputs = collective.inputs.iter().skip(in_place);
            read.effect == Effect::Read
                && same_elements(write, read)
                && inputs
                    .zip(&collective.outputs)
                    .any(|(input, output)| is_of(read, input) && is_of(write, output))
        }
        _ => false,
    }
}

fn is_of(access: &Access<'_>, view: &crate::plan::view::ArrayView) -> bool {
    matches!(access.place, Place::View(own) if std::ptr::eq(own, view))
}

/// Dimensions and strides in the order of a thunk's space, without those of one element.
fn steps(access: &Access<'_>) -> Option<Walk> {
    let Place::View(view) = access.place else {
        return None;
    };
    let all: Walk = match access.order {
        Order::Elements(walk) => Walk::from_slice(walk),
        Order::Rows(steps) => Walk::from_slice(&steps),
        Order::Any => view
            .dims
            .iter()
            .copied()
            .zip(view.strides.iter().copied())
            .collect(),
    };
    Some(all.into_iter().filter(|step| step.0 != 1).collect())
}

/// Whether element `k` of both is at the same bytes, for every `k`, and no element at those of
/// another.
fn same_elements(a: &Access<'_>, b: &Access<'_>) -> bool {
    let (Place::View(x), Place::View(y)) = (a.place, b.place) else {
        return false;
    };
    let size = x.element_type.size_bytes();
    size == y.element_type.size_bytes()
        && x.dynamic.is_empty()
        && y.dynamic.is_empty()
        && x.slice.offset as i64 + x.offset * size as i64
            == y.slice.offset as i64 + y.offset * size as i64
        && steps(a) == steps(b)
        && steps(a).is_some_and(|steps| is_one_to_one(&steps))
}

/// Whether no two elements of a walk lie at the same place: by increasing stride, each dimension steps past all before it. False
/// also for some walks of which that is true.
fn is_one_to_one(steps: &Walk) -> bool {
    let mut steps = steps.clone();
    steps.sort_by_key(|step| step.1.unsigned_abs());
    let mut reach = 0i128;
    steps.into_iter().all(|(size, stride)| {
        let stride = i128::from(stride.unsigned_abs());
        let is_beyond = stride > reach;
        reach += i128::from(size - 1) * stride;
        is_beyond
    })
}

/// Whether both cut their bytes into the same rows, all of row `r` for row `r` of the group.
fn same_rows(rows: usize, one: &TaskAccess<'_>, other: &TaskAccess<'_>) -> bool {
    let (write, second) = match one.access.effect.writes() {
        true => (one, other),
        false => (other, one),
    };
    let Some(walk) = steps(&write.access) else {
        return false;
    };
    let pitch = (write.hull.end - write.hull.start) / rows as i128;
    let is_dense = matches!(walk.as_slice(), [] | [(_, 1)])
        || matches!(walk.as_slice(), [(_, n), (m, 1)] if n == m);
    is_dense
        && pitch * rows as i128 == write.hull.end - write.hull.start
        && [&write.access, &second.access]
            .into_iter()
            .all(|access| is_in_rows(access, rows, write.hull.start, pitch))
}

/// Whether row `r` of an access lies in the `pitch` bytes from `start + r * pitch` on.
fn is_in_rows(access: &Access<'_>, rows: usize, start: i128, pitch: i128) -> bool {
    let (Place::View(view), Some(walk)) = (access.place, steps(access)) else {
        return false;
    };
    if matches!(access.order, Order::Any) || !view.dynamic.is_empty() {
        return false;
    }
    let size = view.element_type.size_bytes() as i128;
    let first = access.slice.offset as i128 - start + view.offset as i128 * size;
    pitch % size == 0
        && first >= 0
        && first % size == 0
        && stays_in_row(&walk, (first / size) as i64, rows, (pitch / size) as i64)
}
