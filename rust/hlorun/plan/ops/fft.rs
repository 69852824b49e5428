//! `fft`: discrete Fourier transforms along the last one to three dimensions.

use smallvec::SmallVec;

use super::index_map::array_operand;
use crate::error::Result;
use crate::module::{AttrKey, InstructionRef};
use crate::plan::unsupported;
use crate::types::PrimitiveType;

/// Which transform.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FftKind {
    /// Complex to complex.
    Forward,
    /// Complex to complex, divided by the number of elements.
    Inverse,
    /// Real to the non-negative half of the spectrum.
    RealForward,
    /// From that half back to real.
    RealInverse,
}

/// Parameters of an `fft`.
#[derive(Clone, Debug)]
pub struct FftOp {
    /// Which transform.
    pub kind: FftKind,
    /// Lengths along the last dimensions, of the real side for the real transforms.
    pub lengths: SmallVec<[usize; 3]>,
}

/// Reads the parameters.
pub fn plan(instruction: InstructionRef<'_>) -> Result<FftOp> {
    let operand = array_operand(instruction, 0)?;
    let Some(result) = instruction.array_shape() else {
        return Err(unsupported(instruction, "the result is no array".into()));
    };
    let name = instruction.enumeration(AttrKey::FftType);
    let kind = match name.as_deref() {
        Some("FFT") => FftKind::Forward,
        Some("IFFT") => FftKind::Inverse,
        Some("RFFT") => FftKind::RealForward,
        Some("IRFFT") => FftKind::RealInverse,
        other => return Err(unsupported(instruction, format!("fft_type {other:?}"))),
    };
    let lengths: SmallVec<[usize; 3]> = match instruction.attribute(AttrKey::FftLength) {
        Some(crate::module::AttrValue::Int(length)) => {
            [*length].iter().map(|&n| n as usize).collect()
        }
        _ => instruction
            .ints(AttrKey::FftLength)
            .iter()
            .map(|&n| n as usize)
            .collect(),
    };
    use PrimitiveType as P;
    let types = (operand.element_type, result.element_type);
    let types_fit = match kind {
        FftKind::Forward | FftKind::Inverse => {
            matches!(types, (P::C64, P::C64) | (P::C128, P::C128))
        }
        FftKind::RealForward => matches!(types, (P::F32, P::C64) | (P::F64, P::C128)),
        FftKind::RealInverse => matches!(types, (P::C64, P::F32) | (P::C128, P::F64)),
    };
    let half = |n: usize| if n == 0 { 0 } else { n / 2 + 1 };
    let rank = operand.rank();
    let fits = types_fit
        && result.rank() == rank
        && (1..=3).contains(&lengths.len())
        && lengths.len() <= rank
        && {
            let start = rank - lengths.len();
            let last = lengths.len() - 1;
            operand.dims[..start] == result.dims[..start]
                && lengths.iter().enumerate().all(|(i, &n)| {
                    let side = |real: bool| if real && i == last { half(n) } else { n };
                    operand.dims[start + i] == side(kind == FftKind::RealInverse) as i64
                        && result.dims[start + i] == side(kind == FftKind::RealForward) as i64
                })
        };
    if !fits {
        return Err(unsupported(
            instruction,
            "fft shapes that do not fit".into(),
        ));
    }
    Ok(FftOp { kind, lengths })
}
