//! Runs `bitcast-convert`: bytes as they are; elements narrower than a byte are packed, the first
//! in the lowest bits, and unpacked.

use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::ops::bitcast_convert::{BitcastConvertOp, width};
use crate::types::PrimitiveType;

/// Runs it: one array in, one out.
pub fn run(
    _op: &BitcastConvertOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    _environment: &OpEnvironment<'_>,
) -> Result<()> {
    let ([input], [output]) = (inputs, outputs) else {
        return Err(HloError::execution("bitcast-convert takes one array"));
    };
    let bits = |array: &RawArray| array.count() * width(array.element_type) as usize;
    if bits(input) != bits(output) {
        return Err(HloError::execution("bitcast-convert of another size"));
    }
    if output.count() == 0 {
        return Ok(());
    }
    let packed = pack(input.to_row_major()?, input.element_type)?;
    let mut result = unpack(packed, output.element_type, output.count())?;
    RawArray::over(&mut result, output.element_type, &output.dims).copy_to(output);
    Ok(())
}

fn pack(bytes: AlignedBytes<u8>, ty: PrimitiveType) -> Result<AlignedBytes<u8>> {
    let bits = width(ty) as usize;
    if bits >= 8 {
        return Ok(bytes);
    }
    let per_byte = 8 / bits;
    let mut packed = AlignedBytes::zeroed(bytes.len().div_ceil(per_byte))?;
    let mask = u8::MAX >> (8 - bits);
    let to = packed.as_mut_slice();
    for (i, &value) in bytes.as_slice().iter().enumerate() {
        to[i / per_byte] |= (value & mask) << (i % per_byte * bits);
    }
    Ok(packed)
}

fn unpack(bytes: AlignedBytes<u8>, ty: PrimitiveType, count: usize) -> Result<AlignedBytes<u8>> {
    let bits = width(ty) as usize;
    if bits >= 8 {
        return Ok(bytes);
    }
    let per_byte = 8 / bits;
    let mut unpacked = AlignedBytes::zeroed(count)?;
    let (mask, sign) = (u8::MAX >> (8 - bits), ty.is_signed_integral());
    let from = bytes.as_slice();
    for (i, value) in unpacked.as_mut_slice().iter_mut().enumerate() {
        *value = from[i / per_byte] >> (i % per_byte * bits) & mask;
        if sign {
            *value = ((*value << (8 - bits)) as i8 >> (8 - bits)) as u8;
        }
    }
    Ok(unpacked)
}
