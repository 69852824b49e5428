//! Factorizations of many small matrices at once, one matrix in each lane of the vectors.
//!
//! In: `L` matrices of one size, column by column, element `(i, j)` of all of them side by side. Out: the factors in
//! their place, and which lanes need another routine: a pivot that is not positive, or zero, or no number. Promise: a
//! matrix's bits depend on neither `L`, its lane nor the instruction set, for no sum is reordered or fused.

use std::ops::{AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

use crate::Isa;

/// What the matrices are made of.
pub trait Real:
    Copy
    + PartialOrd
    + AddAssign
    + SubAssign
    + MulAssign
    + Neg<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The nearest.
    fn narrow(x: f64) -> Self;
    /// As `f64`.
    fn wide(self) -> f64;
    /// The square root.
    fn root(self) -> Self;
    /// Without its sign.
    fn magnitude(self) -> Self;
    /// Whether it is neither zero, subnormal, infinite nor NaN.
    fn is_normal(self) -> bool;
}

macro_rules! real {
    ($($t:ty),*) => {$(
        impl Real for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            inline! {
                fn narrow(x: f64) -> $t { x as $t }
                fn wide(self) -> f64 { f64::from(self) }
                fn root(self) -> $t { self.sqrt() }
                fn magnitude(self) -> $t { self.abs() }
                fn is_normal(self) -> bool { <$t>::is_normal(self) }
            }
        }
    )*};
}
real!(f32, f64);

/// Lanes whose result is of no use.
pub type Failed<const L: usize> = [bool; L];

/// The smallest and largest squared norms that are exact enough.
const LEAST_SQUARE: f64 = 1e-280;
const MOST_SQUARE: f64 = 1e280;

/// `y -= x * factor`, lane by lane, over as many elements as both have.
#[inline(always)]
fn subtract<F: Real, const L: usize>(y: &mut [[F; L]], x: &[[F; L]], factor: [F; L]) {
    for (y, x) in y.iter_mut().zip(x) {
        for l in 0..L {
            y[l] -= x[l] * factor[l];
        }
    }
}

/// `x /= by`.
#[inline(always)]
fn divide<F: Real, const L: usize>(x: &mut [[F; L]], by: [F; L]) {
    for x in x {
        for l in 0..L {
            x[l] = x[l] / by[l];
        }
    }
}

#[inline(always)]
fn cholesky_body<F: Real, const L: usize>(a: &mut [[F; L]], n: usize) -> Failed<L> {
    let mut failed = [false; L];
    for k in 0..n {
        let (done, rest) = a.split_at_mut((k + 1) * n);
        let column = &mut done[k * n + k..];
        let mut root = column[0];
        for l in 0..L {
            failed[l] |= root[l].partial_cmp(&F::ZERO) != Some(std::cmp::Ordering::Greater);
            root[l] = root[l].root();
        }
        column[0] = root;
        divide(&mut column[1..], root);
        for j in k + 1..n {
            let at = (j - k - 1) * n;
            subtract(&mut rest[at + j..at + n], &column[j - k..], column[j - k]);
        }
    }
    failed
}

#[inline(always)]
fn solve_body<F: Real, const L: usize>(a: &[[F; L]], n: usize, b: &mut [[F; L]], is_unit: bool) {
    for x in b.chunks_exact_mut(n) {
        for k in 0..n {
            if !is_unit {
                divide(&mut x[k..=k], a[k * n + k]);
            }
            let (head, tail) = x.split_at_mut(k + 1);
            subtract(tail, &a[k * n + k + 1..(k + 1) * n], head[k]);
        }
    }
}

#[inline(always)]
fn lu_body<F: Real, const L: usize>(
    a: &mut [[F; L]],
    m: usize,
    n: usize,
    pivots: &mut [[i32; L]],
) -> Failed<L> {
    let mut failed = [false; L];
    for k in 0..m.min(n) {
        let mut best = [F::ZERO; L];
        let mut at = [k as i32; L];
        for i in k..m {
            let x = a[k * m + i];
            for l in 0..L {
                let size = x[l].magnitude();
                // What is no number is larger than nothing, so it fails below.
                if size > best[l] {
                    best[l] = size;
                    at[l] = i as i32;
                }
                failed[l] |= !size.wide().is_finite();
            }
        }
        for l in 0..L {
            failed[l] |= best[l] == F::ZERO;
            let row = at[l] as usize;
            if row != k {
                for column in a.chunks_exact_mut(m) {
                    let (x, y) = (column[k][l], column[row][l]);
                    column[k][l] = y;
                    column[row][l] = x;
                }
            }
        }
        pivots[k] = at.map(|row| row + 1);
        let (done, rest) = a.split_at_mut((k + 1) * m);
        let column = &mut done[k * m..];
        let pivot = column[k];
        divide(&mut column[k + 1..], pivot);
        for other in rest.chunks_exact_mut(m) {
            let factor = other[k];
            subtract(&mut other[k + 1..], &column[k + 1..], factor);
        }
    }
    failed
}

/// `x -= tau v v' x` for the rows from that of `x[0]` on, where `v` begins with a one that is not stored.
#[inline(always)]
fn reflect<F: Real, const L: usize>(v: &[[F; L]], tau: [F; L], x: &mut [[F; L]]) {
    let Some((first, rest)) = x.split_first_mut() else {
        return;
    };
    let mut w = *first;
    for (x, v) in rest.iter().zip(v) {
        for l in 0..L {
            w[l] += x[l] * v[l];
        }
    }
    for l in 0..L {
        w[l] *= tau[l];
        first[l] -= w[l];
    }
    subtract(rest, v, w);
}

#[inline(always)]
fn qr_body<F: Real, const L: usize>(
    a: &mut [[F; L]],
    m: usize,
    n: usize,
    taus: &mut [[F; L]],
) -> Failed<L> {
    let mut failed = [false; L];
    for k in 0..m.min(n) {
        let (done, rest) = a.split_at_mut((k + 1) * m);
        let column = &mut done[k * m + k..];
        let mut square = [0f64; L];
        let mut is_zero = [true; L];
        for x in &column[1..] {
            for l in 0..L {
                square[l] += x[l].wide() * x[l].wide();
                is_zero[l] &= x[l] == F::ZERO;
            }
        }
        let (mut tau, mut scale, mut head) = ([F::ZERO; L], [F::ZERO; L], column[0]);
        for l in 0..L {
            let alpha = head[l].wide();
            let whole = alpha * alpha + square[l];
            let is_exact = whole < MOST_SQUARE && (is_zero[l] || square[l] >= LEAST_SQUARE);
            failed[l] |= !is_exact;
            if square[l] != 0.0 {
                let beta = -whole.sqrt().copysign(alpha);
                tau[l] = F::narrow((beta - alpha) / beta);
                scale[l] = F::narrow(1.0 / (alpha - beta));
                head[l] = F::narrow(beta);
                // Of very small columns it is infinite in the type, of very large ones it loses bits.
                failed[l] |= !scale[l].is_normal();
            }
        }
        column[0] = head;
        for x in &mut column[1..] {
            for l in 0..L {
                x[l] *= scale[l];
            }
        }
        taus[k] = tau;
        for other in rest.chunks_exact_mut(m) {
            reflect(&column[1..], tau, &mut other[k..]);
        }
    }
    failed
}

#[inline(always)]
fn q_body<F: Real, const L: usize>(a: &mut [[F; L]], m: usize, n: usize, taus: &[[F; L]]) {
    for j in taus.len()..n {
        let column = &mut a[j * m..(j + 1) * m];
        column.fill([F::ZERO; L]);
        column[j] = [F::ONE; L];
    }
    for (k, &tau) in taus.iter().enumerate().rev() {
        let (done, rest) = a.split_at_mut((k + 1) * m);
        let column = &mut done[k * m..];
        for other in rest.chunks_exact_mut(m) {
            reflect(&column[k + 1..], tau, &mut other[k..]);
        }
        for x in &mut column[k + 1..] {
            for l in 0..L {
                x[l] *= -tau[l];
            }
        }
        for l in 0..L {
            column[k][l] = F::ONE - tau[l];
        }
        column[..k].fill([F::ZERO; L]);
    }
}

#[inline(always)]
fn apply_q_body<F: Real, const L: usize>(
    a: &[[F; L]],
    m: usize,
    taus: &[[F; L]],
    c: &mut [[F; L]],
    is_transposed: bool,
) {
    for step in 0..taus.len() {
        // Q is the product of the reflections in their order, so that the last one comes first.
        let k = match is_transposed {
            true => step,
            false => taus.len() - 1 - step,
        };
        let v = &a[k * m + k + 1..(k + 1) * m];
        for column in c.chunks_exact_mut(m) {
            reflect(v, taus[k], &mut column[k..]);
        }
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            pub fn cholesky<F: Real, const L: usize>(a: &mut [[F; L]], n: usize) -> Failed<L> {
                cholesky_body(a, n)
            }

            $(#[$features])?
            pub fn solve<F: Real, const L: usize>(a: &[[F; L]], n: usize, b: &mut [[F; L]], is_unit: bool) {
                solve_body(a, n, b, is_unit);
            }

            $(#[$features])?
            pub fn lu<F: Real, const L: usize>(
                a: &mut [[F; L]],
                m: usize,
                n: usize,
                pivots: &mut [[i32; L]],
            ) -> Failed<L> {
                lu_body(a, m, n, pivots)
            }

            $(#[$features])?
            pub fn qr<F: Real, const L: usize>(
                a: &mut [[F; L]],
                m: usize,
                n: usize,
                taus: &mut [[F; L]],
            ) -> Failed<L> {
                qr_body(a, m, n, taus)
            }

            $(#[$features])?
            pub fn q<F: Real, const L: usize>(a: &mut [[F; L]], m: usize, n: usize, taus: &[[F; L]]) {
                q_body(a, m, n, taus);
            }

            $(#[$features])?
            pub fn apply_q<F: Real, const L: usize>(
                a: &[[F; L]],
                m: usize,
                taus: &[[F; L]],
                c: &mut [[F; L]],
                is_transposed: bool,
            ) {
                apply_q_body(a, m, taus, c, is_transposed);
            }
        }
    };
}
each_tier!(tier);

/// Cholesky factors of `n` by `n` matrices: the lower triangle of `a` is read and replaced.
pub fn cholesky<F: Real, const L: usize>(a: &mut [[F; L]], n: usize) -> Failed<L> {
    // SAFETY: the CPU has the instructions of the active set.
    #[allow(unused_unsafe)]
    unsafe {
        of_tier!(Isa::active(), cholesky(a, n))
    }
}

/// Solves `a x = b` in place of `b`, whose columns have `n` elements; the lower triangle of `a` is read, without its
/// diagonal where that is of ones.
pub fn solve<F: Real, const L: usize>(a: &[[F; L]], n: usize, b: &mut [[F; L]], is_unit: bool) {
    if n == 0 {
        return;
    }
    // SAFETY: as above.
    #[allow(unused_unsafe)]
    unsafe {
        of_tier!(Isa::active(), solve(a, n, b, is_unit));
    }
}

/// L and U of `m` by `n` matrices in one, with row exchanges counted from 1, `min(m, n)` of them.
pub fn lu<F: Real, const L: usize>(
    a: &mut [[F; L]],
    m: usize,
    n: usize,
    pivots: &mut [[i32; L]],
) -> Failed<L> {
    // SAFETY: as above.
    #[allow(unused_unsafe)]
    unsafe {
        of_tier!(Isa::active(), lu(a, m, n, pivots))
    }
}

/// R above and the vectors of the reflections below the diagonal, as LAPACK's `geqrf`; their factors in `taus`, of
/// which there are `min(m, n)`.
pub fn qr<F: Real, const L: usize>(
    a: &mut [[F; L]],
    m: usize,
    n: usize,
    taus: &mut [[F; L]],
) -> Failed<L> {
    // SAFETY: as above.
    #[allow(unused_unsafe)]
    unsafe {
        of_tier!(Isa::active(), qr(a, m, n, taus))
    }
}

/// The first `n` columns of the product of the reflections in `a`, at most `n` of them, where `n` is at most `m`.
pub fn q<F: Real, const L: usize>(a: &mut [[F; L]], m: usize, n: usize, taus: &[[F; L]]) {
    // SAFETY: as above.
    #[allow(unused_unsafe)]
    unsafe {
        of_tier!(Isa::active(), q(a, m, n, taus));
    }
}

/// The product of Q, of which `a` has the reflections of `m` elements and `taus` their factors, and of `c`, in place of `c`,
/// whose columns have `m` elements; `is_transposed`: of Q's transpose. There are at most `m` reflections.
pub fn apply_q<F: Real, const L: usize>(
    a: &[[F; L]],
    m: usize,
    taus: &[[F; L]],
    c: &mut [[F; L]],
    is_transposed: bool,
) {
    if m == 0 {
        return;
    }
    // SAFETY: as above.
    #[allow(unused_unsafe)]
    unsafe {
        of_tier!(Isa::active(), apply_q(a, m, taus, c, is_transposed));
    }
}

#[cfg(test)]
mod tests;
