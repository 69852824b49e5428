//! Element types of arrays, by the names XLA's text uses.

/// What kind of number an element type holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum NumberClass {
    Pred,
    Signed,
    Unsigned,
    Float,
    Complex,
}

/// One row per type: its name, that in the text, bits of the value, class.
macro_rules! types {
    ($($name:ident $text:literal $bits:literal $class:ident;)*) => {
        /// The element type of an array shape.
        ///
        /// The names are those of `xla_data.proto`; the text form is the lower-case name.
        /// Types narrower than a byte occupy one byte per element in every buffer hlorun owns,
        /// as they do in `ml_dtypes` arrays.
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum PrimitiveType { $($name),* }

        const TABLE: &[(PrimitiveType, &str, u8, NumberClass)] =
            &[$((PrimitiveType::$name, $text, $bits, NumberClass::$class)),*];
    };
}
types! {
    Pred "pred" 1 Pred;
    S1 "s1" 1 Signed;
    S2 "s2" 2 Signed;
    S4 "s4" 4 Signed;
    S8 "s8" 8 Signed;
    S16 "s16" 16 Signed;
    S32 "s32" 32 Signed;
    S64 "s64" 64 Signed;
    U1 "u1" 1 Unsigned;
    U2 "u2" 2 Unsigned;
    U4 "u4" 4 Unsigned;
    U8 "u8" 8 Unsigned;
    U16 "u16" 16 Unsigned;
    U32 "u32" 32 Unsigned;
    U64 "u64" 64 Unsigned;
    F4E2M1FN "f4e2m1fn" 4 Float;
    F8E3M4 "f8e3m4" 8 Float;
    F8E4M3 "f8e4m3" 8 Float;
    F8E4M3FN "f8e4m3fn" 8 Float;
    F8E4M3FNUZ "f8e4m3fnuz" 8 Float;
    F8E4M3B11FNUZ "f8e4m3b11fnuz" 8 Float;
    F8E5M2 "f8e5m2" 8 Float;
    F8E5M2FNUZ "f8e5m2fnuz" 8 Float;
    F8E8M0FNU "f8e8m0fnu" 8 Float;
    F16 "f16" 16 Float;
    BF16 "bf16" 16 Float;
    F32 "f32" 32 Float;
    F64 "f64" 64 Float;
    C64 "c64" 64 Complex;
    C128 "c128" 128 Complex;
}

impl PrimitiveType {
    /// Every type, in declaration order.
    pub fn all() -> impl Iterator<Item = PrimitiveType> {
        TABLE.iter().map(|row| row.0)
    }

    /// The name HLO text uses, `"f32"`.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Looks a text name up; `None` when no array type has it.
    pub fn from_name(name: &[u8]) -> Option<PrimitiveType> {
        TABLE
            .iter()
            .find(|row| row.1.as_bytes() == name)
            .map(|row| row.0)
    }

    /// Bits of information in one element (1 for `pred`).
    pub fn bit_width(self) -> u32 {
        u32::from(TABLE[self as usize].2)
    }

    /// Bytes one element occupies in a buffer; at least 1.
    pub fn size_bytes(self) -> usize {
        (self.bit_width() as usize).div_ceil(8)
    }

    /// The class of number it holds.
    pub fn class(self) -> NumberClass {
        TABLE[self as usize].3
    }

    /// `s*` and `u*`, not `pred`.
    pub fn is_integral(self) -> bool {
        matches!(self.class(), NumberClass::Signed | NumberClass::Unsigned)
    }

    /// `s*`.
    pub fn is_signed_integral(self) -> bool {
        self.class() == NumberClass::Signed
    }

    /// `u*`.
    pub fn is_unsigned_integral(self) -> bool {
        self.class() == NumberClass::Unsigned
    }

    /// Real floating point of any width.
    pub fn is_floating(self) -> bool {
        self.class() == NumberClass::Float
    }

    /// `c64` and `c128`.
    pub fn is_complex(self) -> bool {
        self.class() == NumberClass::Complex
    }

    /// The type of the real part of a complex type; itself for the others.
    pub fn component(self) -> PrimitiveType {
        match self {
            PrimitiveType::C64 => PrimitiveType::F32,
            PrimitiveType::C128 => PrimitiveType::F64,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again() {
        for ty in PrimitiveType::all() {
            assert_eq!(PrimitiveType::from_name(ty.name().as_bytes()), Some(ty));
            assert_eq!(TABLE[ty as usize].0, ty);
        }
    }
}
