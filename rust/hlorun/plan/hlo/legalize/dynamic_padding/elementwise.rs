//! Elementwise operations on arrays of different dynamic sizes.
//!
//! In: an elementwise instruction with operands of dynamic size. Out: the same, with the size of its
//! result. Sizes that differ meet as XLA lets them: a size of 1 stands for the other one, and of two
//! others the smaller one is taken. Operations on two arrays repeat the only element of a dimension
//! of size 1; `select` and `clamp` do not, and `clamp` has the size of its last operand.

use smallvec::SmallVec;

use super::{Padding, Sizes};
use crate::module::{HloOpcode, InstructionId};

impl Padding<'_> {
    /// Scalars have no sizes, nor has an operand whose dimension is static.
    pub(crate) fn elementwise(&mut self, id: InstructionId) {
        let rank = self.dims(id).len();
        let mut operands: SmallVec<[InstructionId; 4]> =
            SmallVec::from_slice(self.module.operand_ids(id));
        let opcode = self.module.instruction_data(id).opcode;
        let mut sizes = Sizes::new();
        for k in 0..operands.len() {
            if self.dims(operands[k]).len() != rank {
                continue;
            }
            for (dim, size) in self.sizes_of(operands[k]) {
                let Some(at) = sizes.iter().position(|&(d, _)| d == dim) else {
                    sizes.push((dim, size));
                    continue;
                };
                let before = sizes[at].1;
                if before == size {
                    continue;
                }
                if opcode == HloOpcode::Clamp {
                    sizes[at].1 = size;
                    continue;
                }
                let repeats = self.which_repeats(id, before, size);
                if let [lhs, rhs] = &mut operands[..] {
                    *lhs = self.repeated_where(repeats[0], *lhs, dim);
                    *rhs = self.repeated_where(repeats[1], *rhs, dim);
                }
                sizes[at].1 = self.met(id, repeats, [before, size]);
            }
        }
        self.module.set_operands(id, &operands);
        self.set_sizes(id, sizes);
    }

    /// For each of two sizes whether it is 1 and the other one larger.
    fn which_repeats(
        &mut self,
        like: InstructionId,
        a: InstructionId,
        b: InstructionId,
    ) -> [InstructionId; 2] {
        let mut builder = self.builder(like);
        let two = builder.scalar_s32(2);
        let zero = builder.scalar_s32(0);
        [(a, b), (b, a)].map(|(size, other)| {
            let above = builder.less(zero, size);
            let below = builder.less(size, two);
            let is_one = builder.elementwise(HloOpcode::And, &[above, below]);
            let smaller = builder.less(size, other);
            builder.elementwise(HloOpcode::And, &[is_one, smaller])
        })
    }

    /// The larger size where one of them is repeated, else the smaller one.
    fn met(
        &mut self,
        like: InstructionId,
        repeats: [InstructionId; 2],
        sizes: [InstructionId; 2],
    ) -> InstructionId {
        let mut b = self.builder(like);
        let any = b.elementwise(HloOpcode::Or, &repeats);
        let larger = b.elementwise(HloOpcode::Maximum, &sizes);
        let smaller = b.elementwise(HloOpcode::Minimum, &sizes);
        b.elementwise(HloOpcode::Select, &[any, larger, smaller])
    }

    /// `operand`, with its first element along `dim` everywhere along it if `repeats`.
    fn repeated_where(
        &mut self,
        repeats: InstructionId,
        operand: InstructionId,
        dim: usize,
    ) -> InstructionId {
        let mut b = self.builder(operand);
        let shape = b.shape(operand);
        if shape.dims[dim] < 2 {
            return operand;
        }
        let first = b.slice(operand, dim, 0, 1);
        let Some(everywhere) = b.fitted(first, &shape.dims) else {
            return operand;
        };
        let repeats = b.broadcast(repeats, &shape.dims);
        b.elementwise(HloOpcode::Select, &[repeats, everywhere, operand])
    }
}
