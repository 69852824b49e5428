//! The convolutions of cuDNN: forward, both gradients, and forward with an epilogue.
//!
//! The attributes of all of them describe the forward convolution; gradients become convolutions of
//! their own over the same arrays.

use super::convolution::{self, ConvolutionDims, ConvolutionOp};
use super::index_map::array_operand;
use crate::error::Result;
use crate::library::convolution::ConvolutionCall;
use crate::library::{Config, results::declared};
use crate::module::attributes::{ConvolutionDimensionNumbers, Window, WindowDimension};
use crate::module::{AttrKey, AttrValue, InstructionRef};
use crate::plan::error::unsupported;
use crate::types::ArrayShape;

pub use crate::library::convolution::Role;

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

/// Reads the call; the verifier knows that its arrays fit the forward convolution.
pub fn plan(instruction: InstructionRef<'_>, call: ConvolutionCall) -> Result<CudnnConvOp> {
    let numbers = match instruction.attribute(AttrKey::DimLabels) {
        Some(AttrValue::DimLabels(numbers)) => (**numbers).clone(),
        _ => return Err(unsupported(instruction, "no dim_labels".into())),
    };
    let window = instruction.window().cloned().unwrap_or_default();
    let result = declared(instruction).first().copied().flatten();
    let result = result.ok_or_else(|| unsupported(instruction, "no result".into()))?;
    let shapes = (
        array_operand(instruction, 0)?,
        array_operand(instruction, 1)?,
        result,
    );
    let config = Config::of(instruction);
    let number = |name: &str, default: f64| config.number(name).unwrap_or(default);
    let groups = instruction.int(AttrKey::FeatureGroupCount).unwrap_or(1);
    let (convolution, group_dims) = match call.role {
        Role::Forward => (
            convolution::new(instruction, &numbers, window, shapes)?,
            [0; 3],
        ),
        Role::BackwardInput => (
            backward_input(instruction, &numbers, &window)?,
            [
                numbers.output_feature,
                numbers.kernel_output_feature,
                numbers.input_feature,
            ],
        ),
        Role::BackwardFilter => (
            backward_filter(instruction, &numbers, &window, result)?,
            [
                numbers.input_feature,
                numbers.output_feature,
                numbers.kernel_output_feature,
            ],
        ),
    };
    let is_fused = call.is_fused;
    Ok(CudnnConvOp {
        convolution,
        role: call.role,
        groups: groups.max(1) as usize,
        group_dims: group_dims.map(|d| d as usize),
        scale: number("conv_result_scale", 1.0),
        side_scale: if is_fused {
            number("side_input_scale", 0.0)
        } else {
            0.0
        },
        has_bias: is_fused,
        activation: activation(instruction, &config, is_fused)?,
    })
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
) -> Result<ConvolutionOp> {
    let mut turned = Window::default();
    for w in &window.0 {
        if w.base_dilation != 1 {
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
    gradient: &ArrayShape,
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
