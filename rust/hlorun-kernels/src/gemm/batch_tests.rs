//! Products of few terms against sums in ascending order.

use super::tests::{bits, operands};
use super::*;

/// Small products, summed in order; whether they are such.
fn check_batch<E: Copy + PartialEq + std::fmt::Debug>(
    dtype: DType,
    (batch, m, n, k): (usize, usize, usize, usize),
    flags: u32,
    read: impl Fn(&[u8]) -> E,
    (zero, fused): (E, impl Fn(E, E, E) -> E),
) -> bool {
    let side = |t: bool, rows: usize, cols: usize| {
        if t {
            Matrix::row_major(rows, rows * cols).transposed()
        } else {
            Matrix::row_major(cols, rows * cols)
        }
    };
    let g = Gemm {
        batch,
        a: side(flags & 1 != 0, m, k),
        b: side(flags & 2 != 0, k, n),
        c: side(flags & 4 != 0, m, n),
        ..Gemm::dense(dtype, m, n, k)
    };
    if !batch::fits(&g) {
        return false;
    }
    let reversed: &ParallelFor = &|tasks, body| (0..tasks).rev().for_each(body);
    let parallel = Parallel {
        threads: 3,
        run: reversed,
    };
    let c = bits(&g, &parallel);
    assert!(c == bits(&g, &Parallel::SERIAL));
    let (a, b) = operands(&g);
    let size = dtype.size_bytes();
    let at = |from: &[u8], l: Matrix, z: usize, i: usize, j: usize| {
        let [z, i, j] = [z, i, j].map(|x| x as isize);
        let at = z * l.batch_stride + i * l.row_stride + j * l.col_stride;
        read(&from[at as usize * size..][..size])
    };
    for z in 0..g.batch {
        for i in 0..m {
            for j in 0..n {
                let step = |sum, p| fused(at(&a, g.a, z, i, p), at(&b, g.b, z, p, j), sum);
                let want = (0..k).fold(zero, step);
                assert_eq!(at(&c, g.c, z, i, j), want, "{g:?} at {z} {i} {j}");
            }
        }
    }
    true
}

/// [`check_batch`] in all layouts and types; in how many of them they are small products.
fn check_layouts(sizes: (usize, usize, usize, usize)) -> usize {
    let single = |x: &[u8]| f32::from_ne_bytes(x.try_into().unwrap());
    let double = |x: &[u8]| f64::from_ne_bytes(x.try_into().unwrap());
    let mut found = 0;
    for flags in 0..8 {
        if Isa::active() == Isa::Portable {
            let plain = (0.0, |a: f32, b: f32, c: f32| a * b + c);
            found += usize::from(check_batch(DType::F32, sizes, flags, single, plain));
        } else {
            let (fused, fused_double) = ((0.0, f32::mul_add), (0.0, f64::mul_add));
            found += usize::from(check_batch(DType::F32, sizes, flags, single, fused));
            check_batch(DType::F64, sizes, flags, double, fused_double);
        }
    }
    found
}

#[test]
fn single_products_of_few_terms_are_summed_in_order() {
    for (m, n, k) in [
        (1, 10, 10),
        (1, 24, 7),
        (24, 1, 7),
        (1, 2, 33),
        (33, 2, 3),
        (1, 8, 64),
        (64, 1, 8),
        (9, 9, 6),
        (2, 17, 15),
        (17, 3, 10),
    ] {
        assert!(check_layouts((1, m, n, k)) > 0, "{m}x{n}x{k}");
    }
    // One of many terms, and sums in lanes.
    assert_eq!(check_layouts((1, 9, 9, 7)), 0);
    assert_eq!(check_layouts((1, 1, 1, 17)), 0);
    // Nothing to compute.
    for sizes in [(1, 4, 0, 5), (1, 0, 4, 5), (0, 4, 4, 5), (1, 4, 4, 0)] {
        assert_eq!(check_layouts(sizes), 0);
    }
}

#[test]
fn small_products_of_a_batch_are_summed_in_order() {
    for (m, n, k) in [
        (3, 3, 3),
        (4, 4, 4),
        (4, 1, 4),
        (1, 4, 3),
        (2, 5, 2),
        (8, 8, 8),
        (6, 7, 16),
        (8, 1, 1),
        (3, 2, 5),
        (1, 1, 3),
        (2, 3, 4),
    ] {
        assert_eq!(check_layouts((37, m, n, k)), 8, "{m}x{n}x{k}");
    }
    // Many rows of few columns, in any layout of A and B; where columns of C are computed as rows, these may be many.
    for (m, n, k) in [
        (9, 2, 2),
        (20, 3, 3),
        (11, 5, 7),
        (64, 8, 1),
        (2, 9, 2),
        (3, 20, 3),
    ] {
        assert!(check_layouts((37, m, n, k)) >= 4, "{m}x{n}x{k}");
    }
    // Many columns, where rows lie ready.
    for (m, n, k) in [
        (1, 12, 4),
        (2, 9, 20),
        (5, 17, 3),
        (1, 64, 8),
        (3, 8, 21),
        (33, 2, 3),
    ] {
        assert!(check_layouts((37, m, n, k)) > 0, "{m}x{n}x{k}");
    }
}
