//! Element types in PJRT's numbers, and layouts.

use hlorun::types::PrimitiveType;

use super::abi::Extension;
use super::error::{Failure, Outcome};

/// PJRT's number of a token, which has no elements.
pub const TOKEN: i32 = 23;

/// Types by PJRT's numbers, which begin with 1.
const TYPES: [Option<PrimitiveType>; 29] = {
    use PrimitiveType::*;
    [
        Some(Pred),
        Some(S8),
        Some(S16),
        Some(S32),
        Some(S64),
        Some(U8),
        Some(U16),
        Some(U32),
        Some(U64),
        Some(F16),
        Some(F32),
        Some(F64),
        Some(BF16),
        Some(C64),
        Some(C128),
        Some(F8E5M2),
        Some(F8E4M3FN),
        Some(F8E4M3B11FNUZ),
        Some(F8E5M2FNUZ),
        Some(F8E4M3FNUZ),
        Some(S4),
        Some(U4),
        None,
        Some(S2),
        Some(U2),
        Some(F8E4M3),
        Some(F8E3M4),
        Some(F8E8M0FNU),
        Some(F4E2M1FN),
    ]
};

/// The type of a number; a token stands for one `pred`.
pub fn from_number(number: i32) -> Outcome<PrimitiveType> {
    if number == TOKEN {
        return Ok(PrimitiveType::Pred);
    }
    let known = usize::try_from(number - 1).ok().and_then(|n| TYPES.get(n));
    known.copied().flatten().ok_or_else(|| {
        Failure::unsupported(format!(
            "element type {number} of PJRT is none hlorun knows"
        ))
    })
}

/// The number of a type.
pub fn number(element_type: PrimitiveType) -> Outcome<i32> {
    TYPES
        .iter()
        .position(|known| *known == Some(element_type))
        .map(|at| at as i32 + 1)
        .ok_or_else(|| {
            Failure::unsupported(format!("PJRT has no arrays of {}", element_type.name()))
        })
}

/// `PJRT_Buffer_MemoryLayout`: tiles or strides, of the same size.
#[repr(C)]
pub struct MemoryLayout {
    struct_size: usize,
    extension_start: *const Extension,
    form: Form,
    kind: i32,
}

#[repr(C)]
union Form {
    tiled: Tiled,
    strides: Strides,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Tiled {
    struct_size: usize,
    extension_start: *const Extension,
    minor_to_major: *const i64,
    minor_to_major_len: usize,
    tile_dims: *const i64,
    tile_dim_sizes: *const usize,
    num_tiles: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Strides {
    struct_size: usize,
    extension_start: *const Extension,
    byte_strides: *const i64,
    len: usize,
}

const TILED: i32 = 0;
const STRIDES: i32 = 1;

impl MemoryLayout {
    /// Shows row-major order; `minor_to_major` lives as long as the layout's owner.
    pub fn show(&mut self, minor_to_major: &[i64]) {
        self.extension_start = std::ptr::null();
        self.form.tiled = Tiled {
            struct_size: size_of::<Tiled>(),
            extension_start: std::ptr::null(),
            minor_to_major: minor_to_major.as_ptr(),
            minor_to_major_len: minor_to_major.len(),
            tile_dims: std::ptr::null(),
            tile_dim_sizes: std::ptr::null(),
            num_tiles: 0,
        };
        self.kind = TILED;
    }

    /// Bytes between neighbours along each dimension of an array of `dims`.
    pub fn byte_strides(&self, dims: &[i64], element_size: usize) -> Outcome<Vec<i64>> {
        let wrong = |what: &str| Failure::unsupported(format!("a layout {what}"));
        match self.kind {
            STRIDES => {
                // SAFETY: of this kind, the union holds strides, of which C promises so many.
                let given = unsafe {
                    let Strides {
                        byte_strides, len, ..
                    } = self.form.strides;
                    slice(byte_strides, len)
                };
                match given {
                    Some(given) if given.len() == dims.len() => Ok(given.to_vec()),
                    _ => Err(wrong("with as many strides as dimensions is needed")),
                }
            }
            TILED => {
                // SAFETY: of this kind, the union holds tiles and an order of so many dimensions.
                let (order, tiles) = unsafe {
                    let tiled = self.form.tiled;
                    let order = slice(tiled.minor_to_major, tiled.minor_to_major_len);
                    (order, tiled.num_tiles)
                };
                if tiles != 0 {
                    return Err(wrong("with tiles"));
                }
                let order = order.ok_or_else(|| wrong("without an order"))?;
                strides_of_order(order, dims, element_size)
                    .ok_or_else(|| wrong("whose order is no order of the dimensions"))
            }
            kind => Err(wrong(&format!("of kind {kind}"))),
        }
    }
}

/// # Safety
/// `data` is null or has `len` elements.
unsafe fn slice<'a>(data: *const i64, len: usize) -> Option<&'a [i64]> {
    match (data.is_null(), len) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: by the caller's promise.
        (false, _) => Some(unsafe { std::slice::from_raw_parts(data, len) }),
    }
}

fn strides_of_order(order: &[i64], dims: &[i64], element_size: usize) -> Option<Vec<i64>> {
    let mut strides = vec![-1; dims.len()];
    let mut step = element_size as i64;
    for &dim in order {
        let at = usize::try_from(dim).ok()?;
        let stride = strides.get_mut(at).filter(|stride| **stride < 0)?;
        *stride = step;
        step = step.checked_mul(dims[at].max(1))?;
    }
    (order.len() == dims.len()).then_some(strides)
}

/// Row-major strides in bytes.
pub fn row_major_strides(dims: &[i64], element_size: usize) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut step = element_size as i64;
    for (stride, &dim) in strides.iter_mut().zip(dims).rev() {
        *stride = step;
        step = step.saturating_mul(dim.max(1));
    }
    strides
}

/// The order of row-major dimensions, the fastest first.
pub fn minor_to_major(rank: usize) -> Vec<i64> {
    (0..rank as i64).rev().collect()
}
