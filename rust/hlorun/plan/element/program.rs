//! Programs: straight-line elementwise code over short contiguous vectors ("tiles").
//!
//! In: kernels and the registers they read and write. Out: a [`Program`] that computes `n`
//! elements of every output from `n` elements of every input. The same program serves fused loops
//! (large `n`) and the scalar computations of `reduce`, `sort`, `scatter`, … (any `n`).
//!
//! Promise: registers are assigned slots so that a run needs one small scratch block and no
//! allocation; a program never writes to its inputs.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::elementwise::Kernel;
use hlorun_kernels::Side;
use hlorun_kernels::vector_bytecode::{self, VectorBytecode};

use crate::plan::cost::is_function;
use crate::plan::cost::tiles::{FUNCTION_WORK, MAX_TILE, MIN_TILE, SCRATCH_TARGET, WORK_BYTES};
use crate::types::PrimitiveType;
use hlorun_kernels::vector_bytecode::Op;

/// What inputs and outputs of one element take of the cache, roughly.
const EXTERNAL_BYTES: u32 = 16;

const _: () = assert!(MIN_TILE >= vector_bytecode::MAX_BLOCK);

/// A value of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Register(pub u32);

/// One kernel call.
#[derive(Clone, Debug)]
pub struct Step {
    /// What runs.
    pub kernel: Kernel,
    /// Its operands; only as many as the kernel reads are meant.
    pub operands: [Register; 3],
    /// Where the result goes.
    pub result: Register,
    /// What the kernel computes, where vector bytecode can compute it too.
    pub meaning: Option<Meaning>,
}

/// What runs at one time.
#[derive(Clone, Debug)]
pub enum Task {
    /// The step of this number.
    Step(u32),
    /// Several steps in one pass.
    Vector(Box<VectorTask>),
}

/// What a step's kernel computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Meaning {
    /// The operation.
    pub op: Op,
    /// Where the operand is that is a constant in the kernel, if there is one.
    pub side: Option<Side>,
}

impl Meaning {
    /// An operation whose operands are all registers.
    pub fn of(op: Op) -> Meaning {
        Meaning { op, side: None }
    }
}

/// Several steps in one pass.
#[derive(Clone, Debug)]
pub struct VectorTask {
    /// The code.
    pub code: VectorBytecode,
    /// Registers it reads, then those it writes.
    pub outside: Vec<Register>,
    /// How many it reads.
    pub(super) reads: usize,
}

impl VectorTask {
    /// Registers it reads from memory.
    pub fn inputs(&self) -> &[Register] {
        &self.outside[..self.reads]
    }

    /// Registers it writes to memory.
    pub fn outputs(&self) -> &[Register] {
        &self.outside[self.reads..]
    }
}

/// Where a register's elements are while the program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// Memory the caller names: inputs, and outputs it wants written in place.
    External,
    /// Bytes `offset * tile` of the scratch block; `offset` in bytes per element.
    Slot(u32),
    /// Element `index` of the constants, repeated over a tile of its own.
    Constant(u32),
}

/// Straight-line elementwise code.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Element type of every register.
    pub types: Vec<PrimitiveType>,
    /// Home of every register.
    pub homes: Vec<Home>,
    /// Registers the caller fills, in order.
    pub inputs: Vec<Register>,
    /// Registers the caller reads, in order.
    pub outputs: Vec<Register>,
    /// The code.
    pub steps: Vec<Step>,
    /// How it runs: every step once, in order.
    pub tasks: Vec<Task>,
    /// Values of constant registers.
    pub constants: Vec<[u8; 16]>,
    /// Constant registers, and which of the values each holds, whether or not it has a home.
    pub values: Vec<(Register, u32)>,
    /// For every output, the first step that reads an input after it is written is none: it may be
    /// written straight into memory that one of the inputs occupies.
    pub in_place: Vec<bool>,
    /// Bytes per element of a tile that compete for the cache: slots, constants, and something for
    /// inputs and outputs.
    pub scratch_per_element: u32,
    /// Work of an element, as [`PARALLEL_WORK`](crate::plan::cost::tiles::PARALLEL_WORK) counts it.
    pub work: usize,
}

/// What makes two steps the same: kernel, constant, operands, type of the result, and what it computes. Kernels depend on
/// nothing else.
type Key = (
    (u8, usize),
    [u8; 16],
    [Register; 3],
    PrimitiveType,
    Option<Meaning>,
);

impl Step {
    /// See [`Key`]; `None` where the kernel cannot be compared.
    fn key(&self, ty: PrimitiveType) -> Option<Key> {
        let none = [0; 16];
        let (kernel, value) = match self.kernel {
            Kernel::Unary(f) => ((0, f as usize), none),
            Kernel::Binary(f) => ((1, f as usize), none),
            Kernel::WithScalar(f, value) => ((2, f as usize), value),
            Kernel::Ternary(f) => ((3, f as usize), none),
            Kernel::Copy(size) => ((4, size), none),
            Kernel::ReducePrecision(_) => return None,
        };
        Some((kernel, value, self.operands, ty, self.meaning))
    }
}

/// Collects the steps of a program. Steps that compute the same of the same registers are one.
#[derive(Default)]
pub struct ProgramBuilder {
    program: Program,
    known: FxHashMap<Key, Register>,
    /// Steps that were there already when they were added.
    pub shared: usize,
}

impl ProgramBuilder {
    /// An empty program.
    pub fn new() -> ProgramBuilder {
        ProgramBuilder::default()
    }

    fn register(&mut self, ty: PrimitiveType, home: Home) -> Register {
        self.program.types.push(ty);
        self.program.homes.push(home);
        Register(self.program.types.len() as u32 - 1)
    }

    /// A further input.
    pub fn input(&mut self, ty: PrimitiveType) -> Register {
        let register = self.register(ty, Home::External);
        self.program.inputs.push(register);
        register
    }

    /// A constant; `bytes` is one element. Equal constants share a register.
    pub fn constant(&mut self, ty: PrimitiveType, bytes: &[u8]) -> Register {
        let mut value = [0u8; 16];
        value[..bytes.len().min(16)].copy_from_slice(&bytes[..bytes.len().min(16)]);
        let is_same = |&&(register, index): &&(Register, u32)| {
            self.program.constants[index as usize] == value && self.ty(register) == ty
        };
        if let Some(&(register, _)) = self.program.values.iter().find(is_same) {
            return register;
        }
        self.program.constants.push(value);
        let index = self.program.constants.len() as u32 - 1;
        let register = self.register(ty, Home::Constant(index));
        self.program.values.push((register, index));
        register
    }

    /// Adds a kernel call and returns its result.
    pub fn step(&mut self, kernel: Kernel, operands: &[Register], ty: PrimitiveType) -> Register {
        self.known_step(kernel, None, operands, ty)
    }

    /// The same for a kernel of which it is known what it computes.
    pub fn known_step(
        &mut self,
        kernel: Kernel,
        meaning: Option<Meaning>,
        operands: &[Register],
        ty: PrimitiveType,
    ) -> Register {
        let result = Register(self.program.types.len() as u32);
        let mut all = [operands.first().copied().unwrap_or(result); 3];
        all[..operands.len().min(3)].copy_from_slice(&operands[..operands.len().min(3)]);
        let step = Step {
            kernel,
            operands: all,
            result,
            meaning,
        };
        if let Some(key) = step.key(ty) {
            match self.known.entry(key) {
                Entry::Occupied(same) => {
                    self.shared += 1;
                    return *same.get();
                }
                Entry::Vacant(entry) => entry.insert(result),
            };
        }
        self.program.steps.push(step);
        self.register(ty, Home::External)
    }

    /// The element type of a register.
    pub fn ty(&self, register: Register) -> PrimitiveType {
        self.program.types[register.0 as usize]
    }

    /// Whether a step computes it, rather than the caller or a constant.
    pub fn is_computed(&self, register: Register) -> bool {
        self.program.steps.iter().any(|s| s.result == register)
    }

    /// The same elements under another type of the same size.
    pub fn reinterpret(&mut self, register: Register, ty: PrimitiveType) -> Register {
        let meaning = Some(Meaning::of(Op::Bitcast));
        self.known_step(Kernel::Copy(ty.size_bytes()), meaning, &[register], ty)
    }

    /// The bytes of a register that is a constant.
    pub fn constant_value(&self, register: Register) -> Option<[u8; 16]> {
        match self.program.homes[register.0 as usize] {
            Home::Constant(index) => Some(self.program.constants[index as usize]),
            _ => None,
        }
    }

    /// Fixes the outputs and assigns slots. Two outputs that are one register would be one place in memory:
    /// the second is a copy.
    pub fn finish(mut self, outputs: &[Register]) -> Program {
        let mut outputs = outputs.to_vec();
        for at in 1..outputs.len() {
            let output = outputs[at];
            if outputs[..at].contains(&output) && self.is_computed(output) {
                // The copy must not be one that is there already.
                self.known.clear();
                outputs[at] = self.reinterpret(output, self.ty(output));
            }
        }
        self.program.outputs = outputs;
        self.program.tasks = (0..self.program.steps.len() as u32)
            .map(Task::Step)
            .collect();
        self.program.drop_unread_constants();
        self.program.assign_slots();
        self.program.work = 1 + self
            .program
            .steps
            .iter()
            .map(|s| self.program.work_of(s))
            .sum::<usize>();
        self.program
    }
}

impl Step {
    /// The operation's name in lower case, such as "add"; "other" where vector bytecode has no such operation.
    pub fn operation(&self) -> String {
        let Some(meaning) = &self.meaning else {
            return "other".to_owned();
        };
        let op = format!("{:?}", meaning.op);
        // `Binary(Add)` is `Add`.
        let inner = op
            .split_once('(')
            .and_then(|(_, rest)| rest.strip_suffix(')'));
        inner.unwrap_or(&op).to_lowercase()
    }

    /// The operands the kernel reads.
    pub fn reads(&self) -> &[Register] {
        let count = match self.kernel {
            Kernel::Unary(_)
            | Kernel::WithScalar(..)
            | Kernel::ReducePrecision(_)
            | Kernel::Copy(_) => 1,
            Kernel::Binary(_) => 2,
            Kernel::Ternary(_) => 3,
        };
        &self.operands[..count]
    }
}

impl Program {
    fn work_of(&self, step: &Step) -> usize {
        let [operand, result] = [step.operands[0], step.result].map(|r| self.types[r.0 as usize]);
        let is_float = operand.is_floating() || operand.is_complex();
        let is_function = is_float && step.meaning.is_some_and(|m| is_function(m.op));
        let bytes = operand.size_bytes().max(result.size_bytes());
        bytes.div_ceil(WORK_BYTES) * if is_function { FUNCTION_WORK } else { 1 }
    }

    /// Elements of a tile that keep its scratch in the first-level cache; no more than `count` needs.
    pub fn tile(&self, count: usize) -> usize {
        let per_element = self.scratch_per_element.max(8) as usize;
        let tile = (SCRATCH_TARGET / per_element).clamp(MIN_TILE, MAX_TILE);
        let tile = tile - tile % vector_bytecode::MAX_BLOCK;
        tile.min(count.next_multiple_of(64)).max(64)
    }

    /// The registers a task reads from memory.
    fn reads<'p>(&'p self, task: &'p Task) -> &'p [Register] {
        match task {
            Task::Step(at) => self.steps[*at as usize].reads(),
            Task::Vector(task) => task.inputs(),
        }
    }

    /// The registers a task writes to memory.
    fn writes<'p>(&'p self, task: &'p Task) -> &'p [Register] {
        match task {
            Task::Step(at) => std::slice::from_ref(&self.steps[*at as usize].result),
            Task::Vector(task) => task.outputs(),
        }
    }

    /// Constants that kernels hold themselves need no tile of copies.
    pub(super) fn drop_unread_constants(&mut self) {
        let mut is_read = vec![false; self.types.len()];
        for task in &self.tasks {
            for register in self.reads(task) {
                is_read[register.0 as usize] = true;
            }
        }
        for register in &self.outputs {
            is_read[register.0 as usize] = true;
        }
        for (home, is_read) in self.homes.iter_mut().zip(is_read) {
            if let Home::Constant(_) = home
                && !is_read
            {
                *home = Home::External;
            }
        }
    }

    pub(super) fn assign_slots(&mut self) {
        let count = self.types.len();
        let mut last_read = vec![0usize; count];
        let mut written = vec![usize::MAX; count];
        for (at, task) in self.tasks.iter().enumerate() {
            for operand in self.reads(task) {
                last_read[operand.0 as usize] = at;
            }
            for result in self.writes(task) {
                written[result.0 as usize] = at;
            }
        }
        let last_input_read = self
            .inputs
            .iter()
            .map(|r| last_read[r.0 as usize])
            .max()
            .unwrap_or(0);
        self.in_place = self
            .outputs
            .iter()
            .map(|r| {
                written[r.0 as usize] != usize::MAX && written[r.0 as usize] >= last_input_read
            })
            .collect();
        let is_output = |r: usize| self.outputs.iter().any(|o| o.0 as usize == r);
        let mut free: SmallVec<[(u32, u32); 16]> = SmallVec::new();
        let mut top = 0u32;
        let mut homes = self.homes.clone();
        for (at, task) in self.tasks.iter().enumerate() {
            // A task may write onto an operand of the same size, so operands that die here give
            // their slot first.
            for operand in self.reads(task) {
                let r = operand.0 as usize;
                if let Home::Slot(offset) = homes[r]
                    && last_read[r] == at
                    && !is_output(r)
                {
                    let entry = (self.types[r].size_bytes() as u32, offset);
                    if !free.contains(&entry) {
                        free.push(entry);
                    }
                }
            }
            for result in self.writes(task) {
                let result = result.0 as usize;
                let size = self.types[result].size_bytes() as u32;
                let slot = match free.iter().position(|&(s, _)| s == size) {
                    Some(found) => free.swap_remove(found).1,
                    None => {
                        let slot = top.next_multiple_of(size);
                        top = slot + size;
                        slot
                    }
                };
                homes[result] = Home::Slot(slot);
            }
        }
        for (r, home) in homes.iter().enumerate() {
            if let Home::Constant(_) = home {
                top += self.types[r].size_bytes() as u32;
            }
        }
        self.homes = homes;
        self.scratch_per_element = top + EXTERNAL_BYTES;
    }

    /// Bytes of slots and constants per element of a tile.
    pub fn slot_bytes(&self) -> usize {
        self.scratch_per_element.saturating_sub(EXTERNAL_BYTES) as usize
    }

    /// Bytes of scratch its vector bytecode needs.
    pub fn vector_scratch(&self) -> usize {
        let each = self.tasks.iter().map(|task| match task {
            Task::Step(_) => 0,
            Task::Vector(task) => task.code.scratch_bytes(),
        });
        each.max().unwrap_or(0)
    }

    /// Whether the program only copies inputs to outputs.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hlorun_kernels::{BinaryOp, UnaryOp};

    #[test]
    fn the_same_steps_are_one_but_outputs_have_their_own_memory() {
        let mut builder = ProgramBuilder::new();
        let (x, y) = (
            builder.input(PrimitiveType::F32),
            builder.input(PrimitiveType::F32),
        );
        // No step is run, so the kernel does not matter.
        let mut step = |op, operands: &[Register]| {
            let meaning = Some(Meaning::of(Op::Binary(op)));
            builder.known_step(Kernel::Copy(4), meaning, operands, PrimitiveType::F32)
        };
        let sum = step(BinaryOp::Add, &[x, y]);
        assert_eq!(step(BinaryOp::Add, &[x, y]), sum);
        assert_ne!(step(BinaryOp::Add, &[y, x]), sum);
        let product = step(BinaryOp::Multiply, &[x, y]);
        assert_ne!(product, sum);
        assert_eq!(builder.shared, 1);
        let program = builder.finish(&[sum, product, sum]);
        assert_eq!(program.outputs[..2], [sum, product]);
        let copy = program.steps.last().expect("a step");
        assert_eq!(
            (copy.result, copy.reads()),
            (program.outputs[2], &[sum][..])
        );
        assert_eq!(program.steps.len(), 4);
    }

    #[test]
    fn functions_and_wide_elements_are_more_work() {
        let work = |ty, op| {
            let mut builder = ProgramBuilder::new();
            let x = builder.input(ty);
            // No step is run, so the kernel does not matter.
            let meaning = Some(Meaning::of(Op::Unary(op)));
            let y = builder.known_step(Kernel::Copy(1), meaning, &[x], ty);
            builder.finish(&[y]).work
        };
        assert_eq!(work(PrimitiveType::S8, UnaryOp::Negate), 2);
        assert_eq!(work(PrimitiveType::F32, UnaryOp::Negate), 2);
        assert_eq!(work(PrimitiveType::F64, UnaryOp::Negate), 3);
        assert_eq!(work(PrimitiveType::F32, UnaryOp::Exp), 1 + FUNCTION_WORK);
        assert_eq!(work(PrimitiveType::S32, UnaryOp::PopulationCount), 2);
    }
}
