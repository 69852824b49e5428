//! `convolution`: any dimension order, strides, dilations of both sides, padding, groups, reversal.

use smallvec::SmallVec;

use super::index_map::{array_operand, checked_dims};
use crate::error::Result;
use crate::module::attributes::Window;
use crate::module::{AttrKey, AttrValue, InstructionRef};
use crate::plan::element::elementwise;
use crate::plan::element::epilogue::EpilogueStep;
use crate::plan::error::unsupported;
use crate::plan::view::StridedArray;
use crate::types::ArrayShape;

/// Which dimension of an array means what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvolutionDims {
    /// Batch of the input and the result, output feature of the kernel.
    pub outer: usize,
    /// Feature of the input and the result, input feature of the kernel.
    pub feature: usize,
    /// Spatial dimensions in the order of the window.
    pub spatial: SmallVec<[usize; 3]>,
}

/// Parameters of a `convolution`.
#[derive(Clone, Debug)]
pub struct ConvolutionOp {
    /// Dimensions of the left operand.
    pub input: ConvolutionDims,
    /// Dimensions of the right operand.
    pub kernel: ConvolutionDims,
    /// Dimensions of the result.
    pub output: ConvolutionDims,
    /// One entry per spatial dimension.
    pub window: Window,
    /// Groups the features fall into.
    pub feature_group_count: usize,
    /// Groups the batch falls into.
    pub batch_group_count: usize,
    /// What is done to the result, as to a matrix of positions and features. Its operands come behind the kernel.
    pub epilogue: Vec<EpilogueStep>,
}

impl ConvolutionOp {
    /// Whether it is cut into others, each with a part of the kernel.
    pub fn has_base_dilation(&self) -> bool {
        self.window.0.iter().any(|window| window.base_dilation != 1)
    }

    /// Whether every group has one input and one output feature, and features lie side by side in the input.
    pub fn is_depthwise(&self, [input, kernel, output]: [StridedArray<'_>; 3]) -> bool {
        let groups = self.feature_group_count;
        groups > 1
            && kernel.dims[self.kernel.feature] == 1
            && output.dims[self.output.feature] == groups as i64
            && input.strides[self.input.feature] == 1
    }

    /// How many operands the epilogue has.
    pub fn epilogue_operands(&self) -> usize {
        let steps = self.epilogue.iter();
        steps.filter(|step| step.constant.is_none()).count()
    }

    /// The first image and the first input feature of a group, of so many images or features.
    pub fn first_of(&self, group: usize, images: usize, features: usize) -> (usize, usize) {
        match self.feature_group_count {
            1 => (group * images, 0),
            _ => (0, group * features),
        }
    }
}

/// Reads the parameters.
pub fn plan(instruction: InstructionRef<'_>) -> Result<ConvolutionOp> {
    let Some(result) = instruction.array_shape() else {
        return Err(unsupported(instruction, "the result is no array".into()));
    };
    let n = match instruction.attribute(AttrKey::DimLabels) {
        Some(AttrValue::DimLabels(numbers)) => numbers,
        _ => return Err(unsupported(instruction, "no dim_labels".into())),
    };
    let input = array_operand(instruction, 0)?;
    let kernel = array_operand(instruction, 1)?;
    let dims = |outer: i64, feature: i64, spatial: &[i64], shape: &ArrayShape| {
        let mut all = vec![outer, feature];
        all.extend_from_slice(spatial);
        let mut sorted = all.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() != shape.rank() || all.len() != shape.rank() {
            return Err(unsupported(
                instruction,
                "dim_labels do not name every dimension once".into(),
            ));
        }
        let all = checked_dims(instruction, &all, shape.rank())?;
        Ok(ConvolutionDims {
            outer: all[0],
            feature: all[1],
            spatial: all[2..].iter().copied().collect(),
        })
    };
    // Zero groups are one, as the verifier has it.
    let group = |key| match instruction.int(key) {
        None | Some(0) => 1,
        Some(count) => usize::try_from(count).unwrap_or(0),
    };
    let op = ConvolutionOp {
        input: dims(n.input_batch, n.input_feature, &n.input_spatial, input)?,
        kernel: dims(
            n.kernel_output_feature,
            n.kernel_input_feature,
            &n.kernel_spatial,
            kernel,
        )?,
        output: dims(n.output_batch, n.output_feature, &n.output_spatial, result)?,
        window: instruction.window().cloned().unwrap_or_default(),
        feature_group_count: group(AttrKey::FeatureGroupCount),
        batch_group_count: group(AttrKey::BatchGroupCount),
        epilogue: Vec::new(),
    };
    check(instruction, &op, (input, kernel, result))?;
    Ok(op)
}

fn check(
    instruction: InstructionRef<'_>,
    op: &ConvolutionOp,
    (input, kernel, output): (&ArrayShape, &ArrayShape, &ArrayShape),
) -> Result<()> {
    let bad = |what: &str| Err(unsupported(instruction, what.into()));
    let rank = op.window.0.len();
    let windows_fit = op.window.0.iter().enumerate().all(|(i, d)| {
        d.stride >= 1
            && d.window_dilation >= 1
            && d.base_dilation >= 1
            && op
                .kernel
                .spatial
                .get(i)
                .is_some_and(|&s| kernel.dims[s] == d.size)
    });
    if !windows_fit || op.input.spatial.len() != rank || op.output.spatial.len() != rank {
        return bad("the window does not fit the kernel");
    }
    let (features, batches) = (op.feature_group_count as i64, op.batch_group_count as i64);
    if features < 1 || batches < 1 || (features > 1 && batches > 1) {
        return bad("impossible group counts");
    }
    let out = kernel.dims[op.kernel.outer];
    let fits = input.dims[op.input.feature] == kernel.dims[op.kernel.feature] * features
        && out % (features * batches) == 0
        && output.dims[op.output.feature] == out
        && input.dims[op.input.outer] == output.dims[op.output.outer] * batches;
    if !fits {
        return bad("features, batches and groups do not fit the shapes");
    }
    for shape in [input, kernel, output] {
        if elementwise::dtype(shape.element_type).is_none() {
            return bad("an element type without kernels");
        }
    }
    Ok(())
}
