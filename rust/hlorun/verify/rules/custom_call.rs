//! `custom-call`, and the aliasing of outputs with operands that fusions have too.

use super::common::*;
use super::{Context, signature};
use crate::module::attributes::AttrValue;
use crate::module::{AttrKey, InstructionRef};
use crate::types::Shape;
use crate::verify::inferred::{InferredShape, show, subshape};

/// The text alone knows the result.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    match need(i, AttrKey::CustomCallTarget)? {
        AttrValue::String(_) => Ok(InferredShape::AsDeclared),
        _ => Err("attribute custom_call_target is not a quoted string".to_owned()),
    }
}

/// Constraints on operands, and aliasing.
pub fn check(i: InstructionRef<'_>, cx: &Context<'_>) -> Result<(), String> {
    if let Some(AttrValue::Shapes(shapes)) = i.attribute(AttrKey::OperandLayoutConstraints) {
        if shapes.len() != i.operand_ids().len() {
            return Err(format!(
                "operand_layout_constraints has {} shapes, but there are {} operands",
                shapes.len(),
                i.operand_ids().len()
            ));
        }
        for (k, &shape) in shapes.iter().enumerate() {
            if !cx.same(shape, operand_shape(i, k)?) {
                return Err(format!(
                    "{}, but operand_layout_constraints has {} for it",
                    describe(i, k),
                    show(i.module.shapes(), shape)
                ));
            }
        }
    }
    crate::verify::custom_calls::check(i)?;
    if let Some(AttrValue::Computation(function)) = i.attribute(AttrKey::ToApply) {
        signature::root(i, *function)?;
    }
    check_aliasing(i, cx)
}

/// `output_to_operand_aliasing`: both places exist, are alike, and no output is named twice.
pub fn check_aliasing(i: InstructionRef<'_>, cx: &Context<'_>) -> Result<(), String> {
    let Some(AttrValue::Aliasing(aliases)) = i.attribute(AttrKey::OutputOperandAliasing) else {
        return Ok(());
    };
    let mut seen = foldhash::HashSet::default();
    for alias in aliases {
        let Some(output) = subshape(i.module.shapes(), i.shape_id(), &alias.output) else {
            return Err(format!(
                "output_to_operand_aliasing names output {}, which is not in {}",
                alias.output,
                show(i.module.shapes(), i.shape_id())
            ));
        };
        let operand = usize::try_from(alias.operand)
            .ok()
            .and_then(|k| i.operand(k));
        let Some(operand) = operand else {
            return Err(format!(
                "output_to_operand_aliasing names operand {}, but there are {}",
                alias.operand,
                i.operand_ids().len()
            ));
        };
        let Some(part) = subshape(i.module.shapes(), operand.shape_id(), &alias.operand_index)
        else {
            return Err(format!(
                "output_to_operand_aliasing names {} of operand {}, which is not in {}",
                alias.operand_index,
                alias.operand,
                show(i.module.shapes(), operand.shape_id())
            ));
        };
        // A buffer is pinned to what it holds, and let go as that again.
        let held = |id| match i.module.shapes().get(id) {
            Shape::Buffer(part) => *part,
            _ => id,
        };
        if !cx.same(held(output), held(part)) {
            return Err(format!(
                "output_to_operand_aliasing puts output {} of shape {} into {} of operand {}, \
                 which has shape {}",
                alias.output,
                show(i.module.shapes(), output),
                alias.operand_index,
                alias.operand,
                show(i.module.shapes(), part)
            ));
        }
        if !seen.insert(&alias.output) {
            return Err(format!(
                "output_to_operand_aliasing names output {} twice",
                alias.output
            ));
        }
    }
    Ok(())
}
