//! The convolutions of cuDNN: forward, both gradients, and forward with an epilogue.
//!
//! The attributes of all of them describe the forward convolution; gradients become convolutions of
//! their own over the same arrays.

use super::config::Config;
use super::convolution::{self, ConvolutionDims, ConvolutionOp};
use super::index_map::array_operand;
use crate::error::Result;
use crate::module::attributes::{ConvolutionDimensionNumbers, Window, WindowDimension};
use crate::module::{AttrKey, AttrValue, InstructionRef};
use crate::plan::unsupported;
use crate::types::ArrayShape;

/// What happens to a result before it is stored.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Activation {
    None,
    Relu,
    Relu6,
    Elu,
    Sigmoid,
    Tanh,
    /// Slope below zero.
    LeakyRelu(f64),
}

/// Which operands and results a group of features takes part in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The operation does its groups itself.
    Forward,
    /// Operands are dy and the kernel, the result dx.
    BackwardInput,
    /// Operands are x and dy, the result the kernel's gradient.
    BackwardFilter,
}

/// Parameters of a cuDNN convolution.
#[derive(Clone, Debug)]
pub struct CudnnConvOp {
    /// What is computed; of one group where `role` is a gradient.
    pub convolution: ConvolutionOp,
    /// Which of the three.
    pub role: Role,
    /// Groups, done one by one for gradients: the dimension of first and second operand and of the
    /// result that a group is a part of.
    pub groups: usize,
    /// See `groups`.
    pub group_dims: [usize; 3],
    /// Factor of the convolution.
    pub scale: f64,
    /// Factor of the fourth operand.
    pub side_scale: f64,
    /// The third operand is added to the features.
    pub has_bias: bool,
    /// Applied last.
    pub activation: Activation,
}

/// Reads the call.
pub fn plan(instruction: InstructionRef<'_>, target: &str) -> Result<CudnnConvOp> {
    let numbers = match instruction.attribute(AttrKey::DimLabels) {
        Some(AttrValue::DimLabels(numbers)) => (**numbers).clone(),
        _ => return Err(unsupported(instruction, "no dim_labels".into())),
    };
    let window = instruction.window().cloned().unwrap_or_default();
    let shapes = instruction.module.shapes();
    let result = match instruction.shape().as_tuple() {
        Some(parts) => parts.first().and_then(|&part| shapes.get(part).as_array()),
        None => instruction.array_shape(),
    };
    let result = result.ok_or_else(|| unsupported(instruction, "no result".into()))?;
    let (first, second) = (
        array_operand(instruction, 0)?,
        array_operand(instruction, 1)?,
    );
    let fits = window.0.len() == numbers.input_spatial.len()
        && window.0.len() == numbers.kernel_spatial.len()
        && window.0.len() == numbers.output_spatial.len();
    let ranks_fit = [first, second, result]
        .iter()
        .all(|s| s.rank() == window.0.len() + 2);
    if !fits || !ranks_fit {
        return Err(unsupported(
            instruction,
            "dim_labels that do not fit".into(),
        ));
    }
    let config = Config::of(instruction);
    let number = |name: &str, default: f64| config.number(name).unwrap_or(default);
    let role = match target {
        "__cudnn$convBackwardInput" => Role::BackwardInput,
        "__cudnn$convBackwardFilter" => Role::BackwardFilter,
        _ => Role::Forward,
    };
    let groups = usize::try_from(instruction.int(AttrKey::FeatureGroupCount).unwrap_or(1))
        .unwrap_or(0)
        .max(1);
    let fused = target == "__cudnn$convBiasActivationForward";
    let mut group_dims = [0; 3];
    let convolution = match role {
        Role::Forward => {
            let op = convolution::new(instruction, &numbers, window, (first, second, result))?;
            for (i, w) in op.window.0.iter().enumerate() {
                let (from, to) = (op.input.spatial[i], op.output.spatial[i]);
                if positions(first.dims[from], w) != Some(result.dims[to]) {
                    let what = format!("the window does not make dimension {to} of the result");
                    return Err(unsupported(instruction, what));
                }
            }
            op
        }
        Role::BackwardInput => {
            group_dims = [
                numbers.output_feature,
                numbers.kernel_output_feature,
                numbers.input_feature,
            ]
            .map(|d| d as usize);
            backward_input(instruction, &numbers, &window, (first, second, result))?
        }
        Role::BackwardFilter => {
            group_dims = [
                numbers.input_feature,
                numbers.output_feature,
                numbers.kernel_output_feature,
            ]
            .map(|d| d as usize);
            backward_filter(instruction, &numbers, &window, (first, second, result))?
        }
    };
    if role != Role::Forward {
        let divides = |shape: &ArrayShape, d: usize| {
            shape.dims.get(d).is_some_and(|&n| n % groups as i64 == 0)
        };
        if !divides(first, group_dims[0])
            || !divides(second, group_dims[1])
            || !divides(result, group_dims[2])
        {
            return Err(unsupported(instruction, "groups that do not fit".into()));
        }
    }
    Ok(CudnnConvOp {
        convolution,
        role,
        groups,
        group_dims,
        scale: number("conv_result_scale", 1.0),
        side_scale: if fused {
            number("side_input_scale", 0.0)
        } else {
            0.0
        },
        has_bias: fused,
        activation: activation(instruction, &config, fused)?,
    })
}

/// How many positions the window has; `None` when 64 bits do not hold it. The verifier knows no
/// windows of custom calls.
fn positions(size: i64, w: &WindowDimension) -> Option<i64> {
    let spread = |size: i64, dilation: i64| match size {
        0 => Some(0),
        _ => (size - 1).checked_mul(dilation)?.checked_add(1),
    };
    let base = spread(size, w.base_dilation)?
        .checked_add(w.padding_low)?
        .checked_add(w.padding_high)?;
    let room = base.checked_sub(spread(w.size, w.window_dilation)?)?;
    Some(if room < 0 { 0 } else { room / w.stride + 1 })
}

fn activation(instruction: InstructionRef<'_>, config: &Config, fused: bool) -> Result<Activation> {
    if !fused {
        return Ok(Activation::None);
    }
    let mode = config.text("activation_mode").unwrap_or_default();
    Ok(match mode.as_ref() {
        // Numbers are those of the enumeration the names come from.
        "kNone" | "NONE" | "0" | "" => Activation::None,
        "kSigmoid" | "SIGMOID" | "1" => Activation::Sigmoid,
        "kRelu" | "RELU" | "2" => Activation::Relu,
        "kRelu6" | "RELU6" | "3" => Activation::Relu6,
        "kTanh" | "TANH" | "5" => Activation::Tanh,
        "kElu" | "ELU" | "7" => Activation::Elu,
        "kLeakyRelu" | "LEAKY_RELU" | "8" => {
            Activation::LeakyRelu(config.number("leakyrelu_alpha").unwrap_or(0.0))
        }
        other => return Err(unsupported(instruction, format!("activation {other}"))),
    })
}

/// A dimension of a window from its parts; the high padding follows from the sizes and is not read.
fn dimension(
    size: i64,
    stride: i64,
    low: i64,
    window_dilation: i64,
    base_dilation: i64,
) -> WindowDimension {
    WindowDimension {
        size,
        stride,
        padding_low: low,
        padding_high: 0,
        window_dilation,
        base_dilation,
        window_reversal: false,
    }
}

fn dims(outer: i64, feature: i64, spatial: &[i64]) -> ConvolutionDims {
    ConvolutionDims {
        outer: outer as usize,
        feature: feature as usize,
        spatial: spatial.iter().map(|&d| d as usize).collect(),
    }
}

/// dx is a convolution of dy, spread by the stride, with the kernel backwards and its features
/// exchanged.
fn backward_input(
    instruction: InstructionRef<'_>,
    n: &ConvolutionDimensionNumbers,
    window: &Window,
    (_, kernel, _): (&ArrayShape, &ArrayShape, &ArrayShape),
) -> Result<ConvolutionOp> {
    let mut turned = Window::default();
    for (w, &d) in window.0.iter().zip(&n.kernel_spatial) {
        if w.base_dilation != 1 || w.size < 1 || kernel.dims[d as usize] != w.size {
            return Err(unsupported(
                instruction,
                "a gradient with a dilated input".into(),
            ));
        }
        let low = (w.size - 1)
            .checked_mul(w.window_dilation)
            .and_then(|reach| reach.checked_sub(w.padding_low))
            .ok_or_else(|| unsupported(instruction, "an impossible window".into()))?;
        let mut d = dimension(w.size, 1, low, w.window_dilation, w.stride);
        // A kernel that cuDNN reads backwards already is read forwards here.
        d.window_reversal = !w.window_reversal;
        turned.0.push(d);
    }
    Ok(ConvolutionOp {
        input: dims(n.output_batch, n.output_feature, &n.output_spatial),
        kernel: dims(
            n.kernel_input_feature,
            n.kernel_output_feature,
            &n.kernel_spatial,
        ),
        output: dims(n.input_batch, n.input_feature, &n.input_spatial),
        window: turned,
        feature_group_count: 1,
        batch_group_count: 1,
    })
}

/// The kernel's gradient is a convolution of x with dy, batch and features exchanged.
fn backward_filter(
    instruction: InstructionRef<'_>,
    n: &ConvolutionDimensionNumbers,
    window: &Window,
    (_, gradient, _): (&ArrayShape, &ArrayShape, &ArrayShape),
) -> Result<ConvolutionOp> {
    let mut turned = Window::default();
    for (w, &d) in window.0.iter().zip(&n.output_spatial) {
        if w.base_dilation != 1 || w.window_reversal {
            return Err(unsupported(
                instruction,
                "a gradient with a dilated input".into(),
            ));
        }
        let size = gradient.dims[d as usize];
        turned.0.push(dimension(
            size,
            w.window_dilation,
            w.padding_low,
            w.stride,
            1,
        ));
    }
    Ok(ConvolutionOp {
        input: dims(n.input_feature, n.input_batch, &n.input_spatial),
        kernel: dims(n.output_feature, n.output_batch, &n.output_spatial),
        output: dims(
            n.kernel_input_feature,
            n.kernel_output_feature,
            &n.kernel_spatial,
        ),
        window: turned,
        feature_group_count: 1,
        batch_group_count: 1,
    })
}
