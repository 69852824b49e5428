//! Rows combined with rows at other places, many in one call.
//!
//! In: an operation, an element type, and pairs of places. Out: `to[place] = f(to[place], from[place])`, row after row in
//! order. Promise: the bits of the two-operand kernel; a call per row costs more than a short row does.

use crate::elementwise::{Bin, Tier, float, int};
use crate::math::Float;
use crate::ops::BinaryOp;
use crate::table::{Binary, binary};
use crate::{DType, Isa};

/// `unsafe fn(to, from, places, n)`: places are byte offsets from either pointer.
type Rows = unsafe fn(*mut u8, *const u8, &[[isize; 2]], usize);

/// See the module.
#[derive(Clone, Copy)]
pub enum CombineRows {
    /// All rows in one call.
    Together(Rows),
    /// A call per row.
    OneByOne(Binary),
}

impl CombineRows {
    /// Combines rows of `n` elements.
    ///
    /// # Safety
    /// Every place is that of `n` elements of the type behind its pointer; what is written is nowhere read as `from`.
    pub unsafe fn run(self, to: *mut u8, from: *const u8, places: &[[isize; 2]], n: usize) {
        // SAFETY: the same contract; kernels may write onto an operand.
        unsafe {
            match self {
                CombineRows::Together(rows) => rows(to, from, places, n),
                CombineRows::OneByOne(kernel) => {
                    for &[t, f] in places {
                        let to = to.offset(t);
                        kernel(to, from.offset(f), to, n);
                    }
                }
            }
        }
    }
}

/// Elements in one step.
const LANES: usize = 8;

#[inline(always)]
unsafe fn body<T: Tier, A: Copy, O: Bin<A, Out = A>>(
    to: *mut u8,
    from: *const u8,
    places: &[[isize; 2]],
    n: usize,
) {
    for &[t, f] in places {
        // SAFETY: the caller's contract.
        unsafe {
            let (to, from) = (to.offset(t).cast::<A>(), from.offset(f).cast::<A>());
            let mut i = 0;
            while i + LANES <= n {
                let at = to.add(i).cast::<[A; LANES]>();
                let mut x = at.read_unaligned();
                let y = from.add(i).cast::<[A; LANES]>().read_unaligned();
                for (x, &y) in x.iter_mut().zip(&y) {
                    *x = O::f::<T>(*x, y);
                }
                at.write_unaligned(x);
                i += LANES;
            }
            while i < n {
                let at = to.add(i);
                let y = from.add(i).read_unaligned();
                at.write_unaligned(O::f::<T>(at.read_unaligned(), y));
                i += 1;
            }
        }
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn run<A: Copy, O: Bin<A, Out = A>>(
                to: *mut u8,
                from: *const u8,
                places: &[[isize; 2]],
                n: usize,
            ) {
                // SAFETY: the caller's contract.
                unsafe { body::<$tier, A, O>(to, from, places, n) }
            }

            fn floats<F: Float>(op: BinaryOp) -> Option<Rows> {
                Some(match op {
                    BinaryOp::Add => run::<F, float::Add>,
                    BinaryOp::Multiply => run::<F, float::Multiply>,
                    BinaryOp::Maximum => run::<F, float::Maximum>,
                    BinaryOp::Minimum => run::<F, float::Minimum>,
                    _ => return None,
                })
            }

            fn ints<E: int::IntElem>(op: BinaryOp) -> Option<Rows> {
                Some(match op {
                    BinaryOp::Add => run::<E, int::Add>,
                    BinaryOp::Maximum => run::<E, int::Maximum>,
                    BinaryOp::Minimum => run::<E, int::Minimum>,
                    _ => return None,
                })
            }

            pub fn pick(op: BinaryOp, dtype: DType) -> Option<Rows> {
                match dtype {
                    DType::F32 => floats::<f32>(op),
                    DType::F64 => floats::<f64>(op),
                    DType::S32 => ints::<i32>(op),
                    DType::U32 => ints::<u32>(op),
                    DType::S64 => ints::<i64>(op),
                    _ => None,
                }
            }
        }
    };
}
each_tier!(tier);

/// What combines rows by `op`; `None` where the type has no such kernel.
pub fn combine_rows(op: BinaryOp, dtype: DType) -> Option<CombineRows> {
    let together = of_tier!(Isa::active(), pick(op, dtype));
    match together {
        Some(rows) => Some(CombineRows::Together(rows)),
        None => binary(op, dtype).map(CombineRows::OneByOne),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_combined_in_order() {
        let special = [f32::NAN, -0.0, 0.0, f32::INFINITY, 1.5, -3.0, 1e30, -1e-30];
        let from: Vec<f32> = (0..400)
            .map(|i| special[i * 7 % 8] + (i % 3) as f32)
            .collect();
        let start: Vec<f32> = (0..200)
            .map(|i| special[i * 5 % 8] - (i % 5) as f32)
            .collect();
        let ops = [
            BinaryOp::Add,
            BinaryOp::Multiply,
            BinaryOp::Maximum,
            BinaryOp::Minimum,
            BinaryOp::Subtract,
        ];
        for (dtype, op) in [DType::F32, DType::S32]
            .into_iter()
            .flat_map(|dtype| ops.map(|op| (dtype, op)))
        {
            for n in [1, 2, 7, 8, 9, 19, 32] {
                let places: Vec<[isize; 2]> = (0..40)
                    .map(|i| {
                        [
                            (i * 13 % (200 - n)) as isize * 4,
                            (i * 29 % (400 - n)) as isize * 4,
                        ]
                    })
                    .collect();
                let (mut want, mut got) = (start.clone(), start.clone());
                let kernel = binary(op, dtype).unwrap();
                let from = from.as_ptr().cast::<u8>();
                // SAFETY: every place is that of n elements.
                unsafe {
                    for &[t, f] in &places {
                        let to = want.as_mut_ptr().cast::<u8>().offset(t);
                        kernel(to, from.offset(f), to, n);
                    }
                    let rows = combine_rows(op, dtype).unwrap();
                    rows.run(got.as_mut_ptr().cast(), from, &places, n);
                }
                for (x, y) in want.iter().zip(&got) {
                    let is_same = x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
                    assert!(is_same, "{dtype:?} {op:?} {n}");
                }
            }
        }
    }
}
