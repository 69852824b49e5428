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
    ($t:ident, $e:ty, $left:tt, $op:expr, { $($name:pat => $body:ty,)* }) => {
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

/// Integers may change sides where the operation lets them: one kernel does for both.
fn commutative<T: Tier, E: int::IntElem>(op: BinaryOp) -> Option<Binary> {
    Some(pick!(T, E, false, op, {
        BinaryOp::Add => int::Add,
        BinaryOp::Multiply => int::Multiply,
        BinaryOp::And => int::And,
        BinaryOp::Or => int::Or,
        BinaryOp::Xor => int::Xor,
    }))
}

fn extreme<T: Tier, E: int::IntElem>(op: BinaryOp) -> Option<Binary> {
    Some(pick!(T, E, false, op, {
        BinaryOp::Maximum => int::Maximum,
        BinaryOp::Minimum => int::Minimum,
    }))
}

fn one_sided<T: Tier, E: int::IntElem, const LEFT: bool>(op: BinaryOp) -> Option<Binary> {
    Some(pick!(T, E, LEFT, op, {
        BinaryOp::Subtract => int::Subtract,
        BinaryOp::ShiftLeft => int::ShiftLeft,
        BinaryOp::ShiftRightArithmetic => int::ShiftRightArithmetic,
        BinaryOp::ShiftRightLogical => int::ShiftRightLogical,
    }))
}

fn int_op<T: Tier, E: int::IntElem, const LEFT: bool>(op: BinaryOp) -> Option<Binary> {
    commutative::<T, E::Bits>(op)
        .or_else(|| extreme::<T, E>(op))
        .or_else(|| one_sided::<T, E::Bits, LEFT>(op))
}

/// The kernels with the scalar on the right.
fn comparison<T: Tier, E: PartialOrd + Copy>(direction: CompareDirection) -> Option<Binary> {
    Some(pick!(T, E, false, direction, {
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

fn compare_tier<T: Tier>(direction: CompareDirection, dtype: DType) -> Option<Binary> {
    match dtype {
        DType::F32 => comparison::<T, f32>(direction),
        DType::F64 => comparison::<T, f64>(direction),
        DType::S32 => comparison::<T, i32>(direction),
        DType::U32 => comparison::<T, u32>(direction),
        DType::S64 => comparison::<T, i64>(direction),
        _ => None,
    }
}

/// The kernel of a binary operation with a scalar on one side: `f(array, scalar, out, n)`.
pub fn binary_with_scalar(op: BinaryOp, dtype: DType, side: Side) -> Option<Binary> {
    #[cfg(target_arch = "x86_64")]
    if crate::subnormal::has_kernels(op, dtype) {
        return Some(crate::subnormal::scaled(Isa::active(), side));
    }
    crate::divide::by_scalar(Isa::active(), op, dtype, side).or_else(|| match side {
        Side::Left => with_tier!(Isa::active(), T => binary_tier::<T, true>(op, dtype)),
        Side::Right => with_tier!(Isa::active(), T => binary_tier::<T, false>(op, dtype)),
    })
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
    let direction = match side {
        Side::Left => direction.exchanged(),
        Side::Right => direction,
    };
    with_tier!(Isa::active(), T => compare_tier::<T>(direction, dtype))
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

    /// Nine elements of a type, as bytes.
    fn nine(dtype: DType) -> Vec<u8> {
        let floats = [
            f64::NAN,
            -0.0,
            0.0,
            1.0,
            -1.5,
            3e9,
            f64::INFINITY,
            -1e-40,
            2.0,
        ];
        let integers = [i64::MIN, -2, -1, 0, 1, 3, 40, 1 << 31, i64::MAX];
        let bytes = |i: usize| match dtype {
            DType::F32 => (floats[i] as f32).to_ne_bytes().to_vec(),
            DType::F64 => floats[i].to_ne_bytes().to_vec(),
            DType::S64 => integers[i].to_ne_bytes().to_vec(),
            _ => (integers[i] as i32).to_ne_bytes().to_vec(),
        };
        (0..9).flat_map(bytes).collect()
    }

    /// What a kernel makes of nine elements.
    fn run(kernel: Binary, operands: [&[u8]; 2]) -> [u64; 9] {
        let [a, b] = operands.map(|bytes| {
            let mut words = [0u64; 9];
            // SAFETY: nine words hold nine elements.
            unsafe {
                let to = words.as_mut_ptr().cast::<u8>();
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            }
            words
        });
        let mut out = [0u64; 9];
        // SAFETY: each holds nine elements, aligned.
        unsafe {
            kernel(
                a.as_ptr().cast(),
                b.as_ptr().cast(),
                out.as_mut_ptr().cast(),
                9,
            )
        };
        out
    }

    /// Each kernel of nine elements with each of them as a scalar gives what that of two arrays gives.
    fn check(dtype: DType, side: Side, [plain, kernel]: [Option<Binary>; 2], what: &str) {
        let [Some(plain), Some(kernel)] = [plain, kernel] else {
            panic!("{what} {side:?} {dtype:?}: no kernel");
        };
        let values = nine(dtype);
        for scalar in values.chunks_exact(values.len() / 9) {
            let repeated = scalar.repeat(9);
            let operands = match side {
                Side::Left => [&repeated[..], &values],
                Side::Right => [&values[..], &repeated],
            };
            let (want, got) = (run(plain, operands), run(kernel, [&values, scalar]));
            assert_eq!(want, got, "{what} {side:?} {dtype:?}");
        }
    }

    /// Also where one kernel does for both sides, or for signed and unsigned integers.
    #[test]
    fn integer_scalars_match_arrays() {
        use BinaryOp::*;
        let ops = [
            Add,
            Subtract,
            Multiply,
            Maximum,
            Minimum,
            And,
            Or,
            Xor,
            ShiftLeft,
            ShiftRightArithmetic,
            ShiftRightLogical,
        ];
        for dtype in [DType::S32, DType::U32, DType::S64] {
            for side in [Side::Left, Side::Right] {
                for op in ops {
                    let kernels = [
                        crate::binary(op, dtype),
                        binary_with_scalar(op, dtype, side),
                    ];
                    check(dtype, side, kernels, &format!("{op:?}"));
                }
            }
        }
    }

    #[test]
    fn comparisons_match_arrays() {
        let order = CompareOrder::Partial;
        for dtype in [DType::F32, DType::F64, DType::S32, DType::U32, DType::S64] {
            for side in [Side::Left, Side::Right] {
                for direction in CompareDirection::ALL {
                    let kernels = [
                        crate::compare(direction, order, dtype),
                        compare_with_scalar(direction, order, dtype, side),
                    ];
                    check(dtype, side, kernels, &format!("{direction:?}"));
                }
            }
        }
    }
}
