//! Vector bytecode against the kernels of their operations, one at a time.

use super::{MAX_BLOCK, Op, Operand, OutsideValue, Step, VectorBytecode, is_supported};
use crate::ops::{BinaryOp, CompareDirection, CompareOrder, UnaryOp};
use crate::table::{binary_on, clamp_on, compare_on, select_on, unary_on};
use crate::{DType, Isa, convert_on};

mod registers;

struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.next() % of.len()]
    }
}

/// `n` elements, special ones among them.
fn elements(random: &mut Random, dtype: DType, n: usize) -> Vec<u8> {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        2.5,
        -7.0,
        3e9,
        -3e9,
        // Of type `f32` a subnormal number, and factors of such.
        -1e-40,
        1e-30,
        -2e-10,
    ];
    let values: Vec<f64> = (0..n)
        .map(|_| match random.next() % 3 {
            0 => random.pick(&special),
            _ => random.next() as f64 / 1e8 - 10.0,
        })
        .collect();
    let mut bytes = vec![0u8; n * dtype.size_bytes()];
    let kernel = convert_on(Isa::Portable, DType::F64, dtype);
    // SAFETY: n elements on both sides.
    unsafe { kernel(values.as_ptr().cast(), bytes.as_mut_ptr(), n) };
    bytes
}

fn same(dtype: DType, a: &[u8], b: &[u8]) -> bool {
    let n = a.len() / dtype.size_bytes();
    let wide = |x: &[u8]| {
        let mut out = vec![0f64; n];
        // SAFETY: n elements on both sides.
        unsafe {
            convert_on(Isa::Portable, dtype, DType::F64)(x.as_ptr(), out.as_mut_ptr().cast(), n)
        };
        out
    };
    a == b
        || dtype.is_float()
            && a.chunks(dtype.size_bytes())
                .zip(b.chunks(dtype.size_bytes()))
                .zip(wide(a).iter().zip(wide(b)))
                .all(|((a, b), (x, y))| a == b || x.is_nan() && y.is_nan())
}

/// The result of one step by its kernel.
fn reference(isa: Isa, step: &Step, operands: &[Vec<u8>], n: usize) -> Vec<u8> {
    let mut out = vec![0u8; n * step.to.size_bytes()];
    let to = out.as_mut_ptr();
    let at = |k: usize| operands[k].as_ptr();
    // SAFETY: every array holds n elements of its type.
    unsafe {
        match step.op {
            Op::Unary(op) => unary_on(isa, op, step.from).unwrap()(at(0), to, n),
            Op::Binary(op) => binary_on(isa, op, step.from).unwrap()(at(0), at(1), to, n),
            Op::Compare(is) => {
                compare_on(isa, is, CompareOrder::Partial, step.from).unwrap()(at(0), at(1), to, n);
            }
            Op::CompareTotal(is) => {
                compare_on(isa, is, CompareOrder::Total, step.from).unwrap()(at(0), at(1), to, n);
            }
            Op::Select => select_on(isa, step.to)(at(0), at(1), at(2), to, n),
            Op::Clamp => clamp_on(isa, step.from).unwrap()(at(0), at(1), at(2), to, n),
            Op::Convert => convert_on(isa, step.from, step.to)(at(0), to, n),
            Op::Bitcast => out.copy_from_slice(&operands[0]),
        }
    }
    out
}

const UNARY: [UnaryOp; 16] = [
    UnaryOp::Abs,
    UnaryOp::Negate,
    UnaryOp::Sign,
    UnaryOp::Floor,
    UnaryOp::Ceil,
    UnaryOp::RoundNearestEven,
    UnaryOp::RoundNearestAfz,
    UnaryOp::Not,
    UnaryOp::PopulationCount,
    UnaryOp::CountLeadingZeros,
    UnaryOp::Exp,
    UnaryOp::Log,
    UnaryOp::Tanh,
    UnaryOp::Sqrt,
    UnaryOp::Sin,
    UnaryOp::Erf,
];
const COMPARE: [CompareDirection; 6] = [
    CompareDirection::Eq,
    CompareDirection::Ne,
    CompareDirection::Lt,
    CompareDirection::Le,
    CompareDirection::Gt,
    CompareDirection::Ge,
];

/// A step on values of the given types, of which the first are `inputs`, if one was found.
fn random_step(random: &mut Random, types: &[DType], inputs: usize, all: &[DType]) -> Option<Step> {
    let from = random.pick(types);
    let operand = |random: &mut Random, dtype: DType, may_be_constant: bool, known: usize| {
        if may_be_constant && dtype != DType::Pred && random.next().is_multiple_of(4) {
            let mut bytes = [0u8; 16];
            let value = elements(random, dtype, 1);
            bytes[..value.len()].copy_from_slice(&value);
            return Some(Operand::Constant(bytes));
        }
        let known: Vec<u32> = (0..known as u32)
            .filter(|&v| types[v as usize] == dtype)
            .collect();
        (!known.is_empty()).then(|| Operand::Value(random.pick(&known)))
    };
    let (op, to, kinds): (Op, DType, &[DType]) = match random.next() % 9 {
        0 => (Op::Unary(random.pick(&UNARY)), from, &[from]),
        1..4 => (Op::Binary(random.pick(&BinaryOp::ALL)), from, &[from, from]),
        4 => (
            Op::Compare(random.pick(&COMPARE)),
            DType::Pred,
            &[from, from],
        ),
        5 => (Op::Select, from, &[DType::Pred, from, from]),
        6 => (Op::Clamp, from, &[from, from, from]),
        7 => (
            Op::CompareTotal(random.pick(&COMPARE)),
            DType::Pred,
            &[from, from],
        ),
        _ => {
            let to = random.pick(all);
            (random.pick(&[Op::Convert, Op::Bitcast]), to, &[from])
        }
    };
    if !is_supported(op, from, to) {
        return None;
    }
    let mut operands = [Operand::Value(0); 3];
    for (k, &dtype) in kinds.iter().enumerate() {
        let is_mask = matches!(op, Op::Select) && k == 0;
        // Which NaN an operation gives is not promised, and the total order tells them apart.
        let known = match op {
            Op::CompareTotal(_) => inputs,
            _ => types.len(),
        };
        operands[k] = operand(random, dtype, kinds.len() > 1 && !is_mask, known)?;
    }
    Some(Step {
        op,
        operands,
        count: kinds.len() as u8,
        from,
        to,
    })
}

/// Runs random bytecode of the types `all` on `n` elements and compares its results.
fn check(isa: Isa, seed: u64, all: &[DType], n: usize) {
    let mut random = Random(seed);
    let inputs: Vec<DType> = (0..1 + random.next() % 4)
        .map(|_| random.pick(all))
        .collect();
    let mut types = inputs.clone();
    let mut steps = Vec::new();
    let length = 1 + random.next() % 30;
    for _ in 0..20 * length {
        if steps.len() < length
            && let Some(step) = random_step(&mut random, &types, inputs.len(), all)
        {
            types.push(step.to);
            steps.push(step);
        }
    }
    if steps.is_empty() {
        return;
    }
    let mut outputs = vec![types.len() as u32 - 1];
    for _ in 0..random.next() % 3 {
        let other = (inputs.len() + random.next() % steps.len()) as u32;
        if !outputs.contains(&other) {
            outputs.push(other);
        }
    }
    let Some(code) = VectorBytecode::on(isa, &inputs, &steps, &outputs) else {
        // Values of one width only, and few enough of them.
        let wide = types
            .iter()
            .filter_map(|&t| super::width(t))
            .find(|&w| w != super::Width::Truth);
        assert!(wide.is_none() || length > 20, "{isa:?} {seed} {steps:?}");
        return;
    };
    compare(isa, seed, &code, (&inputs, &steps, &outputs), n);
}

/// Compares a run of `code`, made of these inputs, steps and outputs, with the kernels of its steps.
fn compare(
    isa: Isa,
    seed: u64,
    code: &VectorBytecode,
    (inputs, steps, outputs): (&[DType], &[Step], &[u32]),
    n: usize,
) {
    let mut random = Random(seed);
    let mut values: Vec<Vec<u8>> = inputs
        .iter()
        .map(|&t| elements(&mut random, t, n))
        .collect();
    if let Some(last) = fixed(seed, inputs) {
        let first = values[last][..inputs[last].size_bytes()].to_vec();
        values[last] = first.repeat(n);
    }
    for step in steps {
        let operands: Vec<Vec<u8>> = (0..usize::from(step.count))
            .map(|k| match step.operands[k] {
                Operand::Value(v) => values[v as usize].clone(),
                Operand::Constant(bytes) => bytes[..step.from.size_bytes()].repeat(n),
            })
            .collect();
        values.push(reference(isa, step, &operands, n));
    }
    let mut machine = code.clone();
    machine.make_machine_code_after(0);
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx512 {
        assert!(machine.has_machine_code(), "{seed} {steps:?}");
    }
    for in_place in [true, false] {
        let run = |code| {
            let all = (inputs, steps, outputs);
            compare_run(isa, seed, code, all, &values, n, in_place)
        };
        // Not even the sign of a NaN depends on when machine code is made.
        let interpreted = run(code);
        assert_eq!(interpreted, run(&machine), "{seed} {n} {steps:#?}");
        #[cfg(target_arch = "x86_64")]
        if isa == Isa::Avx512 && !machine.source().is_wide {
            let by_double = run(&code.by_double());
            assert_eq!(interpreted, by_double, "{seed} {n} {steps:#?}");
        }
    }
}

/// The input that is the same everywhere, in some of the runs.
fn fixed(seed: u64, inputs: &[DType]) -> Option<usize> {
    (seed.is_multiple_of(3) && inputs.len() > 1).then(|| inputs.len() - 1)
}

/// The same where the first result takes the place of an input, if it can and is to be `in_place`; others have memory of
/// their own. Gives back the results.
fn compare_run(
    isa: Isa,
    seed: u64,
    code: &VectorBytecode,
    (inputs, steps, outputs): (&[DType], &[Step], &[u32]),
    values: &[Vec<u8>],
    n: usize,
    in_place: bool,
) -> Vec<Vec<u8>> {
    let types: Vec<DType> = inputs
        .iter()
        .copied()
        .chain(steps.iter().map(|s| s.to))
        .collect();
    let mut memory: Vec<Vec<u8>> = values[..inputs.len()].to_vec();
    let is_same = |k: usize| inputs[k].size_bytes() == types[outputs[0] as usize].size_bytes();
    let place = (0..inputs.len()).find(|&k| is_same(k)).filter(|_| in_place);
    let fixed = fixed(seed, inputs).filter(|&k| Some(k) != place);
    if let Some(k) = fixed {
        memory[k] = memory[k][..inputs[k].size_bytes()].repeat(MAX_BLOCK);
    }
    let places: Vec<usize> = outputs
        .iter()
        .enumerate()
        .map(|(k, &value)| match place {
            Some(place) if k == 0 => place,
            _ => {
                memory.push(vec![0x55; n * types[value as usize].size_bytes()]);
                memory.len() - 1
            }
        })
        .collect();
    let mut scratch = vec![0u64; code.scratch_bytes() / 8 + 8];
    let addresses: Vec<*mut u8> = memory.iter_mut().map(|m| m.as_mut_ptr()).collect();
    let outside: Vec<OutsideValue> = (0..inputs.len())
        .chain(places.iter().copied())
        .map(|k| OutsideValue {
            address: addresses[k],
            is_fixed: Some(k) == fixed,
        })
        .collect();
    // SAFETY: every array holds n elements, or a block of the same ones; the scratch is as large as asked for.
    unsafe { code.run(outside.into_iter(), n, scratch.as_mut_ptr().cast()) };
    for (&value, &place) in outputs.iter().zip(&places) {
        let dtype = types[value as usize];
        assert!(
            same(dtype, &memory[place], &values[value as usize]),
            "{isa:?} seed {seed} n {n} value {value} {dtype:?}\n{inputs:?}\n{steps:#?}",
        );
    }
    places.into_iter().map(|k| memory[k].clone()).collect()
}

#[test]
fn bytecode_gives_what_its_kernels_give() {
    use DType::{BF16, F16, F32, F64, Pred, S32, S64, U32, U64};
    let families: [&[DType]; 6] = [
        &[F32],
        &[F32, S32, U32, Pred],
        &[F32, BF16, Pred],
        &[F32, F16, Pred],
        &[F64, Pred],
        &[F64, S64, U64, Pred],
    ];
    for isa in Isa::available() {
        if isa == Isa::Portable {
            continue;
        }
        for (k, family) in families.iter().enumerate() {
            for seed in 0..400 {
                let n = [1, 3, 16, 37, 96, 127, 128, 129, 158, 300][seed as usize % 10];
                check(isa, seed * 6 + k as u64, family, n);
            }
        }
    }
}

/// Rounds of add, turn and exclusive or, of which sums and turns are read in all the ways that keep them from being one
/// operation, or do not.
#[test]
fn turns_and_mixes_give_what_their_steps_give() {
    let small = |value: u16| {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&value.to_le_bytes());
        Operand::Constant(bytes)
    };
    for isa in Isa::available()
        .into_iter()
        .filter(|&isa| isa != Isa::Portable)
    {
        for dtype in [DType::U32, DType::S32, DType::U64] {
            for seed in 0..200u64 {
                let mut random = Random(seed * 77 + 5);
                let inputs = [dtype; 4];
                let mut steps: Vec<Step> = Vec::new();
                let mut add = |op, x: Operand, y: Operand| {
                    steps.push(Step {
                        op: Op::Binary(op),
                        operands: [x, y, x],
                        count: 2,
                        from: dtype,
                        to: dtype,
                    });
                    Operand::Value(3 + steps.len() as u32)
                };
                let (mut x, mut y) = (Operand::Value(0), Operand::Value(1));
                let mut seen = Vec::new();
                for _ in 0..1 + random.next() % 6 {
                    let (left, right) = match random.next() % 3 {
                        0 => (Operand::Value(2), Operand::Value(3)),
                        1 => (small(13), Operand::Value(2)),
                        _ => {
                            let by = (random.next() % 70) as u16;
                            let bits = random.pick(&[32, 8 * dtype.size_bytes() as u16]);
                            (small(by), small(bits.abs_diff(by)))
                        }
                    };
                    let sum = match random.next() % 2 {
                        0 => add(BinaryOp::Add, x, y),
                        _ => add(BinaryOp::Add, y, x),
                    };
                    if random.next().is_multiple_of(4) {
                        seen.push(add(BinaryOp::Multiply, sum, x));
                    }
                    let high = add(BinaryOp::ShiftLeft, y, left);
                    let low = add(BinaryOp::ShiftRightLogical, y, right);
                    let turned = match random.next() % 2 {
                        0 => add(BinaryOp::Or, high, low),
                        _ => add(BinaryOp::Or, low, high),
                    };
                    if random.next().is_multiple_of(5) {
                        seen.push(random.pick(&[high, turned]));
                    }
                    let mixed = match random.next() % 2 {
                        0 => add(BinaryOp::Xor, sum, turned),
                        _ => add(BinaryOp::Xor, turned, sum),
                    };
                    (x, y) = match random.next() % 4 {
                        0 => (mixed, sum),
                        _ => (sum, mixed),
                    };
                }
                let last = add(BinaryOp::Add, x, Operand::Value(2));
                let mut outputs: Vec<u32> = [y, last]
                    .into_iter()
                    .chain(seen)
                    .filter_map(|value| match value {
                        Operand::Value(value) => Some(value),
                        Operand::Constant(_) => None,
                    })
                    .take(4)
                    .collect();
                outputs.sort_unstable();
                outputs.dedup();
                outputs.retain(|&value| value >= 4);
                let code = VectorBytecode::on(isa, &inputs, &steps, &outputs).unwrap();
                let n = [1, 16, 127, 128, 300][seed as usize % 5];
                compare(isa, seed, &code, (&inputs, &steps, &outputs), n);
            }
        }
    }
}

/// Neighbours that are one code: all kinds of operands, for results that are read again and results that are not.
#[test]
fn joined_neighbours_give_what_their_steps_give() {
    use super::code::Code;
    let constant = |x: f64, dtype: DType| {
        let mut bytes = [0; 16];
        match dtype {
            DType::F32 => bytes[..4].copy_from_slice(&(x as f32).to_ne_bytes()),
            _ => bytes[..8].copy_from_slice(&x.to_ne_bytes()),
        }
        Operand::Constant(bytes)
    };
    let expected = [
        (Code::MulAdd, BinaryOp::Multiply, BinaryOp::Add),
        (Code::MulAddC, BinaryOp::Multiply, BinaryOp::Add),
        (Code::ScaleAdd, BinaryOp::Multiply, BinaryOp::Add),
        (Code::ScaleAddC, BinaryOp::Multiply, BinaryOp::Add),
        (Code::Bounds, BinaryOp::Maximum, BinaryOp::Minimum),
    ];
    for isa in Isa::available()
        .into_iter()
        .filter(|&isa| isa != Isa::Portable)
    {
        for dtype in [DType::F32, DType::F64] {
            for (kind, &(code, first, second)) in expected.iter().enumerate() {
                for is_read_again in [false, true] {
                    let inputs = [dtype; 3];
                    let step = |op, x, y| Step {
                        op: Op::Binary(op),
                        operands: [x, y, x],
                        count: 2,
                        from: dtype,
                        to: dtype,
                    };
                    let by = match kind {
                        0 | 1 => Operand::Value(1),
                        _ => constant(0.1, dtype),
                    };
                    let plus = match kind {
                        0 | 2 => Operand::Value(2),
                        _ => constant(0.7, dtype),
                    };
                    let mut steps = vec![
                        step(first, Operand::Value(0), by),
                        step(second, Operand::Value(3), plus),
                    ];
                    if is_read_again {
                        steps.push(step(
                            BinaryOp::Subtract,
                            Operand::Value(4),
                            Operand::Value(3),
                        ));
                    }
                    let last = 2 + steps.len() as u32;
                    let bytecode = VectorBytecode::on(isa, &inputs, &steps, &[last]).unwrap();
                    let is_joined = bytecode.code.iter().any(|micro| micro.code == code);
                    assert_eq!(is_joined, !is_read_again, "{isa:?} {dtype:?} {code:?}");
                    for n in (1..300).step_by(7) {
                        compare(isa, n as u64, &bytecode, (&inputs, &steps, &[last]), n);
                    }
                }
            }
        }
    }
}

#[test]
fn all_blocks_divide_the_largest() {
    for isa in Isa::available() {
        for width in [super::Width::Four, super::Width::Eight] {
            if let Some((_, lanes, _)) = super::run::of(isa, width) {
                assert!(super::MAX_BLOCK.is_multiple_of(super::WIDE * lanes));
            }
        }
    }
}

#[test]
fn what_bytecode_lacks_is_refused() {
    let step = |op, from, to| Step {
        op,
        operands: [Operand::Value(0); 3],
        count: 1,
        from,
        to,
    };
    let isa = *Isa::available().last().unwrap();
    let negate = Op::Unary(UnaryOp::Negate);
    // Complex numbers, widths that differ, values that are not there yet, results that are inputs.
    assert!(
        VectorBytecode::on(
            isa,
            &[DType::C64],
            &[step(negate, DType::C64, DType::C64)],
            &[1]
        )
        .is_none()
    );
    assert!(
        VectorBytecode::on(
            isa,
            &[DType::F32, DType::F64],
            &[step(negate, DType::F32, DType::F32)],
            &[2]
        )
        .is_none()
    );
    assert!(VectorBytecode::on(isa, &[], &[step(negate, DType::F32, DType::F32)], &[0]).is_none());
    assert!(
        VectorBytecode::on(
            isa,
            &[DType::F32],
            &[step(negate, DType::F32, DType::F32)],
            &[0]
        )
        .is_none()
    );
    assert!(
        VectorBytecode::on(
            Isa::Portable,
            &[DType::F32],
            &[step(negate, DType::F32, DType::F32)],
            &[1]
        )
        .is_none()
    );
}

/// A step of two values.
pub(super) fn binary_step(op: BinaryOp, [x, y]: [u32; 2], dtype: DType) -> Step {
    Step {
        op: Op::Binary(op),
        operands: [
            Operand::Value(x),
            Operand::Value(y),
            Operand::Constant([0; 16]),
        ],
        count: 2,
        from: dtype,
        to: dtype,
    }
}
