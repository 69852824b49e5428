//! How elements of each type are held in registers.

use cranelift_codegen::ir::{Type, types};
use hlorun_kernels::DType;

/// What kind of arithmetic a type has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    Pred,
    Int,
    /// `F32`, `F64`.
    Float,
    /// `BF16`: computed as `F32` and rounded once.
    Rounded,
    /// Only moved.
    Other,
}

pub fn class(dtype: DType) -> Class {
    use DType::*;
    match dtype {
        Pred => Class::Pred,
        S8 | S16 | S32 | S64 | U8 | U16 | U32 | U64 => Class::Int,
        F32 | F64 => Class::Float,
        BF16 => Class::Rounded,
        _ => Class::Other,
    }
}

/// The type of registers that hold elements.
pub fn register(dtype: DType) -> Option<Type> {
    Some(match dtype {
        DType::F32 => types::F32,
        DType::F64 => types::F64,
        _ => bits(dtype.size_bytes())?,
    })
}

/// The integer type of so many bytes.
pub fn bits(bytes: usize) -> Option<Type> {
    Some(match bytes {
        1 => types::I8,
        2 => types::I16,
        4 => types::I32,
        8 => types::I64,
        _ => return None,
    })
}
