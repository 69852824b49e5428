//! What gathers and scatters have in common where they become slices.

use smallvec::SmallVec;

use crate::module::{AttrKey, HloModule, HloOpcode, Id, InstructionId};
use crate::plan::hlo::builder::Builder;
use crate::plan::ops::index_map::IndexMap;
use crate::types::{ArrayShape, Literal, LiteralValue, PrimitiveType};

/// How many windows the indices name, if their vectors stand one after the other.
pub fn window_count(map: &IndexMap, indices: &ArrayShape) -> Option<i64> {
    let vector = map.components.len() as i64;
    let all = indices.element_count()?;
    if all == vector {
        return Some(1);
    }
    let is_row_after_row = map.index_vector_dim + 1 >= indices.rank();
    (vector > 0 && is_row_after_row).then(|| all / vector)
}

/// The array shape of operand `k`, when it is static.
pub fn shape_of(module: &HloModule, id: InstructionId, k: usize) -> Option<ArrayShape> {
    let operand = module.instruction(id).operand(k)?;
    let shape = operand.array_shape()?;
    shape.is_static().then(|| shape.clone())
}

/// A constant of an integer type that has the value.
pub fn scalar(builder: &mut Builder<'_>, ty: PrimitiveType, value: i64) -> InstructionId {
    let shape = ArrayShape::new(ty, &[]);
    let bytes = Box::from(&value.to_le_bytes()[..ty.size_bytes()]);
    let literal = builder.module.add_literal(Literal {
        shape: shape.clone(),
        value: LiteralValue::Array(bytes),
    });
    let shape = builder.module.shapes_mut().array(shape);
    builder.add(HloOpcode::Constant, shape, &[], &[], literal.index() as u32)
}

/// `sizes` elements of `operand` from `starts` on.
pub fn dynamic_slice(
    builder: &mut Builder<'_>,
    operand: InstructionId,
    starts: &[InstructionId],
    sizes: &[i64],
) -> InstructionId {
    let ty = builder.shape(operand).element_type;
    let mut operands: SmallVec<[InstructionId; 8]> = SmallVec::from_slice(&[operand]);
    operands.extend_from_slice(starts);
    let attribute = builder.ints(AttrKey::DynamicSliceSizes, sizes);
    builder.add_array(HloOpcode::DynamicSlice, ty, sizes, &operands, &[attribute])
}

/// Makes instruction `id` another one.
pub fn become_one(
    module: &mut HloModule,
    id: InstructionId,
    opcode: HloOpcode,
    operands: &[InstructionId],
) {
    module.set_operands(id, operands);
    module.set_attributes(id, &[]);
    let data = module.instruction_data_mut(id);
    (data.opcode, data.immediate) = (opcode, 0);
}

/// Whether no dimension is named twice.
pub fn has_distinct(components: &[usize]) -> bool {
    components
        .iter()
        .enumerate()
        .all(|(k, dim)| !components[..k].contains(dim))
}

/// Whether the dimensions of a window come after all that say which one, so that it lies in one piece.
pub fn come_last(window: &[usize], which: &[usize]) -> bool {
    window.iter().all(|&dim| dim >= which.len())
}
