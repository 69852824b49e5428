//! `batch-norm-training`, `-inference` and `-grad`.

use super::index_map::{array_operand, checked_dims};
use crate::error::Result;
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::plan::error::unsupported;

/// Which of the three.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchNormKind {
    /// Operand, scale, offset in; result, mean, variance out.
    Training,
    /// Operand, scale, offset, mean, variance in; result out.
    Inference,
    /// Operand, scale, mean, variance, gradient in; gradients of operand, scale, offset out.
    Grad,
}

/// Parameters of a batch norm.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormOp {
    /// Which of the three.
    pub kind: BatchNormKind,
    /// Added to the variance.
    pub epsilon: f64,
    /// The dimension of the features.
    pub feature: usize,
}

/// Reads the parameters.
pub fn plan(instruction: InstructionRef<'_>) -> Result<BatchNormOp> {
    let operand = array_operand(instruction, 0)?;
    let (kind, operands) = match instruction.opcode() {
        HloOpcode::BatchNormTraining => (BatchNormKind::Training, 3),
        HloOpcode::BatchNormInference => (BatchNormKind::Inference, 5),
        _ => (BatchNormKind::Grad, 5),
    };
    let feature = instruction.int(AttrKey::FeatureIndex).unwrap_or(-1);
    let feature = checked_dims(instruction, &[feature], operand.rank())?[0];
    if !operand.element_type.is_floating() || instruction.operand_ids().len() != operands {
        return Err(unsupported(
            instruction,
            "batch norm of these operands".into(),
        ));
    }
    for index in 1..operands {
        let shape = array_operand(instruction, index)?;
        let whole = kind == BatchNormKind::Grad && index == 4;
        let fits = if whole {
            shape.dims == operand.dims
        } else {
            shape.dims[..] == [operand.dims[feature]]
        };
        if !fits || !shape.element_type.is_floating() {
            return Err(unsupported(
                instruction,
                format!("operand {index} does not fit"),
            ));
        }
    }
    Ok(BatchNormOp {
        kind,
        // The attribute is a single-precision number.
        epsilon: f64::from(instruction.float(AttrKey::Epsilon).unwrap_or(0.0) as f32),
        feature,
    })
}
