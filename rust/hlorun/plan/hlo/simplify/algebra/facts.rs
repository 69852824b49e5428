//! What is known of single values: constants, and arrays of one value.

use crate::module::{HloModule, HloOpcode, InstructionId};
use crate::types::PrimitiveType;

/// Bytes of a constant whose elements are compared.
const MAX_LITERAL: usize = 1 << 12;

/// The bytes of an element and its type, of an array whose elements are all the same constant.
pub fn splat(module: &HloModule, id: InstructionId) -> Option<(PrimitiveType, &[u8])> {
    let mut at = module.instruction(id);
    while at.opcode() == HloOpcode::Broadcast {
        at = at.operand(0)?;
    }
    let ty = at.array_shape()?.element_type;
    let bytes = at.literal()?.bytes()?;
    if bytes.len() > MAX_LITERAL {
        return None;
    }
    let mut elements = bytes.chunks_exact(ty.size_bytes());
    let first = elements.next()?;
    elements
        .all(|element| element == first)
        .then_some((ty, first))
}

/// A number that an identity asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// `0`; of floating types the positive one.
    Zero,
    /// `-0.0`, or `0` of an integer type: what adds nothing to any number.
    NegativeZero,
    /// `1`.
    One,
    /// All bits set; `true`.
    AllOnes,
}

/// Whether all elements of an array are a number.
pub fn is(module: &HloModule, id: InstructionId, number: Number) -> bool {
    splat(module, id)
        .and_then(|(ty, element)| Some(bits(ty, number)? == element))
        .unwrap_or(false)
}

/// A number as an element of a type; `None` for types without identities.
fn bits(ty: PrimitiveType, number: Number) -> Option<Vec<u8>> {
    use PrimitiveType as P;
    let float = |zero: Vec<u8>, negative: Vec<u8>, one: Vec<u8>| match number {
        Number::Zero => Some(zero),
        Number::NegativeZero => Some(negative),
        Number::One => Some(one),
        Number::AllOnes => None,
    };
    let size = ty.size_bytes();
    match ty {
        P::F16 => float(
            vec![0, 0],
            vec![0, 0x80],
            half::f16::ONE.to_ne_bytes().to_vec(),
        ),
        P::BF16 => float(
            vec![0, 0],
            vec![0, 0x80],
            half::bf16::ONE.to_ne_bytes().to_vec(),
        ),
        P::F32 => float(
            0f32.to_ne_bytes().to_vec(),
            (-0f32).to_ne_bytes().to_vec(),
            1f32.to_ne_bytes().to_vec(),
        ),
        P::F64 => float(
            0f64.to_ne_bytes().to_vec(),
            (-0f64).to_ne_bytes().to_vec(),
            1f64.to_ne_bytes().to_vec(),
        ),
        P::Pred => Some(vec![u8::from(matches!(
            number,
            Number::One | Number::AllOnes
        ))]),
        // Types of less than a byte keep other bits beside theirs.
        _ if ty.is_integral() && ty.bit_width() >= 8 => Some(match number {
            Number::Zero | Number::NegativeZero => vec![0; size],
            Number::One => 1u64.to_le_bytes()[..size].to_vec(),
            Number::AllOnes => vec![0xff; size],
        }),
        _ => None,
    }
}

/// Whether every value of `from` is a value of `to`.
pub fn is_lossless(from: PrimitiveType, to: PrimitiveType) -> bool {
    use PrimitiveType as P;
    match (from, to) {
        _ if from == to => true,
        (P::Pred, _) => !matches!(to, P::Pred) && (to.is_integral() || has_identities(to)),
        (P::F16 | P::BF16, P::F32 | P::F64) | (P::F32, P::F64) => true,
        _ if from.is_integral() && to.is_integral() && to != P::Pred => {
            let is_signed = from.is_signed_integral();
            from.bit_width() < to.bit_width() && (!is_signed || to.is_signed_integral())
        }
        _ => false,
    }
}

/// The floating types whose arithmetic is IEEE's.
pub fn has_identities(ty: PrimitiveType) -> bool {
    use PrimitiveType as P;
    matches!(ty, P::F16 | P::BF16 | P::F32 | P::F64)
}
