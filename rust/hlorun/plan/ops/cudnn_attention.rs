//! `__cudnn$fmha*`: softmax(scale · Q·K + bias) · V, forward.

use super::config::Config;
use super::index_map::{DimList, array_operand, checked_dims};
use crate::error::Result;
use crate::module::InstructionRef;
use crate::plan::unsupported;

/// Parameters of an attention.
#[derive(Clone, Debug)]
pub struct CudnnAttentionOp {
    /// Factor of Q·K.
    pub scale: f64,
    /// A query sees keys up to its own position.
    pub causal: bool,
    /// The fourth operand is added to the scores.
    pub has_bias: bool,
    /// Batch dimensions of Q, K and V.
    pub batch: [DimList; 3],
    /// The dimension of Q and K that is summed over, and that of V.
    pub contracting: [usize; 3],
}

/// Reads the call; `None` for forms other than the forward pass.
pub fn plan(instruction: InstructionRef<'_>, target: &str) -> Option<Result<CudnnAttentionOp>> {
    let has_bias = match target {
        "__cudnn$fmhaSoftmax" => false,
        "__cudnn$fmhaScaleBiasSoftmax" => true,
        _ => return None,
    };
    Some(read(instruction, has_bias))
}

fn read(instruction: InstructionRef<'_>, has_bias: bool) -> Result<CudnnAttentionOp> {
    let config = Config::of(instruction);
    let Some(json) = config.json() else {
        return Err(unsupported(
            instruction,
            "an attention without its options".into(),
        ));
    };
    let json = json.get("cudnn_fmha_backend_config").unwrap_or(json);
    let number = |name: &str| config.number(name).unwrap_or(0.0);
    if number("dropout_rate") != 0.0 || number("sliding_window_length") > 0.0 {
        return Err(unsupported(
            instruction,
            "attention with dropout or a window".into(),
        ));
    }
    let causal = match config.text("mask_type").as_deref() {
        None | Some("NO_MASK") => false,
        Some("CAUSAL") => true,
        Some(other) => return Err(unsupported(instruction, format!("attention mask {other}"))),
    };
    if instruction.operand_ids().len() != 3 + usize::from(has_bias) {
        return Err(unsupported(
            instruction,
            "attention of other operands".into(),
        ));
    }
    let list = |product: &str, name: &str, operand: usize| -> Result<DimList> {
        let values = json.get(product).and_then(|numbers| numbers.get(name));
        let values = values.and_then(|values| values.as_array());
        let numbers: Vec<i64> = values
            .into_iter()
            .flatten()
            .filter_map(|v| v.as_i64().or_else(|| v.as_str()?.parse().ok()))
            .collect();
        checked_dims(
            instruction,
            &numbers,
            array_operand(instruction, operand)?.rank(),
        )
    };
    let (first, second) = ("bmm1_dot_dimension_numbers", "bmm2_dot_dimension_numbers");
    let batch = [
        list(first, "lhs_batch_dimensions", 0)?,
        list(first, "rhs_batch_dimensions", 1)?,
        list(second, "rhs_batch_dimensions", 2)?,
    ];
    let sums = [
        list(first, "lhs_contracting_dimensions", 0)?,
        list(first, "rhs_contracting_dimensions", 1)?,
        list(second, "rhs_contracting_dimensions", 2)?,
    ];
    let fits = (0..3).all(|k| {
        let rank = array_operand(instruction, k).map_or(0, |shape| shape.rank());
        sums[k].len() == 1 && batch[k].len() == batch[0].len() && rank == batch[k].len() + 2
    });
    if !fits {
        return Err(unsupported(
            instruction,
            "attention dimensions that do not fit".into(),
        ));
    }
    let scale = config.number("fmha_scale").unwrap_or(1.0);
    Ok(CudnnAttentionOp {
        scale,
        causal,
        has_bias,
        contracting: [sums[0][0], sums[1][0], sums[2][0]],
        batch,
    })
}
