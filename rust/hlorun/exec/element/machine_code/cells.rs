//! Which elements of allocations the machine code of a loop keeps in registers.
//!
//! In: scalar code and the thunks it leaves for. Out: [`Cells`]: places of single elements or blocks that
//! nothing touches otherwise: no wider or narrower one, no place that an index names, no kernel and no
//! thunk outside. For each, whether a trip reads what the trip before it wrote: such a cell
//! is written to its place when the loop ends, any other when it changes, so that it lives in a
//! register no longer than until its last use.

use std::collections::BTreeMap;

use cranelift_codegen::ir::{Type, types};
use hlorun_kernels::scalar_bytecode::Kind;
use rustc_hash::FxHashMap;

use super::blocks;
use super::forms::{self, Form, Touch};
use crate::plan::cost::machine_code::{MAX_ELEMENTS, MAX_FLOW};
use crate::plan::thunk::scalar_bytecode::{Code, Place, ScalarOp, ScalarProgram};
use crate::plan::thunk::{Thunk, ThunkKind};

/// An element that has a register.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Where it is outside the code.
    pub place: Place,
    /// Of its register.
    pub ty: Type,
    /// A trip reads what the one before it wrote.
    pub is_carried: bool,
    /// Whether the code writes it.
    pub is_written: bool,
    /// Whether it is read before it is written by who enters at the entry.
    pub is_entered: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Cells {
    pub cells: Vec<Cell>,
    /// By allocation and byte.
    at: BTreeMap<(u32, usize), usize>,
    /// Allocations that the code touches.
    pub allocations: Vec<u32>,
    /// The form of each operation.
    pub forms: Vec<Form>,
    /// Whether a jump goes to an operation, or one that may jump stands before it.
    pub leads: Vec<bool>,
}

/// How often an element is asked for as a float, less how often as an integer.
type Votes = FxHashMap<(u32, usize, usize), i32>;

impl Cells {
    /// `None` where the code has an operation without a form.
    pub fn of(prepared: &ScalarProgram, entry: usize, outside: &[&Thunk]) -> Option<Cells> {
        let mut cells = Cells::default();
        let touched = cells.walk(prepared, outside)?;
        cells.keep(&touched);
        cells.leads = leaders(prepared, entry)?;
        cells.flow(prepared, entry, &touched.by_op);
        Some(cells)
    }

    /// The cell of exactly these bytes.
    pub fn find(&self, place: Place, bytes: usize) -> Option<usize> {
        let Place::Allocation(allocation, offset) = place else {
            return None;
        };
        let &cell = self.at.get(&(allocation, offset))?;
        (self.cells[cell].ty.bytes() as usize == bytes).then_some(cell)
    }

    /// Whether a cell has a byte among these.
    pub fn overlaps(&self, place: Place, bytes: usize) -> bool {
        let Place::Allocation(allocation, offset) = place else {
            return false;
        };
        let below = self.at.range(..(allocation, offset + bytes)).next_back();
        below.is_some_and(|(&(own, start), &cell)| {
            own == allocation && start + self.cells[cell].ty.bytes() as usize > offset
        })
    }

    /// Everything that is touched.
    fn walk(&mut self, prepared: &ScalarProgram, outside: &[&Thunk]) -> Option<Touched> {
        let mut touched = Touched::default();
        let (mut moved, mut elements) = ((0isize, 0isize), 0);
        for op in &prepared.ops {
            let form = forms::form(prepared, op)?;
            self.forms.push(form);
            let kind = kind(op);
            if let Some(Kind::Index(_, is_first)) = kind {
                let (low, high) = forms::reach(op);
                moved = match is_first {
                    true => (low, high),
                    false => (moved.0 + low, moved.1 + high),
                };
            }
            let (low, high) = forms::reach(op);
            let total = match kind {
                Some(Kind::Load(_, more) | Kind::Store(_, more)) => match more {
                    true => (moved.0 + low, moved.1 + high),
                    false => (low, high),
                },
                _ => (0, 0),
            };
            let mut own = Vec::new();
            forms::touches(prepared, op, form, total, &mut |touch| {
                elements += touch.element.map_or(0, |_| blocks::weight(touch.bytes));
                touched.add(&touch, &mut own);
            })?;
            if kind == Some(Kind::Outside) {
                let thunk = outside.get(usize::try_from(op.x).ok()?)?;
                touched.add_thunk(thunk)?;
            }
            if elements > MAX_ELEMENTS {
                return None;
            }
            touched.by_op.push(own);
        }
        self.allocations = touched.allocations.clone();
        self.allocations.sort_unstable();
        self.allocations.dedup();
        Some(touched)
    }

    /// Makes cells of the elements that overlap nothing else.
    fn keep(&mut self, touched: &Touched) {
        let mut ranges: Vec<(u32, usize, usize, Option<i32>)> = touched
            .votes
            .iter()
            .map(|(&(allocation, offset, size), &votes)| {
                (allocation, offset, offset + size, Some(votes))
            })
            .chain(
                touched
                    .blocks
                    .iter()
                    .map(|&(a, from, to)| (a, from, to, None)),
            )
            .collect();
        ranges.sort_unstable();
        let mut at = 0;
        while at < ranges.len() {
            let (allocation, from, mut end, votes) = ranges[at];
            let mut next = at + 1;
            while next < ranges.len() && ranges[next].0 == allocation && ranges[next].1 < end {
                end = end.max(ranges[next].2);
                next += 1;
            }
            if let (1, Some(votes), Some(ty)) = (next - at, votes, blocks::bytes(end - from)) {
                let ty = match (votes > 0, end - from) {
                    (true, 4) => types::F32,
                    (true, 8) => types::F64,
                    _ => ty,
                };
                self.at.insert((allocation, from), self.cells.len());
                self.cells.push(Cell {
                    place: Place::Allocation(allocation, from),
                    ty,
                    is_carried: false,
                    is_written: false,
                    is_entered: false,
                });
            }
            at = next;
        }
    }

    /// Finds out which cells are live where the code is entered and where it goes back to.
    fn flow(
        &mut self,
        prepared: &ScalarProgram,
        entry: usize,
        by_op: &[Vec<(Place, usize, bool)>],
    ) {
        let starts: Vec<usize> = (0..prepared.ops.len())
            .filter(|&at| self.leads[at])
            .collect();
        let words = self.cells.len().div_ceil(64);
        let number_of = |op: usize| starts.partition_point(|&start| start <= op) - 1;
        let mut blocks: Vec<Block> = Vec::with_capacity(starts.len());
        let mut headers = vec![false; starts.len()];
        for (number, &start) in starts.iter().enumerate() {
            let end = starts
                .get(number + 1)
                .copied()
                .unwrap_or(prepared.ops.len());
            let mut block = Block {
                reads: vec![0; words],
                writes: vec![0; words],
                live: vec![0; words],
                next: Vec::new(),
            };
            for (op, touches) in by_op.iter().enumerate().take(end).skip(start) {
                for &(place, bytes, writes) in touches {
                    let Some(cell) = self.find(place, bytes) else {
                        continue;
                    };
                    let (word, bit) = (cell / 64, 1u64 << (cell % 64));
                    if writes {
                        self.cells[cell].is_written = true;
                        block.writes[word] |= bit;
                    } else if block.writes[word] & bit == 0 {
                        block.reads[word] |= bit;
                    }
                }
                if op + 1 == end {
                    for target in targets(prepared, op) {
                        let target = number_of(target);
                        headers[target] |= target <= number;
                        block.next.push(target);
                    }
                }
            }
            blocks.push(block);
        }
        if self.cells.len() * starts.len() > MAX_FLOW {
            for cell in &mut self.cells {
                (cell.is_carried, cell.is_entered) = (true, true);
            }
            return;
        }
        let mut is_done = false;
        while !is_done {
            is_done = true;
            for number in (0..blocks.len()).rev() {
                for word in 0..words {
                    let next = &blocks[number].next;
                    let out = next
                        .iter()
                        .fold(0, |out, &next| out | blocks[next].live[word]);
                    let block = &mut blocks[number];
                    let live = block.reads[word] | (out & !block.writes[word]);
                    is_done &= live == block.live[word];
                    block.live[word] = live;
                }
            }
        }
        let entered = number_of(entry);
        for (at, cell) in self.cells.iter_mut().enumerate() {
            let is_live = |block: &Block| block.live[at / 64] >> (at % 64) & 1 == 1;
            let mut of_headers = blocks.iter().zip(&headers);
            cell.is_carried = of_headers.any(|(block, &is_header)| is_header && is_live(block));
            cell.is_entered = is_live(&blocks[entered]) || cell.is_carried;
        }
    }
}

/// Operations between two that lead.
struct Block {
    /// Cells that are read before they are written.
    reads: Vec<u64>,
    writes: Vec<u64>,
    /// Cells that are read before they are written from here on.
    live: Vec<u64>,
    next: Vec<usize>,
}

#[derive(Default)]
struct Touched {
    votes: Votes,
    blocks: Vec<(u32, usize, usize)>,
    allocations: Vec<u32>,
    /// Elements by operation: where, bytes, whether it is written.
    by_op: Vec<Vec<(Place, usize, bool)>>,
}

impl Touched {
    fn add(&mut self, touch: &Touch, own: &mut Vec<(Place, usize, bool)>) {
        let Place::Allocation(allocation, offset) = touch.place else {
            return;
        };
        self.allocations.push(allocation);
        match touch.element {
            Some(holder) => {
                let key = (allocation, offset, touch.bytes);
                *self.votes.entry(key).or_default() += match holder {
                    Some(ty) if ty.is_float() => 1,
                    Some(_) => -1,
                    None => 0,
                };
                own.push((touch.place, touch.bytes, touch.writes));
            }
            None => self.blocks.push((allocation, offset, offset + touch.bytes)),
        }
    }

    /// What a thunk outside and all thunks inside it touch; `None` where one may touch more than it declares of
    /// this device's memory. Recursion is bounded by the nesting the lowering allows.
    fn add_thunk(&mut self, thunk: &Thunk) -> Option<()> {
        match thunk.kind {
            ThunkKind::Copy(_)
            | ThunkKind::Loop(_)
            | ThunkKind::Reduce(_)
            | ThunkKind::RowTiled(_)
            | ThunkKind::Gemm(_)
            | ThunkKind::PackOperand(_)
            | ThunkKind::Op(_)
            | ThunkKind::While(_)
            | ThunkKind::Conditional(_)
            | ThunkKind::DeviceId(_)
            | ThunkKind::Nop => {}
            ThunkKind::CollectiveStart(_) | ThunkKind::Collective(_) | ThunkKind::Observe(_) => {
                return None;
            }
        }
        for access in thunk.accesses() {
            if let Some(hull) = access.hull() {
                let from = usize::try_from(hull.start).ok()?;
                let to = usize::try_from(hull.end).ok()?;
                self.blocks.push((access.slice.allocation, from, to));
            }
        }
        let mut inner = thunk.nested().into_iter().flatten();
        inner.try_for_each(|thunk| self.add_thunk(thunk))
    }
}

fn kind(op: &ScalarOp) -> Option<Kind> {
    match op.code {
        Code::Function(function) => Some(function.kind),
        Code::Gather(..) | Code::Scatter(..) | Code::Product(_) | Code::Choose(_) => None,
    }
}

/// Operations that may run after one.
pub fn targets(prepared: &ScalarProgram, at: usize) -> Vec<usize> {
    let op = &prepared.ops[at];
    let by = at.checked_add_signed(op.x as isize).unwrap_or(usize::MAX);
    match kind(op) {
        Some(Kind::End) => Vec::new(),
        Some(Kind::Jump | Kind::Back) => vec![by],
        Some(Kind::BackIf | Kind::BackIfCompare(..) | Kind::JumpIfZero) => vec![by, at + 1],
        Some(Kind::Switch) => (at + 1..=at + op.n).collect(),
        _ => vec![at + 1],
    }
}

/// Which operations begin something; `None` where a jump leaves the code.
fn leaders(prepared: &ScalarProgram, entry: usize) -> Option<Vec<bool>> {
    let mut leads = vec![false; prepared.ops.len()];
    *leads.get_mut(0)? = true;
    *leads.get_mut(entry)? = true;
    for (at, op) in prepared.ops.iter().enumerate() {
        let targets = targets(prepared, at);
        let is_plain = targets == [at + 1];
        // A jump to the next operation only bounds how many the interpreter nests.
        let is_nothing = is_plain && kind(op) != Some(Kind::Switch);
        for target in targets {
            let lead = leads.get_mut(target)?;
            *lead |= !is_nothing;
        }
        if !is_plain && at + 1 < leads.len() {
            leads[at + 1] = true;
        }
    }
    Some(leads)
}
