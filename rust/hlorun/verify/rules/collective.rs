//! `all-reduce` and its kin: shapes of what is exchanged, groups and pairs of devices.

use super::common::*;
use super::ordering::element;
use super::replica_groups::{GroupSize, check_groups, check_pairs};
use super::{Context, signature};
use crate::module::{AttrKey, ComputationId, HloOpcode, InstructionRef};
use crate::types::{Dims, Shape, ShapeId};
use crate::verify::inferred::{InferredShape, show};

/// The family.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    match i.opcode() {
        HloOpcode::AllReduce | HloOpcode::AllReduceStart => {
            for k in 0..i.operand_ids().len() {
                array(i, k)?;
            }
            all_operands(i)
        }
        HloOpcode::AllReduceDone => same_as_operand(i, 0),
        HloOpcode::CollectiveBroadcast => all_operands(i),
        HloOpcode::AllGather => {
            check_gather(i, &results(i)?)?;
            Ok(InferredShape::AsDeclared)
        }
        HloOpcode::AllGatherStart => {
            check_gather(i, &start_results(i)?)?;
            start_shape(i, None)
        }
        HloOpcode::ReduceScatter => {
            check_scatter(i, &results(i)?)?;
            Ok(InferredShape::AsDeclared)
        }
        HloOpcode::AllToAll => all_to_all(i),
        HloOpcode::CollectivePermute => permuted(i),
        HloOpcode::CollectivePermuteStart => {
            let result = permuted(i)?;
            start_shape(i, Some(result))
        }
        HloOpcode::RaggedAllToAll => ragged_all_to_all(i),
        _ => element(i, 0, 1),
    }
}

/// One operand's shape, or the tuple of all.
fn all_operands(i: InstructionRef<'_>) -> Infer {
    let parts = (0..i.operand_ids().len()).map(|k| same_as_operand(i, k));
    let parts: Vec<_> = parts.collect::<Result<_, _>>()?;
    // A one-operand tuple form exists too.
    if let ([only], Shape::Tuple(_)) = (&parts[..], i.shape())
        && i.operand(0).is_some_and(|o| o.array_shape().is_some())
    {
        return Ok(InferredShape::Tuple(vec![only.clone()]));
    }
    Ok(InferredShape::one_or_tuple(parts))
}

/// The results, one for each operand.
fn one_per_operand(i: InstructionRef<'_>, shape: ShapeId) -> Result<Vec<ShapeId>, String> {
    let table = i.module.shapes();
    let parts = match table.get(shape) {
        Shape::Tuple(parts) => parts.to_vec(),
        _ => vec![shape],
    };
    if parts.len() == i.operand_ids().len() {
        return Ok(parts);
    }
    Err(format!(
        "has results {} for {} operands, expected one for each",
        show(table, shape),
        i.operand_ids().len()
    ))
}

fn results(i: InstructionRef<'_>) -> Result<Vec<ShapeId>, String> {
    one_per_operand(i, i.shape_id())
}

fn start_results(i: InstructionRef<'_>) -> Result<Vec<ShapeId>, String> {
    match i.shape().as_tuple() {
        Some([_, results, ..]) => one_per_operand(i, *results),
        _ => Err(format!(
            "declares {}, expected a tuple of operands, results and contexts",
            show(i.module.shapes(), i.shape_id())
        )),
    }
}

/// Operands, `result` (by default what is declared), contexts (as declared).
fn start_shape(i: InstructionRef<'_>, result: Option<InferredShape>) -> Infer {
    let Some([_, declared, rest @ ..]) = i.shape().as_tuple() else {
        return start_results(i).map(|_| InferredShape::AsDeclared);
    };
    // In place, the first two operands are input and output; the rest only say where.
    let count = if is_in_place(i) {
        1
    } else {
        i.operand_ids().len()
    };
    let operands = (0..count).map(|k| same_as_operand(i, k));
    let mut parts = vec![
        InferredShape::one_or_tuple(operands.collect::<Result<_, _>>()?),
        result.unwrap_or(InferredShape::Same(*declared)),
    ];
    parts.extend(rest.iter().map(|&id| InferredShape::Same(id)));
    Ok(InferredShape::Tuple(parts))
}

/// That `large` is `small` with dimension `dim` made a whole number of times larger, the same
/// number for all operands and the size of a group where that is known.
fn check_shards(i: InstructionRef<'_>, results: &[ShapeId], gather: bool) -> Result<(), String> {
    let dim = one_dimension(i)?;
    let table = i.module.shapes();
    let group = check_groups(i, true)?;
    let mut count = match group {
        GroupSize::Uniform(size) if size > 1 => Some(size),
        GroupSize::Mixed => {
            return Err("replica_groups has groups of different sizes".to_owned());
        }
        GroupSize::Uniform(_) | GroupSize::Unknown => None,
    };
    let partitions = i.module.config.num_partitions.unwrap_or(1);
    if partitions > 1 && i.attribute(AttrKey::UseGlobalDeviceIds).is_none() {
        // Groups of replicas take every partition in, where there is a channel.
        count = None;
    }
    for (k, &result) in results.iter().enumerate() {
        let operand = array(i, k)?;
        let dim = dimension("dimension", dim, operand.rank())?;
        let Some(result_array) = table.get(result).as_array() else {
            return Err(format!(
                "has the result {}, expected an array",
                show(table, result)
            ));
        };
        let (small, large) = match gather {
            true => (&operand.dims, &result_array.dims),
            false => (&result_array.dims, &operand.dims),
        };
        let rest_fits = result_array.element_type == operand.element_type
            && small.len() == large.len()
            && (0..small.len()).all(|d| d == dim || small[d] == large[d]);
        let factor = match (rest_fits, small.get(dim), large.get(dim)) {
            (true, Some(&0), Some(&0)) => count.or(Some(1)),
            (true, Some(&s), Some(&l)) if s > 0 && l >= s && l % s == 0 => Some(l / s),
            _ => None,
        };
        match factor {
            Some(factor) if *count.get_or_insert(factor) == factor => {}
            _ => {
                return Err(format!(
                    "{} and its result is {}: expected them to differ in dimension {dim} only, \
                     by {}",
                    describe(i, k),
                    show(table, result),
                    count.map_or_else(
                        || "a whole factor".to_owned(),
                        |count| format!("the factor {count}, the size of a group")
                    )
                ));
            }
        }
    }
    Ok(())
}

fn check_gather(i: InstructionRef<'_>, results: &[ShapeId]) -> Result<(), String> {
    check_shards(i, results, true)
}

fn check_scatter(i: InstructionRef<'_>, results: &[ShapeId]) -> Result<(), String> {
    check_shards(i, results, false)
}

fn all_to_all(i: InstructionRef<'_>) -> Infer {
    let group = check_groups(i, true)?;
    if group == GroupSize::Mixed {
        return Err("replica_groups has groups of different sizes".to_owned());
    }
    if i.attribute(AttrKey::Dimensions).is_some() && !ints(i, AttrKey::Dimensions)?.is_empty() {
        let operand = array(i, 0)?;
        let dim = dimension("dimension", one_dimension(i)?, operand.rank())?;
        if let GroupSize::Uniform(size) = group
            && operand.dims[dim] % size != 0
        {
            return Err(format!(
                "{}: its dimension {dim} does not divide into {size} parts, one for each device \
                 of a group",
                describe(i, 0)
            ));
        }
        if i.operand_ids().len() != 1 {
            return Err("has dimensions and several operands, expected one".to_owned());
        }
        return all_operands(i);
    }
    let first = array(i, 0)?;
    for k in 1..i.operand_ids().len() {
        want_same(i, k, first, " like operand 0")?;
    }
    if let GroupSize::Uniform(size) = group
        && size != i.operand_ids().len() as i64
    {
        return Err(format!(
            "has {} operands, expected {size}, one for each device of a group",
            i.operand_ids().len()
        ));
    }
    all_operands(i)
}

/// Whether a permute writes into given buffers: input, output, and where in each.
fn is_in_place(i: InstructionRef<'_>) -> bool {
    i.operand_ids().len() == 4
        && i.operand(2)
            .is_some_and(|operand| operand.shape().as_tuple().is_some())
}

fn permuted(i: InstructionRef<'_>) -> Infer {
    if is_in_place(i) {
        return same_as_operand(i, 1);
    }
    let parts = (0..i.operand_ids().len()).map(|k| same_as_operand(i, k));
    Ok(InferredShape::one_or_tuple(
        parts.collect::<Result<_, _>>()?,
    ))
}

/// Operands: input, output, then offsets and sizes, each of integers in one dimension.
fn ragged_all_to_all(i: InstructionRef<'_>) -> Infer {
    let input = array(i, 0)?;
    let output = array(i, 1)?;
    want_type(i, 1, input.element_type, " like operand 0")?;
    let rest: Dims = output.dims.iter().skip(1).copied().collect();
    if output.rank() == 0 || input.rank() != output.rank() || input.dims[1..] != rest[..] {
        return Err(format!(
            "{}, expected the dimensions of operand 0 except the first",
            describe(i, 1)
        ));
    }
    let first = array(i, 2)?;
    for k in 2..6 {
        if !array(i, k)?.element_type.is_integral() || first.rank() != 1 {
            return Err(format!("{}, expected a row of integers", describe(i, k)));
        }
        want_dims(i, k, &first.dims, " like operand 2")?;
    }
    same_as_operand(i, 1)
}

/// Groups, pairs, computations, and the start a `-done` ends.
pub fn check(i: InstructionRef<'_>, _: &Context<'_>) -> Result<(), String> {
    match i.opcode() {
        HloOpcode::AllReduce | HloOpcode::AllReduceStart => {
            check_groups(i, true)?;
            check_reduction(i, need_computation(i, AttrKey::ToApply)?)
        }
        HloOpcode::ReduceScatter => check_reduction(i, need_computation(i, AttrKey::ToApply)?),
        HloOpcode::CollectivePermute | HloOpcode::CollectivePermuteStart => {
            let times = match i.operand(2).map(InstructionRef::shape) {
                Some(Shape::Tuple(parts)) if is_in_place(i) => match parts.first() {
                    Some(&first) => match i.module.shapes().get(first) {
                        Shape::Tuple(inner) => parts.len().max(inner.len()),
                        _ => parts.len(),
                    },
                    None => 1,
                },
                _ => 1,
            };
            check_pairs(i, times)
        }
        HloOpcode::CollectiveBroadcast | HloOpcode::RaggedAllToAll => {
            check_groups(i, false).map(|_| ())
        }
        HloOpcode::AllGatherDone => ends(i, HloOpcode::AllGatherStart),
        HloOpcode::AllReduceDone => ends(i, HloOpcode::AllReduceStart),
        HloOpcode::CollectivePermuteDone => ends(i, HloOpcode::CollectivePermuteStart),
        _ => Ok(()),
    }
}

/// Two scalars of one type to one: the element type may differ from the operands' among floating
/// types, since only the operation counts.
fn check_reduction(i: InstructionRef<'_>, function: ComputationId) -> Result<(), String> {
    signature::parameter_count(i, "to_apply", function, 2)?;
    let root = signature::root(i, function)?;
    let Some(result) = root.array_shape().filter(|shape| shape.rank() == 0) else {
        return Err(format!(
            "to_apply {} returns {}, expected a scalar",
            signature::name(i, function),
            show(i.module.shapes(), root.shape_id())
        ));
    };
    let t = result.element_type;
    signature::scalar_function(i, "to_apply", function, &[t, t], &[t])?;
    for k in 0..i.operand_ids().len() {
        let found = array(i, k)?.element_type;
        if found != t && !(found.is_floating() && t.is_floating()) {
            return Err(format!(
                "{}, but to_apply {} works on {}",
                describe(i, k),
                signature::name(i, function),
                t.name()
            ));
        }
    }
    Ok(())
}

fn ends(i: InstructionRef<'_>, start: HloOpcode) -> Result<(), String> {
    match i.operand(0) {
        Some(operand) if operand.opcode() != start => Err(format!(
            "operand 0 %{} is {}, expected an {}",
            operand.name(),
            operand.opcode_name(),
            start.name()
        )),
        _ => Ok(()),
    }
}
