//! `cuda_threefry2x32` and its successors: the Threefry-2x32 block cipher of Salmon et al.,
//! "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011), 20 rounds, elementwise over four arrays.

use hlorun_kernels::random::{PARITY, ROTATIONS};
use hlorun_kernels::vector_bytecode::Op;
use hlorun_kernels::{self as kernels, BinaryOp, DType};

use super::{Lowering, Scope, Value};
use crate::error::{HloError, Result};
use crate::module::InstructionRef;
use crate::plan::element::elementwise::Kernel;
use crate::plan::element::program::Meaning;
use crate::plan::element::program::{ProgramBuilder, Register};
use crate::plan::error::unsupported;
use crate::plan::thunk::{Load, LoadKind, LoopThunk, Store, ThunkKind};
use crate::plan::view::{ArrayView, identity_order, is_one_run};
use crate::types::PrimitiveType;

struct Code<'b> {
    builder: &'b mut ProgramBuilder,
}

impl Code<'_> {
    fn op(&mut self, op: BinaryOp, a: Register, b: Register) -> Option<Register> {
        let kernel = Kernel::Binary(kernels::binary(op, DType::U32)?);
        let meaning = Some(Meaning::of(Op::Binary(op)));
        let ty = PrimitiveType::U32;
        Some(self.builder.known_step(kernel, meaning, &[a, b], ty))
    }

    fn constant(&mut self, value: u32) -> Register {
        self.builder
            .constant(PrimitiveType::U32, &value.to_ne_bytes())
    }

    fn rotate_left(&mut self, x: Register, by: u32) -> Option<Register> {
        let (left, right) = (self.constant(by), self.constant(32 - by));
        let high = self.op(BinaryOp::ShiftLeft, x, left)?;
        let low = self.op(BinaryOp::ShiftRightLogical, x, right)?;
        self.op(BinaryOp::Or, high, low)
    }

    fn threefry(&mut self, keys: [Register; 2], counts: [Register; 2]) -> Option<[Register; 2]> {
        let parity = self.constant(PARITY);
        let both = self.op(BinaryOp::Xor, keys[0], keys[1])?;
        let keys = [keys[0], keys[1], self.op(BinaryOp::Xor, both, parity)?];
        let mut x0 = self.op(BinaryOp::Add, counts[0], keys[0])?;
        let mut x1 = self.op(BinaryOp::Add, counts[1], keys[1])?;
        for group in 0..5u32 {
            for by in ROTATIONS[group as usize % 2] {
                x0 = self.op(BinaryOp::Add, x0, x1)?;
                let rotated = self.rotate_left(x1, by)?;
                x1 = self.op(BinaryOp::Xor, x0, rotated)?;
            }
            let next = group as usize + 1;
            x0 = self.op(BinaryOp::Add, x0, keys[next % 3])?;
            let step = self.constant(group + 1);
            let key = self.op(BinaryOp::Add, keys[(next + 1) % 3], step)?;
            x1 = self.op(BinaryOp::Add, x1, key)?;
        }
        Some([x0, x1])
    }
}

impl<'m> Lowering<'m> {
    /// Operands `(k0, k1, x0, x1)`, of one shape or broadcast from scalars; two results.
    pub(super) fn threefry2x32(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
    ) -> Result<Value> {
        let mut outputs = Vec::new();
        let value = self.allocate_value(instruction, instruction.shape_id(), &mut outputs)?;
        let dims = outputs[0].dims.clone();
        let mut inputs = Vec::new();
        for k in 0..4 {
            let view = self.array_operand(scope, instruction, k)?;
            let view = if view.dims == dims {
                view
            } else {
                view.reshape(&[])
                    .ok_or_else(|| HloError::execution("one element cannot be reshaped"))?
                    .broadcast(&dims, &[])
            };
            inputs.push(view);
        }
        let mut complete = true;
        self.simple_loop(
            scope,
            instruction,
            &inputs,
            &outputs[..2],
            |builder, r| match (Code { builder }).threefry([r[0], r[1]], [r[2], r[3]]) {
                Some(results) => results.to_vec(),
                None => {
                    complete = false;
                    vec![r[2], r[3]]
                }
            },
        );
        if complete {
            Ok(value)
        } else {
            Err(unsupported(instruction, "no u32 kernels".into()))
        }
    }

    /// A loop over views of one shape, with code made by `code`.
    pub(super) fn simple_loop(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
        inputs: &[ArrayView],
        outputs: &[ArrayView],
        code: impl FnOnce(&mut ProgramBuilder, &[Register]) -> Vec<Register>,
    ) {
        let mut builder = ProgramBuilder::new();
        let order = identity_order(outputs[0].dims.len());
        let mut loads = Vec::new();
        for view in inputs {
            let walk = view.walk(&order);
            loads.push(Load {
                register: builder.input(view.element_type),
                is_dense: is_one_run(&walk),
                walk: walk.into(),
                kind: LoadKind::View(view.clone()),
            });
        }
        let registers: Vec<Register> = loads.iter().map(|l| l.register).collect();
        let results = code(&mut builder, &registers);
        let program = builder.finish(&results);
        let stores = outputs
            .iter()
            .zip(&program.outputs)
            .map(|(view, &register)| {
                let walk = view.walk(&order);
                Store {
                    register,
                    is_dense: is_one_run(&walk),
                    covers_buffer: view.is_dense(&order)
                        && view.slice.size == self.buffers[view.slice.allocation as usize].size,
                    walk: walk.into(),
                    view: view.clone(),
                }
            })
            .collect();
        let program = self.with_vector_bytecode(program, outputs[0].count());
        scope.push(
            instruction.id,
            ThunkKind::Loop(Box::new(LoopThunk {
                count: outputs[0].count(),
                program,
                loads,
                stores,
                is_shared: false,
                small: None,
                rows: None,
            })),
        );
    }
}
