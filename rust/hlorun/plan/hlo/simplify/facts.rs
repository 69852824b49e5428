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
    /// `2`.
    Two,
    /// All bits set; `true`.
    AllOnes,
}

/// Whether all elements of an array are a number.
pub fn is(module: &HloModule, id: InstructionId, number: Number) -> bool {
    splat(module, id)
        .and_then(|(ty, element)| Some(bits(ty, number)? == element))
        .unwrap_or(false)
}

/// The value that all elements of an array of signed integers have, if it is a constant.
pub fn signed(module: &HloModule, id: InstructionId) -> Option<i64> {
    let (ty, element) = splat(module, id)?;
    if !(ty.is_signed_integral() && is_whole_bytes(ty)) {
        return None;
    }
    let is_negative = element.last()? >> 7 == 1;
    let mut bytes = [if is_negative { 0xff } else { 0 }; 8];
    bytes.get_mut(..element.len())?.copy_from_slice(element);
    Some(i64::from_le_bytes(bytes))
}

/// The value that all elements of an array of unsigned integers have, if it is a constant or one converted from another
/// integer type.
pub fn unsigned(module: &HloModule, id: InstructionId) -> Option<u64> {
    let mut at = module.instruction(id);
    let ty = at.array_shape()?.element_type;
    while matches!(at.opcode(), HloOpcode::Broadcast | HloOpcode::Convert) {
        let operand = at.operand(0)?;
        if at.opcode() == HloOpcode::Convert && operand.opcode() != HloOpcode::Constant {
            return None;
        }
        at = operand;
    }
    let (from, element) = splat(module, at.id)?;
    if !(ty.is_unsigned_integral() && is_whole_bytes(ty) && is_whole_bytes(from)) {
        return None;
    }
    let is_negative = from.is_signed_integral() && element.last()? >> 7 == 1;
    let mut bytes = [if is_negative { 0xff } else { 0 }; 8];
    bytes.get_mut(..element.len())?.copy_from_slice(element);
    Some(u64::from_le_bytes(bytes) & (u64::MAX >> (64 - ty.bit_width())))
}

/// A number as an element of a type; `None` for types without identities.
fn bits(ty: PrimitiveType, number: Number) -> Option<Vec<u8>> {
    use PrimitiveType as P;
    let value = match number {
        Number::Zero => 0f32,
        Number::NegativeZero => -0f32,
        Number::One => 1.0,
        Number::Two => 2.0,
        Number::AllOnes => return all_ones(ty),
    };
    match ty {
        P::F16 => Some(half::f16::from_f32(value).to_ne_bytes().to_vec()),
        P::BF16 => Some(half::bf16::from_f32(value).to_ne_bytes().to_vec()),
        P::F32 => Some(value.to_ne_bytes().to_vec()),
        P::F64 => Some(f64::from(value).to_ne_bytes().to_vec()),
        P::Pred => (value <= 1.0).then(|| vec![value as u8]),
        _ if is_whole_bytes(ty) => Some((value as u64).to_le_bytes()[..ty.size_bytes()].to_vec()),
        _ => None,
    }
}

/// An element with all bits set; `None` for types in which that is no number.
fn all_ones(ty: PrimitiveType) -> Option<Vec<u8>> {
    match ty {
        PrimitiveType::Pred => Some(vec![1]),
        _ => is_whole_bytes(ty).then(|| vec![0xff; ty.size_bytes()]),
    }
}

/// Integers of whole bytes: types of less keep other bits beside theirs.
fn is_whole_bytes(ty: PrimitiveType) -> bool {
    ty.is_integral() && ty.bit_width() >= 8
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
