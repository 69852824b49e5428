//! `get-dimension-size`, `set-dimension-size`, `dynamic-reshape`: sizes known when running.

use super::common::*;
use crate::module::{HloOpcode, InstructionRef};
use crate::types::PrimitiveType;
use crate::verify::inferred::InferredShape;

/// The family.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    if i.opcode() == HloOpcode::DynamicReshape {
        let rank = declared_array(i)?.rank();
        if i.operand_ids().len() != rank + 1 {
            return Err(format!(
                "has {} sizes, expected one for each of the {rank} dimensions of the result",
                i.operand_ids().len() - 1
            ));
        }
        for k in 1..=rank {
            scalar(i, k)?;
            want_type(i, k, PrimitiveType::S32, "")?;
        }
        return super::movement::reshape(i);
    }
    let operand = array(i, 0)?;
    dimension("dimension", one_dimension(i)?, operand.rank())?;
    if i.opcode() == HloOpcode::GetDimensionSize {
        return Ok(InferredShape::array(PrimitiveType::S32, &[]));
    }
    scalar(i, 1)?;
    want_type(i, 1, PrimitiveType::S32, "")?;
    same_as_operand(i, 0)
}
