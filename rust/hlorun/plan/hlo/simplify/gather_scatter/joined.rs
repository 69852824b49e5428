//! Index vectors of several coordinates, for neighbouring dimensions of the operand, become one linear index.
//!
//! Applies where the indices are a concatenation of one array per coordinate, and windows have one element
//! along each of these dimensions. The linear index is computed together with the coordinates, which need not
//! be concatenated then. A gather clamps each coordinate first. A scatter skips a window that is outside: its
//! index becomes -1, which is outside, too.

use smallvec::SmallVec;

use super::windows::{become_one, has_distinct, scalar, shape_of};
use crate::module::{AttrKey, AttrValue, ComputationId, HloModule, HloOpcode, InstructionId};
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::builder::Builder;
use crate::plan::ops::index_map::IndexMap;
use crate::plan::ops::{gather, scatter};
use crate::plan::view::major_to_minor;
use crate::types::{ArrayShape, Dims, PrimitiveType};

/// Coordinates that become a linear index.
struct Joined {
    /// The first of the operand's dimensions that become one.
    first: usize,
    /// Their sizes.
    sizes: Dims,
    /// The coordinate along each of them.
    coordinates: SmallVec<[InstructionId; 4]>,
}

/// Whether elements lie in the order of the dimensions: the reshape of another array would copy it.
fn is_plain(shape: &ArrayShape) -> bool {
    major_to_minor(shape).is_sorted()
}

impl Joined {
    /// The coordinates of a gather or scatter with `operand`.
    fn of(
        module: &HloModule,
        indices: InstructionId,
        map: &IndexMap,
        operand: &ArrayShape,
    ) -> Option<Joined> {
        let count = map.components.len();
        let first = *map.components.iter().min()?;
        let dims = first..first + count;
        let is_apart = |dim: &usize| !dims.contains(dim) || map.window.contains(dim);
        if count < 2
            || !has_distinct(&map.components)
            || map.components.iter().any(is_apart)
            || !map.batching.is_empty()
            || !is_plain(operand)
        {
            return None;
        }
        let sizes: Dims = operand.dims.get(dims)?.into();
        let all = sizes
            .iter()
            .try_fold(1i64, |all, &size| all.checked_mul(size))?;
        let vectors = module.instruction(indices);
        let ty = vectors.array_shape()?.element_type;
        let has_numbers = match ty {
            PrimitiveType::S32 | PrimitiveType::U32 => (1..=i64::from(i32::MAX)).contains(&all),
            PrimitiveType::S64 => all > 0,
            _ => false,
        };
        let parts = module.operand_ids(indices);
        let is_one = |&part: &InstructionId| {
            let shape = module.instruction(part).array_shape();
            shape.is_some_and(|s| s.is_static() && s.dims.get(map.index_vector_dim) == Some(&1))
        };
        if !has_numbers
            || vectors.opcode() != HloOpcode::Concatenate
            || vectors.dimensions() != [map.index_vector_dim as i64]
            || parts.len() != count
            || !parts.iter().all(is_one)
        {
            return None;
        }
        let mut coordinates: SmallVec<[InstructionId; 4]> = parts.into();
        for (&part, &dim) in parts.iter().zip(&map.components) {
            coordinates[dim - first] = part;
        }
        Some(Joined {
            first,
            sizes,
            coordinates,
        })
    }

    /// The operand's sizes, or those of a window, with one dimension instead of several.
    fn joined(&self, dims: &[i64]) -> Dims {
        let mut all = Dims::from_slice(&dims[..self.first]);
        let end = self.first + self.sizes.len();
        all.push(dims[self.first..end].iter().product());
        all.extend_from_slice(&dims[end..]);
        all
    }

    /// The operand under these sizes.
    fn reshaped(&self, builder: &mut Builder<'_>, operand: InstructionId) -> InstructionId {
        let dims = self.joined(&builder.shape(operand).dims);
        builder.reshape(operand, &dims)
    }

    /// Numbers of the dimensions without a window under these sizes.
    fn renumbered(&self, dims: &[i64]) -> Dims {
        let (first, more) = (self.first as i64, self.sizes.len() as i64 - 1);
        let mut all: Dims = dims
            .iter()
            .map(|&dim| {
                if dim <= first {
                    dim
                } else {
                    (dim - more).max(first)
                }
            })
            .collect();
        all.dedup();
        all
    }

    /// The linear index of each vector, where all coordinates are inside.
    fn numbers(&self, builder: &mut Builder<'_>) -> InstructionId {
        let shape = builder.shape(self.coordinates[0]);
        let mut number = self.coordinates[0];
        for (&coordinate, &size) in self.coordinates.iter().zip(&self.sizes).skip(1) {
            let size = scalar(builder, shape.element_type, size);
            let size = builder.broadcast(size, &shape.dims);
            let rows = builder.elementwise(HloOpcode::Multiply, &[number, size]);
            number = builder.plus(rows, coordinate);
        }
        number
    }

    /// Clamps the coordinates.
    fn limit(&mut self, builder: &mut Builder<'_>) {
        for (coordinate, &size) in self.coordinates.iter_mut().zip(&self.sizes) {
            let shape = builder.shape(*coordinate);
            let [least, most] =
                [0, size - 1].map(|limit| scalar(builder, shape.element_type, limit));
            let operands = [least, *coordinate, most];
            let (ty, dims) = (shape.element_type, &shape.dims);
            *coordinate = builder.add_array(HloOpcode::Clamp, ty, dims, &operands, &[]);
        }
    }

    /// Where all coordinates are inside.
    fn inside(&self, builder: &mut Builder<'_>) -> InstructionId {
        let shape = builder.shape(self.coordinates[0]);
        let mut all = None;
        for (&coordinate, &size) in self.coordinates.iter().zip(&self.sizes) {
            let end = scalar(builder, shape.element_type, size);
            let end = builder.broadcast(end, &shape.dims);
            let before_end = builder.less(coordinate, end);
            let mut both = |a, b| builder.elementwise(HloOpcode::And, &[a, b]);
            all = Some(all.map_or(before_end, |all| both(all, before_end)));
            if shape.element_type != PrimitiveType::U32 {
                let least = scalar(builder, shape.element_type, -1);
                let least = builder.broadcast(least, &shape.dims);
                let not_negative = builder.less(least, coordinate);
                all = all.map(|all| builder.elementwise(HloOpcode::And, &[all, not_negative]));
            }
        }
        all.unwrap_or(self.coordinates[0])
    }
}

/// Sets attributes that are lists.
fn set_lists(module: &mut HloModule, id: InstructionId, lists: [(AttrKey, &[i64]); 2]) {
    for (key, values) in lists {
        let values = AttrValue::Ints(module.add_ints(values));
        module.set_attribute(id, key, values);
    }
    // Their order may be another one.
    module.set_attribute(id, AttrKey::IndicesAreSorted, AttrValue::Bool(false));
}

/// A gather by a linear index.
pub fn replace_gather(
    module: &mut HloModule,
    computation: ComputationId,
    id: InstructionId,
) -> Option<()> {
    let plan = gather::plan(module.instruction(id)).ok()?;
    let operand = shape_of(module, id, 0)?;
    let &[source, indices] = module.operand_ids(id) else {
        return None;
    };
    let mut joined = Joined::of(module, indices, &plan.map, &operand)?;
    let dropped = joined.renumbered(module.instruction(id).ints(AttrKey::CollapsedSliceDims));
    let mut builder = Builder {
        module,
        computation,
        like: id,
    };
    let source = joined.reshaped(&mut builder, source);
    if !faults::holds(Fault::JoinsLooseCoordinates, false) {
        joined.limit(&mut builder);
    }
    let numbers = joined.numbers(&mut builder);
    module.set_operands(id, &[source, numbers]);
    let sizes = joined.joined(&plan.slice_sizes);
    set_lists(
        module,
        id,
        [
            (AttrKey::CollapsedSliceDims, &dropped),
            (AttrKey::StartIndexMap, &[joined.first as i64]),
        ],
    );
    let sizes = AttrValue::Ints(module.add_ints(&sizes));
    module.set_attribute(id, AttrKey::SliceSizes, sizes);
    Some(())
}

/// A scatter by a linear index.
pub fn replace_scatter(
    module: &mut HloModule,
    computation: ComputationId,
    id: InstructionId,
) -> Option<()> {
    let plan = scatter::plan(module.instruction(id)).ok()?;
    let operand = shape_of(module, id, 0)?;
    let &[source, indices, updates] = module.operand_ids(id) else {
        return None;
    };
    let result = module.instruction(id).array_shape()?;
    if !is_plain(result) {
        return None;
    }
    let joined = Joined::of(module, indices, &plan.map, &operand)?;
    let dropped = joined.renumbered(module.instruction(id).ints(AttrKey::InsertedWindowDims));
    let attributes = module.attributes_of(id).to_vec();
    let mut builder = Builder {
        module,
        computation,
        like: id,
    };
    let source = joined.reshaped(&mut builder, source);
    let mut numbers = joined.numbers(&mut builder);
    if !faults::holds(Fault::JoinsLooseCoordinates, false) {
        let inside = joined.inside(&mut builder);
        let shape = builder.shape(numbers);
        let outside = scalar(&mut builder, shape.element_type, -1);
        let outside = builder.broadcast(outside, &shape.dims);
        numbers = builder.elementwise(HloOpcode::Select, &[inside, numbers, outside]);
    }
    let operands = [source, numbers, updates];
    let dims = joined.joined(&operand.dims);
    let ty = operand.element_type;
    let all = builder.add_array(HloOpcode::Scatter, ty, &dims, &operands, &attributes);
    set_lists(
        module,
        all,
        [
            (AttrKey::InsertedWindowDims, &dropped),
            (AttrKey::ScatterDimsToOperandDims, &[joined.first as i64]),
        ],
    );
    become_one(module, id, HloOpcode::Reshape, &[all]);
    Some(())
}
