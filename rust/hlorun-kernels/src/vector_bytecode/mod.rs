//! Vector bytecode: several elementwise operations in one pass over a few registers.
//!
//! In: operations on values, some of which come from and go to memory. Out: a [`VectorBytecode`] that runs them block by block:
//! the result of an operation stays in registers for the next one, and what has to wait lies in a few hundred bytes.
//! Promise: each operation gives the bits of its own kernel; element `i` of a result depends on element `i` of the
//! operands only, and a result may take the place of an operand of the same size.
//!
//! Values of vector bytecode are 4 bytes wide, or 8; narrow floats are kept as the `f32` they round to, truth values as masks.

mod code;
mod columns;
mod compile;
mod fuse;
#[cfg(target_arch = "x86_64")]
mod machine;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
mod order;
mod rows;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod run;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod vector;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

/// No tier of other architectures has vector bytecode.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod run {
    pub(super) const WIDE: usize = 1;
    pub(super) fn of(_: super::Isa, _: super::Width) -> Option<(super::RunBlocks, usize, usize)> {
        None
    }
}

use crate::ops::{BinaryOp, CompareDirection, UnaryOp};
use crate::table::Unary;
use crate::{DType, Isa};
use code::Micro;
#[cfg(target_arch = "x86_64")]
use std::sync::Arc;

pub use columns::ColumnFold;
use compile::{Compiled, Compiler};
pub use rows::{RowCode, Rows};
use run::WIDE;

/// What a step of vector bytecode does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// One operand.
    Unary(UnaryOp),
    /// Two operands.
    Binary(BinaryOp),
    /// Two operands to truth values; floats by the partial order.
    Compare(CompareDirection),
    /// The same of floats by the total order.
    CompareTotal(CompareDirection),
    /// A truth value and two operands.
    Select,
    /// Lower bound, operand, upper bound.
    Clamp,
    /// To another element type.
    Convert,
    /// The same bits as another element type of the same size.
    Bitcast,
}

/// An operand of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// A value: inputs are numbered first, then the results of steps.
    Value(u32),
    /// The same element everywhere, in its low bytes.
    Constant([u8; 16]),
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What it does.
    pub op: Op,
    /// Its operands; only as many as it reads count.
    pub operands: [Operand; 3],
    /// How many it reads.
    pub count: u8,
    /// Type of its operands; of the second one, where the first is a truth value that selects.
    pub from: DType,
    /// Type of its result.
    pub to: DType,
}

impl Step {
    fn values(&self) -> impl Iterator<Item = u32> + use<> {
        let count = usize::from(self.count).min(3);
        let operands = self.operands;
        (0..count).filter_map(move |k| match operands[k] {
            Operand::Value(value) => Some(value),
            Operand::Constant(_) => None,
        })
    }
}

/// How a type lies in the registers of vector bytecode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// Masks, with values of either width.
    Truth,
    /// Four bytes; narrow floats among them.
    Four,
    /// Eight bytes.
    Eight,
}

/// How values of `dtype` lie in vector bytecode; `None` where vector bytecode does not have them.
pub fn width(dtype: DType) -> Option<Width> {
    Some(match dtype {
        DType::Pred => Width::Truth,
        DType::F32 | DType::S32 | DType::U32 | DType::BF16 | DType::F16 => Width::Four,
        DType::F64 | DType::S64 | DType::U64 => Width::Eight,
        _ => return None,
    })
}

/// Whether one element of the type can be read for all lanes.
pub fn has_singles(dtype: DType) -> bool {
    matches!(dtype.size_bytes(), 4 | 8)
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16)
}

/// Whether vector bytecode has the operation, from operands of one type to results of another, on the CPU's instruction set.
pub fn is_supported(op: Op, from: DType, to: DType) -> bool {
    Isa::active().is_fused() && code::is_supported(op, from, to)
}

/// Whether the operation is a call of its kernel rather than a few instructions.
pub fn is_call(op: Op, dtype: DType) -> bool {
    matches!(op, Op::Unary(op) if dtype != DType::Pred && !code::is_direct(op, dtype))
}

/// Most addresses of vector bytecode's own, so that they stay in the first-level cache.
const MAX_LOCALS: usize = 40;

/// Most results that are stored.
pub const MAX_OUTPUTS: usize = 8;

/// Most elements of a large block. Fused loops and reductions go by tiles of a multiple of it, as elements left over take
/// longer. So it also decides how sums of floats are grouped: another value gives them other bits.
pub const MAX_BLOCK: usize = 128;

/// About how many cycles an operation takes on a small block.
const SMALL_COST: usize = 6;
/// The same on a large block.
const LARGE_COST: usize = 15;
/// About how many cycles it takes to copy an operand, or a result, of a block.
const COPY_COST: usize = 25;

/// What runs blocks one after the other: code, calls, the address of every value, how the addresses outside move on, how
/// many blocks there are, and whether they are large.
type RunBlocks = unsafe fn(&[Micro], &[Unary], *mut *mut u8, Strides<'_>, usize, bool);

/// How the addresses outside move on from block to block.
#[derive(Clone, Copy)]
struct Strides<'s> {
    /// How many addresses are before them.
    first: usize,
    /// Bytes from block to block at each; 0 where all blocks are the same.
    bytes: &'s [isize],
}

/// Where a value outside is.
#[derive(Clone, Copy, Debug)]
pub struct OutsideValue {
    /// Its first element.
    pub address: *mut u8,
    /// Whether it is an operand whose elements are all the same: [`MAX_BLOCK`] of them are there.
    pub is_fixed: bool,
}

/// Operations in one pass.
#[derive(Clone, Debug)]
pub struct VectorBytecode {
    code: Vec<Micro>,
    calls: Vec<Unary>,
    /// Addresses of its own, which come first in the table.
    locals: usize,
    /// Bytes of a vector at each address outside: inputs, then outputs.
    bytes: Vec<u16>,
    inputs: usize,
    run: RunBlocks,
    /// Elements of a vector, and bytes of one of them.
    lanes: usize,
    size: usize,
    /// What runs instead of the code once that has done much work.
    #[cfg(target_arch = "x86_64")]
    machine: Option<Arc<machine::MachineCode>>,
}

impl VectorBytecode {
    /// Vector bytecode of `steps` over inputs of the given types that stores the values `outputs`, each the result of a step.
    /// `None` where vector bytecode has no such operations, or it would take too much room.
    pub fn new(inputs: &[DType], steps: &[Step], outputs: &[u32]) -> Option<VectorBytecode> {
        VectorBytecode::on(Isa::active(), inputs, steps, outputs)
    }

    /// [`VectorBytecode::new`] for a given tier, which must be available.
    pub fn on(
        isa: Isa,
        inputs: &[DType],
        steps: &[Step],
        outputs: &[u32],
    ) -> Option<VectorBytecode> {
        VectorBytecode::with_singles(isa, inputs, &[], steps, outputs)
    }

    /// The same. Of an input for which `is_single` is set, a block reads one element for all of its lanes; a missing flag
    /// means no. `None` also where the type of such an input has no single elements.
    fn with_singles(
        isa: Isa,
        inputs: &[DType],
        is_single: &[bool],
        steps: &[Step],
        outputs: &[u32],
    ) -> Option<VectorBytecode> {
        let types = || {
            inputs
                .iter()
                .copied()
                .chain(steps.iter().map(|step| step.to))
        };
        let mut singles = inputs.iter().zip(is_single).filter(|input| *input.1);
        if !singles.all(|input| has_singles(*input.0)) {
            return None;
        }
        let mut wide = None;
        for dtype in types() {
            match (width(dtype)?, wide) {
                (Width::Truth, _) => {}
                (width, None) => wide = Some(width),
                (width, Some(other)) if width == other => {}
                _ => return None,
            }
        }
        let values = inputs.len() + steps.len();
        for (known, step) in (inputs.len() as u32..).zip(steps) {
            if !code::is_supported(step.op, step.from, step.to) || step.values().any(|v| v >= known)
            {
                return None;
            }
        }
        let is_result = |&v: &u32| (inputs.len()..values).contains(&(v as usize));
        if !outputs.iter().all(is_result) || values >= 1 << 14 || outputs.len() > MAX_OUTPUTS {
            return None;
        }
        let (run, lanes, size) = run::of(isa, wide?)?;
        let ordered = order::by_use(steps, inputs.len(), outputs);
        let orders = [
            (ordered.steps.as_slice(), ordered.outputs.as_slice()),
            (steps, outputs),
        ];
        let compile = |(steps, outputs)| {
            let compiler = Compiler::new(isa, inputs, is_single, steps, outputs);
            compiler
                .compile()
                .filter(|compiled| compiled.locals <= MAX_LOCALS)
        };
        let compiled = orders.into_iter().filter_map(compile);
        let Compiled {
            code,
            calls,
            locals,
        } = compiled.min_by_key(Compiled::cost)?;
        let all: Vec<DType> = types().collect();
        let stored = outputs.iter().map(|&v| all[v as usize]);
        let outside = inputs.iter().copied().chain(stored);
        Some(VectorBytecode {
            code,
            calls,
            locals,
            bytes: outside
                .map(|dtype| (lanes * dtype.size_bytes()) as u16)
                .collect(),
            inputs: inputs.len(),
            run,
            lanes,
            size,
            #[cfg(target_arch = "x86_64")]
            machine: None,
        })
    }

    /// Lets it become machine code once it was interpreted for about `least` cycles, where the CPU has AVX-512.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    pub fn make_machine_code_after(&mut self, least: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            // Vectors of 64 bytes are those of AVX-512.
            let has_instructions = self.lanes * self.size == 64;
            self.machine = has_instructions.then(|| Arc::new(machine::MachineCode::after(least)));
        }
    }

    /// What machine code is made of.
    #[cfg(target_arch = "x86_64")]
    fn source(&self) -> machine::Source<'_> {
        machine::Source {
            code: &self.code,
            calls: &self.calls,
            locals: self.locals,
            outside: self.bytes.len(),
            is_wide: self.size == 8,
            vectors: WIDE,
            by_double: false,
        }
    }

    /// Whether there is machine code, or it can be made now.
    #[cfg(all(test, target_arch = "x86_64"))]
    fn has_machine_code(&self) -> bool {
        let machine = self.machine.as_ref();
        machine.is_some_and(|machine| machine.is_made(&self.source()))
    }

    /// The same with machine code whose products go by way of doubles.
    #[cfg(all(test, target_arch = "x86_64"))]
    fn by_double(&self) -> VectorBytecode {
        VectorBytecode {
            machine: Some(Arc::new(machine::MachineCode::all_by_double(
                &self.source(),
            ))),
            ..self.clone()
        }
    }

    /// Bytes of scratch a run needs, zero before the first one, at a multiple of 64.
    pub fn scratch_bytes(&self) -> usize {
        self.table_bytes() + (self.locals + self.bytes.len()) * self.block_bytes()
    }

    /// Bytes of the table of addresses, and of how they move on.
    fn table_bytes(&self) -> usize {
        let pointers = (self.locals + self.bytes.len()) * size_of::<*mut u8>();
        (pointers + self.bytes.len() * size_of::<isize>()).next_multiple_of(64)
    }

    /// Bytes of a value of a large block.
    fn block_bytes(&self) -> usize {
        WIDE * self.lanes * self.size
    }

    /// Runs over `n` elements. `outside` are the inputs and then the outputs.
    ///
    /// # Safety
    /// Each address holds `n` elements of its type, unless it is fixed; an output is one of the inputs of the same size, or overlaps none;
    /// scratch has [`VectorBytecode::scratch_bytes`] that nobody else uses meanwhile.
    pub unsafe fn run(
        &self,
        outside: impl ExactSizeIterator<Item = OutsideValue>,
        n: usize,
        scratch: *mut u8,
    ) {
        let (own, count) = (self.locals, self.bytes.len());
        debug_assert_eq!(outside.len(), count);
        let pointers = scratch.cast::<*mut u8>();
        let large = n / (WIDE * self.lanes);
        let rest = n % (WIDE * self.lanes);
        // SAFETY: scratch holds a table of addresses, and a large block per address; the addresses outside hold n elements,
        // of which every block takes its own.
        unsafe {
            let room = scratch.add(self.table_bytes());
            self.place_locals(pointers, room);
            let bytes = pointers.add(own + count).cast::<isize>();
            let mut any_fixed = false;
            for (k, (outside, &own_bytes)) in outside.zip(&self.bytes).enumerate() {
                pointers.add(own + k).write(outside.address);
                any_fixed |= outside.is_fixed;
                let step = WIDE as isize * own_bytes as isize;
                bytes.add(k).write(if outside.is_fixed { 0 } else { step });
            }
            let strides = || Strides {
                first: own,
                bytes: std::slice::from_raw_parts(bytes, count),
            };
            let can_overlap = n >= self.lanes && !self.writes_inputs(pointers);
            self.run_blocks(pointers, strides(), large, true);
            if rest == 0 || !any_fixed && self.run_rows(pointers, strides().bytes, (1, rest)) {
                return;
            }
            let ragged = rest % self.lanes;
            if self.is_large_block(rest, can_overlap, large > 0) {
                match can_overlap && large > 0 {
                    true => self.run_last(pointers, strides(), rest, true),
                    false => self.run_copy(pointers, strides(), rest, room, true),
                }
                return;
            }
            for k in 0..count {
                let step = bytes.add(k);
                step.write(step.read() / WIDE as isize);
            }
            self.run_blocks(pointers, strides(), rest / self.lanes, false);
            match ragged {
                0 => {}
                _ if can_overlap => self.run_last(pointers, strides(), ragged, false),
                _ => self.run_copy(pointers, strides(), ragged, room, false),
            }
        }
    }

    /// Writes into the table where the bytecode's own values lie: one after the other from `room` on.
    ///
    /// # Safety
    /// The table has room for them, and a large block of each lies behind `room`.
    unsafe fn place_locals(&self, pointers: *mut *mut u8, room: *mut u8) {
        for at in 0..self.locals {
            // SAFETY: the caller's promise.
            unsafe { pointers.add(at).write(room.add(at * self.block_bytes())) };
        }
    }

    /// Whether a result takes the place of an operand: its elements cannot be computed twice.
    ///
    /// # Safety
    /// The table holds the addresses outside.
    unsafe fn writes_inputs(&self, pointers: *mut *mut u8) -> bool {
        // SAFETY: the caller's promise.
        let outside =
            unsafe { std::slice::from_raw_parts(pointers.add(self.locals), self.bytes.len()) };
        let (inputs, outputs) = outside.split_at(self.inputs);
        outputs.iter().any(|output| inputs.contains(output))
    }

    /// Runs one block that ends with the `rest` elements which are left; those before them are computed once more.
    ///
    /// # Safety
    /// There are that many elements before the addresses outside, and no result takes the place of an operand.
    unsafe fn run_last(
        &self,
        pointers: *mut *mut u8,
        strides: Strides<'_>,
        rest: usize,
        is_large: bool,
    ) {
        let lanes = if is_large {
            WIDE * self.lanes
        } else {
            self.lanes
        };
        let back = (lanes - rest) as isize;
        // SAFETY: the caller's promise.
        unsafe {
            for (k, &bytes) in strides.bytes.iter().enumerate() {
                let pointer = pointers.add(strides.first + k);
                pointer.write((*pointer).offset(-back * (bytes / lanes as isize)));
            }
            self.run_blocks(pointers, strides, 1, is_large);
        }
    }

    /// Whether `rest` elements, which do not fill a large block, take less time as one than as small blocks. What has no
    /// block before it that it can overlap is copied.
    fn is_large_block(&self, rest: usize, can_overlap: bool, is_after_large: bool) -> bool {
        let copy = COPY_COST * self.bytes.len();
        let copy_unless = |overlaps| if overlaps { 0 } else { copy };
        let ragged = usize::from(!rest.is_multiple_of(self.lanes));
        let small = rest.div_ceil(self.lanes) * SMALL_COST * self.code.len()
            + ragged * copy_unless(can_overlap);
        small > LARGE_COST * self.code.len() + copy_unless(can_overlap && is_after_large)
    }

    /// Runs `count` blocks, and moves the addresses outside behind them.
    unsafe fn run_blocks(
        &self,
        pointers: *mut *mut u8,
        strides: Strides<'_>,
        count: usize,
        is_large: bool,
    ) {
        if count > 0 {
            // SAFETY: the caller's promise: the elements of these blocks are there.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                if let Some(machine) = &self.machine
                    && machine.run(&self.source(), pointers, strides, (count, is_large))
                {
                    return;
                }
                (self.run)(&self.code, &self.calls, pointers, strides, count, is_large);
            }
        }
    }

    /// Runs rows by machine code for them, if there is some; returns whether they ran. The table of addresses is of no use
    /// afterwards.
    ///
    /// # Safety
    /// The table holds the addresses outside, behind which all columns of every row are as the strides say. A result may be an
    /// operand whose elements have the same size, at the same places.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    unsafe fn run_rows(
        &self,
        pointers: *mut *mut u8,
        strides: &[isize],
        (rows, columns): (usize, usize),
    ) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Some(machine) = &self.machine {
            // SAFETY: the caller's promise.
            return unsafe { machine.run_rows(&self.source(), pointers, strides, (rows, columns)) };
        }
        false
    }

    /// Whether there is machine code for rows.
    fn has_rows(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Some(machine) = &self.machine {
            return machine.has_rows();
        }
        false
    }

    /// Runs one block whose first `rest` elements are those outside, in a copy; behind them is what an earlier run left. The
    /// table of addresses is of no use afterwards.
    unsafe fn run_copy(
        &self,
        pointers: *mut *mut u8,
        strides: Strides<'_>,
        rest: usize,
        room: *mut u8,
        is_large: bool,
    ) {
        let (own, count) = (self.locals, self.bytes.len());
        let bytes = |k: usize| rest * (usize::from(self.bytes[k]) / self.lanes);
        let mut targets = [std::ptr::null_mut::<u8>(); MAX_OUTPUTS];
        // SAFETY: the caller's promise: there are `rest` elements at the addresses outside, and a large block for each of
        // them behind those of the bytecode's own.
        unsafe {
            for k in 0..count {
                // A block of those that are all the same is there.
                if strides.bytes[k] == 0 {
                    continue;
                }
                let pointer = pointers.add(own + k);
                let at = room.add((own + k) * self.block_bytes());
                if k < self.inputs {
                    std::ptr::copy_nonoverlapping(*pointer, at, bytes(k));
                } else {
                    targets[k - self.inputs] = *pointer;
                }
                pointer.write(at);
            }
            self.run_blocks(pointers, strides, 1, is_large);
            for (k, target) in (self.inputs..count).zip(targets) {
                let at = room.add((own + k) * self.block_bytes());
                std::ptr::copy_nonoverlapping(at, target, bytes(k));
            }
        }
    }
}

#[cfg(test)]
mod tests;
