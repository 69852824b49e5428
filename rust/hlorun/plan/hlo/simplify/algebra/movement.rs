//! Rules for what only moves elements, and for tuples.

use smallvec::SmallVec;

use super::rule::{Change, Rule};
use crate::module::attributes::SliceDimension;
use crate::module::{AttrKey, AttrValue, Attribute, HloModule, HloOpcode, InstructionId};
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::loops::induction_variable;
use crate::plan::hlo::simplify::facts::is_lossless;
use crate::types::{ArrayShape, Dims, PrimitiveType};

/// All of them, in the order in which they are tried.
pub(super) const RULES: &[Rule] = &[
    part_of_tuple,
    copy,
    reshape,
    transpose,
    broadcast,
    of_a_scalar,
    slice,
    reverse,
    concatenate,
    pad,
    convert,
    bitcast_convert,
    dynamic_slice,
    dynamic_update_slice,
];

/// The instruction and its first operand, if it has the opcode.
fn unary(b: &Builder<'_>, opcode: HloOpcode) -> Option<InstructionId> {
    if b.module.instruction_data(b.like).opcode != opcode {
        return None;
    }
    b.module.operand_ids(b.like).first().copied()
}

/// The first operand of `id`, if it has the opcode.
fn inner(module: &HloModule, id: InstructionId, opcode: HloOpcode) -> Option<InstructionId> {
    (module.instruction_data(id).opcode == opcode)
        .then(|| module.operand_ids(id).first().copied())
        .flatten()
}

fn array(module: &HloModule, id: InstructionId) -> Option<&ArrayShape> {
    module.instruction(id).array_shape()
}

fn dims_of(module: &HloModule, id: InstructionId) -> Option<Dims> {
    Some(array(module, id)?.dims.clone())
}

/// Lets the instruction read something else.
fn reads(b: &mut Builder<'_>, operand: InstructionId) -> Option<Change> {
    b.module.operand_ids_mut(b.like)[0] = operand;
    Some(Change::Rewritten)
}

/// Makes the instruction another one of one operand.
fn becomes(
    b: &mut Builder<'_>,
    opcode: HloOpcode,
    operand: InstructionId,
    attributes: &[Attribute],
) -> Option<Change> {
    let id = b.like;
    b.module.set_operands(id, &[operand]);
    b.module.set_attributes(id, attributes);
    let data = b.module.instruction_data_mut(id);
    (data.opcode, data.immediate) = (opcode, 0);
    Some(Change::Rewritten)
}

/// `get-tuple-element(tuple(…))` is that element.
fn part_of_tuple(b: &mut Builder<'_>) -> Option<Change> {
    let tuple = unary(b, HloOpcode::GetTupleElement)?;
    if b.module.instruction_data(tuple).opcode != HloOpcode::Tuple {
        return None;
    }
    let index = b.module.instruction(b.like).tuple_index()?;
    let element = *b.module.operand_ids(tuple).get(index)?;
    Some(Change::Same(element))
}

/// A tuple of all parts of a tuple, in order, is that tuple.
pub(super) fn whole_tuple(b: &mut Builder<'_>) -> Option<Change> {
    let first = unary(b, HloOpcode::Tuple)?;
    let module = &*b.module;
    let whole = inner(module, first, HloOpcode::GetTupleElement)?;
    let is_part = |(k, &id): (usize, &InstructionId)| {
        module.instruction(id).tuple_index() == Some(k) && module.operand_ids(id) == [whole]
    };
    let parts = module.operand_ids(b.like);
    let is_all = module.instruction(whole).shape().as_tuple()?.len() == parts.len();
    (is_all && parts.iter().enumerate().all(is_part)).then_some(Change::Same(whole))
}

/// A copy is its operand.
fn copy(b: &mut Builder<'_>) -> Option<Change> {
    unary(b, HloOpcode::Copy).map(Change::Same)
}

/// A reshape of a reshape is one; one to the same sizes is none.
fn reshape(b: &mut Builder<'_>) -> Option<Change> {
    let operand = unary(b, HloOpcode::Reshape)?;
    if dims_of(b.module, operand)? == dims_of(b.module, b.like)? {
        return Some(Change::Same(operand));
    }
    let from = inner(b.module, operand, HloOpcode::Reshape)?;
    reads(b, from)
}

/// Dimensions of more than one element, in order.
fn long(dims: &[i64]) -> impl Iterator<Item = usize> + '_ {
    (0..dims.len()).filter(|&d| dims[d] != 1)
}

/// A transposition of a transposition is one; one that only moves dimensions of one element is a
/// reshape.
fn transpose(b: &mut Builder<'_>) -> Option<Change> {
    let operand = unary(b, HloOpcode::Transpose)?;
    let order: Dims = Dims::from_slice(b.module.instruction(b.like).dimensions());
    if order
        .iter()
        .enumerate()
        .all(|(to, &from)| to as i64 == from)
    {
        return Some(Change::Same(operand));
    }
    let from = dims_of(b.module, operand)?;
    let moved = order.iter().filter(|&&d| from[d as usize] != 1);
    if moved.copied().eq(long(&from).map(|d| d as i64)) {
        return becomes(b, HloOpcode::Reshape, operand, &[]);
    }
    let before = inner(b.module, operand, HloOpcode::Transpose)?;
    let first = b.module.instruction(operand).dimensions();
    let both: Dims = order.iter().map(|&d| first[d as usize]).collect();
    let attribute = b.ints(AttrKey::Dimensions, &both);
    becomes(b, HloOpcode::Transpose, before, &[attribute])
}

/// A broadcast of a broadcast is one; one that only adds dimensions of one element is a reshape.
fn broadcast(b: &mut Builder<'_>) -> Option<Change> {
    let operand = unary(b, HloOpcode::Broadcast)?;
    let at: Dims = Dims::from_slice(b.module.instruction(b.like).dimensions());
    let (from, to) = (dims_of(b.module, operand)?, dims_of(b.module, b.like)?);
    let is_ordered = at.windows(2).all(|pair| pair[0] < pair[1]);
    if is_ordered && from.iter().product::<i64>() == to.iter().product::<i64>() {
        return becomes(b, HloOpcode::Reshape, operand, &[]);
    }
    if let Some(scalar) = inner(b.module, operand, HloOpcode::Reshape)
        && dims_of(b.module, scalar)?.is_empty()
    {
        let none = b.ints(AttrKey::Dimensions, &[]);
        return becomes(b, HloOpcode::Broadcast, scalar, &[none]);
    }
    let before = inner(b.module, operand, HloOpcode::Broadcast)?;
    let first = b.module.instruction(operand).dimensions();
    let both: Dims = first.iter().map(|&d| at[d as usize]).collect();
    let attribute = b.ints(AttrKey::Dimensions, &both);
    becomes(b, HloOpcode::Broadcast, before, &[attribute])
}

/// What moves the elements of a broadcast scalar is a broadcast of the scalar.
fn of_a_scalar(b: &mut Builder<'_>) -> Option<Change> {
    use HloOpcode as H;
    let opcode = b.module.instruction_data(b.like).opcode;
    if !matches!(
        opcode,
        H::Reshape | H::Transpose | H::Slice | H::Reverse | H::DynamicSlice
    ) {
        return None;
    }
    let operand = *b.module.operand_ids(b.like).first()?;
    let scalar = inner(b.module, operand, H::Broadcast)?;
    if !dims_of(b.module, scalar)?.is_empty() {
        return None;
    }
    if dims_of(b.module, b.like)?.is_empty() {
        return Some(Change::Same(scalar));
    }
    let none = b.ints(AttrKey::Dimensions, &[]);
    becomes(b, H::Broadcast, scalar, &[none])
}

fn slice_of(module: &HloModule, id: InstructionId) -> Option<&[SliceDimension]> {
    match module.instruction(id).attribute(AttrKey::Slice) {
        Some(AttrValue::Slice(dims)) => Some(dims),
        _ => None,
    }
}

/// A slice of everything is its operand; a slice of a slice is one.
fn slice(b: &mut Builder<'_>) -> Option<Change> {
    let operand = unary(b, HloOpcode::Slice)?;
    let (from, to) = (dims_of(b.module, operand)?, dims_of(b.module, b.like)?);
    if from == to {
        return Some(Change::Same(operand));
    }
    let before = inner(b.module, operand, HloOpcode::Slice)?;
    let outer = slice_of(b.module, b.like)?;
    let first = slice_of(b.module, operand)?;
    if outer.len() != first.len() || to.contains(&0) {
        return None;
    }
    let mut both = Vec::with_capacity(outer.len());
    for ((a, s), &size) in first.iter().zip(outer).zip(&to) {
        let start = s.start.checked_mul(a.stride)?.checked_add(a.start)?;
        let stride = a.stride.checked_mul(s.stride)?;
        // The last element that is taken is the last of the slice.
        let limit = stride.checked_mul(size - 1)?.checked_add(start + 1)?;
        both.push(SliceDimension {
            start,
            limit,
            stride,
        });
    }
    let attribute = Attribute {
        key: AttrKey::Slice,
        value: AttrValue::Slice(both.into_iter().collect()),
    };
    becomes(b, HloOpcode::Slice, before, &[attribute])
}

/// To reverse one element, or twice, does nothing.
fn reverse(b: &mut Builder<'_>) -> Option<Change> {
    let operand = unary(b, HloOpcode::Reverse)?;
    let dims = dims_of(b.module, operand)?;
    let reversed = |id| -> Dims {
        let all = b.module.instruction(id).dimensions().iter().copied();
        let mut long: Dims = all.filter(|&d| dims[d as usize] > 1).collect();
        long.sort_unstable();
        long
    };
    let own = reversed(b.like);
    if own.is_empty() {
        return Some(Change::Same(operand));
    }
    let before = inner(b.module, operand, HloOpcode::Reverse)?;
    if reversed(operand) != own {
        return None;
    }
    Some(Change::Same(before))
}

/// Nothing is put beside an array by operands without elements.
fn concatenate(b: &mut Builder<'_>) -> Option<Change> {
    let first = unary(b, HloOpcode::Concatenate)?;
    let operands: SmallVec<[InstructionId; 8]> = SmallVec::from_slice(b.module.operand_ids(b.like));
    if operands.len() == 1 {
        return Some(Change::Same(first));
    }
    let is_empty = |id: InstructionId| array(b.module, id).is_some_and(|s| s.dims.contains(&0));
    let kept: SmallVec<[InstructionId; 8]> = operands
        .iter()
        .copied()
        .filter(|&id| !is_empty(id))
        .collect();
    if kept.is_empty() || kept.len() == operands.len() {
        return None;
    }
    b.module.set_operands(b.like, &kept);
    Some(Change::Rewritten)
}

/// A pad without padding is its operand.
fn pad(b: &mut Builder<'_>) -> Option<Change> {
    let operand = unary(b, HloOpcode::Pad)?;
    let Some(AttrValue::Padding(dims)) = b.module.instruction(b.like).attribute(AttrKey::Padding)
    else {
        return None;
    };
    let is_nothing = |d: &crate::module::attributes::PaddingDimension| {
        d.edge_low == 0 && d.edge_high == 0 && d.interior == 0
    };
    dims.iter().all(is_nothing).then_some(Change::Same(operand))
}

/// A conversion of what was converted to a type that holds every value of its own, is one from there.
///
/// Integers wrap around and floating-point numbers saturate, so the types are of one kind.
fn convert(b: &mut Builder<'_>) -> Option<Change> {
    use PrimitiveType as P;
    let operand = unary(b, HloOpcode::Convert)?;
    let ty = |id| Some(array(b.module, id)?.element_type);
    let (between, to) = (ty(operand)?, ty(b.like)?);
    if between == to {
        return Some(Change::Same(operand));
    }
    let before = inner(b.module, operand, HloOpcode::Convert)?;
    let from = ty(before)?;
    let is_one_kind = from == P::Pred || from.is_integral() == between.is_integral();
    let is_lossless = faults::holds(Fault::ForgetsRounding, is_lossless(from, between));
    if !is_lossless || !is_one_kind {
        return None;
    }
    reads(b, before)
}

/// Bits that are read as one type, then as another.
fn bitcast_convert(b: &mut Builder<'_>) -> Option<Change> {
    let operand = unary(b, HloOpcode::BitcastConvert)?;
    let ty = |id| Some(array(b.module, id)?.element_type);
    if ty(operand)? == ty(b.like)? {
        return Some(Change::Same(operand));
    }
    let before = inner(b.module, operand, HloOpcode::BitcastConvert)?;
    let width = |id| Some(ty(id)?.bit_width());
    if width(before)? != width(operand)?
        || dims_of(b.module, before)? != dims_of(b.module, operand)?
    {
        return None;
    }
    reads(b, before)
}

/// A dynamic slice of everything is its operand; one at constant places is a slice.
fn dynamic_slice(b: &mut Builder<'_>) -> Option<Change> {
    let operand = unary(b, HloOpcode::DynamicSlice)?;
    let (from, to) = (dims_of(b.module, operand)?, dims_of(b.module, b.like)?);
    if from == to {
        return Some(Change::Same(operand));
    }
    let starts = &b.module.operand_ids(b.like)[1..];
    if starts.len() != from.len() {
        return None;
    }
    let mut dims = Vec::with_capacity(from.len());
    for ((&start, &from), &size) in starts.iter().zip(&from).zip(&to) {
        let start = match from == size {
            true => 0,
            false => induction_variable::constant(b.module, start)?.clamp(0, from - size),
        };
        dims.push(SliceDimension {
            start,
            limit: start + size,
            stride: 1,
        });
    }
    let attribute = Attribute {
        key: AttrKey::Slice,
        value: AttrValue::Slice(dims.into_iter().collect()),
    };
    becomes(b, HloOpcode::Slice, operand, &[attribute])
}

/// An update of everything is the update.
fn dynamic_update_slice(b: &mut Builder<'_>) -> Option<Change> {
    unary(b, HloOpcode::DynamicUpdateSlice)?;
    let update = *b.module.operand_ids(b.like).get(1)?;
    (dims_of(b.module, update)? == dims_of(b.module, b.like)?).then_some(Change::Same(update))
}
