//! More instructions for passes: scalars, masks, and windows at an index that is computed.
//!
//! In: instructions of the computation a [`Builder`] works on. Out: new ones, appended to it.

use smallvec::SmallVec;

use super::rewrite::Builder;
use crate::module::{AttrKey, AttrValue, Attribute, ComputationId, HloOpcode, Id, InstructionId};
use crate::types::{ArrayShape, Dims, Literal, LiteralValue, PrimitiveType};

impl Builder<'_> {
    /// A scalar `s32`.
    pub fn scalar_s32(&mut self, value: i32) -> InstructionId {
        let scalar = ArrayShape::new(PrimitiveType::S32, &[]);
        let literal = self.module.add_literal(Literal {
            shape: scalar.clone(),
            value: LiteralValue::Array(Box::from(value.to_le_bytes())),
        });
        let shape = self.module.shapes_mut().array(scalar);
        self.add(HloOpcode::Constant, shape, &[], &[], literal.index() as u32)
    }

    /// A scalar of a floating type; `f64` and what is converted from it.
    pub fn scalar_float(&mut self, value: f64, ty: PrimitiveType) -> InstructionId {
        let scalar = ArrayShape::new(PrimitiveType::F64, &[]);
        let literal = self.module.add_literal(Literal {
            shape: scalar.clone(),
            value: LiteralValue::Array(Box::from(value.to_le_bytes())),
        });
        let shape = self.module.shapes_mut().array(scalar);
        let wide = self.add(HloOpcode::Constant, shape, &[], &[], literal.index() as u32);
        if ty == PrimitiveType::F64 {
            return wide;
        }
        self.add_array(HloOpcode::Convert, ty, &[], &[wide], &[])
    }

    /// A computation of two scalars, as `to_apply`.
    pub fn combiner(&mut self, opcode: HloOpcode, ty: PrimitiveType) -> Attribute {
        let scalar = ArrayShape::new(ty, &[]);
        let shape = self.module.shapes_mut().array(scalar);
        let (computation, first) = super::emit_computation(self.module, self.like, shape);
        let mut inside = Builder {
            module: self.module,
            computation,
            like: self.like,
        };
        let second = inside.add(HloOpcode::Parameter, shape, &[], &[], 1);
        let root = inside.add(opcode, shape, &[first, second], &[], 0);
        let data = self.module.computation_mut(computation);
        data.parameters.push(second);
        data.root = Some(root);
        Attribute {
            key: AttrKey::ToApply,
            value: AttrValue::Computation(computation),
        }
    }

    /// A scalar zero of any type.
    pub fn zero(&mut self, ty: PrimitiveType) -> InstructionId {
        let zeros = self.zeros(ty, &[]);
        // `zeros` broadcasts the constant that is wanted here.
        let zero = self.module.operand_ids(zeros).first().copied();
        zero.unwrap_or(zeros)
    }

    /// An elementwise operation whose result has the shape of its last operand.
    pub fn elementwise(&mut self, opcode: HloOpcode, operands: &[InstructionId]) -> InstructionId {
        let shape = operands
            .last()
            .map(|&last| self.shape(last))
            .unwrap_or_else(|| ArrayShape::new(PrimitiveType::Pred, &[]));
        self.add_array(opcode, shape.element_type, &shape.dims, operands, &[])
    }

    /// A scalar everywhere.
    pub fn broadcast(&mut self, scalar: InstructionId, dims: &[i64]) -> InstructionId {
        if dims.is_empty() {
            return scalar;
        }
        let ty = self.shape(scalar).element_type;
        let none = self.ints(AttrKey::Dimensions, &[]);
        self.add_array(HloOpcode::Broadcast, ty, dims, &[scalar], &[none])
    }

    /// The index along one dimension, as `s32`.
    pub fn iota(&mut self, dims: &[i64], dim: usize) -> InstructionId {
        let shape = ArrayShape::new(PrimitiveType::S32, dims);
        let shape = self.module.shapes_mut().array(shape);
        self.add(HloOpcode::Iota, shape, &[], &[], dim as u32)
    }

    /// `a < b`.
    pub fn less(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        let dims = self.shape(a).dims;
        let direction = Attribute {
            key: AttrKey::Direction,
            value: AttrValue::Enum(self.module.text_mut().add(b"LT")),
        };
        self.add_array(
            HloOpcode::Compare,
            PrimitiveType::Pred,
            &dims,
            &[a, b],
            &[direction],
        )
    }

    /// `operand` with `value`, a scalar, from `size` on along `dim`.
    pub fn mask(
        &mut self,
        operand: InstructionId,
        dim: usize,
        size: InstructionId,
        value: InstructionId,
    ) -> InstructionId {
        let shape = self.shape(operand);
        let index = self.iota(&shape.dims, dim);
        let size = self.broadcast(size, &shape.dims);
        let inside = self.less(index, size);
        let value = self.broadcast(value, &shape.dims);
        self.add_array(
            HloOpcode::Select,
            shape.element_type,
            &shape.dims,
            &[inside, operand, value],
            &[],
        )
    }

    /// Zero in every dimension but `dim`.
    fn starts_at(
        &mut self,
        rank: usize,
        dim: usize,
        index: InstructionId,
    ) -> SmallVec<[InstructionId; 6]> {
        let ty = self.shape(index).element_type;
        let zero = self.zero(ty);
        (0..rank)
            .map(|d| if d == dim { index } else { zero })
            .collect()
    }

    /// `length` elements of `dim` from `index` on.
    pub fn window(
        &mut self,
        operand: InstructionId,
        dim: usize,
        index: InstructionId,
        length: i64,
    ) -> InstructionId {
        let mut shape = self.shape(operand);
        shape.dims[dim] = length;
        let mut operands: SmallVec<[InstructionId; 8]> = SmallVec::from_slice(&[operand]);
        operands.extend(self.starts_at(shape.rank(), dim, index));
        let sizes = self.ints(AttrKey::DynamicSliceSizes, &shape.dims);
        self.add_array(
            HloOpcode::DynamicSlice,
            shape.element_type,
            &shape.dims,
            &operands,
            &[sizes],
        )
    }

    /// `whole` with `part` from `index` on along `dim`.
    pub fn set_window(
        &mut self,
        whole: InstructionId,
        part: InstructionId,
        dim: usize,
        index: InstructionId,
    ) -> InstructionId {
        let shape = self.shape(whole);
        let mut operands: SmallVec<[InstructionId; 8]> = SmallVec::from_slice(&[whole, part]);
        operands.extend(self.starts_at(shape.rank(), dim, index));
        self.add_array(
            HloOpcode::DynamicUpdateSlice,
            shape.element_type,
            &shape.dims,
            &operands,
            &[],
        )
    }

    /// Element `index[…]` of a vector for every element of `index`.
    pub fn take(&mut self, vector: InstructionId, index: InstructionId) -> InstructionId {
        let ty = self.shape(vector).element_type;
        let dims: Dims = self.shape(index).dims;
        let attributes = [
            self.ints(AttrKey::OffsetDims, &[]),
            self.ints(AttrKey::CollapsedSliceDims, &[0]),
            self.ints(AttrKey::StartIndexMap, &[0]),
            Attribute {
                key: AttrKey::IndexVectorDim,
                value: AttrValue::Int(dims.len() as i64),
            },
            self.ints(AttrKey::SliceSizes, &[1]),
        ];
        self.add_array(HloOpcode::Gather, ty, &dims, &[vector, index], &attributes)
    }

    /// A loop over a tuple.
    pub fn repeat(
        &mut self,
        initial: InstructionId,
        condition: ComputationId,
        body: ComputationId,
    ) -> InstructionId {
        let shape = self.module.instruction_data(initial).shape;
        let attributes =
            [(AttrKey::Condition, condition), (AttrKey::Body, body)].map(|(key, computation)| {
                Attribute {
                    key,
                    value: AttrValue::Computation(computation),
                }
            });
        self.add(HloOpcode::While, shape, &[initial], &attributes, 0)
    }
}
