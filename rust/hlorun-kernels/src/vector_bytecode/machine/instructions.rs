//! The instructions of AVX-512 that vector bytecode becomes.
//!
//! In: whether elements have eight bytes. Out: an [`Op`]. Source: Intel 64 and IA-32 Architectures Software Developer's
//! Manual, volume 2.

use super::encode::{Op, Prefix};

/// What an instruction does with its operands; floats and integers of four or eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[rustfmt::skip]
pub(super) enum Name {
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
    /// Two bytes to four, and the low half back; floats of two bytes to four, and back.
    Widen, Narrow, WidenFloat, NarrowFloat,
    /// Truth bytes: their bits as a mask, moved to and from memory, and set by a mask.
    TestBytes, LoadBytes, StoreBytes, SetBytes,
    MaskAnd, MaskOr, MaskXor, MaskNot, MaskLoad, MaskStore,
}

/// An instruction on whole vectors.
fn full(map: u8, pp: u8, wide: bool, opcode: u8) -> Op {
    Op {
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
fn in_memory(bytes: u8, op: Op) -> Op {
    Op { bytes, ..op }
}

/// The same with an immediate.
fn with(op: Op) -> Op {
    Op {
        immediate: Some(0),
        ..op
    }
}

/// An instruction on truth bytes, of which so many are in memory.
fn bytes(bytes: u8, map: u8, pp: u8, wide: bool, opcode: u8) -> Op {
    Op {
        length: 16,
        bytes,
        ..full(map, pp, wide, opcode)
    }
}

/// An instruction on masks; `length` is 1 where two operands come before the last.
fn mask(pp: u8, length: u8, opcode: u8) -> Op {
    Op {
        prefix: Prefix::Vex,
        length,
        ..full(1, pp, false, opcode)
    }
}

/// The instruction for elements of four bytes, or eight.
pub(super) fn op(name: Name, is_wide: bool) -> Op {
    // Floats of eight bytes have the prefix 66 and the wide bit; of integers the wide bit alone says so.
    let (float, w) = (u8::from(is_wide), is_wide);
    let pick = |four, eight| if is_wide { eight } else { four };
    match name {
        Name::Move => full(1, float, w, 0x10),
        Name::Store => full(1, float, w, 0x11),
        Name::Broadcast => in_memory(pick(4, 8), full(2, 1, w, pick(0x18, 0x19))),
        Name::Add => full(1, float, w, 0x58),
        Name::Subtract => full(1, float, w, 0x5c),
        Name::Multiply => full(1, float, w, 0x59),
        Name::Divide => full(1, float, w, 0x5e),
        Name::Larger => full(1, float, w, 0x5f),
        Name::Smaller => full(1, float, w, 0x5d),
        Name::SquareRoot => full(1, float, w, 0x51),
        Name::Round => with(full(3, 1, w, pick(0x08, 0x09))),
        Name::Scale => full(2, 1, w, 0x2c),
        Name::MultiplyAdd213 => full(2, 1, w, 0xa8),
        Name::MultiplyAdd231 => full(2, 1, w, 0xb8),
        Name::IntAdd => full(1, 1, w, pick(0xfe, 0xd4)),
        Name::IntSubtract => full(1, 1, w, pick(0xfa, 0xfb)),
        Name::IntMultiply => full(2, 1, w, 0x40),
        Name::And => full(1, 1, w, 0xdb),
        Name::Or => full(1, 1, w, 0xeb),
        Name::Xor => full(1, 1, w, 0xef),
        Name::ShiftLeft => full(2, 1, w, 0x47),
        Name::ShiftRight => full(2, 1, w, 0x45),
        Name::ShiftRightSigned => full(2, 1, w, 0x46),
        Name::RotateLeft => full(2, 1, w, 0x15),
        Name::IntLarger => full(2, 1, w, 0x3d),
        Name::IntSmaller => full(2, 1, w, 0x39),
        Name::UintLarger => full(2, 1, w, 0x3f),
        Name::UintSmaller => full(2, 1, w, 0x3b),
        Name::IntToFloat => full(1, pick(0, 2), w, pick(0x5b, 0xe6)),
        Name::FloatToInt => full(1, pick(2, 1), w, pick(0x5b, 0x7a)),
        Name::Compare => with(full(1, float, w, 0xc2)),
        Name::IntCompare => with(full(3, 1, w, 0x1f)),
        Name::UintCompare => with(full(3, 1, w, 0x1e)),
        Name::Blend => full(2, 1, w, 0x65),
        Name::Widen => in_memory(32, full(2, 1, false, 0x33)),
        Name::Narrow => in_memory(32, full(2, 2, false, 0x33)),
        Name::WidenFloat => in_memory(32, full(2, 1, false, 0x13)),
        Name::NarrowFloat => in_memory(32, with(full(3, 1, false, 0x1d))),
        Name::TestBytes => bytes(16, 2, 1, false, 0x26),
        Name::LoadBytes if is_wide => bytes(8, 1, 2, true, 0x7e),
        Name::LoadBytes => bytes(16, 1, 3, false, 0x6f),
        Name::StoreBytes if is_wide => bytes(8, 1, 1, true, 0xd6),
        Name::StoreBytes => bytes(16, 1, 3, false, 0x7f),
        Name::SetBytes => bytes(16, 1, 3, false, 0x6f),
        Name::MaskAnd => mask(pick(0, 1), 1, 0x41),
        Name::MaskOr => mask(pick(0, 1), 1, 0x45),
        Name::MaskXor => mask(pick(0, 1), 1, 0x47),
        Name::MaskNot => mask(pick(0, 1), 0, 0x44),
        Name::MaskLoad => mask(pick(0, 1), 0, 0x90),
        Name::MaskStore => mask(pick(0, 1), 0, 0x91),
    }
}
