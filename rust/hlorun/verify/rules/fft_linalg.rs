//! `fft`, `cholesky`, `triangular-solve`.

use super::common::*;
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::types::PrimitiveType;
use crate::verify::inferred::InferredShape;

/// `fft`.
pub fn fft(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    let kind = need_word(i, AttrKey::FftType, &["FFT", "IFFT", "RFFT", "IRFFT"])?;
    let length = need_ints(i, AttrKey::FftLength)?;
    if length.len() > 3 || length.len() > operand.rank() {
        return Err(format!(
            "fft_length={} has {} entries, expected at most 3 and no more than the {} dimensions of \
             operand 0",
            list(length),
            length.len(),
            operand.rank()
        ));
    }
    if length.iter().any(|&n| n < 0) {
        return Err(format!("fft_length={} is negative", list(length)));
    }
    let (from, to) = match (kind, operand.element_type) {
        ("RFFT", PrimitiveType::F32) => (PrimitiveType::F32, PrimitiveType::C64),
        ("RFFT", PrimitiveType::F64) => (PrimitiveType::F64, PrimitiveType::C128),
        ("RFFT", _) => return Err(format!("{}, expected f32 or f64", describe(i, 0))),
        (_, t) if !t.is_complex() => {
            return Err(format!("{}, expected c64 or c128", describe(i, 0)));
        }
        ("IRFFT", t) => (t, t.component()),
        (_, t) => (t, t),
    };
    debug_assert_eq!(from, operand.element_type);
    let mut expected = operand.dims.clone();
    let mut result = operand.dims.clone();
    let first = operand.rank() - length.len();
    for (k, &n) in length.iter().enumerate() {
        let half = if n == 0 { 0 } else { n / 2 + 1 };
        let last = k + 1 == length.len();
        expected[first + k] = if last && kind == "IRFFT" { half } else { n };
        result[first + k] = if last && kind == "RFFT" { half } else { n };
    }
    want_dims(
        i,
        0,
        &expected,
        &format!(" for {kind} with fft_length={}", list(length)),
    )?;
    Ok(InferredShape::Array {
        element_type: to,
        dims: result,
    })
}

/// `cholesky`, `triangular-solve`.
pub fn linear_algebra(i: InstructionRef<'_>) -> Infer {
    let a = array(i, 0)?;
    if !(a.element_type.is_floating() || a.element_type.is_complex()) {
        return Err(format!(
            "{}, expected floating point or complex elements",
            describe(i, 0)
        ));
    }
    let [batch @ .., rows, columns] = &a.dims[..] else {
        return Err(format!("{}, expected square matrices", describe(i, 0)));
    };
    if rows != columns {
        return Err(format!("{}, expected square matrices", describe(i, 0)));
    }
    if i.opcode() == HloOpcode::Cholesky {
        boolean(i, AttrKey::Lower)?;
        return same_as_operand(i, 0);
    }
    for key in [AttrKey::LeftSide, AttrKey::Lower, AttrKey::UnitDiagonal] {
        boolean(i, key)?;
    }
    need_word(
        i,
        AttrKey::TransposeA,
        &["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"],
    )?;
    want_type(i, 1, a.element_type, " like operand 0")?;
    let b = array(i, 1)?;
    let left = boolean(i, AttrKey::LeftSide)?.unwrap_or(false);
    let fits = b.rank() == a.rank()
        && b.dims.starts_with(batch)
        && b.dims[batch.len() + usize::from(!left)] == *rows;
    if !fits {
        return Err(format!(
            "{}, expected the batch dimensions of operand 0 and {rows} {}, since left_side={left}",
            describe(i, 1),
            if left { "rows" } else { "columns" }
        ));
    }
    same_as_operand(i, 1)
}
