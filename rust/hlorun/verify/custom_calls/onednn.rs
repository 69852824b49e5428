//! Products, convolutions, norms and softmaxes of oneDNN.

use super::*;
use crate::library::Config;
use crate::library::DotDimensions;
use crate::library::onednn::{self as library, Onednn, Side};
use crate::types::Dims;
use crate::verify::rules::convolution::Description;

/// The rule of one of them.
pub fn check(i: InstructionRef<'_>, call: Onednn) -> Result<(), String> {
    let config = Config::of(i);
    match call {
        Onednn::Matmul => matmul(i, &config),
        Onednn::Convolution => convolution(i, &config),
        Onednn::LayerNorm => layer_norm(i),
        Onednn::Softmax => {
            operand_count(i, 1, 1)?;
            library::softmax_axis(&config, floats(i, 0)?.rank())?;
            like_operand(i)
        }
    }
}

/// As operand 0, or of its sizes in single precision.
fn like_operand(i: InstructionRef<'_>) -> Result<(), String> {
    let operand = floats(i, 0)?;
    let slot = Slot::array(operand.element_type, &operand.dims);
    returns(i, &[slot.or_types(&[PrimitiveType::F32])]).map(drop)
}

fn layer_norm(i: InstructionRef<'_>) -> Result<(), String> {
    operand_count(i, 3, 3)?;
    let Some(&size) = floats(i, 0)?.dims.last() else {
        return Err(format!(
            "{}, expected at least one dimension",
            describe(i, 0)
        ));
    };
    for k in [1, 2] {
        if floats(i, k)?.element_count() != Some(size) {
            return Err(format!("{}, expected {size} elements", describe(i, k)));
        }
    }
    like_operand(i)
}

/// Whether operands are quantized or packed in an order of the library's own; nobody here runs those.
fn is_foreign(i: InstructionRef<'_>, config: &Config) -> bool {
    let is_packed = config.flag("weights_prepacked") == Some(true);
    let is_float = |k: usize| {
        let shape = i.operand(k).and_then(InstructionRef::array_shape);
        shape.is_none_or(|shape| shape.element_type.is_floating())
    };
    is_packed || !is_float(0) || !is_float(1)
}

/// What is fused behind a product of these sizes takes the operands left.
fn fused_operands(i: InstructionRef<'_>, config: &Config, dims: &[i64]) -> Result<(), String> {
    let operations = library::fused(config);
    let adds = operations.iter().filter(|op| library::takes_operand(op));
    let count = 2 + adds.count();
    operand_count(i, count, count)?;
    for k in 2..count {
        floats(i, k)?;
        spreads_to(i, k, dims)?;
    }
    Ok(())
}

fn matmul(i: InstructionRef<'_>, config: &Config) -> Result<(), String> {
    if is_foreign(i, config) {
        return Ok(());
    }
    let rank = array(i, 0)?.rank();
    let arranged = |k: usize, side| -> Result<Dims, String> {
        let dims = &array(i, k)?.dims;
        let order = library::matmul_order(config, side, dims.len())?;
        Ok(order.iter().map(|&d| dims[d as usize]).collect())
    };
    let (lhs, rhs) = (arranged(0, Side::Lhs)?, arranged(1, Side::Rhs)?);
    let last = rank as i64 - 1;
    let product = match rhs.len() == rank {
        true => DotDimensions::of_matrices(rank, last, last - 1).result(&lhs, &rhs),
        false => None,
    };
    let Some(product) = product else {
        return Err(format!("{}, which does not fit operand 0", describe(i, 1)));
    };
    fused_operands(i, config, &product)?;
    let order = library::matmul_order(config, Side::Result, rank)?;
    let mut dims = product.clone();
    for (&to, &size) in order.iter().zip(&product) {
        dims[to as usize] = size;
    }
    returns(i, &[product_slot(i, &dims)?]).map(drop)
}

fn convolution(i: InstructionRef<'_>, config: &Config) -> Result<(), String> {
    if is_foreign(i, config) {
        return Ok(());
    }
    let (input, kernel) = (array(i, 0)?, array(i, 1)?);
    let described = library::convolution(config, &kernel.dims)?;
    let description = Description {
        labels: &described.numbers,
        window: &described.window.0,
        feature_groups: described.groups,
        batch_groups: 1,
    };
    let dims = description.result(input, kernel, &|side| describe(i, side))?;
    fused_operands(i, config, &dims)?;
    returns(i, &[product_slot(i, &dims)?]).map(drop)
}
