//! Shapes of instructions that a text leaves out, by the rules that check those that it has.

use super::inferred::InferredShape;
use super::shapes::array_problem;
use crate::module::{HloModule, Id, InstructionId, OpClass};
use crate::types::{ArrayShape, Shape, ShapeId, ShapeTable};

/// Parts of a tuple among the operands; they are looked at for every instruction that takes it.
const MOST_PARTS: usize = 64;

/// The shape of an instruction whose text has none: what `text::ParseOptions::infer_shape` wants.
/// Arrays have no layout, unless the shape is an operand's.
///
/// # Errors
/// Why it cannot be told, in one sentence.
pub fn left_out_shape(module: &mut HloModule, id: InstructionId) -> Result<ShapeId, String> {
    let table = module.shapes();
    for operand in module.instruction(id).operands() {
        // The rules rely on shapes that are shapes.
        let problem = match table.get(operand.shape_id()) {
            Shape::Array(array) => array_problem(array),
            Shape::Tuple(parts) if parts.len() <= MOST_PARTS => {
                parts.iter().find_map(|&part| match table.get(part) {
                    Shape::Array(array) => array_problem(array),
                    Shape::Tuple(_) | Shape::Buffer(_) => Some("which nests tuples".to_owned()),
                    Shape::Token | Shape::Opaque => None,
                })
            }
            Shape::Tuple(parts) => Some(format!("a tuple of {} parts", parts.len())),
            Shape::Buffer(_) | Shape::Token | Shape::Opaque => None,
        };
        if let Some(problem) = problem {
            return Err(format!(
                "its operand {} has a shape {problem}",
                operand.name()
            ));
        }
    }
    // Products may have another element type than their operands; without one they have the first's.
    let instruction = module.instruction(id);
    if matches!(
        instruction.opcode().class(),
        OpClass::Dot | OpClass::Convolution
    ) && let Some(first) = instruction.operand(0)
    {
        let shape = first.shape_id();
        module.instructions[id.index()].shape = shape;
    }
    let inferred = super::infer_shape(module.instruction(id))?;
    intern(module.shapes_mut(), &inferred)
        .ok_or_else(|| "it does not follow from the operands alone".to_owned())
}

// Recursion follows the nesting the rules build, at most three deep.
fn intern(table: &mut ShapeTable, inferred: &InferredShape) -> Option<ShapeId> {
    Some(match inferred {
        InferredShape::Array { element_type, dims } => {
            table.array(ArrayShape::new(*element_type, dims))
        }
        InferredShape::Same(id) => *id,
        InferredShape::Tuple(parts) => {
            let parts: Option<Vec<ShapeId>> =
                parts.iter().map(|part| intern(table, part)).collect();
            table.tuple(&parts?)
        }
        InferredShape::Token => table.intern(Shape::Token),
        InferredShape::AsDeclared => return None,
    })
}
