//! Writes a dimension's size.

use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::plan::ops::dimension_size::DimensionSizeOp;
use crate::types::PrimitiveType;

/// Runs `op`: one `s32` scalar out.
pub fn run(op: &DimensionSizeOp, outputs: &[RawArray]) -> Result<()> {
    match outputs {
        [output] if output.count() == 1 && output.element_type == PrimitiveType::S32 => {
            // SAFETY: one element of four bytes.
            unsafe { output.pointer.cast::<i32>().write_unaligned(op.size) };
            Ok(())
        }
        _ => Err(HloError::execution("a size is one s32")),
    }
}
