//! `__cudnn$norm`: layer normalization, forward with and without statistics, and its gradient.

use super::config::Config;
use super::index_map::array_operand;
use crate::error::Result;
use crate::module::InstructionRef;
use crate::plan::unsupported;

/// Which of the three.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NormKind {
    /// x, scale, bias in; y out.
    Inference,
    /// x, scale, bias in; y, mean, inverse deviation out.
    Training,
    /// x, scale, dy, mean, inverse deviation in; dx, dscale, dbias out.
    Backward,
}

/// Parameters of a norm.
#[derive(Clone, Copy, Debug)]
pub struct CudnnNormOp {
    /// Which of the three.
    pub kind: NormKind,
    /// Added to the variance.
    pub epsilon: f64,
}

/// Reads the call.
pub fn plan(instruction: InstructionRef<'_>) -> Result<CudnnNormOp> {
    let config = Config::of(instruction);
    let kind = config.text("kind").unwrap_or_default();
    let (kind, operands) = match kind.as_ref() {
        "LAYER_FWD_INFER" | "0" | "" => (NormKind::Inference, 3),
        "LAYER_FWD_TRAIN" | "1" => (NormKind::Training, 3),
        "LAYER_BWD" | "2" => (NormKind::Backward, 5),
        other => return Err(unsupported(instruction, format!("norm {other}"))),
    };
    if instruction.operand_ids().len() != operands {
        return Err(unsupported(instruction, "norm of other operands".into()));
    }
    for index in 0..operands {
        if !array_operand(instruction, index)?
            .element_type
            .is_floating()
        {
            return Err(unsupported(
                instruction,
                "norm of numbers that are no floats".into(),
            ));
        }
    }
    Ok(CudnnNormOp {
        kind,
        epsilon: config.number("epsilon").unwrap_or(1e-5),
    })
}
