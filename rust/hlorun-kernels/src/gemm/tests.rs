//! Products against a naive sum.

use super::*;

fn values(n: usize, seed: u32) -> Vec<f64> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from((state >> 16) % 17) - 8.0
        })
        .collect()
}

/// Small whole numbers: every type represents them and their sums exactly.
fn check(
    dtype: DType,
    out: DType,
    (m, n, k): (usize, usize, usize),
    ta: bool,
    tb: bool,
    tc: bool,
    beta: f64,
) {
    let (a, b, c) = (values(m * k, 1), values(k * n, 2), values(m * n, 3));
    let store = |x: &[f64], d: DType| {
        let mut bytes = vec![0u8; x.len() * d.size_bytes() + 16];
        // SAFETY: the buffers hold x.len() elements.
        unsafe { convert(DType::F64, d)(x.as_ptr().cast(), bytes.as_mut_ptr(), x.len()) };
        bytes
    };
    let layout = |t: bool, rows: usize, cols: usize| {
        if t {
            Matrix::row_major(rows, 0).transposed()
        } else {
            Matrix::row_major(cols, 0)
        }
    };
    let g = Gemm {
        out,
        a: layout(ta, m, k),
        b: layout(tb, k, n),
        c: layout(tc, m, n),
        beta,
        ..Gemm::dense(dtype, m, n, k)
    };
    let (abytes, bbytes) = (store(&a, dtype), store(&b, dtype));
    let mut cbytes = store(&c, out);
    // SAFETY: the layouts above describe the buffers.
    unsafe {
        gemm(
            &g,
            abytes.as_ptr(),
            bbytes.as_ptr(),
            cbytes.as_mut_ptr(),
            &Parallel::SERIAL,
        )
    };
    let mut got = vec![0.0f64; m * n];
    // SAFETY: m·n elements on both sides.
    unsafe { convert(out, DType::F64)(cbytes.as_ptr(), got.as_mut_ptr().cast(), m * n) };
    let at = |l: Matrix, i: usize, j: usize| {
        (i as isize * l.row_stride + j as isize * l.col_stride) as usize
    };
    for i in 0..m {
        for j in 0..n {
            let mut sum = if beta == 0.0 {
                0.0
            } else {
                beta * c[at(g.c, i, j)]
            };
            for p in 0..k {
                sum += a[at(g.a, i, p)] * b[at(g.b, p, j)];
            }
            assert_eq!(got[at(g.c, i, j)], sum, "{g:?} at {i},{j}");
        }
    }
}

#[test]
fn every_layout_and_type_matches_the_naive_sum() {
    for shape in [
        (1, 1, 1),
        (3, 5, 7),
        (4, 33, 2),
        (1, 40, 9),
        (40, 1, 9),
        (17, 65, 33),
        (48, 64, 40),
        (5, 4, 0),
    ] {
        for flags in 0..8 {
            let (ta, tb, tc) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
            check(DType::F32, DType::F32, shape, ta, tb, tc, 0.0);
            check(DType::F64, DType::F64, shape, ta, tb, tc, 1.0);
        }
        check(DType::C64, DType::C64, shape, false, true, false, 2.0);
        check(DType::C128, DType::C128, shape, true, false, false, 0.0);
        check(DType::S32, DType::S32, shape, false, false, true, 1.0);
        check(DType::S8, DType::S32, shape, false, false, false, 0.0);
        check(DType::S64, DType::S64, shape, true, true, false, 0.0);
        check(DType::BF16, DType::F32, shape, false, true, false, 1.0);
        check(DType::F16, DType::F32, shape, true, false, true, 0.0);
    }
}

#[test]
fn old_values_are_not_read_when_beta_is_zero() {
    for n in [2, 64] {
        let ones = vec![1.0f32; n * n];
        let mut c = vec![f32::NAN; n * n];
        // SAFETY: three dense n×n matrices.
        unsafe {
            let g = Gemm::dense(DType::F32, n, n, n);
            gemm(
                &g,
                ones.as_ptr().cast(),
                ones.as_ptr().cast(),
                c.as_mut_ptr().cast(),
                &Parallel::SERIAL,
            );
        }
        assert!(c.iter().all(|&x| x == n as f32));
    }
}
