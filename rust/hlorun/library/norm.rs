//! `__cudnn$norm`: layer normalization, forward with and without statistics, and its gradient.

use super::Config;

/// The target.
pub const TARGET: &str = "__cudnn$norm";

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

impl NormKind {
    /// The kind a configuration names; an error names one that nobody knows.
    pub fn of(config: &Config) -> Result<NormKind, String> {
        let kind = config.text("kind").unwrap_or_default();
        Ok(match kind.as_ref() {
            "LAYER_FWD_INFER" | "0" | "" => NormKind::Inference,
            "LAYER_FWD_TRAIN" | "1" => NormKind::Training,
            "LAYER_BWD" | "2" => NormKind::Backward,
            other => return Err(format!("norm {other}")),
        })
    }

    /// How many operands it takes.
    pub fn operands(self) -> usize {
        match self {
            NormKind::Inference | NormKind::Training => 3,
            NormKind::Backward => 5,
        }
    }
}
