//! `rng-bit-generator`: random bits from a state, and the state after them.

use super::index_map::array_operand;
use crate::error::Result;
use crate::module::{AttrKey, InstructionRef};
use crate::plan::error::unsupported;
use crate::types::PrimitiveType;

/// The generator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// Threefry-2x32 of 20 rounds; the state is a key and a counter of 64 bits.
    ThreeFry,
    /// Philox-4x32 of 10 rounds; the state is a key of 64 bits and a counter of 128, of which two-word
    /// states hold the lower half.
    Philox,
}

/// Parameters of an `rng-bit-generator`.
#[derive(Clone, Copy, Debug)]
pub struct RngBitGeneratorOp {
    /// Which one; the default of XLA:CPU is Philox.
    pub algorithm: Algorithm,
}

/// Reads the parameters.
pub fn plan(instruction: InstructionRef<'_>) -> Result<RngBitGeneratorOp> {
    let algorithm = instruction.enumeration(AttrKey::Algorithm);
    let algorithm = match algorithm.as_deref() {
        Some("rng_three_fry") => Algorithm::ThreeFry,
        Some("rng_philox" | "rng_default") | None => Algorithm::Philox,
        Some(other) => return Err(unsupported(instruction, format!("generator {other}"))),
    };
    let state = array_operand(instruction, 0)?;
    let words = match algorithm {
        Algorithm::ThreeFry => 2..=2,
        Algorithm::Philox => 2..=3,
    };
    if state.element_type != PrimitiveType::U64
        || state.rank() != 1
        || !words.contains(&state.dims[0])
    {
        return Err(unsupported(
            instruction,
            "a state that is neither u64[2] nor, for philox, u64[3]".into(),
        ));
    }
    let result = instruction.shape().as_tuple().and_then(|parts| {
        let part = parts.get(1)?;
        instruction.module.shapes().get(*part).as_array()
    });
    match result {
        Some(bits) if bits.element_type.bit_width() >= 8 && !bits.element_type.is_complex() => {
            Ok(RngBitGeneratorOp { algorithm })
        }
        _ => Err(unsupported(instruction, "random bits of this type".into())),
    }
}
