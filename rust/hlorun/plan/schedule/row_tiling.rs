//! `row-tiling`: loops and reductions over the same rows run together, a tile of rows at a time.
//!
//! A softmax is a maximum of rows, an exponential, a sum of rows and a quotient; an optimizer's step
//! is several loops over the same arrays. Run one after the other, each reads from memory again what
//! the one before has just read or written. Here consecutive thunks that walk the same rows become
//! one thunk: every thread takes a tile of rows that fits its cache through all of them. A value
//! that only they touch is never stored: scratch for one tile takes its place.
//!
//! A matrix product with few steps per sum costs less than writing and reading its result, so it is
//! a member too, and computes its rows tile by tile.
//!
//! Applies to thunks that read, of what the others write, row `r` for row `r` only, that share enough
//! bytes, and at least one of which touches more than a tile. A thunk in between that has nothing to do
//! with them runs before them.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::plan::cost::row_tiling::{
    MAX_BETWEEN, MAX_DEPTH, MAX_MEMBERS, MAX_PRODUCT_ROW_BYTES, MAX_ROW_BYTES, MIN_FIRST, MIN_ROWS,
    MIN_SHARED, PRODUCT_ROWS, TILE_BYTES,
};
use crate::plan::faults::{self, Fault};
use crate::plan::thunk::{
    Access, GemmThunk, GemmWay, Order, Place, Private, ReduceThunk, RowTiledThunk, Thunk,
    ThunkKind, ThunkSequence,
};
use crate::plan::thunk::{BufferKind, LogicalBuffer};
use crate::plan::view::{ArrayView, PRIVATE, Walk};

/// Name by which it is switched off.
pub const NAME: &str = "row-tiling";
/// Groups what `thunks` and everything nested in them allow; returns how many groups there are.
pub fn run(thunks: &mut ThunkSequence, buffers: &mut [LogicalBuffer]) -> usize {
    let mut touches = vec![0u32; buffers.len()];
    count_touches(thunks, &mut touches);
    let mut tiling = RowTiling {
        buffers,
        touches,
        groups: 0,
    };
    tiling.sequence(thunks);
    tiling.groups
}

/// Recursion is bounded by the nesting the lowering allows.
pub(super) fn count_touches(thunks: &ThunkSequence, touches: &mut [u32]) {
    for thunk in thunks {
        for access in thunk.accesses() {
            touches[access.slice.allocation as usize] += 1;
        }
        for nested in thunk.nested() {
            count_touches(nested, touches);
        }
    }
}

struct RowTiling<'b> {
    buffers: &'b mut [LogicalBuffer],
    touches: Vec<u32>,
    groups: usize,
}

/// Thunks that may run together.
#[derive(Default)]
struct Group {
    rows: usize,
    members: Vec<Thunk>,
    /// Thunks between them that may run before them, and how many members come before each.
    between: Vec<(usize, Thunk)>,
    /// How many members touch each buffer: to one of them, what it reads twice is near the second time.
    touched: FxHashMap<u32, u32>,
    /// Buffers read.
    reads: FxHashSet<u32>,
    /// Buffers written; whether densely, row by row.
    writes: FxHashMap<u32, bool>,
}

impl RowTiling<'_> {
    fn sequence(&mut self, thunks: &mut ThunkSequence) {
        for thunk in thunks.iter_mut() {
            for nested in thunk.nested_mut() {
                self.sequence(nested);
            }
        }
        self.group(thunks);
    }

    /// Groups what a sequence itself holds. Recursion is bounded: what lay between members is at
    /// most [`MAX_BETWEEN`] thunks, and fewer each time.
    fn group(&mut self, thunks: &mut ThunkSequence) {
        let mut waiting: VecDeque<Thunk> = std::mem::take(thunks).into();
        while let Some(first) = waiting.pop_front() {
            let Some(rows) = rows_of(&first).filter(|_| self.is_worth(&first)) else {
                thunks.push(first);
                continue;
            };
            let mut group = Group::default();
            group.add(rows, first);
            while let Some(thunk) = waiting.pop_front() {
                if let Some(rows) = self.joined(&group, &thunk) {
                    group.add(rows, thunk);
                } else if group.between.len() < MAX_BETWEEN && may_precede(&group, &thunk) {
                    group.between.push((group.members.len(), thunk));
                } else {
                    waiting.push_front(thunk);
                    break;
                }
            }
            if group.members.len() < 2
                || self.shared_bytes(&group) < MIN_SHARED
                || !self.leaves_cache(&group)
            {
                for thunk in group.in_order().into_iter().rev() {
                    waiting.push_front(thunk);
                }
                thunks.extend(waiting.pop_front());
                continue;
            }
            let mut between = std::mem::take(&mut group.between)
                .into_iter()
                .map(|(_, thunk)| thunk)
                .collect();
            self.group(&mut between);
            thunks.append(&mut between);
            thunks.push(self.close(group));
        }
    }

    /// Whether a group may begin with `thunk`.
    fn is_worth(&self, thunk: &Thunk) -> bool {
        let sizes = thunk
            .accesses()
            .map(|access| self.buffers[access.slice.allocation as usize].size);
        sizes.sum::<usize>() >= MIN_FIRST
    }

    /// The rows of `group` with `thunk`, if it may be a member.
    fn joined(&self, group: &Group, thunk: &Thunk) -> Option<usize> {
        if group.members.len() >= MAX_MEMBERS {
            return None;
        }
        let rows = gcd(group.rows, rows_of(thunk)?);
        if rows < MIN_ROWS {
            return None;
        }
        let mut shares = false;
        for access in thunk.accesses() {
            let buffer = access.slice.allocation;
            let is_large = self.buffers[buffer as usize].size >= rows;
            let is_written = group.writes.contains_key(&buffer);
            let is_touched = is_written || group.reads.contains(&buffer);
            shares |= !access.effect.writes() && is_large && is_touched;
            let is_legal = match access.effect.writes() {
                true => !is_touched,
                false => !is_written || self.reads_row_by_row(group, &access, rows),
            };
            if !is_legal {
                return None;
            }
        }
        let members = || group.members.iter().chain([thunk]);
        let most = match members().any(|member| matches!(member.kind, ThunkKind::Gemm(_))) {
            true => MAX_PRODUCT_ROW_BYTES,
            false => MAX_ROW_BYTES,
        };
        (shares && self.row_bytes(members(), rows) <= most).then_some(rows)
    }

    /// Whether what is read of the group's results is of the row it is for.
    fn reads_row_by_row(&self, group: &Group, access: &Access<'_>, rows: usize) -> bool {
        let Place::View(view) = access.place else {
            return faults::holds(Fault::GroupReadsIndex, false);
        };
        let walk = match access.order {
            Order::Elements(walk) => Walk::from_slice(walk),
            Order::Rows(steps) => steps.into_iter().filter(|step| step.0 != 1).collect(),
            Order::Any => return faults::holds(Fault::GroupReadsShared, false),
        };
        let size = view.element_type.size_bytes();
        let buffer = self.buffers[view.slice.allocation as usize].size;
        let is_dense = group.writes.get(&view.slice.allocation) == Some(&true);
        let in_row = is_dense
            && view.dynamic.is_empty()
            && view.slice.offset == 0
            && buffer.is_multiple_of(size * rows)
            && stays_in_row(&walk, view.offset, rows, (buffer / size / rows) as i64);
        faults::holds(Fault::GroupReadsOtherRows, in_row)
    }

    /// Bytes that the members touch per row, roughly: every load and store counts once per buffer.
    fn row_bytes<'t>(&self, members: impl Iterator<Item = &'t Thunk>, rows: usize) -> usize {
        let mut seen: FxHashSet<u32> = FxHashSet::default();
        let mut bytes = 0usize;
        let mut add = |view: &ArrayView, count: usize| {
            if seen.insert(view.slice.allocation) {
                let moved = count * view.element_type.size_bytes();
                let buffer = self.buffers[view.slice.allocation as usize].size;
                bytes += moved.min(buffer) / rows;
            }
        };
        for thunk in members {
            let loads = match &thunk.kind {
                ThunkKind::Loop(fused) => {
                    for store in &fused.stores {
                        add(&store.view, fused.count);
                    }
                    &fused.loads
                }
                ThunkKind::Reduce(reduce) => {
                    for output in &reduce.outputs {
                        add(output, output.count());
                    }
                    &reduce.loads
                }
                ThunkKind::Gemm(gemm) => {
                    add(&gemm.a, gemm.a.count());
                    add(&gemm.c, gemm.c.count());
                    for operand in &gemm.epilogue_operands {
                        add(operand, operand.count());
                    }
                    continue;
                }
                _ => continue,
            };
            for view in loads.iter().flat_map(|load| load.views()) {
                add(view, view.count());
            }
        }
        bytes
    }

    /// Bytes that members find in the cache because another one has touched them.
    fn shared_bytes(&self, group: &Group) -> usize {
        let spared = group
            .touched
            .iter()
            .map(|(&buffer, &members)| self.buffers[buffer as usize].size * (members as usize - 1));
        spared.sum()
    }

    /// Whether what one member touches is more than a tile: less is still in the cache for the next one.
    fn leaves_cache(&self, group: &Group) -> bool {
        let bytes = |member| self.row_bytes(std::iter::once(member), group.rows);
        let mut members = group.members.iter().map(bytes);
        members.any(|bytes| bytes.saturating_mul(group.rows) > TILE_BYTES)
    }

    /// The members as one thunk.
    fn close(&mut self, group: Group) -> Thunk {
        let rows = group.rows;
        let row_bytes = self.row_bytes(group.members.iter(), rows).max(1);
        let mut tile_rows = (TILE_BYTES / row_bytes).clamp(1, rows);
        if group.has_product() {
            tile_rows = (tile_rows / PRODUCT_ROWS).max(1) * PRODUCT_ROWS;
        }
        let mut members = group.members;
        let mut here: FxHashMap<u32, u32> = FxHashMap::default();
        for member in &members {
            for access in member.accesses() {
                *here.entry(access.slice.allocation).or_default() += 1;
            }
        }
        let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
        let mut privates = Vec::new();
        let mut written: Vec<u32> = group.writes.keys().copied().collect();
        written.sort_unstable();
        for buffer in written {
            let data = &mut self.buffers[buffer as usize];
            let is_private = group.writes[&buffer]
                && data.kind == BufferKind::Temp
                && faults::holds(
                    Fault::ScratchReadOutside,
                    here.get(&buffer) == Some(&self.touches[buffer as usize]),
                )
                && data.size.is_multiple_of(rows);
            if is_private {
                numbers.insert(buffer, privates.len() as u32);
                privates.push(Private {
                    row_bytes: data.size / rows,
                });
                data.size = 0;
            }
        }
        for member in &mut members {
            member.rename(&mut |slice, _| {
                if let Some(number) = numbers.get(&slice.allocation) {
                    slice.allocation = PRIVATE + number;
                }
            });
        }
        self.groups += 1;
        let instruction = members[members.len() - 1].instruction;
        Thunk {
            instruction,
            kind: ThunkKind::RowTiled(Box::new(RowTiledThunk {
                rows,
                tile_rows,
                members,
                privates,
            })),
        }
    }
}

impl Group {
    fn add(&mut self, rows: usize, thunk: Thunk) {
        self.rows = rows;
        let mut own: SmallVec<[u32; 8]> = SmallVec::new();
        for access in thunk.accesses() {
            let buffer = access.slice.allocation;
            if !own.contains(&buffer) {
                own.push(buffer);
                *self.touched.entry(buffer).or_default() += 1;
            }
            if access.effect.writes() {
                let is_ordered = !matches!(access.order, Order::Any);
                self.writes
                    .insert(buffer, access.effect.replaces() && is_ordered);
            } else {
                self.reads.insert(buffer);
            }
        }
        self.members.push(thunk);
    }

    fn has_product(&self) -> bool {
        let is_product = |member: &Thunk| matches!(member.kind, ThunkKind::Gemm(_));
        self.members.iter().any(is_product)
    }

    /// Everything in the order it came in.
    fn in_order(self) -> Vec<Thunk> {
        let mut between = self.between.into_iter().peekable();
        let mut all = Vec::new();
        for (at, member) in self.members.into_iter().enumerate() {
            while let Some((_, other)) = between.next_if(|(before, _)| *before <= at) {
                all.push(other);
            }
            all.push(member);
        }
        all.extend(between.map(|(_, other)| other));
        all
    }
}

/// Whether `thunk` may run before the whole group.
fn may_precede(group: &Group, thunk: &Thunk) -> bool {
    let is_simple = matches!(
        thunk.kind,
        ThunkKind::Copy(_) | ThunkKind::Loop(_) | ThunkKind::Reduce(_) | ThunkKind::Gemm(_)
    );
    is_simple
        && thunk.accesses().all(|access| {
            let buffer = access.slice.allocation;
            let is_written = group.writes.contains_key(&buffer);
            let is_read = access.effect.writes() && group.reads.contains(&buffer);
            faults::holds(Fault::PrecedesItsOperand, !is_written) && !is_read
        })
}

/// The most rows a thunk can be cut into; `None` where it has none.
fn rows_of(thunk: &Thunk) -> Option<usize> {
    let rows = match &thunk.kind {
        ThunkKind::Loop(fused) => fused.count,
        ThunkKind::Reduce(reduce) => rows_of_reduction(reduce)?,
        ThunkKind::Gemm(gemm) => rows_of_product(gemm)?,
        _ => return None,
    };
    (rows >= MIN_ROWS).then_some(rows)
}

fn rows_of_reduction(reduce: &ReduceThunk) -> Option<usize> {
    match *reduce.space.first()? {
        (rows, false) if reduce.space.iter().all(|s| s.0 > 0) => Some(rows as usize),
        _ => None,
    }
}

/// The rows of a product that may be computed tile by tile.
fn rows_of_product(gemm: &GemmThunk) -> Option<usize> {
    let (batch, m, n, k) = gemm.sizes();
    let size = usize::try_from(m.checked_mul(n)?).ok()? * gemm.c.element_type.size_bytes();
    let is_dense = gemm.c.strides[1..] == [n, 1]
        && gemm.c.offset == 0
        && gemm.c.slice.offset == 0
        && gemm.c.slice.size == size;
    let is_fixed = [&gemm.a, &gemm.b, &gemm.c]
        .iter()
        .all(|view| view.dynamic.is_empty());
    let suits = batch == 1
        && (1..=MAX_DEPTH).contains(&k)
        && gemm.beta == 0.0
        && gemm.way == GemmWay::Whole
        && is_dense
        && is_fixed;
    suits.then(|| usize::try_from(m).ok()).flatten()
}

/// Whether the walk, cut into `rows` rows, reads in row `r` only elements `r * per_row` and the
/// `per_row - 1` behind it.
pub(crate) fn stays_in_row(walk: &Walk, offset: i64, rows: usize, per_row: i64) -> bool {
    let mut left = rows as i64;
    // What one step along the rows adds; known once the rows' fastest dimension is.
    let mut steps: smallvec::SmallVec<[(i64, i64); 4]> = smallvec::SmallVec::new();
    let mut reach = offset;
    for &(size, stride) in walk {
        if stride < 0 {
            return false;
        }
        if left == 1 {
            reach += (size - 1) * stride;
        } else if left % size == 0 {
            steps.push((size, stride));
            left /= size;
        } else if size % left == 0 {
            let inner = size / left;
            steps.push((left, stride * inner));
            reach += (inner - 1) * stride;
            left = 1;
        } else {
            return false;
        }
    }
    let mut expected = per_row;
    for &(size, stride) in steps.iter().rev() {
        if stride != expected {
            return false;
        }
        expected *= size;
    }
    left == 1 && offset >= 0 && reach < per_row
}

/// The greatest common divisor.
pub(super) fn gcd(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stays(walk: &[(i64, i64)], rows: usize, per_row: i64) -> bool {
        stays_in_row(&Walk::from_slice(walk), 0, rows, per_row)
    }

    #[test]
    fn rows_are_found_in_walks() {
        // Dense, and a value per row.
        assert!(stays(&[(640, 1)], 64, 10));
        assert!(stays(&[(64, 1), (10, 0)], 64, 1));
        // Rows of two dimensions, and parts of rows.
        assert!(stays(&[(8, 80), (8, 10), (5, 2)], 64, 10));
        // Another row's element, all rows' element, reversed and turned rows.
        assert!(!stays(&[(64, 10), (11, 1)], 64, 10));
        assert!(!stays(&[(64, 0), (10, 1)], 64, 10));
        assert!(!stays(&[(64, -10), (10, 1)], 64, 10));
        assert!(!stays(&[(10, 1), (64, 10)], 64, 10));
        assert!(!stays(&[(6, 10), (10, 1)], 64, 10));
        assert!(!stays_in_row(
            &Walk::from_slice(&[(64, 10), (10, 1)]),
            1,
            64,
            10
        ));
    }

    #[test]
    fn common_rows() {
        assert_eq!(gcd(4096 * 128, 4096), 4096);
        assert_eq!(gcd(7, 13), 1);
    }
}
