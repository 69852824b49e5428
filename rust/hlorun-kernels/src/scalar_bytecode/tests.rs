use super::*;
use crate::{BinaryOp, CompareDirection, CompareOrder, DType, UnaryOp};

const TYPES: [DType; 8] = [
    DType::Pred,
    DType::S32,
    DType::S64,
    DType::U8,
    DType::U32,
    DType::U64,
    DType::F32,
    DType::F64,
];

const DIRECTIONS: [CompareDirection; 6] = [
    CompareDirection::Eq,
    CompareDirection::Ne,
    CompareDirection::Lt,
    CompareDirection::Le,
    CompareDirection::Gt,
    CompareDirection::Ge,
];

fn op(function: Function) -> Op {
    let extra = match function.call {
        Call::None => Extra { none: () },
        Call::Unary(unary) => Extra { unary },
        Call::Binary(binary) => Extra { binary },
        Call::Ternary(ternary) => Extra { ternary },
        Call::Reduce(reduce) => Extra { reduce },
        Call::FoldRows(fold_rows) => Extra { fold_rows },
    };
    Op {
        run: function.run,
        a: std::ptr::null(),
        b: std::ptr::null(),
        c: std::ptr::null(),
        out: std::ptr::null_mut(),
        n: 1,
        x: 0,
        extra,
    }
}

/// Elements of every kind.
fn values(dtype: DType) -> Vec<[u8; 16]> {
    let put = |bytes: &[u8]| {
        let mut value = [0; 16];
        value[..bytes.len()].copy_from_slice(bytes);
        value
    };
    let floats = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        3e9,
        -3e9,
        1e-40,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e300,
        2.5,
        -7.0,
    ];
    match dtype {
        DType::Pred => vec![put(&[0]), put(&[1])],
        DType::F32 => floats
            .iter()
            .map(|&x| put(&(x as f32).to_ne_bytes()))
            .collect(),
        DType::F64 => floats.iter().map(|x| put(&x.to_ne_bytes())).collect(),
        _ => [
            0i64,
            1,
            2,
            3,
            7,
            31,
            32,
            33,
            64,
            255,
            -1,
            -2,
            -9,
            i64::MIN,
            i64::MAX,
            1 << 31,
        ]
        .iter()
        .flat_map(|&x| [x, x.wrapping_shl(32), x >> 32])
        .map(|x| put(&x.to_ne_bytes()[..dtype.size_bytes()]))
        .collect(),
    }
}

/// Runs one operation on three elements.
fn one(function: Function, operands: [&[u8; 16]; 3]) -> [u8; 16] {
    let mut out = [0; 16];
    let mut first = op(function);
    (first.a, first.b, first.c) = (
        operands[0].as_ptr(),
        operands[1].as_ptr(),
        operands[2].as_ptr(),
    );
    first.out = out.as_mut_ptr();
    let code = [first, op(end())];
    // SAFETY: every address holds 16 bytes, and the code ends.
    assert_eq!(unsafe { State::new(&code).run() }, Exit::End);
    out
}

/// As numbers compare: a NaN is like another one.
fn assert_same(dtype: DType, a: [u8; 16], b: [u8; 16], what: &str) {
    let nan = |x: [u8; 16]| match dtype {
        DType::F32 => f32::from_ne_bytes([x[0], x[1], x[2], x[3]]).is_nan(),
        DType::F64 => f64::from_bits(u64::from_ne_bytes(std::array::from_fn(|i| x[i]))).is_nan(),
        _ => false,
    };
    assert!(a == b || (nan(a) && nan(b)), "{what}: {a:?} and {b:?}");
}

#[test]
fn single_elements_give_the_bits_of_kernels() {
    for dtype in TYPES {
        let values = values(dtype);
        for what in UnaryOp::ALL {
            let Some(short) = unary(what, dtype) else {
                continue;
            };
            let long = call_unary(crate::unary(what, dtype).unwrap());
            let to = crate::unary_result(what, dtype);
            for a in &values {
                let what = format!("{what:?} {dtype:?} {a:?}");
                assert_same(to, one(short, [a, a, a]), one(long, [a, a, a]), &what);
            }
        }
        for to in TYPES {
            let short = convert(dtype, to).unwrap();
            let long = call_unary(crate::convert(dtype, to));
            for a in &values {
                let what = format!("{dtype:?} to {to:?} {a:?}");
                assert_same(to, one(short, [a, a, a]), one(long, [a, a, a]), &what);
            }
        }
        for a in &values {
            for b in &values {
                for what in BinaryOp::ALL {
                    let Some(short) = binary(what, dtype) else {
                        continue;
                    };
                    let long = call_binary(crate::binary(what, dtype).unwrap());
                    let what = format!("{what:?} {dtype:?} {a:?} {b:?}");
                    assert_same(dtype, one(short, [a, b, a]), one(long, [a, b, a]), &what);
                }
                for direction in DIRECTIONS {
                    let short = compare(direction, dtype).unwrap();
                    let kernel = crate::compare(direction, CompareOrder::Partial, dtype);
                    let long = call_binary(kernel.unwrap());
                    let what = format!("{direction:?} {dtype:?} {a:?} {b:?}");
                    let to = DType::Pred;
                    assert_same(to, one(short, [a, b, a]), one(long, [a, b, a]), &what);
                }
                for c in values.iter().take(12) {
                    let what = format!("clamp {dtype:?} {a:?} {b:?} {c:?}");
                    let long = call_ternary(crate::clamp(dtype).unwrap());
                    let short = clamp(dtype).unwrap();
                    assert_same(dtype, one(short, [a, b, c]), one(long, [a, b, c]), &what);
                }
            }
        }
    }
}

#[test]
fn selects_copy_bytes() {
    let (yes, no): ([u8; 16], [u8; 16]) = ([1; 16], [0; 16]);
    let (x, y): ([u8; 16], [u8; 16]) = (std::array::from_fn(|i| i as u8), [9; 16]);
    for dtype in [DType::U8, DType::BF16, DType::F32, DType::C64, DType::C128] {
        let size = dtype.size_bytes();
        assert_eq!(one(select(dtype), [&yes, &x, &y])[..size], x[..size]);
        assert_eq!(one(select(dtype), [&no, &x, &y])[..size], y[..size]);
    }
}

/// `while (i < 1000) { sum += table[clamp(i)]; i += 1 }`, told to pause now and then.
#[test]
fn loops_count_pause_and_leave() {
    let (mut i, limit, one, mut sum, mut entry) = (0i32, 1000i32, 1i32, 0i32, 0i32);
    let mut more = 0u8;
    let table = [5i32, 7, 11];
    let at = |x: &i32| std::ptr::from_ref(x).cast::<u8>();
    let (i_at, sum_at, entry_at) = (&raw mut i, &raw mut sum, &raw mut entry);
    let mut code = [
        op(compare(CompareDirection::Lt, DType::S32).unwrap()),
        op(jump_if_zero()),
        op(load(DType::S32, 4, false).unwrap()),
        op(outside()),
        op(binary(BinaryOp::Add, DType::S32).unwrap()),
        op(binary(BinaryOp::Add, DType::S32).unwrap()),
        op(back()),
        op(end()),
    ];
    (code[0].a, code[0].b, code[0].out) = (i_at.cast(), at(&limit), &raw mut more);
    (code[1].a, code[1].x) = (&raw const more, 6);
    (code[2].a, code[2].b, code[2].out) = (table.as_ptr().cast(), i_at.cast(), entry_at.cast());
    (code[2].n, code[2].x, code[2].extra) = (4, 2, Extra { stride: 4 });
    code[3].x = 42;
    (code[4].a, code[4].b, code[4].out) = (sum_at.cast(), entry_at.cast(), sum_at.cast());
    (code[5].a, code[5].b, code[5].out) = (i_at.cast(), at(&one), i_at.cast());
    (code[6].n, code[6].x) = (10, -6);
    let mut state = State::new(&code);
    let (mut pauses, mut leaves) = (0, 0);
    loop {
        // SAFETY: every address holds what its operation reads and writes; the code ends.
        match unsafe { state.run() } {
            Exit::End => break,
            Exit::Pause => {
                pauses += 1;
                state.fuel = 999;
            }
            Exit::Outside(number) => {
                assert_eq!(number, 42);
                leaves += 1;
            }
        }
    }
    assert_eq!((i, sum, leaves), (1000, 5 + 7 + 11 * 998, 1000));
    assert_eq!(pauses, 10);
}

#[test]
fn switches_pick_the_last_of_what_they_do_not_know() {
    for (value, expected) in [(0i32, 0u8), (1, 1), (2, 2), (3, 2), (-1, 2)] {
        let bytes = [0u8, 1, 2];
        let mut out = 9u8;
        let mut code = vec![op(switch()), op(jump()), op(jump()), op(jump())];
        (code[0].a, code[0].n) = (std::ptr::from_ref(&value).cast(), 3);
        for case in 0..3 {
            code[1 + case].x = 3 + case as i64;
            let mut set = op(copy(1));
            (set.a, set.out) = (&raw const bytes[case], &raw mut out);
            code.extend([set, op(end())]);
        }
        // SAFETY: as above.
        assert_eq!(unsafe { State::new(&code).run() }, Exit::End);
        assert_eq!(out, expected, "{value}");
    }
}

#[test]
fn rows_are_folded_onto_the_results_that_are_there() {
    let Some(kernel) = crate::fold_rows(BinaryOp::Add, DType::F32) else {
        return;
    };
    let values: Vec<f32> = (0..35).map(|i| i as f32 * 0.7 - 9.0).collect();
    let mut results = [1.5f32, -2.0, 0.0, 3.0, 1e6];
    let mut want = results;
    // SAFETY: five rows of seven values, and a result for each.
    unsafe { kernel(values.as_ptr().cast(), 5, 7, want.as_mut_ptr().cast()) };
    let mut fold = op(call_fold_rows(kernel));
    fold.a = values.as_ptr().cast();
    fold.out = results.as_mut_ptr().cast();
    (fold.x, fold.n) = (5, 7);
    let code = [fold, op(end())];
    // SAFETY: the code ends, and its addresses are those of the arrays above.
    assert_eq!(unsafe { State::new(&code).run() }, Exit::End);
    assert_eq!(results.map(f32::to_bits), want.map(f32::to_bits));
}
