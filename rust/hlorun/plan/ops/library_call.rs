//! `custom-call`: a table from targets to operations.
//!
//! In: an instruction. Out: the operation its target means; for a target nobody here knows,
//! [`CustomOp`], which runs what the user registered. Products of cuBLAS and Threefry are lowered
//! elsewhere and never come here.

use super::custom_call::{CustomCallInfo, CustomOp};
use super::kind::OpKind;
use super::{cudnn_attention, fft, linalg, radix_sort, topk};
use crate::error::Result;
use crate::library;
use crate::library::annotation::{Annotation, annotation};
use crate::module::{AttrKey, AttrValue, InstructionRef};

fn has_no_result(instruction: InstructionRef<'_>) -> bool {
    let shapes = instruction.module.shapes();
    let leaves = shapes.leaves(instruction.shape_id(), 1);
    leaves.is_some_and(|leaves| {
        leaves
            .iter()
            .all(|leaf| shapes.get(leaf.1).as_array().is_none())
    })
}

/// Reads the target and its options.
pub fn plan(instruction: InstructionRef<'_>) -> Result<OpKind> {
    let target = instruction.custom_call_target().unwrap_or_default();
    let target = target.as_ref();
    if let Some(op) = linalg::custom_call(instruction, target) {
        return Ok(OpKind::Linalg(Box::new(op?)));
    }
    if let Some(op) = fft::custom_call(instruction, target) {
        return Ok(OpKind::Fft(Box::new(op?)));
    }
    if let Some(op) = cudnn_attention::plan(instruction, target) {
        return Ok(OpKind::CudnnAttention(Box::new(op?)));
    }
    let annotation = annotation(target);
    Ok(match annotation {
        Some(Annotation::Identity | Annotation::Resharding) if same_leaves(instruction) => {
            OpKind::Identity
        }
        Some(Annotation::Allocation) => OpKind::Zeros,
        Some(_) if has_no_result(instruction) => OpKind::Zeros,
        _ if library::TOP_K.contains(&target) => OpKind::TopK(Box::new(topk::plan(instruction)?)),
        _ if library::RADIX_SORTS.contains(&target) => {
            OpKind::Sort(Box::new(radix_sort::plan(instruction)?))
        }
        _ => OpKind::Custom(Box::new(CustomOp {
            info: info(instruction, target),
        })),
    })
}

/// Whether operands and results have the same arrays, in order.
fn same_leaves(instruction: InstructionRef<'_>) -> bool {
    const MOST: usize = 1 << 16;
    let shapes = instruction.module.shapes();
    let Some(results) = shapes.leaves(instruction.shape_id(), MOST) else {
        return false;
    };
    let mut operands = Vec::new();
    for operand in instruction.operands() {
        match shapes.leaves(operand.shape_id(), MOST) {
            Some(leaves) if operands.len() + leaves.len() <= MOST => operands.extend(leaves),
            _ => return false,
        }
    }
    operands.len() == results.len()
        && operands.iter().zip(&results).all(|(a, b)| {
            match (shapes.get(a.1).as_array(), shapes.get(b.1).as_array()) {
                (Some(a), Some(b)) => a.same_dims_and_type(b),
                (None, None) => true,
                _ => false,
            }
        })
}

fn info(instruction: InstructionRef<'_>, target: &str) -> CustomCallInfo {
    CustomCallInfo {
        target: target.to_owned(),
        instruction: instruction.name().into_owned(),
        op_name: op_name(instruction),
        backend_config: instruction
            .backend_config_bytes()
            .map(|bytes| bytes.into_owned())
            .unwrap_or_default(),
    }
}

/// `op_name="…"` of the metadata.
fn op_name(instruction: InstructionRef<'_>) -> Option<String> {
    let text = match instruction.attribute(AttrKey::Metadata)? {
        AttrValue::Raw(text) | AttrValue::String(text) => instruction.module.str(*text),
        _ => return None,
    };
    let (_, rest) = text.split_once("op_name=\"")?;
    Some(rest.split('"').next().unwrap_or(rest).to_owned())
}
