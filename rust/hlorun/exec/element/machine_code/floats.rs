//! Operations on `f32` and `f64` as instructions: each rounds once, none is fused with another. Long
//! ones are calls of functions that give the bits of the kernels.
//!
//! Cranelift's `fmin` and `fmax` are those of the kernels: NaN comes through, and -0 is less than 0.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlags, Signature, Value, types};
use cranelift_frontend::FunctionBuilder;
use hlorun_kernels::scalar_bytecode;
use hlorun_kernels::{BinaryOp, CompareDirection, DType, UnaryOp};

type Builder<'b> = FunctionBuilder<'b>;

/// Operations of one number that are instructions.
fn is_short(op: UnaryOp) -> bool {
    use UnaryOp::*;
    matches!(
        op,
        Abs | Negate
            | Sign
            | Floor
            | Ceil
            | RoundNearestAfz
            | RoundNearestEven
            | Sqrt
            | Rsqrt
            | IsFinite
            | Real
            | Imag
    )
}

/// Whether an operation is a call of a function.
pub fn is_unary_call(op: UnaryOp) -> bool {
    !is_short(op) && scalar_bytecode::unary_function(op, DType::F32).is_some()
}

/// The same of two numbers.
pub fn is_binary_call(op: BinaryOp) -> bool {
    use BinaryOp::*;
    matches!(op, Remainder | Power | Atan2)
}

/// Whether an operation is instructions or a call.
pub fn has_unary(op: UnaryOp) -> bool {
    is_short(op) || is_unary_call(op)
}

/// The same of two numbers.
pub fn has_binary(op: BinaryOp) -> bool {
    use BinaryOp::*;
    let is_short = matches!(op, Add | Subtract | Multiply | Divide | Maximum | Minimum);
    is_short || is_binary_call(op)
}

/// Calls the function that `find` knows for the type of `x`.
fn call(
    b: &mut Builder<'_>,
    find: impl Fn(DType) -> Option<usize>,
    arguments: &[Value],
) -> Option<Value> {
    let ty = b.func.dfg.value_type(arguments[0]);
    let address = find(if ty == types::F32 {
        DType::F32
    } else {
        DType::F64
    })?;
    let mut signature = Signature::new(b.func.signature.call_conv);
    signature.params = vec![AbiParam::new(ty); arguments.len()];
    signature.returns = vec![AbiParam::new(ty)];
    let signature = b.import_signature(signature);
    let callee = b.ins().iconst(types::I64, address as i64);
    let call = b.ins().call_indirect(signature, callee, arguments);
    b.inst_results(call).first().copied()
}

/// A number of the type that `like` has; `single` where rounding it there is not what is meant.
pub fn number(b: &mut Builder<'_>, like: Value, single: f32, double: f64) -> Value {
    if b.func.dfg.value_type(like) == types::F32 {
        b.ins().f32const(Ieee32::with_bits(single.to_bits()))
    } else {
        b.ins().f64const(Ieee64::with_bits(double.to_bits()))
    }
}

/// `x` where `condition` is not 0, else `y`. The choice of a float would be a jump, which is mispredicted where the
/// condition follows no pattern: its bits are chosen as an integer.
pub fn choose(b: &mut Builder<'_>, condition: Value, x: Value, y: Value) -> Value {
    let ty = b.func.dfg.value_type(x);
    let bits = match ty {
        types::F32 => types::I32,
        types::F64 => types::I64,
        _ => return b.ins().select(condition, x, y),
    };
    let [x, y] = [x, y].map(|value| b.ins().bitcast(bits, MemFlags::new(), value));
    let chosen = b.ins().select(condition, x, y);
    b.ins().bitcast(ty, MemFlags::new(), chosen)
}

pub fn unary(b: &mut Builder<'_>, op: UnaryOp, x: Value) -> Option<Value> {
    Some(match op {
        UnaryOp::Abs => b.ins().fabs(x),
        UnaryOp::Negate => b.ins().fneg(x),
        UnaryOp::Sign => {
            let (zero, one) = (number(b, x, 0.0, 0.0), number(b, x, 1.0, 1.0));
            let magnitude = b.ins().fabs(x);
            let is_some = b.ins().fcmp(FloatCC::GreaterThan, magnitude, zero);
            let sign = b.ins().fcopysign(one, x);
            choose(b, is_some, sign, x)
        }
        UnaryOp::Floor => b.ins().floor(x),
        UnaryOp::Ceil => b.ins().ceil(x),
        UnaryOp::RoundNearestEven => b.ins().nearest(x),
        UnaryOp::RoundNearestAfz => {
            // The largest number below one half, as the kernel adds.
            let half = number(b, x, 0.499_999_97, 0.499_999_999_999_999_94);
            let half = b.ins().fcopysign(half, x);
            let sum = b.ins().fadd(x, half);
            b.ins().trunc(sum)
        }
        UnaryOp::Sqrt => b.ins().sqrt(x),
        UnaryOp::Rsqrt => {
            let (one, root) = (number(b, x, 1.0, 1.0), b.ins().sqrt(x));
            b.ins().fdiv(one, root)
        }
        UnaryOp::IsFinite => {
            let magnitude = b.ins().fabs(x);
            let infinity = number(b, x, f32::INFINITY, f64::INFINITY);
            b.ins().fcmp(FloatCC::LessThan, magnitude, infinity)
        }
        UnaryOp::Real => x,
        UnaryOp::Imag => number(b, x, 0.0, 0.0),
        _ => call(b, |dtype| scalar_bytecode::unary_function(op, dtype), &[x])?,
    })
}

pub fn binary(b: &mut Builder<'_>, op: BinaryOp, x: Value, y: Value) -> Option<Value> {
    Some(match op {
        BinaryOp::Add => b.ins().fadd(x, y),
        BinaryOp::Subtract => b.ins().fsub(x, y),
        BinaryOp::Multiply => b.ins().fmul(x, y),
        BinaryOp::Divide => b.ins().fdiv(x, y),
        BinaryOp::Maximum => b.ins().fmax(x, y),
        BinaryOp::Minimum => b.ins().fmin(x, y),
        _ => call(
            b,
            |dtype| scalar_bytecode::binary_function(op, dtype),
            &[x, y],
        )?,
    })
}

pub fn compare(b: &mut Builder<'_>, direction: CompareDirection, x: Value, y: Value) -> Value {
    b.ins().fcmp(relation(direction), x, y)
}

pub fn relation(direction: CompareDirection) -> FloatCC {
    match direction {
        CompareDirection::Eq => FloatCC::Equal,
        CompareDirection::Ne => FloatCC::NotEqual,
        CompareDirection::Lt => FloatCC::LessThan,
        CompareDirection::Le => FloatCC::LessThanOrEqual,
        CompareDirection::Gt => FloatCC::GreaterThan,
        CompareDirection::Ge => FloatCC::GreaterThanOrEqual,
    }
}
