//! The kernel of a convolution that reads inputs in place, in the order in which its products read it.
//!
//! In: a convolution and its arrays. Out: which products it is made of, and what part of the kernel goes where. A kernel that
//! is a constant is packed when the module is compiled ([`super::pack_constants`]), others in every run.

use hlorun_kernels::Indirect;

use crate::plan::cost::indirect_convolution::{
    MAX_JOINED_FEATURES, MAX_JOINED_STEPS, MIN_FEATURES, MIN_OUTPUTS,
};
use crate::plan::cost::narrow_convolution;
use crate::plan::element::elementwise::dtype;
use crate::plan::ops::convolution::ConvolutionOp;
use crate::plan::view::StridedArray;
use crate::types::Dims;

/// The kernel in strips: those of all groups, one group after the other.
#[derive(Clone, Copy, Debug)]
pub struct KernelStrips {
    /// The product of a group.
    pub product: Indirect,
    /// Positions of the window that are one term: those of its rows, or one.
    pub joined: usize,
    /// Groups of features, or of images.
    pub groups: usize,
    /// Bytes of the strips of a group, and of all.
    pub group_bytes: usize,
    pub bytes: usize,
}

/// The kernel of one group at the positions of one term.
pub struct KernelSlice {
    /// The term.
    pub term: usize,
    /// Its first element in the kernel.
    pub from: i64,
    /// Elements to that of the next feature read, and written.
    pub steps: [isize; 2],
    /// The first byte of the group's strips.
    pub to: usize,
}

impl KernelStrips {
    /// The strips of `op` for these arrays, if it is to read its inputs in place.
    pub fn of(
        op: &ConvolutionOp,
        [input, kernel, output]: [StridedArray<'_>; 3],
    ) -> Option<KernelStrips> {
        let has_type = |array: &StridedArray<'_>| array.element_type == input.element_type;
        let lies_ready =
            input.strides[op.input.feature] == 1 && output.strides[op.output.feature] == 1;
        if !has_type(&kernel) || !has_type(&output) || !lies_ready {
            return None;
        }
        let size = |dim: i64| usize::try_from(dim).ok();
        let groups = op.feature_group_count * op.batch_group_count;
        let columns = size(kernel.dims[op.kernel.outer])? / groups;
        let depth = size(kernel.dims[op.kernel.feature])?;
        let spatial = op.output.spatial.iter().map(|&d| output.dims[d]);
        let outputs = spatial.fold(output.dims[op.output.outer], i64::saturating_mul);
        let window = op.window.0.iter().map(|window| window.size);
        let terms = window.fold(1, i64::saturating_mul);
        let is_narrow = columns <= narrow_convolution::MAX_FEATURES;
        if depth < MIN_FEATURES || is_narrow || outputs < MIN_OUTPUTS as i64 {
            return None;
        }
        let joined = joined(op, input, kernel, depth);
        let dtype = dtype(input.element_type)?;
        let product = Indirect::new(dtype, columns, size(terms)? / joined, depth * joined)?;
        let group_bytes = product.packed_size()?;
        Some(KernelStrips {
            product,
            joined,
            groups,
            group_bytes,
            bytes: group_bytes.checked_mul(groups)?,
        })
    }

    /// How many parts the kernel has.
    pub fn parts(&self) -> usize {
        self.groups * self.product.terms
    }

    /// The part `nth` of a kernel with these strides.
    pub fn part(&self, op: &ConvolutionOp, strides: &Dims, nth: usize) -> KernelSlice {
        let (group, term) = (nth / self.product.terms, nth % self.product.terms);
        let [feature, outer] = [op.kernel.feature, op.kernel.outer].map(|dim| strides[dim]);
        let mut from = (group * self.product.columns) as i64 * outer;
        let mut rest = (term * self.joined) as i64;
        for (&dim, window) in op.kernel.spatial.iter().zip(&op.window.0).rev() {
            let position = rest % window.size;
            rest /= window.size;
            from += strides[dim]
                * match window.window_reversal {
                    true => window.size - 1 - position,
                    false => position,
                };
        }
        KernelSlice {
            term,
            from,
            steps: [feature as isize, outer as isize],
            to: group * self.group_bytes,
        }
    }
}

/// How many positions of the window are one term: those of a row, where its few features lie side by side in the input and,
/// with one step, in the kernel, and no row leaves the input on both sides.
fn joined(
    op: &ConvolutionOp,
    input: StridedArray<'_>,
    kernel: StridedArray<'_>,
    depth: usize,
) -> usize {
    let last = (op.window.0.last()).zip(op.input.spatial.last().zip(op.kernel.spatial.last()));
    let Some((window, (&from, &by))) = last else {
        return 1;
    };
    let lies_in_rows = input.strides[from] == depth as i64
        && kernel.strides[by] == depth as i64 * kernel.strides[op.kernel.feature];
    let is_plain =
        window.window_dilation == 1 && window.base_dilation == 1 && !window.window_reversal;
    let is_inside = window.size <= input.dims[from];
    let is_alone = op.feature_group_count == 1 && op.batch_group_count == 1;
    let is_short = |width: usize| {
        depth <= MAX_JOINED_FEATURES && width.saturating_mul(depth) <= MAX_JOINED_STEPS
    };
    match usize::try_from(window.size) {
        Ok(width) if is_plain && is_alone && is_inside && lies_in_rows && is_short(width) => {
            width.max(1)
        }
        _ => 1,
    }
}
