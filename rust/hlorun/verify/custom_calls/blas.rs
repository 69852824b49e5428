//! Products of cuBLAS and cuBLASLt, and of operands scaled block by block.

use super::*;
use crate::library::gemm::{Epilogue, GemmOperands, LT_MATMUL_F8};
use crate::library::{DotDimensions, GemmConfig};

/// `D = epilogue(alpha·A·B + beta·C + bias)`, with scales where numbers have eight bits.
pub fn product(i: InstructionRef<'_>, target: &str) -> Result<(), String> {
    let Some(config) = GemmConfig::of(i) else {
        return Ok(());
    };
    let epilogue = config.epilogue()?;
    if target == gemm::GEMM && config.epilogue.is_some() {
        return Err(format!(
            "has epilogue {}, which only {} takes",
            config.epilogue.as_deref().unwrap_or_default(),
            gemm::LT_MATMUL
        ));
    }
    let is_f8 = target == LT_MATMUL_F8;
    let (a, b) = (array(i, 0)?, array(i, 1)?);
    let Some(dims) = config.dimensions.result(&a.dims, &b.dims) else {
        return Err(format!(
            "{}, {}, and these do not fit the dot_dimension_numbers of its backend_config",
            describe(i, 0),
            describe(i, 1)
        ));
    };
    let is_scalar = |k: usize| array(i, k).is_ok_and(|shape| shape.rank() == 0);
    let at = GemmOperands::of(&config, is_f8, epilogue.has_bias, &is_scalar);
    operand_count(i, at.counts.0, at.counts.1)?;
    let slots = result_slots(i, epilogue, is_f8, &dims)?;
    let found = returns(i, &slots)?;
    let main = found.first().copied().flatten().unwrap_or(0);
    let result = results::declared(i).get(main).copied().flatten();
    let ty = result.map_or(a.element_type, |result| result.element_type);
    if let Some(c) = at.c {
        want_dims(i, c, &dims, " like D")?;
        want_addend(i, c, ty)?;
    }
    if let Some(bias) = at.bias {
        let own = array(i, bias)?;
        if !dims.ends_with(&own.dims) || own.rank() > 1 && own.dims != dims {
            return Err(format!(
                "{}, expected a vector along the columns of {}",
                describe(i, bias),
                list(&dims)
            ));
        }
        want_addend(i, bias, ty)?;
    }
    let scales = [at.scales, at.scales.map(|k| k + 1), at.c_scale];
    for scale in scales.into_iter().flatten() {
        one_number(i, scale)?;
    }
    match at.d_scale.filter(|&k| k < i.operand_ids().len()) {
        Some(scale) => one_number(i, scale),
        None => Ok(()),
    }
}

fn result_slots(
    i: InstructionRef<'_>,
    epilogue: Epilogue,
    is_f8: bool,
    dims: &[i64],
) -> Result<Vec<Slot>, String> {
    let main = product_slot(i, dims)?;
    let mut slots = vec![main.clone()];
    // Bits in an order of the library's own may count as its workspace.
    if epilogue.has_aux {
        slots.push(if epilogue.has_bits() {
            main.optional()
        } else {
            main
        });
    }
    if is_f8 {
        let amax = Slot::array(PrimitiveType::F32, &[]).or_dims(&[1]);
        slots.push(amax.optional());
    }
    Ok(slots)
}

/// That operand `k`, which is added, has the type of the result or, where that has eight bits, a wider
/// one.
fn want_addend(i: InstructionRef<'_>, k: usize, ty: PrimitiveType) -> Result<(), String> {
    let own = array(i, k)?.element_type;
    let first = array(i, 0)?.element_type;
    let is_narrow = first.is_floating() && first.bit_width() < 32;
    if own == ty || own == first || is_narrow && own.is_floating() && own.bit_width() <= 32 {
        return Ok(());
    }
    want_type(i, k, ty, " like the result")
}

/// Operands in blocks along their last dimension, each block with a scale.
pub fn block_scaled(i: InstructionRef<'_>) -> Result<(), String> {
    operand_count(i, 4, 4)?;
    let rank = array(i, 0)?.rank();
    for (operand, scale) in [(0, 2), (1, 3)] {
        let (own, blocks) = (floats(i, operand)?, floats(i, scale)?);
        if !matches!(own.rank(), 2 | 3) || own.rank() != rank {
            return Err(format!(
                "{}, expected a matrix or a batch of them like the other operand",
                describe(i, operand)
            ));
        }
        let fits = blocks.rank() == rank
            && blocks.dims[..rank - 1] == own.dims[..rank - 1]
            && blocks.dims[rank - 1] > 0
            && own.dims[rank - 1] % blocks.dims[rank - 1] == 0;
        if !fits {
            return Err(format!(
                "{}, which does not divide the last dimension of operand {operand} into blocks",
                describe(i, scale)
            ));
        }
    }
    let last = rank as i64 - 1;
    let dimensions = DotDimensions::of_matrices(rank, last, last);
    let Some(dims) = dimensions.result(&array(i, 0)?.dims, &array(i, 1)?.dims) else {
        return Err(format!("{}, which does not fit operand 0", describe(i, 1)));
    };
    let slot = Slot::array(PrimitiveType::F32, &dims);
    returns_array(i, slot.or_types(&[PrimitiveType::BF16, PrimitiveType::F16]))
}
