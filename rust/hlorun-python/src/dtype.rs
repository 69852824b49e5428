//! Element types as NumPy dtypes.
//!
//! Comes in: a `PrimitiveType`. Goes out: the NumPy dtype of the same values, from `ml_dtypes`
//! where NumPy has none; `ml_dtypes` is imported when first needed.

use hlorun::HloError;
use hlorun::types::PrimitiveType;
use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::error::{Error, Result};

/// The scalar type's name and whether it is `ml_dtypes`' own.
fn scalar_type(ty: PrimitiveType) -> (&'static str, bool) {
    use PrimitiveType::*;
    match ty {
        Pred => ("bool", false),
        S1 => ("int1", true),
        U1 => ("uint1", true),
        S2 => ("int2", true),
        S4 => ("int4", true),
        S8 => ("int8", false),
        S16 => ("int16", false),
        S32 => ("int32", false),
        S64 => ("int64", false),
        U2 => ("uint2", true),
        U4 => ("uint4", true),
        U8 => ("uint8", false),
        U16 => ("uint16", false),
        U32 => ("uint32", false),
        U64 => ("uint64", false),
        F4E2M1FN => ("float4_e2m1fn", true),
        F8E3M4 => ("float8_e3m4", true),
        F8E4M3 => ("float8_e4m3", true),
        F8E4M3FN => ("float8_e4m3fn", true),
        F8E4M3FNUZ => ("float8_e4m3fnuz", true),
        F8E4M3B11FNUZ => ("float8_e4m3b11fnuz", true),
        F8E5M2 => ("float8_e5m2", true),
        F8E5M2FNUZ => ("float8_e5m2fnuz", true),
        F8E8M0FNU => ("float8_e8m0fnu", true),
        F16 => ("float16", false),
        BF16 => ("bfloat16", true),
        F32 => ("float32", false),
        F64 => ("float64", false),
        C64 => ("complex64", false),
        C128 => ("complex128", false),
    }
}

/// The NumPy dtype of `ty`, always the same object.
///
/// # Errors
/// `HloUnsupportedError` where the installed `ml_dtypes` lacks the type; what importing it raises.
pub fn numpy_dtype(py: Python<'_>, ty: PrimitiveType) -> Result<&Bound<'_, PyArrayDescr>> {
    static CACHE: [PyOnceLock<Py<PyArrayDescr>>; 30] = [const { PyOnceLock::new() }; 30];
    let cached = &CACHE[ty as usize];
    if let Some(dtype) = cached.get(py) {
        return Ok(dtype.bind(py));
    }
    let (name, extended) = scalar_type(ty);
    let dtype = if extended {
        let scalar = py.import("ml_dtypes")?.getattr(name).map_err(|_| {
            Error::Hlo(HloError::unsupported(
                format!("this version of ml_dtypes has no dtype for {}", ty.name()),
                "",
            ))
        })?;
        PyArrayDescr::new(py, scalar)?
    } else {
        PyArrayDescr::new(py, name)?
    };
    Ok(cached.get_or_init(py, || dtype.unbind()).bind(py))
}
