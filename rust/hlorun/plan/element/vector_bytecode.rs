//! `vector-bytecode`: which steps of a program run together, as one [`VectorBytecode`]: neighbours of
//! one width, each an operation that vector bytecode has.
//!
//! In: a program's steps. Out: its tasks. Vector bytecode keeps what its steps pass to each other in
//! registers, where single steps write and read a tile each; what it computes is the same to the bit.

use hlorun_kernels::vector_bytecode::{
    self, ColumnFold, Op, Operand, RowCode, VectorBytecode, Width,
};
use hlorun_kernels::{BinaryOp, DType, Side, UnaryOp};
use rustc_hash::FxHashMap;

use super::elementwise::{Kernel, dtype};
use super::program::VectorTask;
use super::program::{Home, Program, Register, Step, Task};
use crate::plan::cost::vector_bytecode::{MAX_STEPS, MIN_SHARED_WEIGHT, MIN_WEIGHT};

/// Name by which it is switched off.
pub const NAME: &str = "vector-bytecode";
impl Program {
    /// The same program with neighbouring steps joined into vector bytecode, for tiles of more than a few elements.
    pub fn with_vector_bytecode(mut self) -> Program {
        let tasks = tasks(&self);
        if tasks.iter().any(|task| matches!(task, Task::Vector(_))) {
            self.tasks = tasks;
            for home in &mut self.homes {
                if let Home::Slot(_) = home {
                    *home = Home::External;
                }
            }
            self.drop_unread_constants();
            self.assign_slots();
        }
        self
    }

    /// The values of the one output and their combination by `op` with the results so far, in one pass; inputs for which
    /// `is_single` holds have one element for all columns of a row. `None` where vector bytecode has no such steps.
    pub fn column_fold(&self, is_single: &[bool], op: BinaryOp) -> Option<ColumnFold> {
        let [output] = self.outputs[..] else {
            return None;
        };
        let ty = dtype(self.types[output.0 as usize])?;
        let so_far = self.inputs.len();
        let (mut types, mut steps) = self.as_vector_steps(so_far + 1)?;
        steps.push(vector_bytecode::Step {
            op: Op::Binary(op),
            operands: [
                Operand::Value(so_far as u32),
                self.vector_operand(output, so_far + 1)?,
                Operand::Constant([0; 16]),
            ],
            count: 2,
            from: ty,
            to: ty,
        });
        types.push(ty);
        ColumnFold::new(&types, is_single, &steps)
    }

    /// The whole program over rows; inputs for which `is_single` holds have one element for all columns of a row. It stores the
    /// registers `outputs`. `None` where vector bytecode has no such steps, or an output is no result of a step.
    pub fn row_code(&self, is_single: &[bool], outputs: &[Register]) -> Option<RowCode> {
        let count = self.inputs.len();
        let (types, steps) = self.as_vector_steps(count)?;
        let result = |&register| match self.vector_operand(register, count)? {
            Operand::Value(value) => Some(value),
            Operand::Constant(_) => None,
        };
        let results = outputs.iter().map(result).collect::<Option<Vec<_>>>()?;
        RowCode::new(&types, is_single, &steps, &results)
    }

    /// Types of the inputs, and all steps as those of vector bytecode with `inputs` inputs, of which the program's are the first.
    fn as_vector_steps(&self, inputs: usize) -> Option<(Vec<DType>, Vec<vector_bytecode::Step>)> {
        let types = self.inputs.iter();
        let types = types.map(|register| dtype(self.types[register.0 as usize]));
        let steps = self.steps.iter().map(|step| {
            step_width(self, step)?;
            vector_step(self, step, &|register| {
                self.vector_operand(register, inputs)
            })
        });
        Some((types.collect::<Option<_>>()?, steps.collect::<Option<_>>()?))
    }

    /// A register as an operand of [`Program::as_vector_steps`].
    fn vector_operand(&self, register: Register, inputs: usize) -> Option<Operand> {
        let constant = self.values.iter().find(|value| value.0 == register);
        if let Some(&(_, index)) = constant {
            return Some(Operand::Constant(self.constants[index as usize]));
        }
        let input = self.inputs.iter().position(|&input| input == register);
        let result = || self.steps.iter().position(|step| step.result == register);
        let value = input.or_else(|| Some(inputs + result()?))?;
        Some(Operand::Value(value as u32))
    }

    /// Lets the pieces of vector bytecode become machine code once each was interpreted for about `least` cycles.
    pub fn make_machine_code_after(&mut self, least: u64) {
        for task in &mut self.tasks {
            if let Task::Vector(task) = task {
                task.code.make_machine_code_after(least);
            }
        }
    }

    /// The same program step by step, for tiles of few elements; `None` where it is that already. An output
    /// that could be written into memory which an input occupies may no longer be: see
    /// [`Program::in_place`].
    pub fn step_by_step(&self) -> Option<Program> {
        let is_joined = |task: &Task| matches!(task, Task::Vector(_));
        if !self.tasks.iter().any(is_joined) {
            return None;
        }
        let mut program = self.clone();
        program.tasks = (0..self.steps.len() as u32).map(Task::Step).collect();
        for home in &mut program.homes {
            *home = Home::External;
        }
        for &(register, value) in &self.values {
            program.homes[register.0 as usize] = Home::Constant(value);
        }
        program.drop_unread_constants();
        program.assign_slots();
        Some(program)
    }
}

/// The tasks of `program`, vector bytecode where it pays.
fn tasks(program: &Program) -> Vec<Task> {
    let mut reads: FxHashMap<Register, usize> = FxHashMap::default();
    for step in &program.steps {
        for &register in step.reads() {
            *reads.entry(register).or_default() += 1;
        }
    }
    for &register in &program.outputs {
        *reads.entry(register).or_default() += 1;
    }
    let mut tasks = Vec::new();
    let mut begin = 0;
    while begin < program.steps.len() {
        let mut end = begin;
        let mut width = Width::Truth;
        while end < program.steps.len() && end - begin < MAX_STEPS {
            let step = &program.steps[end];
            match step_width(program, step) {
                Some(Width::Truth) => {}
                Some(own) if width == Width::Truth || width == own => width = own,
                _ => break,
            }
            end += 1;
        }
        join(program, &reads, begin, end, &mut tasks);
        if end == begin {
            tasks.push(Task::Step(end as u32));
            end += 1;
        }
        begin = end;
    }
    tasks
}

/// Steps `begin..end` as one piece, as several where one would be too large, or as they are.
///
/// Recursion halves the range.
fn join(
    program: &Program,
    reads: &FxHashMap<Register, usize>,
    begin: usize,
    end: usize,
    tasks: &mut Vec<Task>,
) {
    let weights = program.steps[begin..end]
        .iter()
        .map(|step| weight(program, step));
    let least = match program.outputs.len() {
        0 | 1 => MIN_WEIGHT,
        _ => MIN_SHARED_WEIGHT,
    };
    let is_light = weights.sum::<usize>() < least;
    let task = match is_light {
        true => None,
        false => build(program, reads, begin, end),
    };
    if let Some(task) = task {
        tasks.push(Task::Vector(Box::new(task)));
    } else if is_light || end - begin < 2 {
        tasks.extend((begin..end).map(|at| Task::Step(at as u32)));
    } else {
        let middle = begin + (end - begin) / 2;
        join(program, reads, begin, middle, tasks);
        join(program, reads, middle, end, tasks);
    }
}

/// What vector bytecode spares a step: its passes over a tile, which are more where a narrow float is
/// widened and rounded around the operation. A call spares nothing.
fn weight(program: &Program, step: &Step) -> usize {
    // A narrow float keeps its form in these.
    let works_on_bits = |op| {
        matches!(
            op,
            Op::Convert
                | Op::Bitcast
                | Op::Select
                | Op::Unary(UnaryOp::Negate | UnaryOp::Abs | UnaryOp::IsFinite)
        )
    };
    match (step.meaning, source(program, step)) {
        (Some(meaning), Some(DType::BF16 | DType::F16)) if !works_on_bits(meaning.op) => 3,
        (Some(meaning), Some(from)) => usize::from(!vector_bytecode::is_call(meaning.op, from)),
        _ => 0,
    }
}

/// The type of a step's operands; of the values it chooses from, where it selects.
fn source(program: &Program, step: &Step) -> Option<DType> {
    let is_select = step.meaning.is_some_and(|meaning| meaning.op == Op::Select);
    let operand = step.operands[usize::from(is_select)];
    dtype(program.types[operand.0 as usize])
}

/// The width of the vector bytecode that can do the step.
fn step_width(program: &Program, step: &Step) -> Option<Width> {
    let op = step.meaning?.op;
    let (from, to) = (
        source(program, step)?,
        dtype(program.types[step.result.0 as usize])?,
    );
    let has_mask_constant = step.reads().iter().any(|register| {
        program.types[register.0 as usize] == crate::types::PrimitiveType::Pred
            && matches!(program.homes[register.0 as usize], Home::Constant(_))
    });
    if !vector_bytecode::is_supported(op, from, to) || has_mask_constant {
        return None;
    }
    match (vector_bytecode::width(from)?, vector_bytecode::width(to)?) {
        (Width::Truth, width) | (width, Width::Truth) => Some(width),
        (width, other) => (width == other).then_some(width),
    }
}

/// A step of a program as one of vector bytecode; `operand` translates registers.
fn vector_step(
    program: &Program,
    step: &Step,
    operand: &dyn Fn(Register) -> Option<Operand>,
) -> Option<vector_bytecode::Step> {
    let meaning = step.meaning?;
    let registers = step.reads();
    let mut operands = [Operand::Constant([0; 16]); 3];
    for (to, &register) in operands.iter_mut().zip(registers) {
        *to = operand(register)?;
    }
    let mut count = registers.len();
    if let (Some(side), Kernel::WithScalar(_, value)) = (meaning.side, step.kernel) {
        operands[1] = Operand::Constant(value);
        if side == Side::Left {
            operands.swap(0, 1);
        }
        count = 2;
    }
    Some(vector_bytecode::Step {
        op: meaning.op,
        operands,
        count: count as u8,
        from: source(program, step)?,
        to: dtype(program.types[step.result.0 as usize])?,
    })
}

fn build(
    program: &Program,
    reads: &FxHashMap<Register, usize>,
    begin: usize,
    end: usize,
) -> Option<VectorTask> {
    let steps = &program.steps[begin..end];
    let computed: FxHashMap<Register, usize> = steps
        .iter()
        .enumerate()
        .map(|(at, step)| (step.result, at))
        .collect();
    let mut inputs: Vec<Register> = Vec::new();
    let mut inside: FxHashMap<Register, usize> = FxHashMap::default();
    for step in steps {
        for &register in step.reads() {
            *inside.entry(register).or_default() += 1;
            let is_constant = matches!(program.homes[register.0 as usize], Home::Constant(_));
            if !is_constant && !computed.contains_key(&register) && !inputs.contains(&register) {
                inputs.push(register);
            }
        }
    }
    let operand = |register: Register| match program.homes[register.0 as usize] {
        Home::Constant(index) => Some(Operand::Constant(program.constants[index as usize])),
        _ => {
            let value = match computed.get(&register) {
                Some(at) => inputs.len() + at,
                None => inputs.iter().position(|&input| input == register)?,
            };
            Some(Operand::Value(value as u32))
        }
    };
    let vector_steps = steps
        .iter()
        .map(|step| vector_step(program, step, &operand))
        .collect::<Option<Vec<_>>>()?;
    let outputs: Vec<Register> = steps
        .iter()
        .map(|step| step.result)
        .filter(|result| reads.get(result) != inside.get(result))
        .collect();
    let types = inputs
        .iter()
        .map(|register| dtype(program.types[register.0 as usize]))
        .collect::<Option<Vec<_>>>()?;
    let stored: Vec<u32> = outputs
        .iter()
        .map(|register| (inputs.len() + computed[register]) as u32)
        .collect();
    let code = VectorBytecode::new(&types, &vector_steps, &stored)?;
    let reads = inputs.len();
    let mut outside = inputs;
    outside.extend(outputs);
    Some(VectorTask {
        code,
        outside,
        reads,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::element::program::Meaning;
    use crate::plan::element::program::ProgramBuilder;
    use crate::types::PrimitiveType as P;
    use hlorun_kernels::UnaryOp;

    fn binary(b: &mut ProgramBuilder, op: BinaryOp, x: Register, y: Register) -> Register {
        let kernel = Kernel::Binary(hlorun_kernels::binary(op, DType::F32).unwrap());
        b.known_step(kernel, Some(Meaning::of(Op::Binary(op))), &[x, y], P::F32)
    }

    fn unary(b: &mut ProgramBuilder, op: UnaryOp, x: Register) -> Register {
        let kernel = Kernel::Unary(hlorun_kernels::unary(op, DType::F32).unwrap());
        b.known_step(kernel, Some(Meaning::of(Op::Unary(op))), &[x], P::F32)
    }

    /// `(x·y + 2)² - x`, and a step in between that vector bytecode does not know.
    fn program(breaks: bool) -> Program {
        let mut b = ProgramBuilder::new();
        let (x, y) = (b.input(P::F32), b.input(P::F32));
        let two = b.constant(P::F32, &2f32.to_ne_bytes());
        let product = binary(&mut b, BinaryOp::Multiply, x, y);
        let mut sum = binary(&mut b, BinaryOp::Add, product, two);
        if breaks {
            let floor = Kernel::Unary(hlorun_kernels::unary(UnaryOp::Floor, DType::F32).unwrap());
            sum = b.step(floor, &[sum], P::F32);
        }
        let square = binary(&mut b, BinaryOp::Multiply, sum, sum);
        let result = binary(&mut b, BinaryOp::Subtract, square, x);
        b.finish(&[result])
    }

    #[test]
    fn what_cannot_be_built_stays_a_step() {
        let mut b = ProgramBuilder::new();
        let x = b.input(P::BF16);
        let half = b.constant(P::BF16, &0x3f00u16.to_ne_bytes());
        let tanh = Kernel::Unary(hlorun_kernels::unary(UnaryOp::Tanh, DType::BF16).unwrap());
        let add = Kernel::Binary(hlorun_kernels::binary(BinaryOp::Add, DType::BF16).unwrap());
        let meaning = |op| Some(Meaning::of(op));
        let called = b.known_step(tanh, meaning(Op::Unary(UnaryOp::Tanh)), &[half], P::BF16);
        let sum = meaning(Op::Binary(BinaryOp::Add));
        let sum = b.known_step(add, sum, &[x, called], P::BF16);
        let program = b.finish(&[called, sum]).with_vector_bytecode();
        assert!(matches!(program.tasks[0], Task::Step(0)));
    }

    #[test]
    fn vector_bytecode_needs_neighbours_and_enough_of_them() {
        if !vector_bytecode::is_supported(Op::Unary(UnaryOp::Negate), DType::F32, DType::F32) {
            return;
        }
        let is_vector = |task: &Task| matches!(task, Task::Vector(_));
        assert!(
            program(false)
                .with_vector_bytecode()
                .tasks
                .iter()
                .all(is_vector)
        );
        assert!(
            !program(true)
                .with_vector_bytecode()
                .tasks
                .iter()
                .any(is_vector)
        );
        // Calls do not count.
        let mut b = ProgramBuilder::new();
        let x = b.input(P::F32);
        let mut value = x;
        for op in [UnaryOp::Exp, UnaryOp::Log, UnaryOp::Negate, UnaryOp::Tanh] {
            value = unary(&mut b, op, value);
        }
        assert!(
            !b.finish(&[value])
                .with_vector_bytecode()
                .tasks
                .iter()
                .any(is_vector)
        );
    }

    #[test]
    fn steps_come_apart_again() {
        let plain = program(false);
        let joined = plain.clone().with_vector_bytecode();
        if joined.tasks.len() == plain.tasks.len() {
            return;
        }
        let apart = joined.step_by_step().unwrap();
        assert_eq!(
            (&apart.homes, apart.slot_bytes()),
            (&plain.homes, plain.slot_bytes())
        );
        assert_eq!(apart.in_place, plain.in_place);
        assert_eq!(apart.tasks.len(), plain.steps.len());
        assert!(plain.step_by_step().is_none());
        // The first output is written before an input is read for the last time.
        let mut b = ProgramBuilder::new();
        let (x, y) = (b.input(P::F32), b.input(P::F32));
        let first = binary(&mut b, BinaryOp::Multiply, x, y);
        let second = binary(&mut b, BinaryOp::Add, first, y);
        let third = binary(&mut b, BinaryOp::Subtract, second, x);
        let last = binary(&mut b, BinaryOp::Multiply, third, x);
        let joined = b.finish(&[first, last]).with_vector_bytecode();
        assert_eq!(joined.in_place, [true, true]);
        assert_eq!(joined.step_by_step().unwrap().in_place, [false, true]);
    }

    #[test]
    fn only_what_others_read_is_stored() {
        let joined = program(false).with_vector_bytecode();
        if let [Task::Vector(task)] = &joined.tasks[..] {
            assert_eq!(task.outputs(), &joined.outputs[..]);
            assert_eq!(task.inputs(), &joined.inputs[..]);
            // One slot of four bytes for the result; the constant needs none.
            assert_eq!(joined.slot_bytes(), 4);
        }
    }
}
