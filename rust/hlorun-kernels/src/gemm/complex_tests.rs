//! Products of complex matrices against the definition.

use super::tests::values;
use super::*;

/// Whole numbers, of which all sums are exact, as `c64` or `c128`.
fn stored(parts: &[f64], dtype: DType) -> Vec<u8> {
    let part = if dtype == DType::C64 {
        DType::F32
    } else {
        DType::F64
    };
    let mut bytes = vec![0u8; parts.len() * part.size_bytes()];
    // SAFETY: both hold as many parts.
    unsafe {
        convert(DType::F64, part)(parts.as_ptr().cast(), bytes.as_mut_ptr(), parts.len());
    }
    bytes
}

/// Two parts of element `row`, `column` of a matrix of a batch.
fn at(parts: &[f64], layout: Matrix, [batch, row, column]: [usize; 3]) -> [f64; 2] {
    let [batch, row, column] = [batch, row, column].map(|x| x as isize);
    let at = batch * layout.batch_stride + row * layout.row_stride + column * layout.col_stride;
    [parts[2 * at as usize], parts[2 * at as usize + 1]]
}

fn times([a, b]: [f64; 2], [c, d]: [f64; 2]) -> [f64; 2] {
    [a * c - b * d, a * d + b * c]
}

/// Checks the product with 1 and with 3 threads.
fn check(g: &Gemm) {
    let of = |rows: usize, columns: usize, seed| values(2 * g.batch * rows * columns, seed);
    let (a, b, old) = (of(g.m, g.k, 3), of(g.k, g.n, 4), of(g.m, g.n, 5));
    let mut want = old.clone();
    for batch in 0..g.batch {
        for i in 0..g.m {
            for j in 0..g.n {
                let sum = (0..g.k).fold([0.0; 2], |sum: [f64; 2], p| {
                    let [re, im] = times(at(&a, g.a, [batch, i, p]), at(&b, g.b, [batch, p, j]));
                    [sum[0] + re, sum[1] + im]
                });
                let [re, im] = times([g.alpha.0, g.alpha.1], sum);
                let old = at(&old, g.c, [batch, i, j]).map(|x| g.beta * x);
                let [batch, i, j] = [batch, i, j].map(|x| x as isize);
                let to = batch * g.c.batch_stride + i * g.c.row_stride + j * g.c.col_stride;
                want[2 * to as usize..][..2].copy_from_slice(&[re + old[0], im + old[1]]);
            }
        }
    }
    let reversed: &ParallelFor = &|tasks, body| (0..tasks).rev().for_each(body);
    for threads in [1, 3] {
        let parallel = Parallel {
            threads,
            run: reversed,
        };
        let mut c = stored(&old, g.dtype);
        let (a, b) = (stored(&a, g.dtype), stored(&b, g.dtype));
        // SAFETY: the buffers hold the matrices of g.
        unsafe { gemm(g, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), &parallel) }.expect("memory");
        assert!(c == stored(&want, g.dtype), "{g:?} {threads}");
    }
}

#[test]
fn complex_products_are_those_of_the_definition() {
    for (batch, m, n, k) in [
        (1, 6, 4, 1),
        (1, 5, 4, 7),
        (1, 23, 23, 23),
        (1, 40, 9, 300),
        (1, 9, 40, 120),
        (40, 8, 8, 16),
        (3, 70, 33, 20),
    ] {
        for flags in 0..8 {
            let side = |flag: u32, rows: usize, columns: usize| match flags & flag {
                0 => Matrix::row_major(columns, rows * columns),
                _ => Matrix::row_major(rows, rows * columns).transposed(),
            };
            let g = Gemm {
                batch,
                a: side(1, m, k),
                b: side(2, k, n),
                c: side(4, m, n),
                ..Gemm::dense(DType::C64, m, n, k)
            };
            for dtype in [DType::C64, DType::C128] {
                let g = Gemm {
                    dtype,
                    out: dtype,
                    ..g
                };
                check(&g);
                let shared = Matrix {
                    batch_stride: 0,
                    ..g.b
                };
                check(&Gemm {
                    alpha: (2.0, 0.0),
                    beta: 1.0,
                    b: shared,
                    ..g
                });
                check(&Gemm {
                    alpha: (1.0, -1.0),
                    ..g
                });
            }
        }
    }
}
