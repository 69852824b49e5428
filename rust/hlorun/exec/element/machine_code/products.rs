//! Products of few elements: every element of the result is one sum in ascending order, fused where
//! the kernels fuse, to which the old element is added where β is not zero.

use cranelift_codegen::ir::InstBuilder;
use hlorun_kernels::DType;

use super::emit::Emitter;
use super::{calls, floats, forms, registers};
use crate::plan::thunk::scalar_bytecode::{Code, ScalarOp};

impl Emitter<'_> {
    /// Terms by instructions. C overlaps neither operand.
    pub(super) fn terms(&mut self, op: &ScalarOp) -> Option<()> {
        let (g, [a, b, c]) = forms::matrices(self.prepared, op)?;
        let (ty, fuses) = (registers::register(g.dtype)?, hlorun_kernels::fuses());
        matches!(g.dtype, DType::F32 | DType::F64).then_some(())?;
        let mut left = Vec::with_capacity(a.len());
        for place in a {
            left.push(self.read(place, ty)?);
        }
        let mut right = Vec::with_capacity(b.len());
        for place in b {
            right.push(self.read(place, ty)?);
        }
        let mut old = Vec::new();
        for &place in c.iter().filter(|_| g.beta != 0.0) {
            old.push(self.read(place, ty)?);
        }
        for (at, place) in c.into_iter().enumerate() {
            let (row, column) = (at / g.n, at % g.n);
            let matrix = row / g.m;
            let mut sum = floats::number(&mut self.b, left[0], 0.0, 0.0);
            for term in 0..g.k {
                let x = left[row * g.k + term];
                let y = right[(matrix * g.k + term) * g.n + column];
                sum = if fuses {
                    self.b.ins().fma(x, y, sum)
                } else {
                    let product = self.b.ins().fmul(x, y);
                    self.b.ins().fadd(product, sum)
                };
            }
            if let Some(&old) = old.get(at) {
                sum = self.b.ins().fadd(sum, old);
            }
            self.write(sum, place)?;
        }
        Some(())
    }

    /// A kernel on the places themselves.
    pub(super) fn kernel_product(&mut self, op: &ScalarOp) -> Option<()> {
        let Code::Product(product) = op.code else {
            return None;
        };
        let (a, b) = (self.address(op.operands[0])?, self.address(op.operands[1])?);
        let (out, product) = (self.address(op.out)?, self.number(product));
        let arguments = [self.context, product, a, b, out];
        self.call(calls::product as *const () as usize, &arguments, false);
        Some(())
    }
}
