//! Index vectors of several coordinates, for neighbouring dimensions of the operand, become one linear index.
//!
//! Applies where each coordinate is known by itself ([`coordinates`]), and windows have one element along each of these
//! dimensions. The linear index is computed together with the coordinates, which need not be put side by side then. A gather
//! clamps each coordinate first. A scatter skips a window that is outside: its index becomes -1, which is outside, too.
//! Windows lose these dimensions where they had them: XLA leaves all of them in gathers and scatters.

use smallvec::SmallVec;

use super::coordinates::{self, Coordinate};
use super::windows::{become_one, has_distinct, scalar, shape_of};
use crate::module::{AttrKey, AttrValue, ComputationId, HloModule, HloOpcode, InstructionId};
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::builder::Builder;
use crate::plan::ops::index_map::{DimList, IndexMap};
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
    coordinates: SmallVec<[Coordinate; 4]>,
    /// The type of the indices, and the sizes of an array of one number for each vector.
    ty: PrimitiveType,
    dims: Dims,
}

/// Whether elements lie in the order of the dimensions: the reshape of another array would copy it.
fn is_plain(shape: &ArrayShape) -> bool {
    major_to_minor(shape).is_sorted()
}

impl Joined {
    /// The coordinates of a gather or scatter with `operand`, whose windows have the sizes `window` along `map.window`.
    fn of(
        module: &HloModule,
        indices: InstructionId,
        map: &IndexMap,
        operand: &ArrayShape,
        window: &[i64],
    ) -> Option<Joined> {
        let count = map.components.len();
        let first = *map.components.iter().min()?;
        let dims = first..first + count;
        let mut windows = map.window.iter().zip(window);
        let has_one_each = windows.all(|(dim, &size)| !dims.contains(dim) || size == 1);
        if count < 2
            || !has_distinct(&map.components)
            || !map.components.iter().all(|dim| dims.contains(dim))
            || !has_one_each
            || !map.batching.is_empty()
            || !is_plain(operand)
        {
            return None;
        }
        let sizes: Dims = operand.dims.get(dims)?.into();
        let all = sizes
            .iter()
            .try_fold(1i64, |all, &size| all.checked_mul(size))?;
        let vectors = module.instruction(indices).array_shape()?;
        let has_numbers = match vectors.element_type {
            PrimitiveType::S32 | PrimitiveType::U32 => (1..=i64::from(i32::MAX)).contains(&all),
            PrimitiveType::S64 => all > 0,
            _ => false,
        };
        if !has_numbers || !vectors.is_static() {
            return None;
        }
        let mut dims = vectors.dims.clone();
        *dims.get_mut(map.index_vector_dim)? = 1;
        let found = coordinates::of(module, indices, map.index_vector_dim)?;
        let mut coordinates = found.clone();
        if found.len() != count {
            return None;
        }
        for (&coordinate, &dim) in found.iter().zip(&map.components) {
            coordinates[dim - first] = coordinate;
        }
        Some(Joined {
            first,
            sizes,
            coordinates,
            ty: vectors.element_type,
            dims,
        })
    }

    /// The operand's dimensions that become one.
    fn range(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.sizes.len()
    }

    /// The operand's sizes, or those of a window, with one dimension instead of several.
    fn joined(&self, dims: &[i64]) -> Dims {
        let mut all = Dims::from_slice(&dims[..self.first]);
        all.push(dims[self.range()].iter().product());
        all.extend_from_slice(&dims[self.range().end..]);
        all
    }

    /// The operand under these sizes.
    fn reshaped(&self, builder: &mut Builder<'_>, operand: InstructionId) -> InstructionId {
        let dims = self.joined(&builder.shape(operand).dims);
        builder.reshape(operand, &dims)
    }

    /// Numbers of the dimensions without a window under these sizes, where they were `dims` and those that become one.
    fn without_window(&self, dims: &[i64]) -> Dims {
        let (first, more) = (self.first as i64, self.sizes.len() as i64 - 1);
        let renumbered = |&dim: &i64| match dim <= first {
            true => dim,
            false => (dim - more).max(first),
        };
        let mut all: Dims = dims.iter().map(renumbered).collect();
        all.push(first);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Splits the dimensions of windows in the result of a gather, or in the updates of a scatter, as `own` numbers them: those
    /// that are left, and those that go.
    fn split(&self, map: &IndexMap, own: &DimList) -> (DimList, DimList) {
        let all = map.window.iter().zip(own);
        let (gone, left): (Vec<_>, Vec<_>) = all.partition(|(dim, _)| self.range().contains(dim));
        let numbers = |of: Vec<(_, &usize)>| of.into_iter().map(|(_, &own)| own).collect();
        (numbers(left), numbers(gone))
    }

    /// Makes an array of each coordinate; a gather clamps it.
    fn prepare(&mut self, builder: &mut Builder<'_>, clamps: bool) {
        for (coordinate, &size) in self.coordinates.iter_mut().zip(&self.sizes) {
            *coordinate = match coordinate.array(builder, &self.dims) {
                Coordinate::Known(value) if clamps => Coordinate::Known(value.clamp(0, size - 1)),
                Coordinate::Array(array) if clamps => {
                    let limit = [0, size - 1].map(|limit| scalar(builder, self.ty, limit));
                    let operands = [limit[0], array, limit[1]];
                    let clamp = HloOpcode::Clamp;
                    Coordinate::Array(builder.add_array(clamp, self.ty, &self.dims, &operands, &[]))
                }
                own => own,
            };
        }
    }

    /// An array of one number for each vector, all of them `value`.
    fn everywhere(&self, builder: &mut Builder<'_>, value: i64) -> InstructionId {
        let value = scalar(builder, self.ty, value);
        builder.broadcast(value, &self.dims)
    }

    /// The linear index of each vector, where all coordinates are inside.
    fn numbers(&self, builder: &mut Builder<'_>) -> InstructionId {
        let mut sum: Option<InstructionId> = None;
        let mut known = 0;
        for (&coordinate, &size) in self.coordinates.iter().zip(&self.sizes) {
            known *= size;
            sum = sum.map(|sum| {
                let size = self.everywhere(builder, size);
                builder.elementwise(HloOpcode::Multiply, &[sum, size])
            });
            match coordinate {
                Coordinate::Known(value) => known += value,
                Coordinate::Array(array) | Coordinate::Column { array, .. } => {
                    sum = Some(sum.map_or(array, |sum| builder.plus(sum, array)));
                }
            }
        }
        match (sum, known) {
            (Some(sum), 0) => sum,
            (None, known) => self.everywhere(builder, known),
            (Some(sum), known) => {
                let known = self.everywhere(builder, known);
                builder.plus(sum, known)
            }
        }
    }

    /// Where all coordinates are inside; `None` where all of them are known.
    fn inside(&self, builder: &mut Builder<'_>) -> Option<InstructionId> {
        let mut all = None;
        for (&coordinate, &size) in self.coordinates.iter().zip(&self.sizes) {
            let Coordinate::Array(array) = coordinate else {
                continue;
            };
            let end = self.everywhere(builder, size);
            let before_end = builder.less(array, end);
            let mut both = |a, b| builder.elementwise(HloOpcode::And, &[a, b]);
            all = Some(all.map_or(before_end, |all| both(all, before_end)));
            if self.ty != PrimitiveType::U32 {
                let least = self.everywhere(builder, -1);
                let not_negative = builder.less(least, array);
                all = all.map(|all| builder.elementwise(HloOpcode::And, &[all, not_negative]));
            }
        }
        all
    }

    /// Whether a known coordinate is outside.
    fn is_outside(&self) -> bool {
        let mut all = self.coordinates.iter().zip(&self.sizes);
        all.any(|(coordinate, &size)| {
            matches!(coordinate, Coordinate::Known(value) if !(0..size).contains(value))
        })
    }
}

/// `dims` without the numbers in `gone`, and how those that are left are numbered then.
fn dropped(dims: &[i64], gone: &[usize], left: &[usize]) -> (Dims, Dims) {
    let is_left = |at: &usize| !gone.contains(at);
    let sizes = (0..dims.len()).filter(is_left).map(|at| dims[at]).collect();
    let before = |at: &usize| gone.iter().filter(|&other| other < at).count();
    let numbers = left.iter().map(|at| (at - before(at)) as i64).collect();
    (sizes, numbers)
}

/// Sets attributes that are lists.
fn set_lists<const N: usize>(
    module: &mut HloModule,
    id: InstructionId,
    lists: [(AttrKey, &[i64]); N],
) {
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
    let window: Dims = plan
        .map
        .window
        .iter()
        .map(|&d| plan.slice_sizes[d])
        .collect();
    let mut joined = Joined::of(module, indices, &plan.map, &operand, &window)?;
    let result = module.instruction(id).array_shape()?.clone();
    let (left, gone) = joined.split(&plan.map, &plan.offset_dims);
    let may_reshape = result.is_static() && is_plain(&result);
    if !(gone.is_empty() || may_reshape) {
        return None;
    }
    let collapsed = joined.without_window(module.instruction(id).ints(AttrKey::CollapsedSliceDims));
    let attributes = module.attributes_of(id).to_vec();
    let mut builder = Builder {
        module,
        computation,
        like: id,
    };
    let source = joined.reshaped(&mut builder, source);
    joined.prepare(
        &mut builder,
        !faults::holds(Fault::JoinsLooseCoordinates, false),
    );
    let numbers = joined.numbers(&mut builder);
    let sizes = joined.joined(&plan.slice_sizes);
    let (dims, offset) = dropped(&result.dims, &gone, &left);
    let lists: [(AttrKey, &[i64]); 4] = [
        (AttrKey::OffsetDims, &offset),
        (AttrKey::CollapsedSliceDims, &collapsed),
        (AttrKey::StartIndexMap, &[joined.first as i64]),
        (AttrKey::SliceSizes, &sizes),
    ];
    if gone.is_empty() {
        module.set_operands(id, &[source, numbers]);
        set_lists(module, id, lists);
        return Some(());
    }
    let ty = result.element_type;
    let all = builder.add_array(
        HloOpcode::Gather,
        ty,
        &dims,
        &[source, numbers],
        &attributes,
    );
    set_lists(module, all, lists);
    become_one(module, id, HloOpcode::Reshape, &[all]);
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
    let written = shape_of(module, id, 2)?;
    let window: Dims = plan
        .update_window_dims
        .iter()
        .map(|&d| written.dims[d])
        .collect();
    let result = module.instruction(id).array_shape()?;
    if !is_plain(result) {
        return None;
    }
    let mut joined = Joined::of(module, indices, &plan.map, &operand, &window)?;
    let (left, gone) = joined.split(&plan.map, &plan.update_window_dims);
    if joined.is_outside() || !gone.is_empty() && !is_plain(&written) {
        return None;
    }
    let inserted = joined.without_window(module.instruction(id).ints(AttrKey::InsertedWindowDims));
    let attributes = module.attributes_of(id).to_vec();
    let mut builder = Builder {
        module,
        computation,
        like: id,
    };
    let source = joined.reshaped(&mut builder, source);
    joined.prepare(&mut builder, false);
    let mut numbers = joined.numbers(&mut builder);
    if !faults::holds(Fault::JoinsLooseCoordinates, false)
        && let Some(inside) = joined.inside(&mut builder)
    {
        let outside = joined.everywhere(&mut builder, -1);
        numbers = builder.elementwise(HloOpcode::Select, &[inside, numbers, outside]);
    }
    let (dims, own) = dropped(&written.dims, &gone, &left);
    let updates = builder.reshape(updates, &dims);
    let operands = [source, numbers, updates];
    let dims = joined.joined(&operand.dims);
    let ty = operand.element_type;
    let all = builder.add_array(HloOpcode::Scatter, ty, &dims, &operands, &attributes);
    set_lists(
        module,
        all,
        [
            (AttrKey::UpdateWindowDims, &own),
            (AttrKey::InsertedWindowDims, &inserted),
            (AttrKey::ScatterDimsToOperandDims, &[joined.first as i64]),
        ],
    );
    become_one(module, id, HloOpcode::Reshape, &[all]);
    Some(())
}
