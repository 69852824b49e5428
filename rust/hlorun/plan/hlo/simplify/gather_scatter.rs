//! `gather-scatter-simplifier`: a `gather` or `scatter` of one window, as a slice at a place that is computed.
//!
//! Applies where the indices name exactly one window, and inside loops, whose code has slices but no
//! gathers, where they name few small ones: then window after window. Along batching dimensions a window
//! stands where its number says. Few windows at constant places are slices everywhere, and many where
//! they are evenly spaced ([`known`]). A gather clamps where it starts, as `dynamic-slice` does. A scatter
//! that writes its update, or adds it, or combines it by another plain operation, is a
//! `dynamic-update-slice`; where any of the window is outside it changes nothing, so that the elements
//! that are there are written again. Index vectors of several coordinates may become linear indices
//! ([`joined`]). A transpose of a gather becomes a gather ([`turned`]).

mod coordinates;
mod joined;
mod known;
mod turned;
mod windows;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

pub(super) use windows::{become_one, dynamic_slice, scalar, shape_of};
use windows::{come_last, has_distinct, window_count};

use super::readers::replace_before;
use crate::module::{AttrKey, ComputationId, HloModule, HloOpcode, InstructionId};
use crate::plan::cost::windows::{MAX_WINDOW, MAX_WINDOWS};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::loops::info::while_loops;
use crate::plan::ops::combiner::Shortcut;
use crate::plan::ops::index_map::IndexMap;
use crate::plan::ops::{gather, scatter};
use crate::types::{ArrayShape, Dims, PrimitiveType};
use hlorun_kernels::BinaryOp;

/// Name by which it is switched off.
pub const NAME: &str = "gather-scatter-simplifier";

/// Runs the pass on all computations; how many gathers and scatters it replaced.
pub fn run(module: &mut HloModule) -> usize {
    let mut changed = 0;
    let repeated = repeated_computations(module);
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let most = if repeated.contains(&computation) {
            MAX_WINDOWS
        } else {
            1
        };
        let is_one = |id: &InstructionId| {
            let opcode = module.instruction_data(*id).opcode;
            matches!(opcode, HloOpcode::Gather | HloOpcode::Scatter)
        };
        if !module
            .computation(computation)
            .instructions
            .iter()
            .any(is_one)
        {
            continue;
        }
        changed += turned::run(module, computation);
        changed += replace_before(module, computation, |module, id| {
            let done = match module.instruction_data(id).opcode {
                HloOpcode::Gather => known::replace_gather(module, computation, id)
                    .or_else(|| replace_gather(module, computation, id, most))
                    .or_else(|| joined::replace_gather(module, computation, id)),
                HloOpcode::Scatter => replace_scatter(module, computation, id, most)
                    .or_else(|| joined::replace_scatter(module, computation, id)),
                _ => None,
            };
            done.is_some()
        });
    }
    changed
}

/// Bodies and conditions of loops, and the branches in them.
pub(super) fn repeated_computations(module: &HloModule) -> FxHashSet<ComputationId> {
    let mut found = FxHashSet::default();
    let mut open = while_loops(module);
    while let Some(id) = open.pop() {
        for called in module.instruction(id).called_computations() {
            if found.insert(called) {
                let all = module.computation(called).instructions.iter().copied();
                open.extend(all.filter(|&id| {
                    let opcode = module.instruction_data(id).opcode;
                    opcode == HloOpcode::Conditional
                }));
            }
        }
    }
    found
}

/// Whether windows at places that are computed become slices: one, or up to `most` small ones.
fn are_few(count: i64, elements: i64, most: i64) -> bool {
    count == 1 || elements <= MAX_WINDOW && (1..=most).contains(&count)
}

/// Whether each window lies inside the operand along the dimensions of the batch, and nothing else moves it along these.
fn are_in_range(map: &IndexMap, operand: &ArrayShape, indices: &ArrayShape) -> bool {
    let mut moved = map.batching.iter();
    map.batch_fits(&batch_sizes(map, indices), &operand.dims)
        && moved.all(|(dim, _)| !map.components.contains(dim))
}

/// Sizes of the dimensions of the indices that say which window.
fn batch_sizes(map: &IndexMap, indices: &ArrayShape) -> Dims {
    let dims = indices.dims.iter().enumerate();
    let dims = dims.filter(|&(dim, _)| dim != map.index_vector_dim);
    dims.map(|(_, &size)| size).collect()
}

/// Dimensions of the operand along which the batch moves windows, and where window `window` begins along each.
fn places_in_batch<'m>(
    map: &'m IndexMap,
    indices: &ArrayShape,
    window: i64,
) -> impl Iterator<Item = (usize, i64)> + 'm {
    let sizes = batch_sizes(map, indices);
    map.batching.iter().map(move |&(dim, batch)| {
        let inner: i64 = sizes[batch + 1..].iter().product();
        (dim, window / inner % sizes[batch])
    })
}

/// Where window `window` starts along each dimension of the operand: components of the indices, its place in the batch, or 0.
fn starts(
    builder: &mut Builder<'_>,
    indices: InstructionId,
    map: &IndexMap,
    rank: usize,
    window: i64,
) -> SmallVec<[InstructionId; 6]> {
    let shape = builder.shape(indices);
    let ty = shape.element_type;
    let vector = builder.reshape(indices, &[shape.dims.iter().product()]);
    let zero = scalar(builder, ty, 0);
    let mut starts: SmallVec<[InstructionId; 6]> = SmallVec::from_elem(zero, rank);
    for (dim, place) in places_in_batch(map, &shape, window) {
        starts[dim] = scalar(builder, ty, place);
    }
    for (k, &dim) in map.components.iter().enumerate() {
        let at = window * map.components.len() as i64 + k as i64;
        let part = builder.slice(vector, 0, at, at + 1);
        starts[dim] = builder.reshape(part, &[]);
    }
    starts
}

fn replace_gather(
    module: &mut HloModule,
    computation: ComputationId,
    id: InstructionId,
    most: i64,
) -> Option<()> {
    let plan = gather::plan(module.instruction(id)).ok()?;
    let operand = shape_of(module, id, 0)?;
    let indices = shape_of(module, id, 1)?;
    let result = module.instruction(id).array_shape()?;
    let elements = plan.slice_sizes.iter().product::<i64>();
    let count = window_count(&plan.map, &indices)?;
    if !are_few(count, elements, most)
        || !result.is_static()
        || !are_in_range(&plan.map, &operand, &indices)
        || operand.rank() == 0
        || elements.checked_mul(count)? != result.element_count()?
        || plan.slice_sizes.contains(&0)
        || !plan.offset_dims.is_sorted()
        || count > 1 && !come_last(&plan.offset_dims, &plan.batch_dims)
        || !has_distinct(&plan.map.components)
    {
        return None;
    }
    let operands: SmallVec<[InstructionId; 4]> = SmallVec::from_slice(module.operand_ids(id));
    let mut builder = Builder {
        module,
        computation,
        like: id,
    };
    let rank = operand.rank();
    let mut windows = Vec::new();
    for window in 0..count {
        let starts = starts(&mut builder, operands[1], &plan.map, rank, window);
        let slice = dynamic_slice(&mut builder, operands[0], &starts, &plan.slice_sizes);
        windows.push(slice);
    }
    // Dimensions of the window keep their order, and all others have one element.
    let all = match windows[..] {
        [one] => one,
        _ => {
            for window in &mut windows {
                *window = builder.reshape(*window, &[elements]);
            }
            let ty = operand.element_type;
            let first = builder.ints(AttrKey::Dimensions, &[0]);
            let dims = [count * elements];
            builder.add_array(HloOpcode::Concatenate, ty, &dims, &windows, &[first])
        }
    };
    become_one(module, id, HloOpcode::Reshape, &[all]);
    Some(())
}

/// The array operation that does what a scatter's computation does.
fn combination(shortcut: Shortcut) -> Option<Option<HloOpcode>> {
    Some(match shortcut {
        Shortcut::Second => None,
        Shortcut::Binary(BinaryOp::Add) => Some(HloOpcode::Add),
        Shortcut::Binary(BinaryOp::Multiply) => Some(HloOpcode::Multiply),
        Shortcut::Binary(BinaryOp::Maximum) => Some(HloOpcode::Maximum),
        Shortcut::Binary(BinaryOp::Minimum) => Some(HloOpcode::Minimum),
        Shortcut::Binary(BinaryOp::And) => Some(HloOpcode::And),
        Shortcut::Binary(BinaryOp::Or) => Some(HloOpcode::Or),
        _ => return None,
    })
}

fn replace_scatter(
    module: &mut HloModule,
    computation: ComputationId,
    id: InstructionId,
    most: i64,
) -> Option<()> {
    let plan = scatter::plan(module.instruction(id)).ok()?;
    let operand = shape_of(module, id, 0)?;
    let indices = shape_of(module, id, 1)?;
    let updates = shape_of(module, id, 2)?;
    module.instruction(id).array_shape()?;
    let combine = combination(plan.combiner.shortcut?)?;
    let ty = indices.element_type;
    let mut window: Dims = operand.dims.iter().map(|_| 1).collect();
    for (&from, &to) in plan.update_window_dims.iter().zip(&plan.map.window) {
        window[to] = updates.dims[from];
    }
    let elements = window.iter().product::<i64>();
    let count = window_count(&plan.map, &indices)?;
    let &[source, places, new] = module.operand_ids(id) else {
        return None;
    };
    let operand_ids = [source, places, new];
    let vectors = known::vectors(module, places, &plan.map);
    let vectors = vectors.filter(|_| plan.map.batching.is_empty());
    if !(are_few(count, elements, most) || vectors.is_some() && count <= MAX_WINDOWS)
        || !are_in_range(&plan.map, &operand, &indices)
        || operand.rank() == 0
        || updates.element_count()? == 0
        || !plan.update_window_dims.is_sorted()
        || count > 1 && !come_last(&plan.update_window_dims, &plan.scatter_dims)
        || updates.element_type != operand.element_type
        || !matches!(
            ty,
            PrimitiveType::S32 | PrimitiveType::S64 | PrimitiveType::U32
        )
        || !has_distinct(&plan.map.components)
        // Indices without components may stand for many windows.
        || elements.checked_mul(count)? != updates.element_count()?
    {
        return None;
    }
    let ends = ends(&operand, &window, ty)?;
    let mut builder = Builder {
        module,
        computation,
        like: id,
    };
    let all = Scatter {
        map: &plan.map,
        places: vectors,
        window,
        ends,
        combine,
    };
    all.write(&mut builder, operand_ids, count);
    Some(())
}

/// A scatter that is written window by window.
struct Scatter<'p> {
    /// How the index vectors place windows.
    map: &'p IndexMap,
    /// The vectors, where they are constants and there is no batch.
    places: Option<Vec<i64>>,
    /// Sizes of a window.
    window: Dims,
    /// See [`ends`].
    ends: Dims,
    /// What the new elements are combined by, if they do not stand for the old ones.
    combine: Option<HloOpcode>,
}

impl Scatter<'_> {
    /// The place of a window, where it is known.
    fn place(&self, at: i64) -> Option<&[i64]> {
        let length = self.map.components.len();
        let from = at as usize * length;
        self.places.as_ref()?.get(from..from + length)
    }

    /// Whether it is known that some of a window is outside.
    fn is_outside(&self, at: i64) -> bool {
        let is_inside = |(&value, &dim): (&i64, &usize)| (0..self.ends[dim]).contains(&value);
        let place = self.place(at);
        place.is_some_and(|place| !place.iter().zip(&self.map.components).all(is_inside))
    }

    /// Makes the scatter of operand, indices and updates a chain of updates.
    fn write(
        &self,
        builder: &mut Builder<'_>,
        [operand, indices, updates]: [InstructionId; 3],
        count: i64,
    ) {
        let shape = builder.shape(operand);
        let elements = self.window.iter().product::<i64>();
        let kept: Vec<i64> = (0..count).filter(|&at| !self.is_outside(at)).collect();
        let mut written = operand;
        if kept.is_empty() {
            become_one(builder.module, builder.like, HloOpcode::Reshape, &[written]);
        }
        for &at in &kept {
            let new = if count == 1 {
                builder.reshape(updates, &self.window)
            } else {
                let all = builder.reshape(updates, &[count * elements]);
                let own = builder.slice(all, 0, at * elements, (at + 1) * elements);
                builder.reshape(own, &self.window)
            };
            let (starts, part) = self.part(builder, [written, indices, new], at);
            let mut all: SmallVec<[InstructionId; 8]> = SmallVec::from_slice(&[written, part]);
            all.extend(starts);
            if kept.last() == Some(&at) {
                let id = builder.like;
                become_one(builder.module, id, HloOpcode::DynamicUpdateSlice, &all);
            } else {
                let (ty, dims) = (shape.element_type, &shape.dims);
                let opcode = HloOpcode::DynamicUpdateSlice;
                written = builder.add_array(opcode, ty, dims, &all, &[]);
            }
        }
    }

    /// Where a window begins in `written`, and what stands there then.
    fn part(
        &self,
        builder: &mut Builder<'_>,
        [written, indices, new]: [InstructionId; 3],
        at: i64,
    ) -> (SmallVec<[InstructionId; 6]>, InstructionId) {
        let rank = self.window.len();
        let components = &self.map.components;
        let Some(place) = self.place(at) else {
            let starts = starts(builder, indices, self.map, rank, at);
            let old = dynamic_slice(builder, written, &starts, &self.window);
            let (all, dims) = ([old, new], components);
            let part = combined(builder, self.combine, all, &starts, dims, &self.ends);
            return (starts, part);
        };
        let ty = builder.shape(indices).element_type;
        let starts = known::starts(builder, (place, ty), components, rank);
        let part = self.combine.map(|opcode| {
            let mut corner = Dims::from_elem(0, rank);
            for (&value, &dim) in place.iter().zip(components) {
                corner[dim] = value;
            }
            let old = known::window(builder, written, &corner, &self.window);
            let ty = builder.shape(old).element_type;
            builder.add_array(opcode, ty, &self.window, &[old, new], &[])
        });
        (starts, part.unwrap_or(new))
    }
}

/// Starts beyond which some of the window is outside; `None` where an index cannot say them.
fn ends(operand: &ArrayShape, window: &[i64], ty: PrimitiveType) -> Option<Dims> {
    let sizes = operand.dims.iter().zip(window);
    let ends: Dims = sizes.map(|(&dim, &size)| dim - size + 1).collect();
    let most = match ty {
        PrimitiveType::S32 => i64::from(i32::MAX),
        PrimitiveType::U32 => i64::from(u32::MAX),
        _ => i64::MAX,
    };
    let fits = ends.iter().all(|end| (1..=most).contains(end));
    fits.then_some(ends)
}

/// What a window becomes: the old elements combined with the new ones, or left where any is outside.
pub(super) fn combined(
    builder: &mut Builder<'_>,
    combine: Option<HloOpcode>,
    [old, new]: [InstructionId; 2],
    starts: &[InstructionId],
    components: &[usize],
    ends: &[i64],
) -> InstructionId {
    let window = builder.shape(old);
    let new = match combine {
        None => new,
        Some(opcode) => {
            builder.add_array(opcode, window.element_type, &window.dims, &[old, new], &[])
        }
    };
    let mut is_inside = None;
    for &dim in components {
        let ty = builder.shape(starts[dim]).element_type;
        let end = scalar(builder, ty, ends[dim]);
        let mut own = builder.less(starts[dim], end);
        if ty != PrimitiveType::U32 {
            let before = scalar(builder, ty, -1);
            let not_before = builder.less(before, starts[dim]);
            own = and(builder, own, not_before);
        }
        is_inside = Some(match is_inside {
            Some(others) => and(builder, others, own),
            None => own,
        });
    }
    match is_inside {
        Some(is_inside) => {
            let mask = builder.broadcast(is_inside, &window.dims);
            let ty = window.element_type;
            builder.add_array(HloOpcode::Select, ty, &window.dims, &[mask, new, old], &[])
        }
        None => new,
    }
}

fn and(builder: &mut Builder<'_>, a: InstructionId, b: InstructionId) -> InstructionId {
    builder.add_array(HloOpcode::And, PrimitiveType::Pred, &[], &[a, b], &[])
}
