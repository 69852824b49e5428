//! Products against a naive sum.

use super::*;

pub(super) fn values(n: usize, seed: u32) -> Vec<f64> {
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
    }
    .expect("memory");
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
        (70, 66, 50),
        (12, 70, 300),
        (300, 12, 280),
        (40, 130, 270),
        (16, 16, 16),
        // Few rows by a B read in place; narrow ones; shallow ones; strips of which half a vector pair is left.
        (14, 96, 520),
        (15, 70, 257),
        (28, 33, 300),
        (29, 100, 64),
        (12, 10, 515),
        (31, 15, 40),
        (2, 2, 20),
        (5, 31, 3),
        (12, 9, 1),
        (16, 32, 33),
        (64, 128, 12),
        (131, 140, 32),
        (100, 5, 300),
        (32, 7, 64),
        (50, 49, 49),
    ] {
        for flags in 0..8 {
            let (ta, tb, tc) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
            check(DType::F32, DType::F32, shape, ta, tb, tc, 0.0);
            check(DType::F64, DType::F64, shape, ta, tb, tc, 1.0);
            check(DType::C64, DType::C64, shape, ta, tb, tc, 2.0);
        }
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
            )
            .expect("memory");
        }
        assert!(c.iter().all(|&x| x == n as f32));
    }
}

#[test]
fn packed_products_match_the_plain_ones_for_every_remainder() {
    for (dtype, n) in [(DType::F32, 70), (DType::F64, 37)] {
        for m in [1, 2, 3, 7, 8, 9, 16, 65, 70] {
            for k in [0, 1, 5, 300] {
                let (a, b) = (values(m * k + 1, 5), values(k * n + 1, 6));
                let store = |x: &[f64]| {
                    let mut bytes = vec![0u8; x.len() * dtype.size_bytes()];
                    // SAFETY: the buffers hold x.len() elements.
                    unsafe {
                        convert(DType::F64, dtype)(x.as_ptr().cast(), bytes.as_mut_ptr(), x.len())
                    };
                    bytes
                };
                let (a, b) = (store(&a), store(&b));
                let (mut plain, mut packed) = (store(&values(m * n, 7)), store(&values(m * n, 7)));
                let g = Gemm {
                    beta: 1.0,
                    alpha: (2.0, 0.0),
                    ..Gemm::dense(dtype, m, n, k)
                };
                // SAFETY: dense matrices.
                unsafe {
                    portable::gemm(&g, a.as_ptr(), b.as_ptr(), plain.as_mut_ptr()).expect("memory");
                    let width = packed::panel_width(dtype, m, n);
                    let size = packed::packed_size(dtype, width, k, n).unwrap();
                    let mut panels = crate::scratch::Buffer::new(size).expect("memory");
                    let to = panels.as_mut_ptr();
                    packed::pack_operand(
                        dtype,
                        width,
                        [k, n],
                        b.as_ptr(),
                        g.b,
                        to,
                        &Parallel::SERIAL,
                    );
                    let c = packed.as_mut_ptr();
                    packed::gemm_packed(
                        &g,
                        a.as_ptr(),
                        panels.as_ptr(),
                        c,
                        epilogue::Epilogue::none(),
                        &Parallel::SERIAL,
                    )
                    .expect("memory");
                }
                assert_eq!(plain, packed, "{dtype:?} {m} {k}");
            }
        }
    }
}

#[test]
fn batches_and_tasks_cover_every_element_once() {
    // Tasks run in reverse order: nothing may depend on it.
    let reversed: &ParallelFor = &|tasks, body| (0..tasks).rev().for_each(body);
    for (batch, m, n, k) in [
        (1, 70, 1100, 9),
        (1, 900, 33, 8),
        (5, 40, 40, 30),
        (2, 300, 40, 30),
    ] {
        for threads in [1, 2, 3] {
            let (a, b) = (values(batch * m * k, 11), values(batch * k * n, 12));
            let mut c = vec![f64::NAN; batch * m * n];
            let g = Gemm {
                batch,
                a: Matrix::row_major(k, m * k),
                b: Matrix::row_major(n, k * n),
                c: Matrix::row_major(n, m * n),
                ..Gemm::dense(DType::F64, m, n, k)
            };
            let parallel = Parallel {
                threads,
                run: reversed,
            };
            // SAFETY: dense batches of matrices.
            unsafe {
                gemm(
                    &g,
                    a.as_ptr().cast(),
                    b.as_ptr().cast(),
                    c.as_mut_ptr().cast(),
                    &parallel,
                )
            }
            .expect("memory");
            for (at, &got) in c.iter().enumerate() {
                let (z, i, j) = (at / (m * n), at / n % m, at % n);
                let want: f64 = (0..k)
                    .map(|p| a[z * m * k + i * k + p] * b[z * k * n + p * n + j])
                    .sum();
                assert_eq!(got, want, "{batch}x{m}x{n}x{k} on {threads} at {at}");
            }
        }
    }
}

fn fractions(count: usize, seed: u32, d: DType) -> Vec<u8> {
    let x: Vec<f64> = values(count, seed).iter().map(|x| x / 7.0).collect();
    let mut bytes = vec![0u8; count * d.size_bytes()];
    // SAFETY: both hold `count` elements.
    unsafe { convert(DType::F64, d)(x.as_ptr().cast(), bytes.as_mut_ptr(), count) };
    bytes
}

/// A and B of any floats.
pub(super) fn operands(g: &Gemm) -> (Vec<u8>, Vec<u8>) {
    (
        fractions(g.batch * g.m * g.k, 21, g.dtype),
        fractions(g.batch * g.k * g.n, 22, g.dtype),
    )
}

/// C of such matrices; the layouts of `g` are dense.
pub(super) fn bits(g: &Gemm, parallel: &Parallel) -> Vec<u8> {
    let (a, b) = operands(g);
    let mut c = fractions(g.batch * g.m * g.n, 23, g.out);
    // SAFETY: the buffers hold the matrices of g.
    unsafe { gemm(g, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), parallel) }.expect("memory");
    c
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let reversed: &ParallelFor = &|tasks, body| (0..tasks).rev().for_each(body);
    for (batch, m, n, k) in [
        (1, 1, 3000, 500),
        (1, 12, 900, 300),
        (1, 70, 1100, 600),
        (1, 1100, 40, 530),
        (1, 3000, 9, 200),
        (1, 260, 200, 1030),
        (1, 300, 2000, 12),
        (1, 14, 1000, 800),
        (1, 28, 1000, 300),
        (1, 104, 104, 104),
        (6, 70, 64, 90),
    ] {
        for (dtype, out) in [
            (DType::F32, DType::F32),
            (DType::F64, DType::F64),
            (DType::BF16, DType::BF16),
            (DType::F16, DType::F32),
        ] {
            for flags in 0..8 {
                let side = |t: bool, rows: usize, cols: usize| {
                    if t {
                        Matrix::row_major(rows, rows * cols).transposed()
                    } else {
                        Matrix::row_major(cols, rows * cols)
                    }
                };
                let g = Gemm {
                    out,
                    batch,
                    a: side(flags & 1 != 0, m, k),
                    b: side(flags & 2 != 0, k, n),
                    c: side(flags & 4 != 0, m, n),
                    beta: f64::from(flags & 1),
                    ..Gemm::dense(dtype, m, n, k)
                };
                let one = bits(&g, &Parallel::SERIAL);
                for threads in [2, 3, 16] {
                    let parallel = Parallel {
                        threads,
                        run: reversed,
                    };
                    assert!(one == bits(&g, &parallel), "{g:?} on {threads}");
                }
            }
        }
    }
}

/// Shapes for every way of a product, in every layout.
fn all_ways(dtype: DType, out: DType) -> impl Iterator<Item = Gemm> {
    let shapes = [
        (5, 3, 4),
        (1, 70, 300),
        (3, 40, 1100),
        (2, 33, 515),
        (9, 8, 70),
        (9, 16, 300),
        (14, 24, 270),
        (14, 31, 530),
        (25, 13, 300),
        (16, 64, 40),
        (80, 130, 12),
        (90, 20, 530),
        (70, 150, 600),
    ];
    let side = |turned: bool, rows: usize, cols: usize| match turned {
        true => Matrix::row_major(rows, 0).transposed(),
        false => Matrix::row_major(cols, 0),
    };
    shapes.into_iter().flat_map(move |(m, n, k)| {
        (0..8).map(move |flags| Gemm {
            out,
            a: side(flags & 1 != 0, m, k),
            b: side(flags & 2 != 0, k, n),
            c: side(flags & 4 != 0, m, n),
            beta: f64::from(flags & 1),
            ..Gemm::dense(dtype, m, n, k)
        })
    })
}

/// The sums below are those of every tier that fuses, on any architecture.
#[test]
fn tiers_that_fuse_have_the_same_bits() {
    if !Isa::active().is_fused() {
        return;
    }
    let types = [
        (DType::F32, DType::F32),
        (DType::F64, DType::F64),
        (DType::BF16, DType::F32),
        (DType::F16, DType::F16),
    ];
    let hashes = types.map(|(dtype, out)| {
        // FNV-1a of all results.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for g in all_ways(dtype, out) {
            for byte in bits(&g, &Parallel::SERIAL) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        hash
    });
    let want = [
        0x418e_f1fd_575f_5b4b,
        0xeba1_a36b_ad69_c0f4,
        0x0004_b0ab_f97f_9c51,
        0x649e_51e1_42ad_5db9,
    ];
    assert_eq!(hashes, want);
}

/// Values that are not numbers stay in their rows and columns, also where a strip reads on into the next row of B.
#[test]
fn what_is_no_number_does_not_spread() {
    for (m, n, k) in [
        (12, 10, 40),
        (12, 70, 300),
        (3, 17, 9),
        (80, 130, 12),
        (40, 5, 70),
    ] {
        for poison in [f64::NAN, f64::INFINITY] {
            let (a, mut b) = (vec![1.0f64; m * k], vec![1.0f64; k * n]);
            let bad = n / 2;
            for p in 0..k {
                b[p * n + bad] = poison;
            }
            let mut c = vec![f64::NAN; m * n];
            let g = Gemm::dense(DType::F64, m, n, k);
            // SAFETY: three dense matrices.
            unsafe {
                let (a, b) = (a.as_ptr().cast(), b.as_ptr().cast());
                gemm(&g, a, b, c.as_mut_ptr().cast(), &Parallel::SERIAL).expect("memory");
            }
            for (at, &x) in c.iter().enumerate() {
                let want = if at % n == bad { poison } else { k as f64 };
                assert!(
                    x == want || (x.is_nan() && want.is_nan()),
                    "{m}x{k}x{n} at {at}: {x}"
                );
            }
        }
    }
}

#[test]
fn how_far_an_only_column_is_from_the_next_changes_nothing() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::S8, DType::S32] {
        for (m, k) in [(1, 1), (1, 40), (5, 40), (70, 300)] {
            let of = |stride: isize| {
                let mut g = Gemm::dense(dtype, m, 1, k);
                g.b = Matrix::row_major(1, 0).transposed();
                g.b.col_stride = stride;
                assert_eq!(g.b.row_stride, 1);
                bits(&g, &Parallel::SERIAL)
            };
            for stride in [0, 1, 7] {
                assert_eq!(of(stride), of(k as isize), "{dtype:?} {m} {k} {stride}");
            }
        }
    }
}

#[test]
fn pred_products_are_an_or_of_ands() {
    let (a, b) = ([1u8, 1, 0, 0], [1u8, 0, 1, 0]);
    let mut c = [9u8; 4];
    // SAFETY: three 2×2 matrices.
    unsafe {
        let g = Gemm::dense(DType::Pred, 2, 2, 2);
        gemm(
            &g,
            a.as_ptr(),
            b.as_ptr(),
            c.as_mut_ptr(),
            &Parallel::SERIAL,
        )
        .expect("memory");
    }
    assert_eq!(c, [1, 0, 0, 0]);
}

#[test]
fn memory_that_cannot_be_had_is_an_error() {
    for bytes in [usize::MAX, usize::MAX / 2] {
        let error = crate::scratch::Buffer::new(bytes).err();
        assert_eq!(error, Some(OutOfMemory { bytes }));
        assert!(crate::Scratch::new::<u8>(bytes).is_err());
    }
    // A task's error reaches the caller, whoever runs the tasks.
    for threads in [1, 3] {
        let parallel = Parallel {
            threads,
            ..Parallel::SERIAL
        };
        let fails = |task| match task {
            2 => Err(OutOfMemory { bytes: 7 }),
            _ => Ok(()),
        };
        let outcome = memory::fork(&parallel, 4, &fails);
        assert_eq!(outcome, Err(OutOfMemory { bytes: 7 }));
    }
}
