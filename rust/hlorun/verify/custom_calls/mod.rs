//! The calls of libraries: for each target that hlorun knows, one rule of what its operands and
//! results are, and what its configuration may say.
//!
//! A rule gives the results as [`Slot`]s: arrays whose types and sizes follow from the operands and the
//! configuration, some of which may be missing, and behind them workspaces of any size.
//! Values are what the text says whatever their layouts, so layouts are free but for those of LAPACK,
//! which reads columns. Results may lie in the memory of operands of their shape, as with any call.
//! A target nobody knows is the user's. Where the text leaves out a configuration, what depends on it
//! is left to the planner, which refuses to run the call.

mod attention;
mod blas;
mod dnn;
mod lapack;
mod onednn;
mod other;
mod sorting;

use super::inferred::show;
use super::rules::common::*;
use crate::library::annotation::annotation;
use crate::library::convolution::convolution_call;
use crate::library::lapack::Target;
use crate::library::onednn::onednn;
use crate::library::results::{self, Positions, Slot, is_bytes};
use crate::library::{self, gemm, norm};
use crate::module::InstructionRef;
use crate::types::{ArrayShape, PrimitiveType};

/// The rule of the target of `i`.
pub fn check(i: InstructionRef<'_>) -> Result<(), String> {
    let name = i.custom_call_target().unwrap_or_default();
    let name = name.as_ref();
    let declared = results::declared(i);
    let is_unbounded = |shape: &&ArrayShape| shape.dims.contains(&ArrayShape::UNBOUNDED);
    if declared.iter().flatten().any(is_unbounded) {
        return Ok(());
    }
    if let Some(target) = Target::named(name) {
        return lapack::check(i, name, &target);
    }
    if let Some(call) = convolution_call(name) {
        return dnn::convolution(i, call);
    }
    if let Some(call) = onednn(name) {
        return onednn::check(i, call);
    }
    if let Some(kind) = annotation(name) {
        return other::annotation(i, kind);
    }
    match name {
        gemm::GEMM | gemm::LT_MATMUL | gemm::LT_MATMUL_F8 => blas::product(i, name),
        library::BLOCK_SCALED_DOT => blas::block_scaled(i),
        norm::TARGET => dnn::norm(i),
        library::PAD_TO_STATIC => other::pad_to_static(i),
        library::SLICE_TO_DYNAMIC => other::slice_to_dynamic(i),
        _ if library::TOP_K.contains(&name) => sorting::top_k(i),
        _ if library::RADIX_SORTS.contains(&name) => sorting::radix_sort(i),
        _ if library::THREEFRY.contains(&name) => other::threefry(i),
        _ if library::FFTS.contains(&name) => other::fft(i),
        _ => attention::check(i),
    }
}

/// That the results are `slots`, those that must be there first, and workspaces of bytes behind them.
fn returns(i: InstructionRef<'_>, slots: &[Slot]) -> Result<Positions, String> {
    let found = results::find(i, slots, &is_bytes).map_err(|expected| mismatch(i, &expected))?;
    let is_needed = |slot: &Slot| matches!(slot, Slot::Array(array) if !array.optional);
    for (at, _) in slots.iter().enumerate().filter(|(_, slot)| is_needed(slot)) {
        if found[at] != Some(at) {
            return Err(mismatch(i, "its workspaces last"));
        }
    }
    Ok(found)
}

/// What is declared, and what the library returns.
#[cold]
fn mismatch(i: InstructionRef<'_>, expected: &str) -> String {
    format!(
        "declares {}, but {} returns {expected}",
        show(i.module.shapes(), i.shape_id()),
        i.custom_call_target().unwrap_or_default()
    )
}

/// That the result is an array and no tuple of it.
fn returns_array(i: InstructionRef<'_>, slot: Slot) -> Result<(), String> {
    declared_array(i)?;
    returns(i, &[slot]).map(drop)
}

/// That there are `least` to `most` operands.
fn operand_count(i: InstructionRef<'_>, least: usize, most: usize) -> Result<(), String> {
    let count = i.operand_ids().len();
    if (least..=most).contains(&count) {
        return Ok(());
    }
    let expected = match most {
        most if most == least => least.to_string(),
        usize::MAX => format!("at least {least}"),
        most => format!("{least} to {most}"),
    };
    Err(format!(
        "has {count} operands, but {} takes {expected}",
        i.custom_call_target().unwrap_or_default()
    ))
}

/// Operand `k` as an array of floating-point numbers.
fn floats<'m>(i: InstructionRef<'m>, k: usize) -> Result<&'m ArrayShape, String> {
    let shape = array(i, k)?;
    if shape.element_type.is_floating() {
        Ok(shape)
    } else {
        Err(format!("{}, expected floating point", describe(i, k)))
    }
}

/// That operand `k` is one number: a scalar, or an array of one element.
fn one_number(i: InstructionRef<'_>, k: usize) -> Result<(), String> {
    if floats(i, k)?.element_count() == Some(1) {
        Ok(())
    } else {
        Err(format!("{}, expected one number", describe(i, k)))
    }
}

/// That operand `k` is as large as `dims`, or repeated along dimensions where it has one element, of
/// the same number of dimensions or of fewer.
fn spreads_to(i: InstructionRef<'_>, k: usize, dims: &[i64]) -> Result<(), String> {
    let own = &array(i, k)?.dims;
    let missing = dims.len().checked_sub(own.len());
    let fits = missing.is_some_and(|missing| {
        own.iter()
            .zip(&dims[missing..])
            .all(|(&own, &size)| own == size || own == 1)
    });
    if fits {
        return Ok(());
    }
    Err(format!(
        "{}, expected dimensions {} or ones in their place",
        describe(i, k),
        list(dims)
    ))
}

/// Types a library multiplies numbers of `ty` to; the first is the usual one.
fn product_types(ty: PrimitiveType) -> &'static [PrimitiveType] {
    use PrimitiveType as P;
    match ty {
        P::F16 => &[P::F16, P::F32],
        P::BF16 => &[P::BF16, P::F32],
        P::F32 => &[P::F32],
        P::F64 => &[P::F64],
        P::C64 => &[P::C64],
        P::C128 => &[P::C128],
        P::S8 => &[P::S32, P::F32, P::S8],
        P::U8 => &[P::S32, P::F32, P::U8],
        P::S32 => &[P::S32],
        ty if ty.is_floating() => &[
            P::F32,
            P::BF16,
            P::F16,
            P::F8E4M3FN,
            P::F8E5M2,
            P::F8E4M3FNUZ,
            P::F8E5M2FNUZ,
            P::F8E4M3,
            P::F8E3M4,
            P::F8E4M3B11FNUZ,
        ],
        _ => &[],
    }
}

/// A result of a product of operands 0 and 1, of these sizes.
fn product_slot(i: InstructionRef<'_>, dims: &[i64]) -> Result<Slot, String> {
    let (lhs, rhs) = (array(i, 0)?.element_type, array(i, 1)?.element_type);
    let narrow = |ty: PrimitiveType| ty.is_floating() && ty.bit_width() <= 8;
    if lhs != rhs && !(narrow(lhs) && narrow(rhs)) {
        return Err(format!(
            "{}, expected element type {} like operand 0",
            describe(i, 1),
            lhs.name()
        ));
    }
    match product_types(lhs) {
        [first, more @ ..] => Ok(Slot::array(*first, dims).or_types(more)),
        [] => Err(format!("{}, which no library multiplies", describe(i, 0))),
    }
}
