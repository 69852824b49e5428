//! Functions of constants: jaxlib computes them while it converts, in `f64`, and rounds the result.
//!
//! hlorun would compute them with its own functions, whose last bit may be another one.

use super::{Body, Writer};
use crate::module::HloOpcode;
use smallvec::SmallVec;

use crate::stablehlo::table::Form;
use crate::stablehlo::tree::Operation;
use crate::stablehlo::{Declined, Read};
use crate::types::{ArrayShape, Literal, PrimitiveType};

/// A function of one number.
type Function = fn(f64) -> f64;

/// The functions that jaxlib computes; `log1p`, `expm1` and `cbrt` are left as they are.
const FUNCTIONS: &[(HloOpcode, Function)] = &[
    (HloOpcode::Cos, f64::cos),
    (HloOpcode::Exp, f64::exp),
    (HloOpcode::Log, f64::ln),
    (HloOpcode::Logistic, |x| 1.0 / (1.0 + (-x).exp())),
    (HloOpcode::Rsqrt, |x| 1.0 / x.sqrt()),
    (HloOpcode::Sin, f64::sin),
    (HloOpcode::Sqrt, f64::sqrt),
    (HloOpcode::Tan, f64::tan),
    (HloOpcode::Tanh, f64::tanh),
];

/// The elements of a value, or the one that stands for all.
pub type Numbers = SmallVec<[f64; 1]>;

/// Elements of an array that are kept in mind.
const MOST_NUMBERS: usize = 64;

impl<'a> Writer<'_, 'a> {
    /// Notes what numbers an operation gives, where those are known and finite. Whether it computes them, so
    /// that they can be written instead.
    pub fn note_numbers(&mut self, operation: &Operation<'a>) -> Read<bool> {
        let result = operation.results.start;
        let Ok(array) = self.array(result) else {
            return Ok(false);
        };
        let element = array.element_type;
        let operands = self.tree.operands(operation);
        // Integers wrap around, so that arithmetic on them is not computed here: only broadcasts are noted.
        let is_spread = operation.row.form == Form::BroadcastInDim;
        if !matches!(element, PrimitiveType::F32 | PrimitiveType::F64) && !is_spread {
            return Ok(false);
        }
        let known = |at: usize| {
            let value = operands.get(at).copied();
            value.and_then(|value| self.numbers[value as usize].as_ref())
        };
        let opcode = operation.row.opcode;
        let numbers = match (operation.row.form, known(0), known(1), operands.len()) {
            (Form::Accurate, Some(a), _, 1) => {
                let row = FUNCTIONS.iter().find(|row| row.0 == opcode);
                row.map(|(_, function)| a.iter().map(|&a| function(a)).collect())
            }
            // Several elements would lie at other places in the result.
            (Form::BroadcastInDim, Some(a), _, 1) if a.len() == 1 => Some(a.clone()),
            (Form::Plain, Some(a), _, 1) => match opcode {
                HloOpcode::Reshape | HloOpcode::Convert => Some(a.clone()),
                HloOpcode::Abs => Some(a.iter().map(|a| a.abs()).collect()),
                HloOpcode::Negate => Some(a.iter().map(|a| -a).collect()),
                _ => None,
            },
            (Form::Plain, Some(a), Some(b), 2) => of_both(opcode, a, b),
            _ => None,
        };
        let numbers: Option<Numbers> = numbers.map(|numbers: Numbers| {
            let rounded = numbers.iter().map(|&number| round(number, element));
            rounded.collect()
        });
        let numbers = numbers.filter(|numbers| numbers.iter().all(|number| number.is_finite()));
        let is_known = numbers.is_some();
        self.numbers[result as usize] = numbers;
        let is_computed = matches!(operation.row.form, Form::Accurate | Form::Plain);
        Ok(is_computed && is_known)
    }

    /// The operand that an operation gives as it is: a conversion to the type it has, or an integer times 1.
    pub fn unchanged(&self, operation: &Operation<'a>) -> Option<u32> {
        let array = self.array(operation.results.start).ok()?;
        let operands = self.tree.operands(operation);
        let is_one = |value: u32| {
            let numbers = self.numbers[value as usize].as_deref();
            numbers.is_some_and(|numbers| numbers == [1.0])
        };
        let operand = match (operation.row.opcode, operands) {
            (HloOpcode::Convert, &[operand]) => operand,
            (HloOpcode::Multiply, &[a, b]) if array.element_type.is_integral() => {
                match (is_one(a), is_one(b)) {
                    (true, _) => b,
                    (_, true) => a,
                    _ => return None,
                }
            }
            _ => return None,
        };
        (self.array(operand).ok()? == array).then_some(operand)
    }

    /// The number that all elements of a value are.
    pub fn known_number(&self, value: u32) -> Option<f64> {
        match self.numbers[value as usize].as_deref() {
            Some(&[number]) => Some(number),
            _ => None,
        }
    }

    /// Notes the numbers that a constant is.
    pub fn note_constant(&mut self, value: u32, literal: &Literal) {
        let count = literal.shape.element_count().unwrap_or(i64::MAX);
        if !(1..=MOST_NUMBERS as i64).contains(&count) {
            return;
        }
        let bytes = literal.bytes().unwrap_or_default();
        let numbers: Numbers = match literal.shape.element_type {
            PrimitiveType::F32 => {
                let parts = bytes.as_chunks().0.iter();
                parts.map(|&part| f32::from_le_bytes(part).into()).collect()
            }
            PrimitiveType::F64 => {
                let parts = bytes.as_chunks().0.iter();
                parts.map(|&part| f64::from_le_bytes(part)).collect()
            }
            PrimitiveType::U32 => {
                let parts = bytes.as_chunks().0.iter();
                parts.map(|&part| u32::from_le_bytes(part).into()).collect()
            }
            // One is all that is asked of these.
            PrimitiveType::S64 | PrimitiveType::U64 if count == 1 => match bytes {
                [1, 0, 0, 0, 0, 0, 0, 0] => Numbers::from_slice(&[1.0]),
                _ => return,
            },
            PrimitiveType::S32 => {
                let parts = bytes.as_chunks().0.iter();
                parts.map(|&part| i32::from_le_bytes(part).into()).collect()
            }
            _ => return,
        };
        if numbers.iter().all(|number| number.is_finite()) {
            self.numbers[value as usize] = Some(numbers);
        }
    }

    /// Writes the numbers that an operation gives.
    pub fn put_numbers(&mut self, body: &mut Body, operation: &Operation<'a>) -> Read<()> {
        let result = operation.results.start;
        let numbers = self.numbers[result as usize].clone().unwrap_or_default();
        let array = self.array(result)?;
        let is_splat = numbers.len() == 1 && !array.dims.is_empty();
        let shape = match is_splat {
            true => ArrayShape::new(array.element_type, &[]),
            false => array.clone(),
        };
        let bytes: Vec<u8> = match array.element_type {
            PrimitiveType::F32 => {
                let parts = numbers.iter().map(|&number| (number as f32).to_le_bytes());
                parts.flatten().collect()
            }
            _ => numbers
                .iter()
                .flat_map(|number| number.to_le_bytes())
                .collect(),
        };
        let literal = Literal::from_bytes(shape, bytes.into_boxed_slice());
        let literal = literal.ok_or(Declined::because("a constant of another size"))?;
        self.put_constant(body, result, literal, is_splat)
    }
}

/// What arithmetic makes of two arrays of one shape, of which each may be one number.
fn of_both(opcode: HloOpcode, a: &Numbers, b: &Numbers) -> Option<Numbers> {
    let compute: fn(f64, f64) -> f64 = match opcode {
        HloOpcode::Add => |a, b| a + b,
        HloOpcode::Subtract => |a, b| a - b,
        HloOpcode::Multiply => |a, b| a * b,
        HloOpcode::Divide => |a, b| a / b,
        _ => return None,
    };
    let count = a.len().max(b.len());
    if (a.len() != 1 && a.len() != count) || (b.len() != 1 && b.len() != count) {
        return None;
    }
    let pairs = (0..count).map(|at| (a[at % a.len()], b[at % b.len()]));
    Some(pairs.map(|(a, b)| compute(a, b)).collect())
}

/// The number as the element type has it. One of `f64` arithmetic on two of `f32` rounds as `f32`'s own.
fn round(value: f64, element: PrimitiveType) -> f64 {
    match element {
        PrimitiveType::F32 => f64::from(value as f32),
        _ => value,
    }
}
