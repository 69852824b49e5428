//! Two-operand kernels one of whose operands is the same for every element.
//!
//! In: an operation, an element type, and which operand is the scalar. Out: a [`Binary`] whose second argument points
//! to that one element, aligned or not, and whose first walks over the other operand. Promise: the same bits as the
//! kernel of two arrays; only cheap operations of hot types have one, everything else is `None`.

use crate::elementwise::{Tier, float, int};
use crate::math::Float;
use crate::ops::{BinaryOp, CompareDirection, CompareOrder};
use crate::table::Binary;
use crate::{DType, Isa};

/// Which operand is the scalar.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// The first.
    Left,
    /// The second.
    Right,
}

macro_rules! pick {
    ($t:ident, $e:ty, $left:ident, $op:expr, { $($name:pat => $body:ty,)* }) => {
        match $op {
            $($name => $t::with_scalar::<$e, $body, $left>(),)*
            #[allow(unreachable_patterns, reason = "some lists are whole")]
            _ => return None,
        }
    };
}

fn float_op<T: Tier, F: Float, const LEFT: bool>(op: BinaryOp) -> Option<Binary> {
    Some(pick!(T, F, LEFT, op, {
        BinaryOp::Add => float::Add,
        BinaryOp::Subtract => float::Subtract,
        BinaryOp::Multiply => float::Multiply,
        BinaryOp::Divide => float::Divide,
        BinaryOp::Maximum => float::Maximum,
        BinaryOp::Minimum => float::Minimum,
    }))
}

fn int_op<T: Tier, E: int::IntElem, const LEFT: bool>(op: BinaryOp) -> Option<Binary> {
    Some(pick!(T, E, LEFT, op, {
        BinaryOp::Add => int::Add,
        BinaryOp::Subtract => int::Subtract,
        BinaryOp::Multiply => int::Multiply,
        BinaryOp::Maximum => int::Maximum,
        BinaryOp::Minimum => int::Minimum,
        BinaryOp::And => int::And,
        BinaryOp::Or => int::Or,
        BinaryOp::Xor => int::Xor,
        BinaryOp::ShiftLeft => int::ShiftLeft,
        BinaryOp::ShiftRightArithmetic => int::ShiftRightArithmetic,
        BinaryOp::ShiftRightLogical => int::ShiftRightLogical,
    }))
}

fn comparison<T: Tier, E: PartialOrd + Copy, const LEFT: bool>(
    direction: CompareDirection,
) -> Option<Binary> {
    Some(pick!(T, E, LEFT, direction, {
        CompareDirection::Eq => int::Eq,
        CompareDirection::Ne => int::Ne,
        CompareDirection::Lt => int::Lt,
        CompareDirection::Le => int::Le,
        CompareDirection::Gt => int::Gt,
        CompareDirection::Ge => int::Ge,
    }))
}

fn binary_tier<T: Tier, const LEFT: bool>(op: BinaryOp, dtype: DType) -> Option<Binary> {
    match dtype {
        DType::F32 => float_op::<T, f32, LEFT>(op),
        DType::F64 => float_op::<T, f64, LEFT>(op),
        DType::S32 => int_op::<T, i32, LEFT>(op),
        DType::U32 => int_op::<T, u32, LEFT>(op),
        DType::S64 => int_op::<T, i64, LEFT>(op),
        _ => None,
    }
}

fn compare_tier<T: Tier, const LEFT: bool>(
    direction: CompareDirection,
    dtype: DType,
) -> Option<Binary> {
    match dtype {
        DType::F32 => comparison::<T, f32, LEFT>(direction),
        DType::F64 => comparison::<T, f64, LEFT>(direction),
        DType::S32 => comparison::<T, i32, LEFT>(direction),
        DType::U32 => comparison::<T, u32, LEFT>(direction),
        DType::S64 => comparison::<T, i64, LEFT>(direction),
        _ => None,
    }
}

macro_rules! tiers {
    ($side:expr, $f:ident($($arg:expr),*)) => {
        match $side {
            Side::Left => with_tier!(Isa::active(), T => $f::<T, true>($($arg),*)),
            Side::Right => with_tier!(Isa::active(), T => $f::<T, false>($($arg),*)),
        }
    };
}

/// The kernel of a binary operation with a scalar on one side: `f(array, scalar, out, n)`.
pub fn binary_with_scalar(op: BinaryOp, dtype: DType, side: Side) -> Option<Binary> {
    crate::divide::by_scalar(Isa::active(), op, dtype, side)
        .or_else(|| tiers!(side, binary_tier(op, dtype)))
}

/// The kernel of a comparison with a scalar on one side; total-order comparisons have none.
pub fn compare_with_scalar(
    direction: CompareDirection,
    order: CompareOrder,
    dtype: DType,
    side: Side,
) -> Option<Binary> {
    if order == CompareOrder::Total {
        return None;
    }
    tiers!(side, compare_tier(direction, dtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation and side gives the bits of the two-array kernel, in place too.
    #[test]
    fn scalars_match_arrays() {
        let values: Vec<f32> = (0..100)
            .map(|i| match i % 7 {
                0 => f32::NAN,
                1 => -0.0,
                2 => f32::INFINITY,
                _ => (i as f32 - 50.0) * 0.37,
            })
            .collect();
        let n = values.len();
        let ops = [
            BinaryOp::Add,
            BinaryOp::Subtract,
            BinaryOp::Multiply,
            BinaryOp::Divide,
            BinaryOp::Maximum,
            BinaryOp::Minimum,
        ];
        for scalar in [0.0f32, -1.5, f32::NAN] {
            let repeated = vec![scalar; n];
            for op in ops {
                for side in [Side::Left, Side::Right] {
                    let plain = crate::binary(op, DType::F32).unwrap();
                    let kernel = binary_with_scalar(op, DType::F32, side).unwrap();
                    let (mut want, mut got) = (vec![0f32; n], vec![0f32; n]);
                    let mut same = values.clone();
                    let (x, y) = match side {
                        Side::Left => (&repeated, &values),
                        Side::Right => (&values, &repeated),
                    };
                    let scalar = (&raw const scalar).cast();
                    // SAFETY: every array holds n elements.
                    unsafe {
                        plain(
                            x.as_ptr().cast(),
                            y.as_ptr().cast(),
                            want.as_mut_ptr().cast(),
                            n,
                        );
                        kernel(values.as_ptr().cast(), scalar, got.as_mut_ptr().cast(), n);
                        let place = same.as_mut_ptr().cast::<u8>();
                        kernel(place.cast_const(), scalar, place, n);
                    }
                    for i in 0..n {
                        assert!(
                            want[i].to_bits() == got[i].to_bits()
                                || want[i].is_nan() && got[i].is_nan(),
                            "{op:?} {side:?} {i}"
                        );
                        assert!(got[i].to_bits() == same[i].to_bits() || got[i].is_nan());
                    }
                }
            }
        }
    }

    #[test]
    fn comparisons_match_arrays() {
        let values: Vec<i32> = (-50..50).collect();
        let n = values.len();
        for direction in [
            CompareDirection::Lt,
            CompareDirection::Ge,
            CompareDirection::Ne,
        ] {
            for (side, want) in [
                (Side::Left, [7, 8].map(|x| holds(direction, 7, x))),
                (Side::Right, [7, 8].map(|x| holds(direction, x, 7))),
            ] {
                let kernel =
                    compare_with_scalar(direction, CompareOrder::Partial, DType::S32, side)
                        .unwrap();
                let mut got = vec![9u8; n];
                let scalar = 7i32;
                // SAFETY: both arrays hold n elements.
                unsafe {
                    kernel(
                        values.as_ptr().cast(),
                        (&raw const scalar).cast(),
                        got.as_mut_ptr(),
                        n,
                    );
                }
                assert_eq!(
                    [got[57], got[58]],
                    want.map(u8::from),
                    "{direction:?} {side:?}"
                );
            }
        }
    }

    fn holds(direction: CompareDirection, a: i32, b: i32) -> bool {
        match direction {
            CompareDirection::Eq => a == b,
            CompareDirection::Ne => a != b,
            CompareDirection::Lt => a < b,
            CompareDirection::Le => a <= b,
            CompareDirection::Gt => a > b,
            CompareDirection::Ge => a >= b,
        }
    }
}
