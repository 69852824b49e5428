//! `gather`, `scatter`: boxes at places an index array gives.

use super::common::*;
use super::{Context, signature};
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::types::{ArrayShape, Dims};
use crate::verify::inferred::InferredShape;

/// The family.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    match i.opcode() {
        HloOpcode::Gather => gather(i),
        _ => scatter(i),
    }
}

/// The scatter's computation: old values and updates in, new values out.
pub fn check(i: InstructionRef<'_>, _: &Context<'_>) -> Result<(), String> {
    if i.opcode() != HloOpcode::Scatter {
        return Ok(());
    }
    let n = i.operand_ids().len() / 2;
    let types: Vec<_> = (0..n)
        .map(|k| array(i, k).map(|a| a.element_type))
        .collect::<Result<_, _>>()?;
    signature::scalar_function(
        i,
        "to_apply",
        need_computation(i, AttrKey::ToApply)?,
        &[&types[..], &types[..]].concat(),
        &types,
    )
}

/// The indices' dimensions with the index vector's put in where it is implied, and its size.
fn expanded_indices(i: InstructionRef<'_>, k: usize) -> Result<(Dims, usize, i64), String> {
    let indices = array(i, k)?;
    if !indices.element_type.is_integral() {
        return Err(format!("{}, expected integer indices", describe(i, k)));
    }
    let given = need_int(i, AttrKey::IndexVectorDim)?;
    let Ok(dim) = dimension("index_vector_dim", given, indices.rank() + 1) else {
        return Err(format!(
            "index_vector_dim={given} is out of range: {}, so at most {}",
            describe(i, k),
            indices.rank()
        ));
    };
    let mut dims = indices.dims.clone();
    if dim == dims.len() {
        dims.push(1);
    }
    let size = dims[dim];
    Ok((dims, dim, size))
}

/// What gather and scatter share: the map from index vectors to dimensions of the operand, and the
/// dimensions both run over in step.
struct IndexMap {
    /// Dimensions of operand 0 that windows do not span.
    dropped: DimSet,
}

struct Keys {
    map: AttrKey,
    map_name: &'static str,
    dropped: AttrKey,
    dropped_name: &'static str,
    batch: AttrKey,
    batch_name: &'static str,
    indices_batch: AttrKey,
    indices_batch_name: &'static str,
}

const GATHER: Keys = Keys {
    map: AttrKey::StartIndexMap,
    map_name: "start_index_map",
    dropped: AttrKey::CollapsedSliceDims,
    dropped_name: "collapsed_slice_dims",
    batch: AttrKey::OperandBatchingDims,
    batch_name: "operand_batching_dims",
    indices_batch: AttrKey::StartIndicesBatchingDims,
    indices_batch_name: "start_indices_batching_dims",
};

const SCATTER: Keys = Keys {
    map: AttrKey::ScatterDimsToOperandDims,
    map_name: "scatter_dims_to_operand_dims",
    dropped: AttrKey::InsertedWindowDims,
    dropped_name: "inserted_window_dims",
    batch: AttrKey::InputBatchingDims,
    batch_name: "input_batching_dims",
    indices_batch: AttrKey::ScatterIndicesBatchingDims,
    indices_batch_name: "scatter_indices_batching_dims",
};

fn index_map(
    i: InstructionRef<'_>,
    keys: &Keys,
    operand: &ArrayShape,
    indices: &(Dims, usize, i64),
) -> Result<IndexMap, String> {
    let (index_dims, vector_dim, vector_size) = indices;
    let map = need_ints(i, keys.map)?;
    if map.len() as i64 != *vector_size {
        return Err(format!(
            "{}={} has {} entries, but an index vector has {vector_size}",
            keys.map_name,
            list(map),
            map.len()
        ));
    }
    let mapped = dim_set(keys.map_name, map, operand.rank())?;
    let dropped_dims = need_ints(i, keys.dropped)?;
    let mut dropped = sorted_dim_set(keys.dropped_name, dropped_dims, operand.rank())?;
    let batch = ints(i, keys.batch)?;
    sorted_dim_set(keys.batch_name, batch, operand.rank())?;
    let indices_batch = ints(i, keys.indices_batch)?;
    dim_set(keys.indices_batch_name, indices_batch, index_dims.len())?;
    if batch.len() != indices_batch.len() {
        return Err(format!(
            "{}={} and {}={} are not equally long",
            keys.batch_name,
            list(batch),
            keys.indices_batch_name,
            list(indices_batch)
        ));
    }
    for (&b, &s) in batch.iter().zip(indices_batch) {
        let (b, s) = (b as usize, s as usize);
        if mapped.has(b) || !dropped.add(b) {
            return Err(format!(
                "dimension {b} stands in {} and also in {} or {}",
                keys.batch_name, keys.dropped_name, keys.map_name
            ));
        }
        if s == *vector_dim {
            return Err(format!(
                "{}={} names the index_vector_dim",
                keys.indices_batch_name,
                list(indices_batch)
            ));
        }
        if operand.dims[b] != index_dims[s] {
            return Err(format!(
                "the batch dimension {b} of operand 0 has size {}, but dimension {s} of the \
                 indices has size {}",
                operand.dims[b], index_dims[s]
            ));
        }
    }
    Ok(IndexMap { dropped })
}

/// The dimensions of the indices except the index vector's.
fn batch_dims(indices: &(Dims, usize, i64)) -> impl Iterator<Item = i64> {
    let (dims, vector_dim, _) = indices;
    dims.iter()
        .enumerate()
        .filter(move |(d, _)| d != vector_dim)
        .map(|(_, &size)| size)
}

fn gather(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    let indices = expanded_indices(i, 1)?;
    let map = index_map(i, &GATHER, operand, &indices)?;
    let offsets = need_ints(i, AttrKey::OffsetDims)?;
    let rank = indices.0.len() - 1 + offsets.len();
    let offset_set = sorted_dim_set("offset_dims", offsets, rank.min(MAX_RANK))?;
    let sizes = need_ints(i, AttrKey::SliceSizes)?;
    if sizes.len() != operand.rank() {
        return Err(format!(
            "slice_sizes={} has {} entries, but {}: expected one for each of its dimensions",
            list(sizes),
            sizes.len(),
            describe(i, 0)
        ));
    }
    let mut windows = Dims::new();
    for (d, (&s, &bound)) in sizes.iter().zip(&operand.dims).enumerate() {
        if s < 0 || s > bound {
            return Err(format!(
                "slice_sizes={} is not within {}",
                list(sizes),
                describe(i, 0)
            ));
        }
        if !map.dropped.has(d) {
            windows.push(s);
        } else if s != 1 {
            return Err(format!(
                "slice_sizes={} has {s} in dimension {d}, which is collapsed or batched: \
                 expected 1",
                list(sizes)
            ));
        }
    }
    if windows.len() != offsets.len() {
        return Err(format!(
            "offset_dims={} has {} entries, but windows span {} dimensions of operand 0",
            list(offsets),
            offsets.len(),
            windows.len()
        ));
    }
    let mut windows = windows.into_iter();
    let mut batches = batch_dims(&indices);
    let mut dims = Dims::new();
    for d in 0..rank {
        let next = if offset_set.has(d) {
            windows.next()
        } else {
            batches.next()
        };
        dims.extend(next);
    }
    Ok(InferredShape::Array {
        element_type: operand.element_type,
        dims,
    })
}

fn scatter(i: InstructionRef<'_>) -> Infer {
    let count = i.operand_ids().len();
    if count.is_multiple_of(2) {
        return Err(format!(
            "has {count} operands, expected n arrays, the indices, and n updates"
        ));
    }
    let n = count / 2;
    let operand = array(i, 0)?;
    let updates = array(i, n + 1)?;
    for k in 0..n {
        want_dims(i, k, &operand.dims, " like operand 0")?;
        want_dims(i, n + 1 + k, &updates.dims, " like the first updates")?;
        want_type(
            i,
            n + 1 + k,
            array(i, k)?.element_type,
            " like the array it updates",
        )?;
    }
    let indices = expanded_indices(i, n)?;
    let map = index_map(i, &SCATTER, operand, &indices)?;
    let window_dims = need_ints(i, AttrKey::UpdateWindowDims)?;
    let window_set = sorted_dim_set("update_window_dims", window_dims, updates.rank())?;
    let bounds = without(&operand.dims, map.dropped);
    if bounds.len() != window_dims.len() {
        return Err(format!(
            "update_window_dims={} has {} entries, but windows span {} dimensions of operand 0",
            list(window_dims),
            window_dims.len(),
            bounds.len()
        ));
    }
    for (&d, &bound) in window_dims.iter().zip(&bounds) {
        if updates.dims[d as usize] > bound {
            return Err(format!(
                "{}: its window dimension {d} is larger than the {bound} of operand 0",
                describe(i, n + 1)
            ));
        }
    }
    let expected: Dims = batch_dims(&indices).collect();
    let found = without(&updates.dims, window_set);
    if found != expected {
        return Err(format!(
            "{}: its dimensions outside the window are {}, expected {} as the indices have",
            describe(i, n + 1),
            list(&found),
            list(&expected)
        ));
    }
    let parts = (0..n).map(|k| same_as_operand(i, k));
    Ok(InferredShape::one_or_tuple(
        parts.collect::<Result<_, _>>()?,
    ))
}
