//! Windows whose places are constants: slices, without an index that is read in a run.

use smallvec::SmallVec;

use super::{become_one, has_distinct, scalar, shape_of, window_count};
use crate::module::{AttrKey, ComputationId, HloModule, HloOpcode, InstructionId};
use crate::plan::cost::windows::MAX_WINDOWS;
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::loops::induction_variable::integer;
use crate::plan::ops::gather::{self, GatherOp};
use crate::plan::ops::index_map::IndexMap;
use crate::types::{ArrayShape, Dims, PrimitiveType};

/// The index vectors one after the other, if they are constants and stand like that.
pub fn vectors(module: &HloModule, indices: InstructionId, map: &IndexMap) -> Option<Vec<i64>> {
    let mut instruction = module.instruction(indices);
    if map.index_vector_dim + 1 < instruction.array_shape()?.rank() {
        return None;
    }
    while instruction.opcode() == HloOpcode::Reshape {
        instruction = instruction.operand(0)?;
    }
    let ty = instruction.array_shape()?.element_type;
    let bytes = instruction.literal()?.bytes()?;
    let each = bytes.chunks_exact(ty.size_bytes());
    each.map(|raw| integer(raw, ty)).collect()
}

/// Slices for a gather.
pub fn replace_gather(
    module: &mut HloModule,
    computation: ComputationId,
    id: InstructionId,
) -> Option<()> {
    let plan = gather::plan(module.instruction(id)).ok()?;
    let operand = shape_of(module, id, 0)?;
    let indices = shape_of(module, id, 1)?;
    let result = module.instruction(id).array_shape()?.clone();
    let vectors = vectors(module, *module.operand_ids(id).get(1)?, &plan.map)?;
    let count = window_count(&plan.map, &indices)?;
    if !result.is_static()
        || !plan.map.batching.is_empty()
        || operand.rank() == 0
        || plan.slice_sizes.contains(&0)
        || !plan.offset_dims.is_sorted()
        || !has_distinct(&plan.map.components)
        || count == 0
    {
        return None;
    }
    let places = places(&plan, &operand, &vectors);
    let source = *module.operand_ids(id).first()?;
    let mut builder = Builder {
        module,
        computation,
        like: id,
    };
    let elements = plan.slice_sizes.iter().product::<i64>();
    let all = evenly_spaced(&mut builder, source, &plan, &places)
        .or_else(|| side_by_side(&mut builder, source, &plan, &places))?;
    // One window after the other so far; in the result other dimensions may come first.
    let which = plan.batch_dims.iter().map(|&d| result.dims[d]);
    let within = plan.offset_dims.iter().map(|&d| result.dims[d]);
    let apart: Dims = which.chain(within).collect();
    debug_assert_eq!(apart.iter().product::<i64>(), count * elements);
    let all = builder.reshape(all, &apart);
    let from = plan.batch_dims.iter().chain(&plan.offset_dims);
    let mut order = vec![0; result.rank()];
    for (at, &to) in from.enumerate() {
        order[to] = at as i64;
    }
    let all = match order.is_sorted() {
        true => all,
        false => {
            let order = builder.ints(AttrKey::Dimensions, &order);
            let ty = operand.element_type;
            builder.add_array(HloOpcode::Transpose, ty, &result.dims, &[all], &[order])
        }
    };
    become_one(module, id, HloOpcode::Reshape, &[all]);
    Some(())
}

/// Where each window starts along each dimension, moved inside as a gather moves it.
fn places(plan: &GatherOp, operand: &ArrayShape, vectors: &[i64]) -> Vec<Dims> {
    let width = plan.map.components.len().max(1);
    let place = |vector: &[i64]| {
        let mut place: Dims = operand.dims.iter().map(|_| 0).collect();
        for (&value, &dim) in vector.iter().zip(&plan.map.components) {
            place[dim] = value.clamp(0, operand.dims[dim] - plan.slice_sizes[dim]);
        }
        place
    };
    vectors.chunks_exact(width).map(place).collect()
}

/// One slice, if all windows are of one element, or of whole rows but for one dimension, and evenly spaced.
fn evenly_spaced(
    builder: &mut Builder<'_>,
    source: InstructionId,
    plan: &GatherOp,
    places: &[Dims],
) -> Option<InstructionId> {
    let dims = builder.shape(source).dims;
    let moved = (0..dims.len()).filter(|&d| plan.slice_sizes[d] != dims[d]);
    let first = moved.clone().next()?;
    // Dimensions from the first to the last that is moved become one.
    let last = moved.clone().next_back()?;
    if (first..=last).any(|d| plan.slice_sizes[d] != 1) || places.len() < 2 {
        return None;
    }
    let at = |place: &Dims| (first..=last).fold(0, |at, d| at * dims[d] + place[d]);
    let (start, step) = (at(&places[0]), at(&places[1]) - at(&places[0]));
    let mut ends = places.windows(2).map(|pair| at(&pair[1]) - at(&pair[0]));
    if step <= 0 || !ends.all(|own| own == step) {
        return None;
    }
    let mut joined = Dims::from_slice(&dims[..first]);
    joined.push(dims[first..=last].iter().product());
    joined.extend_from_slice(&dims[last + 1..]);
    // Windows side by side have to be the slowest dimension.
    if joined[..first].iter().any(|&size| size != 1) {
        return None;
    }
    let flat = builder.reshape(source, &joined);
    let limit = start + step * (places.len() as i64 - 1) + 1;
    Some(builder.strided_slice(flat, first, (start, limit, step)))
}

/// A slice for each window, if they are few.
fn side_by_side(
    builder: &mut Builder<'_>,
    source: InstructionId,
    plan: &GatherOp,
    places: &[Dims],
) -> Option<InstructionId> {
    if places.len() as i64 > MAX_WINDOWS {
        return None;
    }
    let elements = plan.slice_sizes.iter().product::<i64>();
    let mut windows = Vec::with_capacity(places.len());
    for place in places {
        windows.push(window(builder, source, place, &plan.slice_sizes));
    }
    if let [one] = windows[..] {
        return Some(one);
    }
    for window in &mut windows {
        *window = builder.reshape(*window, &[elements]);
    }
    let ty = builder.shape(source).element_type;
    let first = builder.ints(AttrKey::Dimensions, &[0]);
    let dims = [places.len() as i64 * elements];
    Some(builder.add_array(HloOpcode::Concatenate, ty, &dims, &windows, &[first]))
}

/// The window at a place.
pub fn window(
    builder: &mut Builder<'_>,
    source: InstructionId,
    place: &[i64],
    sizes: &[i64],
) -> InstructionId {
    let all = place.iter().zip(sizes).enumerate();
    all.fold(source, |part, (dim, (&start, &size))| {
        builder.slice(part, dim, start, start + size)
    })
}

/// Starts of a slice at a place, as constants of the indices' type.
pub fn starts(
    builder: &mut Builder<'_>,
    (place, ty): (&[i64], PrimitiveType),
    components: &[usize],
    rank: usize,
) -> SmallVec<[InstructionId; 6]> {
    let mut starts: SmallVec<[InstructionId; 6]> = SmallVec::new();
    for dim in 0..rank {
        let component = components.iter().position(|&moved| moved == dim);
        starts.push(scalar(builder, ty, component.map_or(0, |k| place[k])));
    }
    starts
}
