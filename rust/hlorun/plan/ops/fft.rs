//! `fft`: discrete Fourier transforms along the last one to three dimensions; also as the calls that
//! JAX made of it on the CPU until 2024.

use smallvec::SmallVec;

use super::combiner::origin;
use super::index_map::array_operand;
use crate::error::Result;
use crate::library;
use crate::module::{AttrKey, InstructionRef};
use crate::plan::error::unsupported;

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
    /// Which operand is transformed.
    pub operand: usize,
    /// Which transform.
    pub kind: FftKind,
    /// Lengths along the last dimensions, of the real side for the real transforms.
    pub lengths: SmallVec<[usize; 3]>,
}

/// Reads the parameters.
pub fn plan(instruction: InstructionRef<'_>) -> Result<FftOp> {
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
    Ok(FftOp {
        operand: 0,
        kind,
        lengths,
    })
}

/// Plans a call of pocketfft or DUCC; `None` when `target` is neither.
///
/// Operand 0 is a flatbuffer that names the axes and the direction, operand 1 the array; what follows
/// repeats shapes, strides and the scale, which is one over the number of elements on the way back.
pub fn custom_call(instruction: InstructionRef<'_>, target: &str) -> Option<Result<FftOp>> {
    let (axes, forward) = match target {
        "dynamic_ducc_fft" => (3, 4),
        target if library::FFTS.contains(&target) => (5, 6),
        _ => return None,
    };
    Some(described(instruction, axes, forward))
}

/// `axes` and `forward` are numbers of fields of the descriptor.
fn described(instruction: InstructionRef<'_>, axes: usize, forward: usize) -> Result<FftOp> {
    let odd = |what: &str| unsupported(instruction, format!("a transform with {what}"));
    let descriptor = instruction.operand_ids().first().and_then(|&id| {
        let constant = instruction
            .module
            .instruction(origin(instruction.module, id));
        constant.literal()?.bytes()
    });
    let Some(table) = descriptor.and_then(Table::root) else {
        return Err(odd("a descriptor that is no constant"));
    };
    let operand = array_operand(instruction, 1)?;
    let Some(result) = instruction.array_shape() else {
        return Err(odd("a result that is no array"));
    };
    let forward = table.byte(forward).unwrap_or(0) != 0;
    let (from, to) = (operand.element_type, result.element_type);
    let kind = match (from.is_complex(), to.is_complex(), forward) {
        (true, true, true) => FftKind::Forward,
        (true, true, false) => FftKind::Inverse,
        (false, true, true) => FftKind::RealForward,
        (true, false, false) => FftKind::RealInverse,
        _ => return Err(odd("another kind")),
    };
    let real = if from.is_complex() { result } else { operand };
    let axes = table.words(axes).unwrap_or_default();
    let first = real.rank().saturating_sub(axes.len());
    if !(1..=3).contains(&axes.len()) || !axes.iter().copied().eq(first as u32..real.rank() as u32)
    {
        return Err(odd("axes that are not the last"));
    }
    let lengths = real.dims[first..].iter().map(|&n| n as usize).collect();
    Ok(FftOp {
        operand: 1,
        kind,
        lengths,
    })
}

/// The root table of a flatbuffer; every access is checked.
struct Table<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Table<'b> {
    fn root(bytes: &'b [u8]) -> Option<Table<'b>> {
        let at = word(bytes, 0)? as usize;
        Some(Table { bytes, at })
    }

    /// Where a field lies; `None` when it has its default.
    fn field(&self, number: usize) -> Option<usize> {
        let offset = i64::from(word(self.bytes, self.at)? as i32);
        let fields = usize::try_from((self.at as i64).checked_sub(offset)?).ok()?;
        let slot = 4 + 2 * number;
        if usize::from(half_word(self.bytes, fields)?) < slot + 2 {
            return None;
        }
        match half_word(self.bytes, fields.checked_add(slot)?)? {
            0 => None,
            offset => self.at.checked_add(usize::from(offset)),
        }
    }

    fn byte(&self, number: usize) -> Option<u8> {
        self.bytes.get(self.field(number)?).copied()
    }

    fn words(&self, number: usize) -> Option<Vec<u32>> {
        let at = self.field(number)?;
        let start = at.checked_add(word(self.bytes, at)? as usize)?;
        let count = word(self.bytes, start)? as usize;
        let rest = self.bytes.get(start.checked_add(4)?..)?;
        let words = rest.chunks_exact(4).take(count);
        Some(words.filter_map(|w| word(w, 0)).collect())
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn half_word(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}
