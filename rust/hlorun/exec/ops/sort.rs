//! Runs `sort`: by keys computed once where the comparator has them, else by a merge sort that asks
//! the comparator about many pairs at a time.
//!
//! Promise: stable; every result row is a permutation of the operand's row, whatever the
//! comparator says.

use std::cell::RefCell;

use smallvec::SmallVec;

use super::sort_merge;
use super::sort_rows::{Order, Rows, last, new_order};
use super::walk::{Shared, split, try_split};
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::element::program::Frame;
use crate::exec::parallel::OpEnvironment;
use crate::plan::ops::sort::SortOp;
use crate::plan::ops::sort_keys::{SortKey, SortKeys};
use crate::types::PrimitiveType;

/// Elements one task sorts at least.
const GRAIN: usize = 16 << 10;

/// Runs `op`: its operands in, the same sorted out.
pub fn run(
    op: &SortOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let outputs = checked(op, inputs, outputs)?;
    let total = inputs[0].count();
    if total == 0 {
        return Ok(());
    }
    let length = inputs[0].dims[op.dimension] as usize;
    let rows = Rows::new(inputs, op.dimension)?;
    let order = match &op.keys {
        Some(keys) => by_keys(keys, &rows, length, environment)?,
        None => sort_merge::order(&op.comparator, &rows, length, environment)?,
    };
    for (operand, output) in rows.operands.iter().zip(outputs) {
        let output = last(output, op.dimension);
        apply(operand, &order, length, &output, environment)?;
    }
    Ok(())
}

/// The outputs that are sorted operands, where these arrays are what `op` takes.
fn checked<'o>(
    op: &SortOp,
    inputs: &[RawArray],
    outputs: &'o [RawArray],
) -> Result<&'o [RawArray]> {
    // The sorts of CUB return scratch memory as well.
    let outputs = match outputs.get(..op.count) {
        Some(outputs) if inputs.len() == op.count => outputs,
        _ => return Err(HloError::execution("sort takes other arrays")),
    };
    let fits = |array: &RawArray| array.dims == inputs[0].dims && op.dimension < array.dims.len();
    if !inputs.iter().chain(outputs).all(fits) {
        return Err(HloError::execution("sort operands differ in size"));
    }
    Ok(outputs)
}

/// A sort by keys that one thread does, of rows that lie side by side.
pub struct Sorter<'o> {
    keys: &'o SortKeys,
    rows: Rows,
    outputs: SmallVec<[RawArray; 4]>,
    length: usize,
    room: RefCell<Room>,
}

/// Memory for it.
struct Room {
    frame: Frame,
    columns: Vec<Vec<u64>>,
    order: Order,
    scratch: Scratch,
}

/// `op` over these arrays, with all done that its runs share; `None` where it has no keys or no elements, rows do not lie side
/// by side, or several threads sort them.
pub fn prepare<'o>(
    op: &'o SortOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
) -> Option<Sorter<'o>> {
    let outputs = checked(op, inputs, outputs).ok()?;
    let keys = op.keys.as_ref()?;
    let total = inputs[0].count();
    let lies_in_rows = |array: &RawArray| last(array, op.dimension).is_row_major();
    if !(1..GRAIN).contains(&total) || !inputs.iter().chain(outputs).all(lies_in_rows) {
        return None;
    }
    let length = inputs[0].dims[op.dimension] as usize;
    let program = &keys.program;
    let room = Room {
        frame: Frame::new(program, program.tile(total)).ok()?,
        columns: new_columns(keys, total).ok()?,
        order: new_order(total, length).ok()?,
        scratch: Scratch::default(),
    };
    Some(Sorter {
        keys,
        rows: Rows::new(inputs, op.dimension).ok()?,
        outputs: outputs.iter().map(|o| last(o, op.dimension)).collect(),
        length,
        room: RefCell::new(room),
    })
}

impl Sorter<'_> {
    /// Sorts all rows.
    pub fn run(&self, environment: &OpEnvironment<'_>) -> Result<()> {
        let room = &mut *self.room.borrow_mut();
        let (total, tile) = (self.rows.count(), self.keys.program.tile(self.rows.count()));
        let shared = |column: &mut Vec<u64>| Shared::new(column.as_mut_ptr().cast());
        let targets: SmallVec<[Shared; 4]> = room.columns.iter_mut().map(shared).collect();
        let operands = self.rows.operands.iter();
        let sources: SmallVec<[Shared; 4]> = operands.map(|o| Shared::new(o.pointer)).collect();
        for start in (0..total).step_by(tile) {
            let n = tile.min(total - start);
            // SAFETY: operands and columns have as many elements.
            unsafe { keys_of(self.keys, &mut room.frame, &sources, &targets, start, n) };
        }
        for start in (0..total).step_by(self.length) {
            let part = start..start + self.length;
            let columns: SmallVec<[&[u64]; 2]> =
                room.columns.iter().map(|c| &c[part.clone()]).collect();
            let order = &mut room.order[part];
            if !room.scratch.sort(&self.keys.keys, &columns, order) {
                return Err(HloError::execution("out of memory for sorting"));
            }
        }
        for (operand, output) in self.rows.operands.iter().zip(&self.outputs) {
            apply(operand, &room.order, self.length, output, environment)?;
        }
        Ok(())
    }
}

fn by_keys(
    keys: &SortKeys,
    rows: &Rows,
    length: usize,
    environment: &OpEnvironment<'_>,
) -> Result<Order> {
    let count = rows.count();
    let mut order = new_order(count, length)?;
    let columns = compute_keys(keys, rows, environment)?;
    let target = Shared::new(order.as_mut_ptr().cast());
    try_split(environment, count / length, GRAIN / length, &|range| {
        let mut scratch = Scratch::default();
        for row in range {
            let part = row * length..(row + 1) * length;
            // SAFETY: rows are disjoint parts of the order.
            let order = unsafe {
                std::slice::from_raw_parts_mut(target.get().cast::<u32>().add(part.start), length)
            };
            let columns: SmallVec<[&[u64]; 2]> =
                columns.iter().map(|column| &column[part.clone()]).collect();
            if !scratch.sort(&keys.keys, &columns, order) {
                return Err(HloError::execution("out of memory for sorting"));
            }
        }
        Ok(())
    })?;
    Ok(order)
}

/// Room for the keys of so many elements.
fn new_columns(keys: &SortKeys, count: usize) -> Result<Vec<Vec<u64>>> {
    let mut columns = Vec::new();
    for _ in &keys.keys {
        let mut column: Vec<u64> = Vec::new();
        column
            .try_reserve_exact(count)
            .map_err(|_| HloError::execution("out of memory for sorting"))?;
        column.resize(count, 0);
        columns.push(column);
    }
    Ok(columns)
}

/// Writes the keys of the elements `start..start + n` of `sources` to the columns `targets`.
///
/// # Safety
///
/// Operands and columns have these elements, which no other task touches; `frame` was made for tiles of so many.
unsafe fn keys_of(
    keys: &SortKeys,
    frame: &mut Frame,
    sources: &[Shared],
    targets: &[Shared],
    start: usize,
    n: usize,
) {
    let program = &keys.program;
    for (i, &register) in program.inputs.iter().enumerate() {
        let size = program.types[register.0 as usize].size_bytes();
        frame.bind(register, sources[i / 2].at((start * size) as isize));
    }
    // SAFETY: inputs are bound to `n` elements of their operand (the parser's types agree
    // with the operands', which `run` of the plan checked), outputs live in the frame.
    unsafe {
        frame.run(program, n);
        for ((key, &output), target) in keys.keys.iter().zip(&program.outputs).zip(targets) {
            let column = target.get().cast::<u64>().add(start);
            let column = std::slice::from_raw_parts_mut(column, n);
            ordered(key, frame.pointer(output), column);
        }
    }
}

/// The keys of every element as integers whose order is that of the result.
fn compute_keys(
    keys: &SortKeys,
    rows: &Rows,
    environment: &OpEnvironment<'_>,
) -> Result<Vec<Vec<u64>>> {
    let count = rows.count();
    let mut columns = new_columns(keys, count)?;
    let targets: Vec<Shared> = columns
        .iter_mut()
        .map(|column| Shared::new(column.as_mut_ptr().cast()))
        .collect();
    let sources: Vec<Shared> = rows
        .operands
        .iter()
        .map(|o| Shared::new(o.pointer))
        .collect();
    let program = &keys.program;
    let tile = program.tile(count);
    // A frame that cannot be had is found out before tasks start.
    drop(Frame::new(program, tile)?);
    try_split(environment, count.div_ceil(tile), 16, &|range| {
        let mut frame = Frame::new(program, tile)?;
        for block in range {
            let start = block * tile;
            let n = tile.min(count - start);
            // SAFETY: operands and columns have as many elements; blocks are disjoint.
            unsafe { keys_of(keys, &mut frame, &sources, &targets, start, n) };
        }
        Ok(())
    })?;
    Ok(columns)
}

/// Bits of a key that matter.
fn key_bits(key: &SortKey) -> u32 {
    key.element_type.size_bytes() as u32 * 8
}

/// Writes keys as unsigned integers in the order of the result.
///
/// # Safety
///
/// `from` holds as many elements of the key's type as `to`.
pub unsafe fn ordered(key: &SortKey, from: *const u8, to: &mut [u64]) {
    let descending = key.descending;
    let mask = u64::MAX >> (64 - key_bits(key));
    macro_rules! load {
        ($t:ty, $map:expr) => {
            for (i, to) in to.iter_mut().enumerate() {
                // SAFETY: by the caller's promise.
                let bits = unsafe { from.cast::<$t>().add(i).read() };
                let value: u64 = $map(bits);
                *to = if descending { !value & mask } else { value };
            }
        };
    }
    macro_rules! float {
        ($t:ty) => {{
            const SIGN: $t = 1 << (<$t>::BITS - 1);
            let total = key.total_order;
            load!($t, |bits: $t| {
                let bits = if !total && bits == SIGN { 0 } else { bits };
                u64::from(if bits & SIGN == 0 { bits | SIGN } else { !bits })
            })
        }};
    }
    use PrimitiveType as P;
    match key.element_type {
        P::F16 | P::BF16 => float!(u16),
        P::F32 => float!(u32),
        P::F64 => float!(u64),
        // Bits above a narrow type's own say nothing.
        P::S1 | P::S2 | P::S4 => {
            let shift = 8 - key.element_type.bit_width();
            load!(u8, |bits| u64::from(
                ((bits as i8) << shift >> shift) as u8 ^ 1 << 7
            ))
        }
        ty if ty.is_signed_integral() => match ty.size_bytes() {
            1 => load!(u8, |bits| u64::from(bits ^ 1 << 7)),
            2 => load!(u16, |bits| u64::from(bits ^ 1 << 15)),
            4 => load!(u32, |bits| u64::from(bits ^ 1 << 31)),
            _ => load!(u64, |bits| bits ^ 1 << 63),
        },
        P::U1 | P::U2 | P::U4 => {
            let mask = u8::MAX >> (8 - key.element_type.bit_width());
            load!(u8, |bits| u64::from(bits & mask))
        }
        P::Pred => load!(u8, |bits| u64::from(bits != 0)),
        ty => match ty.size_bytes() {
            1 => load!(u8, u64::from),
            2 => load!(u16, u64::from),
            4 => load!(u32, u64::from),
            _ => load!(u64, |bits| bits),
        },
    }
}

/// Memory a task sorts rows in.
#[derive(Default)]
struct Scratch {
    packed: Vec<u64>,
    pairs: Vec<(u64, u32)>,
}

impl Scratch {
    /// Writes the stable order of one row; `false` when memory ran out.
    fn sort(&mut self, keys: &[SortKey], columns: &[&[u64]], order: &mut [u32]) -> bool {
        let length = order.len();
        match columns {
            [column] if key_bits(&keys[0]) <= 32 => {
                self.packed.clear();
                if self.packed.try_reserve(length).is_err() {
                    return false;
                }
                let pack = column
                    .iter()
                    .enumerate()
                    .map(|(i, key)| key << 32 | i as u64);
                self.packed.extend(pack);
                // Positions make all values distinct, so this is the stable order.
                self.packed.sort_unstable();
                for (to, packed) in order.iter_mut().zip(&self.packed) {
                    *to = *packed as u32;
                }
            }
            [column] => {
                self.pairs.clear();
                if self.pairs.try_reserve(length).is_err() {
                    return false;
                }
                self.pairs
                    .extend(column.iter().zip(0u32..).map(|(&key, i)| (key, i)));
                self.pairs.sort_unstable();
                for (to, pair) in order.iter_mut().zip(&self.pairs) {
                    *to = pair.1;
                }
            }
            _ => {
                for (to, i) in order.iter_mut().zip(0u32..) {
                    *to = i;
                }
                order.sort_unstable_by(|&a, &b| {
                    let key = |column: &&[u64], i: u32| column[i as usize];
                    columns
                        .iter()
                        .map(|column| key(column, a).cmp(&key(column, b)))
                        .find(|ordering| ordering.is_ne())
                        .unwrap_or(a.cmp(&b))
                });
            }
        }
        true
    }
}

/// Writes the elements of `operand`, dense rows, in `order`.
pub fn apply(
    operand: &RawArray,
    order: &[u32],
    length: usize,
    output: &RawArray,
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let size = operand.element_type.size_bytes();
    let mut copy = None;
    let target = if output.is_row_major() {
        Shared::new(output.pointer)
    } else {
        let mut bytes = AlignedBytes::uninitialized(operand.byte_size())?;
        let pointer = Shared::new(bytes.as_mut_ptr());
        copy = Some(bytes);
        pointer
    };
    let source = Shared::new(operand.pointer);
    split(
        environment,
        order.len() / length,
        GRAIN / length,
        &|range| {
            by_size!(size, T => {
                for row in range {
                    let base = row * length;
                    let row = &order[base..base + length];
                    for (i, &from) in row.iter().enumerate() {
                        // SAFETY: the order holds indices below `length`; rows are disjoint.
                        unsafe {
                            let from = source.get().cast::<T>().add(base + from as usize);
                            target.get().cast::<T>().add(base + i).write(from.read());
                        }
                    }
                }
            })
        },
    );
    if let Some(mut bytes) = copy {
        RawArray::over(&mut bytes, operand.element_type, &operand.dims).copy_to(output);
    }
    Ok(())
}
