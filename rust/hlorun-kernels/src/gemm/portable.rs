//! The product in plain Rust: the fallback, the path of small products, and the oracle of the tests.
//!
//! In: one [`Gemm`] whose three matrices have the same type among `f32`, `f64`, `c64`, `c128`, `s32`, `s64`. Out: C.
//! Promise: every element of C is one sum over k in ascending order, not fused, whatever the tier.

use super::{Gemm, Outcome, pack};
use crate::DType;
use crate::element::Cx;
use crate::isa::Isa;

/// A ring the product is computed in.
trait Ring: Copy {
    const ZERO: Self;
    fn mul_add(self, a: Self, b: Self) -> Self;
    fn times(self, o: Self) -> Self;
    fn plus(self, o: Self) -> Self;
    fn from_pair(z: (f64, f64)) -> Self;
}

macro_rules! float_ring {
    ($($t:ident)*) => {$(
        impl Ring for $t {
            const ZERO: Self = 0.0;
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self { self + a * b }
            #[inline(always)]
            fn times(self, o: Self) -> Self { self * o }
            #[inline(always)]
            fn plus(self, o: Self) -> Self { self + o }
            fn from_pair(z: (f64, f64)) -> Self { z.0 as $t }
        }
        impl Ring for Cx<$t> {
            const ZERO: Self = Cx { re: 0.0, im: 0.0 };
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self { self.plus(a.times(b)) }
            #[inline(always)]
            fn times(self, o: Self) -> Self {
                Cx { re: self.re * o.re - self.im * o.im, im: self.re * o.im + self.im * o.re }
            }
            #[inline(always)]
            fn plus(self, o: Self) -> Self { Cx { re: self.re + o.re, im: self.im + o.im } }
            fn from_pair(z: (f64, f64)) -> Self { Cx { re: z.0 as $t, im: z.1 as $t } }
        }
    )*};
}
float_ring!(f32 f64);

macro_rules! int_ring {
    ($($t:ident)*) => {$(
        impl Ring for $t {
            const ZERO: Self = 0;
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self { self.wrapping_add(a.wrapping_mul(b)) }
            #[inline(always)]
            fn times(self, o: Self) -> Self { self.wrapping_mul(o) }
            #[inline(always)]
            fn plus(self, o: Self) -> Self { self.wrapping_add(o) }
            fn from_pair(z: (f64, f64)) -> Self { z.0 as $t }
        }
    )*};
}
int_ring!(i32 i64);

/// Columns of C a register tile covers.
const NR: usize = 32;
/// Rows of C a register tile covers.
const MR: usize = 4;

/// C rows `i..i+R`, columns `j..j+w` (w <= NR) from packed rows of B.
#[inline(always)]
unsafe fn tile<E: Ring, const R: usize>(
    g: &Gemm,
    a: *const E,
    b: *const E,
    b_row: isize,
    c: *mut E,
    w: usize,
) {
    let (alpha, beta) = (E::from_pair(g.alpha), E::from_pair((g.beta, 0.0)));
    let mut sums = [[E::ZERO; NR]; R];
    // SAFETY: the caller passes a tile inside the matrices.
    unsafe {
        for p in 0..g.k as isize {
            let row = b.offset(p * b_row);
            for (i, sum) in sums.iter_mut().enumerate() {
                let x = a
                    .offset(i as isize * g.a.row_stride + p * g.a.col_stride)
                    .read();
                if w == NR {
                    for (j, s) in sum.iter_mut().enumerate() {
                        *s = s.mul_add(x, row.add(j).read());
                    }
                } else {
                    for (j, s) in sum.iter_mut().enumerate().take(w) {
                        *s = s.mul_add(x, row.add(j).read());
                    }
                }
            }
        }
        for (i, sum) in sums.iter().enumerate() {
            for (j, s) in sum.iter().enumerate().take(w) {
                let at = c.offset(i as isize * g.c.row_stride + j as isize * g.c.col_stride);
                let mut y = if g.alpha == (1.0, 0.0) {
                    *s
                } else {
                    alpha.times(*s)
                };
                if g.beta != 0.0 {
                    let old = at.read();
                    y = y.plus(if g.beta == 1.0 { old } else { beta.times(old) });
                }
                at.write(y);
            }
        }
    }
}

#[inline(always)]
unsafe fn body<E: Ring>(g: &Gemm, a: *const u8, b: *const u8, c: *mut u8) -> Outcome {
    let (a, c) = (a.cast::<E>(), c.cast::<E>());
    // SAFETY: the caller's contract; a dense copy of B holds k·n elements.
    unsafe {
        let packed = (g.b.col_stride != 1)
            .then(|| pack::dense(b, g.k, g.n, g.b, size_of::<E>()))
            .transpose()?;
        let (b, b_row) = match &packed {
            Some(buffer) => (buffer.as_ptr().cast::<E>(), g.n as isize),
            None => (b.cast::<E>(), g.b.row_stride),
        };
        let mut j = 0;
        while j < g.n {
            let w = NR.min(g.n - j);
            let bj = b.add(j);
            let mut i = 0;
            while i < g.m {
                let ai = a.offset(i as isize * g.a.row_stride);
                let ci = c.offset(i as isize * g.c.row_stride + j as isize * g.c.col_stride);
                if g.m - i >= MR {
                    tile::<E, MR>(g, ai, bj, b_row, ci, w);
                    i += MR;
                } else {
                    tile::<E, 1>(g, ai, bj, b_row, ci, w);
                    i += 1;
                }
            }
            j += w;
        }
    }
    Ok(())
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            pub unsafe fn run<E: Ring>(g: &Gemm, a: *const u8, b: *const u8, c: *mut u8) -> Outcome {
                // SAFETY: the caller's contract.
                unsafe { body::<E>(g, a, b, c) }
            }
        }
    };
}
each_tier!(tier);

unsafe fn on_tier<E: Ring>(g: &Gemm, a: *const u8, b: *const u8, c: *mut u8) -> Outcome {
    // SAFETY: the caller's contract; the active tier is available.
    unsafe { of_tier!(Isa::active(), run::<E>(g, a, b, c)) }
}

/// One product of the batch, on the calling thread; `g.batch` is ignored.
///
/// # Errors
/// When there is no memory for a copy of B.
///
/// # Safety
/// As [`super::gemm`]; `g.dtype` and `g.out` are equal. Other types than the module's are left alone.
pub unsafe fn gemm(g: &Gemm, a: *const u8, b: *const u8, c: *mut u8) -> Outcome {
    // SAFETY: the caller's contract.
    unsafe {
        match g.dtype {
            DType::F32 => on_tier::<f32>(g, a, b, c),
            DType::F64 => on_tier::<f64>(g, a, b, c),
            DType::C64 => on_tier::<Cx<f32>>(g, a, b, c),
            DType::C128 => on_tier::<Cx<f64>>(g, a, b, c),
            DType::S32 => on_tier::<i32>(g, a, b, c),
            DType::S64 => on_tier::<i64>(g, a, b, c),
            _ => {
                debug_assert!(false, "the caller converts other types");
                Ok(())
            }
        }
    }
}
