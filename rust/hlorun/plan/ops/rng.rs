//! `rng` and `rng-get-and-update-state`, which promise a distribution but no bits.
//!
//! hlorun's stream depends on the instruction's name alone: the same module draws the same numbers
//! in every run, and an instruction in a loop draws the same ones every trip.

use std::hash::Hasher;

use crate::error::Result;
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::plan::element::elementwise;
use crate::plan::error::unsupported;

/// What is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// From the first operand up to, and not including, the second.
    Uniform,
    /// With the first operand as mean and the second as deviation.
    Normal,
    /// Any bits.
    State,
}

/// Parameters of an `rng`.
#[derive(Clone, Copy, Debug)]
pub struct RngOp {
    /// What is drawn.
    pub distribution: Distribution,
    /// Where the stream starts.
    pub seed: u64,
}

/// Reads the parameters.
pub fn plan(instruction: InstructionRef<'_>) -> Result<RngOp> {
    let Some(shape) = instruction.array_shape() else {
        return Err(unsupported(instruction, "random tuples".into()));
    };
    let ty = shape.element_type;
    let distribution = match instruction.enumeration(AttrKey::Distribution).as_deref() {
        _ if instruction.opcode() == HloOpcode::RngGetAndUpdateState => Distribution::State,
        Some("rng_normal") if ty.is_floating() => Distribution::Normal,
        Some("rng_uniform") if !ty.is_complex() => Distribution::Uniform,
        other => {
            let name = other.unwrap_or("no distribution");
            return Err(unsupported(instruction, format!("{name} of {}", ty.name())));
        }
    };
    if elementwise::dtype(ty).is_none() {
        return Err(unsupported(instruction, format!("random {}", ty.name())));
    }
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(instruction.name().as_bytes());
    Ok(RngOp {
        distribution,
        seed: hasher.finish(),
    })
}
