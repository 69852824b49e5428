//! The convolutions of cuDNN, written out: forward, both gradients, and forward with a bias, a side
//! input and an activation.
//!
//! In: a call. Out: a `convolution`, and elementwise instructions behind it in `f32` or wider. The
//! attributes of all calls describe the forward convolution; gradients become convolutions of their
//! own over the same arrays.

use crate::error::Result;
use crate::library::Config;
use crate::library::convolution::{ConvolutionCall, Role};
use crate::library::results::declared;
use crate::module::attributes::{ConvolutionDimensionNumbers, Window, WindowDimension};
use crate::module::{AttrKey, AttrValue, Attribute, HloOpcode, InstructionId};
use crate::plan::error::unsupported;
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::legalize::results::compute_type;
use crate::types::{ArrayShape, Dims, PrimitiveType};

type Written<T> = std::result::Result<T, String>;

/// Writes the call out; the verifier knows that its arrays fit the forward convolution.
pub fn run(b: &mut Builder<'_>, id: InstructionId, call: ConvolutionCall) -> Result<InstructionId> {
    write(b, id, call).map_err(|what| unsupported(b.module.instruction(id), what))
}

fn write(b: &mut Builder<'_>, id: InstructionId, call: ConvolutionCall) -> Written<InstructionId> {
    let instruction = b.module.instruction(id);
    let result = declared(instruction).first().copied().flatten().cloned();
    let result = result.ok_or("a convolution without result")?;
    let config = Config::of(instruction);
    let scale = config.number("conv_result_scale").unwrap_or(1.0);
    let numbers = match instruction.attribute(AttrKey::DimLabels) {
        Some(AttrValue::DimLabels(numbers)) => (**numbers).clone(),
        _ => return Err("no dim_labels".into()),
    };
    let groups = instruction
        .int(AttrKey::FeatureGroupCount)
        .unwrap_or(1)
        .max(1);
    let mut convolution = Convolution {
        operands: [instruction.operand_ids()[0], instruction.operand_ids()[1]],
        window: instruction.window().cloned().unwrap_or_default(),
        numbers,
        groups: (AttrKey::FeatureGroupCount, groups),
    };
    match call.role {
        Role::Forward => {}
        Role::BackwardInput => convolution.turn_to_input(b, &result)?,
        Role::BackwardFilter => convolution.turn_to_filter(b)?,
    }
    let activation = match call.is_fused {
        true => Activation::of(&config)?,
        false => Activation::None,
    };
    let is_plain = scale == 1.0 && !call.is_fused;
    let wide = compute_type(result.element_type);
    let ty = if is_plain { result.element_type } else { wide };
    if !is_plain && ty.is_complex() {
        return Err("a complex convolution with an epilogue".into());
    }
    let mut x = convolution.add(b, &result, ty);
    x = b.scaled(x, scale);
    if call.is_fused {
        let operands = b.module.operand_ids(id).to_vec();
        let side_scale = config.number("side_input_scale").unwrap_or(0.0);
        if let Some(&side) = operands.get(3).filter(|_| side_scale != 0.0) {
            let side = b.as_type(side, ty);
            let side = b.scaled(side, side_scale);
            x = b.plus(x, side);
        }
        let feature = convolution.numbers.output_feature;
        let &bias = operands.get(2).ok_or("a convolution without its bias")?;
        let bias = b.reshape(bias, &[result.dims[feature as usize]]);
        let bias = b.as_type(bias, ty);
        let bias = b.along(bias, &result.dims, &[feature]);
        x = b.plus(x, bias);
        x = activation.apply(b, x);
    }
    b.returned(id, &[x]).ok_or_else(|| "of no arrays".into())
}

/// A `convolution` to be.
struct Convolution {
    operands: [InstructionId; 2],
    window: Window,
    numbers: ConvolutionDimensionNumbers,
    groups: (AttrKey, i64),
}

/// Both high paddings let the windows end where the result does: as many elements as it takes for
/// `positions` windows of `covered` elements each, `stride` apart, over `size` elements behind `low`.
fn padding_high([positions, stride, covered]: [i64; 3], [low, size]: [i64; 2]) -> Written<i64> {
    let last = (positions - 1).checked_mul(stride);
    let end = last.and_then(|last| last.checked_add(covered));
    let high = end.and_then(|end| end.checked_sub(low)?.checked_sub(size));
    high.ok_or_else(|| "an impossible window".to_owned())
}

/// Elements from the first to the last of `size` that are `step` apart.
fn spread(size: i64, step: i64) -> Written<i64> {
    let reach = (size - 1).checked_mul(step);
    let reach = reach.and_then(|reach| reach.checked_add(1));
    reach.ok_or_else(|| "an impossible window".to_owned())
}

impl Convolution {
    /// dx is a convolution of dy, spread by the stride, with the kernel backwards and its features
    /// exchanged.
    fn turn_to_input(&mut self, b: &mut Builder<'_>, result: &ArrayShape) -> Written<()> {
        let n = &self.numbers;
        let dy = b.shape(self.operands[0]);
        for (d, w) in self.window.0.iter_mut().enumerate() {
            if w.base_dilation != 1 {
                return Err("a gradient with a dilated input".into());
            }
            let covered = spread(w.size, w.window_dilation)?;
            let given = spread(dy.dims[n.output_spatial[d] as usize], w.stride)?;
            let made = result.dims[n.input_spatial[d] as usize];
            let low = (covered - 1).checked_sub(w.padding_low);
            let low = low.ok_or("an impossible window")?;
            *w = WindowDimension {
                stride: 1,
                padding_low: low,
                padding_high: padding_high([made, 1, covered], [low, given])?,
                base_dilation: w.stride,
                // A kernel that cuDNN reads backwards already is read forwards here.
                window_reversal: !w.window_reversal,
                ..*w
            };
        }
        let n = n.clone();
        self.numbers = ConvolutionDimensionNumbers {
            input_batch: n.output_batch,
            input_feature: n.output_feature,
            input_spatial: n.output_spatial,
            kernel_input_feature: n.kernel_output_feature,
            kernel_output_feature: n.kernel_input_feature,
            kernel_spatial: n.kernel_spatial,
            output_batch: n.input_batch,
            output_feature: n.input_feature,
            output_spatial: n.input_spatial,
        };
        self.exchange_groups(b);
        Ok(())
    }

    /// Moves the groups of the kernel from its input features, which were its output features, to
    /// its output features.
    fn exchange_groups(&mut self, b: &mut Builder<'_>) {
        let groups = self.groups.1;
        if groups == 1 {
            return;
        }
        let (from, to) = (
            self.numbers.kernel_input_feature as usize,
            self.numbers.kernel_output_feature as usize,
        );
        let mut dims: Dims = b.shape(self.operands[1]).dims;
        dims[from] /= groups;
        let mut split = dims.clone();
        split.insert(from, groups);
        let kernel = b.reshape(self.operands[1], &split);
        // The dimension of the groups goes in front of the output features.
        let behind = |dim: usize| (dim + usize::from(dim >= from)) as i64;
        let order = (0..dims.len()).flat_map(|dim| {
            let moved = (dim == to).then_some(from as i64);
            moved.into_iter().chain([behind(dim)])
        });
        let order: Dims = order.collect();
        let kernel = b.arranged(kernel, &order);
        dims[to] *= groups;
        self.operands[1] = b.reshape(kernel, &dims);
    }

    /// The kernel's gradient is a convolution of x with dy, batch and features exchanged.
    fn turn_to_filter(&mut self, b: &mut Builder<'_>) -> Written<()> {
        let n = &self.numbers;
        let [x, dy] = self.operands.map(|operand| b.shape(operand));
        for (d, w) in self.window.0.iter_mut().enumerate() {
            if w.base_dilation != 1 || w.window_reversal {
                return Err("a gradient with a dilated input".into());
            }
            let size = dy.dims[n.output_spatial[d] as usize];
            let covered = spread(size, w.stride)?;
            let given = x.dims[n.input_spatial[d] as usize];
            let positions = [w.size, w.window_dilation, covered];
            *w = WindowDimension {
                size,
                stride: w.window_dilation,
                padding_high: padding_high(positions, [w.padding_low, given])?,
                window_dilation: w.stride,
                ..*w
            };
        }
        let n = n.clone();
        self.numbers = ConvolutionDimensionNumbers {
            input_batch: n.input_feature,
            input_feature: n.input_batch,
            input_spatial: n.input_spatial,
            kernel_input_feature: n.output_batch,
            kernel_output_feature: n.output_feature,
            kernel_spatial: n.output_spatial,
            output_batch: n.kernel_input_feature,
            output_feature: n.kernel_output_feature,
            output_spatial: n.kernel_spatial,
        };
        self.groups.0 = AttrKey::BatchGroupCount;
        Ok(())
    }

    /// The instruction.
    fn add(&self, b: &mut Builder<'_>, result: &ArrayShape, ty: PrimitiveType) -> InstructionId {
        let is_empty = |&operand: &InstructionId| b.shape(operand).dims.contains(&0);
        if self.operands.iter().any(is_empty) {
            // Of nothing there are no windows, but sums.
            return b.zeros(ty, &result.dims);
        }
        let (key, groups) = self.groups;
        let attributes = [
            (
                AttrKey::Window,
                AttrValue::Window(Box::new(self.window.clone())),
            ),
            (
                AttrKey::DimLabels,
                AttrValue::DimLabels(Box::new(self.numbers.clone())),
            ),
            (key, AttrValue::Int(groups)),
        ];
        let attributes = attributes.map(|(key, value)| Attribute { key, value });
        let opcode = HloOpcode::Convolution;
        b.add_array(opcode, ty, &result.dims, &self.operands, &attributes)
    }
}

/// What happens to a result before it is stored.
#[derive(Clone, Copy, PartialEq)]
enum Activation {
    None,
    Relu,
    Relu6,
    Elu,
    Sigmoid,
    Tanh,
    /// Slope below zero.
    LeakyRelu(f64),
}

impl Activation {
    fn of(config: &Config) -> Written<Activation> {
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
            other => return Err(format!("activation {other}")),
        })
    }

    fn apply(self, b: &mut Builder<'_>, x: InstructionId) -> InstructionId {
        let zero = b.filled(0.0, x);
        // What is not below zero, or else `y`.
        let rectified = |b: &mut Builder<'_>, y: InstructionId| {
            let is_positive = b.less(zero, x);
            b.elementwise(HloOpcode::Select, &[is_positive, x, y])
        };
        match self {
            Activation::None => x,
            Activation::Relu => b.elementwise(HloOpcode::Maximum, &[x, zero]),
            Activation::Relu6 => {
                let six = b.filled(6.0, x);
                b.clamped(zero, x, six)
            }
            Activation::Elu => {
                let power = b.elementwise(HloOpcode::Expm1, &[x]);
                rectified(b, power)
            }
            Activation::Sigmoid => b.elementwise(HloOpcode::Logistic, &[x]),
            Activation::Tanh => b.elementwise(HloOpcode::Tanh, &[x]),
            Activation::LeakyRelu(slope) => {
                let low = b.scaled(x, slope);
                rectified(b, low)
            }
        }
    }
}
