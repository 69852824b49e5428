//! Factorizations and solves of one matrix.

use num_complex::Complex64;

use super::dense;
use super::lapack::{Call, read_ints};
use super::matrix::{Element, Matrix};
use super::part::{Part, needs_lapack};
use crate::buffers::filled;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::plan::ops::linalg::LinalgOp;
use crate::plan::ops::linalg::Transpose;
use crate::types::PrimitiveType;

fn square(matrix: &Matrix) -> Result<usize> {
    if matrix.rows == matrix.cols {
        Ok(matrix.rows)
    } else {
        Err(HloError::execution("linear algebra wants a square matrix"))
    }
}

/// Not a number, in the type of the matrix.
fn poison(matrix: &mut Matrix) -> Result<()> {
    let values = filled(Complex64::new(f64::NAN, 0.0), matrix.rows * matrix.cols)?;
    *matrix = Matrix::from_complex(&values, matrix.rows, matrix.cols, matrix.ty)?;
    Ok(())
}

pub fn potrf(op: &LinalgOp, part: &Part) -> Result<()> {
    let mut a = Matrix::load(&part.inputs[0], part.ty())?;
    let n = square(&a)?;
    let info = if n == 0 {
        0
    } else if let Some(call) = Call::new(a.ty, "potrf") {
        let uplo = if op.lower { b'L' } else { b'U' };
        let call = call.characters([uplo]).ints([n]).matrix(&mut a);
        // SAFETY: xPOTRF(UPLO, N, A, LDA, INFO).
        unsafe { call.run_with_info()? }
    } else {
        let mut values = a.to_complex()?;
        let info = dense::potrf(&mut values, n, op.lower);
        a = Matrix::from_complex(&values, n, n, a.ty)?;
        info
    };
    if op.zero_other {
        for j in 0..n {
            for i in 0..n {
                if if op.lower { i < j } else { i > j } {
                    a.element(i, j).fill(0);
                }
            }
        }
        if info != 0 {
            poison(&mut a)?;
        }
    }
    part.info(1, info)?;
    a.store(&part.outputs[0])
}

/// A triangular matrix as LAPACK reads it.
struct Triangle {
    pointer: *mut u8,
    /// Elements from one column to the next.
    leading: usize,
    is_lower: bool,
    transpose: Transpose,
    /// The memory, where it is read from a copy.
    _copy: Option<Matrix>,
}

impl Triangle {
    /// In place where columns or rows lie dense, for copying takes longer than a solve with few columns.
    fn new(op: &LinalgOp, array: &RawArray, ty: PrimitiveType) -> Result<Triangle> {
        let in_place = |leading: i64, is_lower: bool, transpose: Transpose| Triangle {
            pointer: array.pointer,
            leading: leading as usize,
            is_lower,
            transpose,
            _copy: None,
        };
        if let (&[n, _], &[row, column]) = (&array.dims[..], &array.strides[..])
            && array.element_type == ty
        {
            if row == 1 && column >= n {
                return Ok(in_place(column, op.lower, op.transpose));
            }
            let is_conjugate = op.transpose == Transpose::Adjoint && ty.is_complex();
            if column == 1 && row >= n && !is_conjugate {
                let turned = match op.transpose {
                    Transpose::No => Transpose::Yes,
                    Transpose::Yes | Transpose::Adjoint => Transpose::No,
                };
                return Ok(in_place(row, !op.lower, turned));
            }
        }
        let mut copy = Matrix::load(array, ty)?;
        Ok(Triangle {
            pointer: copy.bytes.as_mut_ptr(),
            leading: copy.rows.max(1),
            is_lower: op.lower,
            transpose: op.transpose,
            _copy: Some(copy),
        })
    }
}

pub fn trsm(op: &LinalgOp, part: &Part) -> Result<()> {
    let ty = part.ty();
    let mut b = Matrix::load(&part.inputs[1], ty)?;
    let n = if op.left { b.rows } else { b.cols };
    if part.inputs[0].dims[..] != [n as i64; 2] {
        return Err(HloError::execution(
            "triangular-solve of sizes that do not fit",
        ));
    }
    if n > 0 && b.rows * b.cols > 0 {
        if let Some(call) = Call::new(ty, "trsm") {
            let mut one = Matrix::from_complex(&[Complex64::new(1.0, 0.0)], 1, 1, ty)?;
            let a = Triangle::new(op, &part.inputs[0], ty)?;
            let trans = match a.transpose {
                Transpose::No => b'N',
                Transpose::Yes => b'T',
                Transpose::Adjoint => b'C',
            };
            let call = call
                .characters([
                    if op.left { b'L' } else { b'R' },
                    if a.is_lower { b'L' } else { b'U' },
                    trans,
                    if op.unit_diagonal { b'U' } else { b'N' },
                ])
                .ints([b.rows, b.cols])
                .vector(&mut one)
                .pointer(a.pointer)
                .ints([a.leading])
                .matrix(&mut b);
            // SAFETY: xTRSM(SIDE, UPLO, TRANSA, DIAG, M, N, ALPHA, A, LDA, B, LDB); A is only read.
            unsafe { call.run()? };
        } else {
            let (left, lower) = (op.left, op.lower);
            let mut values = b.to_complex()?;
            let matrix = Matrix::load(&part.inputs[0], ty)?.to_complex()?;
            let m = b.rows;
            dense::trsm(
                &matrix,
                n,
                &mut values,
                m,
                left,
                lower,
                op.transpose,
                op.unit_diagonal,
            )?;
            b = Matrix::from_complex(&values, b.rows, b.cols, ty)?;
        }
    }
    b.store(&part.outputs[0])
}

pub fn getrf(part: &Part) -> Result<()> {
    let (a, pivots, info) = factored(part)?;
    part.ints(1, &pivots)?;
    part.info(2, info)?;
    a.store(&part.outputs[0])
}

/// XLA:TPU's form: exchanges counted from 0, and the permutation they amount to.
pub fn lu(part: &Part) -> Result<()> {
    let (a, pivots, _) = factored(part)?;
    let pivots: Vec<i32> = pivots.iter().map(|&pivot| pivot - 1).collect();
    let exchanges: Vec<i64> = pivots.iter().map(|&pivot| i64::from(pivot)).collect();
    part.ints(1, &pivots)?;
    part.ints(2, &permutation(&exchanges, a.rows))?;
    a.store(&part.outputs[0])
}

/// L and U in one matrix, the row exchanges counted from 1, LAPACK's status.
fn factored(part: &Part) -> Result<(Matrix, Vec<i32>, i32)> {
    let mut a = Matrix::load(&part.inputs[0], part.ty())?;
    let (m, n) = (a.rows, a.cols);
    let (pivots, info) = if m * n == 0 {
        (Vec::new(), 0)
    } else if let Some(call) = Call::new(a.ty, "getrf") {
        let wide = call.wide();
        let call = call.ints([m, n]).matrix(&mut a);
        let mut pivots = Matrix::zeros(PrimitiveType::S64, m.min(n), 1)?;
        let call = call.vector(&mut pivots);
        // SAFETY: xGETRF(M, N, A, LDA, IPIV, INFO); pivots have room for words.
        unsafe {
            let info = call.run_with_info()?;
            (read_ints(pivots.bytes.as_ptr(), m.min(n), wide), info)
        }
    } else {
        let mut values = a.to_complex()?;
        let result = dense::getrf(&mut values, m, n);
        a = Matrix::from_complex(&values, m, n, a.ty)?;
        result
    };
    Ok((a, pivots, info))
}

pub fn geqrf(part: &Part) -> Result<()> {
    let mut a = Matrix::load(&part.inputs[0], part.ty())?;
    let (m, n, ty) = (a.rows, a.cols, a.ty);
    let mut tau = Matrix::zeros(ty, m.min(n), 1)?;
    let mut info = 0;
    if m * n > 0 {
        if let Some(call) = Call::new(ty, "geqrf") {
            let work = 64 * n;
            let call = call
                .ints([m, n])
                .matrix(&mut a)
                .vector(&mut tau)
                .workspace(work, ty.size_bytes())?;
            // SAFETY: xGEQRF(M, N, A, LDA, TAU, WORK, LWORK, INFO).
            info = unsafe { call.run_with_info()? };
        } else {
            let mut values = a.to_complex()?;
            let taus = dense::geqrf(&mut values, m, n);
            a = Matrix::from_complex(&values, m, n, ty)?;
            tau = Matrix::from_complex(&taus, taus.len(), 1, ty)?;
        }
    }
    part.info(2, info)?;
    a.store(&part.outputs[0])?;
    tau.store(part.output(1)?)
}

pub fn orgqr(part: &Part) -> Result<()> {
    let mut a = Matrix::load(&part.inputs[0], part.ty())?;
    let mut tau = Matrix::load(&part.inputs[1], a.ty)?;
    let (m, n, k, ty) = (a.rows, a.cols, tau.rows, a.ty);
    if n > m || k > n {
        return Err(HloError::execution("orgqr of a wide matrix"));
    }
    let mut info = 0;
    if n > 0 {
        let name = if ty.is_complex() { "ungqr" } else { "orgqr" };
        if let Some(call) = Call::new(ty, name) {
            let work = 64 * n;
            let call = call
                .ints([m, n, k])
                .matrix(&mut a)
                .vector(&mut tau)
                .workspace(work, ty.size_bytes())?;
            // SAFETY: xORGQR(M, N, K, A, LDA, TAU, WORK, LWORK, INFO).
            info = unsafe { call.run_with_info()? };
        } else {
            let mut values = a.to_complex()?;
            dense::orgqr(&mut values, m, n, &tau.to_complex()?)?;
            a = Matrix::from_complex(&values, m, n, ty)?;
        }
    }
    part.info(1, info)?;
    a.store(&part.outputs[0])
}

pub fn ormqr(op: &LinalgOp, part: &Part) -> Result<()> {
    let ty = part.ty();
    let mut a = Matrix::load(&part.inputs[0], ty)?;
    let mut tau = Matrix::load(&part.inputs[1], ty)?;
    let mut c = Matrix::load(&part.inputs[2], ty)?;
    let (m, n, k) = (c.rows, c.cols, tau.rows);
    let size = if op.left { m } else { n };
    if a.rows != size || k > size || a.cols < k {
        return Err(HloError::execution("ormqr of sizes that do not fit"));
    }
    if m * n > 0 {
        let name = if ty.is_complex() { "unmqr" } else { "ormqr" };
        let Some(call) = Call::new(ty, name) else {
            return Err(needs_lapack(name));
        };
        let trans = match (op.transpose, ty.is_complex()) {
            (Transpose::No, _) => b'N',
            (_, true) => b'C',
            (_, false) => b'T',
        };
        let work = 64 * (m.max(n) + 65);
        let call = call
            .characters([if op.left { b'L' } else { b'R' }, trans])
            .ints([m, n, k])
            .matrix(&mut a)
            .vector(&mut tau)
            .matrix(&mut c)
            .workspace(work, ty.size_bytes())?;
        // SAFETY: xORMQR(SIDE, TRANS, M, N, K, A, LDA, TAU, C, LDC, WORK, LWORK, INFO).
        unsafe { call.run_with_info()? };
    }
    c.store(&part.outputs[0])
}

pub fn geqp3(part: &Part) -> Result<()> {
    let mut a = Matrix::load(&part.inputs[0], part.ty())?;
    let (m, n, ty) = (a.rows, a.cols, a.ty);
    let chosen = Matrix::load(&part.inputs[1], PrimitiveType::S64)?;
    let mut tau = Matrix::zeros(ty, m.min(n), 1)?;
    if chosen.rows != n {
        return Err(HloError::execution("geqp3 with pivots of another length"));
    }
    let mut pivots: Vec<i32> = (1..=n as i32).collect();
    if m * n > 0 {
        let Some(call) = Call::new(ty, "geqp3") else {
            return Err(needs_lapack("geqp3"));
        };
        let wide = call.wide();
        let mut words = Matrix::zeros(PrimitiveType::S64, n, 1)?;
        for (i, value) in chosen.bytes.as_slice().chunks_exact(8).enumerate() {
            let (size, to) = (if wide { 8 } else { 4 }, words.bytes.as_mut_slice());
            to[i * size..(i + 1) * size].copy_from_slice(&value[..size]);
        }
        let work = 2 * n + 64 * (n + 1);
        let mut call = call
            .ints([m, n])
            .matrix(&mut a)
            .vector(&mut words)
            .vector(&mut tau)
            .workspace(work, ty.size_bytes())?;
        if ty.is_complex() {
            call = call.work(2 * n, 8)?;
        }
        // SAFETY: xGEQP3(M, N, A, LDA, JPVT, TAU, WORK, LWORK, [RWORK,] INFO).
        unsafe {
            call.run_with_info()?;
            pivots = read_ints(words.bytes.as_ptr(), n, wide);
        }
    }
    a.store(&part.outputs[0])?;
    part.ints(1, &pivots)?;
    tau.store(part.output(2)?)
}

pub fn gtsv(part: &Part) -> Result<()> {
    let ty = part.ty();
    let all = part
        .inputs
        .iter()
        .map(|array| Matrix::load(array, ty))
        .collect::<Result<Vec<_>>>()?;
    let [dl, d, du, b] = &all[..] else {
        return Err(HloError::execution("gtsv takes four arrays"));
    };
    if dl.rows != d.rows || du.rows != d.rows || b.rows != d.rows {
        return Err(HloError::execution("gtsv of sizes that do not fit"));
    }
    let (x, info) = match ty.is_complex() {
        true => tridiagonal::<Complex64>([dl, d, du, b])?,
        false => tridiagonal::<f64>([dl, d, du, b])?,
    };
    if let [solution] = &part.outputs[..] {
        return x.store(solution);
    }
    for (matrix, output) in [dl, d, du, &x].into_iter().zip(&part.outputs) {
        matrix.store(output)?;
    }
    part.info(4, info)?;
    Ok(())
}

/// The solution of a tridiagonal system, and the row of a zero pivot or 0.
fn tridiagonal<T: Element + dense::Number>([dl, d, du, b]: [&Matrix; 4]) -> Result<(Matrix, i32)> {
    let [dl, d, du] = [dl, d, du].map(Matrix::to_numbers::<T>);
    let mut x = b.to_numbers::<T>()?;
    let info = dense::gtsv(&dl?, &d?, &du?, &mut x)?;
    Ok((Matrix::from_numbers(&x, b.rows, b.cols, b.ty)?, info))
}

pub fn syrk(op: &LinalgOp, part: &Part) -> Result<()> {
    let ty = part.ty();
    let a = Matrix::load(&part.inputs[0], ty)?;
    let c = Matrix::load(&part.inputs[1], ty)?;
    let alpha = Matrix::load(&part.inputs[2], ty)?.to_complex()?[0];
    let beta = Matrix::load(&part.inputs[3], ty)?.to_complex()?[0];
    let transposed = op.transpose != Transpose::No;
    let (n, k) = if transposed {
        (a.cols, a.rows)
    } else {
        (a.rows, a.cols)
    };
    if c.rows != n || c.cols != n {
        return Err(HloError::execution("syrk of sizes that do not fit"));
    }
    let values = a.to_complex()?;
    let element = |i: usize, p: usize| {
        values[if transposed {
            i * a.rows + p
        } else {
            p * a.rows + i
        }]
    };
    let mut result = c.to_complex()?;
    for j in 0..n {
        for i in 0..n {
            let sum: Complex64 = (0..k).map(|p| element(i, p) * element(j, p)).sum();
            let old = &mut result[j * n + i];
            let kept = if beta == Complex64::default() {
                beta
            } else {
                beta * *old
            };
            *old = alpha * sum + kept;
        }
    }
    Matrix::from_complex(&result, n, n, ty)?.store(&part.outputs[0])
}

pub fn pivots(part: &Part) -> Result<()> {
    let pivots = crate::exec::ops::index_map::to_i64(&part.inputs[0])?;
    let n = part.outputs[0].count();
    part.ints(0, &permutation(&pivots, n))?;
    Ok(())
}

/// What exchanging row `i` with row `pivots[i]`, one after the other, makes of the rows `0..n`.
fn permutation(pivots: &[i64], n: usize) -> Vec<i32> {
    let mut permutation: Vec<i32> = (0..n as i32).collect();
    for (i, &pivot) in pivots.iter().enumerate() {
        if let Ok(pivot) = usize::try_from(pivot)
            && pivot < n
            && i < n
        {
            permutation.swap(i, pivot);
        }
    }
    permutation
}
