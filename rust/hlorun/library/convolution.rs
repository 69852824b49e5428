//! The convolutions of cuDNN. The attributes of all of them describe the forward convolution.

use super::Config;
use crate::module::InstructionRef;

/// Which operands and results a group of features takes part in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Operands are x and the kernel, the result y.
    Forward,
    /// Operands are dy and the kernel, the result dx.
    BackwardInput,
    /// Operands are x and dy, the result the kernel's gradient.
    BackwardFilter,
}

/// A convolution with what follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConvolutionCall {
    /// Which of the three.
    pub role: Role,
    /// A bias, a side input and an activation follow.
    pub is_fused: bool,
    /// Operations of a graph follow.
    pub has_graph: bool,
}

/// The convolution that `target` names.
pub fn convolution_call(target: &str) -> Option<ConvolutionCall> {
    let call = |role| ConvolutionCall {
        role,
        is_fused: false,
        has_graph: false,
    };
    Some(match target {
        "__cudnn$convForward" => call(Role::Forward),
        "__cudnn$convBackwardInput" => call(Role::BackwardInput),
        "__cudnn$convBackwardFilter" => call(Role::BackwardFilter),
        "__cudnn$convBiasActivationForward" => ConvolutionCall {
            is_fused: true,
            ..call(Role::Forward)
        },
        "__cudnn$convForwardGraph" => ConvolutionCall {
            has_graph: true,
            ..call(Role::Forward)
        },
        _ => return None,
    })
}

/// One operation of `serialized_graph`, which lists them as `uid:[type]name(uids);`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GraphOperation {
    /// By what later operations name it.
    pub uid: String,
    /// What it does.
    pub name: String,
    /// The first operation it reads.
    pub argument: String,
}

/// The operations behind the convolution, in order.
pub fn graph(instruction: InstructionRef<'_>) -> Result<Vec<GraphOperation>, String> {
    let config = Config::of(instruction);
    let graph = config.text("serialized_graph").unwrap_or_default();
    let operations = graph.split(';').filter(|text| !text.trim().is_empty());
    operations
        .map(|text| {
            let parts = || {
                let (uid, rest) = text.trim().split_once(':')?;
                let (_, rest) = rest.split_once(']')?;
                let (name, arguments) = rest.split_once('(')?;
                let argument = arguments.trim_end_matches(')').split(',').next()?;
                Some(GraphOperation {
                    uid: uid.trim().to_owned(),
                    name: name.trim().to_owned(),
                    argument: argument.trim().to_owned(),
                })
            };
            parts()
                .ok_or_else(|| format!("the graph operation {text:?} is not uid:[type]name(uids)"))
        })
        .collect()
}

/// Whether an operation of the graph takes the call's next operand: a scale or an addend.
pub fn takes_operand(name: &str) -> bool {
    matches!(name, "scale" | "invscale" | "add")
}
