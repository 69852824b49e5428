//! The element types kernels know, as run-time tags.
//!
//! In: nothing. Out: [`DType`] with its size and class. Sub-byte types are stored one byte per element: `s2`/`s4`
//! sign-extended in an `i8`, `u2`/`u4` zero-extended in a `u8`, `f4e2m1fn` in the low four bits of a `u8`.

listed! {
/// Element type of a contiguous buffer. The variant names follow XLA's `PrimitiveType`.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// One byte, 0 or 1.
    Pred,
    /// 2-bit signed integer.
    S2,
    /// 4-bit signed integer.
    S4,
    /// 8-bit signed integer.
    S8,
    /// 16-bit signed integer.
    S16,
    /// 32-bit signed integer.
    S32,
    /// 64-bit signed integer.
    S64,
    /// 2-bit unsigned integer.
    U2,
    /// 4-bit unsigned integer.
    U4,
    /// 8-bit unsigned integer.
    U8,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit unsigned integer.
    U64,
    /// 4-bit float, no infinity, no NaN.
    F4E2M1FN,
    /// 8-bit float, 3 exponent and 4 mantissa bits, IEEE-like.
    F8E3M4,
    /// 8-bit float, 4 exponent and 3 mantissa bits, IEEE-like.
    F8E4M3,
    /// 8-bit float, 4 exponent and 3 mantissa bits, finite and NaN only.
    F8E4M3FN,
    /// The same with bias 8, one NaN and no negative zero.
    F8E4M3FNUZ,
    /// The same with bias 11, one NaN and no negative zero.
    F8E4M3B11FNUZ,
    /// 8-bit float, 5 exponent and 2 mantissa bits, IEEE-like.
    F8E5M2,
    /// The same with bias 16, one NaN and no negative zero.
    F8E5M2FNUZ,
    /// 8-bit exponent only: powers of two, one NaN, no zero, no sign.
    F8E8M0FNU,
    /// IEEE binary16.
    F16,
    /// The upper half of an IEEE binary32.
    BF16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// Two `f32`: real, imaginary.
    C64,
    /// Two `f64`: real, imaginary.
    C128,
}
}

impl DType {
    /// Bytes one element occupies in a buffer.
    pub const fn size_bytes(self) -> usize {
        use DType::*;
        match self {
            Pred | S2 | S4 | S8 | U2 | U4 | U8 => 1,
            F4E2M1FN | F8E3M4 | F8E4M3 | F8E4M3FN | F8E4M3FNUZ => 1,
            F8E4M3B11FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0FNU => 1,
            S16 | U16 | F16 | BF16 => 2,
            S32 | U32 | F32 => 4,
            S64 | U64 | F64 | C64 => 8,
            C128 => 16,
        }
    }

    /// Bits of information in one element (`Pred` counts as one).
    pub const fn bit_width(self) -> usize {
        use DType::*;
        match self {
            Pred => 1,
            S2 | U2 => 2,
            S4 | U4 | F4E2M1FN => 4,
            _ => self.size_bytes() * 8,
        }
    }

    /// Signed integers.
    pub const fn is_signed(self) -> bool {
        use DType::*;
        matches!(self, S2 | S4 | S8 | S16 | S32 | S64)
    }

    /// Unsigned integers, `Pred` excluded.
    pub const fn is_unsigned(self) -> bool {
        use DType::*;
        matches!(self, U2 | U4 | U8 | U16 | U32 | U64)
    }

    /// Signed or unsigned integers, `Pred` excluded.
    pub const fn is_integer(self) -> bool {
        self.is_signed() || self.is_unsigned()
    }

    /// Real floating-point types of every width.
    pub const fn is_float(self) -> bool {
        use DType::*;
        self.is_low_float() || matches!(self, F32 | F64)
    }

    /// Floats narrower than `f32`: computed in `f32`, rounded once per operation.
    pub const fn is_low_float(self) -> bool {
        use DType::*;
        matches!(
            self,
            F4E2M1FN
                | F8E3M4
                | F8E4M3
                | F8E4M3FN
                | F8E4M3FNUZ
                | F8E4M3B11FNUZ
                | F8E5M2
                | F8E5M2FNUZ
                | F8E8M0FNU
                | F16
                | BF16
        )
    }

    /// `C64` and `C128`.
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }

    /// The type of the real part: `F32` for `C64`, `F64` for `C128`, otherwise itself.
    pub const fn real_part(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }
}
