//! Windows whose places are constants: slices, without an index that is read in a run.

use std::ops::RangeInclusive;

use smallvec::SmallVec;

use super::windows::{become_one, has_distinct, scalar, shape_of, window_count};
use crate::module::{AttrKey, ComputationId, HloModule, HloOpcode, InstructionId};
use crate::plan::cost::windows::MAX_WINDOWS;
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::loops::induction_variable::integers;
use crate::plan::ops::gather::{self, GatherOp};
use crate::plan::ops::index_map::IndexMap;
use crate::types::{ArrayShape, Dims, PrimitiveType};

/// How many index vectors of one component there are, if they are 0, 1, 2, ….
fn counted(module: &HloModule, mut indices: InstructionId) -> Option<i64> {
    while module.instruction_data(indices).opcode == HloOpcode::Reshape {
        indices = *module.operand_ids(indices).first()?;
    }
    let iota = module.instruction(indices);
    let shape = iota.array_shape()?;
    let along = shape.dims.get(iota.data().immediate as usize)?;
    let is_all = shape.element_count() == Some(*along);
    // Small types begin again.
    let is_wide = shape.element_type.size_bytes() >= 4 && i32::try_from(*along).is_ok();
    (iota.opcode() == HloOpcode::Iota && is_all && is_wide).then_some(*along)
}

/// The components of the index vectors one after the other, if they are constants and stand like that.
fn components<'m>(
    module: &'m HloModule,
    indices: InstructionId,
    map: &IndexMap,
) -> Option<impl Iterator<Item = i64> + Clone + 'm> {
    let mut instruction = module.instruction(indices);
    if map.index_vector_dim + 1 < instruction.array_shape()?.rank() {
        return None;
    }
    while instruction.opcode() == HloOpcode::Reshape {
        instruction = instruction.operand(0)?;
    }
    let ty = instruction.array_shape()?.element_type;
    let values = integers(instruction.literal()?.bytes()?, ty);
    // All of them are known where the first one is: that depends on the type.
    values.clone().next()??;
    Some(values.flatten())
}

/// The index vectors one after the other, if they are few and constants.
pub fn vectors(module: &HloModule, indices: InstructionId, map: &IndexMap) -> Option<Vec<i64>> {
    let all = components(module, indices, map)?;
    let most = MAX_WINDOWS as usize * map.components.len();
    (all.clone().nth(most).is_none()).then(|| all.collect())
}

/// Slices for a gather.
pub fn replace_gather(
    module: &mut HloModule,
    computation: ComputationId,
    id: InstructionId,
) -> Option<()> {
    let plan = gather::plan(module.instruction(id)).ok()?;
    let operand = shape_of(module, id, 0)?;
    let index_shape = shape_of(module, id, 1)?;
    let result = module.instruction(id).array_shape()?.clone();
    let count = window_count(&plan.map, &index_shape)?;
    if !result.is_static()
        || !plan.map.batching.is_empty()
        || operand.rank() == 0
        || plan.slice_sizes.contains(&0)
        || !plan.offset_dims.is_sorted()
        || !has_distinct(&plan.map.components)
        || plan.map.components.is_empty()
        || count == 0
    {
        return None;
    }
    let &[source, indices] = module.operand_ids(id) else {
        return None;
    };
    let (even, few) = if counted(module, indices) == Some(count) {
        (counting(&plan, &operand, count), Vec::new())
    } else {
        let components = components(module, indices, &plan.map)?;
        let places = places(&plan, &operand, components);
        let few: Vec<Dims> = match count <= MAX_WINDOWS {
            true => places.clone().collect(),
            false => Vec::new(),
        };
        (evenly_spaced(&plan, &operand, places), few)
    };
    let mut builder = Builder {
        module,
        computation,
        like: id,
    };
    let elements = plan.slice_sizes.iter().product::<i64>();
    let (all, outer) = match even {
        Some(even) => (even.slice(&mut builder, source), even.outer),
        None => (side_by_side(&mut builder, source, &plan, &few)?, 0),
    };
    // One window after the other so far, inside of dimensions that none moves along; in the result others may come first.
    let (before, within) = plan.offset_dims.split_at(outer);
    let from = || before.iter().chain(&plan.batch_dims).chain(within);
    let apart: Dims = from().map(|&d| result.dims[d]).collect();
    debug_assert_eq!(apart.iter().product::<i64>(), count * elements);
    let all = builder.reshape(all, &apart);
    let mut order = vec![0; result.rank()];
    for (at, &to) in from().enumerate() {
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
fn places<'a>(
    plan: &'a GatherOp,
    operand: &'a ArrayShape,
    mut components: impl Iterator<Item = i64> + Clone + 'a,
) -> impl Iterator<Item = Dims> + Clone + 'a {
    std::iter::from_fn(move || {
        let mut place: Dims = operand.dims.iter().map(|_| 0).collect();
        for &dim in &plan.map.components {
            let value = components.next()?;
            place[dim] = value.clamp(0, operand.dims[dim] - plan.slice_sizes[dim]);
        }
        Some(place)
    })
}

/// Windows as one slice.
struct Even {
    /// Sizes of the operand, the dimensions that windows are moved along joined to one.
    joined: Dims,
    /// That dimension.
    dim: usize,
    /// Start, limit and stride of the slice.
    slice: (i64, i64, i64),
    /// How many dimensions of a window come before that one.
    outer: usize,
}

impl Even {
    fn slice(&self, builder: &mut Builder<'_>, source: InstructionId) -> InstructionId {
        let flat = builder.reshape(source, &self.joined);
        builder.strided_slice(flat, self.dim, self.slice)
    }
}

/// Dimensions of the operand from the first to the last that windows are moved along, in which each window has one
/// element; windows are whole along all others.
fn moved(plan: &GatherOp, operand: &ArrayShape) -> Option<RangeInclusive<usize>> {
    let dims = &operand.dims;
    let mut moved = (0..dims.len()).filter(|&d| plan.slice_sizes[d] != dims[d]);
    let first = moved.next()?;
    let moved = first..=moved.next_back().unwrap_or(first);
    let are_single = moved.clone().all(|d| plan.slice_sizes[d] == 1);
    are_single.then_some(moved)
}

/// The place of a window along the dimensions `moved`, taken as one.
fn along(moved: &RangeInclusive<usize>, operand: &ArrayShape, place: &[i64]) -> i64 {
    let dims = moved.clone();
    dims.fold(0, |at, d| at * operand.dims[d] + place[d])
}

impl Even {
    /// The first window at `start`, the last at `end`, each `step` after the one before.
    fn new(
        plan: &GatherOp,
        operand: &ArrayShape,
        moved: &RangeInclusive<usize>,
        (start, end, step): (i64, i64, i64),
    ) -> Option<Even> {
        let (dims, first) = (&operand.dims, *moved.start());
        let mut joined = Dims::from_slice(&dims[..first]);
        joined.push(dims[moved.clone()].iter().product());
        joined.extend_from_slice(&dims[moved.end() + 1..]);
        (step > 0).then_some(Even {
            joined,
            dim: first,
            slice: (start, end + 1, step),
            outer: plan.map.window.iter().filter(|&&dim| dim < first).count(),
        })
    }
}

/// One slice, if windows are evenly spaced along dimensions in which each has one element, and whole along all others.
fn evenly_spaced(
    plan: &GatherOp,
    operand: &ArrayShape,
    places: impl Iterator<Item = Dims>,
) -> Option<Even> {
    let moved = moved(plan, operand)?;
    let mut all = places.map(|place| along(&moved, operand, &place));
    let start = all.next()?;
    let mut end = all.next()?;
    let step = end - start;
    for next in all {
        if next - end != step {
            return None;
        }
        end = next;
    }
    Even::new(plan, operand, &moved, (start, end, step))
}

/// The same for windows at 0, 1, … up to `count` along one dimension, if none of them is outside.
fn counting(plan: &GatherOp, operand: &ArrayShape, count: i64) -> Option<Even> {
    let moved = moved(plan, operand)?;
    let &[dim] = &plan.map.components[..] else {
        return None;
    };
    if !moved.contains(&dim) || count < 2 || count > operand.dims[dim] {
        return None;
    }
    let at = |window| {
        let mut place = Dims::from_elem(0, operand.rank());
        place[dim] = window;
        along(&moved, operand, &place)
    };
    Even::new(plan, operand, &moved, (0, at(count - 1), at(1)))
}

/// A slice for each of some windows.
fn side_by_side(
    builder: &mut Builder<'_>,
    source: InstructionId,
    plan: &GatherOp,
    places: &[Dims],
) -> Option<InstructionId> {
    if places.is_empty() {
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
