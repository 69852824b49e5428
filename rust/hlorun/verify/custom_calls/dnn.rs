//! Convolutions and norms of cuDNN.

use super::*;
use crate::library::Config;
use crate::library::convolution::{ConvolutionCall, Role, graph, takes_operand};
use crate::library::norm::NormKind;
use crate::types::Dims;
use crate::verify::rules::convolution::{Description, described};

/// A convolution forwards, one of its gradients, or one with what follows it.
pub fn convolution(i: InstructionRef<'_>, call: ConvolutionCall) -> Result<(), String> {
    let description = described(i)?;
    if description.batch_groups > 1 {
        return Err("has batch_group_count, which cuDNN does not know".to_owned());
    }
    if call.role != Role::Forward {
        return gradient(i, &description, call.role);
    }
    let (x, kernel) = (array(i, 0)?, array(i, 1)?);
    let dims = description.result(x, kernel, &|side| describe(i, side))?;
    let mut slots = vec![product_slot(i, &dims)?];
    if call.is_fused {
        fused_operands(
            i,
            &dims,
            kernel.dims[description.labels.kernel_output_feature as usize],
        )?;
    } else if call.has_graph {
        let operations = graph(i)?;
        let takes = operations.iter().filter(|o| takes_operand(&o.name));
        let takes: Vec<&str> = takes.map(|o| o.name.as_str()).collect();
        operand_count(i, 2 + takes.len(), 2 + takes.len())?;
        for (k, name) in takes.into_iter().enumerate() {
            match name {
                "add" => spreads_to(i, 2 + k, &dims)?,
                _ => one_number(i, 2 + k)?,
            }
        }
        let amax = Slot::array(PrimitiveType::F32, &[]).or_dims(&[1]);
        let largest = operations.iter().filter(|o| o.name == "amax").count();
        slots.extend(vec![amax.optional(); largest]);
    } else {
        operand_count(i, 2, 2)?;
    }
    returns(i, &slots).map(drop)
}

/// A bias of one number per feature, and perhaps a side input as large as the result.
fn fused_operands(i: InstructionRef<'_>, dims: &[i64], features: i64) -> Result<(), String> {
    operand_count(i, 3, 4)?;
    let is_number = |ty: PrimitiveType| ty.is_floating() || ty.is_integral();
    for k in 2..i.operand_ids().len() {
        if !is_number(array(i, k)?.element_type) {
            return Err(format!("{}, expected real numbers", describe(i, k)));
        }
    }
    if array(i, 2)?.element_count() != Some(features) {
        return Err(format!(
            "{}, expected one number for each of {features} features",
            describe(i, 2)
        ));
    }
    let scale = Config::of(i).number("side_input_scale").unwrap_or(0.0);
    match scale != 0.0 && i.operand_ids().len() > 3 {
        true => want_dims(i, 3, dims, " like the result"),
        false => Ok(()),
    }
}

/// The gradient with respect to x or to the kernel: what takes its place in the forward convolution,
/// which makes dy.
fn gradient(
    i: InstructionRef<'_>,
    description: &Description<'_>,
    role: Role,
) -> Result<(), String> {
    operand_count(i, 2, 2)?;
    let (first, second) = (array(i, 0)?, array(i, 1)?);
    let declared = results::declared(i);
    let Some(result) = declared.first().copied().flatten() else {
        return Err(mismatch(i, "an array and what workspace it takes"));
    };
    let (x, kernel, dy, at) = match role {
        Role::BackwardInput => (result, second, first, 0),
        _ => (first, result, second, 1),
    };
    let describe_side = |side: usize| match (role, side) {
        (Role::BackwardInput, 0) | (Role::BackwardFilter, 1) => format!(
            "the gradient it returns is {}",
            crate::verify::inferred::show_array(result)
        ),
        _ => describe(i, side),
    };
    let made = description.result(x, kernel, &describe_side)?;
    if made != dy.dims {
        return Err(format!(
            "{}, but a convolution of {} with {} makes dimensions {}",
            describe(i, at),
            crate::verify::inferred::show_array(x),
            crate::verify::inferred::show_array(kernel),
            list(&made)
        ));
    }
    returns(i, &[product_slot(i, &result.dims)?]).map(drop)
}

/// Rows of x as long as the scale are normalized; statistics hold one number per row.
pub fn norm(i: InstructionRef<'_>) -> Result<(), String> {
    let kind = NormKind::of(&Config::of(i))?;
    operand_count(i, kind.operands(), kind.operands())?;
    for k in 0..kind.operands() {
        floats(i, k)?;
    }
    let (x, scale) = (array(i, 0)?, array(i, 1)?);
    let (all, length) = (x.element_count(), scale.element_count());
    let rows = match (all, length) {
        (Some(all), Some(length)) if length > 0 && all % length == 0 => all / length,
        _ => {
            return Err(format!(
                "{}, whose elements do not divide those of operand 0",
                describe(i, 1)
            ));
        }
    };
    let types = [x.element_type, scale.element_type, PrimitiveType::F32];
    let like = |shape: &ArrayShape| Slot::array(shape.element_type, &shape.dims);
    let whole = like(x).or_types(&[scale.element_type]);
    let slots = match kind {
        NormKind::Inference | NormKind::Training => {
            want_elements(i, 2, length)?;
            let statistic = |slots: &mut Vec<Slot>, k: usize| {
                let declared = results::declared(i);
                let dims = declared
                    .get(k)
                    .and_then(|part| Some(part.as_ref()?.dims.clone()));
                let dims = dims.filter(|dims| Some(dims.iter().product()) == Some(rows));
                let dims = dims.unwrap_or_else(|| Dims::from_slice(&[rows]));
                slots.push(Slot::array(PrimitiveType::F32, &dims).or_types(&types));
            };
            let mut slots = vec![whole];
            if kind == NormKind::Training {
                statistic(&mut slots, 1);
                statistic(&mut slots, 2);
            }
            slots
        }
        NormKind::Backward => {
            want_dims(i, 2, &x.dims, " like operand 0")?;
            want_elements(i, 3, Some(rows))?;
            want_elements(i, 4, Some(rows))?;
            let sum = like(scale).or_types(&types);
            vec![whole, sum.clone(), sum]
        }
    };
    returns(i, &slots).map(drop)
}

/// That operand `k` has so many elements.
fn want_elements(i: InstructionRef<'_>, k: usize, count: Option<i64>) -> Result<(), String> {
    match count {
        Some(count) if array(i, k)?.element_count() != Some(count) => {
            Err(format!("{}, expected {count} elements", describe(i, k)))
        }
        _ => Ok(()),
    }
}
