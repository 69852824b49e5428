//! Pairs, rows and columns against single choices.

use super::*;

#[allow(clippy::eq_op)]
fn relation<T: PartialOrd>(x: &T, y: &T) -> Relation {
    match (x != x, y != y) {
        (true, true) => Relation::BothNan,
        (true, false) => Relation::LeftNan,
        (false, true) => Relation::RightNan,
        _ if x < y => Relation::Less,
        _ if x > y => Relation::Greater,
        _ => Relation::Equal,
    }
}

fn check<V: PartialOrd + Copy, I: PartialOrd + Copy>(
    (value, second): (DType, DType),
    make: impl Fn(usize) -> (V, I),
    bits: impl Fn(V, I) -> (u64, u64),
) {
    for choice in Choice::all() {
        let choose = choice.kernel(value, second).unwrap();
        for n in [0, 1, 5, 16, 67, 200] {
            let (a, b): (Vec<V>, Vec<I>) = (0..n).map(|i| make(i * 7)).unzip();
            let (c, d): (Vec<V>, Vec<I>) = (0..n).map(|i| make(i * 5 + 3)).unzip();
            let (mut x, mut k) = (a.clone(), b.clone());
            let left = [x.as_mut_ptr().cast::<u8>(), k.as_mut_ptr().cast()];
            let right = [c.as_ptr().cast::<u8>(), d.as_ptr().cast()];
            // SAFETY: four vectors of n elements.
            unsafe { choose(left, right, n, choice) };
            for at in 0..n {
                let relations = (relation(&a[at], &c[at]), relation(&b[at], &d[at]));
                let [is_left, is_left_second] = choice.takes_left(relations.0, relations.1);
                let want = bits(
                    if is_left { a[at] } else { c[at] },
                    if is_left_second { b[at] } else { d[at] },
                );
                assert_eq!(
                    bits(x[at], k[at]),
                    want,
                    "{value:?} {choice:?} {relations:?}"
                );
            }
        }
    }
}

/// Rows of pairs against the same pairs one after the other.
fn check_rows<V: PartialOrd + Copy, I: PartialOrd + Copy>(
    (value, second): (DType, DType),
    make: impl Fn(usize) -> (V, I),
    bits: impl Fn(V, I) -> (u64, u64),
) -> usize {
    let mut decided = 0;
    for choice in Choice::all().filter(|choice| choice.nan) {
        let choose = choice.kernel(value, second).unwrap();
        let choose_row = choice.row_kernel(value, second).unwrap();
        for (n, start) in [MIN_ROW, 33, 64, 100, 500]
            .into_iter()
            .zip([0, 5, 11, 300, 7])
        {
            let (values, seconds): (Vec<V>, Vec<I>) = (start..start + n).map(&make).unzip();
            let (mut x, mut k) = (values[0], seconds[0]);
            for at in 1..n {
                let left = [(&raw mut x).cast::<u8>(), (&raw mut k).cast()];
                let right = [
                    (&raw const values[at]).cast(),
                    (&raw const seconds[at]).cast(),
                ];
                // SAFETY: single elements.
                unsafe { choose(left, right, 1, choice) };
            }
            let (mut y, mut l) = (values[0], seconds[0]);
            let pairs = [values.as_ptr().cast(), seconds.as_ptr().cast()];
            let to = [(&raw mut y).cast::<u8>(), (&raw mut l).cast()];
            // SAFETY: two vectors of n elements, and room for one of each.
            if unsafe { choose_row(pairs, n, to, choice) } {
                assert_eq!(bits(y, l), bits(x, k), "{value:?} {choice:?} {n}");
                decided += 1;
            }
        }
    }
    decided
}

#[test]
fn columns_are_chosen_as_their_rows_are() {
    let floats = [1.5f32, f32::NAN, -0.0, 0.0, 2.0, -f32::NAN, 1.5];
    for choice in Choice::all() {
        let (value, second) = (DType::F32, DType::S32);
        let choose = choice.kernel(value, second).unwrap();
        let choose_columns = choice.column_kernel(value, second).unwrap();
        for [rows, columns] in [
            [0, 3],
            [1, 1],
            [6, 1],
            [7, 4],
            [14, 14],
            [5, 23],
            [16, 16],
            [3, 70],
        ] {
            let n = rows * columns;
            let values: Vec<f32> = (0..n).map(|i| floats[i * i % 13 % 7]).collect();
            let seconds: Vec<i32> = (0..n).map(|i| (i * 11 % 5) as i32).collect();
            let start = || (vec![0.5f32; columns], vec![3i32; columns]);
            let (mut got, mut want) = (start(), start());
            let left = |pairs: &mut (Vec<f32>, Vec<i32>)| {
                [
                    pairs.0.as_mut_ptr().cast::<u8>(),
                    pairs.1.as_mut_ptr().cast(),
                ]
            };
            let right = |at: usize| {
                [
                    values[at..].as_ptr().cast::<u8>(),
                    seconds[at..].as_ptr().cast(),
                ]
            };
            // SAFETY: so many pairs, and a result for each column.
            unsafe {
                choose_columns(right(0), [rows, columns], left(&mut got), choice);
                for row in 0..rows {
                    choose(left(&mut want), right(row * columns), columns, choice);
                }
            }
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&got.0), bits(&want.0), "{choice:?} {rows} {columns}");
            assert_eq!(got.1, want.1, "{choice:?} {rows} {columns}");
        }
    }
}

#[test]
fn rows_are_chosen_as_their_pairs_are() {
    let (cases, hash) = (8 * 5, |i: usize| (i * 2_654_435_761) >> 7);
    let float = |i: usize| (hash(i) % 41) as f32 - 20.0;
    let pair = |i: usize| (float(i), i as i32);
    let decided = check_rows((DType::F32, DType::S32), pair, |x, k| {
        (x.to_bits().into(), k as u64)
    });
    assert_eq!(decided, cases);
    // Of equal values, indices in no order, some of them equal.
    let pair = |i: usize| ((hash(i) % 7) as i32 - 3, (hash(i) % 29) as i32);
    let decided = check_rows((DType::S32, DType::S32), pair, |x, k| (x as u64, k as u64));
    assert_eq!(decided, cases);
    let bytes = |i: usize| ((hash(i) % 200) as u8, (hash(i) % 3) as i32);
    let decided = check_rows((DType::U8, DType::S32), bytes, |x, k| (x.into(), k as u64));
    assert_eq!(decided, cases);
    let halves = |i: usize| ((hash(i) % 0x7f00) as u16, i as i32);
    for dtype in [DType::BF16, DType::F16] {
        check_rows((dtype, DType::S32), halves, |x, k| (x.into(), k as u64));
        let wide = |i: usize| (halves(i).0, i as i64);
        check_rows((dtype, DType::S64), wide, |x, k| (x.into(), k as u64));
    }
    let truths = |i: usize| ((hash(i) % 2) as u8, (hash(i) % 29) as i32);
    let decided = check_rows((DType::Pred, DType::S32), truths, |x, k| {
        (x.into(), k as u64)
    });
    assert_eq!(decided, cases);
    let pair = |i: usize| (float(i), i as i64);
    let decided = check_rows((DType::F32, DType::S64), pair, |x, k| {
        (x.to_bits().into(), k as u64)
    });
    assert_eq!(decided, cases);
    // Zeros of one sign, of both, and NaN.
    let bits = |x: f64, k: i64| (x.to_bits(), k as u64);
    let zeros = |i: usize| (-0.0, i as i64);
    assert_eq!(check_rows((DType::F64, DType::S64), zeros, bits), cases);
    let zeros = |i: usize| (if hash(i) % 2 == 0 { 0.0f64 } else { -0.0 }, i as i64);
    assert_eq!(check_rows((DType::F64, DType::S64), zeros, bits), 0);
    let nans = |i: usize| {
        (
            if hash(i) % 29 == 0 {
                f64::NAN
            } else {
                i as f64
            },
            i as i64,
        )
    };
    assert!(check_rows((DType::F64, DType::S64), nans, bits) < cases);
}

#[test]
fn pairs_are_chosen_as_the_choice_says() {
    let floats = [
        1.5,
        f64::NAN,
        -0.0,
        0.0,
        2.0,
        f64::INFINITY,
        1.5,
        -f64::NAN,
        -7.0,
    ];
    check(
        (DType::F64, DType::S64),
        |i| (floats[i % 9], (i * 11 % 4) as i64),
        |x, k| (x.to_bits(), k as u64),
    );
    check(
        (DType::F64, DType::S32),
        |i| (floats[i % 9], (i * 11 % 4) as i32),
        |x, k| (x.to_bits(), k as u64),
    );
    check(
        (DType::S32, DType::S64),
        |i| ((i % 5) as i32 - 2, (i * 11 % 4) as i64),
        |x, k| (x as u64, k as u64),
    );
    check(
        (DType::Pred, DType::S64),
        |i| ((i % 2) as u8, (i * 11 % 4) as i64),
        |x, k| (x.into(), k as u64),
    );
    check(
        (DType::F32, DType::F32),
        |i| (floats[i % 9] as f32, floats[i / 3 % 9] as f32),
        |x, k| (x.to_bits().into(), k.to_bits().into()),
    );
    check(
        (DType::S8, DType::S32),
        |i| ((i % 5) as i8 - 2, (i * 11 % 4) as i32),
        |x, k| (x as u64, k as u64),
    );
    check(
        (DType::U32, DType::S32),
        |i| (((i % 5) as u32) << 29, (i * 11 % 4) as i32),
        |x, k| (x.into(), k as u64),
    );
}
