//! Eigenvalues, singular values, and the reductions on the way to them, of one matrix.

use num_complex::Complex64;

use super::dense;
use super::lapack::Call;
use super::matrix::Matrix;
use super::part::{Part, needs_lapack};
use crate::buffers::filled;
use crate::error::{HloError, Result};
use crate::plan::ops::linalg::LinalgOp;

fn square(part: &Part) -> Result<(Matrix, usize)> {
    let a = Matrix::load(&part.inputs[0], part.ty())?;
    if a.rows != a.cols {
        return Err(HloError::execution("linear algebra wants a square matrix"));
    }
    let n = a.rows;
    Ok((a, n))
}

fn job(wanted: bool) -> u8 {
    if wanted { b'V' } else { b'N' }
}

pub fn syevd(op: &LinalgOp, part: &Part) -> Result<()> {
    let (mut a, n) = square(part)?;
    let (ty, real) = (a.ty, a.ty.component());
    let mut w = Matrix::zeros(real, n, 1)?;
    let mut info = 0;
    if n > 0 {
        let name = if ty.is_complex() { "heevd" } else { "syevd" };
        if let Some(call) = Call::new(ty, name) {
            let work = if ty.is_complex() {
                2 * n + n * n
            } else {
                1 + 6 * n + 2 * n * n
            };
            let mut call = call
                .characters([job(op.vectors), if op.lower { b'L' } else { b'U' }])
                .ints([n])
                .matrix(&mut a)
                .vector(&mut w)
                .workspace(work + 64 * n, ty.size_bytes())?;
            if ty.is_complex() {
                let work = 1 + 5 * n + 2 * n * n;
                call = call.workspace(work, real.size_bytes())?;
            }
            let call = call.workspace(3 + 5 * n, 8)?;
            // SAFETY: xSYEVD(JOBZ, UPLO, N, A, LDA, W, WORK, LWORK, [RWORK, LRWORK,] IWORK, LIWORK,
            // INFO) with workspaces of the documented sizes.
            info = unsafe { call.run_with_info()? };
        } else {
            let mut values = a.to_complex()?;
            let found: Vec<Complex64> = dense::heevd(&mut values, n, op.lower)?
                .into_iter()
                .map(Complex64::from)
                .collect();
            a = Matrix::from_complex(&values, n, n, ty)?;
            w = Matrix::from_complex(&found, n, 1, real)?;
        }
    }
    part.info(2, info)?;
    a.store(&part.outputs[0])?;
    w.store(part.output(1)?)
}

pub fn gesdd(op: &LinalgOp, part: &Part) -> Result<()> {
    let mut a = Matrix::load(&part.inputs[0], part.ty())?;
    let (m, n, ty, real) = (a.rows, a.cols, a.ty, a.ty.component());
    let k = m.min(n);
    let (u_out, v_out) = if op.exchanged {
        (part.output(3)?, part.output(2)?)
    } else {
        (part.output(2)?, part.output(3)?)
    };
    // All columns of U or only those with singular values, by the room for them.
    let all = op.vectors
        && (u_out.dims.get(1).is_some_and(|&c| c as usize > k)
            || v_out
                .dims
                .get(usize::from(op.v_as_columns))
                .is_some_and(|&c| c as usize > k));
    let (columns, rows) = match (op.vectors, all) {
        (false, _) => (0, 0),
        (true, true) => (m, n),
        (true, false) => (k, k),
    };
    let mut s = Matrix::zeros(real, k, 1)?;
    let mut u = Matrix::zeros(ty, m, columns)?;
    let mut vh = Matrix::zeros(ty, rows, n)?;
    let mut info = 0;
    if k == 0 {
        identity(&mut u)?;
        identity(&mut vh)?;
    } else if let Some(call) = Call::new(ty, "gesdd") {
        let mode = match (op.vectors, all) {
            (false, _) => b'N',
            (true, true) => b'A',
            (true, false) => b'S',
        };
        info = call_gesdd(call, mode, [&mut a, &mut s, &mut u, &mut vh])?;
    } else {
        let (found, all_u, all_vh) = dense::gesvd(&a.to_complex()?, m, n)?;
        let found: Vec<Complex64> = found.into_iter().map(Complex64::from).collect();
        s = Matrix::from_complex(&found, k, 1, real)?;
        u = Matrix::from_complex(&all_u[..m * columns], m, columns, ty)?;
        let kept: Vec<Complex64> = (0..n)
            .flat_map(|j| all_vh[j * n..j * n + rows].iter().copied())
            .collect();
        vh = Matrix::from_complex(&kept, rows, n, ty)?;
    }
    part.info(4, info)?;
    a.store(&part.outputs[0])?;
    s.store(part.output(1)?)?;
    if u_out.dims.is_empty() || v_out.dims.is_empty() {
        return Ok(());
    }
    if !op.vectors {
        // Their memory is there, their values are nobody's.
        Matrix::zeros(ty, m, m)?.store(u_out)?;
        return Matrix::zeros(ty, n, n)?.store(v_out);
    }
    u.store(u_out)?;
    if op.v_as_columns {
        vh = adjoint(&vh)?;
    }
    vh.store(v_out)
}

/// Calls LAPACK for singular values, and for the vectors that `mode` (JOBZ) asks for; returns its status.
fn call_gesdd(call: Call, mode: u8, [a, s, u, vh]: [&mut Matrix; 4]) -> Result<i32> {
    let (m, n, ty) = (a.rows, a.cols, a.ty);
    let (large, small) = (m.max(n), m.min(n));
    let work = 5 * small * small + 10 * small + 64 * (large + small) + large;
    let mut call = call
        .characters([mode])
        .ints([m, n])
        .matrix(a)
        .vector(s)
        .matrix(u)
        .matrix(vh)
        .workspace(work, ty.size_bytes())?;
    if ty.is_complex() {
        let work = 7 * small * small + 8 * small + 2 * large * small;
        call = call.work(work, ty.component().size_bytes())?;
    }
    let call = call.work(8 * small, 8)?;
    // SAFETY: xGESDD(JOBZ, M, N, A, LDA, S, U, LDU, VT, LDVT, WORK, LWORK, [RWORK,] IWORK, INFO)
    // with workspaces of the documented sizes.
    unsafe { call.run_with_info() }
}

/// The conjugate transpose.
fn adjoint(matrix: &Matrix) -> Result<Matrix> {
    let (rows, n) = (matrix.rows, matrix.cols);
    let values = matrix.to_complex()?;
    let mut transposed = filled(Complex64::default(), values.len())?;
    for i in 0..rows {
        for j in 0..n {
            transposed[i * n + j] = values[j * rows + i].conj();
        }
    }
    Matrix::from_complex(&transposed, n, rows, matrix.ty)
}

fn identity(matrix: &mut Matrix) -> Result<()> {
    let mut values = filled(Complex64::default(), matrix.rows * matrix.cols)?;
    for i in 0..matrix.rows.min(matrix.cols) {
        values[i * matrix.rows + i] = Complex64::new(1.0, 0.0);
    }
    *matrix = Matrix::from_complex(&values, matrix.rows, matrix.cols, matrix.ty)?;
    Ok(())
}

/// Eigenvectors of a real matrix from LAPACK's packing: a pair of conjugates shares two columns.
fn unpack(vectors: &Matrix, imaginary: &[Complex64]) -> Result<Vec<Complex64>> {
    let n = vectors.rows;
    let values = vectors.to_complex()?;
    let mut found = values.clone();
    let mut j = 0;
    while j + 1 < n {
        if imaginary[j].re == 0.0 {
            j += 1;
            continue;
        }
        for i in 0..n {
            let (re, im) = (values[j * n + i].re, values[(j + 1) * n + i].re);
            found[j * n + i] = Complex64::new(re, im);
            found[(j + 1) * n + i] = Complex64::new(re, -im);
        }
        j += 2;
    }
    Ok(found)
}

pub fn geev(op: &LinalgOp, part: &Part) -> Result<()> {
    let (mut a, n) = square(part)?;
    let (ty, real) = (a.ty, a.ty.component());
    let complex = ty.is_complex();
    let mut w = Matrix::zeros(ty, n, 1)?;
    let mut wi = Matrix::zeros(real, n, 1)?;
    let (mut left, mut right) = (Matrix::zeros(ty, n, n)?, Matrix::zeros(ty, n, n)?);
    let mut info = 0;
    if n > 0 {
        let Some(call) = Call::new(ty, "geev") else {
            return Err(needs_lapack("geev"));
        };
        let mut call = call
            .characters([job(op.vectors), job(op.right_vectors)])
            .ints([n])
            .matrix(&mut a)
            .vector(&mut w);
        if !complex {
            call = call.vector(&mut wi);
        }
        let work = 68 * n;
        call = call
            .matrix(&mut left)
            .matrix(&mut right)
            .workspace(work, ty.size_bytes())?;
        if complex {
            call = call.work(2 * n, real.size_bytes())?;
        }
        // SAFETY: xGEEV(JOBVL, JOBVR, N, A, LDA, [WR, WI | W], VL, LDVL, VR, LDVR, WORK, LWORK,
        // [RWORK,] INFO).
        info = unsafe { call.run_with_info()? };
    }
    w.store(&part.outputs[0])?;
    let mut next = 1;
    if !complex {
        wi.store(part.output(1)?)?;
        next = 2;
    }
    for vectors in [left, right] {
        let to = part.output(next)?;
        if complex {
            vectors.store(to)?;
        } else {
            let values = unpack(&vectors, &wi.to_complex()?)?;
            Matrix::from_complex(&values, n, n, to.element_type)?.store(to)?;
        }
        next += 1;
    }
    part.info(next, info)?;
    Ok(())
}

pub fn gees(op: &LinalgOp, part: &Part) -> Result<()> {
    let (mut a, n) = square(part)?;
    let (ty, real) = (a.ty, a.ty.component());
    let complex = ty.is_complex();
    let mut w = Matrix::zeros(ty, n, 1)?;
    let mut wi = Matrix::zeros(real, n, 1)?;
    let mut vectors = Matrix::zeros(ty, n, n)?;
    let mut info = 0;
    if n > 0 {
        let Some(call) = Call::new(ty, "gees") else {
            return Err(needs_lapack("gees"));
        };
        let mut call = call
            .characters([job(op.vectors), b'N'])
            .pointer(std::ptr::null_mut())
            .ints([n])
            .matrix(&mut a)
            .ints([0])
            .vector(&mut w);
        if !complex {
            call = call.vector(&mut wi);
        }
        let work = 68 * n;
        call = call.matrix(&mut vectors).workspace(work, ty.size_bytes())?;
        if complex {
            call = call.work(n, real.size_bytes())?;
        }
        call = call.work(n, 8)?;
        // SAFETY: xGEES(JOBVS, SORT, SELECT, N, A, LDA, SDIM, [WR, WI | W], VS, LDVS, WORK, LWORK,
        // [RWORK,] BWORK, INFO); without sorting SELECT is never called.
        info = unsafe { call.run_with_info()? };
    }
    a.store(&part.outputs[0])?;
    vectors.store(part.output(1)?)?;
    w.store(part.output(2)?)?;
    let mut next = 3;
    if !complex {
        wi.store(part.output(3)?)?;
        next = 4;
    }
    part.info(next, 0)?;
    part.info(next + 1, info)?;
    Ok(())
}

pub fn gehrd(op: &LinalgOp, part: &Part) -> Result<()> {
    let (mut a, n) = square(part)?;
    let ty = a.ty;
    let mut tau = Matrix::zeros(ty, n.saturating_sub(1), 1)?;
    let mut info = 0;
    if n > 0 {
        let Some(call) = Call::new(ty, "gehrd") else {
            return Err(needs_lapack("gehrd"));
        };
        let (low, high) = op.rows.unwrap_or((1, n as i64));
        if low < 1 || high < low || high > n as i64 {
            return Err(HloError::execution("gehrd of rows outside the matrix"));
        }
        let work = 68 * n;
        let call = call
            .ints([n, low as usize, high as usize])
            .matrix(&mut a)
            .vector(&mut tau)
            .workspace(work, ty.size_bytes())?;
        // SAFETY: xGEHRD(N, ILO, IHI, A, LDA, TAU, WORK, LWORK, INFO).
        info = unsafe { call.run_with_info()? };
    }
    part.info(2, info)?;
    a.store(&part.outputs[0])?;
    tau.store(part.output(1)?)
}

pub fn sytrd(op: &LinalgOp, part: &Part) -> Result<()> {
    let (mut a, n) = square(part)?;
    let (ty, real) = (a.ty, a.ty.component());
    let less = n.saturating_sub(1);
    let mut diagonal = Matrix::zeros(real, n, 1)?;
    let mut beside = Matrix::zeros(real, less, 1)?;
    let mut tau = Matrix::zeros(ty, less, 1)?;
    let mut info = 0;
    if n > 0 {
        let name = if ty.is_complex() { "hetrd" } else { "sytrd" };
        let Some(call) = Call::new(ty, name) else {
            return Err(needs_lapack(name));
        };
        let work = 68 * n;
        let call = call
            .characters([if op.lower { b'L' } else { b'U' }])
            .ints([n])
            .matrix(&mut a)
            .vector(&mut diagonal)
            .vector(&mut beside)
            .vector(&mut tau)
            .workspace(work, ty.size_bytes())?;
        // SAFETY: xSYTRD(UPLO, N, A, LDA, D, E, TAU, WORK, LWORK, INFO).
        info = unsafe { call.run_with_info()? };
    }
    part.info(4, info)?;
    a.store(&part.outputs[0])?;
    diagonal.store(part.output(1)?)?;
    beside.store(part.output(2)?)?;
    tau.store(part.output(3)?)
}
