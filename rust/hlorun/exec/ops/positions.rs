//! The positions of a convolution's result, in blocks of one stride.

use smallvec::{SmallVec, smallvec};

use super::im2col::Geometry;
use crate::exec::array::RawArray;
use crate::plan::ops::convolution::ConvolutionOp;
use crate::plan::view::{StridedArray, Walk, offset_in};
use crate::types::Dims;

/// How a convolution walks the positions of its result, images outermost: in blocks, each with one stride.
pub struct Positions {
    /// A block for each image, or a single one where the positions of all images have one stride, or one for each row of
    /// positions where those of an image have several.
    pub blocks: usize,
    /// Positions of a block.
    pub length: usize,
    /// Where blocks begin in the result.
    starts: Walk,
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
        let dims = pick(&output.dims, &op.output.spatial);
        let strides = pick(&output.strides, &op.output.spatial);
        if merged(&dims, &strides).is_some() {
            return Positions::joined(op, output, None);
        }
        let (first, out_step) = last_row(&dims, &strides);
        let batch = op.output.outer;
        let mut starts: Walk = smallvec![(output.dims[batch], output.strides[batch])];
        starts.extend(dims.iter().copied().zip(strides).take(first));
        Positions {
            blocks: starts.iter().map(|&(count, _)| count).product::<i64>() as usize,
            length: dims[first..].iter().product::<i64>() as usize,
            starts,
            out_step,
            in_step: None,
        }
    }

    /// Elements before the first position of a block in the result.
    pub fn start(&self, block: usize) -> i64 {
        offset_in(&self.starts, block as i64)
    }

    /// Whether positions follow one another in the result as rows of a matrix.
    pub fn is_matrix(&self) -> bool {
        let step = self.out_step * self.length as i64;
        self.blocks == 1 || matches!(self.starts.as_slice(), [(_, stride)] if *stride == step)
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
            starts: smallvec![(blocks, out.1)],
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

/// The last dimensions that have one stride, from the first of them on, and that stride.
fn last_row(dims: &[i64], strides: &[i64]) -> (usize, i64) {
    let step = |first: &usize| merged(&dims[*first..], &strides[*first..]);
    let firsts = (0..dims.len()).filter_map(|first| Some((first, step(&first)?)));
    firsts.min().unwrap_or((dims.len(), 1))
}

/// How many positions follow one another with one stride in `output`.
pub fn row_length(op: &ConvolutionOp, output: StridedArray<'_>) -> i64 {
    let dims = pick(output.dims, &op.output.spatial);
    let strides = pick(output.strides, &op.output.spatial);
    let (first, _) = last_row(&dims, &strides);
    dims[first..].iter().product()
}

/// Picks sizes or strides by dimension numbers.
pub fn pick(from: &Dims, dims: &[usize]) -> SmallVec<[i64; 4]> {
    dims.iter().map(|&d| from[d]).collect()
}
