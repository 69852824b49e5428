//! `__onednn$*` of XLA's CPU compiler, written out: products and convolutions with what is fused
//! behind them, layer normalization, softmax.
//!
//! In: a call. Out: HLO in `f32`, rounded once. Weights in a packed order of the library and
//! quantized operands are refused.

use super::{Activation, Builder, DotDimensions};
use crate::error::Result;
use crate::module::attributes::{ConvolutionDimensionNumbers, Window, WindowDimension};
use crate::module::{AttrKey, AttrValue, Attribute, HloOpcode, InstructionId, InstructionRef};
use crate::plan::ops::config::Config;
use crate::plan::unsupported;
use crate::types::{Dims, PrimitiveType};

/// Whether the call is one of these.
pub fn applies(instruction: InstructionRef<'_>) -> bool {
    matches!(
        instruction
            .custom_call_target()
            .unwrap_or_default()
            .as_ref(),
        "__onednn$matmul" | "__onednn$convolution" | "__onednn$layernorm" | "__onednn$softmax"
    )
}

/// Writes the call out.
pub fn run(b: &mut Builder<'_>, id: InstructionId) -> Result<InstructionId> {
    let instruction = b.module.instruction(id);
    let target = instruction.custom_call_target().unwrap_or_default();
    let config = Config::of(instruction);
    let written = match target.as_ref() {
        "__onednn$matmul" => matmul(b, id, &config),
        "__onednn$convolution" => convolution(b, id, &config),
        "__onednn$layernorm" => layer_norm(b, id, &config),
        _ => softmax(b, id, &config),
    };
    let value = match written {
        Ok(value) => value,
        Err(what) => return Err(unsupported(b.module.instruction(id), what)),
    };
    let (results, is_tuple) = b.results(id);
    let Some(shape) = results.first() else {
        return Err(unsupported(
            b.module.instruction(id),
            "a call that returns no array".into(),
        ));
    };
    let value = b.rounded(value, shape.element_type);
    if !is_tuple {
        return Ok(value);
    }
    let mut elements = vec![value];
    for shape in &results[1..] {
        // A workspace: nobody may read it.
        elements.push(b.zeros(shape.element_type, &shape.dims));
    }
    Ok(b.tuple(&elements))
}

type Written = std::result::Result<InstructionId, String>;

/// A float kept as the integer of its bits.
fn cast_float(config: &Config, name: &str) -> Option<f64> {
    let bits = config.number(name)?;
    Some(f64::from(f32::from_bits(bits as i64 as u32)))
}

/// Numbers under a path of JSON names.
fn list(config: &Config, path: &[&str]) -> Dims {
    let mut value = config.json();
    for name in path {
        value = value.and_then(|value| value.get(name));
    }
    let values = value.and_then(|value| value.as_array());
    let number = |v: &serde_json::Value| v.as_i64().or_else(|| v.as_str()?.parse().ok());
    values.into_iter().flatten().filter_map(number).collect()
}

/// What is fused behind a product, in order.
fn fused(config: &Config) -> Vec<String> {
    let lists = ["ops", "fused_ops"]
        .iter()
        .find_map(|name| config.text(name));
    let text = lists.unwrap_or_default();
    let values: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
    values
        .iter()
        .map(|v| match v {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect()
}

/// `x` with all that follows; `more` are the operands left.
fn finish(
    b: &mut Builder<'_>,
    config: &Config,
    mut x: InstructionId,
    more: &[InstructionId],
) -> Written {
    let dims = b.shape(x).dims;
    let ops = fused(config);
    let mut left = more.iter().copied();
    for op in &ops {
        x = match op.as_str() {
            "BIAS" | "1" | "BINARY_ADD" | "6" | "SUM" => {
                let operand = left.next().ok_or("fewer operands than are fused")?;
                let operand = b.as_type(operand, PrimitiveType::F32);
                let operand = b
                    .fitted(operand, &dims)
                    .ok_or("a fused operand of other sizes")?;
                b.plus(x, operand)
            }
            "RELU" | "2" => b.activate(x, Activation::Relu),
            "TANH" | "3" => b.elementwise(HloOpcode::Tanh, &[x]),
            "GELU_ERF" | "4" => {
                let c = b.filled(std::f64::consts::FRAC_1_SQRT_2, x);
                let scaled = b.times(x, c);
                let erf = b.elementwise(HloOpcode::Erf, &[scaled]);
                let one = b.filled(1.0, x);
                let gate = b.plus(erf, one);
                let half = b.filled(0.5, x);
                let scaled = b.times(x, half);
                b.times(scaled, gate)
            }
            "GELU_TANH" | "5" => b.activate(x, Activation::Gelu),
            "LINEAR" | "7" => {
                let alpha = cast_float(config, "alpha_typecast").unwrap_or(0.0);
                let alpha = b.filled(alpha, x);
                b.times(x, alpha)
            }
            "ELU" => {
                let power = b.elementwise(HloOpcode::Expm1, &[x]);
                let zero = b.filled(0.0, x);
                let low = b.elementwise(HloOpcode::Minimum, &[power, zero]);
                let high = b.elementwise(HloOpcode::Maximum, &[x, zero]);
                b.plus(low, high)
            }
            "RELU6" => {
                let six = b.filled(6.0, x);
                let low = b.elementwise(HloOpcode::Minimum, &[x, six]);
                b.activate(low, Activation::Relu)
            }
            "SIGMOID" => b.elementwise(HloOpcode::Logistic, &[x]),
            "SWISH" => b.activate(x, Activation::Silu),
            other => return Err(format!("fused {other}")),
        };
    }
    match left.next() {
        Some(_) => Err("more operands than are fused".into()),
        None => Ok(x),
    }
}

/// Dimensions in the order a list of ones-based numbers gives, the last two exchanged on demand.
fn order(rank: usize, listed: &[i64], exchange: bool) -> std::result::Result<Dims, String> {
    let mut order: Dims = if listed.is_empty() {
        (0..rank as i64).collect()
    } else {
        listed.iter().map(|&d| d - 1).collect()
    };
    let is_permutation = (0..rank as i64).all(|d| order.contains(&d)) && order.len() == rank;
    if !is_permutation || rank < 2 {
        return Err("dimensions that are no permutation".into());
    }
    if exchange {
        order.swap(rank - 1, rank - 2);
    }
    Ok(order)
}

fn matmul(b: &mut Builder<'_>, id: InstructionId, config: &Config) -> Written {
    if config.flag("weights_prepacked") == Some(true) {
        return Err("weights in a packed order".into());
    }
    let operands: Vec<InstructionId> = b.module.operand_ids(id).to_vec();
    let [lhs, rhs, more @ ..] = operands.as_slice() else {
        return Err("a product of fewer than two operands".into());
    };
    let (results, _) = b.results(id);
    let result = results.first().cloned().ok_or("a product without result")?;
    let name = "onednn_matmul_config";
    let mut sides = [*lhs, *rhs];
    let layouts = [("lhs", "transpose_a"), ("rhs", "transpose_b")];
    for (side, (layout, exchange)) in sides.iter_mut().zip(layouts) {
        let shape = b.shape(*side);
        if !shape.element_type.is_floating() {
            return Err("quantized operands".into());
        }
        let listed = list(config, &[name, layout, "tensor", "dimensions"]);
        let exchange = config.flag(exchange).unwrap_or(false);
        let order = order(shape.rank(), &listed, exchange)?;
        *side = b.arranged(*side, &order);
    }
    let rank = b.shape(sides[0]).rank();
    if b.shape(sides[1]).rank() != rank {
        return Err("operands of different ranks".into());
    }
    let batch: Dims = (0..rank as i64 - 2).collect();
    let dimensions = DotDimensions {
        lhs_batch: batch.clone(),
        rhs_batch: batch,
        lhs_contracting: Dims::from_slice(&[rank as i64 - 1]),
        rhs_contracting: Dims::from_slice(&[rank as i64 - 2]),
    };
    let x = b
        .product(sides[0], sides[1], &dimensions, PrimitiveType::F32)
        .ok_or("a product whose dimensions do not fit")?;
    let x = finish(b, config, x, more)?;
    let listed = list(config, &[name, "result", "tensor", "dimensions"]);
    let to = order(rank, &listed, false)?;
    // Dimension k of the product is dimension `to[k]` of the result.
    let back: Dims = (0..rank as i64)
        .map(|d| to.iter().position(|&t| t == d).unwrap_or(0) as i64)
        .collect();
    let x = b.arranged(x, &back);
    if b.shape(x).dims != result.dims {
        return Err("a result of other sizes than the product".into());
    }
    Ok(x)
}

fn convolution(b: &mut Builder<'_>, id: InstructionId, config: &Config) -> Written {
    let operands: Vec<InstructionId> = b.module.operand_ids(id).to_vec();
    let [input, kernel, more @ ..] = operands.as_slice() else {
        return Err("a convolution of fewer than two operands".into());
    };
    let (results, _) = b.results(id);
    let result = results
        .first()
        .cloned()
        .ok_or("a convolution without result")?;
    let all = [b.shape(*input), b.shape(*kernel), result.clone()];
    if !all.iter().all(|s| s.element_type.is_floating()) {
        return Err("quantized operands".into());
    }
    let name = "onednn_conv_config";
    let root = config
        .json()
        .and_then(|json| json.get(name))
        .ok_or("a convolution without its options")?;
    let number = |path: [&str; 3]| {
        let value = root.get(path[0]).and_then(|v| v.get(path[1])?.get(path[2]));
        let value = value.and_then(|v| v.as_i64().or_else(|| v.as_str()?.parse().ok()));
        value.unwrap_or(0)
    };
    // Spatial dimensions are counted from one, the others from zero.
    let spatial = |side: &str, kind: &str| {
        list(config, &[name, side, kind, "spatial_dims"])
            .iter()
            .map(|d| d - 1)
            .collect::<smallvec::SmallVec<[i64; 3]>>()
    };
    let numbers = ConvolutionDimensionNumbers {
        input_batch: number(["input", "data", "batch_dim"]),
        input_feature: number(["input", "data", "feature_dim"]),
        input_spatial: spatial("input", "data"),
        kernel_input_feature: number(["kernel", "filter", "input_feature_dim"]),
        kernel_output_feature: number(["kernel", "filter", "output_feature_dim"]),
        kernel_spatial: spatial("kernel", "filter"),
        output_batch: number(["output", "data", "batch_dim"]),
        output_feature: number(["output", "data", "feature_dim"]),
        output_spatial: spatial("output", "data"),
    };
    let n = &numbers;
    let sides = [
        (n.input_batch, n.input_feature, &n.input_spatial),
        (
            n.kernel_input_feature,
            n.kernel_output_feature,
            &n.kernel_spatial,
        ),
        (n.output_batch, n.output_feature, &n.output_spatial),
    ];
    for ((first, second, rest), shape) in sides.iter().zip(&all) {
        let mut named: Vec<i64> = [*first, *second]
            .into_iter()
            .chain(rest.iter().copied())
            .collect();
        named.sort_unstable();
        if !named.iter().copied().eq(0..shape.rank() as i64) {
            return Err("dimensions that do not fit".into());
        }
    }
    // Strides and paddings are kept plus one, dilations too.
    let window = |field: &str| list(config, &[name, "window", field]);
    let (strides, low, high) = (window("strides"), window("pad_left"), window("pad_right"));
    let dilations = window("window_dilations");
    let at = |values: &Dims, d: usize, default: i64| values.get(d).map_or(default, |v| v - 1);
    let mut dimensions = Window::default();
    for (d, &dim) in n.kernel_spatial.iter().enumerate() {
        dimensions.0.push(WindowDimension {
            size: all[1].dims[dim as usize],
            stride: at(&strides, d, 1),
            padding_low: at(&low, d, 0),
            padding_high: at(&high, d, 0),
            window_dilation: at(&dilations, d, 1),
            ..WindowDimension::default()
        });
    }
    let fits = dimensions
        .0
        .iter()
        .zip(&n.output_spatial)
        .zip(&n.input_spatial);
    for ((w, &to), &from) in fits {
        let reach = (w.size - 1).checked_mul(w.window_dilation);
        let places = reach.and_then(|reach| {
            let size = all[0].dims[from as usize].checked_add(w.padding_low)?;
            let size = size
                .checked_add(w.padding_high)?
                .checked_sub(reach)?
                .checked_sub(1)?;
            size.checked_div_euclid(w.stride)?.checked_add(1)
        });
        if w.stride < 1 || w.window_dilation < 1 || places != Some(all[2].dims[to as usize]) {
            return Err("a window that does not fit".into());
        }
    }
    let groups = config.number("feature_groups").unwrap_or(1.0).max(1.0) as i64;
    let inputs = all[0].dims[n.input_feature as usize];
    let per_group = all[1].dims[n.kernel_input_feature as usize];
    let outputs = all[1].dims[n.kernel_output_feature as usize];
    if Some(inputs) != per_group.checked_mul(groups)
        || outputs % groups != 0
        || outputs != all[2].dims[n.output_feature as usize]
        || all[0].dims[n.input_batch as usize] != all[2].dims[n.output_batch as usize]
    {
        return Err("features that do not fit".into());
    }
    let attributes = [
        (AttrKey::Window, AttrValue::Window(Box::new(dimensions))),
        (AttrKey::FeatureGroupCount, AttrValue::Int(groups)),
        (AttrKey::DimLabels, AttrValue::DimLabels(Box::new(numbers))),
    ]
    .map(|(key, value)| Attribute { key, value });
    let ty = PrimitiveType::F32;
    let sides = [b.as_type(*input, ty), b.as_type(*kernel, ty)];
    let x = b.add_array(
        HloOpcode::Convolution,
        ty,
        &result.dims,
        &sides,
        &attributes,
    );
    finish(b, config, x, more)
}

fn layer_norm(b: &mut Builder<'_>, id: InstructionId, config: &Config) -> Written {
    let operands: Vec<InstructionId> = b.module.operand_ids(id).to_vec();
    let &[x, gamma, beta] = operands.as_slice() else {
        return Err("a norm of other operands".into());
    };
    let x = b.as_type(x, PrimitiveType::F32);
    let dims = b.shape(x).dims;
    let (Some(last), Some(&size)) = (dims.len().checked_sub(1), dims.last()) else {
        return Err("a norm of a scalar".into());
    };
    let rest: Dims = (0..last as i64).collect();
    let epsilon = cast_float(config, "epsilon_typecast").unwrap_or(0.0);
    let mean = |b: &mut Builder<'_>, x: InstructionId| {
        let sum = b.folded(HloOpcode::Add, x, &[last as i64]);
        let count = b.filled(size as f64, sum);
        b.elementwise(HloOpcode::Divide, &[sum, count])
    };
    let average = mean(b, x);
    let average = b.along(average, &dims, &rest);
    let centred = b.elementwise(HloOpcode::Subtract, &[x, average]);
    let square = b.times(centred, centred);
    let variance = mean(b, square);
    let epsilon = b.filled(epsilon, variance);
    let variance = b.plus(variance, epsilon);
    let factor = b.elementwise(HloOpcode::Rsqrt, &[variance]);
    let factor = b.along(factor, &dims, &rest);
    let mut y = b.times(centred, factor);
    for (operand, opcode) in [(gamma, HloOpcode::Multiply), (beta, HloOpcode::Add)] {
        let operand = b.as_type(operand, PrimitiveType::F32);
        if b.shape(operand).element_count() != Some(size) {
            return Err("a scale of another size than the last dimension".into());
        }
        let operand = b.reshape(operand, &[size]);
        let operand = b.along(operand, &dims, &[last as i64]);
        y = b.elementwise(opcode, &[y, operand]);
    }
    Ok(y)
}

fn softmax(b: &mut Builder<'_>, id: InstructionId, config: &Config) -> Written {
    let operands: Vec<InstructionId> = b.module.operand_ids(id).to_vec();
    let &[x] = operands.as_slice() else {
        return Err("a softmax of other than one operand".into());
    };
    let x = b.as_type(x, PrimitiveType::F32);
    let dims = b.shape(x).dims;
    let axis = config.number("softmax_axis").unwrap_or(0.0) as i64;
    let axis = if axis < 0 {
        axis + dims.len() as i64
    } else {
        axis
    };
    if !(0..dims.len() as i64).contains(&axis) {
        return Err(format!("a softmax along dimension {axis}"));
    }
    let rest: Dims = (0..dims.len() as i64).filter(|&d| d != axis).collect();
    let most = b.folded(HloOpcode::Maximum, x, &[axis]);
    let most = b.along(most, &dims, &rest);
    let less = b.elementwise(HloOpcode::Subtract, &[x, most]);
    let powers = b.elementwise(HloOpcode::Exp, &[less]);
    let sum = b.folded(HloOpcode::Add, powers, &[axis]);
    let sum = b.along(sum, &dims, &rest);
    Ok(b.elementwise(HloOpcode::Divide, &[powers, sum]))
}
