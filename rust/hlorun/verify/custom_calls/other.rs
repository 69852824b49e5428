//! Random bits, Fourier transforms, dynamic sizes, annotations.

use super::*;
use crate::library::annotation::Annotation;
use crate::types::Dims;

/// `(k0, k1, x0, x1)` of one shape, or single elements, to two arrays of that shape.
pub fn threefry(i: InstructionRef<'_>) -> Result<(), String> {
    operand_count(i, 4, usize::MAX)?;
    for k in 0..4 {
        want_type(i, k, PrimitiveType::U32, "")?;
    }
    let is_one = |k: &usize| array(i, *k).is_ok_and(|shape| shape.element_count() == Some(1));
    let whole = (0..4).rev().find(|k| !is_one(k)).unwrap_or(3);
    let dims = &array(i, whole)?.dims;
    for k in (0..4).filter(|k| !is_one(k)) {
        want_dims(i, k, dims, &format!(" like operand {whole}"))?;
    }
    let slot = Slot::array(PrimitiveType::U32, dims);
    returns(i, &[slot.clone(), slot]).map(drop)
}

/// Operand 0 describes the transform of operand 1; the other operands repeat its sizes.
pub fn fft(i: InstructionRef<'_>) -> Result<(), String> {
    use PrimitiveType as P;
    operand_count(i, 2, usize::MAX)?;
    want_type(i, 0, P::U8, ", the bytes that describe the transform")?;
    let operand = array(i, 1)?;
    let result = declared_array(i)?;
    let Some((&size, rest)) = operand.dims.split_last() else {
        return Err(format!(
            "{}, expected at least one dimension",
            describe(i, 1)
        ));
    };
    let half = |n: i64| if n == 0 { 0 } else { n / 2 + 1 };
    let whole = result.dims.last().copied().unwrap_or(0);
    let (ty, last) = match (operand.element_type, result.element_type) {
        (P::F32, _) => (P::C64, half(size)),
        (P::F64, _) => (P::C128, half(size)),
        (P::C64, P::F32) if half(whole) == size => (P::F32, whole),
        (P::C128, P::F64) if half(whole) == size => (P::F64, whole),
        (ty @ (P::C64 | P::C128), _) => (ty, size),
        _ => {
            return Err(format!(
                "{}, expected f32, f64, c64 or c128",
                describe(i, 1)
            ));
        }
    };
    let dims: Dims = rest.iter().copied().chain([last]).collect();
    returns_array(i, Slot::array(ty, &dims))
}

/// An array in; its elements and the size of each dimension out.
pub fn pad_to_static(i: InstructionRef<'_>) -> Result<(), String> {
    operand_count(i, 1, 1)?;
    let operand = array(i, 0)?;
    let mut slots = vec![Slot::array(operand.element_type, &operand.dims)];
    slots.extend(vec![Slot::array(PrimitiveType::S32, &[]); operand.rank()]);
    returns(i, &slots).map(drop)
}

/// An array and the size of each of its dimensions in; an array of those sizes out.
pub fn slice_to_dynamic(i: InstructionRef<'_>) -> Result<(), String> {
    let operand = array(i, 0)?;
    operand_count(i, 1 + operand.rank(), 1 + operand.rank())?;
    for k in 1..=operand.rank() {
        want_type(i, k, PrimitiveType::S32, ", the size of a dimension")?;
        scalar(i, k)?;
    }
    returns_array(i, Slot::array(operand.element_type, &operand.dims))
}

/// The arrays of `i`'s operands, and those of its result, in order; `None` when there are too many.
fn leaves(i: InstructionRef<'_>) -> Option<(Vec<&ArrayShape>, Vec<&ArrayShape>)> {
    const MOST: usize = 1 << 16;
    let table = i.module.shapes();
    let mut operands = Vec::new();
    for operand in i.operands() {
        let leaves = table.leaves(operand.shape_id(), MOST)?;
        operands.extend(
            leaves
                .iter()
                .filter_map(|leaf| table.get(leaf.1).as_array()),
        );
        if operands.len() > MOST {
            return None;
        }
    }
    let results = table.leaves(i.shape_id(), MOST)?;
    let results = results
        .iter()
        .filter_map(|leaf| table.get(leaf.1).as_array());
    Some((operands, results.collect()))
}

/// Results are the operands, or are not there.
pub fn annotation(i: InstructionRef<'_>, kind: Annotation) -> Result<(), String> {
    if kind == Annotation::Allocation {
        return operand_count(i, 0, 0);
    }
    let Some((operands, results)) = leaves(i) else {
        return Ok(());
    };
    let is_one_device = i.module.config.num_partitions.unwrap_or(1) <= 1;
    let same = |a: &ArrayShape, b: &ArrayShape| {
        let may_be_part = kind == Annotation::Resharding && !is_one_device;
        a.element_type == b.element_type
            && a.rank() == b.rank()
            && (may_be_part || a.dims == b.dims)
    };
    let fits = results.is_empty()
        || kind != Annotation::Silent
            && operands.len() == results.len()
            && operands.iter().zip(&results).all(|(a, b)| same(a, b));
    if fits {
        return Ok(());
    }
    Err(match kind {
        Annotation::Silent => mismatch(i, "nothing"),
        _ => mismatch(i, "its operands as they are"),
    })
}
