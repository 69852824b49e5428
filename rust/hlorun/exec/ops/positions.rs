//! The spatial positions of a convolution's result, in blocks of one stride.

use smallvec::SmallVec;

use super::im2col::Geometry;
use crate::exec::array::RawArray;
use crate::plan::ops::convolution::ConvolutionOp;
use crate::types::Dims;

/// How a convolution walks the spatial positions of its result: in blocks, each with one stride.
pub struct Positions {
    /// A block for each image, or a single one where the positions of all images have one stride.
    pub blocks: usize,
    /// Positions of a block.
    pub length: usize,
    /// Positions of an image.
    pub spatial: usize,
    /// Elements from one position to the next in the result.
    pub out_step: i64,
    /// The stride in the input, where it is read without patches: windows have one element and no padding.
    pub in_step: Option<i64>,
}

impl Positions {
    /// Blocks of one stride in the result and, where no patches are made, in the input.
    pub fn of(
        op: &ConvolutionOp,
        geometry: &Geometry,
        input: &RawArray,
        output: &RawArray,
    ) -> Positions {
        let spatial_dims = pick(&output.dims, &op.output.spatial);
        let in_step = geometry
            .is_pointwise()
            .then(|| merged(&spatial_dims, &pick(&input.strides, &op.input.spatial)))
            .flatten();
        let in_batch = input.strides[op.input.outer];
        Positions::joined(op, output, in_step.map(|step| (step, in_batch)))
    }

    /// Blocks of one stride in the result.
    pub fn of_output(op: &ConvolutionOp, output: &RawArray) -> Positions {
        Positions::joined(op, output, None)
    }

    /// `input` has its steps from one position and from one image to the next.
    fn joined(op: &ConvolutionOp, output: &RawArray, input: Option<(i64, i64)>) -> Positions {
        let spatial_dims = pick(&output.dims, &op.output.spatial);
        let spatial: i64 = spatial_dims.iter().product();
        let batches = output.dims[op.output.outer];
        let out_step = merged(&spatial_dims, &pick(&output.strides, &op.output.spatial));
        let out = (out_step.unwrap_or(1), output.strides[op.output.outer]);
        let whole = |(step, batch)| spatial == 1 || batches == 1 || batch == step * spatial;
        // Positions of all images are one block where strides of the result, and of an input without patches, allow it.
        let joined = whole(out) && input.is_none_or(whole);
        let step = |(step, batch)| if joined && spatial == 1 { batch } else { step };
        let (blocks, length) = if joined {
            (1, batches * spatial)
        } else {
            (batches, spatial)
        };
        Positions {
            blocks: blocks as usize,
            length: length as usize,
            spatial: spatial as usize,
            out_step: step(out),
            in_step: input.map(step),
        }
    }
}

/// The one stride of dimensions walked in row-major order, if they have one.
pub fn merged(dims: &[i64], strides: &[i64]) -> Option<i64> {
    let mut found: Option<(i64, i64)> = None;
    for (&dim, &stride) in dims.iter().zip(strides).rev() {
        if dim == 1 {
            continue;
        }
        match &mut found {
            None => found = Some((stride, dim)),
            Some((step, count)) if stride == *step * *count => *count *= dim,
            Some(_) => return None,
        }
    }
    Some(found.map_or(1, |(step, _)| step))
}

/// Picks sizes or strides by dimension numbers.
pub fn pick(from: &Dims, dims: &[usize]) -> SmallVec<[i64; 4]> {
    dims.iter().map(|&d| from[d]).collect()
}
