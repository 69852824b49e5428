//! Builds instructions for passes.

use smallvec::SmallVec;

use crate::module::HloComputation;
use crate::module::{
    AttrKey, AttrValue, Attribute, ComputationId, HloModule, HloOpcode, Id, InstructionId,
    NewInstruction,
};
use crate::types::{ArrayShape, Dims, Literal, PrimitiveType, ShapeId};

/// Adds instructions to one computation, named and placed after the instruction they stand for.
pub struct Builder<'m> {
    /// The module being rewritten.
    pub module: &'m mut HloModule,
    /// Where instructions go.
    pub computation: ComputationId,
    /// Whose name and place new instructions carry.
    pub like: InstructionId,
}

impl Builder<'_> {
    /// The array shape of an instruction.
    pub fn shape(&self, id: InstructionId) -> ArrayShape {
        match self.module.instruction(id).array_shape() {
            Some(shape) => ArrayShape::new(shape.element_type, &shape.dims),
            None => ArrayShape::new(PrimitiveType::Pred, &[]),
        }
    }

    /// Adds an instruction.
    pub fn add(
        &mut self,
        opcode: HloOpcode,
        shape: ShapeId,
        operands: &[InstructionId],
        attributes: &[Attribute],
        immediate: u32,
    ) -> InstructionId {
        let like = self.module.instruction_data(self.like);
        let (name, text) = (like.name, like.text);
        self.module.add_instruction(
            self.computation,
            NewInstruction {
                name,
                text,
                opcode,
                shape,
                operands,
                attributes,
                immediate,
            },
        )
    }

    /// Adds an instruction whose result is an array.
    pub fn add_array(
        &mut self,
        opcode: HloOpcode,
        ty: PrimitiveType,
        dims: &[i64],
        operands: &[InstructionId],
        attributes: &[Attribute],
    ) -> InstructionId {
        let shape = self.module.shapes_mut().array(ArrayShape::new(ty, dims));
        self.add(opcode, shape, operands, attributes, 0)
    }

    /// A list attribute.
    pub fn ints(&mut self, key: AttrKey, values: &[i64]) -> Attribute {
        Attribute {
            key,
            value: AttrValue::Ints(self.module.add_ints(values)),
        }
    }

    /// Element `index` of a tuple.
    pub fn get_tuple_element(&mut self, tuple: InstructionId, index: usize) -> InstructionId {
        let shape = self.module.instruction_data(tuple).shape;
        let part = self
            .module
            .shapes()
            .get(shape)
            .as_tuple()
            .and_then(|parts| parts.get(index).copied())
            .unwrap_or(shape);
        self.add(
            HloOpcode::GetTupleElement,
            part,
            &[tuple],
            &[],
            index as u32,
        )
    }

    /// A tuple.
    pub fn tuple(&mut self, elements: &[InstructionId]) -> InstructionId {
        let parts: Vec<ShapeId> = elements
            .iter()
            .map(|&e| self.module.instruction_data(e).shape)
            .collect();
        let shape = self.module.shapes_mut().tuple(&parts);
        self.add(HloOpcode::Tuple, shape, elements, &[], 0)
    }

    /// The same elements under other sizes, read from what is no reshape itself.
    pub fn reshape(&mut self, operand: InstructionId, dims: &[i64]) -> InstructionId {
        let operand = match (
            self.module.instruction_data(operand).opcode,
            self.module.operand_ids(operand),
        ) {
            (HloOpcode::Reshape, &[inner]) => inner,
            _ => operand,
        };
        let shape = self.shape(operand);
        if shape.dims.as_slice() == dims {
            return operand;
        }
        self.add_array(
            HloOpcode::Reshape,
            shape.element_type,
            dims,
            &[operand],
            &[],
        )
    }

    /// `a + b`.
    pub fn plus(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        let shape = self.shape(a);
        self.add_array(
            HloOpcode::Add,
            shape.element_type,
            &shape.dims,
            &[a, b],
            &[],
        )
    }

    /// Zeros.
    pub fn zeros(&mut self, ty: PrimitiveType, dims: &[i64]) -> InstructionId {
        self.everywhere(ty, &vec![0; ty.size_bytes()], dims)
    }

    /// An array all of whose elements have the bytes `element`.
    pub fn everywhere(&mut self, ty: PrimitiveType, element: &[u8], dims: &[i64]) -> InstructionId {
        let scalar = ArrayShape::new(ty, &[]);
        let literal = self.module.add_literal(Literal {
            shape: scalar.clone(),
            value: crate::types::LiteralValue::Array(element.into()),
        });
        let shape = self.module.shapes_mut().array(scalar);
        let constant = self.add(HloOpcode::Constant, shape, &[], &[], literal.index() as u32);
        self.broadcast(constant, dims)
    }

    /// Elements `start..limit` of one dimension.
    pub fn slice(
        &mut self,
        operand: InstructionId,
        dim: usize,
        start: i64,
        limit: i64,
    ) -> InstructionId {
        self.strided_slice(operand, dim, (start, limit, 1))
    }

    /// Elements `start..limit` of one dimension, each `stride` after the other.
    pub fn strided_slice(
        &mut self,
        operand: InstructionId,
        dim: usize,
        (start, limit, stride): (i64, i64, i64),
    ) -> InstructionId {
        let mut shape = self.shape(operand);
        if (start, limit, stride) == (0, shape.dims[dim], 1) {
            return operand;
        }
        let slices = shape
            .dims
            .iter()
            .enumerate()
            .map(|(d, &size)| {
                let (start, limit, stride) = match d == dim {
                    true => (start, limit, stride),
                    false => (0, size, 1),
                };
                crate::module::attributes::SliceDimension {
                    start,
                    limit,
                    stride,
                }
            })
            .collect();
        shape.dims[dim] = (limit - start + stride - 1) / stride;
        let attribute = Attribute {
            key: AttrKey::Slice,
            value: AttrValue::Slice(slices),
        };
        self.add_array(
            HloOpcode::Slice,
            shape.element_type,
            &shape.dims,
            &[operand],
            &[attribute],
        )
    }

    /// Starts of a dynamic slice: `index` along the first dimension, 0 along the others.
    fn starts(&mut self, index: InstructionId, rank: usize) -> SmallVec<[InstructionId; 6]> {
        let ty = self.shape(index).element_type;
        let mut starts: SmallVec<[InstructionId; 6]> = SmallVec::new();
        starts.push(index);
        if rank > 1 {
            let zero = self.zero(ty);
            starts.resize(rank, zero);
        }
        starts
    }

    /// Row `index` of the first dimension, without that dimension.
    pub fn row(&mut self, operand: InstructionId, index: InstructionId) -> InstructionId {
        let shape = self.shape(operand);
        let mut sizes = shape.dims.clone();
        sizes[0] = 1;
        let mut operands: SmallVec<[InstructionId; 8]> = SmallVec::from_slice(&[operand]);
        operands.extend(self.starts(index, sizes.len()));
        let attribute = self.ints(AttrKey::DynamicSliceSizes, &sizes);
        let slice = self.add_array(
            HloOpcode::DynamicSlice,
            shape.element_type,
            &sizes,
            &operands,
            &[attribute],
        );
        self.reshape(slice, &sizes[1..])
    }

    /// `stack` with its row `index` replaced by `row`.
    pub fn set_row(
        &mut self,
        stack: InstructionId,
        row: InstructionId,
        index: InstructionId,
    ) -> InstructionId {
        let shape = self.shape(stack);
        let mut dims: Dims = Dims::from_slice(&[1]);
        dims.extend_from_slice(&shape.dims[1..]);
        let row = self.reshape(row, &dims);
        let mut operands: SmallVec<[InstructionId; 8]> = SmallVec::from_slice(&[stack, row]);
        operands.extend(self.starts(index, shape.dims.len()));
        self.add_array(
            HloOpcode::DynamicUpdateSlice,
            shape.element_type,
            &shape.dims,
            &operands,
            &[],
        )
    }

    /// A product without batch dimensions; the result's dimensions are the free ones of `lhs`, then
    /// of `rhs`.
    pub fn dot(
        &mut self,
        ty: PrimitiveType,
        lhs: InstructionId,
        lhs_contracting: &[i64],
        rhs: InstructionId,
        rhs_contracting: &[i64],
    ) -> InstructionId {
        let free = |shape: &ArrayShape, contracting: &[i64]| -> Dims {
            (0..shape.rank())
                .filter(|&d| !contracting.contains(&(d as i64)))
                .map(|d| shape.dims[d])
                .collect()
        };
        let mut dims = free(&self.shape(lhs), lhs_contracting);
        dims.extend(free(&self.shape(rhs), rhs_contracting));
        let attributes = [
            self.ints(AttrKey::LhsContractingDims, lhs_contracting),
            self.ints(AttrKey::RhsContractingDims, rhs_contracting),
        ];
        self.add_array(HloOpcode::Dot, ty, &dims, &[lhs, rhs], &attributes)
    }
}

/// An empty computation of one parameter, named and placed after `like`.
pub(crate) fn emit_computation(
    module: &mut HloModule,
    like: InstructionId,
    parameter: ShapeId,
) -> (ComputationId, InstructionId) {
    let data = module.instruction_data(like);
    let (name, text) = (data.name, data.text);
    let computation = module.add_computation(HloComputation {
        name,
        text,
        ..HloComputation::default()
    });
    let parameter = module.add_instruction(
        computation,
        NewInstruction {
            name,
            text,
            opcode: HloOpcode::Parameter,
            shape: parameter,
            operands: &[],
            attributes: &[],
            immediate: 0,
        },
    );
    module
        .computation_mut(computation)
        .parameters
        .push(parameter);
    (computation, parameter)
}
