//! `batch-norm-training`, `batch-norm-inference`, `batch-norm-grad`.

use super::common::*;
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::verify::inferred::InferredShape;

/// The family.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    if !operand.element_type.is_floating() {
        return Err(format!("{}, expected floating point", describe(i, 0)));
    }
    let index = need_int(i, AttrKey::FeatureIndex)?;
    let feature = dimension("feature_index", index, operand.rank())?;
    need_float(i, AttrKey::Epsilon)?;
    let features = operand.dims[feature];
    let grad = i.opcode() == HloOpcode::BatchNormGrad;
    for k in 1..i.operand_ids().len() {
        if grad && k == 4 {
            want_same(i, k, operand, " like operand 0")?;
            continue;
        }
        want_type(i, k, operand.element_type, " like operand 0")?;
        want_dims(i, k, &[features], ": one element per feature")?;
    }
    if i.opcode() == HloOpcode::BatchNormInference {
        return same_as_operand(i, 0);
    }
    let statistic = InferredShape::array(operand.element_type, &[features]);
    Ok(InferredShape::Tuple(vec![
        same_as_operand(i, 0)?,
        statistic.clone(),
        statistic,
    ]))
}
