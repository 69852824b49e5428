//! The instructions of AVX-512 that vector bytecode becomes.
//!
//! In: whether elements have eight bytes. Out: an [`Encoding`]. Source: Intel 64 and IA-32 Architectures Software Developer's
//! Manual, volume 2.

use super::encode::{Encoding, Prefix};

/// What an instruction does with its operands; floats and integers of four or eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[rustfmt::skip]
pub(super) enum Mnemonic {
    Move, Store, Broadcast,
    Add, Subtract, Multiply, Divide, Larger, Smaller, SquareRoot, Round, Scale,
    /// `first = second * first + last`, and `first = second * last + first`.
    MultiplyAdd213, MultiplyAdd231,
    IntAdd, IntSubtract, IntMultiply, And, Or, Xor, ShiftLeft, ShiftRight, ShiftRightSigned, RotateLeft,
    IntLarger, IntSmaller, UintLarger, UintSmaller,
    IntToFloat, FloatToInt,
    /// To a mask.
    Compare, IntCompare, UintCompare,
    /// `mask ? last : second`.
    Blend,
    /// Floats of four bytes in the low half of a vector to eight bytes, and back; the product of such.
    ToDouble, FromDouble, MultiplyDouble,
    /// A vector whose low half is the high half of another, and the low halves of two.
    HighHalf, JoinHalves,
    /// Two bytes to four, and the low half back; floats of two bytes to four, and back.
    Widen, Narrow, WidenFloat, NarrowFloat,
    /// Truth bytes: their bits as a mask, moved to and from memory, and set by a mask.
    TestBytes, LoadBytes, StoreBytes, SetBytes,
    MaskAnd, MaskOr, MaskXor, MaskNot, MaskLoad, MaskStore,
}

/// An instruction on whole vectors.
fn full(map: u8, pp: u8, wide: bool, opcode: u8) -> Encoding {
    Encoding {
        prefix: Prefix::Evex,
        map,
        pp,
        wide,
        opcode,
        length: 64,
        bytes: 64,
        immediate: None,
    }
}

/// The same, of which so many bytes are in memory.
fn in_memory(bytes: u8, encoding: Encoding) -> Encoding {
    Encoding { bytes, ..encoding }
}

/// The same with an immediate.
fn with(encoding: Encoding) -> Encoding {
    Encoding {
        immediate: Some(0),
        ..encoding
    }
}

/// An instruction on truth bytes, of which so many are in memory.
fn bytes(bytes: u8, map: u8, pp: u8, wide: bool, opcode: u8) -> Encoding {
    Encoding {
        length: 16,
        bytes,
        ..full(map, pp, wide, opcode)
    }
}

/// An instruction on masks; `length` is 1 where two operands come before the last.
fn mask(pp: u8, length: u8, opcode: u8) -> Encoding {
    Encoding {
        prefix: Prefix::Vex,
        length,
        ..full(1, pp, false, opcode)
    }
}

/// Whether an instruction that reads or writes memory may leave out lanes by a mask: not those that move eight truth bytes.
pub(super) fn takes_mask(encoding: &Encoding) -> bool {
    encoding.prefix == Prefix::Evex && (encoding.length, encoding.bytes) != (16, 8)
}

/// The instruction for elements of four bytes, or eight.
pub(super) fn encoding(mnemonic: Mnemonic, is_wide: bool) -> Encoding {
    // Floats of eight bytes have the prefix 66 and the wide bit; of integers the wide bit alone says so.
    let (float, w) = (u8::from(is_wide), is_wide);
    let pick = |four, eight| if is_wide { eight } else { four };
    match mnemonic {
        Mnemonic::Move => full(1, float, w, 0x10),
        Mnemonic::Store => full(1, float, w, 0x11),
        Mnemonic::Broadcast => in_memory(pick(4, 8), full(2, 1, w, pick(0x18, 0x19))),
        Mnemonic::Add => full(1, float, w, 0x58),
        Mnemonic::Subtract => full(1, float, w, 0x5c),
        Mnemonic::Multiply => full(1, float, w, 0x59),
        Mnemonic::Divide => full(1, float, w, 0x5e),
        Mnemonic::Larger => full(1, float, w, 0x5f),
        Mnemonic::Smaller => full(1, float, w, 0x5d),
        Mnemonic::SquareRoot => full(1, float, w, 0x51),
        Mnemonic::Round => with(full(3, 1, w, pick(0x08, 0x09))),
        Mnemonic::Scale => full(2, 1, w, 0x2c),
        Mnemonic::MultiplyAdd213 => full(2, 1, w, 0xa8),
        Mnemonic::MultiplyAdd231 => full(2, 1, w, 0xb8),
        Mnemonic::IntAdd => full(1, 1, w, pick(0xfe, 0xd4)),
        Mnemonic::IntSubtract => full(1, 1, w, pick(0xfa, 0xfb)),
        Mnemonic::IntMultiply => full(2, 1, w, 0x40),
        Mnemonic::And => full(1, 1, w, 0xdb),
        Mnemonic::Or => full(1, 1, w, 0xeb),
        Mnemonic::Xor => full(1, 1, w, 0xef),
        Mnemonic::ShiftLeft => full(2, 1, w, 0x47),
        Mnemonic::ShiftRight => full(2, 1, w, 0x45),
        Mnemonic::ShiftRightSigned => full(2, 1, w, 0x46),
        Mnemonic::RotateLeft => full(2, 1, w, 0x15),
        Mnemonic::IntLarger => full(2, 1, w, 0x3d),
        Mnemonic::IntSmaller => full(2, 1, w, 0x39),
        Mnemonic::UintLarger => full(2, 1, w, 0x3f),
        Mnemonic::UintSmaller => full(2, 1, w, 0x3b),
        Mnemonic::IntToFloat => full(1, pick(0, 2), w, pick(0x5b, 0xe6)),
        Mnemonic::FloatToInt => full(1, pick(2, 1), w, pick(0x5b, 0x7a)),
        Mnemonic::Compare => with(full(1, float, w, 0xc2)),
        Mnemonic::IntCompare => with(full(3, 1, w, 0x1f)),
        Mnemonic::UintCompare => with(full(3, 1, w, 0x1e)),
        Mnemonic::Blend => full(2, 1, w, 0x65),
        Mnemonic::ToDouble => in_memory(32, full(1, 0, false, 0x5a)),
        Mnemonic::FromDouble => full(1, 1, true, 0x5a),
        Mnemonic::MultiplyDouble => full(1, 1, true, 0x59),
        Mnemonic::HighHalf => with(full(3, 1, true, 0x23)),
        Mnemonic::JoinHalves => in_memory(32, with(full(3, 1, true, 0x1a))),
        Mnemonic::Widen => in_memory(32, full(2, 1, false, 0x33)),
        Mnemonic::Narrow => in_memory(32, full(2, 2, false, 0x33)),
        Mnemonic::WidenFloat => in_memory(32, full(2, 1, false, 0x13)),
        Mnemonic::NarrowFloat => in_memory(32, with(full(3, 1, false, 0x1d))),
        Mnemonic::TestBytes => bytes(16, 2, 1, false, 0x26),
        Mnemonic::LoadBytes if is_wide => bytes(8, 1, 2, true, 0x7e),
        Mnemonic::LoadBytes => bytes(16, 1, 3, false, 0x6f),
        Mnemonic::StoreBytes if is_wide => bytes(8, 1, 1, true, 0xd6),
        Mnemonic::StoreBytes => bytes(16, 1, 3, false, 0x7f),
        Mnemonic::SetBytes => bytes(16, 1, 3, false, 0x6f),
        Mnemonic::MaskAnd => mask(pick(0, 1), 1, 0x41),
        Mnemonic::MaskOr => mask(pick(0, 1), 1, 0x45),
        Mnemonic::MaskXor => mask(pick(0, 1), 1, 0x47),
        Mnemonic::MaskNot => mask(pick(0, 1), 0, 0x44),
        Mnemonic::MaskLoad => mask(pick(0, 1), 0, 0x90),
        Mnemonic::MaskStore => mask(pick(0, 1), 0, 0x91),
    }
}
