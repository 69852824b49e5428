//! `__cudnn$fmha*`: softmax(scale · Q·K + bias) · V, forward.
//!
//! It is not written out as HLO: a run holds the scores of one head per thread, where `dot` and `reduce`
//! would store those of all heads.

use super::index_map::DimList;
use crate::error::Result;
use crate::library::attention::{Options, head_dims};
use crate::module::InstructionRef;
use crate::plan::error::unsupported;
use crate::types::Dims;

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

/// Reads the call; `None` for targets other than the plain forward pass.
pub fn plan(instruction: InstructionRef<'_>, target: &str) -> Option<Result<CudnnAttentionOp>> {
    let is_plain = matches!(
        target,
        "__cudnn$fmhaSoftmax" | "__cudnn$fmhaScaleBiasSoftmax"
    );
    is_plain.then(|| read(instruction).map_err(|what| unsupported(instruction, what)))
}

fn read(instruction: InstructionRef<'_>) -> std::result::Result<CudnnAttentionOp, String> {
    let options = Options::of(instruction)
        .ok_or("attention without options in JSON, with dropout, packed sequences or pages")?;
    if options.lengths || options.window > 0 {
        return Err("attention with a mask of lengths or a window".into());
    }
    let [q, k, v, _] = head_dims(instruction, false)?;
    let list = |dims: &Dims| dims.iter().map(|&d| d as usize).collect();
    Ok(CudnnAttentionOp {
        scale: options.scale,
        causal: options.causal,
        has_bias: options.has_bias,
        batch: [list(&q.batch), list(&k.batch), list(&v.batch)],
        contracting: [q.columns, k.columns, v.rows].map(|d| d as usize),
    })
}
