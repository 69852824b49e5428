//! `convolution`: dimension labels, windows and the arithmetic of groups.

use super::common::*;
use super::window::{positions, window};
use crate::module::attributes::AttrValue;
use crate::module::{AttrKey, InstructionRef};
use crate::types::Dims;
use crate::verify::inferred::InferredShape;

/// The shape.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    let lhs = array(i, 0)?;
    let rhs = array(i, 1)?;
    let AttrValue::DimLabels(labels) = need(i, AttrKey::DimLabels)? else {
        return Err("attribute dim_labels is not of the form b01f_01io->b01f".to_owned());
    };
    let spatial = labels.input_spatial.len();
    let rank = spatial + 2;
    for (k, shape) in [(0, lhs), (1, rhs)] {
        if shape.rank() != rank {
            return Err(format!(
                "{}, but dim_labels has {spatial} spatial dimensions: expected rank {rank}",
                describe(i, k)
            ));
        }
    }
    let sides = [
        (
            labels.input_batch,
            labels.input_feature,
            &labels.input_spatial,
            "input",
        ),
        (
            labels.kernel_input_feature,
            labels.kernel_output_feature,
            &labels.kernel_spatial,
            "kernel",
        ),
        (
            labels.output_batch,
            labels.output_feature,
            &labels.output_spatial,
            "output",
        ),
    ];
    for (first, second, dims, side) in sides {
        let mut all: Dims = Dims::from_slice(dims);
        all.extend([first, second]);
        if all.len() != rank {
            return Err(format!(
                "dim_labels gives the {side} {} spatial dimensions, but the input {spatial}",
                dims.len()
            ));
        }
        dim_set(&format!("the {side} dimensions of dim_labels"), &all, rank)?;
    }
    // A product may declare any element type; XLA converts to it.
    let element_type = declared_array(i)?.element_type;
    let at = |dims: &Dims, d: i64| dims[d as usize];
    let windows = window(i, spatial)?;
    for (d, (w, &k)) in windows.iter().zip(&labels.kernel_spatial).enumerate() {
        if w.size != at(&rhs.dims, k) {
            return Err(format!(
                "the window has size {} in dimension {d}, but the kernel, operand 1, has {}",
                w.size,
                at(&rhs.dims, k)
            ));
        }
    }
    let feature_groups = groups(i, AttrKey::FeatureGroupCount, "feature_group_count")?;
    let batch_groups = groups(i, AttrKey::BatchGroupCount, "batch_group_count")?;
    if feature_groups > 1 && batch_groups > 1 {
        return Err("has both feature_group_count and batch_group_count above 1".to_owned());
    }
    let input_feature = at(&lhs.dims, labels.input_feature);
    let input_batch = at(&lhs.dims, labels.input_batch);
    let kernel_input = at(&rhs.dims, labels.kernel_input_feature);
    let kernel_output = at(&rhs.dims, labels.kernel_output_feature);
    if kernel_input.checked_mul(feature_groups) != Some(input_feature) {
        return Err(format!(
            "the input has {input_feature} features, expected {kernel_input} of the kernel times \
             feature_group_count={feature_groups}"
        ));
    }
    let divides = [
        (
            kernel_output,
            feature_groups,
            "output features of the kernel",
            "feature_group_count",
        ),
        (
            kernel_output,
            batch_groups,
            "output features of the kernel",
            "batch_group_count",
        ),
        (
            input_batch,
            batch_groups,
            "batches of the input",
            "batch_group_count",
        ),
    ];
    for (total, by, what, key) in divides {
        if total % by != 0 {
            return Err(format!("the {total} {what} do not divide into {key}={by}"));
        }
    }
    let mut dims: Dims = Dims::from_elem(0, rank);
    dims[labels.output_batch as usize] = input_batch / batch_groups;
    dims[labels.output_feature as usize] = kernel_output;
    for (d, w) in windows.iter().enumerate() {
        dims[labels.output_spatial[d] as usize] =
            positions(d, at(&lhs.dims, labels.input_spatial[d]), w)?;
    }
    Ok(InferredShape::Array { element_type, dims })
}

fn groups(i: InstructionRef<'_>, key: AttrKey, name: &str) -> Result<i64, String> {
    match int(i, key)?.unwrap_or(1) {
        // Texts written before a count of groups existed give it as 0.
        0 => Ok(1),
        count if count > 0 => Ok(count),
        count => Err(format!("{name}={count} is negative")),
    }
}
