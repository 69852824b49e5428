//! `reduce`: dimensions folded away, for one array or several in step.

use super::common::*;
use super::{Context, signature};
use crate::module::{AttrKey, InstructionRef};
use crate::verify::inferred::InferredShape;

/// Number of arrays; checks that they agree and that each has a scalar to begin with.
pub fn operand_pairs(i: InstructionRef<'_>) -> Result<usize, String> {
    let count = i.operand_ids().len();
    if !count.is_multiple_of(2) || count == 0 {
        return Err(format!(
            "has {count} operands, expected n arrays and n initial values"
        ));
    }
    let n = count / 2;
    let dims = &array(i, 0)?.dims;
    for k in 0..n {
        want_dims(i, k, dims, " like operand 0")?;
        scalar(i, n + k)?;
    }
    Ok(n)
}

/// The shape.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    let n = operand_pairs(i)?;
    let operand = array(i, 0)?;
    let dims = need_ints(i, AttrKey::Dimensions)?;
    let reduced = dim_set("dimensions", dims, operand.rank())?;
    let kept = without(&operand.dims, reduced);
    let parts = (0..n)
        .map(|k| Ok(InferredShape::array(array(i, n + k)?.element_type, &kept)))
        .collect::<Result<_, String>>()?;
    Ok(InferredShape::one_or_tuple(parts))
}

/// The computation: accumulators, then elements, to accumulators.
pub fn check(i: InstructionRef<'_>, _: &Context<'_>) -> Result<(), String> {
    let n = i.operand_ids().len() / 2;
    let mut accumulators = Vec::with_capacity(n);
    let mut elements = Vec::with_capacity(n);
    for k in 0..n {
        elements.push(array(i, k)?.element_type);
        accumulators.push(array(i, n + k)?.element_type);
    }
    signature::scalar_function(
        i,
        "to_apply",
        need_computation(i, AttrKey::ToApply)?,
        &[&accumulators[..], &elements[..]].concat(),
        &accumulators,
    )
}
