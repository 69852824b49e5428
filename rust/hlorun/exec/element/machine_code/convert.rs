//! Conversions as instructions, by the rules of the kernels: one rounding; floats to integers
//! saturate and send NaN to 0; integers to narrower integers wrap.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlags, Type, Value, types};
use cranelift_frontend::FunctionBuilder;
use hlorun_kernels::DType;

use super::floats;
use super::registers::{self, Class, class};

type Builder<'b> = FunctionBuilder<'b>;

/// An element as another type.
pub fn convert(b: &mut Builder<'_>, from: DType, to: DType, x: Value) -> Option<Value> {
    if from == to && from != DType::Pred {
        return Some(x);
    }
    let result = registers::register(to)?;
    Some(match (class(from), class(to)) {
        (Class::Other, _) | (_, Class::Other) => return None,
        (Class::Rounded, _) => {
            let wide = widen(b, x);
            convert(b, DType::F32, to, wide)?
        }
        (Class::Float, Class::Rounded) if from == DType::F32 => round(b, x),
        (_, Class::Rounded) => {
            // Two roundings are one only if the first is to odd.
            return None;
        }
        (Class::Pred, Class::Pred) => b.ins().icmp_imm(IntCC::NotEqual, x, 0),
        (Class::Pred, Class::Int) => {
            let truth = b.ins().icmp_imm(IntCC::NotEqual, x, 0);
            resize(b, truth, result, false)
        }
        (Class::Pred, Class::Float) => {
            let truth = b.ins().icmp_imm(IntCC::NotEqual, x, 0);
            let truth = b.ins().uextend(types::I32, truth);
            b.ins().fcvt_from_sint(result, truth)
        }
        (Class::Int, Class::Pred) => b.ins().icmp_imm(IntCC::NotEqual, x, 0),
        (Class::Float, Class::Pred) => {
            let zero = floats::number(b, x, 0.0, 0.0);
            b.ins().fcmp(FloatCC::NotEqual, x, zero)
        }
        (Class::Int, Class::Int) => resize(b, x, result, from.is_signed()),
        (Class::Int, Class::Float) => int_to_float(b, from, result, x),
        (Class::Float, Class::Int) => float_to_int(b, to, result, x),
        (Class::Float, Class::Float) if to == DType::F64 => b.ins().fpromote(result, x),
        (Class::Float, Class::Float) => b.ins().fdemote(result, x),
    })
}

/// Whether [`convert`] has instructions.
pub fn is_known(from: DType, to: DType) -> bool {
    match (class(from), class(to)) {
        (Class::Other, _) | (_, Class::Other) => false,
        (_, Class::Rounded) => matches!(from, DType::F32 | DType::BF16),
        _ => true,
    }
}

fn resize(b: &mut Builder<'_>, x: Value, ty: Type, signed: bool) -> Value {
    let own = b.func.dfg.value_type(x);
    match (own.bits().cmp(&ty.bits()), signed) {
        (std::cmp::Ordering::Equal, _) => x,
        (std::cmp::Ordering::Greater, _) => b.ins().ireduce(ty, x),
        (_, true) => b.ins().sextend(ty, x),
        (_, false) => b.ins().uextend(ty, x),
    }
}

fn int_to_float(b: &mut Builder<'_>, from: DType, result: Type, x: Value) -> Value {
    match (from.size_bytes(), from.is_signed()) {
        (8, false) => b.ins().fcvt_from_uint(result, x),
        (4, false) => {
            let wide = b.ins().uextend(types::I64, x);
            b.ins().fcvt_from_sint(result, wide)
        }
        (8 | 4, true) => b.ins().fcvt_from_sint(result, x),
        (_, signed) => {
            let wide = resize(b, x, types::I32, signed);
            b.ins().fcvt_from_sint(result, wide)
        }
    }
}

fn float_to_int(b: &mut Builder<'_>, to: DType, result: Type, x: Value) -> Value {
    let bits = 8 * to.size_bytes() as u32;
    if bits >= 32 {
        return match to.is_signed() {
            true => b.ins().fcvt_to_sint_sat(result, x),
            false => b.ins().fcvt_to_uint_sat(result, x),
        };
    }
    let (low, high) = match to.is_signed() {
        true => (-1i64 << (bits - 1), (1i64 << (bits - 1)) - 1),
        false => (0, (1i64 << bits) - 1),
    };
    let wide = b.ins().fcvt_to_sint_sat(types::I32, x);
    let low = b.ins().iconst(types::I32, low & 0xffff_ffff);
    let high = b.ins().iconst(types::I32, high);
    let is_less = b.ins().icmp(IntCC::SignedLessThan, wide, low);
    let at_least = b.ins().select(is_less, low, wide);
    let is_more = b.ins().icmp(IntCC::SignedGreaterThan, at_least, high);
    let inside = b.ins().select(is_more, high, at_least);
    b.ins().ireduce(result, inside)
}

/// A `BF16` as the `F32` of the same value.
pub fn widen(b: &mut Builder<'_>, x: Value) -> Value {
    let bits = b.ins().uextend(types::I32, x);
    let bits = b.ins().ishl_imm(bits, 16);
    b.ins().bitcast(types::F32, MemFlags::new(), bits)
}

/// An `F32` rounded to the nearest `BF16`, ties to even; NaN stays one.
pub fn round(b: &mut Builder<'_>, x: Value) -> Value {
    let bits = b.ins().bitcast(types::I32, MemFlags::new(), x);
    let high = b.ins().ushr_imm(bits, 16);
    let odd = b.ins().band_imm(high, 1);
    let up = b.ins().iadd_imm(odd, 0x7fff);
    let sum = b.ins().iadd(bits, up);
    let rounded = b.ins().ushr_imm(sum, 16);
    let nan = b.ins().bor_imm(high, 0x40);
    let is_nan = b.ins().fcmp(FloatCC::Unordered, x, x);
    let result = b.ins().select(is_nan, nan, rounded);
    b.ins().ireduce(types::I16, result)
}
