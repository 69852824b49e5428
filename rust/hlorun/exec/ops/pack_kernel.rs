//! The kernel of a convolution in the order in which it is read.

use crate::buffers::AlignedBytes;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::plan::ops::convolution::ConvolutionOp;
use crate::types::Dims;

/// The kernel as `[group][window position][input feature][output feature of the group]`, or by output
/// feature, `[output feature][window position][input feature]`, whatever `groups` is.
pub fn pack_kernel(
    op: &ConvolutionOp,
    kernel: &RawArray,
    groups: i64,
    by_output: bool,
) -> Result<AlignedBytes<u8>> {
    let size = kernel.element_type.size_bytes();
    let out = op.kernel.outer;
    let per_group = kernel.dims[out] / groups;
    let mut view = RawArray {
        pointer: kernel.pointer,
        element_type: kernel.element_type,
        dims: Dims::new(),
        strides: Dims::new(),
    };
    let mut push = |dim: i64, stride: i64| {
        view.dims.push(dim);
        view.strides.push(stride);
    };
    if by_output {
        push(kernel.dims[out], kernel.strides[out]);
    } else {
        push(groups, per_group * kernel.strides[out]);
    }
    let mut reversed = 0;
    for (&dim, window) in op.kernel.spatial.iter().zip(&op.window.0) {
        let (count, stride) = (kernel.dims[dim], kernel.strides[dim]);
        if window.window_reversal {
            reversed += (count - 1) * stride;
            push(count, -stride);
        } else {
            push(count, stride);
        }
    }
    push(
        kernel.dims[op.kernel.feature],
        kernel.strides[op.kernel.feature],
    );
    if !by_output {
        push(per_group, kernel.strides[out]);
    }
    view.pointer = view
        .pointer
        .wrapping_offset(reversed as isize * size as isize);
    view.to_row_major()
}
