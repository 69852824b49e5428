//! `add`, `compare`, `select`, `convert`, `complex` and their kin: results element by element.

use super::common::*;
use crate::module::{AttrKey, AttrValue, HloOpcode, InstructionRef};
use crate::types::{ArrayShape, Dims, PrimitiveType};
use crate::verify::inferred::{InferredShape, dims_fit};

/// Element types an operation takes.
struct Accepts {
    pred: bool,
    integral: bool,
    floating: bool,
    complex: bool,
}

impl Accepts {
    const fn new(pred: bool, integral: bool, floating: bool, complex: bool) -> Accepts {
        Accepts {
            pred,
            integral,
            floating,
            complex,
        }
    }

    fn has(&self, element_type: PrimitiveType) -> bool {
        (self.pred && element_type == PrimitiveType::Pred)
            || (self.integral && element_type.is_integral())
            || (self.floating && element_type.is_floating())
            || (self.complex && element_type.is_complex())
    }

    fn describe(&self) -> String {
        [
            (self.pred, "pred"),
            (self.integral, "integers"),
            (self.floating, "floating point"),
            (self.complex, "complex"),
        ]
        .iter()
        .filter(|row| row.0)
        .map(|row| row.1)
        .collect::<Vec<_>>()
        .join(" or ")
    }
}

const ANY: Accepts = Accepts::new(true, true, true, true);
const NUMBERS: Accepts = Accepts::new(false, true, true, true);
const BITS: Accepts = Accepts::new(true, true, false, false);
const INTEGERS: Accepts = Accepts::new(false, true, false, false);
const REAL: Accepts = Accepts::new(false, false, true, false);
const ANALYTIC: Accepts = Accepts::new(false, false, true, true);

/// The element types of an elementwise opcode's operands; `ANY` for all others.
fn accepts(opcode: HloOpcode) -> &'static Accepts {
    use HloOpcode::*;
    match opcode {
        Floor | Ceil | RoundNearestAfz | RoundNearestEven | Erf | IsFinite | ReducePrecision
        | StochasticConvert => &REAL,
        Power => &NUMBERS,
        _ if opcode.is_transcendental() => &ANALYTIC,
        Clz | PopulationCount | Mulhi | ShiftLeft | ShiftRightArithmetic | ShiftRightLogical => {
            &INTEGERS
        }
        Not | And | Or | Xor => &BITS,
        Negate | Sign | Abs | Subtract | Divide | Remainder => &NUMBERS,
        _ => &ANY,
    }
}

fn check_type(i: InstructionRef<'_>, k: usize, accepts: &Accepts) -> Result<(), String> {
    if accepts.has(array(i, k)?.element_type) {
        return Ok(());
    }
    Err(format!(
        "{}, but {} takes {}",
        describe(i, k),
        i.opcode_name(),
        accepts.describe()
    ))
}

/// One operand.
pub fn unary(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    check_type(i, 0, accepts(i.opcode()))?;
    match i.opcode() {
        HloOpcode::IsFinite => Ok(InferredShape::array(PrimitiveType::Pred, &operand.dims)),
        HloOpcode::Abs if operand.element_type.is_complex() => Ok(InferredShape::array(
            operand.element_type.component(),
            &operand.dims,
        )),
        _ => same_as_operand(i, 0),
    }
}

/// Two operands of one shape.
pub fn binary(i: InstructionRef<'_>) -> Infer {
    let lhs = array(i, 0)?;
    check_type(i, 0, accepts(i.opcode()))?;
    want_same(i, 1, lhs, " like operand 0")?;
    same_as_operand(i, 0)
}

/// `compare`.
pub fn compare(i: InstructionRef<'_>) -> Infer {
    let lhs = array(i, 0)?;
    want_same(i, 1, lhs, " like operand 0")?;
    let direction = need_word(i, AttrKey::Direction, &["EQ", "NE", "GE", "GT", "LE", "LT"])?;
    if lhs.element_type.is_complex() && !matches!(direction, "EQ" | "NE") {
        return Err(format!(
            "direction={direction} orders complex numbers, which only compare EQ and NE"
        ));
    }
    let class = match lhs.element_type {
        PrimitiveType::Pred => "UNSIGNED",
        other if other.is_signed_integral() => "SIGNED",
        other if other.is_unsigned_integral() => "UNSIGNED",
        _ => "FLOAT",
    };
    let kind = word(
        i,
        AttrKey::Type,
        &["FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"],
    )?;
    if let Some(kind) = kind
        && kind != class
        && !(kind == "TOTALORDER" && class == "FLOAT")
    {
        return Err(format!(
            "type={kind} does not fit elements of type {}",
            lhs.element_type.name()
        ));
    }
    Ok(InferredShape::array(PrimitiveType::Pred, &lhs.dims))
}

/// `select` and `tuple-select`.
pub fn select(i: InstructionRef<'_>) -> Infer {
    if i.opcode() == HloOpcode::TupleSelect {
        scalar(i, 0)?;
        want_type(i, 0, PrimitiveType::Pred, "")?;
        return same_as_operand(i, 1);
    }
    let on_true = array(i, 1)?;
    want_type(i, 0, PrimitiveType::Pred, "")?;
    if array(i, 0)?.rank() > 0 {
        want_dims(i, 0, &on_true.dims, " like operand 1, or a scalar")?;
    }
    want_same(i, 2, on_true, " like operand 1")?;
    same_as_operand(i, 1)
}

/// `clamp`.
pub fn clamp(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 1)?;
    for k in [0, 2] {
        want_type(i, k, operand.element_type, " like operand 1")?;
        if array(i, k)?.rank() > 0 {
            want_dims(i, k, &operand.dims, " like operand 1, or a scalar")?;
        }
    }
    same_as_operand(i, 1)
}

/// `convert`, `reduce-precision`, `stochastic-convert`.
pub fn convert(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    check_type(i, 0, accepts(i.opcode()))?;
    if i.opcode() == HloOpcode::ReducePrecision {
        let exponent = need_int(i, AttrKey::ExponentBits)?;
        let mantissa = need_int(i, AttrKey::MantissaBits)?;
        if exponent < 1 || mantissa < 0 {
            return Err(format!(
                "exponent_bits={exponent}, mantissa_bits={mantissa}: expected at least one \
                 exponent bit and no negative number of mantissa bits"
            ));
        }
        return same_as_operand(i, 0);
    }
    let to = declared_array(i)?.element_type;
    if i.opcode() == HloOpcode::StochasticConvert {
        let random = array(i, 1)?;
        want_dims(i, 1, &operand.dims, " like operand 0")?;
        if !random.element_type.is_unsigned_integral()
            || random.element_type.bit_width() != operand.element_type.bit_width()
        {
            return Err(format!(
                "{}, expected unsigned integers as wide as {}",
                describe(i, 1),
                operand.element_type.name()
            ));
        }
    }
    Ok(InferredShape::array(to, &operand.dims))
}

/// Bits one element takes where values are reinterpreted: a `pred` is a byte.
fn storage_bits(element_type: PrimitiveType) -> u32 {
    match element_type {
        PrimitiveType::Pred => 8,
        other => other.bit_width(),
    }
}

/// `bitcast-convert`: a wider element becomes a row of narrower ones, and back.
pub fn bitcast_convert(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    let to = declared_array(i)?.element_type;
    let from_bits = storage_bits(operand.element_type);
    let to_bits = storage_bits(to);
    if operand.element_type.is_complex() != to.is_complex() {
        return Err(format!(
            "has no meaning between {} and {}: complex numbers are no plain bits",
            operand.element_type.name(),
            to.name()
        ));
    }
    let mut dims: Dims = operand.dims.clone();
    if from_bits > to_bits {
        if !from_bits.is_multiple_of(to_bits) {
            return Err(widths(operand, to));
        }
        dims.push(i64::from(from_bits / to_bits));
    } else if from_bits < to_bits {
        if !to_bits.is_multiple_of(from_bits) {
            return Err(widths(operand, to));
        }
        let ratio = i64::from(to_bits / from_bits);
        if dims.pop() != Some(ratio) {
            return Err(format!(
                "{}, expected a last dimension of size {ratio}: so many elements make one {}",
                describe(i, 0),
                to.name()
            ));
        }
    }
    Ok(InferredShape::Array {
        element_type: to,
        dims,
    })
}

#[cold]
fn widths(operand: &ArrayShape, to: PrimitiveType) -> String {
    format!(
        "the width of {} is no multiple of that of {}, nor the other way round",
        operand.element_type.name(),
        to.name()
    )
}

/// `complex`, `real`, `imag`.
pub fn complex(i: InstructionRef<'_>) -> Infer {
    let operand = array(i, 0)?;
    if i.opcode() == HloOpcode::Complex {
        want_same(i, 1, operand, " like operand 0")?;
        let whole = match operand.element_type {
            PrimitiveType::F32 => PrimitiveType::C64,
            PrimitiveType::F64 => PrimitiveType::C128,
            _ => {
                return Err(format!("{}, expected f32 or f64", describe(i, 0)));
            }
        };
        return Ok(InferredShape::array(whole, &operand.dims));
    }
    check_type(i, 0, &ANALYTIC)?;
    Ok(InferredShape::array(
        operand.element_type.component(),
        &operand.dims,
    ))
}

/// `parameter`: as many entries of `parameter_replication` as arrays.
pub fn parameter(i: InstructionRef<'_>) -> Infer {
    if let Some(AttrValue::Bools(stated)) = i.attribute(AttrKey::ParameterReplication) {
        // One beyond those that are stated tells that there are more.
        let leaves = i.module.shapes().leaves(i.shape_id(), stated.len() + 2);
        if leaves.as_ref().map(Vec::len) != Some(stated.len()) {
            return Err(format!(
                "has {} entries in parameter_replication, expected one for each array",
                stated.len()
            ));
        }
    }
    Ok(InferredShape::AsDeclared)
}

/// `constant`: the value has the declared shape.
pub fn constant(i: InstructionRef<'_>) -> Infer {
    if i.data().immediate as usize >= i.module.literal_count() {
        return Err("has no value".to_owned());
    }
    let Some(literal) = i.literal() else {
        return Err("has no value".to_owned());
    };
    check_literal(i, literal)?;
    Ok(InferredShape::AsDeclared)
}

/// That a literal fits the declared shape, part by part.
fn check_literal(i: InstructionRef<'_>, literal: &crate::types::Literal) -> Result<(), String> {
    use crate::types::{LiteralValue, Shape};
    let table = i.module.shapes();
    let mut stack = vec![(literal, i.shape_id())];
    while let Some((literal, id)) = stack.pop() {
        let fits = match (&literal.value, table.get(id)) {
            (LiteralValue::Array(bytes), Shape::Array(array)) => {
                array.element_type == literal.shape.element_type
                    && dims_fit(&array.dims, &literal.shape.dims)
                    && literal.shape.byte_size() == Some(bytes.len())
            }
            (LiteralValue::Elided, _) | (LiteralValue::Token, Shape::Token) => true,
            (LiteralValue::Tuple(values), Shape::Tuple(parts)) => {
                stack.extend(values.iter().zip(parts.iter().copied()));
                values.len() == parts.len()
            }
            (LiteralValue::Array(_) | LiteralValue::Token | LiteralValue::Tuple(_), _) => false,
        };
        if !fits {
            return Err(format!(
                "its value does not have the declared shape {}",
                crate::verify::inferred::show(table, id)
            ));
        }
    }
    Ok(())
}

/// `iota`.
pub fn iota(i: InstructionRef<'_>) -> Infer {
    let shape = declared_array(i)?;
    let given = i64::from(i.data().immediate);
    let rank = shape.rank();
    if rank == 0 {
        return Err("declares a scalar; iota counts along a dimension".to_owned());
    }
    dimension("iota_dimension", given, rank)?;
    if shape.element_type == PrimitiveType::Pred {
        return Err("declares pred, which cannot count".to_owned());
    }
    Ok(InferredShape::AsDeclared)
}

/// `tuple`, `get-tuple-element`.
pub fn tuple(i: InstructionRef<'_>) -> Infer {
    if i.opcode() == HloOpcode::Tuple {
        return Ok(InferredShape::Tuple(
            i.operands()
                .map(|operand| InferredShape::Same(operand.shape_id()))
                .collect(),
        ));
    }
    let parts = i.operand(0).and_then(|operand| operand.shape().as_tuple());
    let Some(parts) = parts else {
        return Err(format!("{}, expected a tuple", describe(i, 0)));
    };
    let index = i.data().immediate;
    match parts.get(index as usize) {
        Some(&part) => Ok(InferredShape::Same(part)),
        None => Err(format!(
            "index={index} is out of range: operand 0 has {} elements",
            parts.len()
        )),
    }
}
