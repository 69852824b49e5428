//! The kernel of a convolution in the order in which it is read.

use super::walk::Shared;
use crate::buffers::AlignedBytes;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::plan::ops::convolution::ConvolutionOp;
use crate::types::Dims;

/// A kernel in the order in which it is read: a copy, unless it lies that way.
pub struct PackedKernel {
    pointer: Shared,
    _copy: Option<AlignedBytes<u8>>,
}

impl PackedKernel {
    /// Its first element.
    pub fn pointer(&self) -> Shared {
        self.pointer
    }
}

/// The kernel as `[group][window position][input feature][output feature of the group]`, or by output
/// feature, `[output feature][window position][input feature]`, whatever `groups` is.
pub fn pack_kernel(
    op: &ConvolutionOp,
    kernel: &RawArray,
    groups: i64,
    by_output: bool,
) -> Result<PackedKernel> {
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
    if view.is_row_major() {
        return Ok(PackedKernel {
            pointer: Shared::new(view.pointer),
            _copy: None,
        });
    }
    let copy = view.to_row_major()?;
    Ok(PackedKernel {
        pointer: Shared::new(copy.shared_ptr()),
        _copy: Some(copy),
    })
}
