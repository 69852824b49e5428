//! Shapes of instructions that a text leaves out, where they follow from the operands at once.
//!
//! XLA's printers always write shapes; people who write HLO by hand may not. What is not here needs
//! [`super::ParseOptions::infer_shape`], or its shape in the text.

use crate::module::{AttrKey, HloModule, HloOpcode, InstructionId, InstructionRef, OpClass};
use crate::types::{ArrayShape, PrimitiveType, Shape, ShapeId};

/// The shape of an instruction from its operands and attributes, or why it cannot be told.
pub type InferShape = fn(&mut HloModule, InstructionId) -> Result<ShapeId, String>;

/// What can be told without the rules of every operation.
pub(super) fn infer_simple(module: &mut HloModule, id: InstructionId) -> Result<ShapeId, String> {
    match derive(module.instruction(id))? {
        Derived::Same(shape) => Ok(shape),
        Derived::Array(array) => Ok(module.shapes_mut().array(array)),
        Derived::Token => Ok(module.shapes_mut().intern(Shape::Token)),
        Derived::Tuple(parts) => Ok(module.shapes_mut().tuple(&parts)),
    }
}

enum Derived {
    Same(ShapeId),
    Array(ArrayShape),
    Token,
    Tuple(Vec<ShapeId>),
}

/// The shape by the rule of the opcode.
fn derive(instruction: InstructionRef<'_>) -> Result<Derived, String> {
    let shape = |index: usize| {
        instruction
            .operand(index)
            .map(InstructionRef::shape_id)
            .ok_or_else(|| format!("it has no operand {index}"))
    };
    let array = |index: usize| {
        instruction
            .operand(index)
            .and_then(InstructionRef::array_shape)
            .ok_or_else(|| format!("operand {index} is no array"))
    };
    let with_type = |index: usize, element_type: PrimitiveType| {
        array(index).map(|operand| {
            Derived::Array(ArrayShape {
                element_type,
                ..operand.clone()
            })
        })
    };
    let scalar = |element_type| Ok(Derived::Array(ArrayShape::new(element_type, &[])));
    let root_of = |key| {
        let module = instruction.module;
        instruction
            .computation_attribute(key)
            .and_then(|called| module.computation(called).root)
            .map(|root| Derived::Same(module.instruction(root).shape_id()))
            .ok_or_else(|| "it calls nothing".to_owned())
    };
    let opcode = instruction.opcode();
    match (opcode.class(), opcode) {
        (_, HloOpcode::IsFinite) => with_type(0, PrimitiveType::Pred),
        (_, HloOpcode::Abs | HloOpcode::Real | HloOpcode::Imag) => {
            with_type(0, array(0)?.element_type.component())
        }
        (_, HloOpcode::Complex) => match array(0)?.element_type {
            PrimitiveType::F64 => with_type(0, PrimitiveType::C128),
            _ => with_type(0, PrimitiveType::C64),
        },
        (OpClass::Unary, _) => shape(0).map(Derived::Same),
        (OpClass::Binary, _) => {
            if array(0)?.dims != array(1)?.dims {
                return Err("its operands differ in size".to_owned());
            }
            shape(0).map(Derived::Same)
        }
        (OpClass::Compare, _) => with_type(0, PrimitiveType::Pred),
        (OpClass::Select | OpClass::Clamp, _) => shape(1).map(Derived::Same),
        (_, HloOpcode::AfterAll) => Ok(Derived::Token),
        (
            _,
            HloOpcode::Copy
            | HloOpcode::Reverse
            | HloOpcode::While
            | HloOpcode::AddDependency
            | HloOpcode::OptimizationBarrier
            | HloOpcode::Domain
            | HloOpcode::Cholesky,
        ) => shape(0).map(Derived::Same),
        (_, HloOpcode::TriangularSolve) => shape(1).map(Derived::Same),
        (_, HloOpcode::Call) => root_of(AttrKey::ToApply),
        (_, HloOpcode::ReplicaId | HloOpcode::PartitionId) => scalar(PrimitiveType::U32),
        (_, HloOpcode::GetDimensionSize) => scalar(PrimitiveType::S32),
        (_, HloOpcode::Tuple) => Ok(Derived::Tuple(
            instruction
                .operands()
                .map(InstructionRef::shape_id)
                .collect(),
        )),
        (_, HloOpcode::GetTupleElement) => tuple_element(instruction),
        (_, HloOpcode::Transpose) => transposed(instruction, array(0)?),
        (_, HloOpcode::Reduce) if instruction.operand_ids().len() == 2 => {
            reduced(instruction, array(0)?)
        }
        _ => Err("it does not follow from the operands alone".to_owned()),
    }
}

fn tuple_element(instruction: InstructionRef<'_>) -> Result<Derived, String> {
    let parts = instruction.operand(0).map(InstructionRef::shape);
    let index = instruction.tuple_index().unwrap_or(0);
    parts
        .and_then(Shape::as_tuple)
        .and_then(|parts| parts.get(index))
        .map(|&part| Derived::Same(part))
        .ok_or_else(|| format!("its operand has no element {index}"))
}

fn transposed(instruction: InstructionRef<'_>, operand: &ArrayShape) -> Result<Derived, String> {
    let dims: Option<_> = instruction
        .dimensions()
        .iter()
        .map(|&d| operand.dims.get(usize::try_from(d).ok()?).copied())
        .collect();
    match dims {
        Some(dims) if operand.is_static() => Ok(Derived::Array(ArrayShape {
            element_type: operand.element_type,
            dims,
            dynamic: 0,
            layout: None,
        })),
        _ => Err("its dimensions do not permute those of its operand".to_owned()),
    }
}

/// The shape of a reduction of one array.
fn reduced(instruction: InstructionRef<'_>, operand: &ArrayShape) -> Result<Derived, String> {
    if !operand.is_static() {
        return Err("its operand has dynamic dimensions".to_owned());
    }
    let reduced = instruction.dimensions();
    let dims: Vec<i64> = (0i64..)
        .zip(&operand.dims)
        .filter(|(number, _)| !reduced.contains(number))
        .map(|(_, &size)| size)
        .collect();
    Ok(Derived::Array(ArrayShape::new(operand.element_type, &dims)))
}
