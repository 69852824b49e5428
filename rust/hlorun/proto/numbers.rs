//! Numbers of element types, of shapes that are no arrays and of levels of dimensions. A number stands once here, for reading
//! and for writing. Numbers of words are their places in `module::words`.

use crate::types::PrimitiveType::{self, *};

/// The shapes that are no arrays.
pub const TUPLE: i32 = 13;
pub const OPAQUE: i32 = 14;
pub const TOKEN: i32 = 17;
pub const BUFFER: i32 = 34;

/// Letters of the levels of sparse dimensions, by number.
pub const LEVELS: [&str; 4] = ["D", "C", "S", "H"];

const TYPES: [(PrimitiveType, i32); 30] = [
    (Pred, 1),
    (S1, 30),
    (S2, 26),
    (S4, 21),
    (S8, 2),
    (S16, 3),
    (S32, 4),
    (S64, 5),
    (U1, 31),
    (U2, 27),
    (U4, 22),
    (U8, 6),
    (U16, 7),
    (U32, 8),
    (U64, 9),
    (F4E2M1FN, 32),
    (F8E3M4, 29),
    (F8E4M3, 28),
    (F8E4M3FN, 20),
    (F8E4M3FNUZ, 25),
    (F8E4M3B11FNUZ, 23),
    (F8E5M2, 19),
    (F8E5M2FNUZ, 24),
    (F8E8M0FNU, 33),
    (F16, 10),
    (BF16, 16),
    (F32, 11),
    (F64, 12),
    (C64, 15),
    (C128, 18),
];

/// The element type with this number.
pub fn element_type(number: i32) -> Option<PrimitiveType> {
    TYPES.iter().find(|row| row.1 == number).map(|row| row.0)
}

/// The number of an element type.
pub fn type_number(element_type: PrimitiveType) -> i32 {
    TYPES
        .iter()
        .find(|row| row.0 == element_type)
        .map_or(0, |row| row.1)
}
