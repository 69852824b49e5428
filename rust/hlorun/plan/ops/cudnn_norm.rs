//! `__cudnn$norm`: layer normalization, forward with and without statistics, and its gradient.

use crate::error::Result;
use crate::library::Config;
use crate::module::InstructionRef;
use crate::plan::error::unsupported;

pub use crate::library::norm::NormKind;

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
    let kind = NormKind::of(&config).map_err(|what| unsupported(instruction, what))?;
    Ok(CudnnNormOp {
        kind,
        epsilon: config.number("epsilon").unwrap_or(1e-5),
    })
}
