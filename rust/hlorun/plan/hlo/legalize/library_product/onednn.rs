//! `__onednn$*` of XLA's CPU compiler, written out: products and convolutions with what is fused
//! behind them, layer normalization, softmax.
//!
//! In: a call. Out: HLO in `f32`, rounded once. Weights in a packed order of the library and
//! quantized operands are refused.

use crate::error::Result;
use crate::library::gemm::Activation;
use crate::library::onednn::{self, Onednn, Side};
use crate::library::{Config, DotDimensions};
use crate::module::{AttrKey, AttrValue, Attribute, HloOpcode, InstructionId, InstructionRef};
use crate::plan::error::unsupported;
use crate::plan::hlo::builder::Builder;
use crate::types::{Dims, PrimitiveType};

fn call_of(instruction: InstructionRef<'_>) -> Option<Onednn> {
    onednn::onednn(instruction.custom_call_target()?.as_ref())
}

/// Whether the call is one of these.
pub fn applies(instruction: InstructionRef<'_>) -> bool {
    call_of(instruction).is_some()
}

/// Writes the call out.
pub fn run(b: &mut Builder<'_>, id: InstructionId) -> Result<InstructionId> {
    let instruction = b.module.instruction(id);
    let config = Config::of(instruction);
    let written = match call_of(instruction) {
        Some(Onednn::Matmul) => matmul(b, id, &config),
        Some(Onednn::Convolution) => convolution(b, id, &config),
        Some(Onednn::LayerNorm) => layer_norm(b, id, &config),
        Some(Onednn::Softmax) => softmax(b, id, &config),
        None => Err("a call of another library".into()),
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

/// `x` with all that follows; `more` are the operands left.
fn finish(
    b: &mut Builder<'_>,
    config: &Config,
    mut x: InstructionId,
    more: &[InstructionId],
) -> Written {
    let dims = b.shape(x).dims;
    let ops = onednn::fused(config);
    let mut left = more.iter().copied();
    for op in &ops {
        x = match op.as_str() {
            adds if onednn::takes_operand(adds) => {
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

fn matmul(b: &mut Builder<'_>, id: InstructionId, config: &Config) -> Written {
    if config.flag("weights_prepacked") == Some(true) {
        return Err("weights in a packed order".into());
    }
    let operands: Vec<InstructionId> = b.module.operand_ids(id).to_vec();
    let [lhs, rhs, more @ ..] = operands.as_slice() else {
        return Err("a product of fewer than two operands".into());
    };
    let mut sides = [*lhs, *rhs];
    for (id, side) in sides.iter_mut().zip([Side::Lhs, Side::Rhs]) {
        let shape = b.shape(*id);
        if !shape.element_type.is_floating() {
            return Err("quantized operands".into());
        }
        let order = onednn::matmul_order(config, side, shape.rank())?;
        *id = b.arranged(*id, &order);
    }
    let rank = b.shape(sides[0]).rank();
    let last = rank as i64 - 1;
    let dimensions = DotDimensions::of_matrices(rank, last, last - 1);
    let x = b
        .product(sides[0], sides[1], &dimensions, PrimitiveType::F32)
        .ok_or("a product whose dimensions do not fit")?;
    let x = finish(b, config, x, more)?;
    let to = onednn::matmul_order(config, Side::Result, rank)?;
    // Dimension k of the product is dimension `to[k]` of the result.
    let back: Dims = (0..rank as i64)
        .map(|d| to.iter().position(|&t| t == d).unwrap_or(0) as i64)
        .collect();
    Ok(b.arranged(x, &back))
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
    let described = onednn::convolution(config, &all[1].dims)?;
    let attributes = [
        (
            AttrKey::Window,
            AttrValue::Window(Box::new(described.window)),
        ),
        (AttrKey::FeatureGroupCount, AttrValue::Int(described.groups)),
        (
            AttrKey::DimLabels,
            AttrValue::DimLabels(Box::new(described.numbers)),
        ),
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
    let axis = onednn::softmax_axis(config, dims.len())? as i64;
    let rest: Dims = (0..dims.len() as i64).filter(|&d| d != axis).collect();
    let most = b.folded(HloOpcode::Maximum, x, &[axis]);
    let most = b.along(most, &dims, &rest);
    let less = b.elementwise(HloOpcode::Subtract, &[x, most]);
    let powers = b.elementwise(HloOpcode::Exp, &[less]);
    let sum = b.folded(HloOpcode::Add, powers, &[axis]);
    let sum = b.along(sum, &dims, &rest);
    Ok(b.elementwise(HloOpcode::Divide, &[powers, sum]))
}
