//! From HLO opcodes and element types to kernels.
//!
//! In: an opcode and the element types of operands and result. Out: a [`Kernel`]. What the kernel
//! table lacks is an error that names opcode and type.

use hlorun_kernels as kernels;
use hlorun_kernels::vector_bytecode::Op;
use hlorun_kernels::{BinaryOp, CompareDirection, CompareOrder, DType, UnaryOp};

use crate::error::{HloError, Result};
use crate::module::{AttrKey, HloModule, HloOpcode, InstructionRef};
use crate::types::{PrimitiveType, Shape, ShapeId};

/// A kernel over contiguous elements, chosen once.
#[derive(Clone, Copy, Debug)]
pub enum Kernel {
    /// `out[i] = f(a[i])`.
    Unary(kernels::Unary),
    /// `out[i] = f(a[i], b[i])`.
    Binary(kernels::Binary),
    /// `out[i] = f(a[i], s)` or `f(s, a[i])`, `s` being the element in these bytes.
    WithScalar(kernels::Binary, [u8; 16]),
    /// `out[i] = f(a[i], b[i], c[i])`.
    Ternary(kernels::Ternary),
    /// Rounding to fewer exponent and mantissa bits.
    ReducePrecision(kernels::ReducePrecision),
    /// The same bytes, elements of that many bytes.
    Copy(usize),
}

/// The kernels' tag of an element type; `s1` and `u1` have none.
pub fn dtype(ty: PrimitiveType) -> Option<DType> {
    macro_rules! same {
        ($($name:ident)*) => {
            match ty {
                PrimitiveType::S1 | PrimitiveType::U1 => None,
                $(PrimitiveType::$name => Some(DType::$name),)*
            }
        };
    }
    same!(Pred S2 S4 S8 S16 S32 S64 U2 U4 U8 U16 U32 U64 F4E2M1FN F8E3M4 F8E4M3 F8E4M3FN F8E4M3FNUZ F8E4M3B11FNUZ
        F8E5M2 F8E5M2FNUZ F8E8M0FNU F16 BF16 F32 F64 C64 C128)
}

/// Refuses arrays of types that have no kernels, so that what is planned and run after this finds
/// one for every element type.
///
/// Errors: `HloError::Unsupported` naming the first instruction whose value holds such an array.
pub fn check_types(module: &HloModule) -> Result<()> {
    let table = module.shapes();
    // Parts of a shape come before it.
    let mut without: Vec<Option<PrimitiveType>> = Vec::with_capacity(table.len());
    for shape in table.iter() {
        let part = |id: &ShapeId| without[id.index()];
        without.push(match shape {
            Shape::Array(array) => Some(array.element_type).filter(|&ty| dtype(ty).is_none()),
            Shape::Tuple(parts) => parts.iter().find_map(part),
            Shape::Buffer(whole) => part(whole),
            Shape::Token | Shape::Opaque => None,
        });
    }
    if without.iter().all(Option::is_none) {
        return Ok(());
    }
    for id in module.computation_ids() {
        for &instruction in &module.computation(id).instructions {
            let instruction = module.instruction(instruction);
            if let Some(ty) = without[instruction.shape_id().index()] {
                let what = format!("arrays of {} do not run", ty.name());
                return Err(crate::plan::error::unsupported(instruction, what));
            }
        }
    }
    Ok(())
}

fn unary_op(opcode: HloOpcode) -> Option<UnaryOp> {
    use HloOpcode as H;
    Some(match opcode {
        H::Abs => UnaryOp::Abs,
        H::Negate => UnaryOp::Negate,
        H::Sign => UnaryOp::Sign,
        H::Floor => UnaryOp::Floor,
        H::Ceil => UnaryOp::Ceil,
        H::RoundNearestAfz => UnaryOp::RoundNearestAfz,
        H::RoundNearestEven => UnaryOp::RoundNearestEven,
        H::IsFinite => UnaryOp::IsFinite,
        H::Not => UnaryOp::Not,
        H::PopulationCount => UnaryOp::PopulationCount,
        H::Clz => UnaryOp::CountLeadingZeros,
        H::Exp => UnaryOp::Exp,
        H::Expm1 => UnaryOp::Expm1,
        H::Log => UnaryOp::Log,
        H::Log1p => UnaryOp::Log1p,
        H::Logistic => UnaryOp::Logistic,
        H::Sqrt => UnaryOp::Sqrt,
        H::Rsqrt => UnaryOp::Rsqrt,
        H::Cbrt => UnaryOp::Cbrt,
        H::Sin => UnaryOp::Sin,
        H::Cos => UnaryOp::Cos,
        H::Tan => UnaryOp::Tan,
        H::Tanh => UnaryOp::Tanh,
        H::Erf => UnaryOp::Erf,
        H::Acos => UnaryOp::Acos,
        H::Acosh => UnaryOp::Acosh,
        H::Asin => UnaryOp::Asin,
        H::Asinh => UnaryOp::Asinh,
        H::Atanh => UnaryOp::Atanh,
        H::Sinh => UnaryOp::Sinh,
        H::Cosh => UnaryOp::Cosh,
        H::Real => UnaryOp::Real,
        H::Imag => UnaryOp::Imag,
        _ => return None,
    })
}

/// The kernels' name of a two-operand opcode.
pub fn binary_op(opcode: HloOpcode) -> Option<BinaryOp> {
    use HloOpcode as H;
    Some(match opcode {
        H::Add => BinaryOp::Add,
        H::Subtract => BinaryOp::Subtract,
        H::Multiply => BinaryOp::Multiply,
        H::Mulhi => BinaryOp::MultiplyHigh,
        H::Divide => BinaryOp::Divide,
        H::Remainder => BinaryOp::Remainder,
        H::Maximum => BinaryOp::Maximum,
        H::Minimum => BinaryOp::Minimum,
        H::Power => BinaryOp::Power,
        H::Atan2 => BinaryOp::Atan2,
        H::And => BinaryOp::And,
        H::Or => BinaryOp::Or,
        H::Xor => BinaryOp::Xor,
        H::ShiftLeft => BinaryOp::ShiftLeft,
        H::ShiftRightArithmetic => BinaryOp::ShiftRightArithmetic,
        H::ShiftRightLogical => BinaryOp::ShiftRightLogical,
        _ => return None,
    })
}

/// Direction and order of a comparison.
fn comparison(instruction: InstructionRef<'_>) -> Option<(CompareDirection, CompareOrder)> {
    let direction = match instruction.enumeration(AttrKey::Direction)?.as_ref() {
        "EQ" => CompareDirection::Eq,
        "NE" => CompareDirection::Ne,
        "LT" => CompareDirection::Lt,
        "LE" => CompareDirection::Le,
        "GT" => CompareDirection::Gt,
        "GE" => CompareDirection::Ge,
        _ => return None,
    };
    let order = match instruction.enumeration(AttrKey::Type).as_deref() {
        Some("TOTALORDER") => CompareOrder::Total,
        _ => CompareOrder::Partial,
    };
    Some((direction, order))
}

fn compare(instruction: InstructionRef<'_>, ty: DType) -> Option<kernels::Binary> {
    let (direction, order) = comparison(instruction)?;
    kernels::compare(direction, order, ty)
}

/// The kernel of a two-operand instruction on operands of type `ty`, the one on `side` being the
/// constant `value`; `None` where it has to be an array like any other.
pub fn kernel_with_scalar(
    instruction: InstructionRef<'_>,
    ty: PrimitiveType,
    side: kernels::Side,
    value: [u8; 16],
) -> Option<Kernel> {
    let ty = dtype(ty)?;
    let kernel = match instruction.opcode() {
        HloOpcode::Compare => {
            let (direction, order) = comparison(instruction)?;
            kernels::compare_with_scalar(direction, order, ty, side)?
        }
        opcode => kernels::binary_with_scalar(binary_op(opcode)?, ty, side)?,
    };
    Some(Kernel::WithScalar(kernel, value))
}

/// What an elementwise instruction computes, where vector bytecode may know it.
pub fn meaning(instruction: InstructionRef<'_>, operands: &[PrimitiveType]) -> Option<Op> {
    let opcode = instruction.opcode();
    match opcode {
        HloOpcode::Convert => Some(Op::Convert),
        HloOpcode::Select => Some(Op::Select),
        HloOpcode::Clamp => Some(Op::Clamp),
        HloOpcode::Compare => {
            let (direction, order) = comparison(instruction)?;
            let is_float = operands.first().is_some_and(|ty| ty.is_floating());
            Some(match order {
                CompareOrder::Total if is_float => Op::CompareTotal(direction),
                _ => Op::Compare(direction),
            })
        }
        _ if operands.len() == 1 => unary_op(opcode).map(Op::Unary),
        _ if operands.len() == 2 => binary_op(opcode).map(Op::Binary),
        _ => None,
    }
}

/// The kernel of an elementwise instruction, whose operands have the element types `operands` and
/// whose result has `result`.
///
/// Errors: `HloError::Unsupported` when no kernel computes it.
pub fn kernel(
    instruction: InstructionRef<'_>,
    operands: &[PrimitiveType],
    result: PrimitiveType,
) -> Result<Kernel> {
    find(instruction, operands, result).ok_or_else(|| {
        let types: Vec<_> = operands.iter().map(|t| t.name()).collect();
        crate::plan::error::unsupported(
            instruction,
            format!(
                "no {} of ({}) to {}",
                instruction.opcode_name(),
                types.join(", "),
                result.name()
            ),
        )
    })
}

fn find(
    instruction: InstructionRef<'_>,
    operands: &[PrimitiveType],
    result: PrimitiveType,
) -> Option<Kernel> {
    let opcode = instruction.opcode();
    let first = dtype(*operands.first()?)?;
    match (opcode, operands.len()) {
        (HloOpcode::Convert, 1) => Some(Kernel::Unary(kernels::convert(first, dtype(result)?))),
        (HloOpcode::ReducePrecision, 1) => {
            let exponent = u32::try_from(instruction.int(AttrKey::ExponentBits)?).ok()?;
            let mantissa = u32::try_from(instruction.int(AttrKey::MantissaBits)?).ok()?;
            kernels::reduce_precision(first, exponent, mantissa).map(Kernel::ReducePrecision)
        }
        (HloOpcode::StochasticConvert, 2) => {
            kernels::stochastic_convert(first, dtype(result)?).map(Kernel::Binary)
        }
        (HloOpcode::Compare, 2) => compare(instruction, first).map(Kernel::Binary),
        (HloOpcode::Select, 3) => Some(Kernel::Ternary(kernels::select(dtype(result)?))),
        (HloOpcode::Clamp, 3) => kernels::clamp(first).map(Kernel::Ternary),
        (HloOpcode::Complex, 2) => kernels::complex(first).map(Kernel::Binary),
        (_, 1) => kernels::unary(unary_op(opcode)?, first).map(Kernel::Unary),
        (_, 2) => kernels::binary(binary_op(opcode)?, first).map(Kernel::Binary),
        _ => None,
    }
}

/// An unsupported error for a conversion that the plan itself needs.
pub fn conversion(from: PrimitiveType, to: PrimitiveType) -> Result<Kernel> {
    match (dtype(from), dtype(to)) {
        (Some(from), Some(to)) => Ok(Kernel::Unary(kernels::convert(from, to))),
        _ => Err(HloError::unsupported(
            format!("no conversion from {} to {}", from.name(), to.name()),
            "",
        )),
    }
}
