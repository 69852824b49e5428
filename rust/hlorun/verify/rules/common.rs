//! What all families ask of an instruction: arrays, attributes and dimension lists, each with an
//! error that says what was found instead.

use crate::module::{AttrKey, AttrValue, ComputationId, InstructionRef};
use crate::types::{ArrayShape, Dims, PrimitiveType, ShapeId};
use crate::verify::inferred::{InferredShape, show, show_array};

/// The result of a rule: an inferred shape, or one sentence.
pub type Infer = Result<InferredShape, String>;

/// Most dimensions an array may have, so that sets of them fit a word.
pub const MAX_RANK: usize = ArrayShape::MAX_RANK;

/// `operand 1 %b is f32[3]`.
#[cold]
pub fn describe(i: InstructionRef<'_>, k: usize) -> String {
    match i.operand(k) {
        Some(operand) => format!(
            "operand {k} %{} is {}",
            operand.name(),
            show(i.module.shapes(), operand.shape_id())
        ),
        None => format!("operand {k} is missing"),
    }
}

/// Operand `k` as an array.
pub fn array<'m>(i: InstructionRef<'m>, k: usize) -> Result<&'m ArrayShape, String> {
    i.operand(k)
        .and_then(InstructionRef::array_shape)
        .ok_or_else(|| format!("{}, expected an array", describe(i, k)))
}

/// The declared result as an array.
pub fn declared_array(i: InstructionRef<'_>) -> Result<&ArrayShape, String> {
    i.array_shape().ok_or_else(|| {
        format!(
            "declares {}, expected an array",
            show(i.module.shapes(), i.shape_id())
        )
    })
}

/// Operand `k` as an array of rank 0.
pub fn scalar<'m>(i: InstructionRef<'m>, k: usize) -> Result<&'m ArrayShape, String> {
    let shape = array(i, k)?;
    if shape.rank() == 0 {
        Ok(shape)
    } else {
        Err(format!("{}, expected a scalar", describe(i, k)))
    }
}

/// The shape of operand `k`.
pub fn same_as_operand(i: InstructionRef<'_>, k: usize) -> Infer {
    Ok(InferredShape::Same(operand_shape(i, k)?))
}

/// The id of the shape of operand `k`.
pub fn operand_shape(i: InstructionRef<'_>, k: usize) -> Result<ShapeId, String> {
    i.operand(k)
        .map(InstructionRef::shape_id)
        .ok_or_else(|| describe(i, k))
}

/// All operands as arrays.
pub fn arrays<'m>(i: InstructionRef<'m>) -> Result<Vec<&'m ArrayShape>, String> {
    (0..i.operand_ids().len()).map(|k| array(i, k)).collect()
}

/// That operand `k` has the element type `expected`, which `because` explains.
pub fn want_type(
    i: InstructionRef<'_>,
    k: usize,
    expected: PrimitiveType,
    because: &str,
) -> Result<(), String> {
    if array(i, k)?.element_type == expected {
        return Ok(());
    }
    Err(format!(
        "{}, expected element type {}{because}",
        describe(i, k),
        expected.name()
    ))
}

/// That operand `k` has sizes and type of `expected`.
pub fn want_same(
    i: InstructionRef<'_>,
    k: usize,
    expected: &ArrayShape,
    because: &str,
) -> Result<(), String> {
    let found = array(i, k)?;
    if found.element_type == expected.element_type
        && crate::verify::inferred::dims_fit(&found.dims, &expected.dims)
    {
        return Ok(());
    }
    Err(format!(
        "{}, expected {}{because}",
        describe(i, k),
        show_array(expected)
    ))
}

/// That operand `k` has the sizes `expected`.
pub fn want_dims(
    i: InstructionRef<'_>,
    k: usize,
    expected: &[i64],
    because: &str,
) -> Result<(), String> {
    let found = array(i, k)?;
    if crate::verify::inferred::dims_fit(&found.dims, expected) {
        return Ok(());
    }
    Err(format!(
        "{}, expected dimensions {}{because}",
        describe(i, k),
        list(expected)
    ))
}

/// `{1,0}`.
#[cold]
pub fn list(values: &[i64]) -> String {
    let mut out = String::from("{");
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        if i == 32 {
            out.push('…');
            break;
        }
        out.push_str(&value.to_string());
    }
    out.push('}');
    out
}

#[cold]
fn key_name(i: InstructionRef<'_>, key: AttrKey) -> String {
    match key {
        AttrKey::Other(text) => i.module.str(text).into_owned(),
        known => known.name().unwrap_or("?").to_owned(),
    }
}

#[cold]
fn missing(i: InstructionRef<'_>, key: AttrKey) -> String {
    format!(
        "has no attribute {}, which {} needs",
        key_name(i, key),
        i.opcode_name()
    )
}

#[cold]
fn wrong_form(i: InstructionRef<'_>, key: AttrKey, expected: &str) -> String {
    format!("attribute {} is not {expected}", key_name(i, key))
}

/// An integer list that may be absent, which is the empty list.
pub fn ints<'m>(i: InstructionRef<'m>, key: AttrKey) -> Result<&'m [i64], String> {
    match i.attribute(key) {
        None => Ok(&[]),
        Some(AttrValue::Ints(range)) => Ok(i.module.int_list(*range)),
        Some(_) => Err(wrong_form(i, key, "a list of whole numbers in braces")),
    }
}

/// An integer list that must be there.
pub fn need_ints<'m>(i: InstructionRef<'m>, key: AttrKey) -> Result<&'m [i64], String> {
    if i.attribute(key).is_none() {
        return Err(missing(i, key));
    }
    ints(i, key)
}

/// The one dimension that `dimensions=` names.
pub fn one_dimension(i: InstructionRef<'_>) -> Result<i64, String> {
    match need_ints(i, AttrKey::Dimensions)? {
        [dim] => Ok(*dim),
        dims => Err(format!(
            "dimensions={} has {} entries, expected one",
            list(dims),
            dims.len()
        )),
    }
}

/// An integer that may be absent.
pub fn int(i: InstructionRef<'_>, key: AttrKey) -> Result<Option<i64>, String> {
    match i.attribute(key) {
        None => Ok(None),
        Some(AttrValue::Int(value)) => Ok(Some(*value)),
        Some(_) => Err(wrong_form(i, key, "a whole number")),
    }
}

/// An integer that must be there.
pub fn need_int(i: InstructionRef<'_>, key: AttrKey) -> Result<i64, String> {
    int(i, key)?.ok_or_else(|| missing(i, key))
}

/// A number that must be there.
pub fn need_float(i: InstructionRef<'_>, key: AttrKey) -> Result<f64, String> {
    if i.attribute(key).is_none() {
        return Err(missing(i, key));
    }
    i.float(key).ok_or_else(|| wrong_form(i, key, "a number"))
}

/// A boolean that may be absent.
pub fn boolean(i: InstructionRef<'_>, key: AttrKey) -> Result<Option<bool>, String> {
    match i.attribute(key) {
        None => Ok(None),
        Some(AttrValue::Bool(value)) => Ok(Some(*value)),
        Some(_) => Err(wrong_form(i, key, "true or false")),
    }
}

/// One word out of `allowed`; `None` when absent.
pub fn word<'a>(
    i: InstructionRef<'_>,
    key: AttrKey,
    allowed: &'a [&'a str],
) -> Result<Option<&'a str>, String> {
    let text = match i.attribute(key) {
        None => return Ok(None),
        Some(AttrValue::Enum(text) | AttrValue::String(text) | AttrValue::Raw(text)) => {
            i.module.str(*text)
        }
        Some(_) => {
            return Err(wrong_form(
                i,
                key,
                &format!("one of {}", allowed.join(", ")),
            ));
        }
    };
    match allowed.iter().find(|word| **word == text) {
        Some(word) => Ok(Some(word)),
        None => Err(format!(
            "attribute {} is {text}, expected one of {}",
            key_name(i, key),
            allowed.join(", ")
        )),
    }
}

/// One word out of `allowed` that must be there.
pub fn need_word<'a>(
    i: InstructionRef<'_>,
    key: AttrKey,
    allowed: &'a [&'a str],
) -> Result<&'a str, String> {
    word(i, key, allowed)?.ok_or_else(|| missing(i, key))
}

/// A computation that must be there.
pub fn need_computation(i: InstructionRef<'_>, key: AttrKey) -> Result<ComputationId, String> {
    match i.attribute(key) {
        None => Err(missing(i, key)),
        Some(AttrValue::Computation(id)) => Ok(*id),
        Some(AttrValue::Computations(ids)) if ids.len() == 1 => Ok(ids[0]),
        Some(_) => Err(wrong_form(i, key, "one computation")),
    }
}

/// That `key` is there in any form.
pub fn need(i: InstructionRef<'_>, key: AttrKey) -> Result<&AttrValue, String> {
    i.attribute(key).ok_or_else(|| missing(i, key))
}

/// `dimension`, which `what` says, as an index below `rank`.
pub fn dimension(what: &str, dimension: i64, rank: usize) -> Result<usize, String> {
    usize::try_from(dimension)
        .ok()
        .filter(|&d| d < rank)
        .ok_or_else(|| format!("{what} {dimension} is out of range: the rank is {rank}"))
}

/// A set of dimensions below 64.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct DimSet(u64);

impl DimSet {
    /// Whether `dim` is in it.
    pub fn has(self, dim: usize) -> bool {
        dim < 64 && self.0 >> dim & 1 == 1
    }

    /// Adds `dim`; `false` when it was there.
    pub fn add(&mut self, dim: usize) -> bool {
        let new = dim < 64 && !self.has(dim);
        self.0 |= if dim < 64 { 1 << dim } else { 0 };
        new
    }
}

/// The dimensions of a list: each below `rank`, none twice.
pub fn dim_set(what: &str, dims: &[i64], rank: usize) -> Result<DimSet, String> {
    let mut set = DimSet::default();
    for &dim in dims {
        let Ok(index) = dimension(what, dim, rank) else {
            return Err(format!(
                "{what}={} names dimension {dim}, but the rank is {rank}",
                list(dims)
            ));
        };
        if !set.add(index) {
            return Err(format!("{what}={} names dimension {dim} twice", list(dims)));
        }
    }
    Ok(set)
}

/// As [`dim_set`], and in ascending order.
pub fn sorted_dim_set(what: &str, dims: &[i64], rank: usize) -> Result<DimSet, String> {
    let set = dim_set(what, dims, rank)?;
    if dims.is_sorted() {
        Ok(set)
    } else {
        Err(format!("{what}={} is not in ascending order", list(dims)))
    }
}

/// `dims` without the dimensions of `drop`.
pub fn without(dims: &[i64], drop: DimSet) -> Dims {
    dims.iter()
        .enumerate()
        .filter(|(d, _)| !drop.has(*d))
        .map(|(_, &size)| size)
        .collect()
}

/// A size that was computed; names what overflowed.
pub fn size(value: Option<i64>, what: &str) -> Result<i64, String> {
    value.ok_or_else(|| format!("{what} overflows 64 bits"))
}
