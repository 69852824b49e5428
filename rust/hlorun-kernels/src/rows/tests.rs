//! Rows together against rows one by one.

use super::*;

#[test]
fn rows_are_combined_in_order() {
    let special = [f32::NAN, -0.0, 0.0, f32::INFINITY, 1.5, -3.0, 1e30, -1e-30];
    // Sums of these show in which order they were made.
    let rounding = [1e8, 1.5, -1e8, -0.0, 3.0, 1e-3, -7.0, 2.5e7];
    for values in [special, rounding] {
        let from: Vec<f32> = (0..400)
            .map(|i| values[i * 7 % 8] + (i % 3) as f32)
            .collect();
        let start: Vec<f32> = (0..200)
            .map(|i| values[i * 5 % 8] - (i % 5) as f32)
            .collect();
        for is_disjoint in [false, true] {
            compare_rows(&from, &start, is_disjoint);
        }
    }
}

/// Combines rows of many sizes, which overlap or do not, and compares them with rows that are combined one by one.
fn compare_rows(from: &[f32], start: &[f32], is_disjoint: bool) {
    let ops = [
        BinaryOp::Add,
        BinaryOp::Multiply,
        BinaryOp::Maximum,
        BinaryOp::Minimum,
        BinaryOp::Subtract,
    ];
    use DType::{F32, S8, S16, S32, S64, U8, U16, U32, U64};
    for (dtype, op) in [F32, S8, S16, S32, S64, U8, U16, U32, U64]
        .into_iter()
        .flat_map(|dtype| ops.map(|op| (dtype, op)))
    {
        let size = dtype.size_bytes();
        let [sources, targets] = [from.len(), start.len()].map(|n| n * size_of::<f32>() / size);
        // Places that are mostly the same as their neighbours, and places of no order.
        for (n, run) in [1, 2, 7, 8, 9, 19, 31, 32, 63, 70]
            .into_iter()
            .flat_map(|n| [(n, 6), (n, 1)])
        {
            let target = |i: usize| match is_disjoint {
                true => i / run * 13 % (targets / n) * n,
                false => i / run * 13 % (targets - n),
            };
            let places: Vec<[isize; 2]> = (0..40)
                .map(|i| [target(i), i * 29 % (sources - n)].map(|at| (at * size) as isize))
                .collect();
            let (mut want, mut got) = (start.to_vec(), start.to_vec());
            let kernel = binary(op, dtype).unwrap();
            let from = from.as_ptr().cast::<u8>();
            // SAFETY: every place is that of n elements.
            unsafe {
                for &[t, f] in &places {
                    let to = want.as_mut_ptr().cast::<u8>().offset(t);
                    kernel(to, from.offset(f), to, n);
                }
                let rows = combine_rows(op, dtype).unwrap();
                let [targets, sources] = [0, 1].map(|side| {
                    let places = places.iter().map(|place| place[side]);
                    places.collect::<Vec<isize>>()
                });
                let places = [&targets[..], &sources];
                rows.run(got.as_mut_ptr().cast(), from, places, n, is_disjoint);
            }
            for (x, y) in want.iter().zip(&got) {
                let is_nan = dtype == F32 && x.is_nan() && y.is_nan();
                let is_same = x.to_bits() == y.to_bits() || is_nan;
                assert!(is_same, "{dtype:?} {op:?} {n}");
            }
        }
    }
}

/// Folds rows of many sizes, and compares them with values that are combined one by one.
macro_rules! fold_in_order {
    ($t:ty, $dtype:expr) => {
        for op in [
            BinaryOp::Add,
            BinaryOp::Multiply,
            BinaryOp::Maximum,
            BinaryOp::Minimum,
        ] {
            let (kernel, fold) = (binary(op, $dtype).unwrap(), fold_rows(op, $dtype).unwrap());
            let sizes = [
                (1, 1),
                (16, 2),
                (47, 2),
                (35, 3),
                (60, 4),
                (7, 3),
                (16, 3),
                (9, 4),
                (17, 5),
                (24, 6),
                (100, 7),
            ];
            for (rows, size) in sizes.into_iter().chain([(8, 11), (21, 32)]) {
                // As many values as are read, so that tools find reads behind them.
                let value = |i: usize| [1e8, 1.5, -1e8, <$t>::NAN, -0.0, 3.0, 1e-3][i * 5 % 7];
                let values: Vec<$t> = (0..rows * size).map(value).collect();
                let mut want: Vec<$t> = (0..rows).map(|row| row as $t - 3.0).collect();
                let mut got = want.clone();
                // SAFETY: all values and results are there.
                unsafe {
                    for (row, want) in want.iter_mut().enumerate() {
                        let want = (&raw mut *want).cast::<u8>();
                        for value in &values[row * size..][..size] {
                            kernel(want, (&raw const *value).cast(), want, 1);
                        }
                    }
                    fold(values.as_ptr().cast(), rows, size, got.as_mut_ptr().cast());
                }
                let is_same = |x: $t, y: $t| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
                let mut both = want.iter().zip(&got);
                assert!(both.all(|(&x, &y)| is_same(x, y)), "{op:?} {rows} {size}");
            }
        }
    };
}

#[test]
fn rows_are_folded_in_order() {
    fold_in_order!(f32, DType::F32);
    fold_in_order!(f64, DType::F64);
}

#[test]
fn integers_and_truth_values_are_folded() {
    // Words, so that elements of every type are aligned.
    let words = |byte: &dyn Fn(u8) -> u8| -> Vec<u64> {
        let all = (0..4000u32).map(|i| byte((i.wrapping_mul(2_654_435_761) >> 24) as u8));
        let all: Vec<u8> = all.collect();
        let words = all.chunks_exact(8);
        words
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
            .collect()
    };
    let values = words(&|byte| byte);
    let seldom = words(&|byte| if byte < 40 { byte / 4 } else { 0 });
    let mostly = words(&|byte| if byte < 20 { 0 } else { byte });
    for dtype in [DType::Pred, DType::U8, DType::S16, DType::S32, DType::U64] {
        for op in BinaryOp::ALL {
            let Some(fold) = fold_rows(op, dtype) else {
                continue;
            };
            let kernel = binary(op, dtype).unwrap();
            let width = dtype.size_bytes();
            for values in [&values, &seldom, &mostly] {
                let values = values.as_ptr().cast::<u8>();
                for (rows, size) in [(1, 1), (7, 3), (9, 8), (21, 7), (13, 11), (5, 32), (40, 2)] {
                    let mut want: Vec<u64> = (0..rows as u64).map(|row| row % 3).collect();
                    let mut got = want.clone();
                    // SAFETY: all values and results are there, at multiples of their size.
                    unsafe {
                        for row in 0..rows {
                            let want = want.as_mut_ptr().cast::<u8>().add(row * width);
                            for at in 0..size {
                                let value = values.add((row * size + at) * width);
                                kernel(want, value, want, 1);
                            }
                        }
                        fold(values, rows, size, got.as_mut_ptr().cast());
                    }
                    assert_eq!(got, want, "{dtype:?} {op:?} {rows} {size}");
                }
            }
        }
    }
}

#[test]
fn rows_are_halved() {
    for (dtype, op) in [DType::F32, DType::S32, DType::U32]
        .into_iter()
        .flat_map(|dtype| [BinaryOp::Add, BinaryOp::Maximum].map(|op| (dtype, op)))
    {
        let (kernel, halve) = (binary(op, dtype).unwrap(), halve_rows(op, dtype).unwrap());
        for rows in [1, 2, 3, 4, 5, 7, 16, 33] {
            for size in [1, 2, 3, 6, 15, 16, 17, 40, 63] {
                let value = |i: usize| [1e8f32, 1.5, -1e8, -0.0, 3.0, 1e-3, 7.5][i * 5 % 7];
                let values: Vec<f32> = (0..rows * size).map(value).collect();
                let mut want = values.clone();
                let mut left = rows;
                while left > 1 {
                    let (half, upper) = (left / 2, left - left / 2);
                    let to = want.as_mut_ptr();
                    // SAFETY: the second half of the rows lies behind the first one.
                    unsafe {
                        kernel(
                            to.cast(),
                            to.add(upper * size).cast(),
                            to.cast(),
                            half * size,
                        );
                    }
                    left = upper;
                }
                let mut stage = vec![0f32; rows.div_ceil(2) * size];
                // SAFETY: all values are there, and half of the rows have room.
                let left = unsafe {
                    let left = halve(
                        values.as_ptr().cast(),
                        rows,
                        size,
                        stage.as_mut_ptr().cast(),
                    );
                    std::slice::from_raw_parts(left.cast::<f32>(), size)
                };
                let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(
                    bits(left),
                    bits(&want[..size]),
                    "{dtype:?} {op:?} {rows} {size}"
                );
            }
        }
    }
}
