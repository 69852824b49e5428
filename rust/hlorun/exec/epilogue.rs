//! Epilogues of products with their addresses resolved.

use hlorun_kernels::{Epilogue, EpilogueOperand};

use super::array::RawArray;
use crate::plan::element::epilogue::EpilogueStep;

/// The steps on elements of `size` bytes, from a row on. `arrays` are those of steps without a constant, in order, of two
/// dimensions.
pub fn resolve(
    steps: &[EpilogueStep],
    arrays: &[RawArray],
    first_row: usize,
    size: usize,
) -> Epilogue {
    let mut arrays = arrays.iter();
    let steps = steps.iter().filter_map(|step| {
        let operand = match step.constant {
            Some(bits) => EpilogueOperand::Scalar(bits),
            None => operand(arrays.next()?, first_row, size),
        };
        Some((step.op, operand))
    });
    Epilogue::new(size, steps)
}

fn operand(array: &RawArray, first_row: usize, size: usize) -> EpilogueOperand {
    let first = array.pointer.cast_const();
    if array.count() == 1 {
        let mut bits = [0; 8];
        // SAFETY: the array has one element of so many bytes, at most eight.
        unsafe { std::ptr::copy_nonoverlapping(first, bits.as_mut_ptr(), size) };
        return EpilogueOperand::Scalar(u64::from_le_bytes(bits));
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
