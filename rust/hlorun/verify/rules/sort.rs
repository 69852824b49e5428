//! `sort`, `topk`.

use super::common::*;
use super::{Context, signature};
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::types::PrimitiveType;
use crate::verify::inferred::InferredShape;

/// The family.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    if i.opcode() == HloOpcode::TopK {
        let Some((&last, rest)) = operand.dims.split_last() else {
            return Err(format!(
                "{}, expected at least one dimension",
                describe(i, 0)
            ));
        };
        let k = need_int(i, AttrKey::K)?;
        if k < 0 || k > last {
            return Err(format!("k={k}, but the last dimension has {last} elements"));
        }
        let mut dims = rest.to_vec();
        dims.push(k);
        return Ok(InferredShape::Tuple(vec![
            InferredShape::array(operand.element_type, &dims),
            InferredShape::array(PrimitiveType::S32, &dims),
        ]));
    }
    match ints(i, AttrKey::Dimensions)? {
        [] if operand.rank() <= 1 => {}
        [] => return need(i, AttrKey::Dimensions).and(Err("dimensions is empty".to_owned())),
        _ => {
            dimension("dimension", one_dimension(i)?, operand.rank())?;
        }
    }
    for k in 1..i.operand_ids().len() {
        want_dims(i, k, &operand.dims, " like operand 0")?;
    }
    let parts = (0..i.operand_ids().len()).map(|k| same_as_operand(i, k));
    Ok(InferredShape::one_or_tuple(
        parts.collect::<Result<_, _>>()?,
    ))
}

/// The comparator: two scalars of every operand to `pred[]`.
pub fn check(i: InstructionRef<'_>, _: &Context<'_>) -> Result<(), String> {
    if i.opcode() == HloOpcode::TopK {
        return Ok(());
    }
    let mut types = Vec::with_capacity(i.operand_ids().len() * 2);
    for operand in arrays(i)? {
        types.extend([operand.element_type; 2]);
    }
    let comparator = need_computation(i, AttrKey::ToApply)?;
    signature::scalar_function(i, "to_apply", comparator, &types, &[PrimitiveType::Pred])
}
