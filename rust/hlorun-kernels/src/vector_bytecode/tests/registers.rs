//! Values that outnumber the registers, and a test of the tests: wrong machine code is found.

use super::super::{Op, Operand, Step, VectorBytecode};
use super::compare;
use crate::ops::{BinaryOp, CompareDirection};
use crate::{DType, Isa};

/// More values, truth values and constants at once than there are registers.
#[test]
fn values_may_outnumber_registers() {
    const COUNT: u32 = 45;
    for isa in Isa::available().into_iter().filter(|isa| isa.is_fused()) {
        for dtype in [DType::F32, DType::F64] {
            let inputs = vec![dtype; COUNT as usize];
            let mut steps: Vec<Step> = Vec::new();
            let mut push = |op, operands: [Operand; 3], count, to| {
                let step = Step {
                    op,
                    operands,
                    count,
                    from: dtype,
                    to,
                };
                steps.push(step);
                Operand::Value(COUNT + steps.len() as u32 - 1)
            };
            let value = |k: u32| Operand::Value(k % COUNT);
            let multiply = Op::Binary(BinaryOp::Multiply);
            let less = Op::Compare(CompareDirection::Lt);
            let masks: Vec<Operand> = (0..12)
                .map(|k| push(less, [value(k), value(k + 7), value(0)], 2, DType::Pred))
                .collect();
            let products: Vec<Operand> = (0..20)
                .map(|k| push(multiply, [value(k), value(k + 20), value(0)], 2, dtype))
                .collect();
            let mut sum = value(0);
            for k in (0..COUNT).rev() {
                let mut bytes = [0; 16];
                match dtype {
                    DType::F32 => bytes[..4].copy_from_slice(&(k as f32).to_le_bytes()),
                    _ => bytes[..8].copy_from_slice(&f64::from(k).to_le_bytes()),
                }
                let scaled = [value(k), Operand::Constant(bytes), value(0)];
                let scaled = push(multiply, scaled, 2, dtype);
                let product = products[k as usize % products.len()];
                let picked = [masks[k as usize % masks.len()], scaled, product];
                let picked = push(Op::Select, picked, 3, dtype);
                sum = push(Op::Binary(BinaryOp::Subtract), [picked, sum, sum], 2, dtype);
            }
            let last = COUNT + steps.len() as u32 - 1;
            let code = VectorBytecode::on(isa, &inputs, &steps, &[last]);
            let code = code.expect("few enough values wait");
            for n in [16, 128, 300] {
                compare(isa, n as u64, &code, (&inputs, &steps, &[last]), n);
            }
        }
    }
}

/// Machine code of other steps than those of the bytecode differs from it.
#[cfg(target_arch = "x86_64")]
#[test]
fn wrong_machine_code_is_found() {
    if !Isa::Avx512.is_available() {
        return;
    }
    let step = |op, operands| Step {
        op: Op::Binary(op),
        operands,
        count: 2,
        from: DType::F32,
        to: DType::F32,
    };
    let [x, y] = [Operand::Value(0), Operand::Value(1)];
    let both = |op| {
        let steps = [
            step(op, [x, y, x]),
            step(BinaryOp::Multiply, [Operand::Value(2), y, x]),
        ];
        (
            VectorBytecode::on(Isa::Avx512, &[DType::F32; 2], &steps, &[3]).unwrap(),
            steps,
        )
    };
    let (right, steps) = both(BinaryOp::Add);
    let (mut wrong, _) = both(BinaryOp::Subtract);
    wrong.make_machine_code_after(0);
    assert!(wrong.has_machine_code());
    // The code says a sum, its machine code computes a difference.
    wrong.code = right.code.clone();
    let compared = |code: VectorBytecode| {
        let run = move || compare(Isa::Avx512, 1, &code, (&[DType::F32; 2], &steps, &[3]), 300);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_ok()
    };
    assert!(compared(right));
    assert!(!compared(wrong));
}
