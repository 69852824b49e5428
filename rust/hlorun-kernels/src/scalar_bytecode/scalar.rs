//! Operations on single elements.
//!
//! In: an operation and an element type. Out: a [`Function`] that reads one element of each operand and writes one, or
//! `None` where the kernel has to be called, because it is long or the type is rare.

use super::{Function, Kind, Op, State, go_on, next, run_back};
use crate::DType;
use crate::convert::Convert;
use crate::element::Pred;
use crate::elementwise::{Bin, Portable, Tier, Un, float, int};
use crate::ops::{BinaryOp, CompareDirection, UnaryOp};

unsafe fn run_unary<A: Copy, O: Un<A>>(at: *const Op, state: &mut State) -> *const Op {
    // SAFETY: by the promise of `Run`, the addresses hold one element each.
    unsafe {
        let op = &*at;
        let a = op.a.cast::<A>().read_unaligned();
        op.out.cast::<O::Out>().write_unaligned(O::f::<Portable>(a));
        go_on(op, state)
    }
}

unsafe fn run_binary<A: Copy, O: Bin<A>>(at: *const Op, state: &mut State) -> *const Op {
    // SAFETY: as above.
    unsafe {
        let op = &*at;
        let a = op.a.cast::<A>().read_unaligned();
        let b = op.b.cast::<A>().read_unaligned();
        op.out
            .cast::<O::Out>()
            .write_unaligned(O::f::<Portable>(a, b));
        go_on(op, state)
    }
}

/// Integer division of single elements, where the kernels' way through floats takes longer.
struct Quotient;
/// Its remainder.
struct Rest;

macro_rules! division {
    ($($t:ty)*) => {$(
        impl Bin<$t> for Quotient {
            type Out = $t;
            #[inline(always)]
            fn f<T: Tier>(a: $t, b: $t) -> $t {
                if b & b.wrapping_sub(1) == 0 && b > 0 {
                    // Towards zero: what is negative is raised by less than the divisor first.
                    #[allow(unused_comparisons, reason = "also for unsigned types")]
                    let raised = if a < 0 { a.wrapping_add(b - 1) } else { a };
                    return raised >> b.trailing_zeros();
                }
                if b == 0 { !0 } else { a.wrapping_div(b) }
            }
        }
        impl Bin<$t> for Rest {
            type Out = $t;
            #[inline(always)]
            fn f<T: Tier>(a: $t, b: $t) -> $t {
                if b & b.wrapping_sub(1) == 0 && b > 0 {
                    #[allow(unused_comparisons, reason = "also for unsigned types")]
                    let raised = if a < 0 { a.wrapping_add(b - 1) } else { a };
                    return a.wrapping_sub(raised & !(b - 1));
                }
                if b == 0 { a } else { a.wrapping_rem(b) }
            }
        }
    )*};
}
division!(i32 i64 u8 u32 u64);

unsafe fn run_back_if<A: Copy, O: Bin<A, Out = u8>>(at: *const Op, state: &mut State) -> *const Op {
    // SAFETY: as above; the code holds the operation it jumps to.
    unsafe {
        let op = &*at;
        let a = op.a.cast::<A>().read_unaligned();
        let b = op.b.cast::<A>().read_unaligned();
        if O::f::<Portable>(a, b) == 0 {
            next(op)
        } else {
            run_back(at, state)
        }
    }
}

unsafe fn run_select<A: Copy>(at: *const Op, state: &mut State) -> *const Op {
    // SAFETY: as above.
    unsafe {
        let op = &*at;
        let from = if op.a.read() != 0 { op.b } else { op.c };
        op.out
            .cast::<A>()
            .write_unaligned(from.cast::<A>().read_unaligned());
        go_on(op, state)
    }
}

unsafe fn run_clamp<A: Copy, Min: Bin<A, Out = A>, Max: Bin<A, Out = A>>(
    at: *const Op,
    state: &mut State,
) -> *const Op {
    // SAFETY: as above.
    unsafe {
        let op = &*at;
        let low = op.a.cast::<A>().read_unaligned();
        let value = op.b.cast::<A>().read_unaligned();
        let high = op.c.cast::<A>().read_unaligned();
        let at_least = Max::f::<Portable>(value, low);
        op.out
            .cast::<A>()
            .write_unaligned(Min::f::<Portable>(at_least, high));
        go_on(op, state)
    }
}

/// Calls `$run!(type, kind)` for the types that have functions of their own, else returns `None`.
macro_rules! with_type {
    ($dtype:expr, $int:ident, $float:ident, $pred:expr) => {
        match $dtype {
            DType::Pred => $pred,
            DType::S32 => $int!(i32),
            DType::S64 => $int!(i64),
            DType::U8 => $int!(u8),
            DType::U32 => $int!(u32),
            DType::U64 => $int!(u64),
            DType::F32 => $float!(f32),
            DType::F64 => $float!(f64),
            _ => return None,
        }
    };
}

macro_rules! pick {
    ($run:ident, $t:ty, $op:expr, { $($name:pat => $body:ty,)* }) => {
        match $op {
            $($name => $run::<$t, $body>,)*
            _ => return None,
        }
    };
}

/// From `a` to `out`.
pub fn unary(op: UnaryOp, dtype: DType) -> Option<Function> {
    macro_rules! int {
        ($t:ty) => {
            pick!(run_unary, $t, op, {
                UnaryOp::Abs => int::Abs,
                UnaryOp::Negate => int::Negate,
                UnaryOp::Sign => int::Sign,
                UnaryOp::Not => int::Not,
                UnaryOp::PopulationCount => int::Popcnt,
                UnaryOp::CountLeadingZeros => int::Clz,
            })
        };
    }
    macro_rules! float {
        ($t:ty) => {
            pick!(run_unary, $t, op, {
                UnaryOp::Abs => float::Abs,
                UnaryOp::Negate => float::Negate,
                UnaryOp::Sign => float::Sign,
                UnaryOp::Sqrt => float::Sqrt,
                UnaryOp::Rsqrt => float::Rsqrt,
                UnaryOp::IsFinite => float::IsFinite,
            })
        };
    }
    let run: super::Run = with_type!(
        dtype,
        int,
        float,
        pick!(run_unary, Pred, op, { UnaryOp::Not => int::PredNot, })
    );
    Some(Function::of(run, Kind::Element))
}

/// From `a` and `b` to `out`.
pub fn binary(op: BinaryOp, dtype: DType) -> Option<Function> {
    macro_rules! int {
        ($t:ty) => {
            pick!(run_binary, $t, op, {
                BinaryOp::Add => int::Add,
                BinaryOp::Subtract => int::Subtract,
                BinaryOp::Multiply => int::Multiply,
                BinaryOp::Divide => Quotient,
                BinaryOp::Remainder => Rest,
                BinaryOp::Maximum => int::Maximum,
                BinaryOp::Minimum => int::Minimum,
                BinaryOp::And => int::And,
                BinaryOp::Or => int::Or,
                BinaryOp::Xor => int::Xor,
                BinaryOp::ShiftLeft => int::ShiftLeft,
                BinaryOp::ShiftRightArithmetic => int::ShiftRightArithmetic,
                BinaryOp::ShiftRightLogical => int::ShiftRightLogical,
            })
        };
    }
    macro_rules! float {
        ($t:ty) => {
            pick!(run_binary, $t, op, {
                BinaryOp::Add => float::Add,
                BinaryOp::Subtract => float::Subtract,
                BinaryOp::Multiply => float::Multiply,
                BinaryOp::Divide => float::Divide,
                BinaryOp::Maximum => float::Maximum,
                BinaryOp::Minimum => float::Minimum,
            })
        };
    }
    let run: super::Run = with_type!(
        dtype,
        int,
        float,
        pick!(run_binary, Pred, op, {
            BinaryOp::And | BinaryOp::Multiply | BinaryOp::Minimum => int::PredAnd,
            BinaryOp::Or | BinaryOp::Add | BinaryOp::Maximum => int::PredOr,
            BinaryOp::Xor => int::PredXor,
        })
    );
    Some(Function::of(run, Kind::Element))
}

macro_rules! relation {
    ($run:ident, $t:ty, $direction:expr) => {
        match $direction {
            CompareDirection::Eq => $run::<$t, int::Eq>,
            CompareDirection::Ne => $run::<$t, int::Ne>,
            CompareDirection::Lt => $run::<$t, int::Lt>,
            CompareDirection::Le => $run::<$t, int::Le>,
            CompareDirection::Gt => $run::<$t, int::Gt>,
            CompareDirection::Ge => $run::<$t, int::Ge>,
        }
    };
}

/// Whether `a` is in the relation to `b`, floats by the partial order.
pub fn compare(direction: CompareDirection, dtype: DType) -> Option<Function> {
    macro_rules! any {
        ($t:ty) => {
            relation!(run_binary, $t, direction)
        };
    }
    let run: super::Run = with_type!(dtype, any, any, any!(Pred));
    Some(Function::of(run, Kind::Element))
}

/// Where `a` is in the relation to `b`, goes back as [`super::back`] does.
pub fn back_if_compare(direction: CompareDirection, dtype: DType) -> Option<Function> {
    macro_rules! any {
        ($t:ty) => {
            relation!(run_back_if, $t, direction)
        };
    }
    let run: super::Run = with_type!(dtype, any, any, any!(Pred));
    Some(Function::of(run, Kind::BackIfCompare(direction, dtype)))
}

/// `b` where the byte at `a` is not zero, else `c`.
pub fn select(dtype: DType) -> Function {
    let run: super::Run = match dtype.size_bytes() {
        1 => run_select::<u8>,
        2 => run_select::<u16>,
        4 => run_select::<u32>,
        8 => run_select::<u64>,
        _ => run_select::<[u64; 2]>,
    };
    Function::of(run, Kind::Element)
}

/// `b` between `a` and `c`.
pub fn clamp(dtype: DType) -> Option<Function> {
    macro_rules! int {
        ($t:ty) => {
            run_clamp::<$t, int::Minimum, int::Maximum>
        };
    }
    macro_rules! float {
        ($t:ty) => {
            run_clamp::<$t, float::Minimum, float::Maximum>
        };
    }
    let run: super::Run = with_type!(
        dtype,
        int,
        float,
        run_clamp::<Pred, int::PredAnd, int::PredOr>
    );
    Some(Function::of(run, Kind::Element))
}

/// `a` as another type.
pub fn convert(from: DType, to: DType) -> Option<Function> {
    macro_rules! any {
        ($from:ty) => {{
            macro_rules! to {
                ($to:ty) => {
                    run_unary::<$from, Convert<$to>>
                };
            }
            with_type!(to, to, to, to!(Pred))
        }};
    }
    let run: super::Run = with_type!(from, any, any, any!(Pred));
    Some(Function::of(run, Kind::Element))
}
