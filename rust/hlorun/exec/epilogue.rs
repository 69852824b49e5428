//! Epilogues of products with their addresses resolved.

use hlorun_kernels::{Epilogue, EpilogueOperand};

use super::array::RawArray;
use crate::error::{HloError, Result};
use crate::plan::element::epilogue::EpilogueStep;

/// The steps from a row on. `operands` are those of steps without a constant, in order, of two dimensions.
///
/// Errors: an operand of another type than `f32` and `f64`, which the plan refuses.
pub fn resolve(
    steps: &[EpilogueStep],
    operands: &[RawArray],
    size: usize,
    first_row: usize,
) -> Result<Epilogue> {
    if steps.is_empty() {
        return Ok(Epilogue::new(size, []));
    }
    let is_known = |operand: &RawArray| operand.element_type.size_bytes() == size;
    if !matches!(size, 4 | 8) || !operands.iter().all(is_known) {
        return Err(HloError::execution(
            "an epilogue of another type than f32 and f64",
        ));
    }
    let mut operands = operands.iter();
    let steps = steps.iter().filter_map(|step| {
        let operand = match step.constant {
            Some(bits) => EpilogueOperand::Scalar(bits),
            None => operand(operands.next()?, first_row),
        };
        Some((step.op, operand))
    });
    Ok(Epilogue::new(size, steps))
}

/// An operand of elements of four or eight bytes.
fn operand(array: &RawArray, first_row: usize) -> EpilogueOperand {
    let (first, size) = (array.pointer.cast_const(), array.element_type.size_bytes());
    if array.count() == 1 {
        return EpilogueOperand::Element(first);
    }
    let row_stride = match array.dims[0] {
        1 => 0,
        _ => array.strides[0] as isize,
    };
    let before = first_row as isize * row_stride * size as isize;
    EpilogueOperand::Matrix {
        first: first.wrapping_offset(before),
        row_stride,
    }
}
