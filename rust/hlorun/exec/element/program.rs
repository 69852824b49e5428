//! Runs a [`Program`] on one tile.

use hlorun_kernels::Scratch;
use hlorun_kernels::vector_bytecode::{MAX_BLOCK, OutsideValue};

use crate::buffers::{ALIGNMENT, AlignedBytes};
use crate::error::Result;
use crate::plan::element::elementwise::Kernel;
use crate::plan::element::program::{Home, Program, Register, Task};

/// Scratch memory and register addresses of one thread running one program.
pub struct Frame {
    /// Where each register's elements are now; then, in the same order, their places in the frame's own memory.
    pointers: Vec<*mut u8>,
    tile: usize,
    /// Inputs that are the same everywhere and read by vector bytecode alone: they have memory for a block, not for a tile.
    fixed: Vec<Register>,
    _scratch: Scratch,
    /// Inside the scratch.
    vector_scratch: *mut u8,
    /// A tile and a period of inputs that repeat, by input; filled by who made the frame, where there are any.
    pub periods: Vec<Option<AlignedBytes>>,
}

impl Frame {
    /// A frame for tiles of at most `tile` elements; constants are filled in.
    pub fn new(program: &Program, tile: usize) -> Result<Frame> {
        Frame::with_staging(program, tile, std::iter::empty(), |_| false)
    }

    /// A frame that also has memory of its own for the inputs `staged`, which are gathered into it; those for which
    /// `is_constant` holds are filled with one element.
    pub fn with_staging(
        program: &Program,
        tile: usize,
        staged: impl Iterator<Item = Register> + Clone,
        is_constant: impl Fn(Register) -> bool,
    ) -> Result<Frame> {
        let tile = tile.next_multiple_of(64);
        let constants = staged.clone().filter(|&register| is_constant(register));
        let fixed: Vec<Register> = constants.filter(|&r| is_of_blocks(program, r)).collect();
        let bytes = |register: Register| {
            let count = if fixed.contains(&register) {
                MAX_BLOCK
            } else {
                tile
            };
            program.types[register.0 as usize].size_bytes() * count
        };
        let staging: usize = staged.clone().map(bytes).sum();
        let slots_end = program.slot_bytes() * tile;
        let vector_scratch_at = (slots_end + staging).next_multiple_of(ALIGNMENT);
        let vector = program.vector_scratch();
        let mut scratch = Scratch::new::<u8>(vector_scratch_at + vector + ALIGNMENT)?;
        let base: *mut u8 = scratch.get();
        // SAFETY: the scratch ends after that many bytes.
        let vector = unsafe {
            let at = base.add(vector_scratch_at);
            at.write_bytes(0, vector);
            at
        };
        let mut top = program
            .homes
            .iter()
            .zip(&program.types)
            .filter_map(|(home, ty)| match home {
                Home::Slot(offset) => Some((*offset as usize + ty.size_bytes()) * tile),
                _ => None,
            })
            .max()
            .unwrap_or(0);
        let mut slots = Vec::with_capacity(2 * program.homes.len());
        for (home, ty) in program.homes.iter().zip(&program.types) {
            let size = ty.size_bytes();
            slots.push(match *home {
                Home::External => std::ptr::null_mut(),
                // SAFETY: slots lie below `slot_bytes() * tile`.
                Home::Slot(offset) => unsafe { base.add(offset as usize * tile) },
                Home::Constant(index) => {
                    // SAFETY: constants follow the slots; their sizes are counted in
                    // `slot_bytes()`.
                    unsafe {
                        let at = base.add(top);
                        let value = &program.constants[index as usize];
                        hlorun_kernels::fill(size, value.as_ptr(), at, tile);
                        top += size * tile;
                        at
                    }
                }
            });
        }
        let mut top = slots_end;
        for register in staged {
            // SAFETY: staging was counted above and begins after everything else.
            slots[register.0 as usize] = unsafe { base.add(top) };
            top += bytes(register);
        }
        slots.extend_from_within(..);
        Ok(Frame {
            pointers: slots,
            tile,
            fixed,
            _scratch: scratch,
            vector_scratch: vector,
            periods: Vec::new(),
        })
    }

    /// A frame for code over rows, which has no tiles: `scratch` bytes for vector bytecode, zero, and `copies` bytes for copies of
    /// operands.
    pub fn of_vector_bytecode(scratch: usize, copies: usize) -> Result<Frame> {
        let scratch = scratch.next_multiple_of(ALIGNMENT);
        let mut all = Scratch::new::<u8>(scratch + copies + ALIGNMENT)?;
        let base: *mut u8 = all.get();
        // SAFETY: it has that many bytes.
        unsafe { base.write_bytes(0, scratch) };
        Ok(Frame {
            pointers: vec![base.wrapping_add(scratch)],
            tile: 0,
            fixed: Vec::new(),
            _scratch: all,
            vector_scratch: base,
            periods: Vec::new(),
        })
    }

    /// The scratch and the copies of [`Frame::of_vector_bytecode`].
    pub fn vector_memory(&mut self) -> (*mut u8, *mut u8) {
        (self.vector_scratch, self.pointers[0])
    }

    /// Most elements a run may have.
    pub fn tile(&self) -> usize {
        self.tile
    }

    /// Elements that the frame has of an input filled with one of them: a block where vector bytecode alone reads it, else a tile.
    pub fn constant_room(&self, register: Register) -> usize {
        match self.fixed.contains(&register) {
            true => MAX_BLOCK,
            false => self.tile,
        }
    }

    /// Where a register's elements are now.
    pub fn pointer(&self, register: Register) -> *mut u8 {
        self.pointers[register.0 as usize]
    }

    /// Lets a register live at `pointer` until told otherwise.
    pub fn bind(&mut self, register: Register, pointer: *mut u8) {
        self.pointers[register.0 as usize] = pointer;
    }

    /// Puts a register back into the frame's own memory.
    pub fn unbind(&mut self, register: Register) {
        let own = self.pointers.len() / 2 + register.0 as usize;
        self.pointers[register.0 as usize] = self.pointers[own];
    }

    /// Computes `n` elements of every output.
    ///
    /// # Safety
    ///
    /// Every input, and every register bound to outside memory, points to `n` elements of its type,
    /// and `n` is at most the tile.
    pub unsafe fn run(&self, program: &Program, n: usize) {
        debug_assert!(n <= self.tile);
        let at = |register: Register| self.pointers[register.0 as usize];
        for task in &program.tasks {
            let step = match task {
                Task::Step(index) => &program.steps[*index as usize],
                Task::Vector(task) => {
                    let outside = task.outside.iter().map(|&register| OutsideValue {
                        address: at(register),
                        is_fixed: self.fixed.contains(&register),
                    });
                    // SAFETY: as for steps; the scratch is large enough for every piece of vector bytecode.
                    unsafe { task.code.run(outside, n, self.vector_scratch) };
                    continue;
                }
            };
            let out = at(step.result);
            let [a, b, c] = step.operands;
            // SAFETY: by the caller's promise and the slot assignment, all pointers hold `n`
            // elements; kernels allow the result to be exactly an operand.
            unsafe {
                match step.kernel {
                    Kernel::Unary(f) => f(at(a), out, n),
                    Kernel::Binary(f) => f(at(a), at(b), out, n),
                    Kernel::WithScalar(f, ref value) => f(at(a), value.as_ptr(), out, n),
                    Kernel::Ternary(f) => f(at(a), at(b), at(c), out, n),
                    Kernel::ReducePrecision(f) => f.run(at(a), out, n),
                    Kernel::Copy(size) => std::ptr::copy(at(a), out, n * size),
                }
            }
        }
    }
}

/// Whether vector bytecode alone reads an input, block by block.
fn is_of_blocks(program: &Program, input: Register) -> bool {
    let reads = |task: &Task| match task {
        Task::Step(index) => program.steps[*index as usize].reads().contains(&input),
        Task::Vector(_) => false,
    };
    !program.outputs.contains(&input) && !program.tasks.iter().any(reads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::element::program::Meaning;
    use crate::plan::element::program::ProgramBuilder;
    use crate::types::PrimitiveType as P;
    use hlorun_kernels::vector_bytecode::Op;
    use hlorun_kernels::{BinaryOp, DType};

    /// `(x·y + 2)² - x`, and `x·y` besides.
    fn program() -> Program {
        let mut b = ProgramBuilder::new();
        let (x, y) = (b.input(P::F32), b.input(P::F32));
        let two = b.constant(P::F32, &2f32.to_ne_bytes());
        let mut step = |op, x, y| {
            let kernel = Kernel::Binary(hlorun_kernels::binary(op, DType::F32).unwrap());
            b.known_step(kernel, Some(Meaning::of(Op::Binary(op))), &[x, y], P::F32)
        };
        let product = step(BinaryOp::Multiply, x, y);
        let sum = step(BinaryOp::Add, product, two);
        let square = step(BinaryOp::Multiply, sum, sum);
        let result = step(BinaryOp::Subtract, square, x);
        b.finish(&[result, product])
    }

    fn run(program: &Program, x: &mut [f32], y: &mut [f32]) -> [Vec<f32>; 2] {
        let n = x.len();
        let mut frame = Frame::new(program, n).unwrap();
        let mut out = [vec![0f32; n], vec![0f32; n]];
        frame.bind(program.inputs[0], x.as_mut_ptr().cast());
        frame.bind(program.inputs[1], y.as_mut_ptr().cast());
        for (register, out) in program.outputs.iter().zip(&mut out) {
            frame.bind(*register, out.as_mut_ptr().cast());
        }
        // SAFETY: all arrays hold as many elements.
        unsafe { frame.run(program, n) };
        out
    }

    #[test]
    fn vector_bytecode_gives_the_same() {
        let plain = program();
        let joined = plain.clone().with_vector_bytecode();
        for n in [1, 15, 128, 300] {
            let mut x: Vec<f32> = (0..n).map(|i| i as f32 * 0.37 - 50.0).collect();
            let mut y: Vec<f32> = (0..n).map(|i| 3.0 - i as f32 * 0.11).collect();
            let want = run(&plain, &mut x, &mut y);
            assert_eq!(run(&joined, &mut x, &mut y), want, "{n}");
        }
    }
}
