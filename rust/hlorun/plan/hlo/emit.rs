//! More instructions for passes: scalars, masks, and windows at an index that is computed.
//!
//! In: instructions of the computation a [`Builder`] works on. Out: new ones, appended to it.

use smallvec::SmallVec;

use super::builder::Builder;
use crate::module::{AttrKey, AttrValue, Attribute, ComputationId, HloOpcode, Id, InstructionId};
use crate::types::{ArrayShape, Dims, Literal, LiteralValue, PrimitiveType};

impl Builder<'_> {
    /// The size of a dimension, as a scalar `s32`.
    pub fn dimension_size(&mut self, operand: InstructionId, dim: usize) -> InstructionId {
        let dimension = self.ints(AttrKey::Dimensions, &[dim as i64]);
        let ty = PrimitiveType::S32;
        let size = HloOpcode::GetDimensionSize;
        self.add_array(size, ty, &[], &[operand], &[dimension])
    }

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

    /// The same elements in another type.
    pub fn as_type(&mut self, operand: InstructionId, ty: PrimitiveType) -> InstructionId {
        let shape = self.shape(operand);
        if shape.element_type == ty {
            return operand;
        }
        self.add_array(HloOpcode::Convert, ty, &shape.dims, &[operand], &[])
    }

    /// `a * b`.
    pub fn times(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.elementwise(HloOpcode::Multiply, &[a, b])
    }

    /// `x`, `factor` times.
    pub fn scaled(&mut self, x: InstructionId, factor: f64) -> InstructionId {
        if factor == 1.0 {
            return x;
        }
        let factor = self.filled(factor, x);
        self.times(x, factor)
    }

    /// `value` everywhere, in the shape of `like`.
    pub fn filled(&mut self, value: f64, like: InstructionId) -> InstructionId {
        let shape = self.shape(like);
        let scalar = self.scalar_float(value, shape.element_type);
        self.broadcast(scalar, &shape.dims)
    }

    /// A computation of two scalars, as `to_apply`.
    pub fn combiner(&mut self, opcode: HloOpcode, ty: PrimitiveType) -> Attribute {
        let scalar = ArrayShape::new(ty, &[]);
        let shape = self.module.shapes_mut().array(scalar);
        let (computation, first) = super::builder::emit_computation(self.module, self.like, shape);
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
        self.zeros(ty, &[])
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
        let dims = self.shape(operand).dims;
        let value = self.broadcast(value, &dims);
        self.replace_beyond(operand, dim, size, value)
    }

    /// `operand` with the elements of `others`, of its shape, from `size` on along `dim`.
    pub fn replace_beyond(
        &mut self,
        operand: InstructionId,
        dim: usize,
        size: InstructionId,
        others: InstructionId,
    ) -> InstructionId {
        let dims = self.shape(operand).dims;
        let inside = self.inside(&dims, dim, size);
        self.elementwise(HloOpcode::Select, &[inside, operand, others])
    }

    /// Which elements of an array of sizes `dims` are before `size` along `dim`.
    pub fn inside(&mut self, dims: &[i64], dim: usize, size: InstructionId) -> InstructionId {
        let index = self.iota(dims, dim);
        let size = self.broadcast(size, dims);
        self.less(index, size)
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

    /// The dimensions in another order.
    pub fn arranged(&mut self, operand: InstructionId, order: &[i64]) -> InstructionId {
        if order
            .iter()
            .enumerate()
            .all(|(to, &from)| to as i64 == from)
        {
            return operand;
        }
        let shape = self.shape(operand);
        let size = |&dim: &i64| shape.dims.get(dim as usize).copied().unwrap_or(0);
        let dims: Dims = order.iter().map(size).collect();
        let order = self.ints(AttrKey::Dimensions, order);
        let ty = shape.element_type;
        self.add_array(HloOpcode::Transpose, ty, &dims, &[operand], &[order])
    }

    /// `operand` along the dimensions `at` of an array of sizes `dims`.
    pub fn along(&mut self, operand: InstructionId, dims: &[i64], at: &[i64]) -> InstructionId {
        let ty = self.shape(operand).element_type;
        let at = self.ints(AttrKey::Dimensions, at);
        self.add_array(HloOpcode::Broadcast, ty, dims, &[operand], &[at])
    }

    /// `operand` repeated along missing leading dimensions and those of size 1, as NumPy does;
    /// `None` when it has other sizes.
    pub fn fitted(&mut self, operand: InstructionId, dims: &[i64]) -> Option<InstructionId> {
        let own = self.shape(operand).dims;
        if own[..] == *dims {
            return Some(operand);
        }
        let missing = dims.len().checked_sub(own.len())?;
        let mut kept = Dims::new();
        let mut at = Dims::new();
        for (d, &size) in own.iter().enumerate() {
            if size == dims[missing + d] {
                kept.push(size);
                at.push((missing + d) as i64);
            } else if size != 1 {
                return None;
            }
        }
        let operand = self.reshape(operand, &kept);
        Some(self.along(operand, dims, &at))
    }

    /// Sum (or another fold that starts with the neutral element) over the dimensions `over`.
    pub fn folded(
        &mut self,
        opcode: HloOpcode,
        operand: InstructionId,
        over: &[i64],
    ) -> InstructionId {
        if over.is_empty() {
            return operand;
        }
        let shape = self.shape(operand);
        let ty = shape.element_type;
        let init = match opcode {
            HloOpcode::Maximum => self.scalar_float(f64::NEG_INFINITY, ty),
            _ => self.zero(ty),
        };
        let kept = (0..shape.rank()).filter(|&d| !over.contains(&(d as i64)));
        let dims: Dims = kept.map(|d| shape.dims[d]).collect();
        let combiner = self.combiner(opcode, ty);
        let attributes = [self.ints(AttrKey::Dimensions, over), combiner];
        self.add_array(HloOpcode::Reduce, ty, &dims, &[operand, init], &attributes)
    }

    /// `operand` where `mask` holds (everywhere without one), `value` elsewhere.
    pub fn only(
        &mut self,
        mask: Option<InstructionId>,
        operand: InstructionId,
        value: f64,
    ) -> InstructionId {
        let Some(mask) = mask else { return operand };
        let shape = self.shape(operand);
        let ty = shape.element_type;
        let value = self.scalar_float(value, ty);
        let value = self.broadcast(value, &shape.dims);
        let operands = [mask, operand, value];
        self.add_array(HloOpcode::Select, ty, &shape.dims, &operands, &[])
    }

    /// Which elements are finite.
    pub fn is_finite(&mut self, operand: InstructionId) -> InstructionId {
        let dims = self.shape(operand).dims;
        let ty = PrimitiveType::Pred;
        self.add_array(HloOpcode::IsFinite, ty, &dims, &[operand], &[])
    }
}

/// `max |x|` over everything.
pub(crate) fn largest_magnitude(b: &mut Builder<'_>, x: InstructionId) -> InstructionId {
    let shape = b.shape(x);
    let ty = shape.element_type;
    let magnitude = b.elementwise(HloOpcode::Abs, &[x]);
    let zero = b.zero(ty);
    let maximum = b.combiner(HloOpcode::Maximum, ty);
    let all: Dims = (0..shape.rank() as i64).collect();
    let attributes = [b.ints(AttrKey::Dimensions, &all), maximum];
    b.add_array(HloOpcode::Reduce, ty, &[], &[magnitude, zero], &attributes)
}
