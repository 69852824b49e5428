//! Factorizations in plain Rust, for machines without a LAPACK library: column-major, complex, in
//! double precision whatever the operand's type.
//!
//! Names, arguments and results are LAPACK's. Real input stays real.

use std::ops::{Div, Mul, Neg, Sub};

use num_complex::Complex64 as C;

use crate::buffers::{collected, filled, with_room};
use crate::error::Result;

const ZERO: C = C::new(0.0, 0.0);
const ONE: C = C::new(1.0, 0.0);

/// The Cholesky factor of the `lower` or upper triangle, in place. Returns the failing minor, or 0.
pub fn potrf(a: &mut [C], n: usize, lower: bool) -> i32 {
    let at = |i: usize, j: usize| if lower { j * n + i } else { i * n + j };
    for j in 0..n {
        let mut d = a[at(j, j)].re;
        for k in 0..j {
            d -= a[at(j, k)].norm_sqr();
        }
        if d.is_nan() || d <= 0.0 {
            return j as i32 + 1;
        }
        let d = d.sqrt();
        a[at(j, j)] = C::new(d, 0.0);
        for i in j + 1..n {
            let mut x = a[at(i, j)];
            for k in 0..j {
                // The upper form stores conjugates; the product is the same.
                x -= a[at(i, k)] * a[at(j, k)].conj();
            }
            a[at(i, j)] = x / d;
        }
    }
    0
}

/// Solves `op(A) X = B` for the columns of `b`, `n` rows; `read(i, j)` is op(A), lower triangular or
/// upper.
fn substitute(read: &dyn Fn(usize, usize) -> C, lower: bool, unit: bool, b: &mut [C], n: usize) {
    if n == 0 {
        return;
    }
    for column in b.chunks_exact_mut(n) {
        for step in 0..n {
            let i = if lower { step } else { n - 1 - step };
            let known = if lower { 0..i } else { i + 1..n };
            let mut x = column[i];
            for k in known {
                x -= read(i, k) * column[k];
            }
            column[i] = if unit { x } else { x / read(i, i) };
        }
    }
}

/// Triangular solve with one matrix: `op(A) X = B` on the left, `X op(A) = B` on the right; `b` is
/// `m × k`.
#[allow(clippy::too_many_arguments)]
pub fn trsm(
    a: &[C],
    n: usize,
    b: &mut [C],
    m: usize,
    left: bool,
    lower: bool,
    transpose: crate::plan::ops::linalg::Transpose,
    unit: bool,
) -> Result<()> {
    use crate::plan::ops::linalg::Transpose as T;
    let element = |i: usize, j: usize| match transpose {
        T::No => a[j * n + i],
        T::Yes => a[i * n + j],
        T::Adjoint => a[i * n + j].conj(),
    };
    let lower = lower == (transpose == T::No);
    if left {
        substitute(&element, lower, unit, b, n);
        return Ok(());
    }
    // X op(A) = B is op(A)ᵀ Xᵀ = Bᵀ.
    let mut turned = filled(ZERO, b.len())?;
    for i in 0..m {
        for j in 0..n {
            turned[i * n + j] = b[j * m + i];
        }
    }
    substitute(&|i, j| element(j, i), !lower, unit, &mut turned, n);
    for i in 0..m {
        for j in 0..n {
            b[j * m + i] = turned[i * n + j];
        }
    }
    Ok(())
}

/// LU with row exchanges, in place. Returns the pivots, from 1, and `info`.
pub fn getrf(a: &mut [C], m: usize, n: usize) -> (Vec<i32>, i32) {
    let size = |x: C| x.re.abs() + x.im.abs();
    let (mut pivots, mut info) = (Vec::new(), 0);
    for j in 0..m.min(n) {
        let mut p = j;
        for i in j + 1..m {
            if size(a[j * m + i]) > size(a[j * m + p]) {
                p = i;
            }
        }
        pivots.push(p as i32 + 1);
        if a[j * m + p] == ZERO {
            if info == 0 {
                info = j as i32 + 1;
            }
            continue;
        }
        for k in 0..n {
            a.swap(k * m + j, k * m + p);
        }
        let d = a[j * m + j];
        for i in j + 1..m {
            a[j * m + i] /= d;
        }
        for k in j + 1..n {
            let x = a[k * m + j];
            for i in j + 1..m {
                let l = a[j * m + i];
                a[k * m + i] -= l * x;
            }
        }
    }
    (pivots, info)
}

/// A Householder reflection `I - τ v vᴴ` that maps `x` to `(β, 0, …)`, β real; `x` becomes β and v
/// without its leading 1.
fn reflector(x: &mut [C]) -> C {
    let tail: f64 = x[1..].iter().map(|x| x.norm_sqr()).sum();
    if tail == 0.0 && x[0].im == 0.0 {
        return ZERO;
    }
    let norm = (x[0].norm_sqr() + tail).sqrt();
    let beta = if x[0].re >= 0.0 { -norm } else { norm };
    let tau = C::new((beta - x[0].re) / beta, -x[0].im / beta);
    let scale = ONE / (x[0] - beta);
    x[1..].iter_mut().for_each(|x| *x *= scale);
    x[0] = C::new(beta, 0.0);
    tau
}

/// Applies `I - τ v vᴴ` to a column; `v` comes without its leading 1.
fn reflect(v: &[C], tau: C, column: &mut [C]) {
    let mut dot = column[0];
    for (v, x) in v.iter().zip(&column[1..]) {
        dot += v.conj() * x;
    }
    let dot = dot * tau;
    column[0] -= dot;
    for (v, x) in v.iter().zip(&mut column[1..]) {
        *x -= v * dot;
    }
}

/// QR in place; returns τ.
pub fn geqrf(a: &mut [C], m: usize, n: usize) -> Vec<C> {
    let mut taus = Vec::new();
    for j in 0..m.min(n) {
        let (head, tail) = a.split_at_mut((j + 1) * m);
        let tau = reflector(&mut head[j * m + j..]);
        let v = &head[j * m + j + 1..];
        for column in tail.chunks_exact_mut(m) {
            reflect(v, tau.conj(), &mut column[j..]);
        }
        taus.push(tau);
    }
    taus
}

/// The first `n` columns of Q, from `geqrf`'s result in place.
pub fn orgqr(a: &mut [C], m: usize, n: usize, taus: &[C]) -> Result<()> {
    let reflectors: Vec<C> = collected(a.iter().copied())?;
    a.fill(ZERO);
    for j in 0..n.min(m) {
        a[j * m + j] = ONE;
    }
    if m == 0 {
        return Ok(());
    }
    for (k, &tau) in taus.iter().enumerate().take(m.min(n)).rev() {
        let v = &reflectors[k * m + k + 1..(k + 1) * m];
        for column in a.chunks_exact_mut(m) {
            reflect(v, tau, &mut column[k..]);
        }
    }
    Ok(())
}

/// Eigenvalues, ascending, and vectors of a Hermitian matrix given by one triangle, in place, by
/// Jacobi's rotations.
pub fn heevd(a: &mut [C], n: usize, lower: bool) -> Result<Vec<f64>> {
    for j in 0..n {
        a[j * n + j].im = 0.0;
        for i in j + 1..n {
            if lower {
                a[i * n + j] = a[j * n + i].conj();
            } else {
                a[j * n + i] = a[i * n + j].conj();
            }
        }
    }
    let mut v = filled(ZERO, n * n)?;
    (0..n).for_each(|i| v[i * n + i] = ONE);
    for _ in 0..60 {
        let mut off = 0.0;
        let mut all = 0.0;
        for j in 0..n {
            for i in 0..n {
                all += a[j * n + i].norm_sqr();
                off += if i == j { 0.0 } else { a[j * n + i].norm_sqr() };
            }
        }
        if off.is_nan() || off <= all * 1e-32 {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                let x = a[q * n + p];
                if x.norm() == 0.0 {
                    continue;
                }
                // The phase makes the element real, the rotation makes it zero.
                let phase = x / x.norm();
                let theta = (a[q * n + q].re - a[p * n + p].re) / (2.0 * x.norm());
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let t = if theta == 0.0 { 1.0 } else { t };
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = phase * (t * c);
                for k in 0..n {
                    let (y, z) = (a[p * n + k], a[q * n + k]);
                    a[p * n + k] = y * c - z * s.conj();
                    a[q * n + k] = y * s + z * c;
                    let (y, z) = (v[p * n + k], v[q * n + k]);
                    v[p * n + k] = y * c - z * s.conj();
                    v[q * n + k] = y * s + z * c;
                }
                for k in 0..n {
                    let (y, z) = (a[k * n + p], a[k * n + q]);
                    a[k * n + p] = y * c - z * s;
                    a[k * n + q] = y * s.conj() + z * c;
                }
            }
        }
    }
    let mut order = collected(0..n)?;
    order.sort_by(|&i, &j| a[i * n + i].re.total_cmp(&a[j * n + j].re));
    let values = collected(order.iter().map(|&i| a[i * n + i].re))?;
    for (to, &from) in order.iter().enumerate() {
        a[to * n..(to + 1) * n].copy_from_slice(&v[from * n..(from + 1) * n]);
    }
    Ok(values)
}

/// Singular values, U and Vᴴ.
pub type Svd = (Vec<f64>, Vec<C>, Vec<C>);

/// Singular values, descending, all of U (`m × m`) and all of Vᴴ (`n × n`), by one-sided Jacobi.
pub fn gesvd(a: &[C], m: usize, n: usize) -> Result<Svd> {
    if m < n {
        // A = U S Vᴴ is Aᴴ = V S Uᴴ.
        let (s, u, vh) = gesvd(&adjoint(a, m, n)?, n, m)?;
        return Ok((s, adjoint(&vh, m, m)?, adjoint(&u, n, n)?));
    }
    let mut w = collected(a.iter().copied())?;
    let mut v = filled(ZERO, n * n)?;
    (0..n).for_each(|i| v[i * n + i] = ONE);
    let mut turned = true;
    for _ in 0..60 {
        if !turned || m == 0 {
            break;
        }
        turned = false;
        for p in 0..n {
            for q in p + 1..n {
                let (mut alpha, mut beta, mut gamma) = (0.0, 0.0, ZERO);
                for k in 0..m {
                    let (x, y) = (w[p * m + k], w[q * m + k]);
                    alpha += x.norm_sqr();
                    beta += y.norm_sqr();
                    gamma += x.conj() * y;
                }
                let size = gamma.norm();
                if size.is_nan() || size <= 1e-16 * (alpha * beta).sqrt() || size == 0.0 {
                    continue;
                }
                turned = true;
                let phase = gamma / size;
                let zeta = (beta - alpha) / (2.0 * size);
                let t = if zeta == 0.0 {
                    1.0
                } else {
                    zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt())
                };
                let c = 1.0 / (1.0 + t * t).sqrt();
                let s = phase * (t * c);
                let rotate = |x: &mut [C], rows: usize| {
                    for k in 0..rows {
                        let (y, z) = (x[p * rows + k], x[q * rows + k]);
                        x[p * rows + k] = y * c - z * s.conj();
                        x[q * rows + k] = y * s + z * c;
                    }
                };
                rotate(&mut w, m);
                rotate(&mut v, n);
            }
        }
    }
    let norm = |j: usize| {
        w[j * m..(j + 1) * m]
            .iter()
            .map(|x| x.norm_sqr())
            .sum::<f64>()
            .sqrt()
    };
    let norms = collected((0..n).map(norm))?;
    let mut order = collected(0..n)?;
    order.sort_by(|&i, &j| norms[j].total_cmp(&norms[i]));
    let mut u: Vec<C> = with_room(m.saturating_mul(m))?;
    let mut vh = filled(ZERO, n * n)?;
    for (to, &from) in order.iter().enumerate() {
        let scale = if norms[from] > 0.0 {
            1.0 / norms[from]
        } else {
            0.0
        };
        u.extend(w[from * m..(from + 1) * m].iter().map(|x| x * scale));
        for k in 0..n {
            vh[k * n + to] = v[from * n + k].conj();
        }
    }
    complete(&mut u, m)?;
    Ok((collected(order.iter().map(|&i| norms[i]))?, u, vh))
}

fn adjoint(a: &[C], m: usize, n: usize) -> Result<Vec<C>> {
    let mut turned = filled(ZERO, m * n)?;
    for i in 0..m {
        for j in 0..n {
            turned[i * n + j] = a[j * m + i].conj();
        }
    }
    Ok(turned)
}

/// Makes the columns an orthonormal basis of all `m` dimensions; zero columns are replaced.
fn complete(u: &mut Vec<C>, m: usize) -> Result<()> {
    // The caller made room.
    u.resize(m * m, ZERO);
    let mut next = 0;
    for j in 0..m {
        let is_set = u[j * m..(j + 1) * m].iter().any(|x| *x != ZERO);
        while !is_set && next < m {
            let mut x = filled(ZERO, m)?;
            x[next] = ONE;
            next += 1;
            for _ in 0..2 {
                for k in (0..m).filter(|&k| k != j) {
                    let column = &u[k * m..(k + 1) * m];
                    let dot: C = column.iter().zip(&x).map(|(a, b)| a.conj() * b).sum();
                    x.iter_mut().zip(column).for_each(|(x, c)| *x -= c * dot);
                }
            }
            let norm = x.iter().map(|x| x.norm_sqr()).sum::<f64>().sqrt();
            if norm > 1e-8 {
                for (to, x) in u[j * m..(j + 1) * m].iter_mut().zip(x) {
                    *to = x / norm;
                }
                break;
            }
        }
    }
    Ok(())
}

/// A real or complex number.
pub trait Number:
    Copy
    + Default
    + PartialEq
    + Neg<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// The sum of the absolute values of its parts, by which pivots are compared.
    fn size(self) -> f64;
}

impl Number for f64 {
    fn size(self) -> f64 {
        self.abs()
    }
}

impl Number for C {
    fn size(self) -> f64 {
        self.re.abs() + self.im.abs()
    }
}

/// Solves a tridiagonal system by elimination with row exchanges; `lower[0]` and the last of
/// `upper` are not read. `b` has `n` rows. Returns the row of a zero pivot, or 0.
pub fn gtsv<T: Number>(lower: &[T], diagonal: &[T], upper: &[T], b: &mut [T]) -> Result<i32> {
    let zero = T::default();
    let n = diagonal.len();
    if n == 0 {
        return Ok(0);
    }
    let (mut d, mut du) = (
        collected(diagonal.iter().copied())?,
        collected(upper.iter().copied())?,
    );
    let mut dl: Vec<T> = collected(lower[1..].iter().copied())?;
    let mut du2 = filled(zero, n)?;
    for i in 0..n - 1 {
        let exchange = d[i].size() < dl[i].size();
        if !exchange && d[i] == zero {
            return Ok(i as i32 + 1);
        }
        let factor = if exchange { d[i] / dl[i] } else { dl[i] / d[i] };
        if exchange {
            d[i] = dl[i];
            let x = d[i + 1];
            d[i + 1] = du[i] - factor * x;
            if i + 1 < n - 1 {
                du2[i] = du[i + 1];
                du[i + 1] = -factor * du2[i];
            }
            du[i] = x;
        } else {
            d[i + 1] = d[i + 1] - factor * du[i];
        }
        dl[i] = zero;
        for column in b.chunks_exact_mut(n) {
            if exchange {
                column.swap(i, i + 1);
            }
            let x = column[i];
            column[i + 1] = column[i + 1] - factor * x;
        }
    }
    if d[n - 1] == zero {
        return Ok(n as i32);
    }
    for column in b.chunks_exact_mut(n) {
        for i in (0..n).rev() {
            let mut x = column[i];
            if i + 1 < n {
                x = x - du[i] * column[i + 1];
            }
            if i + 2 < n {
                x = x - du2[i] * column[i + 2];
            }
            column[i] = x / d[i];
        }
    }
    Ok(0)
}
