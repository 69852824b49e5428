//! `convolution`: dimension labels, windows and the arithmetic of groups.

use super::common::*;
use super::window::{positions, window};
use crate::module::attributes::{AttrValue, ConvolutionDimensionNumbers, WindowDimension};
use crate::module::{AttrKey, InstructionRef};
use crate::types::{ArrayShape, Dims};
use crate::verify::inferred::InferredShape;

/// A convolution, whoever describes it.
pub struct Description<'a> {
    /// Which dimension is which.
    pub labels: &'a ConvolutionDimensionNumbers,
    /// One entry per spatial dimension.
    pub window: &'a [WindowDimension],
    /// Groups the features fall into.
    pub feature_groups: i64,
    /// Groups the batch falls into.
    pub batch_groups: i64,
}

/// The shape.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    let (lhs, rhs) = (array(i, 0)?, array(i, 1)?);
    // A product may declare any element type; XLA converts to it.
    let element_type = declared_array(i)?.element_type;
    let dims = described(i)?.result(lhs, rhs, &|side| describe(i, side))?;
    Ok(InferredShape::Array { element_type, dims })
}

/// The convolution that the attributes of `i` describe.
pub fn described(i: InstructionRef<'_>) -> Result<Description<'_>, String> {
    let AttrValue::DimLabels(labels) = need(i, AttrKey::DimLabels)? else {
        return Err("attribute dim_labels is not of the form b01f_01io->b01f".to_owned());
    };
    Ok(Description {
        labels,
        window: window(i, labels.input_spatial.len())?,
        feature_groups: groups(i, AttrKey::FeatureGroupCount, "feature_group_count")?,
        batch_groups: groups(i, AttrKey::BatchGroupCount, "batch_group_count")?,
    })
}

impl Description<'_> {
    /// The sizes that input and kernel make; `describe` says which operand is the input, 0, and which
    /// the kernel, 1.
    pub fn result(
        &self,
        lhs: &ArrayShape,
        rhs: &ArrayShape,
        describe: &dyn Fn(usize) -> String,
    ) -> Result<Dims, String> {
        self.check_labels(lhs, rhs, describe)?;
        let labels = self.labels;
        let at = |dims: &Dims, d: i64| dims[d as usize];
        for (d, (w, &k)) in self.window.iter().zip(&labels.kernel_spatial).enumerate() {
            if w.size != at(&rhs.dims, k) {
                return Err(format!(
                    "the window has size {} in dimension {d}, but the kernel has {}",
                    w.size,
                    at(&rhs.dims, k)
                ));
            }
        }
        self.check_groups(lhs, rhs)?;
        let mut dims: Dims = Dims::from_elem(0, lhs.rank());
        dims[labels.output_batch as usize] = at(&lhs.dims, labels.input_batch) / self.batch_groups;
        dims[labels.output_feature as usize] = at(&rhs.dims, labels.kernel_output_feature);
        for (d, w) in self.window.iter().enumerate() {
            dims[labels.output_spatial[d] as usize] =
                positions(d, at(&lhs.dims, labels.input_spatial[d]), w)?;
        }
        Ok(dims)
    }

    /// Labels name every dimension once, and the window has an entry for each spatial one.
    fn check_labels(
        &self,
        lhs: &ArrayShape,
        rhs: &ArrayShape,
        describe: &dyn Fn(usize) -> String,
    ) -> Result<(), String> {
        let labels = self.labels;
        let spatial = labels.input_spatial.len();
        let rank = spatial + 2;
        for (k, shape) in [(0, lhs), (1, rhs)] {
            if shape.rank() != rank {
                return Err(format!(
                    "{}, but dim_labels has {spatial} spatial dimensions: expected rank {rank}",
                    describe(k)
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
        if self.window.len() != spatial {
            return Err(format!(
                "window has {} dimensions, expected {spatial}",
                self.window.len()
            ));
        }
        Ok(())
    }

    /// Features and batches divide into their groups.
    fn check_groups(&self, lhs: &ArrayShape, rhs: &ArrayShape) -> Result<(), String> {
        let (feature_groups, batch_groups) = (self.feature_groups, self.batch_groups);
        if feature_groups > 1 && batch_groups > 1 {
            return Err("has both feature_group_count and batch_group_count above 1".to_owned());
        }
        let input_feature = lhs.dims[self.labels.input_feature as usize];
        let input_batch = lhs.dims[self.labels.input_batch as usize];
        let kernel_input = rhs.dims[self.labels.kernel_input_feature as usize];
        let kernel_output = rhs.dims[self.labels.kernel_output_feature as usize];
        if kernel_input.checked_mul(feature_groups) != Some(input_feature) {
            return Err(format!(
                "the input has {input_feature} features, expected {kernel_input} of the kernel \
                 times feature_group_count={feature_groups}"
            ));
        }
        let (features, feature_key) = ("output features of the kernel", "feature_group_count");
        let batch_key = "batch_group_count";
        let divides = [
            (kernel_output, feature_groups, features, feature_key),
            (kernel_output, batch_groups, features, batch_key),
            (input_batch, batch_groups, "batches of the input", batch_key),
        ];
        for (total, by, what, key) in divides {
            if total % by != 0 {
                return Err(format!("the {total} {what} do not divide into {key}={by}"));
            }
        }
        Ok(())
    }
}

fn groups(i: InstructionRef<'_>, key: AttrKey, name: &str) -> Result<i64, String> {
    match int(i, key)?.unwrap_or(1) {
        // Texts written before a count of groups existed give it as 0.
        0 => Ok(1),
        count if count > 0 => Ok(count),
        count => Err(format!("{name}={count} is negative")),
    }
}
