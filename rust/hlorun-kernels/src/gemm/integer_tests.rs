//! Integer products of extreme values against naive sums.

use super::*;

fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    // A third of all bytes are the ones that make the largest products.
    (0..count)
        .map(|_| match next() % 6 {
            0 => 0x80,
            1 => 0xff,
            _ => next(),
        })
        .collect()
}

fn read(from: &[u8], at: usize, d: DType) -> i64 {
    let size = d.size_bytes();
    let from = &from[at * size..][..size];
    match d {
        DType::Pred => i64::from(from[0] != 0),
        DType::S8 => i64::from(from[0] as i8),
        DType::U8 => i64::from(from[0]),
        // Bits above a narrow type's own say nothing.
        DType::S2 => i64::from((from[0] << 6) as i8 >> 6),
        DType::S4 => i64::from((from[0] << 4) as i8 >> 4),
        DType::U2 => i64::from(from[0] & 3),
        DType::U4 => i64::from(from[0] & 15),
        DType::S16 => i64::from(i16::from_ne_bytes(from.try_into().unwrap())),
        DType::U16 => i64::from(u16::from_ne_bytes(from.try_into().unwrap())),
        DType::S32 => i64::from(i32::from_ne_bytes(from.try_into().unwrap())),
        DType::U32 => i64::from(u32::from_ne_bytes(from.try_into().unwrap())),
        _ => i64::from_ne_bytes(from.try_into().unwrap()),
    }
}

fn check(dtype: DType, out: DType, (m, n, k): (usize, usize, usize), flags: u32, beta: f64) {
    let layout = |turned: bool, rows: usize, cols: usize| {
        if turned {
            Matrix::row_major(rows, rows * cols).transposed()
        } else {
            Matrix::row_major(cols, rows * cols)
        }
    };
    let batch = if m * n * k < 1 << 18 { 2 } else { 1 };
    let g = Gemm {
        out,
        a: layout(flags & 1 != 0, m, k),
        b: layout(flags & 2 != 0, k, n),
        c: layout(flags & 4 != 0, m, n),
        beta,
        batch,
        ..Gemm::dense(dtype, m, n, k)
    };
    let store = |count: usize, seed: u64, d: DType| {
        let mut bytes = bytes(count * d.size_bytes(), seed);
        if d == DType::Pred {
            bytes.iter_mut().for_each(|b| *b &= 1);
        }
        bytes
    };
    let a = store(batch * m * k, 1, dtype);
    let b = store(batch * k * n, 2, dtype);
    let old = store(batch * m * n, 3, out);
    let mut c = old.clone();
    // Tasks run in reverse order: nothing may depend on it.
    let parallel = Parallel {
        threads: 1 + flags as usize % 3,
        run: &|tasks, body| (0..tasks).rev().for_each(body),
    };
    // SAFETY: the layouts above describe the buffers.
    unsafe { gemm(&g, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), &parallel) }.expect("memory");
    let at = |l: Matrix, z: usize, i: usize, j: usize| {
        (z as isize * l.batch_stride + i as isize * l.row_stride + j as isize * l.col_stride)
            as usize
    };
    for z in 0..batch {
        for i in 0..m {
            for j in 0..n {
                let here = at(g.c, z, i, j);
                let mut sum = match beta {
                    0.0 => 0,
                    _ => read(&old, here, out).wrapping_mul(beta as i64),
                };
                for p in 0..k {
                    let (x, y) = (
                        read(&a, at(g.a, z, i, p), dtype),
                        read(&b, at(g.b, z, p, j), dtype),
                    );
                    sum = sum.wrapping_add(x.wrapping_mul(y));
                }
                let want = match out {
                    DType::Pred => i64::from(sum != 0),
                    DType::S8 => i64::from(sum as i8),
                    DType::U8 => i64::from(sum as u8),
                    DType::S16 => i64::from(sum as i16),
                    DType::U16 => i64::from(sum as u16),
                    DType::S32 => i64::from(sum as i32),
                    DType::U32 => i64::from(sum as u32),
                    _ => sum,
                };
                assert_eq!(read(&c, here, out), want, "{g:?} at {z},{i},{j}");
            }
        }
    }
}

#[test]
fn integers_wrap_in_every_layout_and_type() {
    use DType::*;
    for (dtype, out) in [
        (S8, S32),
        (S8, S8),
        (U8, S32),
        (U8, U32),
        (U8, U8),
        (S8, S16),
        (Pred, Pred),
        (Pred, S32),
        (S16, S32),
        (S16, S16),
        (U16, U16),
        (U16, U32),
        (S32, S32),
        (U32, U32),
        (S64, S64),
        (U64, U64),
        (S8, S64),
        (S2, S32),
        (S4, S32),
        (S4, S64),
        (U2, U32),
        (U4, S32),
    ] {
        for (at, shape) in [
            (16, 16, 16),
            (17, 65, 33),
            (1, 700, 130),
            (300, 1, 129),
            (33, 5, 520),
            (13, 97, 1031),
            (130, 40, 9),
            (5, 33, 30),
            (2100, 3, 4),
            (301, 2, 7),
            (90, 16, 32),
            (77, 7, 9),
            (2, 3, 5),
        ]
        .into_iter()
        .enumerate()
        {
            check(dtype, out, shape, (at as u32 * 3) % 8, 0.0);
            check(dtype, out, shape, (at as u32 * 5 + 1) % 8, 0.0);
        }
        for flags in 0..8 {
            check(dtype, out, (19, 37, 21), flags, 0.0);
            check(dtype, out, (1, 67, 90), flags, 0.0);
            check(dtype, out, (123, 3, 5), flags, 0.0);
            let beta = if out == Pred { 1.0 } else { 3.0 };
            check(dtype, out, (18, 35, 22), flags, beta);
        }
    }
}

#[test]
fn tasks_share_rows_and_columns() {
    for shape in [
        (600, 40, 1100),
        (40, 600, 1100),
        (2100, 70, 16),
        (70, 2100, 16),
        (30_000, 3, 7),
    ] {
        check(DType::S8, DType::S32, shape, 2, 0.0);
        check(DType::S32, DType::S32, shape, 1, 0.0);
    }
}
