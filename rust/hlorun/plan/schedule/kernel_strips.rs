//! The kernel of a convolution that reads inputs where they lie, in the order in which its products read it.
//!
//! In: a convolution and how its arrays lie. Out: which products it is made of, and what part of the kernel goes where.
//! A kernel that is a constant is copied when the module is compiled ([`super::pack_constants`]), others
//! in every run.

use hlorun_kernels::Indirect;

use crate::plan::cost::convolution::{MIN_FEATURES, MIN_OUTPUTS};
use crate::plan::cost::narrow_convolution;
use crate::plan::element::elementwise::dtype;
use crate::plan::ops::convolution::ConvolutionOp;
use crate::plan::view::ArrayView;
use crate::types::{Dims, PrimitiveType};

/// How an array lies.
#[derive(Clone, Copy)]
pub struct Lay<'a> {
    /// Type of an element.
    pub element_type: PrimitiveType,
    /// Sizes.
    pub dims: &'a Dims,
    /// Elements from one to the next.
    pub strides: &'a Dims,
}

impl<'a> Lay<'a> {
    /// That of a view.
    pub fn of_view(view: &'a ArrayView) -> Lay<'a> {
        Lay {
            element_type: view.element_type,
            dims: &view.dims,
            strides: &view.strides,
        }
    }
}

/// The kernel in strips: those of all groups, one group after the other.
#[derive(Clone, Copy, Debug)]
pub struct KernelStrips {
    /// The product of a group.
    pub product: Indirect,
    /// Groups of features, or of images.
    pub groups: usize,
    /// Bytes of the strips of a group, and of all.
    pub group_bytes: usize,
    pub bytes: usize,
}

/// What one group and position of the window multiply.
pub struct Part {
    /// The position.
    pub term: usize,
    /// Its first element in the kernel.
    pub from: i64,
    /// Elements to that of the next feature read, and written.
    pub steps: [isize; 2],
    /// The first byte of the group's strips.
    pub to: usize,
}

impl KernelStrips {
    /// The strips of `op` for an input, a kernel and a result that lie so, if it is to read its inputs where they lie.
    pub fn of(op: &ConvolutionOp, [input, kernel, output]: [Lay<'_>; 3]) -> Option<KernelStrips> {
        let has_type = |array: &Lay<'_>| array.element_type == input.element_type;
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
        let product = Indirect::new(dtype(input.element_type)?, columns, size(terms)?, depth)?;
        let group_bytes = product.packed_size()?;
        Some(KernelStrips {
            product,
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
    pub fn part(&self, op: &ConvolutionOp, strides: &Dims, nth: usize) -> Part {
        let (group, term) = (nth / self.product.terms, nth % self.product.terms);
        let [feature, outer] = [op.kernel.feature, op.kernel.outer].map(|dim| strides[dim]);
        let mut from = (group * self.product.columns) as i64 * outer;
        let mut rest = term as i64;
        for (&dim, window) in op.kernel.spatial.iter().zip(&op.window.0).rev() {
            let position = rest % window.size;
            rest /= window.size;
            from += strides[dim]
                * match window.window_reversal {
                    true => window.size - 1 - position,
                    false => position,
                };
        }
        Part {
            term,
            from,
            steps: [feature as isize, outer as isize],
            to: group * self.group_bytes,
        }
    }
}
